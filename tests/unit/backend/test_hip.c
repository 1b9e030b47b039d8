/* SPDX-License-Identifier: Apache-2.0
 *
 * The HIP backend's runtime layer on tests/hip-on-cpu: memory, copies, weights, steps
 * recorded as graphs, and what is said when something fails. Under ThreadSanitizer only the
 * kernels that it launches are compiled (tsan_units in test.sh), so it launches few; tests of
 * which kernels are chosen stand in test_hip_kernels.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/hip/hip_linear.h"
#include "base/alloc.h"
#include "base/metrics.h"
#include "base/sysmem.h"
#include "tests/hip-on-cpu/runtime.h"
#include "tests/tap.h"
#include "tests/unit/backend/hip_on_cpu.h"

static struct hip_cpu_counts counts(void)
{
	struct hip_cpu_counts (*f)(void);
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *p = handle ? dlsym(handle, "hip_cpu_counts") : NULL;
	if (!p) {
		printf("Bail out! %s\n", dlerror());
		exit(1);
	}
	memcpy(&f, &p, sizeof f);
	return f();
}

/* --- memory ----------------------------------------------------------------------- */

static void test_memory(void)
{
	struct backend *b = create(NULL);
	const size_t n = ((size_t)HIP_STAGING_BYTES * 2 + HIP_LAND_BYTES) / 4 + 12345;
	uint32_t *host = malloc(n * 4), *back = calloc(n, 4), *p;
	must(b->ops->alloc(b, n * 4, (void **)&p));
	is_int((uintptr_t)p % 256, 0, "device memory is aligned");
	must(b->ops->download(b, back, p, n * 4));
	must(b->ops->sync(b, NULL));
	bool is_zero = true;
	for (size_t i = 0; i < n; i++)
		is_zero &= back[i] == 0;
	ok(is_zero, "and zero");
	for (size_t i = 0; i < n; i++)
		host[i] = (uint32_t)(i * 2654435761u);
	must(b->ops->upload(b, p, host, n * 4));
	memset(host, 7, n * 4); /* the caller's again */
	must(b->ops->download(b, back, p, n * 4));
	must(b->ops->sync(b, NULL));
	bool is_same = true;
	for (size_t i = 0; i < n; i++)
		is_same &= back[i] == (uint32_t)(i * 2654435761u);
	ok(is_same, "%zu bytes up and down, through the stage", n * 4);
	/* Many small ones, of both kinds, before one sync. */
	is_same = true;
	for (uint32_t i = 0; i < 1000; i++) {
		must(b->ops->upload(b, p + i, &i, 4));
		must(b->ops->download(b, back + i, p + i, 4));
	}
	must(b->ops->sync(b, NULL));
	for (uint32_t i = 0; i < 1000; i++)
		is_same &= back[i] == i;
	ok(is_same, "a thousand small copies");
	void *huge = NULL;
	is_int(b->ops->alloc(b, (size_t)1 << 44, &huge), E_NOMEM, "more than there is");
	is_int(b->ops->sync(b, NULL), OK, "which is no failure of the device");
	b->ops->free(b, p);
	free(host);
	free(back);
	backend_destroy(b);
}

static int half_of_the_memory(size_t *left, size_t *total)
{
	*left = (size_t)1 << 30;
	*total = 1 << 20;
	return HIP_SUCCESS;
}

static int not_told(size_t *left, size_t *total)
{
	return HIP_ERROR_INVALID_VALUE;
}

/* What the runtime calls the total of an APU decides nothing. */
static void test_memory_of_apu(void)
{
	struct backend *b = create(NULL);
	struct backend_memory m;
	struct sysmem s;
	sysmem_read("/", &s);
	hip_of(b)->api.hipMemGetInfo = half_of_the_memory;
	b->ops->memory(b, &m);
	is_int(m.free, MIN((int64_t)1 << 30, s.available), "what the runtime has left bounds");
	is_int(m.total, s.total, "the total is the system's");
	ok(m.is_system, "which others use, too");
	hip_of(b)->api.hipMemGetInfo = not_told;
	b->ops->memory(b, &m);
	ok(m.free > 0 && m.free <= s.total && m.is_system, "a runtime that tells nothing");
	backend_destroy(b);
}

/* Memory that kernels and the host both touch must never lie in the device's caches. */
static void test_shared_memory(void)
{
	struct backend *b = create(NULL);
	struct hip_cpu_counts before = counts();
	void *device = NULL, *shared = NULL;
	must(b->ops->alloc(b, 64, &device));
	must(b->ops->alloc_shared(b, 64, &shared));
	struct hip_cpu_counts after = counts();
	is_int(after.n_allocs - before.n_allocs, 2, "device memory and shared memory");
	is_int(after.n_coherent - before.n_coherent, 1, "the shared one is coherent");
	b->ops->free_shared(b, shared);
	b->ops->free(b, device);
	backend_destroy(b);
}

/* Memory that the runtime copies from and to by itself: one copy, whatever its length, and none
 * of the host. It is the runtime's until sync. */
