/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: the gguf package for Python (constants.py, tensor_mapping.py), and llama.cpp's
 * converter (ultravox.py, qwen3vl.py) for the meaning of values.
 */
#include "sound/sound_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/gguf.h"
#include "model/gguf_beside.h"

#define PLACES "audio_tower.embed_positions.weight"
#define CONV "audio_tower.conv2d1.weight"

/* --- names ------------------------------------------------------------------------- */

struct sound_gguf_name {
	const char *from, *to;
};
static const struct sound_gguf_name of_layer[] = {
	{"attn_q.", "self_attn.q_proj."}, {"attn_k.", "self_attn.k_proj."},
	{"attn_v.", "self_attn.v_proj."}, {"attn_out.", "self_attn.out_proj."},
	{"ln1.", "self_attn_layer_norm."}, {"ln2.", "final_layer_norm."}, {"ffn_up.", "fc1."},
	{"ffn_down.", "fc2."}, {NULL, NULL},
}, voxtral_others[] = {
	{"a.conv1d.1.", "audio_tower.conv1."}, {"a.conv1d.2.", "audio_tower.conv2."},
	{"a.position_embd.", "audio_tower.embed_positions."},
	{"a.post_ln.", "audio_tower.layer_norm."},
	{"mm.a.mlp.1.", "multi_modal_projector.linear_1."},
	{"mm.a.mlp.2.", "multi_modal_projector.linear_2."}, {NULL, NULL},
}, qwen_others[] = { /* not a.position_embd, which sinusoids replace */
	{"a.conv2d.1.", "audio_tower.conv2d1."}, {"a.conv2d.2.", "audio_tower.conv2d2."},
	{"a.conv2d.3.", "audio_tower.conv2d3."}, {"a.conv_out.", "audio_tower.conv_out."},
	{"a.post_ln.", "audio_tower.ln_post."},
	{"mm.a.mlp.1.", "multi_modal_projector.linear_1."},
	{"mm.a.mlp.2.", "multi_modal_projector.linear_2."}, {NULL, NULL},
};

static const struct sound_gguf_kind {
	const char *projector, *token; /* token: what stands for a clip in the text */
	const struct sound_gguf_name *others;
} voxtral = {"voxtral", "[AUDIO]", voxtral_others}, qwen = {"qwen3a", SOUND_PAD, qwen_others};

/* NULL: the file has no audio tower that is known here. */
static const struct sound_gguf_kind *kind_of(const struct gguf *g)
{
	struct str said = {0};
	const struct gguf_value *v = gguf_find(g, "clip.projector_type");
	v = v ? v : gguf_find(g, "clip.audio.projector_type");
	if (!v || !gguf_string(v, &said))
		return NULL;
	if (str_is(said, voxtral.projector))
		return &voxtral;
	/* Qwen3-ASR's file sees nothing, and the template of its text shows no audio. */
	return str_is(said, qwen.projector) && gguf_find(g, "clip.has_vision_encoder") ? &qwen
											: NULL;
}

static const char *in_table(const struct sound_gguf_name *table, const char *name,
			    const char **out_end)
{
	for (; table->from; table++) {
		size_t n = strlen(table->from);
		*out_end = name + n;
		if (strncmp(name, table->from, n) == 0)
			return table->to;
	}
	return NULL;
}

static const char *rename_tensor(const struct gguf *g, const char *name, struct arena *a)
{
	char full[200];
	const char *to, *end = "";
	int layer, at = 0;
	const struct sound_gguf_kind *kind = kind_of(g);
	if (!kind)
		return NULL;
	if (sscanf(name, "a.blk.%d.%n", &layer, &at) == 1 && at) {
		to = in_table(of_layer, name + at, &end);
		snprintf(full, sizeof full, "audio_tower.layers.%d.%s%s", layer, to ? to : "",
			 end);
	} else {
		to = in_table(kind->others, name, &end);
		snprintf(full, sizeof full, "%s%s", to ? to : "", end);
	}
	return to ? arena_strdup(a, full) : NULL;
}

/* -1: the model has no such token. */
static int32_t audio_token(const struct model *m, const struct sound_gguf_kind *kind)
{
	int32_t id = tokenizer_find(m->tokenizer, str_of(kind->token));
	return id >= 0 && tokenizer_is_special(m->tokenizer, id) ? id : -1;
}

