/* SPDX-License-Identifier: Apache-2.0
 *
 * Embeddings of n-grams. The ids of a token and of those before it are hashed, for each
 * length from 2 to ngram_size and each of ngram_heads parts of a table:
 *
 *   h = id[0] m[0] xor id[1] m[1] xor …, with id[j] the j-th token before
 *   row = h mod (a prime number of the part), counted from where the part begins
 *
 * Tokens before an ngram_eos do not count: ngram_eos itself stands in for each of them. The rows
 * of all parts, one after the other, are e. Then, for each residual stream s:
 *
 *   key = norm(Wkey e);  query = norm(x)
 *   gated[s] = sigmoid(root of (key[s] . query[s] / sqrt(D))) Wvalue e
 *   x[s] += gated[s] + silu(a convolution of norm(gated[s]) along the sequence)
 *
 * Inputs of the convolution are ngram_size tokens apart. It runs as a convolution of neighbouring
 * inputs, of which those in between have weight 0.
 *
 * Tables are larger than the rest of the model. They stay in the model's files, and the host
 * reads the few rows of a step from there, a page for each. So a device holds none of them.
 *
 * Source: modeling_qwen4_exp.py of Hugging Face Transformers, Qwen4ExpTextPLELayer and
 * Qwen4ExpTextNGramEmbedding.
 */
#include "engine/parts/ngram.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "engine/graph_images.h"
#include "model/formats/weight_pages.h"

/* --- which rows ---------------------------------------------------------------------- */

static uint64_t mix_bits(uint64_t x)
{
	x += 0x9E3779B97F4A7C15u;
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
	x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
	return x ^ (x >> 31);
}

/* m of table number i_table: odd, and so small that no product overflows. */
static void set_factors(const struct graph *g, int i_table, int64_t *out)
{
	const struct ngram_scratch *r = &g->ngrams;
	uint64_t seed = (uint64_t)r->seed + 10007 * (uint64_t)i_table;
	int64_t half = MAX(1, INT64_MAX / g->embed.n / 2);
	for (int32_t i = 0; i < r->size; i++) {
		if (r->factors) {
			out[i] = r->factors[i];
			continue;
		}
		uint64_t x = mix_bits(seed + 0x9E3779B97F4A7C15u * (uint64_t)(i + 1));
		out[i] = 2 * (int64_t)(x % (uint64_t)half) + 1;
	}
}

static bool is_prime(int64_t n)
{
	bool is = n >= 2;
	for (int64_t d = 2; is && d * d <= n; d++)
		is = n % d != 0;
	return is;
}

/* Tokens that the convolution spans, including those between its taps. */
static int32_t width_of(const struct ngram_scratch *r)
{
	return (r->n_taps - 1) * r->size + 1;
}

static int32_t n_heads_of(const struct ngram_scratch *r)
{
	return (r->size - 1) * r->n_heads;
}

/* Gives the parts of all tables the prime numbers from ngram_vocab on, in order. */
static void set_parts(const struct ngram_scratch *r, int i_table, struct ngram *out)
{
	int32_t n = n_heads_of(r);
	int64_t prime = r->vocab - 1, start = 0;
	for (int32_t i = 0; i < n && r->sizes; i++) {
		out->part[i] = (struct ngram_part){r->sizes[i], start};
		start += r->sizes[i];
	}
	for (int32_t i = 0; i < (i_table + 1) * n && !r->sizes; i++) {
		do
			prime++;
		while (!is_prime(prime));
		if (i < i_table * n)
			continue;
		out->part[i - i_table * n] = (struct ngram_part){prime, start};
		start += prime;
	}
	out->n_rows = start;
}

/* Row of part h for the ids of a token and of those before it. */
static int64_t row_of(const struct ngram_scratch *r, const struct ngram *n, int32_t h,
		      const int32_t *ids)
{
	int64_t hash = 0;
	for (int32_t i = 0; i < 2 + h / r->n_heads; i++)
		hash ^= ids[i] * n->factor[i];
	return hash % n->part[h].size + n->part[h].start;
}

