/* SPDX-License-Identifier: Apache-2.0
 *
 * linear for weights with turns (model/formats/turn.h), by other operations: the norm, the
 * turn of the input, the product, the turn of the output, the activation.
 */
#include "backend/backend.h"

bool backend_linear_turns(const struct linear_args *a)
{
	for (int i = 0; i < a->n_out; i++)
		if (a->out[i].w->turns)
			return true;
	return false;
}

static struct weight_turns turns_of(const struct linear_out *o)
{
	return o->w->turns ? *o->w->turns : (struct weight_turns){NULL, NULL, NULL};
}

/* Outputs [i, end) of a by one operation: they read the same, and if there are several none
 * turns. */
static enum status multiply(struct backend *b, const struct linear_args *a, int i, int end,
			    const void *x)
{
	struct weight plain[LINEAR_MAX_OUT];
	struct linear_args v = {.n_tok = a->n_tok, .x = x};
	struct weight_turns t = turns_of(&a->out[i]);
	for (; i < end; i++) {
		plain[v.n_out] = *a->out[i].w;
		plain[v.n_out].turns = NULL;
		v.out[v.n_out] = a->out[i];
		v.out[v.n_out].w = &plain[v.n_out];
		v.n_out++;
	}
	const struct linear_out to = v.out[0];
	if (t.out) {
		v.out[0].y = t.memory->out;
		v.out[0].is_f32 = true;
		v.out[0].adds = false;
	}
	enum status st = b->ops->linear(b, &v);
	if (st != OK || !t.out)
		return st;
	return b->ops->turn_blocks(b, &(struct turn_blocks_args){
		.n_tok = a->n_tok, .dim = plain[0].n, .turn = t.out, .x = t.memory->out,
		.x_is_f32 = true, .y = to.y, .is_f32 = to.is_f32, .adds = to.adds});
}

enum status backend_linear_turned(struct backend *b, const struct linear_args *a)
{
	enum status st = a->norm ? b->ops->rms_norm(b, a->norm) : OK;
	const struct turn_matrix *made = NULL; /* what the memory holds x turned by */
	for (int i = 0, end; i < a->n_out && st == OK; i = end) {
		struct weight_turns t = turns_of(&a->out[i]);
		for (end = i + 1; end < a->n_out && !t.out; end++) {
			struct weight_turns next = turns_of(&a->out[end]);
			if (next.in != t.in || next.out)
				break;
		}
		if (t.in && t.in != made)
			st = b->ops->turn_blocks(b, &(struct turn_blocks_args){
				.n_tok = a->n_tok, .dim = a->out[i].w->k, .turn = t.in,
				.x = a->x, .y = t.memory->in});
		made = t.in ? t.in : made;
		if (st == OK)
			st = multiply(b, a, i, end, t.in ? t.memory->in : a->x);
	}
	if (st != OK || !a->act)
		return st;
	void *y = a->out[0].y;
	return b->ops->act_mul(b, &(struct act_mul_args){
		.n_tok = a->n_tok, .dim = a->out[0].w->n, .act = *a->act, .gate = y,
		.up = a->out[1].y, .y = y});
}
