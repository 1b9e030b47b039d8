/* SPDX-License-Identifier: Apache-2.0
 *
 * Published figures of the chips; [estimate] marks those that nobody has published, [fit] those of
 * calibration.def:
 *
 *   clocks     gfx1151: at most 2.9 GHz; 2.2 GHz is the median of long prefills at 85 W
 *              (halogen-flash-server's documentation). gfx1100: the boost clock
 *   DRAM       gfx1151: 241 GB/s read, 220 written (gufo, gfx1151_peak), of 256. gfx1100: 0.95
 *              of 864 read, as a product of 0.3 GB on a 7900 XTX (mudler/vllm.cpp 506); written
 *              as much less as on gfx1151 [estimate]
 *   MALL       gfx1151: 32 MB, just under 1 TB/s (Chips and Cheese, "Strix Halo"). gfx1100:
 *              96 MB; 2.9 TB/s [estimate]. MALL is the last-level cache
 *   L2         gfx1151: 2 MB; gfx1100: 6 MB (the same articles)
 *   L0         64 bytes a cycle and compute unit (measured on gfx1102)
 *   latency    from the issue of one instruction to that of the next which waits for it, in traces
 *              of a gfx1100 (tinygrad, extra/sqtt/examples): a miss to DRAM 600 ns, the first
 *              scalar load of arguments 530 ns, LDS 32 cycles, a vector result 5 cycles to a
 *              vector instruction and 18 to one of memory or LDS, a barrier 18, a store until the
 *              wave ends 298. MALL 150 ns under load (Navi 31, Chips and Cheese). Scalar loads
 *              that hit 150 cycles [estimate]
 *   node       gfx1151: 1.86 us with up to 128 workgroups, 3.08 with 1,024, 13.0 with 8,192.
 *              gfx1100: 3.85 and, with 8,192, 9.96 (hipEngine, HIP-vs-VULKAN, 941 nodes)
 *   start, drain  [fit]
 */
#include "lab/launch_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/hip/hip_launch.h"
#include "base/buf.h"
#include "base/alloc.h"
#include "kernels/attention/attention_launch.h"
#include "kernels/linear/linear_int4.h"
#include "kernels/linear/linear_rows.h"
#include "kernels/linear/linear_tile.h"
#include "kernels/moe/moe_lora_launch.h"
#include "kernels/moe/moe_tile.h"
#include "lab/expert_routing.h"

enum { LINE = 128, FIRST_CACHE = 64 /* bytes a cycle */, SIMDS = 2 /* in a compute unit */,
       BIG = 20000000 /* bytes */, FIRST_GROUPS = 128 /* that a node starts at no cost */,
       /* cycles */
       SCALAR = 150, LDS = 32, VECTOR = 5, TO_MEMORY = 18, BARRIER = 18, STORE = 298 };

#define PROMPTS {0.72, 1.26}, {0.85, 1.55}
static const struct cost_chip chips[] = {
	{"gfx1151", 2.9, 2.2, 241, 220, 1000, 32e6, 2e6, 600, 150, 530, 1.86, 1.38, 0.7, 7.0,
	 {{0.95, 1.05}, {0.85, 1.18}, {0.87, 1.11}, PROMPTS}},
	{"gfx1100", 2.495, 2.495, 821, 750, 2900, 96e6, 6e6, 600, 150, 530, 3.85, 0.76, 0.7, 7.0,
	 {{0.95, 1.05}, {0.85, 1.30}, {0.87, 1.30}, PROMPTS}},
};

const struct cost_chip *cost_chip_find(const char *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(chips); i++)
		if (strcmp(chips[i].arch, arch) == 0)
			return &chips[i];
	return NULL;
}

const char *cost_kind_name(enum cost_kind k)
{
	static const char *const names[] = {"issue", "LDS", "latency", "cache", "MALL",
					    "DRAM"};
	return names[k];
}

double launch_cost_us(const struct launch_cost *c)
{
	return c->node + c->ramp + c->stream + c->tail;
}

struct cost_bar launch_cost_bar(const struct cost_model *m, const struct launch_cost *c)
{
	enum cost_part part = c->part != COST_STEP ? c->part
			      : c->dram_bytes >= BIG ? COST_BIG : COST_SMALL;
	return m->more->bar[part];
}

