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
	int n_wrong = 0, n_guesses = 0, n_shorter = 0;
	while (n < N) {
		size_t more = 1 + random_below(6);
		size_t from = n > 40 ? random_below((uint32_t)n - 40) : 0;
		bool copies = n > 40 && random_below(2);
		for (size_t i = 0; i < more && n < N; i++, n++)
			p[n] = copies ? p[from + i] : (int32_t)random_below(50);
		lookup_add(&l, p + l.text.n, n - l.text.n);
		size_t at = 0;
		int match = 0, want = n > 2 ? longest(p, n, &at) : 0;
		int got = n ? lookup_guess(&l, MAX, out, &match) : 0;
		n_guesses += got > 0;
		/* Only so many places are tried: a match may be shorter, but not wrong. */
		n_wrong += (got > 0) != (want > 0) || match > LOOKUP_LONG ||
			   (got > 0 && match > want);
		n_shorter += got > 0 && match < want;
		for (int i = 0; got > 0 && match == want && i < got; i++)
			n_wrong += out[i] != (at + 1 + (size_t)i < n ? p[at + 1 + (size_t)i]
								     : out[at + 1 + (size_t)i - n]);
	}
	is_int(n_wrong, 0, "guesses are those of the longest match, of equals the latest");
	ok(n_guesses > 100 && n_shorter * 20 < n_guesses, "%d guesses, %d of shorter matches",
	   n_guesses, n_shorter);
	lookup_deinit(&l);
}

static void small_texts(void)
{
	static const int32_t loop[] = {7, 8, 9, 7, 8, 9, 7};
	struct lookup l = {0};
	int32_t out[8];
	int match = 0;
	is_int(lookup_guess(&l, 8, out, &match), 0, "no text, no guess");
	lookup_add(&l, loop, 3);
	is_int(lookup_guess(&l, 8, out, &match), 0, "nothing came before");
	lookup_add(&l, loop + 3, 4);
	is_int(lookup_guess(&l, 8, out, &match), 8, "a loop is guessed beyond its own end");
	is_int(out[0] * 100 + out[1] * 10 + out[7], 8 * 100 + 9 * 10 + 9, "as it goes on");
	is_int(match, 4, "the match is as long as the text says the same");
	is_int(lookup_guess(&l, 0, out, &match), 0, "none are wanted");
	lookup_deinit(&l);
}

int main(void)
{
	beside_brute_force();
	small_texts();
	return tap_done();
}
