/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that this backend computes the same as the reference.
 *
 * Each case follows the reference's own ids, whatever halod would have chosen. So one
 * early difference does not spoil the rest. The prompt runs as prefill, in the steps
 * the engine likes. The continuation runs token by token as decode, which is other code
 * on most backends. At every position halod's log-probabilities are compared with those
 * that the reference recorded.
 *
 * A different greedy choice fails only if the reference's best two logits are further
 * apart than the largest error seen. Closer together, either choice is right. Models
 * with random weights have many such near-ties, trained models hardly any.
 *
 * Experts have near-ties too, which the final logits do not show. If a router finds two
 * experts equally good, a fast path may take the other one. The logits then differ by
 * more than rounding explains. So a fast path that fails alone runs a second time,
 * beside the exact path, and takes the exact path's experts (routing.h). It passes if
 * all this holds:
 *   - the second run keeps the bounds, and its routers keep theirs;
 *   - the exact run keeps the exact bound to the reference;
 *   - the first run kept the bounds wherever no tie reached.
 * Ties are counted and listed, and must be few.
 *
 * Tokens after a tie have no bound, neither on the largest error nor on the mean. Their error
 * shows only which way the tie fell, and nothing about precision. An example is a gpt-oss of 4
 * layers and width 128 with random weights, in exact arithmetic except for activations rounded
 * to halves. Its mean error along the exact experts is 0.0061, and stays 0.0061 if the sixth
 * digit of the rounded numbers changes. With its own experts, six such changes gave 0.010,
 * 0.012, 0.021, 0.022, 0.026 and 0.041.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "check/reference.h"
#include "ctl/routing.h"
#include "ctl/session.h"
#include "ctl/verify.h"
#include "sampler/sampler.h"

struct verify_args {
	struct session_opts session;
	const char *reference;
	double max_delta, max_mean; /* NAN: the default for the backend's types */
	bool json;
	struct verify_result *result; /* receives the result; then nothing is printed. NULL:
				       * print */
};

/* A difference at `token`, which was predicted after the token before it. */
struct logit_delta {
	int i_case, token;
	double value;
};
struct deltas {
	struct logit_delta *p;
	size_t n;
};

struct tally {
	int cases, exact_cases; /* exact_cases: all greedy choices are the reference's */
	int64_t tokens;         /* positions compared */
	double sum_delta, max_delta;
	int worst_case, worst_token; /* position of max_delta */
	int64_t steps, agree;   /* greedy choices; those that equal the reference's */
	double widest_gap;      /* largest gap between the reference's best two logits where
				 * halod chose otherwise */
	int text_faults;        /* texts that tokenizer or detokenizer converts otherwise than
				 * the reference */
	struct deltas deltas;   /* differences of log-probabilities; infinite for NaN */
	struct deltas misses;   /* gaps of the reference's best two where halod chose otherwise */
};

/* One session that follows a case. */
struct lane {
	struct session *s;
	struct engine_seq *seq;
	struct tally *t;
	const struct reference_case *c;
	int32_t n_vocab;
	int i_case;
	int first; /* index in the prompt of the step's first token */
	bool is_exact;
};

static void deltas_add(struct deltas *d, int i_case, int token, double value)
{
	if ((d->n & (d->n - 1)) == 0)
		d->p = xrealloc(d->p, 2 * (d->n + 1) * sizeof *d->p);
	d->p[d->n++] = (struct logit_delta){i_case, token, value};
}

static void tally_deinit(struct tally *t)
{
	free(t->deltas.p);
	free(t->misses.p);
}

static void tally_add(struct tally *t, int i_case, int token, double delta)
{
	/* A NaN counts as the worst difference: comparisons with it would be false. */
	if (isnan(delta))
		delta = INFINITY;
	if (!(delta <= t->max_delta)) {
		t->max_delta = delta;
		t->worst_case = i_case;
		t->worst_token = token;
	}
	t->sum_delta += delta;
	deltas_add(&t->deltas, i_case, token, delta);
}

