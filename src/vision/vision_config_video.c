/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of video, of models that show its frames as Qwen3-VL does. Sources:
 * video_processing_qwen3_vl.py, video_processing_utils.py and processing_qwen3_omni_moe.py of
 * Hugging Face Transformers.
 */
#include <string.h>

#include "base/alloc.h"
#include "vision/vision.h"
#include "vision/vision_config_private.h"

#define MAX_BYTES ((size_t)1 << 20)

/* A folder has the settings in one of three files, the first of these. */
static enum status load(const char *dir, json_t **out, struct fail *fail)
{
	static const char *const names[] = {"video_preprocessor_config.json",
					    "preprocessor_config.json"};
	json_t *all = NULL;
	struct fail why = {0};
	enum status st = jsonfile_load(dir, "processor_config.json", MAX_BYTES, &all, &why);
	*out = json_incref((json_t *)jsonfile_get(all, "video_processor"));
	json_decref(all);
	for (size_t i = 0; i < ARRAY_LEN(names) && !*out && (st == OK || st == E_MISSING); i++)
		st = jsonfile_load(dir, names[i], MAX_BYTES, out, &why);
	if (st == OK || st == E_MISSING)
		return OK;
	if (fail)
		*fail = why;
	return st;
}

/* Of every published checkpoint, and of qwen-vl-utils. */
static void set_plain_choice(struct vision_video *v)
{
	v->fps = 2;
	v->min_frames = 4;
	v->max_frames = VISION_MAX_CHOSEN;
}

static int64_t number(const json_t *from, const char *key, int64_t fallback)
{
	const json_t *v = jsonfile_get(from, key);
	return json_is_integer(v) && json_integer_value(v) > 0 ? json_integer_value(v) : fallback;
}

/* Frames are patched as images are, with the same colours. */
static bool is_like_images(const json_t *file, const struct vision_config *c)
{
	struct vision_config own = *c;
	if (vision_config_colours(file, &own, NULL) != OK ||
	    vision_config_resample(file, RESAMPLE_BICUBIC, NULL) != OK)
		return false;
	return memcmp(own.mean, c->mean, sizeof own.mean) == 0 &&
	       memcmp(own.std, c->std, sizeof own.std) == 0 &&
	       number(file, "patch_size", c->patch) == c->patch &&
	       number(file, "merge_size", c->merge) == c->merge &&
	       number(file, "temporal_patch_size", c->frames) == c->frames;
}

static int32_t find_token(const json_t *root, const char *type, const struct model *m)
{
	static const char *const types[] = {"qwen3_vl", "qwen3_vl_moe", "qwen3_5",
					    "qwen3_5_moe", VISION_OMNI};
	if (!root) /* Qwen3-VL's and Qwen3.5's texts, not Qwen4-Exp's */
		return strncmp(m->config.arch, "qwen3", 5) == 0
			       ? MAX(0, tokenizer_find(m->tokenizer, STR("<|video_pad|>"))) : 0;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(type, types[i]) == 0)
			return (int32_t)number(root, "video_token_id", 0);
	return 0;
}

/* Of Qwen3-Omni its processor has the bounds, and no file. */
static enum status read_omni(const json_t *root, int32_t token, struct vision_config *c)
{
	const json_t *second = jsonfile_get(root, "position_id_per_seconds");
	set_plain_choice(&c->video);
	int64_t pixels = (int64_t)c->patch * c->merge * c->patch * c->merge; /* of a token */
	double n = second ? json_number_value(second) : 13;
	c->video.min_pixels = 128 * pixels;
	c->video.max_pixels = 768 * pixels;
	c->video.second = n;
	c->video.token = n > 0 && n <= 1000 ? token : 0;
	return OK;
}

enum status vision_config_video(const json_t *root, const char *type, const struct model *m,
				const char *dir, struct vision_config *c, struct fail *fail)
{
	struct vision_video *v = &c->video;
	json_t *file = NULL;
	int32_t token = c->kind == VISION_QWEN && c->frames <= VISION_MAX_FRAMES
				? find_token(root, type, m) : 0;
	if (token <= 0 || token >= m->config.n_vocab)
		return OK;
	if (type && strcmp(type, VISION_OMNI) == 0)
		return read_omni(root, token, c);
	enum status st = load(dir, &file, fail);
	const json_t *size = jsonfile_get(file, "size");
	/* Without a file: as published checkpoints have it. */
	v->min_pixels = number(size, "shortest_edge", number(file, "min_pixels", 4096));
	v->max_pixels = number(size, "longest_edge", number(file, "max_pixels", 25165824));
	const json_t *fps = jsonfile_get(file, "fps");
	set_plain_choice(v);
	v->min_frames = (int32_t)MIN(number(file, "min_frames", v->min_frames), VISION_MAX_CHOSEN);
	v->max_frames = (int32_t)MIN(number(file, "max_frames", v->max_frames), VISION_MAX_CHOSEN);
	if (json_is_number(fps) && json_number_value(fps) >= 0.01)
		v->fps = MIN(json_number_value(fps), 1000);
	if (json_is_true(jsonfile_get(file, "cap_pixels_per_frame")))
		v->frame_tokens = (int32_t)MIN(number(file, "max_video_tokens", 768), 1 << 20);
	v->token = st == OK && is_like_images(file, c) ? token : 0;
	json_decref(file);
	return st;
}
