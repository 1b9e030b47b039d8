/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the weights of a tower by their names. They have 16 or 32 bits, even if the text
 * model's have fewer. Matrices of a GGUF file may be in any of its block formats, and stay in
 * it. A GPU's kernels for many tokens take no float32 and only rows of a multiple of eight
 * numbers. So on a GPU float32 becomes float16, and the rows of the patch matrix are padded
 * with zeros.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "vision/vision_tower_private.h"

/* The names of tensors in one kind of tower. */
struct names {
	const char *prefix;
	bool has_bias;       /* norms and matrices have biases; norms without one are RMS norms */
	const char *patch;   /* if a file has this tensor, it uses these names */
	const char *layer;   /* prefix of a layer's number */
	const char *norm1, *norm2, *qkv, *q, *k, *v, *out, *gate, *up, *down;
	const char *q_pairs, *k_pairs; /* names of q and k with rows in pairs, see load_pairs */
	const char *deep; /* prefix of the number of a merger for deep_at */
	const char *merge_norm, *merge_up, *merge_down;
};
#define QWEN_PREFIX "model.visual."
#define OMNI_PREFIX "thinker.visual."
#define QWEN(at) \
	.prefix = at, .has_bias = true, .patch = "patch_embed.proj", .layer = "blocks.", \
	.norm1 = "norm1", .norm2 = "norm2", .qkv = "attn.qkv", .out = "attn.proj", \
	.up = "mlp.linear_fc1", .down = "mlp.linear_fc2"
static const struct names qwen[] = {
	{QWEN(QWEN_PREFIX), .deep = "deepstack_merger_list.", .merge_norm = "norm",
	 .merge_up = "linear_fc1", .merge_down = "linear_fc2"},
	{QWEN(OMNI_PREFIX), .deep = "merger_list.", .merge_norm = "ln_q", .merge_up = "mlp.0",
	 .merge_down = "mlp.2"}};
#define PIXTRAL(at) { \
	.prefix = at "vision_tower.", .patch = "patch_conv", .layer = "transformer.layers.", \
	.norm1 = "attention_norm", .norm2 = "ffn_norm", .q = "attention.q_proj", \
	.k = "attention.k_proj", .v = "attention.v_proj", .out = "attention.o_proj", \
	.gate = "feed_forward.gate_proj", .up = "feed_forward.up_proj", \
	.down = "feed_forward.down_proj", .q_pairs = "attention.q_pairs", \
	.k_pairs = "attention.k_pairs"}
static const struct names pixtral[] = {PIXTRAL(""), PIXTRAL("model.")};

#define SIGLIP(at) { \
	.prefix = at, .has_bias = true, .patch = "embeddings.patch_embedding", \
	.layer = "encoder.layers.", .norm1 = "layer_norm1", .norm2 = "layer_norm2", \
	.q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj", \
	.out = "self_attn.out_proj", .up = "mlp.fc1", .down = "mlp.fc2"}
static const struct names siglip[] = {
	SIGLIP("vision_tower.vision_model."), SIGLIP("model.vision_tower.vision_model."),
	SIGLIP("vision_tower."), SIGLIP("model.vision_tower.")};

#define GEMMA4_PREFIX "model.vision_tower."
static const struct names gemma4 = {
	.prefix = GEMMA4_PREFIX, .patch = "patch_embedder.input_proj", .layer = "encoder.layers.",
	.norm1 = "input_layernorm", .norm2 = "pre_feedforward_layernorm",
	.q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",
	.out = "self_attn.o_proj", .gate = "mlp.gate_proj", .up = "mlp.up_proj",
	.down = "mlp.down_proj"};

struct loader {
	struct tower_loader in;
	struct vision_tower *t;
	const struct names *names;
};

/* Only the patch matrix may get rows that are padded. */
static size_t pitch_of(const struct loader *l, const struct weight *host, const struct weight *out)
{
	size_t k = (size_t)host->k;
	return out == &l->t->patch.w ? (k + 7) / 8 * 8 : k;
}

/* Send a matrix to the device. */
static void send(struct loader *l, const struct weight *host, struct weight *out)
{
	tower_send(&l->in, host, pitch_of(l, host, out), out);
}