static void test_pinned_memory(void)
{
	struct backend *b = create(NULL);
	const size_t n = (size_t)HIP_STAGING_BYTES + 4096;
	unsigned char *up = NULL, *back = NULL, *device = NULL;
	struct hip_cpu_counts before = counts();
	must(b->ops->alloc_pinned(b, n, (void **)&up));
	must(b->ops->alloc_pinned(b, n, (void **)&back));
	must(b->ops->alloc(b, n, (void **)&device));
	for (size_t i = 0; i < n; i++)
		up[i] = (unsigned char)(i * 2654435761u >> 16);
	must(b->ops->upload_pinned(b, device, up, n));
	must(b->ops->download_pinned(b, back, device, n));
	must(b->ops->sync(b, NULL));
	struct hip_cpu_counts after = counts();
	is_int(memcmp(up, back, n), 0, "pinned memory goes up and comes down");
	is_int(after.n_copies[HIP_HOST_TO_DEVICE] - before.n_copies[HIP_HOST_TO_DEVICE], 1,
	       "in one copy");
	is_int(after.n_copies[HIP_DEVICE_TO_HOST] - before.n_copies[HIP_DEVICE_TO_HOST], 1,
	       "each way");
	b->ops->free_pinned(b, up);
	b->ops->free_pinned(b, back);
	b->ops->free_pinned(b, NULL);
	b->ops->free(b, device);
	backend_destroy(b);
	setenv("HIP_CPU_FAULT", "pinned:4", 1);
	b = create(NULL);
	unsetenv("HIP_CPU_FAULT");
	is_int(b->ops->alloc_pinned(b, 64, (void **)&up), E_NOMEM, "more than may be");
	ok(up == NULL, "nothing is given");
	is_int(b->ops->sync(b, NULL), OK, "which is no failure of the device");
	backend_destroy(b);
}

/* A grid that a dispatch packet cannot hold is refused by name. */
static void test_grid_limits(void)
{
	struct backend *b = create(NULL);
	int32_t n = 1;
	const void *p = NULL;
	const struct hip_grid large[] = {{1 << 24, 1, 256, 0}, {1, 65536, 32, 0}};
	for (size_t i = 0; i < ARRAY_LEN(large); i++) {
		is_int(LAUNCH(hip_of(b), PLAIN("copy_words_kernel"), large[i], ARG(n), ARG(p),
			      ARG(p)), E_UNSUPPORTED, "a grid of %d by %d", large[i].x,
		       large[i].y);
		ok(strstr(b->refusal, "copy_words_kernel: a grid of") != NULL,
		   "is refused: %s", b->refusal);
	}
	struct index_choose_args choose = {.n_tok = 1, .dim = 128, .type = DTYPE_F16, .ratio = 1,
					   .n_ctx_max = 1, .top = 12289};
	is_int(b->ops->index_choose(b, &choose), E_UNSUPPORTED, "more blocks than LDS holds");
	ok(strstr(b->refusal, "12289 blocks") != NULL, "are refused: %s", b->refusal);
	is_int(b->ops->sync(b, NULL), OK, "and nothing has failed");
	backend_destroy(b);
}

/* --- weights ---------------------------------------------------------------------- */

static bool same_rows(struct backend *b, const struct weight *w, const uint16_t *want,
		      size_t pitch)
{
	size_t row = (size_t)w->k * 2;
	char *back = malloc(pitch * (size_t)w->n);
	must(b->ops->download(b, back, w->q, pitch * (size_t)w->n));
	must(b->ops->sync(b, NULL));
	bool is_same = true;
	for (size_t i = 0; i < (size_t)w->n; i++)
		is_same &= memcmp(back + i * pitch, (const char *)want + i * row, row) == 0;
	free(back);
	return is_same;
}

static void test_weights(void)
{
	enum { N = 7, K = 2048 };
	struct backend *b = create(NULL);
	uint16_t *q = malloc(2 * N * K * sizeof *q), *want = malloc(2 * N * K * sizeof *q);
	for (int i = 0; i < 2 * N * K; i++)
		q[i] = (uint16_t)(i * 40503u);
	struct fail fail = {0};
	struct weight w, host = {.quant = QUANT_F16, .n = N, .k = K, .group = K, .q = q,
				 .name = "a.weight"};
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "rows of 4096 bytes");
	is_int(w.pitch, 4096 + 128, "are padded");
	ok(same_rows(b, &w, q, 4096 + 128), "and hold what they held");
	host.k = host.group = K - 8;
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "rows of 4080 bytes");
	is_int(w.pitch, 0, "are not");
	ok(same_rows(b, &w, q, 4080), "and hold what they held");
	host.row_step = 2;
	for (int n = 0; n < N; n++)
		memcpy(want + n * host.k, q + 2 * n * host.k, (size_t)host.k * 2);
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "every other row");
	ok(w.row_step == 0 && same_rows(b, &w, want, 4080), "is packed");
	host.k_step = N;
	host.row_step = 1;
	for (int n = 0; n < N; n++)
		for (int k = 0; k < host.k; k++)
			want[n * host.k + k] = q[k * N + n];
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "a transposed weight");
	ok(w.k_step == 0 && same_rows(b, &w, want, 4080), "is turned");
	struct weight one[2] = {{.quant = QUANT_INT8, .n = N, .k = K, .name = "experts.0"},
				{.quant = QUANT_FP8, .n = N, .k = K, .name = "experts.1"}};
	struct experts experts = {.n = 2, .gate = one, .up = one, .down = one};
	is_int(b->ops->load_experts(b, &experts, &fail), OK, "experts in two formats");
	free(q);
	free(want);
	backend_destroy(b);
}

