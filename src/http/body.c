/* SPDX-License-Identifier: Apache-2.0 */
#include "http/body.h"

enum status body_add(struct body *b, const char *p, size_t n)
{
	enum status status;
	b->n_read += n;
	if (b->is_discarded)
		return b->n_read > BODY_SWALLOW_MAX ? E_LIMIT : OK;
	if (n > b->max_bytes - b->buf.n)
		status = E_TOO_LARGE;
	else if (n > b->max_total - *b->total)
		status = E_QUEUE_FULL;
	else {
		buf_add(&b->buf, p, n);
		*b->total += n;
		return OK;
	}
	body_discard(b);
	return status;
}

void body_discard(struct body *b)
{
	b->is_discarded = true;
	body_deinit(b);
}

void body_deinit(struct body *b)
{
	if (b->total)
		*b->total -= b->buf.n;
	buf_deinit(&b->buf);
}
