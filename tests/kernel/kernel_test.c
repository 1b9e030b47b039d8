/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

#include <math.h>

#include "tests/tap.h"

int kernel_every = 1;

bool kernel_is_short(void)
{
	return tap_check("short") != NULL;
}

bool kernel_wants(enum quant q)
{
	const char *name = tap_check("quant");
	return !name || strcmp(name, quant_name(q)) == 0;
}

bool kernel_takes(struct kernel_test *kt)
{
	const char *text = tap_check("every");
	int every = MAX(text ? atoi(text) : kernel_every, kt->every);
	return kt->n_asked++ % (unsigned)MAX(every, 1) == 0;
}

void kernel_test_reset(struct kernel_test *kt)
{
	for (size_t i = 0; i < kt->n_device; i++)
		kt->b->ops->free(kt->b, kt->device[i]);
	free(kt->device);
	kt->device = NULL;
	kt->n_device = 0;
	arena_deinit(&kt->arena);
	arena_init(&kt->arena);
	kt->random = 20240229;
	kt->n_cut = 0;
}

static const uint64_t random_mul = 6364136223846793005u, random_add = 1442695040888963407u;

uint32_t kernel_random(struct kernel_test *kt)
{
	kt->random = kt->random * random_mul + random_add;
	return (uint32_t)(kt->random >> 33);
}

/* The sum of twelve uniform numbers: variance 1. Each is made of the first state, since a
 * chain of twelve waits for each of its products. */
float kernel_noise(struct kernel_test *kt)
{
	enum { N = 12 };
	static uint64_t mul[N], add[N]; /* the state after so many steps and one: mul x + add */
	for (int i = 0; !mul[N - 1] && i < N; i++) {
		mul[i] = i ? mul[i - 1] * random_mul : random_mul;
		add[i] = i ? add[i - 1] * random_mul + random_add : random_add;
	}
	uint64_t sum = 0, x = kt->random;
	for (int i = 0; i < N; i++)
		sum += (mul[i] * x + add[i]) >> 33;
	kt->random = mul[N - 1] * x + add[N - 1];
	return (float)((double)sum / 2147483648.0 - 6);
}

float *kernel_zeros(struct kernel_test *kt, size_t n)
{
	return arena_alloc(&kt->arena, n * sizeof(float));
}

int32_t *kernel_ints(struct kernel_test *kt, size_t n)
{
	return arena_alloc(&kt->arena, n * sizeof(int32_t));
}

struct kernel_pages kernel_two_seqs(struct kernel_test *kt, int32_t n_ctx, int32_t page_size)
{
	struct kernel_pages w = {.max_pages = (n_ctx + page_size - 1) / page_size,
				 .n_tok = 2 * n_ctx};
	size_t n = (size_t)w.n_tok;
	w.n_pages = 2 * w.max_pages;
	w.seq_of = kernel_ints(kt, n);
	w.position = kernel_ints(kt, n);
	w.slot = kernel_ints(kt, n);
	w.table = kernel_ints(kt, (size_t)w.n_pages);
	for (int32_t i = 0; i < w.n_pages; i++)
		w.table[i] = w.n_pages - 1 - i;
	for (int32_t t = 0; t < w.n_tok; t++) {
		w.seq_of[t] = t / n_ctx;
		w.position[t] = t % n_ctx;
		int32_t page = w.table[w.seq_of[t] * w.max_pages + w.position[t] / page_size];
		w.slot[t] = page * page_size + w.position[t] % page_size;
	}
	return w;
}

float *kernel_rope(struct kernel_test *kt, const int32_t *position, int32_t n_tok,
		   int32_t n_freq)
{
	size_t n = (size_t)n_tok * (size_t)n_freq;
	float *rope = kernel_zeros(kt, 2 * n + 1);
	for (size_t i = 0; i < n; i++) {
		double exponent = -(double)(i % (size_t)n_freq) / n_freq;
		double angle = position[i / (size_t)n_freq] * pow(1e4, exponent);
		rope[2 * i] = (float)cos(angle);
		rope[2 * i + 1] = (float)sin(angle);
	}
	return rope;
}

