/* SPDX-License-Identifier: Apache-2.0
 *
 * The error object: the four members that clients read. For a prompt that is too long it
 * also has both counts: agents use them to compact their history.
 */
#include "api/api.h"

static void add_or_null(struct buf *out, const char *name, const char *s)
{
	buf_addf(out, ",\"%s\":", name);
	if (s[0])
		buf_add_json(out, str_of(s));
	else
		buf_add_z(out, "null");
}

void api_error_format(const struct fail *f, struct buf *out)
{
	enum status st = f->code == OK ? E_INTERNAL : f->code;
	buf_add_z(out, "{\"error\":{\"message\":");
	buf_add_json(out, str_of(f->text[0] ? f->text : status_text(st)));
	buf_add_z(out, ",\"type\":");
	buf_add_json(out, str_of(status_type(st)));
	add_or_null(out, "param", f->param);
	add_or_null(out, "code", status_code(st));
	if (st == E_CTX_LEN)
		buf_addf(out, ",\"n_prompt_tokens\":%lld,\"n_ctx\":%lld",
			 (long long)f->got, (long long)f->limit);
	buf_add_z(out, "}}");
}
