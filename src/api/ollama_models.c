/* SPDX-License-Identifier: Apache-2.0
 *
 * What Ollama's API tells of the models that are served: /api/tags, /api/ps, /api/show,
 * /api/pull and /api/version. A name without a tag is listed with ":latest", as Ollama lists it.
 *
 * Clients want a digest of 64 hexadecimal digits. Here it is of the model's name and size, not of
 * its bytes: halod reads no sum of a file that it maps.
 */
#include "api/ollama.h"

#include <time.h>

#include "api/text_call.h"
#include "base/hash.h"
#include "embed/embed.h"

/* The version of Ollama's API that these answers follow. Clients refuse servers below theirs. */
#define OLLAMA_VERSION "0.12.6"

static void add_tag(struct buf *out, const char *name)
{
	struct buf b = {0};
	buf_addf(&b, "%s%s", name, strchr(name, ':') ? "" : ":latest");
	buf_add_json(out, buf_str(&b));
	buf_deinit(&b);
}

static void add_details(const struct served *s, struct buf *out)
{
	const struct model *m = s->model;
	double n = (double)s->n_params;
	bool is_gguf = tensors_gguf(m->tensors) != NULL;
	buf_addf(out, "\"details\":{\"parent_model\":\"\",\"format\":\"%s\",\"family\":",
		 is_gguf ? "gguf" : "safetensors");
	buf_add_json(out, str_of(m->config.arch));
	buf_add_z(out, ",\"families\":[");
	buf_add_json(out, str_of(m->config.arch));
	buf_addf(out, "],\"parameter_size\":\"%.1f%c\",\"quantization_level\":\"%s\"}",
		 n >= 1e9 ? n / 1e9 : n / 1e6, n >= 1e9 ? 'B' : 'M', quant_name(s->format));
}

static void add_date(struct buf *out, const char *name, int64_t seconds)
{
	char date[40];
	struct tm tm;
	time_t t = (time_t)seconds;
	gmtime_r(&t, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &tm);
	buf_addf(out, "\"%s\":\"%s\"", name, date);
}

/* The members that tags and ps share. The caller adds the last brace. */
static void add_entry(const struct served *s, struct buf *out)
{
	uint64_t h = hash_bytes((uint64_t)s->n_bytes, s->name, strlen(s->name));
	buf_add_z(out, "{\"name\":");
	add_tag(out, s->name);
	buf_add_z(out, ",\"model\":");
	add_tag(out, s->name);
	buf_addf(out, ",\"size\":%lld,\"digest\":\"", (long long)s->n_bytes);
	for (int i = 0; i < 4; i++, h = hash_bytes(h, s->name, strlen(s->name)))
		buf_addf(out, "%016llx", (unsigned long long)h);
	buf_add_z(out, "\",");
	add_details(s, out);
}

/* Adds the end of an entry; ps: of one that is loaded. Of a model that stays the date lies a
 * century ahead: Ollama's lies three ahead, and its clients show "Forever" from twenty years on. */
static void end_entry(const struct api_row *row, const struct served *s, bool is_ps,
		      struct buf *out)
{
	int64_t created = row->api->created;
	buf_add_c(out, ',');
	if (is_ps) {
		buf_addf(out, "\"size_vram\":%lld,\"context_length\":%d,", (long long)s->n_bytes,
			 s->n_ctx);
		add_date(out, "expires_at", row->ends_s ? row->ends_s
							: created + INT64_C(100) * 365 * 86400);
	} else {
		add_date(out, "modified_at", created);
	}
	buf_add_c(out, '}');
}

/* A model of which only the name is known. */
static void add_closed(const char *name, struct buf *out)
{
	buf_add_z(out, "{\"name\":");
	add_tag(out, name);
	buf_add_z(out, ",\"model\":");
	add_tag(out, name);
	buf_addf(out, ",\"size\":0,\"digest\":\"%064d\",\"details\":{},", 0);
	add_date(out, "modified_at", 0);
	buf_add_c(out, '}');
}

static void add_list(const struct api_row *rows, int n, bool is_ps, struct buf *out)
{
	bool has_embedders = false; /* those of one row are those of all */
	size_t start = (buf_add_z(out, "{\"models\":["), out->n);
	for (int i = 0; i < n; i++) {
		const struct api *a = rows[i].api;
		if (is_ps && !rows[i].is_loaded)
			continue;
		for (int k = 0; a && k < (has_embedders ? 1 : a->n_served); k++) {
			buf_add_z(out, out->n > start ? "," : "");
			add_entry(&a->served[k], out);
			end_entry(&rows[i], &a->served[k], is_ps, out);
		}
		has_embedders |= a && a->n_served > 1;
		if (a)
			continue;
		buf_add_z(out, out->n > start ? "," : "");
		add_closed(rows[i].name, out);
	}
	buf_add_z(out, "]}");
}

void api_ollama_tags_format(const struct api_row *rows, int n, struct buf *out)
{
	add_list(rows, n, false, out);
}

void api_ollama_ps_format(const struct api_row *rows, int n, struct buf *out)
{
	add_list(rows, n, true, out);
}

void api_ollama_version_format(const char *version, struct buf *out)
{
	buf_add_z(out, "{\"version\":\"" OLLAMA_VERSION "\",\"halod\":");
	buf_add_json(out, str_of(version));
	buf_add_c(out, '}');
}

