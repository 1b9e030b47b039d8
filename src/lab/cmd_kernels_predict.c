/* SPDX-License-Identifier: Apache-2.0
 *
 * `kernels predict`: lists the launches of a model's steps and predicts their times. The
 * chip need not be present: null_hip.h stands in for it, and launch_cost.h estimates
 * times. Nothing is measured.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ctl/command.h"
#include "ctl/input.h"
#include "ctl/session.h"
#include "engine/engine_draft.h"
#include "lab/launch_cost.h"
#include "lab/null_hip.h"
#include "lab/predict_tower.h"

enum { MAX_PROMPTS = 16, PREFILL_FROM = HIP_FEW_TOK + 1 /* tokens of a step */,
       DRAFTED = ENGINE_DRAFT_TOK };

struct kernels_predict_args {
	struct session_opts session;
	const char *chip, *code, *objdump, *prompts, *widths;
	int64_t depth, behind, chunk, image, audio;
	bool json, launches, mtp;
};

/* A launch already estimated: launches with the same kernel, grid and arguments, except
 * addresses, share the result. */
struct known_launch {
	uint64_t key;
	struct launch_cost cost;
};

struct predict_row { /* sums for one kernel; rows are in the order of first launches */
	char kernel[80];
	int n;
	double us, gb, longest_us; /* of all launches; of the longest one */
	double low, high;          /* us */
	double node, ends;         /* of us: nodes; ramps and tails */
	double bound_us[COST_KINDS]; /* of us: streams, by what bounds them */
};

struct prediction {
	const struct kernels_predict_args *args;
	struct cost_model model;
	const char *step;
	struct known_launch *known;
	size_t n_known;
	struct predict_row *row;
	size_t n_rows;
	int n_launches;
	struct fail fail;
};

/* --- a step's launches ------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t x)
{
	hash = (hash ^ x) * 0x9E3779B97F4A7C15u;
	return hash ^ hash >> 29;
}

/* The key leaves out addresses, which null_hip.h takes from this process's memory. */
static uint64_t key_of(const struct hip_launch_info *l)
{
	uint64_t hash = 1;
	for (const char *p = l->kernel->name; *p; p++)
		hash = mix(hash, (unsigned char)*p);
	hash = mix(hash, (uint64_t)l->grid.x << 32 | (uint32_t)l->grid.y);
	hash = mix(hash, (uint64_t)l->grid.n_threads << 32 | (uint32_t)l->grid.lds_bytes);
	for (int i = 0; i < l->n_args; i++)
		for (size_t at = 0; at < l->args[i].n_bytes; at += 8) {
			uint64_t x = 0;
			memcpy(&x, (const char *)l->args[i].p + at,
			       MIN(l->args[i].n_bytes - at, 8));
			hash = mix(hash, x >> 44 == 7 ? 7 : x);
		}
	return hash;
}

static const struct launch_cost *cost_of(struct prediction *p,
					 const struct hip_launch_info *l)
{
	struct known_launch k = {.key = key_of(l)};
	for (size_t i = 0; i < p->n_known; i++)
		if (p->known[i].key == k.key)
			return &p->known[i].cost;
	if (launch_cost(&p->model, l, &k.cost, &p->fail) != OK)
		return NULL;
	p->known = xrealloc(p->known, (p->n_known + 1) * sizeof k);
	p->known[p->n_known] = k;
	return &p->known[p->n_known++].cost;
}

static struct predict_row *row_of(struct prediction *p, const char *kernel)
{
	for (size_t i = 0; i < p->n_rows; i++)
		if (strcmp(p->row[i].kernel, kernel) == 0)
			return &p->row[i];
	p->row = xrealloc(p->row, (p->n_rows + 1) * sizeof *p->row);
	struct predict_row *r = &p->row[p->n_rows++];
	*r = (struct predict_row){0};
	snprintf(r->kernel, sizeof r->kernel, "%s", kernel);
	return r;
}

