/* SPDX-License-Identifier: Apache-2.0
 *
 * A video's frames are shown as Qwen3-VL's processor shows them: pairs of neighbours, each behind
 * its time. Qwen3-Omni sees all pairs together, and their times as positions. Sources:
 * processing_qwen3_vl.py and processing_qwen3_omni_moe.py of Hugging Face Transformers.
 */
#include "chat/videos.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/hash.h"

enum { MAX_FRAMES = 768, MAX_QUOTED = 60 };
#define PLAIN_FPS 2.0 /* of a video that does not say it; as Qwen's own clients take it */

bool videos_is_kind(struct str kind)
{
	return str_is(kind, "video") || str_is(kind, "video_url");
}

/* --- the part ---------------------------------------------------------------------------- */

static enum status refuse_file(const struct json_node *at, struct str url, struct fail *fail)
{
	url = json_read_clip(url, MAX_QUOTED);
	return json_read_fail(at, fail, "is \"%.*s\": this server reads no video files; send the "
			      "frames, as in {\"type\": \"video\", \"video\": "
			      "[\"data:image/jpeg;base64,...\", ...], \"fps\": 2}",
			      (int)url.n, url.p);
}

static enum status check_count(const struct json_node *at, size_t n, struct fail *fail)
{
	if (n > 0 && n <= MAX_FRAMES)
		return OK;
	return json_read_fail(at, fail, "has %zu frames: a video has 1 to %d", n, MAX_FRAMES);
}

/* A list of data URLs and addresses. */
static enum status read_list(const struct images *im, const struct json_node *at,
			     struct videos_clip *out, struct fail *fail)
{
	size_t n = json_array_size(at->v);
	if (json_is_string(at->v))
		return refuse_file(at, json_read_view(at->v), fail);
	enum status st = json_read_need(at, fail);
	if (st == OK && !json_is_array(at->v))
		st = json_read_fail(at, fail, "must be a list of frames, each a data URL of an "
				    "image");
	if (st == OK)
		st = check_count(at, n, fail);
	struct str *frames = st == OK ? arena_alloc(im->arena, n * sizeof *frames) : NULL;
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(at, i);
		st = json_read_need_str(&item, &frames[i], fail);
		if (st == OK)
			st = images_check_url(im, &item, IMAGES_PICTURE, frames[i], fail);
	}
	out->frames = frames;
	out->n = (int)n;
	out->is_list = true;
	return st;
}

/* data:video/jpeg;base64,FRAME,FRAME */
static enum status read_joined(const struct images *im, const struct json_node *at,
			       struct videos_clip *out, struct fail *fail)
{
	const struct str head = STR("data:video/jpeg;base64,");
	struct str url = {0};
	size_t n = 1;
	enum status st = json_read_need_str(at, &url, fail);
	if (st == OK && !str_starts(url, head))
		st = refuse_file(at, url, fail);
	if (st != OK)
		return st;
	url = (struct str){url.p + head.n, url.n - head.n};
	for (size_t i = 0; i < url.n; i++)
		n += url.p[i] == ',';
	st = check_count(at, n, fail);
	if (st != OK)
		return st;
	struct str *frames = arena_alloc(im->arena, n * sizeof *frames);
	for (size_t i = 0; i < n; i++) {
		ptrdiff_t comma = str_find(url, STR(","), 0);
		size_t end = comma < 0 ? url.n : (size_t)comma, skipped = MIN(end + 1, url.n);
		frames[i] = (struct str){url.p, end};
		url = (struct str){url.p + skipped, url.n - skipped};
	}
	out->frames = frames;
	out->n = (int)n;
	return OK;
}

enum status videos_add(struct images *im, const struct json_node *part, struct fail *fail)
{
	struct json_node type = json_read_get(part, "type"), fps = json_read_get(part, "fps");
	bool is_url = str_is(json_read_view(type.v), "video_url");
	struct json_node at = json_read_get(part, is_url ? "video_url" : "video");
	struct json_node inner = json_read_get(&at, "url");
	const struct json_node *from = json_is_object(at.v) ? &inner : &at;
	struct videos_clip *video = arena_alloc(im->arena, sizeof *video);
	struct images_entry *e = NULL;
	int step = vision_frames(im->m->vision);
	*video = (struct videos_clip){.fps = PLAIN_FPS};
	enum status st = json_read_num(&fps, 0.01, 1000, &video->fps, fail);
	if (st == OK)
		st = is_url ? read_joined(im, from, video, fail)
			    : read_list(im, &at, video, fail);
	if (st == OK)
		st = images_append(im, part, from, IMAGES_VIDEO, &e, fail);
	for (int i = 0; i < video->n && st == OK; i += step) {
		e = i > 0 ? images_append_more(im, e) : e;
		e->video = video;
		e->frame = i;
	}
	return st;
}

/* --- the prompt -------------------------------------------------------------------------- */

/* The time of the frames from `frame` on: the middle between the first and the last of them. */
static double time_of(const struct videos_clip *v, int frame, int step)
{
	int last = MIN(frame + step, v->n) - 1;
	return (frame / v->fps + last / v->fps) / 2;
}

