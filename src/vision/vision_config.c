/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings of any tower, and in detail those of Qwen3-VL's. Qwen3.5 and its
 * successors (Qwen4-Exp) have the same tower without deepstack layers, whose output the text model
 * also reads. Qwen3-Omni has it with other names. Sources: configuration_qwen3_vl.py,
 * configuration_qwen3_5.py, configuration_qwen3_omni_moe.py and image_processing_qwen2_vl.py of
 * Hugging Face Transformers.
 */
#include "vision/vision_config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "vision/vision_config_private.h"
#include "vision/vision_gguf.h"

#define MAX_BYTES ((size_t)16 << 20)

#define AT VISION_AT
static const struct jsonfile_number settings[] = {
	{"depth", AT(depth), 1, 256, -1},
	{"hidden_size", AT(width), 4, 1 << 14, -1},
	{"num_heads", AT(n_heads), 1, 256, -1},
	{"intermediate_size", AT(ffn_dim), 4, 1 << 16, -1},
	{"patch_size", AT(patch), 1, 64, -1},
	{"spatial_merge_size", AT(merge), 1, 8, -1},
	{"temporal_patch_size", AT(frames), 1, 8, -1},
	{"out_hidden_size", AT(out_width), 8, 1 << 16, -1},
	{"num_position_embeddings", AT(side), 1, 1 << 20, -1},
};

enum status vision_config_numbers(const json_t *from, const struct jsonfile_number *s, size_t n,
				  struct vision_config *c, struct fail *fail)
{
	return jsonfile_numbers(from, "config.json: vision_config", s, n, c, fail);
}

enum status vision_config_refuse(struct fail *fail, const char *key)
{
	return fail_at(fail, E_UNSUPPORTED, key, "config.json: this %s of a vision tower is "
		       "not supported", key);
}

static enum status read_deep(const json_t *vision, struct vision_config *c, struct fail *fail)
{
	const json_t *list = jsonfile_get(vision, "deepstack_visual_indexes"), *v;
	size_t i;
	if (json_array_size(list) > VISION_MAX_DEEP)
		return vision_config_refuse(fail, "deepstack_visual_indexes");
	json_array_foreach((json_t *)list, i, v) {
		json_int_t at = json_integer_value(v);
		if (!json_is_integer(v) || at < 0 || at >= c->depth)
			return vision_config_refuse(fail, "deepstack_visual_indexes");
		c->deep_at[c->n_deep++] = (int32_t)at;
	}
	c->image_rules.n_deep = c->n_deep;
	return OK;
}

enum status vision_config_theta(const json_t *vision, struct vision_config *c,
				struct fail *fail)
{
	const json_t *theta = jsonfile_get(jsonfile_get(vision, "rope_parameters"), "rope_theta");
	theta = theta ? theta : jsonfile_get(vision, "rope_theta");
	c->theta = theta ? json_number_value(theta) : 10000;
	return c->theta > 1 ? OK : vision_config_refuse(fail, "rope_theta");
}

static enum status read_tower(const json_t *root, struct vision_config *c, struct fail *fail)
{
	const json_t *vision = jsonfile_get(root, "vision_config");
	c->min_pixels = 1 << 16;
	c->max_pixels = 1 << 24;
	c->norm_eps = c->out_eps = 1e-6;
	for (int i = 0; i < 3; i++)
		c->mean[i] = c->std[i] = 0.5;
	enum status st = vision_config_numbers(vision, settings, ARRAY_LEN(settings), c, fail);
	if (st != OK)
		return st;
	int32_t n = c->side;
	c->side = (int32_t)sqrt(n);
	if (c->side * c->side != n)
		return vision_config_refuse(fail, "num_position_embeddings");
	if (c->width % c->n_heads || c->width / c->n_heads % 4)
		return vision_config_refuse(fail, "num_heads");
	const json_t *channels = jsonfile_get(vision, "in_channels");
	if (channels && json_integer_value(channels) != 3)
		return vision_config_refuse(fail, "in_channels");
	const char *act = json_string_value(jsonfile_get(vision, "hidden_act"));
	c->is_tanh = act && strcmp(act, "gelu_pytorch_tanh") == 0;
	if (!c->is_tanh && (!act || strcmp(act, "gelu") != 0))
		return vision_config_refuse(fail, "hidden_act");
	st = vision_config_theta(vision, c, fail);
	/* Settings of Qwen4-Exp may have the key, which nothing reads. */
	const char *type = json_string_value(jsonfile_get(root, "model_type"));
	bool has_deep = !type || strcmp(type, "qwen4_exp") != 0;
	return st == OK && has_deep ? read_deep(vision, c, fail) : st;
}