static void print_launch(const struct prediction *p, const struct hip_launch_info *l,
			 const struct launch_cost *c)
{
	struct cost_bar bar = launch_cost_bar(&p->model, c);
	double us = launch_cost_us(c);
	if (p->args->json) {
		struct buf b = {0};
		buf_addf(&b, "{\"chip\":\"%s\",\"step\":\"%s\",\"launch\":%d,\"predicted\":true,",
			 p->args->chip, p->step, p->n_launches);
		launch_cost_json(&b, l, c);
		buf_addf(&b, ",\"low_us\":%.5g,\"high_us\":%.5g}\n", us * bar.low, us * bar.high);
		fwrite(b.p, 1, b.n, stdout);
		buf_deinit(&b);
		return;
	}
	printf("%5d %-36s %6dx%-4d", p->n_launches, l->kernel->name, l->grid.x, l->grid.y);
	for (int k = 0; k < COST_KINDS; k++)
		printf(" %8.2f", c->us[k]);
	printf(" %7.2f %6.2f %6.2f %8.2f (%.1f to %.1f)  %s\n", c->ramp, c->tail, c->node, us,
	       us * bar.low, us * bar.high, cost_kind_name(c->bound));
}

static void add_launch(const struct prediction *p, struct predict_row *r,
		       const struct launch_cost *c)
{
	double us = launch_cost_us(c);
	r->n++;
	r->us += us;
	r->low += us * p->model.more->bar[c->part].low;
	r->high += us * p->model.more->bar[c->part].high;
	r->gb += c->dram_bytes * 1e-9;
	r->longest_us = fmax(r->longest_us, us);
	r->node += c->node;
	r->ends += c->ramp + c->tail;
	r->bound_us[c->bound] += c->stream;
}

static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	struct prediction *p = ctx;
	if (!is_done)
		return;
	null_hip_after(l);
	if (!p->step || p->fail.code != OK)
		return;
	const struct launch_cost *c = cost_of(p, l);
	if (!c)
		return;
	add_launch(p, row_of(p, l->kernel->name), c);
	if (p->args->launches)
		print_launch(p, l, c);
	p->n_launches++;
}

/* --- output ------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
	const struct predict_row *x = a, *y = b;
	return x->us < y->us ? 1 : x->us > y->us ? -1 : 0;
}

static enum cost_kind bound_of(const double *us)
{
	int most = 0;
	for (int k = 1; k < COST_KINDS; k++)
		if (us[k] > us[most])
			most = k;
	return most;
}

/* The row with the longest launch. A driver resets a queue that hangs, so no launch
 * may last long. */
static const struct predict_row *longest_of(const struct prediction *p)
{
	const struct predict_row *most = p->row;
	for (size_t i = 1; i < p->n_rows; i++)
		if (p->row[i].longest_us > most->longest_us)
			most = &p->row[i];
	return most;
}

static void print_text(const struct prediction *p, const struct predict_row *all)
{
	printf("\n%s, predicted for %s\n%-40s %8s %10s %7s %8s %9s  %s\n", p->step,
	       p->model.chip->name, "kernel", "launches", "us", "%", "GB", "ends, us", "bound");
	for (size_t i = 0; i < p->n_rows; i++) {
		const struct predict_row *r = &p->row[i];
		printf("%-40s %8d %10.1f %7.1f %8.3f %9.1f  %s\n", r->kernel, r->n, r->us,
		       100 * r->us / all->us, r->gb, r->ends + r->node,
		       cost_kind_name(bound_of(r->bound_us)));
	}
	printf("%s: %.2f ms (%.3g to %.3g), predicted; %.2f GB;", p->step, all->us * 1e-3,
	       all->low * 1e-3, all->high * 1e-3, all->gb);
	for (int k = 0; k < COST_KINDS; k++)
		if (all->bound_us[k] > 0)
			printf(" %s %.2f ms", cost_kind_name(k), all->bound_us[k] * 1e-3);
	printf(" ramps and tails %.2f ms %d nodes %.2f ms\nlongest launch: %.2f ms, %s\n",
	       all->ends * 1e-3, p->n_launches, all->node * 1e-3,
	       longest_of(p)->longest_us * 1e-3, longest_of(p)->kernel);
}

