/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a client's messages into template values, and marks each byte with its trust. Text
 * of users, systems and tools, names, and arguments of calls are TRUST_USER. Text that the
 * assistant is said to have written is TRUST_MODEL: its "<think>" becomes the token again,
 * but an end of turn never does.
 *
 * Content is a string or a list of parts. Templates get one string, the text parts joined
 * by newlines, as in llama.cpp and vLLM. Content with images or sounds becomes a list of dicts, as
 * Hugging Face writes it. System and developer messages at the beginning become one system
 * message; with a template that allows only one, so do all later ones.
 */
#include "chat/messages.h"

#include <stdlib.h>

#include "chat/pycalls.h"
#include "chat/sounds.h"
#include "chat/videos.h"
#include "chat/value.h"
#include "base/alloc.h"
#include "base/map.h"
#include "json/json_digits.h"
#include "json/jsonfile.h"

#define MAX_MESSAGES 10000
#define MAX_PARTS 10000
#define MAX_TOOL_CALLS 1024
#define MAX_QUOTED 40 /* bytes of a wrong value that a fault's text quotes */

/* --- content ------------------------------------------------------------- */

static bool is_image_kind(struct str kind)
{
	return str_is(kind, "image_url") || str_is(kind, "input_image");
}

const char *messages_kinds(const struct chat_model *m)
{
	static const char *const words[] = {"text", "text and images", "text and audio",
					    "text, images and audio", "text, images and video",
					    "text, images, video and audio"};
	if (vision_frames(m->vision))
		return words[m->sound ? 5 : 4];
	return words[(m->vision ? 1 : 0) + (m->sound ? 2 : 0)];
}

/* Appends one part of text. A part that the model cannot see is refused by name: an answer
 * made without it would mislead. */
static enum status read_part(const struct json_node *at, const char *kinds, struct buf *out,
			     struct fail *fail)
{
	enum status st = json_read_need_object(at, fail);
	struct json_node type = json_read_get(at, "type");
	struct str kind = STR("text"), text = STR("");
	if (st == OK)
		st = json_read_str(&type, &kind, fail);
	if (st != OK)
		return st;
	/* A `refusal` is what an assistant declined to say; input_text and output_text are
	 * the Responses API's names. Clients that speak both APIs send them in the
	 * history. */
	bool refusal = str_is(kind, "refusal");
	if (!refusal && !str_is(kind, "text") && !str_is(kind, "input_text") &&
	    !str_is(kind, "output_text")) {
		kind = json_read_clip(kind, MAX_QUOTED);
		return json_read_fail(&type, fail,
				      "is \"%.*s\": this model reads %s only",
				      (int)kind.n, kind.p, kinds);
	}
	struct json_node words = json_read_get(at, refusal ? "refusal" : "text");
	st = json_read_need_str(&words, &text, fail);
	buf_add_str(out, text);
	return st;
}

/* --- messages ------------------------------------------------------------ */

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

static const struct role_name {
	const char *name;
	enum role role;
	const char *in_template;
} role_names[] = {
	{"system", ROLE_SYSTEM, "system"},
	{"developer", ROLE_SYSTEM, "system"},
	{"user", ROLE_USER, "user"},
	{"assistant", ROLE_ASSISTANT, "assistant"},
	{"tool", ROLE_TOOL, "tool"},
};

struct conversation {
	const struct messages_opts *o;
	bool one_system;    /* every system message goes into the first */
	bool has_system;
	struct buf system;  /* the first system message */
	struct buf content; /* the text of the message being read … */
	/* … or its list of parts, once it has an image or a sound; else NULL */
	struct jinja_value *parts;
	struct jinja_value **rest; /* the messages behind the first system message */
	size_t n_rest;
};

/* Makes a part of the text gathered so far, if there is any. */
static void add_text_part(struct conversation *c)
{
	struct arena *a = c->o->arena;
	struct jinja_value *dict = jinja_dict(a);
	if (c->content.n == 0)
		return;
	value_set_str(a, dict, "type", STR("text"), TRUST_TEMPLATE);
	value_set_str(a, dict, "text", buf_str(&c->content), TRUST_USER);
	jinja_list_add(a, c->parts, dict);
	buf_clear(&c->content);
}

