/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: the gguf package for Python (constants.py, tensor_mapping.py), and llama.cpp's
 * converter for the meaning of values.
 */
#include "vision/vision_gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/gguf.h"
#include "model/gguf_beside.h"
#include "vision/vision_config_private.h"

#define TO "model.visual."
#define GEMMA4 "model.vision_tower."
#define PLAIN "model.vision_embedder."

/* --- names ------------------------------------------------------------------------- */

struct pair {
	const char *from, *to;
};
static const struct pair qwen_blocks[] = {
	{"attn_qkv", "attn.qkv"}, {"attn_out", "attn.proj"}, {"ffn_up", "mlp.linear_fc1"},
	{"ffn_down", "mlp.linear_fc2"}, {"ln1", "norm1"}, {"ln2", "norm2"}, {NULL, NULL},
}, deeps[] = {{"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}, {"norm", "norm"}, {NULL, NULL}},
   qwen_others[] = {
	{"mm.0", TO "merger.linear_fc1"}, {"mm.2", TO "merger.linear_fc2"},
	{"v.post_ln", TO "merger.norm"}, {"v.position_embd", TO "pos_embed"},
	{"v.patch_embd.weight.1", TO "patch_embed.frame1"},
	{"v.patch_embd.weight", TO "patch_embed.frame0"},
	{"v.patch_embd", TO "patch_embed.proj"}, {NULL, NULL},
}, pixtral_blocks[] = {
	{"attn_q", "attention.q_pairs"}, {"attn_k", "attention.k_pairs"},
	{"attn_v", "attention.v_proj"}, {"attn_out", "attention.o_proj"},
	{"ffn_gate", "feed_forward.gate_proj"}, {"ffn_up", "feed_forward.up_proj"},
	{"ffn_down", "feed_forward.down_proj"}, {"ln1", "attention_norm"},
	{"ln2", "ffn_norm"}, {NULL, NULL},
}, pixtral_others[] = {
	{"mm.1", "multi_modal_projector.linear_1"}, {"mm.2", "multi_modal_projector.linear_2"},
	{"mm.input_norm", "multi_modal_projector.norm"},
	{"mm.patch_merger", "multi_modal_projector.patch_merger.merging_layer"},
	{"v.pre_ln", "vision_tower.ln_pre"}, {"v.patch_embd", "vision_tower.patch_conv"},
	{NULL, NULL},
}, siglip_blocks[] = {
	{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"}, {"attn_out", "self_attn.out_proj"},
	{"ffn_up", "mlp.fc1"}, {"ffn_down", "mlp.fc2"}, {"ln1", "layer_norm1"},
	{"ln2", "layer_norm2"}, {NULL, NULL},
}, siglip_others[] = {
	{"mm.input_projection.weight", "multi_modal_projector.mm_input_projection_weight"},
	{"mm.soft_emb_norm.weight", "multi_modal_projector.mm_soft_emb_norm.whole"},
	{"v.post_ln", "vision_tower.post_layernorm"},
	{"v.patch_embd", "vision_tower.embeddings.patch_embedding"},
	{"v.position_embd", "vision_tower.embeddings.position_embedding"}, {NULL, NULL},
}, gemma4_blocks[] = {
	{"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"}, {"attn_out", "self_attn.o_proj"},
	{"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
	{"ffn_gate", "mlp.gate_proj"}, {"ffn_up", "mlp.up_proj"},
	{"ffn_down", "mlp.down_proj"}, {"ln1", "input_layernorm"},
	{"ln2", "pre_feedforward_layernorm"}, {"attn_post_norm", "post_attention_layernorm"},
	{"ffn_post_norm", "post_feedforward_layernorm"}, {NULL, NULL},
}, gemma4_others[] = {
	{"mm.input_projection", "model.embed_vision.embedding_projection"},
	{"v.patch_embd", GEMMA4 "patch_embedder.planes"},
	{"v.position_embd.weight", GEMMA4 "patch_embedder.position_embedding_table"},
	{"v.std_bias", GEMMA4 "std_bias"}, {"v.std_scale", GEMMA4 "std_scale"}, {NULL, NULL},
}, plain_blocks[] = {{NULL, NULL}}, plain_others[] = {
	{"mm.input_projection", "model.embed_vision.embedding_projection"},
	{"v.patch_embd", PLAIN "patch_planes"}, {"v.patch_norm.1", PLAIN "planes_norm"},
	{"v.patch_norm.2", PLAIN "patch_ln2"}, {"v.patch_norm.3", PLAIN "pos_norm"},
	{"v.position_embd.weight", PLAIN "two_embeddings"}, {NULL, NULL},
};

static const struct kind {
	const char *projector; /* value of clip.projector_type, or of clip.vision.projector_type
			        * in files with audio */
	enum vision_kind kind;
	const char *layers;    /* prefix of tensor names before a layer's number */
	const struct pair *blocks, *others;
	const char *places;    /* name of the learned positions; NULL: there are none */
} kinds[] = {
	{"qwen3vl_merger", VISION_QWEN, TO "blocks.", qwen_blocks, qwen_others,
	 TO "pos_embed.weight"},
	{"pixtral", VISION_PIXTRAL, "vision_tower.transformer.layers.", pixtral_blocks,
	 pixtral_others, NULL},
	{"gemma3", VISION_SIGLIP, "vision_tower.encoder.layers.", siglip_blocks, siglip_others,
	 "vision_tower.embeddings.position_embedding.weight"},
	{"gemma4v", VISION_GEMMA4, GEMMA4 "encoder.layers.", gemma4_blocks, gemma4_others,
	 GEMMA4 "patch_embedder.position_embedding_table"},
	{"gemma4uv", VISION_PLAIN, PLAIN, plain_blocks, plain_others, PLAIN "two_embeddings"},
};

/* Find the kind of tower. *out is the file's name for it, for an error's text. NULL: unknown. */
static const struct kind *find_kind(const struct gguf *g, struct str *out)
{
	const struct gguf_value *v = gguf_find(g, "clip.projector_type");
	v = v ? v : gguf_find(g, "clip.vision.projector_type");
	if (!v || !gguf_string(v, out))
		*out = STR("");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_is(*out, kinds[i].projector))
			return &kinds[i];
	return NULL;
}

/* Count the layers before layer i whose output the text model also reads. */
static int deep_before(const struct gguf *g, int64_t i)
{
	const struct gguf_value *v = gguf_find(g, "clip.vision.is_deepstack_layers");
	int n = 0;
	for (uint64_t k = 0; v && k < v->n && (int64_t)k < i; k++) {
		int64_t is_deep = 0;
		n += gguf_integer(v, k, &is_deep) && is_deep;
	}
	return n;
}

/* If `name` begins with a name of the table: the name that replaces it, and the rest of `name`.
 * NULL: none does. */
static const char *in_table(const struct pair *table, const char *name, const char **out_end)
{
	for (; table->from; table++) {
		size_t n = strlen(table->from);
		if (strncmp(name, table->from, n) == 0 && (!name[n] || name[n] == '.')) {
			*out_end = name + n;
			return table->to;
		}
	}
	return NULL;
}

static const char *rename_tensor(const struct gguf *g, const char *name, struct arena *a)
{
	char full[200];
	struct str said;
	const struct kind *kind = find_kind(g, &said);
	const char *to = NULL, *end = "";
	int layer, at = 0;
	if (!kind)
		return NULL;
	if (sscanf(name, "v.blk.%d.%n", &layer, &at) == 1 && at) {
		to = in_table(kind->blocks, name + at, &end);
		snprintf(full, sizeof full, "%s%d.%s%s", kind->layers, layer, to ? to : "?", end);
	} else if (sscanf(name, "v.deepstack.%d.%n", &layer, &at) == 1 && at) {
		to = in_table(deeps, name + at, &end);
		snprintf(full, sizeof full, TO "deepstack_merger_list.%d.%s%s",
			 deep_before(g, layer), to ? to : "?", end);
	} else {
		to = in_table(kind->others, name, &end);
		snprintf(full, sizeof full, "%s%s", to ? to : "?", end);
	}
	return to ? arena_strdup(a, full) : NULL;
}

enum status vision_gguf_open(const char *path, struct tensors **out, struct fail *fail)
{
	const struct model_opts opts = {.use_mmap = true};
	return tensors_open_gguf(path, &opts, rename_tensor, out, fail);
}

/* --- settings ------------------------------------------------------------------------ */

static enum status read_number(const struct gguf *g, const char *key, int32_t max,
			       int32_t *out, struct fail *fail)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n = 0;
	if (!v || !gguf_integer(v, 0, &n) || n < 1 || n > max)
		return fail_at(fail, E_FORMAT, key, "mmproj: %s is not a number from 1 to %d",
			       key, (int)max);
	*out = (int32_t)n;
	return OK;
}

static enum status read_deep(const struct gguf *g, struct vision_config *c, struct fail *fail)
{
	const struct gguf_value *v = gguf_find(g, "clip.vision.is_deepstack_layers");
	for (uint64_t i = 0; v && i < v->n; i++) {
		int64_t is_deep = 0;
		if (!gguf_integer(v, i, &is_deep) || !is_deep)
			continue;
		if (c->n_deep == VISION_MAX_DEEP || (int32_t)i >= c->depth)
			return fail_at(fail, E_UNSUPPORTED, "is_deepstack_layers",
				       "mmproj: these deepstack layers are not supported");
		c->deep_at[c->n_deep++] = (int32_t)i;
	}
	c->image_rules.n_deep = c->n_deep;
	return OK;
}

static void read_three(const struct gguf *g, const char *key, double out[3])
{
	const struct gguf_value *v = gguf_find(g, key);
	for (uint64_t i = 0; i < 3; i++)
		if (!v || v->n != 3 || !gguf_number(v, i, &out[i]) || !(out[i] > 0))
			out[i] = 0.5;
}

static void read_pixels(const struct gguf *g, const char *key, int64_t *io)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n = 0;
	if (v && gguf_integer(v, 0, &n) && n > 0)
		*io = n;
}

static enum status read_side(const struct tensors *ts, const char *name,
			     struct vision_config *c, struct fail *fail)
{
	const struct tensor *t = tensors_find(ts, name);
	int64_t n = t && t->n_dims == 2 ? t->dim[0] : 0;
	if (vision_config_fills(c)) {
		n = t && t->n_dims == 3 && t->dim[0] == 2 ? t->dim[1] : 0;
		c->side = n <= 1 << 20 ? (int32_t)n : 0;
		return c->side ? OK
			       : fail_at(fail, E_FORMAT, "v.position_embd.weight", "mmproj: "
					 "v.position_embd.weight is missing or no two lists");
	}
	c->side = n > 0 && n <= 1 << 20 ? (int32_t)sqrt((double)n) : 0;
	if (c->side == 0 || (int64_t)c->side * c->side != n)
		return fail_at(fail, E_FORMAT, "v.position_embd.weight",
			       "mmproj: v.position_embd.weight is missing or no square");
	return OK;
}

static bool is_true(const struct gguf *g, const char *key)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n = 0;
	return v && gguf_integer(v, 0, &n) && n;
}

