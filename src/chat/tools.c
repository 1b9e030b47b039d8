/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a client demands a call, the prompt ends with the call's beginning in the format's
 * own words. The model can only continue that call. The parser is told what the prompt has
 * written.
 */
#include "chat/tools.h"

#include "chat/messages.h"
#include "base/alloc.h"

#define MAX_TOOLS 1024
#define MAX_NAME_BYTES 128

/* --- one tool ------------------------------------------------------------ */

/* A tool's name becomes part of the syntax of prompts and answers in every format, so its
 * characters are checked. */
static enum status check_name(const struct json_node *at, struct fail *fail)
{
	struct str s = json_read_view(at->v);
	static const char others[] = "_-.:/";
	bool good = s.n > 0 && s.n <= MAX_NAME_BYTES;
	for (size_t i = 0; i < s.n && good; i++) {
		char c = s.p[i], lower = c | 0x20;
		good = (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') ||
		       is_char_of(c, others);
	}
	if (!good)
		return json_read_fail(at, fail,
				      "must be 1 to %d letters, digits or any of \"%s\"",
				      MAX_NAME_BYTES, others);
	return OK;
}

/* The type is a string, or a string or null. Without a type: the first of the `enum` is a
 * string. */
bool tools_is_string(const json_t *schema)
{
	const json_t *type = json_object_get(schema, "type");
	if (json_is_string(type))
		return str_is(json_read_view(type), "string");
	if (!type) {
		const json_t *first =
			json_array_get(json_object_get(schema, "enum"), 0);
		return json_is_string(first);
	}
	bool has_string = false;
	for (size_t i = 0; i < json_array_size(type); i++) {
		const json_t *t = json_array_get(type, i);
		bool is_string =
			json_is_string(t) && str_is(json_read_view(t), "string");
		if (!is_string && !(json_is_string(t) &&
				    str_is(json_read_view(t), "null")))
			return false;
		has_string |= is_string;
	}
	return has_string;
}

static void read_params(const json_t *schema, struct arena *a,
			struct toolparse_tool *tool)
{
	json_t *properties = json_object_get(schema, "properties"), *v;
	const char *key;
	size_t n = json_object_size(properties);
	struct toolparse_param *params = arena_alloc(a, n * sizeof *params);
	tool->params = params;
	json_object_foreach(properties, key, v) {
		params[tool->n_params++] = (struct toolparse_param){
			arena_str(a, str_of(key)), tools_is_string(v)};
	}
}

static enum status read_tool(const struct json_node *at, struct arena *a,
			     struct toolparse_tool *out, enum tools_strict *out_strict,
			     struct fail *fail)
{
	struct json_node type = json_read_get(at, "type");
	struct json_node fn = json_read_get(at, "function");
	struct json_node name = json_read_get(&fn, "name");
	struct json_node params = json_read_get(&fn, "parameters");
	struct json_node about = json_read_get(&fn, "description");
	struct json_node strict = json_read_get(&fn, "strict");
	struct str kind = STR("function"), text;
	bool is_strict = false;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = json_read_str(&type, &kind, fail);
	if (st == OK && !str_is(kind, "function"))
		st = json_read_fail(&type, fail, "must be \"function\"");
	if (st == OK)
		st = messages_check_function(at, fail);
	if (st == OK)
		st = check_name(&name, fail);
	if (st == OK)
		st = json_read_str(&about, &text, fail);
	if (st == OK)
		st = json_read_object(&params, fail);
	if (st == OK)
		st = json_read_bool(&strict, &is_strict, fail);
	if (st != OK)
		return st;
	*out_strict = !strict.v ? STRICT_UNSAID : is_strict ? STRICT_YES : STRICT_NO;
	out->name = arena_str(a, json_read_view(name.v));
	read_params(params.v, a, out);
	return OK;
}

static const struct toolparse_tool *tools_find(const struct toolparse_tool *tools, int n,
					       struct str name)
{
	for (int i = 0; i < n; i++)
		if (str_eq(tools[i].name, name))
			return &tools[i];
	return NULL;
}

static enum status read_list(const struct json_node *at, struct arena *a,
			     struct tools *out, struct fail *fail)
{
	size_t n;
	enum status st = json_read_list(at, MAX_TOOLS, &n, fail);
	if (st != OK)
		return st;
	struct toolparse_tool *tools = arena_alloc(a, n * sizeof *tools);
	enum tools_strict *strict = arena_alloc(a, n * sizeof *strict);
	for (size_t i = 0; i < n; i++) {
		struct json_node tool = json_read_item(at, i);
		struct json_node fn = json_read_get(&tool, "function");
		struct json_node name = json_read_get(&fn, "name");
		st = read_tool(&tool, a, &tools[i], &strict[i], fail);
		if (st != OK)
			return st;
		if (tools_find(tools, (int)i, tools[i].name))
			return json_read_fail(&name, fail, "is given twice");
	}
	out->strict = strict;
	out->parse.tools = tools;
	out->parse.n_tools = (int)n;
	return OK;
}

/* --- the choice ---------------------------------------------------------- */

static enum status read_named(const struct json_node *choice,
			      const struct toolparse_opts *o, struct tools *out,
			      struct fail *fail)
{
	struct json_node fn = json_read_get(choice, "function");
	struct json_node name = json_read_get(&fn, "name");
	enum status st = messages_check_function(choice, fail);
	if (st != OK)
		return st;
	const struct toolparse_tool *tool =
		tools_find(o->tools, o->n_tools, json_read_view(name.v));
	if (!tool)
		return json_read_fail(&name, fail, "is not among `tools`");
	out->is_forced = true;
	out->forced = tool->name;
	return OK;
}

static enum status read_choice(const struct json_node *at,
			       const struct toolparse_opts *o, struct tools *out,
			       bool *out_none, struct fail *fail)
{
	*out_none = false;
	if (!at->v)
		return OK;
	if (json_is_object(at->v))
		return read_named(at, o, out, fail);
	struct str how = json_is_string(at->v) ? json_read_view(at->v) : STR("");
	*out_none = str_is(how, "none");
	if (str_is(how, "auto") || *out_none)
		return OK;
	if (!str_is(how, "required"))
		return json_read_fail(at, fail, "must be \"none\", \"auto\", "
				      "\"required\" or a function to call");
	if (o->n_tools == 0)
		return json_read_fail(at, fail, "needs `tools`");
	out->is_forced = true;
	if (o->n_tools == 1)
		out->forced = o->tools[0].name;
	return OK;
}

/* Has the format tags that are special tokens? The output shows no text for such tokens
 * unless it is asked for. */
static bool has_special_tags(const struct tokenizer *t, const struct tool_format *f)
{
	for (size_t i = 0; i < ARRAY_LEN(f->tags) && f->tags[i]; i++) {
		int32_t id = tokenizer_find(t, str_of(f->tags[i]));
		if (id >= 0 && tokenizer_is_special(t, id))
			return true;
	}
	return false;
}

enum status tools_read(const struct json_node *body, const struct chat_model *m,
		       struct arena *a, struct tools *out, struct fail *fail)
{
	struct json_node at = json_read_get(body, "tools");
	struct json_node choice = json_read_get(body, "tool_choice");
	struct json_node parallel = json_read_get(body, "parallel_tool_calls");
	const struct tool_format *f = m->tool_format;
	struct toolparse_opts *o = &out->parse;
	bool is_none = false, many = true;
	*out = (struct tools){0};
	enum status st = read_list(&at, a, out, fail);
	if (st == OK)
		st = read_choice(&choice, o, out, &is_none, fail);
	if (st == OK)
		st = json_read_bool(&parallel, &many, fail);
	if (st != OK)
		return st;
	if (out->is_forced && !f)
		return json_read_fail(&choice, fail, "cannot demand a call: in which "
				      "format this model writes them is not known "
				      "(setting tool_format)");
	/* Tools that may not be called are not shown to the model. */
	out->are_shown = o->n_tools > 0 && !is_none;
	if (out->are_shown && !f && m->template && !chat_template_ways(m->template)->shows_tools)
		return json_read_fail(&at, fail, "is not supported: this model's template "
				      "shows no tools, and the setting tool_format is none");
	o->one_call = !many || out->forced.p;
	/* Without tools no text is a call. But a format that has channels is always parsed. */
	if (f && (out->are_shown || f->end_reasoning)) {
		o->format = f;
		out->has_special_tags = has_special_tags(m->model->tokenizer, f);
	}
	return OK;
}

enum status tools_choose_format(const char *name, const char *chat_template,
				const struct tool_format **out, struct fail *fail)
{
	*out = NULL;
	if (!name || strcmp(name, "auto") == 0) {
		if (chat_template)
			*out = toolformat_detect(str_of(chat_template));
	} else if (strcmp(name, "none") != 0) {
		*out = toolformat_find(str_of(name));
		if (!*out)
			return fail_set(fail, E_CONFIG, "tool_format: `%s` is not known",
					name);
	}
	return OK;
}

void tools_add_opening(const struct tools *t, const struct tool_format *f,
		       struct arena *a, struct outparse_opts *o,
		       struct marked *prompt)
{
	struct buf begun = {0};
	/* A reasoning block that the template opened must end before the call. */
	if (o->starts_in_reasoning) {
		marked_add(prompt, STR("\n"), TRUST_TEMPLATE);
		marked_add(prompt, o->think_close, TRUST_TEMPLATE);
		marked_add(prompt, STR("\n\n"), TRUST_TEMPLATE);
		o->starts_in_reasoning = false;
	}
	if (t->forced.p)
		buf_addf(&begun, "%s%.*s%s", f->before_name, (int)t->forced.n,
			 t->forced.p, f->after_name);
	else
		buf_add_z(&begun, f->any);
	o->tools.begun = arena_str(a, buf_str(&begun));
	marked_add(prompt, o->tools.begun, TRUST_TEMPLATE);
	buf_deinit(&begun);
}
