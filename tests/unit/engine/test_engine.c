/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences, pages and steps around a graph whose "keys and values" are the
 * tokens themselves: its logits are a digest of everything a token can see through
 * the page table, so any page mixed up, overwritten or not copied shows. A recurrent
 * graph has its digests in slots of state instead.
 */
#include "engine/engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

#include "tests/tap.h"

enum { V = 50, N_CTX = 64, P = 4, MAX_SEQS = 4, MAX_TOK = 32 };

struct fake {
	int32_t kv[1024]; /* by slot */
	float state[32];
	bool is_recurrent;
	bool fails, copy_fails;
	int n_destroyed, n_copied;
	struct engine_batch last; /* counts only */
	int32_t kept[MAX_TOK];    /* tokens of the last forward … */
	int n_kept, n_replayed;   /* … if it had drafts, else 0 */
};

static float digest(float h, int32_t token)
{
	return fmodf(h * 31 + (float)token + 7, 65521);
}

static void run_states(struct fake *f, const struct engine_batch *b, float *logits)
{
	float after[MAX_TOK];
	for (int s = 0; s < b->n_seq; s++) {
		const struct seq_states *st = &b->states;
		float h = st->from[s] < 0 ? 0 : f->state[st->from[s]];
		for (int t = b->first_tok[s]; t < b->first_tok[s + 1]; t++) {
			after[t] = h = digest(h, b->token[t]);
			if (st->save[s] >= 0 && st->save_at[s] == t)
				f->state[st->save[s]] = h;
		}
		f->state[st->to[s]] = h;
	}
	for (int r = 0; r < b->n_logit_rows; r++)
		logits[r * V] = after[b->logit_rows[r]];
	f->n_kept = b->has_drafts ? b->n_tok : 0;
	memcpy(f->kept, b->token, (size_t)f->n_kept * sizeof *f->kept);
}

static enum status fake_replay(void *ctx, const struct engine_replay *r)
{
	struct fake *f = ctx;
	float h = f->state[r->from];
	if (r->from < 0 || r->first_tok < 0 || r->first_tok + r->n_tok > f->n_kept ||
	    f->copy_fails)
		return E_BACKEND;
	for (int t = 0; t < r->n_tok; t++) {
		h = digest(h, f->kept[r->first_tok + t]);
		if (r->save >= 0 && r->save_at == t)
			f->state[r->save] = h;
	}
	f->state[r->to] = h;
	f->n_replayed++;
	return OK;
}

static enum status fake_forward(void *ctx, const struct engine_batch *b,
				float *logits, struct fail *fail)
{
	struct fake *f = ctx;
	f->last = *b;
	for (int t = 0; t < b->n_tok; t++)
		f->kv[b->slot[t]] = b->token[t];
	if (f->is_recurrent)
		run_states(f, b, logits);
	if (f->fails) /* after it wrote: that must not show either */
		return fail_set(fail, E_BACKEND, "the fake fails");
	for (int r = 0; r < b->n_logit_rows && !f->is_recurrent; r++) {
		int t = b->logit_rows[r], seq = b->seq_of[t];
		const int32_t *table = b->page_table + seq * b->max_pages_per_seq;
		float h = 0;
		for (int p = 0; p <= b->position[t]; p++)
			h = digest(h, f->kv[table[p / P] * P + p % P]);
		logits[r * V] = h;
	}
	return OK;
}

static void fake_destroy(void *ctx)
{
	((struct fake *)ctx)->n_destroyed++;
}

static enum status fake_copy_page(void *ctx, int32_t dst, int32_t src)
{
	struct fake *f = ctx;
	if (f->copy_fails)
		return E_BACKEND;
	memcpy(f->kv + dst * P, f->kv + src * P, P * sizeof *f->kv);
	f->n_copied++;
	return OK;
}

/* n_states 0: not recurrent. */
static struct engine *make_apart(struct fake *f, int n_pages, bool prefix_cache, int n_states,
				 int checkpoint_every)
{
	*f = (struct fake){.is_recurrent = n_states > 0};
	struct engine_graph g = {.ctx = f, .n_vocab = V, .max_ctx = N_CTX,
				 .forward = fake_forward, .destroy = fake_destroy,
				 .copy_page = fake_copy_page, .replay = fake_replay,
				 .n_states = n_states};
	struct engine_opts o = {.page_size = P, .max_seqs = MAX_SEQS,
				.max_batch_tok = MAX_TOK,
				.prefix_cache = prefix_cache,
				.checkpoint_every = checkpoint_every};
	struct engine *e = NULL;
	if (engine_create_with(&g, &o, n_pages, &e) != OK)
		abort();
	return e;
}

static struct engine *make_recurrent(struct fake *f, int n_pages, bool prefix_cache,
				     int n_states)
{
	return make_apart(f, n_pages, prefix_cache, n_states, 8);
}

static struct engine *make(struct fake *f, int n_pages, bool prefix_cache)
{
	return make_recurrent(f, n_pages, prefix_cache, 0);
}

static float digest_of(const int32_t *tokens, int n)
{
	float h = 0;
	for (int i = 0; i < n; i++)
		h = digest(h, tokens[i]);
	return h;
}

/* Reserve and run tokens [from, to); the last logits must fit the whole history. */
static void run(struct engine *e, struct engine_seq *s, const int32_t *tokens,
		int from, int to, const char *what)
{
	struct fail fail = {0};
	enum status st = engine_seq_reserve(e, s, to - from);
	struct engine_slice slice = {s, tokens + from, to - from, 1, 1, 0};
	if (st == OK)
		st = engine_step(e, &slice, 1, &fail);
	is_int(st, OK, "%s: runs", what);
	if (st == OK)
		is_near(engine_logits(e, 0)[0], digest_of(tokens, to), 0,
			"%s: sees exactly its own tokens", what);
	is_int(engine_seq_length(s), to, "%s: length", what);
}

