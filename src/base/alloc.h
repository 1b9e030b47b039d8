/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that must not fail. Thread: any.
 *
 * Small allocations abort with a line on stderr when memory is out (systemd
 * restarts us). What is sized by a client or a model goes through plain
 * malloc and returns E_NOMEM.
 */
#pragma once
#include <stddef.h>

#include "base/status.h"

void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((returns_nonnull));
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#ifndef MIN /* <sys/param.h> has the same */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
