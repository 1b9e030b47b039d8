/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include "model/formats/blocks.h"

#include "tests/kernel/plain_begin.h"
#define lora_add_ref lora_add_plain
#include "kernels/ops/lora_add_ref.c"
#undef lora_add_ref
#include "tests/kernel/plain_end.h"

enum { T = 7, OUTS = 3, ADAPTERS = 3 };
/* Row 1 of the inputs is zero; rows 0 and 6 have no adapter. */
static const int32_t adapter[T] = {-1, 0, 1, 2, 0, 1, -1};

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
	for (size_t t = 0; t < T && !kt->is_once; t++) {
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
 * residual stream. */
static void one_case(struct kernel_test *kt, enum lora_type type, int32_t k,
		     const int32_t n[OUTS], const int32_t rank[ADAPTERS], bool lacks_second)
{
	float *x = kernel_rows(kt, T, (size_t)k, 1), *scale = noise(kt, T, 1);
	float *y[OUTS], *ref[OUTS], *plain[OUTS];
	int32_t most = MAX(rank[0], rank[1]);
	float *low = kernel_zeros(kt, (size_t)(T * OUTS * most));
	struct lora_add_args a = {.n_tok = T, .n_in = k, .x = x, .n_out = OUTS,
				  .adapter = adapter, .scale = scale, .rank = most};
	char what[80];
	kernel_act_round(kt, x, (size_t)(T * k), 240); /* sums of halves: below 65504 */
	struct lora_add_args on = a;
	on.x = kernel_act_upload(kt, x, (size_t)(T * k));
	on.adapter = UPLOAD(kt, adapter, T);
	on.scale = UPLOAD(kt, scale, T);
	on.low = UPLOAD(kt, low, (size_t)(T * OUTS * most));
	for (int o = 0; o < OUTS; o++) {
		size_t all = (size_t)T * (size_t)n[o];
		bool is_act = o == 0, is_left = o == 1 && lacks_second;
		y[o] = kernel_rows(kt, T, (size_t)n[o], 1);
		if (is_act)
			kernel_act_round(kt, y[o], all, 240);
		ref[o] = kernel_zeros(kt, all);
		plain[o] = kernel_zeros(kt, all);
		memcpy(ref[o], y[o], all * sizeof *y[o]);
		memcpy(plain[o], y[o], all * sizeof *y[o]);
		a.out[o] = (struct lora_out){.y = ref[o], .n = n[o], .is_f32 = !is_act};
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
	snprintf(what, sizeof what, "lora_add %s K=%d R=%d,%d", types[type], (int)k, (int)rank[0],
		 (int)rank[1]);
	kernel_ran(kt, kt->b->ops->lora_add(kt->b, &on), what);
	for (int o = 0; o < OUTS; o++) {
		size_t all = (size_t)T * (size_t)n[o], row = (size_t)n[o];
		const float *got = download(kt, on.out[o].y, all, o == 0);
		int n_moved = 0;
		for (size_t t = 0; t < T; t++)
			if (adapter[t] < 0 || !rank[adapter[t]] || !a.out[o].part)
				n_moved += memcmp(got + t * row, y[o] + t * row,
						  row * sizeof *got) != 0;
		kernel_ok(n_moved == 0, "%s: %s: output %d: rows without an adapter keep their "
			  "bits", kt->name, what, o);
		if (o == 0)
			kernel_act_compare(kt, got, ref[o], plain[o], T, row, 1e-12, what);
		else
			kernel_compare(kt, got, ref[o], plain[o], T, row, 1e-12, what);
		compare_alone(kt, &on, o, y[o], got, what);
	}
	kernel_test_reset(kt);
}

void case_lora(struct kernel_test *kt)
{
	/* Whole workgroups and rests of each dimension. */
	for (enum lora_type type = LORA_F32; type <= LORA_BF16; type++) {
		one_case(kt, type, 264, (const int32_t[]){300, 70, 515},
			 (const int32_t[]){16, 5, 0}, false);
		one_case(kt, type, 64, (const int32_t[]){256, 64, 32}, (const int32_t[]){1, 64, 0},
			 true);
		one_case(kt, type, 37, (const int32_t[]){1, 257, 3}, (const int32_t[]){3, 9, 0},
			 false);
	}
}
