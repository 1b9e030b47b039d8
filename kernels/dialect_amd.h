/* SPDX-License-Identifier: Apache-2.0
 *
 * The dialect (dialect.h) for gfx11 by clang, without a HIP header or device library:
 * -x hip --cuda-device-only -nogpuinc -nogpulib.
 */
#pragma once
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
#ifndef NULL
#define NULL nullptr
#endif

#define DEVICE static inline __attribute__((device, always_inline))
#define KERNEL(max_threads) \
	extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, max_threads)))
#define UNROLL _Pragma("unroll")
#define LDS(T, name, n) static __attribute__((shared)) T name[n]
#define LDS_DYNAMIC(T, name) \
	extern __attribute__((shared)) __attribute__((aligned(16))) T name[]

typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef float f32x8 __attribute__((ext_vector_type(8)));
typedef _Float16 h16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 dialect_h2 __attribute__((ext_vector_type(2)));
typedef __bf16 dialect_b2 __attribute__((ext_vector_type(2)));
typedef short dialect_s16 __attribute__((ext_vector_type(16)));

template <class T, class F> DEVICE T bits_cast(F x)
{
	return __builtin_bit_cast(T, x);
}

/* So that what follows from it is computed once a wave, in scalar registers. */
DEVICE uint32_t wave_uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }
DEVICE uint32_t thread_index() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t group_index_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t group_index_y() { return __builtin_amdgcn_workgroup_id_y(); }

DEVICE void group_barrier(int = 0)
{
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

DEVICE void device_fence() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }

template <class T> DEVICE T load_nt(const void *p)
{
	return __builtin_nontemporal_load((const T *)p);
}

/* Within 16 lanes a DPP row exchange costs nothing beside the addition it feeds. */
template <int M> DEVICE float wave_xor(float x, int = 0)
{
	int i = bits_cast<int>(x);
	if constexpr (M < 16)
		i = __builtin_amdgcn_update_dpp(0, i, 0x160 | M, 0xF, 0xF, true);
	else
		i = __builtin_amdgcn_permlanex16(i, i, 0x76543210u, 0xFEDCBA98u, false,
						 false);
	return bits_cast<float>(i);
}

DEVICE uint32_t wave_shuffle(uint32_t x, uint32_t lane, int = 0)
{
	return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(lane * 4), (int)x);
}

DEVICE float wave_shuffle(float x, uint32_t lane, int = 0)
{
	return bits_cast<float>(wave_shuffle(bits_cast<uint32_t>(x), lane));
}

DEVICE uint32_t wave_ballot(bool is_set, int = 0)
{
	return __builtin_amdgcn_ballot_w32(is_set);
}

DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
	return __builtin_amdgcn_fdot2(bits_cast<dialect_h2>(a), bits_cast<dialect_h2>(b),
				      c, false);
}

DEVICE float dot2_bf16(uint32_t a, uint32_t b, float c)
{
	return __builtin_amdgcn_fdot2_f32_bf16(bits_cast<dialect_b2>(a),
					       bits_cast<dialect_b2>(b), c, false);
}

DEVICE uint32_t sub2_f16(uint32_t a, uint32_t b)
{
	return bits_cast<uint32_t>(bits_cast<dialect_h2>(a) - bits_cast<dialect_h2>(b));
}

DEVICE uint32_t fma2_f16(uint32_t a, uint32_t b, uint32_t c)
{
	return bits_cast<uint32_t>(__builtin_elementwise_fma(
		bits_cast<dialect_h2>(a), bits_cast<dialect_h2>(b),
		bits_cast<dialect_h2>(c)));
}

DEVICE float f16_to_f32(uint16_t h) { return (float)bits_cast<_Float16>(h); }
DEVICE uint16_t f32_to_f16(float x) { return bits_cast<uint16_t>((_Float16)x); }
DEVICE float bf16_to_f32(uint16_t h) { return bits_cast<float>((uint32_t)h << 16); }

DEVICE float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
DEVICE float fast_rcp(float x) { return __builtin_amdgcn_rcpf(x); }
DEVICE float fast_rsqrt(float x) { return __builtin_amdgcn_rsqf(x); }

DEVICE f32x8 mma_f16(h16x16 a, h16x16 b, f32x8 c, int = 0)
{
	return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c);
}

DEVICE f32x8 mma_bf16(h16x16 a, h16x16 b, f32x8 c, int = 0)
{
	return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(bits_cast<dialect_s16>(a),
							   bits_cast<dialect_s16>(b), c);
}

DEVICE float atomic_add(float *p, float x)
{
	return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

DEVICE uint32_t atomic_add(uint32_t *p, uint32_t x)
{
	return __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
