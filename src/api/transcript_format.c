/* SPDX-License-Identifier: Apache-2.0
 *
 * A transcript: whole, as JSON or plain text, or as a stream of transcript.text.delta events and a
 * transcript.text.done with all of it.
 */
#include <ctype.h>
#include <stdlib.h>

#include "api/chat_body.h"
#include "api/transcript.h"
#include "base/alloc.h"
#include "base/utf8.h"

/* --- what the model says first ------------------------------------------------------ */

#define LANGUAGE "language "

enum { MAX_HEAD = 80 }; /* bytes, with the mark */

static bool begins_as(struct str s, struct str with)
{
	return memcmp(s.p, with.p, MIN(s.n, with.n)) == 0;
}

/* Is this "language NAME<asr_text>", or might more text make it so? */
static bool may_be_head(struct str s)
{
	return s.n <= MAX_HEAD && !memchr(s.p, '\n', s.n) &&
	       (begins_as(s, STR(LANGUAGE)) || begins_as(s, STR(TRANSCRIPT_MARK)));
}

/* "language None" is said of audio without speech. */
static void read_head(struct transcript_head *h, struct str head)
{
	if (!str_starts(head, STR(LANGUAGE)))
		return;
	head = (struct str){head.p + strlen(LANGUAGE), head.n - strlen(LANGUAGE)};
	bool is_name = head.n > 0 && head.n < sizeof h->heard && !str_is(head, "None");
	for (size_t i = 0; is_name && i < head.n; i++)
		is_name = isalpha((unsigned char)head.p[i]);
	if (is_name)
		memcpy(h->heard, head.p, head.n);
}

void transcript_add(struct transcript_head *h, struct str piece, struct buf *out)
{
	if (!h->is_open) {
		buf_add_str(out, piece);
		return;
	}
	buf_add_str(&h->text, piece);
	struct str head = buf_str(&h->text);
	ptrdiff_t at = str_find(head, STR(TRANSCRIPT_MARK), 0);
	size_t behind = at < 0 ? head.n : (size_t)at + strlen(TRANSCRIPT_MARK);
	if (at >= 0 && may_be_head((struct str){head.p, behind})) {
		h->is_open = false;
		read_head(h, (struct str){head.p, (size_t)at});
		buf_add_str(out, (struct str){head.p + behind, head.n - behind});
	} else if (at >= 0 || !may_be_head(head)) {
		transcript_end(h, out);
	}
}

void transcript_end(struct transcript_head *h, struct buf *out)
{
	if (h->is_open)
		buf_add_str(out, buf_str(&h->text));
	h->is_open = false;
}

/* --- pieces -------------------------------------------------------------------------- */

/* Is this character a Chinese or Japanese one, or their punctuation? Neither has spaces. */
static bool has_no_spaces(struct str at)
{
	static const struct {
		uint32_t first, last;
	} blocks[] = {{0x2e80, 0x312f}, {0x3190, 0xa4cf}, {0xf900, 0xfaff}, {0xfe30, 0xfe4f},
		      {0xff01, 0xff9f}, {0x20000, 0x3ffff}};
	uint32_t c;
	utf8_decode(at, &c);
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		if (c >= blocks[i].first && c <= blocks[i].last)
			return true;
	return false;
}

size_t transcript_join(struct buf *text, struct str piece)
{
	size_t last = text->n;
	while (last > 0 && ((uint8_t)text->p[--last] & 0xc0) == 0x80)
		;
	if (text->n && piece.n && !has_no_spaces(piece) &&
	    !has_no_spaces((struct str){text->p + last, text->n - last}))
		buf_add_c(text, ' ');
	size_t at = text->n;
	buf_add_str(text, piece);
	return at;
}

void transcript_add_heard(struct buf *all, const char *heard)
{
	struct str own = str_of(heard), before = buf_str(all);
	bool is_last = str_ends(before, own) &&
		       (before.n == own.n || before.p[before.n - own.n - 1] == ',');
	if (own.n == 0 || is_last)
		return;
	if (before.n)
		buf_add_c(all, ',');
	buf_add_str(all, own);
}

/* Takes the text of one choice: all of the answer, or what was said in a piece. */
static void add_choice(struct transcript *t, struct str answer, int i)
{
	struct transcript_head head = {.is_open = t->says_language};
	struct buf own = {0};
	transcript_add(&head, answer, &own);
	transcript_end(&head, &own);
	struct str text = str_trim(buf_str(&own));
	size_t at = transcript_join(&t->text, text);
	transcript_add_heard(&t->heard, head.heard);
	if (i < t->n_pieces) {
		struct transcript_piece *p = &t->pieces[i];
		p->at = at;
		p->n = text.n;
		memcpy(p->heard, head.heard, sizeof p->heard);
	}
	buf_deinit(&head.text);
	buf_deinit(&own);
}

/* --- the answer --------------------------------------------------------------------- */

static void add_usage(const struct api_call *c, struct buf *out)
{
	const struct request_stats *s = &c->stats;
	int32_t n = dialect_audio_tokens(c);
	buf_addf(out, ",\"usage\":{\"type\":\"tokens\",\"input_tokens\":%d,"
		 "\"input_token_details\":{\"text_tokens\":%d,\"audio_tokens\":%d},"
		 "\"output_tokens\":%d,\"total_tokens\":%d}", s->n_prompt, s->n_prompt - n, n,
		 s->n_output, s->n_prompt + s->n_output);
}

