/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding with drafts beside decoding without them, of answers that are known: the
 * scheduler and the engine are halod's own, and each step is really computed. Only the
 * logits of the next token of the known answer are raised behind the step, so that it is
 * drawn. So any text can be answered by any model, at the cost that it has there.
 *
 * Usage: bench_speculate MODEL_DIR MODE CASE STREAMS ROUNDS PROMPT ANSWER [PROMPT ANSWER ...]
 * MODE is auto, lookup or mtp. STREAMS pairs are answered at a time. One thread of the CPU
 * backend, and its own processor time: other work on the machine counts little. Where
 * HALOD_TEST_HIP_LIBRARY names a HIP runtime: the HIP backend, and the time that passes.
 * Each round runs both, in turns; the ratio of a round is that of the sums over all pairs.
 * Prints one line of CSV a value: case, shape, value, unit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine_private.h"
#include "model/tokenizer_hf.h"
#include "sched/sched.h"
#include "sched/step_costs.h"

enum { MAX_TEXT = 1 << 24, MAX_STREAMS = 8, MAX_ROUNDS = 99, MAX_SAMPLES = 1 << 14 };

/* A prompt and its answer, one behind the other. */
struct text {
	struct ids ids;
	int n_prompt;
	int first_page; /* of its sequence; -1: it has none yet */
};

static struct {
	enum status (*forward)(void *ctx, const struct engine_batch *b, float *logits,
			       struct fail *fail);
	const struct logits_top *(*top)(void *ctx);
	int32_t next[ENGINE_HIDDEN_ROWS]; /* of the last step's rows; -1: not known */
	int n_rows;
	struct text *stream[MAX_STREAMS];
	int n_streams, n_vocab;
	int n_tok; /* of the last step, if each sequence had its prompt before; else 0 */
} known;

/* Iterations by the tokens of their step. */
static struct {
	long n_iterations[2]; /* without drafts, and with */
	int n;
	double us[MAX_SAMPLES];
} widths[DRAFT_STEP + 1];

static clockid_t clock_id = CLOCK_THREAD_CPUTIME_ID;

