/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config of the methods with one setting for all layers: awq, gptq, fp8,
 * fbgemm_fp8, modelopt, mxfp4, quark, bitsandbytes, hqq, auto-round. quant_own.c reads a single
 * layer's setting through it too. Lists of exceptions are not read: a layer with a plain tensor
 * is an exception (quant_open). Settings for rounding a layer's inputs are ignored too. Inputs
 * stay unrounded, which is closer to the original model.
 */
#include <strings.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"

/* Read an integer of [min, max]; anything else is refused. If `all` is true, -1 ("all inputs in
 * one group") is allowed and gives 0. */
static enum status read_int(const json_t *config, const char *key, int min, int max,
			    bool all, int32_t *out, struct fail *fail)
{
	const json_t *v = jsonfile_get(config, key);
	json_int_t i = json_integer_value(v);
	if (json_is_integer(v) && all && i == -1) {
		*out = 0;
		return OK;
	}
	if (!json_is_integer(v) || i < min || i > max)
		return quant_refuse(fail, key, v);
	*out = (int32_t)i;
	return OK;
}

/* Check that the value of a key is one of `words` (separated by blanks, any case). The
 * key may be absent if `may_lack`. */
static enum status need_word(const json_t *config, const char *key, const char *words,
			     bool may_lack, struct fail *fail)
{
	const json_t *v = jsonfile_get(config, key);
	const char *s = json_string_value(v);
	if (!v && may_lack)
		return OK;
	for (size_t n; s && *words; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (n == strlen(s) && strncasecmp(s, words, n) == 0)
			return OK;
	}
	return quant_refuse(fail, key, v);
}

static enum status read_awq(const json_t *config, struct quant_choice *out,
			    struct fail *fail)
{
	int32_t bits;
	const char *bits_key = jsonfile_get(config, "w_bit") ? "w_bit" : "bits";
	const char *size_key = jsonfile_get(config, "q_group_size") ? "q_group_size"
								   : "group_size";
	enum status st = read_int(config, bits_key, 4, 4, false, &bits, fail);
	if (st == OK)
		st = read_int(config, size_key, 8, 1 << 20, true, &out->group, fail);
	if (st == OK)
		st = need_word(config, "version", "gemm", true, fail);
	const json_t *zero = jsonfile_get(config, "zero_point");
	if (st == OK && zero && !json_is_true(zero))
		st = quant_refuse(fail, "zero_point", zero);
	out->quant = QUANT_AWQ4;
	return st;
}

static enum status read_gptq(const json_t *config, struct quant_choice *out,
			     struct fail *fail)
{
	int32_t bits;
	enum status st = read_int(config, "bits", 2, 8, false, &bits, fail);
	if (st == OK)
		st = read_int(config, "group_size", 8, 1 << 20, true, &out->group, fail);
	const char *key = jsonfile_get(config, "checkpoint_format") ? "checkpoint_format"
								    : "format";
	if (st == OK)
		st = need_word(config, key, "gptq gptq_v2", true, fail);
	if (st == OK)
		st = need_word(config, "pack_dtype", "int32", true, fail);
	if (st != OK)
		return st;
	const char *format = json_string_value(jsonfile_get(config, key));
	out->quant = bits <= 4 ? QUANT_GPTQ4 : QUANT_GPTQ8;
	out->stored = bits == 4 || bits == 8 ? STORED_SO : STORED_GPTQ;
	out->bits = bits;
	out->zero_step = !format || strcasecmp(format, "gptq") == 0;
	return OK;
}

/* AutoRound's small floats, whose tensors are those of compressed-tensors. */
static enum status read_auto_round_floats(const json_t *config, struct quant_choice *out,
					  struct fail *fail)
{
	enum status st = need_word(config, "data_type", "mx_fp mx_fp4 mx_fp4e2m1 mx_fp8 "
				   "mx_fp8e4m3 nv_fp nv_fp4", false, fail);
	if (st != OK)
		return st;
	bool is_nv = json_string_value(jsonfile_get(config, "data_type"))[0] == 'n';
	int32_t bits, size = is_nv ? 16 : 32;
	st = read_int(config, "bits", 4, is_nv ? 4 : 8, false, &bits, fail);
	if (st == OK && bits != 4 && bits != 8)
		st = quant_refuse(fail, "bits", jsonfile_get(config, "bits"));
	if (st == OK)
		st = read_int(config, "group_size", size, size, false, &out->group, fail);
	out->quant = is_nv ? QUANT_NVFP4 : QUANT_MXFP4;
	if (st == OK && bits == 8)
		quant_groups_of_32(out);
	return st;
}

/* AutoRound packs as AWQ or as GPTQ. Only files of "auto_gptq" store each zero point minus 1.
 * Source: the auto-round package for Python, 0.16 (inference/backend.py). */
