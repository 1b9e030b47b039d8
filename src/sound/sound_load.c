/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the weights of an audio tower by their names. A convolution's matrix gets the columns in
 * the order in which places are gathered: each place with all its channels.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "sound/sound_tower_private.h"

/* The published names, and those of Transformers' own files of Qwen3-ASR. */
static const struct names {
	const char *prefix, *up, *down; /* prefix: of all but up and down */
} names[] = {{"thinker.audio_tower.", "thinker.audio_tower.proj1", "thinker.audio_tower.proj2"},
	     {"model.audio_tower.", "model.multi_modal_projector.linear_1",
	      "model.multi_modal_projector.linear_2"}};

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

static void load_linear(struct sound_loader *l, const char *name, int32_t n, int32_t k,
			struct sound_linear *out)
{
	char full[200];
	tower_load(&l->in, full_name(l, name, ".weight", full), n, k, &out->w);
	out->bias = load_floats(l, name, ".bias", n);
}

/* The same by its whole name. */
static void load_outer(struct sound_loader *l, const char *name, int32_t n, int32_t k,
		       struct sound_linear *out)
{
	const struct names *own = l->names, none = {.prefix = ""};
	l->names = &none;
	load_linear(l, name, n, k, out);
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

static void load_front(struct sound_loader *l, struct sound_tower *t)
{
	const struct sound_config *c = &t->c;
	load_places_first(l, "conv2d1", c->channels, 1, SIDE, FIRST_K, &t->conv[0]);
	load_places_first(l, "conv2d2", c->channels, c->channels, SIDE, SIDE * c->channels,
			  &t->conv[1]);
	load_places_first(l, "conv2d3", c->channels, c->channels, SIDE, SIDE * c->channels,
			  &t->conv[2]);
	t->conv[0].bias = load_floats(l, "conv2d1", ".bias", c->channels);
	t->conv[1].bias = load_floats(l, "conv2d2", ".bias", c->channels);
	t->conv[2].bias = load_floats(l, "conv2d3", ".bias", c->channels);
	int32_t left = sound_config_left(c->n_mels);
	load_places_first(l, "conv_out", c->width, c->channels, left, left * c->channels,
			  &t->embed);
}

static void load_layer(struct sound_loader *l, const struct sound_config *c, int i,
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

/* The names that the files have, else the published ones. */
static const struct names *spelling(const struct tensors *tensors)
{
	char full[200];
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(full, sizeof full, "%sconv_out.weight", names[i].prefix);
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
	load_norm(&l, "ln_post", c->width, &t->norm);
	load_outer(&l, l.names->up, c->width, c->width, &t->up);
	load_outer(&l, l.names->down, c->out_width, c->width, &t->down);
	return l.in.st == OK ? OK : fail_default(fail, l.in.st);
}

int64_t sound_tower_weight_bytes(const struct tensors *tensors)
{
	const struct names *own = spelling(tensors);
	const char *const parts[] = {own->prefix, own->up, own->down};
	return tower_weight_bytes(tensors, parts, ARRAY_LEN(parts));
}
