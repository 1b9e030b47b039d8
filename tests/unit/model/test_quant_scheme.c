/* SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/quant.h"

#include "base/alloc.h"
#include "tests/tap.h"

#define INT4 "\"num_bits\":4,\"type\":\"int\""
#define GROUP32 INT4 ",\"symmetric\":true,\"strategy\":\"group\",\"group_size\":32"
#define HEAD "\"quant_method\":\"compressed-tensors\"," \
	"\"format\":\"pack-quantized\",\"quantization_status\":\"compressed\","
#define ONE(weights) "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"]," \
	"\"weights\":{" weights "}}}"

#define CT(format) "\"quant_method\":\"compressed-tensors\",\"format\":\"" format "\","
#define E4M3 "\"num_bits\":8,\"type\":\"float\""
#define AWQ "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32"
#define QUARK(weight) "{\"quant_method\":\"quark\",\"global_quant_config\":{" \
	"\"weight\":{" weight "}}"
#define HQQ(bits, axis, scale) "{\"quant_method\":\"hqq\",\"quant_config\":{" \
	"\"weight_quant_params\":{\"nbits\":" bits ",\"axis\":" axis "," \
	"\"view_as_float\":false},\"scale_quant_params\":" scale "}}"
#define TURN(places) ",\"transform_config\":{\"config_groups\":{\"a\":{" \
	"\"type\":\"hadamard\",\"apply\":[{" places "}]}}}}"
#define AUTO(format) "{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":32," \
	"\"packing_format\":\"" format "\""
#define GPTQ "{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":32"
#define MODELOPT "{\"quant_method\":\"modelopt\",\"quant_algo\":"

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

/* "plain", "32", "32a" for asymmetric, "row"; other formats than int4 by name first:
 * "awq4 32", "fp8 128x64", "gptq4 32+1" where zero points are stored less one. */
static const char *kind(const struct quant_scheme *s, const char *name)
{
	static char buf[32];
	struct quant_choice c;
	if (quant_scheme_find(s, name, &c, &fail) != OK)
		return fail.text;
	if (!c.is_packed)
		return "plain";
	char group[16] = "row", rows[16] = "";
	if (c.group)
		snprintf(group, sizeof group, "%d", c.group);
	if (c.group_n)
		snprintf(rows, sizeof rows, "%dx", c.group_n);
	snprintf(buf, sizeof buf, "%s%s%s%s%s%s",
		 c.quant == QUANT_INT4 ? "" : quant_name(c.quant),
		 c.quant == QUANT_INT4 ? "" : " ", rows, group,
		 c.is_asymmetric ? "a" : "", c.zero_step ? "+1" : "");
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

/* Layers with a setting of their own. */
static void test_extra(void)
{
	struct quant_scheme *s;
	is_int(parse(AUTO("auto_round:auto_gptq") ",\"extra_config\":{"
		     "\"model.layers.0.mlp.down_proj\":{\"bits\":8},"
		     "\".*shared_expert\\\\..*\":{\"group_size\":128},"
		     "\"model.layers.0.mlp.gate\":{\"bits\":16}}}", &s), OK,
	       "auto-round: %s", fail.text);
	is_str(kind(s, "model.layers.1.mlp.down_proj"), "gptq4 32+1", "most layers");
	is_str(kind(s, "model.layers.0.mlp.down_proj"), "gptq8 32+1", "one of eight bits");
	is_str(kind(s, "model.layers.3.mlp.shared_expert.up_proj"), "gptq4 128+1",
	       "those of a pattern");
	is_str(kind(s, "model.layers.3.mlp.shared_expert_gate"), "gptq4 32+1",
	       "and no others");
	quant_scheme_destroy(s);

	is_int(parse(GPTQ ",\"dynamic\":{\"-:.*gate$\":{},\"+:.*\\\\.1\\\\..*\":{\"bits\":8},"
		     "\".*down_proj\":{\"group_size\":64}}}", &s), OK, "gptq: %s", fail.text);
	is_str(kind(s, "model.layers.0.up_proj"), "gptq4 32+1", "most layers");
	is_str(kind(s, "model.layers.1.down_proj"), "gptq8 32+1", "the first pattern that fits");
	is_str(kind(s, "model.layers.2.down_proj"), "gptq4 64+1", "one without a sign");
	quant_scheme_destroy(s);

	is_int(parse(QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"")
		     ",\"layer_quant_config\":{\"*.experts.*_proj\":{\"weight\":{\"dtype\":\"fp4\","
		     "\"qscheme\":\"per_group\",\"scale_format\":\"e8m0\",\"group_size\":32}},"
		     "\"*k_proj\":{\"output_tensors\":{\"dtype\":\"fp8_e4m3\"}}}}", &s), OK,
	       "quark: %s", fail.text);
	is_str(kind(s, "model.layers.0.mlp.experts.3.up_proj"), "mxfp4 32", "wildcards");
	is_str(kind(s, "model.layers.0.mlp.experts.3.up_proj.x"), "fp8 row", "to the end");
	is_str(kind(s, "model.layers.0.self_attn.k_proj"), "fp8 row", "a setting of outputs");
	quant_scheme_destroy(s);

	is_int(parse(MODELOPT "\"MIXED_PRECISION\",\"quantized_layers\":{"
		     "\"model.layers.0.q_proj\":{\"quant_algo\":\"FP8\"},"
		     "\"model.layers.0.k_proj\":{\"quant_algo\":\"FP8_PB_WO\"},"
		     "\"model.layers.0.v_proj\":{\"quant_algo\":\"FP8\"},"
		     "\"model.layers.*.mlp\":{\"quant_algo\":\"MXFP8\"},"
		     "\"model.layers.0.experts\":{\"quant_algo\":\"NVFP4\",\"group_size\":16}}}",
		     &s), OK, "modelopt: %s", fail.text);
	is_str(kind(s, "model.layers.0.v_proj"), "fp8 row", "by name");
	is_str(kind(s, "model.layers.0.k_proj"), "fp8 128x128", "another one");
	is_str(kind(s, "model.layers.0.experts.7.up_proj"), "nvfp4 16", "by what it is in");
	is_str(kind(s, "model.layers.7.mlp"), "fp8 1x32", "by wildcards");
	is_str(kind(s, "model.layers.0.experts_bias"), "plain", "not by a part of a word");
	is_str(kind(s, "lm_head"), "plain", "what is not listed");
	quant_scheme_destroy(s);
}

