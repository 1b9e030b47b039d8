/* SPDX-License-Identifier: Apache-2.0
 *
 * How attention.hip is launched: arguments, shapes, grids, work memory. C for the host,
 * C++ for the kernel.
 *
 * Kernels of each shape (attention.def) divide the sequences of a step:
 *
 *   attention_<name>_split_kernel  sequences with one token in the step: one workgroup for
 *       each segment of the positions; the last one to finish merges the segments; grid
 *       (segments * S, B)
 *   attention_<name>_prefill_kernel  all other sequences: one workgroup for a tile of tokens;
 *       grid (tiles, S * B), or several such grids, one after another. So the workgroups that
 *       run at about the same time read the same keys and values
 *   attention_<name>_bidirectional_kernel  the same for all sequences, where tokens see positions
 *       behind their own (attention_launch.last_seen); shapes by rows only
 *   attention_<name>_single_kernel  steps of many sequences with one token each: one workgroup
 *       for all positions of a token; grid (1, S * B). Shapes that are not by rows take their
 *       prefill kernel, with tiles of one token
 *   attention_<name>_tile_split_kernel  all sequences of a step of few tokens behind a long cache:
 *       one workgroup for each segment of the positions of a tile of tokens; grid
 *       (segments * S, tiles of all sequences). attention_merge_kernel then merges the
 *       segments: a row, or ATTENTION_MERGE_EACH elements of it, a workgroup; grid
 *       (H * parts of a row, tiles * tokens of a tile)
 *   attention_<name>_fused_split_kernel  steps in which all sequences have one token, fused
 *       with the operation before attention (struct attention_fused); grid (S, segments * B)
 *
 * attention_<name>_bytes_split_kernel and attention_<name>_bytes_fused_split_kernel read a
 * cache in 8 bits (attention_bytes.h). For the prefill and tile_split kernels such a cache becomes
 * halves first, by kv_widen.hip.
 *
 * S = G * the number of groups of at most ATTENTION_GROUP query heads of a key head.
 * Grids do not depend on positions: a workgroup without work returns. The split and the prefill
 * kernel may both be launched for one step. If skips_single is 0, the prefill kernel takes all
 * sequences.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	ATTENTION_GROUP = 16, /* query heads for which a workgroup loads keys and values once */
	/* Most segments of a sequence. A few more than 64: so 8,192, 16,384 and 32,768 positions
	 * and an answer have 65 segments. With 64 they had 43, 52 and 57, since all are of one
	 * length. */
	ATTENTION_SEGMENTS = 72,
	ATTENTION_SEGMENT = 64, /* positions in the smallest segment */
	/* Up to so many smallest segments are one: merging them costs more than they save. */
	ATTENTION_ALONE = 2,
	ATTENTION_SHORT = 64,   /* most segments of the smallest size: merging more costs more
				 * than they save */
	/* Work memory of the split kernel: floats in a row of a segment, in addition to
	 * v_dim. */
	ATTENTION_ROW_EXTRA = 4 /* two are used; four keep the values aligned */
};

