/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels the HIP backend launches, on tests/hip-on-cpu: those that a table of what was
 * measured names, tiles that do silu in their launch, and the ways of attention. Launches are all
 * that it looks at; tests/kernel compares what the kernels write.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/hip/hip_attention.h"
#include "backend/hip/hip_experts.h"
#include "backend/hip/hip_linear.h"
#include "backend/hip/hip_tune.h"
#include "base/alloc.h"
#include "tests/tap.h"
#include "tests/unit/backend/hip_on_cpu.h"

enum { SEEN = 8 };

struct seen {
	char kernel[SEEN][80];
	int n;
};

static void see(void *ctx, const struct hip_launch_info *l, bool is_done)
{
	struct seen *s = ctx;
	if (!is_done && s->n < SEEN)
		snprintf(s->kernel[s->n++], sizeof s->kernel[0], "%s", l->kernel->name);
}

enum { D = 128 };

/* Loads n int4 weights of D by D, all numbers alike. */
static void load_squares(struct backend *b, struct weight *w, int n)
{
	struct weight host = {.quant = QUANT_INT4, .n = D, .k = D, .group = 32,
			      .scale_type = DTYPE_F16, .name = "square"};
	void *q = xcalloc(D, D / 2), *scales = xcalloc(D, D / 32 * 2);
	host.q = q;
	host.scales = scales;
	for (int i = 0; i < n; i++)
		must(b->ops->load_weight(b, &host, &w[i], NULL));
	free(q);
	free(scales);
}

/* The kernels of one token at two experts. */
static struct seen experts_kernels(struct backend *b)
{
	enum { E = 2 };
	struct weight w[E];
	struct hip *h = hip_of(b);
	struct seen seen = {0};
	char *memory;
	load_squares(b, w, E);
	struct experts ex = {.n = E, .gate = w, .up = w, .down = w};
	must(b->ops->load_experts(b, &ex, NULL));
	must(b->ops->alloc(b, 4096, (void **)&memory));
	struct moe_experts_args a = {
		.n_tok = 1, .n_used = 1, .x = memory, .h = memory + 512, .experts = &ex,
		.y = (float *)(memory + 1024), .id = (int32_t *)(memory + 2048),
		.weight = (float *)(memory + 2304)};
	h->on_launch = see;
	h->on_launch_ctx = &seen;
	must(b->ops->moe_experts(b, &a));
	must(b->ops->sync(b, NULL));
	h->on_launch = NULL;
	b->ops->free(b, memory);
	return seen;
}

/* The kernels of gate and up with silu behind them, at 40 tokens, by row `tile` of
 * linear_tile.def. */
static struct seen pair_kernels(struct backend *b, const char *tile)
{
	enum { T = 40 };
	static const struct activation silu = {.kind = ACT_SILU};
	struct weight w;
	struct hip *h = hip_of(b);
	struct seen seen = {0};
	uint16_t *memory;
	load_squares(b, &w, 1);
	must(b->ops->alloc(b, 3 * T * D * sizeof *memory, (void **)&memory));
	h->tile = 0;
	while (strcmp(hip_linear_tile_name(h->tile), tile) != 0)
		h->tile++;
	h->on_launch = see;
	h->on_launch_ctx = &seen;
	must(b->ops->linear(b, &(struct linear_args){
		.n_tok = T, .x = memory, .n_out = 2, .act = &silu,
		.out = {{.w = &w, .y = memory + T * D}, {.w = &w, .y = memory + 2 * T * D}}}));
	must(b->ops->sync(b, NULL));
	h->on_launch = NULL;
	b->ops->free(b, memory);
	return seen;
}

/* Cases compare the bits (tests/kernel/case_forms.c), which say nothing of launches. */
static void test_pairs(void)
{
	struct backend *b = create(NULL);
	struct seen s = pair_kernels(b, "m64n64");
	is_int(s.n, 1, "tiles do silu behind gate and up");
	is_str(s.kernel[0], "linear_tile_m64n64_int4_kernel", "in one launch");
	s = pair_kernels(b, "m16n64");
	is_int(s.n, 2, "a wave with one tile of columns does not");
	is_str(s.kernel[1], "silu_mul_kernel", "so a launch follows");
	backend_destroy(b);
}

static void read_table(struct hip *h, const char *text)
{
	h->n_tune = 0;
	hip_tune_read(h, (struct str){text, strlen(text)}, "table");
}

/* Rows of tiles may say up to how many tokens they hold. */
static void test_tune_tokens(struct hip *h)
{
	struct hip_tune_key key = {HIP_TUNE_TILE, 64, 128, 256};
	read_table(h, "tile 64 128 m64n128\ntile 64 128 m16n64 256\ntile 64 128 m64n64 1024\n"
		      "moe-tile 64 128 m16n64 10\nint4 64 128 t8y1w4c8 10\ntile 64 128 m64n64 0\n");
	is_int(h->n_tune, 4, "numbers of tokens belong to tiles, and are positive");
	is_str(hip_linear_tile_name(hip_tune_find(h, key)), "m16n64", "up to 256 tokens");
	key.n_tok = 257;
	is_str(hip_linear_tile_name(hip_tune_find(h, key)), "m64n64", "up to 1,024");
	key.n_tok = 1025;
	is_str(hip_linear_tile_name(hip_tune_find(h, key)), "m64n128", "and for any number");
	key.op = HIP_TUNE_MOE_TILE;
	is_int(hip_tune_find(h, key), -1, "more than any row holds for");
}

