/* SPDX-License-Identifier: Apache-2.0 */
#include "api/transcript.h"

#include <math.h>
#include <stdlib.h>

#include "api/fields.h"
#include "api/multipart.h"
#include "base/alloc.h"
#include "base/utf8.h"

/* Bytes of a wrong value that a fault's text quotes. */
enum { MAX_QUOTED = 40, MAX_NUMBER = 40 };

/* --- the form ---------------------------------------------------------------------- */

/* How the text of a field is read. Fields without a row are texts. */
static const struct form_field {
	const char *name;
	enum { FORM_NUMBER = 1, FORM_BOOL, FORM_LIST } kind;
} form_fields[] = {
	{"temperature", FORM_NUMBER},
	{"stream", FORM_BOOL},
	{"timestamp_granularities", FORM_LIST},
	{"include", FORM_LIST},
};

static json_t *text_of(struct str s)
{
	return json_stringn_nocheck(s.p, s.n);
}

static enum status read_number(const char *name, struct str s, json_t **out, struct fail *fail)
{
	char text[MAX_NUMBER + 1], *end = text;
	double v = 0;
	if (s.n > 0 && s.n <= MAX_NUMBER) {
		memcpy(text, s.p, s.n);
		text[s.n] = '\0';
		v = strtod(text, &end);
	}
	if (end == text || *end || !isfinite(v))
		return fail_at(fail, E_INVAL, name, "`%s` must be a number", name);
	*out = json_real(v);
	return OK;
}

static enum status read_bool(const char *name, struct str s, json_t **out, struct fail *fail)
{
	bool is_true = str_is(s, "true") || str_is(s, "True") || str_is(s, "1");
	if (!is_true && !str_is(s, "false") && !str_is(s, "False") && !str_is(s, "0"))
		return fail_at(fail, E_INVAL, name, "`%s` must be true or false", name);
	*out = json_boolean(is_true);
	return OK;
}

static enum status add_field(json_t *fields, const struct multipart_part *p, struct fail *fail)
{
	char name[64];
	struct str own = p->name;
	int kind = 0;
	if (str_ends(own, STR("[]")))
		own.n -= 2;
	if (own.n == 0 || own.n >= sizeof name || utf8_check(own) >= 0)
		return fail_set(fail, E_INVAL, "the form has a field whose name is empty, longer "
				"than %d bytes or no text", (int)sizeof name - 1);
	memcpy(name, own.p, own.n);
	name[own.n] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(form_fields); i++)
		if (str_is(own, form_fields[i].name))
			kind = form_fields[i].kind;
	if (utf8_check(p->content) >= 0)
		return fail_at(fail, E_INVAL, name, "`%s` is no text in UTF-8", name);
	json_t *old = json_object_get(fields, name), *v = NULL;
	bool is_list = kind == FORM_LIST || own.n < p->name.n;
	if (old && (!is_list || !json_is_array(old)))
		return fail_at(fail, E_INVAL, name, "`%s` is given twice", name);
	if (is_list) {
		if (!old)
			json_object_set_new(fields, name, old = json_array());
		json_array_append_new(old, text_of(p->content));
		return OK;
	}
	enum status st = OK;
	if (kind == FORM_NUMBER)
		st = read_number(name, p->content, &v, fail);
	else if (kind == FORM_BOOL)
		st = read_bool(name, p->content, &v, fail);
	else
		v = text_of(p->content);
	if (st == OK)
		json_object_set_new(fields, name, v);
	return st;
}

enum status transcript_read_form(const struct api_input *in, json_t **out, struct str *out_file,
				 struct fail *fail)
{
	struct multipart form;
	enum status st = multipart_read(in->type.p ? in->type : STR(""), in->body, &form, fail);
	*out_file = (struct str){0};
	*out = json_object();
	for (int i = 0; st == OK && i < form.n; i++) {
		const struct multipart_part *p = &form.parts[i];
		if (!str_is(p->name, "file")) {
			st = add_field(*out, p, fail);
			continue;
		}
		if (out_file->p)
			st = fail_at(fail, E_INVAL, "file", "`file` is given twice");
		*out_file = p->content;
		json_object_set_new(*out, "file", json_true());
	}
	if (st == OK && !out_file->p)
		st = fail_at(fail, E_INVAL, "file", "`file` is missing: the form has no part of "
			     "this name");
	if (st != OK)
		json_decref(*out);
	return st;
}

/* --- languages --------------------------------------------------------------------- */