/* Groups for classes other than Linear, and for what has no weights. */
static void test_classes(void)
{
	struct quant_scheme *s;
	is_int(parse("{" CT("mixed-precision") "\"config_groups\":{"
		     "\"a\":{\"format\":\"pack-quantized\",\"targets\":[\"Linear\"],"
		     "\"weights\":{" GROUP32 "},\"output_activations\":{\"num_bits\":8}},"
		     "\"b\":{\"format\":\"mxfp8-quantized\",\"targets\":[\"re:.*down_proj\"],"
		     "\"weights\":{" E4M3 ",\"strategy\":\"group\",\"group_size\":32}},"
		     "\"c\":{\"format\":\"pack-quantized\",\"targets\":[\"Embedding\"],"
		     "\"weights\":{\"num_bits\":2,\"type\":\"int\",\"strategy\":\"channel\"}},"
		     "\"d\":{\"targets\":[\"LlamaAttention\"],\"input_activations\":{}}}}",
		     &s), OK, "classes: %s", fail.text);
	is_str(kind(s, "model.layers.0.up_proj"), "32", "Linear");
	is_str(kind(s, "model.layers.0.down_proj"), "fp8 1x32", "another format");
	is_str(kind(s, "model.embed_tokens"), "row", "Embedding");
	ok(quant_scheme_is_made(s), "some layers are made");
	quant_scheme_destroy(s);
}