/* The kind of a part that is not text; IMAGES_KINDS: one that the model does not take. */
static enum images_kind media_kind(const struct chat_model *m, struct str kind)
{
	if (m->vision && is_image_kind(kind))
		return IMAGES_PICTURE;
	if (vision_frames(m->vision) && videos_is_kind(kind))
		return IMAGES_VIDEO;
	return m->sound && sounds_is_kind(kind) ? IMAGES_SOUND : IMAGES_KINDS;
}

bool messages_takes(const struct chat_model *m, struct str kind)
{
	return media_kind(m, kind) != IMAGES_KINDS;
}

static enum status refuse_role(const struct json_node *type, enum images_kind kind,
			       struct fail *fail)
{
	static const char *const words[] = {
		[IMAGES_PICTURE] = "an image: images may be",
		[IMAGES_SOUND] = "audio: it may be", [IMAGES_VIDEO] = "video: it may be"};
	return json_read_fail(type, fail, "is %s in messages of users and tools", words[kind]);
}

static enum status add_media_part(const struct json_node *part, enum images_kind kind,
				  struct conversation *c, struct fail *fail)
{
	static const char *const types[] = {[IMAGES_PICTURE] = "image", [IMAGES_SOUND] = "audio",
					    [IMAGES_VIDEO] = "video"};
	struct arena *a = c->o->arena;
	struct jinja_value *dict = jinja_dict(a);
	if (!c->parts)
		c->parts = jinja_list(a);
	add_text_part(c);
	value_set_str(a, dict, "type", str_of(types[kind]), TRUST_TEMPLATE);
	jinja_list_add(a, c->parts, dict);
	if (kind == IMAGES_VIDEO)
		return videos_add(c->o->images, part, fail);
	return kind == IMAGES_SOUND
		       ? sounds_add(c->o->images, part, fail)
		       : images_add_url(c->o->images, part, "image_url", kind, fail);
}

/* sees: the message may have images, sounds and videos, as far as the model takes them. */
static enum status read_parts(const struct json_node *at, struct conversation *c, bool sees,
			      struct fail *fail)
{
	size_t n;
	const struct chat_model *m = c->o->images->m;
	const char *kinds = sees ? messages_kinds(m) : "text";
	enum status st = json_read_list(at, MAX_PARTS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node part = json_read_item(at, i);
		struct json_node type = json_read_get(&part, "type");
		struct str kind = json_is_string(type.v) ? json_read_view(type.v) : STR("");
		enum images_kind media = media_kind(m, kind);
		if (m->lacks_audio && sounds_is_kind(kind))
			return json_read_fail(&type, fail, "is audio, and this halod lacks the "
					      "libraries that read it: its log names them");
		if (media != IMAGES_KINDS && !sees)
			return refuse_role(&type, media, fail);
		if (media != IMAGES_KINDS) {
			st = add_media_part(&part, media, c, fail);
			continue;
		}
		if (i > 0 && !c->parts)
			buf_add_c(&c->content, '\n');
		st = read_part(&part, kinds, &c->content, fail);
		if (c->parts)
			add_text_part(c);
	}
	return st;
}

/* Reads a message's content into c->content or c->parts. */
static enum status read_content(const struct json_node *at, struct conversation *c, bool sees,
				struct fail *fail)
{
	if (json_is_string(at->v)) {
		buf_add_str(&c->content, json_read_view(at->v));
		return OK;
	}
	if (at->v && !json_is_array(at->v))
		return json_read_fail(at, fail,
				      "must be a string or a list of parts, not %s",
				      jsonfile_type(at->v));
	return read_parts(at, c, sees, fail);
}

static enum status read_role(const struct json_node *message,
			     const struct role_name **out, struct fail *fail)
{
	struct json_node at = json_read_get(message, "role");
	struct str name = STR("");
	enum status st = json_read_need_str(&at, &name, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(role_names); i++) {
		if (str_is(name, role_names[i].name)) {
			*out = &role_names[i];
			return OK;
		}
	}
	name = json_read_clip(name, MAX_QUOTED);
	return json_read_fail(&at, fail,
			      "must be one of system, developer, user, assistant, "
			      "tool, got \"%.*s\"",
			      (int)name.n, name.p);
}

/* Arguments come as a string, or in some clients' history as an object. The template gets
 * an object if it takes objects: it then spells the arguments as the model was trained. A
 * string that is no JSON object stays a string where the template takes strings. */