double cost_drain_us(const struct cost_chip *c, double us)
{
	return us > 0 ? us * c->drain_us / (us + c->drain_us) : 0;
}

double cost_plain_ramp_us(const struct cost_chip *c)
{
	return c->start_us + (c->first_scalar_ns + c->cache_ns + c->dram_ns) * 1e-3 +
	       STORE / c->decode_ghz * 1e-3;
}

/* --- launches whose work depends on data that the walk lacks ----------------------- */

static double bytes_of(double n, double pitch, double n_scales, size_t scale_bytes)
{
	return n * (pitch + n_scales * (double)scale_bytes);
}

/* --- weights at a few tokens -------------------------------------------------------- */

/* Numbers of weights come by non-temporal loads, so the walk counts each byte once. Scales come
 * by cached loads, for whose lines the walked workgroups are too few. So they are counted here,
 * from the shape. Blocks have both in the same lines, so a row's bytes count. */

static double int4_scales(double n, double n_groups, bool has_zeros)
{
	return n * n_groups * (2 + (has_zeros ? 0.5 : 0));
}

static void correct_linear_int4(const struct cost_model *m, const struct hip_launch_info *l,
				struct launch_cost *c)
{
	struct linear_int4_args a;
	memcpy(&a, l->args[0].p, sizeof a);
	c->dram_bytes = c->count.stream_bytes;
	for (int i = 0; i < LINEAR_INT4_MAX_PART; i++)
		if (i == 0 || a.first_group[i - 1] < a.grid)
			c->dram_bytes += int4_scales(a.part[i].n, a.n_groups,
						     a.part[i].zero_points);
}

static void correct_linear_rows(const struct cost_model *m, const struct hip_launch_info *l,
				struct launch_cost *c)
{
	struct linear_rows_args a;
	bool in_blocks = l->kernel->kind == KERNEL_LINEAR_BLOCKS;
	memcpy(&a, l->args[0].p, sizeof a);
	c->dram_bytes = in_blocks ? 0 : c->count.stream_bytes;
	for (int i = 0; i < LINEAR_ROWS_MAX_PART; i++) {
		const struct linear_rows_part *p = &a.part[i];
		if (p->first_group >= a.grid)
			continue;
		if (in_blocks)
			c->dram_bytes += (double)p->n * p->pitch;
		else if (p->scales)
			c->dram_bytes += bytes_of((double)p->n / p->group_n, 0, a.n_groups,
						  dtype_bytes((enum dtype)p->scale_format));
	}
}

/* Bytes of an expert's scales, and of blocks with all that is in them. */
static double expert_scales(const struct weight_view *w)
{
	double groups = w->scales ? ceil((double)w->k / w->group) : 0;
	if (w->format == WEIGHT_INT4)
		return int4_scales(w->n, groups, w->zero_points);
	if (w->scales)
		return bytes_of((double)w->n / w->group_n, 0, groups,
				dtype_bytes((enum dtype)w->scale_format));
	return (double)w->n * w->pitch;
}

/* Kernels by groups (moe_group.h) read an expert once for up to MOE_GROUP pairs. The walk takes
 * each pair for a group of its own, but in down not all pairs; the streamed bytes tell how many
 * it took. Returns how often experts are read; *groups: how many groups work. */
static double grouped_reads(const struct moe_launch *a, double *groups)
{
	bool has_shared = a->n_slots > a->n_used;
	double used = 0;
	*groups = has_shared ? ceil((double)a->n_tok / MOE_GROUP) : 0;
	if (a->n_used)
		*groups += expert_routing_blocks(a->n_tok, a->n_used, a->shared, MOE_GROUP, &used);
	return used + has_shared;
}