static void print_json(const struct prediction *p, const struct predict_row *all)
{
	printf("{\"chip\":\"%s\",\"step\":\"%s\",\"predicted\":true,\"launches\":%d,"
	       "\"total_us\":%.1f,\"low_us\":%.1f,\"high_us\":%.1f,\"nodes_us\":%.1f,"
	       "\"ends_us\":%.1f,\"dram_gb\":%.4f",
	       p->args->chip, p->step, p->n_launches, all->us, all->low, all->high, all->node,
	       all->ends, all->gb);
	for (int k = 0; k < COST_KINDS; k++)
		printf(",\"%s_us\":%.1f", cost_kind_name(k), all->bound_us[k]);
	printf(",\"longest_us\":%.1f,\"longest_kernel\":\"%s\"}\n",
	       longest_of(p)->longest_us, longest_of(p)->kernel);
}

static void finish_step(struct prediction *p)
{
	struct predict_row all = {0};
	if (p->n_rows)
		qsort(p->row, p->n_rows, sizeof *p->row, by_time);
	for (size_t i = 0; i < p->n_rows; i++) {
		const struct predict_row *r = &p->row[i];
		all.us += r->us;
		all.low += r->low;
		all.high += r->high;
		all.gb += r->gb;
		all.node += r->node;
		all.ends += r->ends;
		for (int k = 0; k < COST_KINDS; k++)
			all.bound_us[k] += r->bound_us[k];
	}
	if (p->fail.code == OK && p->n_rows)
		(p->args->json ? print_json : print_text)(p, &all);
	p->step = NULL;
}

static void begin_step(struct prediction *p, const char *name, bool is_prefill)
{
	p->n_launches = 0;
	p->n_rows = p->n_known = 0; /* memory has changed, so all launches must be
				     * estimated anew */
	p->model.is_prefill = is_prefill;
	p->step = name;
	if (p->args->launches && !p->args->json)
		printf("\n%s\n%5s %-36s %11s %8s %8s %8s %8s %8s %8s %7s %6s %6s %8s, us\n", name,
		       "", "kernel", "grid", "issue", "LDS", "latency", "cache", "MALL", "DRAM",
		       "ramp", "tail", "node", "whole");
}

/* --- steps ------------------------------------------------------------------------ */

/* Which step of a prompt is predicted. */
struct predict_prompt {
	int n_before;     /* tokens that the KV cache holds already */
	int n;            /* new tokens */
	bool is_decode;   /* true: not the prompt, but a step of one token after it … */
	int n_draft;      /* … and so many draft tokens */
};

static void name_step(const struct predict_prompt *pp, char *out, size_t size)
{
	if (pp->n_draft)
		snprintf(out, size, "%d tokens with drafts behind %d", 1 + pp->n_draft, pp->n);
	else if (pp->is_decode)
		snprintf(out, size, "decode behind %d tokens", pp->n);
	else if (pp->n_before)
		snprintf(out, size, "prefill of %d tokens behind %d", pp->n, pp->n_before);
	else
		snprintf(out, size, "prefill of %d tokens", pp->n);
}

static bool feed(struct prediction *p, struct session *s, struct engine_seq *seq,
		 const int32_t *ids, int n)
{
	int step = engine_max_batch_tok(s->engine);
	bool good = true;
	for (int at = 0; at < n && good; at += step) {
		p->n_known = 0;
		good = session_feed(s, seq, ids + at, MIN(step, n - at), NULL, NULL);
	}
	return good;
}

/* A step of one token and draft tokens, of all of which the logits are wanted. */
static bool verify(struct session *s, struct engine_seq *seq, const int32_t *ids, int n_draft)
{
	struct engine_slice slice = {.seq = seq, .tokens = ids, .n = 1 + n_draft,
				     .n_logits = 1 + n_draft, .n_draft = n_draft};
	struct fail fail = {0};
	if (n_draft && 1 + n_draft > engine_draft_room(s->engine)) {
		options_failure("drafts of this model make steps of at most %d tokens",
				engine_draft_room(s->engine));
		return false;
	}
	enum status st = n_draft ? engine_seq_reserve_draft(s->engine, seq, 1 + n_draft)
				 : engine_seq_reserve(s->engine, seq, 1);
	if (st == OK)
		st = engine_step(s->engine, &slice, 1, &fail);
	if (st == OK)
		return true;
	fail_default(&fail, st);
	options_failure("a step of %d tokens: %s", 1 + n_draft, fail.text);
	return false;
}

