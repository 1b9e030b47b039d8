/* SPDX-License-Identifier: Apache-2.0
 *
 * One iteration of the engine: which choices start, what the step computes, what its results are.
 *
 *   admit      first in line first, as far as slots and pages go
 *   plan       a token for each stream, prompt tokens in what is left
 *   reserve    pages for those tokens; the last in order is preempted for them
 *   step       the model, once
 *   draw       a token for every history that is now wholly in the cache
 *
 * The line is: choices of active requests that have no pages (not yet started, or
 * preempted), by age; then the queue. Age is (request, choice). A lower priority number goes
 * before all of these, and takes the place of a choice with a higher one.
 *
 * n > 1: the choices of one prompt wait until the first of them has prefilled
 * it. Then they fork its sequence and draw their first token from the very same
 * logits, so the prompt is computed once. Their slots are promised meanwhile;
 * a choice that finds none after all starts later like any other, by the
 * prefix cache.
 *
 * A sequence that lacks a page while no other holds any has grown as far as this
 * cache goes. It ends with finish `length`: what it has said is worth more to its
 * client than an error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/profile.h"
#include "sched/sched_private.h"
#include "sched/share.h"

/* Limits of copying KV pages to the disk between steps. Streams wait for the copies, so
 * these go page by page, for at most COPY_SHARE of the steps' time. An iteration without a step
 * copies IDLE_COPY bytes. */
#define A_PAGE 1
#define COPY_SHARE 0.03
#define COPY_CREDIT_US 1000.0 /* most time saved up for copies, unless one step's share is more */
#define IDLE_COPY ((size_t)32 << 20)
#define BAD_STEPS_MAX 3 /* bad steps in a row: then the backend is broken, not a request */

void batch_init(struct sched *s)
{
	s->n_slots = policy_slots(engine_max_seqs(s->o.engine),
				  engine_max_batch_tok(s->o.engine));
	size_t n = (size_t)s->n_slots;
	s->run = xcalloc(n, sizeof *s->run);
	s->seqs = xcalloc(n, sizeof *s->seqs);
	s->n_tok = xcalloc(n, sizeof *s->n_tok);
	s->slices = xcalloc(n, sizeof *s->slices);
	s->sliced = xcalloc(n, sizeof *s->sliced);
	s->last = xcalloc(n, sizeof *s->last);
	s->available = xcalloc(n + 1, sizeof *s->available);
}

void batch_deinit(struct sched *s)
{
	free(s->run);
	free(s->seqs);
	free(s->n_tok);
	free(s->slices);
	free(s->sliced);
	free(s->last);
	free(s->available);
}

static int end_fetch(struct sched *s, struct sched_choice *c);

static void drop_seq(struct sched *s, struct sched_choice *c)
{
	engine_seq_destroy(s->o.engine, c->seq);
	c->seq = NULL;
	c->goes_on_reading = false;
}

void batch_drop(struct sched *s, struct sched_choice *c)
{
	end_fetch(s, c);
	drop_seq(s, c);
}

static void end_choice(struct sched *s, struct sched_choice *c)
{
	struct request *r = c->r;
	struct str stop = {0};
	int i = c->parse ? outparse_stop_index(c->parse) : -1;
	if (i >= 0 && c->finish == FINISH_STOP)
		stop = r->parse.stops[i];
	drop_seq(s, c);
	choice_set_state(c, CHOICE_DONE);
	emit_choice_done(&s->emit, r, c->index, c->finish, stop);
	choice_release(c); /* frees the sampler, which is as large as the vocabulary */
	if (++r->n_over == request_n_choices(r))
		sched_end_done(s, r);
}

/* --- admission ----------------------------------------------------------- */

/* The first choice of c's prompt. */
static struct sched_choice *lead_of(const struct sched_choice *c)
{
	return &c->r->choices[c->index - c->index % c->r->n];
}

/* Does c wait to fork from a lead that has not drawn its first token? */
static bool awaits_lead(const struct sched_choice *c)
{
	const struct sched_choice *lead = lead_of(c);
	return c != lead && c->state == CHOICE_QUEUED && lead->output.n == 0 &&
	       !choice_is_over(lead);
}

