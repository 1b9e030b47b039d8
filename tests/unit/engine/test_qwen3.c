/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole path below the scheduler on models/halo-tiny, against its
 * reference.json; and what a client must not be able to see: batching, chunking,
 * prefix reuse, forks and threads change no bit.
 *
 * test_qwen3 DIR checks another checkpoint that has a reference.json in the same way
 * (greedy choices only where the reference's two best are further apart than the
 * tolerance).
 *
 * Each of halo-tiny's cases is compared on one of four sets of instructions, and on the exact
 * path a quarter: tests/ctl/test_model.py compares all of them there, and on the fast path.
 * HALOD_CHECK=short says that time is short, as under a sanitizer: then an eighth goes through each
 * set, and each other model through one, with one of its cases in turn. Texts are shorter, and
 * batched on three threads alone. The references of families are compared on the exact path
 * alone, and test_model.py does it on the fast one.
 */
#include <jansson.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "tests/tap.h"

/* Of log-probabilities. Exact, and rounding activations and the cache as the fast path
 * does: a router may then choose another expert where two are close. */
#define TOLERANCE 0.02
#define ROUGH 0.4
#define ROUGH_MEAN 0.003

static const char *const sets[] = {"exact", "avx512_bf16", "avx512", "avx2", "portable"};

/* An instruction set that this processor has; "exact" is always there. */
static bool has_set(const char *isa)
{
	struct backend *b;
	if (strcmp(isa, "exact") == 0)
		return true;
	struct backend_opts o = {.name = "cpu", .n_threads = 1, .cpu_isa = isa};
	if (backend_create(&o, &b, NULL) != OK)
		return false;
	backend_destroy(b);
	return true;
}

static bool is_short(void)
{
	return tap_check("short") != NULL;
}

static bool int8_kv; /* the cache of engines opened from now on is in int8 */

struct rig {
	struct model *m;
	struct backend *b;
	struct engine *e;
};

/* isa: of the fast path, NULL for any; or "exact". */
static struct rig rig_open(const char *dir, const char *isa, int n_threads,
			   struct engine_opts o)
{
	struct rig r = {0};
	struct fail fail = {0};
	struct backend_opts bo = {.name = "cpu", .n_threads = n_threads};
	bo.exact = isa && strcmp(isa, "exact") == 0;
	bo.cpu_isa = bo.exact ? NULL : isa;
	o.int8_kv = int8_kv;
	if (model_open(dir, NULL, &r.m, &fail) != OK ||
	    backend_create(&bo, &r.b, &fail) != OK ||
	    engine_create(r.m, r.b, &o, &r.e, &fail) != OK) {
		ok(false, "%s: %s", dir, fail.text);
		exit(tap_done());
	}
	return r;
}

static void rig_close(struct rig *r)
{
	engine_destroy(r->e);
	backend_destroy(r->b);
	model_close(r->m);
}

/* Room and one step for one sequence; dies where that fails. */
static const float *run(struct engine *e, struct engine_seq *s, const int32_t *tokens,
			int n, int n_logits)
{
	struct fail fail = {0};
	struct engine_slice slice = {s, tokens, n, n_logits, 1, 0};
	if (engine_seq_reserve(e, s, n) != OK ||
	    engine_step(e, &slice, 1, &fail) != OK) {
		ok(false, "a step of %d tokens: %s", n, fail.text);
		exit(tap_done());
	}
	return engine_logits(e, 0);
}

static double log_sum(const float *logits, int n)
{
	double max = logits[0], sum = 0;
	for (int i = 1; i < n; i++)
		max = fmax(max, logits[i]);
	for (int i = 0; i < n; i++)
		sum += exp(logits[i] - max);
	return max + log(sum);
}

static int32_t best_of(const float *logits, int n)
{
	int32_t best = 0;
	for (int32_t i = 1; i < n; i++)
		if (logits[i] > logits[best])
			best = i;
	return best;
}

static int read_ids(const json_t *list, int32_t *out, int room)
{
	int n = (int)json_array_size(list);
	if (n > room)
		abort();
	for (int i = 0; i < n; i++)
		out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
	return n;
}

static double number(const json_t *list, int i)
{
	return json_number_value(json_array_get(list, (size_t)i));
}

/* --- the reference ------------------------------------------------------------- */

struct tally {
	double max_delta, sum_delta;
	int n_logprobs, n_greedy, n_wrong;
};

