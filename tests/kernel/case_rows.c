/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that only move numbers: the result is exactly the reference's. And the cap of
 * logits, element by element.
 */
#include "tests/kernel/kernel_test.h"

#include "tests/kernel/plain_begin.h"
#define logits_cap_ref logits_cap_plain
#include "kernels/ops/logits_cap_ref.c"
#undef logits_cap_ref
#include "tests/kernel/plain_end.h"

static void test_embed(struct kernel_test *kt, struct weight_kind kind, float scale)
{
	enum { V = 11, T = 7 };
	const int D = quant_block(kind.quant) || kind.quant == QUANT_MXFP4 ? 256
		      : kind.quant == QUANT_NVFP4			   ? 272
										   : 264;
	static const int32_t tokens[T] = {0, 10, 1, 2, 2, 7, 5};
	struct weight table = kernel_weight(kt, kind, V, D);
	float *ref = kernel_zeros(kt, (size_t)(T * D));
	embed_rows_ref(&(struct embed_rows_args){T, &table, tokens, ref, scale});
	struct weight table_on = kernel_upload_weight(kt, &table);
	struct embed_rows_args on = {T, &table_on, UPLOAD(kt, tokens, T),
				     UPLOAD(kt, kernel_zeros(kt, (size_t)(T * D)),
					    (size_t)(T * D)), scale};
	kernel_ran(kt, kt->b->ops->embed_rows(kt->b, &on), "embed_rows");
	const float *got = kernel_download(kt, on.x, (size_t)(T * D));
	/* Only nvfp4 has two scales to multiply, in either order. */
	bool is_nvfp4 = kind.quant == QUANT_NVFP4 || kind.quant == QUANT_NVFP4_BLOCK;
	float slack = is_nvfp4 ? 0x1p-22f : 0;
	int wrong = 0;
	for (int i = 0; i < T * D; i++)
		wrong += !(fabsf(got[i] - ref[i]) <= slack * fabsf(ref[i]));
	kernel_ok(wrong == 0, "%s: embed_rows %s", kt->name, kernel_kind_name(kind));
}

static void test_gather(struct kernel_test *kt)
{
	enum { T = 5, D = 37, R = 4 };
	static const int32_t rows[R] = {4, 0, 3, 3};
	float *x = kernel_rows(kt, T, D, 1), *ref = kernel_zeros(kt, R * D);
	gather_rows_ref(&(struct gather_rows_args){R, D, x, rows, ref});
	struct gather_rows_args on = {R, D, UPLOAD(kt, x, T * D), UPLOAD(kt, rows, R),
				      UPLOAD(kt, kernel_zeros(kt, R * D), R * D)};
	kernel_ran(kt, kt->b->ops->gather_rows(kt->b, &on), "gather_rows");
	kernel_ok(memcmp(kernel_download(kt, on.y, R * D), ref, R * D * sizeof *ref) == 0,
	   "%s: gather_rows", kt->name);
}

static void test_copy_words(struct kernel_test *kt)
{
	enum { N = 1037 };
	int32_t *x = kernel_ints(kt, N), *ref = kernel_ints(kt, N + 1), *shared;
	for (int i = 0; i < N; i++)
		x[i] = (int32_t)kernel_random(kt);
	copy_words_ref(&(struct copy_words_args){N, x, ref});
	kernel_ran(kt, kt->b->ops->alloc_shared(kt->b, (N + 1) * sizeof *x, (void **)&shared),
		   "alloc_shared");
	memcpy(shared, x, N * sizeof *x);
	/* To the device, and from there to what the host reads. */
	int32_t *on = UPLOAD(kt, kernel_ints(kt, N), N);
	struct copy_words_args up = {N, shared, on}, down = {N, on, shared};
	kernel_ran(kt, kt->b->ops->copy_words(kt->b, &up), "copy_words");
	bool is_up = memcmp(kernel_download(kt, on, N), ref, N * sizeof *ref) == 0;
	memset(shared, 0, N * sizeof *shared);
	kernel_ran(kt, kt->b->ops->copy_words(kt->b, &down), "copy_words");
	kernel_ran(kt, kt->b->ops->sync(kt->b, NULL), "sync");
	kernel_ok(is_up && memcmp(shared, ref, (N + 1) * sizeof *ref) == 0,
		  "%s: copy_words from shared memory and to it", kt->name);
	kt->b->ops->free_shared(kt->b, shared);
}