/* Each pair reads its expert, except in kernels by groups. */
static void correct_moe_few(const struct cost_model *m, const struct hip_launch_info *l,
			    struct launch_cost *c)
{
	struct moe_launch a;
	struct weight_view w[MOE_PARTS];
	memcpy(&a, l->args[0].p, sizeof a);
	if (!m->read(m->ctx, (uint64_t)(uintptr_t)a.table, sizeof w, w))
		return;
	bool is_up = l->kernel->stage == PROFILE_GATE_UP, in_blocks = !w[MOE_DOWN].scales;
	double scales = 0, numbers = 0, groups;
	for (int p = is_up ? MOE_GATE : MOE_DOWN; p <= (is_up ? MOE_UP : MOE_DOWN); p++) {
		scales += expert_scales(&w[p]);
		numbers += (double)w[p].n * w[p].pitch;
	}
	if (l->kernel->kind == KERNEL_MOE_FEW) {
		c->dram_bytes = (in_blocks ? 0 : c->count.stream_bytes) +
				(double)a.n_tok * a.n_slots * scales;
		return;
	}
	c->dram_bytes = grouped_reads(&a, &groups) * (scales + (in_blocks ? 0 : numbers));
	c->share = groups * numbers / fmax(1, c->count.stream_bytes);
}

/* Each pair reads its matrices from DRAM once. Workgroups that share them are not all walked. */
static void correct_moe_lora(const struct cost_model *m, const struct hip_launch_info *l,
			     struct launch_cost *c)
{
	struct moe_lora_launch a;
	struct lora_part p;
	memcpy(&a, l->args[0].p, sizeof a);
	if (!m->read(m->ctx, (uint64_t)(uintptr_t)(a.part + a.first), sizeof p, &p))
		return;
	double numbers = (double)p.rank * (a.n_in + (a.first == MOE_DOWN ? a.dim : a.ffn));
	c->dram_bytes = (double)a.n_tok * a.n_used * a.n_parts * numbers *
			(p.type == LORA_F32 ? 4 : 2);
}

/* --- tiles ------------------------------------------------------------------------- */

/* An expert's last block leaves out the products of tiles of 16 rows without a pair, and
 * their scales, which are most of the paired instructions. The walk counts them all. */
static void leave_out_tiles(const struct moe_tile_launch *a, double blocks, struct launch_cost *c)
{
	double used, tiles = expert_routing_blocks(a->m.n_tok, a->m.n_used, a->m.shared, 16, &used);
	if (a->n_experts > a->m.shared)
		tiles += ceil((double)a->m.n_tok / 16);
	double share = fmin(1, tiles * 16 / (blocks * a->block_m));
	c->count.issued[WALK_MATRIX] *= share;
	c->count.issued[WALK_DUAL] *= share;
	c->count.lds_cycles *= share;
}

/* A tile launch of experts has a grid for the worst routing. Corrects the count to the
 * expected blocks, and streamed bytes to the weights of experts in use. */
static void correct_moe_tile(const struct cost_model *m, const struct hip_launch_info *l,
			     struct launch_cost *c)
{
	struct moe_tile_launch a;
	struct weight_view w[MOE_PARTS];
	double used;
	memcpy(&a, l->args[0].p, sizeof a);
	bool has_shared = a.n_experts > a.m.shared;
	double blocks = expert_routing_blocks(a.m.n_tok, a.m.n_used, a.m.shared, a.block_m, &used);
	if (has_shared) {
		blocks += ceil((double)a.m.n_tok / a.block_m);
		used++;
	}
	c->share = fmin(1, blocks / a.max_blocks);
	leave_out_tiles(&a, blocks, c);
	if (!m->read(m->ctx, (uint64_t)(uintptr_t)a.m.table, sizeof w, w))
		return;
	bool is_up = l->kernel->stage == PROFILE_GATE_UP;
	double bytes = 0;
	for (int p = is_up ? MOE_GATE : MOE_DOWN; p <= (is_up ? MOE_UP : MOE_DOWN); p++)
		bytes += bytes_of(w[p].n, w[p].pitch,
				      w[p].scales ? (double)w[p].k / w[p].group : 0, 2);
	c->dram_bytes = used * bytes;
}

/* What moe_align leaves for a tile launch of experts, as far as a walk needs it: blocks
 * without an unused row, whose pairs are of different tokens. */
struct routed {
	const struct cost_model *m;
	struct moe_tile_launch a;
};