static void compare(struct tally *t, double got, double want)
{
	t->max_delta = worse_of(t->max_delta, fabs(got - want));
	t->sum_delta += fabs(got - want);
	t->n_logprobs++;
}

/* The logits of a step against its five best. */
static void check_step(struct tally *t, const float *logits, int n_vocab,
		       const json_t *step)
{
	const json_t *top = json_object_get(step, "top");
	double sum = log_sum(logits, n_vocab);
	for (size_t i = 0; i < json_array_size(top); i++) {
		const json_t *pair = json_array_get(top, i);
		int32_t id = (int32_t)number(pair, 0);
		compare(t, logits[id] - sum, number(pair, 1));
	}
	double gap = number(json_array_get(top, 0), 1) -
		     number(json_array_get(top, 1), 1);
	if (gap > 2 * TOLERANCE) {
		t->n_greedy++;
		t->n_wrong += best_of(logits, n_vocab) !=
			      json_integer_value(json_object_get(step, "token"));
	}
}

static void check_case(struct tally *t, struct engine *e, const json_t *c)
{
	int32_t prompt[2048], answer[1024];
	int n = read_ids(json_object_get(c, "prompt_ids"), prompt, 2048);
	int m = read_ids(json_object_get(c, "continuation_ids"), answer, 1024);
	int n_vocab = engine_n_vocab(e), cached;
	const json_t *logprobs = json_object_get(c, "prompt_logprobs");
	const json_t *steps = json_object_get(c, "steps");
	struct engine_seq *s = engine_seq_create(e, prompt, n, &cached);
	const float *last = NULL;
	for (int at = 0, chunk; at < n; at += chunk) {
		chunk = MIN(n - at, engine_max_batch_tok(e));
		const float *logits = run(e, s, prompt + at, chunk, chunk);
		for (int i = 0; i < chunk && at + i + 1 < n; i++) {
			const float *row = logits + (size_t)i * (size_t)n_vocab;
			compare(t, row[prompt[at + i + 1]] - log_sum(row, n_vocab),
				number(logprobs, at + i));
		}
		last = logits + (size_t)(chunk - 1) * (size_t)n_vocab;
	}
	for (int i = 0; i < m; i++) {
		check_step(t, last, n_vocab, json_array_get(steps, (size_t)i));
		if (i + 1 < m)
			last = run(e, s, answer + i, 1, 1);
	}
	engine_seq_destroy(e, s);
}

/* What greedy decoding itself says, token after token. */
static bool is_greedy_same(struct engine *e, const json_t *c)
{
	int32_t prompt[2048], want[1024], id;
	int n = read_ids(json_object_get(c, "prompt_ids"), prompt, 2048), cached;
	int m = read_ids(json_object_get(c, "continuation_ids"), want, 1024);
	struct engine_seq *s = engine_seq_create(e, prompt, n, &cached);
	for (int at = 0, chunk; at < n; at += chunk) {
		chunk = MIN(n - at, engine_max_batch_tok(e));
		id = best_of(run(e, s, prompt + at, chunk, 1), engine_n_vocab(e));
	}
	int i = 0;
	while (i < m && id == want[i])
		if (++i < m)
			id = best_of(run(e, s, &id, 1, 1), engine_n_vocab(e));
	engine_seq_destroy(e, s);
	return i == m;
}

static json_t *read_cases(const char *dir)
{
	char path[1200];
	snprintf(path, sizeof path, "%s/reference.json", dir);
	json_t *root = json_load_file(path, 0, NULL);
	json_t *cases = json_incref(json_object_get(root, "cases"));
	json_decref(root);
	ok(json_array_size(cases) > 0, "%s: there are cases", dir);
	return cases;
}

