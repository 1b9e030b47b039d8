/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a prompt of token ids for a raw completion:
 *
 *   [repo "context\n"] [file name "\n" text]…  prefix input_prefix prompt
 *   suffix input_suffix middle
 *
 * where `prompt` is what stands left of the cursor in its line. What does not fit the
 * context is cut: other files first, then the text that is farthest from the cursor.
 *
 * Options and answers are those of /completion, native.c.
 */
#include "api/infill.h"

#include "api/native.h"
#include "base/alloc.h"

#define MAX_FILES 1000
#define DEFAULT_TOKENS 256 /* tokens kept free for the answer where the client names no number */

/* --- tokens -------------------------------------------------------------- */

static const char *const names_of_prefix[] = {
	"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "▁<PRE>", "<PRE>", "[PREFIX]",
	"<｜fim▁begin｜>", "<|code_prefix|>"};
static const char *const names_of_suffix[] = {
	"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "▁<SUF>", "<SUF>", "[SUFFIX]",
	"<｜fim▁hole｜>", "<|code_suffix|>"};
static const char *const names_of_middle[] = {
	"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "▁<MID>", "<MID>", "[MIDDLE]",
	"<｜fim▁end｜>", "<|code_middle|>"};
static const char *const names_of_repo[] = {
	"<|repo_name|>", "<|fim_repo|>", "<repo_name>", "<reponame>"};
static const char *const names_of_file[] = {
	"<|file_sep|>", "<|file_separator|>", "<file_sep>", "<filename>"};
static const char *const names_of_ends[] = {
	"<|fim_pad|>", "<fim_pad>", "▁<EOT>", "<EOT>", "<|endoftext|>"};

static int32_t find_token(const struct tokenizer *t, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int32_t id = tokenizer_find(t, str_of(names[i]));
		if (id >= 0)
			return id;
	}
	return -1;
}
#define FIND(names) find_token(t, names, ARRAY_LEN(names))

void infill_find_tokens(const struct tokenizer *t, struct fim *f)
{
	*f = (struct fim){FIND(names_of_prefix), FIND(names_of_suffix),
			  FIND(names_of_middle), FIND(names_of_repo),
			  FIND(names_of_file), {0}, 0};
	const int32_t own[] = {f->prefix, f->suffix, f->middle, f->repo, f->file,
			       FIND(names_of_ends)};
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (own[i] >= 0)
			f->stops[f->n_stops++] = own[i];
}

/* --- in ------------------------------------------------------------------ */

static enum status encode(const struct api_call *c, struct str s, struct ids *out,
			  struct fail *fail)
{
	return tokenizer_encode(c->api->chat.model->tokenizer, s, TRUST_USER, out, fail);
}

static void add_ids(struct ids *out, const struct ids *from, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++)
		ids_add(out, from->p[i]);
}

static enum status read_file(const struct json_node *at, const struct api_call *c,
			     struct ids *out, struct fail *fail)
{
	const struct fim *f = &c->api->fim;
	struct json_node name_at = json_read_get(at, "filename");
	struct json_node text_at = json_read_get(at, "text");
	struct str name = STR("file"), text;
	struct buf b = {0};
	enum status st = json_read_need_object(at, fail);
	if (st == OK)
		st = json_read_str(&name_at, &name, fail);
	if (st == OK)
		st = json_read_need_str(&text_at, &text, fail);
	if (st != OK)
		return st;
	if (f->file >= 0)
		ids_add(out, f->file);
	buf_addf(&b, "%.*s\n%.*s\n", (int)name.n, name.p, (int)text.n, text.p);
	st = encode(c, buf_str(&b), out, fail);
	buf_deinit(&b);
	return st;
}

static enum status read_extra(const struct json_node *body, const struct api_call *c,
			      struct ids *out, struct fail *fail)
{
	const struct fim *f = &c->api->fim;
	struct json_node at = json_read_get(body, "input_extra");
	size_t n;
	enum status st = json_read_list(&at, MAX_FILES, &n, fail);
	if (st != OK || n == 0)
		return st;
	if (f->repo >= 0) {
		ids_add(out, f->repo);
		st = encode(c, STR("context\n"), out, fail);
	}
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(&at, i);
		st = read_file(&item, c, out, fail);
	}
	if (st == OK && f->file >= 0) {
		ids_add(out, f->file);
		st = encode(c, STR("filename\n"), out, fail);
	}
	return st;
}