/* Fills run[] with all choices that hold pages, first those that go first. */
static void collect_running(struct sched *s)
{
	s->n_run = 0;
	for (struct request *r = s->active.head; r; r = r->next)
		for (int i = 0; i < request_n_choices(r) && !r->is_over; i++)
			if (choice_is_running(&r->choices[i]))
				s->run[s->n_run++] = &r->choices[i];
}

/* How many choices wait to fork from a lead that runs, and go before c. */
static int n_forks_before(const struct sched *s, const struct sched_choice *c)
{
	int n = 0;
	for (const struct request *r = s->active.head; r && r->priority <= c->r->priority;
	     r = r->next)
		for (int i = 0; i < request_n_choices(r) && !r->is_over; i++)
			n += awaits_lead(&r->choices[i]) &&
			     choice_is_running(lead_of(&r->choices[i]));
	return n;
}

/* The first choice of r that could start; NULL: r has none. Choices that wait for pages that
 * another computes are passed over. *io_n_promised counts the slots that are promised to them. */
static struct sched_choice *first_of(struct sched *s, struct request *r, int *io_n_promised)
{
	if (!r->is_over && !r->choices)
		r->choices = choices_create(r, engine_n_ctx(s->o.engine));
	int n = r->is_scheduled ? request_n_choices(r) : 1;
	for (int i = 0; i < n && !r->is_over; i++) {
		struct sched_choice *c = &r->choices[i];
		bool waits = !c->fetch && (c->state == CHOICE_QUEUED ||
					   c->state == CHOICE_PREEMPTED);
		if (!waits || awaits_lead(c))
			continue;
		if (!share_waits(s, c))
			return c;
		++*io_n_promised;
	}
	return NULL;
}

static struct sched_choice *first_in_line(struct sched *s, int *io_n_promised)
{
	struct sched_choice *c = NULL;
	struct request *active = s->active.head, *waiting = s->waiting.head;
	while (!c && (active || waiting)) {
		bool is_active = active &&
				 (!waiting || active->priority <= waiting->priority);
		struct request **next = is_active ? &active : &waiting;
		c = first_of(s, *next, io_n_promised);
		*next = (*next)->next;
	}
	return c;
}

/* Appends the text of some tokens of a history around the one at `at`. */
static void add_text(const struct sched *s, const int32_t *tokens, int n, int at,
		     struct buf *out)
{
	enum { BEFORE = 16, BEHIND = 16 };
	struct buf text = {0};
	int from = MAX(at - BEFORE, 0), to = MIN(at + BEHIND, n);
	tokenizer_decode(s->o.tokenizer, tokens + from, (size_t)MAX(to - from, 0), false, &text);
	buf_add_json(out, buf_str(&text));
	buf_deinit(&text);
}

static void log_miss(const struct sched *s, const struct sched_choice *c,
		     const struct engine_miss *m)
{
	const struct ids *prompt = choice_prompt(c);
	struct buf b = {0};
	buf_addf(&b, "request %s: prompt token %d of %d: %s", c->r->id, (int)m->miss.at,
		 (int)prompt->n, miss_name(m->miss.reason));
	if (m->miss.reason == MISS_DIFFERS) {
		buf_add_z(&b, "; it was ");
		add_text(s, m->other, m->n_other, m->miss.at, &b);
		buf_add_z(&b, " and is ");
		add_text(s, prompt->p, (int)prompt->n, m->miss.at, &b);
	}
	log_info("%.*s", (int)b.n, b.p);
	buf_deinit(&b);
}

/* Records why no more of the prompt was found in the cache. */
static void note_miss(struct sched *s, struct sched_choice *c, int n_cached)
{
	struct request_stats *stats = &c->r->stats;
	struct engine_miss m = {.miss = {MISS_OFF, 0}}; /* scored tokens must be computed */
	const struct engine_prompt p = choice_engine_prompt(c);
	if (!choice_scores(c))
		engine_seq_miss(s->o.engine, c->seq, &p, &m);
	metric_add_by(METRIC_PREFIX_MISSES, miss_name(m.miss.reason), 1);
	metric_add_by(METRIC_PREFIX_MISSED_TOKENS, miss_name(m.miss.reason),
		      (double)(p.n - n_cached));
	if (stats->miss.reason == MISS_NONE)
		stats->miss = m.miss;
	if (s->o.logs_misses && m.miss.reason != MISS_NONE)
		log_miss(s, c, &m);
}

