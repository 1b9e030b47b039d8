/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model_templates.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "json/jsonfile.h"

#define MAX_BYTES ((size_t)16 << 20)

/* malloc'ed; "" if there is none. tool_use: for requests with tools. */
struct model_templates {
	char *plain, *tool_use;
};

/* Jinja leaves out one newline at the end of a source. */
static struct str without_newline(struct str s)
{
	s.n -= str_ends(s, STR("\n"));
	return s;
}

char *model_templates_join(struct str plain, struct str tools)
{
	/* An expression keeps blanks that a block beside them would take. */
	static const char keep_blanks[] = "{{ '' }}";
	struct buf b = {0};
	if (!plain.n || !tools.n)
		return xstrndup(plain.n ? plain.p : tools.p, plain.n ? plain.n : tools.n);
	buf_addf(&b, "{%% if tools %%}%s", keep_blanks);
	buf_add_str(&b, without_newline(tools));
	buf_addf(&b, "%s{%% else %%}%s", keep_blanks, keep_blanks);
	buf_add_str(&b, without_newline(plain));
	buf_addf(&b, "%s{%% endif %%}", keep_blanks);
	return buf_take(&b);
}

/* Reads dir/name, if it is there. */
static enum status read_text(const char *dir, const char *name, char **out, struct fail *fail)
{
	char *path = file_join(dir, name);
	struct buf text = {0};
	bool is_there = file_exists(path);
	enum status st = is_there ? file_read(path, MAX_BYTES, &text, fail) : OK;
	if (st == OK && is_there) {
		buf_add_z(&text, "");
		free(*out);
		*out = buf_take(&text);
	}
	buf_deinit(&text);
	free(path);
	return st;
}

static enum status keep_template(const json_t *v, const char *file, char **out, struct fail *fail)
{
	if (!json_is_string(v))
		return fail_at(fail, E_FORMAT, "chat_template", "%s: chat_template is %s", file,
			       jsonfile_type(v));
	free(*out);
	*out = xstrdup(json_string_value(v));
	return OK;
}

/* The template called `name` of a list of {"name", "template"}, or of an object. */
static const json_t *named(const json_t *all, const char *name)
{
	const json_t *found = json_object_get(all, name);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *is = json_string_value(json_object_get(one, "name"));
		if (is && strcmp(is, name) == 0)
			found = json_object_get(one, "template");
	}
	return found;
}

/* Reads `chat_template` of a JSON file. */
static enum status of_json(const json_t *config, const char *file, struct model_templates *t,
			   struct fail *fail)
{
	const json_t *v = jsonfile_get(config, "chat_template");
	if (!v)
		return OK;
	if (!json_is_array(v) && !json_is_object(v))
		return keep_template(v, file, &t->plain, fail);
	const json_t *plain = named(v, "default"), *tools = named(v, "tool_use");
	if (!plain)
		return fail_at(fail, E_FORMAT, "chat_template", "%s: no chat_template is named "
			       "\"default\"; a file chat_template.jinja in the folder, or the "
			       "setting `chat_template`, can give one", file);
	enum status st = keep_template(plain, file, &t->plain, fail);
	return st == OK && tools ? keep_template(tools, file, &t->tool_use, fail) : st;
}

static enum status of_processor(const char *dir, struct model_templates *t, struct fail *fail)
{
	static const char name[] = "chat_template.json";
	json_t *root = NULL;
	enum status st = jsonfile_load(dir, name, MAX_BYTES, &root, fail);
	if (st == E_MISSING)
		return OK;
	if (st == OK)
		st = of_json(root, name, t, fail);
	json_decref(root);
	return st;
}

enum status model_templates_load(const char *dir, const json_t *config,
				 char **out, struct fail *fail)
{
	struct model_templates t = {xstrdup(""), xstrdup("")};
	enum status st = read_text(dir, "chat_template.jinja", &t.plain, fail);
	if (st == OK && t.plain[0])
		st = read_text(dir, "additional_chat_templates/tool_use.jinja", &t.tool_use,
			       fail);
	else if (st == OK)
		st = of_json(config, "tokenizer_config.json", &t, fail);
	if (st == OK && !t.plain[0])
		st = of_processor(dir, &t, fail);
	if (st == OK)
		*out = model_templates_join(str_of(t.plain), str_of(t.tool_use));
	free(t.plain);
	free(t.tool_use);
	return st;
}
