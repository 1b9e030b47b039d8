/* SPDX-License-Identifier: Apache-2.0
 *
 * text_completion, streamed or whole. Log-probabilities are four parallel lists. In them a
 * token that is not whole UTF-8 is spelled "bytes:\xe6\x98", as OpenAI does. So two such
 * tokens stay two keys of one object.
 */
#include "api/format.h"

#include "api/completion.h"
#include "api/api_dialect.h"

#include <math.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { TOKENS, TOKEN_LOGPROBS, TOP_LOGPROBS, TEXT_OFFSETS };

static struct str echo_of(const struct api_call *c, int i)
{
	return c->echo ? c->echo[i / c->request->n] : STR("");
}

/* Writes the echo, if there is one: nothing else comes before the first token. */
static bool add_begin(const struct api_call *c, int i, struct buf *out)
{
	struct str echo = echo_of(c, i);
	buf_add_z(out, "\"text\":");
	buf_add_json(out, echo);
	return echo.n > 0;
}

static void add_delta(const struct event_span *span, struct buf *out)
{
	buf_add_z(out, "\"text\":");
	buf_add_json(out, span ? span->text : STR(""));
}

static void add_whole(const struct api_call *c, int i, struct buf *out)
{
	struct buf text = {0};
	buf_add_str(&text, echo_of(c, i));
	buf_add_str(&text, buf_str(&c->choices[i].text));
	buf_add_z(out, "\"text\":");
	buf_add_json(out, buf_str(&text));
	buf_deinit(&text);
}

/* Writes one token as a JSON string. */
static void add_spelling(struct buf *out, struct str bytes)
{
	if (utf8_check(bytes) < 0) {
		buf_add_json(out, bytes);
		return;
	}
	buf_add_z(out, "\"bytes:");
	for (size_t i = 0; i < bytes.n; i++)
		buf_addf(out, "\\\\x%02x", (unsigned char)bytes.p[i]);
	buf_add_c(out, '"');
}

static void add_top(const struct tokenizer *tok, int32_t id, float logprob,
		    struct buf *out)
{
	if (out->p[out->n - 1] != '{')
		buf_add_c(out, ',');
	add_spelling(out, tokenizer_bytes(tok, id));
	buf_add_c(out, ':');
	format_add_logprob(out, logprob);
}

/* Characters that begin in the token: a continuation byte belongs to a character begun
 * before. */
static int64_t n_chars_of(const struct tokenizer *tok, int32_t id)
{
	struct str bytes = tokenizer_bytes(tok, id);
	int64_t n = 0;
	for (size_t i = 0; i < bytes.n; i++)
		n += ((unsigned char)bytes.p[i] & 0xC0) != 0x80;
	return n;
}

static void collect_token(const struct api_call *c, struct choice *ch,
			  const struct event_token *t, int64_t n_chars)
{
	const struct tokenizer *tok = c->api->chat.model->tokenizer;
	struct buf *top = &ch->logprobs[TOP_LOGPROBS];
	for (int i = 0; i < LOGPROB_LISTS; i++)
		format_add_comma(&ch->logprobs[i]);
	add_spelling(&ch->logprobs[TOKENS], tokenizer_bytes(tok, t->id));
	buf_addf(&ch->logprobs[TEXT_OFFSETS], "%lld", (long long)ch->n_chars);
	ch->n_chars += n_chars;
	if (isnan(t->logprob)) { /* a prompt's first token has no log-probability */
		buf_add_z(&ch->logprobs[TOKEN_LOGPROBS], "null");
		buf_add_z(top, "null");
		return;
	}
	format_add_logprob(&ch->logprobs[TOKEN_LOGPROBS], t->logprob);
	/* The best n tokens, and the drawn token if it is not among them. */
	bool has_own = false;
	buf_add_c(top, '{');
	for (int i = 0; i < MIN(t->n_top, c->request->sampling.n_top_logprobs); i++) {
		add_top(tok, t->top[i].id, t->top[i].logprob, top);
		has_own |= t->top[i].id == t->id;
	}
	if (!has_own)
		add_top(tok, t->id, t->logprob, top);
	buf_add_c(top, '}');
}

/* Adds a token of the answer. A special token has no text in the answer, unless the client
 * asked for it. */
static void gather_token(const struct api_call *c, struct choice *ch,
			 const struct event_token *t)
{
	const struct tokenizer *tok = c->api->chat.model->tokenizer;
	bool has_text = !c->request->skip_special || !tokenizer_is_special(tok, t->id);
	collect_token(c, ch, t, has_text ? n_chars_of(tok, t->id) : 0);
}

/* Adds a token of the prompt. In an echo special tokens have their text. */
static void gather_prompt(const struct api_call *c, struct choice *ch,
			  const struct event_token *t)
{
	collect_token(c, ch, t, n_chars_of(c->api->chat.model->tokenizer, t->id));
}

static void add_logprobs(const struct choice *ch, struct buf *out)
{
	static const char *const names[LOGPROB_LISTS] = {
		[TOKENS] = "tokens",
		[TOKEN_LOGPROBS] = "token_logprobs",
		[TOP_LOGPROBS] = "top_logprobs",
		[TEXT_OFFSETS] = "text_offset",
	};
	for (int i = 0; i < LOGPROB_LISTS; i++) {
		buf_addf(out, "%c\"%s\":[", i ? ',' : '{', names[i]);
		buf_add_str(out, buf_str(&ch->logprobs[i]));
		buf_add_c(out, ']');
	}
	buf_add_c(out, '}');
}

static const struct format format = {
	.id_prefix = "cmpl-",
	.object = "text_completion",
	.chunk_object = "text_completion",
	.add_begin = add_begin,
	.add_delta = add_delta,
	.add_whole = add_whole,
	.gather_prompt = gather_prompt,
	.has_own_prompt = true,
	.gather_token = gather_token,
	.add_logprobs = add_logprobs,
};

static void format_completion_init(struct api_call *c, const char *request_id)
{
	format_init(c, &format, request_id);
}

const struct dialect dialect_completion = {
	.fields = DIALECT_COMPLETION,
	.usual_tokens = 16, /* max_tokens by default, as OpenAI */
	.read = completion_read,
	.init = format_completion_init,
	.on_delta = format_on_delta,
	.on_part = format_on_part,
	.on_event = format_on_event,
};
