/* SPDX-License-Identifier: Apache-2.0
 *
 * What a gated delta net is made of. Sequences of several lengths in one step, some with
 * a state to begin with, some left where they were found, some saved on the way; and the
 * same sequences cut into two steps, which must change no bit.
 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define causal_conv_ref causal_conv_plain
#define delta_rule_ref delta_rule_plain
#define gated_norm_ref gated_norm_plain
#define sigmoid_gate_ref sigmoid_gate_plain
#include "kernels/ops/causal_conv_ref.c"
#include "kernels/ops/gated_norm_ref.c"
#include "kernels/ops/delta_rule_ref.c"
#include "kernels/ops/sigmoid_gate_ref.c"
#undef causal_conv_ref
#undef delta_rule_ref
#undef gated_norm_ref
#undef sigmoid_gate_ref
#include "tests/kernel/plain_end.h"

enum { MAX_SEQS = 4, SLOTS_EACH = 3 };

/* The sequences of a step: n tokens each (0: no more), whether they have a state to
 * begin with, the token after which it is saved (-1: none). */
struct lives {
	struct {
		int32_t n;
		bool has_state;
		int32_t save;
	} seq[MAX_SEQS];
};

static const struct lives one_token_each = {{{1, true, 0}, {1, false, -1}, {1, true, -1}}};
static const struct lives mixed = {{{37, false, 31}, {1, true, -1}, {2, true, 1},
				    {70, true, 15}}};
static const struct lives alone = {{{1, false, -1}}};
static const struct lives found_again = {{{1, true, 0}}};
static const struct lives longer = {{{300, true, 255}}};
/* Saved behind the first 64 tokens; left, and saved, where they were found. */
static const struct lives late = {{{1, true, -1}, {130, true, 128}, {90, true, 80}}};

/* On the host: first_tok (B+1), then from, to, save, save_at, (B) each. */
struct schedule {
	int32_t n_seq, n_tok, n_slots;
	int32_t *first, *from, *to, *save, *save_at;
};

/* Sequence b has the slots 3b (found), 3b + 1 (left) and 3b + 2 (saved). Every other one
 * is left where it was found; the third one is saved there. */
static struct schedule plan(struct kernel_test *kt, const struct lives *l)
{
	struct schedule s = {0};
	while (s.n_seq < MAX_SEQS && l->seq[s.n_seq].n)
		s.n_seq++;
	s.n_slots = SLOTS_EACH * s.n_seq;
	s.first = kernel_ints(kt, (size_t)s.n_seq + 1);
	int32_t *all = kernel_ints(kt, 4 * (size_t)s.n_seq);
	s.from = all;
	s.to = all + s.n_seq;
	s.save = all + 2 * s.n_seq;
	s.save_at = all + 3 * s.n_seq;
	for (int32_t b = 0; b < s.n_seq; b++) {
		s.from[b] = l->seq[b].has_state ? SLOTS_EACH * b : -1;
		s.to[b] = SLOTS_EACH * b + (b % 2 ? 0 : 1);
		s.save[b] = l->seq[b].save < 0 ? -1 : SLOTS_EACH * b + (b == 2 ? 0 : 2);
		s.save_at[b] = s.n_tok + l->seq[b].save;
		s.n_tok += l->seq[b].n;
		s.first[b + 1] = s.n_tok;
	}
	return s;
}

static struct seq_states states_of(const struct schedule *s)
{
	return (struct seq_states){s->from, s->to, s->save, s->save_at};
}

static struct seq_states states_on(struct kernel_test *kt, const struct schedule *s)
{
	size_t n = (size_t)s->n_seq;
	return (struct seq_states){UPLOAD(kt, s->from, n), UPLOAD(kt, s->to, n),
				   UPLOAD(kt, s->save, n), UPLOAD(kt, s->save_at, n)};
}

/* Sequence b's tokens [from, to) of it alone, from where `found` says. */
static struct schedule cut(struct kernel_test *kt, const struct schedule *s, int32_t b,
			   int32_t n_tok, int32_t found)
{
	struct schedule c = *s;
	c.n_seq = 1;
	c.n_tok = n_tok;
	c.first = kernel_ints(kt, 2);
	c.first[1] = n_tok;
	int32_t *all = kernel_ints(kt, 4);
	c.from = all, c.to = all + 1, c.save = all + 2, c.save_at = all + 3;
	c.from[0] = found;
	c.to[0] = s->to[b];
	c.save[0] = -1;
	return c;
}

/* --- convolution ------------------------------------------------------------------- */

struct conv_shape {
	int32_t width, groups, dims[3]; /* groups of the three dims, side by side */
	const struct lives *lives;
	bool is_gated; /* dims: of the gate of inputs, that of outputs, and inputs */
	bool has_bias;
};