static void test_reference(const char *dir, const char *isa, bool is_trained)
{
	struct rig r = rig_open(dir, isa, 2,
				(struct engine_opts){.max_batch_tok = 100});
	bool is_exact = strcmp(isa, "exact") == 0;
	json_t *cases = read_cases(dir);
	struct tally t = {0};
	int n_cases = (int)json_array_size(cases), same = 0, n = 0;
	int step = is_trained ? (is_short() ? 8 : 4) : is_short() ? n_cases : 1;
	static int n_iterations[2]; /* each set of instructions takes other cases */
	int first = n_iterations[is_trained]++ % step;
	for (int i = first; i < n_cases; i += step, n++) {
		check_case(&t, r.e, json_array_get(cases, (size_t)i));
		same += is_trained &&
			is_greedy_same(r.e, json_array_get(cases, (size_t)i));
	}
	double mean = t.sum_delta / t.n_logprobs;
	ok(t.max_delta <= (is_exact ? TOLERANCE : ROUGH) && mean <= ROUGH_MEAN,
	   "%s: %d log-probabilities of %d cases: difference at most %.5f, mean %.5f",
	   isa, t.n_logprobs, n, t.max_delta, mean);
	if (is_exact || is_trained) /* untrained, the best are hardly better */
		is_int(t.n_wrong, 0, "best token right in %d of %d steps",
		       t.n_greedy - t.n_wrong, t.n_greedy);
	if (is_trained)
		is_int(same, n, "greedy continuations are identical");
	json_decref(cases);
	rig_close(&r);
}

/* --- what must not show ----------------------------------------------------------- */

enum { N_SEQS = 4, N_TOK = 60, N_TOK_SHORT = 44 };

static int32_t texts[N_SEQS][N_TOK];

/* Prompts of the reference, end to end, so that the text makes some sense. */
static void read_texts(const char *dir)
{
	json_t *cases = read_cases(dir);
	for (int s = 0; s < N_SEQS; s++) {
		size_t i = (size_t)s;
		for (int n = 0; n < N_TOK; i++) {
			const json_t *ids = json_object_get(
				json_array_get(cases, i % json_array_size(cases)),
				"prompt_ids");
			for (size_t j = 0; j < json_array_size(ids) && n < N_TOK; j++)
				texts[s][n++] = (int32_t)number(ids, (int)j);
		}
	}
	json_decref(cases);
}

/* Logits of each of the first n tokens of text s, one token a step. (n, V), malloced. */
static float *one_by_one(struct engine *e, int s, int n)
{
	size_t n_vocab = (size_t)engine_n_vocab(e);
	float *all = xmalloc((size_t)n * n_vocab * sizeof *all);
	int cached;
	struct engine_seq *seq = engine_seq_create(e, texts[s], n, &cached);
	for (int i = cached; i < n; i++)
		memcpy(all + (size_t)i * n_vocab, run(e, seq, &texts[s][i], 1, 1),
		       n_vocab * sizeof *all);
	engine_seq_destroy(e, seq);
	return all;
}

/* Logits behind text s, a page of tokens a step. (V), malloced. */
static float *by_pages(struct engine *e, int s)
{
	enum { PAGE = 16 };
	size_t n_bytes = (size_t)engine_n_vocab(e) * sizeof(float);
	float *last = xmalloc(n_bytes);
	int cached;
	struct engine_seq *seq = engine_seq_create(e, texts[s], N_TOK, &cached);
	for (int i = cached; i < N_TOK; i += PAGE)
		memcpy(last, run(e, seq, &texts[s][i], MIN(PAGE, N_TOK - i), 1), n_bytes);
	engine_seq_destroy(e, seq);
	return last;
}

static bool is_row_same(const struct engine *e, const float *got, const float *all, int i)
{
	size_t n = (size_t)engine_n_vocab(e);
	return memcmp(got, all + (size_t)i * n, n * sizeof *got) == 0;
}

/* All sequences, n_tok tokens of each, in steps of uneven slices: prefill chunks beside
 * single tokens. */
static int wrong_rows_batched(struct engine *e, float *const *want, int n_tok)
{
	struct engine_seq *seq[N_SEQS];
	int at[N_SEQS] = {0}, wrong = 0, cached, turn = 0;
	for (int s = 0; s < N_SEQS; s++)
		seq[s] = engine_seq_create(e, texts[s], n_tok, &cached);
	for (bool more = true; more; turn++) {
		struct engine_slice slices[N_SEQS];
		int who[N_SEQS], n_slices = 0;
		for (int s = 0; s < N_SEQS; s++) {
			static const int sizes[] = {1, 23, 1, 7, 2, 16, 0, 31};
			int n = MIN(sizes[(turn + 3 * s) % 8], n_tok - at[s]);
			if (n == 0 || engine_seq_reserve(e, seq[s], n) != OK)
				continue;
			who[n_slices] = s;
			slices[n_slices++] =
				(struct engine_slice){seq[s], texts[s] + at[s], n, n, 1, 0};
		}
		if (n_slices && engine_step(e, slices, n_slices, NULL) != OK)
			return -1;
		more = false;
		for (int i = 0; i < n_slices; i++) {
			int s = who[i];
			for (int j = 0; j < slices[i].n; j++)
				wrong += !is_row_same(
					e, engine_logits(e, i) +
						   (size_t)j * (size_t)engine_n_vocab(e),
					want[s], at[s] + j);
			at[s] += slices[i].n;
		}
		for (int s = 0; s < N_SEQS; s++)
			more |= at[s] < n_tok;
	}
	for (int s = 0; s < N_SEQS; s++)
		engine_seq_destroy(e, seq[s]);
	return wrong;
}

