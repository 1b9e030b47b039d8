/* SPDX-License-Identifier: Apache-2.0 */
#include "vision/vision.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/alloc.h"
#include "engine/tower_home.h"
#include "vision/vision_choose.h"
#include "vision/vision_gguf.h"
#include "vision/vision_patches.h"
#include "vision/vision_tower.h"

enum { HASH_BYTES = 32 };

struct vision {
	struct vision_config config;
	struct image_limits limits;
	struct tensors *mmproj; /* NULL: the tower is the model's */
	struct tower_home home;
	struct vision_tower *tower;
	const struct tensors *tensors; /* the tensors that the tower is loaded from */
	size_t cache_bytes;
	struct lru *kept;     /* views by the hash of their files */
	pthread_mutex_t lock; /* held while the tower or the memory for pixels is in use */
};

/* A view of an image that the tower sees with width x height pixels. Its hash covers the file's
 * hash and this size, because the rows depend on both. */
static struct tower_view *make_view(const struct vision *v, int32_t width, int32_t height,
				     const uint8_t file_hash[HASH_BYTES], bool has_rows)
{
	const struct vision_config *c = &v->config;
	int32_t f = c->patch * c->merge, rows = height / f, cols = width / f;
	size_t n = (size_t)(1 + c->n_deep) * (size_t)rows * (size_t)cols * (size_t)c->out_width;
	struct tower_view *w = tower_view_new(has_rows ? n : 0);
	uint8_t key[HASH_BYTES + 2 * sizeof(int32_t)];
	if (!w)
		return NULL;
	w->image = (struct engine_image){.n = rows * (cols + c->n_gap), .n_rows = rows,
					 .n_cols = cols, .n_gap = c->n_gap,
					 .rows = has_rows ? w->rows : NULL};
	memcpy(key, file_hash, HASH_BYTES);
	memcpy(key + HASH_BYTES, &rows, sizeof rows);
	memcpy(key + HASH_BYTES + sizeof rows, &cols, sizeof cols);
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, key, sizeof key, w->image.hash) != 0) {
		tower_view_unref(w);
		return NULL;
	}
	return w;
}

/* --- one image ---------------------------------------------------------------------- */

/* Decodes one image and runs the tower on it. The caller holds the lock. */
static enum status look(struct vision *v, struct str file, const uint8_t *hash,
			bool has_rows, struct tower_view **out, struct fail *fail)
{
	struct image m, at_size = {0};
	int32_t width = 0, height = 0;
	struct tower_view *w = NULL;
	enum status st = image_decode(file, &v->limits, &m, fail);
	if (st != OK)
		return st;
	st = vision_patches_size(&v->config, m.width, m.height, &width, &height, fail);
	if (st == OK)
		w = make_view(v, width, height, hash, has_rows);
	if (st == OK && !w)
		st = fail_default(fail, E_NOMEM);
	if (st == OK && has_rows)
		st = image_resize(&m, width, height, v->config.filter, &at_size);
	image_deinit(&m);
	if (st == OK && has_rows)
		st = vision_tower_run(v->tower, &(struct vision_pixels){&at_size, 1}, w->rows,
				      fail);
	image_deinit(&at_size);
	if (st != OK) {
		tower_view_unref(w);
		return fail_default(fail, st);
	}
	*out = w;
	return OK;
}

static enum status vision_find(struct vision *v, const struct vision_file *f, bool has_rows,
			       struct tower_view **out, struct fail *fail)
{
	uint8_t hash[HASH_BYTES];
	struct lru_key key = {f->owner, {(const char *)hash, sizeof hash}};
	*out = NULL;
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, f->bytes.p, f->bytes.n, hash) != 0)
		return fail_set(fail, E_INTERNAL, "SHA-256 is not there");
	if (tower_view_get(v->kept, key, out))
		return OK;
	pthread_mutex_lock(&v->lock);
	enum status st = OK;
	/* Another call may have made the view while this one waited for the lock. */
	if (!tower_view_get(v->kept, key, out))
		st = look(v, f->bytes, hash, has_rows, out, fail);
	if (st == OK && has_rows && atomic_load(&(*out)->refs) == 1)
		tower_view_put(v->kept, key, *out);
	pthread_mutex_unlock(&v->lock);
	return st;
}