static void count_start(struct sched *s, struct sched_choice *c, int n_cached)
{
	int n_prompt = (int)choice_prompt(c)->n;
	metric_add(METRIC_PREFIX_CACHE_QUERIES, n_prompt);
	metric_add(METRIC_PREFIX_CACHE_HITS, n_cached);
	if (c != lead_of(c))
		return;
	int n_disk = MIN(c->n_fetched, n_cached);
	note_miss(s, c, n_cached);
	c->r->stats.n_cached += n_cached;
	c->r->stats.n_disk += n_disk;
	metric_add(METRIC_PROMPT_TOKENS_DISK, n_disk);
	metric_add(METRIC_PROMPT_TOKENS, n_prompt);
	metric_add(METRIC_PROMPT_TOKENS_CACHED, n_cached);
}

static struct engine_prompt prompt_of(const struct sched_choice *c, struct ids *history)
{
	struct engine_prompt p = choice_engine_prompt(c);
	if (c->output.n > 0) {
		choice_history(c, history);
		p.tokens = history->p;
	}
	p.n = choice_scores(c) ? 1 : choice_length(c);
	return p;
}

/* Fills s->available with what c finds in the place of the last 0, 1, ... that run. Returns how
 * many these are: those that have a lower priority. */
static int count_behind(struct sched *s, const struct sched_choice *c)
{
	int n = 0;
	while (n < s->n_run && s->run[s->n_run - 1 - n]->r->priority > c->r->priority) {
		s->last[n] = s->run[s->n_run - 1 - n]->seq;
		n++;
	}
	engine_available(s->o.engine, s->last, n, s->available);
	return n;
}

/* Did c fail to start before, and is there no more room now than then? */
static bool is_blocked(struct sched *s, const struct sched_choice *c, int n_promised)
{
	if (s->blocked != c)
		return false;
	int n = count_behind(s, c);
	return s->available[n].pages <= s->blocked_available.pages &&
	       s->available[n].slots <= s->blocked_available.slots &&
	       s->n_run - n + n_promised >= s->blocked_n_run;
}

/* Begins to read what the disk has of c's history. True: c waits for it. c asks once for
 * each try to start, and only while fewer choices read than there are slots. */
static bool begin_fetch(struct sched *s, struct sched_choice *c, int64_t now_us)
{
	struct ids history = {0};
	if (c->has_asked_disk || s->n_fetching >= s->n_slots)
		return false;
	struct engine_prompt prompt = prompt_of(c, &history);
	c->fetch = engine_fetch_begin(s->o.engine, &prompt, &c->has_asked_disk);
	c->fetch_until_us = now_us + policy_patience(&s->prefill_cost, prompt.n);
	s->n_fetching += c->fetch != NULL;
	ids_deinit(&history);
	return c->fetch != NULL;
}

static int end_fetch(struct sched *s, struct sched_choice *c)
{
	s->n_fetching -= c->fetch != NULL;
	int n = engine_fetch_end(s->o.engine, c->fetch);
	c->fetch = NULL;
	return n;
}

/* Moves what has been read from the disk into the cache. A choice whose reading is
 * complete, or takes longer than computing would, is again in line to start. True:
 * something moved, so more may have been read meanwhile. */
static bool go_on_fetching(struct sched *s, struct request *r, int64_t now_us)
{
	bool did = false;
	for (; r && s->n_fetching > 0; r = r->next)
		for (int i = 0; r->choices && i < request_n_choices(r); i++) {
			struct sched_choice *c = &r->choices[i];
			if (!c->fetch)
				continue;
			enum engine_fetch_is is = engine_fetch_step(s->o.engine, c->fetch);
			bool is_on = is != ENGINE_FETCH_OVER;
			did |= is == ENGINE_FETCH_MOVED;
			if (is_on && now_us < c->fetch_until_us)
				continue;
			if (is_on)
				engine_fetch_give_up(s->o.engine, c->fetch);
			c->n_fetched = end_fetch(s, c);
		}
	return did;
}

/* Prompts being read from the disk hold pages. Gives these pages back; the choices ask the
 * disk again when there is room. False: no prompt was being read. */
