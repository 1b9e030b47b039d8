/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of an audio tower and of the spectrogram before it. Thread: any.
 */
#pragma once
#include "sound/sound.h"

struct sound_config {
	int32_t n_layers, width, n_heads, ffn_dim;
	int32_t n_mels;    /* numbers of a frame */
	/* Two convolutions over frames, as Whisper's encoder has them, in place of three over
	 * numbers and frames. Positions are those of the file. */
	bool is_conv1d;
	int32_t channels;  /* of each convolution */
	int32_t chunk;     /* frames that the convolutions see alone */
	int32_t window;    /* chunks whose places see each other */
	int32_t joined;    /* places that become one token */
	int32_t mid_width; /* numbers between the two last matrices */
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

/* What all convolutions leave. The first of two has steps of 1. */
static inline int32_t sound_config_left(const struct sound_config *c, int32_t n)
{
	n = sound_config_halved(n);
	return c->is_conv1d ? n : sound_config_halved(sound_config_halved(n));
}

/* Places of a clip of n frames: what the layers see. */
static inline int32_t sound_config_places(const struct sound_config *c, int32_t n)
{
	return n / c->chunk * sound_config_left(c, c->chunk) + sound_config_left(c, n % c->chunk);
}

/* Tokens of such a clip. */
static inline int32_t sound_config_tokens(const struct sound_config *c, int32_t n)
{
	return sound_config_places(c, n) / c->joined;
}

/* Places that see each other, at most. */
static inline int32_t sound_config_window(const struct sound_config *c)
{
	return c->window * sound_config_left(c, c->chunk);
}

/* Reads config.json, and preprocessor_config.json or processor_config.json, of m's folder; with
 * mmproj that file of sound_gguf_open. *out_has false: the model has no audio tower, or one of a
 * kind that is not known here. E_UNSUPPORTED: a setting that is not known. */
enum status sound_config_read(const struct model *m, const struct tensors *mmproj,
			      struct sound_config *out, bool *out_has,
			      struct fail *fail) MUST_USE;