enum status vision_look(struct vision *v, const struct vision_file *f,
			struct tower_view **out, struct fail *fail)
{
	return vision_find(v, f, true, out, fail);
}

enum status vision_measure(struct vision *v, const struct vision_file *f,
			   struct tower_view **out, struct fail *fail)
{
	return vision_find(v, f, false, out, fail);
}

/* --- video -------------------------------------------------------------------------- */

int vision_frames(const struct vision *v)
{
	return v && v->config.video.token ? v->config.frames : 0;
}

int32_t vision_video_token(const struct vision *v)
{
	return v->config.video.token;
}

double vision_video_second(const struct vision *v)
{
	return v->config.video.second;
}

enum status vision_video_measure(struct vision *v, struct str first, int n,
				 struct vision_clip *out, struct fail *fail)
{
	struct image m;
	pthread_mutex_lock(&v->lock);
	enum status st = image_decode(first, &v->limits, &m, fail);
	const int32_t width = m.width, height = m.height;
	if (st == OK)
		image_deinit(&m);
	pthread_mutex_unlock(&v->lock);
	return st == OK ? vision_video_measure_size(v, width, height, n, out, fail) : st;
}

enum status vision_video_measure_size(struct vision *v, int32_t width, int32_t height, int n,
				      struct vision_clip *out, struct fail *fail)
{
	const struct vision_frames frames = {n, width, height};
	int32_t f = v->config.patch * v->config.merge;
	*out = (struct vision_clip){.width = width, .height = height};
	enum status st = vision_patches_video(&v->config, &frames, &out->seen_width,
					      &out->seen_height, fail);
	out->n = out->seen_width / f * (out->seen_height / f);
	return st;
}

enum status vision_video_choose(const struct vision *v, struct vision_choice *c,
				struct fail *fail)
{
	return vision_choose(&v->config, c, fail);
}

/* The frames' files together, and the sizes that they had and get. */
static bool hash_frames(const struct vision_look_frames *f, uint8_t out[HASH_BYTES])
{
	const struct vision_clip *c = f->clip;
	const int32_t sizes[] = {c->width, c->height, c->seen_width, c->seen_height};
	uint8_t all[VISION_MAX_FRAMES * HASH_BYTES + sizeof sizes];
	for (int i = 0; i < f->n; i++)
		if (gnutls_hash_fast(GNUTLS_DIG_SHA256, f->files[i].p, f->files[i].n,
				     all + (size_t)i * HASH_BYTES) != 0)
			return false;
	size_t n = (size_t)f->n * HASH_BYTES;
	memcpy(all + n, sizes, sizeof sizes);
	return gnutls_hash_fast(GNUTLS_DIG_SHA256, all, n + sizeof sizes, out) == 0;
}

/* Decodes frame i, if it is a file, and scales it as its video is. */
static enum status frame_at_size(struct vision *v, const struct vision_look_frames *look, int i,
				 struct image *out, struct fail *fail)
{
	const struct vision_clip *c = look->clip;
	struct image m = {c->width, c->height, (uint8_t *)look->files[i].p};
	if (look->are_pixels) {
		enum status made = image_resize(&m, c->seen_width, c->seen_height,
						v->config.filter, out);
		return made == OK ? OK : fail_default(fail, made);
	}
	enum status st = image_decode(look->files[i], &v->limits, &m, fail);
	if (st != OK)
		return st;
	if (m.width != c->width || m.height != c->height)
		st = fail_set(fail, E_INVAL, "the frame has %d x %d pixels, and the video's first "
			      "%d x %d: all must have one size", (int)m.width, (int)m.height,
			      (int)c->width, (int)c->height);
	if (st == OK)
		st = image_resize(&m, c->seen_width, c->seen_height, v->config.filter, out);
	image_deinit(&m);
	return st == OK ? OK : fail_default(fail, st);
}