/* Send n rows of k floats, malloc'ed, and free them unless the weight points into them. */
static void send_floats(struct loader *l, const char *name, int32_t n, int32_t k, float *rows,
			struct weight *out)
{
	const struct weight host = {.quant = QUANT_F32, .n = n, .k = k, .group = k, .q = rows,
				    .name = name};
	tower_send_own(&l->in, &host, pitch_of(l, &host, out), out);
}

/* Load rows [first, first + n) of a matrix of n_all rows. */
static void load_rows(struct loader *l, const char *name, int32_t n_all, int32_t first,
		      int32_t n, int32_t k, struct weight *out)
{
	struct weight host;
	const struct tensor *t = tower_matrix(&l->in, name, n_all, k, &host);
	if (!t)
		return;
	host.q = (const char *)t->data + t->n_bytes / (size_t)n_all * (size_t)first;
	host.n = n;
	send(l, &host, out);
}

/* "<prefix><name><end>" */
static const char *full_name(const struct loader *l, const char *name, const char *end,
			     char out[200])
{
	snprintf(out, 200, "%s%s%s", l->names->prefix, name, end);
	return out;
}

/* Load part `part` of n_parts equal parts, which follow each other in the tensor. */
static void load_part(struct loader *l, const char *name, int32_t n, int32_t k, int32_t part,
		      int32_t n_parts, struct vision_linear *out)
{
	char full[200];
	load_rows(l, full_name(l, name, ".weight", full), n * n_parts, n * part, n, k, &out->w);
	if (l->names->has_bias)
		out->bias = tower_floats(&l->in, full_name(l, name, ".bias", full),
					(int64_t)n * n_parts, (int64_t)n * part, n);
}

static void load_linear(struct loader *l, const char *name, int32_t n, int32_t k,
			struct vision_linear *out)
{
	load_part(l, name, n, k, 0, 1, out);
}

static void load_norm(struct loader *l, const char *name, int32_t n, struct vision_norm *out)
{
	char full[200];
	out->weight = tower_floats(&l->in, full_name(l, name, ".weight", full), n, 0, n);
	if (l->names->has_bias)
		out->bias = tower_floats(&l->in, full_name(l, name, ".bias", full), n, 0, n);
}

/* Send host with the rows of each head in another order: row `in` of a head of dim rows is row
 * from(in, dim) of host's head. */
static void send_reordered(struct loader *l, const struct weight *host, size_t row, size_t dim,
			   size_t from(size_t in, size_t dim), struct weight *out)
{
	struct weight reordered = *host;
	char *rows = xmalloc(row * (size_t)host->n);
	tower_keep(&l->in, rows);
	for (size_t r = 0; r < (size_t)host->n; r++) {
		size_t in = r % dim;
		memcpy(rows + r * row, (const char *)host->q + (r - in + from(in, dim)) * row, row);
	}
	reordered.q = rows;
	send(l, &reordered, out);
}

static size_t from_pairs(size_t in, size_t dim)
{
	return 2 * (in % (dim / 2)) + in / (dim / 2);
}

/* In llama.cpp's files the two numbers of a rotated pair are neighbours in a head of queries or
 * keys: row 2 i + j there is row j K/2 + i here. False: this file has the usual order. */
static bool load_pairs(struct loader *l, int i, int part, struct vision_linear *out)
{
	const struct vision_config *c = &l->t->c;
	const char *const names[] = {l->names->q_pairs, l->names->k_pairs, NULL};
	char name[120], full[200];
	struct weight host;
	if (!names[part])
		return false;
	snprintf(name, sizeof name, "%s%d.%s", l->names->layer, i, names[part]);
	full_name(l, name, ".weight", full);
	if (!tensors_find(l->in.tensors, full))
		return false;
	const struct tensor *t = tower_matrix(&l->in, full, c->width, c->width, &host);
	if (t)
		send_reordered(l, &host, t->n_bytes / (size_t)c->width,
			       (size_t)(c->width / c->n_heads), from_pairs, &out->w);
	return true;
}