static bool end_fetches(struct sched *s)
{
	bool has_ended = s->n_fetching > 0;
	struct request *heads[] = {s->active.head, s->waiting.head};
	for (size_t k = 0; k < ARRAY_LEN(heads); k++)
		for (struct request *r = heads[k]; r && s->n_fetching > 0; r = r->next)
			for (int i = 0; r->choices && i < request_n_choices(r); i++) {
				struct sched_choice *c = &r->choices[i];
				c->has_asked_disk &= !c->fetch;
				end_fetch(s, c);
			}
	return has_ended;
}

static void preempt(struct sched *s, struct sched_choice *c)
{
	drop_seq(s, c);
	choice_set_state(c, CHOICE_PREEMPTED);
	c->r->stats.n_preempted++;
	metric_add(METRIC_PREEMPTIONS, 1);
	log_debug("request %s: choice %d preempted at %d tokens", c->r->id,
		  c->index, choice_length(c));
}

/* A choice that may start now, or read its pages from the disk. */
struct newcomer {
	struct sched_choice *c;
	struct engine_seq *seq; /* with what the cache has of it */
	int n_need_tok, n_promised;
	bool reads;
};

/* Does it fit if the last n that run give way? */
static bool fits_without(const struct sched *s, const struct newcomer *w, int n)
{
	struct policy_capacity capacity = {
		.pages_free = s->available[n].pages,
		.page_size = engine_page_size(s->o.engine),
		.n_running = s->n_run - n + w->n_promised,
	};
	int growth = w->c->max_output - (int)w->c->output.n;
	if (w->reads && n < s->n_run) /* beside others: engine_fetch_begin leaves so many */
		capacity.n_running = engine_max_seqs(s->o.engine) + 1;
	else if (capacity.n_running >= s->n_slots || s->available[n].slots < 1)
		return false;
	return policy_admits(&capacity, w->n_need_tok, growth);
}

/* Has those behind the newcomer give up what it needs, the last first. If all of them are too few
 * none does, since their work would be lost for nothing. */
static bool take_places(struct sched *s, const struct newcomer *w)
{
	/* Counted after the sequence was made: pages that it shares are no longer free. */
	int most = count_behind(s, w->c), n = w->reads;
	while (n <= most && !fits_without(s, w, n))
		n++;
	if (n > most)
		return false;
	for (int i = 0; i < n; i++)
		preempt(s, s->run[--s->n_run]);
	return w->reads || engine_seq_reserve(s->o.engine, w->seq, w->n_need_tok) == OK;
}

/* Gives c its sequence, and pages for its whole history; or the room to read from the disk. False:
 * there are not enough. */
static bool take_pages(struct sched *s, struct newcomer *w)
{
	struct engine *e = s->o.engine;
	struct sched_choice *c = w->c;
	struct ids history = {0};
	int n_cached;
	struct engine_prompt prompt = prompt_of(c, &history);
	w->seq = engine_seq_create_in(e, &prompt, &n_cached);
	ids_deinit(&history);
	w->n_need_tok = choice_length(c) - n_cached;
	bool fits = take_places(s, w);
	if (!fits || w->reads) {
		engine_seq_destroy(e, w->seq);
		return fits;
	}
	c->seq = w->seq;
	if (c->output.n == 0 && c->state == CHOICE_QUEUED)
		count_start(s, c, n_cached);
	return true;
}

/* Ends a choice that does not fit though nothing runs: it would never fit. sched_submit
 * refuses such requests, so this should not happen; but waiting for ever would be worse. */
static void give_up(struct sched *s, struct sched_choice *c)
{
	struct fail f;
	fail_set(&f, E_NO_PAGES, "%d tokens do not fit into the KV cache",
		 choice_length(c));
	sched_end_failed(s, c->r, &f);
}

/* Starts c, or makes room for what the disk has of it. False: it has to wait. */
static bool batch_start(struct sched *s, struct sched_choice *c, int n_promised,
			int64_t now_us)
{
	/* reads: the disk may have some of it, and begin_fetch found no room for that. Waiting is
	 * better than computing it again. */
	struct newcomer w = {.c = c, .n_promised = n_promised,
			     .reads = !c->has_asked_disk && s->n_run > 0};
	int most = count_behind(s, c), n_run = s->n_run - most + n_promised;
	if (w.reads ? s->n_fetching >= s->n_slots : n_run >= s->n_slots)
		return false;
	const struct engine_available available = s->available[most];
	s->blocked = NULL;
	if (!take_pages(s, &w)) {
		c->has_asked_disk = false; /* again: memory may drop what it has now */
		s->blocked = c;
		s->blocked_available = available;
		s->blocked_n_run = n_run;
		return false;
	}
	if (w.reads)
		return true;
	if (!c->r->is_scheduled)
		sched_schedule(s, c->r, now_us);
	if (!c->sampler)
		choice_begin(c, s->o.tokenizer, s->vocab,
			     engine_n_vocab(s->o.engine));
	choice_set_state(c, CHOICE_PREFILL);
	c->start_no = ++s->n_starts;
	return true;
}