static void fill(int32_t *tokens, int n, int seed)
{
	for (int i = 0; i < n; i++)
		tokens[i] = (int32_t)((seed + i * 17) % V);
}

static void test_create(void)
{
	struct fake f;
	struct engine *e = make(&f, 10, true);
	is_int(engine_n_ctx(e), N_CTX, "the context is the graph's by default");
	is_int(engine_n_vocab(e), V, "vocabulary");
	is_int(engine_page_size(e), P, "page size");
	is_int(engine_max_seqs(e), MAX_SEQS, "sequences");
	is_int(engine_max_batch_tok(e), MAX_TOK, "tokens");
	is_int(engine_pages_total(e), 10, "pages");
	is_int(engine_pages_free(e), 10, "all free");
	engine_destroy(e);
	is_int(f.n_destroyed, 1, "the graph goes with the engine");
	engine_destroy(NULL);

	struct engine_graph g = {.ctx = &f, .n_vocab = V, .max_ctx = N_CTX,
				 .forward = fake_forward, .destroy = fake_destroy};
	struct engine_opts o = {.n_ctx = N_CTX + 1};
	is_int(engine_create_with(&g, &o, 4, &e), E_INVAL, "more context than it has");
	o.n_ctx = 0;
	is_int(engine_create_with(&g, &o, 0, &e), E_INVAL, "no pages");
	is_int(engine_create_with(&g, &o, INT32_MAX, &e), E_INVAL, "slots overflow");
	is_int(f.n_destroyed, 1, "the graph stays the caller's when creation fails");
}

static void test_batch(void)
{
	struct fake f;
	struct engine *e = make(&f, 32, false);
	int32_t a[20], b[20], c[20];
	int cached;
	fill(a, 20, 1), fill(b, 20, 2), fill(c, 20, 3);
	struct engine_seq *sa = engine_seq_create(e, a, 20, &cached);
	struct engine_seq *sb = engine_seq_create(e, b, 20, &cached);
	struct engine_seq *sc = engine_seq_create(e, c, 20, &cached);
	run(e, sb, b, 0, 9, "one alone");
	is_int(engine_seq_reserve(e, sa, 7), OK, "room for a prefill");
	is_int(engine_seq_reserve(e, sb, 1), OK, "room for a decode");
	is_int(engine_seq_reserve(e, sc, 5), OK, "room for a second prefill");
	struct engine_slice slices[] = {
		{sa, a, 7, 2, 1, 0}, {sb, b + 9, 1, 1, 1, 0}, {sc, c, 5, 0, 1, 0}};
	struct fail fail = {0};
	is_int(engine_step(e, slices, 3, &fail), OK, "mixed step");
	is_int(f.last.n_tok, 13, "13 tokens");
	is_int(f.last.n_seq, 3, "of 3 sequences");
	is_int(f.last.n_logit_rows, 3, "3 rows of logits");
	is_int(f.last.first_tok[3], 13, "slices end where the tokens end");
	is_int(f.last.n_ctx[1], 10, "10 tokens of b in the cache");
	is_int(f.last.position[7], 9, "b's token is at position 9");
	is_near(engine_logits(e, 0)[0], digest_of(a, 6), 0, "a, last but one");
	is_near(engine_logits(e, 0)[V], digest_of(a, 7), 0, "a, last");
	is_near(engine_logits(e, 1)[0], digest_of(b, 10), 0, "b");
	run(e, sc, c, 5, 20, "c goes on");
	engine_seq_destroy(e, sa);
	engine_seq_destroy(e, sb);
	engine_seq_destroy(e, sc);
	is_int(engine_pages_free(e), 32, "all pages came back");
	engine_destroy(e);
}

static void test_reserve(void)
{
	struct fake f;
	struct engine *e = make(&f, 5, false);
	int32_t a[N_CTX];
	int cached;
	fill(a, N_CTX, 1);
	struct engine_seq *s = engine_seq_create(e, a, N_CTX, &cached);
	struct engine_seq *t = engine_seq_create(e, a, N_CTX, &cached);
	is_int(engine_pages_free(e), 5, "creating takes no page");
	is_int(engine_seq_reserve(e, s, 9), OK, "nine tokens");
	is_int(engine_pages_free(e), 2, "are three pages");
	is_int(engine_seq_reserve(e, s, 12), OK, "twelve");
	is_int(engine_pages_free(e), 2, "fit in them");
	is_int(engine_seq_reserve(e, t, 9), E_NO_PAGES, "three more are not there");
	is_int(engine_pages_free(e), 2, "and none was taken");
	is_int(engine_seq_reserve(e, t, N_CTX + 1), E_CTX_LEN, "beyond the context");
	is_int(engine_seq_reserve(e, t, INT32_MAX), E_CTX_LEN, "far beyond");
	is_int(engine_seq_reserve(e, t, -1), E_INVAL, "less than nothing");
	is_int(engine_seq_reserve(e, t, 0), OK, "nothing is always there");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, t);
	engine_seq_destroy(e, NULL);
	is_int(engine_pages_free(e), 5, "unused room comes back too");
	engine_destroy(e);
}

