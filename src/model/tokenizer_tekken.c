/* SPDX-License-Identifier: Apache-2.0
 *
 * tekken.json has the bytes of each piece in the order of their ranks, and no merges: two
 * neighbours are merged wherever their bytes together are a piece, the lowest rank first. So each
 * cut of a piece into two pieces is a merge, with the piece's rank. Ids of control tokens come
 * first; the pieces follow.
 *
 * Sources: tekken.py and instruct.py of mistral-common.
 */
#include "model/tokenizer_tekken.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/map.h"
#include "json/jsonfile.h"
#include "tokenizer/bytelevel.h"

#define FILE_NAME "tekken.json"
/* The largest known file, with 150,000 pieces, has 20 MB. */
#define MAX_FILE_BYTES ((size_t)64 << 20)
enum { MAX_IDS = 1 << 20, MAX_PIECE = 4096, BYTES = 256 };

struct tekken {
	struct arena arena;
	struct strmap ranks;  /* bytes of a piece to its rank */
	struct str *bytes;    /* (n_pieces), by rank */
	struct str *spelled;  /* (n_special + n_pieces), in the byte-level alphabet */
	int32_t n_ids, n_special, n_pieces;
	struct merge *merges;
	size_t n_merges;
	struct added_token *added; /* (n_special) */
	struct pretok_step steps[2];
	struct fail *fail;
};

/* What config says of sizes. */
static const struct jsonfile_number numbers[] = {
	{"default_vocab_size", offsetof(struct tekken, n_ids), BYTES + 1, MAX_IDS, -1},
	{"default_num_special_tokens", offsetof(struct tekken, n_special), 3, MAX_IDS - BYTES, -1},
};

static enum status bad(const struct tekken *t, const char *list, size_t i, const char *what)
{
	char place[60];
	snprintf(place, sizeof place, "%s[%zu]", list, i);
	return fail_at(t->fail, E_FORMAT, place, FILE_NAME ": %s %s", place, what);
}

/* --- pieces ------------------------------------------------------------------------ */

static struct str spell(struct tekken *t, struct str bytes, struct buf *scratch)
{
	buf_clear(scratch);
	bytelevel_encode(bytes, scratch);
	return arena_str(&t->arena, buf_str(scratch));
}

static enum status read_piece(struct tekken *t, const json_t *v, int32_t rank, struct buf *scratch)
{
	const json_t *digits = json_object_get(v, "token_bytes");
	const json_t *own = json_object_get(v, "rank");
	struct str text = {json_string_value(digits), json_string_length(digits)};
	uint32_t other;
	buf_clear(scratch);
	if (!json_is_integer(own) || json_integer_value(own) != rank)
		return bad(t, "vocab", (size_t)rank, "has another rank than its place");
	if (!text.p || !base64_decode(text, scratch) || !scratch->n || scratch->n > MAX_PIECE)
		return bad(t, "vocab", (size_t)rank, "has no token_bytes in base64");
	struct str bytes = arena_str(&t->arena, buf_str(scratch));
	if (rank < BYTES && (bytes.n != 1 || (unsigned char)bytes.p[0] != rank))
		return bad(t, "vocab", (size_t)rank, "is not the byte of this number");
	if (strmap_get(&t->ranks, bytes, &other))
		return bad(t, "vocab", (size_t)rank, "has the bytes of another piece");
	strmap_put(&t->ranks, bytes, (uint32_t)rank);
	t->bytes[rank] = bytes;
	t->spelled[t->n_special + rank] = spell(t, bytes, scratch);
	return OK;
}