/* Runs the tower on neighbouring frames. The caller holds the lock. */
static enum status look_at_frames(struct vision *v, struct vision_look_frames *f,
				  const uint8_t *hash, struct tower_view **out, struct fail *fail)
{
	struct image m[VISION_MAX_FRAMES] = {{0}};
	struct tower_view *w = NULL;
	enum status st = OK;
	for (int i = 0; i < f->n && st == OK; i++) {
		f->at = i;
		st = frame_at_size(v, f, i, &m[i], fail);
	}
	if (st == OK)
		w = make_view(v, f->clip->seen_width, f->clip->seen_height, hash, true);
	if (st == OK && !w)
		st = fail_default(fail, E_NOMEM);
	if (st == OK)
		st = vision_tower_run(v->tower, &(struct vision_pixels){m, f->n}, w->rows, fail);
	for (int i = 0; i < f->n; i++)
		image_deinit(&m[i]);
	if (st != OK)
		tower_view_unref(w);
	else
		*out = w;
	return st;
}

enum status vision_video_look(struct vision *v, struct vision_look_frames *f,
			      struct tower_view **out, struct fail *fail)
{
	uint8_t hash[HASH_BYTES];
	struct lru_key key = {f->owner, {(const char *)hash, sizeof hash}};
	*out = NULL;
	if (!hash_frames(f, hash))
		return fail_set(fail, E_INTERNAL, "SHA-256 is not there");
	if (tower_view_get(v->kept, key, out))
		return OK;
	pthread_mutex_lock(&v->lock);
	enum status st = OK;
	/* Another call may have made the view meanwhile. */
	if (!tower_view_get(v->kept, key, out)) {
		st = look_at_frames(v, f, hash, out, fail);
		if (st == OK)
			tower_view_put(v->kept, key, *out);
	}
	pthread_mutex_unlock(&v->lock);
	return st;
}

/* --- life --------------------------------------------------------------------------- */

/* Checks limits that the text model sets: tokens of an image, and tokens of a step. */
static enum status check_text(const struct vision_config *c, const struct vision_opts *o,
			      struct fail *fail)
{
	int32_t n = c->kind == VISION_SIGLIP ? vision_config_tokens(c) : 0;
	if (n > o->max_tokens)
		return fail_set(fail, E_UNSUPPORTED, "each image has %d tokens, more than "
				"image_tokens = %d", (int)n, (int)o->max_tokens);
	if (c->image_rules.seen == IMAGE_CAUSAL)
		return OK;
	if (o->step_tokens < n)
		return fail_set(fail, E_UNSUPPORTED, "the %d tokens of an image need one step: "
				"max_batch_tokens - max_seqs is %d", (int)n,
				(int)o->step_tokens);
	return OK;
}

/* Most bytes that decoding takes for each pixel (image.h). */
enum { DECODE_BYTES = 10 };

/* Patches of the largest image or frame of a video. */
static int32_t most_patches(const struct vision_config *c)
{
	int64_t side = c->max_side / c->patch + c->merge; /* rounded up to whole tokens */
	bool is_area = c->kind == VISION_QWEN || vision_config_fills(c);
	int64_t share = c->video.max_pixels / (c->video.second > 0 ? 1 : c->frames);
	int64_t frame = c->video.token ? MIN(c->video.patch_pixels, share) : 0;
	return (int32_t)(is_area ? MAX(c->max_pixels, frame) / c->patch / c->patch : side * side);
}

static void needs_of(const void *tower, struct backend *b, struct tower_needs *out)
{
	const struct vision *v = tower;
	*out = (struct tower_needs){
		.weights = vision_tower_weight_bytes(v->tensors),
		.scratch = vision_tower_work_bytes(&v->config, b, most_patches(&v->config)),
		.host = v->limits.max_pixels * DECODE_BYTES + (int64_t)v->cache_bytes,
		.what = "the vision tower", .key = "images",
		.advice = "Set image_cache, image_tokens or max_image_pixels to less, or images "
			  "to off",
		.away_advice = "Set image_tokens to less, or images to cpu or off",
		.host_what = "images", .host_key = "images",
		.host_advice = "Set image_cache or max_image_pixels to less, or images to off"};
}

