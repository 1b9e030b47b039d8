/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/embeddings in OpenAI's shape, /api/embed and /api/embeddings in Ollama's. `input` is
 * a text, a list of texts, a list of token ids, or a list of such lists. `dimensions` keeps the
 * first numbers of a vector and scales them to length 1 again. Only models trained for that allow
 * it (Kusupati et al., Matryoshka Representation Learning, 2022).
 */
#include "api/params.h"
#include "api/embed_texts.h"
#include "api/text_call.h"
#include "base/clock.h"
#include "embed/embed_pool.h"

/* OpenAI's bound on the inputs of a request. */
#define MAX_INPUTS 2048

struct embeddings {
	struct embed_texts batch;
	bool is_base64;
	int64_t n_dims; /* numbers in each vector */
};

/* --- in ---------------------------------------------------------------------- */

static enum status add_text(const struct embed *e, const struct json_node *at,
			    struct embed_texts *b, struct fail *fail)
{
	struct str text;
	struct marked m = {0};
	size_t first = b->ids.n;
	enum status st = json_read_need_str(at, &text, fail);
	if (st != OK)
		return st;
	marked_add(&m, text, TRUST_USER);
	st = tokenizer_encode_alone(embed_model(e)->tokenizer, &m, &b->ids, fail);
	marked_deinit(&m);
	return st == OK ? embed_texts_add(e, b, first, at, fail) : st;
}

static enum status add_ids(const struct embed *e, const struct json_node *at,
			   struct embed_texts *b, struct fail *fail)
{
	struct arena arena;
	int32_t *ids;
	size_t n, first = b->ids.n;
	arena_init(&arena);
	enum status st = params_read_ids(at, (size_t)embed_n_ctx(e),
					 embed_model(e)->config.n_vocab, &arena, &ids, &n,
					 fail);
	for (size_t i = 0; st == OK && i < n; i++)
		ids_add(&b->ids, ids[i]);
	arena_deinit(&arena);
	return st == OK ? embed_texts_add(e, b, first, at, fail) : st;
}

static enum status read_input(const struct embed *e, const struct json_node *at,
			      struct embed_texts *b, struct fail *fail)
{
	size_t n = 0;
	if (json_is_string(at->v))
		return add_text(e, at, b, fail);
	enum status st = json_read_need(at, fail);
	if (st == OK && json_is_integer(json_array_get(at->v, 0)))
		return add_ids(e, at, b, fail);
	if (st == OK)
		st = json_read_list(at, MAX_INPUTS, &n, fail);
	if (st == OK && n == 0)
		return json_read_fail(at, fail, "is empty: there is nothing to read");
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(at, i);
		st = json_is_array(item.v) ? add_ids(e, &item, b, fail)
					   : add_text(e, &item, b, fail);
	}
	return st;
}

static enum status read_body(const struct embed *e, const struct json_node *body,
			     struct embeddings *v, struct fail *fail)
{
	struct json_node input = json_read_get(body, "input");
	struct json_node format = json_read_get(body, "encoding_format");
	struct json_node dims = json_read_get(body, "dimensions");
	struct json_node cut = json_read_get(body, "truncate_prompt_tokens");
	struct str name = STR("float");
	v->n_dims = embed_width(e);
	enum status st = json_read_str(&format, &name, fail);
	v->is_base64 = str_is(name, "base64");
	if (st == OK && !v->is_base64 && !str_is(name, "float"))
		st = json_read_fail(&format, fail, "must be \"float\" or \"base64\"");
	if (st == OK)
		st = json_read_int(&dims, 1, embed_width(e), &v->n_dims, fail);
	if (st == OK && cut.v)
		st = json_read_fail(&cut, fail, "is not supported: texts are never cut here");
	return st == OK ? read_input(e, &input, &v->batch, fail) : st;
}

/* --- out --------------------------------------------------------------------- */

static void add_base64(struct buf *out, const unsigned char *p, size_t n)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		unsigned v = (unsigned)p[i] << 16;
		v |= i + 1 < n ? (unsigned)p[i + 1] << 8 : 0;
		v |= i + 2 < n ? p[i + 2] : 0;
		buf_add_c(out, letters[v >> 18]);
		buf_add_c(out, letters[v >> 12 & 63]);
		buf_add_c(out, i + 1 < n ? letters[v >> 6 & 63] : '=');
		buf_add_c(out, i + 2 < n ? letters[v & 63] : '=');
	}
}

/* Base64 holds the float32 values in this machine's byte order: little-endian, like OpenAI's. */
static void add_vector(const struct embeddings *v, const float *x, struct buf *out)
{
	size_t n = (size_t)v->n_dims;
	if (v->is_base64) {
		buf_add_c(out, '"');
		add_base64(out, (const unsigned char *)x, n * sizeof *x);
		buf_add_c(out, '"');
		return;
	}
	for (size_t i = 0; i < n; i++)
		buf_addf(out, "%c%.9g", i ? ',' : '[', (double)x[i]);
	buf_add_c(out, ']');
}

