/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "model/formats/blocks.h"

#include "tests/kernel/plain_begin.h"
#define lora_add_ref lora_add_plain
#include "kernels/ops/lora_add_ref.c"
#undef lora_add_ref
#include "tests/kernel/plain_end.h"

enum { T = 7, MANY = 3 * T, OUTS = 3, ADAPTERS = 3 };
/* Row 1 of the inputs is zero; rows 0 and 6 have no adapter. */
static const int32_t adapter[MANY] = {-1, 0, 1, 2, 0, 1, -1, -1, 0, 1, 2, 0, 1, -1,
				      -1, 0, 1, 2, 0, 1, -1};

/* Noise without extremes, which would hide what other rows of A give. */
static float *noise(struct kernel_test *kt, size_t n, float scale)
{
	float *x = kernel_zeros(kt, n);
	for (size_t i = 0; i < n; i++)
		x[i] = scale * kernel_noise(kt);
	return x;
}

/* A matrix of n numbers, rounded to the type. */
static const void *matrix(struct kernel_test *kt, float *x, size_t n, enum lora_type type)
{
	uint16_t *h = arena_alloc(&kt->arena, n * sizeof *h);
	if (type == LORA_F32)
		return x;
	for (size_t i = 0; i < n; i++)
		if (type == LORA_F16)
			h[i] = blocks_to_f16(x[i]);
		else
			memcpy(&h[i], (const char *)&x[i] + 2, sizeof h[i]);
	return h;
}

/* Adapters of ranks rank[], for an output of n from k inputs. The last one leaves the output as it
 * is. on: the same on the device. */
static const struct lora_part *make_parts(struct kernel_test *kt, const int32_t rank[ADAPTERS],
					  enum lora_type type, int32_t n, int32_t k,
					  const struct lora_part **on)
{
	struct lora_part *host = arena_alloc(&kt->arena, ADAPTERS * sizeof *host);
	struct lora_part device[ADAPTERS];
	for (int i = 0; i < ADAPTERS; i++) {
		size_t r = (size_t)rank[i], n_a = r * (size_t)k, n_b = r * (size_t)n;
		size_t bytes = type == LORA_F32 ? sizeof(float) : sizeof(uint16_t);
		host[i] = (struct lora_part){.rank = rank[i], .scale = 0.5f + (float)i,
					     .type = (int32_t)type};
		device[i] = host[i];
		if (!r)
			continue;
		host[i].a = matrix(kt, noise(kt, n_a, 1 / sqrtf((float)k)), n_a, type);
		host[i].b = matrix(kt, noise(kt, n_b, 1 / sqrtf((float)r)), n_b, type);
		device[i].a = kernel_upload(kt, host[i].a, n_a * bytes);
		device[i].b = kernel_upload(kt, host[i].b, n_b * bytes);
	}
	*on = kernel_upload(kt, device, sizeof device);
	return host;
}

static const float *download(struct kernel_test *kt, const void *y, size_t n, bool is_act)
{
	return is_act ? kernel_act_download(kt, y, n) : kernel_download(kt, y, n);
}

/* Each row of output o computed alone, from the same y, has the bits of `got`. */
static void compare_alone(struct kernel_test *kt, const struct lora_add_args *on, int o,
			  const float *y, const float *got, const char *what)
{
	size_t row = (size_t)on->out[o].n, act = dtype_bytes(kt->b->act_type);
	bool is_act = !on->out[o].is_f32;
	int n_wrong = 0;
	for (size_t t = 0; t < (size_t)on->n_tok && !kt->is_once; t++) {
		struct lora_add_args one = *on;
		one.n_tok = one.n_out = 1;
		one.x = (const char *)on->x + t * (size_t)on->n_in * act;
		one.adapter = on->adapter + t;
		one.scale = on->scale + t;
		one.out[0] = on->out[o];
		one.out[0].y = is_act ? kernel_act_upload(kt, y + t * row, row)
				      : UPLOAD(kt, y + t * row, row);
		kernel_ran(kt, kt->b->ops->lora_add(kt->b, &one), what);
		kernel_same(kt, download(kt, one.out[0].y, row, is_act), got + t * row, row,
			    &n_wrong);
	}
	kernel_ok(n_wrong == 0, "%s: %s: output %d: each row alone has the same bits", kt->name,
		  what, o);
}