/* A walk_read; ctx: struct routed. */
static bool read_routed(void *ctx, uint64_t at, size_t n, void *out)
{
	const struct routed *r = ctx;
	uint64_t pairs = (uint64_t)(uintptr_t)r->a.pairs;
	uint64_t experts = (uint64_t)(uintptr_t)r->a.block_expert;
	uint64_t n_blocks = (uint64_t)r->a.max_blocks;
	uint64_t n_rows = n_blocks * (uint64_t)r->a.block_m;
	uint64_t n_pairs = (uint64_t)r->a.m.n_tok * (uint64_t)r->a.m.n_slots;
	bool is_pair = at >= pairs && at + n <= pairs + n_rows * 4;
	if (!is_pair && (at < experts || at + n > experts + n_blocks * 4))
		return r->m->read(r->m->ctx, at, n, out);
	for (size_t i = 0; i < n / 4; i++) {
		uint64_t place = (at - (is_pair ? pairs : experts)) / 4 + i;
		int32_t v = (int32_t)(is_pair ? place * (uint64_t)r->a.m.n_slots % n_pairs
					      : place * (uint64_t)r->a.n_experts / n_blocks);
		memcpy((char *)out + i * 4, &v, 4);
	}
	return true;
}

/* What a router leaves for a kernel of adapters: a token's experts, as far apart as can be. */
struct chosen {
	const struct cost_model *m;
	struct moe_lora_launch a;
};

/* A walk_read; ctx: struct chosen. */
static bool read_chosen(void *ctx, uint64_t at, size_t n, void *out)
{
	const struct chosen *c = ctx;
	uint64_t id = (uint64_t)(uintptr_t)c->a.id, used = (uint64_t)c->a.n_used;
	uint64_t n_pairs = (uint64_t)c->a.n_tok * used, n_experts = (uint64_t)c->a.n_experts;
	if (at < id || at + n > id + n_pairs * 4)
		return c->m->read(c->m->ctx, at, n, out);
	for (size_t i = 0; i < n / 4; i++) {
		uint64_t pair = (at - id) / 4 + i;
		int32_t v = (int32_t)((pair % used * (n_experts / used) + pair / used) %
				      n_experts);
		memcpy((char *)out + i * 4, &v, 4);
	}
	return true;
}

static void correct_linear_tile(const struct cost_model *m, const struct hip_launch_info *l,
				struct launch_cost *c)
{
	struct linear_tile_args a;
	memcpy(&a, l->args[0].p, sizeof a);
	c->dram_bytes = 2.0 * a.m * a.k;
	for (int i = 0; i < LINEAR_ROWS_MAX_PART; i++)
		if (i == 0 || a.part[i].first_group < a.n_blocks || (a.is_pair && i == 1))
			c->dram_bytes += bytes_of(a.part[i].n, a.part[i].pitch,
						      a.part[i].scales ? a.n_groups : 0, 2);
}

/* Sequences of a launch of attention. A tile_split kernel's grid is of tiles, which may be those of
 * all sequences. */
static int32_t sequences_of(const struct hip_launch_info *l, const struct attention_launch *a)
{
	enum hip_kernel_kind kind = l->kernel->kind;
	int32_t groups = a->n_kv_heads * ATTENTION_SUBS(a->n_heads / a->n_kv_heads);
	return kind == KERNEL_ATTENTION_TILE_SPLIT ? a->n_seq
	       : kind == KERNEL_ATTENTION_PREFILL || kind == KERNEL_ATTENTION_SINGLE
		       ? l->grid.y / groups
	       : kind == KERNEL_ATTENTION_FUSED ? l->grid.y / ATTENTION_SEGMENTS : l->grid.y;
}

/* Positions in the pages that any of the launch's sequences sees, each page once; below 0: the page
 * tables are not known. last: of each sequence; below 0: it sees nothing. */