/* All words up to the last, and no more. */
static void test_fill_words(struct kernel_test *kt)
{
	enum { N = 1037 };
	int32_t *x = kernel_ints(kt, N + 1);
	for (int i = 0; i <= N; i++)
		x[i] = (int32_t)kernel_random(kt);
	int32_t *on = UPLOAD(kt, x, N + 1);
	fill_words_ref(&(struct fill_words_args){N, 0x40490fdb, x});
	kernel_ran(kt, kt->b->ops->fill_words(kt->b, &(struct fill_words_args){N, 0x40490fdb, on}),
		   "fill_words");
	kernel_ok(memcmp(kernel_download(kt, on, N + 1), x, (N + 1) * sizeof *x) == 0,
		  "%s: fill_words", kt->name);
}

/* Bits are the reference's: each rounds to f32, and once more to the type of activations. */
static void test_scale_rows(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t n = (size_t)t * (size_t)d;
	float *x = kernel_zeros(kt, n), *ref = kernel_zeros(kt, n);
	float *scale = kernel_rows(kt, 1, (size_t)t, 1);
	for (size_t i = 0; i < n; i++)
		x[i] = kernel_noise(kt);
	kernel_act_round(kt, x, n, 6e4f);
	scale_rows_ref(&(struct scale_rows_args){t, d, scale, x, ref});
	kernel_act_round(kt, ref, n, 6e4f);
	struct scale_rows_args on = {t, d, UPLOAD(kt, scale, t), kernel_act_upload(kt, x, n), NULL};
	on.y = (void *)(uintptr_t)on.x;
	kernel_ran(kt, kt->b->ops->scale_rows(kt->b, &on), "scale_rows");
	kernel_ok(memcmp(kernel_act_download(kt, on.y, n), ref, n * sizeof *ref) == 0,
		  "%s: scale_rows T=%d D=%d, in place", kt->name, t, d);
}

static void test_to_act(struct kernel_test *kt, int32_t t, int32_t d)
{
	size_t n = (size_t)t * (size_t)d;
	float *x = kernel_zeros(kt, n), *ref = kernel_zeros(kt, n);
	float *zeros = kernel_zeros(kt, n);
	for (size_t i = 0; i < n; i++)
		x[i] = kernel_noise(kt) * (i % 3 ? 1 : 3e-6f);
	to_act_ref(&(struct to_act_args){t, d, x, ref});
	kernel_act_round(kt, ref, n, 6e4f);
	struct to_act_args on = {t, d, UPLOAD(kt, x, n), kernel_act_upload(kt, zeros, n)};
	kernel_ran(kt, kt->b->ops->to_act(kt->b, &on), "to_act");
	kernel_ok(memcmp(kernel_act_download(kt, on.y, n), ref, n * sizeof *ref) == 0,
		  "%s: to_act T=%d D=%d", kt->name, t, d);
}

/* Parts of `bytes` bytes and of half as many, in two arrays with room between; three of five
 * things are packed, in another order, and put back into other arrays. */
static void test_move_pieces(struct kernel_test *kt, size_t bytes)
{
	enum { HAS = 5, N = 3, GAP = 48 };
	static const int32_t at[N] = {4, 0, 3};
	size_t half = bytes / 2, second = HAS * bytes + GAP, all = second + HAS * half;
	size_t words = all / 4 + 1, thing = bytes + half, packed = N * thing / 4 + 1;
	const struct move_piece piece[] = {{second, half, 0}, {0, bytes, half}};
	int32_t *from = kernel_ints(kt, words), *to = kernel_ints(kt, words);
	int32_t *block = kernel_ints(kt, packed);
	for (size_t i = 0; i < words; i++)
		from[i] = (int32_t)kernel_random(kt);
	struct move_pieces_args a = {N, 2, false, (char *)from, piece, at, (char *)block, thing};
	struct move_pieces_args on = a;
	on.piece = kernel_upload(kt, piece, sizeof piece);
	on.at = UPLOAD(kt, at, N);
	on.memory = (char *)UPLOAD(kt, from, words);
	on.block = (char *)UPLOAD(kt, block, packed);
	move_pieces_ref(&a);
	kernel_ran(kt, kt->b->ops->move_pieces(kt->b, &on), "move_pieces");
	kernel_ok(memcmp(kernel_download(kt, (float *)(void *)on.block, packed), block,
			 packed * sizeof *block) == 0, "%s: move_pieces of %zu bytes", kt->name,
		  bytes);
	on.memory = (char *)UPLOAD(kt, to, words);
	a.memory = (char *)to;
	a.is_load = on.is_load = true;
	move_pieces_ref(&a);
	kernel_ran(kt, kt->b->ops->move_pieces(kt->b, &on), "move_pieces");
	kernel_ok(memcmp(kernel_download(kt, (float *)(void *)on.memory, words), to,
			 words * sizeof *to) == 0, "%s: and back", kt->name);
	kernel_ok(memcmp((char *)to + 3 * bytes, (char *)from + 3 * bytes, 2 * bytes) == 0 &&
		  memcmp((char *)to + second, (char *)from + second, half) == 0,
		  "the reference brings each thing back to its place");
}