static enum status read_eps(const struct gguf *g, struct vision_config *c, struct fail *fail)
{
	static const char key[] = "clip.vision.attention.layer_norm_epsilon";
	const struct gguf_value *v = gguf_find(g, key);
	c->norm_eps = 1e-6;
	if (v && (!gguf_number(v, 0, &c->norm_eps) || !(c->norm_eps > 0)))
		return fail_at(fail, E_FORMAT, key, "mmproj: %s is not above 0", key);
	c->out_eps = c->norm_eps;
	return OK;
}

/* Settings that depend only on the kind of tower. */
static enum status read_kind(const struct gguf *g, struct vision_config *c, struct fail *fail)
{
	c->frames = 1;
	switch (c->kind) {
	case VISION_QWEN:
		c->frames = 2;
		c->is_tanh = true;
		c->theta = 10000;
		return OK;
	case VISION_PIXTRAL:
		c->theta = 10000;
		c->gate.kind = ACT_SILU;
		return is_true(g, "clip.use_silu")
			       ? OK
			       : fail_at(fail, E_UNSUPPORTED, "clip.use_silu", "mmproj: a tower "
					 "of type pixtral is supported with SiLU only");
	case VISION_SIGLIP:
		c->is_tanh = true;
		return OK;
	case VISION_GEMMA4:
		c->theta = 100;
		c->gate.kind = ACT_GELU_TANH;
		c->is_clipped = true; /* if a matrix has a range */
		return OK;
	case VISION_PLAIN:
		c->norm_eps = VISION_PLAIN_EPS;
		return OK;
	}
	return OK;
}