static enum status read_args(const struct json_node *at, const struct messages_opts *o,
			     struct jinja_value **out, struct fail *fail)
{
	struct arena *a = o->arena;
	bool objects = chat_template_ways(o->chat)->takes_objects;
	bool strings = chat_template_ways(o->chat)->takes_strings || !objects;
	if (!json_is_string(at->v)) {
		enum status st = json_read_object(at, fail);
		if (st != OK)
			return st;
		struct buf spelled = {0};
		if (at->v && !objects)
			json_digits_write(at->v, true, &spelled);
		else if (!at->v)
			buf_add_z(&spelled, "{}");
		if (objects)
			*out = at->v ? value_of_json(a, at->v) : jinja_dict(a);
		else
			*out = jinja_string(a, buf_str(&spelled), TRUST_USER);
		buf_deinit(&spelled);
		return OK;
	}
	json_t *v = NULL;
	struct str text = json_read_view(at->v);
	if (objects && json_read_parse(text, &v, NULL) == OK)
		*out = value_of_json(a, v);
	else if (strings)
		*out = jinja_string(a, text, TRUST_USER);
	else if (text.n == 0)
		*out = jinja_dict(a);
	else if ((v = value_read_args(text)))
		*out = value_of_json(a, v);
	else
		return json_read_fail(at, fail, "must be a JSON object in a string");
	json_decref(v);
	return OK;
}

/* Nine letters and digits, as some templates demand. */
static bool is_short_id(struct str id)
{
	bool is_short = id.n == 9;
	for (size_t i = 0; is_short && i < id.n; i++)
		is_short = (id.p[i] >= '0' && id.p[i] <= '9') ||
			   ((id.p[i] | 0x20) >= 'a' && (id.p[i] | 0x20) <= 'z');
	return is_short;
}

/* Sets an id as the template takes it. The same id always becomes the same text. */
static void set_id(const struct messages_opts *o, struct jinja_value *dict,
		   const char *key, struct str id)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char made[9];
	if (chat_template_ways(o->chat)->wants_short_ids && !is_short_id(id)) {
		uint64_t h = hash_bytes(1, id.p, id.n);
		for (size_t i = 0; i < sizeof made; i++, h /= 36)
			made[i] = digits[h % 36];
		id = (struct str){made, sizeof made};
	}
	value_set_str(o->arena, dict, key, id, TRUST_USER);
}

/* What stands in place of a call's arguments: an object with the one key `key`, or an empty
 * object. */
static struct jinja_value *stand_in(const struct messages_opts *o, struct str key)
{
	bool is_object = chat_template_ways(o->chat)->takes_objects;
	if (!is_object)
		return jinja_string(o->arena, key.p ? key : STR("{}"), TRUST_USER);
	struct jinja_value *dict = jinja_dict(o->arena);
	if (key.p)
		value_set_str(o->arena, dict, arena_strdup(o->arena, key.p), STR(""),
			      TRUST_USER);
	return dict;
}

static enum status read_call(const struct json_node *call,
			     const struct messages_opts *o, struct jinja_value *list,
			     struct fail *fail)
{
	struct arena *a = o->arena;
	struct json_node fn = json_read_get(call, "function");
	struct json_node args = json_read_get(&fn, "arguments");
	struct json_node at = json_read_get(call, "id");
	struct str name, id = {0};
	struct jinja_value *dict = jinja_dict(a), *function = jinja_dict(a);
	struct jinja_value *value = NULL;
	enum status st = messages_check_function(call, fail);
	if (st == OK)
		st = json_read_str(&at, &id, fail);
	if (st == OK)
		st = read_args(&args, o, &value, fail);
	if (st != OK)
		return st;
	name = json_read_view(json_object_get(fn.v, "name"));
	struct str key = {0};
	if (id.p && json_is_string(args.v) &&
	    replay_begin(o->replay, id, name, json_read_view(args.v), &name, &key))
		value = stand_in(o, key);
	value_set_str(a, function, "name", name, TRUST_USER);
	value_set(a, function, "arguments", value);
	if (id.p)
		set_id(o, dict, "id", id);
	value_set_str(a, dict, "type", STR("function"), TRUST_TEMPLATE);
	value_set(a, dict, "function", function);
	jinja_list_add(a, list, dict);
	return OK;
}

