/* SPDX-License-Identifier: Apache-2.0 */
#include "sound/sound.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/alloc.h"
#include "engine/tower_home.h"
#include "sound/sound_gguf.h"
#include "sound/sound_tower.h"

struct sound {
	struct sound_config config;
	struct tower_home home;
	struct sound_tower *tower;
	struct tensors *mmproj; /* NULL: the tower is the model's */
	const struct tensors *tensors; /* the tower's, until it is loaded */
	size_t cache_bytes;
	struct lru *kept;           /* views by the hash of their clips */
	/* The tower runs the steps of clips in the order in which they ask, so clips take turns.
	 * Step `served` runs. */
	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint64_t n_asked, served;
};

static struct tower_view *make_view(const struct sound *s, int32_t n, const uint8_t *hash)
{
	struct tower_view *w = tower_view_new((size_t)n * (size_t)s->config.out_width);
	if (!w)
		return NULL;
	w->image = (struct engine_image){.n = n, .n_rows = 1, .n_cols = n, .is_sound = true,
					 .rows = w->rows};
	memcpy(w->image.hash, hash, sizeof w->image.hash);
	return w;
}

/* --- one clip ----------------------------------------------------------------------- */

/* The hash of a clip, which is no image's: their hashes are of fewer bytes. */
static enum status hash_clip(const struct sound *s, const struct sound_clip *c,
			     uint8_t out[32], struct fail *fail)
{
	gnutls_hash_hd_t h;
	size_t n = (size_t)s->config.n_mels * (size_t)c->n_frames;
	if (gnutls_hash_init(&h, GNUTLS_DIG_SHA256) != 0)
		return fail_set(fail, E_INTERNAL, "SHA-256 is not there");
	int bad = gnutls_hash(h, "sound of frames", 16);
	bad |= gnutls_hash(h, &c->n_frames, sizeof c->n_frames);
	bad |= gnutls_hash(h, c->mel, n * sizeof *c->mel);
	gnutls_hash_deinit(h, out);
	return bad ? fail_set(fail, E_INTERNAL, "SHA-256 failed") : OK;
}

/* --- a file ------------------------------------------------------------------------- */

enum status sound_file_of(struct str bytes, uint64_t owner, struct sound_file *out,
			  struct fail *fail)
{
	out->owner = owner;
	return gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes.p, bytes.n, out->hash) == 0
		       ? OK : fail_set(fail, E_INTERNAL, "SHA-256 is not there");
}

/* Notes and views are in one store: a note's key is longer. */
enum { NOTE_BYTES = 4 + 32 };

static struct lru_key note_key(const struct sound_file *f, char name[NOTE_BYTES])
{
	memcpy(name, "file", 4);
	memcpy(name + 4, f->hash, sizeof f->hash);
	return (struct lru_key){f->owner, {name, NOTE_BYTES}};
}

/* A note is a view without rows: it has the clip's hash and length. */
void sound_keep(struct sound *s, const struct sound_file *f, struct tower_view *w, int64_t us)
{
	char name[NOTE_BYTES];
	struct tower_view *note = tower_view_new(0);
	if (!note)
		return;
	note->us = us;
	memcpy(note->image.hash, w->image.hash, sizeof note->image.hash);
	tower_view_put(s->kept, note_key(f, name), note);
	tower_view_unref(note);
}

bool sound_recall(struct sound *s, const struct sound_file *f, struct tower_view **out,
		  int64_t *out_us)
{
	char name[NOTE_BYTES];
	struct tower_view *note;
	if (!tower_view_get(s->kept, note_key(f, name), &note))
		return false;
	const struct lru_key key = {f->owner, {(const char *)note->image.hash,
					       sizeof note->image.hash}};
	bool is_kept = tower_view_get(s->kept, key, out);
	*out_us = note->us;
	tower_view_unref(note);
	return is_kept;
}

static enum status check_clip(const struct sound *s, const struct sound_clip *c,
			      struct fail *fail)
{
	size_t n = (size_t)s->config.n_mels * (size_t)MAX(c->n_frames, 0);
	if (n == 0)
		return fail_set(fail, E_INVAL, "the sound is empty");
	if (s->config.is_conv1d && c->n_frames % s->config.chunk)
		return fail_set(fail, E_INVAL, "the sound has %d frames, no multiple of %d: it is "
				"filled up before", (int)c->n_frames, (int)s->config.chunk);
	for (size_t i = 0; i < n; i++)
		if (!isfinite(c->mel[i]))
			return fail_set(fail, E_INVAL, "the sound has numbers that are not "
					"finite");
	return OK;
}

/* A clip that is heard. */
struct hearing {
	struct lru_key key;
	struct tower_view *own;   /* whose rows the steps make */
	struct tower_view *found; /* another call made it meanwhile */
};

/* Runs one step of the tower, in turn. Who runs the last one keeps the view, before others take
 * their turn. */
