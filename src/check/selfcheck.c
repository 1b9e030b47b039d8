/* SPDX-License-Identifier: Apache-2.0
 *
 * Three prompts run as one prefill step. Then decode steps run with three sequences, two
 * and one. So the kernels of prompts, of batches and of single tokens are all tested. Each
 * sequence follows the reference's own tokens.
 */
#include "check/selfcheck.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "check/reference.h"
#include "engine/engine.h"
#include "sampler/sampler.h"

/* The cases that run. In none of them is an expert router near a tie, on any backend that
 * was measured. A tie would show as a large difference that is no fault
 * (ctl/cmd_verify.c). */
static const struct {
	int i_case;
	int n_next; /* tokens of its continuation; the last one is not run */
} parts[] = {{0, 2}, {2, 8}, {11, 16}};

#define N_PARTS ((int)ARRAY_LEN(parts))
#define MAX_TOK 64 /* of a sequence, and of all prompts together */

struct selfcheck {
	struct model *model;
	struct backend *backend;
	struct engine *engine;
	struct reference ref;
	struct engine_seq *seq[ARRAY_LEN(parts)];
	struct engine_slice slices[ARRAY_LEN(parts)]; /* of the current step */
	int part_of[ARRAY_LEN(parts)];                /* the part of each slice */
	int n_slices;
	double sum;
	struct selfcheck_result *out;
};

static const struct reference_case *case_of(const struct selfcheck *k, int i_part)
{
	return &k->ref.cases[parts[i_part].i_case];
}

static void compare_token(struct selfcheck *k, const float *logits, int32_t id, double want)
{
	double delta = fabs(sampler_logprob(logits, engine_n_vocab(k->engine), id) - want);
	k->sum += delta;
	k->out->n_compared++;
	if (!(delta <= k->out->max)) /* true for a NaN, too: then max becomes and stays NaN */
		k->out->max = isnan(k->out->max) ? k->out->max : delta;
}

static void compare_step(struct selfcheck *k, const float *logits,
			 const struct reference_step *s)
{
	for (int i = 0; i < s->n_top; i++)
		compare_token(k, logits, s->id[i], s->logprob[i]);
}

/* Runs the slices; then calls on_logits for each slice. */
static enum status selfcheck_step(struct selfcheck *k,
				  void (*on_logits)(struct selfcheck *k, int i_part,
						    const struct engine_slice *s,
						    const float *logits),
				  struct fail *fail)
{
	enum status st = engine_step(k->engine, k->slices, k->n_slices, fail);
	for (int i = 0; st == OK && i < k->n_slices; i++) {
		const float *logits = engine_logits(k->engine, i);
		if (logits)
			on_logits(k, k->part_of[i], &k->slices[i], logits);
		else
			st = fail_set(fail, E_DEVICE, "the logits are lost");
	}
	k->n_slices = 0;
	return st;
}

static void add_slice(struct selfcheck *k, int i_part, struct engine_slice s)
{
	s.seq = k->seq[i_part];
	k->part_of[k->n_slices] = i_part;
	k->slices[k->n_slices++] = s;
}

static void on_prompt(struct selfcheck *k, int i_part, const struct engine_slice *s,
		      const float *logits)
{
	const struct reference_case *c = case_of(k, i_part);
	size_t n_vocab = (size_t)engine_n_vocab(k->engine);
	for (int i = 0; i + 1 < s->n; i++)
		compare_token(k, logits + (size_t)i * n_vocab, c->ids[i + 1], c->logprobs[i]);
	compare_step(k, logits + (size_t)(s->n - 1) * n_vocab, &c->steps[0]);
}

static void on_token(struct selfcheck *k, int i_part, const struct engine_slice *s,
		     const float *logits)
{
	const struct reference_case *c = case_of(k, i_part);
	compare_step(k, logits, &c->steps[s->tokens - (c->ids + c->n_prompt) + 1]);
}

static enum status compare_reference(struct selfcheck *k, struct fail *fail)
{
	int n_steps = 0;
	for (int i = 0; i < N_PARTS; i++) {
		const struct reference_case *c = case_of(k, i);
		add_slice(k, i, (struct engine_slice){.tokens = c->ids, .n = c->n_prompt,
						      .n_logits = c->n_prompt});
		n_steps = MAX(n_steps, parts[i].n_next - 1);
	}
	enum status st = selfcheck_step(k, on_prompt, fail);
	for (int at = 0; st == OK && at < n_steps; at++) {
		for (int i = 0; i < N_PARTS; i++)
			if (at + 1 < parts[i].n_next)
				add_slice(k, i, (struct engine_slice){
					.tokens = case_of(k, i)->ids + case_of(k, i)->n_prompt + at,
					.n = 1, .n_logits = 1});
		st = selfcheck_step(k, on_token, fail);
	}
	return st;
}

