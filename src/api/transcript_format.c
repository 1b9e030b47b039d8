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
static void read_head(struct transcript *t, struct str head)
{
	if (!str_starts(head, STR(LANGUAGE)))
		return;
	head = (struct str){head.p + strlen(LANGUAGE), head.n - strlen(LANGUAGE)};
	bool is_name = head.n > 0 && head.n < sizeof t->heard && !str_is(head, "None");
	for (size_t i = 0; is_name && i < head.n; i++)
		is_name = isalpha((unsigned char)head.p[i]);
	if (is_name)
		memcpy(t->heard, head.p, head.n);
}

static void add_text(struct transcript *t, struct str piece, struct buf *out)
{
	buf_add_str(&t->text, piece);
	buf_add_str(out, piece);
}

void transcript_add(struct transcript *t, struct str piece, struct buf *out)
{
	if (!t->has_head) {
		add_text(t, piece, out);
		return;
	}
	buf_add_str(&t->head, piece);
	struct str head = buf_str(&t->head);
	ptrdiff_t at = str_find(head, STR(TRANSCRIPT_MARK), 0);
	size_t behind = at < 0 ? head.n : (size_t)at + strlen(TRANSCRIPT_MARK);
	if (at >= 0 && may_be_head((struct str){head.p, behind})) {
		t->has_head = false;
		read_head(t, (struct str){head.p, (size_t)at});
		add_text(t, (struct str){head.p + behind, head.n - behind}, out);
	} else if (at >= 0 || !may_be_head(head)) {
		transcript_end(t, out);
	}
}

void transcript_end(struct transcript *t, struct buf *out)
{
	if (t->has_head)
		add_text(t, buf_str(&t->head), out);
	t->has_head = false;
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
	if (c->choices[0].finish == FINISH_LENGTH)
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
		const char *language = t->language ? t->language : t->heard;
		for (const char *p = *language ? language : "unknown"; *p; p++)
			buf_add_c(out, (char)tolower((unsigned char)*p));
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
		transcript_add(t, span->text, &piece);
	add_delta(buf_str(&piece), out);
	buf_deinit(&piece);
}

/* Adds what has not been added yet; of an answer that is no stream all, once. */
static void end_text(struct api_call *c, struct buf *rest)
{
	struct transcript *t = c->state;
	if (!c->is_stream && !t->is_whole)
		transcript_add(t, buf_str(&c->choices[0].text), rest);
	transcript_end(t, rest);
	t->is_whole = true;
}

static bool has_rest(const struct api_call *c)
{
	const struct transcript *t = c->state;
	return t->times != 0;
}

static enum status tell_times(struct api_call *c, struct fail *fail)
{
	struct buf rest = {0};
	end_text(c, &rest);
	buf_deinit(&rest);
	return transcript_times_tell(c, fail);
}

static void on_done(struct api_call *c, struct buf *out)
{
	struct transcript *t = c->state;
	struct buf rest = {0};
	end_text(c, &rest);
	if (c->is_stream)
		add_delta(buf_str(&rest), out);
	buf_deinit(&rest);
	if (!c->is_stream) {
		add_whole(c, out);
		return;
	}
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
		buf_deinit(&t->head);
		buf_deinit(&t->text);
		buf_deinit(&t->timed);
		tower_view_unref(t->clip);
	}
	free(t);
}

static enum status read_all(const struct json_node *body, struct api_call *c, struct fail *fail)
{
	const struct transcript *t = c->state;
	enum status st = chat_body_read(body, c, fail);
	return st == OK && t->times ? transcript_times_hear(c, fail) : st;
}

#define TRANSCRIPT                                                                        \
	.fields = DIALECT_OWN, .is_chat = true, .read_form = transcript_read_form,        \
	.read = read_all, .has_rest = has_rest, .rest = tell_times, .on_part = on_part,  \
	.on_event = on_event, .type = type_of, .deinit = deinit

const struct dialect dialect_transcription = {TRANSCRIPT, .rewrite = transcript_to_chat};
const struct dialect dialect_translation = {TRANSCRIPT, .rewrite = transcript_to_english};
