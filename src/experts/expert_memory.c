/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/expert_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "experts/expert_ahead.h"
#include "experts/expert_depth.h"
#include "experts/expert_slots.h"

#define USE_MAGIC "halodeu2"
#define HUGE_PAGE ((size_t)2 << 20)
enum { N_WAKES = 255, MAX_AHEAD = 64 };

struct expert_memory {
	struct expert_store store;
	struct expert_slots *slots;
	struct expert_reader *reader;
	struct expert_read *reads; /* (n_slots) the last read into each slot */
	uint8_t *p;                /* (n_slots, slot_bytes) */
	size_t slot_bytes, map_bytes;
	uint8_t *map;
	int32_t n_slots, n_held;
	struct expert_device device; /* n_stages 0: no device, and `p` holds the slots */
	int32_t *stage_of;         /* (n_slots) the stage that holds the slot's expert; -1: none */
	int32_t *free_stages;      /* (n_stages) ring of free stages: the one left longest ago
				    * comes first */
	int32_t first_free, n_free;
	char *use_path;
	struct expert_memory_stats stats;
	struct expert_ahead policy; /* decides whether to read ahead */
	bool was_asked;            /* true: a prediction was possible in this step */
	struct expert_memory_stats before; /* the counts when this step began */
	int32_t predicted[MAX_AHEAD]; /* (n_predicted) experts that were not in memory */
	int32_t ahead[MAX_AHEAD];  /* (n_ahead) experts held because they are being read ahead */
	int n_predicted, n_ahead;
	int n_predicted_read;      /* the first so many of `predicted` are read ahead */
	int64_t wake_ns[N_WAKES];  /* ring: time from an expert's last byte until the thread that
				    * waited ran */
	uint64_t n_wakes;
	char note[300];
};

/* --- the use of experts, for the next start ----------------------------------------- */

struct use_head {
	char magic[8];
	uint64_t n, key, sum; /* key: of the store's entries; sum: of the scores */
};

/* Scores of the last run, malloc'ed; NULL: there is no valid file for this store. */
static float *read_use(const struct expert_memory *m)
{
	struct buf b = {0};
	struct use_head h;
	size_t n = (size_t)m->store.n * sizeof(float);
	float *scores = NULL;
	if (!m->use_path || file_read(m->use_path, sizeof h + n, &b, NULL) != OK ||
	    b.n != sizeof h + n)
		goto out;
	memcpy(&h, b.p, sizeof h);
	if (memcmp(h.magic, USE_MAGIC, sizeof h.magic) != 0 || h.n != (uint64_t)m->store.n ||
	    h.key != expert_store_key(&m->store) || h.sum != hash_bytes(0, b.p + sizeof h, n))
		goto out;
	scores = xmalloc(n + 1);
	memcpy(scores, b.p + sizeof h, n);
out:
	buf_deinit(&b);
	return scores;
}

/* Writes the scores. They only save time at the next start, so a failure is only logged. */
static void write_use(const struct expert_memory *m)
{
	size_t n = (size_t)m->store.n * sizeof(float);
	struct use_head h = {.n = (uint64_t)m->store.n,
			     .key = expert_store_key(&m->store)};
	float *scores = xmalloc(n + 1);
	struct buf b = {0};
	memcpy(h.magic, USE_MAGIC, sizeof h.magic);
	expert_slots_scores(m->slots, scores);
	h.sum = hash_bytes(0, scores, n);
	buf_add(&b, (const char *)&h, sizeof h);
	buf_add(&b, (const char *)scores, n);
	if (!expert_store_keep(m->use_path, buf_str(&b)))
		log_warn("%s is not written: the next start reads no experts ahead",
			 m->use_path);
	buf_deinit(&b);
	free(scores);
}

/* --- a step ------------------------------------------------------------------------- */

static struct expert_read *read_of(const struct expert_memory *m, int32_t e)
{
	return &m->reads[expert_slots_find(m->slots, e)];
}

static bool is_in(const int32_t *list, int n, int32_t e)
{
	for (int i = 0; i < n; i++)
		if (list[i] == e)
			return true;
	return false;
}

