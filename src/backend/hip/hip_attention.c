/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on the KV cache: qk_norm_rope_kv, attention, kv_copy.
 */
#include "backend/hip/hip_attention.h"

#include "base/alloc.h"
#include "kernels/attention/attention_launch.h"
#include "kernels/attention/kv_widen_launch.h"
#include "kernels/attention/qk_norm_rope_kv_launch.h"

enum status hip_qk_norm_rope_kv(struct backend *b, const struct qk_norm_rope_kv_args *a)
{
	struct qk_norm_rope_kv_launch l = {
		.q = a->q, .k = a->k, .v = a->v, .q_norm = a->q_norm,
		.k_norm = a->k_norm, .rope = a->rope, .slot = a->slot,
		.k_pages = a->kv.k, .v_pages = a->kv.v, .n_heads = a->n_heads,
		.n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
		.n_freq = a->n_freq, .page_size = a->kv.page_size, .eps = a->eps,
		.q_from = a->q_from, .q_pitch = a->q_pitch, .q_scale = a->q_scale,
		.norm_after_rope = a->norm_after_rope, .k_scale = a->kv.k_scale,
		.v_scale = a->kv.v_scale};
	bool is_bytes = a->kv.type == DTYPE_I8;
	struct hip_grid g = {
		DIV_UP(a->n_heads + 2 * a->n_kv_heads, QK_NORM_ROPE_KV_WAVES), a->n_tok,
		QK_NORM_ROPE_KV_WAVES * 32, 0};
	return LAUNCH(hip_of(b), PLAIN("qk_norm_rope_kv%s_kernel", is_bytes ? "_bytes" : ""), g,
		      ARG(l));
}

/* --- attention: see attention_launch.h ------------------------------------------------ */

enum { MOST_Y = 65535 }; /* largest y of a grid */

static const struct attention_shape shapes[] = {
#define SHAPE(name, ...) {#name, __VA_ARGS__},
#include "kernels/attention/attention.def"
#undef SHAPE
};

/* The first shape large enough for the head, or NULL. Shapes by rows need sizes that are
 * multiples of eight. */
static const struct attention_shape *shape_of(const struct attention_args *a)
{
	bool is_odd = a->head_dim % 8 || attention_v_dim(a) % 8;
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if (a->head_dim <= shapes[i].key && attention_v_dim(a) <= shapes[i].value &&
		    (a->kv.v == NULL) == shapes[i].is_shared &&
		    !(is_odd && shapes[i].by_rows))
			return &shapes[i];
	return NULL;
}

/* The largest power of two that is at most n. */
static int32_t power_below(int32_t n)
{
	int32_t p = 1;
	while (p * 2 <= n)
		p *= 2;
	return p;
}

/* The window as kernels/attention/attention_seen.h takes it. */
static int32_t window_of(const struct attention_args *a)
{
	return a->is_chunked ? -a->window : a->window;
}

/* tiles: of 16 rows in a workgroup. */
static struct attention_launch launch_of(const struct hip *h, const struct attention_args *a,
					 int32_t tiles)
{
	int32_t page = a->kv.page_size, heads = ATTENTION_HEADS(a->n_heads / a->n_kv_heads);
	int32_t tile_tok = power_below(tiles * 16 / heads);
	return (struct attention_launch){
		.q = a->q, .k = a->kv.k, .v = a->kv.v ? a->kv.v : a->kv.k,
		.k_scale = a->kv.k_scale, .v_scale = a->kv.v_scale,
		.position = a->position, .first_tok = a->first_tok,
		.page_table = a->page_table, .sinks = a->sinks, .y = a->y,
		.work = h->work, .arrived = h->counters, .n_heads = a->n_heads,
		.n_kv_heads = a->n_kv_heads, .head_dim = a->head_dim,
		.v_dim = attention_v_dim(a), .page_size = page,
		.max_pages_per_seq = a->max_pages_per_seq,
		.page_shift = (page & (page - 1)) == 0 ? __builtin_ctz((unsigned)page) : -1,
		.window = window_of(a), .tile_tok = tile_tok,
		.tile_shift = __builtin_ctz((unsigned)tile_tok), .n_seq = a->n_seq,
		.scale = a->scale, .last_seen = a->last_seen};
}

/* The part of kernels' names that stands for this cache's type. */
static const char *bytes_of(const struct attention_args *a)
{
	return a->kv.type == DTYPE_I8 ? "bytes_" : "";
}

