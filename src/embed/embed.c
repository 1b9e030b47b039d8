/* SPDX-License-Identifier: Apache-2.0 */
#include "embed/embed.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "embed/embed_gguf.h"
#include "embed/embed_pool.h"
#include "embed/encoder.h"
#include "engine/engine.h"
#include "model/gguf.h"

/* Most texts and most tokens of a step. A text with more tokens runs alone, in several steps. */
enum { MAX_SEQS = 32, MAX_TOK = 2048, PAGE_SIZE = 16 };

/* The texts of one embed_run call, which waits for all of them. */
struct job {
	const struct embed_text *texts;
	size_t n, n_begun, n_done; /* n: number of texts */
	const _Atomic bool *is_gone;
	enum status st;
	struct fail fail;
	struct job *next;
};

struct embed {
	char *name;
	enum embed_kind kind;
	struct model *model;
	struct backend *backend;
	struct engine *engine;   /* one of these two: the engine, or … */
	struct encoder *encoder; /* … the encoder; the other is NULL */
	struct embed_pool pool;
	int32_t n_ctx, yes, no;
	struct memory_plan plan; /* of the engine, from embed_open to embed_load */
	pthread_mutex_t lock;    /* protects the following */
	pthread_cond_t has_news; /* a job is done, or no thread leads any more */
	bool is_led;
	struct job *jobs;        /* jobs with texts that no step has begun, oldest first */
};

/* A text in a step. */
struct part {
	struct job *job;
	const struct embed_text *text;
	struct engine_seq *seq;
	int32_t n_done; /* tokens whose keys and values are in the cache */
	float *sum;     /* (d_model), the pooling's sum so far; owned */
};

/* --- a step ---------------------------------------------------------------------- */

/* If the caller of a job is gone, drops the job's texts that no step has begun. True: dropped. */
static bool is_left_out(struct job *j)
{
	if (!j->is_gone || !atomic_load(j->is_gone))
		return false;
	j->n_done += j->n - j->n_begun;
	if (j->st == OK)
		j->st = fail_default(&j->fail, E_CANCELLED);
	return true;
}

/* Called by the leader, with the lock: choose texts for the next step, those of the oldest jobs
 * first. 0: none is left. */
static size_t embed_choose(struct embed *e, struct part *parts)
{
	size_t n = 0;
	int32_t n_tok = 0;
	while (e->jobs && n < MAX_SEQS) {
		struct job *j = e->jobs;
		if (is_left_out(j)) {
			e->jobs = j->next;
			continue;
		}
		const struct embed_text *t = &j->texts[j->n_begun];
		if (n > 0 && t->n > MAX_TOK - n_tok)
			break;
		parts[n++] = (struct part){.job = j, .text = t};
		n_tok += t->n;
		if (++j->n_begun == j->n)
			e->jobs = j->next;
	}
	return n;
}

static enum status begin_part(struct embed *e, struct part *p)
{
	int n_cached;
	p->sum = xcalloc((size_t)e->model->config.d_model, sizeof *p->sum);
	p->seq = engine_seq_create(e->engine, p->text->ids, p->text->n, &n_cached);
	p->n_done = n_cached;
	return engine_seq_reserve(e->engine, p->seq, p->text->n - n_cached);
}

/* Output rows that are needed of the next n tokens of a text. */
static int32_t n_rows(const struct embed *e, const struct part *p, int32_t n)
{
	if (e->kind == EMBED_VECTORS && e->pool.kind != EMBED_POOL_LAST)
		return n;
	return p->n_done + n == p->text->n;
}

static enum status take_rows(struct embed *e, const struct part *p, int i_slice, int32_t n,
			     struct fail *fail)
{
	int32_t rows = n_rows(e, p, n), width = e->model->config.d_model;
	if (rows == 0)
		return OK;
	const float *row = engine_logits(e->engine, i_slice);
	if (!row)
		return fail_set(fail, E_DEVICE, "the rows of a step are lost");
	if (e->kind == EMBED_SCORES) {
		float two[2];
		if (e->pool.n_dense) {
			embed_dense_run(&e->pool.dense[0], row, two);
			row = two;
		}
		*p->text->out = 1 / (1 + expf(row[e->no] - row[e->yes]));
		return OK;
	}
	const struct embed_rows r = {row, rows, p->n_done + n - rows, p->text->n, width};
	embed_pool_add(&e->pool, &r, p->sum);
	if (p->n_done + n == p->text->n)
		embed_pool_end(&e->pool, p->text->n, width, p->sum, p->text->out);
	return OK;
}

