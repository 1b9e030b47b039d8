/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_dialect.h"

#include "base/alloc.h"

#define MAX_BLOCKS 10000

void dialect_body_init(struct dialect_body *b)
{
	b->chat = json_object();
	json_paths_init(&b->paths);
}

void dialect_body_deinit(struct dialect_body *b)
{
	json_decref(b->chat);
	json_paths_deinit(&b->paths);
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
			      struct fail *fail)
{
	kind = json_read_clip(kind, 40);
	return json_read_fail(type, fail, "is \"%.*s\": this model reads text only",
			      (int)kind.n, kind.p);
}

/* One block of text. Each API has its names for them, and the histories of clients that
 * speak several have them mixed. */
static enum status read_block(const struct json_node *at, struct buf *out,
			      struct fail *fail)
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
		return dialect_fail_type(&type, kind, fail);
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
		st = read_block(&block, out, fail);
	}
	return st;
}

const struct call *dialect_call(const struct api_call *c, const struct answer_part *p)
{
	return p->channel == OUT_CALL_NAME ? &c->choices[0].calls[p->i_call] : NULL;
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