static enum status read_pieces(struct tekken *t, const json_t *top)
{
	const json_t *list = json_object_get(top, "vocab");
	struct buf scratch = {0};
	enum status st = OK;
	if (json_array_size(list) < (size_t)t->n_pieces)
		return fail_at(t->fail, E_FORMAT, "vocab", FILE_NAME ": vocab has %zu pieces "
			       "where config tells of %d", json_array_size(list),
			       (int)t->n_pieces);
	strmap_init(&t->ranks, (size_t)t->n_pieces);
	t->bytes = arena_alloc(&t->arena, (size_t)t->n_pieces * sizeof *t->bytes);
	t->spelled = arena_alloc(&t->arena, (size_t)t->n_ids * sizeof *t->spelled);
	for (int32_t i = 0; i < t->n_pieces && st == OK; i++)
		st = read_piece(t, json_array_get(list, (size_t)i), i, &scratch);
	buf_deinit(&scratch);
	return st;
}

/* Counts the cuts of all pieces into two. With t->merges it lists them, too. */
static void list_merges(struct tekken *t)
{
	const struct str *spelled = t->spelled + t->n_special;
	t->n_merges = 0;
	for (int32_t i = BYTES; i < t->n_pieces; i++) {
		struct str s = t->bytes[i];
		for (size_t cut = 1; cut < s.n; cut++) {
			uint32_t l, r;
			if (!strmap_get(&t->ranks, (struct str){s.p, cut}, &l) ||
			    !strmap_get(&t->ranks, (struct str){s.p + cut, s.n - cut}, &r))
				continue;
			if (t->merges)
				t->merges[t->n_merges] = (struct merge){spelled[l], spelled[r]};
			t->n_merges++;
		}
	}
}

/* --- control tokens ---------------------------------------------------------------- */

static enum status read_special(struct tekken *t, const json_t *top)
{
	/* Files up to v7 name none; these are what they mean. */
	static const char *const usual[] = {
		"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]",
		"[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]",
		"<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
		"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"};
	const json_t *list = jsonfile_get(top, "special_tokens");
	size_t n = list ? json_array_size(list) : MIN(ARRAY_LEN(usual), (size_t)t->n_special);
	if (list && (!json_is_array(list) || n > (size_t)t->n_special))
		return fail_at(t->fail, E_FORMAT, "special_tokens", FILE_NAME ": special_tokens "
			       "is no list of at most %d tokens", (int)t->n_special);
	t->added = arena_alloc(&t->arena, (size_t)t->n_special * sizeof *t->added);
	for (size_t i = 0; i < (size_t)t->n_special; i++) {
		const json_t *v = json_array_get(list, i);
		const char *text = list ? json_string_value(json_object_get(v, "token_str"))
					: i < n ? usual[i] : NULL;
		const json_t *rank = json_object_get(v, "rank");
		if (v && (!text || !*text || json_integer_value(rank) != (json_int_t)i))
			return bad(t, "special_tokens", i, "has no token_str, or another rank "
				   "than its place");
		char filler[40];
		snprintf(filler, sizeof filler, "<SPECIAL_%zu>", i);
		t->added[i] = (struct added_token){
			.text = arena_str(&t->arena, str_of(text ? text : filler)),
			.id = (int32_t)i,
			.special = !json_is_false(json_object_get(v, "is_control"))};
	}
	return OK;
}

/* --- the file ---------------------------------------------------------------------- */

static enum status read_config(struct tekken *t, const json_t *config)
{
	const json_t *pattern = json_object_get(config, "pattern");
	enum status st = jsonfile_numbers(config, FILE_NAME ": config", numbers,
					  ARRAY_LEN(numbers), t, t->fail);
	if (st != OK)
		return st;
	t->n_pieces = t->n_ids - t->n_special;
	if (t->n_pieces < BYTES)
		return fail_at(t->fail, E_FORMAT, "default_vocab_size", FILE_NAME ": "
			       "default_vocab_size leaves less than 256 pieces");
	if (!json_is_string(pattern))
		return fail_at(t->fail, E_FORMAT, "pattern", FILE_NAME ": config has no pattern");
	t->steps[0] = (struct pretok_step){
		.kind = PRETOK_SPLIT, .behavior = SPLIT_ISOLATED,
		.regex = {json_string_value(pattern), json_string_length(pattern)}};
	t->steps[1] = (struct pretok_step){.kind = PRETOK_BYTE_LEVEL};
	return OK;
}

