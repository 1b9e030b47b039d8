/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hip-on-cpu/kernels.h"

#include <utility>

#include "kernels/all.hip"

/* A kernel's arguments, taken from an array of their addresses by its type. */
template <auto kernel> struct call;
template <class... A, void (*kernel)(A...)> struct call<kernel> {
	template <size_t... i> static void with(void **args, std::index_sequence<i...>)
	{
		kernel(*(A *)args[i]...);
	}
	static void run(void **args)
	{
		with(args, std::index_sequence_for<A...>());
	}
	static constexpr int n_args = sizeof...(A);
	static constexpr size_t arg_bytes[] = {sizeof(A)...};
};

#define ENTRY(name) \
	{#name "_kernel", call<name##_kernel>::run, call<name##_kernel>::n_args, \
	 call<name##_kernel>::arg_bytes},
#define LINEAR(name, m) \
	ENTRY(linear_int4_##name##_m##m) ENTRY(linear_int4_##name##_m##m##_zero)
#define ROWS(name) \
	ENTRY(linear_rows_##name##_m1) ENTRY(linear_rows_##name##_m2) \
	ENTRY(linear_rows_##name##_m4)
static const kernel_entry kernels[] = {
#define BLOCKS(name) ENTRY(embed_rows_##name) ENTRY(linear_any_##name)
	BLOCKS(q4_0) BLOCKS(q4_1)
	BLOCKS(q5_0) BLOCKS(q5_1)
	BLOCKS(q8_0) BLOCKS(q2_k)
	BLOCKS(q3_k) BLOCKS(q4_k)
	BLOCKS(q5_k) BLOCKS(q6_k)
	BLOCKS(iq2_xxs) BLOCKS(iq4_nl)
	BLOCKS(iq4_xs) BLOCKS(mxfp4_block)
#undef BLOCKS
#define SHAPE(name, ...) ENTRY(attention_##name##_whole) ENTRY(attention_##name##_split)
#include "kernels/attention.def"
#undef SHAPE
	ENTRY(bandwidth_read)
	ENTRY(embed_rows_f32) ENTRY(embed_rows_f16) ENTRY(embed_rows_bf16)
	ENTRY(embed_rows_int4) ENTRY(embed_rows_int8) ENTRY(embed_rows_fp8)
	ENTRY(embed_rows_nvfp4) ENTRY(embed_rows_mxfp4) ENTRY(gather_rows)
	ENTRY(kv_copy)
	ENTRY(linear_any_f32) ENTRY(linear_any_f16) ENTRY(linear_any_bf16)
	ENTRY(linear_any_int4) ENTRY(linear_any_int8) ENTRY(linear_any_fp8)
	ENTRY(linear_any_nvfp4) ENTRY(linear_any_mxfp4)
	ROWS(f16) ENTRY(linear_rows_f16_m8) ROWS(bf16) ENTRY(linear_rows_bf16_m8)
	ROWS(int8) ENTRY(linear_rows_int8_m8) ROWS(fp8) ROWS(nvfp4) ROWS(mxfp4)
#define AXES(name, thrds, ytile, waves, chunk, unr) \
	LINEAR(name, 1) LINEAR(name, 2) LINEAR(name, 3) LINEAR(name, 4) \
	LINEAR(name, 5) LINEAR(name, 6) LINEAR(name, 7) LINEAR(name, 8)
#include "kernels/linear_int4.def"
#undef AXES
#define TILE(name, ...) \
	ENTRY(linear_tile_##name##_int4g32) ENTRY(linear_tile_##name##_int4) \
	ENTRY(linear_tile_##name##_f16) ENTRY(linear_tile_##name##_bf16)
#include "kernels/linear_tile.def"
#undef TILE
#define MOE_ANY(format) \
	ENTRY(moe_any_up_##format) ENTRY(moe_any_down_##format) ENTRY(moe_scale_##format)
#define UP(name, ...) ENTRY(moe_int4_up_##name) ENTRY(moe_int4_up_##name##_zero)
#define DOWN(name, ...) ENTRY(moe_int4_down_##name) ENTRY(moe_int4_down_##name##_zero)
#include "kernels/moe_int4.def"
#undef UP
#undef DOWN
#define MOE_TILE(name, format) \
	ENTRY(moe_tile_up_##name##_##format) ENTRY(moe_tile_down_##name##_##format)
#define TILE(name, ...) \
	MOE_TILE(name, int4g32) MOE_TILE(name, int4) MOE_TILE(name, f16) \
	MOE_TILE(name, bf16)
#include "kernels/moe_tile.def"
#undef TILE
	ENTRY(logits_runs) ENTRY(logits_top) ENTRY(moe_align) ENTRY(moe_combine)
	MOE_ANY(f32) MOE_ANY(f16) MOE_ANY(bf16) MOE_ANY(int4)
	ENTRY(moe_router_f32) ENTRY(moe_router_f16) ENTRY(moe_router_bf16)
	ENTRY(qk_norm_rope_kv) ENTRY(rms_norm) ENTRY(rope_table) ENTRY(silu_mul)
	ENTRY(causal_conv) ENTRY(gated_norm) ENTRY(sigmoid_gate)
	ENTRY(delta_rule_n4) ENTRY(delta_rule_n8) ENTRY(delta_rule_n16)
	ENTRY(delta_rule_n32)
	ENTRY(head_linear_f32) ENTRY(head_linear_f16) ENTRY(head_linear_bf16)
	ENTRY(head_linear_int4) ENTRY(head_linear_t_f32) ENTRY(head_linear_t_f16)
	ENTRY(head_linear_t_bf16) ENTRY(head_linear_t_int4) ENTRY(mla_rope_kv)
};

const kernel_entry *kernels_find(const char *name)
{
	for (const auto &k : kernels)
		if (strcmp(k.name, name) == 0)
			return &k;
	return NULL;
}
