/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quant.h"

#include "base/alloc.h"
#include "tests/tap.h"

#define INT4 "\"num_bits\":4,\"type\":\"int\""
#define GROUP32 INT4 ",\"symmetric\":true,\"strategy\":\"group\",\"group_size\":32"
#define HEAD "\"quant_method\":\"compressed-tensors\"," \
	"\"format\":\"pack-quantized\",\"quantization_status\":\"compressed\","
#define ONE(weights) "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"]," \
	"\"weights\":{" weights "}}}"

static struct fail fail;

static enum status parse(const char *text, struct quant_scheme **out)
{
	json_t *root = json_loads(text, 0, NULL);
	if (!root) {
		printf("# bad JSON in the test: %s\n", text);
		abort();
	}
	fail = (struct fail){0};
	enum status st = quant_scheme_parse(root, out, &fail);
	json_decref(root);
	return st;
}

/* "plain", "32", "32a" for asymmetric, "row". */
static const char *kind(const struct quant_scheme *s, const char *name)
{
	static char buf[32];
	struct quant_choice c;
	if (quant_scheme_find(s, name, &c, &fail) != OK)
		return fail.text;
	if (!c.is_packed)
		return "plain";
	if (!c.group)
		return "row";
	snprintf(buf, sizeof buf, "%d%s", c.group, c.is_asymmetric ? "a" : "");
	return buf;
}

static void test_finding(void)
{
	struct quant_scheme *s;
	is_int(quant_scheme_parse(NULL, &s, &fail), OK, "no quantization_config");
	is_str(kind(s, "lm_head"), "plain", "is plain all over");
	quant_scheme_destroy(s);

	is_int(parse("{" HEAD "\"ignore\":[\"lm_head\",\"re:.*mlp\\\\.gate$\"],"
		     ONE(GROUP32) "}", &s), OK, "names and patterns: %s", fail.text);
	is_str(kind(s, "lm_head"), "plain", "an ignored name");
	is_str(kind(s, "model.layers.0.mlp.gate"), "plain", "an ignored pattern");
	is_str(kind(s, "model.layers.0.mlp.gate_proj"), "32", "not quite ignored");
	is_str(kind(s, "x.lm_head"), "32", "a name is the whole name");
	quant_scheme_destroy(s);

	is_int(parse("{" HEAD "\"config_groups\":{"
		     "\"a\":{\"targets\":[\"Linear\"],\"weights\":{" GROUP32 "}},"
		     "\"b\":{\"targets\":[\"re:.*experts.*\"],\"weights\":{" INT4
		     ",\"symmetric\":false,\"strategy\":\"group\","
		     "\"group_size\":128}},"
		     "\"c\":{\"targets\":[\"lm_head\",\"model.norm.x\"],"
		     "\"weights\":{" INT4 ",\"strategy\":\"channel\"}}}}", &s), OK,
	       "three groups: %s", fail.text);
	is_str(kind(s, "model.layers.0.q_proj"), "32", "by class");
	is_str(kind(s, "model.layers.0.experts.5.up"), "128a",
	       "by pattern, before the class");
	is_str(kind(s, "lm_head"), "row", "by name, a scale a row");
	quant_scheme_destroy(s);

	is_int(parse("{" HEAD ONE(GROUP32 ",\"actorder\":\"weight\",\"dynamic\":false,"
		     "\"block_structure\":null")
		     ",\"sparsity_config\":{\"format\":\"dense\"},"
		     "\"transform_config\":{},\"kv_cache_scheme\":null}", &s), OK,
	       "switches that do nothing: %s", fail.text);
	quant_scheme_destroy(s);

	is_int(parse("{" HEAD "\"ignore\":[\"re:(a|aa)+$\"]," ONE(GROUP32)
		     "}", &s), OK, "a pattern with exponential cost");
	struct quant_choice c;
	is_int(quant_scheme_find(s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", &c,
				 &fail), E_LIMIT, "does not hang");
	quant_scheme_destroy(s);
}

static const struct {
	const char *text, *param;
} refused[] = {
	{"{}", "quant_method"},
	{"{\"quant_method\":\"awq\",\"bits\":4}", "quant_method"},
	{"{\"quant_method\":\"gptq\",\"bits\":4}", "quant_method"},
	{"{\"quant_method\":\"fp8\"}", "quant_method"},
	{"{\"quant_method\":\"mxfp4\"}", "quant_method"},
	{"{\"quant_method\":\"modelopt\"}", "quant_method"},
	{"{\"quant_method\":\"compressed-tensors\",\"format\":"
	 "\"nvfp4-pack-quantized\"," ONE(GROUP32) "}", "format"},
	{"{\"quant_method\":\"compressed-tensors\"," ONE(GROUP32) "}", "format"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"format\":\"int-quantized\",\"targets\":"
	 "[\"Linear\"],\"weights\":{" GROUP32 "}}}}", "format"},
	{"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
	 "\"quantization_status\":\"frozen\"," ONE(GROUP32) "}",
	 "quantization_status"},
	{"{" HEAD "\"ignore\":[]}", "config_groups"},
	{"{" HEAD "\"ignore\":\"lm_head\"," ONE(GROUP32) "}", "ignore"},
	{"{" HEAD "\"ignore\":[7]," ONE(GROUP32) "}", "ignore"},
	{"{" HEAD ONE(GROUP32) ",\"kv_cache_scheme\":{\"num_bits\":8}}",
	 "kv_cache_scheme"},
	{"{" HEAD ONE(GROUP32) ",\"transform_config\":{\"x\":1}}", "transform_config"},
	{"{" HEAD ONE(GROUP32) ",\"sparsity_config\":{\"format\":"
	 "\"sparse-24-bitmask\"}}", "sparsity_config"},
	{"{" HEAD ONE("\"num_bits\":8,\"type\":\"int\"") "}", "num_bits"},
	{"{" HEAD ONE("\"num_bits\":4,\"type\":\"float\"") "}", "type"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"block\"") "}", "strategy"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"group\"") "}", "group_size"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"group\",\"group_size\":-1") "}",
	 "group_size"},
	{"{" HEAD ONE(GROUP32 ",\"actorder\":\"group\"") "}", "actorder"},
	{"{" HEAD ONE(GROUP32 ",\"dynamic\":true") "}", "dynamic"},
	{"{" HEAD ONE(GROUP32 ",\"block_structure\":[128,128]") "}",
	 "block_structure"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{"
	 GROUP32 "},\"input_activations\":{\"num_bits\":8}}}}",
	 "input_activations"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Embedding\"],"
	 "\"weights\":{" GROUP32 "}}}}", "targets"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[],\"weights\":{" GROUP32
	 "}}}}", "targets"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"]}}}", "weights"},
};

static void test_refused(void)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct quant_scheme *s = NULL;
		enum status st = parse(refused[i].text, &s);
		if (!ok(st == E_UNSUPPORTED && !strcmp(fail.param, refused[i].param),
			"refused by %s", refused[i].param))
			printf("# %s, %s: %s\n# in %s\n", status_name(st), fail.param,
			       fail.text, refused[i].text);
	}
	struct quant_scheme *s;
	is_int(parse("{" HEAD "\"ignore\":[\"re:a(b\"]," ONE(GROUP32) "}", &s),
	       E_FORMAT, "a pattern that is none");
}

int main(void)
{
	test_finding();
	test_refused();
	return tap_done();
}
