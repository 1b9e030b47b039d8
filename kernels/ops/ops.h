/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes the contracts of all operations, for the backends. kernels/README.md explains
 * the letters for shapes, and the rules.
 */
#pragma once
#include "kernels/ops/act_mul.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/causal_conv.h"
#include "kernels/ops/clip.h"
#include "kernels/ops/compress.h"
#include "kernels/ops/copy_words.h"
#include "kernels/ops/delta_rule.h"
#include "kernels/ops/embed_rows.h"
#include "kernels/ops/gated_norm.h"
#include "kernels/ops/gather_rows.h"
#include "kernels/ops/gelu.h"
#include "kernels/ops/head_linear.h"
#include "kernels/ops/hyper.h"
#include "kernels/ops/index.h"
#include "kernels/ops/kv_copy.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/logits_cap.h"
#include "kernels/ops/logits_top.h"
#include "kernels/ops/mla_rope_kv.h"
#include "kernels/ops/moe_experts.h"
#include "kernels/ops/moe_router.h"
#include "kernels/ops/move_pieces.h"
#include "kernels/ops/ngram_gate.h"
#include "kernels/ops/qk_norm_rope_kv.h"
#include "kernels/ops/rms_norm.h"
#include "kernels/ops/rope_table.h"
#include "kernels/ops/sigmoid_gate.h"
