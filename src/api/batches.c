/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/files and /v1/batches: the bodies, and what is answered. src/batch keeps them, and
 * daemon/batch_run.c has them computed.
 */
#include <stdlib.h>
#include <unistd.h>

#include "api/batches.h"
#include "api/multipart.h"
#include "api/peek.h"
#include "api/text_call.h"
#include "base/alloc.h"
#include "base/utf8.h"
#include "batch/batch_files.h"
#include "batch/batch_lines.h"
#include "batch/batch_records.h"

#define MAX_METADATA 16
#define MAX_METADATA_KEY 64
#define MAX_METADATA_TEXT 512
/* Bounds that OpenAI has for expires_after. */
#define MIN_AGE_S 3600
#define MAX_AGE_S 2592000

enum status api_check_batches(const struct batch_store *s, struct fail *fail)
{
	return s ? OK : fail_set(fail, E_UNSUPPORTED, "this server keeps no files and "
					  "batches: its setting state_dir names no folder");
}

/* --- files ------------------------------------------------------------------------ */

static enum status read_age(struct str text, const char *name, int64_t *out_s, struct fail *fail)
{
	int64_t s = 0;
	for (size_t i = 0; i < text.n; i++) {
		int digit = text.p[i] - '0';
		if (digit < 0 || digit > 9 || s > MAX_AGE_S)
			s = -1;
		if (s < 0)
			break;
		s = s * 10 + digit;
	}
	if (s < MIN_AGE_S || s > MAX_AGE_S)
		return fail_at(fail, E_INVAL, name, "`%s` must be %d to %d, in seconds", name,
			       MIN_AGE_S, MAX_AGE_S);
	*out_s = s;
	return OK;
}

static enum status check_anchor(struct str text, const char *name, struct fail *fail)
{
	return str_is(text, "created_at") ? OK
		: fail_at(fail, E_INVAL, name, "`%s` must be \"created_at\"", name);
}

/* A field of the form besides the file. */
static enum status read_field(const struct multipart_part *p, int64_t *io_age_s,
			      struct fail *fail)
{
	if (str_is(p->name, "purpose"))
		return str_is(p->content, "batch") ? OK
			: fail_at(fail, E_INVAL, "purpose", "`purpose` must be \"batch\": files "
				  "are kept for batches only");
	if (str_is(p->name, "expires_after[anchor]"))
		return check_anchor(p->content, "expires_after[anchor]", fail);
	if (str_is(p->name, "expires_after[seconds]"))
		return read_age(p->content, "expires_after[seconds]", io_age_s, fail);
	struct str name = json_read_clip(p->name, 60);
	return fail_set(fail, E_INVAL, "the form has a field `%.*s`, which is not known here",
			(int)name.n, name.p);
}

static enum status read_form(const struct multipart *form, struct batch_file *about,
			     struct str *out_bytes, struct fail *fail)
{
	const struct multipart_part *file = multipart_find(form, "file", NULL);
	enum status st = OK;
	if (!file || multipart_find(form, "file", file))
		return fail_at(fail, E_INVAL, "file", "the form must have one part `file`");
	if (!multipart_find(form, "purpose", NULL))
		return fail_at(fail, E_INVAL, "purpose", "the form has no `purpose`: \"batch\"");
	for (int i = 0; st == OK && i < form->n; i++)
		if (&form->parts[i] != file)
			st = read_field(&form->parts[i], &about->age_s, fail);
	if (st != OK)
		return st;
	if (file->content.n == 0)
		return fail_at(fail, E_INVAL, "file", "the file is empty");
	struct buf clean = {0}; /* bytes that are no UTF-8 become longer */
	utf8_add_clean(&clean, file->filename.n ? file->filename : STR("file.jsonl"));
	struct str name = json_read_clip(buf_str(&clean), BATCH_FILE_NAME - 1);
	memcpy(about->name, name.p, name.n);
	buf_deinit(&clean);
	*out_bytes = file->content;
	return OK;
}

enum status api_file_create(const struct api *a, const struct api_input *in,
			    struct buf *out, struct fail *fail)
{
	struct batch_file about = {.owner = in->owner}, made;
	struct str bytes;
	enum status st = api_check_batches(a->batches, fail);
	if (st != OK)
		return st;
	struct multipart *form = xmalloc(sizeof *form);
	st = multipart_read(in->type, in->body, form, fail);
	if (st == OK)
		st = read_form(form, &about, &bytes, fail);
	if (st == OK)
		st = batch_files_add(a->batches, &about, bytes, &made, fail);
	if (st == OK)
		batch_files_format(&made, out);
	free(form);
	return st;
}

void api_files_list(struct batch_store *s, const struct batch_page *page, struct buf *out)
{
	batch_files_list(s, page, out);
}