float *kernel_rows(struct kernel_test *kt, size_t rows, size_t cols, float scale)
{
	float *x = kernel_zeros(kt, rows * cols);
	for (size_t i = 0; i < rows * cols; i++) {
		x[i] = kernel_noise(kt) * scale * (i % 97 == 5 ? 50 : 1);
		if (i / cols == 1)
			x[i] = 0;
		if (i / cols == 2)
			x[i] *= i % 2 ? 1e4f : 1e-30f;
	}
	return x;
}

/* --- weights ------------------------------------------------------------------- */

static uint16_t half_bits(enum dtype t, float f)
{
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	if (t == DTYPE_BF16)
		return (uint16_t)(bits >> 16);
	int exponent = (int)(bits >> 23 & 255) - 112;
	uint32_t sign = bits >> 16 & 0x8000, fraction = bits >> 13 & 0x3FF;
	if (exponent <= 0) /* the subnormal of the same fraction will do */
		return (uint16_t)(sign | fraction);
	return (uint16_t)(sign | (uint32_t)MIN(exponent, 30) << 10 | fraction);
}

/* An array of n numbers of type t; every other one of [from, to) at the extremes. */
static void *numbers(struct kernel_test *kt, enum dtype t, size_t n, float scale,
		     size_t from, size_t to, bool is_positive)
{
	char *out = arena_alloc(&kt->arena, n * dtype_bytes(t));
	for (size_t i = 0; i < n; i++) {
		float f = kernel_noise(kt) * scale * (i % 97 == 5 ? 20 : 1);
		if (is_positive)
			f = fabsf(f);
		if (i >= from && i < to)
			f = i % 2 ? (t == DTYPE_F16 ? 6e4f : 1e6f) : 3e-7f;
		uint16_t half = t == DTYPE_F32 ? 0 : half_bits(t, f);
		memcpy(out + i * dtype_bytes(t),
		       t == DTYPE_F32 ? (void *)&f : (void *)&half, dtype_bytes(t));
	}
	return out;
}

static struct weight int4_weight(struct kernel_test *kt, struct weight_kind kind,
				 int32_t n, int32_t k)
{
	int32_t group = kind.group ? kind.group : k;
	size_t extreme = kind.more & KIND_EXTREMES ? 2 : (size_t)n; /* row; n: none */
	size_t words = (size_t)k / 8, groups = (size_t)(k / group);
	uint32_t *q = arena_alloc(&kt->arena, (size_t)n * words * sizeof *q);
	uint32_t *zero = arena_alloc(&kt->arena,
				     (size_t)(n + 7) / 8 * groups * sizeof *zero);
	for (size_t i = 0; i < (size_t)n * words; i++) {
		q[i] = kernel_random(kt) ^ kernel_random(kt) << 16;
		if (i / words == 1)
			q[i] = 0x88888888u;
		if (i / words == 2 && (kind.more & KIND_EXTREMES))
			q[i] = i % 2 ? 0xF0F0F0F0u : 0x0F0F0F0Fu;
	}
	for (size_t i = 0; i < (size_t)(n + 7) / 8 * groups; i++) {
		zero[i] = kernel_random(kt) ^ kernel_random(kt) << 16;
		zero[i] = (zero[i] & ~0xFF0u) | 0xF80u; /* rows 1 and 2 */
	}
	return (struct weight){
		.quant = QUANT_INT4, .n = n, .k = k, .group = group, .q = q,
		.scales = numbers(kt, kind.scale_type, (size_t)n * groups, 0.01f,
				  extreme * groups, (extreme + 1) * groups, true),
		.scale_type = kind.scale_type,
		.zero_points = kind.is_asymmetric ? zero : NULL, .name = "int4"};
}

/* The other packed formats: any bits, e4m3 without NaN; row 1 of FP8 is zero. FP8 is
 * in blocks of 24 rows, the last one smaller; in groups of 32 it is MXFP8. */