static int32_t lds_of(const struct attention_shape *s, int32_t tiles)
{
	return ATTENTION_LDS(s->key, s->value, s->block, s->parts, s->is_shared, tiles);
}

/* LDS of a prefill kernel, or of a tile_split kernel, with so many tiles and waves. */
static int32_t tiles_lds_of(const struct attention_shape *s, int32_t tiles, int32_t waves)
{
	return s->by_rows ? ATTENTION_ROWS_LDS(s->key, s->value, s->step, s->by_rows, waves)
			  : lds_of(s, tiles);
}

static int32_t split_tiles_of(const struct attention_shape *s)
{
	return ATTENTION_SPLIT_TILES(s->by_rows, s->prefill_tiles);
}

static int32_t fused_lds_of(const struct attention_shape *s)
{
	return lds_of(s, 1) + ATTENTION_FUSED_LDS(s->key);
}

/* Most positions that a token of the step sees. */
static int32_t seen_of(const struct attention_args *a)
{
	return a->window ? MIN(a->n_ctx_max, a->window + a->n_tok) : a->n_ctx_max;
}

/* Launches that the prefill kernel takes, so that none lasts as long as half a second: a
 * driver resets a queue that hangs. A launch of MOST operations is predicted to take 0.3 s on
 * gfx1151 (docs/first-run-on-amd.md). */
static int32_t prefill_launches(const struct hip *h, const struct attention_args *a)
{
	const double MOST = h->checks.few_groups ? 1e6 : 9e12;
	double n = 2.0 * a->n_tok * seen_of(a) * a->n_heads * (a->head_dim + attention_v_dim(a));
	return 1 + (int32_t)(n / MOST);
}

/* Launch the prefill kernel for sequences of more than one token, or, with last_seen, the
 * bidirectional kernel for all sequences. */
static enum status prefill(struct hip *h, const struct attention_args *a,
			   const struct attention_shape *s, int32_t subs)
{
	struct attention_launch l = launch_of(h, a, s->prefill_tiles);
	int32_t at_once = MAX(1, MOST_Y / subs);
	struct hip_kernel kernel =
		hip_kernel(a->last_seen ? KERNEL_PLAIN : KERNEL_ATTENTION_PREFILL, PROFILE_COUNT,
			   "attention_%s_%s_kernel", s->name,
			   a->last_seen ? "bidirectional" : "prefill");
	/* The host does not know a sequence's tokens: each gets the tiles that all tokens
	 * would need. */
	int32_t tiles = a->n_tok / l.tile_tok + 2;
	int32_t n_launches = prefill_launches(h, a), each = DIV_UP(tiles, n_launches);
	int32_t waves = ATTENTION_PREFILL_WAVES(s->by_rows, s->prefill_tiles);
	int32_t lds = tiles_lds_of(s, s->prefill_tiles, waves) +
		      (a->last_seen ? ATTENTION_BIDIRECTIONAL_LDS(waves) : 0);
	enum status st = OK;
	l.skips_single = !a->last_seen;
	for (; l.first_seq < a->n_seq; l.first_seq += at_once)
		for (l.first_tile = 0; l.first_tile < tiles && st == OK; l.first_tile += each) {
			struct hip_grid g = {MIN(each, tiles - l.first_tile),
					     MIN(at_once, a->n_seq - l.first_seq) * subs,
					     waves * 32, lds};
			st = LAUNCH(h, kernel, g, ARG(l));
		}
	return st;
}

/* Launch the merge of n tiles, from l's first one. */
static enum status merge(struct hip *h, const struct attention_launch *l, int32_t n)
{
	struct attention_launch m = *l;
	int32_t group = m.n_heads / m.n_kv_heads, heads = ATTENTION_HEADS(group);
	struct attention_merge_launch r = {
		.group = group, .subs = ATTENTION_SUBS(group), .heads = heads,
		.all = m.n_kv_heads * ATTENTION_SUBS(group),
		.per_group = (uint32_t)(((1u << 31) + (uint32_t)group - 1) / (uint32_t)group),
		.stride = ATTENTION_TILE_SPLIT_WORK(1, m.tile_tok, heads, m.v_dim)};
	while (m.v_dim > ATTENTION_MERGE_EACH << r.parts_shift)
		r.parts_shift++;
	struct hip_grid g = {m.n_heads << r.parts_shift, n * m.tile_tok, ATTENTION_MERGE_EACH, 0};
	return LAUNCH(h, PLAIN("attention_merge_kernel"), g, ARG(m), ARG(r));
}