/* The MTP layer's draft of one token, behind a step with the logits of its last token. */
static bool draft(struct session *s, struct engine_seq *seq, int32_t token)
{
	struct fail fail = {0};
	int32_t id;
	struct engine_draft g = {.seq = seq, .token = token, .n = 1, .out = &id};
	enum status st = engine_seq_reserve_draft(s->engine, seq, 1);
	if (st == OK)
		st = engine_draft(s->engine, &g, 1, &fail);
	if (st == OK)
		return true;
	fail_default(&fail, st);
	options_failure("--mtp: a draft token: %s", fail.text);
	return false;
}

static bool run_prompt(struct prediction *p, struct session *s,
		       const struct predict_prompt *pp)
{
	char name[64];
	bool drafts = pp->is_decode && !pp->n_draft && p->args->mtp;
	int n_all = pp->n_before + pp->n + 1 + pp->n_draft + drafts;
	int32_t *ids = xcalloc((size_t)n_all, sizeof *ids);
	input_random_ids(1, s->model->config.n_vocab, ids, n_all);
	struct engine_seq *seq = session_start(s, n_all);
	bool good = seq && feed(p, s, seq, ids, pp->n_before);
	name_step(pp, name, sizeof name);
	if (!pp->is_decode)
		begin_step(p, name, pp->n >= PREFILL_FROM);
	good = good && feed(p, s, seq, ids + pp->n_before, pp->n);
	if (pp->is_decode && good) {
		begin_step(p, name, false);
		good = verify(s, seq, ids + pp->n, pp->n_draft);
	}
	finish_step(p);
	if (drafts && good) {
		snprintf(name, sizeof name, "a draft token behind %d tokens", pp->n + 1);
		begin_step(p, name, false);
		good = draft(s, seq, ids[n_all - 1]);
		finish_step(p);
	}
	if (seq)
		engine_seq_destroy(s->engine, seq);
	free(ids);
	return good && p->fail.code == OK;
}

/* The tower alone, without a text model. */
static bool run_tower(struct prediction *p, struct session *s, const struct hip_api *api)
{
	const struct backend_opts bo = {.name = "hip", .hip_api = api, .no_graphs = true,
					.kernel_dir = p->args->session.hip_kernels};
	const struct predict_tower_opts to = {(int32_t)p->args->image, (int32_t)p->args->audio};
	struct predict_tower *tower = NULL;
	enum status st = session_open_model(&p->args->session, s)
				 ? backend_create(&bo, &s->backend, &p->fail)
				 : E_CONFIG;
	if (!s->model)
		return false;
	if (st == OK)
		st = predict_tower_open(s->model, s->backend, &to, &tower, &p->fail);
	if (st == OK) {
		hip_of(s->backend)->on_launch = on_launch;
		hip_of(s->backend)->on_launch_ctx = p;
		begin_step(p, predict_tower_name(tower), true);
		st = predict_tower_run(tower, &p->fail);
		finish_step(p);
		hip_of(s->backend)->on_launch = NULL;
	}
	fail_default(&p->fail, st);
	predict_tower_close(tower);
	return p->fail.code == OK;
}

static int read_prompts(const char *text, int *out)
{
	int n = 0;
	for (const char *p = text; *p && n < MAX_PROMPTS; p += *p == ',') {
		char *end;
		long x = strtol(p, &end, 10);
		if (end == p || x < 1 || x > 1 << 20 || (*end && *end != ','))
			return -1;
		out[n++] = (int)x;
		p = end;
	}
	return n;
}