/* ISO 639-1, or 639-3 where that has none; and what models call it. */
static const struct language {
	const char *code, *name;
} languages[] = {
	{"af", "Afrikaans"}, {"ar", "Arabic"}, {"bg", "Bulgarian"}, {"bn", "Bengali"},
	{"ca", "Catalan"}, {"cs", "Czech"}, {"da", "Danish"}, {"de", "German"},
	{"el", "Greek"}, {"en", "English"}, {"es", "Spanish"}, {"et", "Estonian"},
	{"fa", "Persian"}, {"fi", "Finnish"}, {"tl", "Filipino"}, {"fil", "Filipino"},
	{"fr", "French"},
	{"he", "Hebrew"}, {"hi", "Hindi"}, {"hr", "Croatian"}, {"hu", "Hungarian"},
	{"id", "Indonesian"}, {"it", "Italian"}, {"ja", "Japanese"}, {"ko", "Korean"},
	{"lt", "Lithuanian"}, {"lv", "Latvian"}, {"mk", "Macedonian"}, {"ms", "Malay"},
	{"nl", "Dutch"}, {"no", "Norwegian"}, {"pl", "Polish"}, {"pt", "Portuguese"},
	{"ro", "Romanian"}, {"ru", "Russian"}, {"sk", "Slovak"}, {"sl", "Slovenian"},
	{"sr", "Serbian"}, {"sv", "Swedish"}, {"sw", "Swahili"}, {"ta", "Tamil"},
	{"te", "Telugu"}, {"th", "Thai"}, {"tr", "Turkish"},
	{"uk", "Ukrainian"}, {"ur", "Urdu"}, {"vi", "Vietnamese"},
	{"yue", "Cantonese"}, {"zh", "Chinese"},
};

/* *out: NULL: the body does not say. */
static enum status read_language(const struct json_node *body, const struct language **out,
				 struct fail *fail)
{
	struct json_node at = json_read_get(body, "language");
	struct str code = {0};
	enum status st = json_read_str(&at, &code, fail);
	*out = NULL;
	if (st != OK || code.n == 0)
		return st;
	for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
		const char *name = languages[i].name;
		if (str_is(code, languages[i].code) ||
		    (code.n == strlen(name) && strncasecmp(code.p, name, code.n) == 0)) {
			*out = &languages[i];
			return OK;
		}
	}
	code = json_read_clip(code, MAX_QUOTED);
	return json_read_fail(&at, fail, "is \"%.*s\": no code of a language that is known here, "
			      "as in en or de", (int)code.n, code.p);
}

/* --- the chat ---------------------------------------------------------------------- */

/* Times need an aligner, a transcript and the whole answer. `at` is what asks for them. */
static enum status check_times(const struct json_node *body, const struct json_node *at,
			       const struct api_call *c, struct fail *fail)
{
	const struct transcript *t = c->state;
	struct json_node stream = json_read_get(body, "stream");
	if (t->is_translation)
		return json_read_fail(at, fail, "asks for times, and a translation has none: only "
				      "words that are said have");
	if (!c->api->align)
		return json_read_fail(at, fail, "asks for times, which a forced aligner tells: set "
				      "aligner_model in halod.conf to Qwen3-ForcedAligner");
	if (json_is_true(stream.v))
		return json_read_fail(&stream, fail, "is not possible with times, which are told "
				      "when all text has been written");
	return align_words_check(t->language, fail);
}

static enum status read_granularities(const struct json_node *at, unsigned *out,
				      struct fail *fail)
{
	for (size_t i = 0; i < json_array_size(at->v); i++) {
		struct json_node item = json_read_item(at, i);
		struct str name = json_read_clip(json_read_view(item.v), MAX_QUOTED);
		if (str_is(name, "word"))
			*out |= TIMES_WORDS;
		else if (str_is(name, "segment"))
			*out |= TIMES_SEGMENTS;
		else
			return json_read_fail(at, fail, "must be of word and segment, got "
					      "\"%.*s\"", (int)name.n, name.p);
	}
	return OK;
}