static void load_layer(struct loader *l, int i)
{
	const struct vision_config *c = &l->t->c;
	const struct names *names = l->names;
	struct vision_layer *to = &l->t->layers[i];
	struct vision_linear *qkv[] = {&to->q, &to->k, &to->v};
	const char *const apart[] = {names->q, names->k, names->v};
	char name[120];
	int32_t d = c->width;
#define NAME(of) (snprintf(name, sizeof name, "%s%d.%s", names->layer, i, names->of), name)
	load_norm(l, NAME(norm1), d, &to->norm1);
	load_norm(l, NAME(norm2), d, &to->norm2);
	for (int part = 0; part < 3; part++) {
		if (names->qkv) {
			load_part(l, NAME(qkv), d, d, part, 3, qkv[part]);
			continue;
		}
		snprintf(name, sizeof name, "%s%d.%s", names->layer, i, apart[part]);
		if (!names->q_pairs || !load_pairs(l, i, part, qkv[part]))
			load_linear(l, name, d, d, qkv[part]);
	}
	load_linear(l, NAME(out), d, d, &to->out);
	if (names->gate)
		load_linear(l, NAME(gate), c->ffn_dim, d, &to->gate);
	load_linear(l, NAME(up), c->ffn_dim, d, &to->up);
	load_linear(l, NAME(down), d, c->ffn_dim, &to->down);
#undef NAME
}

static void load_merger(struct loader *l, int i)
{
	const struct vision_config *c = &l->t->c;
	struct vision_merger *to = &l->t->merger[i];
	int32_t wide = c->width * c->merge * c->merge;
	char base[60] = "merger", name[100];
	to->is_late = i > 0;
	if (i > 0)
		snprintf(base, sizeof base, "%s%d", l->names->deep, i - 1);
	snprintf(name, sizeof name, "%s.%s", base, l->names->merge_norm);
	load_norm(l, name, to->is_late ? wide : c->width, &to->norm);
	snprintf(name, sizeof name, "%s.%s", base, l->names->merge_up);
	load_linear(l, name, wide, wide, &to->up);
	snprintf(name, sizeof name, "%s.%s", base, l->names->merge_down);
	load_linear(l, name, c->out_width, wide, &to->down);
}

/* Load the learned positions, which are read on the host. */
static void load_places(struct loader *l, const char *name)
{
	const struct vision_config *c = &l->t->c;
	size_t n = (size_t)c->side * (size_t)c->side * (size_t)c->width;
	struct weight host;
	if (!tower_matrix(&l->in, name, c->side * c->side, c->width, &host))
		return;
	l->t->places = xmalloc(n * sizeof *l->t->places);
	weight_decode(&host, 0, host.n, l->t->places);
}

/* mmproj files have a tensor for each frame of a patch: (D, 3, P, P). */
static void load_frames(struct loader *l)
{
	const struct vision_config *c = &l->t->c;
	size_t area = (size_t)c->patch * (size_t)c->patch, d = (size_t)c->width;
	size_t n = d * 3 * area, n_frames = (size_t)c->frames;
	float *all = xmalloc(n * n_frames * sizeof *all);
	for (size_t f = 0; f < n_frames; f++) {
		char name[100];
		snprintf(name, sizeof name, QWEN_PREFIX "patch_embed.frame%d", (int)f);
		const struct tensor *t = tower_find(&l->in, name, (int64_t)n);
		if (!t) {
			free(all);
			return;
		}
		for (size_t i = 0; i < n; i++)
			all[(i / area * n_frames + f) * area + i % area] =
				blocks_float(t->data, t->dtype, i);
	}
	send_floats(l, "v.patch_embd.weight", c->width, vision_config_patch_dim(c), all,
		    &l->t->patch.w);
	l->t->patch.bias = tower_floats(&l->in, QWEN_PREFIX "patch_embed.proj.bias", c->width, 0,
				       c->width);
}

/* --- VISION_PIXTRAL ------------------------------------------------------------------- */

/* Load the merger's matrix. The file orders its columns by number, then by neighbour. Here the
 * neighbour comes first. */
static void load_merge(struct loader *l, const char *name, struct vision_linear *out)
{
	const struct vision_config *c = &l->t->c;
	size_t d = (size_t)c->width, per = (size_t)c->merge * (size_t)c->merge;
	struct weight host;
	if (!tower_matrix(&l->in, name, c->width, (int32_t)(d * per), &host))
		return;
	float *rows = xmalloc(d * d * per * sizeof *rows), *one = xmalloc(d * per * sizeof *one);
	for (size_t i = 0; i < d; i++) {
		weight_decode(&host, (int32_t)i, (int32_t)i + 1, one);
		for (size_t k = 0; k < d * per; k++)
			rows[i * d * per + k] = one[k % d * per + k / d];
	}
	free(one);
	send_floats(l, host.name, c->width, (int32_t)(d * per), rows, &out->w);
}