static enum status step(struct sound *s, struct hearing *h, const struct sound_piece *p,
			struct fail *fail)
{
	size_t tok = (size_t)sound_config_tokens(&s->config, p->at);
	float *rows = h->own->rows + tok * (size_t)s->config.out_width;
	enum status st = OK;
	pthread_mutex_lock(&s->lock);
	uint64_t own = s->n_asked++;
	while (own != s->served)
		pthread_cond_wait(&s->turn, &s->lock);
	pthread_mutex_unlock(&s->lock);
	if (!tower_view_get(s->kept, h->key, &h->found))
		st = sound_tower_run(s->tower, p, rows, fail);
	if (st == OK && !h->found && p->n_frames - p->at <= sound_tower_step(s->tower))
		tower_view_put(s->kept, h->key, h->own);
	pthread_mutex_lock(&s->lock);
	s->served++;
	pthread_cond_broadcast(&s->turn);
	pthread_mutex_unlock(&s->lock);
	return st;
}

static enum status run_steps(struct sound *s, struct hearing *h, const struct sound_clip *c,
			     struct fail *fail)
{
	int32_t each = sound_tower_step(s->tower);
	for (int32_t at = 0; at < c->n_frames && !h->found; at += each) {
		const struct sound_piece piece = {c->mel, c->n_frames, at};
		if (c->is_gone && atomic_load(c->is_gone))
			return fail_default(fail, E_CANCELLED);
		enum status st = step(s, h, &piece, fail);
		if (st != OK)
			return fail_default(fail, st);
	}
	return OK;
}

enum status sound_hear(struct sound *s, const struct sound_clip *c, struct tower_view **out,
		       struct fail *fail)
{
	uint8_t hash[32];
	struct lru_key key = {c->owner, {(const char *)hash, sizeof hash}};
	*out = NULL;
	enum status st = check_clip(s, c, fail);
	if (st == OK)
		st = hash_clip(s, c, hash, fail);
	if (st != OK || tower_view_get(s->kept, key, out))
		return st;
	struct hearing h = {
		key, make_view(s, sound_config_tokens(&s->config, c->n_frames), hash), NULL};
	if (!h.own)
		return fail_default(fail, E_NOMEM);
	st = run_steps(s, &h, c, fail);
	*out = st == OK && !h.found ? h.own : h.found;
	if (*out != h.own)
		tower_view_unref(h.own);
	return st;
}

/* --- life --------------------------------------------------------------------------- */

static void needs_of(const void *tower, struct backend *b, struct tower_needs *out)
{
	const struct sound *s = tower;
	*out = (struct tower_needs){
		.weights = sound_tower_weight_bytes(s->tensors),
		.scratch = sound_tower_work_bytes(&s->config, b),
		.host = (int64_t)s->cache_bytes,
		.what = "the audio tower", .key = "audio",
		.advice = "Set audio to cpu or off, or audio_cache to less",
		.away_advice = "Set audio to cpu or off",
		.host_what = "audio", .host_key = "audio_cache",
		.host_advice = "Set audio_cache to less, or audio to off"};
}

static enum status load(void *tower, struct backend *b, struct fail *fail)
{
	struct sound *s = tower;
	return sound_tower_create(s->tensors, b, &s->config, &s->tower, fail);
}

static void unload(void *tower)
{
	struct sound *s = tower;
	sound_tower_destroy(s->tower);
	s->tower = NULL;
}

static const struct tower_kind kind = {needs_of, load, unload};

enum status sound_open(const struct sound_opts *o, struct sound **out, struct fail *fail)
{
	struct sound_config config;
	struct tensors *mmproj = NULL;
	bool has_tower = false;
	*out = NULL;
	enum status st = sound_gguf_open(o->mmproj, o->model, &mmproj, fail);
	if (st == OK)
		st = sound_config_read(o->model, mmproj, &config, &has_tower, fail);
	if (st != OK || !has_tower) {
		tensors_close(mmproj);
		return st;
	}
	struct sound *s = xcalloc(1, sizeof *s);
	s->config = config;
	s->mmproj = mmproj;
	s->tensors = mmproj ? mmproj : o->model->tensors;
	s->cache_bytes = o->cache_bytes;
	s->home = (struct tower_home){
		.kind = &kind, .tower = s, .opts = o->backend, .ledger = o->ledger};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->turn, NULL);
	s->kept = tower_view_lru(o->cache_bytes);
	st = tower_home_open(&s->home, fail);
	if (st != OK) {
		sound_destroy(s);
		return st;
	}
	*out = s;
	return OK;
}

enum status sound_load_tower(struct sound *s, struct fail *fail)
{
	return tower_home_load(&s->home, fail);
}

void sound_destroy(struct sound *s)
{
	if (!s)
		return;
	tower_home_close(&s->home);
	tensors_close(s->mmproj);
	lru_destroy(s->kept);
	pthread_cond_destroy(&s->turn);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

const struct engine_image_rules *sound_image_rules(void)
{
	static const struct engine_image_rules flat = {.is_flat = true};
	return &flat;
}

int32_t sound_token(const struct sound *s)
{
	return s->config.token;
}

const char *sound_device(const struct sound *s)
{
	return s->home.backend->device;
}

const char *sound_note(const struct sound *s)
{
	return s->home.note;
}

const struct sound_format *sound_format(const struct sound *s)
{
	return &s->config.format;
}

int32_t sound_width(const struct sound *s)
{
	return s->config.out_width;
}

int64_t sound_filled(const struct sound *s, int64_t n)
{
	const struct sound_format *f = &s->config.format;
	n = MAX(n, f->least);
	return f->each ? DIV_UP(n, f->each) * f->each : n;
}

int32_t sound_tokens(const struct sound *s, int32_t n_frames)
{
	return sound_config_tokens(&s->config, n_frames);
}
