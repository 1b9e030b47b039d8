/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases for each kernel of linear and of experts in each way that it can be called: K with
 * whole turns of its loop and with a rest, rows beyond a workgroup's, what is added before
 * and how the result is stored. The lists of the other cases ask what is right; these reach
 * the code that is compiled for each format and number of tokens. HALOD_CHECK=every=N takes one
 * of N.
 */
#include "tests/kernel/cases.h"

#include "kernels/linear/linear_int4.h"

/* How a result leaves: float32 with a bias, added to what is there, an activation. */
enum { N_STORES = 3 };

static void linear(struct kernel_test *kt, struct linear_case c, int store)
{
	if (!kernel_takes(kt))
		return;
	c.has_bias = store == 0;
	c.adds = store == 1;
	c.to_act = store == 2;
	kt->is_once = true;
	kernel_linear_case(kt, &c);
	kernel_test_reset(kt);
}

static struct weight_kind int4(int32_t group, bool is_asymmetric, int i)
{
	enum dtype type = i % 2 ? DTYPE_F16 : DTYPE_BF16;
	return (struct weight_kind){QUANT_INT4, group, is_asymmetric, type, 0};
}

/* As the kernels want a format after INT4 that lies apart or in blocks; any i. */
static struct weight_kind packed(enum quant q, int i)
{
	bool has_zero = q == QUANT_INT8 && i == 1;
	enum dtype type = i == 0 ? DTYPE_F32 : i == 1 ? DTYPE_F16 : DTYPE_BF16;
	return (struct weight_kind){q, i == 2 ? 0 : 32, has_zero, type, false};
}

/* Has the HIP backend kernels for it, and not for what it repacks it to? */
static bool has_kernels(enum quant q)
{
	switch (q) {
#define APART_UNITS(ident) case QUANT_##ident:
#define APART_PLAIN(ident) case QUANT_##ident:
#define APART_OWN(ident) case QUANT_##ident:
#define APART_REPACKED(ident)
#define BLOCK_UNITS(ident) case QUANT_##ident:
#define BLOCK_UNITS_MIN(ident) case QUANT_##ident:
#define BLOCK_REPACKED(ident)
#define QUANT(ident, name, bits, reader, form, scaling, units) APART_##units(ident)
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, form, scaling, units) \
	BLOCK_##units(ident)
#include "model/formats/quant.def"
#undef QUANT
#undef QUANT_BLOCK
		return true;
	default:
		return false;
	}
}

/* --- linear ----------------------------------------------------------------------- */

static void fused(struct kernel_test *kt, const struct fused_case *c)
{
	if (kernel_takes(kt))
		kernel_fused_case(kt, c);
	kernel_test_reset(kt);
}

/* A norm before: of less than a workgroup holds in registers, and of more. */
static void int4_fused(struct kernel_test *kt, bool is_asymmetric, int32_t m)
{
	struct fused_case some = {int4(32, is_asymmetric, m), m, 1152, {70, 5}, true, NULL};
	struct fused_case wide = {int4(32, is_asymmetric, m), m, 5632, {19}, false, NULL};
	fused(kt, &some);
	fused(kt, &wide);
}

/* K for m tokens: whole steps of 32 lanes and a rest. From three tokens on LDS has no room
 * for the first, which takes two slices. */
static void int4_forms(struct kernel_test *kt, int32_t m)
{
	enum { STEP = 1024, REST = 480, MOST = LINEAR_INT4_LDS / 2 };
	int32_t steps = MOST / m / STEP;
	int32_t first = m < LINEAR_INT4_SLICED_TOK ? MIN(steps, 5) : steps + 1;
	int32_t k[N_STORES] = {first * STEP - REST, MIN(steps, 4) * STEP, 256};
	for (int i = 0; i < 2 * N_STORES; i++) {
		struct linear_case c = {int4(32, i % 2, i / 2), m, k[i / 2],
					{i / 2 ? 70 : 133, 7, i / 2 ? 0 : 3},
					false, false, false};
		linear(kt, c, i / 2);
	}
}

void forms_int4(struct kernel_test *kt)
{
	static const int32_t many[] = {9, 12, 14, LINEAR_INT4_MANY_TOK};
	for (int32_t m = 1; m <= LINEAR_INT4_MAX_TOK; m++)
		int4_forms(kt, m);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		int4_forms(kt, many[i]);
	for (int32_t m = 1; m <= FUSED_NORM_TOK; m++)
		for (int i = 0; i < 2; i++)
			int4_fused(kt, i, m);
}