/* Counts a choice other than the reference's, whose best two logits are `gap` apart. */
static void tally_miss(struct tally *t, int i_case, int token, double gap)
{
	t->widest_gap = fmax(t->widest_gap, gap);
	deltas_add(&t->misses, i_case, token, gap);
}

static void add_delta(struct lane *r, int token, double ours, double theirs)
{
	tally_add(r->t, r->i_case, token, fabs(ours - theirs));
}

/* logits follow ids[i], so they predict ids[i + 1]. */
static void on_prompt_logits(void *ctx, int i_step, const float *logits)
{
	struct lane *r = ctx;
	const struct reference_case *c = r->c;
	int i = r->first + i_step;
	if (!c->logprobs || i + 1 >= c->n_prompt)
		return;
	add_delta(r, i + 1, sampler_logprob(logits, r->n_vocab, c->ids[i + 1]),
		  c->logprobs[i]);
	r->t->tokens++;
}

static void compare_step(struct lane *r, int i, const float *logits)
{
	const struct reference_step *s = &r->c->steps[i];
	for (int j = 0; j < s->n_top; j++)
		add_delta(r, r->c->n_prompt + i,
			  sampler_logprob(logits, r->n_vocab, s->id[j]),
			  s->logprob[j]);
	r->t->tokens++;
	r->t->steps++;
	if (session_argmax(logits, r->n_vocab) == r->c->ids[r->c->n_prompt + i]) {
		r->t->agree++;
		return;
	}
	r->is_exact = false;
	tally_miss(r->t, r->i_case, r->c->n_prompt + i,
		   s->n_top > 1 ? s->logprob[0] - s->logprob[1] : 0);
}

/* Compares the step's logits with the reference, and checks the device's own choice against
 * them. */
static bool compare_best(struct lane *l, int i)
{
	const float *logits = session_logits(l->s);
	if (!logits)
		return false;
	compare_step(l, i, logits);
	if (session_best(l->s) == session_argmax(logits, l->n_vocab))
		return true;
	fputs("haloctl: the device's best token is not the best of its logits\n", stderr);
	return false;
}

/* The sessions that run: the session alone, or the exact one and the session side by side. */
struct lanes {
	struct lane lanes[2];
	int n;
	struct routing *routing; /* used if n is 2 */
};

/* Feeds the same tokens to each lane, step by step, and compares the logits. */
static bool cmd_verify_feed(struct lanes *w, int at, int n, bool is_prompt)
{
	const struct reference_case *c = w->lanes[0].c;
	int most = engine_max_batch_tok(w->lanes[0].s->engine);
	bool good = true;
	for (int end = at + n; at < end && good; at += most) {
		int count = MIN(most, end - at);
		if (w->routing)
			w->routing->i_token = at;
		for (int i = 0; i < w->n && good; i++) {
			struct lane *l = &w->lanes[i];
			l->first = at;
			good = session_feed(l->s, l->seq, c->ids + at, count,
					    is_prompt ? on_prompt_logits : NULL, l);
			if (good && !is_prompt)
				good = compare_best(l, at + 1 - c->n_prompt);
		}
	}
	return good;
}

static bool run_case(struct lanes *w, const struct reference_case *c, int i_case)
{
	bool good = true;
	for (int i = 0; i < w->n; i++) {
		struct lane *l = &w->lanes[i];
		l->c = c;
		l->i_case = i_case;
		l->is_exact = true;
		l->n_vocab = engine_n_vocab(l->s->engine);
		l->seq = session_start(l->s, c->n_prompt + c->n_next);
		good = good && l->seq;
	}
	if (w->routing)
		w->routing->i_case = i_case;
	good = good && cmd_verify_feed(w, 0, c->n_prompt - 1, true);
	/* Feed the last token of the prompt alone: its logits are those of the first decode
	 * step. */
	for (int i = 0; good && i < c->n_next; i++)
		good = cmd_verify_feed(w, c->n_prompt - 1 + i, 1, false);
	for (int i = 0; i < w->n; i++) {
		struct lane *l = &w->lanes[i];
		engine_seq_destroy(l->s->engine, l->seq);
		l->t->cases++;
		l->t->exact_cases += l->is_exact;
	}
	return good;
}

