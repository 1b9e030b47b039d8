/* SPDX-License-Identifier: Apache-2.0
 *
 * Several sources may set a template variable. From the weakest to the strongest: the
 * server's `reasoning`, the server's `chat_template_kwargs`, the request's
 * `chat_template_kwargs`, its `reasoning_effort` and its `enable_thinking`.
 *
 * Templates have several names for one switch: `enable_thinking` (Qwen, GLM, Nemotron),
 * `thinking` (DeepSeek, Granite, Kimi). Setting one of the names sets the others, too.
 * Templates without such a switch get `thinking_budget`, `reasoning_effort` or Muse Glimmer's
 * `reasoning_strength`, if they read one of these.
 */
#include "chat/chat_vars.h"

#include <stdio.h>

#include "chat/value.h"
#include "base/alloc.h"

static const char *const switches[] = {"enable_thinking", "thinking"};

static enum status check_names(const struct json_node *vars, struct fail *fail)
{
	static const char *const reserved[] = {
		"messages", "tools", "add_generation_prompt", "bos_token", "eos_token",
	};
	enum status st = json_read_object(vars, fail);
	for (size_t i = 0; i < ARRAY_LEN(reserved) && st == OK; i++) {
		struct json_node own = json_read_get(vars, reserved[i]);
		if (own.v)
			st = json_read_fail(&own, fail, "cannot be set");
	}
	return st;
}

enum status chat_vars_parse(const char *text, json_t **out, struct fail *fail)
{
	struct fail why = {0};
	json_t *v = NULL;
	*out = NULL;
	if (!text || !text[0])
		return OK;
	enum status st = json_read_parse(str_of(text), &v, &why);
	struct json_node root = json_read_root(v);
	if (st == OK)
		st = check_names(&root, &why);
	if (st == OK) {
		*out = v;
		return OK;
	}
	json_decref(v);
	return fail_at(fail, E_INVAL, "chat_template_kwargs",
		       "chat_template_kwargs: must be a JSON object of template "
		       "variables: %s", why.text);
}

static void set_switches(struct arena *a, struct jinja_value *vars, bool thinks)
{
	for (size_t i = 0; i < ARRAY_LEN(switches); i++)
		value_set(a, vars, switches[i], jinja_bool(a, thinks));
}

/* Sets both names of the switch to what one of them was given. If both were given, each
 * keeps its own value. */
static void add_variables(struct arena *a, struct jinja_value *vars, const json_t *from)
{
	const char *key;
	json_t *v;
	for (size_t i = ARRAY_LEN(switches); i-- > 0;) {
		const json_t *said = json_object_get(from, switches[i]);
		if (json_is_boolean(said))
			set_switches(a, vars, json_is_true(said));
	}
	json_object_foreach((json_t *)from, key, v)
		jinja_dict_set(a, vars, str_of(key), TRUST_USER, value_of_json(a, v));
}

static bool quotes(struct str text, const char *word)
{
	char quoted[2][16];
	snprintf(quoted[0], sizeof quoted[0], "'%s'", word);
	snprintf(quoted[1], sizeof quoted[1], "\"%s\"", word);
	return str_find(text, str_of(quoted[0]), 0) >= 0 ||
	       str_find(text, str_of(quoted[1]), 0) >= 0;
}

/* The template's word for no effort at all; `other` if it has none. HY 3 says "no_think". */
static const char *no_effort(struct str text, const char *other)
{
	return quotes(text, "none") ? "none" : quotes(text, "no_think") ? "no_think" : other;
}

/* strength: Muse Glimmer's name for it. */
static void set_effort(struct arena *a, struct jinja_value *vars, const char *effort,
		       const char *strength)
{
	value_set_str(a, vars, "reasoning_effort", str_of(effort), TRUST_TEMPLATE);
	value_set_str(a, vars, "reasoning_strength", str_of(strength), TRUST_TEMPLATE);
}