/* Columns are sorted by group, weights with one order share it, and what has no kernels for that is
 * refused. */
static void test_order(void)
{
	enum { N = 3, K = 64, GROUP = 32 };
	struct backend *b = create(NULL);
	uint32_t q[N * K / 8], zeros[K / GROUP] = {0x777, 0x888}, back[N * K / 8];
	uint16_t scales[N * K / GROUP];
	int32_t group_of[K], order[K];
	float is[K], was[K];
	for (size_t i = 0; i < ARRAY_LEN(q); i++)
		q[i] = (uint32_t)i * 2654435761u;
	for (size_t i = 0; i < ARRAY_LEN(scales); i++)
		scales[i] = (uint16_t)(0x3C00 + i);
	for (int i = 0; i < K; i++)
		group_of[i] = i % 2;
	struct fail fail = {0};
	struct weight a, w, host = {.quant = QUANT_INT4, .n = N, .k = K, .group = GROUP, .q = q,
				    .scales = scales, .scale_type = DTYPE_F16,
				    .zero_points = zeros, .group_of = group_of,
				    .name = "layer.3.weight"};
	must(b->ops->load_weight(b, &host, &w, &fail));
	for (int i = 0; i < K; i++)
		group_of[i] ^= 1;
	must(b->ops->load_weight(b, &host, &a, &fail));
	ok(a.order && a.order != w.order, "another order has another address");
	for (int i = 0; i < K; i++)
		group_of[i] ^= 1;
	must(b->ops->load_weight(b, &host, &a, &fail));
	must(b->ops->download(b, back, w.q, sizeof back));
	must(b->ops->download(b, order, w.order, sizeof order));
	must(b->ops->sync(b, NULL));
	ok(!w.group_of && a.order == w.order && a.q != w.q, "two weights with one order share it");
	struct weight sorted = host;
	sorted.q = back;
	sorted.group_of = NULL;
	int wrong = 0;
	for (int n = 0; n < N; n++) {
		weight_decode(&host, n, n + 1, was);
		weight_decode(&sorted, n, n + 1, is);
		for (int i = 0; i < K; i++)
			wrong += is[i] != was[order[i]];
	}
	is_int(wrong, 0, "and its columns are those of the order");
	group_of[0] = 1;
	is_int(b->ops->load_weight(b, &host, &w, &fail), E_UNSUPPORTED, "groups of 31 and 33");
	ok(strstr(fail.text, "layer.3.weight") && strstr(fail.text, "g_idx"),
	   "are refused by name: %s", fail.text);
	group_of[0] = 0;
	host.is_expert = true;
	is_int(b->ops->load_weight(b, &host, &w, &fail), E_UNSUPPORTED, "experts in another order");
	ok(strstr(fail.text, "layer.3.weight") && strstr(fail.text, "desc_act"),
	   "are refused by name: %s", fail.text);
	struct experts shared = {.n = 1, .gate = &host, .up = &host, .down = &host,
				 .shared_gate = &a, .shared_up = &a, .shared_down = &a};
	is_int(b->ops->load_experts(b, &shared, &fail), E_UNSUPPORTED, "and a shared expert");
	backend_destroy(b);
}

/* Weights with the same factors of their inputs share them, and what has no kernels for that is
 * refused. */
static void test_factors(void)
{
	enum { N = 4, K = 32 };
	struct backend *b = create(NULL);
	uint32_t q[N * K / 8] = {0};
	float scales[N] = {1, 1, 1, 1}, factors[2][K], back[K];
	for (int i = 0; i < K; i++)
		factors[0][i] = factors[1][i] = (float)(i + 1);
	struct fail fail = {0};
	struct weight a, w, host = {.quant = QUANT_INT4, .n = N, .k = K, .group = K, .q = q,
				    .scales = scales, .scale_type = DTYPE_F32,
				    .in_scale = factors[0], .name = "layer.3.weight"};
	must(b->ops->load_weight(b, &host, &w, &fail));
	host.in_scale = factors[1];
	must(b->ops->load_weight(b, &host, &a, &fail));
	ok(a.in_scale == w.in_scale && w.in_scale != factors[0], "two weights share their factors");
	must(b->ops->download(b, back, w.in_scale, sizeof back));
	must(b->ops->sync(b, NULL));
	is_int(memcmp(back, factors[0], sizeof back), 0, "which are on the device");
	factors[1][5] = 0.5f;
	must(b->ops->load_weight(b, &host, &a, &fail));
	ok(a.in_scale != w.in_scale, "others have another address");
	struct experts shared = {.n = 1, .gate = &host, .up = &host, .down = &host,
				 .shared_gate = &a, .shared_up = &a, .shared_down = &a};
	is_int(b->ops->load_experts(b, &shared, &fail), E_UNSUPPORTED, "a shared expert");
	host.is_expert = true;
	is_int(b->ops->load_weight(b, &host, &w, &fail), E_UNSUPPORTED, "experts with factors");
	ok(strstr(fail.text, "layer.3.weight") && strstr(fail.text, "pre_quant_scale"),
	   "are refused by name: %s", fail.text);
	backend_destroy(b);
}