/* Merge the segments that split kernels left of n sequences of one token, from sequence b on. */
static enum status merge_single(struct hip *h, const struct attention_launch *l, int32_t b,
				int32_t n)
{
	struct attention_launch m = *l;
	m.tile_tok = 1;
	m.tile_shift = 0;
	m.n_segments = ATTENTION_SEGMENTS;
	m.first_tile = b;
	m.skips_single = 1;
	return merge(h, &m, n);
}

/* The last workgroup to finish merges all segments of a key head by itself. Behind a long cache
 * that takes longer than a further launch. */
static bool merges_apart(const struct attention_args *a)
{
	enum { LEAST_SEEN = 4096 };
	return a->n_tok == a->n_seq && seen_of(a) > LEAST_SEEN;
}

/* Number of sequences of one token for which the work memory suffices in one launch. */
static int32_t split_at_once(const struct attention_args *a, int32_t subs)
{
	int32_t heads = ATTENTION_HEADS(a->n_heads / a->n_kv_heads);
	size_t each = (size_t)subs * sizeof(float) *
		      (size_t)ATTENTION_WORK(heads, attention_v_dim(a));
	return (int32_t)MIN(HIP_WORK_BYTES / each, (size_t)(HIP_MAX_TOK / subs));
}

/* Most segments of a token. A window may begin and end within a segment. */
static int32_t split_segments(const struct attention_args *a)
{
	int32_t n = a->window > 0 ? seen_of(a) / ATTENTION_SEGMENT + 2
				  : DIV_UP(a->n_ctx_max, ATTENTION_SEGMENT);
	return MIN(ATTENTION_SEGMENTS, n);
}

/* Launch the split kernel for sequences of one token. */
static enum status hip_attention_split(struct hip *h, const struct attention_args *a,
				       const struct attention_shape *s, int32_t subs)
{
	struct attention_launch l = launch_of(h, a, 1);
	int32_t at_once = split_at_once(a, subs);
	enum status st = OK;
	struct hip_kernel kernel = hip_kernel(KERNEL_ATTENTION_SPLIT, PROFILE_COUNT,
					      "attention_%s_%ssplit_kernel", s->name,
					      bytes_of(a));
	l.merges_apart = merges_apart(a);
	for (int32_t b = 0; b < a->n_seq && st == OK; b += at_once) {
		int32_t n = MIN(at_once, a->n_seq - b);
		struct hip_grid g = {split_segments(a) * subs, n, ATTENTION_WAVES * 32,
				     lds_of(s, 1)};
		l.first_seq = b;
		st = LAUNCH(h, kernel, g, ARG(l));
		if (st == OK && l.merges_apart)
			st = merge_single(h, &l, b, n);
	}
	return st;
}

/* True where sequences of one token fill the chip by themselves, as the tokens of a prompt do whose
 * positions an indexer chooses. Segments then only cost their merge. Not behind longer caches: one
 * long sequence among short ones would be one workgroup's work. */
static bool are_many(const struct hip *h, const struct attention_args *a, int32_t subs)
{
	enum { MOST_SEEN = 4096 };
	int32_t least = h->checks.few_groups ? 4 : 4 * h->device.n_cu;
	return a->n_tok == a->n_seq && a->n_seq > 1 && a->kv.type == DTYPE_F16 &&
	       seen_of(a) <= MOST_SEEN && (int64_t)a->n_seq * subs >= least;
}

/* Launch a workgroup for each token of sequences of one token. */
static enum status single(struct hip *h, const struct attention_args *a,
			  const struct attention_shape *s, int32_t subs)
{
	struct attention_launch l = launch_of(h, a, 1);
	int32_t each = MIN(DIV_UP(a->n_seq, prefill_launches(h, a)), MAX(1, MOST_Y / subs));
	struct hip_kernel kernel = hip_kernel(KERNEL_ATTENTION_SINGLE, PROFILE_COUNT,
					      "attention_%s_%s_kernel", s->name,
					      s->by_rows ? "single" : "prefill");
	enum status st = OK;
	l.tile_tok = 1;
	l.tile_shift = 0;
	for (; l.first_seq < a->n_seq && st == OK; l.first_seq += each) {
		struct hip_grid g = {1, MIN(each, a->n_seq - l.first_seq) * subs,
				     ATTENTION_WAVES * 32, lds_of(s, 1)};
		st = LAUNCH(h, kernel, g, ARG(l));
	}
	return st;
}

