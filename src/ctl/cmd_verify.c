/* SPDX-License-Identifier: Apache-2.0
 *
 * Does this backend compute what the reference computed?
 *
 * Each case is run along the reference's own ids, whatever we would have chosen, so
 * that one early difference does not spoil the rest: the prompt as prefill, in the
 * steps the engine likes, the continuation token by token as decode, because those are
 * different code on most backends. At every position the log-probabilities the
 * reference recorded are compared with ours.
 *
 * A greedy choice that differs is a failure only where the reference's best two are
 * further apart than the largest error seen: closer than that, either is right.
 * Models with random weights have many such near-ties, trained ones hardly any.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/reference.h"
#include "ctl/session.h"
#include "text/sampler.h"

struct args {
	struct session_opts session;
	const char *reference;
	double max_delta, max_mean; /* NAN: as the backend's types allow */
	bool json;
};

struct tally {
	int cases, exact_cases; /* exact: greedy as the reference, to the end */
	int64_t tokens;         /* positions compared */
	int64_t n_delta;
	double sum_delta, max_delta;
	int worst_case, worst_token; /* where max_delta is */
	int64_t steps, agree;   /* greedy choices; those that agree */
	double widest_gap;      /* of the reference's best two where we differ */
	int text_faults;        /* tokenizer or detokenizer differs */
};

/* One case while it runs. */
struct run {
	struct tally *t;
	const struct reference_case *c;
	int32_t n_vocab;
	int i_case;
	bool is_exact;
};

static void add_delta(struct run *r, int token, double ours, double theirs)
{
	double delta = fabs(ours - theirs);
	/* A NaN is the worst there is, and must not hide behind a comparison. */
	if (!(delta <= r->t->max_delta)) {
		r->t->max_delta = isnan(delta) ? INFINITY : delta;
		r->t->worst_case = r->i_case;
		r->t->worst_token = token;
	}
	r->t->sum_delta += delta;
	r->t->n_delta++;
}

/* logits are behind ids[i] and foretell ids[i + 1]. */
static void on_prompt_logits(void *ctx, int i, const float *logits)
{
	struct run *r = ctx;
	const struct reference_case *c = r->c;
	if (!c->logprobs || i + 1 >= c->n_prompt)
		return;
	add_delta(r, i + 1, sampler_logprob(logits, r->n_vocab, c->ids[i + 1]),
		  c->logprobs[i]);
	r->t->tokens++;
}

static void compare_step(struct run *r, int i, const float *logits)
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
	if (s->n_top > 1)
		r->t->widest_gap = fmax(r->t->widest_gap,
					s->logprob[0] - s->logprob[1]);
}

static bool run_case(struct session *s, struct run *r)
{
	const struct reference_case *c = r->c;
	struct engine_seq *seq = session_start(s, c->n_prompt + c->n_next);
	if (!seq)
		return false;
	bool good = session_feed(s, seq, c->ids, c->n_prompt - 1, on_prompt_logits,
				 r);
	/* The last token of the prompt alone: its logits are the first step's. */
	for (int i = 0; good && i < c->n_next; i++) {
		good = session_feed(s, seq, &c->ids[c->n_prompt - 1 + i], 1, NULL,
				    NULL);
		const float *logits = good ? session_logits(s) : NULL;
		good = logits != NULL;
		/* What the device says of its logits is true of them. */
		if (good && session_best(s) != session_argmax(logits, r->n_vocab)) {
			fputs("haloctl: logits_top has another best than the logits\n",
			      stderr);
			good = false;
		}
		if (good)
			compare_step(r, i, logits);
	}
	engine_seq_destroy(s->engine, seq);
	r->t->cases++;
	r->t->exact_cases += r->is_exact;
	return good;
}

/* Text to ids and back, where the case gives texts. */
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
	return t->n_delta ? t->sum_delta / (double)t->n_delta : 0;
}

static bool is_pass(const struct tally *t, const struct args *a)
{
	return t->tokens > 0 && t->max_delta <= a->max_delta &&
	       mean_delta(t) <= a->max_mean && !t->text_faults &&
	       (t->agree == t->steps || t->widest_gap <= t->max_delta);
}

