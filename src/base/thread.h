/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts threads. Signals are the main thread's; another one gets those of its own faults
 * alone (SIGBUS, see mapped.h). Thread: any.
 */
#pragma once
#include <pthread.h>

/* name: 15 characters at most. Returns 0, or an errno; then *out is not set. */
int thread_start(pthread_t *out, const char *name, void *(*run)(void *arg), void *arg);