static const struct conv_shape convs[] = {
	{3, 1, {70, 70, 70}, &mixed, true, false},
	{3, 2, {32, 32, 32}, &one_token_each, true, false},
	{4, 1, {257, 257, 257}, &longer, true, false},
	{4, 1, {70, 0, 0}, &one_token_each, false, false},
	{4, 2, {16, 16, 48}, &mixed, false, false},
	{4, 1, {16, 16, 64}, &mixed, false, true},
	{4, 1, {8, 8, 20}, &one_token_each, false, true},
	{2, 3, {5, 7, 1}, &mixed, false, false},
	{4, 1, {32, 32, 64}, &alone, false, false},
	{8, 1, {65, 0, 0}, &longer, false, false},
	{8, 1, {64, 0, 0}, &longer, false, false},
	{2, 2, {16, 32, 16}, &mixed, false, false},
	{4, 1, {70, 20, 0}, &late, false, true},
	{3, 1, {40, 40, 40}, &late, true, false},
	{16, 1, {65, 0, 0}, &late, false, false},
	{10, 1, {40, 40, 40}, &late, true, false},
	{10, 1, {64, 0, 0}, &mixed, false, false},
	{16, 1, {65, 0, 0}, &one_token_each, false, true},
};

static struct causal_conv_args conv_args(const struct conv_shape *c,
					 const struct schedule *s, const void *x,
					 size_t act_bytes)
{
	struct causal_conv_args a = {.n_tok = s->n_tok, .n_seq = s->n_seq,
				     .width = c->width, .first_tok = s->first,
				     .states = states_of(s)};
	int32_t pitch = c->dims[0] + c->dims[1] + c->dims[2] + 3; /* and three not read */
	for (int32_t at = 0; a.n_parts < 3 && c->dims[a.n_parts]; a.n_parts++) {
		a.part[a.n_parts] = (struct head_view){
			x ? (const char *)x + (size_t)at * act_bytes : NULL,
			c->groups * pitch, c->groups, c->dims[a.n_parts], pitch};
		at += c->dims[a.n_parts];
	}
	if (c->is_gated) {
		a.in_gate = a.part[0];
		a.out_gate = a.part[1];
		a.part[0] = a.part[2];
		a.n_parts = 1;
		a.is_gated = true;
	}
	return a;
}

/* Parts in f32, as the sum of two: the first n of a convolution. */
struct conv_sums {
	int32_t n;
	const float *high, *low; /* as wide as x */
};

static const struct sums_shape {
	int32_t n_sums;
	struct conv_shape conv;
} sums[] = {
	{2, {4, 1, {64, 64, 0}, &one_token_each, false, false}},
	{2, {4, 2, {16, 16, 48}, &mixed, false, false}},
	{1, {4, 1, {32, 70, 0}, &longer, false, true}},
	{3, {10, 1, {16, 16, 33}, &mixed, false, false}},
	{1, {4, 1, {16, 33, 0}, &late, false, false}},
};

static void conv_sum(const struct conv_shape *c, const struct conv_sums *s, int32_t first_tok,
		     struct causal_conv_args *a)
{
	size_t at = (size_t)first_tok * (size_t)a->part[0].row;
	for (int32_t i = 0; i < s->n; at += (size_t)c->dims[i++]) {
		a->part[i].p = s->high + at;
		a->low[i] = s->low + at;
	}
	a->low_scale = 0x1p-11f;
}