/* Formats that quant.def calls REPACKED become another, and only those do. */
static void test_repacked(void)
{
	enum { PLAIN, OWN, UNITS, UNITS_MIN, REPACKED };
#define QUANT(ident, name, bits, reader, form, scaling, units) [QUANT_##ident] = units,
#define QUANT_BLOCK(ident, name, bits, block, bytes, gguf, form, scaling, units) \
	[QUANT_##ident] = units,
	static const int units_of[] = {
#include "model/formats/quant.def"
	};
#undef QUANT
#undef QUANT_BLOCK
	for (enum quant q = 0; q < QUANT_COUNT; q++) {
		enum quant to = hip_quant(q);
		ok((to != q) == (units_of[q] == REPACKED) && units_of[to] != REPACKED,
		   "%s is loaded as %s", quant_name(q), quant_name(to));
	}
}

/* Float32 is stored in 16 bits if that changes no number. */
static void test_narrow(void)
{
	enum { N = 31, K = 2048 };
	struct backend *b = create(NULL);
	static uint16_t half[N * K];
	static float q[N * K];
	struct fail fail = {0};
	struct weight w, host = {.quant = QUANT_F32, .n = N, .k = K, .group = K, .q = q};
	for (int i = 0; i < N * K; i++) { /* all but the last 2,048; NaN, too */
		half[i] = (uint16_t)i;
		q[i] = blocks_bf16(half[i]);
	}
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "bf16 in float32");
	ok(w.quant == QUANT_BF16 && same_rows(b, &w, half, (size_t)w.pitch), "is loaded as bf16");
	host.is_expert = true;
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "an expert's");
	is_int(w.quant, QUANT_F32, "is loaded as it is");
	host.is_expert = false;
	q[N * K - 1] = 1 + 0x1p-8f;
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "one number that is not bf16");
	is_int(w.quant, QUANT_F32, "keeps all in float32");
	for (int i = 0; i < N * K; i++) {
		half[i] = (uint16_t)(i % 0x7C00 | (i & 1) << 15);
		q[i] = blocks_f16(half[i]);
	}
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "float16 in float32");
	ok(w.quant == QUANT_F16 && same_rows(b, &w, half, (size_t)w.pitch),
	   "is loaded as float16");
	q[0] = 0x1p-25f;
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "one number that is too small");
	is_int(w.quant, QUANT_F32, "keeps all in float32");
	backend_destroy(b);
}

/* What is no number stays none: in the product of its row, and in no other. */
static void test_nan(void)
{
	enum { N = 3, K = 64 };
	struct backend *b = create(NULL);
	uint8_t q[N * K];
	float scale[N] = {1, 1, 1}, y[N];
	uint16_t x[K];
	memset(q, 0x38, sizeof q); /* 1 */
	for (int i = 0; i < K; i++)
		x[i] = 0x3C00;
	q[K + 5] = 0x7F;
	struct weight w, host = {.quant = QUANT_FP8, .n = N, .k = K, .group = K, .group_n = 1,
				 .q = q, .scales = scale, .scale_type = DTYPE_F32};
	struct fail fail;
	is_int(b->ops->load_weight(b, &host, &w, &fail), OK, "fp8 with a NaN");
	void *dx = NULL, *dy = NULL;
	must(b->ops->alloc(b, sizeof x, &dx));
	must(b->ops->alloc(b, sizeof y, &dy));
	must(b->ops->upload(b, dx, x, sizeof x));
	must(b->ops->linear(b, &(struct linear_args){
		.n_tok = 1, .x = dx, .n_out = 1, .out = {{.w = &w, .y = dy, .is_f32 = true}}}));
	must(b->ops->download(b, y, dy, sizeof y));
	must(b->ops->sync(b, &fail));
	ok(y[0] == K && y[1] != y[1] && y[2] == K, "is seen: %g %g %g", y[0], y[1], y[2]);
	b->ops->free(b, dx);
	b->ops->free(b, dy);
	backend_destroy(b);
}

/* Names of the kernels that were launched, each with a blank behind. */
static void on_launch(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	char *names = ctx;
	size_t n = strlen(names);
	if (!is_done)
		snprintf(names + n, 200 - n, "%s ", l->kernel->name);
}

/* Two weights in int4 and two in bf16, in turn: a launch of each format's own kernel. */
static void test_formats(void)
{
	enum { N = 16, K = 64 };
	struct backend *b = create(NULL);
	struct fail fail;
	static uint16_t q[N * K], scales[N * K / 32], x[K];
	struct weight w[2], hosts[] = {
		{.quant = QUANT_INT4, .n = N, .k = K, .group = 32, .q = q, .scales = scales,
		 .scale_type = DTYPE_BF16},
		{.quant = QUANT_BF16, .n = N, .k = K, .group = K, .q = q}};
	struct linear_args a = {.n_tok = 1, .n_out = 4};
	char names[200] = "";
	void *dx = NULL, *y = NULL;
	must(b->ops->alloc(b, sizeof x, &dx));
	must(b->ops->alloc(b, 4 * N * sizeof(float), &y));
	for (int i = 0; i < 2; i++)
		is_int(b->ops->load_weight(b, &hosts[i], &w[i], &fail), OK, "weight");
	for (int i = 0; i < 4; i++)
		a.out[i] = (struct linear_out){.w = &w[i % 2], .y = (float *)y + i * N,
					       .is_f32 = true};
	a.x = dx;
	hip_of(b)->on_launch = on_launch;
	hip_of(b)->on_launch_ctx = names;
	must(b->ops->linear(b, &a));
	must(b->ops->sync(b, &fail));
	const char *bf16 = strstr(names, "linear_rows_bf16_m1_kernel ");
	ok(strncmp(names, "linear_int4_", 12) == 0 &&
		   bf16 == strchr(names, ' ') + 1 && strchr(bf16, ' ')[1] == '\0',
	   "a launch for each format: %s", names);
	b->ops->free(b, dx);
	b->ops->free(b, y);
	backend_destroy(b);
}

