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
	VISION_PLAIN,   /* Gemma 4 Unified: tokens directly from pixels, without layers */
};

/* A model that takes video: its frames are made one size, and each token spans as many of them as
 * a patch. */
struct vision_video {
	int32_t token; /* video_token_id; 0: the model takes no video */
	/* Pixels of all frames together. */
	int64_t min_pixels, max_pixels;
	/* How frames of a file are chosen: so many a second, within these bounds. */
	double fps;
	int32_t min_frames, max_frames;
	int32_t frame_tokens;  /* most tokens of a frame (cap_pixels_per_frame); 0: no bound */
	/* Qwen3-Omni: the bounds of pixels are a frame's, and a second is so many positions. 0: the
	 * frames' times stand in the text. */
	double second;
	int64_t patch_pixels;  /* most pixels of a frame, from the largest image that is allowed */
};

struct vision_config {
	enum vision_kind kind;
	int32_t depth, width, n_heads, ffn_dim;
	int32_t patch;        /* side of a patch in pixels */
	int32_t merge;        /* a token is made of merge x merge patches */
	int32_t frames;       /* frames of a video that a patch spans; an image counts as that
			       * many equal frames */
	int32_t out_width;    /* the text model's width */
	int32_t side;         /* side of the square of learned positions; 0: there are none.
			       * VISION_GEMMA4 and VISION_PLAIN: length of each of the two lists
			       * of positions */
	bool is_tanh;         /* GELU by tanh */
	struct activation gate; /* activation, if the mlp is gated */
	double norm_eps, out_eps; /* eps of the layers' norms, and of the norm after the layers */
	bool has_out_bias;    /* true: the projection to tokens has biases */
	bool is_clipped;      /* true: inputs and outputs of matrices are clamped to ranges */
	bool is_standard;     /* tokens are shifted and scaled before they leave the tower */
	double theta;         /* base of the rope; 0: no rope */
	int32_t n_deep, deep_at[VISION_MAX_DEEP]; /* layers whose output the text model also
						   * reads (deepstack) */
	int32_t token;        /* image_token_id */
	struct vision_video video;
	int32_t n_gap;        /* text tokens after each row of an image's tokens */
	int32_t break_token, end_token; /* the text token after a row, and after the last row */
	const char *shown, *spelled; /* see vision_spelling; or NULL */
	struct engine_image_rules image_rules;
	/* settings of the image processor */
	int64_t min_pixels, max_pixels;
	int32_t max_side;     /* VISION_PIXTRAL: longest side; VISION_SIGLIP: both sides of every
			       * image */
	enum image_filter filter;
	double mean[3], std[3];
};

/* True if each image is scaled as near to max_pixels as its shape allows. */
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

/* Reads config.json and preprocessor_config.json or processor_config.json of m's folder. If
 * mmproj is not NULL, the tower's settings come from this GGUF file, and the processor's from a
 * file beside it if there is one. *out_has false: the model has no tower. E_UNSUPPORTED: a kind
 * of tower that is not known here. */
enum status vision_config_read(const struct model *m, const struct tensors *mmproj,
			       struct vision_config *out, bool *out_has,
			       struct fail *fail) MUST_USE;
