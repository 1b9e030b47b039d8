/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of the tokenizer on texts of a megabyte, one case a line as CSV:
 * case, shape, value, unit. Usage: bench_tokenizer [MODEL_DIR]
 *
 * "english" is drawn from the vocabulary's own English pieces with Zipf's weights,
 * two words of three as they stand and one of two run together, so that the cache
 * does not hold all and merging has work to do. The other cases are runs that
 * must not take quadratic time. Rates are per second of processor time: all of it
 * runs in one thread that never waits, and others may use the machine.
 */
#include <stdlib.h>
#include <time.h>

#include "model/tokenizer_hf.h"
#include "tests/tap.h"

#define TEXT_BYTES ((size_t)1 << 20)
#define REPEATS 5

static int64_t cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static uint64_t random_state = 1;

/* xorshift64*: the same text everywhere. */
static uint64_t random_next(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 2685821657736338717u;
}

static bool is_word(struct str s)
{
	if (s.n < 2 || s.n > 12)
		return false;
	for (size_t i = s.p[0] == ' '; i < s.n; i++)
		if (s.p[i] < 'a' || s.p[i] > 'z')
			return false;
	return true;
}

static void make_english(const struct tokenizer *t, struct buf *out)
{
	struct str words[8192];
	size_t n = 0;
	for (int32_t id = 0; id < tokenizer_n_ids(t) && n < 8192; id++)
		if (is_word(tokenizer_bytes(t, id)))
			words[n++] = tokenizer_bytes(t, id);
	while (out->n < TEXT_BYTES) {
		int parts = random_next() % 3 == 0 ? 2 : 1;
		for (; parts > 0; parts--) {
			/* log-uniform rank: frequency falls as 1 / rank */
			double u = (double)(random_next() >> 11) / (1ull << 53);
			size_t i = (size_t)(pow((double)n, u)) - 1;
			struct str w = words[i < n ? i : n - 1];
			if (w.p[0] == ' ')
				w = (struct str){w.p + 1, w.n - 1};
			buf_add_str(out, w);
		}
		uint64_t r = random_next() % 100;
		buf_add_z(out, r < 84 ? " " : r < 92 ? ", " : r < 98 ? ". "
							 : ".\n\n");
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const struct tokenizer *t, const char *name, struct str s)
{
	double mb_per_s[REPEATS];
	struct ids ids = {0};
	for (int i = 0; i < REPEATS; i++) {
		int64_t start = cpu_us();
		ids.n = 0;
		if (tokenizer_encode(t, s, TRUST_USER, &ids, NULL) != OK)
			exit(1);
		int64_t us = cpu_us() - start;
		mb_per_s[i] = (double)s.n / (double)(us > 0 ? us : 1);
	}
	qsort(mb_per_s, REPEATS, sizeof *mb_per_s, compare);
	printf("encode-%s,%zu bytes %zu tokens,%.2f,MB/s\n", name, s.n, ids.n,
	       mb_per_s[REPEATS / 2]);
	ids_deinit(&ids);
}

static void measure_run(const struct tokenizer *t, const char *name,
			const char *unit)
{
	struct buf b = {0};
	while (b.n < TEXT_BYTES)
		buf_add_z(&b, unit);
	measure(t, name, buf_str(&b));
	buf_deinit(&b);
}

static void measure_decode(const struct tokenizer *t, struct str s)
{
	struct ids ids = {0};
	struct buf out = {0};
	if (tokenizer_encode(t, s, TRUST_USER, &ids, NULL) != OK)
		exit(1);
	int64_t start = cpu_us();
	tokenizer_decode(t, ids.p, ids.n, true, &out);
	int64_t us = cpu_us() - start;
	printf("decode-english,%zu bytes %zu tokens,%.2f,MB/s\n", s.n, ids.n,
	       (double)out.n / (double)us);
	ids_deinit(&ids);
	buf_deinit(&out);
}

int main(int argc, char **argv)
{
	struct tokenizer_files f;
	struct fail fail = {0};
	struct buf english = {0};
	int64_t start = cpu_us();
	const char *dir = argc > 1 ? argv[1] : tap_src("models/halo-tiny");
	if (tokenizer_hf_load(dir, &f, &fail) != OK) {
		fprintf(stderr, "%s\n", fail.text);
		return 1;
	}
	printf("load,%d ids,%.2f,ms\n", tokenizer_n_ids(f.tokenizer),
	       (double)(cpu_us() - start) / 1000);
	make_english(f.tokenizer, &english);
	measure(f.tokenizer, "english", buf_str(&english));
	measure_decode(f.tokenizer, buf_str(&english));
	measure_run(f.tokenizer, "run-of-a", "a");
	measure_run(f.tokenizer, "run-of-upper", "A");
	measure_run(f.tokenizer, "run-of-spaces", " ");
	measure_run(f.tokenizer, "run-of-newlines", "\n");
	measure_run(f.tokenizer, "run-of-exclamations", "!");
	measure_run(f.tokenizer, "run-of-digits", "7");
	measure_run(f.tokenizer, "run-of-han", "\u4e00");
	measure_run(f.tokenizer, "run-of-marks", "\u0301\u0323");
	buf_deinit(&english);
	tokenizer_files_deinit(&f);
	return 0;
}
