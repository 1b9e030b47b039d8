/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of world_fault, for every scenario:
 *   - each accepted request got exactly one last event, and events in order:
 *     started, progress that grows, deltas, one end a choice, the last one
 *   - no page is held any more, nothing is counted as running or waiting
 *   - what was generated is what the same request gets alone on an empty engine
 *     with endless pages: neither batch, chunks, preemption, forks nor the prefix
 *     cache show in the tokens and text. A request that was ended from outside has
 *     a beginning of that.
 *   - stats and metrics agree with the tokens seen
 */
#include "tests/sim/world.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/metrics.h"
#include "engine/engine_disk.h"
#include "engine/engine_fetch.h"
#include "engine/engine_private.h"
#include "sched/sched_private.h"

#define TURNS_MAX 200000

static void open_disk(struct world *w)
{
	struct fail f = {0};
	if (!w->dir[0]) {
		snprintf(w->dir, sizeof w->dir, "/tmp/halod-sim-XXXXXX");
		if (!mkdtemp(w->dir))
			abort();
	}
	if (engine_disk_open(w->engine, w->dir, (int64_t)w->o.disk << 10, STR("sim\n"), &f) != OK) {
		printf("Bail out! %s\n", f.text);
		abort();
	}
}

static const struct logits_top *no_top(void *ctx)
{
	return NULL; /* its logits are on the host */
}

static void create(struct world *w)
{
	const struct world_opts *o = &w->o;
	struct engine_graph g = fake_graph(&w->fake, o->ctx);
	struct engine_opts eo = {.page_size = o->page, .max_seqs = o->seqs,
				 .max_batch_tok = o->batch,
				 .prefix_cache = o->prefix, .checkpoint_every = 16};
	if (engine_create_with(&g, &eo, o->pages, &w->engine) != OK)
		abort();
	struct engine_graph beside = fake_graph(&w->drafter, o->ctx);
	beside.n_out = beside.n_vocab;
	beside.top = no_top;
	if (o->drafter >= 2)
		w->engine->beside = draft_model_create(&beside, o->pages, o->batch);
	struct sched_opts so = {
		.engine = w->engine, .tokenizer = w->tokenizer,
		.clock = &w->clock, .health = &w->health,
		.max_queue = o->queue, .max_queue_tok = o->queue_tok,
		.max_wait_us = o->max_wait_us, .prefill_chunk = o->chunk,
		.step_target_us = o->target_us,
		.draft = (enum sched_draft)o->draft};
	if (o->disk && o->prefix)
		open_disk(w);
	w->sched = sched_create(&so);
}

void world_init(struct world *w, const struct world_opts *o)
{
	*w = (struct world){.o = *o};
	fake_init(&w->fake, o->pages, o->page);
	w->fake.cost_step_us = o->step_us;
	w->fake.cost_token_us = o->token_us;
	w->fake.cost_read_us = o->read_us;
	w->fake.cost_copy_us = o->copy_us;
	w->fake.n_states = o->states;
	w->fake.has_drafter = o->drafter == 1;
	fake_init(&w->drafter, o->pages, o->page);
	w->drafter.cost_step_us = o->step_us / 8;
	w->drafter.cost_token_us = o->token_us / 8;
	w->drafter.beside = &w->fake;
	w->drafter.n_fail = o->drafter > 2 ? INT_MAX : 0;
	w->drafter.has_drafter = o->drafter == 4;
	w->fake.page_pad = (size_t)o->pad << 10;
	w->fake.now_us = 1000; /* 0 means "did not happen" */
	w->clock = fake_clock(&w->fake);
	w->tokenizer = fake_tokenizer();
	atomic_store(&w->health.state, HEALTH_READY);
	create(w);
}

void world_restart(struct world *w)
{
	sched_destroy(w->sched);
	engine_destroy(w->engine);
	create(w);
}

