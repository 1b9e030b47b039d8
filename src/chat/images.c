/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/images.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "chat/sounds.h"

/* Bytes of an image's address that a fault's text shows. */
enum { MAX_QUOTED = 60 };

void images_init(struct images *im, const struct chat_model *m, struct arena *arena)
{
	*im = (struct images){.m = m, .arena = arena};
	im->last = &im->first;
}

static bool is_data(struct str url)
{
	return str_starts(url, STR("data:"));
}

enum status images_check_url(const struct images *im, const struct json_node *at, bool is_sound,
			     struct str url, struct fail *fail)
{
	const struct fetch *f = im->m->fetch;
	const char *what = is_sound ? "audio" : "images";
	const char *as = is_sound ? "data:audio/wav;base64,..." : "data:image/png;base64,...";
	ptrdiff_t comma = str_find(url, STR(","), 0);
	if (!is_data(url) && f && fetch_allows(f, url))
		return OK;
	if (!is_data(url)) {
		url = json_read_clip(url, MAX_QUOTED);
		return json_read_fail(at, fail, "is \"%.*s\": this server fetches no %s%s; "
				      "send a data URL, as in %s",
				      (int)url.n, url.p, what, f ? " from there" : "", as);
	}
	if (comma < 0 || !str_ends((struct str){url.p, (size_t)comma}, STR(";base64")))
		return json_read_fail(at, fail, "must be a data URL in base64, as in %s", as);
	return OK;
}

enum status images_append(struct images *im, const struct json_node *part,
			  const struct json_node *from, bool is_sound,
			  struct images_entry **out, struct fail *fail)
{
	if (im->n >= im->m->max_images) {
		fail_set(fail, E_LIMIT, "more than %d images and sounds in a request (max_images)",
			 (int)im->m->max_images);
		json_read_locate(part, fail);
		return E_LIMIT;
	}
	struct images_entry *e = *out = arena_alloc(im->arena, sizeof *e);
	*e = (struct images_entry){.is_sound = is_sound};
	json_read_locate(from, &e->place);
	*im->last = e;
	im->last = &e->next;
	im->n++;
	im->n_sounds += is_sound;
	return OK;
}

enum status images_add_url(struct images *im, const struct json_node *part, const char *key,
			   bool is_sound, struct fail *fail)
{
	struct json_node at = json_read_get(part, key);
	struct json_node inner = json_read_get(&at, "url");
	const struct json_node *from = json_is_object(at.v) ? &inner : &at;
	struct str url = {0};
	enum status st = json_read_need_str(from, &url, fail);
	if (st == OK)
		st = images_check_url(im, from, is_sound, url, fail);
	struct images_entry *e = NULL;
	if (st == OK)
		st = images_append(im, part, from, is_sound, &e, fail);
	if (st == OK)
		e->source = url;
	return st;
}

/* Appends s with each `shown` replaced by `spelled`. */
static void spell(struct marked *out, struct str s, struct str shown, struct str spelled)
{
	ptrdiff_t at;
	while ((at = str_find(s, shown, 0)) >= 0) {
		size_t end = (size_t)at + shown.n;
		marked_add(out, (struct str){s.p, (size_t)at}, TRUST_TEMPLATE);
		marked_add(out, spelled, TRUST_TEMPLATE);
		s = (struct str){s.p + end, s.n - end};
	}
	marked_add(out, s, TRUST_TEMPLATE);
}

void images_spell(const struct images *im, struct marked *io)
{
	struct str shown, spelled;
	struct marked out = {0};
	size_t begin = 0;
	if (im->n == im->n_sounds || !vision_spelling(im->m->vision, &shown, &spelled))
		return;
	for (size_t i = 0; i < io->n_marks; begin = io->marks[i++].end) {
		struct str s = {io->text.p + begin, io->marks[i].end - begin};
		if (io->marks[i].trust == TRUST_TEMPLATE)
			spell(&out, s, shown, spelled);
		else
			marked_add(&out, s, io->marks[i].trust);
	}
	marked_deinit(io);
	*io = out;
}

/* --- computing the images ------------------------------------------------------------ */

static enum status read_data(const struct images_entry *e, struct buf *out, struct fail *fail)
{
	size_t skipped = e->form == IMAGES_URL ? (size_t)str_find(e->source, STR(","), 0) + 1 : 0;
	struct str digits = {e->source.p + skipped, e->source.n - skipped};
	if (base64_decode(digits, out))
		return OK;
	return fail_set(fail, E_INVAL, "the %s is not valid base64",
			e->is_sound ? "audio" : "image's data URL");
}

static enum status fetch_file_of(const struct images *im, const struct images_entry *e,
				 const struct images_use *use, struct buf *out,
				 struct fail *fail)
{
	const struct fetch_ask ask = {e->source, use->until_us, use->is_gone,
				      e->is_sound ? FETCH_AUDIO : FETCH_IMAGE};
	struct fail why = {0};
	enum status st = fetch_get(im->m->fetch, &ask, out, &why);
	if (st == E_INVAL)
		return fail_set(fail, st, "the %s %s", e->is_sound ? "audio" : "image", why.text);
	if (st != OK && fail)
		*fail = why;
	return st;
}

enum status images_file(const struct images *im, const struct images_entry *e,
			const struct images_use *use, struct buf *out, struct fail *fail)
{
	return e->form == IMAGES_BASE64 || is_data(e->source)
		       ? read_data(e, out, fail)
		       : fetch_file_of(im, e, use, out, fail);
}