static const struct {
	const char *text, *kind;
} methods[] = {
	{AWQ ",\"version\":\"GEMM\",\"zero_point\":true,\"modules_to_not_convert\":null}",
	 "awq4 32"},
	{"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":-1}", "awq4 row"},
	{GPTQ ",\"desc_act\":true,\"sym\":false}", "gptq4 32+1"},
	{GPTQ ",\"checkpoint_format\":\"gptq\",\"dynamic\":{\"-:gate\":{}}}",
	 "gptq4 32+1"},
	{GPTQ ",\"checkpoint_format\":\"gptq_v2\"}", "gptq4 32"},
	{"{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":-1,\"format\":"
	 "\"gptq_v2\"}", "gptq8 row"},
	{"{\"quant_method\":\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":\"dynamic\","
	 "\"weight_block_size\":[128,64]}", "fp8 128x64"},
	{"{\"quant_method\":\"fp8\",\"scale_fmt\":\"ue8m0\",\"expert_dtype\":\"fp4\","
	 "\"weight_block_size\":[128,128]}", "fp8 128x128"},
	{"{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}", "fp8 row"},
	{"{\"quant_method\":\"fbgemm_fp8\"}", "fp8 row"},
	{MODELOPT "\"NVFP4\",\"group_size\":16,\"kv_cache_quant_algo\":\"FP8\"}",
	 "nvfp4 16"},
	{MODELOPT "\"FP8\"}", "fp8 row"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"")
	 ",\"exclude\":[\"lm_head\"],\"layer_quant_config\":{}}", "fp8 row"},
	{QUARK("\"dtype\":\"fp4\",\"qscheme\":\"per_group\",\"scale_format\":\"e8m0\","
	       "\"group_size\":32") "}", "mxfp4 32"},
	{QUARK("\"dtype\":\"uint4\",\"qscheme\":\"per_group\",\"group_size\":32")
	 ",\"export\":{\"pack_method\":\"reorder\"}}", "awq4 32"},
	{QUARK("\"dtype\":\"int8\",\"qscheme\":\"per_channel\"") "}", "int8 row"},
	{"{\"quant_method\":\"bitsandbytes\",\"load_in_8bit\":true}", "int8 row"},
	{"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,"
	 "\"bnb_4bit_quant_type\":\"nf4\"}", "plain"},
	{HQQ("4", "1", "null"), "plain"}, {HQQ("8", "1", "null"), "plain"},
	{AUTO("auto_round:auto_gptq") ",\"sym\":true,\"data_type\":\"int\"}", "gptq4 32+1"},
	{AUTO("auto_round:gptqmodel") "}", "gptq4 32"},
	{AUTO("auto_round:auto_awq") "}", "awq4 32"},
	{AUTO("auto_round:llm_compressor") ",\"data_type\":\"mx_fp\"}", "mxfp4 32"},
	{"{\"quant_method\":\"auto-round\",\"bits\":8,\"group_size\":32,\"data_type\":\"mx_fp\","
	 "\"packing_format\":\"auto_round:llm_compressor\"}", "fp8 1x32"},
	{"{\"quant_method\":\"auto-round\",\"bits\":4,\"group_size\":16,\"data_type\":\"nv_fp\","
	 "\"packing_format\":\"auto_round:llm_compressor\"}", "nvfp4 16"},
	{"{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"lm_head\"]}",
	 "mxfp4 row"},
	{"{" CT("mxfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\","
	 "\"strategy\":\"group\",\"group_size\":32") "}", "mxfp4 row"},
	{"{" HEAD ONE("\"num_bits\":8,\"type\":\"int\",\"symmetric\":false,"
		      "\"strategy\":\"group\",\"group_size\":64") "}", "int8 64a"},
	{"{" CT("nvfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\","
	 "\"strategy\":\"tensor_group\",\"group_size\":16") "}", "nvfp4 row"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"strategy\":\"channel\"") "}", "fp8 row"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"strategy\":\"block\","
	 "\"block_structure\":[64,128]") "}", "fp8 64x128"},
	{"{" CT("float-quantized") "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],"
	 "\"input_activations\":{\"num_bits\":8},\"weights\":{" E4M3
	 ",\"strategy\":\"tensor\"}}}}", "fp8 row"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{"
	 GROUP32 "},\"input_activations\":{\"num_bits\":8}}}}", "32"},
	{"{" CT("int-quantized") "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],"
	 "\"input_activations\":{\"num_bits\":8,\"type\":\"int\",\"dynamic\":true},"
	 "\"weights\":{\"num_bits\":8,\"type\":\"int\",\"strategy\":\"channel\"}}}}",
	 "int8 row"},
	{"{" CT("naive-quantized") ONE(E4M3 ",\"strategy\":\"channel\"") "}", "fp8 row"},
	{"{" CT("int-quantized") ONE(GROUP32) "}", "32"},
	{"{" CT("int-quantized") ONE("\"num_bits\":6,\"type\":\"int\",\"symmetric\":false,"
	 "\"strategy\":\"channel\"") "}", "int8 rowa"},
	{"{" CT("int-quantized") ONE("\"num_bits\":8,\"type\":\"int\",\"strategy\":\"block\","
	 "\"block_structure\":[128,64]") "}", "int8 128x64"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"strategy\":\"group\",\"group_size\":64") "}",
	 "fp8 1x64"},
	{"{" CT("mxfp8-quantized") ONE(E4M3 ",\"strategy\":\"group\",\"group_size\":32,"
	 "\"scale_dtype\":\"torch.uint8\"") "}", "fp8 1x32"},
	{"{" CT("mxfp6-pack-quantized") ONE("\"num_bits\":6,\"type\":\"float\","
	 "\"strategy\":\"group\",\"group_size\":32") "}", "fp8 1x32"},
	{"{" HEAD ONE("\"num_bits\":3,\"type\":\"int\",\"strategy\":\"group\","
		      "\"group_size\":64") "}", "64"},
	{"{" HEAD ONE("\"num_bits\":5,\"type\":\"int\",\"strategy\":\"channel\"") "}",
	 "int8 row"},
	{"{" CT("dense") ONE(E4M3 ",\"strategy\":\"tensor\"") "}", "plain"},
	{"{" HEAD ONE(GROUP32) ",\"transform_config\":{\"config_groups\":{\"R1\":{\"apply\":["
	 "{\"targets\":[\"Linear\"],\"location\":\"weight_output\"}]}}}}", "32"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_block\",\"block_size\":[128,64]")
	 "}", "fp8 128x64"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_group\",\"group_size\":32,"
	       "\"scale_format\":\"e8m0\"") "}", "fp8 1x32"},
	{QUARK("\"dtype\":\"fp6_e3m2\",\"qscheme\":\"per_group\",\"group_size\":32,"
	       "\"scale_format\":\"e8m0\"") "}", "fp8 1x32"},
	{"{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":["
	 "{\"dtype\":\"fp4\",\"qscheme\":\"per_group\",\"group_size\":16},"
	 "{\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"}]}}", "nvfp4 16"},
	{MODELOPT "\"FP8_PB_WO\"}", "fp8 128x128"}, {MODELOPT "\"MXFP8\"}", "fp8 1x32"},
	{MODELOPT "\"W4A16_AWQ\",\"group_size\":128,\"has_zero_point\":false}", "128"},
	{MODELOPT "\"w4a8_awq\"}", "row"},
	{MODELOPT "\"FP8_PER_CHANNEL_PER_TOKEN\"}", "fp8 row"},
	{MODELOPT "\"W4A16_NVFP4\",\"group_size\":16}", "nvfp4 16"},
	{"{\"quant_method\":\"gptq\",\"bits\":3,\"group_size\":32}", "gptq4 32+1"},
	{"{\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":64}", "awq4 64"},
	{"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,"
	 "\"bnb_4bit_quant_storage\":\"bfloat16\"}", "plain"},
	{HQQ("3", "1", "null"), "plain"}, {HQQ("4", "0", "null"), "plain"},
	{"{" CT("naive-quantized") ONE("\"num_bits\":8,\"type\":\"int\","
	 "\"strategy\":\"tensor\"") "}", "int8 row"},
};