static void conv_case(struct kernel_test *kt, const struct conv_shape *c, int32_t n_sums)
{
	struct schedule s = plan(kt, c->lives);
	struct causal_conv_args a = conv_args(c, &s, NULL, 0);
	size_t n_channels = (size_t)causal_conv_channels(&a), row = (size_t)a.part[0].row;
	size_t n = (size_t)s.n_tok * n_channels, n_x = (size_t)s.n_tok * row;
	size_t n_state = (size_t)s.n_slots * n_channels * (size_t)(c->width - 1);
	size_t act = dtype_bytes(kt->b->act_type);
	float *x = kernel_rows(kt, (size_t)s.n_tok, row, 1), *state[2], *y[2];
	float *weight = kernel_rows(kt, n_channels, (size_t)c->width, 0.5f);
	float *found = kernel_rows(kt, (size_t)s.n_slots, n_state / (size_t)s.n_slots, 1);
	/* With gates a result is a product of four: all are halves. */
	float most = c->is_gated ? 6 : 100, heaviest = c->is_gated ? 20 : 100;
	kernel_act_round(kt, x, n_x, most);
	kernel_act_round(kt, found, n_state, most);
	struct conv_sums host = {n_sums, x, kernel_rows(kt, (size_t)s.n_tok, row, 1)};
	float *bias = c->has_bias ? kernel_rows(kt, 1, n_channels, 0.5f) : NULL;
	for (size_t i = 0; i < n_channels * (size_t)c->width; i++)
		weight[i] = fmaxf(-heaviest, fminf(weight[i], heaviest));
	for (int i = 0; i < 2; i++) {
		a = conv_args(c, &s, x, sizeof *x);
		conv_sum(c, &host, 0, &a);
		y[i] = kernel_zeros(kt, n);
		state[i] = memcpy(kernel_zeros(kt, n_state), found, n_state * sizeof *found);
		a.weight = weight, a.bias = bias, a.state = state[i], a.y = y[i];
		i == 0 ? causal_conv_ref(&a) : causal_conv_plain(&a);
	}
	const void *x_on = kernel_act_upload(kt, x, n_x);
	struct causal_conv_args on = conv_args(c, &s, x_on, act);
	struct conv_sums device = {n_sums, UPLOAD(kt, x, n_x), UPLOAD(kt, host.low, n_x)};
	conv_sum(c, &device, 0, &on);
	on.weight = UPLOAD(kt, weight, n_channels * (size_t)c->width);
	on.bias = bias ? UPLOAD(kt, bias, n_channels) : NULL;
	on.first_tok = UPLOAD(kt, s.first, (size_t)s.n_seq + 1);
	on.states = states_on(kt, &s);
	on.state = UPLOAD(kt, found, n_state);
	on.y = kernel_act_upload(kt, kernel_zeros(kt, n), n);
	char what[100];
	snprintf(what, sizeof what, "causal_conv T=%d B=%d C=%zu W=%d%s", s.n_tok, s.n_seq,
		 n_channels, c->width, n_sums ? " of sums" : "");
	kernel_ran(kt, kt->b->ops->causal_conv(kt->b, &on), what);
	float *got = kernel_act_download(kt, on.y, n);
	float *left = kernel_download(kt, on.state, n_state);
	kernel_act_compare(kt, got, y[0], y[1], (size_t)s.n_tok, n_channels, 1e-12, what);
	kernel_ok(memcmp(left, state[0], n_state * sizeof *left) == 0,
		  "%s: %s: states are the last inputs", kt->name, what);

	/* The last sequence again: its first third, then the rest. */
	int32_t b = s.n_seq - 1, first = s.first[b], n_tok = s.first[b + 1] - first;
	int32_t sizes[2] = {(n_tok + 2) / 3, n_tok - (n_tok + 2) / 3}, found_at = s.from[b];
	int wrong = 0;
	on.state = UPLOAD(kt, found, n_state);
	for (int i = 0; i < 2 && sizes[i]; i++) {
		struct schedule part = cut(kt, &s, b, sizes[i], found_at);
		struct causal_conv_args p = conv_args(
			c, &part, (const char *)x_on + (size_t)first * row * act, act);
		conv_sum(c, &device, first, &p);
		p.weight = on.weight, p.bias = on.bias, p.state = on.state;
		p.first_tok = UPLOAD(kt, part.first, 2);
		p.states = states_on(kt, &part);
		size_t n_part = (size_t)sizes[i] * n_channels;
		p.y = kernel_act_upload(kt, kernel_zeros(kt, n_part), n_part);
		kernel_ran(kt, kt->b->ops->causal_conv(kt->b, &p), what);
		kernel_same(kt, kernel_act_download(kt, p.y, n_part),
			    got + (size_t)first * n_channels, n_part, &wrong);
		first += sizes[i];
		found_at = s.to[b];
	}
	size_t slot = n_state / (size_t)s.n_slots;
	kernel_same(kt, kernel_download(kt, on.state, n_state) + (size_t)s.to[b] * slot,
		    left + (size_t)s.to[b] * slot, slot, &wrong);
	kernel_ok(wrong == 0, "%s: %s: cut in two the same bits", kt->name, what);
}

/* --- a linear beside the convolution ------------------------------------------------ */

struct beside_shape {
	struct weight_kind kind;
	int32_t k, n[2], n_sums;
	struct conv_shape conv;
};

static const struct beside_shape besides[] = {
	/* one token: one launch */
	{{.quant = QUANT_BF16}, 2304, {32, 37}, 0, {4, 1, {32, 32, 64}, &alone, false, false}},
	{{.quant = QUANT_BF16}, 1000, {300, 0}, 0,
	 {4, 2, {64, 64, 160}, &found_again, false, false}},
	{{.quant = QUANT_BF16}, 256, {32, 5}, 1, {4, 1, {96, 64, 0}, &found_again, false, false}},
	{{.quant = QUANT_BF16}, 256, {32, 5}, 0, {4, 1, {16, 16, 64}, &mixed, false, false}},
	{{QUANT_INT4, 32, false, DTYPE_F16, 0}, 256, {32, 9}, 0,
	 {2, 1, {70, 0, 0}, &alone, false, false}},
};

enum { N_BESIDE = 2 };

struct beside_input {
	const struct beside_shape *b;
	struct schedule s;
	size_t n_channels, n_y, n_state, n_out[N_BESIDE];
	struct weight w[N_BESIDE];       /* on the device */
	const void *x, *conv_x;          /* on the device */
	struct conv_sums sums;           /* on the device */
	float *weight, *found, *bias;
};