static enum status images_look(const struct images *im, struct images_entry *e,
			       const struct images_use *use, struct fail *fail)
{
	struct buf file = {0};
	struct tower_view *view = NULL;
	enum status st = images_file(im, e, use, &file, fail);
	const struct vision_file f = {buf_str(&file), use->owner};
	if (st == OK)
		st = use->request ? vision_look(im->m->vision, &f, &view, fail)
				  : vision_measure(im->m->vision, &f, &view, fail);
	buf_deinit(&file);
	if (st != OK)
		return st;
	e->image = view->image;
	e->view = view;
	return OK;
}

/* Calls `step` for the entries of one kind. A fault gets the entry's place. */
static enum status for_each(const struct images *im, bool is_sound, const struct images_use *use,
			    enum status (*step)(const struct images *, struct images_entry *,
						const struct images_use *, struct fail *),
			    struct fail *fail)
{
	enum status st = OK;
	for (struct images_entry *e = im->first; e && st == OK; e = e->next) {
		if (e->is_sound != is_sound)
			continue;
		bool is_gone = use->is_gone && atomic_load(use->is_gone);
		st = is_gone ? fail_default(fail, E_CANCELLED) : step(im, e, use, fail);
		/* A file that is not supported is the client's mistake, not the server's. */
		if (st == E_UNSUPPORTED && fail)
			fail->code = st = E_INVAL;
		if (st != OK && fail)
			memcpy(fail->param, e->place.param, sizeof fail->param);
	}
	return st;
}

int64_t images_audio_us(const struct images *im)
{
	int64_t us = 0;
	for (const struct images_entry *e = im->first; e; e = e->next)
		us += e->us;
	return us;
}

static void let_go(void *entry)
{
	struct images_entry *e = entry;
	audio_deinit(&e->audio);
	tower_view_unref(e->view);
	e->view = NULL;
}

static size_t count_token(const struct ids *ids, int32_t token)
{
	size_t n = 0;
	for (size_t i = 0; i < ids->n; i++)
		n += ids->p[i] == token;
	return n;
}

/* The tokens that stand for an image and for a sound; -1: the model has none. */
static int32_t token_of(const struct images *im, bool is_sound)
{
	if (is_sound)
		return im->m->sound ? sound_token(im->m->sound) : -1;
	return im->m->vision ? vision_token(im->m->vision) : -1;
}

static enum status check_shown(const struct images *im, const struct ids *ids, struct fail *fail)
{
	for (int is_sound = 0; is_sound < 2; is_sound++) {
		int n = is_sound ? im->n_sounds : im->n - im->n_sounds;
		size_t n_shown = count_token(ids, token_of(im, is_sound));
		if (n_shown != (size_t)n)
			return fail_at(fail, E_INVAL, "messages", "this model's chat template "
				       "shows %zu of %d %s", n_shown, n,
				       is_sound ? "sounds" : "images");
	}
	return OK;
}

static struct images_entry *next_of(struct images_entry *e, bool is_sound)
{
	while (e && e->is_sound != is_sound)
		e = e->next;
	return e;
}

/* Replaces each entry's one token in ids by all its tokens. Lists the entries in the prompt's
 * order: their images, with their places, and the entries. */
static void repeat_entries(const struct images *im, struct ids *ids, struct engine_image *images,
			   void **held)
{
	struct ids all = {0};
	struct images_entry *next[] = {next_of(im->first, false), next_of(im->first, true)};
	for (size_t i = 0; i < ids->n; i++) {
		bool is_sound = ids->p[i] == token_of(im, true);
		struct images_entry *e = next[is_sound];
		if (!is_sound && ids->p[i] != token_of(im, false)) {
			ids_add(&all, ids->p[i]);
			continue;
		}
		e->image.at = (int32_t)all.n;
		for (int32_t k = 0; k < e->image.n; k++)
			ids_add(&all, is_sound ? ids->p[i]
					       : vision_token_at(im->m->vision, &e->image, k));
		*images++ = e->image;
		*held++ = e;
		next[is_sound] = next_of(e->next, is_sound);
	}
	ids_deinit(ids);
	*ids = all;
}

/* Are there sounds with which the prompt is too long? */
static bool is_too_long(const struct images *im, const struct images_use *use,
			const struct ids *ids)
{
	int64_t n = (int64_t)ids->n - im->n_sounds;
	for (const struct images_entry *e = im->first; e; e = e->next)
		n += e->is_sound ? e->image.n : 0;
	return im->n_sounds > 0 && use->max_tokens > 0 && n >= use->max_tokens;
}

enum status images_expand(const struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail)
{
	struct images_use u = *use;
	if (im->n == 0)
		return OK;
	u.until_us = im->m->fetch ? fetch_until(im->m->fetch) : 0;
	enum status st = check_shown(im, ids, fail);
	if (st == OK)
		st = for_each(im, true, &u, sounds_measure, fail);
	if (st == OK && is_too_long(im, use, ids))
		u.request = NULL;
	if (st == OK)
		st = for_each(im, false, &u, images_look, fail);
	if (st == OK && u.request)
		st = for_each(im, true, &u, sounds_hear, fail);
	struct engine_image *images = arena_alloc(im->arena, (size_t)im->n * sizeof *images);
	void **held = arena_alloc(im->arena, (size_t)im->n * sizeof *held);
	if (st == OK)
		repeat_entries(im, ids, images, held);
	if (st == OK && u.request) {
		u.request->images = images;
		u.request->n_images = im->n;
		u.request->held = held;
		u.request->let_go = let_go;
		return OK;
	}
	for (struct images_entry *e = im->first; e; e = e->next)
		let_go(e);
	return st;
}
