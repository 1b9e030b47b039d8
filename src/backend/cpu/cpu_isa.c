/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/cpu/cpu_isa.h"

#include <string.h>

#include "base/alloc.h"

#ifdef CPU_HAS_X86
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
	       __builtin_cpu_supports("f16c");
}

static bool has_avx512(void)
{
	return has_avx2() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vnni");
}

static bool has_avx512_bf16(void)
{
	return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* True if products of bf16 pairs are slow: see cpu_simd_pairs.h. */
static bool is_slow_bf16(void)
{
	return __builtin_cpu_is("intel");
}
#endif

static bool has_any(void)
{
	return true;
}

/* Instruction sets, the best first. */
static const struct {
	const struct cpu_isa *isa;
	bool (*is_there)(void);
	bool (*is_slow)(void); /* true: the next set is faster, if available; NULL: never */
} sets[] = {
#ifdef CPU_HAS_X86
	{&cpu_isa_avx512_bf16, has_avx512_bf16, is_slow_bf16},
	{&cpu_isa_avx512, has_avx512, NULL},
	{&cpu_isa_avx2, has_avx2, NULL},
#endif
	{&cpu_isa_portable, has_any, NULL},
};

static bool is_name(const char *name)
{
	static const char *const known[] = {"avx512_bf16", "avx512", "avx2", "portable"};
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(name, known[i]) == 0)
			return true;
	return false;
}

enum status cpu_isa_find(const char *name, const struct cpu_isa **out,
			 struct fail *fail)
{
	bool is_auto = !name || !*name || strcmp(name, "auto") == 0;
	if (!is_auto && !is_name(name))
		return fail_at(fail, E_CONFIG, "cpu_isa", "there is no instruction set "
			       "%.40s; known: auto, avx512_bf16, avx512, avx2, portable", name);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		if (!is_auto && strcmp(sets[i].isa->name, name) != 0)
			continue;
		if (!sets[i].is_there() ||
		    (is_auto && sets[i].is_slow && sets[i].is_slow()))
			continue;
		*out = sets[i].isa;
		return OK;
	}
	return fail_at(fail, E_UNSUPPORTED, "cpu_isa",
		       "this processor (or build) has no %s", name);
}
