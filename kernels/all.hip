/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel: the source of a code object, and of the fibers' table of kernels.
 */
#include "kernels/attention.hip"
#include "kernels/causal_conv.hip"
#include "kernels/delta_rule.hip"
#include "kernels/embed_rows.hip"
#include "kernels/gated_norm.hip"
#include "kernels/gather_rows.hip"
#include "kernels/head_linear.hip"
#include "kernels/kv_copy.hip"
#include "kernels/linear_any.hip"
#include "kernels/linear_int4.hip"
#include "kernels/linear_rows.hip"
#include "kernels/linear_tile.hip"
#include "kernels/mla_rope_kv.hip"
#include "kernels/moe_router.hip"
#include "kernels/qk_norm_rope_kv.hip"
#include "kernels/rms_norm.hip"
#include "kernels/rope_table.hip"
#include "kernels/silu_mul.hip"
