/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sanitizer this is compiled with, as GCC and as clang tell it: WITH_ASAN,
 * WITH_TSAN, and their functions; ASan's for memory do nothing where it is not there.
 */
#pragma once
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define WITH_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define WITH_TSAN 1
#endif

#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define __asan_poison_memory_region(p, n) ((void)0)
#define __asan_unpoison_memory_region(p, n) ((void)0)
#endif
