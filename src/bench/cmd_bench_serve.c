/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ctl/command.h"
#include "ctl/load.h"
#include "ctl/options.h"

struct bench_serve_args {
	const char *url, *model, *api_key;
	int64_t n_input, n_output, concurrency, n_requests, n_vocab, seed, timeout_s;
	bool json;
};

static const struct {
	const char *name, *title;
	size_t at;
} series[] = {
	{"ttft_ms", "TTFT", offsetof(struct load_result, ttft_ms)},
	{"tpot_ms", "TPOT", offsetof(struct load_result, tpot_ms)},
	{"itl_ms", "ITL", offsetof(struct load_result, itl_ms)},
	{"e2e_ms", "E2E", offsetof(struct load_result, e2e_ms)},
};

static struct samples *samples_of(struct load_result *r, size_t i)
{
	return (struct samples *)(void *)((char *)r + series[i].at);
}

static void print_text(const struct load_opts *o, struct load_result *r)
{
	printf("requests     %d good, %d failed, in %.2f s: %.2f a second\n",
	       r->n_good, r->n_failed, r->seconds, r->n_good / r->seconds);
	printf("tokens       %lld out: %.1f a second; with those in, %.1f\n",
	       (long long)r->n_output, (double)r->n_output / r->seconds,
	       ((double)r->n_output + (double)r->n_good * o->n_input) / r->seconds);
	if (r->n_short)
		printf("short        %d answers of fewer tokens than asked for\n",
		       r->n_short);
	if (r->n_mute)
		printf("no text      %d answers, so their first token was not seen\n", r->n_mute);
	if (r->n_failed)
		printf("first error  %s\n", r->error);
	printf("\n%-6s %10s %10s %10s %10s\n", "ms", "mean", "median", "p90", "p99");
	for (size_t i = 0; i < ARRAY_LEN(series); i++) {
		struct samples *s = samples_of(r, i);
		printf("%-6s %10.2f %10.2f %10.2f %10.2f\n", series[i].title,
		       samples_mean(s), samples_quantile(s, 0.5),
		       samples_quantile(s, 0.9), samples_quantile(s, 0.99));
	}
}

static void add_number(struct buf *b, const char *key, double v)
{
	buf_addf(b, ",\"%s\":", key);
	buf_add_json_num(b, v);
}

static void print_json(const struct load_opts *o, struct load_result *r)
{
	struct buf b = {0};
	buf_add_z(&b, "{\"url\":");
	buf_add_json(&b, str_of(o->url));
	buf_add_z(&b, ",\"model\":");
	buf_add_json(&b, str_of(o->model));
	buf_addf(&b, ",\"input_len\":%d,\"output_len\":%d,\"concurrency\":%d,"
		 "\"num_prompts\":%d,\"completed\":%d,\"failed\":%d,\"short\":%d,"
		 "\"total_output_tokens\":%lld", o->n_input, o->n_output,
		 o->concurrency, o->n_requests, r->n_good, r->n_failed, r->n_short,
		 (long long)r->n_output);
	add_number(&b, "duration_s", r->seconds);
	add_number(&b, "request_throughput", r->n_good / r->seconds);
	add_number(&b, "output_throughput", (double)r->n_output / r->seconds);
	add_number(&b, "total_throughput",
		   ((double)r->n_output + (double)r->n_good * o->n_input) /
			   r->seconds);
	for (size_t i = 0; i < ARRAY_LEN(series); i++) {
		buf_add_c(&b, ',');
		samples_add_json(samples_of(r, i), series[i].name, &b);
	}
	load_print_json(&b, r->n_failed ? r->error : NULL);
	buf_deinit(&b);
}

static int cmd_bench_serve_run(const struct bench_serve_args *a,
			       const struct load_server *server)
{
	struct load_opts o = {
		.url = server->url, .model = server->model, .api_key = server->api_key,
		.n_requests = (int)a->n_requests,
		.concurrency = (int)a->concurrency, .n_input = (int)a->n_input,
		.n_output = (int)a->n_output, .n_vocab = (int)a->n_vocab,
		.seed = (uint64_t)a->seed, .timeout_s = (int)a->timeout_s};
	struct load_result r;
	struct fail fail = {0};
	if (load_run(&o, &r, &fail) != OK)
		return options_failure("%s", fail.text);
	(a->json ? print_json : print_text)(&o, &r);
	int rc = r.n_failed ? EXIT_FAILED : EXIT_OK;
	load_result_deinit(&r);
	return rc;
}

int cmd_bench_serve(int argc, char **argv)
{
	struct bench_serve_args a = {.url = "http://127.0.0.1:8080", .n_input = 128,
			 .n_output = 128, .concurrency = 1, .n_requests = 10,
			 .n_vocab = 1000, .timeout_s = 600};
	const struct option_row rows[] = {
		LOAD_SERVER_OPTIONS(a),
		{"input-len", 'i', OPTION_INT, &a.n_input, 1, 1 << 26, "N",
		 "tokens a prompt (128)"},
		{"output-len", 'o', OPTION_INT, &a.n_output, 1, 1 << 26, "N",
		 "tokens an answer (128)"},
		{"concurrency", 'c', OPTION_INT, &a.concurrency, 1, 4096, "C",
		 "requests at a time (1)"},
		{"num-prompts", 'k', OPTION_INT, &a.n_requests, 1, 1 << 24, "K",
		 "requests (10)"},
		{"vocab", 0, OPTION_INT, &a.n_vocab, 2, 1 << 24, "N",
		 "ids of prompts are below this (1000)"},
		{"seed", 0, OPTION_INT, &a.seed, 0, 9e15, "N",
		 "of the prompts; others dodge a prefix cache (0)"},
		{"timeout", 0, OPTION_INT, &a.timeout_s, 1, 86400, "S",
		 "seconds a request may take (600)"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL, "print an object"},
	};
	struct option_set set = {"bench serve",
				 "Speed of a server over HTTP: streamed "
				 "/v1/completions of random prompts.", rows,
				 ARRAY_LEN(rows)};
	struct load_server server;
	struct fail fail = {0};
	int rc;
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (load_server_open(a.url, a.model, a.api_key, &server, &fail) != OK)
		rc = options_failure("%s", fail.text);
	else
		rc = cmd_bench_serve_run(&a, &server);
	load_server_close(&server);
	return rc;
}