enum status api_file_format(struct batch_store *s, struct api_kept kept, struct buf *out,
			    struct fail *fail)
{
	struct batch_file f;
	enum status st = api_check_batches(s, fail);
	if (st == OK)
		st = batch_files_get(s, kept.owner, kept.id, &f, fail);
	if (st == OK)
		batch_files_format(&f, out);
	return st;
}

enum status api_file_open(struct batch_store *s, struct api_kept kept, int *out_fd,
			  int64_t *out_n, struct fail *fail)
{
	struct batch_file f;
	enum status st = api_check_batches(s, fail);
	if (st == OK)
		st = batch_files_open(s, kept.owner, kept.id, out_fd, &f, fail);
	*out_n = st == OK ? f.n_bytes : 0;
	return st;
}

enum status api_file_delete(struct batch_store *s, struct api_kept kept, struct buf *out,
			    struct fail *fail)
{
	enum status st = api_check_batches(s, fail);
	if (st == OK)
		st = batch_files_delete(s, kept.owner, kept.id, fail);
	if (st != OK)
		return st;
	buf_add_z(out, "{\"id\":");
	buf_add_json(out, kept.id);
	buf_add_z(out, ",\"object\":\"file\",\"deleted\":true}");
	return OK;
}

/* --- batches ---------------------------------------------------------------------- */

const struct api_batch_endpoint *api_batch_endpoint(struct str path)
{
	static const struct api_batch_endpoint rows[] = {
		{"/v1/chat/completions", &dialect_chat, NULL},
		{"/v1/completions", &dialect_completion, NULL},
		{"/v1/responses", &dialect_responses, NULL},
		{"/v1/embeddings", NULL, api_embeddings},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (str_is(path, rows[i].path))
			return &rows[i];
	return NULL;
}

/* Fails where the body has another member: nobody shall believe that it holds. */
static enum status check_members(const struct json_node *at, const char *const *names,
				 struct fail *fail)
{
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)at->v, key, v) {
		const char *const *name = names;
		while (*name && strcmp(*name, key) != 0)
			name++;
		struct json_node member = json_read_get(at, key);
		if (!*name && member.v)
			return json_read_fail(&member, fail, "is not known here");
	}
	return OK;
}

/* "24h", "90m" or "7d". */
static enum status read_window(const struct json_node *at, int64_t max_s, struct batch *b,
			       int64_t *out_s, struct fail *fail)
{
	static const struct { char unit; int64_t s; } units[] = {{'m', 60}, {'h', 3600},
								 {'d', 86400}};
	struct str text;
	int64_t n = 0;
	enum status st = json_read_need_str(at, &text, fail);
	if (st != OK)
		return st;
	*out_s = 0;
	for (size_t i = 0; i + 1 < text.n && n >= 0; i++)
		n = text.p[i] >= '0' && text.p[i] <= '9' && n < 1000000 ? n * 10 + text.p[i] - '0'
									: -1;
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (n > 0 && text.p[text.n - 1] == units[i].unit)
			*out_s = n * units[i].s;
	if (*out_s == 0 || *out_s > max_s || text.n >= sizeof b->window)
		return json_read_fail(at, fail, "must be a time such as \"24h\", of at most %lld "
				      "hours here (batch_window)", (long long)(max_s / 3600));
	memcpy(b->window, text.p, text.n);
	return OK;
}

static enum status read_metadata(const struct json_node *at, char **out, struct fail *fail)
{
	const char *key;
	json_t *v;
	enum status st = json_read_object(at, fail);
	if (st != OK || !at->v)
		return st;
	if (json_object_size(at->v) > MAX_METADATA)
		return json_read_fail(at, fail, "may have %d members", MAX_METADATA);
	json_object_foreach((json_t *)at->v, key, v) {
		struct json_node item = json_read_get(at, key);
		if (!json_is_string(v) || strlen(key) > MAX_METADATA_KEY ||
		    json_string_length(v) > MAX_METADATA_TEXT)
			return json_read_fail(&item, fail, "must be a string of at most %d bytes, "
					      "with a name of at most %d", MAX_METADATA_TEXT,
					      MAX_METADATA_KEY);
	}
	*out = json_dumps(at->v, JSON_COMPACT);
	return OK;
}

static enum status read_output_age(const struct json_node *at, int64_t *out_s,
				   struct fail *fail)
{
	static const char *const names[] = {"anchor", "seconds", NULL};
	struct json_node anchor = json_read_get(at, "anchor");
	struct json_node seconds = json_read_get(at, "seconds");
	struct str text;
	enum status st = json_read_object(at, fail);
	if (st != OK || !at->v)
		return st;
	st = check_members(at, names, fail);
	if (st == OK)
		st = json_read_need_str(&anchor, &text, fail);
	if (st == OK)
		st = check_anchor(text, "output_expires_after.anchor", fail);
	if (st == OK)
		st = json_read_need(&seconds, fail);
	return st == OK ? json_read_int(&seconds, MIN_AGE_S, MAX_AGE_S, out_s, fail) : st;
}

