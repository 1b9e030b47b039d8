/* SPDX-License-Identifier: Apache-2.0
 *
 * What /v1/files and /v1/batches answer at once. Nothing here waits for the disk but for
 * pieces of a file that is sent.
 */
#include <stdlib.h>

#include "api/batches.h"
#include "batch/batch_store.h"
#include "http/conn.h"

#define MAX_FILES 10000 /* of a list, as OpenAI has it */
#define MAX_BATCHES 100

static enum status read_limit(const struct conn *c, int max, int *io, struct fail *fail)
{
	struct str text;
	int64_t n = 0;
	if (!route_argument(c->sock->head.target, "limit", &text))
		return OK;
	for (size_t i = 0; i < text.n && n >= 0; i++) {
		int digit = text.p[i] - '0';
		n = digit >= 0 && digit <= 9 && n <= max ? n * 10 + digit : -1;
	}
	if (n < 1 || n > max)
		return fail_at(fail, E_INVAL, "limit", "`limit` must be 1 to %d", max);
	*io = (int)n;
	return OK;
}

static enum status read_order(const struct conn *c, bool *out_is_rising, struct fail *fail)
{
	struct str text = STR("desc");
	(void)!route_argument(c->sock->head.target, "order", &text);
	*out_is_rising = str_is(text, "asc");
	return *out_is_rising || str_is(text, "desc")
		       ? OK : fail_at(fail, E_INVAL, "order", "`order` must be asc or desc");
}

static void answer_list(struct conn *c, int usual, int max,
			void (*list)(struct batch_store *s, const struct batch_page *page,
				     struct buf *out))
{
	struct batch_page page = {.owner = c->owner, .limit = usual, .after = {"", 0},
				  .purpose = {"", 0}};
	struct buf b = {0};
	enum status st = api_check_batches(c->http->opts.batches, &c->fail);
	if (st == OK)
		st = read_limit(c, max, &page.limit, &c->fail);
	if (st == OK)
		st = read_order(c, &page.is_rising, &c->fail);
	(void)!route_argument(c->sock->head.target, "after", &page.after);
	(void)!route_argument(c->sock->head.target, "purpose", &page.purpose);
	if (st == OK)
		list(c->http->opts.batches, &page, &b);
	answer_item(c, st, &b);
}

void page_files(struct conn *c)
{
	answer_list(c, MAX_FILES, MAX_FILES, api_files_list);
}

void page_batches(struct conn *c)
{
	answer_list(c, 20, MAX_BATCHES, api_batches_list);
}

void page_file(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_file_format(c->http->opts.batches, page_kept(c), &b, &c->fail), &b);
}

void page_file_content(struct conn *c)
{
	int fd;
	int64_t n;
	if (api_file_open(c->http->opts.batches, page_kept(c), &fd, &n, &c->fail) == OK)
		answer_set_file(c, "application/octet-stream", fd, n);
	else
		answer_fail(c, &c->fail);
}

void page_file_delete(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_file_delete(c->http->opts.batches, page_kept(c), &b, &c->fail), &b);
}

void page_batch(struct conn *c)
{
	struct buf b = {0};
	answer_item(c, api_batch_format(c->http->opts.batches, page_kept(c), &b, &c->fail), &b);
}