static struct beside_input beside_inputs(struct kernel_test *kt, const struct beside_shape *b)
{
	const struct conv_shape *c = &b->conv;
	struct beside_input in = {.b = b, .s = plan(kt, c->lives)};
	struct causal_conv_args a = conv_args(c, &in.s, NULL, 0);
	size_t t = (size_t)in.s.n_tok, row = (size_t)a.part[0].row, n_x = t * (size_t)b->k;
	in.n_channels = (size_t)causal_conv_channels(&a);
	in.n_y = t * in.n_channels;
	in.n_state = (size_t)in.s.n_slots * in.n_channels * (size_t)(c->width - 1);
	in.weight = kernel_rows(kt, in.n_channels, (size_t)c->width, 0.5f);
	in.found = kernel_rows(kt, 1, in.n_state, 1);
	float *x = kernel_rows(kt, t, (size_t)b->k, 1), *conv_x = kernel_rows(kt, t, row, 1);
	kernel_act_round(kt, x, n_x, 200);
	kernel_act_round(kt, conv_x, t * row, 100);
	in.x = kernel_act_upload(kt, x, n_x);
	in.conv_x = kernel_act_upload(kt, conv_x, t * row);
	in.sums = (struct conv_sums){
		b->n_sums, UPLOAD(kt, conv_x, t * row),
		UPLOAD(kt, kernel_rows(kt, t, row, 1), t * row)};
	in.bias = kernel_rows(kt, 1, (size_t)b->n[0], 1);
	for (int i = 0; i < N_BESIDE && b->n[i]; i++) {
		struct weight host = kernel_weight(kt, b->kind, b->n[i], b->k);
		in.w[i] = kernel_upload_weight(kt, &host);
		in.n_out[i] = t * (size_t)b->n[i];
	}
	return in;
}

/* Everything that both operations leave, one behind the other. */
static float *beside_left(struct kernel_test *kt, const struct beside_input *in, bool is_beside,
			  size_t *n)
{
	const struct conv_shape *c = &in->b->conv;
	struct linear_args l = {.n_tok = in->s.n_tok, .x = in->x};
	for (; l.n_out < N_BESIDE && in->b->n[l.n_out]; l.n_out++)
		l.out[l.n_out] = (struct linear_out){
			.w = &in->w[l.n_out], .is_f32 = true,
			.bias = l.n_out ? NULL : UPLOAD(kt, in->bias, (size_t)in->b->n[0]),
			.y = UPLOAD(kt, kernel_zeros(kt, in->n_out[l.n_out]),
				    in->n_out[l.n_out])};
	struct causal_conv_args a =
		conv_args(c, &in->s, in->conv_x, dtype_bytes(kt->b->act_type));
	conv_sum(c, &in->sums, 0, &a);
	a.weight = UPLOAD(kt, in->weight, in->n_channels * (size_t)c->width);
	a.first_tok = UPLOAD(kt, in->s.first, (size_t)in->s.n_seq + 1);
	a.states = states_on(kt, &in->s);
	a.state = UPLOAD(kt, in->found, in->n_state);
	a.y = kernel_act_upload(kt, kernel_zeros(kt, in->n_y), in->n_y);
	a.beside = is_beside ? &l : NULL;
	if (!is_beside)
		kernel_ran(kt, kt->b->ops->linear(kt->b, &l), "linear");
	kernel_ran(kt, kt->b->ops->causal_conv(kt->b, &a), "causal_conv");
	*n = in->n_y + in->n_state + in->n_out[0] + in->n_out[1];
	float *all = kernel_zeros(kt, *n), *to = all;
	to = mempcpy(to, kernel_act_download(kt, a.y, in->n_y), in->n_y * sizeof *to);
	to = mempcpy(to, kernel_download(kt, a.state, in->n_state), in->n_state * sizeof *to);
	for (int i = 0; i < l.n_out; i++)
		to = mempcpy(to, kernel_download(kt, l.out[i].y, in->n_out[i]),
			     in->n_out[i] * sizeof *to);
	return all;
}

static void beside_case(struct kernel_test *kt, const struct beside_shape *b)
{
	struct beside_input in = beside_inputs(kt, b);
	size_t n;
	int wrong = 0;
	float *apart = beside_left(kt, &in, false, &n), *both = beside_left(kt, &in, true, &n);
	kernel_same(kt, both, apart, n, &wrong);
	kernel_ok(wrong == 0, "%s: %s N=%d+%d K=%d beside a convolution of %d tokens: the bits of "
		  "each alone", kt->name, kernel_kind_name(b->kind), b->n[0], b->n[1], b->k,
		  in.s.n_tok);
}

/* --- delta rule -------------------------------------------------------------------- */

struct delta_shape {
	int32_t hk, hv, k, v;
	bool is_grouped; /* b and a of a key head's value heads side by side */
	const struct lives *lives;
	bool heads_tiled;
	bool is_space; /* Mamba-2's rule */
	bool by_channel;
	float a_scale, g_min;
};