enum status sound_gguf_open(const char *path, const struct model *m, struct tensors **out,
			    struct fail *fail)
{
	const struct model_opts opts = {.use_mmap = true};
	*out = NULL;
	bool hears = audio_token(m, &voxtral) >= 0 || audio_token(m, &qwen) >= 0;
	if (!tensors_gguf(m->tensors) || !hears)
		return OK;
	char *found = path && *path ? xstrdup(path)
				    : gguf_beside_only(tensors_dir(m->tensors),
						       gguf_beside_is_tower, "tower");
	enum status st = found ? tensors_open_gguf(found, &opts, rename_tensor, out, fail) : OK;
	free(found);
	const struct sound_gguf_kind *kind = st == OK && *out ? kind_of(tensors_gguf(*out)) : NULL;
	if (st == OK && *out && (!kind || audio_token(m, kind) < 0)) {
		tensors_close(*out);
		*out = NULL;
	}
	return st;
}

/* --- settings ------------------------------------------------------------------------ */

static enum status read_number(const struct gguf *g, const char *key, int32_t max, int32_t *out,
			       struct fail *fail)
{
	const struct gguf_value *v = gguf_find(g, key);
	int64_t n = 0;
	if (!v || !gguf_integer(v, 0, &n) || n < 1 || n > max)
		return fail_at(fail, E_FORMAT, key, "mmproj: %s is not a number from 1 to %d", key,
			       (int)max);
	*out = (int32_t)n;
	return OK;
}

/* Numbers that every file has. */
static enum status read_sizes(const struct gguf *g, struct sound_config *out, struct fail *fail)
{
	const struct {
		const char *key;
		int32_t *to, max;
	} numbers[] = {
		{"clip.audio.block_count", &out->n_layers, 256},
		{"clip.audio.embedding_length", &out->width, 1 << 14},
		{"clip.audio.attention.head_count", &out->n_heads, 256},
		{"clip.audio.feed_forward_length", &out->ffn_dim, 1 << 16},
		{"clip.audio.num_mel_bins", &out->n_mels, 128},
		{"clip.audio.projection_dim", &out->out_width, 1 << 16},
	};
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(numbers) && st == OK; i++)
		st = read_number(g, numbers[i].key, numbers[i].max, numbers[i].to, fail);
	return st;
}

static enum status read_voxtral(const struct tensors *ts, struct sound_config *out,
				struct fail *fail)
{
	const struct tensor *places = tensors_find(ts, PLACES);
	enum status st = read_number(tensors_gguf(ts), "clip.audio.projector.stack_factor", 64,
				     &out->joined, fail);
	if (st == OK && (!places || places->n_dims != 2 || places->dim[0] < 1 ||
			 places->dim[0] > 1 << 14))
		st = fail_at(fail, E_FORMAT, "a.position_embd.weight", "mmproj: "
			     "a.position_embd.weight is missing, or no table of at most %d rows",
			     1 << 14);
	if (st == OK)
		out->chunk = (int32_t)places->dim[0];
	return st;
}

/* A file says neither the frames of a chunk nor those of a window. llama.cpp has these, and so have
 * the published models. */
static enum status read_qwen(const struct tensors *ts, struct sound_config *out, struct fail *fail)
{
	enum { HALF_CHUNK = 50, WINDOW = 800 };
	const struct tensor *conv = tensors_find(ts, CONV);
	if (!conv || conv->n_dims != 4 || conv->dim[0] < 8 || conv->dim[0] > 1 << 12)
		return fail_at(fail, E_FORMAT, "a.conv2d.1.weight", "mmproj: a.conv2d.1.weight is "
			       "missing, or has no 8 to %d channels", 1 << 12);
	out->channels = (int32_t)conv->dim[0];
	out->chunk = HALF_CHUNK;
	out->window = WINDOW;
	return OK;
}

enum status sound_gguf_read(const struct tensors *ts, const struct model *m,
			    struct sound_config *out, struct fail *fail)
{
	const struct gguf *g = tensors_gguf(ts);
	const struct sound_gguf_kind *kind = kind_of(g);
	enum status st = read_sizes(g, out, fail);
	out->is_conv1d = kind == &voxtral;
	if (st == OK)
		st = out->is_conv1d ? read_voxtral(ts, out, fail) : read_qwen(ts, out, fail);
	out->format.n_mels = out->n_mels;
	out->token = audio_token(m, kind);
	return st;
}
