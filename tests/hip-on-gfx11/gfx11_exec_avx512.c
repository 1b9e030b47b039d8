/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter's instructions, for hosts with avx512.
 */
#if defined __x86_64__ && !defined __clang__
#include <immintrin.h>
#endif
#include <math.h>
#include <stdbool.h>

#define EXECUTOR executor_avx512
#define EXECUTOR_NAME "avx512"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#pragma GCC target("prefer-vector-width=512")
#define HALVES 512

static bool is_there(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
#define HALVES 0

static bool is_there(void)
{
	return false;
}
#endif

#include "tests/hip-on-gfx11/gfx11_exec.h"