/* Does c wait because the background runs only where nothing else does? */
static bool is_held_back(const struct sched *s, const struct sched_choice *c)
{
	return request_is_background(c->r) && s->n_run > 0 &&
	       !request_is_background(s->run[0]->r);
}

static void admit(struct sched *s, int64_t now_us)
{
	struct sched_choice *c;
	for (;;) {
		int n_promised = 0;
		collect_running(s);
		c = first_in_line(s, &n_promised);
		if (!c || is_held_back(s, c))
			return;
		n_promised += n_forks_before(s, c);
		if (!is_blocked(s, c, n_promised) &&
		    (begin_fetch(s, c, now_us) || batch_start(s, c, n_promised, now_us)))
			continue;
		/* Choices that are being read from the disk hold pages until that ends. */
		if (s->n_run > 0 || s->n_fetching > 0)
			return;
		s->blocked = NULL;
		give_up(s, c);
	}
}

/* --- the step ------------------------------------------------------------ */

/* Cuts each prompt's tokens where no image is split. An image that comes next may use all
 * that is left of the step, even beyond the chunk. */
static void keep_images_whole(struct sched *s)
{
	int left = engine_max_batch_tok(s->o.engine);
	for (int i = 0; i < s->n_plan; i++)
		left -= s->n_tok[i];
	for (int i = 0; i < s->n_plan; i++) {
		int n = s->n_tok[i];
		if (s->run[i]->state == CHOICE_DECODE)
			continue;
		s->n_tok[i] = engine_seq_whole(s->o.engine, s->run[i]->seq, n, n + left);
		left += n - s->n_tok[i];
	}
}

/* All that run, or those before the background where there are any: it stands last. */
static int n_to_plan(const struct sched *s)
{
	int n = 0;
	while (n < s->n_run && !request_is_background(s->run[n]->r))
		n++;
	return n > 0 ? n : s->n_run;
}

static void plan_step(struct sched *s)
{
	struct policy_limits limits = {
		.max_batch_tok = engine_max_batch_tok(s->o.engine),
		.prefill_chunk = policy_chunk(s->o.prefill_chunk,
					      s->o.step_target_us,
					      &s->prefill_cost),
		.alone_chunk = policy_alone_chunk(engine_max_batch_tok(s->o.engine),
						  &s->prefill_cost),
	};
	s->n_plan = n_to_plan(s);
	for (int i = 0; i < s->n_plan; i++) {
		const struct sched_choice *c = s->run[i];
		int n_pending = choice_length(c) - engine_seq_length(c->seq);
		s->seqs[i].n_pending = engine_seq_cut(s->o.engine, c->seq, n_pending);
		s->seqs[i].is_decoding = c->state == CHOICE_DECODE;
	}
	policy_plan(&limits, s->seqs, s->n_plan, s->n_tok);
	keep_images_whole(s);
}

/* Reserves pages for the tokens of run[i]. Where there are none, the last choices are
 * preempted; a choice alone is ended. */
static void reserve_pages(struct sched *s, int i)
{
	struct sched_choice *c = s->run[i];
	for (;;) {
		enum status st = engine_seq_reserve(s->o.engine, c->seq,
						    s->n_tok[i]);
		if (st == OK)
			return;
		if (st != E_NO_PAGES) { /* a page could not be copied */
			struct fail f = {0};
			fail_default(&f, st);
			sched_end_failed(s, c->r, &f);
			return;
		}
		if (end_fetches(s))
			continue;
		int v = s->n_run - 1; /* the last choice, perhaps run[i] itself */
		if (v == 0) {         /* the only choice: nobody to preempt */
			choice_cut(c, &s->emit);
			end_choice(s, c);
			return;
		}
		s->n_run = v;
		if (choice_is_running(s->run[v]))
			preempt(s, s->run[v]);
		if (v == i)
			return;
	}
}

