/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/work.h"

static void *_Atomic spare;

_Noreturn static void give_up(size_t n)
{
	char text[160];
	int len = snprintf(text, sizeof text, "<2>halod: error: out of memory (%zu bytes): the "
			   "limits of memory are too low (MemoryMax, ulimit -v, ulimit -d)\n", n);
	ssize_t written = write(STDERR_FILENO, text, (size_t)len);
	(void)written; /* nobody is left to be told */
	_exit(1);
}

/* The system has refused n bytes. True: there may be some now. */
static bool use_spare(void)
{
	void *p = atomic_exchange(&spare, NULL);
	work_lose_memory();
	free(p);
	return p != NULL;
}

void alloc_keep_spare(size_t n)
{
	void *none = NULL, *p = atomic_load(&spare) ? NULL : malloc(n);
	if (p && !atomic_compare_exchange_strong(&spare, &none, p))
		free(p);
}

void *xmalloc(size_t n)
{
	void *p;
	while (!(p = malloc(n ? n : 1)))
		if (!use_spare())
			give_up(n);
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	void *p;
	while (!(p = calloc(n ? n : 1, size ? size : 1)))
		if (!use_spare())
			give_up(n * size);
	return p;
}

void *xrealloc(void *p, size_t n)
{
	void *new;
	while (!(new = realloc(p, n ? n : 1)))
		if (!use_spare())
			give_up(n);
	return new;
}

void *alloc_try(void *p, size_t n)
{
	void *new = realloc(p, n ? n : 1);
	if (!new)
		work_lose_memory();
	return new;
}

void *alloc_or_drop(void *p, size_t n)
{
	void *new = realloc(p, n ? n : 1);
	return new || work_lose_memory() ? new : xrealloc(p, n);
}

char *xstrndup(const char *s, size_t n)
{
	char *p = xmalloc(n + 1);
	memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

char *xstrdup(const char *s) { return xstrndup(s, strlen(s)); }

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *p = xmalloc((size_t)MAX(n, 0) + 1);
	p[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(p, (size_t)MAX(n, 0) + 1, fmt, ap);
	va_end(ap);
	return p;
}