/* --- one model ---------------------------------------------------------------------- */

/* Finds the model that a body names, by `model` or by the older `name`. */
static enum status find_named(const struct api *a, const struct json_node *body,
			      const struct served **out, struct fail *fail)
{
	const struct served *all = a->served;
	struct json_node newer = json_read_get(body, "model");
	struct json_node older = json_read_get(body, "name");
	const struct json_node *at = newer.v ? &newer : &older;
	struct str name;
	if (!at->v)
		at = &newer;
	enum status st = json_read_need_str(at, &name, fail);
	if (st != OK)
		return st;
	for (int i = 0; i < a->n_served; i++)
		if (api_is_named(name, all[i].name) || (i == 0 && api_has_name(a, name))) {
			*out = &all[i];
			return OK;
		}
	return api_fail_name(a, name, fail);
}

/* Does the template know of thoughts before an answer? */
static bool may_think(const struct chat_model *m)
{
	static const char *const words[] = {"enable_thinking", "<think>", "reasoning_effort",
					    "reasoning_strength"};
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(m->template_text, words[i]))
			return true;
	return false;
}

static void add_capabilities(const struct api *a, const struct served *s, struct buf *out)
{
	const struct chat_model *m = &a->chat;
	buf_add_z(out, ",\"capabilities\":[");
	if (s->is_embedder) {
		buf_add_z(out, "\"embedding\"]");
		return;
	}
	buf_add_z(out, "\"completion\"");
	if (m->template)
		buf_add_z(out, ",\"tools\"");
	if (m->template && may_think(m))
		buf_add_z(out, ",\"thinking\"");
	if (a->sees)
		buf_add_z(out, ",\"vision\"");
	if (a->hears)
		buf_add_z(out, ",\"audio\"");
	if (a->fim.prefix >= 0 && a->fim.suffix >= 0 && a->fim.middle >= 0)
		buf_add_z(out, ",\"insert\"");
	buf_add_c(out, ']');
}

static void add_info(const struct served *s, struct buf *out)
{
	const struct model_config *c = &s->model->config;
	buf_add_z(out, ",\"model_info\":{\"general.architecture\":");
	buf_add_json(out, str_of(c->arch));
	buf_addf(out, ",\"general.parameter_count\":%lld,\"general.basename\":",
		 (long long)s->n_params);
	buf_add_json(out, str_of(s->name));
	buf_addf(out, ",\"%s.context_length\":%d,\"%s.embedding_length\":%d,"
		 "\"%s.block_count\":%d}", c->arch, s->n_ctx, c->arch, c->d_model, c->arch,
		 c->n_layers);
}

/* What a model file of Ollama would say of it. */
static void add_modelfile(const char *name, struct buf *out)
{
	struct buf file = {0};
	buf_addf(&file, "FROM %s\n", name);
	buf_add_z(out, "{\"modelfile\":");
	buf_add_json(out, buf_str(&file));
	buf_add_z(out, ",\"parameters\":\"\",\"template\":");
	buf_deinit(&file);
}

static void add_show(const struct api *a, const struct served *s, struct buf *out)
{
	add_modelfile(s->name, out);
	buf_add_json(out, str_of(s->is_embedder || !a->chat.template_text ? ""
								       : a->chat.template_text));
	buf_add_c(out, ',');
	add_details(s, out);
	add_info(s, out);
	add_capabilities(a, s, out);
	buf_add_c(out, ',');
	add_date(out, "modified_at", a->created);
	buf_add_c(out, '}');
}

void api_ollama_show_closed(const char *name, const struct api *a, struct buf *out)
{
	if (a) {
		add_show(a, &a->served[0], out);
		return;
	}
	add_modelfile(name, out);
	buf_add_z(out, "\"\",\"details\":{},\"model_info\":{},\"capabilities\":[\"completion\"],");
	add_date(out, "modified_at", 0);
	buf_add_c(out, '}');
}

static enum status show(const struct api *a, const struct text_input *in, struct buf *out,
			struct fail *fail)
{
	const struct served *s;
	enum status st = find_named(a, in->body, &s, fail);
	if (st == OK)
		add_show(a, s, out);
	return st;
}

enum status api_ollama_show(const struct api *a, const struct api_input *in, struct buf *out,
			    struct fail *fail)
{
	return text_call(a, in, show, out, fail);
}

void api_ollama_pull_closed(struct buf *out) { buf_add_z(out, "{\"status\":\"success\"}\n"); }

/* Clients pull a model before they use it. One that is served is there; nothing else is fetched
 * for a client. */
static enum status pull(const struct api *a, const struct text_input *in, struct buf *out,
			struct fail *fail)
{
	const struct served *s;
	enum status st = find_named(a, in->body, &s, fail);
	if (st == OK)
		api_ollama_pull_closed(out);
	else if (st == E_MODEL && fail)
		st = fail_at(fail, E_MODEL, "model", "this server fetches no models for its "
			     "clients: haloctl pull does, and `model` in halod.conf names one");
	return st;
}

enum status api_ollama_pull(const struct api *a, const struct api_input *in, struct buf *out,
			    struct fail *fail)
{
	return text_call(a, in, pull, out, fail);
}