/* Counts texts that are not converted to the case's ids, or back, if the case has texts. */
static int text_faults(const struct tokenizer *t, const struct reference_case *c)
{
	int faults = 0;
	if (c->prompt) {
		struct ids ids = {0};
		enum status st = tokenizer_encode(t, str_of(c->prompt),
						  TRUST_TEMPLATE, &ids, NULL);
		faults += st != OK || ids.n != (size_t)c->n_prompt ||
			  memcmp(ids.p, c->ids, ids.n * sizeof *ids.p) != 0;
		ids_deinit(&ids);
	}
	if (c->text) {
		struct buf text = {0};
		tokenizer_decode(t, c->ids + c->n_prompt, (size_t)c->n_next, false,
				 &text);
		faults += !str_is(buf_str(&text), c->text);
		buf_deinit(&text);
	}
	return faults;
}

static double mean_delta(const struct tally *t)
{
	return t->deltas.n ? t->sum_delta / (double)t->deltas.n : 0;
}

static int compare_deltas(const void *a, const void *b)
{
	const struct logit_delta *x = a, *y = b;
	return (x->value > y->value) - (x->value < y->value);
}

/* The median difference. A model with experts has a few large ones after routers' near-ties,
 * and the mean would show only those. */
static double median_delta(const struct tally *t)
{
	size_t n = t->deltas.n;
	if (!n)
		return 0;
	struct logit_delta *sorted = xcalloc(n, sizeof *sorted);
	memcpy(sorted, t->deltas.p, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, compare_deltas);
	double median = sorted[n / 2].value;
	free(sorted);
	return median;
}

/* A choice other than the reference's is excused if the errors explain it. The logits of the
 * reference's best two may be wrong in opposite directions, so they may be twice the largest
 * error apart. */
static bool is_within(const struct tally *t, double max_delta, double max_mean)
{
	return t->tokens > 0 && t->max_delta <= max_delta && mean_delta(t) <= max_mean &&
	       !t->text_faults && (t->agree == t->steps || t->widest_gap <= 2 * t->max_delta);
}

/* The results of all runs. */
struct outcome {
	const struct verify_args *a;
	struct tally t;          /* the session alone */
	bool has_routing;        /* the session alone failed, and the following were run: */
	struct tally exact, along; /* the exact session, and the session with the exact one's
				    * experts */
	struct tally untied;       /* t without the tokens after a tie */
	struct routing routing;
};

enum { TIES_LISTED = 16 };

#define EXACT_DELTA 0.02

static bool is_pass(const struct outcome *o)
{
	double max_delta = o->a->max_delta, max_mean = o->a->max_mean;
	if (is_within(&o->t, max_delta, max_mean))
		return true;
	return o->has_routing && !o->t.text_faults &&
	       is_within(&o->untied, max_delta, max_mean) &&
	       is_within(&o->exact, EXACT_DELTA, EXACT_DELTA) &&
	       is_within(&o->along, max_delta, max_mean) &&
	       routing_is_pass(&o->routing, max_delta, max_mean);
}

static void print_routing(const struct outcome *o)
{
	const struct routing *r = &o->routing;
	printf("beside the exact path, along its experts:\n"
	       "  exact            max |delta logp| %.6f (tolerance %g)\n"
	       "  this backend     max |delta logp| %.6f, mean %.6f\n"
	       "  alone, no tie    max |delta logp| %.6f, mean %.6f (%lld of %lld)\n"
	       "  routers          max |delta logp| %.6f, mean %.6f\n"
	       "  ties             %lld of %lld choices (at most %g %%), widest %.6f\n",
	       o->exact.max_delta, EXACT_DELTA, o->along.max_delta,
	       mean_delta(&o->along), o->untied.max_delta, mean_delta(&o->untied),
	       (long long)o->untied.deltas.n, (long long)o->t.deltas.n, r->max_delta,
	       routing_mean(r),
	       (long long)r->n_ties, (long long)r->n_choices, 100 * ROUTING_MAX_SHARE,
	       r->widest);
	for (int i = 0; i < MIN(r->n_ties, TIES_LISTED); i++) {
		const struct routing_tie *e = &r->ties[i];
		printf("    case %d, token %d, layer %d: expert %d for %d, %.6f apart\n",
		       e->i_case, e->i_token, e->i_layer, e->taken, e->left, e->margin);
	}
	if (r->n_ties > TIES_LISTED)
		printf("    and %lld more\n", (long long)r->n_ties - TIES_LISTED);
	if (r->n_faults)
		printf("  wrong choices    %lld: not what the routers' logits say\n",
		       (long long)r->n_faults);
}