static const struct delta_shape deltas[] = {
	{2, 4, 32, 32, false, &mixed, false, false, false, 0, 0},
	{16, 32, 128, 128, true, &alone, false, false, false, 0, 0},
	{2, 6, 64, 16, true, &one_token_each, false, false, false, 0, 0},
	{2, 4, 64, 132, false, &one_token_each, false, false, false, 0, 0},
	{1, 2, 128, 128, false, &longer, false, false, false, 0, 0},
	{2, 2, 16, 72, false, &mixed, false, false, false, 0, 0},
	{2, 6, 32, 16, false, &mixed, true, false, false, 0, 0},
	{1, 2, 48, 12, false, &mixed, false, false, false, 0, 0},
	{1, 1, 256, 8, false, &mixed, false, false, false, 0, 0},
	{1, 8, 128, 64, false, &mixed, false, true, false, 0, 0},
	{2, 4, 32, 12, true, &one_token_each, false, true, false, 0, 0},
	{1, 2, 256, 64, false, &alone, false, true, false, 0, 0},
	{1, 2, 64, 20, false, &one_token_each, false, true, false, 0, 0},
	{2, 4, 16, 8, false, &longer, false, true, false, 0, 0},
	{1, 6, 32, 12, false, &mixed, false, true, false, 0.45f, 0},
	/* a norm behind several workgroups of a head, in the kernels that the others leave out */
	{2, 4, 32, 72, false, &one_token_each, false, false, false, 0, 0},
	{1, 2, 256, 40, false, &one_token_each, false, false, false, 0, 0},
	/* a decay for each channel of a key */
	{2, 2, 128, 128, false, &one_token_each, false, false, true, 0, 0},
	{2, 4, 20, 12, false, &mixed, true, false, true, 0, 0},
	{1, 2, 128, 32, false, &longer, false, false, true, 0, 0},
	{1, 1, 64, 72, false, &alone, false, false, true, 0, 0},
	{1, 1, 256, 8, false, &mixed, false, false, true, 0, 0},
	/* and a lower bound of them */
	{2, 2, 128, 32, false, &one_token_each, false, false, true, 0, -5},
	{1, 2, 20, 12, false, &mixed, false, false, true, 0, -0.25f},
	{1, 1, 64, 8, false, &longer, false, false, true, 0, -5},
};

struct delta_input {
	float *qkv, *ba, *decay, *dt_bias, *found;
	float *skip; /* NULL: the delta rule */
	size_t n_qkv, n_ba, n_state, n_y, n_bias;
};

/* Channels of a: of all value heads together. */
static int32_t delta_steps(const struct delta_shape *d)
{
	return d->by_channel ? d->hv * d->k : d->hv;
}

/* Floats of b and a of a token. */
static int32_t delta_row(const struct delta_shape *d)
{
	return d->hv + delta_steps(d);
}

static struct delta_rule_args delta_args(const struct delta_shape *d,
					 const struct schedule *s, const float *ba)
{
	int32_t r = d->is_grouped ? d->hv / d->hk : d->hv, n = d->hv / r;
	int32_t each = delta_steps(d) / n, pitch = r + each, row = n * pitch;
	return (struct delta_rule_args){
		.n_tok = s->n_tok, .n_seq = s->n_seq, .n_k_heads = d->hk,
		.n_v_heads = d->hv, .k_dim = d->k, .v_dim = d->v,
		.heads_tiled = d->heads_tiled, .by_channel = d->by_channel,
		.a_scale = d->a_scale, .g_min = d->g_min,
		.b = {ba, row, n, r, pitch}, .a = {ba + r, row, n, each, pitch},
		.first_tok = s->first, .states = states_of(s)};
}

static struct delta_input delta_make(struct kernel_test *kt, const struct delta_shape *d,
				     const struct schedule *s)
{
	size_t t = (size_t)s->n_tok, hv = (size_t)d->hv;
	size_t row = (size_t)(2 * d->hk * d->k + d->hv * d->v);
	struct delta_input in = {
		.n_qkv = t * row, .n_ba = t * (size_t)delta_row(d),
		.n_bias = (size_t)delta_steps(d),
		.n_state = (size_t)s->n_slots * hv * (size_t)(d->v * d->k),
		.n_y = t * hv * (size_t)d->v};
	in.qkv = kernel_rows(kt, t, row, 1);
	/* Mamba-2 does not normalise: larger numbers would leave the range of halves. */
	kernel_act_round(kt, in.qkv, in.n_qkv, d->is_space ? 1 : 1000);
	in.skip = d->is_space ? kernel_rows(kt, 1, hv, 1) : NULL;
	in.ba = kernel_zeros(kt, in.n_ba);
	in.decay = kernel_zeros(kt, hv);
	in.dt_bias = kernel_zeros(kt, in.n_bias);
	in.found = kernel_rows(kt, (size_t)s->n_slots * hv, (size_t)(d->v * d->k), 1);
	for (size_t i = 0; d->is_space && i < in.n_state; i++)
		in.found[i] = fmaxf(-100, fminf(in.found[i], 100));
	for (size_t i = 0; i < in.n_ba; i++)
		in.ba[i] = kernel_noise(kt) * (i % 31 == 7 ? 30 : 2);
	for (size_t i = 0; i < in.n_bias; i++) { /* as models have it: -16 .. -0.01 */
		if (i < hv)
			in.decay[i] = -expf(kernel_noise(kt)) / (d->is_space ? 8 : 1);
		in.dt_bias[i] = kernel_noise(kt) - 3;
	}
	return in;
}

