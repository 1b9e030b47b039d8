/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch arguments of causal_conv.hip, delta_rule.hip and gated_norm.hip, with device
 * addresses. C for the host, C++ for the kernels.
 */
#pragma once
#if !defined(__HIP__)
#include <stdint.h>
#endif

enum {
	CONV_THREADS = 256, CONV_PARTS = 3, CONV_MAX_WIDTH = 16, CONV_USUAL_WIDTH = 8,
	CONV_SEGMENT = 64, /* tokens of a sequence that a workgroup takes; at least a width */
	CONV_AHEAD = 8,    /* of which so many inputs are loaded at once */
	DELTA_WAVES = 8,
	DELTA_LANES = 8,   /* lanes that share a row of the state */
	DELTA_ROWS = DELTA_WAVES * 32 / DELTA_LANES, /* rows of the state in a workgroup */
	DELTA_TOK = 16,    /* tokens whose keys and queries are in LDS at once, at most */
	NORM_WAVES = 4,
	GATE_THREADS = 256,
};

/* Like struct head_view, of halves or of floats. */
struct half_heads {
	const uint16_t *p;
	int32_t row, n_heads, dim, pitch;
};
struct float_heads {
	const float *p;
	int32_t row, n_heads, dim, pitch;
};

struct state_slots { /* like struct seq_states */
	const int32_t *from, *to, *save, *save_at;
};

struct causal_conv_launch {
	int32_t width, n_channels, n_parts, is_gated;
	struct half_heads part[CONV_PARTS];
	/* Part i as sums of two f32 arrays, which are laid out like part[i]; high[i] NULL: it is
	 * halves. Not read by causal_conv_kernel and causal_conv_wide_kernel. */
	const float *high[CONV_PARTS], *low[CONV_PARTS];
	float low_scale;
	int32_t filler; /* tests/lint/check-padding */
	struct half_heads in_gate, out_gate; /* is_gated 0: not used, but must be readable */
	const float *weight;      /* (C, W) */
	const float *bias;        /* (C), or NULL */
	const int32_t *first_tok; /* (B+1): first token of each sequence */
	struct state_slots states;
	float *state;             /* (n_slots, C, W-1) */
	uint16_t *y;              /* (T, C) f16 */
};

struct gated_norm_launch {
	int32_t n_rows, n_heads, dim; /* n_rows is T * H */
	float eps;
	const uint16_t *x;   /* (T, H, V) f16 */
	struct half_heads z;
	/* (V), or gates_first: (H, V). delta_rule: NULL if no norm follows. */
	const float *weight;
	uint16_t *y;         /* (T, H, V) f16 */
	uint32_t is_sigmoid;
	/* gates_first: a factor of z; is there no norm, only its weights? */
	float z_scale;
	uint32_t skips_norm;
	int32_t filler; /* tests/lint/check-padding */
};

struct delta_rule_launch {
	int32_t n_k_heads, n_v_heads, k_dim, v_dim;
	uint32_t heads_tiled;
	float q_scale;            /* 1 / sqrt(K) */
	float a_scale;            /* read by state_space_* only */
	/* Is g_min below 0? Both are read by delta_channels_* only. An integer, because gfx1151
	 * compares floats of arguments by a scalar instruction that gfx1100 lacks. */
	uint32_t has_min;
	float g_min;
	int32_t filler;           /* tests/lint/check-padding */
	const uint16_t *qkv;      /* (T, 2 Hk K + Hv V) f16 */
	struct float_heads a, b;
	const float *decay, *dt_bias; /* as in delta_rule_args */
	const float *skip;        /* (Hv): read by state_space_* only */
	const int32_t *first_tok; /* (B+1): first token of each sequence */
	struct state_slots states;
	float *state;             /* (n_slots, Hv, V, K) */
	uint16_t *y;              /* (T, Hv, V) f16 */
	/* The norm of y, if each sequence has one token. The last workgroup of a head does
	 * it. */
	struct gated_norm_launch norm;
	uint32_t *arrived;        /* (B Hv) workgroups finished; zero before and after */
};