static void print_text(const struct session *s, const struct outcome *o)
{
	const struct tally *t = &o->t;
	printf("backend            %s (%s)\n", s->backend->name, s->backend->device);
	printf("cases              %d\n", t->cases);
	printf("tokens             %lld\n", (long long)t->tokens);
	printf("max |delta logp|   %.6f  (case %d, token %d; tolerance %g)\n",
	       t->max_delta, t->worst_case, t->worst_token, o->a->max_delta);
	printf("mean |delta logp|  %.6f  (tolerance %g)\n", mean_delta(t),
	       o->a->max_mean);
	printf("median             %.6f\n", median_delta(t));
	printf("top-1 agreement    %.2f %%  (%lld of %lld)\n",
	       t->steps ? 100.0 * (double)t->agree / (double)t->steps : 100.0,
	       (long long)t->agree, (long long)t->steps);
	printf("greedy match       %d of %d cases\n", t->exact_cases, t->cases);
	if (t->agree < t->steps)
		printf("widest gap missed  %.6f\n", t->widest_gap);
	if (t->text_faults)
		printf("tokenizer          %d texts differ\n", t->text_faults);
	if (o->has_routing)
		print_routing(o);
	printf("%s\n", is_pass(o) ? "PASS" : "FAIL");
}

static void add_number(struct buf *b, const char *key, double v)
{
	buf_addf(b, ",\"%s\":", key);
	buf_add_json_num(b, v);
}

static void add_routing(struct buf *b, const struct outcome *o)
{
	const struct routing *r = &o->routing;
	buf_addf(b, ",\"routing\":{\"choices\":%lld,\"wrong_choices\":%lld,\"ties\":%lld",
		 (long long)r->n_choices, (long long)r->n_faults, (long long)r->n_ties);
	add_number(b, "widest_tie", r->widest);
	add_number(b, "max_delta", r->max_delta);
	add_number(b, "mean_delta", routing_mean(r));
	add_number(b, "exact_max_delta", o->exact.max_delta);
	add_number(b, "along_max_delta", o->along.max_delta);
	add_number(b, "along_mean_delta", mean_delta(&o->along));
	buf_addf(b, ",\"untied_share\":%.6f",
		 (double)o->untied.deltas.n / (double)o->t.deltas.n);
	add_number(b, "untied_max_delta", o->untied.max_delta);
	add_number(b, "untied_mean_delta", mean_delta(&o->untied));
	buf_add_z(b, ",\"list\":[");
	for (int i = 0; i < MIN(r->n_ties, TIES_LISTED); i++) {
		const struct routing_tie *e = &r->ties[i];
		buf_addf(b, "%s{\"case\":%d,\"token\":%d,\"layer\":%d,\"left\":%d,"
			 "\"taken\":%d", i ? "," : "", e->i_case, e->i_token, e->i_layer,
			 e->left, e->taken);
		add_number(b, "margin", e->margin);
		buf_add_z(b, "}");
	}
	buf_add_z(b, "]}");
}