static void test_batches(const char *dir, const char *isa)
{
	struct engine_opts o = {.max_batch_tok = 128, .n_ctx = 256};
	struct rig one = rig_open(dir, isa, 1, o), three = rig_open(dir, isa, 3, o);
	int n_tok = is_short() ? N_TOK_SHORT : N_TOK;
	float *want[N_SEQS];
	for (int s = 0; s < N_SEQS; s++)
		want[s] = one_by_one(one.e, s, n_tok);
	is_int(wrong_rows_batched(three.e, want, n_tok), 0,
	       "%s: rows in batches are bit for bit those of single tokens", isa);
	if (!is_short())
		is_int(wrong_rows_batched(one.e, want, n_tok), 0, "also on one thread");
	for (int s = 0; s < N_SEQS; s++)
		free(want[s]);
	rig_close(&one);
	rig_close(&three);
}

static void test_prefix(const char *dir)
{
	struct engine_opts o = {.n_ctx = 256, .prefix_cache = true};
	struct rig r = rig_open(dir, NULL, 2, o);
	float *want = one_by_one(r.e, 0, N_TOK);
	int cached;
	struct engine_seq *s = engine_seq_create(r.e, texts[0], N_TOK, &cached);
	is_int(cached, N_TOK / 16 * 16, "the second time the prefix is cached");
	const float *logits = run(r.e, s, texts[0] + cached, N_TOK - cached, 1);
	ok(is_row_same(r.e, logits, want, N_TOK - 1),
	   "and gives the same logits, bit for bit");
	engine_seq_destroy(r.e, s);
	free(want);
	rig_close(&r);
}

static void test_fork(const char *dir)
{
	struct engine_opts o = {.n_ctx = 256, .prefix_cache = true};
	struct rig r = rig_open(dir, NULL, 2, o);
	float *want = by_pages(r.e, 1);
	int cached;
	/* Text 1 cut at 40, inside a page; one branch goes on with text 1, the
	 * other with text 0. */
	int32_t mixed[N_TOK];
	memcpy(mixed, texts[1], sizeof mixed);
	memcpy(mixed + 40, texts[0] + 40, (N_TOK - 40) * sizeof *mixed);
	struct engine_seq *s, *fork, *alone;
	s = engine_seq_create(r.e, texts[1], 40, &cached);
	run(r.e, s, texts[1] + cached, 40 - cached, 1);
	is_int(engine_seq_fork(r.e, s, &fork), OK, "fork");
	run(r.e, fork, mixed + 40, 5, 1);
	const float *logits = run(r.e, s, texts[1] + 40, N_TOK - 40, 1);
	ok(is_row_same(r.e, logits, want, 0), "the original does not notice its fork");
	float *forked = xmalloc((size_t)engine_n_vocab(r.e) * sizeof *forked);
	logits = run(r.e, fork, mixed + 45, N_TOK - 45, 1);
	memcpy(forked, logits, (size_t)engine_n_vocab(r.e) * sizeof *forked);
	engine_seq_destroy(r.e, s);
	engine_seq_destroy(r.e, fork);
	struct rig fresh = rig_open(dir, NULL, 2, o);
	alone = engine_seq_create(fresh.e, mixed, N_TOK, &cached);
	logits = run(fresh.e, alone, mixed, N_TOK, 1);
	ok(is_row_same(fresh.e, logits, forked, 0),
	   "the fork's logits are those of a sequence of its own");
	engine_seq_destroy(fresh.e, alone);
	free(forked);
	free(want);
	rig_close(&fresh);
	rig_close(&r);
}

