/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/images.h"

#include "base/alloc.h"
#include "base/base64.h"

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

static enum status check_url(const struct images *im, const struct json_node *at,
			     struct str url, struct fail *fail)
{
	const struct fetch *f = im->m->fetch;
	ptrdiff_t comma = str_find(url, STR(","), 0);
	if (!is_data(url) && f && fetch_allows(f, url))
		return OK;
	if (!is_data(url)) {
		url = json_read_clip(url, MAX_QUOTED);
		return json_read_fail(at, fail, "is \"%.*s\": this server fetches no images%s; "
				      "send a data URL, as in data:image/png;base64,...",
				      (int)url.n, url.p, f ? " from there" : "");
	}
	if (comma < 0 || !str_ends((struct str){url.p, (size_t)comma}, STR(";base64")))
		return json_read_fail(at, fail, "must be a data URL in base64, as in "
						"data:image/png;base64,...");
	return OK;
}

enum status images_add(struct images *im, const struct json_node *part, struct fail *fail)
{
	struct json_node at = json_read_get(part, "image_url");
	struct json_node inner = json_read_get(&at, "url");
	const struct json_node *from = json_is_object(at.v) ? &inner : &at;
	struct str url = {0};
	enum status st = json_read_need_str(from, &url, fail);
	if (st == OK)
		st = check_url(im, from, url, fail);
	if (st != OK)
		return st;
	if (im->n >= im->m->max_images) {
		fail_set(fail, E_LIMIT, "more than %d images in a request (max_images)",
			 (int)im->m->max_images);
		json_read_locate(part, fail);
		return E_LIMIT;
	}
	struct images_entry *e = arena_alloc(im->arena, sizeof *e);
	*e = (struct images_entry){.url = url};
	json_read_locate(from, &e->place);
	*im->last = e;
	im->last = &e->next;
	im->n++;
	return OK;
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
	if (im->n == 0 || !vision_spelling(im->m->vision, &shown, &spelled))
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

static enum status read_data(struct str url, struct buf *out, struct fail *fail)
{
	size_t comma = (size_t)str_find(url, STR(","), 0) + 1;
	struct str digits = {url.p + comma, url.n - comma};
	if (!base64_decode(digits, out))
		return fail_set(fail, E_INVAL, "the image's data URL is not valid base64");
	return OK;
}

static enum status fetch_file_of(const struct images *im, struct str url,
				 const struct images_use *use, struct buf *out,
				 struct fail *fail)
{
	const struct fetch_ask ask = {url, use->until_us, use->is_gone};
	struct fail why = {0};
	enum status st = fetch_get(im->m->fetch, &ask, out, &why);
	if (st == E_INVAL)
		return fail_set(fail, st, "the image %s", why.text);
	if (st != OK && fail)
		*fail = why;
	return st;
}

static enum status images_look(const struct images *im, const struct images_entry *e,
			       const struct images_use *use, struct vision_view **out,
			       struct fail *fail)
{
	struct buf file = {0};
	enum status st = is_data(e->url) ? read_data(e->url, &file, fail)
					 : fetch_file_of(im, e->url, use, &file, fail);
	const struct vision_file f = {buf_str(&file), use->owner};
	if (st == OK)
		st = use->request ? vision_look(im->m->vision, &f, out, fail)
				  : vision_measure(im->m->vision, &f, out, fail);
	buf_deinit(&file);
	/* An image that is not supported is the client's mistake, not the server's. */
	if (st == E_UNSUPPORTED && fail)
		fail->code = st = E_INVAL;
	if (st != OK && fail)
		memcpy(fail->param, e->place.param, sizeof fail->param);
	return st;
}

static void let_go(void *view)
{
	vision_view_unref(view);
}

static size_t count_token(const struct ids *ids, int32_t token)
{
	size_t n = 0;
	for (size_t i = 0; i < ids->n; i++)
		n += ids->p[i] == token;
	return n;
}

/* Replaces image i's one token in ids by all its tokens, and sets images[i].at to the place. */
static void repeat(const struct vision *v, struct ids *ids, struct engine_image *images)
{
	struct ids all = {0};
	for (size_t i = 0; i < ids->n; i++) {
		if (ids->p[i] != vision_token(v)) {
			ids_add(&all, ids->p[i]);
			continue;
		}
		images->at = (int32_t)all.n;
		for (int32_t k = 0; k < images->n; k++)
			ids_add(&all, vision_token_at(v, images, k));
		images++;
	}
	ids_deinit(ids);
	*ids = all;
}

enum status images_expand(const struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail)
{
	int i = 0;
	enum status st = OK;
	struct images_use u = *use;
	if (im->n == 0)
		return OK;
	u.until_us = im->m->fetch ? fetch_until(im->m->fetch) : 0;
	int32_t token = vision_token(im->m->vision);
	size_t n_shown = count_token(ids, token);
	if (n_shown != (size_t)im->n)
		return fail_at(fail, E_INVAL, "messages", "this model's chat template shows "
			       "%zu of %d images", n_shown, im->n);
	struct engine_image *images = arena_alloc(im->arena, (size_t)im->n * sizeof *images);
	void **held = arena_alloc(im->arena, (size_t)im->n * sizeof *held);
	for (const struct images_entry *e = im->first; e && st == OK; e = e->next) {
		struct vision_view *view = NULL;
		st = images_look(im, e, &u, &view, fail);
		if (st != OK)
			break;
		images[i] = *vision_view_image(view);
		held[i++] = view;
	}
	if (st == OK)
		repeat(im->m->vision, ids, images);
	if (st == OK && use->request) {
		use->request->images = images;
		use->request->n_images = im->n;
		use->request->held = held;
		use->request->let_go = let_go;
		return OK;
	}
	while (i > 0)
		vision_view_unref(held[--i]);
	return st;
}
