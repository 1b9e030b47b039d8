/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that drafts beside the engine's own. It is the same model here, so it must draft what the
 * model says without chance: behind long prompts, right and wrong draft tokens, shared pages,
 * forks, and pages that had other tokens before.
 */
#include "base/alloc.h"
#include "engine/engine_private.h"
#include "engine/graph_calls.h"
#include "engine/memory_plan.h"
#include "tests/tap.h"

enum { PAGE = 16, N = 15, PROMPT = 100, MAX_SEQS = 4 };

struct rig {
	struct model *m, *draft;
	struct backend *b;
	struct engine *e;
};

static enum status (*plain_forward)(void *ctx, const struct engine_batch *b, float *logits,
				    struct fail *fail);
static int n_read; /* tokens that the model beside has run */

static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	n_read += b->n_tok;
	return plain_forward(ctx, b, logits, fail);
}

static struct model *open_model(const char *dir)
{
	const struct model_opts mo = {.use_mmap = true, .takes_head = true};
	struct model *m;
	struct fail fail = {0};
	if (model_open(tap_src(dir), &mo, &m, &fail) == OK)
		return m;
	ok(false, "%s: %s", dir, fail.text);
	exit(tap_done());
}

/* What was heard of the load: bytes, and whether they only grew to one sum. */
static struct {
	int64_t done, total;
	bool is_wrong;
} heard;

static void hear_load(void *ctx, int64_t done, int64_t total)
{
	heard.is_wrong |= done < heard.done || (heard.total && total != heard.total);
	heard.done = done;
	heard.total = total;
}

static struct rig rig_open(int64_t n_tok, bool keeps)
{
	struct rig r = {.m = open_model("tests/golden/models/qwen3-bf16"),
			.draft = open_model("tests/golden/models/qwen3-bf16")};
	struct backend_opts bo = {.name = "cpu", .n_threads = 1, .exact = true};
	struct engine_opts o = {.n_ctx = 256, .max_batch_tok = 64, .page_size = PAGE,
				.max_seqs = MAX_SEQS, .prefix_cache = keeps, .draft = r.draft,
				.load = {hear_load, NULL}};
	struct fail fail = {0};
	bool is_open = backend_create(&bo, &r.b, &fail) == OK;
	o.kv_bytes = n_tok * 2 * model_kv_bytes(&r.m->config, r.b->kv_type);
	if (!is_open || engine_create(r.m, r.b, &o, &r.e, &fail) != OK) {
		ok(false, "%s", fail.text);
		exit(tap_done());
	}
	plain_forward = r.e->beside->graph.forward;
	r.e->beside->graph.forward = forward;
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	model_close(r->m);
	model_close(r->draft);
}

/* n tokens at the sequence's end, the last n_draft of them draft tokens, of which n_right are
 * right. Returns the best token behind the last one that stays. */
static int32_t step(struct engine *e, struct engine_seq *s, const int32_t *tokens, int n,
		    int n_draft, int n_right)
{
	int32_t best = -1;
	while (n > 0) {
		int some = MIN(n, 64);
		struct engine_slice slice = {.seq = s, .tokens = tokens, .n = some,
					     .n_logits = 1 + n_draft, .n_draft = n_draft};
		enum status st = engine_seq_reserve_draft(e, s, some);
		if (st == OK)
			st = engine_step(e, &slice, 1, NULL);
		is_int(st, OK, "a step");
		best = graph_best(engine_logits_row(e, 0, n_right), engine_n_vocab(e));
		engine_seq_confirm(e, s, tokens + some - n_draft, n_right);
		tokens += some;
		n -= some;
	}
	return best;
}

static struct engine_seq *begin(struct engine *e, const int32_t *prompt, int n, int32_t *next)
{
	int cached;
	struct engine_seq *s = engine_seq_create(e, prompt, n, &cached);
	*next = step(e, s, prompt + cached, n - cached, 0, 0);
	return s;
}