/* True for a few tokens of one sequence, as draft tokens are. Then each token is a sequence of
 * its own with the same pages, of which it sees those up to its position. So it has the bits that
 * it would have alone, and many workgroups read a long cache. */
static bool are_few(const struct hip *h, const struct attention_args *a)
{
	return a->n_seq == 1 && a->n_tok > 1 && a->n_tok <= MIN(h->base.few_tok, HIP_ONE_EACH);
}

static enum status few(struct hip *h, const struct attention_args *a,
		       const struct attention_shape *s, int32_t subs)
{
	struct attention_args each = *a;
	each.n_seq = a->n_tok;
	each.first_tok = h->one_each;
	each.max_pages_per_seq = 0; /* all rows of the page table are its first row */
	return hip_attention_split(h, &each, s, subs);
}

/* --- tile_split --------------------------------------------------------------------- */

/* Most tiles that all sequences of a step have together. In each sequence one tile may be
 * incomplete, and one more may end where segments grow. */
static int32_t tile_split_tiles(const struct attention_args *a, const struct attention_launch *l)
{
	return (a->n_tok + a->n_seq * (l->tile_tok - 1)) / l->tile_tok + a->n_seq;
}

/* Most segments of a tile: one that begins within a segment has one more. */
static int32_t tile_split_segments(const struct attention_args *a)
{
	enum { EACH = ATTENTION_MERGE_AT_ONCE };
	return MIN(ATTENTION_SEGMENTS, DIV_UP(seen_of(a) / ATTENTION_SEGMENT + 2, EACH) * EACH);
}

/* Tiles for which the work memory suffices in one launch. */
static int32_t tile_split_at_once(const struct attention_args *a, const struct attention_launch *l,
				  int32_t subs)
{
	int32_t heads = ATTENTION_HEADS(a->n_heads / a->n_kv_heads);
	size_t each = (size_t)subs * sizeof(float) *
		      (size_t)ATTENTION_TILE_SPLIT_WORK(l->n_segments, l->tile_tok, heads,
						    l->v_dim);
	return (int32_t)MIN(HIP_WORK_BYTES / each, (size_t)1024);
}

/* True for few tokens behind a long cache. With one workgroup a tile, most compute units would be
 * idle while a few read all keys. The further launch, which merges, costs less than that only if
 * the cache is long. Prompts of many tokens are left to the prefill kernel. */
static bool is_tile_split(const struct hip *h, const struct attention_args *a,
			  const struct attention_shape *s, int32_t subs)
{
	enum { LEAST_SEEN = 1024, MOST_TOK = 1024 };
	struct attention_launch l = launch_of(h, a, split_tiles_of(s));
	l.n_segments = tile_split_segments(a);
	int64_t groups = ((int64_t)a->n_tok / l.tile_tok + 1) * subs;
	return a->n_tok > a->n_seq && a->n_tok <= MOST_TOK && seen_of(a) > LEAST_SEEN &&
	       groups < h->device.n_cu && tile_split_at_once(a, &l, subs) > 0;
}

/* Launch the tile_split kernel, and the merge of its segments. */
static enum status tile_split(struct hip *h, const struct attention_args *a,
			      const struct attention_shape *s, int32_t subs)
{
	struct attention_launch l = launch_of(h, a, split_tiles_of(s));
	int32_t tiles = tile_split_tiles(a, &l);
	enum status st = OK;
	struct hip_kernel kernel = hip_kernel(KERNEL_ATTENTION_TILE_SPLIT, PROFILE_COUNT,
					      "attention_%s_tile_split_kernel", s->name);
	l.n_segments = tile_split_segments(a);
	int32_t at_once = tile_split_at_once(a, &l, subs);
	for (; l.first_tile < tiles && st == OK; l.first_tile += at_once) {
		int32_t n = MIN(at_once, tiles - l.first_tile);
		struct hip_grid g = {l.n_segments * subs, n, ATTENTION_WAVES * 32,
				     tiles_lds_of(s, split_tiles_of(s), ATTENTION_WAVES)};
		st = LAUNCH(h, kernel, g, ARG(l));
		if (st == OK)
			st = merge(h, &l, n);
	}
	return st;
}

