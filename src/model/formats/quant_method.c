/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config of the methods with one setting for all layers: awq, gptq, fp8,
 * fbgemm_fp8, modelopt, mxfp4. Their lists of exceptions are not read: a layer with a
 * plain tensor is an exception (quant_open). Settings for rounding a layer's inputs are
 * ignored too. Inputs stay unrounded, which is closer to the original model.
 */
#include <strings.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"

/* Read an integer of [min, max]; anything else is refused. If `all` is true, -1 is
 * allowed and gives 0. */
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
	enum status st = read_int(config, "bits", 4, 4, false, &bits, fail);
	if (st == OK)
		st = read_int(config, "group_size", 8, 1 << 20, true, &out->group, fail);
	if (st == OK)
		st = need_word(config, "version", "gemm", true, fail);
	const json_t *zero = jsonfile_get(config, "zero_point");
	if (st == OK && zero && !json_is_true(zero))
		st = quant_refuse(fail, "zero_point", zero);
	out->quant = QUANT_AWQ4;
	return st;
}

/* "dynamic" maps layer patterns to settings of their own. Only patterns that exclude
 * layers ("-:") are accepted. */
static enum status check_dynamic(const json_t *config, struct fail *fail)
{
	const json_t *dynamic = jsonfile_get(config, "dynamic");
	const char *key;
	json_t *v;
	if (dynamic && !json_is_object(dynamic) && !json_is_false(dynamic))
		return quant_refuse(fail, "dynamic", dynamic);
	json_object_foreach((json_t *)dynamic, key, v)
		if (strncmp(key, "-:", 2) != 0)
			return quant_refuse(fail, "dynamic", dynamic);
	return OK;
}

static enum status read_gptq(const json_t *config, struct quant_choice *out,
			     struct fail *fail)
{
	int32_t bits;
	enum status st = read_int(config, "bits", 4, 8, false, &bits, fail);
	if (st == OK && bits != 4 && bits != 8)
		st = quant_refuse(fail, "bits", jsonfile_get(config, "bits"));
	if (st == OK)
		st = read_int(config, "group_size", 8, 1 << 20, true, &out->group, fail);
	const char *key = jsonfile_get(config, "checkpoint_format") ? "checkpoint_format"
								    : "format";
	if (st == OK)
		st = need_word(config, key, "gptq gptq_v2", true, fail);
	if (st == OK)
		st = need_word(config, "pack_dtype", "int32", true, fail);
	if (st == OK)
		st = check_dynamic(config, fail);
	if (st != OK)
		return st;
	const char *format = json_string_value(jsonfile_get(config, key));
	out->quant = bits == 4 ? QUANT_GPTQ4 : QUANT_GPTQ8;
	out->zero_step = !format || strcasecmp(format, "gptq") == 0;
	return OK;
}

static enum status read_fp8(const json_t *config, struct quant_choice *out,
			    struct fail *fail)
{
	const json_t *block = jsonfile_get(config, "weight_block_size");
	enum status st = need_word(config, "fmt", "e4m3", true, fail);
	if (st == OK)
		st = need_word(config, "activation_scheme", "dynamic static", true, fail);
	if (st == OK && block)
		st = quant_block_read(block, "weight_block_size", out, fail);
	out->quant = QUANT_FP8;
	return st;
}

static enum status read_modelopt(const json_t *config, struct quant_choice *out,
				 struct fail *fail)
{
	enum status st = need_word(config, "quant_algo", "NVFP4 FP8", false, fail);
	if (st != OK)
		return st;
	const char *algo = json_string_value(jsonfile_get(config, "quant_algo"));
	out->quant = strcasecmp(algo, "FP8") == 0 ? QUANT_FP8 : QUANT_NVFP4;
	if (out->quant == QUANT_NVFP4 && jsonfile_get(config, "group_size"))
		st = read_int(config, "group_size", 16, 16, false, &out->group, fail);
	return st;
}

static enum status read_mxfp4(const json_t *config, struct quant_choice *out,
			      struct fail *fail)
{
	(void)config;
	(void)fail;
	out->quant = QUANT_MXFP4;
	return OK;
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
		{"mxfp4", read_mxfp4},
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
