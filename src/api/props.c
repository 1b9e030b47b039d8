/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /props, /slots and /lora-adapters: the parts of llama.cpp's answers that its clients read.
 * They only report: what llama.cpp lets clients change there is set at this server's start. A slot
 * is one of the sequences computed together. Slots are alike, so the running sequences are
 * reported as the first slots. For each of these /slots reports the progress, but never a
 * text.
 */
#include "api/api_private.h"

static void add_member(struct buf *out, const char *name, const char *s)
{
	buf_addf(out, ",\"%s\":", name);
	buf_add_json(out, str_of(s ? s : ""));
}

const char *api_progress_state(const struct api_progress *p)
{
	return !p->is_started ? "queued" : p->n_output > 0 ? "decode" : "prefill";
}

/* llama.cpp has made next_token a list since it can draft. Its clients read n_decoded there. */
static void add_running(const struct api_slot *s, struct buf *out)
{
	const struct api_progress *p = &s->progress;
	if (!s->id)
		return;
	buf_add_z(out, ",\"request\":");
	buf_add_json(out, str_of(s->id));
	buf_addf(out,
		 ",\"state\":\"%s\",\"n_prompt_tokens\":%d,"
		 "\"n_prompt_tokens_cache\":%d,\"n_prompt_tokens_processed\":%d,"
		 "\"next_token\":[{\"has_next_token\":true,\"n_decoded\":%d}]",
		 api_progress_state(p), p->n_prompt, p->n_cached, p->n_prefilled,
		 p->n_output);
}

void api_slots_format(const struct api *a, const struct api_slot *slots, int n,
		      struct buf *out)
{
	buf_add_c(out, '[');
	for (int i = 0; i < a->n_slots; i++) {
		buf_addf(out,
			 "%s{\"id\":%d,\"n_ctx\":%d,\"speculative\":false,"
			 "\"is_processing\":%s",
			 i ? "," : "", i, a->n_ctx, i < n ? "true" : "false");
		if (i < n)
			add_running(&slots[i], out);
		buf_add_c(out, '}');
	}
	buf_add_c(out, ']');
}

void api_props_format(const struct api *a, const struct api_row *rows, int n, struct buf *out)
{
	const struct model *m = a->chat.model;
	buf_addf(out,
		 "{\"default_generation_settings\":{\"n_ctx\":%d,"
		 "\"speculative\":false},\"total_slots\":%d",
		 a->n_ctx, a->n_slots);
	add_member(out, "model_alias", a->model_name);
	add_member(out, "chat_template", a->chat.template_text);
	add_member(out, "bos_token", m->bos_text);
	add_member(out, "eos_token", m->eos_text);
	add_member(out, "build_info", a->version);
	buf_addf(out, ",\"modalities\":{\"vision\":%s,\"audio\":%s},\"models\":[",
		 a->sees ? "true" : "false", a->hears ? "true" : "false");
	for (int i = 0; i < n; i++) {
		buf_add_z(out, i ? ",{\"id\":" : "{\"id\":");
		buf_add_json(out, str_of(rows[i].name));
		buf_addf(out, ",\"status\":{\"value\":\"%s\"}}", rows[i].state);
	}
	buf_add_z(out, "]}");
}

/* A client may send the list back as `lora`. Where an adapter's files are is not told. */
void api_loras_format(const struct api *a, struct buf *out)
{
	buf_add_c(out, '[');
	for (int i = 0; i < a->n_loras; i++) {
		buf_addf(out, "%s{\"id\":%d", i ? "," : "", i);
		add_member(out, "path", a->loras[i].name);
		buf_add_z(out, ",\"scale\":0}");
	}
	buf_add_c(out, ']');
}