/* Counts how many of the predicted experts are among those used, e[0 .. n). */
static void judge_prediction(struct expert_memory *m, const int32_t *e, int32_t n)
{
	int32_t n_right = 0;
	for (int32_t i = 0; i < n && m->n_predicted; i++) {
		n_right += is_in(m->predicted, m->n_predicted, e[i]);
		if (is_in(m->predicted, m->n_predicted_read, e[i])) {
			m->stats.n_ahead_used++;
			metric_add(METRIC_EXPERT_AHEAD_USED, 1);
		}
	}
	expert_ahead_count(&m->policy, m->n_predicted, n_right);
	m->n_predicted = m->n_predicted_read = 0;
}

void expert_memory_use(struct expert_memory *m, const int32_t *e, int32_t n,
		       bool begins_step)
{
	int32_t n_hits = 0;
	if (begins_step) {
		expert_slots_step(m->slots);
		if (m->was_asked)
			expert_ahead_step(&m->policy, m->stats.wait_s - m->before.wait_s,
					  (int64_t)(m->stats.n_hits + m->stats.n_misses -
						    m->before.n_hits - m->before.n_misses));
		m->was_asked = false;
		m->before = m->stats;
	}
	judge_prediction(m, e, n);
	for (int32_t i = 0; i < n; i++) {
		expert_slots_use(m->slots, e[i]);
		n_hits += expert_slots_find(m->slots, e[i]) >= 0;
	}
	m->stats.n_hits += (uint64_t)n_hits;
	m->stats.n_misses += (uint64_t)(n - n_hits);
	metric_add(METRIC_EXPERT_HITS, n_hits);
	metric_add(METRIC_EXPERT_MISSES, n - n_hits);
}

/* --- stages of a device --------------------------------------------------------------- */

static int32_t take_stage(struct expert_memory *m)
{
	int32_t i = m->free_stages[m->first_free];
	m->first_free = (m->first_free + 1) % m->device.n_stages;
	m->n_free--;
	m->device.wait(m->device.ctx, i);
	return i;
}

/* Frees the stage of the slot's expert, if it has one. */
static void leave_stage(struct expert_memory *m, int32_t slot)
{
	if (m->device.n_stages == 0 || m->stage_of[slot] < 0)
		return;
	m->free_stages[(m->first_free + m->n_free++) % m->device.n_stages] =
		m->stage_of[slot];
	m->stage_of[slot] = -1;
}

/* Begins the copy of expert e, which has been read, to its slot, unless the copy has begun
 * already. */
static enum status expert_memory_put(struct expert_memory *m, int32_t e, struct fail *fail)
{
	int32_t slot = expert_slots_find(m->slots, e);
	if (m->device.n_stages == 0 || m->stage_of[slot] < 0)
		return OK;
	enum status st = m->device.put(m->device.ctx, e, slot, m->stage_of[slot],
				       m->reads[slot].n, fail);
	if (st == OK)
		leave_stage(m, slot);
	return st;
}

/* How many of e[0 .. n), from the first on, are in memory or find a free stage. */
static int32_t staged(const struct expert_memory *m, const int32_t *e, int32_t n)
{
	int32_t i = 0, n_left = m->n_free;
	for (; m->device.n_stages && i < n; i++)
		if (expert_slots_find(m->slots, e[i]) < 0 && n_left-- == 0)
			return i;
	return n;
}

/* --- asking ------------------------------------------------------------------------- */

/* Ends the hold of ahead[i], whose read is done. If the read failed, the expert's slot becomes
 * empty. */
static void settle(struct expert_memory *m, int i)
{
	int32_t e = m->ahead[i], slot = expert_slots_find(m->slots, e);
	bool is_good = expert_memory_is_there(m, e) && expert_memory_put(m, e, NULL) == OK;
	leave_stage(m, slot);
	if (is_good)
		expert_slots_release(m->slots, e);
	else
		expert_slots_drop(m->slots, e);
	m->ahead[i] = m->ahead[--m->n_ahead];
	m->n_held--;
}