/* Makes slices for all planned choices that get pages. The first choices reserve first. */
static int make_slices(struct sched *s)
{
	int n = 0;
	for (int i = 0; i < s->n_plan; i++)
		if (s->n_tok[i] > 0 && choice_is_running(s->run[i]))
			reserve_pages(s, i);
	for (int i = 0; i < s->n_plan; i++) {
		if (s->n_tok[i] == 0 || !choice_is_running(s->run[i]))
			continue;
		s->sliced[n] = s->run[i];
		s->slices[n++] = choice_slice(s->run[i], s->n_tok[i]);
	}
	return n;
}

static void note_step(struct sched *s, bool is_bad, const char *why)
{
	s->n_bad_steps = is_bad ? s->n_bad_steps + 1 : 0;
	if (!is_bad)
		return;
	log_error("engine step failed (%d in a row): %s", s->n_bad_steps, why);
	if (s->n_bad_steps >= BAD_STEPS_MAX && s->o.health)
		atomic_store(&s->o.health->state, HEALTH_FAILED);
}

static void fail_step(struct sched *s, int n, struct fail *f, enum status st)
{
	fail_default(f, st);
	/* An unreadable file of experts fails only the requests that need those experts. */
	if (st == E_IO)
		log_error("engine step failed: %s", f->text);
	else
		note_step(s, true, f->text);
	for (int i = 0; i < n; i++)
		if (!s->sliced[i]->r->is_over)
			sched_end_failed(s, s->sliced[i]->r, f);
	/* After E_DEVICE every further step would fail, too. */
	if (st == E_DEVICE && s->o.health) {
		emit_flush(&s->emit);
		atomic_store(&s->o.health->is_device_lost, true);
		atomic_store(&s->o.health->state, HEALTH_FAILED);
	}
}

/* Tokens of a step: of prompts, and of streams with their drafts. */
struct step_size {
	int n_prefill, n_decode;
};

static struct step_size size_of(struct sched *s, int n)
{
	struct step_size size = {0, 0};
	s->n_draft = 0;
	for (int i = 0; i < n; i++) {
		*(s->sliced[i]->state == CHOICE_PREFILL ? &size.n_prefill
							: &size.n_decode) += s->slices[i].n;
		s->n_draft += s->slices[i].n_draft;
	}
	s->n_streams = size.n_decode - s->n_draft;
	return size;
}

/* Records how long a step took. With prompt tokens the whole time counts as their cost, so
 * policy_chunk aims at the whole step, decoding too. Otherwise it is the cost of so many
 * decode tokens. */
static void note_cost(struct sched *s, struct step_size size, int64_t us)
{
	if (size.n_prefill > 0)
		policy_cost_note(&s->prefill_cost, size.n_prefill, us);
	else
		(s->n_draft ? draft_cost_note : draft_cost_note_plain)(
			&s->decode_cost, size.n_decode, us + s->confirm_us);
}

/* --- the results of a step ------------------------------------------------- */

/* Records n tokens of one draw. They count as one gap since the choice's last token. */
static void note_tokens(struct sched_choice *c, int n, int64_t now_us)
{
	struct request_stats *st = &c->r->stats;
	bool has_reader = !request_is_background(c->r);
	metric_add(METRIC_GENERATION_TOKENS, n);
	if (c->last_token_us && has_reader)
		metric_observe(METRIC_ITL, (double)(now_us - c->last_token_us) * 1e-6);
	if (!st->first_token_us && has_reader) {
		metric_observe(METRIC_TTFT, (double)(now_us - st->arrival_us) * 1e-6);
		metric_observe(METRIC_PREFILL_TIME,
			       (double)(now_us - st->scheduled_us) * 1e-6);
	}
	if (!st->first_token_us)
		st->first_token_us = now_us;
	c->last_token_us = st->last_token_us = now_us;
}

static const char *why_no_token(const struct sched_choice *c, enum status st)
{
	if (st == E_BACKEND)
		return "the model's output is not a number";
	if (st == E_LIMIT)
		return "the grammar is too ambiguous to be followed";
	return guard_is_set(&c->guard) ? "the grammar leaves no token to choose here"
			  : "bias, penalties and bans leave no token to choose";
}

