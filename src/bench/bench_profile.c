/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_profile.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/read_rate.h"

static double seconds_since(int64_t begin_us)
{
	return (double)(clock_now_us(&clock_monotonic) - begin_us) * 1e-6;
}

/* --- runs --------------------------------------------------------------------------- */

enum { MANY = 16 };

static bool run_prompt(struct session *s, const struct bench_profile_args *a,
		       struct profile *p)
{
	struct engine_seq *seq = session_start(s, a->depth + a->prompt);
	if (!seq)
		return false;
	bool good = !a->depth || session_fill(s, seq, a->ids, a->depth);
	profile_reset(p);
	good = good && session_feed(s, seq, a->ids + a->depth, a->prompt, NULL, NULL);
	engine_seq_destroy(s->engine, seq);
	return good;
}

/* Measures decoded tokens. Time that neither the step nor the choice of the token took counts
 * as the host's. */
static bool run_decode(struct session *s, const struct bench_profile_args *a,
		       struct profile *p)
{
	int before = MAX(a->depth, 1);
	struct engine_seq *seq = session_start(s, before + a->decode);
	if (!seq)
		return false;
	bool good = session_fill(s, seq, a->ids, before);
	int32_t id = good ? session_best(s) : -1;
	profile_reset(p);
	for (int i = 0; i < a->decode && id >= 0; i++) {
		good = session_feed(s, seq, &id, 1, NULL, NULL);
		int64_t begin = clock_now_us(&clock_monotonic);
		id = good ? session_best(s) : -1;
		profile_add(p, PROFILE_SAMPLING, seconds_since(begin));
	}
	engine_seq_destroy(s->engine, seq);
	return id >= 0;
}

bool bench_profile_run(struct session *s, const struct bench_profile_args *a,
		       struct bench_profile *out)
{
	struct fail fail = {0};
	*out = (struct bench_profile){0};
	if (read_rate(s->backend, a->n_threads, &out->read_gbs, &fail) != OK) {
		fprintf(stderr, "haloctl: %s\n", fail.text);
		return false;
	}
	bool good = true;
	for (int i = 0; i < 2 && good; i++) {
		int n = i ? a->decode : a->prompt;
		if (n == 0)
			continue;
		/* Measure every other token of a long decode, which halves the cost of
		 * measuring. */
		int every = i && n >= MANY ? 2 : 1;
		struct profile *p = profile_create(s->model->config.n_layers, every);
		out->part[i] = (struct bench_profile_part){
			.name = i ? "token" : "prompt", .n = n, .profile = p,
			.share = i ? 1.0 / DIV_UP(n, every) : 1};
		backend_set_profile(s->backend, p);
		good = i ? run_decode(s, a, p) : run_prompt(s, a, p);
		backend_set_profile(s->backend, NULL);
	}
	return good;
}

void bench_profile_deinit(struct bench_profile *p)
{
	for (int i = 0; i < 2; i++)
		profile_destroy(p->part[i].profile);
}

/* --- tables ------------------------------------------------------------------------- */

struct stage_line {
	double s, bytes, rate; /* rate: share of the memory's read rate */
};

static struct stage_line line_of(const struct bench_profile *p,
				 const struct bench_profile_part *t, int i_layer,
				 enum profile_stage stage)
{
	struct profile_cell c = profile_sum(t->profile, i_layer, stage);
	return (struct stage_line){c.s * t->share, c.bytes * t->share,
			     c.s > 0 ? c.bytes / c.s / (p->read_gbs * 1e9) : 0};
}

static void print_line(const char *name, struct stage_line l, double total_s)
{
	printf("  %-10s %10.4f %6.1f", name, 1e3 * l.s,
	       total_s > 0 ? 100 * l.s / total_s : 0);
	if (l.bytes > 0)
		printf(" %10.3f %8.1f", l.bytes * 1e-6, 100 * l.rate);
	putchar('\n');
}

static void print_part(const struct bench_profile *p, const struct bench_profile_part *t,
		       bool per_layer)
{
	struct stage_line all = {0, 0, 0};
	for (int s = 0; s < PROFILE_COUNT; s++) {
		struct stage_line l = line_of(p, t, -1, s);
		all.s += l.s;
		all.bytes += l.bytes;
	}
	all.rate = all.s > 0 ? all.bytes / all.s / (p->read_gbs * 1e9) : 0;
	printf("a %s (%d tokens measured)\n  %-10s %10s %6s %10s %8s\n", t->name, t->n,
	       "stage", "ms", "%", "MB read", "% of rate");
	for (int s = 0; s < PROFILE_COUNT; s++) {
		struct stage_line l = line_of(p, t, -1, s);
		if (l.s > 0 || l.bytes > 0)
			print_line(profile_name(s), l, all.s);
	}
	print_line("all", all, all.s);
	for (int i = 0; per_layer && i < t->profile->n_layers; i++) {
		printf("  layer %d\n", i);
		for (int s = 0; s < PROFILE_COUNT; s++) {
			struct stage_line l = line_of(p, t, i, s);
			if (l.s > 0)
				print_line(profile_name(s), l, all.s);
		}
	}
}

void bench_profile_print(const struct bench_profile *p, const struct bench_profile_args *a)
{
	printf("memory is read at %.1f GB/s by reading alone\n", p->read_gbs);
	for (int i = 0; i < 2; i++)
		if (p->part[i].profile)
			print_part(p, &p->part[i], a->per_layer);
}

static void add_stages(const struct bench_profile *p, const struct bench_profile_part *t,
		       int i_layer, struct buf *out)
{
	bool is_first = true;
	buf_add_c(out, '{');
	for (int s = 0; s < PROFILE_COUNT; s++) {
		struct stage_line l = line_of(p, t, i_layer, s);
		if (l.s <= 0 && l.bytes <= 0)
			continue;
		buf_addf(out, "%s\"%s\":{\"ms\":", is_first ? "" : ",", profile_name(s));
		is_first = false;
		buf_add_json_num(out, 1e3 * l.s);
		buf_addf(out, ",\"bytes\":%.0f,\"read_share\":", l.bytes);
		buf_add_json_num(out, l.rate);
		buf_add_c(out, '}');
	}
	buf_add_c(out, '}');
}

void bench_profile_json(const struct bench_profile *p, const struct bench_profile_args *a,
			struct buf *out)
{
	buf_add_z(out, "{\"read_gbs\":");
	buf_add_json_num(out, p->read_gbs);
	for (int i = 0; i < 2; i++) {
		const struct bench_profile_part *t = &p->part[i];
		if (!t->profile)
			continue;
		buf_addf(out, ",\"%s\":{\"tokens\":%d,\"stages\":", t->name, t->n);
		add_stages(p, t, -1, out);
		buf_add_z(out, a->per_layer ? ",\"layers\":[" : "");
		for (int j = 0; a->per_layer && j < t->profile->n_layers; j++) {
			buf_add_z(out, j ? "," : "");
			add_stages(p, t, j, out);
		}
		buf_add_z(out, a->per_layer ? "]}" : "}");
	}
	buf_add_c(out, '}');
}