/* Fields are in the order of their use by decode, for the reason that linear_int4.h tells. */
struct attention_launch {
	const int32_t *position;   /* (T) position of each token in its sequence */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	const uint16_t *k;         /* (n_pages, G, P, K) f16; bytes kernels: bytes */
	const uint16_t *v;         /* (n_pages, G, P, v_dim) f16; is_shared shapes: equals k */
	int32_t first_seq;         /* sequence of grid y = 0 */
	int32_t max_pages_per_seq, page_size;
	int32_t page_shift;        /* log2(page_size); -1: not a power of two */
	int32_t window;            /* see attention_seen.h */
	int32_t n_heads, n_kv_heads, head_dim, v_dim;
	float scale;
	uint16_t *y;               /* (T, H, v_dim) f16 */
	float *work;               /* split, tile_split: work memory, see ATTENTION_WORK */
	uint32_t *arrived; /* split: (B * S) workgroups finished; zero before and after */
	uint32_t merges_apart;     /* split: attention_merge_kernel merges the segments */
	uint32_t skips_single;     /* prefill: skip sequences with one token; merge: all sequences
				    * have one token, and their segments are those of split
				    * kernels */
	const float *sinks;        /* (H) attention sink logits, or NULL */
	const uint16_t *q;         /* (T, H, K) f16 */
	const uint16_t *k_scale;   /* bytes kernels: (n_pages, G, P) f16 */
	const uint16_t *v_scale;
	const int32_t *first_tok;  /* (B + 1): first token of each sequence */
	const int32_t *last_seen;  /* bidirectional: (T) last position that each token sees */
	int32_t tile_tok;          /* prefill, tile_split: tokens in a tile, a power of two */
	int32_t tile_shift;        /* log2(tile_tok) */
	int32_t first_tile;        /* prefill: tile of grid x = 0, of each sequence; tile_split:
				    * tile of grid y = 0, of all sequences */
	int32_t n_seq;             /* tile_split: B */
	int32_t n_segments;        /* tile_split, merge: most segments of a tile, a multiple of
				    * ATTENTION_MERGE_AT_ONCE */
	int32_t filler; /* tests/lint/check-padding */
};

/* What attention_merge_kernel would have to divide for; its latency is what the launch costs. */
struct attention_merge_launch {
	int32_t group, subs;  /* H / G, and ATTENTION_SUBS(H / G) */
	int32_t heads, all;   /* ATTENTION_HEADS(H / G), and G subs */
	uint32_t per_group;   /* 2^31 / group, rounded up: h / group is h per_group >> 31 */
	int32_t parts_shift;  /* log2 of the workgroups of a row, some of which may be idle */
	int32_t stride;       /* floats between segments: ATTENTION_TILE_SPLIT_WORK(1, …) */
};

/* Raw queries, keys and values of a step whose sequences have one token each: before
 * norm, rotation and cache (struct qk_norm_rope_kv_args, with device addresses). K is a
 * multiple of 8; n_freq and q_pitch are even. attention_launch.q is not read. */
struct attention_fused {
	const uint16_t *q;   /* (B, H, q_pitch) f16 */
	const uint16_t *k;   /* (B, G, K) f16 */
	const uint16_t *v;   /* (B, G, K) f16 */
	const float *rope;   /* (B, n_freq, 2) */
	const int32_t *slot; /* (B) where to write: page * P + offset */
	int32_t n_freq, q_pitch;
	int32_t group, subs; /* H / G, and ATTENTION_SUBS(H / G) */
	const float *q_norm; /* (K) norm weights, or NULL: no norm */
	const float *k_norm; /* (K) norm weights, or NULL: no norm */
	float eps;
	int32_t filler; /* tests/lint/check-padding */
	uint16_t *k_pages;   /* the same memory as attention_launch.k and .v … */
	uint16_t *v_pages;
	uint16_t *k_scale;   /* … and as its k_scale and v_scale */
	uint16_t *v_scale;
};

/* A row of attention.def. */
struct attention_shape {
	const char *name;
	int32_t key;         /* most elements of a key */
	int32_t value;       /* most elements of a value */
	int32_t block;       /* positions in LDS at once; by_rows: `step` */
	int32_t step;        /* positions that share one search for the maximum */
	int32_t parts;       /* waves that divide the sum of a score over K */
	int32_t is_shared;   /* values are the first elements of the keys (MLA) */
	int32_t prefill_tiles; /* tiles of 16 rows in a workgroup of the prefill kernel */
	int32_t is_fused;      /* a fused split kernel exists, and bytes kernels */
	int32_t by_rows;       /* prefill: waves that have 16 rows to themselves
				* (attention_rows.h); 0: all waves share all rows */
};
enum {
	ATTENTION_WAVES = 4, /* waves of a workgroup; of prefill: ATTENTION_PREFILL_WAVES */
	ATTENTION_MERGE_EACH = ATTENTION_WAVES * 32,
	ATTENTION_MERGE_AT_ONCE = 8 /* divides ATTENTION_SEGMENTS */
};