static void test_methods(void)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct quant_scheme *s = NULL;
		if (!ok(parse(methods[i].text, &s) == OK, "%s: %s", methods[i].text,
			fail.text))
			continue;
		is_str(kind(s, "model.layers.0.q_proj"), methods[i].kind,
		       "the kind of method %zu", i);
		quant_scheme_destroy(s);
	}
}

/* A small KV cache is accepted in every spelling, and told; absent or null is none. */
static void test_kv(void)
{
#define KV_FP8 "\"kv_cache_scheme\":{" E4M3 ",\"strategy\":\"tensor\"," \
	       "\"dynamic\":false,\"symmetric\":true}"
	static const struct {
		const char *text;
		bool asks;
	} rows[] = {
		{"{" HEAD ONE(GROUP32) "," KV_FP8 "}", true},
		{MODELOPT "\"NVFP4\"," KV_FP8 "}", true},
		{MODELOPT "\"FP8\",\"kv_cache_quant_algo\":\"FP8\"}", true},
		{MODELOPT "\"FP8\",\"kv_cache_quant_algo\":null}", false},
		{"{" HEAD ONE(GROUP32) ",\"kv_cache_scheme\":null}", false},
		{"{" HEAD ONE(GROUP32) ",\"kv_cache_scheme\":{\"num_bits\":4,\"type\":\"float\"}}",
		 true},
		{MODELOPT "\"NVFP4\",\"kv_cache_quant_algo\":\"NVFP4\"}", true},
	};
	struct quant_scheme *s;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!ok(parse(rows[i].text, &s) == OK, "%s: %s", rows[i].text, fail.text))
			continue;
		is_int(quant_scheme_asks_fp8_kv(s), rows[i].asks, "asks for it");
		quant_scheme_destroy(s);
	}
	is_int(quant_scheme_parse(NULL, &s, &fail), OK, "no quantization_config");
	ok(!quant_scheme_asks_fp8_kv(s), "does not ask");
	quant_scheme_destroy(s);
}