/* mrope_section, which must be interleaved: [time, height, width] in pairs of a head. */
static enum status read_sections(const json_t *root, const struct model *m,
				 struct vision_config *c, struct fail *fail)
{
	if (!root) {
		c->token = tokenizer_find(m->tokenizer, STR("<|image_pad|>"));
		return vision_gguf_sections(tensors_gguf(m->tensors), &c->image_rules, fail);
	}
	const json_t *text = jsonfile_get(root, "text_config");
	const json_t *rope = jsonfile_get(text, "rope_parameters");
	rope = rope ? rope : jsonfile_get(text, "rope_scaling");
	const json_t *list = jsonfile_get(rope, "mrope_section");
	const json_t *mixed = jsonfile_get(rope, "mrope_interleaved");
	if (json_array_size(list) != 3 || json_is_false(mixed))
		return vision_config_refuse(fail, "mrope_section");
	c->image_rules.n_height = (int32_t)json_integer_value(json_array_get(list, 1));
	c->image_rules.n_width = (int32_t)json_integer_value(json_array_get(list, 2));
	return OK;
}

/* --- the image processor ------------------------------------------------------------- */

static void read_three(const json_t *file, const char *key, double out[3])
{
	const json_t *list = jsonfile_get(file, key);
	for (size_t i = 0; i < 3; i++)
		if (json_array_size(list) == 3)
			out[i] = json_number_value(json_array_get(list, i));
}

enum status vision_config_colours(const json_t *file, struct vision_config *c,
				  struct fail *fail)
{
	read_three(file, "image_mean", c->mean);
	read_three(file, "image_std", c->std);
	for (int i = 0; i < 3; i++)
		if (!(c->std[i] > 0))
			return fail_at(fail, E_FORMAT, "image_std", "the image processor's "
				       "image_std is not above 0");
	return OK;
}

enum status vision_config_resample(const json_t *file, int kind, struct fail *fail)
{
	const json_t *v = jsonfile_get(file, "resample");
	if (v && json_integer_value(v) != kind)
		return fail_at(fail, E_UNSUPPORTED, "resample", "the image processor's resample "
			       "is not supported, only %d", kind);
	return OK;
}

static int64_t pixels_of(const json_t *file, const char *old, const char *edge,
			 int64_t fallback)
{
	const json_t *size = jsonfile_get(file, "size");
	const json_t *v = jsonfile_get(size, edge);
	v = v ? v : jsonfile_get(file, old);
	return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v)
							       : fallback;
}

static enum status read_processor(const json_t *file, struct vision_config *c,
				  struct fail *fail)
{
	static const struct {
		const char *key;
		size_t at;
	} same[] = {{"patch_size", AT(patch)}, {"merge_size", AT(merge)},
		    {"temporal_patch_size", AT(frames)}};
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		const json_t *v = jsonfile_get(file, same[i].key);
		int32_t own = *(const int32_t *)(const void *)((const char *)c + same[i].at);
		if (v && json_integer_value(v) != own)
			return fail_at(fail, E_FORMAT, same[i].key, "the image processor's %s "
				       "is not the vision tower's", same[i].key);
	}
	c->min_pixels = pixels_of(file, "min_pixels", "shortest_edge", c->min_pixels);
	c->max_pixels = pixels_of(file, "max_pixels", "longest_edge", c->max_pixels);
	enum status st = vision_config_resample(file, RESAMPLE_BICUBIC, fail);
	return st == OK ? vision_config_colours(file, c, fail) : st;
}

/* --- all kinds ------------------------------------------------------------------------- */

static enum status load_processor(const char *dir, const struct vision_reader *r,
				  struct vision_config *c, struct fail *fail)
{
	json_t *file = NULL;
	enum status st = jsonfile_processor(dir, "image_processor", &file, fail);
	if (st == OK)
		st = r->processor(file, c, fail);
	json_decref(file);
	return st;
}

static enum status read_all(const json_t *root, const struct model *m, bool has_file,
			    const struct vision_reader *r, struct vision_config *c,
			    struct fail *fail)
{
	const json_t *token = jsonfile_get(root, "image_token_id");
	token = token ? token : jsonfile_get(root, "image_token_index");
	c->token = json_is_integer(token) ? (int32_t)json_integer_value(token) : -1;
	enum status st = has_file ? OK : r->tower(root, c, fail);
	if (st == OK)
		st = r->text(root, m, c, fail);
	if (st == OK)
		st = load_processor(m->dir, r, c, fail);
	if (st == OK && !json_is_integer(token))
		st = fail_at(fail, E_MISSING, "image_token_id",
			     "config.json: image_token_id is missing");
	return st;
}