static struct weight packed_weight(struct kernel_test *kt, struct weight_kind kind,
				   int32_t n, int32_t k)
{
	int32_t group = kind.quant == QUANT_NVFP4   ? 16
			: kind.quant == QUANT_MXFP4 ? 32
			: kind.group		    ? kind.group
						    : k;
	size_t bits = (size_t)quant_bits(kind.quant);
	size_t n_q = (size_t)n * (size_t)k * bits / 8;
	size_t groups = (size_t)(k + group - 1) / (size_t)group;
	size_t n_zero = ((size_t)n * bits + 31) / 32 * groups;
	uint8_t *q = arena_alloc(&kt->arena, n_q);
	uint32_t *zero = arena_alloc(&kt->arena, n_zero * sizeof *zero);
	struct weight w = {.quant = kind.quant, .n = n, .k = k, .group = group, .q = q,
			   .name = quant_name(kind.quant)};
	for (size_t i = 0; i < n_q; i++) {
		q[i] = (uint8_t)kernel_random(kt);
		if (kind.quant == QUANT_FP8)
			q[i] = i / (size_t)k == 1    ? 0
			       : (q[i] & 127) == 127 ? 0x7E
						     : q[i];
	}
	for (size_t i = 0; i < n_zero; i++)
		zero[i] = kernel_random(kt) ^ kernel_random(kt) << 16;
	if (kind.quant == QUANT_NVFP4 || kind.quant == QUANT_MXFP4) {
		uint8_t *scales = arena_alloc(&kt->arena, (size_t)n * groups);
		bool is_mx = kind.quant == QUANT_MXFP4;
		for (size_t i = 0; i < (size_t)n * groups; i++)
			scales[i] = (uint8_t)(is_mx ? 112 + kernel_random(kt) % 12
						    : kernel_random(kt) % 0x7F);
		w.scales = scales;
		w.scale_type = is_mx ? DTYPE_F8_E8M0 : DTYPE_F8_E4M3;
		w.global_scale = 1.0 / 3000;
		return w;
	}
	w.scales = numbers(kt, kind.scale_type, (size_t)n * groups, 0.01f, 0, 0, true);
	w.scale_type = kind.scale_type;
	if (kind.quant == QUANT_FP8)
		w.group_n = group == 32 ? 1 : 24;
	else if (kind.is_asymmetric || kind.quant != QUANT_INT8)
		w.zero_points = zero;
	if (kind.quant == QUANT_GPTQ4 || kind.quant == QUANT_GPTQ8)
		w.zero_step = kind.is_asymmetric;
	return w;
}

/* Where a block has its float16 scale and minimum, -1: nowhere: a number that is written
 * there is what blocks_split finds. */
static void find_halves(enum quant q, int *d, int *m)
{
	enum { MARK = 0x3555 };
	const uint16_t mark = MARK;
	*d = *m = -1;
	for (int at = 0; at + 2 <= (int)quant_block_bytes(q); at += 2) {
		uint8_t block[512] = {0};
		struct block_parts parts = {.d = 0};
		memcpy(block + at, &mark, sizeof mark);
		blocks_split(q, block, &parts);
		*d = parts.d == MARK ? at : *d;
		*m = parts.m == MARK ? at : *m;
	}
}

/* Blocks of any bits, with scales of about 0.01 where the format has float16. */
static struct weight block_weight(struct kernel_test *kt, struct weight_kind kind,
				  int32_t n, int32_t k)
{
	int d, m;
	find_halves(kind.quant, &d, &m);
	size_t size = quant_block_bytes(kind.quant);
	size_t n_blocks = (size_t)n * (size_t)k / (size_t)quant_block(kind.quant);
	uint8_t *q = arena_alloc(&kt->arena, n_blocks * size);
	for (size_t i = 0; i < n_blocks * size; i++)
		q[i] = (uint8_t)kernel_random(kt);
	for (size_t i = 0; i < n_blocks; i++) {
		uint8_t *block = q + i * size;
		if (kind.quant == QUANT_MXFP4_BLOCK)
			block[0] = (uint8_t)(112 + block[0] % 12);
		for (int j = 0; j < 4 && kind.quant == QUANT_NVFP4_BLOCK; j++)
			block[j] %= 0x7F;
		if (kind.quant == QUANT_IQ1_M) { /* its d has four bits in each two bytes */
			block[55] = (uint8_t)(block[55] % 16 | 0x20);
			block[53] %= 16;
		}
		if (d >= 0) /* 2^-7 to 2^-6, either sign */
			block[d + 1] = block[1] % 2 ? 0x20 : 0xA1;
		if (m >= 0)
			block[m + 1] = 0x20;
	}
	return (struct weight){.quant = kind.quant, .n = n, .k = k, .q = q,
			       .group = quant_block(kind.quant), .global_scale = 1.0 / 3000,
			       .name = quant_name(kind.quant)};
}