static enum status read_auto_round(const json_t *config, struct quant_choice *out,
				   struct fail *fail)
{
	static const char key[] = "packing_format";
	const char *format = json_string_value(jsonfile_get(config, key));
	enum status st = need_word(config, key, "auto_round auto_round:gptqmodel "
				   "auto_round:auto_gptq auto_round:auto_awq "
				   "auto_round:llm_compressor", false, fail);
	if (st == OK)
		st = quant_need_nothing(config, "rotation_config", fail);
	if (st == OK)
		st = quant_need_nothing(config, "hadamard_config", fail);
	if (st == OK && strcasecmp(format, "auto_round:llm_compressor") == 0)
		return read_auto_round_floats(config, out, fail);
	if (st == OK)
		st = need_word(config, "data_type", "int", true, fail);
	if (st != OK)
		return st;
	if (strcasecmp(format, "auto_round:auto_awq") == 0)
		return read_awq(config, out, fail);
	st = read_gptq(config, out, fail);
	out->zero_step = strcasecmp(format, "auto_round:auto_gptq") == 0;
	return st;
}

static enum status read_fp8(const json_t *config, struct quant_choice *out,
			    struct fail *fail)
{
	const json_t *block = jsonfile_get(config, "weight_block_size");
	enum status st = need_word(config, "fmt", "e4m3", true, fail);
	if (st == OK)
		st = need_word(config, "activation_scheme", "dynamic static", true, fail);
	if (st == OK)
		st = need_word(config, "scale_fmt", "float ue8m0", true, fail);
	if (st == OK)
		st = need_word(config, "expert_dtype", "fp8 fp4", true, fail);
	if (st == OK && block)
		st = quant_block_read(block, "weight_block_size", out, fail);
	out->quant = QUANT_FP8;
	return st;
}

/* ModelOpt's int4. config.json often lacks the size of groups, which the scales show. */
static enum status read_modelopt_int4(const json_t *config, struct quant_choice *out,
				      struct fail *fail)
{
	const json_t *zero = jsonfile_get(config, "has_zero_point");
	out->quant = QUANT_INT4;
	out->stored = STORED_PAIRS;
	if (json_is_true(zero))
		return quant_refuse(fail, "has_zero_point", zero);
	if (!jsonfile_get(config, "group_size"))
		return OK;
	return read_int(config, "group_size", 8, 1 << 20, false, &out->group, fail);
}

/* ModelOpt. With MIXED_PRECISION, quant_own.c reads the settings of each layer. */
static enum status read_modelopt(const json_t *config, struct quant_choice *out,
				 struct fail *fail)
{
	enum status st = need_word(config, "quant_algo", "NVFP4 W4A16_NVFP4 FP8 "
				   "FP8_PER_CHANNEL_PER_TOKEN FP8_PB_WO MXFP8 "
				   "W4A16_AWQ W4A8_AWQ MIXED_PRECISION", false, fail);
	if (st != OK)
		return st;
	const char *algo = json_string_value(jsonfile_get(config, "quant_algo"));
	out->quant = QUANT_FP8;
	out->is_packed = strcasecmp(algo, "MIXED_PRECISION") != 0;
	if (strcasecmp(algo, "MXFP8") == 0)
		quant_groups_of_32(out);
	if (strcasecmp(algo, "FP8_PB_WO") == 0)
		out->group = out->group_n = 128;
	if (strncasecmp(algo, "W4A16_AWQ", 9) == 0 || strncasecmp(algo, "W4A8_AWQ", 8) == 0)
		return read_modelopt_int4(config, out, fail);
	if (!strstr(algo, "NVFP4") && !strstr(algo, "nvfp4"))
		return OK;
	out->quant = QUANT_NVFP4;
	if (jsonfile_get(config, "group_size"))
		st = read_int(config, "group_size", 16, 16, false, &out->group, fail);
	return st;
}

/* Quark may have settings for a class of layers. Each must equal the setting of all layers. */
static enum status check_quark_types(const json_t *config, const json_t *weight,
				     struct fail *fail)
{
	static const char key[] = "layer_type_quant_config";
	const json_t *layers = jsonfile_get(config, key);
	const char *name;
	json_t *layer;
	json_object_foreach((json_t *)layers, name, layer)
		if (!json_equal(json_object_get(layer, "weight"), weight))
			return quant_refuse(fail, key, layers);
	return OK;
}