/* Logits after n tokens, fed `chunk` a step beside another sequence's single tokens. */
static void last_row(struct engine *e, const int32_t *tokens, int n, int chunk,
		     float *out)
{
	int cached, other_cached, at;
	struct engine_seq *s = engine_seq_create(e, tokens, n, &cached), *other;
	other = engine_seq_create(e, texts[1], 1, &other_cached);
	for (at = cached; at < n; at += chunk) {
		struct engine_slice slices[] = {
			{s, tokens + at, MIN(chunk, n - at), 1, 1, 0},
			{other, texts[1] + at % N_TOK, 1, 1, 1, 0}};
		struct fail fail = {0};
		if (engine_seq_reserve(e, s, slices[0].n) != OK ||
		    engine_seq_reserve(e, other, 1) != OK ||
		    engine_step(e, slices, 2, &fail) != OK) {
			ok(false, "a step of a long prompt: %s", fail.text);
			exit(tap_done());
		}
	}
	memcpy(out, engine_logits(e, 0), (size_t)engine_n_vocab(e) * sizeof *out);
	engine_seq_destroy(e, s);
	engine_seq_destroy(e, other);
}

/* Weights are rounded where the path is fast, or experts of the random model tie there
 * (tests/ctl/test_model.py says how far). So only the exact path is as the reference. */
static void test_rounded(void)
{
	static const char *const names[] = {"qwen3-nf4", "qwen3-hqq", "deepseekv4-fp8"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char name[200], dir[1024];
		snprintf(name, sizeof name, "tests/golden/models/%s", names[i]);
		snprintf(dir, sizeof dir, "%s", tap_src(name));
		read_texts(dir);
		test_reference(dir, "exact", false);
		for (size_t j = 0; j < ARRAY_LEN(sets); j++)
			if (has_set(sets[j]) && (!is_short() || j == 1 + i))
				test_batches(dir, sets[j]);
		test_fork(dir);
	}
}

/* These share their code with others: one set of instructions each is enough. */
static void test_families(void)
{
	static const char *const names[] = {"qwen3vl", "qwen3vlmoe", "mistral3", "seedoss",
					    "granite", "smollm3", "glm4moelite",
					    "ministral3", "phi3", "phi3-long", "mixtral",
					    "granitemoe",
					    "minimaxm2", "olmo2", "olmo3", "exaone4",
					    "gemma4", "gemma4moe", "granitehybridmoe",
					    "nemotronh", "nemotronhmoe", "granitemoeshared",
					    "ernie45", "ernie45moe", "hunyuan",
					    "hunyuanmoe", "bamba", "llama4-dense",
					    "nemotronhsuper", "qwen3moe-ct-mixed",
					    "glm4moe-groups", "cohere", "cohere2",
					    "exaonemoe", "hyv3", "mistral4",
					    "laguna", "museglimmer", "kimilinear",
					    "ling3", "step37", "glm5next"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char name[200], dir[1024];
		size_t j = (i + 1) % ARRAY_LEN(sets);
		snprintf(name, sizeof name, "tests/golden/models/%s", names[i]);
		snprintf(dir, sizeof dir, "%s", tap_src(name));
		read_texts(dir);
		test_reference(dir, "exact", false);
		if (!is_short())
			test_reference(dir, has_set(sets[j]) ? sets[j] : "portable", false);
		test_batches(dir, has_set(sets[j]) ? sets[j] : "portable");
		test_fork(dir);
	}
}

/* Prompts of 300 and 3000 tokens: as one step, in chunks, with their beginning found
 * again, and the shorter one token by token. */
