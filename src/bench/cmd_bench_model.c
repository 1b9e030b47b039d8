/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the speed of the engine alone. --depth random tokens are in the KV cache before the
 * clock starts. With --depth-copies most of them are copies of the first ones, because the time
 * of a step does not depend on the values. Prefill: a prompt of random tokens after them, up to
 * its last logits. Decode: tokens one by one after them. Each is the most likely token after
 * the last, so that the same experts are used as for a text. Ends of text are ignored. With
 * --batch, a step decodes that many sequences.
 *
 * With --feed, the tokens of a file are decoded one by one, even if others are more likely.
 *
 * With --widths, steps of one sequence that verify drafts are measured. With --profile,
 * another prompt and some more tokens are measured by stage.
 *
 * A first run warms caches up and is not counted; a long depth that is computed makes it
 * unnecessary. The other runs give medians. On a GPU the last step is also repeated by itself:
 * the difference of both times is what the host adds to each token.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/bench_experts.h"
#include "bench/bench_feed.h"
#include "bench/bench_profile.h"
#include "bench/bench_widths.h"
#include "ctl/command.h"
#include "bench/hip_time.h"
#include "ctl/input.h"
#include "ctl/progress.h"
#include "ctl/samples.h"
#include "ctl/session.h"

#define MAX_PROMPTS 16
#define MAX_BATCH 64
#define WIDTH_ROUNDS 8 /* steps of each width, times --repeat */
#define LONG_DEPTH 512

struct bench_model_args {
	struct session_opts session;
	const char *prompts, *widths, *feed;
	int64_t n_decode, depth, repeat, batch;
	bool json, profile, layers, copies_depth;
	int64_t prompt[MAX_PROMPTS];
	int n_prompts;
};

struct result {
	double prefill[MAX_PROMPTS]; /* tokens per second */
	double decode;               /* tokens per second; NAN: not measured */
	double gpu_us;               /* time of a decode step on the GPU alone; 0: not known */
	struct bench_widths widths;
	struct bench_profile_args profile_args;
	struct bench_profile profile;
	struct bench_experts experts;
	struct bench_feed feed;
};

static double seconds_since(int64_t begin_us)
{
	return (double)(clock_now_us(&clock_monotonic) - begin_us) * 1e-6;
}

/* Prefills n tokens after `depth` others. Tokens per second, or a negative number if it failed. */
static double prefill_once(struct session *s, const int32_t *ids, int depth, int n)
{
	struct engine_seq *seq = session_start(s, depth + n);
	if (!seq)
		return -1;
	bool good = !depth || session_fill(s, seq, ids, depth);
	int64_t begin = clock_now_us(&clock_monotonic);
	good = good && session_feed(s, seq, ids + depth, n, NULL, NULL);
	double rate = n / seconds_since(begin);
	engine_seq_destroy(s->engine, seq);
	return good ? rate : -1;
}

/* Runs a step of the batch. id: the tokens to feed, then the most likely token after each. */
static bool step_batch(struct session *s, struct engine_seq *const *seq, int n_seqs,
		       int32_t *id)
{
	struct engine_slice slice[MAX_BATCH];
	struct fail fail = {0};
	for (int i = 0; i < n_seqs; i++)
		slice[i] = (struct engine_slice){.seq = seq[i], .tokens = &id[i], .n = 1,
						 .n_logits = 1};
	if (engine_step(s->engine, slice, n_seqs, &fail) != OK) {
		fprintf(stderr, "haloctl: %s\n", fail.text);
		return false;
	}
	for (int i = 0; i < n_seqs; i++) {
		id[i] = session_best_of(s, i);
		if (id[i] < 0)
			return false;
	}
	return true;
}

/* Feeds each sequence `before` ids of its own. id: the most likely token after them. */
static bool start_batch(struct session *s, const int32_t *ids, int before, int n,
			struct engine_seq **seq, int n_seqs, int32_t *id)
{
	bool good = true;
	for (int i = 0; i < n_seqs && good; i++) {
		seq[i] = session_start(s, before + n);
		good = seq[i] && session_fill(s, seq[i], ids + i * before, before);
		id[i] = good ? session_best(s) : -1;
		good = good && id[i] >= 0;
	}
	return good;
}