static void test_refusals(void)
{
	struct fake f;
	struct engine *e = make(&f, 32, true);
	int32_t a[N_CTX + 1];
	int cached;
	fill(a, N_CTX + 1, 1);
	struct fail fail = {0};
	struct engine_seq *s = engine_seq_create(e, a, N_CTX, &cached);
	struct engine_slice slice = {s, a, 4, 1, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_NO_PAGES, "no room reserved");
	run(e, s, a, 0, 6, "first six");
	is_int(engine_seq_reserve(e, s, 20), OK, "room");
	struct engine_slice twice[] = {{s, a + 6, 1, 1, 1, 0}, {s, a + 7, 1, 1, 1, 0}};
	is_int(engine_step(e, twice, 2, &fail), E_INVAL, "the same sequence twice");
	is_int(engine_step(e, twice, 0, &fail), E_INVAL, "no slices");
	is_int(engine_step(e, twice, MAX_SEQS + 1, &fail), E_INVAL, "too many slices");
	slice = (struct engine_slice){s, a + 6, 0, 0, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_INVAL, "an empty slice");
	slice = (struct engine_slice){s, a + 6, 2, 3, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_INVAL, "more logits than tokens");
	int32_t bad[2] = {3, V};
	slice = (struct engine_slice){s, bad, 2, 1, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_INVAL, "a token that is none");
	ok(strstr(fail.text, "token 50") != NULL, "is named: %s", fail.text);
	bad[1] = -1;
	is_int(engine_step(e, &slice, 1, &fail), E_INVAL, "a negative token");
	is_int(engine_seq_reserve(e, s, N_CTX - 6), OK, "room up to the context");
	slice = (struct engine_slice){s, a + 6, MAX_TOK + 1, 1, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_INVAL, "more tokens than fit a step");
	slice = (struct engine_slice){s, a, N_CTX - 5, 1, 1, 0};
	is_int(engine_step(e, &slice, 1, &fail), E_CTX_LEN, "beyond the context");

	f.fails = true;
	slice = (struct engine_slice){s, a + 9, 8, 1, 1, 0}; /* not its tokens */
	is_int(engine_step(e, &slice, 1, &fail), E_BACKEND, "the graph fails");
	is_str(fail.text, "the fake fails", "in its own words");
	f.fails = false;
	is_int(engine_seq_length(s), 6, "a failed step moves nothing on");
	run(e, s, a, 6, 30, "after the failure");
	struct engine_seq *t = engine_seq_create(e, a, 30, &cached);
	is_int(cached, 28, "and published nothing wrong");
	run(e, t, a, 28, 30, "on the published pages");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, t);
	engine_destroy(e);
}

static void test_prefix(void)
{
	struct fake f;
	struct engine *e = make(&f, 12, true);
	int32_t a[24], b[24];
	int cached;
	fill(a, 24, 1), fill(b, 24, 1);
	b[9] = (b[9] + 1) % V; /* differs inside the third page */
	struct engine_seq *s = engine_seq_create(e, a, 20, &cached);
	is_int(cached, 0, "nothing is known at first");
	run(e, s, a, 0, 20, "first");
	struct engine_seq *t = engine_seq_create(e, a, 20, &cached);
	is_int(cached, 16, "held pages are shared, but the last token must run");
	is_int(engine_pages_free(e), 7, "sharing takes no page");
	run(e, t, a, 16, 20, "second");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, t);
	is_int(engine_pages_free(e), 12, "kept pages count as free");

	s = engine_seq_create(e, a, 24, &cached);
	is_int(cached, 20, "kept pages are shared");
	run(e, s, a, 20, 24, "third");
	t = engine_seq_create(e, b, 24, &cached);
	is_int(cached, 8, "only the pages before the first difference");
	run(e, t, b, 8, 24, "fourth");
	struct engine_stats stats;
	engine_stats(e, &stats);
	is_int(stats.prefix_query_tok, 20 + 20 + 24 + 24, "tokens asked for");
	is_int(stats.prefix_hit_tok, 16 + 20 + 8, "tokens found");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, t);

	/* Push everything out, then look again. */
	int32_t c[48];
	fill(c, 48, 5);
	t = engine_seq_create(e, c, 48, &cached);
	run(e, t, c, 0, 32, "long one, first part");
	run(e, t, c, 32, 48, "long one, second part");
	engine_seq_destroy(e, t);
	s = engine_seq_create(e, a, 24, &cached);
	is_int(cached, 0, "evicted pages are not found");
	engine_seq_destroy(e, s);
	engine_destroy(e);

	e = make(&f, 12, false);
	s = engine_seq_create(e, a, 20, &cached);
	run(e, s, a, 0, 20, "without cache");
	t = engine_seq_create(e, a, 20, &cached);
	is_int(cached, 0, "without prefix_cache nothing is shared");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, t);
	engine_destroy(e);
}

/* Pages of its own, again and again; not where others would find them. */
static void test_repeat(void)
{
	struct fake f;
	struct engine *e = make(&f, 20, false);
	int32_t a[7 * P + 1];
	int cached;
	for (int i = 0; i < 7 * P; i++) /* two pages, and five copies of them in turn */
		a[i] = (i % (2 * P) * 17 + 3) % V;
	a[7 * P] = 4;
	struct engine_seq *s = engine_seq_create(e, a, 2 * P, &cached);
	is_int(engine_seq_reserve(e, s, 7 * P + 1), OK, "room for copies");
	is_int(engine_seq_repeat(e, s, P), E_INVAL, "of nothing there are none");
	run(e, s, a, 0, 2 * P, "two pages");
	is_int(engine_seq_repeat(e, s, P + 1), E_INVAL, "only whole pages");
	is_int(engine_seq_repeat(e, s, 5 * P), OK, "five copies");
	is_int(engine_seq_length(s), 7 * P, "are there");
	is_int(f.n_copied, 5, "each was copied once");
	run(e, s, a, 7 * P, 7 * P + 1, "a token behind them");
	engine_seq_destroy(e, s);
	engine_destroy(e);
	e = make(&f, 20, true);
	s = engine_seq_create(e, a, P, &cached);
	run(e, s, a, 0, P, "with a prefix cache");
	is_int(engine_seq_reserve(e, s, P), OK, "room");
	is_int(engine_seq_repeat(e, s, P), E_INVAL, "copies would be found as what they are not");
	engine_seq_destroy(e, s);
	engine_destroy(e);
}