static double positions_of(const struct cost_model *m, const struct attention_launch *a,
			   int32_t n_seq, const int32_t *last)
{
	size_t most = 0, n = 0;
	bool *is_seen = NULL, is_known = true;
	int32_t *row = xcalloc((size_t)a->max_pages_per_seq + 1, sizeof *row);
	for (int32_t b = 0; b < n_seq && is_known; b++) {
		size_t n_pages = last[b] < 0 ? 0 : (size_t)(last[b] / a->page_size + 1);
		const int32_t *at = a->page_table + (int64_t)(a->first_seq + b) *
						    a->max_pages_per_seq;
		is_known = (int64_t)n_pages <= a->max_pages_per_seq &&
			   m->read(m->ctx, (uint64_t)(uintptr_t)at, n_pages * sizeof *row, row);
		for (size_t i = 0; i < n_pages && is_known; i++) {
			size_t page = (size_t)row[i];
			if (page >= most) {
				is_seen = xrealloc(is_seen, 2 * page + 1);
				memset(is_seen + most, 0, 2 * page + 1 - most);
				most = 2 * page + 1;
			}
			n += !is_seen[page];
			is_seen[page] = true;
		}
	}
	free(row);
	free(is_seen);
	return is_known ? (double)n * a->page_size : -1;
}

/* Of `all` bytes that sequences read, what DRAM supplies where they are `once` bytes in several
 * readings. What MALL has room for is read again from there, as if each reading were drawn anew
 * [estimate]. */
static double from_dram(const struct cost_model *m, double all, double once)
{
	double kept = fmin(1, m->more->mall_bytes / once);
	return once < all && once > 0 ? once + (all - once) * (1 - kept) : all;
}

/* Workgroups share keys and values, or find them by a page, so the lines of a few say little about
 * all lines. DRAM supplies each position that any token sees once, and the queries. */
static void correct_attention(const struct cost_model *m, const struct hip_launch_info *l,
			      struct launch_cost *c)
{
	struct attention_launch a;
	int32_t tok[2], first, last;
	memcpy(&a, l->args[0].p, sizeof a);
	bool in_bytes = a.k_scale, is_split = l->kernel->kind == KERNEL_ATTENTION_SPLIT ||
					      l->kernel->kind == KERNEL_ATTENTION_FUSED;
	double query = 2.0 * a.head_dim, key = in_bytes ? a.head_dim + 2.0 : query;
	double value = a.v == a.k ? 0 : in_bytes ? a.v_dim + 2.0 : 2.0 * a.v_dim, bytes = 0;
	double queries = 0, position = a.n_kv_heads * (key + value);
	int32_t n_seq = sequences_of(l, &a), end = a.first_seq + n_seq;
	int32_t *seen = xcalloc((size_t)n_seq + 1, sizeof *seen);
	for (int32_t b = a.first_seq; b < end; b++) {
		seen[b - a.first_seq] = -1;
		if (!m->read(m->ctx, (uint64_t)(uintptr_t)(a.first_tok + b), sizeof tok, tok) ||
		    !m->read(m->ctx, (uint64_t)(uintptr_t)(a.position + tok[0]), sizeof first,
			     &first) ||
		    !m->read(m->ctx, (uint64_t)(uintptr_t)(a.position + tok[1] - 1),
			     sizeof last, &last)) {
			free(seen);
			return;
		}
		if (is_split && tok[1] - tok[0] != 1)
			continue; /* this sequence is another kernel's */
		int32_t from = a.window < 0 ? first & a.window
			       : a.window ? MAX(0, first - a.window + 1) : 0;
		seen[b - a.first_seq] = last;
		bytes += (last + 1.0 - from) * position;
		queries += (double)(tok[1] - tok[0]) * a.n_heads * query;
	}
	double once = n_seq > 1 ? positions_of(m, &a, n_seq, seen) * position : -1;
	c->dram_bytes = queries + (once >= 0 ? from_dram(m, bytes, once) : bytes);
	free(seen);
}

/* By kind of kernel, what the walk cannot know: sets dram_bytes, and the share of workgroups that
 * have work. NULL: the walk's lines tell. */