/* An answer that its limit cut off says so: nobody would see it in the text. */
static void add_end(const struct api_call *c, struct buf *out)
{
	add_usage(c, out);
	bool is_cut = false;
	for (int i = 0; i < c->n_choices; i++)
		is_cut |= c->choices[i].finish == FINISH_LENGTH;
	if (is_cut)
		buf_add_z(out, ",\"finish_reason\":\"length\"");
	buf_add_c(out, '}');
}

static void add_whole(const struct api_call *c, struct buf *out)
{
	const struct transcript *t = c->state;
	if (t->shape == TRANSCRIPT_SRT || t->shape == TRANSCRIPT_VTT) {
		buf_add_str(out, buf_str(&t->timed));
		return;
	}
	if (t->shape == TRANSCRIPT_TEXT) {
		buf_add_str(out, str_trim(buf_str(&t->text)));
		buf_add_c(out, '\n');
		return;
	}
	buf_add_c(out, '{');
	if (t->shape == TRANSCRIPT_VERBOSE) {
		buf_addf(out, "\"task\":\"%s\",\"language\":\"",
			 t->is_translation ? "translate" : "transcribe");
		struct str language = t->language ? str_of(t->language) : buf_str(&t->heard);
		language = language.n ? language : STR("unknown");
		for (size_t i = 0; i < language.n; i++)
			buf_add_c(out, (char)tolower((unsigned char)language.p[i]));
		buf_addf(out, "\",\"duration\":%.3f,", (double)c->audio_us / 1e6);
	}
	buf_add_z(out, "\"text\":");
	buf_add_json(out, str_trim(buf_str(&t->text)));
	buf_add_str(out, buf_str(&t->timed));
	add_end(c, out);
}

static void add_delta(struct str piece, struct buf *out)
{
	if (piece.n == 0)
		return;
	buf_add_z(out, "data: {\"type\":\"transcript.text.delta\",\"delta\":");
	buf_add_json(out, piece);
	buf_add_z(out, "}\n\n");
}

static void on_part(struct api_call *c, int i, const struct event_span *span, bool is_new,
		    struct buf *out)
{
	struct transcript *t = c->state;
	struct buf piece = {0};
	if (span->channel == OUT_CONTENT)
		transcript_add(&t->head, span->text, &piece);
	buf_add_str(&t->text, buf_str(&piece));
	add_delta(buf_str(&piece), out);
	buf_deinit(&piece);
}

/* Adds the text of an answer that is no stream, once. */
static void take_text(struct api_call *c)
{
	struct transcript *t = c->state;
	for (int i = 0; i < c->n_choices && !t->is_whole; i++)
		add_choice(t, buf_str(&c->choices[i].text), i);
	t->is_whole = true;
}

static bool has_rest(const struct api_call *c)
{
	const struct transcript *t = c->state;
	return t->times != 0;
}

static enum status tell_times(struct api_call *c, struct fail *fail)
{
	take_text(c);
	return transcript_times_tell(c, fail);
}

static void on_done(struct api_call *c, struct buf *out)
{
	struct transcript *t = c->state;
	if (!c->is_stream) {
		take_text(c);
		add_whole(c, out);
		return;
	}
	struct buf rest = {0};
	transcript_end(&t->head, &rest);
	buf_add_str(&t->text, buf_str(&rest));
	add_delta(buf_str(&rest), out);
	buf_deinit(&rest);
	buf_add_z(out, "data: {\"type\":\"transcript.text.done\",\"text\":");
	buf_add_json(out, str_trim(buf_str(&t->text)));
	add_end(c, out);
	buf_add_z(out, "\n\n");
}

static void on_event(struct api_call *c, const struct event *e, struct buf *out)
{
	if (e->kind == EVENT_DONE)
		on_done(c, out);
	if (e->kind != EVENT_FAILED)
		return;
	if (c->is_stream)
		buf_add_z(out, "data: ");
	api_error_format(&e->fail, out);
	if (c->is_stream)
		buf_add_z(out, "\n\n");
}

static const char *type_of(const struct api_call *c)
{
	const struct transcript *t = c->state;
	static const char *const types[] = {
		[TRANSCRIPT_JSON] = "application/json",
		[TRANSCRIPT_TEXT] = "text/plain; charset=utf-8",
		[TRANSCRIPT_VERBOSE] = "application/json",
		[TRANSCRIPT_SRT] = "text/plain; charset=utf-8",
		[TRANSCRIPT_VTT] = "text/vtt; charset=utf-8",
	};
	return types[t->shape];
}

static void deinit(struct api_call *c)
{
	struct transcript *t = c->state;
	if (t) {
		for (int i = 0; i < t->n_pieces; i++)
			tower_view_unref(t->pieces[i].clip);
		audio_deinit(&t->audio);
		buf_deinit(&t->head.text);
		buf_deinit(&t->text);
		buf_deinit(&t->heard);
		buf_deinit(&t->timed);
	}
	free(t);
}

static enum status read_all(const struct json_node *body, struct api_call *c, struct fail *fail)
{
	struct transcript *t = c->state;
	enum status st = t->times ? transcript_times_cut(c, fail) : OK;
	if (st == OK)
		st = chat_body_read(body, c, fail);
	if (st == OK && t->times)
		st = transcript_times_hear(c, fail);
	audio_deinit(&t->audio);
	return st;
}

#define TRANSCRIPT                                                                        \
	.fields = DIALECT_OWN, .is_chat = true, .read_form = transcript_read_form,        \
	.read = read_all, .has_rest = has_rest, .rest = tell_times, .on_part = on_part,  \
	.on_event = on_event, .type = type_of, .deinit = deinit

const struct dialect dialect_transcription = {TRANSCRIPT, .rewrite = transcript_to_chat};
const struct dialect dialect_translation = {TRANSCRIPT, .rewrite = transcript_to_english};
