/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /props and /slots, the parts of llama.cpp's that its clients read. Both only
 * tell; what llama.cpp lets clients change there is set at start here. A slot is
 * one of the sequences computed together: they are alike, so the running ones
 * are said to be the first.
 */
#include "api/api_private.h"

static void add_member(struct buf *out, const char *name, const char *s)
{
	buf_addf(out, ",\"%s\":", name);
	buf_add_json(out, str_of(s ? s : ""));
}

static void add_slot(const struct api *a, int i, bool is_running,
		     struct buf *out)
{
	buf_addf(out,
		 "{\"id\":%d,\"n_ctx\":%d,\"speculative\":false,"
		 "\"is_processing\":%s}",
		 i, a->n_ctx, is_running ? "true" : "false");
}

void api_slots_format(const struct api *a, int n_running, struct buf *out)
{
	buf_add_c(out, '[');
	for (int i = 0; i < a->n_slots; i++) {
		if (i > 0)
			buf_add_c(out, ',');
		add_slot(a, i, i < n_running, out);
	}
	buf_add_c(out, ']');
}

void api_props_format(const struct api *a, struct buf *out)
{
	const struct model *m = a->model;
	buf_addf(out,
		 "{\"default_generation_settings\":{\"n_ctx\":%d,"
		 "\"speculative\":false},\"total_slots\":%d",
		 a->n_ctx, a->n_slots);
	add_member(out, "model_alias", a->model_name);
	add_member(out, "chat_template", a->template_text);
	add_member(out, "bos_token", m->bos_text);
	add_member(out, "eos_token", m->eos_text);
	add_member(out, "build_info", a->version);
	buf_add_z(out, ",\"modalities\":{\"vision\":false,\"audio\":false}}");
}