static void (*const corrections[KERNEL_KINDS])(const struct cost_model *m,
					       const struct hip_launch_info *l,
					       struct launch_cost *c) = {
	[KERNEL_LINEAR_INT4] = correct_linear_int4,
	[KERNEL_LINEAR_ROWS] = correct_linear_rows,
	[KERNEL_LINEAR_BLOCKS] = correct_linear_rows,
	[KERNEL_LINEAR_TILE] = correct_linear_tile,
	[KERNEL_MOE_FEW] = correct_moe_few,
	[KERNEL_MOE_GROUP] = correct_moe_few,
	[KERNEL_MOE_TILE] = correct_moe_tile,
	[KERNEL_MOE_LORA] = correct_moe_lora,
	[KERNEL_ATTENTION_PREFILL] = correct_attention,
	[KERNEL_ATTENTION_SPLIT] = correct_attention,
	[KERNEL_ATTENTION_FUSED] = correct_attention,
	[KERNEL_ATTENTION_SINGLE] = correct_attention,
	[KERNEL_ATTENTION_TILE_SPLIT] = correct_attention,
};

static void cost_correct(const struct cost_model *m, const struct hip_launch_info *l,
			 struct launch_cost *c)
{
	struct walk_count *n = &c->count;
	c->share = 1;
	c->dram_bytes = n->stream_bytes + LINE * n->kept_lines;
	if (corrections[l->kernel->kind])
		corrections[l->kernel->kind](m, l, c);
	for (int i = 0; i < WALK_CLASSES; i++)
		n->issued[i] *= c->share;
	double *const all[] = {&n->load_bytes, &n->stream_bytes, &n->store_bytes, &n->lines,
			       &n->group_lines, &n->lds_cycles};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		*all[i] *= c->share;
}

/* --- times ------------------------------------------------------------------------ */

/* Cycles that all the launch's instructions take on one SIMD. */
static double issue_cycles(const struct chip *chip, const struct walk_count *n)
{
	double vector = n->issued[WALK_VALU] + n->issued[WALK_DUAL] +
			4 * n->issued[WALK_TRANS] +
			chip->matrix_cycles * n->issued[WALK_MATRIX];
	double scalar = n->issued[WALK_SALU] + n->issued[WALK_SMEM];
	return fmax(vector, scalar);
}

/* Rows of the grid that may read one line. Those of SINGLE are of one group of heads each. */
static int32_t line_rows(const struct hip_launch_info *l)
{
	struct attention_launch a;
	if (l->kernel->kind != KERNEL_ATTENTION_SINGLE)
		return l->grid.y;
	memcpy(&a, l->args[0].p, sizeof a);
	return sequences_of(l, &a);
}

/* Bytes that L2 misses. Workgroups in one row of the grid run at about the same time and
 * share lines. Workgroups of other rows share lines only if all of them fit in L2. In a
 * grid of one row nothing is shared, which is the worst case: each workgroup misses each of its
 * lines. */
static double behind_l2(const struct cost_model *m, const struct hip_launch_info *l,
			const struct launch_cost *c)
{
	const struct walk_count *n = &c->count;
	if (c->dram_bytes <= m->more->l2_bytes)
		return c->dram_bytes;
	bool fits = n->far_lines * LINE <= m->more->l2_bytes / 2;
	double lines = n->kept_lines + (fits ? 0 : n->far_lines * (line_rows(l) - 1));
	return n->stream_bytes + LINE * (l->grid.y == 1 ? n->group_lines
							: fmin(lines, n->group_lines));
}

/* How many waves finish in a microsecond, if n are in flight and each needs us[k] of resource k
 * and `alone` beside all of them. Exact mean value analysis of a closed network of queues. */
static double waves_per_us(const double *us, double alone, double n)
{
	double queue[COST_KINDS] = {0}, rate = 0, before = 0;
	int whole = (int)ceil(n - 1e-9);
	for (int i = 1; i <= whole; i++) {
		double wait[COST_KINDS], total = alone;
		for (int k = 0; k < COST_KINDS; k++)
			total += wait[k] = us[k] * (1 + queue[k]);
		before = rate;
		rate = i / total;
		for (int k = 0; k < COST_KINDS; k++)
			queue[k] = rate * wait[k];
	}
	return before + (rate - before) * (n - (whole - 1));
}

/* What a launch does, by waves of one SIMD. */
struct share {
	double waves;   /* of the launch, on the busiest SIMD */
	double at_once; /* of them */
	double all;     /* waves of the launch */
};