/* t->shape is known. As OpenAI has it, verbose_json has segments where nothing is said. */
static enum status read_times(const struct json_node *body, struct api_call *c,
			      struct fail *fail)
{
	struct transcript *t = c->state;
	struct json_node at = json_read_get(body, "timestamp_granularities");
	struct json_node shape = json_read_get(body, "response_format");
	struct fail why;
	enum status st = read_granularities(&at, &t->times, fail);
	if (st != OK)
		return st;
	if (t->times && t->shape != TRANSCRIPT_VERBOSE)
		return json_read_fail(&at, fail, "needs `response_format` verbose_json");
	if (t->times)
		return check_times(body, &at, c, fail);
	if (t->shape == TRANSCRIPT_SRT || t->shape == TRANSCRIPT_VTT) {
		t->times = TIMES_SEGMENTS;
		return check_times(body, &shape, c, fail);
	}
	if (t->shape == TRANSCRIPT_VERBOSE && check_times(body, &shape, c, &why) == OK)
		t->times = TIMES_SEGMENTS | TIMES_MAY_LACK;
	return OK;
}

static enum status read_shape(const struct json_node *body, struct transcript *t,
			      struct fail *fail)
{
	static const char *const names[] = {
		[TRANSCRIPT_JSON] = "json", [TRANSCRIPT_TEXT] = "text",
		[TRANSCRIPT_VERBOSE] = "verbose_json", [TRANSCRIPT_SRT] = "srt",
		[TRANSCRIPT_VTT] = "vtt"};
	struct json_node at = json_read_get(body, "response_format");
	struct json_node more = json_read_get(body, "include");
	struct str name = STR("json");
	enum status st = json_read_str(&at, &name, fail);
	if (st == OK && json_array_size(more.v))
		return json_read_fail(&more, fail, "is not served: a transcript has its text "
				      "alone");
	for (size_t i = 0; i < ARRAY_LEN(names) && st == OK; i++) {
		if (!str_is(name, names[i]))
			continue;
		t->shape = (enum transcript_shape)i;
		return OK;
	}
	name = json_read_clip(name, MAX_QUOTED);
	return st != OK ? st : json_read_fail(&at, fail, "must be one of json, text, "
					      "verbose_json, srt, vtt, got \"%.*s\"",
					      (int)name.n, name.p);
}

/* How a model is asked for a transcript. */
enum ask {
	ASK_WORDS, /* as in any chat */
	ASK_ASR,   /* it does nothing but transcribe, and is asked nothing */
	ASK_MARK,  /* by the token TRANSCRIBE behind the audio, as mistral-common does */
};
#define TRANSCRIBE "[TRANSCRIBE]"

static enum ask ask_of(const struct api_call *c)
{
	const struct model *m = c->api->chat.model;
	int32_t mark = tokenizer_find(m->tokenizer, STR(TRANSCRIBE));
	if (strcmp(m->config.arch, "qwen3_asr") == 0)
		return ASK_ASR;
	return mark >= 0 && tokenizer_is_special(m->tokenizer, mark) ? ASK_MARK : ASK_WORDS;
}

/* What the model is asked, in the words that Qwen3-Omni was trained with. */
static void ask(const struct transcript *t, const char *language, struct str prompt,
		struct buf *out)
{
	const char *space = language ? " " : "";
	language = language ? language : "";
	if (t->is_translation)
		buf_addf(out, "Listen to the provided%s%s speech and produce a translation in "
			 "English text.", space, language);
	else if (strcmp(language, "Chinese") == 0)
		buf_add_z(out, "请将这段中文语音转换为纯文本。");
	else
		buf_addf(out, "Transcribe the%s%s audio into text.", space, language);
	if (prompt.n) {
		buf_add_z(out, "\nText that may come before it, or words that may be in it: ");
		buf_add_str(out, prompt);
	}
}

/* Qwen3-ASR says the language itself unless its answer already begins with one. */
static void begin_asr(const char *language, struct api_call *c)
{
	struct transcript *t = c->state;
	struct buf opening = {0};
	t->says_language = t->head.is_open = !language;
	if (language)
		buf_addf(&opening, "language %s" TRANSCRIPT_MARK, language);
	c->opening = arena_str(&c->arena, buf_str(&opening));
	buf_deinit(&opening);
}

/* Behind the mark the model writes the transcript alone. */
static enum status begin_mark(const struct json_node *body, const struct language *in,
			      struct api_call *c, struct fail *fail)
{
	struct json_node at = json_read_get(body, "language");
	struct buf opening = {0};
	if (in && strlen(in->code) != 2)
		return json_read_fail(&at, fail, "is %s, which has no code of two letters: this "
				      "model takes those alone", in->name);
	if (in)
		buf_addf(&opening, "lang:%s", in->code);
	buf_add_z(&opening, TRANSCRIBE);
	c->opening = arena_str(&c->arena, buf_str(&opening));
	buf_deinit(&opening);
	return OK;
}