/* True if attention's kernel does qk_norm_rope_kv too. */
static bool is_fused(const struct attention_args *a, const struct attention_shape *s)
{
	const struct qk_norm_rope_kv_args *f = a->fused;
	return f && s->is_fused && a->n_tok == a->n_seq && a->head_dim % 8 == 0 &&
	       attention_v_dim(a) == a->head_dim && f->n_freq % 2 == 0 &&
	       f->q_pitch % 2 == 0 && !f->q_scale && !f->norm_after_rope;
}

/* Launch the fused split kernel for sequences of one token, with raw q, k and v. */
static enum status fused(struct hip *h, const struct attention_args *a,
			 const struct attention_shape *s, int32_t subs)
{
	const struct qk_norm_rope_kv_args *f = a->fused;
	struct attention_launch l = launch_of(h, a, 1);
	struct attention_fused raw = {
		.q = f->q_from ? f->q_from : f->q, .k = f->k, .v = f->v,
		.q_norm = f->q_norm, .k_norm = f->k_norm, .rope = f->rope, .slot = f->slot,
		.k_pages = a->kv.k, .v_pages = a->kv.v, .k_scale = a->kv.k_scale,
		.v_scale = a->kv.v_scale, .n_freq = f->n_freq,
		.q_pitch = f->q_from ? f->q_pitch : a->head_dim,
		.group = a->n_heads / a->n_kv_heads, .subs = subs / a->n_kv_heads,
		.eps = f->eps};
	int32_t at_once = MIN(split_at_once(a, subs), MOST_Y / ATTENTION_SEGMENTS);
	enum status st = OK;
	struct hip_kernel kernel = hip_kernel(KERNEL_ATTENTION_FUSED, PROFILE_COUNT,
					      "attention_%s_%sfused_split_kernel", s->name,
					      bytes_of(a));
	l.merges_apart = merges_apart(a);
	for (int32_t b = 0; b < a->n_seq && st == OK; b += at_once) {
		int32_t n = MIN(at_once, a->n_seq - b);
		struct hip_grid g = {subs, ATTENTION_SEGMENTS * n, ATTENTION_WAVES * 32,
				     fused_lds_of(s)};
		l.first_seq = b;
		st = LAUNCH(h, kernel, g, ARG(l), ARG(raw));
		if (st == OK && l.merges_apart)
			st = merge_single(h, &l, b, n);
	}
	return st;
}

/* Converts what the step's tokens see of a cache in 8 bits to halves, for the kernels of many
 * tokens. *out: a with these halves; with a cache in f16, a itself. */
static enum status widen(struct hip *h, const struct attention_args *a, bool skips_single,
			 struct attention_args *out)
{
	*out = *a;
	if (a->kv.type != DTYPE_I8)
		return OK;
	int32_t page = a->kv.page_size;
	struct kv_widen_launch l = {
		.k = a->kv.k, .v = a->kv.v, .k_scale = a->kv.k_scale,
		.v_scale = a->kv.v_scale, .wide_k = a->kv.wide_k, .wide_v = a->kv.wide_v,
		.position = a->position, .first_tok = a->first_tok,
		.page_table = a->page_table, .max_pages_per_seq = a->max_pages_per_seq,
		.page_size = page, .rows = a->n_kv_heads * page, .head_dim = a->head_dim,
		.window = window_of(a), .skips_single = skips_single};
	struct hip_grid g = {2 * DIV_UP(a->n_ctx_max, page), a->n_seq, KV_WIDEN_THREADS, 0};
	out->kv = (struct kv_pages){.k = a->kv.wide_k, .v = a->kv.wide_v, .type = DTYPE_F16,
				    .page_size = page};
	return LAUNCH(h, PLAIN("kv_widen_kernel"), g, ARG(l));
}

static enum status hip_attention_check(struct hip *h, const struct attention_args *a,
				       const struct attention_shape *s)
{
	bool is_bytes = a->kv.type == DTYPE_I8;
	if (a->kv.type != DTYPE_F16 && !is_bytes)
		return hip_refuse(h, "attention: a cache of %s is not supported",
				  dtype_name(a->kv.type));
	if (is_bytes && (a->head_dim % KV_PAGES_ALIGN || a->head_dim > KV_PAGES_WIDEST ||
			 a->sinks || !a->kv.v || attention_v_dim(a) != a->head_dim))
		return hip_refuse(h, "attention: a cache of I8 with heads of %d, sinks or other "
				  "values is not supported", (int)a->head_dim);
	if (!s)
		return hip_refuse(h, "attention: heads of %d with values of %d are not "
				  "supported", (int)a->head_dim, (int)attention_v_dim(a));
	if (a->last_seen && !s->by_rows)
		return hip_refuse(h, "attention: to tokens behind, with heads of %d",
				  (int)a->head_dim);
	return OK;
}

