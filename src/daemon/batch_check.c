/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/batch_check.h"

#include <stdlib.h>

#include "api/peek.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/work.h"
#include "json/json_read.h"

#define MAX_FAULTS 20
#define MAX_CUSTOM_ID 512

/* --- one line --------------------------------------------------------------------- */

static enum status read_line(struct str text, const char *endpoint, struct batch_line *l,
			     struct fail *fail)
{
	const struct json_node root = json_read_root(l->tree);
	const struct json_node id = json_read_get(&root, "custom_id");
	const struct json_node method = json_read_get(&root, "method");
	const struct json_node url = json_read_get(&root, "url");
	const struct json_node body = json_read_get(&root, "body");
	struct str word;
	l->fault = "missing_required_parameter";
	enum status st = json_read_need_str(&id, &l->custom_id, fail);
	if (st == OK && (l->custom_id.n == 0 || l->custom_id.n > MAX_CUSTOM_ID))
		st = json_read_fail(&id, fail, "must have 1 to %d bytes", MAX_CUSTOM_ID);
	if (st == OK)
		st = json_read_need_str(&method, &word, fail);
	if (st == OK && !str_is(word, "POST")) {
		l->fault = "invalid_method";
		st = json_read_fail(&method, fail, "must be \"POST\"");
	}
	if (st == OK)
		st = json_read_need_str(&url, &word, fail);
	if (st == OK && !str_is(word, endpoint)) {
		l->fault = "invalid_url";
		st = json_read_fail(&url, fail, "must be the batch's endpoint, %s", endpoint);
	}
	if (st == OK)
		st = json_read_need_object(&body, fail);
	/* Its text is taken over as it is, since a number may have more digits than a tree. */
	if (st == OK && !peek_member(text, "\"body\"", &l->body)) {
		l->fault = "invalid_json_line";
		st = json_read_fail(&body, fail, "must be spelled without escapes");
	}
	return st;
}

/* The work of a line is bounded by its bytes. Where the system has no memory for it, nobody else
 * shall suffer. */
enum status batch_check_line(const struct batch_lines *l, const char *endpoint,
			     struct batch_line *out, struct fail *fail)
{
	struct work_budget work;
	*out = (struct batch_line){.fault = "invalid_json_line"};
	if (l->is_long)
		return fail_set(fail, E_TOO_LARGE, "the line has more than %zu bytes (max_body)",
				l->max_bytes);
	work_begin(&work, SIZE_MAX);
	enum status st = json_read_parse(l->text, &out->tree, fail);
	if (st == OK)
		st = read_line(l->text, endpoint, out, fail);
	work_end();
	if (work.has_no_memory)
		st = fail_default(fail, E_NOMEM);
	if (st != OK) {
		json_decref(out->tree);
		out->tree = NULL;
	}
	return st;
}

/* --- a file ----------------------------------------------------------------------- */

struct fault_list {
	struct buf list;
	int n;
};

static void add_fault(struct fault_list *f, int line, const char *code, const struct fail *fail)
{
	if (f->n++ >= MAX_FAULTS)
		return;
	buf_add_z(&f->list, f->n > 1 ? "," : "[");
	buf_addf(&f->list, "{\"code\":\"%s\",\"message\":", code);
	buf_add_json(&f->list, str_of(fail->text));
	buf_add_z(&f->list, ",\"param\":");
	if (fail->param[0])
		buf_add_json(&f->list, str_of(fail->param));
	else
		buf_add_z(&f->list, "null");
	buf_add_z(&f->list, ",\"line\":");
	if (line)
		buf_addf(&f->list, "%d}", line);
	else
		buf_add_z(&f->list, "null}");
}

struct id_set {
	struct arena arena;
	struct strmap map;
};

/* A model that is no string is a fault of this request alone. */
static bool is_for_another(const struct batch_rules *rules, const struct batch_line *line)
{
	const json_t *model = json_object_get(json_object_get(line->tree, "body"), "model");
	if (!rules->is_one || (model && !json_is_string(model)))
		return false;
	return !rules->is_one(rules->ctx, rules->model,
			      model ? json_read_view(model) : (struct str){0});
}

static enum status check_one(const struct batch_lines *l, const struct batch_rules *rules,
			     struct id_set *ids, struct fault_list *faults, struct fail *fail)
{
	struct batch_line line;
	enum status st = batch_check_line(l, rules->endpoint, &line, fail);
	if (st == E_NOMEM)
		return st;
	if (st != OK) {
		add_fault(faults, l->line, line.fault, fail);
		return OK;
	}
	uint32_t before;
	if (strmap_get(&ids->map, line.custom_id, &before)) {
		fail_at(fail, E_INVAL, "custom_id", "line %u has the same custom_id", before);
		add_fault(faults, l->line, "duplicate_custom_id", fail);
	} else if (is_for_another(rules, &line)) {
		fail_at(fail, E_INVAL, "body.model", "the batch is for the model that its first "
			"request names: send requests for another model as a batch of their own");
		add_fault(faults, l->line, "mismatched_model", fail);
	} else {
		strmap_put(&ids->map, arena_str(&ids->arena, line.custom_id), (uint32_t)l->line);
	}
	json_decref(line.tree);
	return OK;
}

static void check_count(int n, int max, struct fault_list *faults, struct fail *fail)
{
	if (n == 0) {
		fail_set(fail, E_INVAL, "the file has no requests");
		add_fault(faults, 0, "empty_file", fail);
	} else if (n > max) {
		fail_set(fail, E_LIMIT, "the file has more than %d requests (batch_requests)", max);
		add_fault(faults, 0, "too_many_requests", fail);
	}
}

enum status batch_check_file(int fd, const struct batch_rules *rules, int *out_n,
			     char **out_faults, struct fail *fail)
{
	struct batch_lines lines = {.fd = fd, .max_bytes = rules->max_bytes};
	struct fault_list faults = {.n = 0};
	struct id_set ids;
	enum status st = OK;
	arena_init(&ids.arena);
	strmap_init(&ids.map, 1024);
	*out_n = 0;
	*out_faults = NULL;
	batch_lines_rewind(&lines);
	while (st == OK && !*rules->is_over && faults.n < MAX_FAULTS &&
	       *out_n <= rules->max_lines && batch_lines_next(&lines)) {
		++*out_n;
		st = check_one(&lines, rules, &ids, &faults, fail);
	}
	if (st == OK && lines.why)
		st = fail_set(fail, E_IO, "a batch's file cannot be read: %s",
			      strerror(lines.why));
	if (st == OK && !*rules->is_over)
		check_count(*out_n, rules->max_lines, &faults, fail);
	if (faults.n)
		buf_add_c(&faults.list, ']');
	if (st == OK && faults.n)
		*out_faults = buf_take(&faults.list);
	buf_deinit(&faults.list);
	batch_lines_deinit(&lines);
	strmap_deinit(&ids.map);
	arena_deinit(&ids.arena);
	return st;
}