/* What the model says behind the prompt and `first`, without chance: out (n). */
static void say(struct engine *e, const int32_t *prompt, int n_prompt, int32_t first, int n,
		int32_t *out)
{
	int32_t next;
	struct engine_seq *s = begin(e, prompt, n_prompt, &next);
	for (int i = 0; i < n; i++)
		out[i] = next = step(e, s, i ? &next : &first, 1, 0, 0);
	engine_seq_destroy(e, s);
}

/* Has n draft tokens made behind `token`. They must be `want`. */
static void check(struct engine *e, struct engine_seq *s, int32_t token, const int32_t *want,
		  const char *what)
{
	int32_t out[N];
	struct engine_draft g = {.seq = s, .token = token, .n = N, .out = out};
	int n;
	do
		is_int(engine_draft_read(e, s, 40, &n, NULL), OK, "it reads");
	while (n > 0);
	is_int(engine_seq_reserve_draft(e, s, 1 + N), OK, "room");
	is_int(engine_draft(e, &g, 1, NULL), OK, "%s: draft tokens", what);
	is_int(g.n_out, N, "%s: all of them", what);
	ok(memcmp(out, want, sizeof out) == 0, "%s: they are what the model says", what);
}

static void fill(int32_t *prompt, int n, int seed)
{
	for (int i = 0; i < n; i++)
		prompt[i] = (i * 37 + i / 7 * 11 + seed * 101) % 500;
}

static void test_sequence(struct engine *e)
{
	int32_t prompt[PROMPT], first, said[40], other[40], out[N];
	int n;
	fill(prompt, PROMPT, 1);
	struct engine_seq *s = begin(e, prompt, PROMPT, &first);
	say(e, prompt, PROMPT, first, 40, said);
	struct engine_draft g = {.seq = s, .token = first, .n = N, .out = out};
	is_int(engine_seq_reserve_draft(e, s, 1 + N), OK, "room");
	is_int(engine_draft_behind(e, s), PROMPT, "it has read nothing");
	is_int(engine_draft(e, &g, 1, NULL), OK, "behind a prompt that it has not read");
	is_int(g.n_out, 0, "it drafts nothing");
	is_int(engine_draft_read(e, s, 40, &n, NULL), OK, "it reads");
	is_int(n, 40, "as much as it may");
	is_int(engine_draft_behind(e, s), PROMPT - 40, "and has the rest before it");
	check(e, s, first, said, "a prompt");
	n_read = 0;
	memcpy(out, said, 4 * sizeof *said);
	out[0] = first;
	memcpy(out + 1, said, 3 * sizeof *said);
	is_int(step(e, s, out, 4, 3, 3), said[3], "three of them are right");
	check(e, s, said[3], said + 4, "right draft tokens");
	is_int(n_read, N, "it does not read them again");
	/* A wrong one, and others than it drafted. */
	int32_t wrong[3] = {said[3], said[4], (said[5] + 1) % 500};
	is_int(step(e, s, wrong, 3, 2, 1), said[5], "one of two is right");
	check(e, s, said[5], said + 6, "a wrong draft token");
	int32_t mine = (said[6] + 3) % 500, second = (mine + 9) % 500, they[N];
	step(e, s, &said[5], 1, 0, 0);
	int32_t text[PROMPT + 8];
	memcpy(text, prompt, sizeof prompt);
	text[PROMPT] = first;
	memcpy(text + PROMPT + 1, said, 6 * sizeof *said);
	say(e, text, PROMPT + 7, mine, N + 1, other);
	say(e, text, PROMPT + 7, second, N, they);
	check(e, s, mine, other, "another token than it drafted");
	/* The cache gets others than it drafted last. */
	check(e, s, second, they, "another token in its place");
	step(e, s, &mine, 1, 0, 0);
	check(e, s, other[0], other + 1, "the cache has another token than it drafted");
	engine_seq_destroy(e, s);
	/* The pages are known, and so is that it has read them. */
	s = begin(e, prompt, PROMPT, &first);
	n_read = 0;
	check(e, s, first, said, "the prompt again");
	ok(n_read < N + PAGE, "it reads %d tokens of it", n_read - N);
	engine_seq_destroy(e, s);
}

