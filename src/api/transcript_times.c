/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of a transcript: what the aligner hears, and how what it tells is written.
 */
#include "api/transcript.h"
#include "api/transcript_segments.h"
#include "audio/mel.h"

/* --- the clip ------------------------------------------------------------------------ */

static enum status hear(struct api_call *c, struct audio *audio, struct fail *fail)
{
	struct sound *s = align_sound(c->api->align);
	struct transcript *t = c->state;
	struct mel mel;
	enum status st = audio_fill(audio, sound_format(s)->least, fail);
	if (st == OK)
		st = mel_compute(audio, sound_format(s)->n_mels, &mel, fail);
	if (st != OK)
		return st;
	const struct sound_clip clip = {mel.rows, mel.n_frames, c->owner, c->is_gone};
	st = sound_hear(s, &clip, &t->clip, fail);
	mel_deinit(&mel);
	return st;
}

enum status transcript_times_hear(struct api_call *c, struct fail *fail)
{
	const int64_t most = align_max_us(c->api->align);
	struct transcript *t = c->state;
	struct audio audio;
	if (c->audio_us > most && (t->times & TIMES_MAY_LACK)) {
		t->times = 0;
		return OK;
	}
	if (c->audio_us > most)
		return fail_at(fail, E_LIMIT, "file", "`file` is %.1f s of audio, and times are "
			       "told of %.1f s at most: send it in parts, or ask for json, text or "
			       "verbose_json without times", (double)c->audio_us / 1e6,
			       (double)most / 1e6);
	const struct audio_limits limits = c->api->chat.audio;
	enum status st = audio_decode(c->file, &limits, &audio, fail);
	if (st != OK)
		return st;
	st = hear(c, &audio, fail);
	audio_deinit(&audio);
	return st;
}

/* --- how they are written ------------------------------------------------------------ */

static void add_seconds(const char *from, int32_t ms, struct buf *out)
{
	buf_addf(out, "\"%s\":%d.%03d", from, (int)(ms / 1000), (int)(ms % 1000));
}

static void add_words(const struct align_words *w, struct buf *out)
{
	buf_add_z(out, ",\"words\":[");
	for (size_t i = 0; i < w->n; i++) {
		buf_add_z(out, i ? ",{\"word\":" : "{\"word\":");
		buf_add_json(out, align_words_text(w, i));
		buf_add_c(out, ',');
		add_seconds("start", w->p[i].from_ms, out);
		buf_add_c(out, ',');
		add_seconds("end", w->p[i].to_ms, out);
		buf_add_c(out, '}');
	}
	buf_add_c(out, ']');
}

static enum status add_tokens(const struct api_call *c, struct str text, struct buf *out,
			      struct fail *fail)
{
	struct ids ids = {0};
	enum status st = tokenizer_encode(c->api->chat.model->tokenizer, text, TRUST_USER, &ids,
					  fail);
	for (size_t i = 0; i < ids.n; i++)
		buf_addf(out, i ? ",%d" : "%d", (int)ids.p[i]);
	ids_deinit(&ids);
	return st;
}

static enum status add_segments(const struct api_call *c, const struct transcript_segments *s,
				struct buf *out, struct fail *fail)
{
	enum status st = OK;
	buf_add_z(out, ",\"segments\":[");
	for (size_t i = 0; i < s->n && st == OK; i++) {
		buf_addf(out, "%s{\"id\":%zu,\"seek\":0,", i ? "," : "", i);
		add_seconds("start", s->p[i].from_ms, out);
		buf_add_c(out, ',');
		add_seconds("end", s->p[i].to_ms, out);
		buf_add_z(out, ",\"text\":");
		buf_add_json(out, s->p[i].text);
		buf_add_z(out, ",\"tokens\":[");
		st = add_tokens(c, s->p[i].text, out, fail);
		buf_add_z(out, "],\"temperature\":");
		buf_add_json_num(out, (double)c->request->sampling.temperature);
		buf_add_c(out, '}');
	}
	buf_add_c(out, ']');
	return st;
}

static enum status write_all(const struct api_call *c, struct str text,
			     const struct align_words *w, struct fail *fail)
{
	struct transcript *t = c->state;
	struct transcript_segments s;
	enum status st = OK;
	transcript_segments_split(text, w, &s);
	if (t->shape != TRANSCRIPT_VERBOSE) {
		transcript_segments_add(&s, t->shape == TRANSCRIPT_VTT, &t->timed);
	} else {
		if (t->times & TIMES_WORDS)
			add_words(w, &t->timed);
		if (t->times & TIMES_SEGMENTS)
			st = add_segments(c, &s, &t->timed, fail);
	}
	transcript_segments_deinit(&s);
	return st;
}

enum status transcript_times_tell(struct api_call *c, struct fail *fail)
{
	struct transcript *t = c->state;
	struct align_words words = {0};
	const struct align_ask ask = {
		.text = str_trim(buf_str(&t->text)),
		.language = t->language ? t->language : *t->heard ? t->heard : NULL,
		.clip = &t->clip->image, .is_gone = c->is_gone};
	enum status st = align_run(c->api->align, &ask, &words, fail);
	bool may_lack = (st == E_UNSUPPORTED || st == E_LIMIT) && (t->times & TIMES_MAY_LACK);
	if (st == OK)
		st = write_all(c, ask.text, &words, fail);
	align_words_deinit(&words);
	return may_lack ? OK : st;
}