static const struct {
	const char *text, *param;
} refused[] = {
	{"{}", "quant_method"},
	{"{\"quant_method\":7}", "quant_method"},
	{"{\"quant_method\":\"quark\"}", "global_quant_config"},
	{QUARK("\"dtype\":\"int3\"") "}", "dtype"},
	{QUARK("\"dtype\":\"int4\",\"qscheme\":\"per_channel\"") "}", "qscheme"},
	{QUARK("\"dtype\":\"uint4\",\"qscheme\":\"per_group\"") "}", "group_size"},
	{QUARK("\"dtype\":\"int8\",\"qscheme\":\"per_group\"") "}", "qscheme"},
	{QUARK("\"dtype\":\"int4\",\"qscheme\":\"per_group\",\"group_size\":32,"
	       "\"ch_axis\":0") "}", "ch_axis"},
	{QUARK("\"dtype\":\"int4\",\"qscheme\":\"per_group\",\"group_size\":32")
	 ",\"export\":{\"pack_method\":\"rows\"}}", "pack_method"},
	{QUARK("\"dtype\":\"fp4\",\"qscheme\":\"per_group\",\"scale_format\":\"e8m0\","
	       "\"group_size\":16") "}", "group_size"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_group\"") "}", "group_size"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_block\"") "}", "block_size"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_odd\"") "}", "qscheme"},
	{QUARK("\"dtype\":\"fp6_e2m3\",\"qscheme\":\"per_group\",\"group_size\":32,"
	       "\"scale_format\":\"float32\"") "}", "scale_format"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"")
	 ",\"layer_quant_config\":{\"*.down_proj\":{\"weight\":{\"dtype\":\"fp5\"}}}}",
	 "dtype"},
	{QUARK("\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"")
	 ",\"layer_type_quant_config\":{\"Linear\":{\"weight\":{\"dtype\":\"fp4\"}}}}",
	 "layer_type_quant_config"},
	{"{\"quant_method\":\"quark\",\"global_quant_config\":{\"weight\":["
	 "{\"dtype\":\"fp8_e4m3\",\"qscheme\":\"per_tensor\"},{\"dtype\":\"int4\"}]}}",
	 "dtype"},
	{AUTO("auto_round:fp8_static") "}", "packing_format"},
	{AUTO("auto_round:auto_gptq") ",\"data_type\":\"mx_fp\"}", "data_type"},
	{AUTO("auto_round:llm_compressor") ",\"data_type\":\"nv_fp\"}", "group_size"},
	{AUTO("auto_round:llm_compressor") ",\"data_type\":\"fp\"}", "data_type"},
	{AUTO("auto_round") ",\"rotation_config\":{\"kind\":\"hadamard\"}}",
	 "rotation_config"},
	{AUTO("auto_round") ",\"extra_config\":{\"lm_head\":{\"bits\":9}}}", "bits"},
	{AUTO("auto_round") ",\"extra_config\":{\"lm_head\":3}}", "extra_config"},
	{"{\"quant_method\":\"aqlm\"}", "quant_method"},
	{"{\"quant_method\":\"bitsandbytes\"}", "load_in_8bit"},
	{"{\"quant_method\":\"hqq\"}", "quant_config"},
	{HQQ("5", "1", "null"), "nbits"}, {HQQ("4", "2", "null"), "axis"},
	{HQQ("4", "1", "{\"nbits\":8}"), "scale_quant_params"},
	{"{\"quant_method\":\"hqq\",\"quant_config\":{\"self_attn.q_proj\":3}}",
	 "weight_quant_params"},
	{"{\"quant_method\":\"awq\",\"group_size\":32}", "bits"},
	{"{\"quant_method\":\"awq\",\"bits\":8}", "bits"},
	{"{\"quant_method\":\"awq\",\"bits\":4}", "group_size"},
	{"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":4}", "group_size"},
	{AWQ ",\"version\":\"gemv\"}", "version"},
	{AWQ ",\"version\":\"gem\"}", "version"},
	{AWQ ",\"version\":4}", "version"},
	{AWQ ",\"zero_point\":false}", "zero_point"},
	{"{\"quant_method\":\"gptq\",\"bits\":1,\"group_size\":32}", "bits"},
	{"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-2}", "group_size"},
	{GPTQ ",\"checkpoint_format\":\"marlin\"}", "checkpoint_format"},
	{GPTQ ",\"format\":\"bitblas\"}", "format"},
	{GPTQ ",\"pack_dtype\":\"int16\"}", "pack_dtype"},
	{GPTQ ",\"dynamic\":{\"-:gate\":{},\"+:up\":{\"bits\":9}}}", "bits"},
	{GPTQ ",\"dynamic\":{\"up\":8}}", "dynamic"},
	{GPTQ ",\"dynamic\":[1]}", "dynamic"},
	{"{\"quant_method\":\"fp8\",\"fmt\":\"e5m2\"}", "fmt"},
	{"{\"quant_method\":\"fp8\",\"scale_fmt\":\"e5m3\"}", "scale_fmt"},
	{"{\"quant_method\":\"fp8\",\"expert_dtype\":\"int4\"}", "expert_dtype"},
	{"{\"quant_method\":\"fp8\",\"activation_scheme\":\"odd\"}",
	 "activation_scheme"},
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}",
	 "weight_block_size"},
	{"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}",
	 "weight_block_size"},
	{"{\"quant_method\":\"modelopt\"}", "quant_algo"},
	{MODELOPT "\"NVFP4_AWQ\"}", "quant_algo"},
	{MODELOPT "\"W4A16_AWQ\",\"has_zero_point\":true}", "has_zero_point"},
	{MODELOPT "\"W4A16_AWQ\",\"group_size\":4}", "group_size"},
	{"{\"quant_method\":\"modelopt\",\"quant_algo\":\"NVFP4\","
	 "\"group_size\":32}", "group_size"},
	{MODELOPT "\"MIXED_PRECISION\",\"quantized_layers\":{\"a.b\":{\"quant_algo\":"
	 "\"NVFP4_AWQ\"}}}", "quant_algo"},
	{MODELOPT "\"FP8\",\"kv_cache_quant_algo\":8}", "kv_cache_quant_algo"},
	{"{\"quant_method\":\"compressed-tensors\",\"format\":"
	 "\"marlin-24\"," ONE(GROUP32) "}", "format"},
	{"{" CT("int-quantized") ONE(INT4 ",\"strategy\":\"token\"") "}", "strategy"},
	{"{" CT("int-quantized") ONE("\"num_bits\":9,\"type\":\"int\"") "}", "num_bits"},
	{"{" CT("int-quantized") ONE(INT4 ",\"strategy\":\"block\"") "}", "block_structure"},
	{"{" CT("naive-quantized") ONE(E4M3 ",\"strategy\":\"group\"") "}", "group_size"},
	{"{" CT("mxfp8-quantized") ONE(E4M3 ",\"strategy\":\"group\",\"group_size\":64")
	 "}", "group_size"},
	{"{" CT("mxfp8-quantized") ONE(E4M3 ",\"strategy\":\"channel\"") "}", "strategy"},
	{"{" CT("mxfp6-pack-quantized") ONE(E4M3 ",\"strategy\":\"group\",\"group_size\":32")
	 "}", "num_bits"},
	{"{" CT("mxfp4-pack-quantized") ONE(GROUP32) "}", "type"},
	{"{" CT("mxfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\","
	 "\"strategy\":\"group\",\"group_size\":16") "}", "group_size"},
	{"{" CT("mxfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\","
	 "\"strategy\":\"tensor_group\",\"group_size\":32") "}", "strategy"},
	{"{" CT("nvfp4-pack-quantized") ONE(GROUP32) "}", "type"},
	{"{" CT("nvfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\"") "}",
	 "strategy"},
	{"{" CT("nvfp4-pack-quantized") ONE("\"num_bits\":4,\"type\":\"float\","
	 "\"strategy\":\"tensor_group\",\"group_size\":32") "}", "group_size"},
	{"{" CT("float-quantized") ONE("\"num_bits\":4,\"type\":\"float\"") "}",
	 "num_bits"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"symmetric\":false") "}", "symmetric"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"strategy\":\"token\"") "}", "strategy"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"strategy\":\"block\"") "}",
	 "block_structure"},
	{"{" CT("float-quantized") ONE(E4M3 ",\"actorder\":\"group\"") "}", "actorder"},
	{"{\"quant_method\":\"compressed-tensors\"," ONE(GROUP32) "}", "format"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"format\":\"sparse-24\",\"targets\":"
	 "[\"Linear\"],\"weights\":{" GROUP32 "}}}}", "format"},
	{"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\","
	 "\"quantization_status\":\"frozen\"," ONE(GROUP32) "}",
	 "quantization_status"},
	{"{" HEAD "\"ignore\":[]}", "config_groups"},
	{"{" HEAD "\"ignore\":\"lm_head\"," ONE(GROUP32) "}", "ignore"},
	{"{" HEAD "\"ignore\":[7]," ONE(GROUP32) "}", "ignore"},
	{"{" HEAD ONE(GROUP32) ",\"kv_cache_scheme\":{\"type\":\"float\"}}",
	 "kv_cache_scheme"},
	{"{" HEAD ONE(GROUP32) ",\"kv_cache_scheme\":\"fp8\"}", "kv_cache_scheme"},
	{"{" HEAD ONE(GROUP32) ",\"transform_config\":{\"x\":1}}", "transform_config"},
	{"{" HEAD ONE(GROUP32) ",\"transform_config\":{\"config_groups\":{\"R4\":{\"type\":"
	 "\"hadamard\",\"apply\":[{\"targets\":[\"re:.*down_proj$\"],\"location\":"
	 "\"weight_input\"},{\"targets\":[\"re:.*down_proj$\"],\"location\":\"bias\"}]}}}}",
	 "transform_config.location"},
	{"{" HEAD ONE(GROUP32) TURN("\"location\":\"weight_input\"},{\"location\":\"input\""),
	 "transform_config.location"},
	{"{" HEAD ONE(GROUP32) TURN("\"location\":\"output\""), "transform_config.location"},
	{"{" HEAD ONE(GROUP32) TURN("\"location\":\"q_attn\"},{\"location\":\"k_cache\""),
	 "transform_config.location"},
	{"{" HEAD ONE(GROUP32) TURN("\"location\":7"), "transform_config.location"},
	{"{" HEAD ONE(GROUP32) ",\"transform_config\":{\"config_groups\":{\"a\":{\"apply\":{}}}}}",
	 "transform_config.apply"},
	{"{" HEAD ONE(GROUP32) ",\"moe_sparsity_config\":{\"method\":\"PRUNE\"}}",
	 "moe_sparsity_config"},
	{"{" HEAD ONE(GROUP32) ",\"sparsity_config\":{\"format\":"
	 "\"sparse-24-bitmask\"}}", "sparsity_config"},
	{"{" HEAD ONE("\"num_bits\":1,\"type\":\"int\"") "}", "num_bits"},
	{"{" HEAD ONE("\"num_bits\":4,\"type\":\"float\"") "}", "type"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"block\"") "}", "strategy"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"group\"") "}", "group_size"},
	{"{" HEAD ONE(INT4 ",\"strategy\":\"group\",\"group_size\":-1") "}",
	 "group_size"},
	{"{" HEAD ONE(GROUP32 ",\"actorder\":\"odd\"") "}", "actorder"},
	{"{" HEAD ONE(GROUP32 ",\"dynamic\":true") "}", "dynamic"},
	{"{" HEAD ONE(GROUP32 ",\"block_structure\":[128,128]") "}",
	 "block_structure"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Conv2d\"],"
	 "\"weights\":{" GROUP32 "}}}}", "targets"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[],\"weights\":{" GROUP32
	 "}}}}", "targets"},
	{"{" HEAD "\"config_groups\":{\"g\":{}}}", "weights"},
	{"{" HEAD "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":4}}}",
	 "weights"},
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
	test_extra();
	test_classes();
	test_methods();
	test_kv();
	test_refused();
	return tap_done();
}
