/* SPDX-License-Identifier: Apache-2.0 */
#include "check/reference.h"

#include "base/alloc.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

static struct fail fail;
static struct reference ref;

static enum status load(const char *text)
{
	char *dir = image_dir();
	image_write(dir, "r.json", str_of(text));
	char *path = file_join(dir, "r.json");
	fail = (struct fail){0};
	enum status st = reference_load(path, &ref, &fail);
	free(path);
	image_remove(dir);
	return st;
}

#define CASE(a, b, c, d) "{\"cases\":[{\"prompt_ids\":" a ",\"prompt_logprobs\":" b \
	",\"continuation_ids\":" c ",\"steps\":" d "}]}"
#define STEP "{\"token\":7,\"top\":[[7,-0.5],[2,-1]]}"

#define PEER(figures) \
	"{\"peer\":" figures ",\"cases\":[{\"prompt_ids\":[1],\"continuation_ids\":[]," \
	"\"steps\":[]}]}"

static const struct {
	const char *text, *param;
} faults[] = {
	{"{}", "cases"},
	{"{\"cases\":[]}", "cases"},
	{"{\"cases\":[3]}", "prompt_ids"},
	{CASE("[]", "[]", "[]", "[]"), "prompt_ids"},
	{CASE("[1,-2]", "[-1]", "[]", "[]"), "prompt_ids"},
	{CASE("[1,\"2\"]", "[-1]", "[]", "[]"), "prompt_ids"},
	{CASE("[1,2]", "[]", "[]", "[]"), "prompt_logprobs"},
	{CASE("[1,2]", "[null]", "[]", "[]"), "prompt_logprobs"},
	{CASE("[1,2]", "[-1]", "[9999999999]", "[" STEP "]"), "continuation_ids"},
	{CASE("[1,2]", "[-1]", "[7]", "[]"), "steps"},
	{CASE("[1,2]", "[-1]", "[7]", "[{}]"), "steps"},
	{CASE("[1,2]", "[-1]", "[7]", "[{\"top\":[[7]]}]"), "steps"},
	{PEER("{}"), "peer"},
	{PEER("7"), "peer"},
	{PEER("{\"max\":0.1,\"mean\":0.2}"), "peer"},
	{PEER("{\"max\":1e9,\"mean\":0.2}"), "peer"},
	{PEER("{\"max\":\"1\",\"mean\":0.2}"), "peer"},
};

int main(void)
{
	is_int(load(CASE("[1,2]", "[-1.5]", "[7]", "[" STEP "]")), OK, "good: %s",
	       fail.text);
	const struct reference_case *c = ref.cases;
	ok(ref.n_cases == 1 && c->n_prompt == 2 && c->n_next == 1 && c->ids[2] == 7,
	   "ids");
	is_near(c->logprobs[0], -1.5, 0, "of the prompt");
	ok(c->steps[0].n_top == 2 && c->steps[0].id[1] == 2 &&
		   c->steps[0].logprob[1] == -1, "of a step");
	ok(ref.max_id == 7 && ref.max_tok == 3, "bounds");
	ok(ref.peer_max == 0 && ref.peer_mean == 0, "no peer");
	reference_deinit(&ref);
	is_int(load(PEER("{\"max\":0.5,\"mean\":0.125}")), OK, "a peer: %s", fail.text);
	ok(ref.peer_max == 0.5 && ref.peer_mean == 0.125, "and its figures");
	reference_deinit(&ref);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		enum status st = load(faults[i].text);
		if (!ok(st == E_FORMAT && !strcmp(fail.param, faults[i].param),
			"a fault in %s", faults[i].param))
			printf("# %s, %s: %s\n# in %s\n", status_name(st),
			       fail.param, fail.text, faults[i].text);
	}
	is_int(load("{"), E_FORMAT, "no JSON");
	is_int(reference_load("/nonexistent.json", &ref, &fail), E_IO, "no file");
	return tap_done();
}
