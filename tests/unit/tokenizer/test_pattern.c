/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/pattern.h"

#include "tests/tap.h"

static bool matches(const char *source, const char *name)
{
	struct pattern *p;
	struct fail f;
	bool hit = false;
	if (pattern_compile(str_of(source), &p, &f) != OK)
		abort();
	if (pattern_match(p, str_of(name), &hit, &f) != OK)
		hit = false;
	pattern_destroy(p);
	return hit;
}

int main(void)
{
	ok(matches(".*mlp\\.gate$", "model.layers.3.mlp.gate"), "to the end");
	ok(!matches(".*mlp\\.gate$", "model.layers.3.mlp.gate_proj"), "no further");
	ok(matches("model\\.layers\\.\\d+\\.", "model.layers.12.mlp"),
	   "a match from the start may end anywhere");
	ok(!matches("layers", "model.layers.12.mlp"), "but begins at the start");
	ok(matches("^(?!.*experts).*proj", "model.layers.0.self_attn.q_proj") &&
		   !matches("^(?!.*experts).*proj", "model.mlp.experts.0.up_proj"),
	   "looking ahead");
	ok(matches("\xC3\xA9+", "\xC3\xA9\xC3\xA9"), "UTF-8");

	struct pattern *p;
	struct fail f = {0};
	is_int(pattern_compile(STR("a(b"), &p, &f), E_FORMAT, "a bad pattern");
	ok(strstr(f.text, "a(b") && strstr(f.text, "byte 3"), "says where: %s",
	   f.text);
	bool hit;
	is_int(pattern_compile(STR("(a|aa)+$"), &p, &f), OK,
	       "a pattern with exponential cost");
	is_int(pattern_match(p, STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"), &hit,
			     &f), E_LIMIT, "is stopped");
	pattern_destroy(p);
	pattern_destroy(NULL);
	return tap_done();
}
