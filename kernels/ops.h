/* SPDX-License-Identifier: Apache-2.0
 *
 * The contracts of all operations, in one include for the backends. Letters
 * and rules: kernels/README.md.
 */
#pragma once
#include "kernels/attention.h"
#include "kernels/causal_conv.h"
#include "kernels/copy_words.h"
#include "kernels/delta_rule.h"
#include "kernels/embed_rows.h"
#include "kernels/gated_norm.h"
#include "kernels/gather_rows.h"
#include "kernels/head_linear.h"
#include "kernels/kv_copy.h"
#include "kernels/linear.h"
#include "kernels/logits_top.h"
#include "kernels/mla_rope_kv.h"
#include "kernels/moe_experts.h"
#include "kernels/moe_router.h"
#include "kernels/qk_norm_rope_kv.h"
#include "kernels/rms_norm.h"
#include "kernels/rope_table.h"
#include "kernels/sigmoid_gate.h"
#include "kernels/silu_mul.h"
