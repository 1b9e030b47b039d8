/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory. Thread: any.
 *
 * Three ways to take it, by who chooses the size:
 *
 *   - the code (x…): it does not fail. When the system refuses, the process lives from a spare
 *     that it has kept, and the thread's request is over (base/work.h). When the spare is used
 *     up, too, the process says so on stderr and ends with status 1. systemd starts it again.
 *   - a request (alloc_try, alloc_or_drop; buf.h and ids_add use them): one that fails ends its
 *     request with E_NOMEM, and nothing else.
 *   - a model: plain malloc. A failure there returns E_NOMEM.
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

/* As realloc. NULL: the system refuses, p stays valid, and the request of this thread, if it
 * has one, is over. Never takes from the spare. */
void *alloc_try(void *p, size_t n);
/* The same for callers that drop what they have no room for. NULL only where the thread works
 * for a request, which is over then; otherwise like xrealloc. */
void *alloc_or_drop(void *p, size_t n);
/* Keeps n bytes as the spare, as far as the system gives them now. A spare that was used up is
 * kept anew by the next call. The memory is not touched: it is address space. */
void alloc_keep_spare(size_t n);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#ifndef MIN /* <sys/param.h> defines MIN too */
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
/* n / each, rounded up, and n rounded up to a multiple. n >= 0, each > 0. */
#define DIV_UP(n, each) (((n) + (each) - 1) / (each))
#define ROUND_UP(n, to) (DIV_UP(n, to) * (to))