static void test_forks(struct engine *e)
{
	int32_t prompt[PROMPT], first, said[40], other[40], none[1] = {0};
	struct engine_seq *s, *fork;
	fill(prompt, PROMPT, 2);
	s = begin(e, prompt, PROMPT, &first);
	int32_t second = (first + 5) % 500;
	say(e, prompt, PROMPT, first, N, said);
	say(e, prompt, PROMPT, second, N, other);
	check(e, s, first, said, "before a fork");
	is_int(engine_seq_fork(e, s, &fork), OK, "a fork");
	check(e, fork, second, other, "the fork");
	check(e, s, first, said, "its origin");
	/* Both at once, with a third that has not been read. */
	int32_t out[3][N], text[PROMPT];
	fill(text, PROMPT, 3);
	struct engine_seq *third = begin(e, text, PROMPT, none);
	struct engine_draft g[3] = {{.seq = s, .token = first, .n = N, .out = out[0]},
				    {.seq = third, .token = none[0], .n = N, .out = out[1]},
				    {.seq = fork, .token = second, .n = 4, .out = out[2]}};
	is_int(engine_seq_reserve_draft(e, third, 1 + N), OK, "room");
	is_int(engine_draft(e, g, 3, NULL), OK, "three at once");
	ok(g[0].n_out == N && g[1].n_out == 0 && g[2].n_out == 4, "as many as each can have");
	ok(memcmp(out[0], said, sizeof out[0]) == 0 && memcmp(out[2], other, 4 * 4) == 0,
	   "together they have what each has alone");
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, fork);
	engine_seq_destroy(e, third);
}

/* Streams for which it never drafts. */
static void test_never(struct engine *e)
{
	struct engine_graph *g = &e->beside->graph;
	int32_t prompt[PROMPT], first, said[N], out[N];
	int n, n_vocab = g->n_vocab, max_ctx = g->max_ctx, max_tok = e->beside->max_tok;
	fill(prompt, PROMPT, 4);
	struct engine_seq *s = begin(e, prompt, PROMPT, &first);
	say(e, prompt, PROMPT, first, N, said);
	g->n_vocab = prompt[PROMPT - 1];
	is_int(engine_draft_behind(e, s), -1, "a token that it lacks");
	is_int(engine_draft_read(e, s, 40, &n, NULL), OK, "it reads");
	is_int(n, 0, "nothing of that text");
	g->n_vocab = n_vocab;
	g->max_ctx = PROMPT;
	is_int(engine_draft_behind(e, s), -1, "a text as long as its context");
	g->max_ctx = max_ctx;
	e->beside->max_tok = 9;
	is_int(engine_draft_behind(e, s), PROMPT, "short steps");
	do
		is_int(engine_draft_read(e, s, 40, &n, NULL), OK, "it reads");
	while (n > 0);
	ok(s->length - s->n_read < 9, "all but what is read on its way");
	struct engine_draft w = {.seq = s, .token = first, .n = N, .out = out};
	is_int(engine_seq_reserve_draft(e, s, 1 + N), OK, "room");
	g->max_ctx = PROMPT + 4;
	is_int(engine_draft(e, &w, 1, NULL), OK, "at the end of its context");
	is_int(w.n_out, 4, "it drafts as far as that goes");
	ok(memcmp(out, said, 4 * sizeof *out) == 0, "what the model says");
	g->max_ctx = max_ctx;
	e->beside->max_tok = max_tok;
	engine_seq_destroy(e, s);
}

/* A cache for little more than one sequence: pages get other tokens. */
static void test_pages(void)
{
	struct rig r = rig_open(PROMPT + 4 * PAGE, true);
	for (int i = 0; i < 4; i++) {
		int32_t prompt[PROMPT], first, said[N];
		fill(prompt, PROMPT, i % 3);
		struct engine_seq *s = begin(r.e, prompt, PROMPT, &first);
		say(r.e, prompt, PROMPT, first, N, said);
		check(r.e, s, first, said, "pages that had other tokens");
		engine_seq_destroy(r.e, s);
	}
	rig_close(&r);
}

