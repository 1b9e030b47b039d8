/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: the gguf package for Python (constants.py, tensor_mapping.py), and llama.cpp's
 * converter for the meaning of values.
 */
#include "vision/vision_gguf.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/gguf.h"

#define TO "model.visual."

/* --- names ------------------------------------------------------------------------- */

static const struct {
	const char *from, *to;
} blocks[] = {
	{"attn_qkv", "attn.qkv"}, {"attn_out", "attn.proj"}, {"ffn_up", "mlp.linear_fc1"},
	{"ffn_down", "mlp.linear_fc2"}, {"ln1", "norm1"}, {"ln2", "norm2"},
}, deeps[] = {{"fc1", "linear_fc1"}, {"fc2", "linear_fc2"}, {"norm", "norm"}},
   others[] = {
	{"mm.0", "merger.linear_fc1"}, {"mm.2", "merger.linear_fc2"},
	{"v.post_ln", "merger.norm"}, {"v.position_embd", "pos_embed"},
	{"v.patch_embd.weight.1", "patch_embed.frame1"}, {"v.patch_embd.weight",
	 "patch_embed.frame0"}, {"v.patch_embd", "patch_embed.proj"},
};

/* How many layers before layer i are handed on. */
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

/* "<table's name><rest>" behind a layer's number. */
#define IN_TABLE(table, rest, n_out, end_out) do { \
	for (size_t t_ = 0; t_ < ARRAY_LEN(table) && !*(n_out); t_++) { \
		size_t n_ = strlen((table)[t_].from); \
		if (strncmp(rest, (table)[t_].from, n_) == 0 && \
		    (!(rest)[n_] || (rest)[n_] == '.')) { \
			*(n_out) = (table)[t_].to; \
			*(end_out) = (rest) + n_; \
		} \
	} \
} while (0)

static const char *rename_tensor(const struct gguf *g, const char *name, struct arena *a)
{
	char full[200];
	const char *to = NULL, *end = "";
	int layer, at = 0;
	if (sscanf(name, "v.blk.%d.%n", &layer, &at) == 1 && at) {
		IN_TABLE(blocks, name + at, &to, &end);
		snprintf(full, sizeof full, TO "blocks.%d.%s%s", layer, to ? to : "?", end);
	} else if (sscanf(name, "v.deepstack.%d.%n", &layer, &at) == 1 && at) {
		IN_TABLE(deeps, name + at, &to, &end);
		snprintf(full, sizeof full, TO "deepstack_merger_list.%d.%s%s",
			 deep_before(g, layer), to ? to : "?", end);
	} else {
		IN_TABLE(others, name, &to, &end);
		snprintf(full, sizeof full, TO "%s%s", to ? to : "?", end);
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
	c->sight.n_deep = c->n_deep;
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

static enum status read_side(const struct tensors *ts, struct vision_config *c,
			     struct fail *fail)
{
	const struct tensor *t = tensors_find(ts, TO "pos_embed.weight");
	int64_t n = t && t->n_dims == 2 ? t->dim[0] : 0;
	c->side = n > 0 && n <= 1 << 20 ? (int32_t)sqrt((double)n) : 0;
	if (c->side == 0 || (int64_t)c->side * c->side != n)
		return fail_at(fail, E_FORMAT, "v.position_embd.weight",
			       "mmproj: v.position_embd.weight is missing or no square");
	return OK;
}

enum status vision_gguf_read(const struct tensors *ts, struct vision_config *out,
			     struct fail *fail)
{
	const struct gguf *g = tensors_gguf(ts);
	struct vision_config *c = out;
	const struct {
		const char *key;
		int32_t *to, max;
	} numbers[] = {
		{"clip.vision.block_count", &c->depth, 256},
		{"clip.vision.embedding_length", &c->width, 1 << 14},
		{"clip.vision.attention.head_count", &c->n_heads, 256},
		{"clip.vision.feed_forward_length", &c->ffn_dim, 1 << 16},
		{"clip.vision.patch_size", &c->patch, 64},
		{"clip.vision.spatial_merge_size", &c->merge, 8},
		{"clip.vision.projection_dim", &c->out_width, 1 << 16},
	};
	struct str kind = STR("");
	const struct gguf_value *v = gguf_find(g, "clip.projector_type");
	if (!v || !gguf_string(v, &kind) || !str_is(kind, "qwen3vl_merger"))
		return fail_at(fail, E_UNSUPPORTED, "clip.projector_type",
			       "mmproj: a projector of type \"%.*s\" is not supported, only "
			       "qwen3vl_merger", (int)MIN(kind.n, 40), kind.p);
	*c = (struct vision_config){.frames = 2, .is_tanh = true, .theta = 10000,
				    .norm_eps = 1e-6, .out_eps = 1e-6,
				    .min_pixels = 1 << 16, .max_pixels = 1 << 24};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(numbers) && st == OK; i++)
		st = read_number(g, numbers[i].key, numbers[i].max, numbers[i].to, fail);
	if (st == OK && (c->width % c->n_heads || c->width / c->n_heads % 4))
		st = fail_at(fail, E_UNSUPPORTED, "clip.vision.attention.head_count",
			     "mmproj: heads of this size are not supported");
	if (st == OK)
		st = read_side(ts, c, fail);
	if (st == OK)
		st = read_deep(g, c, fail);
	read_three(g, "clip.vision.image_mean", c->mean);
	read_three(g, "clip.vision.image_std", c->std);
	read_pixels(g, "clip.vision.image_min_pixels", &c->min_pixels);
	read_pixels(g, "clip.vision.image_max_pixels", &c->max_pixels);
	return st;
}

enum status vision_gguf_sections(const struct gguf *text, struct engine_sight *sight,
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
	sight->n_height = (int32_t)height;
	sight->n_width = (int32_t)width;
	return OK;
}

char *vision_gguf_beside(const char *model_path)
{
	const char *slash = strrchr(model_path, '/');
	char *dir = slash ? xstrndup(model_path, (size_t)(slash - model_path) + 1) : xstrdup(".");
	char *found = NULL;
	int n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!str_ends(str_of(e->d_name), STR(".gguf")) || !strstr(e->d_name, "mmproj"))
			continue;
		free(found);
		found = file_join(dir, e->d_name);
		n++;
	}
	if (d)
		closedir(d);
	free(dir);
	if (n != 1) {
		free(found);
		found = NULL;
	}
	return found;
}