static enum status read_tool_calls(const struct json_node *message,
				   const struct messages_opts *o,
				   struct jinja_value *dict, bool *out_has,
				   struct fail *fail)
{
	struct json_node at = json_read_get(message, "tool_calls");
	struct jinja_value *list = jinja_list(o->arena);
	size_t n;
	enum status st = json_read_list(&at, MAX_TOOL_CALLS, &n, fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node call = json_read_item(&at, i);
		st = read_call(&call, o, list, fail);
	}
	*out_has = n > 0;
	if (st == OK && n > 0)
		value_set(o->arena, dict, "tool_calls", list);
	return st;
}

/* Reads what a thinking model wrote before its answer; the field has two names. Templates have
 * a third. gpt-oss's takes it only where the message has no text (is_alone): it refuses a
 * message with both. */
static enum status read_reasoning(const struct json_node *message, bool is_alone,
				  struct arena *a, struct jinja_value *dict,
				  struct fail *fail)
{
	static const char *const names[] = {"reasoning", "reasoning_content", "thinking"};
	struct str text = {0};
	size_t n = is_alone ? 3 : 2;
	for (size_t i = 0; i < 2; i++) {
		struct json_node at = json_read_get(message, names[i]);
		enum status st = json_read_str(&at, &text, fail);
		if (st != OK)
			return st;
	}
	for (size_t i = 0; text.n && i < n; i++)
		value_set_str(a, dict, names[i], text, TRUST_MODEL);
	return OK;
}

static bool hides_calls(const struct conversation *c)
{
	const struct tool_format *f = c->o->images->m->tool_format;
	return f && (f->is_python || f->hidden) && !chat_template_ways(c->o->chat)->takes_objects &&
	       !chat_template_ways(c->o->chat)->takes_strings;
}

/* For a template that shows no calls: the calls as the model writes them, then the
 * message's text. */
static struct jinja_value *with_calls(const struct json_node *message,
				      struct conversation *c)
{
	const struct tool_format *f = c->o->images->m->tool_format;
	struct json_node calls = json_read_get(message, "tool_calls");
	struct marked text = {0};
	if (f->hidden)
		pycalls_add(&calls, str_of(f->hidden), STR(""), true, &text);
	else
		pycalls_add(&calls, str_of(f->open), str_of(f->close_tag), false, &text);
	marked_add(&text, buf_str(&c->content), TRUST_MODEL);
	struct jinja_value *out = jinja_marked(c->o->arena, &text);
	marked_deinit(&text);
	return out;
}

static enum status read_assistant(const struct json_node *message,
				  struct conversation *c, bool is_last,
				  struct jinja_value *dict, struct fail *fail)
{
	struct arena *a = c->o->arena;
	struct json_node content = json_read_get(message, "content");
	struct json_node refusal = json_read_get(message, "refusal");
	bool has_calls = false;
	/* What an assistant declined to say stands in a field of its own. */
	enum status st = read_content(content.v ? &content : &refusal, c, false, fail);
	if (st == OK)
		st = read_reasoning(message, c->content.n == 0, a, dict, fail);
	if (st == OK)
		st = read_tool_calls(message, c->o, dict, &has_calls, fail);
	if (is_last)
		buf_add_str(&c->content, c->o->final_mark);
	/* Beside calls, null is how the API spells "no text", and templates test for it. An
	 * answer that came out empty also comes back as null. For templates that cannot
	 * read None, the caller tries again with "". */
	if (st == OK && has_calls && hides_calls(c))
		value_set(a, dict, "content", with_calls(message, c));
	else if (c->content.n == 0 && has_calls &&
		 (chat_template_ways(c->o->chat)->wants_none ||
		  (!content.v && !c->o->fills_content)))
		value_set(a, dict, "content", jinja_none(a));
	else
		value_set_str(a, dict, "content", buf_str(&c->content), TRUST_MODEL);
	return st;
}

static enum status read_optional(const struct json_node *message,
				 const char *key, struct arena *a,
				 struct jinja_value *dict, struct fail *fail)
{
	struct json_node at = json_read_get(message, key);
	struct str s = {0};
	enum status st = json_read_str(&at, &s, fail);
	if (st == OK && s.p)
		value_set_str(a, dict, key, s, TRUST_USER);
	return st;
}