static void load_pixtral(struct loader *l)
{
	const struct vision_config *c = &l->t->c;
	struct vision_merger *m = &l->t->merger[0];
	bool is_inner = strncmp(l->names->prefix, "model.", 6) == 0;
	const struct names own = {.prefix = is_inner ? "model.multi_modal_projector."
						     : "multi_modal_projector.",
				  .has_bias = c->has_out_bias};
	char full[200];
	load_linear(l, l->names->patch, c->width, vision_config_patch_dim(c), &l->t->patch);
	load_norm(l, "ln_pre", c->width, &l->t->norm0);
	for (int i = 0; i < c->depth && l->in.st == OK; i++)
		load_layer(l, i);
	l->names = &own;
	full_name(l, "norm.weight", "", full);
	m->norm.weight = tower_floats(&l->in, full, c->width, 0, c->width);
	load_merge(l, full_name(l, "patch_merger.merging_layer.weight", "", full), &m->merge);
	load_linear(l, "linear_1", c->out_width, c->width, &m->up);
	load_linear(l, "linear_2", c->out_width, c->out_width, &m->down);
}

/* --- VISION_SIGLIP --------------------------------------------------------------------- */

/* Load the projector's matrix, which the file stores transposed: a row for each input. */
static void load_transposed(struct loader *l, const char *name, struct vision_linear *out)
{
	const struct vision_config *c = &l->t->c;
	size_t d = (size_t)c->width, n = (size_t)c->out_width;
	struct weight host;
	if (!tower_matrix(&l->in, name, c->width, c->out_width, &host))
		return;
	float *rows = xmalloc(d * n * sizeof *rows), *one = xmalloc(n * sizeof *one);
	for (size_t i = 0; i < d; i++) {
		weight_decode(&host, (int32_t)i, (int32_t)i + 1, one);
		for (size_t k = 0; k < n; k++)
			rows[k * d + i] = one[k];
	}
	free(one);
	send_floats(l, host.name, c->out_width, c->width, rows, &out->w);
}

static void load_siglip(struct loader *l)
{
	const struct vision_config *c = &l->t->c;
	struct vision_merger *m = &l->t->merger[0];
	const struct names own = {.prefix = strncmp(l->names->prefix, "model.", 6) == 0
						    ? "model.multi_modal_projector."
						    : "multi_modal_projector."};
	char full[200];
	load_linear(l, l->names->patch, c->width, vision_config_patch_dim(c), &l->t->patch);
	load_places(l, full_name(l, "embeddings.position_embedding.weight", "", full));
	for (int i = 0; i < c->depth && l->in.st == OK; i++)
		load_layer(l, i);
	load_norm(l, "post_layernorm", c->width, &m->norm);
	l->names = &own;
	/* Weights of this norm are stored minus 1, except in GGUF files. */
	bool is_whole = tensors_find(l->in.tensors,
				     full_name(l, "mm_soft_emb_norm.whole", "", full));
	if (!is_whole)
		full_name(l, "mm_soft_emb_norm.weight", "", full);
	m->mean.weight = tower_sums(&l->in, full, c->width, 0, c->width, is_whole ? 0 : 1);
	load_transposed(l, full_name(l, "mm_input_projection_weight", "", full), &m->down);
}

/* --- VISION_GEMMA4 --------------------------------------------------------------------- */

/* The file's order of a head's rows: the first half rotates by the column, the second by the
 * row, and in each half the first quarter pairs with the second. Here the first half of a head
 * pairs with the second half. Returns the file's row of row `in`. */
static size_t from_quarters(size_t in, size_t dim)
{
	size_t i = in % (dim / 2), j = in / (dim / 2), quarter = dim / 4;
	return i < quarter ? j * quarter + i : dim / 2 + j * quarter + i - quarter;
}

