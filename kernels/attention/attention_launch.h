/* SPDX-License-Identifier: Apache-2.0
 *
 * How attention.hip is launched: arguments, shapes, grids, work memory. C for the
 * host, C++ for the kernel.
 *
 * Two kernels of each shape (attention.def) share a step's sequences:
 *   attention_<name>_split_kernel  sequences of one token: one workgroup a segment of
 *       the positions, the last of them to end adds up; grid (segments * S, B)
 *   attention_<name>_whole_kernel  the others: one workgroup a tile of tokens; grid
 *       (tiles * S, B)
 *   attention_<name>_fresh_split_kernel  all sequences of one token, and what comes before
 *       attention with it (struct attention_fresh); grid (S, segments * B)
 * where S = G * sub groups of at most ATTENTION_GROUP query heads. A workgroup that
 * finds nothing to do returns, so that neither grid depends on a position. Both may be
 * launched for one step; where skips_single is 0 the whole kernel takes all.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	ATTENTION_GROUP = 16,    /* query heads that share a workgroup's reading */
	ATTENTION_SEGMENTS = 64, /* of a sequence, at most */
	ATTENTION_SEGMENT = 64,  /* positions of the smallest segment */
	/* Work memory of the split kernel: floats of a row of a segment beside v_dim. */
	ATTENTION_ROW_EXTRA = 4 /* two of them used: the others keep values aligned */
};

struct attention_launch {
	const uint16_t *q;         /* (T, H, K) f16 */
	const uint16_t *k;         /* (n_pages, G, P, K) f16 */
	const uint16_t *v;         /* (n_pages, G, P, v_dim) f16; the shared kernels: k */
	const int32_t *position;   /* (T) */
	const int32_t *first_tok;  /* (B + 1) */
	const int32_t *page_table; /* (B, max_pages_per_seq) */
	const float *sinks;        /* (H), or NULL */
	uint16_t *y;               /* (T, H, v_dim) f16 */
	float *work;               /* split: see ATTENTION_WORK */
	uint32_t *arrived;         /* split: (B * S), zero before and after */
	int32_t n_heads, n_kv_heads, head_dim, v_dim, page_size, max_pages_per_seq;
	int32_t page_shift;        /* log2(page_size), or -1 */
	int32_t window;            /* 0: all */
	int32_t tile_tok;          /* whole: tokens of a tile, a power of two */
	int32_t first_seq;         /* of grid y 0 */
	uint32_t skips_single;     /* whole: leaves sequences of one token */
	float scale;
};

/* The step's queries, keys and values as they are before norm, rotation and cache, whose
 * tokens are sequences (struct qk_norm_rope_kv_args, with device addresses). K is a
 * multiple of 8, n_freq and q_pitch are even. attention_launch.q is not read. */
struct attention_fresh {
	const uint16_t *q;   /* (B, H, q_pitch) f16 */
	const uint16_t *k;   /* (B, G, K) f16 */
	const uint16_t *v;   /* (B, G, K) f16 */
	const float *q_norm; /* (K), or NULL */
	const float *k_norm; /* (K), or NULL */
	const float *rope;   /* (B, n_freq, 2) */
	const int32_t *slot; /* (B) */
	uint16_t *k_pages;   /* attention_launch.k and .v */
	uint16_t *v_pages;
	int32_t n_freq, q_pitch;
	int32_t group, subs; /* H / G, ATTENTION_SUBS of that */
	float eps;
};

/* One row of attention.def. */
struct attention_shape {
	const char *name;
	int32_t key;         /* elements of a key, at most */
	int32_t value;       /* of a value, at most */
	int32_t block;       /* positions at a time; by rows: only where the machine copies
			      * to LDS by itself, elsewhere a step */
	int32_t step;        /* positions whose greatest score is found at once */
	int32_t parts;       /* waves that share the sum of a score */
	int32_t is_shared;   /* values are the first part of the keys */
	int32_t whole_tiles; /* of 16 rows; a row is a query head of a token */
	int32_t has_fresh;   /* it has a fresh split kernel */
	int32_t by_rows;     /* whole: a wave has 16 rows (attention_rows.h) */
};
enum { ATTENTION_WAVES = 4 }; /* of a workgroup */

/* Query heads of a workgroup, and how many workgroups share a key head. */
#define ATTENTION_HEADS(group) ((group) < ATTENTION_GROUP ? (group) : ATTENTION_GROUP)
#define ATTENTION_SUBS(group) (((group) + ATTENTION_GROUP - 1) / ATTENTION_GROUP)
/* Floats of one (sequence, S): (segments, heads, value + 2) */
#define ATTENTION_WORK(heads, v_dim) \
	(ATTENTION_SEGMENTS * (heads) * ((v_dim) + ATTENTION_ROW_EXTRA))

/* Dynamic LDS: queries, keys, values in halves; scores, ten numbers a row, where the
 * positions of two blocks lie. */
#define ATTENTION_LDS(key, value, block, parts, is_shared, tiles) \
	(((tiles) * 16 * ((key) + 8) + (block) * ((key) + 8) + \
	  ((is_shared) ? 0 : (block) * ((value) + 8))) * 2 + \
	 ((parts) * (tiles) * 16 * ((block) + 4) + 10 * (tiles) * 16 + 2 * (block)) * 4)
/* The same of a whole kernel by rows: values either way round, as the machine wants
 * them; per wave what turns scores; three numbers a row. */
#define ATTENTION_ROWS_LDS(key, value, block, tiles) \
	(((tiles) * 16 * ((key) + 8) + (block) * ((key) + 8) + (value) * ((block) + 16) + \
	  (tiles) * 384) * 2 + ((tiles) * 16 * 3 + 2 * (block)) * 4)
/* What a fresh split kernel has beside that: the step's key and value. */
#define ATTENTION_FRESH_LDS(key) (2 * (key) * 2)
