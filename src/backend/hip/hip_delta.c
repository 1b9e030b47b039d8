/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets: causal_conv, delta_rule, gated_norm, sigmoid_gate.
 */
#include <math.h>

#include "backend/hip/hip_linear.h"
#include "kernels/delta/delta_launch.h"

static struct half_heads halves(const struct head_view *v)
{
	return (struct half_heads){v->p, v->row, v->n_heads, v->dim, v->pitch};
}

static struct float_heads floats(const struct head_view *v)
{
	return (struct float_heads){v->p, v->row, v->n_heads, v->dim, v->pitch};
}

static struct state_slots slots(const struct seq_states *s)
{
	return (struct state_slots){s->from, s->to, s->save, s->save_at};
}

/* The convolution of one token and the linear `beside` it in one launch, if there is a kernel for
 * that. Otherwise *is_done is false, and nothing is launched. */
static enum status conv_beside(struct backend *b, const struct causal_conv_args *a,
			       const struct causal_conv_launch *l, bool *is_done)
{
	struct hip *h = hip_of(b);
	struct linear_rows_args rows;
	int32_t lds;
	*is_done = a->n_tok == 1 && a->width <= CONV_USUAL_WIDTH &&
		   hip_linear_rows_beside(h, a->beside, &rows, &lds);
	if (!*is_done)
		return OK;
	if (b->profile)
		backend_count_linear(b, a->beside);
	struct hip_grid g = {rows.grid + DIV_UP(l->n_channels, CONV_THREADS), 1, CONV_THREADS,
			     lds};
	return LAUNCH(h, PLAIN("causal_conv_rows_bf16_kernel"), g, ARG(*l), ARG(rows));
}

/* True if a part of the inputs is the sum of two f32 arrays. */
static bool has_sums(const struct causal_conv_args *a)
{
	bool has = false;
	for (int i = 0; i < a->n_parts; i++)
		has |= a->low[i] != NULL;
	return has;
}

enum status hip_causal_conv(struct backend *b, const struct causal_conv_args *a)
{
	struct causal_conv_launch l = {
		.width = a->width, .n_channels = causal_conv_channels(a),
		.n_parts = a->n_parts, .weight = a->weight, .bias = a->bias,
		.first_tok = a->first_tok, .low_scale = a->low_scale,
		.states = slots(&a->states), .state = a->state, .y = a->y};
	if (a->width < 2 || a->width > CONV_MAX_WIDTH)
		return hip_refuse(hip_of(b), "a convolution of %d inputs", (int)a->width);
	for (int i = 0; i < a->n_parts; i++) {
		l.part[i] = halves(&a->part[i]);
		l.high[i] = a->low[i] ? a->part[i].p : NULL;
		l.low[i] = a->low[i];
	}
	if (a->is_gated && a->n_parts != 1)
		return hip_refuse(hip_of(b), "a gated convolution of %d parts", a->n_parts);
	if (a->is_gated && has_sums(a))
		return hip_refuse(hip_of(b), "a gated convolution of sums");
	l.is_gated = a->is_gated;
	l.in_gate = halves(a->is_gated ? &a->in_gate : &a->part[0]);
	l.out_gate = halves(a->is_gated ? &a->out_gate : &a->part[0]);
	if (a->beside) {
		bool is_done;
		enum status st = conv_beside(b, a, &l, &is_done);
		if (st == OK && !is_done)
			st = hip_linear(b, a->beside);
		if (st != OK || is_done)
			return st;
	}
	/* As many segments as a sequence would have if all others had one token. */
	int n_segments = DIV_UP(a->n_tok - a->n_seq + 1, CONV_SEGMENT);
	struct hip_grid g = {DIV_UP(l.n_channels, CONV_THREADS) * n_segments, a->n_seq,
			     CONV_THREADS, 0};
	return LAUNCH(hip_of(b), PLAIN("causal_conv%s%s_kernel",
				       a->width > CONV_USUAL_WIDTH ? "_wide" : "",
				       has_sums(a) ? "_sums" : ""), g, ARG(l));
}

