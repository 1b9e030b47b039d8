/* SPDX-License-Identifier: Apache-2.0 */
#include "align/align.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "align/align_times.h"
#include "base/alloc.h"
#include "base/log.h"
#include "engine/engine.h"
#include "json/jsonfile.h"
#include "model/model_config.h"

/* MAX_US: longer clips than the published model was made for. */
enum { MAX_TOK = 2048, PAGE_SIZE = 16, USUAL_MS = 80 };
#define MAX_US ((int64_t)300 * 1000000)
#define MAX_BYTES ((size_t)16 << 20)

struct align {
	char *dir;
	struct model *model;
	struct backend *backend;
	struct sound *sound;
	struct engine *engine;
	struct memory_plan plan; /* from align_open to align_load */
	int32_t n_ctx;
	int32_t time_token, audio_begin, audio_end;
	double step_ms;          /* of a class */
	pthread_mutex_t lock;    /* whoever holds it uses the engine */
};

/* --- a prompt ------------------------------------------------------------------------ */

static void put(struct ids *ids, int32_t id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		ids_add(ids, id);
}

/* The clip, then each word and two tokens of time. */
static enum status make_prompt(const struct align *a, const struct align_words *words,
			       int32_t n_clip, struct ids *out, struct fail *fail)
{
	enum status st = OK;
	put(out, a->audio_begin, 1);
	put(out, sound_token(a->sound), (size_t)n_clip);
	put(out, a->audio_end, 1);
	for (size_t i = 0; i < words->n && st == OK; i++) {
		st = tokenizer_encode(a->model->tokenizer, align_words_text(words, i), TRUST_USER,
				      out, fail);
		put(out, a->time_token, 2);
	}
	if (st == OK && out->n > (size_t)a->n_ctx)
		return fail_set(fail, E_LIMIT, "the audio and what was said in it are %zu tokens "
				"for the aligner, which has a context of %d: send less audio, or "
				"ask for no times", out->n, (int)a->n_ctx);
	return st;
}

/* --- a pass -------------------------------------------------------------------------- */

struct pass {
	const struct ids *ids;
	size_t first;  /* token behind the clip */
	double *times; /* (2 for each word), of which n are known */
	size_t n;
};

static int32_t best_of(const float *row, int32_t n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		best = row[i] > row[best] ? i : best;
	return best;
}

/* Runs ids [at, at + n), and reads the classes of the tokens of time among them. */
static enum status step(struct align *a, struct engine_seq *seq, struct pass *p, size_t at,
			size_t n, struct fail *fail)
{
	size_t from = MAX(at, p->first), end = at + n;
	struct engine_slice slice = {.seq = seq, .tokens = p->ids->p + at, .n = (int)n,
				     .n_logits = end > from ? (int)(end - from) : 0};
	enum status st = engine_step(a->engine, &slice, 1, fail);
	for (size_t i = from; i < end && st == OK; i++) {
		if (p->ids->p[i] != a->time_token)
			continue;
		const float *row = engine_logits_row(a->engine, 0, (int)(i - from));
		if (!row)
			return fail_set(fail, E_DEVICE, "the rows of a step are lost");
		p->times[p->n++] = best_of(row, a->model->config.n_classes) * a->step_ms;
	}
	return st;
}

static enum status run_pass(struct align *a, const struct align_ask *ask, struct pass *p,
			    struct fail *fail)
{
	struct engine_image clip = *ask->clip;
	clip.at = 1;
	const struct engine_prompt prompt = {.tokens = p->ids->p, .n = (int)p->ids->n,
					     .images = &clip, .n_images = 1};
	int n_cached;
	struct engine_seq *seq = engine_seq_create_in(a->engine, &prompt, &n_cached);
	enum status st = engine_seq_reserve(a->engine, seq, (int)p->ids->n);
	for (size_t at = 0, n; at < p->ids->n && st == OK; at += n) {
		n = MIN(p->ids->n - at, MAX_TOK);
		if (ask->is_gone && atomic_load(ask->is_gone))
			st = E_CANCELLED;
		else
			st = step(a, seq, p, at, n, fail);
	}
	engine_seq_destroy(a->engine, seq);
	return st == OK ? OK : fail_default(fail, st);
}

/* A word that is spelled as the token of time would make a prompt with one more of them. */
static enum status check_count(const struct pass *p, const struct align_words *words,
			       struct fail *fail)
{
	return p->n == 2 * words->n ? OK : fail_set(fail, E_INTERNAL, "the aligner told %zu times "
						    "for %zu words", p->n, words->n);
}

enum status align_run(struct align *a, const struct align_ask *ask, struct align_words *out,
		      struct fail *fail)
{
	struct ids ids = {0};
	enum status st = align_words_check(ask->language, fail);
	if (st != OK)
		return st;
	align_words_split(ask->text, ask->language, out);
	if (out->n == 0)
		return OK;
	st = make_prompt(a, out, ask->clip->n, &ids, fail);
	struct pass p = {.ids = &ids, .first = (size_t)ask->clip->n + 2};
	if (st == OK) {
		p.times = xcalloc(ids.n, sizeof *p.times);
		pthread_mutex_lock(&a->lock);
		st = run_pass(a, ask, &p, fail);
		pthread_mutex_unlock(&a->lock);
	}
	if (st == OK)
		st = check_count(&p, out, fail);
	if (st == OK)
		align_times_mend(p.times, p.n);
	for (size_t i = 0; i < out->n && st == OK; i++) {
		out->p[i].from_ms = (int32_t)p.times[2 * i];
		out->p[i].to_ms = (int32_t)p.times[2 * i + 1];
	}
	free(p.times);
	ids_deinit(&ids);
	return st;
}