static int64_t used_us(void *ctx)
{
	struct timespec t;
	(void)ctx;
	clock_gettime(clock_id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static const struct clock used_clock = {used_us, NULL};

/* Which text sequence i of the batch is. A first slice shows it by its tokens. */
static const struct text *text_of(const struct engine_batch *b, int i)
{
	int first = b->first_tok[i], n = b->first_tok[i + 1] - first;
	int page = b->page_table[i * b->max_pages_per_seq];
	for (int k = 0; k < known.n_streams; k++) {
		struct text *t = known.stream[k];
		if (b->position[first] == 0 && t->first_page < 0 && n <= t->n_prompt &&
		    memcmp(b->token + first, t->ids.p, (size_t)n * sizeof *t->ids.p) == 0)
			t->first_page = page;
		if (t->first_page == page)
			return t;
	}
	return NULL;
}

static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	enum status st = known.forward(ctx, b, logits, fail);
	known.n_tok = b->n_tok;
	known.n_rows = MIN(b->n_logit_rows, ENGINE_HIDDEN_ROWS);
	memset(known.next, 0xFF, sizeof known.next);
	for (int i = 0; i < b->n_seq && st == OK && known.n_streams; i++) {
		const struct text *t = text_of(b, i);
		if (!t || b->position[b->first_tok[i]] < t->n_prompt)
			known.n_tok = 0;
		for (int r = 0; r < b->n_logit_rows && t; r++) {
			int tok = b->logit_rows[r];
			size_t next = (size_t)b->position[tok] + 1;
			if (b->seq_of[tok] != i || next >= t->ids.n)
				continue;
			logits[(size_t)r * (size_t)known.n_vocab + (size_t)t->ids.p[next]] = 1e9f;
			if (r < known.n_rows)
				known.next[r] = t->ids.p[next];
		}
	}
	return st;
}

/* What a GPU has found of its own logits. */
static const struct logits_top *top(void *ctx)
{
	struct logits_top *t = (struct logits_top *)(uintptr_t)known.top(ctx);
	for (int r = 0; t && r < known.n_rows; r++)
		if (known.next[r] >= 0)
			t[r] = (struct logits_top){.max = 1e9f, .sum = 1, .sum_t = 1, .n = 1,
						   .logit = {1e9f}, .id = {known.next[r]}};
	return t;
}

struct sums {
	double us;
	long n_tok, n_drafted, n_right;
};

static struct request *request_of(const struct text *t)
{
	struct request *r = request_create("bench");
	r->n = r->n_prompts = 1;
	r->prompts = arena_alloc(&r->arena, sizeof *r->prompts);
	r->prompts[0] = (struct ids){.n = (size_t)t->n_prompt};
	r->prompts[0].p = arena_alloc(&r->arena, (size_t)t->n_prompt * sizeof *t->ids.p);
	memcpy(r->prompts[0].p, t->ids.p, (size_t)t->n_prompt * sizeof *t->ids.p);
	r->sampling = (struct sampler_params){.top_p = 1, .repetition_penalty = 1,
					      .n_top_logprobs = -1};
	r->max_tokens = (int32_t)t->ids.n - t->n_prompt;
	r->ignore_eos = true;
	return r;
}

/* Is the answer the known one? */
static bool drain(struct request *r, const struct text *t, size_t *n)
{
	bool is_same = true;
	for (struct event *e; (e = request_next_event(r)); event_destroy(e))
		for (int i = 0; e->kind == EVENT_DELTA && i < e->n_tokens; i++)
			is_same &= e->tokens[i].id == t->ids.p[(size_t)t->n_prompt + (*n)++];
	return is_same;
}

static void note_iteration(bool is_on, double us)
{
	if (known.n_tok < 1 || known.n_tok > DRAFT_STEP)
		return;
	widths[known.n_tok].n_iterations[is_on]++;
	if (widths[known.n_tok].n < MAX_SAMPLES)
		widths[known.n_tok].us[widths[known.n_tok].n++] = us;
}

/* Decodes n texts at once, adding what passes between the last first token and the end. */
static bool answer(struct engine *e, const struct tokenizer *tok, enum sched_draft draft,
		   struct draft_cost *costs, struct text *texts, int n, struct sums *sums)
{
	struct request *r[MAX_STREAMS];
	size_t got[MAX_STREAMS] = {0};
	bool is_same = true;
	int64_t begin = 0, end = 0;
	struct sched *s = sched_create(&(struct sched_opts){
		.engine = e, .tokenizer = tok, .clock = &used_clock, .draft = draft,
		.costs = draft == SCHED_DRAFT_AUTO ? costs : NULL});
	known.n_streams = n;
	for (int i = 0; i < n; i++) {
		texts[i].first_page = -1;
		known.stream[i] = &texts[i];
		r[i] = request_of(&texts[i]);
		is_same &= sched_submit(s, r[i], NULL) == OK;
	}
	while (is_same && !sched_is_idle(s)) {
		int64_t begin_us = used_us(NULL);
		known.n_tok = 0;
		sched_iterate(s);
		note_iteration(draft != SCHED_DRAFT_OFF, (double)(used_us(NULL) - begin_us));
		while (sched_next_ready(s))
			continue;
		for (int i = 0; i < n; i++)
			is_same &= drain(r[i], &texts[i], &got[i]);
	}
	for (int i = 0; i < n; i++) {
		const struct request_stats *st = &r[i]->stats;
		is_same &= drain(r[i], &texts[i], &got[i]) &&
			   got[i] == texts[i].ids.n - (size_t)texts[i].n_prompt;
		begin = MAX(begin, st->first_token_us);
		end = MAX(end, st->last_token_us);
		sums->n_tok += (long)got[i];
		sums->n_drafted += st->n_drafted;
		sums->n_right += st->n_accepted;
	}
	sums->us += (double)(end - begin);
	known.n_streams = 0;
	sched_destroy(s);
	for (int i = 0; i < n; i++)
		request_unref(r[i]);
	return is_same;
}

static bool read_text(const struct tokenizer *t, char **paths, int n_ctx, struct text *out)
{
	struct fail fail = {0};
	*out = (struct text){.n_prompt = 0};
	for (int i = 0; i < 2; i++) {
		struct buf text = {0};
		enum status st = file_read(paths[i], MAX_TEXT, &text, &fail);
		if (st == OK)
			st = tokenizer_encode(t, buf_str(&text), TRUST_USER, &out->ids, &fail);
		buf_deinit(&text);
		if (st != OK)
			fprintf(stderr, "bench_speculate: %s: %s\n", paths[i], fail.text);
		if (st != OK)
			return false;
		if (i == 0)
			out->n_prompt = (int)out->ids.n;
	}
	/* What does not fit is cut off the answer. */
	out->ids.n = MIN(out->ids.n, (size_t)n_ctx - 1);
	return (int)out->ids.n > out->n_prompt + 16;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Time without drafts over time with them, where each iteration took as long as the median of
 * those with as many tokens. So an iteration that was held up does not count. */
static double ratio_by_medians(void)
{
	double sum[2] = {0};
	for (int t = 1; t <= DRAFT_STEP; t++) {
		if (widths[t].n == 0)
			continue;
		qsort(widths[t].us, (size_t)widths[t].n, sizeof *widths[t].us, by_value);
		double us = widths[t].us[widths[t].n / 2];
		for (int k = 0; k < 2; k++)
			sum[k] += us * (double)widths[t].n_iterations[k];
		fprintf(stderr, "# %d tokens: %.1f us, %ld steps without drafts, %ld with\n", t, us,
			widths[t].n_iterations[0], widths[t].n_iterations[1]);
	}
	return sum[0] / sum[1];
}

struct bench {
	struct model *m;
	struct backend *b;
	struct engine *e;
	struct draft_cost costs;
	enum sched_draft draft;
	struct text *texts;
	int n_texts, n_streams, n_rounds;
};

static bool run(struct bench *x, const char *name)
{
	double ratio[MAX_ROUNDS];
	struct sums s[2] = {{0}};
	memset(widths, 0, sizeof widths);
	for (int round = 0; round < x->n_rounds; round++) {
		struct sums now[2] = {{0}};
		for (int at = 0; at + x->n_streams <= x->n_texts; at += x->n_streams)
			for (int k = 0; k < 2; k++) {
				int is_on = (k + round) % 2;
				if (!answer(x->e, x->m->tokenizer,
					    is_on ? x->draft : SCHED_DRAFT_OFF, &x->costs,
					    x->texts + at, x->n_streams, &now[is_on])) {
					fprintf(stderr, "bench_speculate: another answer\n");
					return false;
				}
			}
		ratio[round] = now[0].us / now[1].us;
		for (int k = 0; k < 2; k++) {
			s[k].us += now[k].us;
			s[k].n_tok += now[k].n_tok;
			s[k].n_drafted += now[k].n_drafted;
			s[k].n_right += now[k].n_right;
		}
	}
	qsort(ratio, (size_t)x->n_rounds, sizeof *ratio, by_value);
	long n_tok = s[1].n_tok;
	printf("speculate,\"%s, %d streams: tokens\",%ld,tokens\n", name, x->n_streams, n_tok);
	printf("speculate,\"%s, %d streams: draft tokens right\",%.3f,1\n", name, x->n_streams,
	       s[1].n_drafted ? (double)s[1].n_right / (double)s[1].n_drafted : 0);
	printf("speculate,\"%s, %d streams: tokens a step and stream\",%.3f,1\n", name,
	       x->n_streams, (double)n_tok / (double)(n_tok - s[1].n_right));
	printf("speculate,\"%s, %d streams: ms a token without\",%.4f,ms\n", name, x->n_streams,
	       s[0].us * 1e-3 / (double)s[0].n_tok);
	printf("speculate,\"%s, %d streams: times as fast\",%.3f,1\n", name, x->n_streams,
	       ratio[x->n_rounds / 2]);
	printf("speculate,\"%s, %d streams: times as fast by turns and their medians\",%.3f,1\n",
	       name, x->n_streams, ratio_by_medians());
	return true;
}

static bool open_all(struct bench *x, const char *dir, struct fail *fail)
{
	struct backend_opts bo = {.name = "cpu", .n_threads = 1,
				  .hip_library = getenv("HALOD_TEST_HIP_LIBRARY")};
	struct engine_opts eo = {.max_seqs = MAX_STREAMS, .mtp_vocab = 32768,
				 .mtp = x->draft != SCHED_DRAFT_LOOKUP, .n_ctx = 4096};
	if (bo.hip_library) {
		bo.name = "hip";
		clock_id = CLOCK_MONOTONIC;
	}
	enum status st = model_open(dir, NULL, &x->m, fail);
	if (st == OK)
		st = backend_create(&bo, &x->b, fail);
	if (st == OK)
		st = engine_create(x->m, x->b, &eo, &x->e, fail);
	if (st != OK)
		return false;
	known.n_vocab = engine_n_vocab(x->e);
	known.forward = x->e->graph.forward;
	x->e->graph.forward = forward;
	known.top = x->e->graph.top;
	if (known.top)
		x->e->graph.top = top;
	return step_costs_measure(x->e, &used_clock, 2000000, &x->costs, fail) == OK &&
	       step_costs_record(x->e, &used_clock, 2000000, &x->costs, fail) == OK;
}

int main(int argc, char **argv)
{
	static const char *const modes[] = {"off", "auto", "lookup", "mtp"};
	struct bench x = {.n_streams = argc > 7 ? atoi(argv[4]) : 0};
	struct fail fail = {0};
	x.n_rounds = x.n_streams ? MIN(MAX(atoi(argv[5]), 1), MAX_ROUNDS) : 0;
	for (int i = 1; x.n_streams && i < 4; i++)
		if (strcmp(argv[2], modes[i]) == 0)
			x.draft = (enum sched_draft)i;
	if (x.n_streams < 1 || x.n_streams > MAX_STREAMS || x.draft == SCHED_DRAFT_OFF) {
		fprintf(stderr, "usage: bench_speculate MODEL_DIR auto|lookup|mtp CASE STREAMS "
				"ROUNDS PROMPT ANSWER [PROMPT ANSWER ...]\n");
		return 2;
	}
	bool ok = open_all(&x, argv[1], &fail);
	if (!ok)
		fprintf(stderr, "bench_speculate: %s\n", fail.text);
	x.texts = xcalloc((size_t)argc, sizeof *x.texts);
	for (int i = 6; ok && i + 1 < argc; i += 2)
		if (read_text(x.m->tokenizer, argv + i, engine_n_ctx(x.e), &x.texts[x.n_texts]))
			x.n_texts++;
		else
			ids_deinit(&x.texts[x.n_texts].ids);
	ok = ok && x.n_texts >= x.n_streams && run(&x, argv[3]);
	for (int i = 0; i < x.n_texts; i++)
		ids_deinit(&x.texts[i].ids);
	free(x.texts);
	engine_destroy(x.e);
	backend_destroy(x.b);
	model_close(x.m);
	return !ok;
}