/* The numbers of vector i that are asked for, of length 1. Call once for each. */
static const float *take_vector(const struct embed *e, const struct embeddings *v, size_t i)
{
	float *x = v->batch.out + i * (size_t)embed_width(e);
	if (v->n_dims < embed_width(e))
		embed_pool_normalize(x, (int32_t)v->n_dims);
	return x;
}

static void add_answer(const struct embed *e, const struct embeddings *v, struct buf *out)
{
	buf_add_z(out, "{\"object\":\"list\",\"data\":[");
	for (size_t i = 0; i < v->batch.n; i++) {
		buf_addf(out, "%s{\"object\":\"embedding\",\"index\":%zu,\"embedding\":",
			 i ? "," : "", i);
		add_vector(v, take_vector(e, v, i), out);
		buf_add_c(out, '}');
	}
	buf_add_z(out, "],\"model\":");
	buf_add_json(out, str_of(embed_name(e)));
	buf_addf(out, ",\"usage\":{\"prompt_tokens\":%zu,\"total_tokens\":%zu}}",
		 v->batch.ids.n, v->batch.ids.n);
}

static enum status embeddings(const struct api *a, const struct text_input *in, struct buf *out,
			      struct fail *fail)
{
	struct embeddings v = {0};
	enum status st = embed_texts_check(a->embedder, "embedding_model", in->body, fail);
	if (st == OK)
		st = read_body(a->embedder, in->body, &v, fail);
	if (st == OK)
		st = embed_texts_run(a->embedder, &v.batch, in->is_gone, fail);
	if (st == OK)
		add_answer(a->embedder, &v, out);
	embed_texts_deinit(&v.batch);
	return st;
}

/* --- Ollama's shapes ------------------------------------------------------------ */

static void add_vectors(const struct embed *e, const struct embeddings *v, struct buf *out)
{
	for (size_t i = 0; i < v->batch.n; i++) {
		buf_add_z(out, i ? "," : "");
		add_vector(v, take_vector(e, v, i), out);
	}
}

/* Reads the texts under `key` into v and computes their vectors. */
static enum status run_ollama(const struct api *a, const struct text_input *in, const char *key,
			      struct embeddings *v, struct fail *fail)
{
	struct json_node input = json_read_get(in->body, key);
	struct json_node dims = json_read_get(in->body, "dimensions");
	enum status st = embed_texts_check(a->embedder, "embedding_model", in->body, fail);
	if (st != OK)
		return st;
	v->n_dims = embed_width(a->embedder);
	st = json_read_int(&dims, 1, embed_width(a->embedder), &v->n_dims, fail);
	if (st == OK)
		st = read_input(a->embedder, &input, &v->batch, fail);
	return st == OK ? embed_texts_run(a->embedder, &v->batch, in->is_gone, fail) : st;
}

static enum status embed_many(const struct api *a, const struct text_input *in, struct buf *out,
			      struct fail *fail)
{
	struct embeddings v = {0};
	int64_t from = clock_now_us(a->clock);
	enum status st = run_ollama(a, in, "input", &v, fail);
	if (st == OK) {
		buf_add_z(out, "{\"model\":");
		buf_add_json(out, str_of(embed_name(a->embedder)));
		buf_add_z(out, ",\"embeddings\":[");
		add_vectors(a->embedder, &v, out);
		buf_addf(out, "],\"total_duration\":%lld,\"load_duration\":0,"
			 "\"prompt_eval_count\":%zu}",
			 (long long)(clock_now_us(a->clock) - from) * 1000, v.batch.ids.n);
	}
	embed_texts_deinit(&v.batch);
	return st;
}

enum status api_ollama_embed(const struct api *a, const struct api_input *in, struct buf *out,
			     struct fail *fail)
{
	return text_call(a, in, embed_many, out, fail);
}

static enum status embed_one(const struct api *a, const struct text_input *in, struct buf *out,
			     struct fail *fail)
{
	struct json_node prompt = json_read_get(in->body, "prompt");
	struct embeddings v = {0};
	struct str s;
	enum status st = a->embedder ? json_read_need_str(&prompt, &s, fail) : OK;
	if (st == OK)
		st = run_ollama(a, in, "prompt", &v, fail);
	if (st == OK) {
		buf_add_z(out, "{\"embedding\":");
		add_vectors(a->embedder, &v, out);
		buf_add_c(out, '}');
	}
	embed_texts_deinit(&v.batch);
	return st;
}

enum status api_ollama_embeddings(const struct api *a, const struct api_input *in,
				  struct buf *out, struct fail *fail)
{
	return text_call(a, in, embed_one, out, fail);
}

enum status api_embeddings(const struct api *a, const struct api_input *in, struct buf *out,
			   struct fail *fail)
{
	return text_call(a, in, embeddings, out, fail);
}