static enum status read_call_id(const struct json_node *message,
				const struct messages_opts *o,
				struct jinja_value *dict, struct fail *fail)
{
	struct json_node at = json_read_get(message, "tool_call_id");
	struct str id = {0};
	enum status st = json_read_str(&at, &id, fail);
	if (st == OK && id.p)
		set_id(o, dict, "tool_call_id", id);
	return st;
}

/* Adds to the system message. A blank line separates two texts, as between paragraphs. */
static void add_system(struct conversation *c)
{
	if (c->has_system)
		buf_add_z(&c->system, "\n\n");
	buf_add_str(&c->system, buf_str(&c->content));
	c->has_system = true;
}

/* Appends the message to c, or adds it to the system message. */
static enum status read_message(const struct json_node *at, struct conversation *c,
				bool is_last, struct fail *fail)
{
	const struct role_name *role = NULL;
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = read_role(at, &role, fail);
	if (st != OK)
		return st;
	struct arena *a = c->o->arena;
	struct jinja_value *dict = jinja_dict(a);
	bool may_see = role->role != ROLE_SYSTEM;
	value_set_str(a, dict, "role", str_of(role->in_template), TRUST_TEMPLATE);
	buf_clear(&c->content);
	c->parts = NULL;
	if (role->role == ROLE_ASSISTANT) {
		st = read_assistant(at, c, is_last, dict, fail);
	} else if (is_last && c->o->final_mark.p) {
		return json_read_fail(at, fail, "must be of the assistant, to be "
						"continued");
	} else {
		struct json_node content = json_read_get(at, "content");
		/* A tool that gave nothing has null as its result. */
		st = role->role == ROLE_TOOL ? OK : json_read_need(&content, fail);
		if (st == OK)
			st = read_content(&content, c, may_see, fail);
		if (c->parts)
			value_set(a, dict, "content", c->parts);
		else
			value_set_str(a, dict, "content", buf_str(&c->content), TRUST_USER);
	}
	if (st == OK)
		st = read_optional(at, "name", a, dict, fail);
	if (st == OK)
		st = read_call_id(at, c->o, dict, fail);
	if (st != OK)
		return st;
	if (role->role == ROLE_SYSTEM && (c->n_rest == 0 || c->one_system)) {
		add_system(c);
		return OK;
	}
	c->rest[c->n_rest++] = dict;
	return OK;
}

static struct jinja_value *to_list(struct conversation *c)
{
	struct arena *a = c->o->arena;
	struct jinja_value *list = jinja_list(a);
	if (c->has_system) {
		struct jinja_value *dict = jinja_dict(a);
		value_set_str(a, dict, "role", STR("system"), TRUST_TEMPLATE);
		value_set_str(a, dict, "content", buf_str(&c->system), TRUST_USER);
		jinja_list_add(a, list, dict);
	}
	for (size_t i = 0; i < c->n_rest; i++)
		jinja_list_add(a, list, c->rest[i]);
	return list;
}

enum status messages_read(const struct json_node *at, const struct messages_opts *o,
			  struct jinja_value **out, struct fail *fail)
{
	size_t n;
	enum status st = json_read_need(at, fail);
	if (st == OK)
		st = json_read_list(at, MAX_MESSAGES, &n, fail);
	if (st != OK)
		return st;
	if (n == 0)
		return json_read_fail(at, fail, "must have at least one message");
	/* The first system message may grow until the last message is read. So the list is
	 * put together at the end. */
	struct conversation c = {
		.o = o, .one_system = chat_template_ways(o->chat)->wants_one_system};
	c.rest = arena_alloc(o->arena, n * sizeof *c.rest);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(at, i);
		st = read_message(&item, &c, i == n - 1, fail);
	}
	if (st == OK)
		*out = to_list(&c);
	buf_deinit(&c.system);
	buf_deinit(&c.content);
	return st;
}

enum status messages_check_function(const struct json_node *holder,
				    struct fail *fail)
{
	struct json_node fn = json_read_get(holder, "function");
	struct json_node name = json_read_get(&fn, "name");
	struct str s;
	enum status st = json_read_need_object(holder, fail);
	if (st == OK)
		st = json_read_need_object(&fn, fail);
	if (st == OK)
		st = json_read_need_str(&name, &s, fail);
	return st;
}
