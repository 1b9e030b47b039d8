/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the weights of an audio tower by their names. A convolution's matrix gets the columns in
 * the order in which places are gathered: each place with all its channels.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sound/sound_tower_private.h"

/* The names of Qwen's files, those of Transformers' own files of Qwen3-ASR, and Voxtral's. */
static const struct names {
	const char *prefix, *up, *down; /* prefix: of all but up and down */
} names[] = {{"thinker.audio_tower.", "thinker.audio_tower.proj1", "thinker.audio_tower.proj2"},
	     {"model.audio_tower.", "model.multi_modal_projector.linear_1",
	      "model.multi_modal_projector.linear_2"},
	     {"audio_tower.", "multi_modal_projector.linear_1",
	      "multi_modal_projector.linear_2"}};

struct sound_loader {
	struct tower_loader in;
	const struct names *names;
};

static const char *full_name(const struct sound_loader *l, const char *name, const char *end,
			     char out[200])
{
	snprintf(out, 200, "%s%s%s", l->names->prefix, name, end);
	return out;
}

static const float *load_floats(struct sound_loader *l, const char *name, const char *end,
				int32_t n)
{
	char full[200];
	return tower_floats(&l->in, full_name(l, name, end, full), n, 0, n);
}

static void load_matrix(struct sound_loader *l, const char *name, int32_t n, int32_t k,
			struct sound_linear *out)
{
	char full[200];
	tower_load(&l->in, full_name(l, name, ".weight", full), n, k, &out->w);
}

static void load_linear(struct sound_loader *l, const char *name, int32_t n, int32_t k,
			struct sound_linear *out)
{
	load_matrix(l, name, n, k, out);
	out->bias = load_floats(l, name, ".bias", n);
}

/* The two last matrices, which have their whole names. */
static void load_ends(struct sound_loader *l, struct sound_tower *t)
{
	const struct names *own = l->names, none = {.prefix = ""};
	const struct sound_config *c = &t->c;
	int32_t mid = c->mid_width;
	l->names = &none;
	load_matrix(l, own->up, mid, c->joined * c->width, &t->up);
	load_matrix(l, own->down, c->out_width, mid, &t->down);
	if (!c->is_conv1d) {
		t->up.bias = load_floats(l, own->up, ".bias", mid);
		t->down.bias = load_floats(l, own->down, ".bias", c->out_width);
	}
	l->names = own;
}

static void load_norm(struct sound_loader *l, const char *name, int32_t n,
		      struct sound_norm *out)
{
	out->weight = load_floats(l, name, ".weight", n);
	out->bias = load_floats(l, name, ".bias", n);
}

/* Loads a matrix whose columns the file orders by channel, then by place: here the place comes
 * first. A row has `pitch` numbers here, with zeros at its end. */
static void load_places_first(struct sound_loader *l, const char *name, int32_t n,
			      int32_t n_channels, int32_t n_places, int32_t pitch,
			      struct sound_linear *out)
{
	char full[200];
	struct weight host;
	int32_t k = n_channels * n_places;
	if (!tower_matrix(&l->in, full_name(l, name, ".weight", full), n, k, &host))
		return;
	float *rows = xcalloc((size_t)n * (size_t)pitch, sizeof *rows);
	float *one = xmalloc((size_t)k * sizeof *one);
	for (int32_t i = 0; i < n; i++) {
		float *row = rows + (size_t)i * (size_t)pitch;
		weight_decode(&host, i, i + 1, one);
		for (int32_t at = 0; at < k; at++)
			row[at % n_places * n_channels + at / n_places] = one[at];
	}
	free(one);
	const struct weight ordered = {.quant = QUANT_F32, .n = n, .k = pitch, .group = pitch,
				       .q = rows, .name = host.name};
	tower_send_own(&l->in, &ordered, (size_t)pitch, &out->w);
}