/* Factors of w's inputs, which round no half. */
static struct weight with_factors(struct kernel_test *kt, struct weight w, int more)
{
	float *factors = kernel_zeros(kt, (size_t)w.k);
	for (int32_t i = 0; i < w.k; i++)
		factors[i] = ldexpf(1, -(i * 5 % 7 % 4));
	w.in_scale = more & KIND_FACTORS ? factors : NULL;
	return w;
}

/* Each group of w as often, in another order. */
static struct weight in_turns(struct kernel_test *kt, struct weight w, int more)
{
	int32_t *group_of = kernel_ints(kt, (size_t)w.k), n = w.k / w.group;
	for (int32_t i = 0; i < w.k; i++)
		group_of[i] = more & KIND_BACK ? n - 1 - i % n : i % n;
	w.group_of = more & (KIND_TURNS | KIND_BACK) ? group_of : NULL;
	return with_factors(kt, w, more);
}

struct weight kernel_weight(struct kernel_test *kt, struct weight_kind kind, int32_t n,
			    int32_t k)
{
	if (quant_block(kind.quant))
		return block_weight(kt, kind, n, k);
	if (quant_bits(kind.quant) <= 8)
		return in_turns(kt, kind.quant == QUANT_INT4 ? int4_weight(kt, kind, n, k)
							     : packed_weight(kt, kind, n, k),
				kind.more);
	enum dtype t = kind.quant == QUANT_F32   ? DTYPE_F32
		       : kind.quant == QUANT_F16 ? DTYPE_F16
						 : DTYPE_BF16;
	size_t extreme = kind.more & KIND_EXTREMES ? 2 : (size_t)n; /* row; n: none */
	size_t cols = (size_t)k, size = dtype_bytes(t);
	char *q = numbers(kt, t, (size_t)n * cols, 0.05f, extreme * cols,
			  (extreme + 1) * cols, false);
	if (n > 1)
		memset(q + cols * size, 0, cols * size);
	return (struct weight){.quant = kind.quant, .n = n, .k = k, .group = k, .q = q,
			       .scale_type = t, .name = "plain"};
}

const char *kernel_kind_name(struct weight_kind kind)
{
	static char name[80];
	const char *extremes = kind.more & KIND_EXTREMES ? ", extremes" : "";
	snprintf(name, sizeof name, "%s%s", quant_name(kind.quant), extremes);
	if (quant_bits(kind.quant) <= 8)
		snprintf(name, sizeof name, "%s group %d%s%s%s, %s scales%s",
			 quant_name(kind.quant), kind.group,
			 kind.more & (KIND_TURNS | KIND_BACK) ? " in turns" : "",
			 kind.more & KIND_FACTORS ? " factors" : "",
			 kind.is_asymmetric ? " asymmetric" : "",
			 dtype_name(kind.scale_type), extremes);
	return name;
}

/* --- device ---------------------------------------------------------------------- */

static void must(enum status st)
{
	if (st != OK) {
		printf("Bail out! %s\n", status_text(st));
		abort();
	}
}

void *kernel_upload(struct kernel_test *kt, const void *host, size_t n_bytes)
{
	void *p;
	must(kt->b->ops->alloc(kt->b, n_bytes, &p));
	must(kt->b->ops->upload(kt->b, p, host, n_bytes));
	kt->device = xrealloc(kt->device, (kt->n_device + 1) * sizeof *kt->device);
	kt->device[kt->n_device++] = p;
	return p;
}