static struct gated_norm_launch norm_launch(const struct gated_norm_args *a)
{
	return (struct gated_norm_launch){
		.n_rows = a->n_tok * a->n_heads, .n_heads = a->n_heads, .dim = a->dim,
		.eps = a->eps, .x = a->x, .z = halves(&a->z), .weight = a->weight,
		.y = a->y, .is_sigmoid = a->is_sigmoid, .skips_norm = a->skips_norm,
		.z_scale = a->z_scale != 0 ? a->z_scale : 1};
}

enum status hip_gated_norm(struct backend *b, const struct gated_norm_args *a)
{
	struct gated_norm_launch l = norm_launch(a);
	struct hip_grid g = {DIV_UP(l.n_rows, NORM_WAVES), 1, NORM_WAVES * 32, 0};
	return LAUNCH(hip_of(b), PLAIN(a->gates_first ? "norm_gated_kernel" : "gated_norm_kernel"),
		      g, ARG(l));
}

enum status hip_delta_rule(struct backend *b, const struct delta_rule_args *a)
{
	struct hip *h = hip_of(b);
	bool fuses = a->norm && !a->skip && a->n_tok == a->n_seq &&
		     a->n_seq * a->n_v_heads <= HIP_MAX_TOK;
	struct delta_rule_launch l = {
		.n_k_heads = a->n_k_heads, .n_v_heads = a->n_v_heads, .k_dim = a->k_dim,
		.v_dim = a->v_dim, .heads_tiled = a->heads_tiled,
		.q_scale = (float)(1 / sqrt(a->k_dim)),
		.a_scale = a->a_scale != 0 ? a->a_scale : 1, .g_min = a->g_min,
		.has_min = a->g_min < 0, .qkv = a->qkv,
		.a = floats(&a->a), .b = floats(&a->b), .decay = a->decay,
		.dt_bias = a->dt_bias, .skip = a->skip, .first_tok = a->first_tok,
		.states = slots(&a->states), .state = a->state, .y = a->y, .arrived = h->counters};
	int each = DIV_UP(a->k_dim, 4 * DELTA_LANES) * 4;
	int most = each <= 4 ? 4 : each <= 8 ? 8 : each <= 16 ? 16 : 32;
	const char *name = a->skip ? "state_space"
				   : a->by_channel ? "delta_channels" : "delta_rule";
	if (a->k_dim % 4 || each > 32)
		return hip_refuse(h, "delta_rule with keys of %d", (int)a->k_dim);
	struct hip_grid g = {DIV_UP(a->v_dim, DELTA_ROWS), a->n_seq * a->n_v_heads,
			     DELTA_WAVES * 32, 0};
	if (fuses)
		l.norm = norm_launch(a->norm);
	enum status st = LAUNCH(h, PLAIN("%s_n%d_kernel", name, most), g, ARG(l));
	return st == OK && a->norm && !fuses ? hip_gated_norm(b, a->norm) : st;
}

enum status hip_sigmoid_gate(struct backend *b, const struct sigmoid_gate_args *a)
{
	struct sigmoid_gate_args v = *a;
	struct half_heads gate = halves(&a->gate);
	struct hip_grid g = {DIV_UP(a->dim, GATE_THREADS), a->n_tok, GATE_THREADS, 0};
	uint32_t is_softplus = a->is_softplus;
	if (a->span == 1 && !is_softplus)
		return LAUNCH(hip_of(b), PLAIN("sigmoid_gate_kernel"), g, ARG(v.dim), ARG(gate),
			      ARG(v.y));
	return LAUNCH(hip_of(b), PLAIN("gate_spans_kernel"), g, ARG(v.dim), ARG(v.span),
		      ARG(is_softplus), ARG(gate), ARG(v.y));
}