/* Says that it refused this, and why, and launches nothing. */
static void refused(struct backend *b, enum status st, const char *why)
{
	is_int(st, E_UNSUPPORTED, "%s", why);
	ok(strstr(b->refusal, why) != NULL, "is refused: %s", b->refusal);
}

/* What cannot be done is refused without any tokens, which is how an engine asks. */
static void test_refusals(void)
{
	struct backend *b = create(NULL);
	_Alignas(float) char names[200] = "";
	hip_of(b)->on_launch = on_launch;
	hip_of(b)->on_launch_ctx = names;
	struct attention_args att = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 64,
				     .kv = {.k = b, .v = b, .type = DTYPE_F16,
					    .page_size = 16}};
	is_int(b->ops->attention(b, &att), OK, "heads of 64");
	att.head_dim = 1000;
	refused(b, b->ops->attention(b, &att), "heads of 1000");
	att.head_dim = 64;
	att.kv.type = DTYPE_F32;
	refused(b, b->ops->attention(b, &att), "a cache of F32");
	struct delta_rule_args rule = {.n_k_heads = 1, .n_v_heads = 1, .k_dim = 128,
				       .v_dim = 128};
	is_int(b->ops->delta_rule(b, &rule), OK, "keys of 128");
	rule.k_dim = 260;
	refused(b, b->ops->delta_rule(b, &rule), "keys of 260");
	struct causal_conv_args conv = {.n_parts = 1, .width = 4};
	is_int(b->ops->causal_conv(b, &conv), OK, "a convolution of 4");
	conv.width = CAUSAL_CONV_MAX_WIDTH + 1;
	refused(b, b->ops->causal_conv(b, &conv), "a convolution of 17");
	conv = (struct causal_conv_args){.n_parts = 1, .width = 4, .is_gated = true};
	is_int(b->ops->causal_conv(b, &conv), OK, "a gated convolution");
	conv.low[0] = (const float *)(const void *)names;
	refused(b, b->ops->causal_conv(b, &conv), "a gated convolution of sums");
	struct rms_norm_args norm = {.dim = 64, .y_low = names};
	is_int(b->ops->rms_norm(b, &norm), OK, "a norm of two halves");
	norm.y_pitch = 128;
	refused(b, b->ops->rms_norm(b, &norm), "a norm of two halves that does more");
	struct weight router = {.quant = QUANT_BF16, .n = 256, .k = 4096};
	struct moe_router_args choice = {.n_used = 8, .router = &router};
	is_int(b->ops->moe_router(b, &choice), OK, "256 experts");
	router.n = 4096;
	router.k = 16384;
	refused(b, b->ops->moe_router(b, &choice), "4096 experts at a width of 16384");
	router.quant = QUANT_IQ2_XXS;
	router.n = router.k = 256;
	refused(b, b->ops->moe_router(b, &choice), "no kernel moe_router_iq2_xxs");
	struct logits_top_args top = {.n_vocab = LOGITS_TOP_MAX_VOCAB + 1};
	refused(b, b->ops->logits_top(b, &top), "a vocabulary of");
	ok(*names == '\0', "and nothing was launched: %s", names);
	backend_destroy(b);
}

/* --- steps ------------------------------------------------------------------------ */

enum { DIM = 64 };

/* y = silu(x) * x of what is in x now. */
static enum status square(struct backend *b, uint16_t *x, uint16_t *y)
{
	return b->ops->act_mul(b, &(struct act_mul_args){
				.n_tok = 1, .dim = DIM, .gate = x, .up = x, .y = y});
}

/* As a step under `key`; with_upload: an upload inside of the step, which cannot be. */
static enum status step(struct backend *b, uint64_t key, uint16_t *x, uint16_t *y,
			bool with_upload)
{
	bool is_new, is_again;
	enum status st = b->ops->step_begin(b, key, &is_new);
	if (st == OK && is_new)
		st = square(b, x, y);
	/* From the host's memory: y is the device's, and the kernel may still write it. */
	static const uint16_t one = 0x3C00;
	if (st == OK && is_new && with_upload)
		st = b->ops->upload(b, x, &one, sizeof one);
	enum status end = b->ops->step_end(b, &is_again);
	st = st == OK ? end : st;
	return st == OK && is_again ? square(b, x, y) : st;
}

/* The halves 0, 1, 2, 3 by turns. */
static void fill(uint16_t *x, int from)
{
	static const uint16_t halves[] = {0, 0x3C00, 0x4000, 0x4200};
	for (int i = 0; i < DIM; i++)
		x[i] = halves[(i + from) % 4];
}

