/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a form: a line with its Content-Type, then the body. Parts lie within the body, one
 * behind the other. The same parts written anew are read as the same parts.
 */
#include <stdlib.h>

#include "api/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void add_part(struct buf *out, const struct multipart_part *p)
{
	buf_add_z(out, "--=0=\r\nContent-Disposition: form-data; name=\"");
	buf_add_str(out, p->name);
	if (p->is_file) {
		buf_add_z(out, "\"; filename=\"");
		buf_add_str(out, p->filename);
	}
	buf_add_z(out, "\"\r\n\r\n");
	buf_add_str(out, p->content);
	buf_add_z(out, "\r\n");
}

/* What was not quoted may hold what cannot be quoted, and a value this boundary. */
static bool can_be_written(const struct multipart *m)
{
	for (int i = 0; i < m->n; i++) {
		const struct multipart_part *p = &m->parts[i];
		if (str_find(p->name, STR("\""), 0) >= 0 || str_find(p->name, STR("\\"), 0) >= 0 ||
		    str_find(p->filename, STR("\""), 0) >= 0 ||
		    str_find(p->filename, STR("\\"), 0) >= 0 ||
		    p->name.n + p->filename.n > MULTIPART_HEAD / 2 ||
		    str_find(p->content, STR("--=0="), 0) >= 0)
			return false;
	}
	return true;
}

static void check_again(const struct multipart *m)
{
	struct multipart again;
	struct buf b = {0};
	struct fail fail;
	for (int i = 0; i < m->n; i++)
		add_part(&b, &m->parts[i]);
	buf_add_z(&b, "--=0=--");
	if (multipart_read(STR("multipart/form-data; boundary=\"=0=\""), buf_str(&b), &again,
			   &fail) != OK || again.n != m->n)
		abort();
	for (int i = 0; i < m->n; i++) {
		const struct multipart_part *p = &m->parts[i], *q = &again.parts[i];
		if (!str_eq(p->name, q->name) || !str_eq(p->filename, q->filename) ||
		    !str_eq(p->content, q->content) || p->is_file != q->is_file)
			abort();
	}
	buf_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct str text = {(const char *)data, n};
	ptrdiff_t line = str_find(text, STR("\n"), 0);
	if (line < 0)
		return 0;
	struct str type = {text.p, (size_t)line}, body = {text.p + line + 1, n - (size_t)line - 1};
	struct multipart m;
	struct fail fail = {0};
	if (multipart_read(type, body, &m, &fail) != OK) {
		if (!fail.text[0])
			abort();
		return 0;
	}
	const char *from = body.p;
	for (int i = 0; i < m.n; i++) {
		const struct str *c = &m.parts[i].content;
		if (c->p < from || c->p + c->n > body.p + body.n || !m.parts[i].name.n)
			abort();
		from = c->p + c->n;
	}
	if (m.n && can_be_written(&m))
		check_again(&m);
	return 0;
}
