/* SPDX-License-Identifier: Apache-2.0
 *
 * One answer, without a server. The prompt takes the same way as a client's: as a JSON body
 * through api, so that the template, the model's defaults, limits and messages are those of the
 * server. Then a plain loop: step, sample, print.
 */
#include <math.h>
#include <stdio.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/session.h"

#define NAME "model" /* the model's name in the body and for the api */
#define MAX_TEMPLATE_BYTES (1u << 20)

struct generate_args {
	struct session_opts session;
	const char *prompt, *system, *stop, *template, *kwargs;
	bool chat, raw, no_think, ignore_eos, quiet;
	int64_t n, seed, top_k;
	double temperature, top_p, min_p, repetition_penalty;
};

/* --- the request ---------------------------------------------------------- */

static void add_message(struct buf *b, const char *role, struct str text)
{
	buf_addf(b, "{\"role\":\"%s\",\"content\":", role);
	buf_add_json(b, text);
	buf_add_c(b, '}');
}

static void add_number(struct buf *b, const char *key, double v)
{
	if (isnan(v)) /* not given: the model's default */
		return;
	buf_addf(b, ",\"%s\":", key);
	buf_add_json_num(b, v);
}

static void add_sampling(struct buf *b, const struct generate_args *a)
{
	buf_addf(b, ",\"max_tokens\":%lld", (long long)a->n);
	add_number(b, "temperature", a->temperature);
	add_number(b, "top_p", a->top_p);
	add_number(b, "min_p", a->min_p);
	add_number(b, "repetition_penalty", a->repetition_penalty);
	if (a->top_k >= 0)
		buf_addf(b, ",\"top_k\":%lld", (long long)a->top_k);
	if (a->seed >= 0)
		buf_addf(b, ",\"seed\":%lld", (long long)a->seed);
	if (a->ignore_eos)
		buf_add_z(b, ",\"ignore_eos\":true");
	if (a->stop) {
		buf_add_z(b, ",\"stop\":");
		buf_add_json(b, str_of(a->stop));
	}
}

/* The prompt as it stands, control tokens included, because the user of --raw is trusted. */
static enum status add_raw_prompt(const struct model *m, struct str prompt,
				  struct buf *body, struct fail *fail)
{
	struct ids ids = {0};
	enum status st = tokenizer_encode(m->tokenizer, prompt, TRUST_TEMPLATE, &ids,
					  fail);
	buf_add_z(body, ",\"prompt\":");
	input_add_ids(body, &ids);
	ids_deinit(&ids);
	return st;
}

static void add_messages(const struct generate_args *a, struct str prompt, struct buf *body)
{
	buf_add_z(body, ",\"messages\":[");
	if (a->system) {
		add_message(body, "system", str_of(a->system));
		buf_add_c(body, ',');
	}
	add_message(body, "user", prompt);
	buf_add_c(body, ']');
	if (a->no_think)
		buf_add_z(body, ",\"enable_thinking\":false");
}

static enum status make_call(const struct model *m, const struct generate_args *a,
			     struct str prompt, struct api **api,
			     struct api_call **call, struct fail *fail)
{
	struct api_opts o = {.model = m, .model_name = NAME, .version = "haloctl",
			     .system_fingerprint = "haloctl",
			     .n_ctx = m->config.max_ctx, .clock = &clock_monotonic,
			     .chat_template_kwargs = a->kwargs};
	struct buf body = {0}, template = {0};
	buf_add_z(&body, "{\"model\":\"" NAME "\"");
	enum status st = OK;
	if (a->template) {
		st = file_read(a->template, MAX_TEMPLATE_BYTES, &template, fail);
		o.chat_template = template.p ? template.p : "";
	}
	if (st == OK && a->raw)
		st = add_raw_prompt(m, prompt, &body, fail);
	else if (st == OK)
		add_messages(a, prompt, &body);
	add_sampling(&body, a);
	buf_add_c(&body, '}');
	if (st == OK)
		st = api_create(&o, api, fail);
	if (st == OK) {
		struct api_input in = {
			.dialect = a->raw ? &dialect_completion : &dialect_chat,
			.body = buf_str(&body), .request_id = "haloctl",
			.arrival_us = clock_now_us(&clock_monotonic)};
		st = api_call_create(*api, &in, call, fail);
	}
	buf_deinit(&body);
	buf_deinit(&template);
	return st;
}

