/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph_lora_experts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "engine/graph_calls.h"
#include "kernels/ops/moe_experts.h"

enum { FORMS = 3, ALIGNED = 16 }; /* bytes at which the kernels' loads of a matrix begin */

/* Where a module has the matrices of one product of one expert. */
struct expert_rows {
	const struct lora_module *o;
	int32_t index; /* of the expert within it */
	int32_t first; /* of its rows of B */
};

/* What a product's modules may be called, and the sizes that they have then. */
struct expert_form {
	char name[80];
	int32_t n, k, first;
	bool is_stack;
};

/* The forms of product `which` of expert e: a module of its own, one of all experts, and one of
 * gate and up of all. */
static int forms_of(const struct graph *g, const struct moe *m, int which, int32_t e,
		    struct expert_form out[FORMS])
{
	static const char *const parts[] = {"gate", "up", "down"};
	int32_t d = m->in_dim ? m->in_dim : g->dim, f = m->dim;
	bool is_down = which == MOE_LORA_DOWN;
	const char *part = parts[which == MOE_LORA_GATE && m->is_ungated ? MOE_LORA_UP : which];
	out[0] = (struct expert_form){.n = is_down ? d : f, .k = is_down ? f : d};
	out[1] = out[0];
	out[2] = (struct expert_form){.n = 2 * f, .k = d,
				      .first = which == MOE_LORA_UP ? f : 0};
	out[1].is_stack = out[2].is_stack = true;
	snprintf(out[0].name, sizeof out[0].name, "mlp.experts.%d.%s_proj", (int)e, part);
	snprintf(out[1].name, sizeof out[1].name, "mlp.experts.%s_proj", part);
	snprintf(out[2].name, sizeof out[2].name, "mlp.experts.gate_up_proj");
	return is_down || m->is_ungated ? 2 : 3;
}

/* The adapter's matrices for the product; their o is NULL where it leaves it as it is. */
static struct expert_rows find_rows(const struct graph *g, const struct lora *l, int i, int which,
				    int32_t e)
{
	struct expert_form forms[FORMS];
	int n = forms_of(g, &g->layers[i].experts, which, e, forms);
	for (int k = 0; k < n; k++) {
		const struct lora_module *o = lora_find(l, i, forms[k].name);
		if (o)
			return (struct expert_rows){o, forms[k].is_stack ? e : 0, forms[k].first};
	}
	return (struct expert_rows){NULL, 0, 0};
}

static enum status check_form(const struct graph *g, int i, const struct lora *l,
			      const struct lora_module *o, const struct expert_form *form,
			      struct fail *fail)
{
	int32_t n_experts = form->is_stack ? g->layers[i].experts.n : 0;
	if (o->n_experts != n_experts)
		return fail_at(fail, E_CONFIG, "lora", "%.120s: %.80s has matrices for %d experts, "
			       "and this model's layer has %d: the adapter was made for another "
			       "base model", l->path, o->file_name, (int)lora_module_count(o),
			       (int)g->layers[i].experts.n);
	if (o->n != form->n || o->k != form->k)
		return fail_at(fail, E_CONFIG, "lora", "%.120s: %.80s is for experts of %d inputs "
			       "and %d outputs, and this model's have %d and %d: the adapter was "
			       "made for another base model", l->path, o->file_name, (int)o->k,
			       (int)o->n, (int)form->k, (int)form->n);
	return OK;
}

enum status graph_lora_fail_twice(const struct lora *l, const struct lora_module *one,
				  const struct lora_module *other, struct fail *fail)
{
	return fail_at(fail, E_UNSUPPORTED, "lora", "%.120s: %.80s and %.80s are matrices for the "
		       "same rows: an adapter has one of them", l->path, one->file_name,
		       other->file_name);
}

enum status graph_lora_experts_match(const struct graph *g, int i, const struct lora *l,
				     bool *is_taken, struct fail *fail)
{
	const struct moe *m = &g->layers[i].experts;
	for (int32_t at = 0; at < m->n * MOE_LORA_PARTS; at++) {
		struct expert_form forms[FORMS];
		const struct lora_module *found = NULL;
		int n = forms_of(g, m, at % MOE_LORA_PARTS, at / MOE_LORA_PARTS, forms);
		for (int k = 0; k < n; k++) {
			const struct lora_module *o = lora_find(l, i, forms[k].name);
			if (!o)
				continue;
			if (found)
				return graph_lora_fail_twice(l, found, o, fail);
			enum status st = check_form(g, i, l, o, &forms[k], fail);
			if (st != OK)
				return st;
			is_taken[o - l->modules] = true;
			found = o;
		}
	}
	return OK;
}

/* --- memory ------------------------------------------------------------------------------ */

