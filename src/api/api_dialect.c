/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_dialect.h"

#include "base/alloc.h"
#include "chat/messages.h"
#include "chat/sounds.h"

#define MAX_BLOCKS 10000

void dialect_body_init(struct dialect_body *b)
{
	b->model = NULL;
	b->ignored = (struct buf){0};
	b->chat = json_object();
	json_paths_init(&b->paths);
}

void dialect_body_deinit(struct dialect_body *b)
{
	json_decref(b->chat);
	json_paths_deinit(&b->paths);
	buf_deinit(&b->ignored);
}

struct json_node dialect_body_root(const struct dialect_body *b)
{
	return (struct json_node){.v = b->chat, .paths = &b->paths};
}

void dialect_set(json_t *object, const char *key, json_t *v)
{
	json_object_set_new_nocheck(object, key, v);
}

void dialect_set_str(json_t *object, const char *key, struct str s)
{
	dialect_set(object, key, json_stringn_nocheck(s.p, s.n));
}

void dialect_copy(struct dialect_body *b, json_t *object, const char *key,
		  const struct json_node *from, const char *from_key)
{
	struct json_node at = json_read_get(from, from_key);
	if (!at.v)
		return;
	json_object_set_nocheck(object, key, (json_t *)at.v);
	json_paths_add_field(&b->paths, object, key, &at);
}

static json_t *function_of(json_t *fn)
{
	json_t *t = json_object();
	dialect_set_str(t, "type", STR("function"));
	dialect_set(t, "function", fn);
	return t;
}

void dialect_add_tool(struct dialect_body *b, json_t *fn, const struct json_node *from)
{
	json_t *tools = json_object_get(b->chat, "tools"), *tool = function_of(fn);
	if (!tools) {
		tools = json_array();
		dialect_set(b->chat, "tools", tools);
	}
	json_paths_add(&b->paths, tool, from);
	json_paths_add(&b->paths, fn, from);
	json_array_append_new(tools, tool);
}

void dialect_demand_tool(struct dialect_body *b, struct str name,
			 const struct json_node *from)
{
	json_t *fn = json_object();
	dialect_set_str(fn, "name", name);
	json_paths_add(&b->paths, fn, from);
	dialect_set(b->chat, "tool_choice", function_of(fn));
}

void dialect_demand_format(struct dialect_body *b, struct str kind, json_t *schema,
			   const struct json_node *from)
{
	json_t *format = json_object();
	dialect_set_str(format, "type", kind);
	dialect_set(format, "json_schema", schema);
	json_paths_add(&b->paths, schema, from);
	json_paths_add(&b->paths, format, from);
	dialect_set(b->chat, "response_format", format);
}

json_t *dialect_message(const char *role, struct str text)
{
	json_t *m = json_object();
	dialect_set_str(m, "role", str_of(role));
	dialect_set_str(m, "content", text);
	return m;
}

enum status dialect_fail_type(const struct json_node *type, struct str kind,
			      const struct chat_model *m, struct fail *fail)
{
	const struct str shown = json_read_clip(kind, 40);
	if (m && messages_takes(m, kind))
		return json_read_fail(type, fail, "is \"%.*s\": send it to "
				      "/v1/chat/completions, which takes such parts",
				      (int)shown.n, shown.p);
	return json_read_fail(type, fail, "is \"%.*s\": this model reads %s only",
			      (int)shown.n, shown.p, m ? messages_kinds(m) : "text");
}

/* Reads one block of text. The APIs name such blocks differently, and a client that speaks
 * several APIs mixes the names in its history. m: as in dialect_fail_type. */