static void end_without_token(struct sched *s, struct sched_choice *c, enum status st)
{
	struct fail f = {0};
	/* Only logits that are no numbers count against the backend: a client must not be
	 * able to make the server unhealthy. */
	s->is_bad_step |= st == E_BACKEND;
	fail_set(&f, st, "%s", why_no_token(c, st));
	if (guard_is_set(&c->guard) && st != E_BACKEND)
		metric_add(METRIC_GRAMMAR_FAILURES, 1);
	sched_end_failed(s, c->r, &f);
}

static bool is_out_of_time(const struct request *r, int64_t now_us)
{
	return r->max_decode_us > 0 &&
	       now_us - r->stats.first_token_us > r->max_decode_us;
}

/* Compares an unverified draft token with the token that was drawn. */
static void note_idle_draft(struct sched *s, struct sched_choice *c, size_t n_before)
{
	if (c->has_idle_draft && c->output.n > n_before)
		draft_trust_note(&c->trust, &s->trust, c->draft_mark, 1,
				 c->output.p[n_before] == c->draft[1]);
	c->has_idle_draft = false;
}

static void note_draft(struct sched *s, struct sched_choice *c, int n, int n_right)
{
	char position[12];
	draft_trust_note(&c->trust, &s->trust, c->draft_mark, n, n_right);
	draft_account_note(&c->account, draft_paid(&s->decode_cost, s->n_streams, s->n_draft,
						   n, s->step_us + s->draft_us),
			   n_right);
	c->r->stats.n_drafted += n;
	c->r->stats.n_accepted += n_right;
	metric_add(METRIC_SPEC_DRAFTS, 1);
	metric_add(METRIC_SPEC_DRAFT_TOKENS, n);
	metric_add(METRIC_SPEC_ACCEPTED_TOKENS, n_right);
	for (int i = 0; i < n_right; i++) {
		snprintf(position, sizeof position, "%d", i);
		metric_add_by(METRIC_SPEC_ACCEPTED_BY_POS, position, 1);
	}
}

/* Draws from the choice's rows of logits: one token, or also the draft tokens that proved
 * right. The cache then holds the right ones. */
static enum status draw_tokens(struct sched *s, struct sched_choice *c,
			       const struct choice_row *row)
{
	int n = c->n_draft, n_right;
	size_t n_before = c->output.n;
	double delay = draft_delay(&s->decode_cost, s->n_streams, s->n_draft,
				   s->step_us + s->draft_us);
	if (n == 0) {
		enum status drawn = choice_draw(c, row, &s->emit);
		note_idle_draft(s, c, n_before);
		draft_account_note(&c->account, 0, 0);
		draft_late_note(&c->account, delay, 0);
		return drawn;
	}
	enum status st = choice_draw_drafted(c, *row, &s->emit, &n_right);
	int64_t begin_us = clock_now_us(s->o.clock);
	engine_seq_confirm(s->o.engine, c->seq, c->draft + 1, n_right);
	s->confirm_us += clock_now_us(s->o.clock) - begin_us;
	note_draft(s, c, n, n_right);
	draft_late_note(&c->account, delay, n_right);
	return st;
}

static void sample_choice(struct sched *s, struct sched_choice *c, const struct choice_row *row,
		 int64_t now_us)
{
	size_t n_before = c->output.n;
	if (c->r->no_output) {
		choice_cut(c, &s->emit);
	} else {
		enum status st = draw_tokens(s, c, row);
		if (st != OK) {
			end_without_token(s, c, st);
			return;
		}
		note_tokens(c, (int)(c->output.n - n_before), now_us);
		if (c->finish == FINISH_NONE && is_out_of_time(c->r, now_us))
			choice_cut(c, &s->emit);
	}
	if (c->state == CHOICE_PREFILL)
		choice_set_state(c, CHOICE_DECODE);
	if (c->finish != FINISH_NONE)
		end_choice(s, c);
}

/* A request with n > 1: the lead has computed the prompt, and its siblings take over the
 * lead's pages, as far as slots and free pages reach. Returns how many siblings began. */