/* ids[j]: of the j-th token before token t of slice `seq`. */
static void look_back(const struct ngram_scratch *r, const struct engine_batch *b, int seq,
		      int32_t t, int32_t *ids)
{
	int32_t first = b->first_tok[seq];
	const int32_t *before = b->before + (size_t)seq * ENGINE_BEFORE;
	ids[0] = b->token[t];
	for (int32_t j = 1; j < r->size; j++) {
		int32_t at = t - j;
		ids[j] = at >= first ? b->token[at] : before[first - at - 1];
		if (ids[j] < 0 || ids[j] == r->eos || (j > 1 && ids[j - 1] == r->eos))
			ids[j] = r->eos;
	}
}

/* The shard with row *row of the whole table, and which of its rows that is. */
static const struct weight *find_shard(const struct ngram *n, int64_t *row)
{
	int32_t i = 0;
	while (*row >= n->shard[i].n)
		*row -= n->shard[i++].n;
	return &n->shard[i];
}

static void read_row(const struct ngram *n, int64_t row, float *out)
{
	const struct weight *shard = find_shard(n, &row);
	weight_decode(shard, (int32_t)row, (int32_t)row + 1, out);
}

/* Has the disk begin with the rows of a token. */
static void want_token(const struct graph *g, const struct ngram *n, const int32_t *ids)
{
	for (int32_t h = 0; h < n_heads_of(&g->ngrams); h++) {
		int64_t row = row_of(&g->ngrams, n, h, ids);
		const struct weight *shard = find_shard(n, &row);
		weight_pages_want(shard, row);
	}
}

static void read_token(const struct graph *g, const struct ngram *n, const int32_t *ids,
		       void *out)
{
	int32_t n_heads = n_heads_of(&g->ngrams), width = g->ngrams.dim / n_heads;
	size_t bytes = (size_t)width * dtype_bytes(g->b->act_type);
	for (int32_t h = 0; h < n_heads; h++) {
		read_row(n, row_of(&g->ngrams, n, h, ids), g->ngrams.row);
		backend_to_act(g->b, g->ngrams.row, (size_t)width,
			       (char *)out + (size_t)h * bytes);
	}
}

/* All of a step at once, before the first is waited for: one after the other they would take a
 * disk's latency each. */
static void want_rows(struct graph *g, const struct engine_batch *b)
{
	int32_t ids[NGRAM_MOST];
	for (int seq = 0; seq < b->n_seq; seq++)
		for (int32_t t = b->first_tok[seq]; t < b->first_tok[seq + 1]; t++) {
			look_back(&g->ngrams, b, seq, t, ids);
			for (int i = 0; i < g->n_layers; i++)
				if (g->layers[i].ngram.is_here)
					want_token(g, &g->layers[i].ngram, ids);
		}
}

void ngram_read(struct graph *g, const struct engine_batch *b)
{
	want_rows(g, b);
	size_t row = (size_t)g->ngrams.dim * dtype_bytes(g->b->act_type);
	size_t table = (size_t)g->limits.max_batch_tok * row;
	int32_t ids[NGRAM_MOST];
	for (int seq = 0; seq < b->n_seq; seq++)
		for (int32_t t = b->first_tok[seq]; t < b->first_tok[seq + 1]; t++) {
			look_back(&g->ngrams, b, seq, t, ids);
			char *to = g->ngrams.host + (size_t)t * row;
			for (int i = 0; i < g->n_layers; i++) {
				const struct ngram *n = &g->layers[i].ngram;
				if (n->is_here)
					read_token(g, n, ids, to + (size_t)n->i_table * table);
			}
		}
}

/* --- weights and memory -------------------------------------------------------------- */