static enum status read_block(const struct json_node *at, const struct chat_model *m,
			      struct buf *out, struct fail *fail)
{
	static const char *const kinds[] = {"text", "input_text", "output_text",
					    "reasoning_text", "summary_text"};
	struct json_node type = json_read_get(at, "type");
	struct str kind, text;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = json_read_need_str(&type, &kind, fail);
	if (st != OK)
		return st;
	bool is_refusal = str_is(kind, "refusal"), is_text = is_refusal;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		is_text |= str_is(kind, kinds[i]);
	if (!is_text)
		return dialect_fail_type(&type, kind, m, fail);
	struct json_node words = json_read_get(at, is_refusal ? "refusal" : "text");
	st = json_read_need_str(&words, &text, fail);
	if (st == OK && out->n)
		buf_add_c(out, '\n');
	if (st == OK)
		buf_add_str(out, text);
	return st;
}

enum status dialect_read_texts(const struct json_node *at, struct buf *out,
			       struct fail *fail)
{
	size_t n;
	if (json_is_string(at->v)) {
		buf_add_str(out, json_read_view(at->v));
		return OK;
	}
	enum status st = json_read_list(at, MAX_BLOCKS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node block = json_read_item(at, i);
		st = read_block(&block, NULL, out, fail);
	}
	return st;
}

int32_t dialect_audio_tokens(const struct api_call *c)
{
	int32_t n = 0;
	for (int i = 0; i < c->request->n_images; i++)
		n += c->request->images[i].is_sound ? c->request->images[i].n : 0;
	return n;
}

/* --- content with images and audio --------------------------------------------------------- */

static void end_text(struct dialect_content *c)
{
	if (c->text.n == 0)
		return;
	json_t *part = json_object();
	dialect_set_str(part, "type", STR("text"));
	dialect_set_str(part, "text", buf_str(&c->text));
	json_array_append_new(c->parts, part);
	buf_clear(&c->text);
}

void dialect_add_text(struct dialect_content *c, struct str text)
{
	if (c->parts)
		end_text(c);
	else if (c->text.n)
		buf_add_c(&c->text, '\n');
	buf_add_str(&c->text, text);
}

/* Reads an image of Anthropic: source is {type: base64, media_type, data} or {type: url,
 * url}. */
static enum status read_source(const struct json_node *source, struct buf *url,
			       struct fail *fail)
{
	struct json_node type = json_read_get(source, "type");
	struct json_node media = json_read_get(source, "media_type");
	struct json_node data = json_read_get(source, "data");
	struct json_node address = json_read_get(source, "url");
	struct str kind, text, what = STR("image/png");
	enum status st = json_read_need_object(source, fail);
	if (st == OK)
		st = json_read_need_str(&type, &kind, fail);
	if (st == OK && str_is(kind, "url")) {
		st = json_read_need_str(&address, &text, fail);
		if (st == OK)
			buf_add_str(url, text);
		return st;
	}
	if (st == OK && !str_is(kind, "base64"))
		return json_read_fail(&type, fail, "must be base64 or url: this server "
						   "keeps no files");
	if (st == OK)
		st = json_read_str(&media, &what, fail);
	if (st == OK)
		st = json_read_need_str(&data, &text, fail);
	if (st != OK)
		return st;
	buf_addf(url, "data:%.*s;base64,", (int)MIN(what.n, 100), what.p);
	buf_add_str(url, text);
	return OK;
}

void dialect_add_image(struct dialect_body *b, struct dialect_content *c, json_t *url,
		       const struct json_node *block, const struct json_node *from)
{
	json_t *part = json_object(), *image = json_object();
	if (!c->parts)
		c->parts = json_array();
	end_text(c);
	dialect_set_str(part, "type", STR("image_url"));
	dialect_set(image, "url", url);
	dialect_set(part, "image_url", image);
	json_array_append_new(c->parts, part);
	json_paths_add(&b->paths, part, block);
	json_paths_add(&b->paths, image, from);
	json_paths_add_field(&b->paths, image, "url", from);
}