/* Settles the experts read ahead whose reads are done; waits: waits for all of them first. */
static void settle_all(struct expert_memory *m, bool waits)
{
	for (int i = m->n_ahead - 1; i >= 0; i--) {
		struct expert_read *x = read_of(m, m->ahead[i]);
		if (waits)
			expert_reader_wait(m->reader, x);
		if (expert_read_is_done(x))
			settle(m, i);
	}
}

/* How many of e[0 .. n) can be held and read now. If one of them is held because it was read
 * ahead, that hold ends: the caller takes its own. */
static int32_t count_available(struct expert_memory *m, const int32_t *e, int32_t n)
{
	settle_all(m, false);
	for (int i = m->n_ahead - 1; i >= 0; i--) {
		if (!is_in(e, n, m->ahead[i]))
			continue;
		expert_slots_release(m->slots, m->ahead[i]);
		m->ahead[i] = m->ahead[--m->n_ahead];
		m->n_held--;
	}
	return staged(m, e, MIN(n, m->n_slots - m->n_held));
}

struct reads {
	struct expert_read *x[EXPERT_READ_MAX_DEPTH];
	int n;
};

static void submit(struct expert_memory *m, struct reads *r)
{
	expert_reader_submit(m->reader, r->x, r->n);
	r->n = 0;
}

/* Adds the read of expert e into its new slot to the list. */
static void add_read(struct expert_memory *m, struct reads *r, int32_t e, int32_t slot)
{
	const struct expert_entry *entry = &m->store.entries[e];
	struct expert_read *x = &m->reads[slot];
	size_t place = (size_t)slot;
	if (m->device.n_stages)
		place = (size_t)(m->stage_of[slot] = take_stage(m));
	x->to = m->p + place * m->slot_bytes;
	x->at = entry->at;
	x->n = entry->n_bytes;
	x->sum = entry->sum;
	m->stats.n_bytes += entry->n_bytes;
	metric_add(METRIC_EXPERT_READ_BYTES, (double)entry->n_bytes);
	r->x[r->n++] = x;
	if (r->n == ARRAY_LEN(r->x))
		submit(m, r);
}

int32_t expert_memory_ask(struct expert_memory *m, const int32_t *e, int32_t n, int32_t most)
{
	struct reads reads = {.n = 0};
	struct expert_take take;
	n = MIN(n, most);
	int32_t room = count_available(m, e, n);
	if (room < n && m->n_ahead) { /* experts read ahead must not take a step's room */
		settle_all(m, true);
		room = count_available(m, e, n);
	}
	m->n_held += n = room;
	for (int32_t i = 0; i < n; i++) /* hold those in memory first: they must not leave for
					 * the others */
		if (expert_slots_find(m->slots, e[i]) >= 0)
			expert_slots_take(m->slots, e[i], &take);
	for (int32_t i = 0; i < n && expert_slots_take(m->slots, e[i], &take); i++)
		if (!take.is_hit)
			add_read(m, &reads, e[i], take.slot);
	submit(m, &reads);
	return n;
}

/* --- reading ahead ------------------------------------------------------------------ */

bool expert_memory_wants(struct expert_memory *m)
{
	m->was_asked = true;
	return expert_ahead_wants(&m->policy);
}

void expert_memory_prefetch(struct expert_memory *m, const int32_t *e, int32_t n)
{
	struct reads reads = {.n = 0};
	struct expert_take take;
	int most = MIN(m->n_slots / 4, MAX_AHEAD);
	m->n_predicted = m->n_predicted_read = 0;
	for (int32_t i = 0; i < n && m->n_predicted < MAX_AHEAD; i++)
		if (expert_slots_find(m->slots, e[i]) < 0 &&
		    !is_in(m->predicted, m->n_predicted, e[i]))
			m->predicted[m->n_predicted++] = e[i];
	if (!expert_ahead_pays(&m->policy))
		return;
	settle_all(m, false);
	for (int i = 0; i < m->n_predicted && m->n_ahead < most; i++) {
		/* keep half of the stages for experts that are asked for */
		bool has_stage = !m->device.n_stages || m->n_free > m->device.n_stages / 2;
		if (!has_stage || !expert_slots_take(m->slots, m->predicted[i], &take))
			break;
		m->ahead[m->n_ahead++] = m->predicted[i];
		m->n_predicted_read++;
		m->n_held++;
		m->stats.n_ahead++;
		metric_add(METRIC_EXPERT_AHEAD, 1);
		add_read(m, &reads, m->predicted[i], take.slot);
	}
	submit(m, &reads);
}