/* One step: the next tokens of each part, at most MAX_TOK of one. */
static enum status run_step(struct embed *e, struct part *parts, size_t n_parts,
			    struct fail *fail)
{
	struct engine_slice slices[MAX_SEQS];
	for (size_t i = 0; i < n_parts; i++) {
		struct part *p = &parts[i];
		int32_t n = MIN(p->text->n - p->n_done, MAX_TOK);
		slices[i] = (struct engine_slice){.seq = p->seq, .n = n,
						  .tokens = p->text->ids + p->n_done,
						  .n_logits = n_rows(e, p, n)};
	}
	enum status st = engine_step(e->engine, slices, (int)n_parts, fail);
	for (size_t i = 0; i < n_parts && st == OK; i++) {
		st = take_rows(e, &parts[i], (int)i, slices[i].n, fail);
		parts[i].n_done += slices[i].n;
	}
	return st;
}

/* Runs the parts to their end, without the lock. A single long text may need several steps;
 * several texts fit into one. */
static enum status run_parts(struct embed *e, struct part *parts, size_t n,
			     struct fail *fail)
{
	enum status st = OK;
	for (size_t i = 0; i < n && st == OK; i++)
		st = begin_part(e, &parts[i]);
	if (st != OK)
		fail_default(fail, st);
	while (st == OK && parts[0].n_done < parts[0].text->n)
		st = run_step(e, parts, n, fail);
	for (size_t i = 0; i < n; i++) {
		engine_seq_destroy(e->engine, parts[i].seq);
		free(parts[i].sum);
	}
	return st;
}

/* Pools the rows (n, d_model) of a text and writes its result. */
static void pool_rows(const struct embed *e, const struct part *p, const float *rows)
{
	int32_t dim = e->model->config.d_model, n = p->text->n;
	float *sum = xcalloc((size_t)dim, sizeof *sum);
	embed_pool_add(&e->pool, &(struct embed_rows){rows, n, 0, n, dim}, sum);
	embed_pool_end(&e->pool, n, dim, sum, p->text->out);
	if (e->kind == EMBED_SCORES)
		*p->text->out = 1 / (1 + expf(-*p->text->out));
	free(sum);
}

/* Like run_parts, with an encoder, which takes all texts in one step. */
static enum status run_encoder(struct embed *e, struct part *parts, size_t n,
			       struct fail *fail)
{
	int32_t first[MAX_SEQS + 1] = {0};
	for (size_t i = 0; i < n; i++)
		first[i + 1] = first[i] + parts[i].text->n;
	size_t n_tok = (size_t)first[n], dim = (size_t)e->model->config.d_model;
	int32_t *ids = malloc(n_tok * sizeof *ids);
	float *rows = malloc(n_tok * dim * sizeof *rows);
	enum status st = ids && rows ? OK : E_NOMEM;
	for (size_t i = 0; i < n && st == OK; i++)
		memcpy(ids + first[i], parts[i].text->ids,
		       (size_t)parts[i].text->n * sizeof *ids);
	const struct encoder_batch b = {ids, first, (int32_t)n};
	if (st == OK)
		st = encoder_run(e->encoder, &b, rows, fail);
	for (size_t i = 0; i < n && st == OK; i++)
		pool_rows(e, &parts[i], rows + (size_t)first[i] * dim);
	free(ids);
	free(rows);
	return st == OK ? OK : fail_default(fail, st);
}

/* --- callers --------------------------------------------------------------------- */

/* Runs one step. The caller holds the lock; lead releases it during the step and takes it
 * again. */
