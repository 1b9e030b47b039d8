/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts threads. Signals are the main thread's; another one gets those of its own faults
 * alone (SIGBUS, see mapped.h). Thread: any.
 */
#pragma once
#include <pthread.h>

/* Parsers use the stack for nesting; a limit such as `ulimit -s` shall not cut it. */
enum { THREAD_STACK_BYTES = 8 << 20 };

/* name: 15 characters at most. Returns 0, or an errno; then *out is not set. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *arg), void *arg);