/* --- waiting ------------------------------------------------------------------------ */

bool expert_memory_has(const struct expert_memory *m, int32_t e)
{
	int32_t slot = expert_slots_find(m->slots, e);
	return slot >= 0 && expert_memory_is_there(m, e);
}

bool expert_memory_is_there(const struct expert_memory *m, int32_t e)
{
	return atomic_load_explicit(&read_of(m, e)->state, memory_order_acquire) ==
	       EXPERT_READ_GOOD;
}

/* Logs the fault with the file's name, and fails with a text without it, because clients read
 * that. */
static enum status failed(struct expert_memory *m, const struct expert_read *x, int32_t e,
			  struct fail *fail)
{
	const char *why = expert_read_fault(x);
	log_error("%s: expert %d, %zu bytes at %llu: %s. Remove the file and restart halod, "
		  "which then makes it anew", m->store.path, e, x->n,
		  (unsigned long long)x->at, why);
	metric_add(METRIC_EXPERT_READ_ERRORS, 1);
	return fail_set(fail, E_IO, "an expert of the model could not be read from the disk: "
			"%s", why);
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void note_wake(struct expert_memory *m, int64_t ns)
{
	m->wake_ns[m->n_wakes++ % N_WAKES] = ns;
	if (m->n_wakes % N_WAKES)
		return;
	qsort(m->wake_ns, N_WAKES, sizeof *m->wake_ns, compare_ns);
	metric_set(METRIC_EXPERT_WAKE_SECONDS, (double)m->wake_ns[N_WAKES / 2] * 1e-9);
}

enum status expert_memory_wait(struct expert_memory *m, int32_t e, struct fail *fail)
{
	struct expert_read *x = read_of(m, e);
	if (!expert_read_is_done(x)) {
		int64_t begin = clock_monotonic_ns();
		expert_reader_wait(m->reader, x);
		int64_t end = clock_monotonic_ns();
		double s = (double)(end - begin) * 1e-9;
		if (x->last_ns > begin)
			note_wake(m, end - x->last_ns);
		m->stats.wait_s += s;
		metric_add(METRIC_EXPERT_WAIT_SECONDS, s);
	}
	return expert_memory_is_there(m, e) ? expert_memory_put(m, e, fail) : failed(m, x, e, fail);
}

const uint8_t *expert_memory_at(const struct expert_memory *m, int32_t e)
{
	return read_of(m, e)->to;
}

void expert_memory_release(struct expert_memory *m, const int32_t *e, int32_t n)
{
	m->n_held -= n;
	for (int32_t i = 0; i < n; i++) {
		int32_t slot = expert_slots_find(m->slots, e[i]);
		expert_reader_wait(m->reader, &m->reads[slot]);
		/* An expert still in a stage was not waited for, because another fault came
		 * first. */
		bool is_there = expert_memory_is_there(m, e[i]) &&
				(m->device.n_stages == 0 || m->stage_of[slot] < 0);
		leave_stage(m, slot);
		if (is_there)
			expert_slots_release(m->slots, e[i]);
		else
			expert_slots_drop(m->slots, e[i]);
	}
}

void expert_memory_stats(const struct expert_memory *m, struct expert_memory_stats *out)
{
	*out = m->stats;
}

/* --- life --------------------------------------------------------------------------- */

/* Before the first step, reads the experts that were used most in the last run, or all in
 * order. */
static enum status read_first(struct expert_memory *m, int32_t *out_n, struct fail *fail)
{
	int32_t *list = xcalloc((size_t)m->n_slots, sizeof *list), n = m->n_slots;
	enum status st = OK;
	if (n == m->store.n)
		for (int32_t i = 0; i < n; i++)
			list[i] = i;
	else
		n = expert_slots_best(m->slots, list);
	for (int32_t at = 0, held; at < n && st == OK; at += held) {
		held = expert_memory_ask(m, list + at, n - at, n);
		for (int32_t i = 0; i < held && st == OK; i++)
			st = expert_memory_wait(m, list[at + i], fail);
		expert_memory_release(m, list + at, held);
	}
	*out_n = n;
	free(list);
	return st;
}

static void take_device(struct expert_memory *m, const struct expert_device *d)
{
	m->device = *d;
	m->p = d->stages;
	m->stage_of = xcalloc((size_t)m->n_slots, sizeof *m->stage_of);
	m->free_stages = xcalloc((size_t)d->n_stages, sizeof *m->free_stages);
	for (int32_t i = 0; i < m->n_slots; i++)
		m->stage_of[i] = -1;
	for (int32_t i = 0; i < d->n_stages; i++)
		m->free_stages[m->n_free++] = i;
}

/* Takes the memory for slots, from the beginning of a huge page on, so that few pages are
 * needed. */
static bool take_memory(struct expert_memory *m, const struct expert_device *device)
{
	if (device) {
		take_device(m, device);
		return true;
	}
	size_t n = (size_t)m->n_slots * m->slot_bytes;
	m->map_bytes = n + HUGE_PAGE;
	m->map = mmap(NULL, m->map_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->map == MAP_FAILED) {
		m->map = NULL;
		return false;
	}
	m->p = m->map + (size_t)(-(uintptr_t)m->map % HUGE_PAGE);
	madvise(m->p, n, MADV_HUGEPAGE); /* best effort */
	return true;
}

enum status expert_memory_create(struct expert_store *store,
				 const struct expert_memory_opts *o,
				 struct expert_memory **out, struct fail *fail)
{
	struct expert_memory *m = xcalloc(1, sizeof *m);
	m->store = *store;
	*store = (struct expert_store){.fd = -1};
	m->n_slots = o->n_slots;
	m->slot_bytes = o->slot_bytes;
	m->use_path = o->use_path ? xstrdup(o->use_path) : NULL;
	m->reads = xcalloc((size_t)o->n_slots, sizeof *m->reads);
	float *scores = read_use(m);
	m->slots = expert_slots_create(m->store.n, o->n_slots, scores);
	free(scores);
	enum status st = OK;
	int32_t n_ahead = 0;
	if (!take_memory(m, o->device)) {
		st = fail_set(fail, E_NOMEM, "no memory for %d experts of %zu bytes",
			      m->n_slots, m->slot_bytes);
	} else {
		struct expert_reader_opts reader = o->reader;
		reader.fd = m->store.fd;
		reader.is_direct = m->store.is_direct;
		reader.slots = m->p;
		reader.slot_bytes = m->slot_bytes;
		reader.slots_bytes = (size_t)(o->device ? o->device->n_stages : m->n_slots) *
				     m->slot_bytes;
		if (reader.depth == 0)
			expert_depth_find(&m->store, &reader, o->depth_path);
		m->reader = expert_reader_create(&reader);
		st = read_first(m, &n_ahead, fail);
	}
	if (st != OK) {
		free(m->use_path); /* nothing was learnt, so keep the old file */
		m->use_path = NULL;
		expert_memory_destroy(m);
		return st;
	}
	snprintf(m->note, sizeof m->note, "%d experts of %.2f MB in memory at a time, read by "
		 "%s%s; %d ahead", m->n_slots, (double)m->slot_bytes * 1e-6,
		 expert_reader_note(m->reader),
		 m->store.is_direct ? " past the page cache" : "", n_ahead);
	*out = m;
	return OK;
}

void expert_memory_destroy(struct expert_memory *m)
{
	if (!m)
		return;
	if (m->use_path)
		write_use(m);
	if (m->reader)
		settle_all(m, true);
	expert_reader_destroy(m->reader);
	expert_slots_destroy(m->slots);
	expert_store_close(&m->store);
	if (m->map)
		munmap(m->map, m->map_bytes);
	free(m->reads);
	free(m->stage_of);
	free(m->free_stages);
	free(m->use_path);
	free(m);
}

const char *expert_memory_note(const struct expert_memory *m)
{
	return m->note;
}

int32_t expert_memory_n_slots(const struct expert_memory *m)
{
	return m->n_slots;
}