static void test_long(const char *dir)
{
	enum { LONG = 3000, SHORT = 300 };
	static int32_t tokens[LONG];
	struct engine_opts o = {.n_ctx = 4000, .max_batch_tok = 3100, .max_seqs = 2};
	struct rig plain = rig_open(dir, NULL, 2, o);
	o.prefix_cache = true;
	struct rig r = rig_open(dir, NULL, 2, o);
	size_t n_vocab = (size_t)engine_n_vocab(r.e);
	float *want = xmalloc(3 * n_vocab * sizeof *want), *got = want + n_vocab;
	struct engine_stats before, after;
	for (int i = 0; i < LONG; i++)
		tokens[i] = (texts[i / N_TOK % N_SEQS][i % N_TOK] + i / 300) % 500;
	for (int n = SHORT; n <= (is_short() ? SHORT : LONG); n *= 10) {
		last_row(plain.e, tokens, n, n, want);
		if (n == SHORT) {
			last_row(plain.e, tokens, n, 1, got);
			ok(is_row_same(r.e, got, want, 0), "%d tokens one by one", n);
		}
		last_row(plain.e, tokens, n, 512, got);
		ok(is_row_same(r.e, got, want, 0), "%d tokens, 512 a step", n);
		last_row(r.e, tokens, n, 77, got);
		ok(is_row_same(r.e, got, want, 0), "%d tokens, 77 a step", n);
		engine_stats(r.e, &before);
		last_row(r.e, tokens, n, 512, got);
		engine_stats(r.e, &after);
		ok(is_row_same(r.e, got, want, 0), "%d tokens, the prefix found again", n);
		int hit = (int)(after.prefix_hit_tok - before.prefix_hit_tok);
		ok(hit >= n - 2 * 77 && hit < n, "of which %d are", hit);
	}
	free(want);
	rig_close(&plain);
	rig_close(&r);
}

/* Mean and largest |difference of a log-probability| from the reference. */
static void int8_error(const char *dir, double *mean, double *most)
{
	struct rig r = rig_open(dir, "exact", 2, (struct engine_opts){.n_ctx = 2048});
	json_t *cases = read_cases(dir);
	struct tally t = {0};
	for (size_t i = 0; i < json_array_size(cases); i += is_short() ? 8 : 4)
		check_case(&t, r.e, json_array_get(cases, i));
	json_decref(cases);
	*mean = t.sum_delta / t.n_logprobs;
	*most = t.max_delta;
	rig_close(&r);
}

/* A cache in int8: near the reference but not equal to it, and as blind to its company as
 * another. */
static void test_int8(const char *dir)
{
	double mean, most;
	int8_kv = true;
	int8_error(dir, &mean, &most);
	ok(mean < 0.008 && mean > 1e-5, "%s: a cache in int8: |delta logprob| %.5f on average, "
	   "%.4f at most", dir, mean, most);
	/* Only attention differs, so a smaller model does. */
	char small[1024];
	snprintf(small, sizeof small, "%s", tap_src("tests/golden/models/qwen3-bf16"));
	read_texts(small);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (has_set(sets[i]) && (!is_short() || i % 2 == 0))
			test_batches(small, sets[i]);
	test_prefix(small);
	test_fork(small);
	int8_kv = false;
}

/* What cannot have one says why. */
static void test_int8_refusals(void)
{
	static const char *const why[][2] = {{"gptoss", "attention sinks"},
					     {"deepseekv3-yarn", "latent attention"}};
	for (size_t i = 0; i < ARRAY_LEN(why); i++) {
		struct model *m;
		struct backend *b;
		struct engine *e;
		struct fail fail = {0};
		char name[100];
		snprintf(name, sizeof name, "tests/golden/models/%s", why[i][0]);
		if (model_open(tap_src(name), NULL, &m, &fail) != OK ||
		    backend_create(&(struct backend_opts){.name = "cpu", .n_threads = 1}, &b,
				   &fail) != OK)
			abort();
		struct engine_opts o = {.n_ctx = 64, .int8_kv = true};
		is_int(engine_create(m, b, &o, &e, &fail), E_CONFIG, "%s: no cache in int8",
		       why[i][0]);
		ok(strstr(fail.text, why[i][1]) && strstr(fail.text, "kv_type"), "%s",
		   fail.text);
		backend_destroy(b);
		model_close(m);
	}
}

/* The page's bytes are counted: so many more fit. */
static void test_int8_plan(const char *dir)
{
	struct model *m;
	struct backend *b;
	struct fail fail = {0};
	struct memory_plan p;
	if (model_open(dir, NULL, &m, &fail) != OK ||
	    backend_create(&(struct backend_opts){.name = "cpu", .n_threads = 1}, &b,
			   &fail) != OK)
		abort();
	const struct model_config *c = &m->config;
	int64_t rows = 2 * c->n_kv_heads * c->n_layers, page = 16 * rows * (c->head_dim + 2);
	struct engine_opts o = {.n_ctx = 64, .kv_bytes = 10 * page, .int8_kv = true};
	is_int(engine_plan(m, b, &o, &p, &fail), OK, "a cache in int8 is planned");
	is_int(p.n_pages, 10, "with a byte a number and two a row");
	backend_destroy(b);
	model_close(m);
}