static void remove_folder(const char *dir)
{
	char path[400];
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static void client_destroy(struct client *c)
{
	for (int i = 0; i < client_n_choices(c); i++) {
		ids_deinit(&c->choices[i].tokens);
		buf_deinit(&c->choices[i].text[0]);
		buf_deinit(&c->choices[i].text[1]);
	}
	for (int i = 0; i < c->spec.n_stops; i++)
		free(c->spec.stops[i]);
	free(c->spec.say);
	free(c->choices);
	request_unref(c->r);
	free(c);
}

void world_deinit(struct world *w)
{
	sched_destroy(w->sched);
	for (int i = 0; i < w->n_clients; i++)
		client_destroy(w->clients[i]);
	engine_destroy(w->engine);
	if (w->dir[0])
		remove_folder(w->dir);
	tokenizer_destroy(w->tokenizer);
	fake_deinit(&w->fake);
	fake_deinit(&w->drafter);
}

int client_n_choices(const struct client *c)
{
	return c->spec.prompts * c->spec.n;
}

int client_n_tokens(const struct client *c)
{
	int n = 0;
	for (int i = 0; i < client_n_choices(c); i++)
		n += (int)c->choices[i].tokens.n;
	return n;
}

struct client *world_find(struct world *w, const char *name)
{
	for (int i = 0; i < w->n_clients; i++)
		if (!strcmp(w->clients[i]->spec.name, name))
			return w->clients[i];
	return NULL;
}

/* --- in ------------------------------------------------------------------ */

static void fill_prompt(const struct client *c, int i_prompt, struct ids *out)
{
	const struct spec *sp = &c->spec;
	const char *whose = *sp->agent ? sp->agent : sp->name;
	uint64_t own = hash_bytes(2, whose, strlen(whose));
	uint64_t shared = hash_bytes(3, sp->share, strlen(sp->share));
	for (int i = 0; i < sp->prompt; i++) {
		if (i == 0 && sp->bad_token)
			ids_add(out, sp->bad_token);
		else if (i == sp->prompt - 1 && sp->say)
			ids_add(out, FAKE_SCRIPT_0 + c->i_script);
		else if (i < sp->share_tok)
			ids_add(out, fake_letter(shared, 0, (uint64_t)i));
		else
			ids_add(out, fake_letter(own, (uint64_t)i_prompt,
						 (uint64_t)i));
	}
}

static struct request *make_request(const struct client *c)
{
	static const int32_t eos[] = {FAKE_EOS};
	const struct spec *sp = &c->spec;
	struct request *r = request_create(sp->name);
	r->n = sp->n;
	r->n_prompts = sp->prompts;
	r->prompts = arena_alloc(&r->arena, (size_t)sp->prompts *
						    sizeof *r->prompts);
	for (int i = 0; i < sp->prompts; i++) {
		struct ids ids = {0};
		fill_prompt(c, i, &ids);
		r->prompts[i].n = ids.n;
		r->prompts[i].p = arena_alloc(&r->arena, ids.n * sizeof *ids.p);
		if (ids.n)
			memcpy(r->prompts[i].p, ids.p, ids.n * sizeof *ids.p);
		ids_deinit(&ids);
	}
	r->cache_space = arena_str(&r->arena, str_of(sp->salt));
	r->sampling = (struct sampler_params){
		.temperature = (float)sp->temp, .top_p = 1, .repetition_penalty = 1,
		.seed = (uint64_t)sp->seed, .n_top_logprobs = -1};
	r->max_tokens = sp->max;
	r->prompt_logprobs = sp->scores ? 2 : -1;
	r->min_tokens = sp->min;
	r->stop_ids = eos;
	r->n_stop_ids = 1;
	r->ignore_eos = sp->ignore_eos;
	struct str *stops = arena_alloc(&r->arena, sizeof *stops * STOPS_MAX);
	for (int i = 0; i < sp->n_stops; i++)
		stops[i] = arena_str(&r->arena, str_of(sp->stops[i]));
	r->parse = (struct outparse_opts){
		.stops = stops, .n_stops = sp->n_stops,
		.include_stop = sp->keep_stop, .split_reasoning = sp->think,
		.think_open = STR("<think>"), .think_close = STR("</think>")};
	r->priority = sp->background ? REQUEST_BACKGROUND : sp->priority;
	if (sp->budget > 0) {
		static const char close[] = "\n</think>\n\n";
		int32_t *ids = arena_alloc(&r->arena, sizeof close * sizeof *ids);
		for (size_t i = 0; i < sizeof close - 1; i++)
			ids[i] = (unsigned char)close[i];
		r->close_ids = ids;
		r->n_close_ids = sizeof close - 1;
		r->max_reasoning = sp->budget;
	}
	return r;
}

struct client *world_submit(struct world *w, const struct spec *spec)
{
	struct client *c = xcalloc(1, sizeof *c);
	if (w->n_clients == CLIENTS_MAX || w->n_scripts == FAKE_SCRIPTS)
		abort();
	w->clients[w->n_clients++] = c;
	c->w = w;
	c->spec = *spec;
	c->choices = xcalloc((size_t)client_n_choices(c), sizeof *c->choices);
	if (spec->say) {
		c->i_script = w->n_scripts++;
		w->fake.scripts[c->i_script] = spec->say;
	}
	struct request *r = make_request(c);
	r->arrival_us = w->fake.now_us;
	if (spec->deadline_us)
		r->deadline_us = r->arrival_us + spec->deadline_us;
	r->user = c;
	if (sched_submit(w->sched, r, &c->refused) == OK) {
		c->refused.code = OK;
		c->r = r;
	} else {
		request_unref(r);
		request_unref(r);
	}
	return c;
}

/* --- out ----------------------------------------------------------------- */

static void note_delta(struct client *c, struct client_choice *ch,
		       const struct event *e)
{
	int64_t now = c->w->fake.now_us;
	if (ch->is_done)
		c->fault = "text after the end of its choice";
	for (int i = 0; i < e->n_tokens; i++)
		ids_add(&ch->tokens, e->tokens[i].id);
	for (int i = 0; i < e->n_spans; i++)
		buf_add_str(&ch->text[e->spans[i].channel], e->spans[i].text);
	if (ch->last_us)
		ch->max_gap_us = MAX(ch->max_gap_us, now - ch->last_us);
	ch->last_us = now;
}

static void note_done(struct client *c, const struct event *e)
{
	c->stats = e->stats;
	for (int i = 0; i < client_n_choices(c); i++)
		if (!c->choices[i].is_done)
			c->fault = "done before all its choices";
	if (e->stats.n_output != client_n_tokens(c))
		c->fault = "stats.n_output is not the tokens seen";
	if (e->stats.n_prompt != c->spec.prompt * c->spec.prompts)
		c->fault = "stats.n_prompt is wrong";
	if (c->spec.scores && c->n_scored != (c->spec.prompt - 1) * c->spec.prompts)
		c->fault = "not every token of the prompts was scored once";
}

/* Tokens of a prompt come in order, each with its likelihood. */
static void note_scores(struct client *c, const struct event *e)
{
	const struct ids *p = &c->r->prompts[e->choice / c->r->n];
	for (int i = 0; i < e->n_tokens; i++) {
		int at = c->n_scored++ % (c->spec.prompt - 1) + 1;
		if (c->spec.prompts == 1 && e->tokens[i].id != p->p[at])
			c->fault = "the score of another token";
		if (!(e->tokens[i].logprob < 0) || e->tokens[i].rank < 1 ||
		    e->tokens[i].n_top != 2)
			c->fault = "a score that says nothing";
	}
}

static void note(struct client *c, const struct event *e)
{
	struct client_choice *ch = &c->choices[e->choice];
	bool is_last = e->kind == EVENT_DONE || e->kind == EVENT_FAILED;
	if (c->n_last)
		c->fault = "an event after the last";
	if (!c->i_started && e->kind != EVENT_STARTED && e->kind != EVENT_FAILED)
		c->fault = "an event before the start";
	c->n_last += is_last;
	switch (e->kind) {
	case EVENT_STARTED:
		if (c->i_started)
			c->fault = "started twice";
		c->i_started = ++c->w->n_started;
		return;
	case EVENT_PROGRESS:
		if (e->n_prefilled > c->spec.prompt)
			c->fault = "more progress than prompt";
		/* A preempted prefill begins again. */
		if (c->spec.prompts == 1 && c->r->stats.n_preempted == 0 &&
		    e->n_prefilled <= c->n_prefilled)
			c->fault = "progress that does not grow";
		c->n_prefilled = e->n_prefilled;
		return;
	case EVENT_SCORES:
		note_scores(c, e);
		return;
	case EVENT_DELTA:
		note_delta(c, ch, e);
		return;
	case EVENT_CHOICE_DONE:
		if (ch->is_done)
			c->fault = "a choice that ended twice";
		ch->is_done = true;
		ch->finish = e->finish;
		snprintf(ch->stop, sizeof ch->stop, "%s",
			 e->stop_string ? e->stop_string : "");
		return;
	case EVENT_DONE:
		note_done(c, e);
		return;
	case EVENT_FAILED:
		c->stats = e->stats;
		c->failed = e->fail;
		return;
	}
}

/* The disk works in real time, and the steps beside it do not. So each read ends before the next
 * step: else what the steps have done by then would be the machine's choice. */
static void let_reads_end(struct world *w)
{
	struct request *heads[] = {w->sched->active.head, w->sched->waiting.head};
	for (size_t k = 0; k < ARRAY_LEN(heads); k++)
		for (struct request *r = heads[k]; r; r = r->next)
			for (int i = 0; r->choices && i < request_n_choices(r); i++) {
				struct engine_fetch *f = r->choices[i].fetch;
				while (f && engine_fetch_step(w->engine, f) != ENGINE_FETCH_OVER)
					usleep(50);
			}
}

bool world_iterate(struct world *w)
{
	let_reads_end(w);
	struct request *r;
	bool did = sched_iterate(w->sched);
	while ((r = sched_next_ready(w->sched))) {
		struct event *e;
		while ((e = request_next_event(r))) {
			note(r->user, e);
			event_destroy(e);
		}
	}
	return did;
}

bool world_settle(struct world *w)
{
	for (int i = 0; i < TURNS_MAX; i++) {
		if (world_iterate(w))
			continue;
		/* kv_dir's two threads work in real time. */
		if (!w->dir[0] || (sched_is_idle(w->sched) &&
				   metric_get(METRIC_KV_DISK_QUEUED) == 0))
			return true;
		usleep(100);
	}
	return false;
}

/* --- rules --------------------------------------------------------------- */

static char fault_text[300];

static const char *fault_of(const struct client *c, const char *what)
{
	snprintf(fault_text, sizeof fault_text, "%s: %s", c->spec.name, what);
	return fault_text;
}

static bool is_beginning(struct str a, struct str of)
{
	return a.n <= of.n && (a.n == 0 || memcmp(a.p, of.p, a.n) == 0);
}

static const char *compare_choice(const struct client *c,
				  const struct client_choice *got,
				  const struct client_choice *alone)
{
	struct str a = {(const char *)got->tokens.p,
			got->tokens.n * sizeof(int32_t)};
	struct str b = {(const char *)alone->tokens.p,
			alone->tokens.n * sizeof(int32_t)};
	if (!is_beginning(a, b))
		return "other tokens than alone";
	for (int k = 0; k < 2; k++)
		if (!is_beginning(buf_str(&got->text[k]), buf_str(&alone->text[k])))
			return "other text than alone";
	if (!got->is_done || c->spec.may_be_cut)
		return NULL;
	if (!str_eq(a, b) || got->finish != alone->finish)
		return "ended elsewhere than alone";
	for (int k = 0; k < 2; k++)
		if (got->text[k].n != alone->text[k].n)
			return "less text than alone";
	return NULL;
}

static const char *compare_with_alone(const struct client *c)
{
	struct world w;
	struct world_opts o = c->w->o;
	int per_choice = o.ctx / o.page + 2;
	o.pages = per_choice * client_n_choices(c);
	o.seqs = MAX(o.seqs, client_n_choices(c));
	o.batch = MAX(o.batch, o.seqs + 1);
	o.prefix = 0;
	o.queue_tok = 0;
	o.max_wait_us = 0;
	o.disk = 0;
	world_init(&w, &o);

	struct spec spec = c->spec;
	spec.deadline_us = 0;
	spec.say = spec.say ? xstrdup(spec.say) : NULL;
	for (int i = 0; i < spec.n_stops; i++)
		spec.stops[i] = xstrdup(spec.stops[i]);
	const struct client *alone = world_submit(&w, &spec);
	const char *what = world_settle(&w) ? NULL : "alone it does not end";
	if (!what && alone->n_last != 1)
		what = "alone it does not end";
	for (int i = 0; !what && i < client_n_choices(c); i++)
		what = compare_choice(c, &c->choices[i], &alone->choices[i]);
	world_deinit(&w);
	return what;
}

static const char *metrics_fault(const struct world *w)
{
	int n_tok = 0, n_first = 0;
	for (int i = 0; i < w->n_clients; i++) {
		n_tok += client_n_tokens(w->clients[i]);
		n_first += client_n_tokens(w->clients[i]) > 0 && !w->clients[i]->spec.background;
	}
	if (metric_get(METRIC_GENERATION_TOKENS) != n_tok)
		return "generation_tokens_total is not the tokens seen";
	if (metric_get(METRIC_TTFT) != n_first)
		return "time_to_first_token has not one sample a request";
	if (metric_get(METRIC_KV_PAGES_USED) != 0)
		return "kv_pages_used is not 0";
	return NULL;
}

const char *world_fault(struct world *w)
{
	struct sched_counts counts;
	sched_counts(w->sched, &counts);
	const char *fault = metrics_fault(w);
	if (fault)
		return fault;
	if (engine_pages_free(w->engine) != engine_pages_total(w->engine))
		return "pages have leaked";
	if (counts.n_running || counts.n_waiting || counts.n_waiting_tok)
		return "counts are not back at zero";
	if (!sched_is_idle(w->sched))
		return "the scheduler is not idle";
	for (int i = 0; i < w->n_clients; i++) {
		const struct client *c = w->clients[i];
		if (c->refused.code != OK)
			continue;
		if (c->fault)
			return fault_of(c, c->fault);
		if (c->n_last != 1)
			return fault_of(c, "not exactly one last event");
	}
	/* Last: these runs count in the metrics too. */
	for (int i = 0; i < w->n_clients; i++) {
		const struct client *c = w->clients[i];
		if (client_n_tokens(c) > 0 && (fault = compare_with_alone(c)))
			return fault_of(c, fault);
	}
	return NULL;
}
