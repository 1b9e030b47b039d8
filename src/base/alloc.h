/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory that must not fail. Thread: any.
 *
 * When a small allocation fails, the process prints a line on stderr and aborts; systemd
 * restarts it. Sizes that a client or a model chooses go through plain malloc instead,
 * and a failure there returns E_NOMEM.
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
#ifndef MIN /* <sys/param.h> defines MIN too */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
/* n / each, rounded up, and n rounded up to a multiple. n >= 0, each > 0. */
#define DIV_UP(n, each) (((n) + (each) - 1) / (each))
#define ROUND_UP(n, to) (DIV_UP(n, to) * (to))
