/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/predict_tower.h"

#include <stdio.h>
#include <stdlib.h>

#include "audio/mel.h"
#include "base/alloc.h"
#include "sound/sound_tower.h"
#include "vision/vision_config.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower.h"

struct predict_tower {
	struct vision_config sees;
	struct vision_tower *vision;
	struct image image; /* a black image as large as the tower sees it */
	struct sound_config hears;
	struct sound_tower *sound;
	struct sound_piece clip; /* silence */
	float *mel, *rows;
	char name[120];
};

/* --- images --------------------------------------------------------------------- */

static enum status size_image(struct predict_tower *p, int32_t side, struct fail *fail)
{
	const struct vision_config *c = &p->sees;
	struct image *m = &p->image;
	enum status st = vision_patches_size(c, side, side, &m->width, &m->height, fail);
	if (st != OK)
		return st;
	int32_t n = m->width / c->patch * (m->height / c->patch);
	int32_t n_rows = n / (c->merge * c->merge);
	m->rgb = xcalloc((size_t)m->width * (size_t)m->height, 3);
	p->rows = xcalloc((size_t)(1 + c->n_deep) * (size_t)n_rows * (size_t)c->out_width,
			  sizeof *p->rows);
	snprintf(p->name, sizeof p->name, "image of %d x %d pixels: %d patches, %d tokens",
		 (int)side, (int)side, (int)n,
		 (int)(n_rows + m->height / (c->patch * c->merge) * c->n_gap));
	return OK;
}

static enum status open_vision(struct predict_tower *p, const struct model *m,
			       struct backend *b, int32_t side, struct fail *fail)
{
	bool has_tower = false;
	enum status st = vision_config_read(m, NULL, &p->sees, &has_tower, fail);
	if (st == OK && !has_tower)
		st = fail_set(fail, E_UNSUPPORTED, "the model's folder has no vision tower");
	if (st == OK)
		st = size_image(p, side, fail);
	return st == OK ? vision_tower_create(m->tensors, b, &p->sees, &p->vision, fail) : st;
}

/* --- audio ---------------------------------------------------------------------- */

static enum status open_sound(struct predict_tower *p, const struct model *m, struct backend *b,
			      int32_t seconds, struct fail *fail)
{
	const struct sound_config *c = &p->hears;
	bool has_tower = false;
	enum status st = sound_config_read(m, NULL, &p->hears, &has_tower, fail);
	if (st == OK && !has_tower)
		st = fail_set(fail, E_UNSUPPORTED, "the model's folder has no audio tower");
	if (st != OK)
		return st;
	int32_t n = seconds * (AUDIO_RATE / MEL_HOP);
	if (c->format.each)
		n = ROUND_UP(n, c->format.each / MEL_HOP);
	int32_t n_tok = sound_config_tokens(c, n);
	p->mel = xcalloc((size_t)c->format.n_mels * (size_t)n, sizeof *p->mel);
	p->rows = xcalloc((size_t)n_tok * (size_t)c->out_width, sizeof *p->rows);
	p->clip = (struct sound_piece){p->mel, n, 0};
	snprintf(p->name, sizeof p->name, "audio of %d s: %d tokens", (int)seconds, (int)n_tok);
	return sound_tower_create(m->tensors, b, c, &p->sound, fail);
}

static enum status run_sound(struct predict_tower *p, struct fail *fail)
{
	enum status st = OK;
	struct sound_piece piece = p->clip;
	for (; piece.at < piece.n_frames && st == OK; piece.at += sound_tower_step(p->sound)) {
		size_t tok = (size_t)sound_config_tokens(&p->hears, piece.at);
		st = sound_tower_run(p->sound, &piece, p->rows + tok * (size_t)p->hears.out_width,
				     fail);
	}
	return st;
}

/* --- both ----------------------------------------------------------------------- */

enum status predict_tower_open(const struct model *m, struct backend *b,
			       const struct predict_tower_opts *o, struct predict_tower **out,
			       struct fail *fail)
{
	struct predict_tower *p = xcalloc(1, sizeof *p);
	enum status st = o->side ? open_vision(p, m, b, o->side, fail)
				 : open_sound(p, m, b, o->seconds, fail);
	if (st != OK) {
		predict_tower_close(p);
		return st;
	}
	*out = p;
	return OK;
}

const char *predict_tower_name(const struct predict_tower *p)
{
	return p->name;
}

enum status predict_tower_run(struct predict_tower *p, struct fail *fail)
{
	return p->vision ? vision_tower_run(p->vision, &(struct vision_pixels){&p->image, 1},
					    p->rows, fail)
			 : run_sound(p, fail);
}

void predict_tower_close(struct predict_tower *p)
{
	if (!p)
		return;
	vision_tower_destroy(p->vision);
	sound_tower_destroy(p->sound);
	free(p->image.rgb);
	free(p->mel);
	free(p->rows);
	free(p);
}
