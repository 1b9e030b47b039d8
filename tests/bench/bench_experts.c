/* SPDX-License-Identifier: Apache-2.0
 *
 * What share of the experts that tokens use would be in memory, if it had room for some
 * of them. The choices of routers are those of a model that reads texts and goes on
 * writing, or drawn by Zipf's law. The policy (experts/expert_slots.h) is the program's
 * own; LRU and Belady's optimum stand beside it.
 *
 * Usage: bench_experts MODEL_DIR TOKENS TEXT_FILE...
 *        bench_experts zipf LAYERS EXPERTS USED STEPS
 * TOKENS are written behind each text. Prints one line of CSV a value: case, shape, value,
 * unit. The first quarter of the steps fills the slots and is not counted.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "ctl/session.h"
#include "tests/bench/expert_sim.h"

enum { MAX_TEXT = 1 << 20, MAX_TOK = 4096 };

struct recorder {
	struct expert_trace trace;
	int i_layer_before;
	struct backend *b;
	/* What the router of the layer before had, in front of its norm: (n_tok, D). */
	float *x, *y;
	float *logits, *weight;
	int32_t *id;
	int n_tok;
};

/* As engine/parts/moe.c predicts: this layer's router, with its norm, on what the one before
 * had. */
static void predict(struct recorder *r, int i_layer, const struct moe_router_args *a)
{
	size_t n_tok = (size_t)a->n_tok, dim = (size_t)a->router->k;
	struct rms_norm_args norm;
	struct moe_router_args g = *a;
	bool has_before = r->n_tok == a->n_tok && i_layer == r->i_layer_before + 1;
	if (a->n_tok > MOE_AHEAD_MAX_TOK || !a->norm)
		return;
	r->y = xrealloc(r->y, n_tok * dim * sizeof *r->y);
	r->logits = xrealloc(r->logits, n_tok * (size_t)a->router->n * sizeof *r->logits);
	r->weight = xrealloc(r->weight, n_tok * (size_t)a->n_used * sizeof *r->weight);
	r->id = xrealloc(r->id, n_tok * (size_t)a->n_used * sizeof *r->id);
	norm = *a->norm;
	norm.x = r->x;
	norm.y = r->y;
	g.norm = &norm;
	g.x = r->y;
	g.logits = r->logits;
	g.weight = r->weight;
	g.id = r->id;
	if (has_before && r->b->ops->moe_router(r->b, &g) == OK)
		for (int32_t i = 0; i < a->n_tok * a->n_used; i++)
			expert_trace_predict(&r->trace, i_layer * a->router->n + r->id[i]);
	r->x = xrealloc(r->x, n_tok * dim * sizeof *r->x);
	memcpy(r->x, a->norm->x, n_tok * dim * sizeof *r->x);
	r->n_tok = a->n_tok;
}

/* An engine_watch_fn: notes the experts of a layer, changes nothing. */
static bool record(void *ctx, int i_layer, const struct moe_router_args *a)
{
	struct recorder *r = ctx;
	size_t n = (size_t)a->n_tok * (size_t)a->n_used;
	int32_t *id = xmalloc((n + 1) * sizeof *id);
	for (size_t i = 0; i < n; i++)
		id[i] = i_layer * a->router->n + a->id[i];
	predict(r, i_layer, a);
	expert_trace_add(&r->trace, id, n, i_layer <= r->i_layer_before);
	r->i_layer_before = i_layer;
	free(id);
	return false;
}

static bool run_text(struct session *s, const char *path, int n)
{
	struct buf text = {0};
	struct ids ids = {0};
	struct fail fail = {0};
	enum status st = file_read(path, MAX_TEXT, &text, &fail);
	if (st == OK)
		st = tokenizer_encode(s->model->tokenizer, buf_str(&text), TRUST_USER, &ids,
				      &fail);
	if (st != OK)
		fprintf(stderr, "bench_experts: %s\n", fail.text);
	int n_prompt = MIN((int)ids.n, MAX_TOK - n);
	struct engine_seq *seq = st == OK ? session_start(s, MAX_TOK) : NULL;
	bool good = seq && session_feed(s, seq, ids.p, n_prompt, NULL, NULL);
	for (int i = 0; i < n && good; i++) {
		int32_t id = session_best(s);
		good = id >= 0 && session_feed(s, seq, &id, 1, NULL, NULL);
	}
	if (seq)
		engine_seq_destroy(s->engine, seq);
	buf_deinit(&text);
	ids_deinit(&ids);
	return good;
}

