/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts a checkpoint's parts from the names and shapes of its tensors, before it is
 * loaded.
 *
 * A decoded token reads all of a part, with four exceptions. It reads only the experts that it
 * is routed to. It reads one row of the embedding; if the embedding is the lm_head too, all of
 * it as well. Of a table of n-grams it reads one row of each part, from the disk. It reads nothing
 * of "other", which is outside the text model or the layer that drafts.
 */
#include "ctl/survey.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/usual_names.h"

static const struct {
	const char *infix;
	enum part part;
} infixes[] = { /* the first that occurs decides */
	{"embed_tokens", PART_EMBEDDING},
	{"lm_head", PART_LM_HEAD},
	{MODEL_NGRAM_TABLE, PART_NGRAMS},
	{"hyper_connection", PART_STREAMS}, /* the mixers of several residual streams */
	{"_hc.", PART_STREAMS},
	{"hc_head.", PART_STREAMS},
	{".ple.", PART_STREAMS}, /* what n-grams add to them */
	{"norm", PART_NORMS}, /* before "attn", because q_norm is in self_attn */
	{".mlp.gate.", PART_ROUTER},
	{".mlp.router.", PART_ROUTER},
	{".experts.", PART_EXPERTS},
	{"attn", PART_ATTENTION},
	{".mamba.", PART_ATTENTION}, /* counted as attention, whose place these parts take */
	{".conv.", PART_ATTENTION},
	{".mlp.", PART_FFN},
};

const char *part_name(enum part p)
{
	static const char *const names[PART_COUNT] = {
		[PART_EMBEDDING] = "embedding", [PART_ATTENTION] = "attention",
		[PART_ROUTER] = "router",       [PART_EXPERTS] = "experts",
		[PART_FFN] = "ffn",             [PART_NORMS] = "norms",
		[PART_STREAMS] = "streams",     [PART_NGRAMS] = "n-grams",
		[PART_LM_HEAD] = "lm_head",     [PART_OTHER] = "other",
	};
	return names[p];
}

enum part survey_part(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(infixes); i++)
		if (strstr(name, infixes[i].infix))
			return infixes[i].part;
	return PART_OTHER;
}

static int64_t token_bytes(const struct model_config *c, enum part p,
			   int64_t n_bytes, int64_t n_weights)
{
	if (p == PART_NGRAMS && n_weights)
		return (int64_t)((double)n_bytes / (double)n_weights * c->ngram.dim *
				 c->ngram.n_tables);
	if (p == PART_EXPERTS && c->n_experts)
		return n_bytes / c->n_experts * c->n_experts_used;
	if (p == PART_EMBEDDING)
		return n_bytes / c->n_vocab;
	return p == PART_OTHER ? 0 : n_bytes;
}

void survey_model(const struct model *m, struct survey *out)
{
	struct survey s = {0};
	struct arena names;
	arena_init(&names);
	for (size_t i = 0; i < tensors_count(m->tensors); i++) {
		const struct tensor *t = tensors_at(m->tensors, i);
		const char *usual = usual_names_of(t->name, &names);
		enum part p = model_reads(m, t->name) ? survey_part(usual ? usual : t->name)
						      : PART_OTHER;
		int64_t n_weights;
		enum quant q = model_tensor_quant(m, t, &n_weights);
		s.format[q].n_weights += n_weights;
		s.format[q].n_bytes += (int64_t)t->n_bytes;
		s.format[q].stay_bytes += p == PART_NGRAMS ? (int64_t)t->n_bytes : 0;
		s.part[p].n_tensors++;
		s.part[p].n_weights += n_weights;
		s.part[p].n_bytes += (int64_t)t->n_bytes;
	}
	arena_deinit(&names);
	for (enum part p = 0; p < PART_COUNT; p++) {
		s.part[p].token_bytes =
			token_bytes(&m->config, p, s.part[p].n_bytes, s.part[p].n_weights);
		if (p == PART_LM_HEAD && m->config.tied_embeddings)
			s.part[p].token_bytes = s.part[PART_EMBEDDING].n_bytes;
		s.n_tensors += s.part[p].n_tensors;
		s.n_weights += s.part[p].n_weights;
		s.n_bytes += s.part[p].n_bytes;
		s.token_bytes += s.part[p].token_bytes;
	}
	*out = s;
}

int64_t survey_kv_bytes(const struct model_config *c, enum dtype kv_type)
{
	return model_kv_bytes(c, kv_type);
}

int64_t survey_kv_read(const struct model_config *c, enum dtype kv_type, int64_t depth)
{
	int64_t layers = 0, n = 0;
	for (int32_t i = 0; i < c->n_layers; i++)
		layers += model_attends(c, i);
	int64_t each = layers ? survey_kv_bytes(c, kv_type) / layers : 0;
	for (int32_t i = 0; i < c->n_layers; i++) {
		bool is_windowed = c->is_windowed && c->is_windowed[i];
		if (model_attends(c, i))
			n += each * (is_windowed ? MIN(depth, c->window) : depth);
	}
	return n;
}