/* --- life ---------------------------------------------------------------------------- */

/* timestamp_segment_time is in config.json, or in Transformers' processor_config.json. */
static enum status read_step(struct align *a, const json_t *root, struct fail *fail)
{
	static const char key[] = "timestamp_segment_time";
	json_t *of_processor = NULL;
	const json_t *v = jsonfile_get(root, key);
	enum status st = OK;
	if (!v)
		st = jsonfile_load(a->model->dir, "processor_config.json", MAX_BYTES,
				   &of_processor, fail);
	if (st == E_MISSING)
		st = OK;
	if (of_processor)
		v = jsonfile_get(of_processor, key);
	a->step_ms = v ? json_number_value(v) : USUAL_MS;
	json_decref(of_processor);
	if (st == OK && !(a->step_ms >= 1 && a->step_ms <= 10000))
		st = fail_at(fail, E_FORMAT, key, "%s is not 1 to 10000 milliseconds", key);
	return st;
}

static enum status read_config(struct align *a, struct fail *fail)
{
	static const char key[] = "timestamp_token_id";
	const struct tokenizer *t = a->model->tokenizer;
	json_t *root = NULL;
	enum status st = jsonfile_load(a->model->dir, "config.json", MAX_BYTES, &root, fail);
	const json_t *id = jsonfile_get(root, key);
	id = id ? id : jsonfile_get(model_config_outer(root), key);
	json_int_t token = json_is_integer(id) ? json_integer_value(id) : -1;
	a->audio_begin = tokenizer_find(t, STR("<|audio_start|>"));
	a->audio_end = tokenizer_find(t, STR("<|audio_end|>"));
	if (st == OK && (token < 0 || token >= a->model->config.n_vocab))
		st = fail_at(fail, E_FORMAT, key, "config.json: %s is missing, or outside the "
			     "vocabulary", key);
	if (st == OK && (a->audio_begin < 0 || a->audio_end < 0))
		st = fail_set(fail, E_FORMAT, "the tokenizer lacks <|audio_start|> or "
			      "<|audio_end|>");
	a->time_token = (int32_t)token;
	if (st == OK)
		st = read_step(a, root, fail);
	json_decref(root);
	return st;
}

static struct engine_opts engine_opts_of(const struct align *a)
{
	return (struct engine_opts){
		.page_size = PAGE_SIZE, .n_ctx = a->n_ctx, .max_seqs = 1, .max_batch_tok = MAX_TOK,
		.gives_classes = true, .image_rules = sound_image_rules(),
		.model_key = "aligner_model", .ctx_key = "transcription_ctx"};
}

static enum status open_all(struct align *a, const struct align_opts *o, struct fail *fail)
{
	enum status st = model_open(o->dir, NULL, &a->model, fail);
	if (st == OK && a->model->config.n_classes == 0)
		st = fail_set(fail, E_CONFIG, "%s is no forced aligner: name one, as "
			      "Qwen3-ForcedAligner", a->dir);
	if (st == OK)
		st = read_config(a, fail);
	if (st == OK)
		st = backend_create(&o->backend, &a->backend, fail);
	if (st != OK)
		return st;
	a->n_ctx = MIN(MIN(o->n_ctx, ALIGN_MAX_CTX), a->model->config.max_ctx);
	const struct engine_opts eo = engine_opts_of(a);
	st = engine_plan_beside(a->model, a->backend, &eo, o->ledger, &a->plan, fail);
	if (st != OK)
		return st;
	const struct sound_opts so = {.model = a->model, .backend = o->tower, .ledger = o->ledger};
	st = sound_open(&so, &a->sound, fail);
	if (st == OK && !a->sound)
		st = fail_set(fail, E_CONFIG, "%s has no audio tower", a->dir);
	return st;
}

enum status align_open(const struct align_opts *o, struct align **out, struct fail *fail)
{
	struct align *a = xcalloc(1, sizeof *a);
	a->dir = xstrdup(o->dir);
	pthread_mutex_init(&a->lock, NULL);
	*out = a;
	enum status st = open_all(a, o, fail);
	if (st == OK)
		return OK;
	align_destroy(a);
	*out = NULL;
	return st;
}

enum status align_load(struct align *a, struct fail *fail)
{
	struct engine_opts eo = engine_opts_of(a);
	eo.plan = &a->plan;
	enum status st = sound_load_tower(a->sound, fail);
	if (st == OK)
		st = engine_create(a->model, a->backend, &eo, &a->engine, fail);
	if (st == OK)
		log_info("aligner_model: %s, for pieces of at most %d s", a->dir,
			 (int)(align_max_us(a) / 1000000));
	return st;
}

void align_destroy(struct align *a)
{
	if (!a)
		return;
	engine_destroy(a->engine);
	sound_destroy(a->sound);
	backend_destroy(a->backend);
	model_close(a->model);
	pthread_mutex_destroy(&a->lock);
	free(a->dir);
	free(a);
}

struct sound *align_sound(const struct align *a)
{
	return a->sound;
}

int64_t align_max_us(const struct align *a)
{
	return MIN(MAX_US, (int64_t)(a->model->config.n_classes * a->step_ms * 1000));
}