static enum status read_numbers(const struct gguf *g, struct vision_config *c,
				struct fail *fail)
{
	static const char scale[] = "clip.vision.projector.scale_factor";
	bool is_scaled = c->kind == VISION_SIGLIP || vision_config_fills(c);
	bool is_plain = c->kind == VISION_PLAIN;
	const struct {
		const char *key;
		int32_t *to, max;
	} numbers[] = {
		{"clip.vision.block_count", &c->depth, 256},
		{"clip.vision.attention.head_count", &c->n_heads, 256},
		{"clip.vision.feed_forward_length", &c->ffn_dim, 1 << 16},
		{"clip.vision.embedding_length", &c->width, 1 << 14}, /* VISION_PLAIN reads only
								       * the rows from here on */
		{"clip.vision.patch_size", &c->patch, 64},
		{"clip.vision.projection_dim", &c->out_width, 1 << 16},
		{is_scaled ? scale : "clip.vision.spatial_merge_size", &c->merge, 16},
		{"clip.vision.image_size", &c->max_side, 1 << 14},
	};
	/* VISION_QWEN skips image_size, which only newer files have. */
	size_t n = ARRAY_LEN(numbers) - (c->kind == VISION_QWEN);
	enum status st = OK;
	c->merge = vision_config_fills(c) ? 3 : 4;
	c->n_heads = 1;
	for (size_t i = is_plain ? 3 : 0; i < n && st == OK; i++)
		if (numbers[i].key != scale || gguf_find(g, scale))
			st = read_number(g, numbers[i].key, numbers[i].max, numbers[i].to, fail);
	if (st == OK && is_plain) {
		c->patch *= c->merge;
		c->merge = 1;
	}
	if (st == OK && is_plain && (c->width % 8 || 3 * c->patch * c->patch % 8))
		st = fail_at(fail, E_UNSUPPORTED, "clip.vision.patch_size",
			     "mmproj: patches of this size are not supported");
	if (st == OK && (c->width % c->n_heads || (c->theta != 0 && c->width / c->n_heads % 4)))
		st = fail_at(fail, E_UNSUPPORTED, "clip.vision.attention.head_count",
			     "mmproj: heads of this size are not supported");
	return st;
}