/* Outputs, pairs and blocks of experts fit in the work memory that is counted for them. */
static void test_experts_work(void)
{
	const size_t dim = 64, n_slots = 8;
	int n_wrong = 0;
	for (int i = 0; i < hip_experts_tile_count(); i++)
		for (size_t n = 1; n < 1000; n = n * 2 + 1)
			for (size_t t = 1; t < 10000; t = t * 3 + 1) {
				size_t rows = (size_t)hip_experts_tile_rows(i), pairs = t * n_slots;
				size_t blocks = MOE_TILE_BLOCKS(pairs, n, rows);
				size_t bytes = pairs * dim * 2 + (blocks * rows + blocks) * 4;
				n_wrong += bytes > hip_experts_work_bytes(t, n_slots, n, dim);
			}
	is_int(n_wrong, 0, "work memory of experts has room for every tile's lists");
}

static void test_tune(void)
{
	struct backend *b = create(NULL);
	struct hip *h = hip_of(b);
	struct hip_tune_key key = {HIP_TUNE_INT4, 128, 128, 1};
	read_table(h, "int4 128 128 none\nint4 128 t8y1w4c8\nint4 0 128 t8y1w4c8\n"
		      "int4 128 128 m64n64\nmoe-tile 128 128 t8y1w4c8\nmoe-side 128 128 t8y1w4c8\n"
		      "int4 128 128 t8y1w4c8 more\n");
	is_int(h->n_tune, 0, "wrong rows of a table are left out");
	read_table(h, "int4 64 128 t8y1w4c8\nint4 128 64 t16y2w8c16\n");
	is_int(h->n_tune, 2, "right ones are not");
	is_int(hip_tune_find(h, key), -1, "a shape without a row");
	read_table(h, "int4 64 128 t8y1w4c8\nint4 128 128 t16y2w8c16\n");
	is_str(hip_linear_int4_name(hip_tune_find(h, key)), "t16y2w8c16", "one with a row");
	test_tune_tokens(h);
	struct seen s = experts_kernels(b);
	is_int(s.n, 2, "two launches");
	ok(strncmp(s.kernel[0], "moe_int4_up_", 12) == 0, "of experts' kernels: %s", s.kernel[0]);
	backend_destroy(b);
}

/* Each way, on both sides of what decides. */
static void test_attention_ways(void)
{
	static char pages[1];
	static const int32_t last = 0;
	static const float factor = 1;
	static const struct qk_norm_rope_kv_args fused = {.n_freq = 64};
	static const struct qk_norm_rope_kv_args scaled = {.n_freq = 64, .q_scale = &factor};
	const struct hip h = {.device = {.n_cu = 40}, .base = {.few_tok = 16}};
	static const struct {
		const char *what;
		int32_t n_tok, n_seq, n_ctx_max;
		const struct qk_norm_rope_kv_args *fused;
		const int32_t *last_seen;
		enum hip_attention_way way;
	} ways[] = {
		{"a token a sequence, raw", 3, 3, 9000, &fused, NULL, HIP_ATTENTION_FUSED},
		{"with factors, which the fused kernel cannot", 3, 3, 9000, &scaled, NULL,
		 HIP_ATTENTION_SPLIT},
		{"a token a sequence, ready", 3, 3, 9000, NULL, NULL, HIP_ATTENTION_SPLIT},
		{"of 8 key heads, one less than four workgroups a unit", 19, 19, 2048, NULL, NULL,
		 HIP_ATTENTION_SPLIT},
		{"four workgroups a unit", 20, 20, 4096, NULL, NULL, HIP_ATTENTION_SINGLE},
		{"one of them may be long", 20, 20, 4097, NULL, NULL, HIP_ATTENTION_SPLIT},
		{"the same, raw", 20, 20, 2048, &fused, NULL, HIP_ATTENTION_FUSED},
		{"no token", 0, 0, 0, NULL, NULL, HIP_ATTENTION_SPLIT},
		{"drafts behind a short cache", 4, 1, 1024, &fused, NULL, HIP_ATTENTION_FEW},
		{"drafts behind a long one", 4, 1, 1025, &fused, NULL, HIP_ATTENTION_TILE_SPLIT},
		{"as many tokens as few_tok", 16, 1, 900, NULL, NULL, HIP_ATTENTION_FEW},
		{"one more", 17, 1, 900, NULL, NULL, HIP_ATTENTION_PREFILL},
		{"a prompt with workgroups for all units", 1000, 1, 9000, NULL, NULL,
		 HIP_ATTENTION_PREFILL},
		{"several sequences", 9, 4, 900, NULL, NULL, HIP_ATTENTION_BOTH},
		{"several behind a long cache", 9, 4, 9000, NULL, NULL, HIP_ATTENTION_TILE_SPLIT},
		{"tokens that see what follows", 9, 4, 9000, &fused, &last,
		 HIP_ATTENTION_BIDIRECTIONAL}};
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct attention_args a = {
			.n_tok = ways[i].n_tok, .n_seq = ways[i].n_seq, .n_heads = 16,
			.n_kv_heads = 8, .head_dim = 128, .n_ctx_max = ways[i].n_ctx_max,
			.fused = ways[i].fused, .last_seen = ways[i].last_seen,
			.kv = {.k = pages, .v = pages, .type = DTYPE_F16, .page_size = 16}};
		is_int(hip_attention_way(&h, &a), ways[i].way, "attention: %s", ways[i].what);
	}
}

int main(void)
{
	find_library();
	test_attention_ways();
	test_pairs();
	test_tune();
	test_experts_work();
	return tap_done();
}
