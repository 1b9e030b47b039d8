/* SPDX-License-Identifier: Apache-2.0
 *
 * The tower of Gemma 4, and the layers that Gemma 4 Unified has instead of a tower. Sources:
 * configuration_gemma4.py, image_processing_pil_gemma4.py, processing_gemma4.py and
 * configuration_gemma4_unified.py of Hugging Face Transformers.
 */
#include <string.h>

#include "base/alloc.h"
#include "vision/vision_config_private.h"
#include "vision/vision_gguf.h"

enum { MOST_TOKENS = 280, MAX_TOKENS = 1 << 14 };

static const struct jsonfile_number settings[] = {
	{"num_hidden_layers", VISION_AT(depth), 1, 256, 16},
	{"hidden_size", VISION_AT(width), 4, 1 << 14, 768},
	{"num_attention_heads", VISION_AT(n_heads), 1, 256, 12},
	{"intermediate_size", VISION_AT(ffn_dim), 4, 1 << 16, 3072},
	{"patch_size", VISION_AT(patch), 1, 64, 16},
	{"pooling_kernel_size", VISION_AT(merge), 1, 16, 3},
	{"position_embedding_size", VISION_AT(side), 1, 1 << 20, 10240},
};

static const struct jsonfile_number plain_settings[] = {
	{"mm_embed_dim", VISION_AT(width), 4, 1 << 14, 3840},
	{"patch_size", VISION_AT(patch), 1, 64, 16},
	{"pooling_kernel_size", VISION_AT(merge), 1, 16, 3},
	{"mm_posemb_size", VISION_AT(side), 1, 1 << 20, 1120},
};

/* `key` must be n if the config has the key. */
static enum status must_be(const json_t *vision, const char *key, json_int_t n,
			   struct fail *fail)
{
	const json_t *v = jsonfile_get(vision, key);
	return v && json_integer_value(v) != n ? vision_config_refuse(fail, key) : OK;
}

static enum status read_tower(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *vision = jsonfile_get(root, "vision_config"), *v;
	enum status st = vision_config_numbers(vision, settings, ARRAY_LEN(settings), c, fail);
	if (st != OK)
		return st;
	if (c->width % c->n_heads || c->width / c->n_heads % 4)
		return vision_config_refuse(fail, "num_attention_heads");
	st = must_be(vision, "head_dim", c->width / c->n_heads, fail);
	if (st == OK)
		st = must_be(vision, "num_key_value_heads", c->n_heads, fail);
	if (st != OK)
		return st;
	const json_t *rope = jsonfile_get(vision, "rope_parameters");
	const char *type = json_string_value(jsonfile_get(rope, "rope_type"));
	if (type && strcmp(type, "axial") != 0 && strcmp(type, "default") != 0)
		return vision_config_refuse(fail, "rope_type");
	v = jsonfile_get(rope, "rope_theta");
	c->theta = v ? json_number_value(v) : 100;
	if (!(c->theta > 1))
		return vision_config_refuse(fail, "rope_theta");
	const char *act = json_string_value(jsonfile_get(vision, "hidden_activation"));
	if (act && strcmp(act, "gelu_pytorch_tanh") != 0)
		return vision_config_refuse(fail, "hidden_activation");
	c->gate.kind = ACT_GELU_TANH;
	if (json_is_true(jsonfile_get(vision, "attention_bias")))
		return vision_config_refuse(fail, "attention_bias");
	v = jsonfile_get(vision, "rms_norm_eps");
	c->norm_eps = c->out_eps = v ? json_number_value(v) : 1e-6;
	c->is_clipped = json_is_true(jsonfile_get(vision, "use_clipped_linears"));
	c->is_standard = json_is_true(jsonfile_get(vision, "standardize"));
	return c->norm_eps > 0 ? OK : vision_config_refuse(fail, "rms_norm_eps");
}

static enum status read_plain(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *vision = jsonfile_get(root, "vision_config"), *v;
	enum status st = vision_config_numbers(vision, plain_settings,
					       ARRAY_LEN(plain_settings), c, fail);
	if (st != OK)
		return st;
	if ((v = jsonfile_get(vision, "output_proj_dims")) &&
	    json_integer_value(v) != c->width)
		return vision_config_refuse(fail, "output_proj_dims");
	v = jsonfile_get(vision, "rms_norm_eps");
	c->out_eps = v ? json_number_value(v) : 1e-6;
	c->norm_eps = VISION_PLAIN_EPS;
	c->patch *= c->merge;
	c->merge = c->n_heads = 1;
	if (c->width % 8 || 3 * c->patch * c->patch % 8) /* the GPU's matrices need multiples of
							  * 8 */
		return vision_config_refuse(fail, c->width % 8 ? "mm_embed_dim" : "patch_size");
	return c->out_eps > 0 ? OK : vision_config_refuse(fail, "rms_norm_eps");
}