struct load_heard {
	int64_t done, total;
	int n;
	bool is_rising;
};

static void hear_load(void *ctx, int64_t done, int64_t total)
{
	struct load_heard *h = ctx;
	h->is_rising = h->is_rising && done > h->done && (!h->n || total == h->total);
	h->done = done;
	h->total = total;
	h->n++;
}

static void test_load_watch(const char *dir)
{
	struct load_heard heard = {.is_rising = true};
	struct engine_opts o = {.n_ctx = 64, .load = {hear_load, &heard}};
	struct rig r = rig_open(dir, NULL, 1, o);
	ok(heard.n > r.m->config.n_layers && heard.is_rising,
	   "progress is told %d times and rises", heard.n);
	/* Norms are loaded untold. */
	ok(heard.done > heard.total / 100 * 99 && heard.done <= heard.total,
	   "up to nearly all bytes: %lld of %lld", (long long)heard.done,
	   (long long)heard.total);
	rig_close(&r);
}

/* All that the watcher reads is a copy of the host's: one run of floats. On a GPU a pointer of
 * the device among them ended `haloctl verify`. */
static bool see_router(void *ctx, int i_layer, const struct moe_router_args *a)
{
	size_t n = (size_t)(a->weight - a->logits), e = (size_t)a->router->n;
	bool *is_copied = ctx;
	*is_copied = a->expert_scale && (size_t)(a->expert_scale - a->logits) + e <= n &&
		     a->expert_scale[e - 1] > 0;
	return false;
}

static void test_router_watch(const char *dir)
{
	bool is_copied = false;
	int32_t token = 5;
	struct engine_opts o = {.n_ctx = 64};
	struct rig r = rig_open(dir, NULL, 1, o);
	int n_cached;
	struct engine_seq *seq = engine_seq_create(r.e, &token, 1, &n_cached);
	engine_watch_routers(r.e, see_router, &is_copied);
	run(r.e, seq, &token, 1, 1);
	ok(is_copied, "a watcher of routers gets scales of experts as its own");
	engine_seq_destroy(r.e, seq);
	rig_close(&r);
}

static enum status refuse_experts(struct backend *b, const struct moe_experts_args *a)
{
	snprintf(b->refusal, sizeof b->refusal, "%d wide", 16 + (int)a->n_tok);
	return E_UNSUPPORTED;
}