static enum status read_image(const struct json_node *at, struct dialect_body *b,
			      struct dialect_content *c, struct fail *fail)
{
	struct json_node source = json_read_get(at, "source");
	struct json_node url = json_read_get(at, "image_url");
	struct json_node inner = json_read_get(&url, "url");
	const struct json_node *from = json_is_object(url.v) ? &inner : &url;
	struct buf text = {0};
	enum status st;
	if (source.v) {
		st = read_source(&source, &text, fail);
		if (st == OK)
			dialect_add_image(b, c, json_stringn_nocheck(text.p, text.n), at, &source);
		buf_deinit(&text);
		return st;
	}
	struct str s;
	st = json_read_need_str(from, &s, fail);
	if (st == OK)
		dialect_add_image(b, c, json_incref((json_t *)from->v), at, from);
	return st;
}

/* Audio is spelled as in chats: the part goes on as it is. */
static void add_audio(struct dialect_body *b, struct dialect_content *c,
		      const struct json_node *block)
{
	static const char *const fields[] = {"type", "input_audio", "audio_url"};
	json_t *part = json_object();
	if (!c->parts)
		c->parts = json_array();
	end_text(c);
	json_array_append_new(c->parts, part);
	json_paths_add(&b->paths, part, block);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		dialect_copy(b, part, fields[i], block, fields[i]);
}

enum status dialect_read_block(const struct json_node *at, struct dialect_body *b,
			       struct dialect_content *c, struct fail *fail)
{
	static const char *const kinds[] = {"image", "input_image", "image_url"};
	struct json_node type = json_read_get(at, "type");
	struct buf text = {0};
	bool is_image = false;
	for (size_t i = 0; i < ARRAY_LEN(kinds) && json_is_string(type.v); i++)
		is_image |= str_is(json_read_view(type.v), kinds[i]);
	if (is_image && b->model->vision)
		return read_image(at, b, c, fail);
	if (b->model->sound && json_is_string(type.v) && sounds_is_kind(json_read_view(type.v))) {
		add_audio(b, c, at);
		return OK;
	}
	enum status st = read_block(at, b->model, &text, fail);
	if (st == OK)
		dialect_add_text(c, buf_str(&text));
	buf_deinit(&text);
	return st;
}

enum status dialect_read_content(const struct json_node *at, struct dialect_body *b,
				 struct dialect_content *c, struct fail *fail)
{
	size_t n;
	if (json_is_string(at->v)) {
		dialect_add_text(c, json_read_view(at->v));
		return OK;
	}
	enum status st = json_read_list(at, MAX_BLOCKS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node block = json_read_item(at, i);
		st = dialect_read_block(&block, b, c, fail);
	}
	return st;
}

bool dialect_has_content(const struct dialect_content *c)
{
	return c->parts || c->text.n;
}

json_t *dialect_take_content(struct dialect_content *c)
{
	json_t *v = c->parts;
	if (v)
		end_text(c);
	else
		v = json_stringn_nocheck(buf_str(&c->text).p, c->text.n);
	buf_clear(&c->text);
	c->parts = NULL;
	return v;
}

void dialect_content_deinit(struct dialect_content *c)
{
	buf_deinit(&c->text);
	json_decref(c->parts);
	c->parts = NULL;
}

json_t *dialect_message_of(const char *role, struct dialect_content *c)
{
	json_t *m = json_object();
	dialect_set_str(m, "role", str_of(role));
	dialect_set(m, "content", dialect_take_content(c));
	return m;
}

const struct call *dialect_call(const struct api_call *c, const struct answer_part *p)
{
	return p->channel == OUT_CALL_NAME ? &c->choices[0].calls[p->i_call] : NULL;
}

void dialect_add_arguments(const struct call *call, struct str text, struct buf *out)
{
	if (!call->is_cut || !toolparse_close(text, out))
		buf_add_str(out, text.n && !call->is_cut ? text : STR("{}"));
}

struct str dialect_text(const struct api_call *c, const struct answer_part *p)
{
	const struct call *call = dialect_call(c, p);
	return buf_str(call ? &call->args : &p->text);
}

bool dialect_is_broken(const struct api_call *c, const struct answer_part *p)
{
	const struct choice *ch = &c->choices[0];
	const struct call *call = dialect_call(c, p);
	return call && (call->is_broken ||
			(ch->is_calling && p->i_call == ch->n_calls - 1));
}