static bool open_session(const struct kernels_predict_args *a, const struct hip_api *api,
			 int n_tok, struct session *s, struct fail *fail)
{
	struct backend_opts bo = {.name = "hip", .hip_api = api, .no_graphs = true};
	if (!session_open_model(&a->session, s))
		return false;
	bo.kernel_dir = a->session.hip_kernels;
	struct engine_opts eo = {.n_ctx = MIN(n_tok, s->model->config.max_ctx),
				 .max_seqs = 1, .max_batch_tok = (int)a->chunk, .mtp = a->mtp};
	if (a->mtp && s->model->config.mtp == MTP_NONE) {
		options_failure("--mtp: %s has no MTP layer that halod runs", a->session.dir);
		return false;
	}
	if (!session_is_int8("lm-head", a->session.lm_head, "native", &bo.int8_head) ||
	    !session_is_int8("kv-type", a->session.kv_type, "auto", &eo.int8_kv))
		return false;
	if (!session_take_lora(&a->session, s, &eo))
		return false;
	enum status st = backend_create(&bo, &s->backend, fail);
	if (st == OK)
		st = engine_create(s->model, s->backend, &eo, &s->engine, fail);
	fail_default(fail, st);
	return st == OK;
}

static bool predict(const struct kernels_predict_args *a, struct prediction *p,
		    const int *prompts, int n_prompts, const int *widths, int n_widths)
{
	struct session s = {0};
	struct predict_prompt decode = {.n = (int)a->depth, .is_decode = true};
	int longest = (int)a->depth + (n_widths ? DRAFTED : 0) + a->mtp;
	for (int i = 0; i < n_prompts; i++)
		longest = MAX(longest, (int)a->behind + prompts[i]);
	const struct hip_api *api = null_hip_open(p->model.chip, p->model.code);
	bool is_tower = a->image || a->audio;
	bool good = is_tower ? run_tower(p, &s, api)
			     : open_session(a, api, longest + 1, &s, &p->fail);
	if (good && !is_tower) {
		struct hip *h = hip_of(s.backend);
		h->on_launch = on_launch;
		h->on_launch_ctx = p;
		good = run_prompt(p, &s, &decode);
		for (int i = 0; i < n_widths && good; i++) {
			decode.n_draft = widths[i] - 1;
			good = run_prompt(p, &s, &decode);
		}
		for (int i = 0; i < n_prompts && good; i++)
			good = run_prompt(p, &s, &(struct predict_prompt){
				.n_before = (int)a->behind, .n = prompts[i]});
		h->on_launch = NULL;
	}
	session_close(&s);
	null_hip_close();
	return good;
}

/* This build's code object for the chip, malloc'ed; NULL if it has none. */
static char *code_for(const char *chip)
{
	char *all = chip_code_of_build(), *found = NULL;
	char *name = xasprintf("/%s.hsaco", chip);
	for (const char *p = all; *p && !found;) {
		size_t n = strcspn(p, ",");
		if (n > strlen(name) && strncmp(p + n - strlen(name), name, strlen(name)) == 0)
			found = xstrndup(p, n);
		p += n + (p[n] == ',');
	}
	free(name);
	free(all);
	return found;
}

static int predict_model(const struct option_set *set, const struct kernels_predict_args *a,
			 const char *code, const int *prompts, int n_prompts, const int *widths,
			 int n_widths)
{
	struct codeobject object;
	struct prediction p = {.args = a};
	if (codeobject_open(code, &object, &p.fail) != OK)
		return options_failure("%s", p.fail.text);
	p.model = (struct cost_model){
		.chip = chip_find(a->chip), .more = cost_chip_find(a->chip), .code = &object,
		.path = code, .cache = walk_cache_create(a->objdump), .read = null_hip_read};
	bool good = predict(a, &p, prompts, n_prompts, widths, n_widths);
	if (p.fail.code != OK)
		options_failure("%s", p.fail.text);
	walk_cache_destroy(p.model.cache);
	codeobject_deinit(&object);
	free(p.known);
	free(p.row);
	return good ? EXIT_OK : EXIT_FAILED;
}

