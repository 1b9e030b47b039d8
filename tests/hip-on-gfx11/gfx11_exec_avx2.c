/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter's instructions, for hosts with avx2.
 */
#if defined __x86_64__ && !defined __clang__
#include <immintrin.h>
#endif
#include <math.h>
#include <stdbool.h>

#define EXECUTOR executor_avx2
#define EXECUTOR_NAME "avx2"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,popcnt,lzcnt")
#define HALVES 256

static bool is_there(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("f16c");
}
#else
#define HALVES 0

static bool is_there(void)
{
	return false;
}
#endif

#include "tests/hip-on-gfx11/gfx11_exec.h"