/* --- the answer ----------------------------------------------------------- */

struct output {
	struct detok detok;
	struct outparse *parse;
	struct buf text;
};

static void print_spans(const struct out_span *spans, int n)
{
	for (int i = 0; i < n; i++)
		fwrite(spans[i].text.p, 1, spans[i].text.n, stdout);
	fflush(stdout);
}

/* False: a stop string was found. */
static bool print_token(struct output *o, int32_t id)
{
	const struct out_span *spans;
	buf_clear(&o->text);
	detok_push(&o->detok, id, &o->text);
	int n = outparse_push(o->parse, buf_str(&o->text), &spans);
	print_spans(spans, n);
	return !outparse_stopped(o->parse);
}

static void print_end(struct output *o)
{
	const struct out_span *spans;
	buf_clear(&o->text);
	detok_finish(&o->detok, &o->text);
	int n = outparse_push(o->parse, buf_str(&o->text), &spans);
	print_spans(spans, n);
	n = outparse_finish(o->parse, false, &spans);
	print_spans(spans, n);
	fputc('\n', stdout);
}

static bool is_stop(const struct request *r, int32_t id)
{
	for (int i = 0; i < r->n_stop_ids; i++)
		if (r->stop_ids[i] == id)
			return true;
	return false;
}

struct timing {
	int64_t begin_us, first_us, last_us;
	int n;
};

/* Samples and prints tokens until the answer ends. The prompt has been fed already. */
static bool answer(struct session *s, struct engine_seq *seq,
		   const struct request *r, int n_max, struct output *o,
		   struct timing *t)
{
	struct sampler *sampler =
		sampler_create(&r->sampling, engine_n_vocab(s->engine));
	const struct ids *prompt = &r->prompts[0];
	sampler_add_prompt(sampler, prompt->p, prompt->n);
	bool good = true;
	while (good && t->n < n_max) {
		struct sampled token;
		const float *logits = session_logits(s);
		good = logits && sampler_next(sampler, logits, NULL, 0, &token) == OK;
		if (!good) {
			fputs("haloctl: the logits are not numbers\n", stderr);
			break;
		}
		t->last_us = clock_now_us(&clock_monotonic);
		if (t->n++ == 0)
			t->first_us = t->last_us;
		if (!r->ignore_eos && is_stop(r, token.id))
			break;
		if (!print_token(o, token.id) || t->n == n_max)
			break;
		good = session_feed(s, seq, &token.id, 1, NULL, NULL);
	}
	sampler_destroy(sampler);
	return good;
}

static void print_speed(const struct session *s, const struct timing *t,
			size_t n_prompt)
{
	double ttft = (double)(t->first_us - t->begin_us) * 1e-6;
	double rest = (double)(t->last_us - t->first_us) * 1e-6;
	fprintf(stderr, "\nload %.3f s; prompt %zu tokens, %.1f tokens/s, TTFT %.1f ms; "
		"answer %d tokens", s->load_s, n_prompt, (double)n_prompt / ttft,
		ttft * 1e3, t->n);
	if (t->n > 1)
		fprintf(stderr, ", %.1f tokens/s, TPOT %.2f ms", (t->n - 1) / rest,
			rest / (t->n - 1) * 1e3);
	fputc('\n', stderr);
}

static int generate(struct session *s, const struct generate_args *a,
		    const struct request *r)
{
	const struct ids *prompt = &r->prompts[0];
	int room = s->model->config.max_ctx - (int)prompt->n;
	int n_max = r->max_tokens ? MIN(r->max_tokens, room) : room;
	if (!session_open_engine(&a->session, (int)prompt->n + n_max, s))
		return EXIT_USAGE;
	struct timing t = {.begin_us = clock_now_us(&clock_monotonic)};
	struct engine_seq *seq = session_start(s, (int)prompt->n + n_max);
	if (!seq)
		return EXIT_FAILED;
	/* Programs need the tags of reasoning to be split off; here everything is shown. */
	struct outparse_opts parse = r->parse;
	parse.split_reasoning = parse.starts_in_reasoning = false;
	struct output o = {.parse = outparse_create(&parse)};
	(r->is_text ? detok_init_text : detok_init)(&o.detok, s->model->tokenizer, r->skip_special);
	bool good = session_feed(s, seq, prompt->p, (int)prompt->n, NULL, NULL) &&
		    answer(s, seq, r, n_max, &o, &t);
	print_end(&o);
	if (good && !a->quiet)
		print_speed(s, &t, prompt->n);
	engine_seq_destroy(s->engine, seq);
	outparse_destroy(o.parse);
	buf_deinit(&o.text);
	return good ? EXIT_OK : EXIT_FAILED;
}

