/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of a vision tower and of the image processor before it. Thread: any.
 */
#pragma once
#include "engine/engine.h"
#include "image/image.h"
#include "model/model.h"

enum { VISION_MAX_DEEP = 8 };

enum vision_kind {
	VISION_QWEN,    /* Qwen3-VL, Qwen3.5 and later */
	VISION_PIXTRAL, /* Mistral 3 */
	VISION_SIGLIP,  /* Gemma 3 */
	VISION_GEMMA4,
	VISION_PLAIN,   /* Gemma 4 Unified: tokens of pixels, without layers */
};

struct vision_config {
	enum vision_kind kind;
	int32_t depth, width, n_heads, ffn_dim;
	int32_t patch;        /* pixels of a patch's side */
	int32_t merge;        /* patches along each side of a token */
	int32_t frames;       /* an image is so many equal frames of a film */
	int32_t out_width;    /* the text model's width */
	int32_t side;         /* of the square of learned positions; 0: there are none.
			       * VISION_GEMMA4 and VISION_PLAIN: positions of
			       * each of two lists */
	bool is_tanh;         /* GELU by tanh */
	struct activation gate; /* where the mlp is gated */
	double norm_eps, out_eps; /* of the layers, of the norm behind them */
	bool has_out_bias;    /* what makes tokens has biases */
	bool is_clipped;      /* matrices have ranges for what goes in and comes out */
	bool is_standard;     /* tokens are shifted and scaled before they leave the tower */
	double theta;         /* of the rope; 0: there is none */
	int32_t n_deep, deep_at[VISION_MAX_DEEP]; /* layers that are also handed on */
	int32_t token;        /* image_token_id */
	int32_t n_gap;        /* tokens of text behind each row of an image's tokens */
	int32_t break_token, end_token; /* those, and the last of them */
	const char *shown, *spelled; /* vision_spelling; or NULL */
	struct engine_sight sight;
	/* of the image processor */
	int64_t min_pixels, max_pixels;
	int32_t max_side;     /* VISION_PIXTRAL; VISION_SIGLIP: of every image, both ways */
	enum image_filter filter;
	double mean[3], std[3];
};

/* Images are as near to max_pixels as they can be. */
static inline bool vision_config_fills(const struct vision_config *c)
{
	return c->kind == VISION_GEMMA4 || c->kind == VISION_PLAIN;
}

/* Tokens of an image of max_side x max_side. */
static inline int32_t vision_config_tokens(const struct vision_config *c)
{
	int32_t n = c->max_side / (c->patch * c->merge);
	return n * (n + c->n_gap);
}

/* Numbers of a patch: (3, frames, patch, patch). */
static inline int32_t vision_config_patch_dim(const struct vision_config *c)
{
	return 3 * c->frames * c->patch * c->patch;
}

/* From config.json, and preprocessor_config.json or processor_config.json, of m's folder. Or
 * from mmproj, a tower in a GGUF file of its own, with the processor's file beside it where
 * there is one; NULL: none. *out_has false: the model has no tower. E_UNSUPPORTED:
 * it has one of a kind that is not known here. */
enum status vision_config_read(const struct model *m, const struct tensors *mmproj,
			       struct vision_config *out, bool *out_has,
			       struct fail *fail) MUST_USE;