static enum status make(struct tekken *t, struct tokenizer **out)
{
	static const int32_t begin = 1; /* <s> */
	struct fail why = {0};
	const struct tokenizer_def def = {
		.pieces = t->spelled, .n_pieces = t->n_ids,
		.merges = t->merges, .n_merges = (int32_t)t->n_merges, .ranks_by_id = true,
		.added = t->added, .n_added = t->n_special,
		.steps = t->steps, .n_steps = ARRAY_LEN(t->steps), .ignore_merges = true,
		.prefix = &begin, .n_prefix = 1};
	enum status st = tokenizer_create(&def, out, &why);
	return st == OK ? OK : fail_at(t->fail, st, why.param, FILE_NAME ": %s", why.text);
}

static enum status build(const json_t *top, struct tokenizer_files *out, struct fail *fail)
{
	struct tekken t = {.fail = fail};
	arena_init(&t.arena);
	enum status st = read_config(&t, json_object_get(top, "config"));
	if (st == OK)
		st = read_pieces(&t, top);
	if (st == OK)
		st = read_special(&t, top);
	if (st == OK) {
		list_merges(&t);
		t.merges = arena_alloc(&t.arena, MAX(t.n_merges, 1) * sizeof *t.merges);
		list_merges(&t);
		st = make(&t, &out->tokenizer);
	}
	if (st == OK) {
		out->bos_text = xstrndup(t.added[1].text.p, t.added[1].text.n);
		out->eos_text = xstrndup(t.added[2].text.p, t.added[2].text.n);
	}
	if (t.bytes)
		strmap_deinit(&t.ranks);
	arena_deinit(&t.arena);
	return st;
}

/* --- the chat template ------------------------------------------------------------- */

/* Tools stand before one message of the user: TEMPLATE_HEAD ends where its number does. */
#define TEMPLATE_HEAD(sound_rule)                                                            \
	"{%- macro write(content) %}{%- if content is string %}{{- content }}"               \
	"{%- else %}{%- for p in content %}"                                                 \
	"{%- if p.type == 'image' or 'image' in p or 'image_url' in p %}{{- '[IMG]' }}"      \
	"{%- elif p.type == 'audio' %}" sound_rule "{{- '[BEGIN_AUDIO][AUDIO]' }}"           \
	"{%- else %}{{- p.text }}{%- endif %}{%- endfor %}{%- endif %}{%- endmacro %}"       \
	"{%- set at = namespace(user=0, tools="
#define TEMPLATE_BODY                                                                        \
	") %}{{- bos_token }}{%- for m in messages %}"                                       \
	"{%- if m.role == 'user' %}"                                                         \
	"{%- set at.user = at.user + 1 %}"                                                   \
	"{%- if tools and at.user == at.tools %}"                                            \
	"{{- '[AVAILABLE_TOOLS]' }}{{- tools | tojson }}{{- '[/AVAILABLE_TOOLS]' }}"         \
	"{%- endif %}"                                                                       \
	"{{- '[INST]' }}{{- write(m.content) }}{{- '[/INST]' }}"                             \
	"{%- elif m.role == 'system' %}"                                                     \
	"{{- '[SYSTEM_PROMPT]' }}{{- write(m.content) }}{{- '[/SYSTEM_PROMPT]' }}"           \
	"{%- elif m.role == 'assistant' %}"                                                  \
	"{%- if m.content is string %}{{- m.content.rstrip(' ') }}"                          \
	"{%- elif m.content %}{{- write(m.content) }}{%- endif %}"
#define TEMPLATE_EACH                                                                        \
	"{%- for c in m.tool_calls or [] %}{%- set f = c.function %}"                        \
	"{%- set args = f.arguments if f.arguments is string else f.arguments | tojson %}"
