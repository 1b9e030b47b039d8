/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /tokenize, /detokenize and /apply-template, in the shapes of llama.cpp and of vLLM
 * at once. No field means different things in the two shapes. So a request may use either
 * spelling, and the answer has the members of both.
 *
 *   llama.cpp  {content, add_special: false, parse_special: true, with_pieces}
 *   vLLM       {prompt, add_special_tokens: true, return_token_strs}
 *              {messages, tools, …, add_special_tokens: false, …}
 */
#include "api/chat_body.h"
#include "api/params.h"
#include "chat/prompt.h"
#include "api/text_call.h"
#include "base/utf8.h"

/* Most ids of a /detokenize body: more make no text that anybody reads. */
#define MAX_IDS (1u << 20)

/* Most pieces of an answer: each piece takes 20 bytes of it or more. */
#define MAX_PIECES (1u << 20)

struct tokenize_params {
	bool adds_special, parses_special, with_pieces, with_strings;
};

static enum status read_flags(const struct json_node *body,
			      struct tokenize_params *p, struct fail *fail)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {
		{"add_special", &p->adds_special},
		{"add_special_tokens", &p->adds_special},
		{"parse_special", &p->parses_special},
		{"with_pieces", &p->with_pieces},
		{"return_token_strs", &p->with_strings},
	};
	enum status st = OK;
	for (size_t i = 0; i < sizeof flags / sizeof *flags && st == OK; i++) {
		struct json_node at = json_read_get(body, flags[i].name);
		st = json_read_bool(&at, flags[i].flag, fail);
	}
	return st;
}

/* Reads the text to tokenize, with its trust: a chat through the template, else `content`
 * or `prompt`. Also sets the special tokens that each shape adds by default. */
static enum status read_text(const struct api *a, const struct text_input *in,
			     struct tokenize_params *p, struct marked *out,
			     struct images *images, struct fail *fail)
{
	const struct json_node *body = in->body;
	struct json_node messages = json_read_get(body, "messages");
	struct json_node content = json_read_get(body, "content");
	struct json_node prompt = json_read_get(body, "prompt");
	struct str text;
	enum status st;
	if (messages.v) {
		st = chat_body_render(a, body, in->scratch, out, images, in->is_gone, fail);
		return st == OK ? read_flags(body, p, fail) : st;
	}
	/* If both keys are missing, the error names `content`, llama.cpp's own key. */
	p->adds_special = !content.v && prompt.v;
	p->parses_special = true;
	st = json_read_need_str(prompt.v && !content.v ? &prompt : &content, &text,
				fail);
	if (st == OK)
		st = read_flags(body, p, fail);
	if (st == OK)
		marked_add(out, text,
			   p->parses_special ? TRUST_TEMPLATE : TRUST_USER);
	return st;
}

/* Writes a token as text if it is valid UTF-8, else as a list of bytes: a token may be a
 * part of a character. */
static void add_piece(struct buf *out, struct str bytes)
{
	if (utf8_check(bytes) < 0) {
		buf_add_json(out, bytes);
		return;
	}
	buf_add_c(out, '[');
	for (size_t i = 0; i < bytes.n; i++)
		buf_addf(out, "%s%d", i ? "," : "", (unsigned char)bytes.p[i]);
	buf_add_c(out, ']');
}

static void add_answer(const struct api *a, const struct tokenize_params *p,
		       const struct ids *ids, struct buf *out)
{
	const struct tokenizer *t = a->chat.model->tokenizer;
	buf_addf(out, "{\"count\":%zu,\"max_model_len\":%d,\"tokens\":[", ids->n,
		 a->n_ctx);
	for (size_t i = 0; i < ids->n; i++) {
		if (i > 0)
			buf_add_c(out, ',');
		if (!p->with_pieces) {
			buf_addf(out, "%d", ids->p[i]);
			continue;
		}
		buf_addf(out, "{\"id\":%d,\"piece\":", ids->p[i]);
		add_piece(out, tokenizer_bytes(t, ids->p[i]));
		buf_add_c(out, '}');
	}
	buf_add_z(out, "],\"token_strs\":");
	if (!p->with_strings) {
		buf_add_z(out, "null}");
		return;
	}
	for (size_t i = 0; i < ids->n; i++) {
		buf_add_c(out, i ? ',' : '[');
		buf_add_json(out, tokenizer_bytes(t, ids->p[i]));
	}
	buf_add_z(out, ids->n ? "]}" : "[]}");
}

static enum status tokenize(const struct api *a, const struct text_input *in, struct buf *out,
			    struct fail *fail)
{
	struct images images = {0};
	struct tokenize_params p = {0};
	struct marked text = {0};
	struct ids ids = {0};
	const struct images_use use = {.is_gone = in->is_gone};
	enum status st = read_text(a, in, &p, &text, &images, fail);
	if (st == OK) {
		const struct tokenizer *t = a->chat.model->tokenizer;
		st = p.adds_special ? tokenizer_encode_alone(t, &text, &ids, fail)
				    : tokenizer_encode_marked(t, &text, &ids, fail);
		if (st == OK && json_read_get(in->body, "messages").v && !p.adds_special)
			prompt_begin_chat(a->chat.model, &ids);
	}
	if (st == OK)
		st = images_expand(&images, &use, &ids, fail);
	if (st == OK && (p.with_pieces || p.with_strings) && ids.n > MAX_PIECES)
		st = fail_set(fail, E_LIMIT, "these are %zu tokens; with_pieces and "
			      "return_token_strs are for at most %u", ids.n, MAX_PIECES);
	if (st == OK)
		add_answer(a, &p, &ids, out);
	images_close(&images);
	ids_deinit(&ids);
	marked_deinit(&text);
	return st;
}

enum status api_tokenize(const struct api *a, const struct api_input *in, struct buf *out,
			 struct fail *fail)
{
	return text_call(a, in, tokenize, out, fail);
}

static enum status detokenize(const struct api *a, const struct text_input *in, struct buf *out,
			      struct fail *fail)
{
	struct json_node at = json_read_get(in->body, "tokens");
	int32_t *ids;
	size_t n;
	enum status st = json_read_need(&at, fail);
	if (st == OK)
		st = params_read_ids(&at, MAX_IDS, a->n_vocab, in->scratch, &ids, &n, fail);
	if (st != OK)
		return st;
	struct buf text = {0};
	tokenizer_decode(a->chat.model->tokenizer, ids, n, false, &text);
	buf_add_z(out, "{\"content\":");
	buf_add_json(out, buf_str(&text));
	buf_add_z(out, ",\"prompt\":");
	buf_add_json(out, buf_str(&text));
	buf_add_c(out, '}');
	buf_deinit(&text);
	return OK;
}

enum status api_detokenize(const struct api *a, const struct api_input *in, struct buf *out,
			   struct fail *fail)
{
	return text_call(a, in, detokenize, out, fail);
}

static enum status apply_template(const struct api *a, const struct text_input *in,
				  struct buf *out, struct fail *fail)
{
	struct marked prompt = {0};
	struct images images = {0};
	enum status st = chat_body_render(a, in->body, in->scratch, &prompt, &images, in->is_gone,
					  fail);
	if (st == OK) {
		buf_add_z(out, "{\"prompt\":");
		buf_add_json(out, buf_str(&prompt.text));
		buf_add_c(out, '}');
	}
	images_close(&images);
	marked_deinit(&prompt);
	return st;
}

enum status api_apply_template(const struct api *a, const struct api_input *in, struct buf *out,
			       struct fail *fail)
{
	return text_call(a, in, apply_template, out, fail);
}