/* Text before the cursor gets three quarters of the room, if it has that much. */
static void put_together(const struct api_call *c, size_t room, const struct ids *extra,
			 const struct ids *prefix, const struct ids *suffix,
			 struct ids *out)
{
	const struct fim *f = &c->api->fim;
	struct native *x = c->state;
	room = room > 4 ? room - 4 : 0;
	size_t n_suffix = MIN(suffix->n, MAX(room / 4, room - MIN(prefix->n, room)));
	size_t n_prefix = MIN(prefix->n, room - n_suffix);
	bool has_extra = extra->n + n_prefix + n_suffix <= room;
	x->is_cut = n_suffix < suffix->n || n_prefix < prefix->n || !has_extra;
	tokenizer_add_prefix(c->api->chat.model->tokenizer, out);
	if (has_extra)
		add_ids(out, extra, 0, extra->n);
	ids_add(out, f->prefix);
	add_ids(out, prefix, prefix->n - n_prefix, prefix->n);
	ids_add(out, f->suffix);
	add_ids(out, suffix, 0, n_suffix);
	ids_add(out, f->middle);
}

static json_t *list_of(const int32_t *ids, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(ids[i]));
	return list;
}

static enum status read_prompt(const struct json_node *body, struct api_call *c,
			       int64_t n_predict, struct dialect_body *to, struct fail *fail)
{
	struct json_node before = json_read_get(body, "input_prefix");
	struct json_node behind = json_read_get(body, "input_suffix");
	struct json_node line = json_read_get(body, "prompt");
	struct str parts[3] = {STR(""), STR(""), STR("")};
	struct ids extra = {0}, prefix = {0}, suffix = {0}, all = {0};
	struct buf text = {0};
	enum status st = json_read_need_str(&before, &parts[0], fail);
	if (st == OK)
		st = json_read_str(&line, &parts[1], fail);
	if (st == OK)
		st = json_read_need_str(&behind, &parts[2], fail);
	if (st == OK)
		st = read_extra(body, c, &extra, fail);
	buf_add_str(&text, parts[0]);
	buf_add_str(&text, parts[1]);
	if (st == OK)
		st = encode(c, buf_str(&text), &prefix, fail);
	if (st == OK)
		st = encode(c, parts[2], &suffix, fail);
	if (st == OK) {
		int64_t room = c->api->n_ctx - MIN(n_predict, c->api->n_ctx / 2) - 1;
		put_together(c, (size_t)MAX(room, 0), &extra, &prefix, &suffix, &all);
		json_t *ids = list_of(all.p, all.n);
		json_paths_add(&to->paths, ids, &before);
		dialect_set(to->chat, "prompt", ids);
	}
	buf_deinit(&text);
	ids_deinit(&extra);
	ids_deinit(&prefix);
	ids_deinit(&suffix);
	ids_deinit(&all);
	return st;
}

static enum status to_completion(const struct json_node *body, struct api_call *c,
				 struct dialect_body *to, struct fail *fail)
{
	const struct fim *f = &c->api->fim;
	int64_t n_predict = -1;
	native_begin(c);
	if (f->prefix < 0 || f->suffix < 0 || f->middle < 0)
		return fail_set(fail, E_UNSUPPORTED, "this model cannot fill in the "
				"middle: it has no tokens for it");
	enum status st = native_read_options(body, c, &n_predict, to, fail);
	dialect_set(to->chat, "stop_token_ids", list_of(f->stops, (size_t)f->n_stops));
	if (n_predict < 0)
		n_predict = DEFAULT_TOKENS;
	return st == OK ? read_prompt(body, c, n_predict, to, fail) : st;
}

const struct dialect dialect_infill = {NATIVE_SHAPE, .rewrite = to_completion};