static void test_fork(void)
{
	struct fake f;
	struct engine *e = make(&f, 20, true);
	int32_t a[24], b[24], c[24];
	int cached;
	fill(a, 24, 1), fill(b, 24, 1), fill(c, 24, 1);
	for (int i = 10; i < 24; i++)
		b[i] = (a[i] + 5) % V, c[i] = (a[i] + 9) % V;
	struct engine_seq *sa = engine_seq_create(e, a, 10, &cached), *sb, *sc;
	run(e, sa, a, 0, 10, "original");
	is_int(engine_seq_reserve(e, sa, 14), OK, "the original has its room");
	int before = engine_pages_free(e);
	is_int(engine_seq_fork(e, sa, &sb), OK, "fork");
	is_int(engine_seq_fork(e, sb, &sc), OK, "fork of a fork");
	is_int(engine_pages_free(e), before, "forks take no page");
	is_int(engine_seq_length(sb), 10, "and begin where the original is");
	struct engine_slice early = {sb, b + 10, 1, 1, 1, 0};
	is_int(engine_step(e, &early, 1, NULL), E_NO_PAGES,
	       "a fork cannot write before it reserved");
	run(e, sa, a, 10, 11, "original goes on");
	is_int(f.n_copied, 0, "without copying");
	f.copy_fails = true;
	is_int(engine_seq_reserve(e, sb, 2), E_BACKEND, "copying may fail");
	is_int(engine_pages_free(e), before, "then nothing was taken");
	f.copy_fails = false;
	run(e, sb, b, 10, 12, "fork goes on");
	is_int(f.n_copied, 1, "with one copy");
	is_int(engine_pages_free(e), before - 1, "in one page");
	run(e, sa, a, 11, 24, "original to its end");
	engine_seq_destroy(e, sa);
	run(e, sc, c, 10, 24, "the last fork");
	run(e, sb, b, 12, 24, "the first fork");
	struct engine_seq *t = engine_seq_create(e, b, 24, &cached);
	is_int(cached, 20, "a fork's pages are published under its own tokens");
	run(e, t, b, 20, 24, "on a fork's pages");
	engine_seq_destroy(e, t);
	/* Pages that both hold come free with both; each has some of its own. */
	struct engine_seq *all[] = {sc, sb};
	struct engine_available room[3];
	engine_available(e, all, 2, room);
	is_int(room[0].pages, engine_pages_free(e), "what is free now");
	engine_seq_destroy(e, sc);
	is_int(engine_pages_free(e), room[1].pages, "as many come back as was said of one");
	engine_seq_destroy(e, sb);
	is_int(engine_pages_free(e), room[2].pages, "and of both");
	ok(room[2].pages - room[1].pages > room[1].pages - room[0].pages,
	   "which is more than each has alone");
	is_int(engine_pages_free(e), 20, "all pages came back");

	/* The writer leaves: the only borrower takes its page over without a copy. */
	fill(a, 24, 7), fill(b, 24, 7);
	b[6] = (a[6] + 1) % V;
	sa = engine_seq_create(e, a, 6, &cached);
	run(e, sa, a, 0, 6, "writer");
	is_int(engine_seq_fork(e, sa, &sb), OK, "fork again");
	engine_seq_destroy(e, sa);
	int copied = f.n_copied;
	run(e, sb, b, 6, 12, "heir");
	is_int(f.n_copied, copied, "the heir copies nothing");
	engine_seq_destroy(e, sb);

	/* A fork on a page boundary shares full pages only. */
	sa = engine_seq_create(e, c, 24, &cached);
	run(e, sa, c, cached, 24, "even");
	is_int(engine_seq_fork(e, sa, &sb), OK, "fork at a page's end");
	int32_t d[25];
	memcpy(d, c, sizeof c);
	d[24] = 3;
	run(e, sb, d, 24, 25, "fork at a page's end");
	is_int(f.n_copied, copied, "copies nothing");
	engine_seq_destroy(e, sa);
	engine_seq_destroy(e, sb);
	engine_destroy(e);
}

/* A borrowed page that its writer filled and published is never written, even by
 * its last holder. */
static void test_fork_of_published(void)
{
	struct fake f;
	struct engine *e = make(&f, 20, true);
	int32_t a[12], b[12];
	int cached;
	fill(a, 12, 1), fill(b, 12, 1);
	b[6] = (a[6] + 1) % V;
	struct engine_seq *sa = engine_seq_create(e, a, 6, &cached), *sb;
	run(e, sa, a, 0, 6, "writer");
	is_int(engine_seq_fork(e, sa, &sb), OK, "fork");
	run(e, sa, a, 6, 9, "the writer fills its page");
	engine_seq_destroy(e, sa);
	run(e, sb, b, 6, 9, "the fork");
	is_int(f.n_copied, 1, "made a copy");
	struct engine_seq *t = engine_seq_create(e, a, 9, &cached);
	is_int(cached, 8, "the writer's pages are still known");
	run(e, t, a, 8, 9, "and still hold its tokens");
	engine_seq_destroy(e, t);
	engine_seq_destroy(e, sb);
	engine_destroy(e);
}

static int checkpoints(const struct engine *e)
{
	struct engine_stats s;
	engine_stats(e, &s);
	return s.checkpoints;
}

