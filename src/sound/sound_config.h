/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of an audio tower and of the spectrogram before it. Thread: any.
 */
#pragma once
#include "sound/sound.h"

struct sound_config {
	int32_t n_layers, width, n_heads, ffn_dim;
	int32_t n_mels;    /* numbers of a frame */
	int32_t channels;  /* of each of the three convolutions */
	int32_t chunk;     /* frames that the convolutions see alone */
	int32_t window;    /* chunks whose tokens see each other */
	int32_t out_width; /* the text model's width */
	bool pads;         /* a clip shorter than a chunk is filled with zeros, too */
	int32_t token;     /* audio_token_id */
	struct sound_format format;
};

/* How many of n rows or columns a convolution leaves (3 wide, steps of 2, a zero around). */
static inline int32_t sound_config_halved(int32_t n)
{
	return (n + 1) / 2;
}

/* What all three convolutions leave. */
static inline int32_t sound_config_left(int32_t n)
{
	return sound_config_halved(sound_config_halved(sound_config_halved(n)));
}

/* Tokens of a clip of n frames. */
static inline int32_t sound_config_tokens(const struct sound_config *c, int32_t n)
{
	return n / c->chunk * sound_config_left(c->chunk) + sound_config_left(n % c->chunk);
}

/* Tokens that see each other, at most. */
static inline int32_t sound_config_window(const struct sound_config *c)
{
	return c->window * sound_config_left(c->chunk);
}

/* Reads config.json, and preprocessor_config.json or processor_config.json, of m's folder.
 * *out_has false: the model has no audio tower, or one of a kind that is not known here.
 * E_UNSUPPORTED: a setting that is not known. */
enum status sound_config_read(const struct model *m, struct sound_config *out, bool *out_has,
			      struct fail *fail) MUST_USE;
