/* SPDX-License-Identifier: Apache-2.0
 *
 * A video's frames are shown as Qwen3-VL's processor shows them: pairs of neighbours, each behind
 * its time. A file's frame has the time of its number by the file's rate. Qwen3-Omni sees all
 * pairs together, and their times as positions. Where it hears the file, too, a pair stands before
 * the sound from its time on. Sources: processing_qwen3_vl.py and processing_qwen3_omni_moe.py of
 * Hugging Face Transformers.
 */
#include "chat/videos.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "chat/sounds.h"

enum { MAX_FRAMES = VISION_MAX_CHOSEN, MAX_QUOTED = 60 };
#define PLAIN_FPS 2.0 /* of a video that does not say it; as Qwen's own clients take it */

bool videos_is_kind(struct str kind)
{
	return str_is(kind, "video") || str_is(kind, "video_url");
}

/* --- the part ---------------------------------------------------------------------------- */

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
	enum status st = json_read_need(at, fail);
	if (st == OK && !json_is_array(at->v))
		st = json_read_fail(at, fail, "must be a list of frames, each a data URL of an "
				    "image, or a file's data URL or address");
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
static const struct str joined_head = {"data:video/jpeg;base64,", 23};

static enum status read_joined(const struct images *im, const struct json_node *at,
			       struct str url, struct videos_clip *out, struct fail *fail)
{
	size_t n = 1;
	url = (struct str){url.p + joined_head.n, url.n - joined_head.n};
	for (size_t i = 0; i < url.n; i++)
		n += url.p[i] == ',';
	enum status st = check_count(at, n, fail);
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

/* Frames in one string, or a file. */
static enum status read_string(const struct images *im, const struct json_node *at,
			       struct videos_clip *out, struct fail *fail)
{
	struct str url = {0};
	struct fail why = {0};
	enum status st = json_read_need_str(at, &url, fail);
	if (st != OK)
		return st;
	if (str_starts(url, joined_head))
		return read_joined(im, at, url, out, fail);
	out->url = url;
	if (video_check(&im->m->video, &why) == OK)
		return images_check_url(im, at, IMAGES_VIDEO, url, fail);
	url = json_read_clip(url, MAX_QUOTED);
	return json_read_fail(at, fail, "is \"%.*s\": %s; send the frames, as in {\"type\": "
			      "\"video\", \"video\": [\"data:image/jpeg;base64,...\", ...], "
			      "\"fps\": 2}", (int)url.n, url.p, why.text);
}

/* `fps` and `num_frames` of a part or of mm_processor_kwargs. They exclude each other. */
static enum status read_wish(const struct json_node *from, double *fps, int32_t *n_frames,
			     struct fail *fail)
{
	struct json_node rate = json_read_get(from, "fps"), n = json_read_get(from, "num_frames");
	int64_t wanted = 0;
	enum status st = json_read_num(&rate, 0.01, 1000, fps, fail);
	if (st == OK)
		st = json_read_int(&n, 1, MAX_FRAMES, &wanted, fail);
	if (st == OK && rate.v && n.v)
		st = json_read_fail(&n, fail, "is given with `fps`: send one of them");
	*n_frames = (int32_t)wanted;
	return st;
}

/* An object of these keys; `words` are behind "is not read: ". */
static enum status check_keys(const struct images *im, const struct json_node *from,
			      const char *const *known, size_t n_known, const char *words,
			      struct fail *fail)
{
	const char *key;
	json_t *value;
	enum status st = json_read_object(from, fail);
	if (st == OK && !vision_frames(im->m->vision) && json_object_size(from->v) > 0)
		return json_read_fail(from, fail, "is not supported: this model takes no video");
	json_object_foreach((json_t *)from->v, key, value) {
		bool is_known = false;
		for (size_t i = 0; i < n_known; i++)
			is_known |= strcmp(key, known[i]) == 0;
		struct json_node at = json_read_get(from, key);
		if (st == OK && !is_known && at.v)
			st = json_read_fail(&at, fail, "is not read: %s", words);
	}
	return st;
}

static enum status check_hears(const struct images *im, const struct json_node *at,
			       struct fail *fail)
{
	if (im->m->lacks_audio)
		return json_read_fail(at, fail, "is not supported: this halod lacks the libraries "
				      "that read audio; its log names them");
	if (!im->m->sound || vision_video_second(im->m->vision) <= 0)
		return json_read_fail(at, fail, "is not supported: this model does not hear the "
				      "sound of a video");
	return OK;
}

/* In vLLM's words -1 is none. */
static bool is_none(const struct json_node *at)
{
	return json_is_integer(at->v) && json_integer_value(at->v) == -1;
}

/* `{"video": {"fps": 2, "num_frames": 32}}`. */
static enum status read_media_kwargs(struct images *im, const struct json_node *body,
				     struct fail *fail)
{
	static const char *const known[] = {"video"}, *const inside[] = {"fps", "num_frames"};
	struct json_node from = json_read_get(body, "media_io_kwargs");
	struct json_node video = json_read_get(&from, "video");
	struct json_node fps = json_read_get(&video, "fps");
	struct json_node n = json_read_get(&video, "num_frames");
	int64_t n_frames = 0;
	enum status st = check_keys(im, &from, known, 1, "video is", fail);
	if (st == OK)
		st = check_keys(im, &video, inside, 2, "fps and num_frames are", fail);
	if (st == OK && json_object_size(video.v) > 0 && (im->video_fps > 0 || im->video_frames))
		st = json_read_fail(&video, fail, "is given with frames in `mm_processor_kwargs`: "
				    "send one of them");
	if (st == OK && !is_none(&fps))
		st = json_read_num(&fps, 0.01, 1000, &im->media_fps, fail);
	if (st == OK && !is_none(&n))
		st = json_read_int(&n, 1, MAX_FRAMES, &n_frames, fail);
	im->media_frames = (int32_t)n_frames;
	return st;
}

enum status videos_read_kwargs(struct images *im, const struct json_node *body,
			       struct fail *fail)
{
	static const char *const known[] = {"fps", "num_frames", "use_audio_in_video"};
	struct json_node from = json_read_get(body, "mm_processor_kwargs");
	struct json_node sound = json_read_get(&from, "use_audio_in_video");
	enum status st = check_keys(im, &from, known, ARRAY_LEN(known),
				    "fps, num_frames and use_audio_in_video are", fail);
	if (st == OK)
		st = json_read_bool(&sound, &im->hears_videos, fail);
	if (st == OK && im->hears_videos)
		st = check_hears(im, &sound, fail);
	if (st == OK)
		st = read_wish(&from, &im->video_fps, &im->video_frames, fail);
	return st == OK ? read_media_kwargs(im, body, fail) : st;
}

/* Tokens of the sound before the view from frame i on. */
static int32_t heard_before(const struct images *im, const struct videos_clip *v, int i)
{
	int step = vision_frames(im->m->vision);
	double second = vision_video_second(im->m->vision);
	double time = i / step * (step / v->rate) * second; /* in this order, as the source */
	return i < v->n ? (int32_t)MIN(ceil(time), (double)v->n_heard) : v->n_heard;
}

/* One entry is there: those of the further views, and of the sound's parts between and behind
 * them. */
static void add_views(struct images *im, struct images_entry *e)
{
	const struct videos_clip *v = e->video;
	int step = vision_frames(im->m->vision);
	int32_t heard = 0;
	for (int i = step; i < v->n + step; i += step) {
		int32_t until = v->n_heard ? heard_before(im, v, i) : 0;
		if (until > heard) {
			e = images_add_behind(im, e, IMAGES_SOUND);
			e->image = (struct engine_image){.is_sound = true, .goes_on = true,
							 .time = heard, .n = until - heard};
			heard = until;
		}
		if (i < v->n) {
			e = images_add_behind(im, e, IMAGES_VIDEO);
			e->frame = i;
		}
	}
}

enum status videos_add(struct images *im, const struct json_node *part, struct fail *fail)
{
	struct json_node type = json_read_get(part, "type");
	bool is_url = str_is(json_read_view(type.v), "video_url");
	struct json_node at = json_read_get(part, is_url ? "video_url" : "video");
	struct json_node inner = json_read_get(&at, "url");
	struct json_node frames = json_read_get(part, "num_frames");
	const struct json_node *from = is_url && json_is_object(at.v) ? &inner : &at;
	struct videos_clip *video = arena_alloc(im->arena, sizeof *video);
	struct images_entry *e = NULL;
	double fps = 0;
	enum status st = read_wish(part, &fps, &video->want_n, fail);
	bool is_plain = fps == 0 && video->want_n == 0;
	if (is_plain) {
		fps = im->video_fps;
		video->want_n = im->video_frames;
	}
	if (st == OK)
		st = is_url || json_is_string(from->v) ? read_string(im, from, video, fail)
						       : read_list(im, &at, video, fail);
	if (st == OK && frames.v && !video->url.p)
		st = json_read_fail(&frames, fail, "is for files: a list has its frames");
	if (is_plain && video->url.p) {
		fps = im->media_fps > 0 ? im->media_fps : fps;
		video->most_n = im->media_frames;
	}
	video->want_fps = fps;
	video->fps = video->rate = fps > 0 ? fps : PLAIN_FPS;
	if (st == OK)
		st = images_append(im, part, from, IMAGES_VIDEO, &e, fail);
	if (st != OK)
		return st;
	e->video = video;
	add_views(im, e);
	return OK;
}

/* --- files ------------------------------------------------------------------------------- */

/* How many of n frames the request allows; 0: it does not say, or there are no more. A model that
 * sees whole pairs sees one at least. */
static int64_t most_frames(const struct images *im, const struct videos_clip *v, int64_t n)
{
	int64_t most = MIN(v->most_n, n), pair = vision_frames(im->m->vision);
	if (most == 0 || vision_video_second(im->m->vision) <= 0)
		return most;
	return n < pair ? 0 : MAX(most - most % pair, pair);
}

static enum status choose(const struct images *im, struct videos_clip *v, struct fail *fail)
{
	const struct video_found *found = video_found(v->file);
	const struct vision_choice wish = {.n_frames = found->n, .fps = found->fps,
					   .want_fps = v->want_fps, .want_n = v->want_n};
	struct vision_choice c = wish;
	int64_t most = most_frames(im, v, found->n);
	enum status st = vision_video_choose(im->m->vision, &c, fail);
	if (st == OK && most > 0 && (c.n > most || v->want_fps <= 0)) {
		c = wish;
		c.want_n = (int32_t)most;
		st = vision_video_choose(im->m->vision, &c, fail);
	}
	if (st != OK)
		return st;
	int64_t *at = arena_alloc(im->arena, (size_t)c.n * sizeof *at);
	memcpy(at, c.at, (size_t)c.n * sizeof *at);
	video_choose(v->file, at, c.n);
	v->at = at;
	v->n = c.n;
	v->fps = c.fps;
	v->rate = c.rate;
	return OK;
}

struct listening {
	struct video *file;
	const _Atomic bool *is_gone;
};

static enum status listen(void *ctx, float *out, size_t n, size_t *out_n, struct fail *fail)
{
	const struct listening *l = ctx;
	return video_hear(l->file, l->is_gone, out, n, out_n, fail);
}

static enum status read_sound(const struct images *im, struct images_entry *e, int64_t n_bytes,
			      const struct images_use *use, struct fail *fail)
{
	struct videos_clip *v = e->video;
	struct listening l = {v->file, use->is_gone};
	const struct audio_source from = {video_found(v->file)->rate, n_bytes, listen, &l};
	const struct audio_limits limits = {.max_us = sounds_left(im)};
	enum status st = audio_take(&from, &limits, &v->sound, fail);
	if (st != OK)
		return st;
	e->us = audio_us(&v->sound);
	return sounds_count(im, &v->sound, &v->n_heard, fail);
}

static enum status open_file(const struct images *im, struct images_entry *e,
			     const struct images_use *use, struct fail *fail)
{
	struct videos_clip *v = e->video;
	struct buf file = {0};
	const struct images_entry one = {.kind = IMAGES_VIDEO, .form = IMAGES_URL,
					 .source = v->url};
	enum status st = images_file(im, &one, use, &file, fail);
	if (st == OK)
		st = video_open(buf_str(&file), im->hears_videos, &im->m->video, use->is_gone,
				&v->file, fail);
	int64_t n_bytes = (int64_t)file.n;
	buf_deinit(&file);
	if (st == OK && video_found(v->file)->rate > 0)
		st = read_sound(im, e, n_bytes, use, fail);
	return st == OK ? choose(im, v, fail) : st;
}

enum status videos_open(struct images *im, const struct images_use *use, struct fail *fail)
{
	enum status st = OK;
	for (struct images_entry *e = im->first; e && st == OK; e = e->next) {
		if (e->kind != IMAGES_VIDEO || !e->video->url.p || e->frame > 0)
			continue;
		struct fail why = {0};
		st = open_file(im, e, use, &why);
		if (st == OK)
			add_views(im, e);
		else
			st = images_blame(e, &why, fail);
	}
	return st;
}

void videos_close(struct videos_clip *v)
{
	buf_deinit(&v->first);
	video_close(v->file);
	v->file = NULL;
	audio_deinit(&v->sound);
	tower_view_unref(v->heard);
	v->heard = NULL;
}

/* --- the prompt -------------------------------------------------------------------------- */

/* The time of the frames from `frame` on: the middle between the first and the last of them. */
static double time_of(const struct videos_clip *v, int frame, int step)
{
	int last = MIN(frame + step, v->n) - 1;
	double begin = v->at ? (double)v->at[frame] : frame;
	double end = v->at ? (double)v->at[last] : last;
	return (begin / v->fps + end / v->fps) / 2;
}

struct spelling {
	const struct images_entry *e; /* the next video's first */
	int step;
	bool has_times; /* in the text */
};

/* Of a model whose positions tell the times: a token for each entry of the video. */
static void write_entries(const struct images_entry *e, struct buf *text)
{
	const struct videos_clip *v = e->video;
	buf_add_z(text, VISION_VIDEO_OPEN);
	if (v->n_heard > 0)
		buf_add_z(text, SOUND_OPEN);
	for (; e && e->video == v; e = e->next)
		buf_add_z(text, e->kind == IMAGES_SOUND ? SOUND_PAD : VISION_VIDEO_PAD);
	if (v->n_heard > 0)
		buf_add_z(text, SOUND_END);
	buf_add_z(text, VISION_VIDEO_END);
}

static const struct images_entry *next_video(const struct images_entry *e)
{
	while (e && (e->kind != IMAGES_VIDEO || e->frame > 0))
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
		write_entries(s->e, &text);
	for (int i = 0; s->e && s->has_times && i < s->e->video->n; i += s->step)
		buf_addf(&text, "<%.1f seconds>" VISION_VIDEO_SHOWN,
			 time_of(s->e->video, i, s->step));
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
	if (e->video->file) /* its words name the video */
		return why.code;
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
	if (v->file)
		return video_read(v->file, use->is_gone, out, fail);
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
	if (e->frame == 0 && v->file) {
		const struct video_found *f = video_found(v->file);
		st = vision_video_measure_size(im->m->vision, f->width, f->height, v->n, &v->clip,
					       &why);
	} else if (e->frame == 0) {
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

/* The same rows at another time have other keys in the cache. */
static void mix_hash(struct engine_image *m, int32_t word)
{
	uint64_t part;
	memcpy(&part, m->hash, sizeof part);
	part ^= hash_bytes(1, &word, sizeof word);
	memcpy(m->hash, &part, sizeof part);
}

/* Sets when frames are, where positions say it. Whole positions, rounded down. */
static void set_time(const struct images_entry *e, double second, struct engine_image *m)
{
	if (second <= 0 || e->frame == 0)
		return;
	m->goes_on = true;
	m->time = (int32_t)(e->frame / e->video->rate * second);
	mix_hash(m, m->time);
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
				       .are_pixels = v->file, .owner = use->owner};
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

/* --- hearing the sound ------------------------------------------------------------------- */

enum status videos_hear(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail)
{
	struct videos_clip *v = e->video;
	struct engine_image *m = &e->image;
	enum status st = OK;
	if (!v->heard) /* the first part has all of it heard */
		st = sounds_run(im, &v->sound, use, &v->heard, fail);
	if (st != OK)
		return st;
	tower_view_ref(v->heard);
	e->view = v->heard;
	memcpy(m->hash, v->heard->image.hash, sizeof m->hash);
	mix_hash(m, -1 - m->time);
	m->n_rows = 1;
	m->n_cols = m->n;
	m->rows = v->heard->image.rows + (size_t)m->time * (size_t)sound_width(im->m->sound);
	return OK;
}