struct weight kernel_upload_weight(struct kernel_test *kt, const struct weight *host)
{
	struct weight w;
	must(kt->b->ops->load_weight(kt->b, host, &w, NULL));
	return w;
}

float *kernel_download(struct kernel_test *kt, const void *device, size_t n)
{
	float *p = kernel_zeros(kt, n);
	must(kt->b->ops->download(kt->b, p, device, n * sizeof *p));
	must(kt->b->ops->sync(kt->b, NULL));
	return p;
}

/* --- activations and the cache ------------------------------------------------- */

static void round_to(enum dtype type, float *x, size_t n, float most)
{
	for (size_t i = 0; type == DTYPE_F16 && i < n; i++)
		x[i] = (float)(_Float16)(isnan(x[i]) ? x[i]
						     : fmaxf(-most, fminf(x[i], most)));
}

static void *upload_as(struct kernel_test *kt, enum dtype type, const float *x, size_t n)
{
	if (type == DTYPE_F32)
		return UPLOAD(kt, x, n);
	_Float16 *half = arena_alloc(&kt->arena, n * sizeof *half);
	for (size_t i = 0; i < n; i++)
		half[i] = (_Float16)x[i];
	return UPLOAD(kt, half, n);
}

static float *download_as(struct kernel_test *kt, enum dtype type, const void *device,
			  size_t n)
{
	if (type == DTYPE_F32)
		return kernel_download(kt, device, n);
	_Float16 *half = arena_alloc(&kt->arena, n * sizeof *half);
	must(kt->b->ops->download(kt->b, half, device, n * sizeof *half));
	must(kt->b->ops->sync(kt->b, NULL));
	float *p = kernel_zeros(kt, n);
	for (size_t i = 0; i < n; i++)
		p[i] = (float)half[i];
	return p;
}

void kernel_act_round(struct kernel_test *kt, float *x, size_t n, float most)
{
	round_to(kt->b->act_type, x, n, most);
}

void *kernel_act_upload(struct kernel_test *kt, const float *x, size_t n)
{
	return upload_as(kt, kt->b->act_type, x, n);
}

float *kernel_act_download(struct kernel_test *kt, const void *device, size_t n)
{
	return download_as(kt, kt->b->act_type, device, n);
}

void kernel_kv_round(struct kernel_test *kt, float *x, size_t n, float most)
{
	round_to(kt->b->kv_type, x, n, most);
}

void *kernel_kv_upload(struct kernel_test *kt, const float *x, size_t n)
{
	return upload_as(kt, kt->b->kv_type, x, n);
}

float *kernel_kv_download(struct kernel_test *kt, const void *device, size_t n)
{
	return download_as(kt, kt->b->kv_type, device, n);
}

/* --- the CPU's rounding --------------------------------------------------------- */

static bool is_integers(const struct weight *w)
{
	bool is_integer = w->quant == QUANT_INT4 || w->quant == QUANT_INT8 ||
			  w->quant == QUANT_AWQ4 || w->quant == QUANT_GPTQ4 ||
			  w->quant == QUANT_GPTQ8;
	bool is_code = w->quant == QUANT_NVFP4 || w->quant == QUANT_MXFP4 ||
		       quant_block(w->quant);
	return w->k % 32 == 0 && (is_code || (is_integer && w->group % 32 == 0));
}

/* Blocks of 32 of those that order names. */
static void round_blocks(float *x, size_t n, float steps, const int32_t *order)
{
	for (size_t i = 0; i < n; i += 32) {
		float most = 0;
		for (size_t j = i; j < i + 32; j++)
			most = fmaxf(most, fabsf(x[order[j]]));
		for (size_t j = i; j < i + 32; j++) {
			float *v = &x[order[j]];
			*v = most ? rintf(*v * (steps / most)) * (most * (1 / steps)) : 0;
		}
	}
}