/* Without a prefix cache a fork takes the page of its origin over, which had gone on there. */
static void test_last_page(void)
{
	struct rig r = rig_open(4096, false);
	int32_t text[PROMPT + 2 * PAGE], first, said[N];
	struct engine_seq *s, *fork;
	fill(text, PROMPT + 2 * PAGE, 5);
	s = begin(r.e, text, PROMPT, &first);
	say(r.e, text, PROMPT, first, N, said);
	check(r.e, s, first, said, "before a fork");
	is_int(engine_seq_fork(r.e, s, &fork), OK, "a fork");
	first = step(r.e, s, text + PROMPT, 2 * PAGE, 0, 0);
	say(r.e, text, PROMPT + 2 * PAGE, first, N, said);
	check(r.e, s, first, said, "its origin has filled the page");
	engine_seq_destroy(r.e, s);
	for (int i = PROMPT; i < PROMPT + 2 * PAGE; i++)
		text[i] = (text[i] + 7) % 500;
	first = step(r.e, fork, text + PROMPT, 2 * PAGE, 0, 0);
	say(r.e, text, PROMPT + 2 * PAGE, first, N, said);
	check(r.e, fork, first, said, "the fork has filled it with other tokens");
	engine_seq_destroy(r.e, fork);
	rig_close(&r);
}

static void test_plan(struct rig *r)
{
	const struct memory_have have = {1 << 30, 1 << 29, true, "a box"};
	struct engine_opts o = {.n_ctx = 256, .max_batch_tok = 64, .have = &have};
	struct memory_plan alone, both;
	struct fail fail = {0};
	is_int(engine_plan(r->m, r->b, &o, &alone, &fail), OK, "%s", fail.text);
	o.draft = r->draft;
	is_int(engine_plan(r->m, r->b, &o, &both, &fail), OK, "%s", fail.text);
	ok(both.weights == 2 * alone.weights, "its weights are planned for");
	ok(both.n_pages == alone.n_pages && both.taken - both.weights > alone.taken -
	   alone.weights + both.n_pages * 16 * model_kv_bytes(&r->m->config, r->b->kv_type),
	   "and its pages and work memory");
}

/* A vocabulary of N_PIECES pieces: `n` with a text, and behind them empty rows or `pads`. */
enum { N_PIECES = 800 };
static struct tokenizer *vocabulary(int n, bool has_pads)
{
	static char text[N_PIECES][16];
	struct str pieces[N_PIECES] = {{0}};
	struct added_token added[N_PIECES];
	const struct pretok_step step = {.kind = PRETOK_BYTE_LEVEL};
	struct tokenizer_def def = {.pieces = pieces, .n_pieces = has_pads ? N_PIECES : n,
				    .added = added, .steps = &step, .n_steps = 1};
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	for (int i = 0; i < (has_pads ? N_PIECES : n); i++) {
		snprintf(text[i], sizeof text[i], i < n ? "t%d" : "[PAD%d]", i);
		pieces[i] = (struct str){text[i], strlen(text[i])};
		if (i >= n)
			added[def.n_added++] = (struct added_token){.text = pieces[i], .id = i};
	}
	is_int(tokenizer_create(&def, &t, &fail), OK, "a vocabulary: %s", fail.text);
	return t;
}

