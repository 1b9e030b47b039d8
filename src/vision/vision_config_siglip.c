/* SPDX-License-Identifier: Apache-2.0
 *
 * The tower of Gemma 3. Sources: configuration_siglip.py, configuration_gemma3.py and
 * processing_gemma3.py of Hugging Face Transformers.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "vision/vision_config_private.h"

static const struct jsonfile_number settings[] = {
	{"num_hidden_layers", VISION_AT(depth), 1, 256, 12},
	{"hidden_size", VISION_AT(width), 4, 1 << 14, 768},
	{"num_attention_heads", VISION_AT(n_heads), 1, 256, 12},
	{"intermediate_size", VISION_AT(ffn_dim), 4, 1 << 16, 3072},
	{"patch_size", VISION_AT(patch), 1, 64, 16},
	{"image_size", VISION_AT(max_side), 1, 1 << 14, 224},
};

/* Tokens form a square. Each token is the mean of a square of patches. */
static enum status read_pooling(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, "mm_tokens_per_image");
	json_int_t n = v ? json_integer_value(v) : 256;
	int32_t side = n > 0 && n <= 1 << 20 ? (int32_t)sqrt((double)n) : 0;
	c->side = c->max_side / c->patch;
	if (side < 1 || (json_int_t)side * side != n || c->side % side)
		return vision_config_refuse(fail, "mm_tokens_per_image");
	c->merge = c->side / side;
	if (c->merge > 16 || c->side * c->patch != c->max_side)
		return vision_config_refuse(fail, "image_size");
	return OK;
}

static enum status read_tower(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *vision = jsonfile_get(root, "vision_config"), *v;
	enum status st = vision_config_numbers(vision, settings, ARRAY_LEN(settings), c, fail);
	if (st == OK)
		st = read_pooling(root, c, fail);
	if (st != OK)
		return st;
	if (c->width % c->n_heads)
		return vision_config_refuse(fail, "num_attention_heads");
	if ((v = jsonfile_get(vision, "num_channels")) && json_integer_value(v) != 3)
		return vision_config_refuse(fail, "num_channels");
	const char *act = json_string_value(jsonfile_get(vision, "hidden_act"));
	c->is_tanh = !act || strcmp(act, "gelu_pytorch_tanh") == 0;
	if (!c->is_tanh && strcmp(act, "gelu") != 0)
		return vision_config_refuse(fail, "hidden_act");
	v = jsonfile_get(vision, "layer_norm_eps");
	c->norm_eps = c->out_eps = v ? json_number_value(v) : 1e-6;
	return c->norm_eps > 0 ? OK : vision_config_refuse(fail, "layer_norm_eps");
}

/* The template writes <start_of_image>. The processor replaces it by all that stands around an
 * image. */
static enum status read_text(const json_t *root, const struct model *m,
			     struct vision_config *c, struct fail *fail)
{
	(void)root;
	static const char *const names[] = {"<start_of_image>", "<end_of_image>",
					    "<image_soft_token>"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (tokenizer_find(m->tokenizer, str_of(names[i])) < 0)
			return fail_at(fail, E_MISSING, names[i], "the tokenizer has no token "
				       "%s, which belongs to an image", names[i]);
	c->token = tokenizer_find(m->tokenizer, str_of(names[2]));
	c->shown = names[0];
	c->spelled = "\n\n<start_of_image><image_soft_token><end_of_image>\n\n";
	for (int i = 0; i < 3 && !(c->std[i] > 0); i++)
		c->mean[i] = c->std[i] = 0.5;
	c->frames = 1;
	c->filter = IMAGE_BILINEAR;
	c->image_rules.is_flat = true;
	c->image_rules.seen = IMAGE_BIDIRECTIONAL;
	c->out_width = c->out_width ? c->out_width : m->config.d_model;
	return OK;
}

static enum status read_processor(const json_t *file, struct vision_config *c,
				  struct fail *fail)
{
	static const char *const sides[] = {"height", "width"};
	const json_t *size = jsonfile_get(file, "size");
	for (int i = 0; i < 2 && size; i++)
		if (json_integer_value(jsonfile_get(size, sides[i])) != c->max_side)
			return fail_at(fail, E_UNSUPPORTED, "size", "the image processor's size "
				       "is not the tower's, %d x %d", (int)c->max_side,
				       (int)c->max_side);
	if (json_is_true(jsonfile_get(file, "do_pan_and_scan")))
		return fail_at(fail, E_UNSUPPORTED, "do_pan_and_scan", "the image processor's "
			       "do_pan_and_scan is not supported: images are seen whole");
	enum status st = vision_config_resample(file, RESAMPLE_BILINEAR, fail);
	return st == OK ? vision_config_colours(file, c, fail) : st;
}

static const char *const types[] = {"gemma3", NULL};
const struct vision_reader vision_config_siglip = {types, read_tower, read_text,
						   read_processor};
