/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that the store has dropped costs time, not correctness: the prompt is computed
 * again.
 */
#include "chat/callstore.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/lru.h"

#define MAX_CALLS 1024
#define MAX_CALL_BYTES 16384 /* of one call; 16 MiB for all */

struct stored_call {
	size_t n_name, n_args, n_text;
	char bytes[]; /* name, args and text, one behind the other */
};

struct callstore {
	struct lru *lru;
};

static size_t size(void *value)
{
	const struct stored_call *c = value;
	return c->n_name + c->n_args + c->n_text;
}

struct callstore *callstore_create(void)
{
	struct callstore *s = xcalloc(1, sizeof *s);
	s->lru = lru_create(&(struct lru_opts){
		.max_entries = MAX_CALLS, .max_bytes = MAX_CALLS * MAX_CALL_BYTES,
		.size = size, .drop = free});
	return s;
}

void callstore_destroy(struct callstore *s)
{
	if (!s)
		return;
	lru_destroy(s->lru);
	free(s);
}

static char *callstore_add(char *to, struct str s)
{
	if (s.n)
		memcpy(to, s.p, s.n);
	return to + s.n;
}

void callstore_put(struct callstore *s, struct str id, const struct callstore_call *call)
{
	size_t n = call->name.n + call->args.n + call->text.n;
	if (id.n + n > MAX_CALL_BYTES)
		return;
	struct stored_call *c = xcalloc(1, sizeof *c + n);
	c->n_name = call->name.n;
	c->n_args = call->args.n;
	c->n_text = call->text.n;
	callstore_add(callstore_add(callstore_add(c->bytes, call->name), call->args), call->text);
	lru_put(s->lru, (struct lru_key){0, id}, c);
}

struct copy {
	struct arena *arena;
	struct callstore_call *out;
};

static void copy_call(void *value, void *ctx)
{
	const struct stored_call *c = value;
	const struct copy *to = ctx;
	const char *args = c->bytes + c->n_name, *text = args + c->n_args;
	to->out->name = arena_str(to->arena, (struct str){c->bytes, c->n_name});
	to->out->args = arena_str(to->arena, (struct str){args, c->n_args});
	to->out->text = arena_str(to->arena, (struct str){text, c->n_text});
}

bool callstore_get(struct callstore *s, struct str id, struct arena *a,
		   struct callstore_call *out)
{
	struct copy to = {a, out};
	return lru_get(s->lru, (struct lru_key){0, id}, copy_call, &to);
}
