/* SPDX-License-Identifier: Apache-2.0 */
#include "api/parts.h"

#include <stdlib.h>

#include "base/alloc.h"

bool parts_add(struct parts *ps, enum out_channel channel, struct str text,
	       int i_call)
{
	bool is_name = channel == OUT_CALL_NAME;
	bool is_call = is_name || channel == OUT_CALL_ARGS;
	if (is_call)
		channel = OUT_CALL_NAME;
	bool is_new = is_name || ps->n == 0 || ps->p[ps->n - 1].channel != channel;
	if (is_new) {
		if (ps->n == ps->cap) {
			ps->cap = ps->cap ? 2 * ps->cap : 4;
			ps->p = xrealloc(ps->p, (size_t)ps->cap * sizeof *ps->p);
		}
		ps->p[ps->n++] = (struct answer_part){.channel = channel,
					       .i_call = i_call};
	}
	if (!is_call)
		buf_add_str(&ps->p[ps->n - 1].text, text);
	return is_new;
}

void parts_deinit(struct parts *ps)
{
	for (int i = 0; i < ps->n; i++)
		buf_deinit(&ps->p[i].text);
	free(ps->p);
	*ps = (struct parts){0};
}