static enum status load(void *tower, struct backend *b, struct fail *fail)
{
	struct vision *v = tower;
	enum status st = vision_tower_create(v->tensors, b, &v->config, &v->tower, fail);
	/* On a GPU, the thread that opened the device takes the memory for images now, at
	 * start. */
	if (st == OK && tower_home_is_away(&v->home))
		st = vision_tower_keep(v->tower, most_patches(&v->config), fail);
	return st;
}

static void unload(void *tower)
{
	struct vision *v = tower;
	vision_tower_destroy(v->tower);
	v->tower = NULL;
}

static const struct tower_kind kind = {needs_of, load, unload};

static enum status prepare(struct vision *v, const struct vision_opts *o, struct fail *fail)
{
	v->tensors = v->mmproj ? v->mmproj : o->model->tensors;
	v->cache_bytes = o->cache_bytes;
	bool is_cut = vision_config_fills(&v->config) && v->config.image_rules.seen != IMAGE_CAUSAL;
	vision_patches_limit(&v->config, is_cut ? MIN(o->max_tokens, MAX(o->step_tokens, 1))
						: o->max_tokens);
	enum status st = check_text(&v->config, o, fail);
	return st == OK ? tower_home_open(&v->home, fail) : st;
}

static enum status open_mmproj(const struct vision_opts *o, struct tensors **out,
			       struct fail *fail)
{
	bool is_named = o->mmproj && *o->mmproj;
	char *path = is_named				? xstrdup(o->mmproj)
		     : tensors_gguf(o->model->tensors)	? vision_gguf_beside(
								  tensors_dir(o->model->tensors))
							: NULL;
	enum status st = path ? vision_gguf_open(path, out, fail) : OK;
	free(path);
	return st;
}

enum status vision_open(const struct vision_opts *o, struct vision **out, struct fail *fail)
{
	struct vision_config config;
	struct tensors *mmproj = NULL;
	bool has_tower = false;
	*out = NULL;
	enum status st = open_mmproj(o, &mmproj, fail);
	if (st == OK)
		st = vision_config_read(o->model, mmproj, &config, &has_tower, fail);
	if (st != OK || !has_tower) {
		tensors_close(mmproj);
		return st;
	}
	struct vision *v = xcalloc(1, sizeof *v);
	v->config = config;
	v->mmproj = mmproj;
	v->limits = o->limits;
	v->home = (struct tower_home){
		.kind = &kind, .tower = v, .opts = o->backend, .ledger = o->ledger};
	pthread_mutex_init(&v->lock, NULL);
	v->kept = tower_view_lru(o->cache_bytes);
	st = prepare(v, o, fail);
	if (st != OK) {
		vision_destroy(v);
		return st;
	}
	*out = v;
	return OK;
}

enum status vision_load_tower(struct vision *v, struct fail *fail)
{
	return tower_home_load(&v->home, fail);
}

void vision_destroy(struct vision *v)
{
	if (!v)
		return;
	tower_home_close(&v->home);
	tensors_close(v->mmproj);
	lru_destroy(v->kept);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

const struct engine_image_rules *vision_image_rules(const struct vision *v)
{
	return &v->config.image_rules;
}

int32_t vision_token(const struct vision *v)
{
	return v->config.token;
}

int32_t vision_token_at(const struct vision *v, const struct engine_image *m, int32_t i)
{
	const struct vision_config *c = &v->config;
	if (i % (m->n_cols + m->n_gap) < m->n_cols)
		return c->token;
	return i == m->n - 1 ? c->end_token : c->break_token;
}

bool vision_spelling(const struct vision *v, struct str *shown, struct str *spelled)
{
	if (v->config.shown) {
		*shown = str_of(v->config.shown);
		*spelled = str_of(v->config.spelled);
	}
	return v->config.shown;
}

const char *vision_device(const struct vision *v)
{
	return v->home.backend->device;
}

const char *vision_note(const struct vision *v)
{
	return v->home.note;
}
