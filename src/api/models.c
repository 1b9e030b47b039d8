/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/models: one entry for each name the model answers to, and for each of its adapters,
 * since clients offer their users the ids of this list. An entry has OpenAI's members and
 * Anthropic's (from `type` on), so that the clients of both read it. `max_model_len` is vLLM's
 * member and `meta` is llama.cpp's; clients look for either. `status` is that of llama-server's
 * router.
 */
#include <math.h>
#include <time.h>

#include "api/api_private.h"
#include "base/alloc.h"
#include "base/clock.h"

/* Writes what Anthropic's clients look for. No answer is longer than max_tokens. */
static void add_anthropic(const struct api *a, struct str id, int32_t n_ctx, struct buf *out)
{
	char date[32];
	struct tm tm;
	time_t created = (time_t)a->created;
	gmtime_r(&created, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_add_z(out, ",\"type\":\"model\",\"display_name\":");
	buf_add_json(out, id);
	buf_addf(out,
		 ",\"created_at\":\"%s\",\"lifecycle\":\"active\","
		 "\"max_input_tokens\":%d,\"max_tokens\":%d",
		 date, n_ctx, a->max_output_tok ? a->max_output_tok : n_ctx);
}

/* Adds the model's state, as llama-server's router has it. */
static void add_state(const struct api_row *row, struct buf *out)
{
	buf_addf(out, ",\"status\":{\"value\":\"%s\"", row->state);
	if (row->load_s > 0) {
		buf_add_z(out, ",\"load_seconds\":");
		buf_add_json_num(out, round(row->load_s * 1000) / 1000);
	}
	if (row->why) {
		buf_add_z(out, ",\"failed\":true,\"error\":");
		buf_add_json(out, str_of(row->why));
	}
	buf_add_c(out, '}');
}

/* The caller adds the last brace. parent: the base model of an adapter; NULL: it is none. */
static void add_entry(const struct api_row *row, struct str id, const struct served *s,
		      const char *parent, struct buf *out)
{
	const struct api *a = row->api;
	const struct model_config *cfg = &s->model->config;
	buf_add_z(out, "{\"id\":");
	buf_add_json(out, id);
	buf_addf(out,
		 ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"halod\","
		 "\"root\":",
		 (long long)a->created);
	buf_add_json(out, str_of(s->name));
	buf_add_z(out, ",\"parent\":");
	if (parent)
		buf_add_json(out, str_of(parent));
	else
		buf_add_z(out, "null");
	buf_addf(out,
		 ",\"max_model_len\":%d,\"meta\":{\"n_vocab\":%d,"
		 "\"n_ctx_train\":%d,\"n_embd\":%d,\"n_params\":%lld,"
		 "\"size\":%lld}",
		 s->n_ctx, cfg->n_vocab, cfg->max_ctx, cfg->d_model, (long long)s->n_params,
		 (long long)s->n_bytes);
	add_anthropic(a, id, s->n_ctx, out);
	add_state(row, out);
}

static void add_model(const struct api_row *row, struct str id, struct buf *out)
{
	const struct api *a = row->api;
	bool is_lora = api_lora_named(a, id) >= 0;
	add_entry(row, id, &a->served[0], is_lora ? a->model_name : NULL, out);
	buf_addf(out, ",\"architecture\":{\"input_modalities\":[\"text\"%s%s%s],"
		 "\"output_modalities\":[\"text\"]", a->sees ? ",\"image\"" : "",
		 a->watches ? ",\"video\"" : "",
		 a->hears ? ",\"audio\"" : "");
	if (a->watches)
		buf_addf(out, ",\"video_files\":%s",
			 video_check(&a->chat.video, NULL) == OK ? "true" : "false");
	buf_add_z(out, "}}");
}

/* Adds a model of which only the names are known, under this one. */
static void add_closed(const struct api_row *row, struct str id, struct buf *out)
{
	buf_add_z(out, "{\"id\":");
	buf_add_json(out, id);
	buf_addf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"halod\","
		 "\"type\":\"model\"", (long long)clock_wall_s());
	add_state(row, out);
	buf_add_c(out, '}');
}

/* Adds the model of /v1/embeddings or of /v1/rerank. */
static void add_embedder(const struct api_row *row, const struct served *s, struct buf *out)
{
	add_entry(row, str_of(s->name), s, NULL, out);
	buf_add_c(out, '}');
}

/* The row whose embedders stand for those of all; NULL: there are none. */
static const struct api_row *find_embedders(const struct api_row *rows, int n)
{
	for (int i = 0; i < n; i++)
		if (rows[i].api && rows[i].api->n_served > 1)
			return &rows[i];
	return NULL;
}

static void add_any(const struct api_row *row, struct str id, struct buf *out)
{
	if (row->api)
		add_model(row, id, out);
	else
		add_closed(row, id, out);
}

void api_models_format(const struct api_row *rows, int n, struct buf *out)
{
	const struct api_row *embedders = find_embedders(rows, n);
	const char *last = "";
	buf_add_z(out, "{\"object\":\"list\",\"data\":[");
	for (int i = 0; i < n; i++) {
		for (int k = -1; k < rows[i].n_aliases; k++) {
			last = k < 0 ? rows[i].name : rows[i].aliases[k];
			buf_add_z(out, i || k >= 0 ? "," : "");
			add_any(&rows[i], str_of(last), out);
		}
	}
	for (int k = 1; embedders && k < embedders->api->n_served; k++) {
		buf_add_c(out, ',');
		add_embedder(embedders, &embedders->api->served[k], out);
		last = embedders->api->served[k].name;
	}
	buf_add_z(out, "],\"has_more\":false,\"first_id\":");
	buf_add_json(out, str_of(rows[0].name));
	buf_add_z(out, ",\"last_id\":");
	buf_add_json(out, str_of(last));
	buf_add_c(out, '}');
}

enum status api_model_format(const struct api_row *rows, int n, struct str id,
			     struct buf *out, struct fail *fail)
{
	const struct api_row *embedders = find_embedders(rows, n);
	for (int k = 1; embedders && k < embedders->api->n_served; k++)
		if (str_is(id, embedders->api->served[k].name)) {
			add_embedder(embedders, &embedders->api->served[k], out);
			return OK;
		}
	for (int i = 0; i < n; i++) {
		const struct api_row *r = &rows[i];
		if (!api_is_one_of(id, r->name, r->aliases, r->n_aliases))
			continue;
		add_any(r, id, out);
		return OK;
	}
	return api_fail_name(n == 1 ? rows[0].api : NULL, id, fail);
}