static double decode_once(struct session *s, const int32_t *ids, int depth, int n,
			  int n_seqs)
{
	int before = MAX(depth, 1); /* the first token needs a token before it */
	struct engine_seq *seq[MAX_BATCH] = {NULL};
	int32_t id[MAX_BATCH];
	bool good = start_batch(s, ids, before, n, seq, n_seqs, id);
	int64_t begin = clock_now_us(&clock_monotonic);
	for (int i = 0; good && i < n; i++) {
		if (n_seqs > 1) {
			good = step_batch(s, seq, n_seqs, id);
			continue;
		}
		good = session_feed(s, seq[0], id, 1, NULL, NULL);
		id[0] = good ? session_best(s) : -1;
		good = good && id[0] >= 0;
	}
	double rate = n * n_seqs / seconds_since(begin);
	for (int i = 0; i < n_seqs; i++)
		if (seq[i])
			engine_seq_destroy(s->engine, seq[i]);
	return good ? rate : -1;
}

/* Number of the first run. Run 0 warms caches up and is not counted. A long depth that is
 * computed warms them up too, so run 0 is skipped. */
static int first_run(const struct bench_model_args *a)
{
	return a->depth >= LONG_DEPTH && !a->copies_depth;
}

/* Tokens per second of n tokens: the median of a->repeat runs. */
static double median_of(struct session *s, const int32_t *ids, int n, bool is_prefill,
			const struct bench_model_args *a)
{
	struct samples rates = {0};
	double rate = 0;
	int depth = (int)a->depth;
	int i = first_run(a);
	char what[80];
	snprintf(what, sizeof what, "%s of %d tokens", is_prefill ? "prefill" : "decode", n);
	for (; i <= a->repeat && rate >= 0; i++) {
		progress_show(what, i, a->repeat + 1);
		rate = is_prefill ? prefill_once(s, ids, depth, n)
				  : decode_once(s, ids, depth, n, (int)a->batch);
		if (i > 0) /* run 0 only warms caches up */
			samples_add(&rates, rate);
	}
	progress_end();
	double median = rate < 0 ? rate : samples_quantile(&rates, 0.5);
	samples_deinit(&rates);
	return median;
}

/* Times the step that was replayed last, by repeating it; the contents of its sequence are
 * lost. *out_us is 0 if the backend does not replay steps. False: the device failed, and the
 * reason was printed. */
static bool time_gpu(struct session *s, double steps_per_s, double *out_us)
{
	enum { MOST = 8, SAMPLES = 5 };
	struct fail fail = {0};
	/* With a simulated GPU steps are slow: repeat for about a twentieth of a second. */
	int n_runs = (int)fmin(MOST, 1 + steps_per_s / 20);
	*out_us = 0;
	if (s->backend->n_replays == 0)
		return true;
	if (hip_time_step(hip_of(s->backend), n_runs, SAMPLES, out_us, &fail) == OK)
		return true;
	fprintf(stderr, "haloctl: %s\n", fail.text);
	return false;
}

static bool measure_case(struct session *s, const struct bench_model_args *a, int n_ids,
			 struct result *out)
{
	int n_all = (int)MAX(n_ids, a->batch * MAX(a->depth, 1));
	int32_t *ids = xmalloc((size_t)n_all * sizeof *ids);
	input_random_ids(0, engine_n_vocab(s->engine), ids, n_all);
	bool good = true;
	for (int i = 0; i < a->n_prompts && good; i++) {
		out->prefill[i] = median_of(s, ids, (int)a->prompt[i], true, a);
		good = out->prefill[i] >= 0;
	}
	if (good && a->n_decode) {
		int64_t n_runs = a->repeat + 1 - first_run(a);
		bench_experts_begin(&out->experts);
		out->decode = median_of(s, ids, (int)a->n_decode, false, a);
		bench_experts_end(&out->experts, (double)(a->n_decode * a->batch * n_runs));
		good = out->decode >= 0 &&
		       time_gpu(s, out->decode / (double)a->batch, &out->gpu_us);
	}
	good = good && (!out->feed.n_lines || bench_feed_run(s, &out->feed));
	out->profile_args = (struct bench_profile_args){
		.ids = ids, .depth = (int)a->depth, .decode = (int)a->n_decode,
		.prompt = a->n_prompts ? (int)a->prompt[a->n_prompts - 1] : 0,
		.n_threads = (int)a->session.threads, .per_layer = a->layers};
	if (good && out->widths.n)
		good = bench_widths_run(s, ids, (int)a->depth, WIDTH_ROUNDS * (int)a->repeat,
					&out->widths);
	if (good && a->profile)
		good = bench_profile_run(s, &out->profile_args, &out->profile);
	free(ids);
	return good;
}