static void test_steps(void)
{
	struct backend *b = create(NULL);
	uint16_t *x, *y, host[DIM], want[4][DIM], got[DIM];
	must(b->ops->alloc(b, sizeof host, (void **)&x));
	must(b->ops->alloc(b, sizeof host, (void **)&y));
	bool is_same = true;
	struct hip_cpu_counts before = {0};
	for (int i = 0; i < 40; i++) {
		fill(host, i);
		if (i == 8)
			before = counts();
		must(b->ops->upload(b, x, host, sizeof host));
		must(step(b, i < 4 ? 0 : 77, x, y, false));
		must(b->ops->download(b, got, y, sizeof got));
		must(b->ops->sync(b, NULL));
		if (i < 4) /* as they come */
			memcpy(want[i], got, sizeof got);
		is_same &= memcmp(got, want[i % 4], sizeof got) == 0;
	}
	struct hip_cpu_counts after = counts();
	ok(is_same, "replayed steps compute what single launches do");
	is_int(b->n_captures, 1, "one recording");
	is_int(b->n_replays, 35, "the rest are replays");
	is_int(b->n_step_launches, 1, "of one launch");
	is_int(after.n_allocs - before.n_allocs, 0, "a steady step takes no memory");
	is_int(after.n_launches - before.n_launches, 32, "launches one kernel behind a copy up");
	is_int(after.n_graphs - before.n_graphs, 32, "but one graph");
	is_int(after.n_copies[HIP_HOST_TO_DEVICE] - before.n_copies[HIP_HOST_TO_DEVICE], 32,
	       "one copy up");
	is_int(after.n_copies[HIP_DEVICE_TO_HOST] - before.n_copies[HIP_DEVICE_TO_HOST], 32,
	       "one copy down");
	before = counts();
	for (int i = 0; i < 4; i++)
		must(step(b, 77, x, y, false));
	is_int(counts().n_launches - before.n_launches, 0, "and none without a copy");
	is_int(step(b, 78, x, y, true), OK, "an upload in a step that is not recorded");
	is_int(step(b, 78, x, y, true), E_UNSUPPORTED, "in one that is");
	ok(strstr(b->refusal, "upload") != NULL, "is refused: %s", b->refusal);
	is_int(step(b, 78, x, y, false), OK, "and nothing of it is kept");
	is_int(b->n_captures, 2, "but the next recording");
	for (uint64_t key = 100; key < 100 + 2 * HIP_GRAPHS; key++) {
		must(step(b, key, x, y, false));
		must(step(b, key, x, y, false));
	}
	is_int(b->n_captures, 2 + 2 * HIP_GRAPHS, "more keys than are kept");
	b->ops->free(b, x);
	must(b->ops->alloc(b, sizeof host, (void **)&x));
	fill(host, 1);
	must(b->ops->upload(b, x, host, sizeof host));
	uint64_t n_replays = b->n_replays;
	must(step(b, 99 + 2 * HIP_GRAPHS, x, y, false));
	must(b->ops->download(b, got, y, sizeof got));
	must(b->ops->sync(b, NULL));
	ok(b->n_replays == n_replays && memcmp(got, want[1], sizeof got) == 0,
	   "memory that was freed ends the recordings");
	b->ops->free(b, x);
	b->ops->free(b, y);
	backend_destroy(b);
	b = create(&(struct backend_opts){.no_graphs = true});
	must(b->ops->alloc(b, sizeof host, (void **)&x));
	for (int i = 0; i < 3; i++)
		must(step(b, 5, x, x, false));
	is_int(b->n_captures, 0, "no graphs where none are wanted");
	b->ops->free(b, x);
	backend_destroy(b);
}

/* --- failures --------------------------------------------------------------------- */

static void test_failure(void)
{
	struct fail fail = {0};
	uint16_t *x;
	setenv("HIP_CPU_FAULT", "launch:3", 1);
	struct backend *b = create(NULL);
	unsetenv("HIP_CPU_FAULT");
	must(b->ops->alloc(b, DIM * 2, (void **)&x));
	must(step(b, 0, x, x, false));
	must(step(b, 0, x, x, false));
	is_int(b->ops->sync(b, &fail), OK, "two launches");
	(void)!step(b, 0, x, x, false);
	is_int(b->ops->sync(b, &fail), E_DEVICE, "the third fails");
	ok(strstr(fail.text, "hipErrorLaunchFailure") && strstr(fail.text, "gfx1151"),
	   "in words: %s", fail.text);
	is_int(step(b, 1, x, x, false), E_DEVICE, "so does all that follows");
	is_int(b->ops->upload(b, x, &fail, 2), E_DEVICE, "copies");
	void *pinned = NULL;
	is_int(b->ops->alloc_pinned(b, 64, &pinned), E_DEVICE, "pinned memory");
	is_int(b->ops->upload_pinned(b, x, &fail, 2), E_DEVICE, "copies from it");
	is_int(b->ops->download_pinned(b, &fail, x, 2), E_DEVICE, "and to it");
	is_int(b->ops->sync(b, &fail), E_DEVICE, "and waiting");
	b->ops->free(b, x);
	backend_destroy(b);
}