static void test_refusals(const char *dir)
{
	struct model *m = NULL;
	struct backend *b = NULL;
	struct engine *e = NULL;
	struct fail fail = {0};
	if (model_open(dir, NULL, &m, &fail) != OK ||
	    backend_create(&(struct backend_opts){.name = "cpu", .n_threads = 1}, &b,
			   &fail) != OK)
		abort();
	struct engine_opts o = {.n_ctx = m->config.max_ctx + 1};
	is_int(engine_create(m, b, &o, &e, &fail), E_CONFIG,
	       "more context than the model has: %s", fail.text);
	o = (struct engine_opts){.kv_bytes = 1000};
	is_int(engine_create(m, b, &o, &e, &fail), E_CONFIG,
	       "a cache of less than a page: %s", fail.text);
	o = (struct engine_opts){.max_seqs = -1};
	is_int(engine_create(m, b, &o, &e, &fail), E_CONFIG, "fewer than no sequences");
	o = (struct engine_opts){.n_ctx = 64,
				 .kv_bytes = 10 * 16 * 2048 *
					     (int64_t)dtype_bytes(b->kv_type)};
	struct memory_plan p;
	is_int(engine_plan(m, b, &o, &p, &fail), OK, "a small cache is planned");
	is_int(p.n_pages, 10, "with the pages its bytes are");
	is_int(p.n_ctx, 64, "and the context that was asked for");
	is_int(engine_create(m, b, &o, &e, &fail), OK, "a small cache");
	is_int(engine_pages_total(e), 10, "has the pages its bytes are");
	engine_destroy(e);
	const struct memory_have little = {1 << 20, 1 << 20, true, "a little box"};
	o.have = &little;
	is_int(engine_plan(m, b, &o, &p, &fail), E_CONFIG, "in another memory: %s", fail.text);
	ok(strstr(fail.text, "a little box") != NULL, "which is named");

	o = (struct engine_opts){.n_ctx = 64};
	m->config.n_layers++;
	is_int(engine_create(m, b, &o, &e, &fail), E_MISSING, "a layer is missing");
	ok(strstr(fail.text, "model.layers.8.input_layernorm.weight") != NULL,
	   "and its first tensor named: %s", fail.text);
	m->config.n_layers--;
	m->config.expert_dim *= 2;
	is_int(engine_create(m, b, &o, &e, &fail), E_FORMAT, "experts of another size");
	ok(strstr(fail.text, "experts.0.gate_proj") != NULL, "named: %s", fail.text);
	m->config.expert_dim /= 2;

	m->config.sparse_step = 2;
	is_int(engine_create(m, b, &o, &e, &fail), E_MISSING, "every second layer dense");
	ok(strstr(fail.text, "layers.0.mlp.gate_proj") != NULL, "layer 0: %s", fail.text);
	m->config.sparse_step = 1;
	int32_t dense[] = {7, 3};
	m->config.dense_layers = dense;
	m->config.n_dense_layers = 2;
	is_int(engine_create(m, b, &o, &e, &fail), E_MISSING, "layers 3 and 7 dense");
	ok(strstr(fail.text, "layers.3.mlp.gate_proj") != NULL, "layer 3: %s", fail.text);
	m->config.n_dense_layers = 0;
	struct backend_ops ops = *b->ops;
	const struct backend_ops *all = b->ops;
	b->ops = &ops;
	ops.moe_experts = refuse_experts;
	is_int(engine_create(m, b, &o, &e, &fail), E_UNSUPPORTED,
	       "a shape that the backend cannot do, before the first step");
	ok(strstr(fail.text, "cannot run this model: moe_experts: 16 wide") != NULL,
	   "named: %s", fail.text);
	b->ops = all;
	snprintf(m->config.arch, sizeof m->config.arch, "gemma");
	is_int(engine_create(m, b, &o, &e, &fail), E_UNSUPPORTED,
	       "an architecture that is none here: %s", fail.text);
	backend_destroy(b);
	model_close(m);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		for (size_t i = 0; i < ARRAY_LEN(sets); i++)
			if (has_set(sets[i]))
				test_reference(argv[1], sets[i], false);
		return tap_done();
	}
	char dir[1024];
	snprintf(dir, sizeof dir, "%s", tap_src("models/halo-tiny"));
	read_texts(dir);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		if (!has_set(sets[i]))
			continue;
		test_reference(dir, sets[i], true);
		/* Untrained, but of other kinds: dense in bf16; int4 with zeros. */
		test_reference(tap_src("tests/golden/models/qwen3-bf16"), sets[i], false);
		test_reference(tap_src("tests/golden/models/qwen3moe-ct-asym"), sets[i],
			       false);
		test_batches(dir, sets[i]);
	}
	test_prefix(dir);
	test_fork(dir);
	test_int8(dir);
	test_int8_plan(dir);
	test_int8_refusals();
	static const char *const others[] = {"qwen3next", "granitehybrid", "lfm2", "qwen4exp",
					     "qwen35", "falconh1", "gptoss",
					     "deepseekv3-yarn", "gemma3", "lfm2moe",
					     "llama4", "deepseekv32", "deepseekv4"};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		char name[200], other[1024];
		snprintf(name, sizeof name, "tests/golden/models/%s", others[i]);
		snprintf(other, sizeof other, "%s", tap_src(name));
		read_texts(other);
		for (size_t j = 0; j < ARRAY_LEN(sets); j++) {
			if (!has_set(sets[j]) || (is_short() && j != 1 + i % 4))
				continue;
			test_reference(other, sets[j], false);
			test_batches(other, sets[j]);
		}
		test_fork(other);
		if (i < 6) /* with a state instead of a cache, or beside it */
			test_long(other);
	}
	/* Where the matrix of its indexer is two. */
	char file[1024];
	snprintf(file, sizeof file, "%s", tap_src("tests/golden/formats/qwen4exp.gguf"));
	read_texts(tap_src("tests/golden/models/qwen4exp"));
	test_batches(file, "exact");
	test_fork(file);
	test_families();
	test_rounded();
	test_load_watch(dir);
	test_router_watch(tap_src("tests/golden/models/gemma4moe"));
	test_refusals(dir);
	return tap_done();
}