/* Place i of a chunk has place i of sin and cos with wavelengths from 2 pi to 20,000 pi. */
static const float *put_sinusoids(struct sound_loader *l, const struct sound_config *c)
{
	int32_t d = c->width, per = sound_config_left(c, c->chunk), n = sound_chunks(c) * per;
	float *host = xmalloc((size_t)n * (size_t)d * sizeof *host), *to = host;
	for (int32_t i = 0; i < n; i++)
		for (int32_t k = 0; k < d; k++) {
			double freq = pow(10000, -(double)(k % (d / 2)) / (d / 2 - 1));
			double angle = i % per * freq;
			*to++ = (float)(k < d / 2 ? sin(angle) : cos(angle));
		}
	const float *p = l->in.st == OK ? tower_put(&l->in, host, (int64_t)n * d) : NULL;
	free(host);
	return p;
}

static void load_front(struct sound_loader *l, struct sound_tower *t)
{
	const struct sound_config *c = &t->c;
	int32_t side = sound_side(c), n = c->channels;
	for (int i = 0; i < sound_convs(c); i++) {
		char name[20];
		int32_t in = i ? n : c->is_conv1d ? c->n_mels : 1;
		snprintf(name, sizeof name, c->is_conv1d ? "conv%d" : "conv2d%d", i + 1);
		load_places_first(l, name, n, in, side, i ? side * n : sound_first_k(c),
				  &t->conv[i]);
		t->conv[i].bias = load_floats(l, name, ".bias", n);
	}
	if (c->is_conv1d) {
		int32_t all = sound_config_left(c, c->chunk) * c->width;
		t->positions = load_floats(l, "embed_positions", ".weight", all);
		return;
	}
	int32_t left = sound_config_left(c, c->n_mels);
	load_places_first(l, "conv_out", c->width, n, left, left * n, &t->embed);
	t->positions = put_sinusoids(l, c);
}

static void load_layer(struct sound_loader *l, const struct sound_config *c, int i,
		       struct sound_layer *to)
{
	char name[120];
	int32_t d = c->width;
#define NAME(of) (snprintf(name, sizeof name, "layers.%d." of, i), name)
	load_norm(l, NAME("self_attn_layer_norm"), d, &to->norm1);
	load_linear(l, NAME("self_attn.q_proj"), d, d, &to->q);
	if (c->is_conv1d)
		load_matrix(l, NAME("self_attn.k_proj"), d, d, &to->k);
	else
		load_linear(l, NAME("self_attn.k_proj"), d, d, &to->k);
	load_linear(l, NAME("self_attn.v_proj"), d, d, &to->v);
	load_linear(l, NAME("self_attn.out_proj"), d, d, &to->out);
	load_norm(l, NAME("final_layer_norm"), d, &to->norm2);
	load_linear(l, NAME("fc1"), c->ffn_dim, d, &to->up);
	load_linear(l, NAME("fc2"), d, c->ffn_dim, &to->down);
#undef NAME
}

/* The names that the files have, else the published ones. */
static const struct names *spelling(const struct tensors *tensors)
{
	char full[200];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(full, sizeof full, "%slayers.0.fc1.weight", names[i].prefix);
		if (tensors_find(tensors, full))
			return &names[i];
	}
	return &names[0];
}

enum status sound_load(struct sound_tower *t, const struct tensors *tensors, struct fail *fail)
{
	const struct sound_config *c = &t->c;
	struct sound_loader l = {{.b = t->b, .tensors = tensors, .whose = "the audio tower's",
				  .memory = &t->memory, .fail = fail}, spelling(tensors)};
	load_front(&l, t);
	for (int i = 0; i < c->n_layers && l.in.st == OK; i++)
		load_layer(&l, c, i, &t->layers[i]);
	load_norm(&l, c->is_conv1d ? "layer_norm" : "ln_post", c->width, &t->norm);
	load_ends(&l, t);
	return l.in.st == OK ? OK : fail_default(fail, l.in.st);
}

int64_t sound_tower_weight_bytes(const struct tensors *tensors)
{
	const struct names *own = spelling(tensors);
	const char *const parts[] = {own->prefix, own->up, own->down};
	return tower_weight_bytes(tensors, parts, ARRAY_LEN(parts));
}
