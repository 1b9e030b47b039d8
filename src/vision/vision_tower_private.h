/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by vision_load.c, vision_tower.c, vision_layer.c and vision_head.c: the weights of a
 * tower and its working memory. Thread: one at a time.
 */
#pragma once
#include "engine/tower.h"
#include "vision/vision_tower.h"

struct vision_range {
	float low, high;
	bool cuts; /* false: the range is all numbers */
};
struct vision_linear {
	struct weight w;
	const float *bias;
	struct vision_range in, out; /* VISION_GEMMA4: ranges of input and output */
};
/* Without a bias it is an RMS norm. */
struct vision_norm {
	const float *weight, *bias;
};
struct vision_layer {
	struct vision_norm norm1, norm2;
	struct vision_norm post1, post2; /* norms of what a layer adds; weight NULL: there are
					  * none */
	const float *q_norm, *k_norm;    /* norms over each head; or NULL */
	struct vision_linear q, k, v, out, gate, up, down; /* gate.w.n 0: there is none */
};
/* Makes a token of neighbouring patches. */
struct vision_merger {
	struct vision_norm norm;
	struct vision_linear merge; /* VISION_PIXTRAL: over all neighbours */
	struct vision_norm mean;    /* VISION_SIGLIP, VISION_GEMMA4: norm of the neighbours'
				     * mean */
	struct vision_linear up, down;
	bool is_late; /* the norm is over all neighbours together */
};

enum { VISION_ARRAYS = 17 }; /* number of device arrays in a vision_run */

struct vision_tower {
	struct vision_config c;
	struct backend *b;
	struct vision_linear patch;   /* its rows may end with zeros: K is a multiple of 8 */
	struct vision_norm norm0;     /* before the layers; weight NULL: there is none */
	struct vision_norm plain[3];  /* VISION_PLAIN: norms of the pixels, of the rows, and of
				       * rows + positions */
	struct tower_memory memory;
	float *places;                /* learned positions on the host, (side, side, width); or
				       * NULL. VISION_GEMMA4, VISION_PLAIN: (2, n_places, width),
				       * first of columns, then of rows */
	int32_t n_places;
	const float *ones;            /* VISION_GEMMA4, VISION_PLAIN: (width) ones, weights of
				       * norms without weights */
	const float *shift, *factor;  /* host (width): a token is (x - shift) * factor; or NULL */
	struct vision_layer *layers;  /* (depth) */
	struct vision_merger merger[1 + VISION_MAX_DEEP]; /* that of the last layer, then those
							   * of deep_at */
	void *kept[VISION_ARRAYS];    /* the arrays that vision_tower_keep took */
	int32_t n_kept;               /* patches that `kept` has room for */
};

/* Fills the weights of t, whose c, b and layers are set. */
enum status vision_load(struct vision_tower *t, const struct tensors *tensors,
			struct fail *fail) MUST_USE;

enum { VISION_CHUNK = 512, VISION_PAGE = 64 };

/* The processing of one image. T: its patches, C: VISION_CHUNK, D: width. */
struct vision_run {
	struct vision_tower *t;
	struct vision_pixels pixels;
	int32_t n, n_cols; /* patches in all, and in a row */
	struct fail *fail;
	float *x;          /* (T, D) */
	float *rope;       /* (T, K/2, 2) */
	void *norm;        /* (C, D), or a merger's (C/merge^2, merge^2 D) */
	void *q, *y;       /* (T, D) */
	void *k, *v;       /* (C, D) */
	void *wide, *wide2; /* (C, ffn_dim), or a merger's, or (C, patch_dim) */
	void *k_pages, *v_pages;
	float *out;        /* (C, out_width) */
	int32_t *slot, *last, *seq_of, *first_tok, *table;
	float *host;       /* (C, D or patch_dim) */
	char *sent;        /* the same rows in act_type, to upload or after a download; rows of
			    * patches have patch.w.k numbers */
};

/* Queue an operation, or return from the caller with its failure. */
#define VISION_RUN(op, ...) do { \
	struct backend *b_ = r->t->b; \
	enum status st_ = b_->ops->op(b_, &(struct op##_args){__VA_ARGS__}); \
	if (st_ != OK) \
		return fail_set(r->fail, st_, "vision: " #op " failed: %s", \
				backend_why(b_, st_)); \
} while (0)

#define VISION_LINEAR(lin, in, out_, n_, ...) \
	VISION_RUN(linear, .n_tok = n_, .x = in, .n_out = 1, \
		   .out = {{.w = &(lin).w, .bias = (lin).bias, .y = out_, __VA_ARGS__}})

/* vision_plain.c: a tower of VISION_PLAIN. */
enum status vision_plain_run(struct vision_run *r, float *rows) MUST_USE;

/* vision_layer.c */
enum status vision_layer_run(struct vision_run *r, const struct vision_layer *l) MUST_USE;

/* vision_tower.c. The learned positions of patch i, (D). */
void vision_tower_place(const struct vision_run *r, int32_t i, float *out);

/* vision_head.c. Downloads n rows of r->out to *io_rows, and moves *io_rows to the end of them. */
enum status vision_head_fetch(struct vision_run *r, int32_t n, float **io_rows) MUST_USE;
/* Arguments of vision_head_norm: y is the norm w of n rows of dim numbers. */
struct vision_norming {
	const struct vision_norm *w;
	int32_t n, dim;
	double eps;
	float *x; /* (n, dim) */
	void *y;  /* (n, dim) act_type */
};
enum status vision_head_norm(struct vision_run *r, const struct vision_norming *a) MUST_USE;
/* Merges the current x to rows (n / merge^2, out_width) on the host, by a merger of
 * VISION_QWEN. */
enum status vision_head_merge(struct vision_run *r, const struct vision_merger *m,
			      float *rows) MUST_USE;
/* Makes the tower's rows after the last layer, for any kind of tower. */
enum status vision_head_run(struct vision_run *r, float *rows) MUST_USE;