static struct share share_of(const struct chip *chip, const struct hip_launch_info *l,
			     const struct launch_cost *c)
{
	const struct hip_grid *g = &l->grid;
	double groups = fmax(1, c->share * g->x * g->y), wgps = chip->n_cu / 2.0;
	double in_group = (g->n_threads + 31) / 32;
	/* A partial last round of workgroups takes as long as a full one. */
	double waves = fmax(1, ceil(groups / wgps) * in_group / (2 * SIMDS));
	return (struct share){waves, fmax(1, fmin(waves, c->waves)), groups * in_group};
}

/* The stream: all waves, as far as they are neither in the launch's ramp nor in its tail. */
static double stream_us(const struct cost_model *m, const struct launch_cost *c,
			const struct share *s, double per_us)
{
	const struct walk_count *n = &c->count;
	double each[COST_KINDS], lds = n->lds_cycles / s->all;
	double middle = n->wave_cycles - n->ramp_cycles - n->tail_cycles - lds -
			issue_cycles(m->chip, n) / s->all;
	double first = (m->more->first_scalar_ns * per_us * 1e-3) - SCALAR;
	double ends = fmax(0, n->ramp_cycles - first) + n->tail_cycles;
	for (int k = 0; k < COST_KINDS; k++)
		each[k] = k == COST_LATENCY ? 0 : c->us[k] / s->waves;
	double alone = (fmax(0, middle) + (1 - s->at_once / s->waves) * ends) / per_us;
	return s->waves / waves_per_us(each, alone, s->at_once);
}

static void set_times(const struct cost_model *m, const struct hip_launch_info *l,
		      struct launch_cost *c)
{
	const struct chip *chip = m->chip;
	const struct walk_count *n = &c->count;
	struct share s = share_of(chip, l, c);
	double ghz = m->is_prefill ? m->more->prefill_ghz : m->more->decode_ghz;
	double per_us = 1e3 * ghz, later = fmax(0, (double)l->grid.x * l->grid.y - FIRST_GROUPS);
	/* Two SIMDs share a compute unit's LDS and L0. */
	double both = fmin(SIMDS, fmax(1, s.all / chip->n_cu)) * s.waves / s.all / per_us;
	c->us[COST_ISSUE] = issue_cycles(chip, n) / s.all * s.waves / per_us;
	c->us[COST_LDS] = n->lds_cycles * both;
	c->us[COST_LATENCY] = n->wave_cycles * s.waves / s.at_once / per_us;
	c->us[COST_CACHE] = n->lines * LINE / FIRST_CACHE * both;
	c->us[COST_MALL] = behind_l2(m, l, c) / m->more->mall_gbs * 1e-3;
	c->us[COST_DRAM] = c->dram_bytes / m->more->read_gbs * 1e-3;
	if (n->store_bytes > m->more->mall_bytes)
		c->us[COST_DRAM] += n->store_bytes / m->more->write_gbs * 1e-3;
	c->bound = COST_ISSUE;
	for (int k = 0; k < COST_KINDS; k++)
		if (c->us[k] > c->us[c->bound])
			c->bound = k;
	bool is_attention = l->kernel->kind >= KERNEL_ATTENTION_PREFILL &&
			    l->kernel->kind <= KERNEL_ATTENTION_TILE_SPLIT;
	c->part = !m->is_prefill || n->issued[WALK_MATRIX] <= 0 || c->bound == COST_DRAM
			  ? COST_STEP
		  : is_attention ? COST_ATTENTION : COST_PRODUCT;
	c->node = m->more->node_us;
	c->ramp = n->ramp_cycles / per_us + (n->ramp_cycles > 0 ? m->more->start_us : 0);
	c->stream = fmax(stream_us(m, c, &s, per_us), later * m->more->group_ns * 1e-3);
	c->tail = (n->tail_cycles + fmax(0, n->last_cycles - n->wave_cycles)) / per_us +
		  cost_drain_us(m->more, c->us[COST_DRAM]);
}