/* A router behind a product of one token, in each kind of int4 and by each rule; twelve experts
 * are four groups, 41 are one, 300 are more than a wave looks at. */
void forms_route(struct kernel_test *kt)
{
	static const int32_t group[] = {32, 64, 32};
	static const enum routing_rule rule[] = {SOFTMAX, SIGMOID, SHIFTED};
	static const int32_t n_experts[] = {9, 12, 9, 300, 41};
	for (int i = 0; i < 5; i++) {
		int32_t shared = i == 4 ? 96 : 0; /* of another width */
		struct experts_case c = {int4(group[i % 3], i == 2, i), 1, 256, 128, n_experts[i],
					 3, false, shared, shared ? BF16_ROUTER : NO_ROUTER};
		if (kernel_takes(kt))
			kernel_routed_case(kt, &c, rule[i % 3]);
		kernel_test_reset(kt);
	}
}

/* Gate and up in one product, with silu behind it. */
static void tile_pairs(struct kernel_test *kt, int32_t n_tok)
{
	static const struct activation silu = {.kind = ACT_SILU};
	for (int i = 0; i < 2; i++)
		fused(kt, &(struct fused_case){int4(32, i, i), n_tok, 160, {70, 70}, i, &silu});
	for (enum quant q = QUANT_F16; q < QUANT_COUNT; q++) {
		bool is_plain = q == QUANT_F16 || q == QUANT_BF16;
		if (q == QUANT_INT4 || !has_kernels(q) || (kt->is_variant && !is_plain))
			continue;
		int32_t k = quant_block(q) > 32 ? 256 : is_plain ? 72 : 64;
		fused(kt, &(struct fused_case){packed(q, 0), 40, k, {37, 37}, true, &silu});
	}
}

void forms_tile(struct kernel_test *kt)
{
	/* More rows than the largest tile has, so that each of its rows is stored. */
	enum { T = 131 };
	static const int32_t group[] = {32, 32, 64, 0};
	for (int i = 0; i < 4 * N_STORES; i++) {
		int s = i % N_STORES, g = i / N_STORES;
		/* An odd and an even number of steps. */
		int32_t k = s ? 192 : group[g] == 64 ? 448 : 480;
		struct linear_case c = {int4(group[g], g % 2, i), T, k,
					{s ? 70 : 133, 7, s ? 0 : 9, s ? 0 : 5}, false, false,
					false};
		linear(kt, c, s);
	}
	tile_pairs(kt, T);
	for (enum quant q = QUANT_F16; q < QUANT_COUNT; q++) {
		bool is_plain = q == QUANT_F16 || q == QUANT_BF16;
		if (q == QUANT_INT4 || !has_kernels(q) || (kt->is_variant && !is_plain))
			continue;
		for (int i = 0; i < N_STORES; i++) {
			struct linear_case c = {packed(q, i), T,
						quant_block(q) > 32 ? 256 : 224 - i * 64,
						{i ? 70 : 133, 7, i ? 0 : 9, i ? 0 : 5}, false,
						false, false};
			linear(kt, c, i);
		}
	}
}

void forms_rows(struct kernel_test *kt)
{
	/* Blocks have no kernel for 16. */
	static const int32_t tokens[] = {1, 2, 4, 8, 16};
	static const int32_t k[N_STORES] = {2080, 1056, 512}, blocks[] = {2304, 1280, 256};
	for (enum quant q = QUANT_F16; q < QUANT_COUNT; q++)
		for (size_t t = 0; t < ARRAY_LEN(tokens); t++)
			for (int i = 0; has_kernels(q) && q != QUANT_INT4 && i < N_STORES; i++) {
				if (quant_block(q) && tokens[t] > 8)
					continue;
				bool in_blocks = quant_block(q) > 32;
				struct linear_case c = {packed(q, i), tokens[t],
							in_blocks ? blocks[i] : k[i],
							{i ? 37 : 115, 18, i ? 0 : 3},
							false, false, false};
				linear(kt, c, i);
			}
}