/* A known prefix is of use up to a checkpoint of the state. */
static void test_checkpoints(void)
{
	struct fake f;
	struct engine *e = make_recurrent(&f, 40, true, 8);
	int32_t a[40];
	int cached;
	fill(a, 40, 1);
	struct engine_seq *s = engine_seq_create(e, a, 30, &cached), *t;
	run(e, s, a, 0, 14, "a chunk");
	is_int(checkpoints(e), 1, "its last page's end is a checkpoint");
	t = engine_seq_create(e, a, 30, &cached);
	is_int(cached, 12, "up to which the prefix is known");
	run(e, t, a, 12, 30, "on from the checkpoint");
	engine_seq_destroy(e, t);
	run(e, s, a, 14, 30, "the first goes on, undisturbed");
	for (int i = 30; i < 40; i++)
		run(e, s, a, i, i + 1, "token after token");
	engine_seq_destroy(e, s);
	t = engine_seq_create(e, a, 40, &cached);
	is_int(cached, 36, "decoding leaves a checkpoint now and then");
	engine_seq_destroy(e, t);
	t = engine_seq_create(e, a, 35, &cached);
	is_int(cached, 28, "the end of the prompt is one that stays");
	run(e, t, a, 28, 35, "on from there");
	engine_seq_destroy(e, t);
	a[13] = (a[13] + 1) % V;
	t = engine_seq_create(e, a, 30, &cached);
	is_int(cached, 12, "other tokens share what came before them");
	run(e, t, a, 12, 30, "and go their own way");
	engine_seq_destroy(e, t);
	ok(checkpoints(e) <= 8, "the store is bounded");
	engine_destroy(e);

	e = make_recurrent(&f, 40, false, 8);
	s = engine_seq_create(e, a, 30, &cached);
	run(e, s, a, 0, 30, "without a prefix cache");
	is_int(checkpoints(e), 0, "there are no checkpoints");
	engine_seq_destroy(e, s);
	engine_destroy(e);
}

/* A turn, the next one, and the first one again with its last words edited. */
static void test_turns(void)
{
	struct fake f;
	struct engine *e = make_recurrent(&f, 40, true, 8);
	int32_t a[60];
	int cached;
	fill(a, 60, 5);
	const struct engine_prompt first = {.tokens = a, .n = 31, .turn_at = 18};
	struct engine_seq *s = engine_seq_create_in(e, &first, &cached);
	is_int(engine_seq_cut(e, s, 31), 16, "a slice ends before the user's last words");
	run(e, s, a, 0, 16, "the history");
	is_int(engine_seq_cut(e, s, 15), 15, "behind them it does not");
	run(e, s, a, 16, 31, "the user's words");
	for (int i = 31; i < 34; i++)
		run(e, s, a, i, i + 1, "an answer");
	engine_seq_destroy(e, s);

	const struct engine_prompt next = {.tokens = a, .n = 45, .turn_at = 36};
	s = engine_seq_create_in(e, &next, &cached);
	is_int(cached, 32, "the next turn resumes at the end of the last");
	run(e, s, a, 32, 36, "the history");
	run(e, s, a, 36, 45, "the user's words");
	engine_seq_destroy(e, s);
	s = engine_seq_create(e, a, 31, &cached);
	is_int(cached, 28, "who asks again resumes at the end of the prompt");
	run(e, s, a, 28, 31, "again");
	engine_seq_destroy(e, s);
	a[19] = (a[19] + 1) % V;
	s = engine_seq_create_in(e, &first, &cached);
	is_int(cached, 16, "edited words resume before them");
	run(e, s, a, 16, 31, "edited");
	engine_seq_destroy(e, s);
	engine_destroy(e);
}

/* A turn whose last words begin a little behind where it resumes takes one step, and edited
 * words resume there. */
static void test_near_turns(void)
{
	struct fake f;
	struct engine *e = make_apart(&f, 40, true, 8, 64);
	int32_t a[60];
	int cached;
	fill(a, 60, 5);
	struct engine_prompt p = {.tokens = a, .n = 31, .turn_at = 20};
	struct engine_seq *s = engine_seq_create_in(e, &p, &cached);
	is_int(engine_seq_cut(e, s, 31), 20, "a slice ends before words that are far");
	run(e, s, a, 0, 20, "the history");
	run(e, s, a, 20, 34, "the user's words and an answer");
	engine_seq_destroy(e, s);

	p = (struct engine_prompt){.tokens = a, .n = 55, .turn_at = 40};
	s = engine_seq_create_in(e, &p, &cached);
	is_int(cached, 32, "the next turn resumes at the end of the last");
	is_int(engine_seq_cut(e, s, 23), 23, "and does not stop where that is near");
	run(e, s, a, 32, 55, "all of it at once");
	engine_seq_destroy(e, s);
	a[42] = (a[42] + 1) % V;
	s = engine_seq_create_in(e, &p, &cached);
	is_int(cached, 32, "edited words resume there, too");
	run(e, s, a, 32, 55, "edited");
	engine_seq_destroy(e, s);
	engine_destroy(e);
}

/* Slots: forks share until they step; a step in place that fails loses the state. */
static void test_states(void)
{
	struct fake f;
	struct engine *e = make_recurrent(&f, 40, true, 3);
	int32_t a[20], b[20], c[20];
	int cached;
	fill(a, 20, 1), fill(b, 20, 1), fill(c, 20, 1);
	b[7] = 3, c[7] = 4;
	struct engine_seq *sa = engine_seq_create(e, a, 20, &cached), *sb, *sc, *sd;
	run(e, sa, a, 0, 7, "one");
	is_int(engine_seq_fork(e, sa, &sb), OK, "fork");
	is_int(engine_seq_fork(e, sb, &sc), OK, "fork of a fork");
	is_int(engine_seq_fork(e, sc, &sd), OK, "and another");
	run(e, sb, b, 7, 9, "a fork takes a slot");
	run(e, sa, a, 7, 20, "so does the original");
	is_int(engine_seq_reserve(e, sc, 1), E_NO_PAGES, "of two that share one has none");
	ok(engine_pages_free(e) > 10, "though there are pages");
	engine_seq_destroy(e, sd);
	run(e, sc, c, 7, 9, "the last of them writes in place");
	engine_seq_destroy(e, sc);
	sc = engine_seq_create(e, c, 20, &cached);
	run(e, sc, c, cached, 20, "a slot given back is another's");
	is_int(engine_seq_fork(e, sa, &sd), OK, "a fourth");
	is_int(engine_seq_reserve(e, sd, 1), E_NO_PAGES, "finds no slot");
	f.fails = true;
	struct engine_slice slice = {sb, b + 9, 1, 1, 1, 0};
	is_int(engine_seq_reserve(e, sb, 2), OK, "room");
	is_int(engine_step(e, &slice, 1, NULL), E_BACKEND, "a step fails");
	f.fails = false;
	is_int(engine_step(e, &slice, 1, NULL), E_BACKEND, "and its state is lost");
	engine_seq_destroy(e, sa);
	engine_seq_destroy(e, sb);
	engine_seq_destroy(e, sc);
	engine_seq_destroy(e, sd);
	engine_destroy(e);
}