/* Bytes of A, and of the transposed rows of B, of the product. */
static size_t a_bytes(const struct expert_rows *r)
{
	size_t n = (size_t)r->o->rank * (size_t)r->o->k * dtype_bytes(r->o->type);
	return ROUND_UP(n, (size_t)ALIGNED);
}

static size_t b_bytes(const struct expert_rows *r, int32_t n)
{
	return ROUND_UP((size_t)r->o->rank * (size_t)n * dtype_bytes(r->o->type),
			(size_t)ALIGNED);
}

/* Copies A, and behind it n rows of B as (R, N). */
static void copy_rows(const struct expert_rows *r, int32_t n, char *to)
{
	const struct lora_module *o = r->o;
	size_t rank = (size_t)o->rank, bytes = dtype_bytes(o->type), e = (size_t)r->index;
	size_t n_a = rank * (size_t)o->k * bytes;
	const char *b = (const char *)o->b +
			(e * (size_t)o->n + (size_t)r->first) * rank * bytes;
	memcpy(to, (const char *)o->a + e * n_a, n_a);
	to += a_bytes(r);
	for (size_t i = 0; i < (size_t)n; i++)
		for (size_t k = 0; k < rank; k++)
			memcpy(to + (k * (size_t)n + i) * bytes, b + (i * rank + k) * bytes,
			       bytes);
}

struct lora_part graph_lora_part(const struct lora_module *o, const void *a, const void *b)
{
	enum lora_type type = o->type == DTYPE_F16 ? LORA_F16 :
			      o->type == DTYPE_BF16 ? LORA_BF16 : LORA_F32;
	return (struct lora_part){.a = a, .b = b, .rank = o->rank, .scale = o->scale,
				  .type = (int32_t)type};
}

/* Rows of B that product `which` has. */
static int32_t rows_of(const struct graph *g, const struct moe *m, int which)
{
	return which != MOE_LORA_DOWN ? m->dim : m->in_dim ? m->in_dim : g->dim;
}

/* Puts the matrices of adapter l for layer i on the device, in one piece, and their places in
 * `part` (E, MOE_LORA_PARTS). */
static enum status put_adapter(struct graph *g, const struct lora *l, int i,
			       struct lora_part *part, struct fail *fail)
{
	const struct moe *m = &g->layers[i].experts;
	size_t n_bytes = 0, at = 0;
	char *on, *host = NULL;
	for (int32_t p = 0; p < m->n * MOE_LORA_PARTS; p++) {
		int which = p % MOE_LORA_PARTS;
		struct expert_rows r = find_rows(g, l, i, which, p / MOE_LORA_PARTS);
		n_bytes += r.o ? a_bytes(&r) + b_bytes(&r, rows_of(g, m, which)) : 0;
	}
	enum status st = n_bytes ? graph_alloc(g, n_bytes, &on, fail) : OK;
	if (st != OK || !n_bytes || g->measured)
		return st;
	host = xcalloc(n_bytes, 1);
	for (int32_t p = 0; p < m->n * MOE_LORA_PARTS; p++) {
		int which = p % MOE_LORA_PARTS;
		int32_t n = rows_of(g, m, which);
		struct expert_rows r = find_rows(g, l, i, which, p / MOE_LORA_PARTS);
		if (!r.o)
			continue;
		copy_rows(&r, n, host + at);
		part[p] = graph_lora_part(r.o, on + at, on + at + a_bytes(&r));
		at += a_bytes(&r) + b_bytes(&r, n);
	}
	st = g->b->ops->upload(g->b, on, host, n_bytes);
	if (st == OK) /* an upload may still be reading it */
		st = g->b->ops->sync(g->b, fail);
	free(host);
	return st;
}

bool graph_lora_experts_has(const struct graph *g, int i)
{
	const struct moe *m = &g->layers[i].experts;
	for (int k = 0; k < g->limits.n_loras; k++)
		for (int32_t p = 0; p < m->n * MOE_LORA_PARTS; p++)
			if (find_rows(g, g->limits.loras[k], i, p % MOE_LORA_PARTS,
				      p / MOE_LORA_PARTS).o)
				return true;
	return false;
}

enum status graph_lora_experts_fill(struct graph *g, int i, struct lora_part **out,
				    struct fail *fail)
{
	size_t n = (size_t)g->layers[i].experts.n * MOE_LORA_PARTS;
	size_t n_loras = (size_t)g->limits.n_loras;
	struct lora_part *parts = xcalloc(n_loras * n, sizeof *parts);
	enum status st = OK;
	for (size_t k = 0; k < n_loras && st == OK; k++)
		st = put_adapter(g, g->limits.loras[k], i, parts + k * n, fail);
	if (st == OK)
		st = graph_put(g, parts, n_loras * n * sizeof *parts, out, fail);
	free(parts);
	return st;
}