static enum status read_endpoint(const struct json_node *at, const struct api *a,
				 struct batch *b, struct fail *fail)
{
	struct str text;
	enum status st = json_read_need_str(at, &text, fail);
	if (st != OK)
		return st;
	if (!api_batch_endpoint(text))
		return json_read_fail(at, fail, "must be /v1/chat/completions, /v1/completions, "
				      "/v1/responses or /v1/embeddings");
	if (str_is(text, "/v1/embeddings") && !a->embedder)
		return json_read_fail(at, fail, "is /v1/embeddings, and no embedding_model is "
				      "served here");
	memcpy(b->endpoint, text.p, text.n);
	return OK;
}

static enum status read_input(const struct json_node *at, const struct api *a, struct batch *b,
			      struct fail *fail)
{
	struct str text;
	struct batch_file f;
	enum status st = json_read_need_str(at, &text, fail);
	if (st != OK)
		return st;
	if (batch_files_get(a->batches, b->owner, text, &f, fail) != OK || f.is_output)
		return json_read_fail(at, fail, "names no file that was sent to /v1/files");
	memcpy(b->input, f.id, sizeof b->input);
	return OK;
}

/* Where the model that the first request names cannot be told, another could answer them all. */
static enum status set_model(struct str line, struct batch *b, struct fail *fail)
{
	struct str body;
	struct peek p;
	enum status st = OK;
	if (!peek_member(line, "\"body\"", &body))
		return OK;
	peek_body(body, false, &p);
	if (p.model.n < sizeof b->model)
		memcpy(b->model, p.model.n ? p.model.p : "", p.model.n);
	else
		st = fail_at(fail, E_INVAL, "input_file_id", "its first request has a `model` of "
			     "more than %zu bytes", sizeof b->model - 1);
	peek_deinit(&p);
	return st;
}

/* All requests of a batch are for one model: the one that the first names. A line of which no such
 * thing can be told is a fault that validation finds. */
static enum status read_model(const struct api *a, struct batch *b, struct fail *fail)
{
	struct batch_lines lines = {.max_bytes = a->max_body};
	struct batch_file f;
	enum status st = batch_files_open(a->batches, b->owner, str_of(b->input), &lines.fd, &f,
					  fail);
	if (st != OK)
		return st;
	bool has_line = batch_lines_next(&lines);
	if (lines.is_long || lines.why)
		st = fail_at(fail, E_INVAL, "input_file_id", "its first request cannot be read, or "
			     "has more than %zu bytes (max_body)", a->max_body);
	else if (has_line)
		st = set_model(lines.text, b, fail);
	close(lines.fd);
	batch_lines_deinit(&lines);
	return st;
}

static enum status make_batch(const struct api *a, const struct text_input *in,
			      struct buf *out, struct fail *fail)
{
	static const char *const names[] = {"input_file_id", "endpoint", "completion_window",
					    "metadata", "output_expires_after", NULL};
	const struct json_node input = json_read_get(in->body, names[0]);
	const struct json_node endpoint = json_read_get(in->body, names[1]);
	const struct json_node window = json_read_get(in->body, names[2]);
	const struct json_node metadata = json_read_get(in->body, names[3]);
	const struct json_node age = json_read_get(in->body, names[4]);
	struct batch b = {.owner = in->owner};
	int64_t window_s = 0, max_s = batch_store_max_window_s(a->batches);
	enum status st = check_members(in->body, names, fail);
	if (st == OK)
		st = read_input(&input, a, &b, fail);
	if (st == OK)
		st = read_endpoint(&endpoint, a, &b, fail);
	if (st == OK)
		st = read_model(a, &b, fail);
	if (st == OK)
		st = read_window(&window, max_s, &b, &window_s, fail);
	if (st == OK)
		st = read_output_age(&age, &b.output_age_s, fail);
	if (st == OK)
		st = read_metadata(&metadata, &b.metadata, fail);
	if (st == OK)
		st = batch_records_create(a->batches, &b, window_s, out, fail);
	if (st != OK)
		free(b.metadata);
	return st;
}

enum status api_batch_create(const struct api *a, const struct api_input *in,
			     struct buf *out, struct fail *fail)
{
	enum status st = api_check_batches(a->batches, fail);
	return st == OK ? text_call(a, in, make_batch, out, fail) : st;
}

enum status api_batch_cancel(const struct api *a, const struct api_input *in,
			     struct buf *out, struct fail *fail)
{
	enum status st = api_check_batches(a->batches, fail);
	return st == OK ? batch_records_cancel(a->batches, in->owner, in->tail, out, fail) : st;
}

void api_batches_list(struct batch_store *s, const struct batch_page *page, struct buf *out)
{
	batch_records_list(s, page, out);
}

enum status api_batch_format(struct batch_store *s, struct api_kept kept, struct buf *out,
			     struct fail *fail)
{
	enum status st = api_check_batches(s, fail);
	return st == OK ? batch_records_get(s, kept.owner, kept.id, out, fail) : st;
}
