/* SPDX-License-Identifier: Apache-2.0
 *
 * The lookup beside one that compares the text's end with every earlier place.
 */
#include "sched/lookup.h"

#include "tests/tap.h"

static uint32_t seed = 1;

static uint32_t random_below(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/* The longest match that ends before the text's end, the latest of equals; 0: none. */
static int longest(const int32_t *p, size_t n, size_t *out_at)
{
	int best = 0;
	for (size_t at = n - 2; at + 1 > 0; at--) {
		int m = 0;
		while (m < LOOKUP_LONG && (size_t)m <= at &&
		       p[at - (size_t)m] == p[n - 1 - (size_t)m])
			m++;
		if (m > best) {
			best = m;
			*out_at = at;
		}
	}
	return best >= LOOKUP_GRAM ? best : 0;
}

/* Text of n tokens out of few, now and then a copy of what came before: added in pieces. */
static void beside_brute_force(void)
{
	enum { N = 1200, MAX = 8 };
	struct lookup l = {0};
	int32_t p[N], out[MAX];
	size_t n = 0;
	int n_wrong = 0, n_draft = 0, n_shorter = 0;
	while (n < N) {
		size_t more = 1 + random_below(6);
		size_t from = n > 40 ? random_below((uint32_t)n - 40) : 0;
		bool copies = n > 40 && random_below(2);
		for (size_t i = 0; i < more && n < N; i++, n++)
			p[n] = copies ? p[from + i] : (int32_t)random_below(50);
		lookup_add(&l, p + l.text.n, n - l.text.n);
		size_t at = 0;
		struct lookup_match m = {0};
		int want = n > 2 ? longest(p, n, &at) : 0;
		int got = n ? lookup_draft(&l, MAX, out, &m) : 0, match = m.n;
		n_draft += got > 0;
		/* Only so many places are tried: a match may be shorter, but not wrong. */
		n_wrong += (got > 0) != (want > 0) || match > LOOKUP_LONG ||
			   (got > 0 && match > want);
		n_shorter += got > 0 && match < want;
		for (int i = 0; got > 0 && match == want && i < got; i++)
			n_wrong += out[i] != (at + 1 + (size_t)i < n ? p[at + 1 + (size_t)i]
								     : out[at + 1 + (size_t)i - n]);
	}
	is_int(n_wrong, 0, "draft tokens are those of the longest match, of equals the latest");
	ok(n_draft > 100 && n_shorter * 20 < n_draft, "%d draft tokens, %d of shorter matches",
	   n_draft, n_shorter);
	lookup_deinit(&l);
}

static void small_texts(void)
{
	static const int32_t loop[] = {7, 8, 9, 7, 8, 9, 7};
	struct lookup l = {0};
	int32_t out[8];
	struct lookup_match match = {0};
	is_int(lookup_draft(&l, 8, out, &match), 0, "no text, no draft token");
	lookup_add(&l, loop, 3);
	is_int(lookup_draft(&l, 8, out, &match), 0, "nothing came before");
	lookup_add(&l, loop + 3, 4);
	is_int(lookup_draft(&l, 8, out, &match), 8, "a loop is drafted beyond its own end");
	is_int(out[0] * 100 + out[1] * 10 + out[7], 8 * 100 + 9 * 10 + 9, "as it goes on");
	is_int(match.n, 4, "the match is as long as the text says the same");
	is_int(lookup_draft(&l, 0, out, &match), 0, "none are wanted");
	lookup_deinit(&l);
}

/* 1 2 3 4 5 6, three times: each time the sixth is another one. */
static void two_places(void)
{
	static const int32_t text[] = {1, 2, 3, 4, 5, 60, 1, 2, 3, 4, 5, 70, 1, 2, 3, 4, 5};
	static const struct {
		size_t n;
		int n_same;
		const char *what;
	} want[] = {
		{9, -1, "one earlier place"},
		{15, 2, "two places go on in the same way for two tokens"},
		{16, 1, "for one"},
		{17, 0, "for none"},
	};
	struct lookup l = {0};
	struct lookup_match m;
	int32_t out[8];
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		lookup_add(&l, text + l.text.n, want[i].n - l.text.n);
		is_int(lookup_draft(&l, 8, out, &m), 8, "all draft tokens are those of the latest");
		is_int(m.n_same, want[i].n_same, "%s", want[i].what);
	}
	is_int(out[0], 70, "the latest");
	lookup_deinit(&l);
	/* The longer match has 7 tokens, the other one 3. */
	static const int32_t far[] = {1, 2, 3, 4, 5, 6, 7, 10, 0, 5, 6, 7, 20,
				      1, 2, 3, 4, 5, 6, 7};
	lookup_add(&l, far, sizeof far / sizeof *far);
	is_int(lookup_draft(&l, 8, out, &m), 8, "the longest match");
	is_int(out[0], 10, "counts");
	is_int(m.n_same, -1, "one less than half as long says nothing");
	lookup_deinit(&l);
}

int main(void)
{
	two_places();
	beside_brute_force();
	small_texts();
	return tap_done();
}
