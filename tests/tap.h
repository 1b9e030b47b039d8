/* SPDX-License-Identifier: Apache-2.0
 *
 * Test Anything Protocol for the unit tests: a test program is a main() that
 * states facts and ends with `return tap_done();`. Automake's TAP driver counts
 * them. A program that dies half way has no plan line and counts as failed.
 */
#pragma once
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/worse.h"

/* Built with a sanitizer, whose own memory is beyond RLIMIT_AS? */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TAP_IS_SANITIZED true
#elif defined(__has_feature) /* clang */
#define TAP_IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define TAP_IS_SANITIZED false
#endif

static int tap_n, tap_failed;

__attribute__((format(printf, 4, 5), unused)) static bool
tap_ok_at(bool pass, const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	printf("%sok %d - ", pass ? "" : "not ", ++tap_n);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (!pass) {
		tap_failed++;
		printf("# failed at %s:%d\n", file, line);
	}
	fflush(stdout);
	return pass;
}

#define ok(cond, ...) tap_ok_at((cond), __FILE__, __LINE__, __VA_ARGS__)

#define is_int(got, want, ...) do { \
	long long got_ = (long long)(got), want_ = (long long)(want); \
	if (!ok(got_ == want_, __VA_ARGS__)) \
		printf("# got %lld, want %lld\n", got_, want_); \
} while (0)

/* NUL-terminated strings; NULL equals only NULL. */
#define is_str(got, want, ...) do { \
	const char *got_ = (got), *want_ = (want); \
	bool same_ = got_ && want_ ? strcmp(got_, want_) == 0 : got_ == want_; \
	if (!ok(same_, __VA_ARGS__)) \
		printf("# got  [%s]\n# want [%s]\n", got_ ? got_ : "(null)", \
		       want_ ? want_ : "(null)"); \
} while (0)

#define is_near(got, want, tolerance, ...) do { \
	double got_ = (got), want_ = (want); \
	if (!ok(fabs(got_ - want_) <= (tolerance), __VA_ARGS__)) \
		printf("# got %.9g, want %.9g\n", got_, want_); \
} while (0)

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_n);
	return tap_failed ? 1 : 0;
}

/* What HALOD_CHECK, a list as in "short,every=10", says of a word: its value, or "" without one.
 * NULL: the word is not there. Valid until the next call. docs/testing.md has the words. */
__attribute__((unused)) static const char *tap_check(const char *word)
{
	static char value[64];
	size_t n = strlen(word);
	for (const char *p = getenv("HALOD_CHECK"); p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, word, n) != 0 || (p[n] && p[n] != ',' && p[n] != '='))
			continue;
		p += n + (p[n] == '=');
		snprintf(value, sizeof value, "%.*s", (int)strcspn(p, ","), p);
		return value;
	}
	return NULL;
}

/* A path below the source folder: tests run from the build folder. Static ring of
 * four. */
__attribute__((unused)) static const char *tap_src(const char *relative)
{
	static char ring[4][1024];
	static int at;
	const char *dir = getenv("HALOD_SRCDIR");
	char *p = ring[at++ & 3];
	snprintf(p, sizeof ring[0], "%s/%s", dir ? dir : ".", relative);
	return p;
}