static void delta_cut(struct kernel_test *kt, const struct delta_shape *d,
		      const struct schedule *s, const struct delta_rule_args *on,
		      const struct delta_input *in, const float *got, const float *left,
		      const char *what)
{
	int32_t b = s->n_seq - 1, first = s->first[b], n_tok = s->first[b + 1] - first;
	int32_t sizes[2] = {(n_tok + 2) / 3, n_tok - (n_tok + 2) / 3}, found = s->from[b];
	size_t row = in->n_y / (size_t)s->n_tok, act = dtype_bytes(kt->b->act_type);
	size_t slot = in->n_state / (size_t)s->n_slots;
	float *state = UPLOAD(kt, in->found, in->n_state);
	int wrong = 0;
	for (int i = 0; i < 2 && sizes[i]; i++) {
		struct schedule part = cut(kt, s, b, sizes[i], found);
		struct delta_rule_args p = delta_args(
			d, &part, (const float *)on->b.p + (size_t)(first * delta_row(d)));
		p.qkv = (const char *)on->qkv +
			(size_t)first * (in->n_qkv / (size_t)s->n_tok) * act;
		p.decay = on->decay, p.dt_bias = on->dt_bias, p.state = state;
		p.skip = on->skip;
		p.first_tok = UPLOAD(kt, part.first, 2);
		p.states = states_on(kt, &part);
		size_t n = (size_t)sizes[i] * row;
		p.y = kernel_act_upload(kt, kernel_zeros(kt, n), n);
		kernel_ran(kt, kt->b->ops->delta_rule(kt->b, &p), what);
		kernel_same(kt, kernel_act_download(kt, p.y, n), got + (size_t)first * row,
			    n, &wrong);
		first += sizes[i];
		found = s->to[b];
	}
	kernel_same(kt, kernel_download(kt, state, in->n_state) + (size_t)s->to[b] * slot,
		    left + (size_t)s->to[b] * slot, slot, &wrong);
	kernel_ok(wrong == 0, "%s: %s: cut in two the same bits", kt->name, what);
}

/* With the gated norm behind: the bits of one after the other, and the same again: what
 * counts workgroups is left as it was found. */
static void delta_normed(struct kernel_test *kt, const struct delta_shape *d,
			 const struct schedule *s, const struct delta_rule_args *on,
			 const struct delta_input *in, const char *what)
{
	size_t t = (size_t)s->n_tok, dim = (size_t)(d->hv * d->v);
	float *z = kernel_rows(kt, t, dim, 1), *weight = kernel_rows(kt, 1, (size_t)d->v, 1);
	kernel_act_round(kt, z, in->n_y, 30);
	struct gated_norm_args norm = {
		s->n_tok, d->hv, d->v, 1e-6f, NULL,
		{kernel_act_upload(kt, z, in->n_y), (int32_t)dim, 1, (int32_t)dim, (int32_t)dim},
		UPLOAD(kt, weight, (size_t)d->v), NULL, false, s->n_seq == 2, false, 0};
	struct delta_rule_args a = *on;
	float *got[3];
	for (int i = 0; i < 3; i++) {
		a.state = UPLOAD(kt, in->found, in->n_state);
		a.y = kernel_act_upload(kt, kernel_zeros(kt, in->n_y), in->n_y);
		norm.x = norm.y = a.y;
		a.norm = i == 0 ? NULL : &norm;
		kt->b->n_step_launches = 0;
		kernel_ran(kt, kt->b->ops->delta_rule(kt->b, &a), what);
		if (i == 0)
			kernel_ran(kt, kt->b->ops->gated_norm(kt->b, &norm), what);
		got[i] = kernel_act_download(kt, a.y, in->n_y);
	}
	int wrong = 0;
	kernel_same(kt, got[1], got[0], in->n_y, &wrong);
	kernel_same(kt, got[2], got[0], in->n_y, &wrong);
	kernel_ok(wrong == 0, "%s: %s with a norm: the bits of one after the other", kt->name,
		  what);
	if (kt->b->n_step_launches) /* a backend that launches kernels */
		kernel_ok(kt->b->n_step_launches ==
				  (s->n_tok == s->n_seq && !d->is_space ? 1 : 2),
			  "%s: %s with a norm: %d launches", kt->name, what,
			  kt->b->n_step_launches);
}