/* An illegal address breaks the context: every call of the runtime returns it. */
static void test_broken_context(void)
{
	struct fail fail = {0};
	uint16_t *x, *more = NULL;
	setenv("HIP_CPU_FAULT", "illegal:2", 1);
	struct backend *b = create(NULL);
	unsetenv("HIP_CPU_FAULT");
	must(b->ops->alloc(b, DIM * 2, (void **)&x));
	must(step(b, 0, x, x, false));
	is_int(b->ops->sync(b, NULL), OK, "one launch");
	(void)!step(b, 0, x, x, false);
	is_int(b->ops->sync(b, &fail), E_DEVICE, "the second breaks the context");
	ok(strstr(fail.text, "hipErrorIllegalAddress") != NULL, "in words: %s", fail.text);
	is_int(b->ops->alloc(b, 1 << 28, (void **)&more), E_DEVICE, "no memory is given");
	/* To be recorded, were the context whole: the third step of a key. */
	for (int i = 0; i < 3; i++)
		is_int(step(b, 7, x, x, false), E_DEVICE, "step %d of a graph fails", i);
	is_int(b->n_captures, 0, "none was recorded");
	is_int(b->ops->sync(b, &fail), E_DEVICE, "and waiting");
	ok(strstr(fail.text, "hipErrorIllegalAddress") != NULL, "the first error is kept: %s",
	   fail.text);
	b->ops->free(b, x);
	backend_destroy(b);
}

enum { UNKNOWN_ERROR = 999 };

static int no_begin(hip_stream s, int mode)
{
	return UNKNOWN_ERROR;
}

static int no_end(hip_stream s, hip_graph *out)
{
	return UNKNOWN_ERROR;
}

static int no_instance(hip_graph_exec *out, hip_graph g, void *node, char *log, size_t n)
{
	return UNKNOWN_ERROR;
}

static int no_launch(hip_graph_exec e, hip_stream s)
{
	return UNKNOWN_ERROR;
}

static int no_record(hip_event e, hip_stream s)
{
	return UNKNOWN_ERROR;
}

static int no_wait(hip_event e)
{
	return UNKNOWN_ERROR;
}

/* Halves 0, 1, 2, 3 by turns through steps of one key; n: how many were right. */
static int right_steps(struct backend *b, int n)
{
	uint16_t *x, *y, host[DIM], got[DIM];
	static const uint16_t first[] = {0, 0x39D9, 0x430C}; /* silu(x) * x of 0, 1, 2 */
	int n_right = 0;
	must(b->ops->alloc(b, sizeof host, (void **)&x));
	must(b->ops->alloc(b, sizeof host, (void **)&y));
	for (int i = 0; i < n; i++) {
		fill(host, i);
		must(b->ops->upload(b, x, host, sizeof host));
		must(step(b, 5, x, y, false));
		must(b->ops->download(b, got, y, sizeof got));
		must(b->ops->sync(b, NULL));
		n_right += i % 4 == 3 || got[0] == first[i % 4];
	}
	b->ops->free(b, x);
	b->ops->free(b, y);
	return n_right;
}

/* What cannot be recorded is launched. */
static void test_no_capture(void)
{
	for (int i = 0; i < 3; i++) {
		struct backend *b = create(NULL);
		struct hip_api *api = &hip_of(b)->api;
		if (i == 0)
			api->hipStreamBeginCapture = no_begin;
		else if (i == 1)
			api->hipStreamEndCapture = no_end;
		else
			api->hipGraphInstantiate = no_instance;
		is_int(right_steps(b, 8), 8, "steps without graphs, %d", i);
		is_int(b->n_captures + b->n_replays, 0, "none was recorded");
		is_int(metric_get(METRIC_GRAPHS_OFF), 1, "which a metric says");
		backend_destroy(b);
	}
}

/* Copies of more than the stage holds wait for its halves. */
static void test_no_events(void)
{
	const size_t n = (size_t)HIP_STAGING_BYTES * 3;
	char *host = malloc(n), *back = malloc(n), *p;
	for (int i = 0; i < 3; i++) {
		struct backend *b = create(NULL);
		struct hip *h = hip_of(b);
		if (i == 0)
			h->api.hipEventRecord = no_record;
		else if (i == 1)
			h->api.hipEventSynchronize = no_wait;
		else
			h->staging.read[1].is_lost = true;
		for (size_t k = 0; k < n; k++)
			host[k] = (char)(k * 7 + k / 4096);
		must(b->ops->alloc(b, n, (void **)&p));
		must(b->ops->upload(b, p, host, n));
		must(b->ops->download(b, back, p, n));
		must(b->ops->sync(b, NULL));
		ok(memcmp(host, back, n) == 0, "copies without events, %d", i);
		b->ops->free(b, p);
		backend_destroy(b);
	}
	free(host);
	free(back);
}

/* A process that ended twice at one place in the middle of graphs begins without them. */
static void test_graph_notes(void)
{
	char path[] = "/tmp/test_hip-XXXXXX";
	if (mkdtemp(path) == NULL)
		exit(99);
	char *file = xasprintf("%s/notes", path);
	struct backend_opts o = {.name = "hip", .hip_library = library, .graph_notes = file};
	struct backend *b;
	for (int i = 0; i < 4; i++) {
		must(backend_create(&o, &b, NULL));
		is_int(hip_of(b)->no_graphs, i == 2 || i == 3, "start %d", i);
		if (i < 2) { /* the graph's own launch fails */
			uint16_t *x;
			hip_of(b)->api.hipGraphLaunch = no_launch;
			must(b->ops->alloc(b, DIM * 2, (void **)&x));
			must(step(b, 5, x, x, false));
			is_int(step(b, 5, x, x, false), E_DEVICE, "a launch of a graph fails");
			b->ops->free(b, x);
		} else {
			is_int(right_steps(b, 8), 8, "steps without graphs");
		}
		backend_destroy(b);
	}
	ok(remove(file) == 0, "the notes are kept");
	must(backend_create(&o, &b, NULL));
	is_int(right_steps(b, 8), 8, "without the file graphs are tried again");
	ok(b->n_replays > 0, "and replayed");
	backend_destroy(b);
	struct stat at;
	ok(stat(file, &at) == 0 && at.st_size == 0, "which ends the trial");
	/* As a process leaves it that was killed in the first replay. */
	for (int i = 0; i < 3; i++) {
		uint16_t *x;
		must(backend_create(&o, &b, NULL));
		is_int(hip_of(b)->no_graphs, i == 2, "start %d", i);
		must(b->ops->alloc(b, DIM * 2, (void **)&x));
		must(step(b, 5, x, x, false));
		must(step(b, 5, x, x, false));
		b->ops->free(b, x);
		backend_destroy(b); /* no sync says that it ran */
	}
	remove(file);
	rmdir(path);
	free(file);
}

