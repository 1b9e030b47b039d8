/* SPDX-License-Identifier: Apache-2.0
 *
 * Images and sounds in prompts, as the engine takes them. Thread: any (plain data).
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* An image in a prompt. Its tokens lie together, row after row of the image, and each has a
 * row of numbers that takes the place of its embedding (engine_opts.image_rules). After each row
 * there may be tokens that keep their embeddings, such as [IMG_BREAK]. */
struct engine_image {
	int32_t at, n;          /* first token of the prompt; tokens, n_rows * (n_cols + n_gap) */
	int32_t n_rows, n_cols; /* rows and columns of tokens */
	int32_t n_gap;          /* tokens after each row that keep their embeddings */
	/* A clip of sound: one row of n tokens, whose positions go on as text does. They see no
	 * later ones, and no rows are added after layers. */
	bool is_sound;
	/* It shows further frames of the video to which the image before belongs. Rows and columns
	 * begin where the video's do. Their time is `time` positions after the video's first. Of a
	 * sound: it is part of that video's sound, and its first token is there. */
	bool goes_on;
	int32_t time;
	/* Images with the same hash have the same rows. The prefix cache tells images apart
	 * by it. */
	uint8_t hash[32];
	/* Host (1 + n_deep, n_rows * n_cols, D): rows in place of embeddings, then rows that are
	 * added after layer 0, 1, …; of a sound (n, D) */
	const float *rows;
};

/* What a model's text part has for images. Positions have three axes (M-RoPE, Qwen2-VL,
 * 2024, section 2.1): pair i of a head rotates by the height where i % 3 is 1 and i is below
 * 3 n_height, by the width where i % 3 is 2 and i is below 3 n_width, else by the time. */
struct engine_image_rules {
	bool is_flat; /* positions have one axis: an image's tokens go on as text does */
	/* An image's tokens also see later tokens of the same image, in all layers or only in
	 * those with a window. The window itself still holds. */
	enum { IMAGE_CAUSAL, IMAGE_BIDIRECTIONAL, IMAGE_BIDIRECTIONAL_LOCAL } seen;
	int32_t token;  /* all tokens of an image are this one */
	int32_t n_deep; /* first layers after which rows are added (DeepStack, 2024) */
	int32_t n_height, n_width;
	/* For models that read more of a token than its embedding: the token that they read in
	 * place of an image's. */
	bool has_stand_in; /* false: they read the image's own token */
	int32_t stand_in;
};

/* The tokens of a step that belong to one image. */
struct engine_view {
	int32_t tok, n;  /* first token of the step; tokens */
	int32_t first;   /* number of the image's row that token tok has */
	const struct engine_image *image;
};