static void delta_case(struct kernel_test *kt, const struct delta_shape *d)
{
	struct schedule s = plan(kt, d->lives);
	struct delta_input in = delta_make(kt, d, &s);
	float *state[2], *y[2];
	for (int i = 0; i < 2; i++) {
		struct delta_rule_args a = delta_args(d, &s, in.ba);
		y[i] = kernel_zeros(kt, in.n_y);
		state[i] = memcpy(kernel_zeros(kt, in.n_state), in.found,
				  in.n_state * sizeof *in.found);
		a.qkv = in.qkv, a.decay = in.decay, a.dt_bias = in.dt_bias;
		a.state = state[i], a.y = y[i], a.skip = in.skip;
		i == 0 ? delta_rule_ref(&a) : delta_rule_plain(&a);
	}
	struct delta_rule_args on = delta_args(d, &s, UPLOAD(kt, in.ba, in.n_ba));
	on.qkv = kernel_act_upload(kt, in.qkv, in.n_qkv);
	on.decay = UPLOAD(kt, in.decay, (size_t)d->hv);
	on.dt_bias = UPLOAD(kt, in.dt_bias, in.n_bias);
	on.skip = in.skip ? UPLOAD(kt, in.skip, (size_t)d->hv) : NULL;
	on.state = UPLOAD(kt, in.found, in.n_state);
	on.first_tok = UPLOAD(kt, s.first, (size_t)s.n_seq + 1);
	on.states = states_on(kt, &s);
	on.y = kernel_act_upload(kt, kernel_zeros(kt, in.n_y), in.n_y);
	char what[100];
	snprintf(what, sizeof what, "%s T=%d B=%d Hk=%d Hv=%d K=%d V=%d%s",
		 d->is_space ? "state space" : d->by_channel ? "delta_channels" : "delta_rule",
		 s.n_tok, s.n_seq, d->hk, d->hv, d->k, d->v, d->g_min < 0 ? ", bounded" : "");
	kernel_ran(kt, kt->b->ops->delta_rule(kt->b, &on), what);
	float *got = kernel_act_download(kt, on.y, in.n_y);
	float *left = kernel_download(kt, on.state, in.n_state);
	kernel_act_compare(kt, got, y[0], y[1], (size_t)(s.n_tok * d->hv), (size_t)d->v,
			   1e-10, what);
	char of_state[120];
	snprintf(of_state, sizeof of_state, "%s, states", what);
	kernel_compare(kt, left, state[0], state[1], (size_t)(s.n_slots * d->hv),
		       (size_t)(d->v * d->k), 1e-10, of_state);
	delta_cut(kt, d, &s, &on, &in, got, left, what);
	delta_normed(kt, d, &s, &on, &in, what);
}

/* --- norm and gate ----------------------------------------------------------------- */

enum norm_kind { NORM_PLAIN, NORM_SIGMOID, NORM_GATED, NORM_SCALED, NORM_SKIPPED };

static void norm_case(struct kernel_test *kt, int32_t t, int32_t h, int32_t v,
		      int32_t groups, enum norm_kind kind)
{
	static const char *const names[] = {"", ", sigmoid", ", before the norm",
					    ", z scaled before the norm", ", z scaled, no norm"};
	bool gates_first = kind >= NORM_GATED;
	size_t n = (size_t)(t * h * v);
	int32_t dim = h / groups * v, pitch = 2 * dim + 1;
	float *x = kernel_rows(kt, (size_t)(t * h), (size_t)v, 1);
	float *z = kernel_rows(kt, (size_t)t, (size_t)(groups * pitch), 1);
	size_t n_weight = (size_t)(gates_first ? h * v : v);
	float *weight = kernel_rows(kt, 1, n_weight, 1), *out[2];
	kernel_act_round(kt, x, n, 1000);
	kernel_act_round(kt, z, (size_t)(t * groups * pitch), 30);
	struct gated_norm_args a = {t, h, v, 1e-6f, x,
				    {z + 1, groups * pitch, groups, dim, pitch}, weight,
				    NULL, gates_first, kind == NORM_SIGMOID,
				    kind == NORM_SKIPPED, kind >= NORM_SCALED ? 0.45f : 0};
	for (int i = 0; i < 2; i++) {
		a.y = out[i] = kernel_zeros(kt, n);
		i == 0 ? gated_norm_ref(&a) : gated_norm_plain(&a);
	}
	const char *z_on = kernel_act_upload(kt, z, (size_t)(t * groups * pitch));
	a.x = a.y = kernel_act_upload(kt, x, n);
	a.z.p = z_on + dtype_bytes(kt->b->act_type);
	a.weight = UPLOAD(kt, weight, n_weight);
	char what[100];
	snprintf(what, sizeof what, "gated_norm T=%d H=%d V=%d, z in %d%s", t, h, v, groups,
		 names[kind]);
	kernel_ran(kt, kt->b->ops->gated_norm(kt->b, &a), what);
	kernel_act_compare(kt, kernel_act_download(kt, a.y, n), out[0], out[1],
			   (size_t)(t * h), (size_t)v, 1e-12, what);
}

