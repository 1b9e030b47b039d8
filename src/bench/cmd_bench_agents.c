/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "bench/agents_run.h"
#include "ctl/command.h"
#include "ctl/load.h"
#include "ctl/options.h"

struct bench_agents_args {
	const char *trace, *url, *model, *api_key;
	int64_t timeout_s;
	double scale;
	bool json;
};

/* Sums and samples of the turns with one reason, or of all. */
struct group {
	struct samples ms, first_ms;
	int64_t n_prompt, n_computed, n_needed;
	int n_turns;
	bool is_untold; /* a server that does not say what it computed */
};

static void group_add(struct group *g, const struct agents_turn *t)
{
	samples_add(&g->ms, t->ms);
	samples_add(&g->first_ms, t->first_ms);
	g->n_prompt += t->n_prompt;
	g->n_needed += t->n_needed;
	g->n_computed += t->n_computed;
	g->is_untold |= t->n_computed < 0;
	g->n_turns++;
}

static void group_deinit(struct group *g)
{
	samples_deinit(&g->ms);
	samples_deinit(&g->first_ms);
}

static void print_count(int64_t n, bool is_untold)
{
	if (is_untold)
		printf(" %9s", "?");
	else
		printf(" %9lld", (long long)n);
}

static void print_group(const char *name, struct group *g)
{
	if (g->n_turns == 0)
		return;
	printf("%-16s %6d %10.1f %10.1f %9lld", name, g->n_turns, samples_quantile(&g->ms, 0.5),
	       samples_quantile(&g->first_ms, 0.5), (long long)g->n_prompt);
	print_count(g->n_computed, g->is_untold);
	printf(" %9lld\n", (long long)g->n_needed);
}

static void print_text(const struct agents_result *r, struct group *groups)
{
	printf("%5s %5s %10s %10s %8s %9s %9s %7s  %s\n", "agent", "turn", "ms", "first ms",
	       "prompt", "computed", "needed", "answer", "why");
	for (int i = 0; i < r->n; i++) {
		const struct agents_turn *t = &r->turns[i];
		printf("%5d %5d %10.1f %10.1f %8d", t->talk, t->request, t->ms, t->first_ms,
		       t->n_prompt);
		print_count(t->n_computed, t->n_computed < 0);
		printf(" %9d %7d  %s\n", t->n_needed, t->n_answer, agents_why_name(t->why));
	}
	printf("\n%-16s %6s %10s %10s %9s %9s %9s\n", "why", "turns", "ms", "first ms", "prompt",
	       "computed", "needed");
	for (int i = 0; i < AGENTS_WHYS; i++)
		print_group(agents_why_name((enum agents_why)i), &groups[i]);
	print_group("all", &groups[AGENTS_WHYS]);
	printf("ms are medians; all turns took %.2f s\n", r->seconds);
	if (r->n_failed)
		printf("first error  %s (%d failed)\n", r->error, r->n_failed);
}

static void add_group(struct buf *b, struct group *g)
{
	buf_addf(b, "{\"turns\":%d,", g->n_turns);
	samples_add_json(&g->ms, "ms", b);
	buf_add_c(b, ',');
	samples_add_json(&g->first_ms, "first_ms", b);
	buf_addf(b, ",\"prompt_tokens\":%lld,\"computed_tokens\":", (long long)g->n_prompt);
	if (g->is_untold)
		buf_add_z(b, "null");
	else
		buf_addf(b, "%lld", (long long)g->n_computed);
	buf_addf(b, ",\"needed_tokens\":%lld}", (long long)g->n_needed);
}

static void add_turn(struct buf *b, const struct agents_turn *t)
{
	buf_addf(b, "{\"agent\":%d,\"turn\":%d,\"ms\":", t->talk, t->request);
	buf_add_json_num(b, t->ms);
	buf_add_z(b, ",\"first_ms\":");
	buf_add_json_num(b, t->first_ms);
	buf_addf(b, ",\"prompt_tokens\":%d,\"computed_tokens\":", t->n_prompt);
	if (t->n_computed < 0)
		buf_add_z(b, "null");
	else
		buf_addf(b, "%d", t->n_computed);
	buf_addf(b, ",\"needed_tokens\":%d,\"answer_tokens\":%d,\"why\":\"%s\"}", t->n_needed,
		 t->n_answer, agents_why_name(t->why));
}

static void print_json(const struct agents_result *r, struct group *groups)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"turns\":[");
	for (int i = 0; i < r->n; i++) {
		buf_add_z(&b, i > 0 ? ",\n" : "\n");
		add_turn(&b, &r->turns[i]);
	}
	buf_add_z(&b, "],\n\"why\":{");
	for (int i = 0, n = 0; i < AGENTS_WHYS; i++) {
		if (groups[i].n_turns == 0)
			continue;
		buf_addf(&b, "%s\"%s\":", n++ ? ",\n" : "", agents_why_name((enum agents_why)i));
		add_group(&b, &groups[i]);
	}
	buf_add_z(&b, "},\n\"all\":");
	add_group(&b, &groups[AGENTS_WHYS]);
	buf_addf(&b, ",\n\"failed\":%d,\"duration_s\":", r->n_failed);
	buf_add_json_num(&b, r->seconds);
	load_print_json(&b, r->n_failed ? r->error : NULL);
	buf_deinit(&b);
}

static int replay(const struct bench_agents_args *a, const struct agents_trace *t,
		  const struct load_server *server)
{
	const struct agents_opts o = {.url = server->url, .model = server->model,
				      .api_key = server->api_key,
				      .timeout_s = (int)a->timeout_s};
	struct group groups[AGENTS_WHYS + 1] = {0};
	struct agents_result r;
	struct fail fail = {0};
	if (agents_run(t, &o, &r, &fail) != OK)
		return options_failure("%s", fail.text);
	for (int i = 0; i < r.n; i++) {
		group_add(&groups[r.turns[i].why], &r.turns[i]);
		group_add(&groups[AGENTS_WHYS], &r.turns[i]);
	}
	(a->json ? print_json : print_text)(&r, groups);
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		group_deinit(&groups[i]);
	int rc = r.n_failed ? EXIT_FAILED : EXIT_OK;
	agents_result_deinit(&r);
	return rc;
}

int cmd_bench_agents(int argc, char **argv)
{
	struct bench_agents_args a = {.url = "http://127.0.0.1:8080", .timeout_s = 600, .scale = 1};
	const struct option_row rows[] = {
		{"trace", 0, OPTION_OPERAND, &a.trace, 0, 0, "TRACE",
		 "a file as in tests/bench/traces (needed)"},
		LOAD_SERVER_OPTIONS(a),
		{"scale", 0, OPTION_NUMBER, &a.scale, 0.001, 100, "X",
		 "of the lengths of all texts (1)"},
		{"timeout", 0, OPTION_INT, &a.timeout_s, 1, 86400, "S",
		 "seconds a request may take (600)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"bench agents",
				 "Replays recorded coding agents against a server, and says of "
				 "each turn what it took, what was computed and why.", rows,
				 ARRAY_LEN(rows)};
	struct agents_trace trace;
	struct load_server server;
	struct fail fail = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.trace)
		return options_fault(&set, "a TRACE is needed");
	if (agents_trace_read(a.trace, a.scale, &trace, &fail) != OK)
		return options_failure("%s", fail.text);
	if (load_server_open(a.url, a.model, a.api_key, &server, &fail) != OK)
		rc = options_failure("%s", fail.text);
	else
		rc = replay(&a, &trace, &server);
	load_server_close(&server);
	agents_trace_deinit(&trace);
	return rc;
}