void forms_any(struct kernel_test *kt)
{
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		/* Too long for LDS; K or groups that others refuse. */
		bool is_long = quant_block(q) || q == QUANT_MXFP4;
		int32_t k = is_long ? 33024 : q == QUANT_NVFP4 ? 16 : 1031;
		struct weight_kind kind = packed(q, 1);
		kind.group = q == QUANT_INT4 ? 8 : 0;
		if (q == QUANT_INT4 || q == QUANT_INT8)
			k = 72;
		if (q == QUANT_INT8)
			kind.group = 24;
		for (int i = 0; has_kernels(q) && i < N_STORES; i++)
			linear(kt, (struct linear_case){kind, 2, k, {i == 1 ? 3 : 9},
							false, false, false}, i);
	}
}

/* --- experts ---------------------------------------------------------------------- */

static void experts(struct kernel_test *kt, struct experts_case c)
{
	if (!kernel_takes(kt))
		return;
	kt->is_once = true;
	kernel_experts_case(kt, &c);
	kernel_test_reset(kt);
}

/* With biases; with a shared expert as wide as the others; with one of another width,
 * whose router is of the same format. */
static void experts_of(struct kernel_test *kt, struct weight_kind kind, int32_t t, int i)
{
	bool in_blocks = quant_block(kind.quant) > 32;
	int32_t d = in_blocks ? 512 : i ? 96 : 544, f = in_blocks ? 256 : 96;
	struct experts_case c = {kind, t, d, f, 4, 2, i == 0, 0, NO_ROUTER};
	if (i > 0) {
		c.shared = i == 1 ? f : 2 * f;
		c.shared_router = i == 1 ? BF16_ROUTER : SAME_ROUTER;
	}
	experts(kt, c);
}

void forms_experts_tile(struct kernel_test *kt)
{
	/* Without and with zero points; so many tokens that an expert fills the largest tile. */
	for (int i = 0; i < 6; i++)
		experts_of(kt, int4(i % 3 == 1 ? 0 : 32, i >= 3, i % 3), i % 3 ? 37 : 300, i % 3);
	for (enum quant q = QUANT_F16; q < QUANT_COUNT; q++)
		for (int i = 0; has_kernels(q) && q != QUANT_INT4 && i < 3; i++)
			experts_of(kt, packed(q, i), i ? 37 : 70, i);
}

/* Formats whose experts several tokens share have kernels for one token, and others. */
static void forms_experts_shared(struct kernel_test *kt)
{
	static const enum quant formats[] = {QUANT_INT8, QUANT_FP8, QUANT_NVFP4, QUANT_MXFP4,
					     QUANT_Q4_K, QUANT_Q6_K};
	for (size_t q = 0; q < ARRAY_LEN(formats); q++)
		for (int i = 0; i < 3; i++) {
			experts_of(kt, packed(formats[q], i), 1, i);
			experts_of(kt, packed(formats[q], i), 6, i);
		}
}

void forms_experts_few(struct kernel_test *kt)
{
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		for (int i = 0; has_kernels(q) && i < 3; i++)
			experts_of(kt, q == QUANT_INT4 ? int4(32, i == 1, i) : packed(q, i),
				   2, i);
	forms_experts_shared(kt);
	kt->other = QUANT_Q4_1;
	experts(kt, (struct experts_case){packed(QUANT_Q5_0, 0), 2, 64, 32, 4, 2, false, 32,
					  NO_ROUTER});
	kt->other = 0;
	/* What has no kernel of its own: too long for LDS, or groups that others refuse. */
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		bool is_long = quant_block(q) || q == QUANT_MXFP4;
		int32_t n = quant_block(q) > 32 ? 256 : 32;
		struct weight_kind kind = packed(q, 1);
		kind.group = q == QUANT_INT8 ? 24 : 0;
		if (!has_kernels(q) || q == QUANT_INT4)
			continue;
		struct experts_case c = {kind, 1, 72, 48, 2, 1, false, 48,
						 SAME_ROUTER};
		if (q == QUANT_FP8)
			c.f = c.shared = 40;
		if (q == QUANT_NVFP4)
			c.d = c.f = c.shared = 16;
		if (is_long)
			c = (struct experts_case){kind, 1, 33024, n, 1, 1, false, 0,
						  NO_ROUTER};
		experts(kt, c);
		if (is_long) {
			c.d = n;
			c.f = 33024;
			experts(kt, c);
		} else {
			c.shared = 0;
			c.shared_router = NO_ROUTER;
			c.act = CLAMPED;
			experts(kt, c);
		}
	}
}