static void print_text(const struct session *s, const struct tally *t,
		       const struct args *a)
{
	printf("backend            %s (%s)\n", s->backend->name, s->backend->device);
	printf("cases              %d\n", t->cases);
	printf("tokens             %lld\n", (long long)t->tokens);
	printf("max |delta logp|   %.6f  (case %d, token %d; tolerance %g)\n",
	       t->max_delta, t->worst_case, t->worst_token, a->max_delta);
	printf("mean |delta logp|  %.6f  (tolerance %g)\n", mean_delta(t), a->max_mean);
	printf("top-1 agreement    %.2f %%  (%lld of %lld)\n",
	       t->steps ? 100.0 * (double)t->agree / (double)t->steps : 100.0,
	       (long long)t->agree, (long long)t->steps);
	printf("greedy match       %d of %d cases\n", t->exact_cases, t->cases);
	if (t->agree < t->steps)
		printf("widest gap missed  %.6f\n", t->widest_gap);
	if (t->text_faults)
		printf("tokenizer          %d texts differ\n", t->text_faults);
	printf("%s\n", is_pass(t, a) ? "PASS" : "FAIL");
}

static void add_number(struct buf *b, const char *key, double v)
{
	buf_addf(b, ",\"%s\":", key);
	buf_add_json_num(b, v);
}

static void print_json(const struct session *s, const struct tally *t,
		       const struct args *a)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"backend\":");
	buf_add_json(&b, str_of(s->backend->name));
	buf_addf(&b, ",\"cases\":%d,\"tokens\":%lld", t->cases,
		 (long long)t->tokens);
	add_number(&b, "max_delta", t->max_delta);
	add_number(&b, "mean_delta", mean_delta(t));
	add_number(&b, "tolerance", a->max_delta);
	add_number(&b, "mean_tolerance", a->max_mean);
	buf_addf(&b, ",\"worst_case\":%d,\"worst_token\":%d,\"steps\":%lld,"
		 "\"top1_agree\":%lld,\"greedy_cases\":%d", t->worst_case,
		 t->worst_token, (long long)t->steps, (long long)t->agree,
		 t->exact_cases);
	add_number(&b, "widest_gap_missed", t->widest_gap);
	buf_addf(&b, ",\"text_faults\":%d,\"pass\":%s}\n", t->text_faults,
		 is_pass(t, a) ? "true" : "false");
	fwrite(b.p, 1, b.n, stdout);
	buf_deinit(&b);
}

/* Where activations are halves, each layer rounds them, and so does the CPU's fast path
 * before its products; nothing else may differ. */
static void set_tolerance(const struct session *s, struct args *a)
{
	bool is_rough = s->backend->act_type != DTYPE_F32 || !a->session.exact;
	if (isnan(a->max_mean)) /* --max-delta alone is the only bound */
		a->max_mean = isnan(a->max_delta) ? 0.02 : a->max_delta;
	if (isnan(a->max_delta))
		a->max_delta = is_rough ? 0.15 : 0.02;
}

static int verify(struct session *s, const struct reference *ref, struct args *a)
{
	struct tally t = {0};
	set_tolerance(s, a);
	for (int i = 0; i < ref->n_cases; i++) {
		struct run r = {&t, &ref->cases[i], engine_n_vocab(s->engine), i,
				true};
		t.text_faults += text_faults(s->model->tokenizer, r.c);
		if (!run_case(s, &r))
			return EXIT_FAILED;
	}
	(a->json ? print_json : print_text)(s, &t, a);
	return is_pass(&t, a) ? EXIT_OK : EXIT_FAILED;
}

static int run(const struct option_set *set, struct args *a,
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
	struct args a = {.session = SESSION_DEFAULTS, .max_delta = NAN, .max_mean = NAN};
	const struct option_row rows[] = {
		SESSION_OPTIONS(a.session),
		{"reference", 'r', OPTION_TEXT, &a.reference, 0, 0, "FILE",
		 "what to compare with (reference.json of the model)"},
		{"max-delta", 0, OPTION_NUMBER, &a.max_delta, 0, 100, "X",
		 "largest difference of a log-probability (0.02; 0.15 where the "
		 "backend computes in halves)"},
		{"max-mean", 0, OPTION_NUMBER, &a.max_mean, 0, 100, "X",
		 "largest mean difference (0.02; with --max-delta: the same)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"verify",
				 "Compare a model's log-probabilities, greedy choices "
				 "and tokenizer with a reference.\nExits with 1 where "
				 "they differ by more than the tolerance.", rows,
				 ARRAY_LEN(rows)};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir)
		return options_fault(&set, "--model is needed");
	char *path = a.reference ? xstrdup(a.reference)
				 : file_join(a.session.dir, "reference.json");
	rc = run(&set, &a, path);
	free(path);
	return rc;
}
