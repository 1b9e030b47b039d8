/* SPDX-License-Identifier: Apache-2.0
 *
 * A compile unit of kernels on fibers: UNIT_SOURCE is the .hip, UNIT_KERNELS a file
 * that the build makes of it, with a line KERNEL_ENTRY(name) for each of its kernels.
 */
#if defined __GNUC__ && !defined __clang__
/* GCC 14 no longer follows which of two calls sets a variable; clang builds these, too. */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "tests/hip-on-cpu/kernels.h"

#include <utility>

#include UNIT_SOURCE

namespace {

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

#define KERNEL_ENTRY(name) \
	{#name, call<name>::run, call<name>::n_args, call<name>::arg_bytes},
const kernel_entry kernels[] = {
#include UNIT_KERNELS
};

struct added_unit {
	kernel_unit unit = {kernels, sizeof kernels / sizeof kernels[0], nullptr};
	added_unit() { kernels_add(&unit); }
} added;

} // namespace