#define TEMPLATE_TAIL                                                                        \
	"{{- '[/TOOL_RESULTS]' }}"                                                           \
	"{%- else %}{{- raise_exception('messages of role ' + m.role + ' are not known: "    \
	"use user, assistant, system and tool') }}{%- endif %}{%- endfor %}"
/* Files before v13: mistral-common refuses a system message beside audio, too. */
#define SOUND_ALONE                                                                          \
	"{%- if messages | selectattr('role', 'equalto', 'system') | list %}"                \
	"{{- raise_exception('this model takes no system message beside audio: leave out '"  \
	"'one of them') }}{%- endif %}"
#define LAST_USER "messages | selectattr('role', 'equalto', 'user') | list | length"
#define RESULT "{{- eos_token }}{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS]' }}"
#define RESULT_WITH_ID RESULT "{{- m.tool_call_id }}{{- '[TOOL_CONTENT]' }}{{- write(m.content) }}"

static const struct {
	const char *version, *text;
} templates[] = {
	{"v7", TEMPLATE_HEAD(SOUND_ALONE) LAST_USER TEMPLATE_BODY
	 "{%- if m.tool_calls %}{{- '[TOOL_CALLS][' }}" TEMPLATE_EACH
	 "{{- '{\"name\": \"' }}{{- f.name }}{{- '\", \"arguments\": ' }}{{- args }}"
	 "{{- ', \"id\": \"' }}{{- c.id }}{{- '\"}' }}{{- '' if loop.last else ', ' }}"
	 "{%- endfor %}{{- ']' }}{%- endif %}" RESULT_WITH_ID TEMPLATE_TAIL},
	{"v11", TEMPLATE_HEAD(SOUND_ALONE) LAST_USER TEMPLATE_BODY TEMPLATE_EACH
	 "{{- '[TOOL_CALLS]' }}{{- f.name }}{{- '[CALL_ID]' }}{{- c.id }}{{- '[ARGS]' }}"
	 "{{- args }}{%- endfor %}" RESULT_WITH_ID TEMPLATE_TAIL},
	{"v13", TEMPLATE_HEAD("") "1" TEMPLATE_BODY TEMPLATE_EACH
	 "{{- '[TOOL_CALLS]' }}{{- f.name }}{{- '[ARGS]' }}{{- args }}{%- endfor %}"
	 RESULT "{{- write(m.content) }}" TEMPLATE_TAIL},
};

char *tokenizer_tekken_named(struct str name)
{
	return str_is(name, "mistral-v7-tekken") ? xstrdup(templates[0].text) : NULL;
}

const char *tokenizer_tekken_hearing(const char *text, const char **out_version)
{
	if (!text || strstr(text, "[AUDIO]"))
		return NULL;
	int i = strstr(text, "[CALL_ID]") ? 1 : 2;
	*out_version = templates[i].version;
	return strstr(text, "[ARGS]") ? templates[i].text : NULL;
}

static char *template_of(const json_t *config)
{
	const char *version = json_string_value(json_object_get(config, "version"));
	for (size_t i = 0; version && i < ARRAY_LEN(templates); i++)
		if (strcmp(templates[i].version, version) == 0)
			return xstrdup(templates[i].text);
	return xstrdup("");
}

bool tokenizer_tekken_has(const char *dir)
{
	char *path = file_join(dir, FILE_NAME);
	bool is_there = file_exists(path);
	free(path);
	return is_there;
}

enum status tokenizer_tekken_load(const char *dir, struct tokenizer_files *out,
				  struct fail *fail)
{
	json_t *top = NULL;
	enum status st = jsonfile_load(dir, FILE_NAME, MAX_FILE_BYTES, &top, fail);
	if (st == OK)
		st = build(top, out, fail);
	if (st == OK)
		out->chat_template = template_of(json_object_get(top, "config"));
	json_decref(top);
	return st;
}
