/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.completion and chat.completion.chunk. Reasoning goes out under both names
 * in use (`reasoning_content`, `reasoning`). A delta never holds empty text: some
 * clients take "" for the end.
 */
#include "api/format.h"

#include "api/chat_body.h"
#include "api/api_dialect.h"

/* Writes a choice's first delta, which alone has the role. */
static bool add_begin(const struct api_call *c, int i, struct buf *out)
{
	buf_add_z(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
	return true;
}

static void add_reasoning(struct buf *out, struct str text)
{
	buf_add_z(out, "\"reasoning_content\":");
	buf_add_json(out, text);
	buf_add_z(out, ",\"reasoning\":");
	buf_add_json(out, text);
}

static void add_delta(const struct event_span *span, struct buf *out)
{
	buf_add_z(out, "\"delta\":{");
	if (span && span->channel == OUT_REASONING) {
		add_reasoning(out, span->text);
	} else if (span) {
		buf_add_z(out, "\"content\":");
		buf_add_json(out, span->text);
	}
	buf_add_c(out, '}');
}

static void add_call_head(const struct call *call, struct buf *out)
{
	buf_addf(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":",
		 call->id);
	buf_add_json(out, buf_str(&call->name));
}

/* Writes a piece of a tool call. The index comes each time; id, type and name only once. */
static void add_call(const struct api_call *c, int i, const struct event_span *span,
		     struct buf *out)
{
	const struct choice *ch = &c->choices[i];
	buf_addf(out, "\"delta\":{\"tool_calls\":[{\"index\":%d,", ch->n_calls - 1);
	if (span->channel == OUT_CALL_NAME) {
		add_call_head(&ch->calls[ch->n_calls - 1], out);
		buf_add_z(out, ",\"arguments\":\"\"");
	} else {
		buf_add_z(out, "\"function\":{\"arguments\":");
		buf_add_json(out, span->text);
	}
	buf_add_z(out, "}}]}");
}

static void add_calls(const struct choice *ch, struct buf *out)
{
	int n = 0;
	buf_add_z(out, ",\"tool_calls\":[");
	for (int i = 0; i < ch->n_calls; i++) {
		const struct call *call = &ch->calls[i];
		if (call->is_broken)
			continue;
		buf_add_z(out, n++ ? ",{" : "{");
		add_call_head(call, out);
		buf_add_z(out, ",\"arguments\":");
		buf_add_json(out, buf_str(&call->args));
		buf_add_z(out, "}}");
	}
	buf_add_c(out, ']');
}

/* Without text, content is null beside calls and "" otherwise, as other servers do: clients
 * call string functions on it. */
static void add_whole(const struct api_call *c, int i, struct buf *out)
{
	const struct choice *ch = &c->choices[i];
	buf_add_z(out, "\"message\":{\"role\":\"assistant\",\"content\":");
	if (ch->n_whole > 0 && ch->text.n == 0)
		buf_add_z(out, "null");
	else
		buf_add_json(out, buf_str(&ch->text));
	if (ch->reasoning.n) {
		buf_add_c(out, ',');
		add_reasoning(out, buf_str(&ch->reasoning));
	}
	if (ch->n_whole > 0)
		add_calls(ch, out);
	buf_add_z(out, ",\"refusal\":null}");
}

void format_add_token(const struct tokenizer *t, int32_t id, float logprob, struct buf *out)
{
	struct str bytes = tokenizer_bytes(t, id);
	buf_add_z(out, "\"token\":");
	buf_add_json(out, bytes);
	buf_add_z(out, ",\"logprob\":");
	format_add_logprob(out, logprob);
	buf_add_z(out, ",\"bytes\":[");
	for (size_t i = 0; i < bytes.n; i++)
		buf_addf(out, "%s%d", i ? "," : "", (unsigned char)bytes.p[i]);
	buf_add_c(out, ']');
}

static void gather_token(const struct api_call *c, struct choice *ch,
			 const struct event_token *t)
{
	const struct tokenizer *tok = c->api->chat.model->tokenizer;
	struct buf *out = &ch->logprobs[0];
	format_add_comma(out);
	buf_add_c(out, '{');
	format_add_token(tok, t->id, t->logprob, out);
	buf_add_z(out, ",\"top_logprobs\":[");
	for (int i = 0; i < t->n_top; i++) {
		buf_add_z(out, i ? ",{" : "{");
		format_add_token(tok, t->top[i].id, t->top[i].logprob, out);
		buf_add_c(out, '}');
	}
	buf_add_z(out, "]}");
}

void format_gather_logprobs(struct api_call *c, const struct event *e, struct buf *out)
{
	for (int i = 0; c->request->sampling.n_top_logprobs >= 0 && i < e->n_tokens; i++)
		gather_token(c, &c->choices[e->choice], &e->tokens[i]);
}

static void add_logprobs(const struct choice *ch, struct buf *out)
{
	buf_add_z(out, "{\"content\":[");
	buf_add_str(out, buf_str(&ch->logprobs[0]));
	buf_add_z(out, "],\"refusal\":null}");
}

static const struct format format = {
	.id_prefix = "chatcmpl-",
	.object = "chat.completion",
	.chunk_object = "chat.completion.chunk",
	.add_begin = add_begin,
	.add_delta = add_delta,
	.add_call = add_call,
	.add_whole = add_whole,
	.gather_token = gather_token,
	.add_logprobs = add_logprobs,
};

static void format_chat_init(struct api_call *c, const char *request_id)
{
	format_init(c, &format, request_id);
}

const struct dialect dialect_chat = {
	.fields = DIALECT_CHAT,
	.is_chat = true,
	.read = chat_body_read,
	.init = format_chat_init,
	.on_delta = format_on_delta,
	.on_part = format_on_part,
	.on_event = format_on_event,
};
