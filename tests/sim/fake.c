/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"

void fake_init(struct fake *f, int n_pages, int page_size)
{
	*f = (struct fake){.page_size = page_size};
	f->kv = xcalloc((size_t)n_pages * (size_t)page_size, sizeof *f->kv);
}

void fake_deinit(struct fake *f)
{
	free(f->kv);
}

int32_t fake_letter(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t key[3] = {a, b, c};
	return 'a' + (int32_t)(hash_bytes(1, key, sizeof key) % 26);
}

static int32_t context_at(const struct fake *f, const struct engine_batch *b,
			  int seq, int pos)
{
	const int32_t *table = b->page_table + (size_t)seq *
					       (size_t)b->max_pages_per_seq;
	return f->kv[table[pos / f->page_size] * f->page_size + pos % f->page_size];
}

/* What the script says after a context of n tokens, its own id at `at`. */
static int32_t script_next(const char *text, int at, int n)
{
	size_t k = (size_t)(n - 1 - at);
	return k < strlen(text) ? (unsigned char)text[k] : FAKE_EOS;
}

static void row_of(const struct fake *f, const struct engine_batch *b, int t,
		   float *logits /* (V) */)
{
	uint64_t h = 0;
	int n = b->position[t] + 1;
	for (int i = 0; i < FAKE_VOCAB; i++)
		logits[i] = -20;
	for (int pos = 0; pos < n; pos++) {
		int32_t id = context_at(f, b, b->seq_of[t], pos);
		h = hash_bytes(h, &id, sizeof id);
		if (id >= FAKE_SCRIPT_0) {
			const char *text = f->scripts[id - FAKE_SCRIPT_0];
			logits[script_next(text, pos, n)] = 30;
			return;
		}
	}
	/* hash_bytes is the same within a process run only, and so are the
	 * tokens: tests compare runs, never with written-down letters. */
	for (int c = 'a'; c <= 'z'; c++)
		logits[c] = (float)(hash_bytes(h, &c, sizeof c) % 1000) * 0.005f;
}

/* Runs the states, against the pages. */
static void run_states(struct fake *f, const struct engine_batch *b)
{
	for (int s = 0; s < b->n_seq; s++) {
		const struct seq_states *st = &b->states;
		uint64_t h = st->from[s] < 0 ? 0 : f->state[st->from[s]], want = 0;
		f->n_resumed += st->from[s] >= 0 && st->from[s] != st->to[s];
		for (int t = b->first_tok[s]; t < b->first_tok[s + 1]; t++) {
			h = hash_bytes(h, &b->token[t], sizeof *b->token);
			if (st->save[s] >= 0 && st->save_at[s] == t)
				f->state[st->save[s]] = h;
		}
		for (int pos = 0; pos < b->n_ctx[s]; pos++) {
			int32_t id = context_at(f, b, s, pos);
			want = hash_bytes(want, &id, sizeof id);
		}
		f->state[st->to[s]] = h;
		if (h != want) {
			printf("Bail out! a sequence's state is not of its tokens\n");
			abort();
		}
	}
}

/* Has a sequence several tokens, as a prompt has? */
static bool has_prompt(const struct engine_batch *b)
{
	for (int s = 0; s < b->n_seq; s++)
		if (b->first_tok[s + 1] - b->first_tok[s] > 1)
			return true;
	return false;
}

static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	struct fake *f = ctx;
	int64_t *now = f->beside ? &f->beside->now_us : &f->now_us;
	*now += f->cost_step_us + f->cost_token_us * b->n_tok;
	if (has_prompt(b))
		*now += f->cost_read_us;
	f->n_steps++;
	f->n_tok += b->n_tok;
	if (f->on_step)
		f->on_step(f->ctx);
	if (f->n_fail > 0) {
		f->n_fail--;
		return fail_set(fail, E_BACKEND, "the step was told to fail");
	}
	for (int t = 0; t < b->n_tok; t++)
		f->kv[b->slot[t]] = b->token[t];
	if (f->n_states)
		run_states(f, b);
	for (int r = 0; r < b->n_logit_rows; r++) {
		float *row = logits + (size_t)r * FAKE_VOCAB;
		row_of(f, b, b->logit_rows[r], row);
		if (f->n_nan > 0)
			row['q'] = NAN;
	}
	f->n_nan -= f->n_nan > 0 && b->n_logit_rows > 0;
	return OK;
}

static enum status draft(void *ctx, const struct engine_batch *b, int32_t *ids, struct fail *fail)
{
	struct fake *f = ctx;
	f->n_drafts++;
	return fail_set(fail, E_BACKEND, "the draft of %d tokens was told to fail", b->n_tok);
}

static enum status copy_page(void *ctx, int32_t dst, int32_t src)
{
	struct fake *f = ctx;
	memcpy(f->kv + (size_t)dst * (size_t)f->page_size,
	       f->kv + (size_t)src * (size_t)f->page_size,
	       (size_t)f->page_size * sizeof *f->kv);
	return OK;
}

static enum status move(void *ctx, const struct engine_move *m)
{
	struct fake *f = ctx;
	size_t n = m->is_state ? sizeof *f->state : (size_t)f->page_size * sizeof *f->kv;
	size_t pad = m->is_state ? 0 : f->page_pad;
	for (int i = 0; i < m->n; i++) {
		char *host = (char *)m->host + (size_t)i * (n + pad);
		char *device = m->is_state ? (char *)&f->state[m->at[i]]
					   : (char *)f->kv + (size_t)m->at[i] * n;
		memcpy(m->is_load ? device : host, m->is_load ? host : device, n);
		if (!m->is_load)
			memset(host + n, 0, pad);
		if (!m->is_load && !m->is_state)
			f->now_us += f->cost_copy_us;
	}
	return OK;
}

static void destroy(void *ctx)
{
}

struct engine_graph fake_graph(struct fake *f, int max_ctx)
{
	return (struct engine_graph){.ctx = f, .n_vocab = FAKE_VOCAB,
				     .max_ctx = max_ctx, .forward = forward,
				     .n_states = f->n_states, .destroy = destroy,
				     .draft = f->has_drafter ? draft : NULL,
				     .copy_page = copy_page, .move = move,
				     .page_bytes = (size_t)f->page_size * sizeof *f->kv +
						   f->page_pad,
				     .state_bytes = f->n_states ? sizeof *f->state : 0};
}

static int64_t now_us(void *ctx)
{
	return ((struct fake *)ctx)->now_us;
}

struct clock fake_clock(struct fake *f)
{
	return (struct clock){.now_us = now_us, .ctx = f};
}

struct tokenizer *fake_tokenizer(void)
{
	static char letters[127];
	struct str pieces[256] = {{0}};
	for (int c = '!'; c <= '~'; c++) {
		letters[c] = (char)c;
		pieces[c] = (struct str){&letters[c], 1};
	}
	pieces[' '] = STR("\xC4\xA0");  /* byte-level spelling: U+0120 */
	pieces['\n'] = STR("\xC4\x8A"); /* U+010A */
	struct pretok_step step = {.kind = PRETOK_BYTE_LEVEL};
	struct tokenizer_def def = {.pieces = pieces, .n_pieces = 256,
				    .steps = &step, .n_steps = 1};
	struct tokenizer *t = NULL;
	struct fail f;
	if (tokenizer_create(&def, &t, &f) != OK) {
		fprintf(stderr, "fake tokenizer: %s\n", f.text);
		abort();
	}
	return t;
}