/* A step of one sure token and 5 draft tokens, n_right of them right. */
static void draft(struct engine *e, struct engine_seq *s, const int32_t *a, int at, int n_right)
{
	int32_t tokens[6];
	memcpy(tokens, a + at, sizeof tokens);
	for (int i = 1 + n_right; i < 6; i++)
		tokens[i] = (tokens[i] + 1) % V;
	struct engine_slice slice = {.seq = s, .tokens = tokens, .n = 6, .n_logits = 6,
				     .n_draft = 5};
	is_int(engine_seq_reserve_draft(e, s, 6), OK, "room for draft tokens");
	is_int(engine_step(e, &slice, 1, NULL), OK, "a step with drafts");
	is_near(engine_logits_row(e, 0, n_right)[0], digest_of(a, at + 1 + n_right), 0,
		"what stands behind %d right ones", n_right);
	engine_seq_confirm(e, s, tokens + 1, n_right);
	is_int(engine_seq_length(s), at + 1 + n_right, "these are in the cache");
}

/* Draft tokens over recurrent state: the tokens after them see none that was wrong, and neither
 * does another sequence that resumes at a checkpoint. */
static void test_drafts(void)
{
	struct fake f;
	struct engine *e = make_recurrent(&f, 60, true, 8);
	int32_t a[60];
	int cached;
	fill(a, 60, 1);
	for (int n_right = 0; n_right < 6; n_right++) {
		/* From each place within a page, of which P - 1 is its end. */
		for (int at = 9; at < 9 + P; at++) {
			const struct engine_prompt p = {.tokens = a, .n = at,
				.space = {(char[]){(char)('a' + at), (char)('0' + n_right)}, 2}};
			struct engine_seq *s = engine_seq_create_in(e, &p, &cached);
			run(e, s, a, 0, at, "a prompt");
			draft(e, s, a, at, n_right);
			run(e, s, a, at + 1 + n_right, at + 2 + n_right, "the next token");
			draft(e, s, a, at + 2 + n_right, 5 - n_right);
			run(e, s, a, at + 8, at + 9, "and the next");
			engine_seq_destroy(e, s);
			const struct engine_prompt q = {.tokens = a, .n = at + 9,
							.space = p.space};
			s = engine_seq_create_in(e, &q, &cached);
			is_int(cached, (at + 8) / P * P, "the last end of a page is known");
			run(e, s, a, cached, at + 12, "and goes on from there");
			engine_seq_destroy(e, s);
		}
	}
	ok(f.n_replayed > 10, "states were taken on (%d times)", f.n_replayed);

	struct engine_seq *s = engine_seq_create(e, a, 9, &cached);
	run(e, s, a, 0, 9, "a prompt");
	int32_t wrong[] = {a[9], (a[10] + 1) % V, a[11]};
	struct engine_slice slice = {.seq = s, .tokens = wrong, .n = 3, .n_logits = 3,
				     .n_draft = 2};
	is_int(engine_seq_reserve(e, s, 3), OK, "room for tokens");
	is_int(engine_step(e, &slice, 1, NULL), E_INVAL, "draft tokens need a slot");
	is_int(engine_seq_reserve_draft(e, s, 3), OK, "with one");
	is_int(engine_step(e, &slice, 1, NULL), OK, "they run");
	run(e, s, a, 10, 12, "and nobody confirms any");
	is_int(engine_seq_reserve_draft(e, s, 6), OK, "again");
	slice = (struct engine_slice){.seq = s, .tokens = a + 12, .n = 6, .n_logits = 6,
				      .n_draft = 5};
	is_int(engine_step(e, &slice, 1, NULL), OK, "a step");
	f.copy_fails = true;
	engine_seq_confirm(e, s, a + 13, 2);
	slice = (struct engine_slice){.seq = s, .tokens = a + 15, .n = 1, .n_logits = 1};
	is_int(engine_step(e, &slice, 1, NULL), E_BACKEND,
	       "where the device fails then, the state is lost");
	engine_seq_destroy(e, s);
	engine_destroy(e);
}

/* Ends n sequences, some of which may be NULL. Returns how often there was another room then than
 * engine_available had said. */
static int end_all(struct engine *e, struct engine_seq **seqs, int n)
{
	struct engine_available room[MAX_SEQS + 1], now;
	int wrong = 0, n_some = 0;
	for (int i = 0; i < n; i++)
		if (seqs[i])
			seqs[n_some++] = seqs[i];
	engine_available(e, seqs, n_some, room);
	for (int i = 0; i <= n_some; i++) {
		engine_available(e, NULL, 0, &now);
		wrong += now.pages != room[i].pages || now.slots != room[i].slots;
		engine_seq_destroy(e, i < n_some ? seqs[i] : NULL);
	}
	return wrong;
}

/* Many random lives on few pages, each checked by digest at every step. n_states 0: by
 * the cache; else by states in so many slots. */