static void lead(struct embed *e)
{
	struct part parts[MAX_SEQS] = {0};
	struct fail fail = {0};
	size_t n = embed_choose(e, parts);
	e->is_led = true;
	pthread_mutex_unlock(&e->lock);
	enum status st = n == 0		 ? OK
			 : e->encoder ? run_encoder(e, parts, n, &fail)
				      : run_parts(e, parts, n, &fail);
	pthread_mutex_lock(&e->lock);
	e->is_led = false;
	for (size_t i = 0; i < n; i++) {
		struct job *j = parts[i].job;
		j->n_done++;
		if (st != OK && j->st == OK) {
			j->st = st;
			j->fail = fail;
		}
	}
	pthread_cond_broadcast(&e->has_news);
}

enum status embed_run(struct embed *e, const struct embed_ask *ask, struct fail *fail)
{
	struct job job = {.texts = ask->texts, .n = ask->n, .is_gone = ask->is_gone};
	for (size_t i = 0; i < ask->n; i++)
		if (ask->texts[i].n < 1 || ask->texts[i].n > e->n_ctx)
			return fail_set(fail, E_INVAL, "a text of %d tokens: 1 to %d are "
					"possible", (int)ask->texts[i].n, (int)e->n_ctx);
	if (ask->n == 0)
		return OK;
	pthread_mutex_lock(&e->lock);
	struct job **last = &e->jobs;
	while (*last)
		last = &(*last)->next;
	*last = &job;
	while (job.n_done < job.n) {
		if (e->is_led)
			pthread_cond_wait(&e->has_news, &e->lock);
		else
			lead(e);
	}
	pthread_mutex_unlock(&e->lock);
	if (job.st != OK && fail)
		*fail = job.fail;
	return job.st;
}

/* --- pairs ------------------------------------------------------------------------ */

static void embed_add(struct marked *out, const char *text)
{
	marked_add(out, str_of(text), TRUST_TEMPLATE);
}

/* "<s>query</s></s>document</s>", as RoBERTa's tokenizer joins two texts. */
static void join_pair(const struct embed *e, const struct embed_pair *p, struct marked *out)
{
	const char *begin = e->model->bos_text, *end = e->model->eos_text;
	embed_add(out, begin);
	marked_add(out, p->query, TRUST_USER);
	embed_add(out, end);
	embed_add(out, end);
	marked_add(out, p->document, TRUST_USER);
	embed_add(out, end);
}

bool embed_takes_instruct(const struct embed *e)
{
	return !e->encoder;
}