/* Quark's integers, which quant_made_codes.c converts to AWQ4 and INT8. */
static enum status read_quark_integers(const json_t *config, const json_t *weight,
				       struct quant_choice *out, struct fail *fail)
{
	const char *type = json_string_value(jsonfile_get(weight, "dtype"));
	const json_t *export = jsonfile_get(config, "export");
	out->is_signed = *type == 'i';
	if (strcmp(type, "int8") == 0) {
		out->quant = QUANT_INT8;
		out->stored = STORED_BYTES;
		return need_word(weight, "qscheme", "per_tensor per_channel", false, fail);
	}
	out->quant = QUANT_AWQ4;
	out->stored = STORED_WORDS;
	enum status st = need_word(weight, "qscheme", "per_group", false, fail);
	if (st == OK)
		st = read_int(weight, "group_size", 8, 1 << 20, false, &out->group, fail);
	if (st == OK && jsonfile_get(weight, "ch_axis") &&
	    json_integer_value(jsonfile_get(weight, "ch_axis")) != 1 &&
	    json_integer_value(jsonfile_get(weight, "ch_axis")) != -1)
		st = quant_refuse(fail, "ch_axis", jsonfile_get(weight, "ch_axis"));
	if (st == OK && export)
		st = need_word(export, "pack_method", "reorder order", true, fail);
	const char *method = json_string_value(export ? jsonfile_get(export, "pack_method") : NULL);
	out->is_in_order = method && strcasecmp(method, "order") == 0;
	return st;
}

/* Quark's FP8: a scale per tensor, channel, block or group. */
static enum status read_quark_fp8(const json_t *weight, struct quant_choice *out,
				  struct fail *fail)
{
	const json_t *scheme = jsonfile_get(weight, "qscheme");
	const char *name = json_is_string(scheme) ? json_string_value(scheme) : "";
	out->quant = QUANT_FP8;
	if (strcmp(name, "per_block") == 0)
		return quant_block_read(jsonfile_get(weight, "block_size"), "block_size", out,
					fail);
	if (strcmp(name, "per_group") != 0)
		return need_word(weight, "qscheme", "per_tensor per_channel", false, fail);
	out->group_n = 1;
	return read_int(weight, "group_size", 8, 1 << 20, false, &out->group, fail);
}

/* Quark's microscaling, with 4 or 6 bits a number. */
static enum status read_quark_mx(const json_t *weight, const char *type,
				 struct quant_choice *out, struct fail *fail)
{
	int32_t size;
	if (strcasecmp(type, "fp4") == 0) {
		out->quant = QUANT_MXFP4;
		out->group = 32;
	} else {
		quant_groups_of_32(out);
		out->stored = strcasecmp(type, "fp6_e2m3") == 0 ? STORED_E2M3 : STORED_E3M2;
	}
	enum status st = need_word(weight, "qscheme", "per_group", false, fail);
	if (st == OK)
		st = need_word(weight, "scale_format", "e8m0", false, fail);
	return st == OK ? read_int(weight, "group_size", 32, 32, false, &size, fail) : st;
}

/* Quark's NVFP4: FP4 in groups of 16. A group's scale is FP8, with one factor for all scales. */
static enum status read_quark_nvfp4(const json_t *weight, struct quant_choice *out,
				    struct fail *fail)
{
	const json_t *numbers = json_array_get(weight, 0), *scales = json_array_get(weight, 1);
	out->quant = QUANT_NVFP4;
	if (json_array_size(weight) != 2)
		return quant_refuse(fail, "weight", weight);
	enum status st = need_word(numbers, "dtype", "fp4", false, fail);
	if (st == OK)
		st = need_word(numbers, "qscheme", "per_group", false, fail);
	if (st == OK)
		st = read_int(numbers, "group_size", 16, 16, false, &out->group, fail);
	if (st == OK)
		st = need_word(scales, "dtype", "fp8_e4m3", false, fail);
	return st == OK ? need_word(scales, "qscheme", "per_tensor", false, fail) : st;
}

/* AMD Quark. Its tensors have ModelOpt's names. Sources: config.json of amd's models
 * on Hugging Face, how vLLM reads them, and the package amd-quark 0.13 for Python. */
static enum status read_quark(const json_t *config, struct quant_choice *out,
			      struct fail *fail)
{
	static const char all[] = "global_quant_config";
	const json_t *global = jsonfile_get(config, all);
	const json_t *weight = global ? jsonfile_get(global, "weight") : NULL;
	if (!json_is_object(weight) && !json_is_array(weight))
		return quant_refuse(fail, all, global);
	enum status st = check_quark_types(config, weight, fail);
	if (st == OK && json_is_array(weight))
		return read_quark_nvfp4(weight, out, fail);
	if (st == OK)
		st = need_word(weight, "dtype", "fp8_e4m3 fp4 fp6_e2m3 fp6_e3m2 int4 uint4 int8",
			       false, fail);
	if (st != OK)
		return st;
	const char *type = json_string_value(jsonfile_get(weight, "dtype"));
	if (strstr(type, "int"))
		return read_quark_integers(config, weight, out, fail);
	return strcasecmp(type, "fp8_e4m3") == 0 ? read_quark_fp8(weight, out, fail)
						 : read_quark_mx(weight, type, out, fail);
}

