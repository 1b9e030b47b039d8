/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/images.h"

#include "base/alloc.h"
#include "base/base64.h"
#include "chat/sounds.h"
#include "chat/videos.h"

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

static const struct {
	const char *many, *coded; /* in texts: all of the kind; what base64 stands in */
	const char *form;         /* an example */
	enum fetch_kind fetched;
} kinds[IMAGES_KINDS] = {
	[IMAGES_PICTURE] = {"images", "image's data URL", "data:image/png;base64,...",
			    FETCH_IMAGE},
	[IMAGES_SOUND] = {"audio", "audio", "data:audio/wav;base64,...", FETCH_AUDIO},
	[IMAGES_VIDEO] = {"video", "video's data URL", "data:video/mp4;base64,...", FETCH_VIDEO},
};

enum status images_check_url(const struct images *im, const struct json_node *at,
			     enum images_kind kind, struct str url, struct fail *fail)
{
	const struct fetch *f = im->m->fetch;
	const char *what = kinds[kind].many, *as = kinds[kind].form;
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

static struct images_entry *add(struct images *im, struct images_entry **where,
				enum images_kind kind)
{
	struct images_entry *e = arena_alloc(im->arena, sizeof *e);
	*e = (struct images_entry){.kind = kind, .next = *where};
	*where = e;
	if (!e->next)
		im->last = &e->next;
	im->n++;
	im->n_of[kind]++;
	return e;
}

enum status images_append(struct images *im, const struct json_node *part,
			  const struct json_node *from, enum images_kind kind,
			  struct images_entry **out, struct fail *fail)
{
	if (im->n_sent >= im->m->max_images) {
		fail_set(fail, E_LIMIT, "more than %d images, sounds and videos in a request "
			 "(max_images)", (int)im->m->max_images);
		json_read_locate(part, fail);
		return E_LIMIT;
	}
	*out = add(im, im->last, kind);
	json_read_locate(from, &(*out)->place);
	im->n_sent++;
	return OK;
}

struct images_entry *images_add_behind(struct images *im, struct images_entry *e,
				       enum images_kind kind)
{
	struct images_entry *more = add(im, &e->next, kind);
	more->place = e->place;
	more->video = e->video;
	return more;
}

void images_repeat(const struct images *from, struct images *out)
{
	images_init(out, from->m, from->arena);
	for (const struct images_entry *e = from->first; e; e = e->next) {
		struct images_entry *same = add(out, out->last, e->kind);
		same->place = e->place;
		same->form = e->form;
		same->source = e->source;
	}
	out->n_sent = from->n_sent;
	out->form = from->form;
}

enum status images_add_url(struct images *im, const struct json_node *part, const char *key,
			   enum images_kind kind, struct fail *fail)
{
	struct json_node at = json_read_get(part, key);
	struct json_node inner = json_read_get(&at, "url");
	const struct json_node *from = json_is_object(at.v) ? &inner : &at;
	struct str url = {0};
	enum status st = json_read_need_str(from, &url, fail);
	if (st == OK)
		st = images_check_url(im, from, kind, url, fail);
	struct images_entry *e = NULL;
	if (st == OK)
		st = images_append(im, part, from, kind, &e, fail);
	if (st == OK)
		e->source = url;
	return st;
}

void images_respell(struct marked *io, struct str shown,
		    void (*write)(struct marked *out, void *ctx), void *ctx)
{
	struct marked out = {0};
	size_t begin = 0;
	for (size_t i = 0; i < io->n_marks; begin = io->marks[i++].end) {
		struct str s = {io->text.p + begin, io->marks[i].end - begin};
		enum trust trust = io->marks[i].trust;
		ptrdiff_t at;
		while (trust == TRUST_TEMPLATE && (at = str_find(s, shown, 0)) >= 0) {
			size_t end = (size_t)at + shown.n;
			marked_add(&out, (struct str){s.p, (size_t)at}, trust);
			write(&out, ctx);
			s = (struct str){s.p + end, s.n - end};
		}
		marked_add(&out, s, trust);
	}
	marked_deinit(io);
	*io = out;
}

static void write_spelled(struct marked *out, void *ctx)
{
	marked_add(out, *(const struct str *)ctx, TRUST_TEMPLATE);
}

void images_spell(const struct images *im, struct marked *io)
{
	struct str shown, spelled;
	if (im->n_of[IMAGES_PICTURE] > 0 && vision_spelling(im->m->vision, &shown, &spelled))
		images_respell(io, shown, write_spelled, &spelled);
	if (im->n_of[IMAGES_VIDEO] > 0)
		videos_spell(im, io);
}

/* --- computing the images ------------------------------------------------------------ */

static enum status read_data(const struct images_entry *e, struct buf *out, struct fail *fail)
{
	size_t skipped = e->form == IMAGES_URL ? (size_t)str_find(e->source, STR(","), 0) + 1 : 0;
	struct str digits = {e->source.p + skipped, e->source.n - skipped};
	if (base64_decode(digits, out))
		return OK;
	return fail_set(fail, E_INVAL, "the %s is not valid base64", kinds[e->kind].coded);
}

static enum status fetch_file_of(const struct images *im, const struct images_entry *e,
				 const struct images_use *use, struct buf *out,
				 struct fail *fail)
{
	const enum fetch_kind kind = kinds[e->kind].fetched;
	const struct fetch_ask ask = {e->source, use->until_us, use->is_gone, kind};
	struct fail why = {0};
	enum status st = fetch_get(im->m->fetch, &ask, out, &why);
	if (st == E_INVAL)
		return fail_set(fail, st, "the %s %s", fetch_kind_name(kind), why.text);
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

enum status images_blame(const struct images_entry *e, const struct fail *why, struct fail *fail)
{
	enum status st = why->code == E_UNSUPPORTED ? E_INVAL : why->code;
	if (!fail)
		return st;
	*fail = *why;
	fail->code = st;
	memcpy(fail->param, e->place.param, sizeof fail->param);
	return st;
}

/* Calls `step` for the entries of one kind. A fault gets the entry's place. */
static enum status for_each(const struct images *im, enum images_kind kind,
			    const struct images_use *use,
			    enum status (*step)(const struct images *, struct images_entry *,
						const struct images_use *, struct fail *),
			    struct fail *fail)
{
	enum status st = OK;
	for (struct images_entry *e = im->first; e && st == OK; e = e->next) {
		if (e->kind != kind)
			continue;
		bool is_gone = use->is_gone && atomic_load(use->is_gone);
		struct fail why = {0};
		st = is_gone ? fail_default(&why, E_CANCELLED) : step(im, e, use, &why);
		if (st != OK)
			st = images_blame(e, &why, fail);
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
	if (e->video)
		videos_close(e->video);
}

static void start_clock(struct images *im)
{
	if (im->m->fetch && !im->until_us)
		im->until_us = fetch_until(im->m->fetch);
}

enum status images_open(struct images *im, const _Atomic bool *is_gone, struct fail *fail)
{
	if (im->n_of[IMAGES_VIDEO] == 0)
		return OK;
	start_clock(im);
	const struct images_use use = {.is_gone = is_gone, .until_us = im->until_us};
	return videos_open(im, &use, fail);
}

void images_close(struct images *im)
{
	for (struct images_entry *e = im->first; e; e = e->next)
		if (e->video)
			videos_close(e->video);
}

static size_t count_token(const struct ids *ids, int32_t token)
{
	size_t n = 0;
	for (size_t i = 0; i < ids->n; i++)
		n += ids->p[i] == token;
	return n;
}

/* The token that stands for an entry of that kind; -1: the model has none. */
static int32_t token_of(const struct images *im, enum images_kind kind)
{
	if (kind == IMAGES_SOUND)
		return im->m->sound ? sound_token(im->m->sound) : -1;
	if (kind == IMAGES_VIDEO)
		return vision_frames(im->m->vision) ? vision_video_token(im->m->vision) : -1;
	return im->m->vision ? vision_token(im->m->vision) : -1;
}

static enum status check_shown(const struct images *im, const struct ids *ids, struct fail *fail)
{
	static const char *const words[] = {"images", "sounds", "pairs of a video's frames"};
	for (int k = 0; k < IMAGES_KINDS; k++) {
		size_t n_shown = count_token(ids, token_of(im, (enum images_kind)k));
		if (n_shown != (size_t)im->n_of[k])
			return fail_at(fail, E_INVAL, "messages", "this model's chat template "
				       "shows %zu of %d %s", n_shown, im->n_of[k], words[k]);
	}
	return OK;
}

static struct images_entry *next_of(struct images_entry *e, enum images_kind kind)
{
	while (e && e->kind != kind)
		e = e->next;
	return e;
}

/* The kind of entry that a token stands for; IMAGES_KINDS: none. */
static enum images_kind kind_of(const struct images *im, int32_t token)
{
	for (int k = 0; k < IMAGES_KINDS; k++)
		if (im->n_of[k] > 0 && token == token_of(im, (enum images_kind)k))
			return (enum images_kind)k;
	return IMAGES_KINDS;
}

/* Replaces each entry's one token in ids by all its tokens. Lists the entries in the prompt's
 * order: their images, with their places, and the entries. */
static void repeat_entries(const struct images *im, struct ids *ids, struct engine_image *images,
			   void **held)
{
	struct ids all = {0};
	struct images_entry *next[IMAGES_KINDS];
	for (int k = 0; k < IMAGES_KINDS; k++)
		next[k] = next_of(im->first, (enum images_kind)k);
	for (size_t i = 0; i < ids->n; i++) {
		enum images_kind kind = kind_of(im, ids->p[i]);
		if (kind == IMAGES_KINDS) {
			ids_add(&all, ids->p[i]);
			continue;
		}
		struct images_entry *e = next[kind];
		e->image.at = (int32_t)all.n;
		for (int32_t k = 0; k < e->image.n; k++)
			ids_add(&all, kind == IMAGES_PICTURE
					      ? vision_token_at(im->m->vision, &e->image, k)
					      : ids->p[i]);
		*images++ = e->image;
		*held++ = e;
		next[kind] = next_of(e->next, kind);
	}
	ids_deinit(ids);
	*ids = all;
}

/* Appends n images, and what holds them, to those of the request. */
static void give(struct request *r, struct arena *arena, const struct engine_image *images,
		 void *const *held, int n)
{
	size_t before = (size_t)r->n_images, more = (size_t)n;
	struct engine_image *all = arena_alloc(arena, (before + more) * sizeof *all);
	void **all_held = arena_alloc(arena, (before + more) * sizeof *all_held);
	if (before) {
		memcpy(all, r->images, before * sizeof *all);
		memcpy(all_held, r->held, before * sizeof *all_held);
	}
	memcpy(all + before, images, more * sizeof *all);
	memcpy(all_held + before, held, more * sizeof *all_held);
	r->images = all;
	r->held = all_held;
	r->n_images += n;
	r->let_go = let_go;
}

/* Are there sounds or videos with which the prompt is too long? */
static bool is_too_long(const struct images *im, const struct images_use *use,
			const struct ids *ids)
{
	int n_long = im->n - im->n_of[IMAGES_PICTURE];
	int64_t n = (int64_t)ids->n - n_long;
	for (const struct images_entry *e = im->first; e; e = e->next)
		n += e->kind == IMAGES_PICTURE ? 0 : e->image.n;
	return n_long > 0 && use->max_tokens > 0 && n >= use->max_tokens;
}

enum status images_expand(struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail)
{
	struct images_use u = *use;
	if (im->n == 0)
		return OK;
	start_clock(im);
	u.until_us = im->until_us;
	enum status st = check_shown(im, ids, fail);
	if (st == OK)
		st = for_each(im, IMAGES_SOUND, &u, sounds_measure, fail);
	if (st == OK)
		st = for_each(im, IMAGES_VIDEO, &u, videos_measure, fail);
	if (st == OK && is_too_long(im, use, ids))
		u.request = NULL;
	if (st == OK)
		st = for_each(im, IMAGES_PICTURE, &u, images_look, fail);
	if (st == OK && u.request)
		st = for_each(im, IMAGES_VIDEO, &u, videos_look, fail);
	if (st == OK && u.request)
		st = for_each(im, IMAGES_SOUND, &u, sounds_hear, fail);
	struct engine_image *images = arena_alloc(im->arena, (size_t)im->n * sizeof *images);
	void **held = arena_alloc(im->arena, (size_t)im->n * sizeof *held);
	if (st == OK)
		repeat_entries(im, ids, images, held);
	images_close(im);
	if (st == OK && u.request) {
		give(u.request, im->arena, images, held, im->n);
		return OK;
	}
	for (struct images_entry *e = im->first; e; e = e->next)
		let_go(e);
	return st;
}