/* The runtime in the places of its packages. */
static void test_places(void)
{
	static const struct {
		const char *variable, *folder, *name, *found;
	} rows[] = {
		{"ROCM_PATH", "lib", "libamdhip64.so.8", "lib/libamdhip64.so.8"},
		{"ROCM_PATH", "lib", "libamdhip64.so.6", "lib/libamdhip64.so.8"},
		{"ROCM_PATH", "core-7.14/lib", "libamdhip64.so.7", "lib/libamdhip64.so.8"},
		{"ROCM_PATH", NULL, NULL, "core-7.14/lib/libamdhip64.so.7"},
		{"ROCM_PATH", "core-10.1/lib", "libamdhip64.so.7",
		 "core-10.1/lib/libamdhip64.so.7"},
		{"VIRTUAL_ENV", "lib/python3.13/site-packages/_rocm_sdk_core/lib",
		 "libamdhip64.so.7", "_rocm_sdk_core/lib/libamdhip64.so.7"},
	};
	char root[] = "/tmp/test_hip-XXXXXX", command[9000];
	struct hip_api api;
	struct fail fail = {0};
	char *real = realpath(library, NULL);
	if (!mkdtemp(root) || !real)
		exit(99);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		setenv(rows[i].variable, root, 1);
		if (rows[i].folder)
			snprintf(command, sizeof command, "mkdir -p %s/%s && ln -s %s %s/%s/%s",
				 root, rows[i].folder, real, root, rows[i].folder, rows[i].name);
		else
			snprintf(command, sizeof command, "rm -r %s/lib", root);
		if (system(command) != 0)
			exit(99);
		is_int(hip_api_open(NULL, &api, &fail), OK, "a runtime below %s",
		       rows[i].variable);
		const char *file = (&api)->library;
		ok(file && strstr(file, rows[i].found), "%s is %s", file, rows[i].found);
		if (strcmp(rows[i].variable, "VIRTUAL_ENV") != 0 && i == 4)
			unsetenv("ROCM_PATH");
	}
	/* One that is there and cannot be loaded. */
	snprintf(command, sizeof command, "rm -r %s/* && mkdir %s/lib && "
		 "echo no >%s/lib/libamdhip64.so.7", root, root, root);
	setenv("ROCM_PATH", root, 1);
	if (system(command) != 0)
		exit(99);
	if (hip_api_open(NULL, &api, &fail) == E_MISSING)
		ok(strstr(fail.text, "seen in") && strstr(fail.text, root),
		   "the message says where one was seen: %s", fail.text);
	unsetenv("ROCM_PATH");
	unsetenv("VIRTUAL_ENV");
	snprintf(command, sizeof command, "rm -r %s", root);
	ok(system(command) == 0, "cleaned up");
	free(real);
}

static void test_choice(void)
{
	const char *name = NULL;
	char reason[BACKEND_REASON];
	struct fail fail = {0};
	struct backend_opts o = {.name = "auto", .hip_library = library};
	is_int(backend_choose(&o, &name, reason, sizeof reason, &fail), OK, "auto");
	is_str(name, "hip", "is the GPU where there is one");
	ok(strstr(reason, "gfx1151") != NULL, "because: %s", reason);
	o.hip_library = "/nonexistent.so";
	is_int(backend_choose(&o, &name, reason, sizeof reason, &fail), OK, "auto");
	is_str(name, "cpu", "is the CPU where there is none");
	ok(strstr(reason, "tried /nonexistent.so") != NULL, "because: %s", reason);
	o.name = "hip";
	is_int(backend_choose(&o, &name, reason, sizeof reason, &fail), E_CONFIG,
	       "hip is hip or nothing");
	ok(strstr(fail.text, "tried /nonexistent.so") != NULL, "because: %s", fail.text);
	o.name = "abacus";
	is_int(backend_choose(&o, &name, reason, sizeof reason, &fail), E_CONFIG, "abacus");
}

int main(void)
{
	find_library();
	test_memory();
	test_memory_of_apu();
	test_shared_memory();
	test_pinned_memory();
	test_grid_limits();
	test_weights();
	test_order();
	test_factors();
	test_repacked();
	test_narrow();
	test_nan();
	test_formats();
	test_refusals();
	test_steps();
	test_failure();
	test_broken_context();
	test_no_capture();
	test_no_events();
	test_graph_notes();
	test_places();
	test_choice();
	return tap_done();
}