static void load_range(struct loader *l, const char *base, const char *of,
		       struct vision_range *out)
{
	char name[200];
	float *const to[] = {&out->low, &out->high};
	*out = (struct vision_range){-INFINITY, INFINITY, false};
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof name, "%s.%s_%s", base, of, i ? "max" : "min");
		if (!l->t->c.is_clipped || !tensors_find(l->in.tensors, name))
			continue;
		const struct tensor *t = tower_find(&l->in, name, 1);
		if (t)
			*to[i] = blocks_float(t->data, t->dtype, 0);
		out->cuts |= isfinite(*to[i]);
	}
	if (!(out->low <= out->high))
		tower_stop(&l->in, E_FORMAT, base, "has a range that holds no number");
}

/* reorders: the rows of each head are reordered by from_quarters. */
static void load_ranged(struct loader *l, int i, const char *part, int32_t n, int32_t k,
			bool reorders, struct vision_linear *out)
{
	const struct vision_config *c = &l->t->c;
	char base[160], name[200];
	struct weight host;
	snprintf(base, sizeof base, "%s%s%d.%s", l->names->prefix, l->names->layer, i, part);
	load_range(l, base, "input", &out->in);
	load_range(l, base, "output", &out->out);
	snprintf(name, sizeof name, "%s.linear.weight", base);
	if (!tensors_find(l->in.tensors, name)) /* in an mmproj file */
		snprintf(name, sizeof name, "%s.weight", base);
	const struct tensor *t = tower_matrix(&l->in, name, n, k, &host);
	if (t && reorders)
		send_reordered(l, &host, t->n_bytes / (size_t)n, (size_t)(c->width / c->n_heads),
			       from_quarters, &out->w);
	else if (t)
		send(l, &host, &out->w);
}

/* Load the weights of a norm over each head, in the order of the head's rows here. */
static const float *load_head_norm(struct loader *l, int i, const char *part)
{
	size_t dim = (size_t)(l->t->c.width / l->t->c.n_heads);
	char name[200];
	snprintf(name, sizeof name, "%s%s%d.%s.weight", l->names->prefix, l->names->layer, i, part);
	const struct tensor *t = tower_find(&l->in, name, (int64_t)dim);
	if (!t)
		return NULL;
	float *host = xmalloc(dim * sizeof *host);
	for (size_t in = 0; in < dim; in++)
		host[in] = blocks_float(t->data, t->dtype, from_quarters(in, dim));
	const float *p = tower_put(&l->in, host, (int64_t)dim);
	free(host);
	return p;
}

static void load_gemma4_layer(struct loader *l, int i)
{
	const struct vision_config *c = &l->t->c;
	const struct names *names = l->names;
	struct vision_layer *to = &l->t->layers[i];
	int32_t d = c->width;
	const struct {
		const char *name;
		struct vision_norm *to;
	} norms[] = {{names->norm1, &to->norm1}, {names->norm2, &to->norm2},
		     {"post_attention_layernorm", &to->post1},
		     {"post_feedforward_layernorm", &to->post2}};
	for (size_t k = 0; k < ARRAY_LEN(norms); k++) {
		char name[120];
		snprintf(name, sizeof name, "%s%d.%s", names->layer, i, norms[k].name);
		load_norm(l, name, d, norms[k].to);
	}
	to->q_norm = load_head_norm(l, i, "self_attn.q_norm");
	to->k_norm = load_head_norm(l, i, "self_attn.k_norm");
	load_ranged(l, i, names->q, d, d, true, &to->q);
	load_ranged(l, i, names->k, d, d, true, &to->k);
	load_ranged(l, i, names->v, d, d, false, &to->v);
	load_ranged(l, i, names->out, d, d, false, &to->out);
	load_ranged(l, i, names->gate, c->ffn_dim, d, false, &to->gate);
	load_ranged(l, i, names->up, c->ffn_dim, d, false, &to->up);
	load_ranged(l, i, names->down, d, c->ffn_dim, false, &to->down);
}

/* The index in the file of number `at` of a patch. The file orders by pixel, then by colour.
 * Here, and in mmproj files, the colour comes first. */
static size_t from_pixels(size_t at, size_t area)
{
	return at % area * 3 + at / area;
}