/* A table lies in one tensor or in several. */
static enum status load_table(struct graph *g, int i, struct ngram *n, struct fail *fail)
{
	static const char base[] = "ple.ple_embedding" MODEL_NGRAM_TABLE;
	char name[80], full[200], tensor[210];
	int32_t width = g->ngrams.dim / n_heads_of(&g->ngrams);
	int64_t n_rows = 0;
	enum status st = OK;
	for (n->n_shards = 0; st == OK; n->n_shards++) {
		snprintf(name, sizeof name, "%sshard_%d", base, (int)n->n_shards);
		if (n->n_shards == 0 && !graph_layer_has(g, i, name))
			snprintf(name, sizeof name, "%.*s", (int)sizeof base - 2, base);
		graph_layer_name(g, i, name, full);
		snprintf(tensor, sizeof tensor, "%s.weight", full);
		const struct tensor *t = tensors_find(g->m->tensors, tensor);
		if (!t || t->n_dims != 2 || t->dim[0] > INT32_MAX || n_rows >= n->n_rows)
			break;
		n->shard = xrealloc(n->shard, (size_t)(n->n_shards + 1) * sizeof *n->shard);
		st = model_weight(g->m, full, (int32_t)t->dim[0], width,
				  &n->shard[n->n_shards], fail);
		if (st == OK)
			weight_pages_random(&n->shard[n->n_shards]);
		n_rows += t->dim[0];
	}
	if (st == OK && n_rows < n->n_rows)
		st = fail_at(fail, E_FORMAT, "ngram_vocab_size_base", "layer %d: its table of "
			     "n-grams has %lld of %lld rows", i, (long long)n_rows,
			     (long long)n->n_rows);
	return st;
}

/* The convolution's weights with zeros between them. */
static enum status load_conv(struct graph *g, int i, struct ngram *n, struct fail *fail)
{
	const struct ngram_scratch *r = &g->ngrams;
	size_t channels = (size_t)(g->streams.count * g->dim);
	size_t width = (size_t)width_of(&g->ngrams), taps = (size_t)r->n_taps;
	char name[200];
	const float *host;
	enum status st = model_matrix(g->m, graph_layer_name(g, i, "ple.conv1d.weight", name),
				      (int32_t)channels, r->n_taps, &host, fail);
	if (st != OK)
		return st;
	float *apart = xcalloc(channels * width, sizeof *apart);
	for (size_t k = 0; k < channels * taps; k++)
		apart[k / taps * width + k % taps * (size_t)r->size] = host[k];
	return graph_put_own(g, apart, channels * width, &n->conv, fail);
}

enum status ngram_load(struct graph *g, int i, struct fail *fail)
{
	const struct ngram_scratch *r = &g->ngrams;
	struct ngram *n = &g->layers[i].ngram;
	int32_t wide = g->streams.count * g->dim;
	const struct graph_part parts[] = {
		{"ple.key_proj", GRAPH_WEIGHT, wide, r->dim, &n->key},
		{"ple.value_proj", GRAPH_WEIGHT, g->dim, r->dim, &n->value},
		{"ple.norm_key.weight", GRAPH_NORM, wide, 0, &n->key_norm},
		{"ple.norm_query.weight", GRAPH_NORM, wide, 0, &n->query_norm},
		{"ple.norm_conv.weight", GRAPH_NORM, wide, 0, &n->conv_norm},
	};
	n->part = xcalloc((size_t)n_heads_of(&g->ngrams), sizeof *n->part);
	set_parts(&g->ngrams, n->i_table, n);
	set_factors(g, n->i_table, n->factor);
	enum status st = load_table(g, i, n, fail);
	if (st == OK)
		st = load_conv(g, i, n, fail);
	return st == OK ? graph_load_parts(g, i, parts, ARRAY_LEN(parts), fail) : st;
}

void ngram_free(struct ngram *n)
{
	free(n->part);
	free(n->shard);
}

/* Words of one table's rows, for a step of t tokens. */
static size_t words_of(const struct graph *g, size_t t)
{
	size_t bytes = t * (size_t)g->ngrams.dim * dtype_bytes(g->b->act_type);
	assert(bytes % sizeof(int32_t) == 0);
	return bytes / sizeof(int32_t);
}

