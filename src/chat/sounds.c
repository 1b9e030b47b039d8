/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/sounds.h"

#include "audio/audio_cut.h"
#include "audio/mel.h"
#include "base/alloc.h"
#include "chat/videos.h"

bool sounds_is_kind(struct str kind)
{
	return str_is(kind, "input_audio") || str_is(kind, "audio_url");
}

static enum status add_entry(struct images *im, const struct json_node *part,
			     const struct json_node *at, int form, struct str source,
			     struct fail *fail)
{
	struct images_entry *e = NULL;
	enum status st = images_append(im, part, at, IMAGES_SOUND, &e, fail);
	if (st != OK)
		return st;
	e->form = form;
	e->source = source;
	return OK;
}

/* The bytes say what a file is. A format that is not read is refused before its digits are. */
static enum status check_format(const struct json_node *inner, struct fail *fail)
{
	static const char *const formats[] = {"wav", "mp3", "flac", "ogg", "opus"};
	struct json_node at = json_read_get(inner, "format");
	struct str format = STR("wav");
	enum status st = json_read_str(&at, &format, fail);
	for (size_t i = 0; i < ARRAY_LEN(formats) && st == OK; i++)
		if (str_is(format, formats[i]))
			return OK;
	format = json_read_clip(format, 40);
	return st != OK ? st
			: json_read_fail(&at, fail, "is \"%.*s\": wav, mp3, flac, ogg and opus "
					 "are read", (int)format.n, format.p);
}

static enum status add_digits(struct images *im, const struct json_node *part,
			      const struct json_node *inner, struct fail *fail)
{
	struct json_node data = json_read_get(inner, "data");
	struct str digits = {0};
	enum status st = json_read_need_object(inner, fail);
	if (st == OK)
		st = json_read_need_str(&data, &digits, fail);
	if (st == OK)
		st = check_format(inner, fail);
	bool is_url = str_starts(digits, STR("data:"));
	if (st == OK && is_url)
		st = images_check_url(im, &data, IMAGES_SOUND, digits, fail);
	if (st != OK)
		return st;
	return add_entry(im, part, &data, is_url ? IMAGES_URL : IMAGES_BASE64, digits, fail);
}

enum status sounds_add(struct images *im, const struct json_node *part, struct fail *fail)
{
	struct json_node inner = json_read_get(part, "input_audio");
	struct json_node at = json_read_get(part, "audio_url");
	struct json_node type = json_read_get(part, "type");
	bool is_url = json_is_string(type.v) && str_is(json_read_view(type.v), "audio_url");
	if (!at.v && !inner.v && im->form.file.p)
		return add_entry(im, part, part, IMAGES_FILE, im->form.file, fail);
	if (at.v && inner.v)
		return json_read_fail(&type, fail, "is given with `input_audio` and `audio_url`: "
				      "send one of them in a part");
	return is_url ? images_add_url(im, part, "audio_url", IMAGES_SOUND, fail)
		      : add_digits(im, part, &inner, fail);
}

int64_t sounds_left(const struct images *im)
{
	int64_t most = im->m->audio.max_us;
	return most ? MAX(1, most - images_audio_us(im)) : 0;
}

/* A clip that was heard before is not decoded again, if it may be as long as it is. */
static bool recall(const struct images *im, struct images_entry *e, int64_t max_us)
{
	struct tower_view *view;
	int64_t us = 0;
	if (!sound_recall(im->m->sound, &e->file, &view, &us))
		return false;
	if (max_us && us > max_us) {
		tower_view_unref(view);
		return false;
	}
	e->us = us;
	e->image = view->image;
	e->view = view;
	return true;
}

static bool is_decoded(const struct images *im, const struct images_entry *e)
{
	return e->form == IMAGES_FILE && im->form.audio;
}

/* Fills e->audio, or e->view where the tower remembers the file. */
static enum status read_sound(const struct images *im, struct images_entry *e,
			      const struct images_use *use, struct fail *fail)
{
	const struct images_form *form = &im->form;
	struct buf sent = {0};
	struct str file = e->source; /* of a form: as it came */
	enum status st = OK;
	const struct audio_limits limits = {im->m->audio.max_bytes, sounds_left(im)};
	if (e->form != IMAGES_FILE) {
		st = images_file(im, e, use, &sent, fail);
		file = buf_str(&sent);
	}
	if (st == OK)
		st = sound_file_of(file, use->owner, &e->file, fail);
	e->has_file = st == OK;
	if (st == OK && !recall(im, e, limits.max_us))
		st = is_decoded(im, e)
			     ? audio_cut_copy(form->audio, 0, form->n, &e->audio, fail)
			     : audio_decode(file, &limits, &e->audio, fail);
	buf_deinit(&sent);
	return st;
}

enum status sounds_count(const struct images *im, struct audio *a, int32_t *out_n,
			 struct fail *fail)
{
	enum status st = audio_fill(a, sound_filled(im->m->sound, a->n), fail);
	*out_n = sound_tokens(im->m->sound, (int32_t)(a->n / MEL_HOP));
	return st;
}

enum status sounds_measure(const struct images *im, struct images_entry *e,
			   const struct images_use *use, struct fail *fail)
{
	const struct images_form *form = &im->form;
	int32_t n = 0;
	if (e->video)
		return OK; /* it is counted */
	bool is_piece = is_decoded(im, e) && form->n < form->audio->n;
	enum status st = is_piece
		? audio_cut_copy(form->audio, form->from, form->n, &e->audio, fail)
		: read_sound(im, e, use, fail);
	if (st != OK || e->view)
		return st;
	e->us = audio_us(&e->audio);
	st = sounds_count(im, &e->audio, &n, fail);
	if (st == OK)
		e->image = (struct engine_image){.is_sound = true, .n = n};
	return st;
}

enum status sounds_run(const struct images *im, struct audio *a, const struct images_use *use,
		       struct tower_view **out, struct fail *fail)
{
	struct mel mel;
	enum status st = mel_compute(a, sound_format(im->m->sound)->n_mels, &mel, fail);
	audio_deinit(a);
	const struct sound_clip clip = {mel.rows, mel.n_frames, use->owner, use->is_gone};
	if (st == OK)
		st = sound_hear(im->m->sound, &clip, out, fail);
	mel_deinit(&mel);
	return st;
}

enum status sounds_hear(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail)
{
	struct tower_view *view = NULL;
	if (e->video)
		return videos_hear(im, e, use, fail);
	if (e->view)
		return OK; /* recalled */
	enum status st = sounds_run(im, &e->audio, use, &view, fail);
	if (st != OK)
		return st;
	if (e->has_file)
		sound_keep(im->m->sound, &e->file, view, e->us);
	e->image = view->image;
	e->view = view;
	return OK;
}