/* Of K columns: by group, where w mixes them. */
static const int32_t *order_of(struct kernel_test *kt, const struct weight *w)
{
	int32_t *order = kernel_ints(kt, (size_t)w->k), n = 0;
	for (int32_t g = 0; w->group_of && g < w->k / w->group; g++)
		for (int32_t i = 0; i < w->k; i++)
			if (w->group_of[i] == g)
				order[n++] = i;
	for (int32_t i = 0; i < w->k && !w->group_of; i++)
		order[i] = i;
	return order;
}

/* x (rows, K) times the factors of w's inputs, or by their inverse, which is exact. */
static void multiply_inputs(const struct weight *w, bool is_inverse, float *x, size_t rows)
{
	for (size_t i = 0; w->in_scale && i < rows * (size_t)w->k; i++) {
		float factor = w->in_scale[i % (size_t)w->k];
		x[i] *= is_inverse ? 1 / factor : factor;
	}
}

static float bf16_of(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	bits += 0x7FFF + (bits >> 16 & 1); /* to the nearest, ties to even */
	bits &= 0xFFFF0000u;
	memcpy(&x, &bits, sizeof bits);
	return fabsf(x) < 0x1p-126f ? 0 : x; /* the processor's products have none */
}

static void round_bf16(float *x, size_t n, bool is_fine)
{
	for (size_t i = 0; i < n; i++) {
		float high = bf16_of(x[i]);
		x[i] = high + (is_fine ? bf16_of(x[i] - high) : 0);
	}
}

const float *kernel_linear_round(struct kernel_test *kt, const struct weight *w,
				 const float *x, size_t rows)
{
	size_t n = rows * (size_t)w->k;
	bool is_bf16 = (w->quant == QUANT_BF16 || w->quant == QUANT_FP8) &&
		       w->k % 2 == 0 && kt->has_bf16_pairs;
	if (!kt->is_fast || (!is_integers(w) && !is_bf16))
		return x;
	float *out = kernel_zeros(kt, n);
	memcpy(out, x, n * sizeof *out);
	if (is_bf16)
		round_bf16(out, n, w->k <= 512);
	const int32_t *order = order_of(kt, w);
	multiply_inputs(w, false, out, rows);
	for (size_t r = 0; r < rows && !is_bf16; r++)
		round_blocks(out + r * (size_t)w->k, (size_t)w->k,
			     w->k <= 512 ? 127 * 128 : 127, order);
	multiply_inputs(w, true, out, rows);
	return out;
}

/* --- comparison -------------------------------------------------------------------- */

struct error {
	double mean_square, worst_row, largest;
};

/* Of n numbers: mean square error and largest error, both relative. */
static void row_error(const float *got, const float *ref, size_t n, double *out_square,
		      double *out_size, double *out_largest)
{
	double square = 0, size = 0, most = 0, largest = 0;
	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)got[i] - ref[i]);
		square += d * d;
		size += (double)ref[i] * ref[i];
		most = fmax(most, fabs((double)ref[i]));
		largest = d >= largest ? d : isnan(d) ? INFINITY : largest;
	}
	*out_square = square;
	*out_size = size;
	*out_largest = largest == 0 ? 0 : largest / most; /* x / 0: infinite */
}

static struct error error_of(const float *got, const float *ref, size_t rows, size_t cols)
{
	struct error e = {0};
	double square = 0, size = 0;
	for (size_t r = 0; r < rows; r++) {
		double row_square, row_size, largest;
		row_error(got + r * cols, ref + r * cols, cols, &row_square, &row_size,
			  &largest);
		square += row_square;
		size += row_size;
		if (row_square != 0)
			e.worst_row = fmax(e.worst_row, row_square / row_size);
		e.largest = fmax(e.largest, largest);
	}
	e.mean_square = square == 0 ? 0 : square / size;
	return e;
}

double kernel_mean_square(const float *got, const float *ref, size_t rows, size_t cols)
{
	return error_of(got, ref, rows, cols).mean_square;
}

