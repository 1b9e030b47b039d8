/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of a transcript: what the aligner hears, and how what it tells is written.
 */
#include "api/transcript.h"

#include <stdio.h>

#include "api/transcript_segments.h"
#include "audio/audio_cut.h"
#include "audio/mel.h"

/* --- pieces -------------------------------------------------------------------------- */

static void add_piece(struct transcript *t, int64_t end, int64_t *ends)
{
	int64_t from = t->n_pieces ? ends[t->n_pieces - 1] : 0;
	t->pieces[t->n_pieces] = (struct transcript_piece){.from = from, .end = end};
	ends[t->n_pieces++] = end;
}

static enum status cut(struct api_call *c, struct fail *fail)
{
	const struct audio_cut rule = audio_cut_rule(align_max_us(c->api->align));
	struct transcript *t = c->state;
	int64_t *ends = arena_alloc(&c->arena, API_MAX_CHOICES * sizeof *ends);
	t->pieces = arena_alloc(&c->arena, API_MAX_CHOICES * sizeof *t->pieces);
	for (int64_t at = 0; at < t->audio.n; at = ends[t->n_pieces - 1]) {
		if (t->n_pieces == API_MAX_CHOICES)
			return fail_at(fail, E_LIMIT, "file", "`file` is %.1f s of audio, which "
				       "are more than %d pieces for the aligner: send it in parts, "
				       "or ask for no times", (double)audio_us(&t->audio) / 1e6,
				       API_MAX_CHOICES);
		add_piece(t, audio_cut_end(&t->audio, &rule, at), ends);
	}
	c->form.audio = &t->audio;
	c->piece_ends = ends;
	c->n_pieces = t->n_pieces;
	return OK;
}

enum status transcript_times_cut(struct api_call *c, struct fail *fail)
{
	const struct audio_limits limits = c->api->chat.audio;
	struct transcript *t = c->state;
	enum status st = audio_decode(c->form.file, &limits, &t->audio, fail);
	if (st == E_UNSUPPORTED && fail) /* the client's mistake, not the server's */
		fail->code = st = E_INVAL;
	if (st != OK && fail)
		snprintf(fail->param, sizeof fail->param, "file");
	return st == OK ? cut(c, fail) : st;
}

static enum status hear(struct api_call *c, const struct transcript *t,
			struct transcript_piece *p, struct fail *fail)
{
	struct sound *s = align_sound(c->api->align);
	struct audio own;
	struct mel mel;
	enum status st = audio_cut_copy(&t->audio, p->from, p->end - p->from, &own, fail);
	if (st != OK)
		return st;
	st = audio_fill(&own, sound_filled(s, own.n), fail);
	if (st == OK)
		st = mel_compute(&own, sound_format(s)->n_mels, &mel, fail);
	audio_deinit(&own);
	if (st != OK)
		return st;
	const struct sound_clip clip = {mel.rows, mel.n_frames, c->owner, c->is_gone};
	st = sound_hear(s, &clip, &p->clip, fail);
	mel_deinit(&mel);
	return st;
}

enum status transcript_times_hear(struct api_call *c, struct fail *fail)
{
	struct transcript *t = c->state;
	enum status st = OK;
	for (int i = 0; i < t->n_pieces && st == OK; i++)
		st = hear(c, t, &t->pieces[i], fail);
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

/* Adds the words of a piece. None is said to end behind it: what comes then is heard by another
 * pass. */
static enum status align_piece(const struct api_call *c, int i, struct align_words *all,
			       struct fail *fail)
{
	enum { PER_MS = AUDIO_RATE / 1000 };
	const struct transcript *t = c->state;
	const struct transcript_piece *p = &t->pieces[i];
	struct align_words own = {0};
	const struct align_ask ask = {
		.text = {t->text.p + p->at, p->n},
		.language = t->language ? t->language : *p->heard ? p->heard : NULL,
		.clip = &p->clip->image, .is_gone = c->is_gone};
	enum status st = align_run(c->api->align, &ask, &own, fail);
	int32_t from_ms = (int32_t)((p->from + PER_MS / 2) / PER_MS);
	int32_t end_ms = i + 1 < t->n_pieces ? (int32_t)(p->end / PER_MS) : INT32_MAX;
	if (st == OK)
		align_words_join(all, &own, p->at, from_ms, end_ms);
	align_words_deinit(&own);
	return st;
}

enum status transcript_times_tell(struct api_call *c, struct fail *fail)
{
	struct transcript *t = c->state;
	struct align_words words = {0};
	enum status st = OK;
	for (int i = 0; i < t->n_pieces && st == OK; i++)
		st = align_piece(c, i, &words, fail);
	bool may_lack = (st == E_UNSUPPORTED || st == E_LIMIT) && (t->times & TIMES_MAY_LACK);
	if (st == OK)
		st = write_all(c, buf_str(&t->text), &words, fail);
	align_words_deinit(&words);
	return may_lack ? OK : st;
}