static bool is_set(const struct gguf *g, const char *key)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n = 0;
	return v && gguf_integer(v, 0, &n) && n;
}

bool vision_gguf_has(const struct tensors *ts)
{
	const struct gguf *g = tensors_gguf(ts);
	return is_set(g, "clip.has_vision_encoder") || !is_set(g, "clip.has_audio_encoder");
}

enum status vision_gguf_read(const struct tensors *ts, struct vision_config *out,
			     struct fail *fail)
{
	const struct gguf *g = tensors_gguf(ts);
	struct vision_config *c = out;
	struct str said;
	const struct kind *kind = find_kind(g, &said);
	if (!kind)
		return fail_at(fail, E_UNSUPPORTED, "clip.projector_type",
			       "mmproj: a projector of type \"%.*s\" is not supported, only "
			       "qwen3vl_merger, pixtral, gemma3, gemma4v and gemma4uv",
			       (int)MIN(said.n, 40), said.p);
	*c = (struct vision_config){.kind = kind->kind, .min_pixels = 1 << 16,
				    .max_pixels = 1 << 24};
	enum status st = read_eps(g, c, fail);
	if (st == OK)
		st = read_kind(g, c, fail);
	if (st == OK)
		st = read_numbers(g, c, fail);
	if (st == OK)
		st = read_deep(g, c, fail);
	if (st == OK && kind->places)
		st = read_side(ts, kind->places, c, fail);
	if (st == OK && c->kind == VISION_SIGLIP &&
	    (c->side * c->patch != c->max_side || c->side % c->merge))
		st = fail_at(fail, E_FORMAT, "clip.vision.image_size", "mmproj: "
			     "clip.vision.image_size does not fit v.position_embd.weight");
	c->is_standard = tensors_find(ts, GEMMA4 "std_bias");
	read_three(g, "clip.vision.image_mean", c->mean);
	read_three(g, "clip.vision.image_std", c->std);
	read_pixels(g, "clip.vision.image_min_pixels", &c->min_pixels);
	read_pixels(g, "clip.vision.image_max_pixels", &c->max_pixels);
	return st;
}

enum status vision_gguf_sections(const struct gguf *text, struct engine_image_rules *rules,
				 struct fail *fail)
{
	struct str arch = STR("");
	char key[120];
	int64_t height = 0, width = 0;
	const struct gguf_value *v = gguf_find(text, "general.architecture");
	if (!v || !gguf_string(v, &arch))
		arch = STR("");
	snprintf(key, sizeof key, "%.*s.rope.dimension_sections", (int)MIN(arch.n, 60), arch.p);
	v = gguf_find(text, key);
	if (!v || v->n < 3 || !gguf_integer(v, 1, &height) || !gguf_integer(v, 2, &width) ||
	    height < 0 || width < 0 || height > 512 || width > 512)
		return fail_at(fail, E_MISSING, key, "%s is missing from the model's file", key);
	rules->n_height = (int32_t)height;
	rules->n_width = (int32_t)width;
	return OK;
}

int32_t vision_gguf_padding(const struct gguf *text)
{
	const struct gguf_value *v = gguf_find(text, "tokenizer.ggml.padding_token_id");
	int64_t n = 0;
	return v && gguf_integer(v, 0, &n) && n >= 0 && n < INT32_MAX ? (int32_t)n : 0;
}

char *vision_gguf_beside(const char *model_path)
{
	return gguf_beside_only(model_path, gguf_beside_is_tower, "vision tower");
}