/* Notes the fields that have no effect. */
static void ignore_others(const struct json_node *body, enum ask how, struct buf *ignored)
{
	static const char *const known[] = {"file", "model", "language", "prompt",
					    "response_format", "temperature", "stream",
					    "timestamp_granularities", "include"};
	const char *name;
	json_t *v;
	json_object_foreach((json_t *)body->v, name, v) {
		bool is_known = false;
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			is_known |= strcmp(name, known[i]) == 0;
		struct json_node at = json_read_get(body, name);
		if (!is_known || (how == ASK_MARK && strcmp(name, "prompt") == 0))
			fields_ignore(ignored, &at, STR(""));
	}
}

/* A chat of one message: the file, then what is asked, unless that is a message of the system. */
static void build_chat(const struct json_node *body, struct str words, bool to_system,
		       struct dialect_body *to)
{
	struct json_node file = json_read_get(body, "file");
	json_t *sound = json_object(), *content = json_array();
	json_t *message = json_object(), *messages = json_array();
	dialect_set_str(sound, "type", STR("input_audio"));
	json_array_append_new(content, sound);
	if (to_system && words.n)
		json_array_append_new(messages, dialect_message("system", words));
	if (!to_system) {
		json_t *text = json_object();
		dialect_set_str(text, "type", STR("text"));
		dialect_set_str(text, "text", words);
		json_array_append_new(content, text);
	}
	dialect_set_str(message, "role", STR("user"));
	dialect_set(message, "content", content);
	json_array_append_new(messages, message);
	dialect_set(to->chat, "messages", messages);
	json_paths_add_field(&to->paths, to->chat, "messages", &file);
	json_paths_add(&to->paths, sound, &file);
	dialect_set(to->chat, "temperature", json_integer(0));
	dialect_copy(to, to->chat, "temperature", body, "temperature");
	dialect_copy(to, to->chat, "stream", body, "stream");
	dialect_set(to->chat, "enable_thinking", json_false());
}

static enum status rewrite(const struct json_node *body, struct api_call *c, bool is_translation,
			   struct dialect_body *to, struct fail *fail)
{
	struct transcript *t = xcalloc(1, sizeof *t);
	struct json_node at = json_read_get(body, "prompt");
	enum ask how = ask_of(c);
	const struct language *in;
	struct str prompt = {0};
	struct buf words = {0};
	c->state = t;
	t->is_translation = is_translation;
	if (c->api->chat.lacks_audio)
		return fail_set(fail, E_UNSUPPORTED, "this halod lacks the libraries that read "
				"audio: its log names them");
	if (!c->api->chat.sound)
		return fail_set(fail, E_UNSUPPORTED, "the model `%s` hears nothing: name one "
				"that does, as Qwen3-ASR, or set transcription_model in halod.conf "
				"to it", c->api->model_name);
	if (how == ASK_MARK && is_translation)
		how = ASK_WORDS;
	if (how == ASK_ASR && is_translation)
		return fail_set(fail, E_UNSUPPORTED, "this server's model writes what is said, and "
				"translates nothing: use /v1/audio/transcriptions");
	enum status st = read_shape(body, t, fail);
	if (st == OK)
		st = read_language(body, &in, fail);
	if (st == OK)
		st = json_read_str(&at, &prompt, fail);
	if (st != OK)
		return st;
	t->language = in ? in->name : NULL;
	st = read_times(body, c, fail);
	if (st == OK && how == ASK_MARK)
		st = begin_mark(body, in, c, fail);
	if (st != OK)
		return st;
	ignore_others(body, how, &to->ignored);
	if (how == ASK_ASR) /* the client's words are its context */
		begin_asr(t->language, c);
	if (how == ASK_WORDS)
		ask(t, t->language, prompt, &words);
	build_chat(body, how == ASK_WORDS ? buf_str(&words) : how == ASK_ASR ? prompt : STR(""),
		   how != ASK_WORDS, to);
	buf_deinit(&words);
	return OK;
}

enum status transcript_to_chat(const struct json_node *body, struct api_call *c,
			       struct dialect_body *to, struct fail *fail)
{
	return rewrite(body, c, false, to, fail);
}

enum status transcript_to_english(const struct json_node *body, struct api_call *c,
				  struct dialect_body *to, struct fail *fail)
{
	return rewrite(body, c, true, to, fail);
}
