/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/predict_image.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "vision/vision_config.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower.h"

struct predict_image {
	struct vision_config config;
	struct vision_tower *tower;
	struct image image; /* a black image as large as the tower sees it */
	float *rows;
	char name[120];
};

static enum status size_image(struct predict_image *p, int32_t side, struct fail *fail)
{
	const struct vision_config *c = &p->config;
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

enum status predict_image_open(const struct model *m, struct backend *b, int32_t side,
			       struct predict_image **out, struct fail *fail)
{
	struct predict_image *p = xcalloc(1, sizeof *p);
	bool has_tower = false;
	enum status st = vision_config_read(m, NULL, &p->config, &has_tower, fail);
	if (st == OK && !has_tower)
		st = fail_set(fail, E_UNSUPPORTED, "the model's folder has no vision tower");
	if (st == OK)
		st = size_image(p, side, fail);
	if (st == OK)
		st = vision_tower_create(m->tensors, b, &p->config, &p->tower, fail);
	if (st != OK) {
		predict_image_close(p);
		return st;
	}
	*out = p;
	return OK;
}

const char *predict_image_name(const struct predict_image *p)
{
	return p->name;
}

enum status predict_image_run(struct predict_image *p, struct fail *fail)
{
	return vision_tower_run(p->tower, &p->image, p->rows, fail);
}

void predict_image_close(struct predict_image *p)
{
	if (!p)
		return;
	vision_tower_destroy(p->tower);
	free(p->image.rgb);
	free(p->rows);
	free(p);
}