static void test_kv_copy(struct kernel_test *kt, int32_t K)
{
	enum { PAGES = 4, G = 2, P = 3 };
	size_t N = (size_t)(PAGES * G * P * K);
	float *k = kernel_rows(kt, 1, N, 1), *v = kernel_rows(kt, 1, N, 1);
	struct kv_copy_args a = {G, K, 3, 1, {.k = k, .v = v, .type = DTYPE_F32, .page_size = P}};
	struct kv_copy_args on = a;
	kernel_kv_round(kt, k, N, 6e4f);
	kernel_kv_round(kt, v, N, 6e4f);
	on.kv.type = kt->b->kv_type;
	on.kv.k = kernel_kv_upload(kt, k, N);
	on.kv.v = kernel_kv_upload(kt, v, N);
	kernel_ran(kt, kt->b->ops->kv_copy(kt->b, &on), "kv_copy");
	kv_copy_ref(&a);
	kernel_ok(memcmp(kernel_kv_download(kt, on.kv.k, N), k, N * sizeof *k) == 0 &&
	   memcmp(kernel_kv_download(kt, on.kv.v, N), v, N * sizeof *v) == 0,
	   "%s: kv_copy K=%d", kt->name, K);
	kernel_ok(memcmp(k + 3 * G * P * K, k + G * P * K, N / PAGES * sizeof *k) == 0,
	   "the reference copies page 1 to page 3");
}

/* Of small ones each keeps its digits, and none leaves the cap. */
static void test_cap(struct kernel_test *kt, int32_t v)
{
	enum { R = 3 };
	size_t n = R * (size_t)v;
	float *x = kernel_rows(kt, R, (size_t)v, 20), *ref = kernel_zeros(kt, n);
	float *plain = kernel_zeros(kt, n);
	for (int32_t i = 0; i < v; i++)
		x[i] *= powf(10, -(float)(i % 7));
	memcpy(ref, x, n * sizeof *x);
	memcpy(plain, x, n * sizeof *x);
	struct logits_cap_args a = {R, v, 30, ref}, p = {R, v, 30, plain}, on = a;
	on.x = UPLOAD(kt, x, n);
	logits_cap_ref(&a);
	logits_cap_plain(&p);
	kernel_ran(kt, kt->b->ops->logits_cap(kt->b, &on), "logits_cap");
	const float *got = kernel_download(kt, on.x, n);
	double worst = 0;
	for (size_t i = 0; i < n; i++)
		worst = worse_of(worst, fabs((double)got[i] - ref[i]) /
						(fabs((double)ref[i]) + 1e-30));
	kernel_ok(worst < 2e-6, "%s: logits_cap V=%d: largest relative error %.1e", kt->name,
		  v, worst);
	kernel_compare(kt, got, ref, plain, R, (size_t)v, 1e-12, "logits_cap");
}

void case_rows(struct kernel_test *kt)
{
	static const struct weight_kind kinds[] = {
		{.quant = QUANT_F32, .more = KIND_EXTREMES},
		{.quant = QUANT_F16, .more = KIND_EXTREMES},
		{.quant = QUANT_BF16, .more = KIND_EXTREMES},
		{QUANT_INT4, 8, true, DTYPE_F16, KIND_EXTREMES},
		{QUANT_INT4, 88, false, DTYPE_BF16, KIND_EXTREMES},
		{QUANT_INT8, 88, true, DTYPE_BF16, 0},
		{QUANT_FP8, 40, false, DTYPE_BF16, 0},
		{QUANT_NVFP4, 16, false, DTYPE_F32, 0},
		{QUANT_MXFP4, 32, false, DTYPE_F32, 0}};
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		test_embed(kt, kinds[i], 1);
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		if (quant_block(q))
			test_embed(kt, (struct weight_kind){.quant = q}, 7.0625f);
	test_gather(kt);
	test_copy_words(kt);
	test_fill_words(kt);
	test_scale_rows(kt, 3, 515);
	test_to_act(kt, 3, 515);
	test_move_pieces(kt, 9216); /* several turns of a workgroup */
	test_move_pieces(kt, 12);
	test_cap(kt, 515);
	test_kv_copy(kt, 10);
	test_kv_copy(kt, 64);
	test_kv_copy(kt, 1031); /* several workgroups, and a rest */
	test_kv_copy(kt, 1032);
}