/* ATTENTION_HEADS: query heads of a workgroup. ATTENTION_SUBS: workgroups that share a key
 * head. */
#define ATTENTION_HEADS(group) ((group) < ATTENTION_GROUP ? (group) : ATTENTION_GROUP)
#define ATTENTION_SUBS(group) (((group) + ATTENTION_GROUP - 1) / ATTENTION_GROUP)
/* Floats of work memory for one (sequence, S): (segments, heads, v_dim + extra). */
#define ATTENTION_WORK(heads, v_dim) \
	(ATTENTION_SEGMENTS * (heads) * ((v_dim) + ATTENTION_ROW_EXTRA))
/* Floats of work memory for one (tile, S) of a tile_split kernel: (segments, tokens, heads,
 * v_dim + extra). */
#define ATTENTION_TILE_SPLIT_WORK(segments, tok, heads, v_dim) \
	((segments) * (tok) * (heads) * ((v_dim) + ATTENTION_ROW_EXTRA))

/* Bytes of dynamic LDS. Halves: queries, keys, values. Then floats: scores, ten numbers a
 * row, and the page rows of the positions of two blocks. */
#define ATTENTION_LDS(key, value, block, parts, is_shared, tiles) \
	(((tiles) * 16 * ((key) + 8) + (block) * ((key) + 8) + \
	  ((is_shared) ? 0 : (block) * ((value) + 8))) * 2 + \
	 ((parts) * (tiles) * 16 * ((block) + 4) + 10 * (tiles) * 16 + 2 * (block)) * 4)
/* Waves of a workgroup of a prefill or a bidirectional kernel; tiles of 16 rows in a workgroup of
 * a tile_split kernel, which has few tokens, by rows or not. */
#define ATTENTION_PREFILL_WAVES(by_rows, tiles) ((by_rows) ? (by_rows) * (tiles) : ATTENTION_WAVES)
#define ATTENTION_SPLIT_TILES(by_rows, tiles) \
	((by_rows) ? ATTENTION_WAVES / ((by_rows) ? (by_rows) : 1) : (tiles))
/* Bytes of dynamic LDS of a kernel by rows. Values are transposed. Each wave has three numbers a
 * row. Waves that share rows have scratch, too, through which they exchange scores. If there are
 * more than ATTENTION_WAVES of them, values overwrite the keys (ATTENTION_ROWS_OVER). */
#define ATTENTION_ROWS_SCRATCH(share) ((share) > 1 ? 512 : 0)
#define ATTENTION_ROWS_OVER(share, waves) ((share) > 1 && (waves) > ATTENTION_WAVES)
#define ATTENTION_ROWS_BLOCK(key, value, block, is_over) \
	((is_over) ? ((block) * ((key) + 8) > (value) * ((block) + 8) \
			      ? (block) * ((key) + 8) : (value) * ((block) + 8)) \
		   : (block) * ((key) + 8) + (value) * ((block) + 8))
#define ATTENTION_ROWS_LDS(key, value, block, share, waves) \
	(((waves) / (share) * 16 * ((key) + 8) + \
	  ATTENTION_ROWS_BLOCK(key, value, block, ATTENTION_ROWS_OVER(share, waves)) + \
	  (waves) * ATTENTION_ROWS_SCRATCH(share)) * 2 + \
	 ((waves) * 16 * 3 + 2 * (block)) * 4)
/* Bytes of dynamic LDS that a bidirectional kernel adds: the first position of each row. */
#define ATTENTION_BIDIRECTIONAL_LDS(waves) ((waves) * 16 * 4)
/* Bytes of dynamic LDS that a fused split kernel adds: the step's key and value. */
#define ATTENTION_FUSED_LDS(key) (2 * (key) * 2)
