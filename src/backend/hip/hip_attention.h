/* SPDX-License-Identifier: Apache-2.0
 *
 * How the operation attention runs. Thread: engine.
 */
#pragma once
#include "backend/hip/hip_launch.h"

/* From TILE_SPLIT on the kernels read a cache in 16 bits; from PREFILL on they leave out sequences
 * of one token. */
enum hip_attention_way {
	HIP_ATTENTION_FUSED,         /* one token a sequence, with qk_norm_rope_kv in the launch */
	HIP_ATTENTION_SPLIT,         /* one token a sequence */
	HIP_ATTENTION_SINGLE,        /* so many that each compute unit has several */
	HIP_ATTENTION_FEW,           /* drafts of one sequence, each as a sequence of its own */
	HIP_ATTENTION_TILE_SPLIT,    /* few tokens behind a long cache: many workgroups read it */
	HIP_ATTENTION_BIDIRECTIONAL, /* tokens see positions behind their own */
	HIP_ATTENTION_PREFILL,       /* many tokens of one sequence */
	HIP_ATTENTION_BOTH,          /* several sequences. The host knows only totals, so some may
				      * have one token: prefill, then split */
};
/* The way for arguments that are supported. It depends on them, on the compute units and on
 * base.few_tok alone. */
enum hip_attention_way hip_attention_way(const struct hip *h, const struct attention_args *a);
