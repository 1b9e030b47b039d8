/* SPDX-License-Identifier: Apache-2.0
 *
 * DRY's parameters, with llama.cpp's names and defaults. A breaker is a text. This file
 * finds the tokens that hold it. A token that contains the whole text breaks a sequence.
 * A token that ends with the text's beginning breaks it if the rest of the text follows.
 */
#include "api/params.h"

#include <stdlib.h>

#include "base/alloc.h"

#define MAX_BREAKERS 32
#define MAX_BREAKER_BYTES 40
#define MAX_TAIL 20
#define MAX_FOUND 65536

struct finder {
	const struct tokenizer *t;
	struct arena *a;
	struct sampler_breaker *p;
	size_t n, cap;
};

static void params_dry_add(struct finder *f, int32_t head, const struct ids *tail)
{
	if (f->n == MAX_FOUND)
		return;
	if (f->n == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 256;
		f->p = xrealloc(f->p, f->cap * sizeof *f->p);
	}
	int32_t n = tail ? (int32_t)MIN(tail->n, (size_t)MAX_TAIL) : 0;
	int32_t *copy = arena_alloc(f->a, (size_t)n * sizeof *copy);
	if (n)
		memcpy(copy, tail->p, (size_t)n * sizeof *copy);
	f->p[f->n++] = (struct sampler_breaker){head, n, copy};
}

/* If the token ends with the first bytes of the breaker, adds it with the breaker's other
 * bytes as its tail. */
static enum status add_overlaps(struct finder *f, int32_t id, struct str token,
				struct str breaker, struct ids *tails, struct fail *fail)
{
	for (size_t n = 1; n < breaker.n && n <= token.n; n++) {
		if (memcmp(token.p + token.n - n, breaker.p, n) != 0)
			continue;
		struct ids *tail = &tails[n];
		struct str rest = {breaker.p + n, breaker.n - n};
		enum status st = OK;
		if (tail->n == 0)
			st = tokenizer_encode(f->t, rest, TRUST_USER, tail, fail);
		if (st != OK)
			return st;
		params_dry_add(f, id, tail);
	}
	return OK;
}

static enum status params_dry_find(struct finder *f, struct str breaker, struct fail *fail)
{
	struct ids tails[MAX_BREAKER_BYTES + 1] = {0};
	enum status st = OK;
	for (int32_t id = 0; id < tokenizer_n_ids(f->t) && st == OK; id++) {
		struct str token = tokenizer_bytes(f->t, id);
		if (str_find(token, breaker, 0) >= 0)
			params_dry_add(f, id, NULL);
		else
			st = add_overlaps(f, id, token, breaker, tails, fail);
	}
	for (size_t i = 0; i <= MAX_BREAKER_BYTES; i++)
		ids_deinit(&tails[i]);
	return st;
}

static int by_head(const void *a, const void *b)
{
	const struct sampler_breaker *x = a, *y = b;
	return (x->head > y->head) - (x->head < y->head);
}

static enum status read_breakers(const struct json_node *body, struct finder *f,
				 struct fail *fail)
{
	static const char *const usual[] = {"\n", ":", "\"", "*"};
	struct json_node at = json_read_get(body, "dry_sequence_breakers");
	size_t n = 0;
	enum status st = json_read_list(&at, MAX_BREAKERS, &n, fail);
	for (size_t i = 0; !at.v && i < ARRAY_LEN(usual) && st == OK; i++)
		st = params_dry_find(f, str_of(usual[i]), fail);
	for (size_t i = 0; i < n && st == OK; i++) {
		struct json_node item = json_read_item(&at, i);
		struct str s = STR("");
		st = json_read_need_str(&item, &s, fail);
		if (st == OK && (s.n == 0 || s.n > MAX_BREAKER_BYTES))
			st = json_read_fail(&item, fail, "must have 1 to %d bytes",
					    MAX_BREAKER_BYTES);
		if (st == OK)
			st = params_dry_find(f, s, fail);
	}
	return st;
}

static enum status read_count(const struct json_node *body, const char *name, int64_t min,
			      int32_t *io, struct fail *fail)
{
	struct json_node at = json_read_get(body, name);
	int64_t v = *io;
	enum status st = json_read_int(&at, min, INT32_MAX, &v, fail);
	*io = (int32_t)v;
	return st;
}

enum status params_read_dry(const struct json_node *body, struct api_call *c,
			    struct fail *fail)
{
	struct sampler_dry *dry = &c->request->sampling.dry;
	struct finder f = {.t = c->api->chat.model->tokenizer, .a = &c->request->arena};
	enum status st = read_count(body, "dry_allowed_length", 0, &dry->allowed_length, fail);
	if (st == OK)
		st = read_count(body, "dry_penalty_last_n", -1, &dry->last_n, fail);
	if (st == OK && dry->multiplier > 0)
		st = read_breakers(body, &f, fail);
	if (st == OK && f.n > 0) {
		qsort(f.p, f.n, sizeof *f.p, by_head);
		struct sampler_breaker *own = arena_alloc(f.a, f.n * sizeof *own);
		memcpy(own, f.p, f.n * sizeof *own);
		dry->breakers = own;
		dry->n_breakers = (int)f.n;
	}
	free(f.p);
	return st;
}