enum status ngram_alloc(struct graph *g, struct fail *fail)
{
	struct ngram_scratch *r = &g->ngrams;
	size_t t = (size_t)g->limits.max_batch_tok, act = dtype_bytes(g->b->act_type);
	size_t wide = (size_t)g->streams.count * (size_t)g->dim;
	size_t shared = (size_t)r->n_tables * words_of(g, t) * sizeof(int32_t);
	size_t slots = (size_t)g->limits.n_states, kept = MIN(t, (size_t)ENGINE_DRAFT_TOK);
	size_t state = wide * (size_t)(width_of(&g->ngrams) - 1) * sizeof(float);
	const struct graph_want wanted[] = {{&r->rows, words_of(g, t) * sizeof(int32_t)},
					    {&r->key, t * wide * act}};
	enum status st = graph_take_all(g, wanted, ARRAY_LEN(wanted), fail);
	for (int i = 0; i < g->n_layers && st == OK; i++) {
		struct ngram *n = &g->layers[i].ngram;
		const struct graph_want of_layer[] = {{&n->state, slots * state},
						      {&n->kept, kept * wide * act}};
		n->state_bytes = state;
		if (n->is_here)
			st = graph_take_all(g, of_layer, ARRAY_LEN(of_layer), fail);
	}
	if (g->measured)
		*g->measured += (int64_t)shared;
	if (st != OK || g->measured)
		return st;
	void *host;
	r->row = xmalloc((size_t)r->dim * sizeof *r->row);
	st = g->b->ops->alloc_shared(g->b, shared, &host);
	if (st != OK)
		return fail_set(fail, st, "%s has no memory to share", g->b->device);
	r->host = host;
	return OK;
}

/* --- a step -------------------------------------------------------------------------- */

static enum status convolve(struct graph *g, const struct ngram *n, const void *x,
			    const struct graph_ids *ids, int32_t t, int32_t n_seq,
			    struct fail *fail)
{
	int32_t wide = g->streams.count * g->dim;
	RUN(causal_conv, .n_tok = t, .n_seq = n_seq, .width = width_of(&g->ngrams),
	    .n_parts = 1, .part = {{x, wide, 1, wide, wide}}, .weight = n->conv,
	    .first_tok = ids->first_tok, .states = ids->states, .state = n->state,
	    .y = g->ngrams.key);
	return OK;
}

enum status ngram_run(struct graph *g, const struct layer *l, const struct graph_step *s,
		      const struct ngram_run *x, struct fail *fail)
{
	const struct ngram *n = &l->ngram;
	const struct ngram_scratch *r = &g->ngrams;
	const struct streams_scratch *h = &g->streams;
	int32_t t = s->b->n_tok, n_rows = t * g->streams.count;
	size_t table = (size_t)n->i_table *
		       words_of(g, (size_t)g->limits.max_batch_tok);
	void *in = s->b->has_drafts ? n->kept : h->n;
	RUN(copy_words, .n = (int32_t)words_of(g, (size_t)t),
	    .x = (const int32_t *)(const void *)r->host + table, .y = r->rows);
	RUN(linear, .n_tok = t, .x = r->rows, .n_out = 2,
	    .out = {{.w = &n->key, .y = h->wide, .is_f32 = true},
		    {.w = &n->value, .y = g->x, .is_f32 = true}});
	RUN(rms_norm, .n_tok = n_rows, .dim = g->dim, .eps = g->eps, .x = h->wide,
	    .weight = n->key_norm, .n_weights = g->streams.count, .y = r->key);
	RUN(rms_norm, .n_tok = n_rows, .dim = g->dim, .eps = g->eps, .x = h->x,
	    .weight = n->query_norm, .n_weights = g->streams.count, .y = h->n);
	RUN(ngram_gate, .n_tok = t, .n_streams = g->streams.count, .dim = g->dim, .key = r->key,
	    .query = h->n, .value = g->x, .gated = h->wide, .x = h->x);
	RUN(rms_norm, .n_tok = n_rows, .dim = g->dim, .eps = g->eps, .x = h->wide,
	    .weight = n->conv_norm, .n_weights = g->streams.count, .y = in);
	*x->out_add = r->key;
	return convolve(g, n, in, &s->ids, t, s->b->n_seq, fail);
}

enum status ngram_replay(struct graph *g, const struct layer *l, const struct engine_replay *r,
			 const struct graph_ids *ids, struct fail *fail)
{
	size_t wide = (size_t)g->streams.count * (size_t)g->dim;
	const char *x = (const char *)l->ngram.kept +
			(size_t)r->first_tok * wide * dtype_bytes(g->b->act_type);
	return convolve(g, &l->ngram, x, ids, r->n_tok, 1, fail);
}