/* planes: name of the patch matrix if its columns are ordered by colour already. */
static void load_pixels(struct loader *l, const char *planes, const char *pixels)
{
	const struct vision_config *c = &l->t->c;
	int32_t dim = vision_config_patch_dim(c);
	size_t area = (size_t)(c->patch * c->patch), k = 3 * area;
	struct weight host;
	if (tensors_find(l->in.tensors, planes)) {
		if (tower_matrix(&l->in, planes, c->width, dim, &host))
			send(l, &host, &l->t->patch.w);
		return;
	}
	if (!tower_matrix(&l->in, pixels, c->width, dim, &host))
		return;
	float *rows = xmalloc((size_t)c->width * k * sizeof *rows), *one = xmalloc(k * sizeof *one);
	for (size_t i = 0; i < (size_t)c->width; i++) {
		weight_decode(&host, (int32_t)i, (int32_t)i + 1, one);
		for (size_t at = 0; at < k; at++)
			rows[i * k + at] = one[from_pixels(at, area)];
	}
	free(one);
	send_floats(l, host.name, c->width, dim, rows, &l->t->patch.w);
}

/* Load two lists of learned positions, only as many as an image may have patches along a side.
 * is_mixed: the two lists alternate in the file. */
static void load_two_places(struct loader *l, const char *name, bool is_mixed)
{
	const struct vision_config *c = &l->t->c;
	int64_t f = (int64_t)c->patch * c->merge, most = c->max_pixels / (f * f) * c->merge;
	int32_t n = (int32_t)MIN(most, c->side);
	size_t d = (size_t)c->width;
	struct weight host;
	if (!tower_matrix(&l->in, name, 2 * c->side, c->width, &host))
		return;
	l->t->n_places = n;
	l->t->places = xmalloc(2 * (size_t)n * d * sizeof *l->t->places);
	for (int32_t i = 0; i < 2 * n; i++) {
		int32_t at = i % n, list = i / n;
		int32_t row = is_mixed ? 2 * at + list : list * c->side + at;
		weight_decode(&host, row, row + 1, l->t->places + (size_t)i * d);
	}
}

/* Load n numbers that stay on the host. */
static const float *load_host(struct loader *l, const char *name, int32_t n)
{
	const struct tensor *t = tower_find(&l->in, name, n);
	if (!t)
		return NULL;
	float *host = xmalloc((size_t)n * sizeof *host);
	tower_keep(&l->in, host);
	for (int32_t i = 0; i < n; i++)
		host[i] = blocks_float(t->data, t->dtype, (size_t)i);
	return host;
}

static void load_ones(struct loader *l)
{
	struct vision_tower *t = l->t;
	float *ones = xmalloc((size_t)t->c.width * sizeof *ones);
	for (int32_t i = 0; i < t->c.width; i++)
		ones[i] = 1;
	t->ones = t->merger[0].mean.weight = tower_put(&l->in, ones, t->c.width);
	free(ones);
}

static void load_projection(struct loader *l)
{
	struct weight host;
	if (tower_matrix(&l->in, "model.embed_vision.embedding_projection.weight",
			 l->t->c.out_width, l->t->c.width, &host))
		send(l, &host, &l->t->merger[0].down.w);
}

static void load_gemma4(struct loader *l)
{
	struct vision_tower *t = l->t;
	const struct vision_config *c = &t->c;
	load_ones(l);
	load_pixels(l, GEMMA4_PREFIX "patch_embedder.planes.weight",
		    GEMMA4_PREFIX "patch_embedder.input_proj.weight");
	load_two_places(l, GEMMA4_PREFIX "patch_embedder.position_embedding_table", false);
	for (int i = 0; i < c->depth && l->in.st == OK; i++)
		load_gemma4_layer(l, i);
	if (c->is_standard) {
		t->shift = load_host(l, GEMMA4_PREFIX "std_bias", c->width);
		t->factor = load_host(l, GEMMA4_PREFIX "std_scale", c->width);
	}
	load_projection(l);
}

/* --- VISION_PLAIN ---------------------------------------------------------------------- */

#define PLAIN_PREFIX "model.vision_embedder."
static const struct names plain = {.prefix = PLAIN_PREFIX, .has_bias = true};