static void set_server(const struct chat_model *m, struct arena *a, struct jinja_value *vars)
{
	struct str text = str_of(m->template_text);
	bool is_off = m->reasoning == CHAT_REASONING_OFF;
	if (m->reasoning != CHAT_REASONING_AUTO)
		set_switches(a, vars, !is_off);
	if (is_off && str_find(text, STR("thinking_budget"), 0) >= 0)
		value_set(a, vars, "thinking_budget", jinja_int(a, 0));
	if (is_off) { /* the least effort that the template knows */
		const char *least = no_effort(text, "low");
		set_effort(a, vars, least, least);
	}
	add_variables(a, vars, m->template_kwargs);
}

static const char *const efforts[] = {"none", "minimal", "low", "medium",
				      "high", "xhigh", "max"};

/* Does the template raise an error of its own for an effort that it does not know? */
static bool refuses_efforts(struct str text)
{
	static const struct str raise = STR("raise_exception(");
	for (ptrdiff_t at = 0; (at = str_find(text, raise, (size_t)at)) >= 0; at++) {
		ptrdiff_t end = str_find(text, STR(")"), (size_t)at);
		struct str words = {text.p + at, end > at ? (size_t)(end - at) : 0};
		if (str_find(words, STR("effort"), 0) >= 0)
			return true;
	}
	return false;
}

/* Qwen3.8's template refuses all efforts but three. Such a template gets the nearest effort
 * that it names; of two equally near, the greater. */
static const char *fit_effort(const struct chat_model *m, size_t asked)
{
	struct str text = str_of(m->template_text);
	size_t n = ARRAY_LEN(efforts);
	if (asked == 0)
		return no_effort(text, efforts[0]);
	if (quotes(text, efforts[asked]) || !refuses_efforts(text))
		return efforts[asked];
	for (size_t d = 1; d < n; d++) {
		if (asked + d < n && quotes(text, efforts[asked + d]))
			return efforts[asked + d];
		if (d < asked && quotes(text, efforts[asked - d]))
			return efforts[asked - d];
	}
	return efforts[asked];
}

/* How much to think: OpenAI's word goes to the template; "none" also turns off the switch
 * that most templates have. An effort promises no length, so every word in use is
 * accepted. */
static enum status read_effort(const struct json_node *body, const struct chat_model *m,
			       struct arena *a, struct jinja_value *vars, struct fail *fail)
{
	struct json_node at = json_read_get(body, "reasoning_effort");
	struct str effort = {0};
	enum status st = json_read_str(&at, &effort, fail);
	if (st != OK || !at.v)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(efforts); i++) {
		if (!str_is(effort, efforts[i]))
			continue;
		const char *fit = fit_effort(m, i), *strength = fit;
		if (i == 0) {
			set_switches(a, vars, false);
			/* Muse Glimmer has no word for none. */
			strength = no_effort(str_of(m->template_text), "low");
		}
		set_effort(a, vars, fit, strength);
		return OK;
	}
	return json_read_fail(&at, fail, "must be one of none, minimal, low, medium, "
					 "high, xhigh, max");
}

enum status chat_vars_read(const struct json_node *body, const struct chat_model *m,
			   struct arena *a, bool is_forced, struct jinja_value **out,
			   struct fail *fail)
{
	struct json_node at = json_read_get(body, "chat_template_kwargs");
	struct json_node own = json_read_get(body, "enable_thinking");
	bool thinks = true;
	enum status st = check_names(&at, fail);
	if (st != OK)
		return st;
	*out = jinja_dict(a);
	set_server(m, a, *out);
	if (at.v)
		add_variables(a, *out, at.v);
	st = read_effort(body, m, a, *out, fail);
	if (st == OK)
		st = json_read_bool(&own, &thinks, fail);
	if (st == OK && (own.v || is_forced))
		set_switches(a, *out, thinks && !is_forced);
	return st;
}
