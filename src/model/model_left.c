/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor that nobody asked for is a part of the model that is missing from its numbers. The
 * words of such an answer stay plausible, so nothing is left out in silence.
 */
#include "model/model_left.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum place { BEGINS, HAS, ENDS };

/* What may be left out, and why. */
static const struct {
	enum place place;
	const char *text, *why;
} left[] = {
	{HAS, "rotary_emb.", "rotations are computed"},
	{BEGINS, "vision_tower.", "images: src/vision reads it, if they are on"},
	{BEGINS, "vision_model.", "the same"},
	{BEGINS, "visual.", "the same"},
	{BEGINS, "model.visual.", "the same"},
	{BEGINS, "model.vision_tower.", "the same"},
	{BEGINS, "model.vision_embedder.", "the same"},
	{BEGINS, "model.embed_vision.", "the same"},
	{BEGINS, "model.vision_adapter.", "the same"},
	{BEGINS, "model.vision_projection.", "the same"},
	{BEGINS, "model.multi_modal_projector.", "the same"},
	{BEGINS, "embed_vision.", "the same"},
	{BEGINS, "multi_modal_projector.", "the same"},
	{BEGINS, "vit_large_projector.", "the same"},
	{BEGINS, "v.", "the same, in GGUF"},
	{BEGINS, "mm.", "the same, in GGUF"},
	{BEGINS, "audio_tower.", "sound: src/sound reads it, if it is known and on"},
	{BEGINS, "model.audio_tower.", "the same"},
	{BEGINS, "model.embed_audio.", "sound is refused"},
	{BEGINS, "embed_audio.", "the same"},
	{BEGINS, "a.", "the same, in GGUF"},
	{BEGINS, "thinker.visual.", "images: src/vision reads it, if they are on"},
	{BEGINS, "thinker.audio_tower.", "as audio_tower."},
	{BEGINS, "talker.", "speech of Omni"},
	{BEGINS, "code2wav.", "the same"},
	{BEGINS, "token2wav.", "the same"},
	{BEGINS, "mtp.", "an MTP layer changes no answer"},
	{BEGINS, "model.mtp", "the same; ERNIE 4.5 has model.mtp_block and others"},
	{BEGINS, "t2d", "d2t of an EAGLE-3 head says the same"},
	{HAS, ".nextn.", "the same, in GGUF"},
	{ENDS, ".ple_embedding.layer_multipliers", "it follows from the seed"},
	{ENDS, ".ple_embedding.ngram_heads_offsets", "it follows from the sizes"},
	{ENDS, ".ple_embedding.ngram_heads_vocab_sizes", "the same"},
	{ENDS, ".input_scale", "inputs are not rounded"},
	{ENDS, ".input_global_scale", "the same"},
	{ENDS, ".input_zero_point", "the same"},
	{ENDS, ".act_scale", "the same"},
	{ENDS, ".output_scale", "outputs are not rounded"},
	{ENDS, ".output_zero_point", "the same"},
	{ENDS, ".k_scale", "the KV cache is not FP8"},
	{ENDS, ".v_scale", "the same"},
	{ENDS, ".q_scale", "the same"},
	{ENDS, ".prob_output_scale", "the same"},
	{ENDS, ".kv_scale", "the same"},
	{ENDS, ".weight_shape", "the shape is known"},
	{ENDS, ".weight_format", "the format is known"},
};

static bool is_at(struct str name, enum place place, struct str text)
{
	if (place == HAS)
		return str_find(name, text, 0) >= 0;
	return place == BEGINS ? str_starts(name, text) : str_ends(name, text);
}

/* AutoGPTQ writes a bias of zeros for each layer; others write zero points of zeros. */
static bool is_nothing(const struct tensor *t)
{
	struct str name = str_of(t->name);
	const char *p = t->data;
	bool may = str_ends(name, STR("bias")) || str_ends(name, STR("zero_point")) ||
		   str_ends(name, STR("g_idx"));
	for (size_t i = 0; may && i < t->n_bytes; i++)
		may = p[i] == 0;
	return may || t->n_bytes == 0;
}

/* True if the tensor is of a layer behind the last one, and that layer is one that drafts: it
 * has a norm for the next token. Without one, the number of layers is wrong. */
static bool is_behind(const struct model *m, const char *name)
{
	char body[200], norm[240];
	snprintf(body, sizeof body, "%s%slayers.", m->config.prefix, m->config.body);
	const char *parts[] = {body, "blk."};
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		size_t n = strlen(parts[i]);
		char *end;
		if (strncmp(name, parts[i], n) != 0)
			continue;
		long layer = strtol(name + n, &end, 10);
		snprintf(norm, sizeof norm, "%s%ld.enorm.weight", body, layer);
		if (layer >= m->config.n_layers && *end == '.' && tensors_has(m->tensors, norm))
			return true;
	}
	return false;
}

static bool may_leave(const struct model *m, const struct tensor *t)
{
	struct str name = str_of(t->name);
	for (size_t i = 0; i < ARRAY_LEN(left); i++)
		if (is_at(name, left[i].place, str_of(left[i].text)))
			return true;
	/* The head is the table of tokens, or a file has MLA's matrix of both halves beside
	 * the halves. */
	if ((m->config.tied_embeddings && str_find(name, STR("lm_head."), 0) >= 0) ||
	    str_find(name, STR(".self_attn.kv_b_proj."), 0) >= 0)
		return true;
	return is_behind(m, t->name) || model_converted(m, t->name) || is_nothing(t);
}

enum status model_left_check(const struct model *m, struct fail *fail)
{
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		if (!tensors_is_asked(m->tensors, i) && !may_leave(m, t))
			return fail_at(fail, E_UNSUPPORTED, t->name, "%s: tensor %s has no place "
				       "in a %s: halod does not know what it does, and without it "
				       "the answers would be wrong", t->file, t->name,
				       m->config.arch);
	}
	return OK;
}