static int fork_siblings(struct sched *s, struct sched_choice *lead)
{
	struct policy_capacity capacity = {.page_size = engine_page_size(s->o.engine)};
	int n = 0;
	for (; n + 1 < lead->r->n; n++) {
		struct sched_choice *c = lead + n + 1;
		capacity.n_running = s->n_run;
		capacity.pages_free = engine_pages_free(s->o.engine);
		/* Needs one page: a copy of the last page, which is shared. */
		if (c->state != CHOICE_QUEUED || s->n_run >= s->n_slots ||
		    !policy_admits(&capacity, 1, c->max_output) ||
		    engine_seq_fork(s->o.engine, lead->seq, &c->seq) != OK)
			break;
		s->n_run++;
		choice_begin(c, s->o.tokenizer, s->vocab,
			     engine_n_vocab(s->o.engine));
		choice_set_state(c, CHOICE_PREFILL);
		c->start_no = ++s->n_starts;
	}
	return n;
}

static void finish_slice(struct sched *s, int i, int64_t now_us)
{
	struct sched_choice *c = s->sliced[i];
	struct request *r = c->r;
	int n_prompt = (int)choice_prompt(c)->n;
	if (c->state == CHOICE_PREFILL && c->output.n == 0 && c == lead_of(c))
		emit_progress(&s->emit, r, c->index,
			      MIN(engine_seq_length(c->seq), n_prompt));
	int n_rows = s->slices[i].n_logits;
	if (n_rows == 0)
		return;
	if (c->state == CHOICE_PREFILL && choice_scores(c)) {
		const float *logits = engine_logits(s->o.engine, i);
		if (!logits || choice_score(c, logits, n_rows, engine_n_vocab(s->o.engine),
					    &s->emit) != OK) {
			end_without_token(s, c, E_BACKEND);
			return;
		}
	}
	if (engine_seq_length(c->seq) < choice_length(c))
		return;
	/* The last row; with a draft the first row, since the others stand behind draft
	 * tokens. */
	struct choice_row row = {s->o.engine, i, c->n_draft ? 0 : n_rows - 1};
	/* Fork before the lead draws: its first token may be its last. */
	int n_forks = 0;
	if (c->output.n == 0 && c == lead_of(c))
		n_forks = fork_siblings(s, c);
	for (int k = 0; k <= n_forks && !r->is_over; k++)
		sample_choice(s, c + k, &row, now_us);
}

/* Adds the step's share of time to the credit for copies to the disk. */
static void earn_copies(struct sched *s)
{
	double share = COPY_SHARE * (double)s->step_us;
	s->copy_credit_us = fmin(s->copy_credit_us + share, fmax(share, COPY_CREDIT_US));
}

void batch_copy(struct sched *s)
{
	bool has_more = true;
	while (has_more && s->copy_credit_us > 0) {
		int64_t begin_us = clock_now_us(s->o.clock);
		has_more = engine_disk_work(s->o.engine, A_PAGE);
		s->copy_credit_us -= (double)(clock_now_us(s->o.clock) - begin_us) + 1;
	}
}

bool batch_iterate(struct sched *s, int64_t now_us)
{
	struct fail f = {0};
	bool did = go_on_fetching(s, s->active.head, now_us);
	did |= go_on_fetching(s, s->waiting.head, now_us);
	int n_run = s->n_run;
	admit(s, now_us);
	collect_running(s);
	plan_step(s);
	int n = make_slices(s);
	if (n == 0)
		return engine_disk_work(s->o.engine, IDLE_COPY) || did || s->n_run > 0;
	drafters_add(s, n);
	/* Flush now: what EVENT_STARTED says of the request must not wait for the step. */
	emit_flush(&s->emit);
	if (s->n_run != n_run) /* nor what routers read of a step that may take seconds */
		sched_publish(s);

	int64_t begin_us = clock_now_us(s->o.clock);
	enum status st = engine_step(s->o.engine, s->slices, n, &f);
	if (st != OK) {
		fail_step(s, n, &f, st);
		return true;
	}
	drafters_note_step(s);
	s->is_bad_step = false;
	s->confirm_us = 0;
	now_us = clock_now_us(s->o.clock);
	struct step_size size = size_of(s, n);
	s->step_us = now_us - begin_us;
	for (int i = 0; i < n; i++)
		if (!s->sliced[i]->r->is_over)
			finish_slice(s, i, now_us);
	note_cost(s, size, now_us - begin_us);
	profile_add(s->o.profile, PROFILE_SAMPLING,
		    (double)(clock_now_us(s->o.clock) - now_us) * 1e-6);
	note_step(s, s->is_bad_step, "logits that are not numbers");
	earn_copies(s);
	return true;
}