enum status launch_cost(const struct cost_model *m, const struct hip_launch_info *l,
			struct launch_cost *out, struct fail *fail)
{
	const struct code_kernel *k = codeobject_find(m->code, l->kernel->name);
	if (!k)
		return fail_set(fail, E_UNSUPPORTED, "there is no kernel %s",
				l->kernel->name);
	int n_own = 0;
	while (n_own < k->n_args && !k->args[n_own].is_hidden)
		n_own++;
	if (n_own != l->n_args)
		return fail_set(fail, E_FORMAT, "%s: %d arguments instead of %d",
				l->kernel->name, l->n_args, n_own);
	char *kernarg = xcalloc(1, (size_t)k->kernarg_bytes + 64);
	for (int i = 0; i < n_own; i++)
		memcpy(kernarg + k->args[i].offset, l->args[i].p,
		       MIN((size_t)k->args[i].size, l->args[i].n_bytes));
	double ghz = m->is_prefill ? m->more->prefill_ghz : m->more->decode_ghz;
	struct walk_launch w = {
		.kernel = k, .code = m->path, .arch = m->code->arch, .kernarg = kernarg,
		.x = l->grid.x, .y = l->grid.y, .n_threads = l->grid.n_threads,
		.latency = {.dram = m->more->dram_ns * ghz, .cache = m->more->cache_ns * ghz,
			    .first_scalar = m->more->first_scalar_ns * ghz, .scalar = SCALAR,
			    .lds = LDS, .matrix = m->chip->matrix_cycles, .vector = VECTOR,
			    .to_memory = TO_MEMORY, .barrier = BARRIER, .store = STORE},
		.read = m->read, .ctx = m->ctx};
	struct routed routed = {.m = m};
	if (l->kernel->kind == KERNEL_MOE_TILE) {
		memcpy(&routed.a, l->args[0].p, sizeof routed.a);
		w.read = read_routed;
		w.ctx = &routed;
	}
	struct chosen chosen = {.m = m};
	if (l->kernel->kind == KERNEL_MOE_LORA) {
		memcpy(&chosen.a, l->args[0].p, sizeof chosen.a);
		w.read = read_chosen;
		w.ctx = &chosen;
	}
	*out = (struct launch_cost){
		.waves = chip_waves(m->chip, k, l->grid.n_threads, l->grid.lds_bytes)};
	enum status st = walk_run(m->cache, &w, &out->count, fail);
	free(kernarg);
	if (st != OK)
		return st;
	cost_correct(m, l, out);
	set_times(m, l, out);
	return OK;
}

void launch_cost_json(struct buf *b, const struct hip_launch_info *l,
		      const struct launch_cost *c)
{
	const struct walk_count *n = &c->count;
	buf_add_z(b, "\"kernel\":");
	buf_add_json(b, str_of(l->kernel->name));
	buf_addf(b, ",\"grid\":[%d,%d],\"threads\":%d,\"waves\":%.0f", l->grid.x, l->grid.y,
		 l->grid.n_threads, n->waves);
	for (int i = 0; i < WALK_CLASSES; i++)
		buf_addf(b, ",\"%s\":%.0f", walk_class_name(i), n->issued[i]);
	buf_addf(b, ",\"load_bytes\":%.0f,\"stream_bytes\":%.0f,\"store_bytes\":%.0f",
		 n->load_bytes, n->stream_bytes, n->store_bytes);
	buf_addf(b, ",\"lines\":%.0f,\"group_lines\":%.0f,\"lds_cycles\":%.0f", n->lines,
		 n->group_lines, n->lds_cycles);
	buf_addf(b, ",\"dram_bytes\":%.0f,\"unknown\":%.0f,\"at_once\":%.4g", c->dram_bytes,
		 n->unknown, c->waves);
	for (int k = 0; k < COST_KINDS; k++)
		buf_addf(b, ",\"%s_us\":%.4g", cost_kind_name(k), c->us[k]);
	buf_addf(b, ",\"bound\":\"%s\",\"node\":%.4g,\"ramp\":%.4g,\"stream\":%.4g,"
		    "\"tail\":%.4g,\"us\":%.5g", cost_kind_name(c->bound), c->node, c->ramp,
		 c->stream, c->tail, launch_cost_us(c));
}