static bool record_model(const char *dir, int n, char **texts, int n_texts,
			 struct expert_trace *out)
{
	struct session s = {0};
	struct recorder r = {.i_layer_before = -1};
	struct session_opts o = SESSION_DEFAULTS;
	o.dir = dir;
	o.backend = "cpu";
	bool good = session_open(&o, MAX_TOK, &s);
	if (good && s.model->config.n_experts == 0) {
		fprintf(stderr, "bench_experts: %s has no experts\n", dir);
		good = false;
	}
	if (good) {
		r.trace.n_experts = s.model->config.n_layers * s.model->config.n_experts;
		r.i_layer_before = s.model->config.n_layers;
		r.b = s.backend;
		engine_watch_routers(s.engine, record, &r);
	}
	for (int i = 0; i < n_texts && good; i++)
		good = run_text(&s, texts[i], n);
	session_close(&s);
	free(r.x);
	free(r.y);
	free(r.logits);
	free(r.weight);
	free(r.id);
	*out = r.trace;
	return good;
}

/* --- Zipf --------------------------------------------------------------------------- */

static double unit(uint64_t *seed)
{
	*seed += 0x9E3779B97F4A7C15u;
	return (double)(hash_bytes(0, seed, sizeof *seed) >> 11) * 0x1p-53;
}

/* Each layer ranks its experts by an order of its own; rank i has the weight 1 / i. */
static void make_zipf(int n_layers, int n_experts, int n_used, int n_steps,
		      struct expert_trace *out)
{
	uint64_t seed = 1;
	double sum = 0;
	int32_t id[64];
	out->n_experts = n_layers * n_experts;
	for (int e = 1; e <= n_experts; e++)
		sum += 1.0 / e;
	for (int i = 0; i < n_layers * n_steps; i++) {
		int layer = i % n_layers;
		for (int u = 0; u < n_used; u++) {
			double x = unit(&seed) * sum;
			int rank = 0;
			while (rank + 1 < n_experts && (x -= 1.0 / (rank + 1)) > 0)
				rank++;
			id[u] = layer * n_experts + (rank + 7 * layer) % n_experts;
		}
		expert_trace_add(out, id, (size_t)n_used, layer == 0);
	}
}

/* --- results ------------------------------------------------------------------------ */

/* Reading ahead, where the disk is idle while a layer computes, and where it never is. */
static void print_ahead(const struct expert_trace *t, const char *name, int share,
			size_t first)
{
	double n_uses = (double)MAX(expert_trace_uses(t, first), (size_t)1);
	int32_t n_slots = MAX(t->n_experts * share / 100, 1);
	for (int busy = 0; busy < 2; busy++) {
		size_t reads, hits = expert_sim_ahead(t, n_slots, first, busy, &reads);
		printf("experts,%s %d %% ahead %s hits,%.4f,1\n", name, share,
		       busy ? "busy disk" : "idle disk", (double)hits / n_uses);
		printf("experts,%s %d %% ahead %s reads a use,%.4f,1\n", name, share,
		       busy ? "busy disk" : "idle disk", (double)reads / n_uses);
	}
}

static void print(const struct expert_trace *t, const char *name)
{
	static const int shares[] = {100, 50, 25, 10};
	size_t first = t->n_groups / 4, n_uses = expert_trace_uses(t, first);
	printf("experts,%s uses,%zu,1\n", name, n_uses);
	for (size_t i = 0; i < ARRAY_LEN(shares) && t->n_predicted; i++)
		print_ahead(t, name, shares[i], first);
	for (size_t i = 0; i < ARRAY_LEN(shares); i++)
		for (int p = 0; p < EXPERT_POLICY_COUNT; p++) {
			int32_t n_slots = MAX(t->n_experts * shares[i] / 100, 1);
			size_t n = expert_sim_hits(t, (enum expert_policy)p, n_slots, first);
			printf("experts,%s %d %% %s hits,%.4f,1\n", name, shares[i],
			       expert_policy_name((enum expert_policy)p),
			       (double)n / (double)MAX(n_uses, 1));
		}
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

int main(int argc, char **argv)
{
	struct expert_trace t = {0};
	char name[80];
	int n[4] = {0};
	bool is_zipf = argc == 6 && strcmp(argv[1], "zipf") == 0;
	for (int i = 0; is_zipf && i < 4; i++)
		n[i] = atoi(argv[2 + i]);
	if (is_zipf ? n[0] < 1 || n[1] < 1 || n[2] < 1 || n[2] > 64 || n[3] < 4
		    : argc < 4 || atoi(argv[2]) < 0 || atoi(argv[2]) > MAX_TOK / 2) {
		fprintf(stderr, "usage: bench_experts MODEL_DIR TOKENS TEXT_FILE...\n"
			"       bench_experts zipf LAYERS EXPERTS USED STEPS\n");
		return 2;
	}
	if (is_zipf) {
		snprintf(name, sizeof name, "zipf %dx%d", n[0], n[1]);
		make_zipf(n[0], n[1], n[2], n[3], &t);
	} else if (record_model(argv[1], atoi(argv[2]), argv + 3, argc - 3, &t)) {
		snprintf(name, sizeof name, "%s text", last_part(argv[1]));
	} else {
		return 1;
	}
	print(&t, name);
	expert_trace_deinit(&t);
	return 0;
}