static void test_random(int n_states)
{
	struct fake f;
	struct engine *e = make_recurrent(&f, 24, true, n_states);
	struct life {
		struct engine_seq *seq;
		int32_t tokens[N_CTX];
		int n, n_prompt;
	} lives[MAX_SEQS] = {0};
	uint32_t x = 12345;
	int wrong = 0, steps = 0, refused = 0, forks = 0;
	for (int turn = 0; turn < 4000; turn++) {
		x = x * 1664525u + 1013904223u;
		uint32_t r = x >> 8;
		struct life *l = &lives[r % MAX_SEQS];
		if (turn % 250 == 249) {
			struct engine_seq *seqs[MAX_SEQS];
			for (int i = 0; i < MAX_SEQS; i++)
				seqs[i] = lives[i].seq;
			wrong += end_all(e, seqs, MAX_SEQS);
			memset(lives, 0, sizeof lives);
		}
		if (!l->seq && r % 7 == 0 && lives[0].seq) {
			wrong += engine_seq_fork(e, lives[0].seq, &l->seq) != OK;
			memcpy(l->tokens, lives[0].tokens, sizeof l->tokens);
			l->n = lives[0].n;
			forks++;
		} else if (!l->seq) {
			int n = 1 + (int)(r / 16 % 30);
			fill(l->tokens, n, (int)(r / 512 % 3)); /* often the same */
			l->seq = engine_seq_create(e, l->tokens, n, &l->n);
			l->n_prompt = n;
		} else if (r % 11 == 0 || l->n == N_CTX) {
			engine_seq_destroy(e, l->seq);
			*l = (struct life){0};
		} else {
			int n = MIN(1 + (int)(r / 16 % 9), N_CTX - l->n);
			for (int i = l->n; i < l->n + n; i++)
				if (i >= l->n_prompt)
					l->tokens[i] = (int32_t)((r >> (i - l->n)) % 3);
			if (engine_seq_reserve(e, l->seq, n) != OK) {
				refused++;
				continue;
			}
			/* Some are draft tokens; what is behind the right ones is wrong. */
			int n_draft = r % 3 ? 0 : (int)(r / 64 % (uint32_t)n), n_right = 0;
			int32_t tokens[N_CTX];
			memcpy(tokens, l->tokens + l->n, (size_t)n * sizeof *tokens);
			if (n_draft)
				n_right = (int)(r / 1024 % (uint32_t)(n_draft + 1));
			for (int i = n - n_draft + n_right; i < n; i++)
				tokens[i] = (tokens[i] + 1) % V;
			if (n_draft && engine_seq_reserve_draft(e, l->seq, n) != OK) {
				refused++;
				continue;
			}
			struct engine_slice slice = {l->seq, tokens, n, 1 + n_draft, 1,
						     n_draft};
			f.fails = r % 13 == 0;
			bool passed = engine_step(e, &slice, 1, NULL) == OK;
			wrong += passed == f.fails;
			if (!passed && n_states) { /* its state may be lost */
				engine_seq_destroy(e, l->seq);
				*l = (struct life){0};
			}
			if (!passed)
				continue;
			engine_seq_confirm(e, l->seq, tokens + n - n_draft, n_right);
			l->n += n - n_draft + n_right;
			steps++;
			wrong += engine_logits_row(e, 0, n_right)[0] !=
				 digest_of(l->tokens, l->n);
			wrong += engine_seq_length(l->seq) != l->n;
		}
	}
	is_int(wrong, 0, "%d steps, %d forks, %d refused: every digest is right",
	       steps, forks, refused);
	struct engine_stats stats;
	engine_stats(e, &stats);
	ok(steps > 1000 && forks > 20 && refused > 20 && f.n_copied > 5 &&
		   stats.prefix_hit_tok > 100,
	   "and all of it happened (%d copies, %d tokens found again)", f.n_copied,
	   (int)stats.prefix_hit_tok);
	for (int i = 0; i < MAX_SEQS; i++)
		engine_seq_destroy(e, lives[i].seq);
	is_int(engine_pages_free(e), 24, "no page is lost");
	engine_destroy(e);
}

/* A device that keeps its logits, and says how warm each row is to be. */
struct far {
	struct logits_top top[MAX_TOK];
	int n_fetched;
	bool fails;
};

static enum status far_forward(void *ctx, const struct engine_batch *b, float *logits,
			       struct fail *fail)
{
	struct far *f = ctx;
	for (int r = 0; r < b->n_logit_rows; r++)
		f->top[r] = (struct logits_top){.n = 1, .id = {b->token[b->logit_rows[r]]},
						.sum_t = b->inv_t[r]};
	return OK;
}

static const struct logits_top *far_top(void *ctx)
{
	return ((struct far *)ctx)->top;
}

static enum status far_fetch(void *ctx, int32_t i, float *logits)
{
	struct far *f = ctx;
	f->n_fetched++;
	logits[0] = (float)f->top[i].id[0];
	return f->fails ? E_DEVICE : OK;
}