void embed_pair_text(const struct embed *e, const struct embed_pair *p, struct marked *out)
{
	if (e->encoder) {
		join_pair(e, p, out);
		return;
	}
	embed_add(out,
		  "<|im_start|>system\nJudge whether the Document meets the requirements based "
		 "on the Query and the Instruct provided. Note that the answer can only be "
		 "\"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: ");
	if (p->instruct.n)
		marked_add(out, p->instruct, TRUST_USER);
	else
		embed_add(out,
			  "Given a web search query, retrieve relevant passages that answer the "
			 "query");
	embed_add(out, "\n<Query>: ");
	marked_add(out, p->query, TRUST_USER);
	embed_add(out, "\n<Document>: ");
	marked_add(out, p->document, TRUST_USER);
	embed_add(out, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

/* --- life ------------------------------------------------------------------------ */

/* True if the word is in a name of the model: the one that clients use, or general.name of its
 * GGUF file. */
static bool is_called(const struct embed *e, const char *word)
{
	const struct gguf *g = tensors_gguf(e->model->tensors);
	const struct gguf_value *v = g ? gguf_find(g, "general.name") : NULL;
	struct str name;
	if (strcasestr(e->name, word))
		return true;
	char *own = v && gguf_string(v, &name) ? xstrndup(name.p, name.n) : NULL;
	bool is_so = own && strcasestr(own, word);
	free(own);
	return is_so;
}

/* Refuses a model that was made for chats: it would read, and its numbers would mean nothing.
 * The weights do not tell one, so its files or a name of it must say that it reads. */
static enum status check_chat(const struct embed *e, struct fail *fail)
{
	const char *template = e->model->chat_template;
	bool scores = e->kind == EMBED_SCORES;
	bool is_said = scores ? e->pool.n_dense || (strstr(template, "yes") &&
						    strcasestr(template, "document"))
			      : e->pool.is_said;
	if (is_said || !*template || is_called(e, scores ? "rerank" : "embed"))
		return OK;
	return fail_set(fail, E_UNSUPPORTED, scores ?
			"%s is not a reranker: it has a chat template that asks for no yes or no, "
			"and no head that gives a score. If it is of Qwen3-Reranker's kind, let "
			"the name of its folder or file have the word rerank" :
			"%s is not an embedding model: it has a chat template, and no file that "
			"says how a vector is made of a text (modules.json, or pooling_type in a "
			"GGUF file). If it is one, let the name of its folder or file have the "
			"word embed", e->model->dir);
}

static enum status check_encoder(struct embed *e, struct fail *fail)
{
	const struct model *m = e->model;
	if (e->kind == EMBED_VECTORS)
		return embed_pool_read(m, &e->pool, fail);
	if (!m->bos_text || !m->eos_text || tokenizer_find(m->tokenizer, str_of(m->bos_text)) < 0 ||
	    tokenizer_find(m->tokenizer, str_of(m->eos_text)) < 0)
		return fail_set(fail, E_UNSUPPORTED, "%s is not a reranker that is known here: "
				"its tokenizer lacks bos_token or eos_token", m->dir);
	return embed_pool_read_head(m, &e->pool, fail);
}

/* The rows of the head are 0, of "yes", and 1. A model without a head of its own has the
 * logits of all tokens. */
static enum status check_head(struct embed *e, struct fail *fail)
{
	const struct tokenizer *t = e->model->tokenizer;
	enum status st = OK;
	if (tensors_gguf(e->model->tensors))
		st = embed_gguf_head(e->model, &e->pool, fail);
	if (st != OK)
		return st;
	e->yes = e->pool.n_dense ? 0 : tokenizer_find(t, STR("yes"));
	e->no = e->pool.n_dense ? 1 : tokenizer_find(t, STR("no"));
	if (e->yes < 0 || e->no < 0 || tokenizer_find(t, STR("<|im_start|>")) < 0 ||
	    tokenizer_find(t, STR("<|im_end|>")) < 0)
		return fail_set(fail, E_UNSUPPORTED, "%s is not a reranker that is known here: "
				"its tokenizer lacks yes, no, <|im_start|> or <|im_end|>",
				e->model->dir);
	return OK;
}

/* A tokenizer that tells capitals apart would need the text in lower case; most that belong to
 * such models do not. */
static enum status check_case(const struct embed *e, struct fail *fail)
{
	const struct tokenizer *t = e->model->tokenizer;
	struct ids large = {0}, small = {0};
	enum status st = tokenizer_encode(t, STR("The GÄRTEN"), TRUST_USER, &large, fail);
	if (st == OK)
		st = tokenizer_encode(t, STR("the gärten"), TRUST_USER, &small, fail);
	if (st == OK && (large.n != small.n || memcmp(large.p, small.p, large.n *
								    sizeof *large.p) != 0))
		st = fail_at(fail, E_UNSUPPORTED, "do_lower_case",
			     "%s: do_lower_case of Sentence Transformers is not supported for a "
			     "tokenizer that tells capitals apart", e->model->dir);
	ids_deinit(&large);
	ids_deinit(&small);
	return st;
}

static enum status check_model(struct embed *e, struct fail *fail)
{
	if (e->model->config.is_encoder)
		return check_encoder(e, fail);
	if (e->model->config.n_linear > 0)
		return fail_set(fail, E_UNSUPPORTED, "%s has recurrent layers: such a model "
				"gives no embeddings here", e->model->dir);
	enum status st = e->kind == EMBED_VECTORS ? embed_pool_read(e->model, &e->pool, fail)
						  : check_head(e, fail);
	return st == OK ? check_chat(e, fail) : st;
}

/* Bytes of KV cache for one longest text, or for a step of short ones, where each text wastes
 * part of a page. */
static int64_t kv_bytes(const struct embed *e)
{
	int64_t n_tok = MAX(e->n_ctx, MAX_TOK) + PAGE_SIZE * MAX_SEQS;
	return n_tok * model_kv_bytes(&e->model->config, e->backend->kv_type);
}

static const char *key_of(enum embed_kind kind)
{
	return kind == EMBED_SCORES ? "rerank_model" : "embedding_model";
}

static enum status plan_encoder(struct embed *e, const struct embed_opts *o, struct fail *fail)
{
	char what[120], advice[80];
	struct memory_have now;
	struct memory_part part = {
		.what = what, .key = key_of(e->kind), .advice = advice,
		.weights = model_weight_bytes(e->model),
		.scratch = encoder_work_bytes(&e->model->config, e->backend,
					      MAX(e->n_ctx, MAX_TOK), MAX_SEQS),
		.beside = o->ledger ? o->ledger->system_taken : 0};
	snprintf(what, sizeof what, "the encoder %.80s", o->name);
	snprintf(advice, sizeof advice, "Set embedding_ctx to less, or leave %s out", part.key);
	engine_memory(e->backend, &now);
	enum status st = memory_plan_part(&part, o->ledger ? &o->ledger->system : &now, fail);
	if (st == OK && o->ledger)
		memory_ledger_take(o->ledger, false, part.weights + part.scratch);
	return st;
}

static struct engine_opts engine_opts_of(const struct embed *e)
{
	return (struct engine_opts){
		.page_size = PAGE_SIZE, .kv_bytes = kv_bytes(e), .n_ctx = e->n_ctx,
		.max_seqs = MAX_SEQS, .max_batch_tok = MAX_TOK,
		/* Pairs of one query have the same beginning. */
		.prefix_cache = e->kind == EMBED_SCORES,
		.gives_rows = e->kind == EMBED_VECTORS || e->pool.n_dense,
		.model_key = key_of(e->kind), .ctx_key = "embedding_ctx"};
}

static enum status plan_engine(struct embed *e, const struct embed_opts *o, struct fail *fail)
{
	const struct engine_opts eo = engine_opts_of(e);
	return engine_plan_beside(e->model, e->backend, &eo, o->ledger, &e->plan, fail);
}

static enum status open_model(struct embed *e, const struct embed_opts *o, struct fail *fail)
{
	enum status st = model_open(o->dir, NULL, &e->model, fail);
	if (st == OK)
		st = check_model(e, fail);
	if (st != OK)
		return st;
	struct backend_opts bo = o->backend;
	bo.name = e->model->config.is_encoder ? "cpu" : bo.name;
	st = backend_create(&bo, &e->backend, fail);
	if (st != OK)
		return st;
	e->n_ctx = MIN(o->n_ctx, e->model->config.max_ctx);
	if (e->pool.max_tok)
		e->n_ctx = MIN(e->n_ctx, e->pool.max_tok);
	if (e->pool.lowers && (st = check_case(e, fail)) != OK)
		return st;
	return e->model->config.is_encoder ? plan_encoder(e, o, fail) : plan_engine(e, o, fail);
}

enum status embed_open(const struct embed_opts *o, struct embed **out, struct fail *fail)
{
	struct embed *e = xcalloc(1, sizeof *e);
	e->name = xstrdup(o->name);
	e->kind = o->kind;
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->has_news, NULL);
	enum status st = open_model(e, o, fail);
	if (st != OK) {
		embed_destroy(e);
		return st;
	}
	*out = e;
	return OK;
}

enum status embed_load(struct embed *e, struct fail *fail)
{
	struct engine_opts eo = engine_opts_of(e);
	if (e->model->config.is_encoder)
		return encoder_create(e->model, e->backend, &e->encoder, fail);
	eo.plan = &e->plan;
	return engine_create(e->model, e->backend, &eo, &e->engine, fail);
}

void embed_destroy(struct embed *e)
{
	if (!e)
		return;
	engine_destroy(e->engine);
	encoder_destroy(e->encoder);
	embed_pool_deinit(&e->pool);
	backend_destroy(e->backend);
	model_close(e->model);
	pthread_cond_destroy(&e->has_news);
	pthread_mutex_destroy(&e->lock);
	free(e->name);
	free(e);
}

const char *embed_name(const struct embed *e)
{
	return e->name;
}

const struct model *embed_model(const struct embed *e)
{
	return e->model;
}

int32_t embed_width(const struct embed *e)
{
	return e->kind == EMBED_SCORES ? 1 : e->pool.width;
}

int32_t embed_n_ctx(const struct embed *e)
{
	return e->n_ctx;
}