/* Layers that read per-layer embeddings get the padding token's for an image's tokens. Only the
 * larger models let an image's tokens see each other, and only in layers with a window. GGUF
 * files do not say so: there a model without per-layer embeddings counts as a larger one. */
static void read_seen(const json_t *root, const struct model *m,
		      struct engine_image_rules *rules)
{
	const json_t *text = jsonfile_get(root, "text_config");
	const char *seen = json_string_value(jsonfile_get(text, "use_bidirectional_attention"));
	const json_t *pad = jsonfile_get(text, "pad_token_id");
	bool is_mutual = root ? seen && strcmp(seen, "vision") == 0 : !m->config.gemma4.embed_dim;
	rules->is_flat = true;
	rules->seen = is_mutual ? IMAGE_BIDIRECTIONAL_LOCAL : IMAGE_CAUSAL;
	rules->has_stand_in = true;
	rules->stand_in = root ? (int32_t)json_integer_value(pad)
			       : vision_gguf_padding(tensors_gguf(m->tensors));
}

/* The template writes <|image|>. The processor puts a begin token and an end token around it. */
static enum status read_text(const json_t *root, const struct model *m,
			     struct vision_config *c, struct fail *fail)
{
	static const char *const names[] = {"<|image>", "<image|>", "<|image|>"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (tokenizer_find(m->tokenizer, str_of(names[i])) < 0)
			return fail_at(fail, E_MISSING, names[i], "the tokenizer has no token "
				       "%s, which belongs to an image", names[i]);
	if (!root)
		c->token = tokenizer_find(m->tokenizer, str_of(names[2]));
	read_seen(root, m, &c->image_rules);
	if (c->image_rules.stand_in < 0 || c->image_rules.stand_in >= m->config.n_vocab)
		return fail_at(fail, E_FORMAT, "pad_token_id", "pad_token_id %d is outside the "
			       "vocabulary", (int)c->image_rules.stand_in);
	c->shown = names[2];
	c->spelled = "<|image><|image|><image|>";
	c->frames = 1;
	c->out_width = c->out_width ? c->out_width : m->config.d_model;
	return OK;
}

/* Colours are (x - mean) / std, and a tower with layers then takes 2 (x - 0.5) of each. */
static enum status read_colours(const json_t *file, struct vision_config *c, struct fail *fail)
{
	for (int i = 0; i < 3; i++) {
		c->mean[i] = 0;
		c->std[i] = 1;
	}
	enum status st = json_is_true(jsonfile_get(file, "do_normalize"))
				 ? vision_config_colours(file, c, fail)
				 : OK;
	for (int i = 0; i < 3 && c->kind == VISION_GEMMA4; i++) {
		c->mean[i] += c->std[i] / 2;
		c->std[i] /= 2;
	}
	return st;
}

static enum status read_processor(const json_t *file, struct vision_config *c,
				  struct fail *fail)
{
	const json_t *most = jsonfile_get(file, "max_soft_tokens");
	json_int_t n = most ? json_integer_value(most) : MOST_TOKENS;
	int64_t f = (int64_t)c->patch * c->merge;
	if (n < 1 || n > MAX_TOKENS)
		return fail_at(fail, E_FORMAT, "max_soft_tokens", "the image processor's "
			       "max_soft_tokens is not a number from 1 to %d", MAX_TOKENS);
	c->max_pixels = n * f * f;
	if (n * c->merge > c->side)
		return fail_at(fail, E_UNSUPPORTED, "position_embedding_size", "the vision tower "
			       "has %d positions along a side; %d tokens may need %d",
			       (int)c->side, (int)n, (int)n * (int)c->merge);
	const json_t *patch = jsonfile_get(file, "patch_size");
	const json_t *pooling = jsonfile_get(file, "pooling_kernel_size");
	if (patch && pooling && json_integer_value(patch) * json_integer_value(pooling) != f)
		return fail_at(fail, E_FORMAT, "patch_size", "the image processor's patch_size "
			       "and pooling_kernel_size are not the vision tower's");
	enum status st = vision_config_resample(file, RESAMPLE_BICUBIC, fail);
	return st == OK ? read_colours(file, c, fail) : st;
}

static const char *const types[] = {"gemma4", NULL};
const struct vision_reader vision_config_gemma4 = {types, read_tower, read_text,
						   read_processor};

static const char *const plain_types[] = {"gemma4_unified", NULL};
const struct vision_reader vision_config_plain = {plain_types, read_plain, read_text,
						  read_processor};