/* The first output is an activation, as of gate and up; the others are f32, as of q_wide and the
 * residual stream. lacks_second: no adapter changes the second, and the third is new. */
static void one_case(struct kernel_test *kt, enum lora_type type, int32_t n_tok, int32_t k,
		     const int32_t n[OUTS], const int32_t rank[ADAPTERS], bool lacks_second)
{
	size_t rows = (size_t)n_tok;
	float *x = kernel_rows(kt, n_tok, (size_t)k, 1), *scale = noise(kt, rows, 1);
	float *y[OUTS], *ref[OUTS], *plain[OUTS];
	int32_t most = MAX(rank[0], rank[1]);
	float *low = kernel_zeros(kt, (size_t)(n_tok * OUTS * most));
	struct lora_add_args a = {.n_tok = n_tok, .n_in = k, .x = x, .n_out = OUTS,
				  .adapter = adapter, .scale = scale, .rank = most};
	char what[80];
	kernel_act_round(kt, x, (size_t)(n_tok * k), 240); /* sums of halves: below 65504 */
	struct lora_add_args on = a;
	on.x = kernel_act_upload(kt, x, (size_t)(n_tok * k));
	on.adapter = UPLOAD(kt, adapter, rows);
	on.scale = UPLOAD(kt, scale, rows);
	on.low = UPLOAD(kt, low, (size_t)(n_tok * OUTS * most));
	for (int o = 0; o < OUTS; o++) {
		size_t all = rows * (size_t)n[o];
		bool is_act = o == 0, is_new = o == 2 && lacks_second;
		bool is_left = o == 1 && lacks_second;
		y[o] = kernel_rows(kt, n_tok, (size_t)n[o], 1);
		if (is_act)
			kernel_act_round(kt, y[o], all, 240);
		ref[o] = kernel_zeros(kt, all);
		plain[o] = kernel_zeros(kt, all);
		memcpy(ref[o], y[o], all * sizeof *y[o]);
		memcpy(plain[o], y[o], all * sizeof *y[o]);
		a.out[o] = (struct lora_out){.y = ref[o], .n = n[o], .is_f32 = !is_act,
					      .is_new = is_new};
		on.out[o] = a.out[o];
		if (!is_left)
			a.out[o].part = make_parts(kt, rank, type, n[o], k, &on.out[o].part);
		on.out[o].y = is_act ? kernel_act_upload(kt, y[o], all) : UPLOAD(kt, y[o], all);
	}
	struct lora_add_args p = a;
	for (int o = 0; o < OUTS; o++)
		p.out[o].y = plain[o];
	lora_add_ref(&a);
	lora_add_plain(&p);
	static const char *const types[] = {"f32", "f16", "bf16"};
	snprintf(what, sizeof what, "lora_add %s T=%d K=%d R=%d,%d", types[type], (int)n_tok,
		 (int)k, (int)rank[0], (int)rank[1]);
	kernel_ran(kt, kt->b->ops->lora_add(kt->b, &on), what);
	for (int o = 0; o < OUTS; o++) {
		size_t all = rows * (size_t)n[o], row = (size_t)n[o];
		const float *got = download(kt, on.out[o].y, all, o == 0);
		int n_moved = 0;
		for (size_t i = 0; i < all && a.out[o].is_new; i++)
			y[o][i] = -0.f;
		for (size_t t = 0; t < rows; t++)
			if (adapter[t] < 0 || !rank[adapter[t]] || !a.out[o].part)
				n_moved += memcmp(got + t * row, y[o] + t * row,
						  row * sizeof *got) != 0;
		kernel_ok(n_moved == 0, "%s: %s: output %d: rows without an adapter keep their "
			  "bits", kt->name, what, o);
		if (o == 0)
			kernel_act_compare(kt, got, ref[o], plain[o], rows, row, 1e-12, what);
		else
			kernel_compare(kt, got, ref[o], plain[o], rows, row, 1e-12, what);
		compare_alone(kt, &on, o, y[o], got, what);
	}
	kernel_test_reset(kt);
}

/* Heads of head_linear: A of each is some columns of a part, or B some rows. Rows of x and y are
 * wider than what is read and written, and what lies beside it stays. */