static void gate_case(struct kernel_test *kt, int32_t t, int32_t h, int32_t k)
{
	size_t n = (size_t)(t * h * k);
	float *y = kernel_rows(kt, (size_t)t, (size_t)(h * k), 1), *out[2];
	float *gate = kernel_rows(kt, (size_t)t, (size_t)(h * 2 * k), 1);
	kernel_act_round(kt, y, n, 1000);
	kernel_act_round(kt, gate, 2 * n, 30);
	struct sigmoid_gate_args a = {.n_tok = t, .dim = h * k, .span = 1,
				      .gate = {gate + k, h * 2 * k, h, k, 2 * k}};
	for (int i = 0; i < 2; i++) {
		a.y = out[i] = memcpy(kernel_zeros(kt, n), y, n * sizeof *y);
		i == 0 ? sigmoid_gate_ref(&a) : sigmoid_gate_plain(&a);
	}
	const char *gate_on = kernel_act_upload(kt, gate, 2 * n);
	a.gate.p = gate_on + (size_t)k * dtype_bytes(kt->b->act_type);
	a.y = kernel_act_upload(kt, y, n);
	char what[100];
	snprintf(what, sizeof what, "sigmoid_gate T=%d H=%d K=%d", t, h, k);
	kernel_ran(kt, kt->b->ops->sigmoid_gate(kt->b, &a), what);
	kernel_act_compare(kt, kernel_act_download(kt, a.y, n), out[0], out[1], (size_t)t,
			   (size_t)(h * k), 1e-12, what);
}

/* A gate a head, or one a channel, beside other outputs of a projection. */
static void span_case(struct kernel_test *kt, int32_t t, int32_t h, int32_t k, int32_t span,
		      bool is_softplus)
{
	int32_t dim = h * k, n_gates = dim / span, row = n_gates + 3;
	size_t n = (size_t)(t * dim), n_gate = (size_t)(t * row);
	float *y = kernel_rows(kt, (size_t)t, (size_t)dim, 1), *out[2];
	float *gate = kernel_rows(kt, (size_t)t, (size_t)row, 1);
	kernel_act_round(kt, y, n, 1000);
	kernel_act_round(kt, gate, n_gate, 30);
	struct sigmoid_gate_args a = {.n_tok = t, .dim = dim, .span = span,
				      .gate = {gate + 3, row, 1, n_gates, n_gates},
				      .is_softplus = is_softplus};
	for (int i = 0; i < 2; i++) {
		a.y = out[i] = memcpy(kernel_zeros(kt, n), y, n * sizeof *y);
		i == 0 ? sigmoid_gate_ref(&a) : sigmoid_gate_plain(&a);
	}
	const char *gate_on = kernel_act_upload(kt, gate, n_gate);
	a.gate.p = gate_on + 3 * dtype_bytes(kt->b->act_type);
	a.y = kernel_act_upload(kt, y, n);
	char what[100];
	snprintf(what, sizeof what, "sigmoid_gate T=%d H=%d K=%d, a gate for %d%s", t, h, k, span,
		 is_softplus ? ", softplus" : "");
	kernel_ran(kt, kt->b->ops->sigmoid_gate(kt->b, &a), what);
	kernel_act_compare(kt, kernel_act_download(kt, a.y, n), out[0], out[1], (size_t)t,
			   (size_t)dim, 1e-12, what);
}

void case_delta(struct kernel_test *kt)
{
	for (size_t i = 0; i < ARRAY_LEN(convs); i++) {
		if (!kernel_takes(kt))
			continue;
		conv_case(kt, &convs[i], 0);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
		if (!kernel_takes(kt))
			continue;
		conv_case(kt, &sums[i].conv, sums[i].n_sums);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(besides); i++) {
		if (!kernel_takes(kt))
			continue;
		beside_case(kt, &besides[i]);
		kernel_test_reset(kt);
	}
	for (size_t i = 0; i < ARRAY_LEN(deltas); i++) {
		if (!kernel_takes(kt))
			continue;
		delta_case(kt, &deltas[i]);
		kernel_test_reset(kt);
	}
	norm_case(kt, 1, 32, 128, 16, NORM_PLAIN);
	norm_case(kt, 5, 4, 30, 1, NORM_PLAIN);
	norm_case(kt, 70, 6, 64, 3, NORM_PLAIN);
	norm_case(kt, 3, 2, 96, 1, NORM_GATED);
	norm_case(kt, 2, 1, 1500, 1, NORM_GATED);
	norm_case(kt, 5, 4, 30, 1, NORM_SIGMOID);
	norm_case(kt, 3, 6, 64, 6, NORM_SIGMOID);
	norm_case(kt, 5, 3, 20, 3, NORM_GATED);
	norm_case(kt, 45, 7, 37, 7, NORM_GATED);
	norm_case(kt, 3, 2, 96, 1, NORM_SCALED);
	norm_case(kt, 5, 3, 20, 3, NORM_SKIPPED);
	gate_case(kt, 1, 16, 256);
	gate_case(kt, 7, 3, 30);
	span_case(kt, 1, 6, 128, 128, true);
	span_case(kt, 5, 3, 30, 30, false);
	span_case(kt, 3, 4, 20, 1, true);
}