static void print_json(const struct session *s, const struct outcome *o)
{
	const struct tally *t = &o->t;
	struct buf b = {0};
	buf_add_z(&b, "{\"backend\":");
	buf_add_json(&b, str_of(s->backend->name));
	buf_addf(&b, ",\"cases\":%d,\"tokens\":%lld", t->cases,
		 (long long)t->tokens);
	add_number(&b, "max_delta", t->max_delta);
	add_number(&b, "mean_delta", mean_delta(t));
	add_number(&b, "median_delta", median_delta(t));
	add_number(&b, "tolerance", o->a->max_delta);
	add_number(&b, "mean_tolerance", o->a->max_mean);
	buf_addf(&b, ",\"worst_case\":%d,\"worst_token\":%d,\"steps\":%lld,"
		 "\"top1_agree\":%lld,\"greedy_cases\":%d", t->worst_case,
		 t->worst_token, (long long)t->steps, (long long)t->agree,
		 t->exact_cases);
	add_number(&b, "widest_gap_missed", t->widest_gap);
	if (o->has_routing)
		add_routing(&b, o);
	buf_addf(&b, ",\"text_faults\":%d,\"pass\":%s}\n", t->text_faults,
		 is_pass(o) ? "true" : "false");
	fwrite(b.p, 1, b.n, stdout);
	buf_deinit(&b);
}

/* True if the larger bound applies: with activations in float16 each layer rounds them, and the
 * CPU's fast path rounds the inputs of its products. Nothing else may differ. */
static bool is_rough(const struct session *s, const struct verify_args *a)
{
	return s->backend->act_type != DTYPE_F32 || !a->session.exact;
}

/* The CPU's fast path rounds activations to 8 bits, and a trained model makes more of that than
 * the tests' tiny ones. Where the reference knows how far its own such path is in the model's
 * format, this one may be a quarter further on average. The largest of some hundred differences
 * scatters more, so it may be twice as large. */
static void set_tolerance(const struct session *s, const struct reference *ref,
			  struct verify_args *a)
{
	bool bytes = s->backend->act_type == DTYPE_F32 && !a->session.exact;
	double max = bytes ? 2 * ref->peer_max : 0, mean = bytes ? 1.25 * ref->peer_mean : 0;
	if (isnan(a->max_mean)) /* if only --max-delta was given, it bounds the mean too */
		a->max_mean = isnan(a->max_delta) ? fmax(0.02, mean) : a->max_delta;
	if (isnan(a->max_delta))
		a->max_delta = is_rough(s, a) ? fmax(0.15, max) : EXACT_DELTA;
}

static bool run_cases(struct lanes *w, const struct reference *ref)
{
	bool good = true;
	for (int i = 0; i < ref->n_cases && good; i++)
		good = run_case(w, &ref->cases[i], i);
	return good;
}

/* Copies from the first run what no tie affects. */
static void leave_out_ties(struct outcome *o)
{
	for (size_t i = 0; i < o->t.deltas.n; i++) {
		const struct logit_delta *d = &o->t.deltas.p[i];
		if (!routing_is_behind_tie(&o->routing, d->i_case, d->token - 1))
			tally_add(&o->untied, d->i_case, d->token, d->value);
	}
	for (size_t i = 0; i < o->t.misses.n; i++) {
		const struct logit_delta *d = &o->t.misses.p[i];
		if (routing_is_behind_tie(&o->routing, d->i_case, d->token - 1))
			continue;
		tally_miss(&o->untied, d->i_case, d->token, d->value);
		o->untied.steps++;
	}
	o->untied.tokens = (int64_t)o->untied.deltas.n;
}

/* The second run: the exact CPU and s side by side, both with the experts of the exact one. */
static bool run_routed(struct session *s, const struct reference *ref, struct outcome *o)
{
	struct session_opts so = o->a->session;
	struct session exact = {.model = s->model};
	struct lanes w = {.lanes = {{.s = &exact, .t = &o->exact}, {.s = s, .t = &o->along}},
			.n = 2, .routing = &o->routing};
	so.backend = "cpu";
	so.exact = true;
	so.expert_memory = NULL;
	routing_init(&o->routing, s->model->config.n_layers);
	o->has_routing = true;
	bool good = session_open_engine(&so, ref->max_tok, &exact);
	if (good) {
		engine_watch_routers(exact.engine, routing_keep, &o->routing);
		engine_watch_routers(s->engine, routing_compare, &o->routing);
		good = run_cases(&w, ref);
		engine_watch_routers(s->engine, NULL, NULL);
		leave_out_ties(o);
	}
	exact.model = NULL; /* s owns the model */
	session_close(&exact);
	return good;
}