/* Silicon's adder (tests/hip-on-gfx11/gfx11_adder.c) rounds nothing to the nearest. It cuts the sum
 * and both products to units of 2^-23 of the largest, and takes one unit more of those with the
 * other sign. So two terms lose three units at most, always towards the same side, and the error
 * grows with their number n. That of a plain sum is about sqrt(n / 3) halves of a unit. So where
 * other arithmetic makes errors larger, as the exponent of a score does, the plain evaluation tells
 * by how much. plain: its largest error, before any rounding to halves. */
double kernel_cut(const struct kernel_test *kt, double plain)
{
	double n = kt->is_cut ? kt->n_cut : 0;
	return 1.5 * 0x1p-23 * n + 6 * sqrt(3 * n) * plain;
}

/* A bound of a mean square, with an error of `cut` on top. */
static double wider(double limit, double cut)
{
	return (sqrt(limit) + cut) * (sqrt(limit) + cut);
}

static void compare(struct kernel_test *kt, const float *got, const float *ref,
		    const float *plain, size_t rows, size_t cols, double limit, double cut,
		    const char *what)
{
	struct error e = error_of(got, ref, rows, cols);
	struct error p = error_of(plain, ref, rows, cols);
	double row_limit = wider(fmax(10 * limit, 4 * p.worst_row), cut);
	double allowed = 2 * p.largest + 0x1p-20 + kt->slack + cut;
	limit = wider(limit, cut);
	/* Infinite results would fit any limit that comes of the plain evaluation. */
	ok(e.mean_square <= limit && e.worst_row <= row_limit && isfinite(allowed),
	   "%s: %s: mean square error %.1e, worst row %.1e of %.1e", kt->name, what,
	   e.mean_square, e.worst_row, row_limit);
	ok(e.largest <= allowed, "%s: %s: largest error %.1e of %.1e", kt->name, what,
	   e.largest, allowed);
}

void kernel_compare(struct kernel_test *kt, const float *got, const float *ref,
		    const float *plain, size_t rows, size_t cols, double limit,
		    const char *what)
{
	double cut = kernel_cut(kt, error_of(plain, ref, rows, cols).largest);
	compare(kt, got, ref, plain, rows, cols, limit, cut, what);
}

static void compare_as(struct kernel_test *kt, enum dtype type, const float *got,
		       const float *ref, float *plain, size_t rows, size_t cols,
		       double limit, const char *what)
{
	double cut = kernel_cut(kt, error_of(plain, ref, rows, cols).largest);
	if (type == DTYPE_F16) {
		round_to(type, plain, rows * cols, INFINITY);
		limit += 2 * error_of(plain, ref, rows, cols).mean_square;
	}
	compare(kt, got, ref, plain, rows, cols, limit, cut, what);
}

void kernel_act_compare(struct kernel_test *kt, const float *got, const float *ref,
			float *plain, size_t rows, size_t cols, double limit,
			const char *what)
{
	compare_as(kt, kt->b->act_type, got, ref, plain, rows, cols, limit, what);
}

void kernel_kv_compare(struct kernel_test *kt, const float *got, const float *ref,
		       float *plain, size_t rows, size_t cols, double limit,
		       const char *what)
{
	compare_as(kt, kt->b->kv_type, got, ref, plain, rows, cols, limit, what);
}

bool kernel_ok(bool pass, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return ok(pass, "%s", text);
}

int kernel_done(void)
{
	return tap_done();
}

void kernel_ran(struct kernel_test *kt, enum status st, const char *what)
{
	if (st == OK)
		st = kt->b->ops->sync(kt->b, NULL);
	if (st != OK)
		ok(false, "%s: %s: %s", kt->name, what, status_name(st));
}

int32_t kernel_company(const struct kernel_test *kt, int32_t row, int32_t t,
		       int32_t *first)
{
	int32_t n = kt->tile_from && t >= kt->tile_from ? kt->tile_from : 1;
	*first = MIN(row, t - n);
	return n;
}

void kernel_same(struct kernel_test *kt, const float *row_alone, const float *row,
		 size_t n, int *n_wrong)
{
	*n_wrong += memcmp(row_alone, row, n * sizeof *row) != 0;
}