static const char *const qwen_types[] = {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe",
					 VISION_OMNI, "qwen4_exp", NULL};
static const struct vision_reader qwen = {qwen_types, read_tower, read_sections, read_processor};
static const struct vision_reader *const readers[] = {
	[VISION_QWEN] = &qwen, [VISION_PIXTRAL] = &vision_config_pixtral,
	[VISION_SIGLIP] = &vision_config_siglip, [VISION_GEMMA4] = &vision_config_gemma4,
	[VISION_PLAIN] = &vision_config_plain};

static const struct vision_reader *find_reader(const char *type, enum vision_kind *out_kind)
{
	for (size_t i = 0; i < ARRAY_LEN(readers) && type; i++)
		for (const char *const *t = readers[i]->types; *t; t++)
			if (strcmp(type, *t) == 0) {
				*out_kind = (enum vision_kind)i;
				return readers[i];
			}
	return NULL;
}

/* Read the settings from the model's folder. has_file: an mmproj file has given the tower's
 * settings already. */
static enum status read_folder(const struct model *m, bool has_file, struct vision_config *c,
			       bool *out_has, struct fail *fail)
{
	json_t *root = NULL;
	enum vision_kind kind = VISION_QWEN;
	enum status st = jsonfile_load(m->dir, "config.json", MAX_BYTES, &root, fail);
	const char *type = json_string_value(jsonfile_get(root, "model_type"));
	const struct vision_reader *r = find_reader(type, &kind);
	*out_has = r && (has_file || m->has_vision);
	if (st == OK && !r)
		st = fail_at(fail, E_UNSUPPORTED, "model_type", "the vision tower of %s is not "
			     "supported", type ? type : "this model");
	if (st == OK && *out_has && has_file && kind != c->kind)
		st = fail_set(fail, E_FORMAT, "the mmproj file is of another kind of model "
			      "than %s", type);
	c->kind = kind;
	if (st == OK && *out_has)
		st = read_all(model_config_outer(root), m, has_file, r, c, fail);
	if (st == OK && *out_has)
		st = vision_config_video(model_config_outer(root), type, m, m->dir, c, fail);
	json_decref(root);
	return st;
}

/* Read the settings if model and tower are both GGUF files. */
static enum status read_files(const struct model *m, const struct tensors *mmproj,
			      struct vision_config *c, bool *out_has, struct fail *fail)
{
	const char *path = tensors_dir(mmproj), *slash = strrchr(path, '/');
	char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
	enum status st = readers[c->kind]->text(NULL, m, c, fail);
	if (st == OK)
		st = load_processor(dir, readers[c->kind], c, fail);
	/* A file with audio is Qwen3-Omni's. */
	bool is_omni = gguf_find(tensors_gguf(mmproj), "clip.audio.projector_type");
	if (st == OK)
		st = vision_config_video(NULL, is_omni ? VISION_OMNI : NULL, m, dir, c, fail);
	free(dir);
	*out_has = true;
	return st;
}

enum status vision_config_read(const struct model *m, const struct tensors *mmproj,
			       struct vision_config *out, bool *out_has, struct fail *fail)
{
	*out = (struct vision_config){0};
	*out_has = false;
	bool is_file = tensors_gguf(m->tensors);
	if ((!mmproj && (is_file || !m->has_vision)) || (mmproj && !vision_gguf_has(mmproj)))
		return OK;
	enum status st = mmproj ? vision_gguf_read(mmproj, out, fail) : OK;
	if (st == OK)
		st = is_file ? read_files(m, mmproj, out, out_has, fail)
			     : read_folder(m, mmproj != NULL, out, out_has, fail);
	out->image_rules.token = out->token;
	if (st == OK && *out_has && (out->token < 0 || out->token >= m->config.n_vocab))
		return fail_at(fail, E_FORMAT, "image_token_id", "image_token_id %d is outside "
			       "the vocabulary", (int)out->token);
	if (st == OK && *out_has && out->out_width != m->config.d_model)
		return fail_at(fail, E_FORMAT, "out_hidden_size", "the vision tower's rows of "
			       "%d numbers do not fit the text model's width of %d",
			       (int)out->out_width, (int)m->config.d_model);
	return st;
}
