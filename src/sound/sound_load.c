/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the weights of an audio tower by their names. A convolution's matrix gets the columns in
 * the order in which places are gathered: each place with all its channels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sound/sound_tower_private.h"

#define PREFIX "thinker.audio_tower."

/* PREFIX, name and end. */
static const char *full_name(const char *name, const char *end, char out[200])
{
	snprintf(out, 200, PREFIX "%s%s", name, end);
	return out;
}

static void load_bias(struct tower_loader *l, const char *name, int32_t n,
		      struct sound_linear *out)
{
	char full[200];
	out->bias = tower_floats(l, full_name(name, ".bias", full), n, 0, n);
}

static void load_linear(struct tower_loader *l, const char *name, int32_t n, int32_t k,
			struct sound_linear *out)
{
	char full[200];
	tower_load(l, full_name(name, ".weight", full), n, k, &out->w);
	load_bias(l, name, n, out);
}

static void load_norm(struct tower_loader *l, const char *name, int32_t n,
		      struct sound_norm *out)
{
	char full[200];
	out->weight = tower_floats(l, full_name(name, ".weight", full), n, 0, n);
	out->bias = tower_floats(l, full_name(name, ".bias", full), n, 0, n);
}

/* Loads a matrix whose columns the file orders by channel, then by place: here the place comes
 * first. A row has `pitch` numbers here, with zeros at its end. */
static void load_places_first(struct tower_loader *l, const char *name, int32_t n,
			      int32_t n_channels, int32_t n_places, int32_t pitch,
			      struct sound_linear *out)
{
	char full[200];
	struct weight host;
	int32_t k = n_channels * n_places;
	if (!tower_matrix(l, full_name(name, ".weight", full), n, k, &host))
		return;
	float *rows = xcalloc((size_t)n * (size_t)pitch, sizeof *rows);
	float *one = xmalloc((size_t)k * sizeof *one);
	tower_keep(l, rows);
	for (int32_t i = 0; i < n; i++) {
		float *row = rows + (size_t)i * (size_t)pitch;
		weight_decode(&host, i, i + 1, one);
		for (int32_t at = 0; at < k; at++)
			row[at % n_places * n_channels + at / n_places] = one[at];
	}
	free(one);
	const struct weight ordered = {.quant = QUANT_F32, .n = n, .k = pitch, .group = pitch,
				       .q = rows, .name = host.name};
	tower_send(l, &ordered, (size_t)pitch, &out->w);
}

static void load_front(struct tower_loader *l, struct sound_tower *t)
{
	const struct sound_config *c = &t->c;
	load_places_first(l, "conv2d1", c->channels, 1, SIDE, FIRST_K, &t->conv[0]);
	load_places_first(l, "conv2d2", c->channels, c->channels, SIDE, SIDE * c->channels,
			  &t->conv[1]);
	load_places_first(l, "conv2d3", c->channels, c->channels, SIDE, SIDE * c->channels,
			  &t->conv[2]);
	load_bias(l, "conv2d1", c->channels, &t->conv[0]);
	load_bias(l, "conv2d2", c->channels, &t->conv[1]);
	load_bias(l, "conv2d3", c->channels, &t->conv[2]);
	int32_t left = sound_config_left(c->n_mels);
	load_places_first(l, "conv_out", c->width, c->channels, left, left * c->channels,
			  &t->embed);
}

static void load_layer(struct tower_loader *l, const struct sound_config *c, int i,
		       struct sound_layer *to)
{
	char name[120];
	int32_t d = c->width;
#define NAME(of) (snprintf(name, sizeof name, "layers.%d." of, i), name)
	load_norm(l, NAME("self_attn_layer_norm"), d, &to->norm1);
	load_linear(l, NAME("self_attn.q_proj"), d, d, &to->q);
	load_linear(l, NAME("self_attn.k_proj"), d, d, &to->k);
	load_linear(l, NAME("self_attn.v_proj"), d, d, &to->v);
	load_linear(l, NAME("self_attn.out_proj"), d, d, &to->out);
	load_norm(l, NAME("final_layer_norm"), d, &to->norm2);
	load_linear(l, NAME("fc1"), c->ffn_dim, d, &to->up);
	load_linear(l, NAME("fc2"), d, c->ffn_dim, &to->down);
#undef NAME
}

enum status sound_load(struct sound_tower *t, const struct tensors *tensors, struct fail *fail)
{
	const struct sound_config *c = &t->c;
	struct tower_loader l = {.b = t->b, .tensors = tensors, .whose = "the audio tower's",
				 .memory = &t->memory, .fail = fail};
	load_front(&l, t);
	for (int i = 0; i < c->n_layers && l.st == OK; i++)
		load_layer(&l, c, i, &t->layers[i]);
	load_norm(&l, "ln_post", c->width, &t->norm);
	load_linear(&l, "proj1", c->width, c->width, &t->up);
	load_linear(&l, "proj2", c->out_width, c->width, &t->down);
	return l.st == OK ? OK : fail_default(fail, l.st);
}

int64_t sound_tower_weight_bytes(const struct tensors *tensors)
{
	int64_t n_bytes = 0;
	for (size_t i = 0; i < tensors_count(tensors); i++) {
		const struct tensor *t = tensors_at(tensors, i);
		n_bytes += str_starts(str_of(t->name), STR(PREFIX)) ? (int64_t)t->n_bytes : 0;
	}
	return n_bytes;
}