static enum status read_mxfp4(const json_t *config, struct quant_choice *out,
			      struct fail *fail)
{
	(void)config;
	(void)fail;
	out->quant = QUANT_MXFP4;
	return OK;
}

/* bitsandbytes: nf4 and fp4, whose tensors hold all settings, or LLM.int8, which
 * quant_made_codes.c converts to INT8. Inputs are not rounded, so the threshold of outliers has
 * no effect. */
static enum status read_bnb(const json_t *config, struct quant_choice *out,
			    struct fail *fail)
{
	bool is_4 = json_is_true(jsonfile_get(config, "load_in_4bit"));
	out->is_packed = !is_4;
	out->quant = QUANT_INT8;
	out->stored = STORED_BYTES;
	if (!is_4 && !json_is_true(jsonfile_get(config, "load_in_8bit")))
		return quant_refuse(fail, "load_in_8bit", jsonfile_get(config, "load_in_8bit"));
	return OK;
}

/* HQQ, with settings for each layer or for each kind of layer. quant_made.c converts its
 * weights to Q4_1 or bf16. */
static enum status check_hqq(const json_t *layer, struct fail *fail)
{
	int32_t n;
	const json_t *w = jsonfile_get(layer, "weight_quant_params");
	if (!json_is_object(w))
		return quant_refuse(fail, "weight_quant_params", w);
	enum status st = read_int(w, "nbits", 1, 8, false, &n, fail);
	if (st == OK && n > 4 && n != 8)
		st = quant_refuse(fail, "nbits", jsonfile_get(w, "nbits"));
	if (st == OK)
		st = read_int(w, "axis", 0, 1, false, &n, fail);
	if (st == OK)
		st = quant_need_nothing(w, "view_as_float", fail);
	if (st == OK)
		st = quant_need_nothing(layer, "scale_quant_params", fail);
	return st == OK ? quant_need_nothing(layer, "zero_quant_params", fail) : st;
}

static enum status read_hqq(const json_t *config, struct quant_choice *out,
			    struct fail *fail)
{
	const json_t *all = jsonfile_get(config, "quant_config");
	const char *name;
	json_t *layer;
	enum status st = OK;
	out->is_packed = false;
	if (!json_is_object(all) || json_object_size(all) == 0)
		return quant_refuse(fail, "quant_config", all);
	if (jsonfile_get(all, "weight_quant_params"))
		return check_hqq(all, fail);
	json_object_foreach((json_t *)(uintptr_t)all, name, layer)
		if (st == OK)
			st = check_hqq(layer, fail);
	return st;
}

void quant_groups_of_32(struct quant_choice *out)
{
	out->quant = QUANT_FP8;
	out->group = 32;
	out->group_n = 1;
}

enum status quant_block_read(const json_t *v, const char *key,
			     struct quant_choice *out, struct fail *fail)
{
	int32_t size[2];
	if (json_array_size(v) != 2)
		return quant_refuse(fail, key, v);
	for (size_t i = 0; i < 2; i++) {
		const json_t *n = json_array_get(v, i);
		if (!json_is_integer(n) || json_integer_value(n) < 1 ||
		    json_integer_value(n) > 1 << 20)
			return quant_refuse(fail, key, v);
		size[i] = (int32_t)json_integer_value(n);
	}
	out->group_n = size[0];
	out->group = size[1];
	return OK;
}

enum status quant_method_read(const json_t *config, const char *method,
			      struct quant_choice *out, bool *is_known,
			      struct fail *fail)
{
	static const struct {
		const char *name;
		enum status (*read)(const json_t *config, struct quant_choice *out,
				    struct fail *fail);
	} methods[] = {
		{"awq", read_awq},       {"gptq", read_gptq},
		{"fp8", read_fp8},       {"fbgemm_fp8", read_fp8},
		{"modelopt", read_modelopt}, {"modelopt_fp4", read_modelopt},
		{"modelopt_mixed", read_modelopt},
		{"mxfp4", read_mxfp4},   {"quark", read_quark},
		{"auto-round", read_auto_round}, {"auto_round", read_auto_round},
		{"intel/auto-round", read_auto_round},
		{"bitsandbytes", read_bnb}, {"hqq", read_hqq},
	};
	struct quant_choice c = {.is_packed = true};
	*is_known = false;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (strcmp(method, methods[i].name) != 0)
			continue;
		*is_known = true;
		enum status st = methods[i].read(config, &c, fail);
		if (st != OK)
			return st;
		*out = c;
	}
	return OK;
}
