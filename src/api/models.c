/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/models: one entry for each name the model answers to, since clients offer their
 * users the ids of this list. An entry has OpenAI's members and Anthropic's (from `type` on),
 * so that the clients of both read it. `max_model_len` is vLLM's member and `meta` is
 * llama.cpp's; clients look for either. `status` is that of llama-server's router.
 */
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

/* The caller adds the last brace. */
static void add_entry(const struct api *a, struct str id, const struct served *s, struct buf *out)
{
	const struct model_config *cfg = &s->model->config;
	buf_add_z(out, "{\"id\":");
	buf_add_json(out, id);
	buf_addf(out,
		 ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"halod\","
		 "\"root\":",
		 (long long)a->created);
	buf_add_json(out, str_of(s->name));
	buf_addf(out,
		 ",\"parent\":null,\"max_model_len\":%d,\"meta\":{\"n_vocab\":%d,"
		 "\"n_ctx_train\":%d,\"n_embd\":%d,\"n_params\":%lld,"
		 "\"size\":%lld}",
		 s->n_ctx, cfg->n_vocab, cfg->max_ctx, cfg->d_model, (long long)s->n_params,
		 (long long)s->n_bytes);
	add_anthropic(a, id, s->n_ctx, out);
	buf_add_z(out, ",\"status\":{\"value\":\"loaded\"}");
}

static void add_model(const struct api *a, struct str id, struct buf *out)
{
	add_entry(a, id, &a->served[0], out);
	buf_addf(out, ",\"architecture\":{\"input_modalities\":[\"text\"%s%s],"
		 "\"output_modalities\":[\"text\"]}}", a->chat.vision ? ",\"image\"" : "",
		 a->chat.sound ? ",\"audio\"" : "");
}

/* Adds the model of /v1/embeddings or of /v1/rerank. */
static void add_reader(const struct api *a, const struct served *s, struct buf *out)
{
	add_entry(a, str_of(s->name), s, out);
	buf_add_c(out, '}');
}

void api_models_format(const struct api *a, struct buf *out)
{
	const char *last = a->n_aliases ? a->aliases[a->n_aliases - 1] : a->model_name;
	buf_add_z(out, "{\"object\":\"list\",\"data\":[");
	add_model(a, str_of(a->model_name), out);
	for (int i = 0; i < a->n_aliases; i++) {
		buf_add_c(out, ',');
		add_model(a, str_of(a->aliases[i]), out);
	}
	for (int i = 1; i < a->n_served; i++) {
		buf_add_c(out, ',');
		add_reader(a, &a->served[i], out);
		last = a->served[i].name;
	}
	buf_add_z(out, "],\"has_more\":false,\"first_id\":");
	buf_add_json(out, str_of(a->model_name));
	buf_add_z(out, ",\"last_id\":");
	buf_add_json(out, str_of(last));
	buf_add_c(out, '}');
}

void api_models_loading(const char *name, struct buf *out)
{
	buf_add_z(out, "{\"object\":\"list\",\"data\":[{\"id\":");
	buf_add_json(out, str_of(name));
	buf_addf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"halod\","
		 "\"type\":\"model\",\"status\":{\"value\":\"loading\"}}],"
		 "\"has_more\":false,\"first_id\":", (long long)clock_wall_s());
	buf_add_json(out, str_of(name));
	buf_add_z(out, ",\"last_id\":");
	buf_add_json(out, str_of(name));
	buf_add_c(out, '}');
}

enum status api_model_format(const struct api *a, struct str id,
			     struct buf *out, struct fail *fail)
{
	for (int i = 1; i < a->n_served; i++)
		if (str_is(id, a->served[i].name)) {
			add_reader(a, &a->served[i], out);
			return OK;
		}
	if (!api_has_name(a, id))
		return api_fail_name(a, id, fail);
	add_model(a, id, out);
	return OK;
}
