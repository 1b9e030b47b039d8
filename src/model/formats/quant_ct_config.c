/* SPDX-License-Identifier: Apache-2.0
 *
 * compressed-tensors: the settings of one group of layers. Most formats are meant for kernels
 * that round inputs, and some outputs too. Our kernels round neither, which is closer to the
 * original model. So input_activations and output_activations are not read.
 */
#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"

static bool is_string(const json_t *v, const char *want)
{
	return json_is_string(v) && strcmp(json_string_value(v), want) == 0;
}

/* The value of `key` must be this integer. */
static enum status need_int(const json_t *w, const char *key, int want, struct fail *fail)
{
	const json_t *v = jsonfile_get(w, key);
	return json_is_integer(v) && json_integer_value(v) == want ? OK
								   : quant_refuse(fail, key, v);
}

static enum status need_string(const json_t *w, const char *key, const char *want,
			       struct fail *fail)
{
	const json_t *v = jsonfile_get(w, key);
	return is_string(v, want) ? OK : quant_refuse(fail, key, v);
}

static enum status read_group_size(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *size = jsonfile_get(w, "group_size");
	json_int_t g = json_integer_value(size);
	if (!json_is_integer(size) || g < 8 || g > 1 << 20)
		return quant_refuse(fail, "group_size", size);
	out->group = (int32_t)g;
	return OK;
}

/* Read the bits and the symmetry of integers. Up to four bits become INT4, more become INT8. */
static enum status read_integer(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *bits = jsonfile_get(w, "num_bits");
	const json_t *symmetric = jsonfile_get(w, "symmetric");
	const json_t *order = jsonfile_get(w, "actorder");
	json_int_t n = json_integer_value(bits);
	if (!json_is_integer(bits) || n < 2 || n > 8)
		return quant_refuse(fail, "num_bits", bits);
	enum status st = need_string(w, "type", "int", fail);
	if (st != OK)
		return st;
	if (symmetric && !json_is_boolean(symmetric))
		return quant_refuse(fail, "symmetric", symmetric);
	/* With "weight" and its older name "static", inputs keep their order. The other
	 * values store a group for each input in weight_g_idx, which is read where it
	 * exists. */
	if (order && !json_is_boolean(order) && !is_string(order, "weight") &&
	    !is_string(order, "static") && !is_string(order, "group") &&
	    !is_string(order, "dynamic"))
		return quant_refuse(fail, "actorder", order);
	out->bits = (int32_t)n;
	out->quant = n <= 4 ? QUANT_INT4 : QUANT_INT8;
	out->is_asymmetric = json_is_false(symmetric);
	return OK;
}

/* Integers packed in words, with a scale for each group, each row or the whole tensor. */
static enum status read_packed(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = read_integer(w, out, fail);
	if (st != OK)
		return st;
	if (out->bits != 4 && out->bits != 8)
		out->stored = STORED_STREAM;
	if (is_string(strategy, "group"))
		st = read_group_size(w, out, fail);
	else if (!is_string(strategy, "channel"))
		st = quant_refuse(fail, "strategy", strategy);
	return st == OK ? quant_need_nothing(w, "block_structure", fail) : st;
}

/* A byte for each integer, with a scale for each group, block or row, or one for all. */
static enum status read_bytes(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = read_integer(w, out, fail);
	if (st != OK)
		return st;
	out->stored = STORED_BYTES;
	if (is_string(strategy, "group"))
		return read_group_size(w, out, fail);
	if (is_string(strategy, "block"))
		return quant_block_read(jsonfile_get(w, "block_structure"), "block_structure",
					out, fail);
	return is_string(strategy, "channel") || is_string(strategy, "tensor")
		       ? OK
		       : quant_refuse(fail, "strategy", strategy);
}

/* Check the settings that all floating-point formats share. */
static enum status need_float(const json_t *w, int n_bits, struct fail *fail)
{
	const json_t *symmetric = jsonfile_get(w, "symmetric");
	enum status st = need_int(w, "num_bits", n_bits, fail);
	if (st == OK)
		st = need_string(w, "type", "float", fail);
	if (st == OK && symmetric && !json_is_true(symmetric))
		st = quant_refuse(fail, "symmetric", symmetric);
	return st == OK ? quant_need_nothing(w, "actorder", fail) : st;
}

static enum status read_nvfp4(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	enum status st = need_float(w, 4, fail);
	if (st == OK)
		st = need_string(w, "strategy", "tensor_group", fail);
	out->quant = QUANT_NVFP4;
	return st == OK ? need_int(w, "group_size", 16, fail) : st;
}

/* Microscaling: groups of 32 whose scales are powers of two. */
static enum status need_mx(const json_t *w, int n_bits, struct fail *fail)
{
	enum status st = need_float(w, n_bits, fail);
	if (st == OK)
		st = need_string(w, "strategy", "group", fail);
	return st == OK ? need_int(w, "group_size", 32, fail) : st;
}

static enum status read_mxfp4(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	out->quant = QUANT_MXFP4;
	return need_mx(w, 4, fail);
}

static enum status read_mxfp6(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	quant_groups_of_32(out);
	out->stored = STORED_E2M3;
	return need_mx(w, 6, fail);
}

static enum status read_mxfp8(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	quant_groups_of_32(out);
	return need_mx(w, 8, fail);
}

static enum status read_fp8(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = need_float(w, 8, fail);
	if (st != OK)
		return st;
	out->quant = QUANT_FP8;
	if (is_string(strategy, "block"))
		return quant_block_read(jsonfile_get(w, "block_structure"),
					"block_structure", out, fail);
	if (is_string(strategy, "group")) {
		out->group_n = 1;
		return read_group_size(w, out, fail);
	}
	return is_string(strategy, "tensor") || is_string(strategy, "channel")
		       ? OK
		       : quant_refuse(fail, "strategy", strategy);
}

/* "naive-quantized", the older name of the formats for integers in bytes and for FP8. */
static enum status read_naive(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	return is_string(jsonfile_get(w, "type"), "int") ? read_bytes(w, out, fail)
							  : read_fp8(w, out, fail);
}

static const struct {
	const char *name;
	enum status (*read)(const json_t *weights, struct quant_choice *out,
			    struct fail *fail);
} formats[] = {
	{"pack-quantized", read_packed},
	{"int-quantized", read_bytes},
	{"naive-quantized", read_naive},
	{"nvfp4-pack-quantized", read_nvfp4},
	{"mxfp4-pack-quantized", read_mxfp4},
	{"mxfp6-pack-quantized", read_mxfp6},
	{"mxfp8-quantized", read_mxfp8},
	{"float-quantized", read_fp8},
};

enum status quant_ct_read(const json_t *config, const json_t *group, struct quant_choice *out,
			  struct fail *fail)
{
	const json_t *format = jsonfile_get(group, "format");
	const json_t *weights = jsonfile_get(group, "weights");
	size_t i = 0;
	*out = (struct quant_choice){0};
	if (!format)
		format = jsonfile_get(config, "format");
	/* "dense" packs nothing, and a group without weights rounds only inputs. In both cases
	 * the weights are plain. */
	if (is_string(format, "dense") || (!weights && jsonfile_get(group, "targets")))
		return OK;
	while (i < ARRAY_LEN(formats) && !is_string(format, formats[i].name))
		i++;
	if (i == ARRAY_LEN(formats))
		return quant_refuse(fail, "format", format);
	if (!json_is_object(weights))
		return quant_refuse(fail, "weights", weights);
	out->is_packed = true;
	enum status st = formats[i].read(weights, out, fail);
	return st == OK ? quant_need_nothing(weights, "dynamic", fail) : st;
}