/* What the two names of one model's rows without a token come to. */
static void test_vocabulary(struct rig *r)
{
	static const struct {
		int n, n_draft;
		bool has_pads;
		enum status want;
		const char *what;
	} cases[] = {
		{500, 500, true, OK, "300 rows have no token, and a name in one of them"},
		{500, 628, false, OK, "128 tokens are missing"},
		{500, 629, false, E_CONFIG, "129 tokens are missing"},
		{700, 500, false, E_CONFIG, "200 are missing in the draft's"},
		{700, 500, true, E_CONFIG, "and where it has padding there"},
		{700, 600, true, OK, "100 of them may be"},
	};
	struct tokenizer *own = r->m->tokenizer, *its = r->draft->tokenizer;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fail fail = {0};
		r->m->tokenizer = vocabulary(cases[i].n, false);
		r->draft->tokenizer = vocabulary(cases[i].n_draft, cases[i].has_pads);
		is_int(draft_model_check(r->m, r->draft, &fail), cases[i].want, "%s: %s",
		       cases[i].what, fail.text);
		tokenizer_destroy(r->m->tokenizer);
		tokenizer_destroy(r->draft->tokenizer);
	}
	r->m->tokenizer = own;
	r->draft->tokenizer = its;
}

static void refused(struct rig *r, const char *dir, const char *why)
{
	struct model *draft = open_model(dir);
	struct engine_opts o = {.n_ctx = 256, .max_batch_tok = 64, .draft = draft};
	struct memory_plan plan;
	struct fail fail = {0};
	is_int(engine_plan(r->m, r->b, &o, &plan, &fail), E_CONFIG, "%s is refused", dir);
	ok(strstr(fail.text, why) != NULL, "%s", fail.text);
	model_close(draft);
}

/* Heads that do not fit a model, and the sentences about them. */
static void test_heads(void)
{
	struct model *m = open_model("tests/golden/models/smollm3");
	struct model *head = open_model("tests/golden/drafters/smollm3-eagle3");
	head->config.tied_embeddings = true;
	struct fail tied = {0};
	is_int(draft_model_check(m, head, &tied), E_CONFIG, "the table of tokens as its head");
	ok(strstr(tied.text, "vocabulary of 256 tokens") != NULL, "%s", tied.text);
	head->config.tied_embeddings = false;
	const struct model_config is = m->config, its = head->config;
	struct model_config *of = &m->config, *c = &head->config;
	const struct {
		int32_t *change, to;
		const char *why;
	} cases[] = {
		{&of->d_model, 48, "for models of width 32 with 512 tokens, and "},
		{&c->d_model, 48, "has no embed_tokens"},
		{&of->streams.count, 4, "several residual streams"},
		{&of->n_layers, 2, "reads the input of three layers"},
		{&c->eagle.taps[0], is.n_layers, "and the last layer of "},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fail fail = {0};
		*cases[i].change = cases[i].to;
		is_int(draft_model_check(m, head, &fail), E_CONFIG, "%s", cases[i].why);
		ok(strstr(fail.text, cases[i].why) != NULL, "%s", fail.text);
		m->config = is;
		head->config = its;
	}
	is_int(draft_model_check(m, head, NULL), OK, "a head that fits");
	model_close(m);
	model_close(head);
}

int main(void)
{
	struct rig r = rig_open(4096, true);
	is_int(engine_draft_max(r.e), ENGINE_DRAFT_MAX, "it can draft");
	is_int(heard.total, 2 * model_weight_bytes(r.m), "its weights are part of the load");
	ok(heard.done > heard.total / 100 * 98 && !heard.is_wrong, /* norms are loaded untold */
	   "which goes from one to the other");
	test_sequence(r.e);
	test_forks(r.e);
	test_never(r.e);
	test_plan(&r);
	test_vocabulary(&r);
	test_heads();
	refused(&r, "models/halo-tiny", "has another vocabulary: token ");
	refused(&r, "tests/golden/models/qwen35", "its recurrent state cannot go back");
	refused(&r, "tests/golden/drafters/smollm3-eagle3", "is a head for models of width 32");
	struct model *m;
	struct fail fail = {0};
	is_int(model_open(tap_src("tests/golden/drafters/smollm3-eagle3"), NULL, &m, &fail),
	       E_UNSUPPORTED, "a head is no model that writes");
	ok(strstr(fail.text, "name it with draft_model") != NULL, "%s", fail.text);
	rig_close(&r);
	test_pages();
	test_last_page();
	return tap_done();
}
