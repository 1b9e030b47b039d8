/* SPDX-License-Identifier: Apache-2.0
 *
 * The tower of Mistral 3 and its successors. Sources: configuration_pixtral.py,
 * configuration_mistral3.py and processing_pixtral.py of Hugging Face Transformers.
 */
#include <string.h>

#include "base/alloc.h"
#include "vision/vision_config_private.h"

#define LAYER_EPS 1e-5 /* a constant in modeling_pixtral.py */

static const struct jsonfile_number settings[] = {
	{"num_hidden_layers", VISION_AT(depth), 1, 256, 24},
	{"hidden_size", VISION_AT(width), 4, 1 << 14, 1024},
	{"num_attention_heads", VISION_AT(n_heads), 1, 256, 16},
	{"intermediate_size", VISION_AT(ffn_dim), 4, 1 << 16, 4096},
	{"patch_size", VISION_AT(patch), 1, 64, 16},
	{"image_size", VISION_AT(max_side), 1, 1 << 14, 1024},
};
static const struct jsonfile_number around[] = {
	{"spatial_merge_size", VISION_AT(merge), 1, 8, 2},
};

static enum status read_acts(const json_t *root, const json_t *vision, struct vision_config *c,
			     struct fail *fail)
{
	const char *act = json_string_value(jsonfile_get(vision, "hidden_act"));
	const char *out = json_string_value(jsonfile_get(root, "projector_hidden_act"));
	if (act && strcmp(act, "silu") == 0)
		c->gate.kind = ACT_SILU;
	else if (act && strcmp(act, "gelu_pytorch_tanh") == 0)
		c->gate.kind = ACT_GELU_TANH;
	else
		return vision_config_refuse(fail, "hidden_act");
	return out && strcmp(out, "gelu") != 0 ? vision_config_refuse(fail, "projector_hidden_act")
					       : OK;
}

static enum status read_tower(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *vision = jsonfile_get(root, "vision_config"), *v;
	enum status st = vision_config_numbers(vision, settings, ARRAY_LEN(settings), c, fail);
	if (st == OK)
		st = vision_config_numbers(root, around, ARRAY_LEN(around), c, fail);
	if (st == OK)
		st = read_acts(root, vision, c, fail);
	if (st == OK)
		st = vision_config_theta(vision, c, fail);
	if (st != OK)
		return st;
	if (c->width % c->n_heads || c->width / c->n_heads % 4)
		return vision_config_refuse(fail, "num_attention_heads");
	if ((v = jsonfile_get(vision, "head_dim")) &&
	    json_integer_value(v) != c->width / c->n_heads)
		return vision_config_refuse(fail, "head_dim");
	if ((v = jsonfile_get(vision, "num_channels")) && json_integer_value(v) != 3)
		return vision_config_refuse(fail, "num_channels");
	if ((v = jsonfile_get(root, "vision_feature_layer")) && json_integer_value(v) != -1)
		return vision_config_refuse(fail, "vision_feature_layer");
	c->has_out_bias = json_is_true(jsonfile_get(root, "multimodal_projector_bias"));
	c->norm_eps = LAYER_EPS;
	return OK;
}

/* Each row of an image's tokens ends with a text token. Positions in the text count each token. */
static enum status read_text(const json_t *root, const struct model *m,
			     struct vision_config *c, struct fail *fail)
{
	static const double mean[] = {0.48145466, 0.4578275, 0.40821073};
	static const double std[] = {0.26862954, 0.26130258, 0.27577711};
	const struct {
		const char *name;
		int32_t *to;
	} tokens[] = {{"[IMG_BREAK]", &c->break_token}, {"[IMG_END]", &c->end_token}};
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
		*tokens[i].to = tokenizer_find(m->tokenizer, str_of(tokens[i].name));
		if (*tokens[i].to < 0)
			return fail_at(fail, E_MISSING, tokens[i].name, "the tokenizer has no "
				       "token %s, which ends rows of an image", tokens[i].name);
	}
	if (!root)
		c->token = tokenizer_find(m->tokenizer, STR("[IMG]"));
	if (!(c->std[0] > 0)) { /* false if a GGUF file of the tower has given them */
		memcpy(c->mean, mean, sizeof mean);
		memcpy(c->std, std, sizeof std);
	}
	c->frames = c->n_gap = 1;
	c->image_rules.is_flat = true;
	c->out_width = c->out_width ? c->out_width : m->config.d_model;
	c->out_eps = (double)m->config.norm_eps;
	return OK;
}

static enum status read_processor(const json_t *file, struct vision_config *c,
				  struct fail *fail)
{
	const json_t *size = jsonfile_get(file, "size");
	const json_t *edge = jsonfile_get(size, "longest_edge");
	json_int_t n = json_integer_value(edge);
	if (edge && (n < 1 || n > 1 << 14))
		return fail_at(fail, E_FORMAT, "size", "the image processor's longest_edge is "
			       "not a number from 1 to %d", 1 << 14);
	if (size && !edge)
		return fail_at(fail, E_UNSUPPORTED, "size", "the image processor's size is not "
			       "supported without a longest_edge");
	c->max_side = edge ? (int32_t)n : c->max_side;
	enum status st = vision_config_resample(file, RESAMPLE_BICUBIC, fail);
	return st == OK ? vision_config_colours(file, c, fail) : st;
}

static const char *const types[] = {"mistral3", NULL};
const struct vision_reader vision_config_pixtral = {types, read_tower, read_text,
						    read_processor};