static int64_t rss_bytes(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (int64_t)u.ru_maxrss * 1024;
}

static void print_json(const struct session *s, const struct bench_model_args *a,
		       const struct result *r)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"model\":");
	buf_add_json(&b, str_of(a->session.dir));
	buf_add_z(&b, ",\"backend\":");
	buf_add_json(&b, str_of(s->backend->name));
	buf_add_z(&b, ",\"device\":");
	buf_add_json(&b, str_of(s->backend->device));
	buf_add_z(&b, ",\"prefill\":{");
	for (int i = 0; i < a->n_prompts; i++) {
		buf_addf(&b, "%s\"%lld\":", i ? "," : "", (long long)a->prompt[i]);
		buf_add_json_num(&b, r->prefill[i]);
	}
	buf_add_c(&b, '}');
	if (a->n_decode) {
		buf_addf(&b, ",\"decode_tokens\":%lld,\"depth\":%lld,\"batch\":%lld,"
			 "\"decode_tps\":", (long long)a->n_decode,
			 (long long)a->depth, (long long)a->batch);
		buf_add_json_num(&b, r->decode);
		buf_add_z(&b, ",\"tpot_ms\":");
		buf_add_json_num(&b, 1e3 * (double)a->batch / r->decode);
		if (r->gpu_us > 0) {
			buf_add_z(&b, ",\"step_gpu_ms\":");
			buf_add_json_num(&b, r->gpu_us * 1e-3);
		}
		if (s->backend->n_step_launches)
			buf_addf(&b, ",\"launches_per_step\":%d,\"graph_captures\":%llu,"
				 "\"graph_replays\":%llu", s->backend->n_step_launches,
				 (unsigned long long)s->backend->n_captures,
				 (unsigned long long)s->backend->n_replays);
	}
	bench_experts_json(&r->experts, &b);
	bench_feed_json(&r->feed, &b);
	buf_addf(&b, ",\"repeat\":%lld,\"threads\":%lld,\"load_s\":",
		 (long long)a->repeat, (long long)a->session.threads);
	buf_add_json_num(&b, s->load_s);
	buf_addf(&b, ",\"rss_bytes\":%lld", (long long)rss_bytes());
	if (r->widths.n) {
		buf_add_z(&b, ",\"widths_ms\":");
		bench_widths_json(&r->widths, &b);
	}
	if (a->profile) {
		buf_add_z(&b, ",\"profile\":");
		bench_profile_json(&r->profile, &r->profile_args, &b);
	}
	buf_add_z(&b, "}\n");
	fwrite(b.p, 1, b.n, stdout);
	buf_deinit(&b);
}

static void print_text(const struct session *s, const struct bench_model_args *a,
		       const struct result *r)
{
	printf("%s on %s (%s)\n", a->session.dir, s->backend->name,
	       s->backend->device);
	printf("load          %10.3f s\n", s->load_s);
	for (int i = 0; i < a->n_prompts; i++)
		printf("prefill %5lld %10.1f tokens/s  at depth %lld\n",
		       (long long)a->prompt[i], r->prefill[i], (long long)a->depth);
	if (a->n_decode)
		printf("decode  %5lld %10.1f tokens/s  %.3f ms a step of %lld, at depth "
		       "%lld\n", (long long)a->n_decode, r->decode,
		       1e3 * (double)a->batch / r->decode, (long long)a->batch,
		       (long long)a->depth);
	if (r->gpu_us > 0)
		printf("GPU           %10.3f ms a step by itself, so the host adds %.3f ms\n",
		       r->gpu_us * 1e-3,
		       1e3 * (double)a->batch / r->decode - r->gpu_us * 1e-3);
	if (a->n_decode && s->backend->n_step_launches)
		printf("launches      %10d a step of %d layers; %llu steps replayed\n",
		       s->backend->n_step_launches, s->model->config.n_layers,
		       (unsigned long long)s->backend->n_replays);
	bench_widths_print(&r->widths);
	bench_experts_print(&r->experts);
	bench_feed_print(&r->feed);
	printf("memory        %10.1f MiB resident at most\n",
	       (double)rss_bytes() / (1 << 20));
	if (a->profile)
		bench_profile_print(&r->profile, &r->profile_args);
}