static void test_far_logits(void)
{
	static struct far f;
	struct engine_graph g = {.ctx = &f, .n_vocab = V, .max_ctx = N_CTX,
				 .forward = far_forward, .top = far_top, .fetch = far_fetch};
	struct engine_opts o = {.page_size = P, .max_seqs = MAX_SEQS, .max_batch_tok = MAX_TOK};
	struct engine *e;
	struct fail fail = {0};
	int n;
	if (engine_create_with(&g, &o, 8, &e) != OK)
		abort();
	const int32_t a[] = {11, 12, 13}, b[] = {21};
	struct engine_seq *sa = engine_seq_create(e, a, 3, &n);
	struct engine_seq *sb = engine_seq_create(e, b, 1, &n);
	struct engine_slice slices[] = {{sa, a, 3, 2, 0.5f, 0}, {sb, b, 1, 1, 0, 0}};
	ok(engine_seq_reserve(e, sa, 3) == OK && engine_seq_reserve(e, sb, 1) == OK &&
	   engine_step(e, slices, 2, &fail) == OK, "a step on a far device");
	is_int(engine_top(e, 0)->id[0], 13, "what is known is of the last row of a slice");
	is_int(engine_top(e, 1)->id[0], 21, "of each");
	is_near(engine_top(e, 0)->sum_t, 0.5, 0, "1 / temperature goes along");
	is_near(engine_top(e, 1)->sum_t, 1, 0, "and is 1 where none is told");
	is_int(f.n_fetched, 0, "nothing was fetched for it");
	const float *logits = engine_logits(e, 0);
	ok(logits && logits[0] == 12 && logits[V] == 13, "all logits of a slice");
	ok(engine_logits(e, 0) == logits && engine_logits(e, 1)[0] == 21, "and of the other");
	is_int(f.n_fetched, 3, "each row is fetched once");
	f.fails = true;
	slices[0] = (struct engine_slice){sa, a, 1, 1, 0, 0};
	ok(engine_seq_reserve(e, sa, 1) == OK && engine_step(e, slices, 1, &fail) == OK &&
	   !engine_logits(e, 0), "a device that fails then");
	engine_seq_destroy(e, sa);
	engine_seq_destroy(e, sb);
	engine_destroy(e);
}

/* --- what two prompts have in common ----------------------------------------------- */

/* Fills p with n tokens and images at random: most are what seed 0 has, so prompts are alike. */
static void make_prompt(struct engine_prompt *p, int32_t *tokens, struct engine_image *images,
			unsigned *seed)
{
	memset(images, 0, 8 * sizeof *images);
	fill(tokens, p->n, 1);
	if (rand_r(seed) % 4 == 0)
		tokens[rand_r(seed) % p->n] = 3;
	for (int at = 2 + rand_r(seed) % 12 / 11; at + 3 < p->n; at += 9 + rand_r(seed) % 24 / 23) {
		struct engine_image *m = &images[p->n_images];
		*m = (struct engine_image){.at = at, .n = 3, .n_rows = 1, .n_cols = 3};
		m->hash[at % 32] = (uint8_t)(rand_r(seed) % 8 == 0);
		for (int i = 0; i < m->n; i++)
			tokens[at + i] = 7;
		p->n_images += rand_r(seed) % 16 != 0; /* else: an image's tokens without it */
	}
	p->tokens = tokens;
	p->images = images;
}

/* As many as one sequence finds of another that has run. */
static void test_common(void)
{
	unsigned seed = 1;
	int n_wrong = 0, n_partly = 0;
	for (int i = 0; i < 400; i++) {
		struct fake f;
		struct fail fail = {0};
		struct engine *e = make(&f, 30, true);
		int32_t tokens[2][40];
		struct engine_image images[2][8];
		struct engine_prompt a = {.n = 40}, b = {.n = 30};
		make_prompt(&a, tokens[0], images[0], &seed);
		make_prompt(&b, tokens[1], images[1], &seed);
		int cached, common = engine_common(e, &a, &b);
		struct engine_seq *s = engine_seq_create_in(e, &a, &cached);
		for (int at = 0; at < a.n; at += 20) {
			struct engine_slice slice = {s, a.tokens + at, 20, 1, 1, 0};
			n_wrong += engine_seq_reserve(e, s, 20) != OK ||
				   engine_step(e, &slice, 1, &fail) != OK;
		}
		struct engine_seq *other = engine_seq_create_in(e, &b, &cached);
		n_wrong += cached != common;
		n_partly += cached > 0 && cached < 28;
		engine_seq_destroy(e, other);
		engine_seq_destroy(e, s);
		engine_destroy(e);
	}
	is_int(n_wrong, 0, "prompts have in common what one finds of the other");
	ok(n_partly > 50, "of many a part: %d", n_partly);
}

/* Two pages of memory. Whoever looks at the second one ends the program. */
static void *half_shut(size_t page)
{
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE) != 0)
		exit(99);
	return p;
}

/* The scheduler compares each prompt in line with each that runs. It looks at nothing behind the
 * first difference: neither at tokens nor at images. */
static void test_common_long(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	enum { SAME = 3 }; /* images */
	struct fake f;
	struct engine *e = make(&f, 30, true);
	int32_t *tokens = half_shut(page);
	struct engine_image *images[2] = {half_shut(page), half_shut(page)};
	const int n = (int)(2 * page / sizeof *tokens);
	const int n_images = (int)(2 * page / sizeof *images[0]);
	for (int k = 0; k < 2; k++)
		for (int i = 0; i <= SAME; i++)
			images[k][i] = (struct engine_image){.at = 2 * P * i, .n = 1, .n_rows = 1,
							     .n_cols = 1};
	images[1][SAME].hash[0] ^= 1;
	const struct engine_prompt a = {.tokens = tokens, .n = n, .images = images[0],
					.n_images = n_images};
	struct engine_prompt b = a;
	b.images = images[1];
	is_int(engine_common(e, &a, &b), 2 * P * SAME, "up to the first image that differs");
	for (int k = 0; k < 2; k++)
		munmap(images[k], 2 * page);
	munmap(tokens, 2 * page);
	engine_destroy(e);
}

int main(void)
{
	test_common();
	test_common_long();
	test_create();
	test_batch();
	test_reserve();
	test_refusals();
	test_prefix();
	test_repeat();
	test_fork();
	test_fork_of_published();
	test_random(0);
	test_checkpoints();
	test_turns();
	test_near_turns();
	test_states();
	test_drafts();
	test_random(12);
	test_random(5);
	test_far_logits();
	return tap_done();
}