/* Load numbers of a patch's pixels, in the order of load_pixels. */
static const float *load_pixel_floats(struct loader *l, const char *name)
{
	const struct vision_config *c = &l->t->c;
	int32_t dim = vision_config_patch_dim(c);
	const struct tensor *t = tower_find(&l->in, name, dim);
	if (!t)
		return NULL;
	float *host = xmalloc((size_t)dim * sizeof *host);
	for (size_t i = 0; i < (size_t)dim; i++)
		host[i] = blocks_float(t->data, t->dtype,
				       from_pixels(i, (size_t)(c->patch * c->patch)));
	const float *p = tower_put(&l->in, host, dim);
	free(host);
	return p;
}

static void load_plain(struct loader *l)
{
	struct vision_tower *t = l->t;
	bool is_file = tensors_find(l->in.tensors, PLAIN_PREFIX "patch_planes.weight");
	l->names = &plain;
	load_ones(l);
	load_pixels(l, PLAIN_PREFIX "patch_planes.weight", PLAIN_PREFIX "patch_dense.weight");
	t->patch.bias = tower_floats(&l->in, is_file ? PLAIN_PREFIX "patch_planes.bias"
					       : PLAIN_PREFIX "patch_dense.bias",
				    t->c.width, 0, t->c.width);
	if (is_file) {
		load_norm(l, "planes_norm", vision_config_patch_dim(&t->c), &t->plain[0]);
	} else {
		t->plain[0].weight = load_pixel_floats(l, PLAIN_PREFIX "patch_ln1.weight");
		t->plain[0].bias = load_pixel_floats(l, PLAIN_PREFIX "patch_ln1.bias");
	}
	load_norm(l, "patch_ln2", t->c.width, &t->plain[1]);
	load_norm(l, "pos_norm", t->c.width, &t->plain[2]);
	load_two_places(l, is_file ? PLAIN_PREFIX "two_embeddings" : PLAIN_PREFIX "pos_embedding",
			!is_file);
	load_projection(l);
}

/* --- all ------------------------------------------------------------------------------ */

static void load_qwen(struct loader *l)
{
	const struct vision_config *c = &l->t->c;
	char full[200];
	if (tensors_find(l->in.tensors, QWEN_PREFIX "patch_embed.frame0"))
		load_frames(l);
	else
		load_linear(l, l->names->patch, c->width, vision_config_patch_dim(c),
			    &l->t->patch);
	load_places(l, full_name(l, "pos_embed.weight", "", full));
	for (int i = 0; i < c->depth && l->in.st == OK; i++)
		load_layer(l, i);
	for (int i = 0; i <= c->n_deep && l->in.st == OK; i++)
		load_merger(l, i);
}

/* The one of n sets of names that the file uses, else the first. */
static const struct names *spelling(const struct tensors *tensors, const struct names *all,
				    size_t n)
{
	char full[200];
	for (size_t i = 0; i < n; i++) {
		snprintf(full, sizeof full, "%s%s.weight", all[i].prefix, all[i].patch);
		if (tensors_find(tensors, full))
			return &all[i];
	}
	return &all[0];
}

enum status vision_load(struct vision_tower *t, const struct tensors *tensors,
			struct fail *fail)
{
	struct loader l = {{.b = t->b, .tensors = tensors, .whose = "the vision tower's",
			    .memory = &t->memory, .fail = fail}, t, &qwen[0]};
	if (t->c.kind == VISION_PIXTRAL) {
		l.names = spelling(tensors, pixtral, ARRAY_LEN(pixtral));
		load_pixtral(&l);
	} else if (t->c.kind == VISION_SIGLIP) {
		l.names = spelling(tensors, siglip, ARRAY_LEN(siglip));
		load_siglip(&l);
	} else if (t->c.kind == VISION_GEMMA4) {
		l.names = &gemma4;
		load_gemma4(&l);
	} else if (t->c.kind == VISION_PLAIN) {
		load_plain(&l);
	} else {
		l.names = spelling(tensors, qwen, ARRAY_LEN(qwen));
		load_qwen(&l);
	}
	return l.in.st == OK ? OK : fail_default(fail, l.in.st);
}

int64_t vision_tower_weight_bytes(const struct tensors *tensors)
{
	static const char *const parts[] = {QWEN_PREFIX, OMNI_PREFIX, "vision_tower.",
					    "model.vision_tower.",
					    "multi_modal_projector.",
					    "model.multi_modal_projector.",
					    "model.embed_vision.", "model.vision_embedder."};
	return tower_weight_bytes(tensors, parts, ARRAY_LEN(parts));
}