static enum status selfcheck_start(struct selfcheck *k, struct fail *fail)
{
	for (int i = 0; i < N_PARTS; i++) {
		const struct reference_case *c = case_of(k, i);
		int n_cached;
		k->seq[i] = engine_seq_create(k->engine, c->ids, c->n_prompt, &n_cached);
		enum status st = engine_seq_reserve(k->engine, k->seq[i],
						    c->n_prompt + parts[i].n_next);
		if (st != OK)
			return fail_default(fail, st);
	}
	return OK;
}

/* Has the reference the cases, and are their ids in the model's vocabulary? */
static bool is_usable(const struct selfcheck *k)
{
	int n_tok = 0;
	for (int i = 0; i < N_PARTS; i++) {
		if (parts[i].i_case >= k->ref.n_cases)
			return false;
		const struct reference_case *c = case_of(k, i);
		if (!c->logprobs || c->n_next < parts[i].n_next ||
		    c->n_prompt + parts[i].n_next > MAX_TOK)
			return false;
		n_tok += c->n_prompt;
	}
	return n_tok <= MAX_TOK && k->ref.max_id < k->model->config.n_vocab;
}

/* Fails as "the check could not be made": this fault says nothing about the backend. */
static enum status as_missing(struct fail *fail)
{
	if (fail)
		fail->code = E_MISSING;
	return E_MISSING;
}

static enum status open_reference(struct selfcheck *k, const char *dir, struct fail *fail)
{
	char *path = file_join(dir, "reference.json");
	enum status st = model_open(dir, &(struct model_opts){.use_mmap = true}, &k->model, fail);
	if (st == OK)
		st = reference_load(path, &k->ref, fail);
	if (st == OK && !is_usable(k))
		st = fail_set(fail, E_FORMAT, "%s lacks the cases of the self-check", path);
	free(path);
	return st == OK ? OK : as_missing(fail);
}

static enum status open_engine(struct selfcheck *k, const struct backend_opts *opts,
			       struct fail *fail)
{
	struct backend_opts bo = *opts;
	const struct engine_opts eo = {.n_ctx = MAX_TOK, .max_seqs = N_PARTS,
				       .max_batch_tok = MAX_TOK};
	bo.weight_cache = NULL;
	bo.int8_head = false; /* the bounds hold for the head as the model has it */
	enum status st = backend_create(&bo, &k->backend, fail);
	if (st == OK)
		st = engine_create(k->model, k->backend, &eo, &k->engine, fail);
	/* E_CONFIG: halo-tiny does not fit into memory (memory_plan.c). */
	return st == E_NOMEM || st == E_CONFIG ? as_missing(fail) : st;
}

static void selfcheck_finish(struct selfcheck *k)
{
	for (int i = 0; i < N_PARTS && k->engine; i++)
		engine_seq_destroy(k->engine, k->seq[i]);
	if (k->engine)
		engine_destroy(k->engine);
	if (k->backend)
		backend_destroy(k->backend);
	model_close(k->model);
	reference_deinit(&k->ref);
}

enum status selfcheck_run(const char *dir, const struct backend_opts *opts,
			  struct selfcheck_result *out, struct fail *fail)
{
	struct selfcheck k = {.out = out};
	int64_t begin = clock_now_us(&clock_monotonic);
	*out = (struct selfcheck_result){0};
	enum status st = open_reference(&k, dir, fail);
	if (st == OK)
		st = open_engine(&k, opts, fail);
	if (st == OK)
		st = selfcheck_start(&k, fail);
	if (st == OK)
		st = compare_reference(&k, fail);
	selfcheck_finish(&k);
	out->mean = out->n_compared ? k.sum / out->n_compared : NAN;
	out->seconds = (double)(clock_now_us(&clock_monotonic) - begin) * 1e-6;
	out->is_pass = st == OK && out->mean <= SELFCHECK_MAX_MEAN &&
		       out->max <= SELFCHECK_MAX_DELTA;
	return st;
}