int cmd_kernels_predict(int argc, char **argv)
{
	struct kernels_predict_args a = {.session = SESSION_DEFAULTS, .chip = "gfx1151",
					 .prompts = "128,4096", .widths = "", .depth = 128,
					 .chunk = 2048};
	const struct option_row rows[] = {
		MODEL_OPTION(a.session.dir),
		{"chip", 0, OPTION_TEXT, &a.chip, 0, 0, "NAME", "gfx1151 or gfx1100 (gfx1151)"},
		{"depth", 'd', OPTION_INT, &a.depth, 1, 1 << 20, "N",
		 "tokens before the decoded one (128)"},
		{"prompt-tokens", 'p', OPTION_TEXT, &a.prompts, 0, 0, "N,…",
		 "prompts to read (128,4096)"},
		{"widths", 'w', OPTION_TEXT, &a.widths, 0, 0, "N,…",
		 "also decode steps of N tokens of one sequence, all but one of them draft tokens"},
		{"behind", 'b', OPTION_INT, &a.behind, 0, 1 << 20, "N",
		 "tokens in the cache before each prompt (0)"},
		{"chunk", 0, OPTION_INT, &a.chunk, 1, 1 << 16, "N",
		 "tokens of a prompt in one step, as max_batch_tokens (2048)"},
		{"mtp", 0, OPTION_FLAG, &a.mtp, 0, 0, NULL,
		 "with the MTP layer's part of each step, and its draft of a token"},
		{"image", 'i', OPTION_INT, &a.image, 1, 1 << 14, "N",
		 "not the text: an image of N x N pixels in the model's vision tower"},
		{"audio", 'a', OPTION_INT, &a.audio, 1, 1 << 12, "S",
		 "not the text: audio of S seconds in the model's audio tower"},
		{"lm-head", 0, OPTION_TEXT, &a.session.lm_head, 0, 0, "FORMAT",
		 "the output head: native, or int8 with a scale a row (native)"},
		{"kv-type", 0, OPTION_TEXT, &a.session.kv_type, 0, 0, "TYPE",
		 "keys and values: auto, or int8 with a scale a token and head (auto)"},
		{"lora", 0, OPTION_TEXT, &a.session.lora, 0, 0, "PATH",
		 "with a LoRA adapter: a PEFT folder or a GGUF file"},
		{"launches", 'l', OPTION_FLAG, &a.launches, 0, 0, NULL, "each launch, too"},
		{"json", 'j', OPTION_FLAG, &a.json, 0, 0, NULL,
		 "an object per step, and with --launches per launch"},
		{"code", 'c', OPTION_TEXT, &a.code, 0, 0, "FILE",
		 "code object (that of this build)"},
		{"objdump", 0, OPTION_TEXT, &a.objdump, 0, 0, "FILE",
		 "llvm-objdump to take (the first of PATH)"},
		{"hip-kernels", 0, OPTION_TEXT, &a.session.hip_kernels, 0, 0, "DIR",
		 "where the code objects are"},
	};
	struct option_set set = {"kernels predict",
				 "How long a decode step and prompts of a model, an image or audio "
				 "may take on a chip,\npredicted from the instructions of the "
				 "kernels and published figures of the chip. Needs no GPU and no\n"
				 "HIP runtime.", rows, ARRAY_LEN(rows)};
	int rc, prompts[MAX_PROMPTS], widths[MAX_PROMPTS];
	if (!options_parse(&set, argc, argv, &rc))
		return rc;
	if (!a.session.dir)
		return options_fault(&set, "--model is needed");
	if (!cost_chip_find(a.chip) || !chip_find(a.chip))
		return options_fault(&set, "--chip: gfx1151 or gfx1100, not %s", a.chip);
	if (a.image && a.audio)
		return options_fault(&set, "--image and --audio: one tower is predicted at a time");
	if (a.session.lora && (a.image || a.audio))
		return options_fault(&set, "--lora: a tower has no adapters; leave it out with "
				     "--image and --audio");
	int n_prompts = read_prompts(a.prompts, prompts);
	if (n_prompts < 0)
		return options_fault(&set, "--prompt-tokens: numbers with commas between");
	int n_widths = read_prompts(a.widths, widths);
	for (int i = 0; i < n_widths; i++)
		if (widths[i] > DRAFTED)
			n_widths = -1;
	if (n_widths < 0)
		return options_fault(&set, "--widths: numbers of up to %d with commas between",
				     DRAFTED);
	char *code = a.code ? xstrdup(a.code) : code_for(a.chip);
	if (!code)
		return options_fault(&set, "--code is needed: this build has no code objects");
	rc = predict_model(&set, &a, code, prompts, n_prompts, widths, n_widths);
	free(code);
	return rc;
}
