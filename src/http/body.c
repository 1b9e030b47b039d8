/* SPDX-License-Identifier: Apache-2.0 */
#include "http/body.h"

enum status body_expect(struct body *b, size_t n)
{
	size_t cost = n <= BODY_SMALL ? 0 : n * (b->is_form ? BODY_COST_FORM : BODY_COST);
	if (cost <= b->n_charged || b->is_discarded)
		return OK;
	size_t more = cost - b->n_charged, others = *b->total - b->n_charged;
	if (others > 0 && (*b->total > b->max_total || more > b->max_total - *b->total))
		return E_BODIES;
	b->n_charged = cost;
	*b->total += more;
	return OK;
}

enum status body_add(struct body *b, const char *p, size_t n)
{
	enum status status;
	b->n_read += n;
	if (b->is_discarded)
		return b->n_read > BODY_SWALLOW_MAX ? E_LIMIT : OK;
	status = n > b->max_bytes - b->buf.n ? E_TOO_LARGE : body_expect(b, b->buf.n + n);
	if (status == OK && !buf_try(&b->buf, n))
		status = E_NOMEM;
	if (status == OK)
		buf_add(&b->buf, p, n);
	else
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
		*b->total -= b->n_charged;
	b->n_charged = 0;
	buf_deinit(&b->buf);
}