static int cmd_generate_run(const struct option_set *set, const struct generate_args *a,
			    struct str prompt)
{
	struct session s = {0};
	struct api *api = NULL;
	struct api_call *call = NULL;
	struct fail fail = {0};
	int rc = EXIT_USAGE;
	if (session_open_model(&a->session, &s)) {
		enum status st = make_call(s.model, a, prompt, &api, &call, &fail);
		if (st != OK) {
			fail_default(&fail, st);
			options_failure("%s", fail.text);
		} else {
			struct request *r = api_call_request(call);
			rc = generate(&s, a, r);
			request_unref(r); /* the reference a scheduler would hold */
		}
	}
	api_call_destroy(call);
	api_destroy(api);
	session_close(&s);
	return rc;
}

int cmd_generate(int argc, char **argv)
{
	struct generate_args a = {.session = SESSION_DEFAULTS, .n = 256, .seed = -1,
			 .top_k = -1, .temperature = NAN, .top_p = NAN, .min_p = NAN,
			 .repetition_penalty = NAN};
	const struct option_row rows[] = {
		SESSION_OPTIONS(a.session),
		{"prompt", 'p', OPTION_TEXT, &a.prompt, 0, 0, "TEXT",
		 "the prompt; without it, stdin"},
		{"max-tokens", 'n', OPTION_INT, &a.n, 1, 1 << 26, "N",
		 "tokens of answer at most (256)"},
		{"chat", 0, OPTION_FLAG, &a.chat, 0, 0, NULL,
		 "put the prompt into the chat template (so it is)"},
		{"raw", 0, OPTION_FLAG, &a.raw, 0, 0, NULL,
		 "continue the prompt as it stands"},
		{"system", 0, OPTION_TEXT, &a.system, 0, 0, "TEXT",
		 "a system message"},
		{"no-think", 0, OPTION_FLAG, &a.no_think, 0, 0, NULL,
		 "enable_thinking=false for the template"},
		{"chat-template", 0, OPTION_TEXT, &a.template, 0, 0, "FILE",
		 "a chat template in place of the model's"},
		{"chat-template-kwargs", 0, OPTION_TEXT, &a.kwargs, 0, 0, "JSON",
		 "variables for the template"},
		{"temperature", 0, OPTION_NUMBER, &a.temperature, 0, 100, "X",
		 "0 is greedy (the model's)"},
		{"top-p", 0, OPTION_NUMBER, &a.top_p, 0, 1, "X", "(the model's)"},
		{"top-k", 0, OPTION_INT, &a.top_k, 0, 1 << 24, "N",
		 "0 is off (the model's)"},
		{"min-p", 0, OPTION_NUMBER, &a.min_p, 0, 1, "X", "(the model's)"},
		{"repetition-penalty", 0, OPTION_NUMBER, &a.repetition_penalty, 0.001,
		 1000, "X", "(the model's)"},
		{"seed", 0, OPTION_INT, &a.seed, 0, 9e15, "N",
		 "the same seed, the same answer (chosen anew)"},
		{"stop", 0, OPTION_TEXT, &a.stop, 0, 0, "TEXT",
		 "end before this text"},
		{"ignore-eos", 0, OPTION_FLAG, &a.ignore_eos, 0, 0, NULL,
		 "go on past the end of text"},
		{"quiet", 'q', OPTION_FLAG, &a.quiet, 0, 0, NULL,
		 "no speeds on stderr"},
	};
	struct option_set set = {"generate",
				 "Answer a prompt on stdout; speeds go to stderr.",
				 rows, ARRAY_LEN(rows)};
	struct buf prompt = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir)
		return options_fault(&set, "--model is needed");
	if (a.chat && a.raw)
		return options_fault(&set, "--chat and --raw exclude each other");
	if (a.prompt)
		buf_add_z(&prompt, a.prompt);
	else if (!input_stdin(&prompt))
		return EXIT_USAGE;
	rc = cmd_generate_run(&set, &a, buf_str(&prompt));
	buf_deinit(&prompt);
	return rc;
}