static int32_t subs_of(const struct attention_args *a)
{
	return a->n_kv_heads * ATTENTION_SUBS(a->n_heads / a->n_kv_heads);
}

enum hip_attention_way hip_attention_way(const struct hip *h, const struct attention_args *a)
{
	const struct attention_shape *s = shape_of(a);
	if (a->last_seen)
		return HIP_ATTENTION_BIDIRECTIONAL;
	if (is_fused(a, s))
		return HIP_ATTENTION_FUSED;
	if (is_tile_split(h, a, s, subs_of(a)))
		return HIP_ATTENTION_TILE_SPLIT;
	if (are_few(h, a))
		return HIP_ATTENTION_FEW;
	if (a->n_tok <= a->n_seq)
		return are_many(h, a, subs_of(a)) ? HIP_ATTENTION_SINGLE : HIP_ATTENTION_SPLIT;
	return a->n_seq == 1 ? HIP_ATTENTION_PREFILL : HIP_ATTENTION_BOTH;
}

enum status hip_attention(struct backend *b, const struct attention_args *a)
{
	struct hip *h = hip_of(b);
	struct attention_args wide;
	const struct attention_shape *s = shape_of(a);
	enum status st = hip_attention_check(h, a, s);
	if (st != OK)
		return st;
	enum hip_attention_way way = hip_attention_way(h, a);
	int32_t subs = subs_of(a);
	if (a->fused && way != HIP_ATTENTION_FUSED)
		st = hip_qk_norm_rope_kv(b, a->fused);
	if (st == OK && way >= HIP_ATTENTION_TILE_SPLIT)
		st = widen(h, a, way >= HIP_ATTENTION_PREFILL, &wide);
	if (st != OK)
		return st;
	switch (way) {
	case HIP_ATTENTION_FUSED:
		return fused(h, a, s, subs);
	case HIP_ATTENTION_SPLIT:
		return hip_attention_split(h, a, s, subs);
	case HIP_ATTENTION_SINGLE:
		return single(h, a, s, subs);
	case HIP_ATTENTION_FEW:
		return few(h, a, s, subs);
	case HIP_ATTENTION_TILE_SPLIT:
		return tile_split(h, &wide, s, subs);
	case HIP_ATTENTION_BIDIRECTIONAL:
	case HIP_ATTENTION_PREFILL:
		return prefill(h, &wide, s, subs);
	case HIP_ATTENTION_BOTH:
		st = prefill(h, &wide, s, subs);
		return st == OK ? hip_attention_split(h, a, s, subs) : st;
	}
	return E_INTERNAL;
}

enum status hip_kv_copy(struct backend *b, const struct kv_copy_args *a)
{
	enum { THREADS = 256, EACH = 16 };
	struct kv_pages kv = a->kv;
	uint64_t n = (uint64_t)a->n_kv_heads * (uint64_t)kv.page_size *
		     (uint64_t)a->head_dim * dtype_bytes(kv.type);
	uint64_t dst = (uint64_t)a->dst * n, src = (uint64_t)a->src * n;
	struct hip_grid g = {DIV_UP((int32_t)n, EACH * THREADS), kv.v ? 2 : 1, THREADS, 0};
	enum status st = LAUNCH(hip_of(b), PLAIN("kv_copy_kernel"), g, ARG(kv.k), ARG(kv.v),
				ARG(dst), ARG(src), ARG(n));
	if (st != OK || !kv.k_scale)
		return st;
	n = (uint64_t)a->n_kv_heads * (uint64_t)kv.page_size * sizeof *kv.k_scale;
	dst = (uint64_t)a->dst * n;
	src = (uint64_t)a->src * n;
	g.x = DIV_UP((int32_t)n, EACH * THREADS);
	return LAUNCH(hip_of(b), PLAIN("kv_copy_kernel"), g, ARG(kv.k_scale), ARG(kv.v_scale),
		      ARG(dst), ARG(src), ARG(n));
}