struct spelling {
	const struct images_entry *e; /* the next video's first */
	int step;
	bool has_times; /* in the text */
};

static const struct images_entry *next_video(const struct images_entry *e)
{
	while (e && (!e->video || e->frame > 0))
		e = e->next;
	return e;
}

static void write_video(struct marked *out, void *ctx)
{
	struct spelling *s = ctx;
	struct buf text = {0};
	if (!s->e)
		buf_add_z(&text, VISION_VIDEO_SHOWN);
	if (s->e && !s->has_times)
		buf_add_z(&text, VISION_VIDEO_OPEN);
	for (int i = 0; s->e && i < s->e->video->n; i += s->step)
		if (s->has_times)
			buf_addf(&text, "<%.1f seconds>" VISION_VIDEO_SHOWN,
				 time_of(s->e->video, i, s->step));
		else
			buf_add_z(&text, VISION_VIDEO_PAD);
	if (s->e && !s->has_times)
		buf_add_z(&text, VISION_VIDEO_END);
	marked_add(out, buf_str(&text), TRUST_TEMPLATE);
	buf_deinit(&text);
	s->e = s->e ? next_video(s->e->next) : NULL;
}

void videos_spell(const struct images *im, struct marked *io)
{
	struct spelling s = {next_video(im->first), vision_frames(im->m->vision),
			     vision_video_second(im->m->vision) <= 0};
	images_respell(io, STR(VISION_VIDEO_SHOWN), write_video, &s);
}

/* --- computing the frames ---------------------------------------------------------------- */

/* Says which frame a fault is in. Returns the fault's status. */
static enum status name_frame(struct images_entry *e, int frame, struct fail *fail)
{
	const struct fail why = *fail;
	char at[32];
	if (!e->video->is_list)
		return fail_set(fail, why.code, "frame %d of the video: %s", frame + 1, why.text);
	size_t n = strlen(e->place.param);
	snprintf(at, sizeof at, "[%d]", frame);
	if (n + strlen(at) < sizeof e->place.param)
		memcpy(e->place.param + n, at, strlen(at) + 1);
	return why.code;
}

/* The file that was measured is handed on: a frame at an address is fetched once. */
static enum status read_frame(const struct images *im, const struct images_entry *e, int frame,
			      const struct images_use *use, struct buf *out, struct fail *fail)
{
	struct videos_clip *v = e->video;
	if (frame == 0 && v->first.p) {
		*out = v->first;
		v->first = (struct buf){0};
		return OK;
	}
	const struct images_entry one = {.form = v->is_list ? IMAGES_URL : IMAGES_BASE64,
					 .source = v->frames[frame]};
	return images_file(im, &one, use, out, fail);
}

enum status videos_measure(const struct images *im, struct images_entry *e,
			   const struct images_use *use, struct fail *fail)
{
	struct videos_clip *v = e->video;
	struct fail why = {0};
	enum status st = OK;
	if (e->frame == 0) {
		st = read_frame(im, e, 0, use, &v->first, &why);
		if (st == OK)
			st = vision_video_measure(im->m->vision, buf_str(&v->first), v->n,
						  &v->clip, &why);
		if (st != OK)
			st = name_frame(e, 0, &why);
	}
	e->image = (struct engine_image){.n = v->clip.n};
	if (st != OK && fail)
		*fail = why;
	return st;
}

/* Sets when frames are, where positions say it. Whole positions, rounded down. The same frames at
 * another time have other keys in the cache. */
static void set_time(const struct images_entry *e, double second, struct engine_image *m)
{
	uint64_t part;
	if (second <= 0 || e->frame == 0)
		return;
	m->goes_on = true;
	m->time = (int32_t)(e->frame / e->video->fps * second);
	memcpy(&part, m->hash, sizeof part);
	part ^= hash_bytes(1, &m->time, sizeof m->time);
	memcpy(m->hash, &part, sizeof part);
}

enum status videos_look(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail)
{
	const struct videos_clip *v = e->video;
	struct buf files[VISION_MAX_FRAMES] = {{0}};
	struct str views[VISION_MAX_FRAMES];
	struct fail why = {0};
	struct tower_view *view = NULL;
	int n = MIN(vision_frames(im->m->vision), v->n - e->frame);
	struct vision_look_frames f = {.clip = &v->clip, .files = views, .n = n,
				       .owner = use->owner};
	enum status st = OK;
	for (int i = 0; i < n && st == OK; i++) {
		f.at = i;
		st = read_frame(im, e, e->frame + i, use, &files[i], &why);
		views[i] = buf_str(&files[i]);
	}
	if (st == OK)
		st = vision_video_look(im->m->vision, &f, &view, &why);
	for (int i = 0; i < n; i++)
		buf_deinit(&files[i]);
	if (st != OK) {
		st = name_frame(e, e->frame + f.at, &why);
		if (fail)
			*fail = why;
		return st;
	}
	e->image = view->image;
	set_time(e, vision_video_second(im->m->vision), &e->image);
	e->view = view;
	return OK;
}