static int verify(struct session *s, const struct reference *ref, struct verify_args *a)
{
	struct outcome o = {.a = a};
	struct lanes w = {.lanes = {{.s = s, .t = &o.t}}, .n = 1};
	set_tolerance(s, ref, a);
	for (int i = 0; i < ref->n_cases; i++)
		o.t.text_faults += text_faults(s->model->tokenizer, &ref->cases[i]);
	bool good = run_cases(&w, ref);
	if (good && !is_pass(&o) && s->model->config.n_experts && is_rough(s, a))
		good = run_routed(s, ref, &o);
	if (good && a->result)
		*a->result = (struct verify_result){o.t.cases, o.t.tokens, o.t.max_delta,
						    mean_delta(&o.t), a->max_delta};
	else if (good)
		(a->json ? print_json : print_text)(s, &o);
	good = good && is_pass(&o);
	tally_deinit(&o.t);
	tally_deinit(&o.exact);
	tally_deinit(&o.along);
	tally_deinit(&o.untied);
	routing_deinit(&o.routing);
	return good ? EXIT_OK : EXIT_FAILED;
}

bool verify_session(struct session *s, const struct session_opts *so,
		    const struct reference *ref, struct verify_result *out)
{
	struct verify_args a = {.session = *so, .max_delta = NAN, .max_mean = NAN,
				.result = out};
	*out = (struct verify_result){0};
	return verify(s, ref, &a) == EXIT_OK;
}

static int cmd_verify_run(const struct option_set *set, struct verify_args *a,
			  const char *path)
{
	struct session s = {0};
	struct reference ref;
	struct fail fail = {0};
	if (reference_load(path, &ref, &fail) != OK)
		return options_failure("%s", fail.text);
	int rc = EXIT_USAGE;
	if (session_open(&a->session, ref.max_tok, &s)) {
		if (ref.max_tok > engine_n_ctx(s.engine))
			options_fault(set, "%s: a case of %d tokens is longer than "
				      "the model's context of %d", path, ref.max_tok,
				      engine_n_ctx(s.engine));
		else if (ref.max_id >= engine_n_vocab(s.engine))
			options_fault(set, "%s: token %d is not one of the model's %d",
				      path, ref.max_id, engine_n_vocab(s.engine));
		else
			rc = verify(&s, &ref, a);
	}
	session_close(&s);
	reference_deinit(&ref);
	return rc;
}

int cmd_verify(int argc, char **argv)
{
	struct verify_args a = {.session = SESSION_DEFAULTS, .max_delta = NAN, .max_mean = NAN};
	const struct option_row rows[] = {
		SESSION_OPTIONS(a.session),
		{"reference", 'r', OPTION_TEXT, &a.reference, 0, 0, "FILE",
		 "what to compare with (reference.json of the model)"},
		{"max-delta", 0, OPTION_NUMBER, &a.max_delta, 0, 100, "X",
		 "largest difference of a log-probability (0.02; 0.15, or as the "
		 "reference's \"peer\" says, where activations are rounded)"},
		{"max-mean", 0, OPTION_NUMBER, &a.max_mean, 0, 100, "X",
		 "largest mean difference (0.02, or as \"peer\" says; with --max-delta: the same)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"verify",
				 "Compare a model's log-probabilities, greedy choices "
				 "and tokenizer with a reference.\nExits with 1 where "
				 "they differ by more than the tolerance.\n"
				 "verify --answers --help: ask a running server instead.", rows,
				 ARRAY_LEN(rows)};
	int rc;
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--answers") == 0)
			return cmd_verify_answers(argc, argv);
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir)
		return options_fault(&set, "--model is needed");
	char *path = a.reference ? xstrdup(a.reference)
				 : file_join(a.session.dir, "reference.json");
	rc = cmd_verify_run(&set, &a, path);
	free(path);
	return rc;
}