static void heads_case(struct kernel_test *kt, enum lora_type type, bool is_transposed, int32_t k,
		       int32_t n)
{
	enum { H = 3, X_MORE = 4, Y_MORE = 5 };
	static const int32_t rank[ADAPTERS] = {6, 5, 0};
	struct lora_heads heads = {.n = H, .x_pitch = k + X_MORE, .y_pitch = n + Y_MORE,
				   .a_step = is_transposed ? k : 0,
				   .b_step = is_transposed ? 0 : n};
	size_t n_x = (size_t)(T * H * heads.x_pitch), n_y = (size_t)(T * H * heads.y_pitch);
	float *x = kernel_rows(kt, T * H, (size_t)heads.x_pitch, 1), *scale = noise(kt, T, 1);
	float *y = kernel_rows(kt, T * H, (size_t)heads.y_pitch, 1);
	float *ref = kernel_zeros(kt, n_y), *plain = kernel_zeros(kt, n_y);
	float *low = kernel_zeros(kt, (size_t)(T * H * rank[0]));
	struct lora_add_args a = {.n_tok = T, .n_in = k, .x = x, .heads = heads, .n_out = 1,
				  .adapter = adapter, .scale = scale, .rank = rank[0]};
	char what[80];
	kernel_act_round(kt, x, n_x, 240);
	kernel_act_round(kt, y, n_y, 240);
	memcpy(ref, y, n_y * sizeof *y);
	memcpy(plain, y, n_y * sizeof *y);
	struct lora_add_args on = a;
	on.x = kernel_act_upload(kt, x, n_x);
	on.adapter = UPLOAD(kt, adapter, T);
	on.scale = UPLOAD(kt, scale, T);
	on.low = UPLOAD(kt, low, (size_t)(T * H * rank[0]));
	a.out[0] = (struct lora_out){.y = ref, .n = n};
	on.out[0] = (struct lora_out){.y = kernel_act_upload(kt, y, n_y), .n = n};
	a.out[0].part = make_parts(kt, rank, type, lora_add_rows(&a, &a.out[0]),
				   lora_add_columns(&a), &on.out[0].part);
	struct lora_add_args p = a;
	p.out[0].y = plain;
	lora_add_ref(&a);
	lora_add_plain(&p);
	snprintf(what, sizeof what, "lora_add of heads, type %d K=%d N=%d%s", (int)type, (int)k,
		 (int)n, is_transposed ? ", transposed" : "");
	kernel_ran(kt, kt->b->ops->lora_add(kt->b, &on), what);
	const float *got = kernel_act_download(kt, on.out[0].y, n_y);
	int n_moved = 0;
	for (size_t row = 0; row < T * H; row++) {
		size_t at = row * (size_t)heads.y_pitch, i = 0;
		int32_t of = adapter[row / H];
		size_t kept = of < 0 || !rank[of] ? 0 : (size_t)n;
		for (i = kept; i < (size_t)heads.y_pitch; i++)
			n_moved += memcmp(&got[at + i], &y[at + i], sizeof *y) != 0;
	}
	kernel_ok(n_moved == 0, "%s: %s: what is not the adapters' keeps its bits", kt->name, what);
	kernel_act_compare(kt, got, ref, plain, T * H, (size_t)heads.y_pitch, 1e-12, what);
	kernel_test_reset(kt);
}

void case_lora(struct kernel_test *kt)
{
	/* Whole workgroups and rests of each dimension; many tokens have the bits of one. */
	for (enum lora_type type = LORA_F32; type <= LORA_BF16; type++) {
		one_case(kt, type, T, 264, (const int32_t[]){300, 70, 515},
			 (const int32_t[]){16, 5, 0}, false);
		one_case(kt, type, T, 64, (const int32_t[]){256, 64, 32},
			 (const int32_t[]){1, 35, 0}, true);
		one_case(kt, type, T, 37, (const int32_t[]){1, 257, 3}, (const int32_t[]){3, 9, 0},
			 false);
		one_case(kt, type, MANY, 36, (const int32_t[]){5, 515, 33},
			 (const int32_t[]){19, 4, 0}, type == LORA_BF16);
		for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
			heads_case(kt, type, is_transposed, 24, 300);
			heads_case(kt, type, is_transposed, 261, 13);
		}
	}
}