static int cmd_bench_model_run(const struct option_set *set, const struct bench_model_args *a)
{
	int64_t n_ids = MAX(a->depth, 1) + a->n_decode;
	for (int i = 0; i < a->n_prompts; i++)
		n_ids = MAX(n_ids, a->depth + a->prompt[i]);
	struct session s = {.copies_depth = a->copies_depth};
	struct result r = {.decode = 0};
	int rc = EXIT_FAILED;
	if (*a->widths)
		r.widths.n = options_list(a->widths, r.widths.width, BENCH_WIDTHS);
	for (int i = 0; i < r.widths.n; i++)
		n_ids = MAX(n_ids, MAX(a->depth, 1) + r.widths.width[i] +
			    (1 + WIDTH_ROUNDS * a->repeat) * r.widths.n);
	if (*a->widths && !r.widths.n)
		return options_fault(set, "--widths: \"%s\" is not a list of numbers of "
				     "tokens", a->widths);
	bool can_feed = !*a->feed || bench_feed_read(a->feed, &r.feed);
	n_ids = MAX(n_ids, r.feed.longest);
	if (!can_feed || !session_open(&a->session, (int)n_ids, &s))
		rc = EXIT_USAGE;
	else if (n_ids > engine_n_ctx(s.engine))
		rc = options_fault(set, "%lld tokens are more than the model's %d",
				   (long long)n_ids, engine_n_ctx(s.engine));
	else if (measure_case(&s, a, (int)n_ids, &r)) {
		(a->json ? print_json : print_text)(&s, a, &r);
		rc = EXIT_OK;
	}
	bench_profile_deinit(&r.profile);
	bench_feed_deinit(&r.feed);
	session_close(&s);
	return rc;
}

int cmd_bench_model(int argc, char **argv)
{
	struct bench_model_args a = {.session = SESSION_DEFAULTS, .prompts = "128,512",
			 .widths = "", .feed = "", .n_decode = 128, .repeat = 3, .batch = 1};
	const struct option_row rows[] = {
		SESSION_OPTIONS(a.session),
		{"prompt", 'p', OPTION_TEXT, &a.prompts, 0, 0, "N,N",
		 "lengths of prompts to prefill (128,512)"},
		{"decode", 'n', OPTION_INT, &a.n_decode, 0, 1 << 20, "N",
		 "tokens to decode (128)"},
		{"depth", 'd', OPTION_INT, &a.depth, 0, 1 << 26, "N",
		 "tokens in the cache before each prompt and before decoding (0)"},
		{"depth-copies", 0, OPTION_FLAG, &a.copies_depth, 0, 0, NULL,
		 "of a long --depth compute 2048 tokens, and copy their keys and values"},
		{"batch", 'b', OPTION_INT, &a.batch, 1, MAX_BATCH, "B",
		 "sequences to decode at the same time, each of N tokens (1)"},
		{"repeat", 'r', OPTION_INT, &a.repeat, 1, 1000, "R",
		 "runs, of which the median counts (3)"},
		{"widths", 'w', OPTION_TEXT, &a.widths, 0, 0, "N,N",
		 "also steps of N tokens of one sequence, all but one of them draft tokens"},
		{"feed", 'f', OPTION_TEXT, &a.feed, 0, 0, "FILE",
		 "also decode given tokens: lines of ids, of which the first warms up"},
		{"profile", 0, OPTION_FLAG, &a.profile, 0, 0, NULL,
		 "also a table of time and bytes by stage: the last --prompt, and a token"},
		{"layers", 0, OPTION_FLAG, &a.layers, 0, 0, NULL,
		 "the table of --profile for each layer, too"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"bench model",
				 "Prefill and decode speed of a model.", rows,
				 ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir)
		return options_fault(&set, "--model is needed");
	if (a.layers && !a.profile)
		return options_fault(&set, "--layers is about the table of --profile");
	if (*a.prompts)
		a.n_prompts = options_list(a.prompts, a.prompt, MAX_PROMPTS);
	if (*a.prompts && !a.n_prompts)
		return options_fault(&set, "--prompt: \"%s\" is not a list of "
				     "lengths", a.prompts);
	for (int i = 0; i < a.n_prompts; i++)
		if (a.prompt[i] > 1 << 26)
			return options_fault(&set, "--prompt: %lld is too long",
					     (long long)a.prompt[i]);
	a.session.n_seqs = (int)a.batch;
	return cmd_bench_model_run(&set, &a);
}
