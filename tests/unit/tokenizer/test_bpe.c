/* SPDX-License-Identifier: Apache-2.0
 *
 * Merging against its definition, on random merges over four letters: so few that
 * pairs overlap everywhere and stale entries of the heap abound.
 */
#include "tokenizer/bpe.h"
#include "tests/tap.h"

#define N_PIECES 60
#define MAX_WORD 400

static char pieces[N_PIECES][64];
static struct {
	int left, right, merged;
} merges[N_PIECES];
static int n_merges;

static uint32_t state = 7;
static uint32_t draw(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 16) % n;
}

/* The definition: over and over, the first of the pairs of lowest rank. */
static size_t merge_slowly(const char *word, int *ids)
{
	size_t n = strlen(word);
	for (size_t i = 0; i < n; i++)
		ids[i] = word[i] - 'a';
	for (int rank = 0; rank < n_merges; rank++)
		for (size_t i = 0; i + 1 < n; i++) {
			if (ids[i] != merges[rank].left ||
			    ids[i + 1] != merges[rank].right)
				continue;
			ids[i] = merges[rank].merged;
			n--;
			for (size_t k = i + 1; k < n; k++)
				ids[k] = ids[k + 1];
			rank = -1; /* a lower rank may be possible now */
			break;
		}
	return n;
}

static void make_merges(struct bpe *b)
{
	int n = 4;
	for (int i = 0; i < n; i++)
		snprintf(pieces[i], sizeof pieces[i], "%c", 'a' + i);
	bpe_init(b, 0);
	for (int i = 0; i < n; i++)
		b->byte_id['a' + i] = i;
	for (n_merges = 0; n < N_PIECES; n++, n_merges++) {
		int left, right;
		bool taken;
		do {
			left = (int)draw((uint32_t)n);
			right = (int)draw((uint32_t)n);
			snprintf(pieces[n], 64, "%.31s%.31s", pieces[left],
				 pieces[right]);
			taken = strlen(pieces[left]) + strlen(pieces[right]) > 9;
			for (int i = 0; i < n; i++)
				taken |= !strcmp(pieces[i], pieces[n]);
		} while (taken);
		merges[n_merges].left = left;
		merges[n_merges].right = right;
		merges[n_merges].merged = n;
		bpe_add_merge(b, left, right, n, (uint32_t)n_merges, false);
	}
}

static bool check_word(const struct bpe *b, struct bpe_work *w,
		       const char *word)
{
	int want[MAX_WORD];
	size_t n = merge_slowly(word, want);
	struct ids got = {0};
	bool same = bpe_encode(b, w, str_of(word), &got) == OK && got.n == n;
	for (size_t i = 0; same && i < n; i++)
		same = got.p[i] == want[i];
	ids_deinit(&got);
	return same;
}

int main(void)
{
	struct bpe_work w = {0};
	for (int round = 0; round < 20; round++) {
		struct bpe b;
		make_merges(&b);
		bool same = true;
		for (int i = 0; i < 100; i++) {
			char word[MAX_WORD] = {0};
			uint32_t n = 1 + draw(i % 2 ? 60 : MAX_WORD - 2);
			uint32_t letters = 1 + draw(4);
			for (uint32_t k = 0; k < n; k++)
				word[k] = (char)('a' + draw(letters));
			same &= check_word(&b, &w, word);
		}
		ok(same, "merges %d: a hundred words", round);
		bpe_deinit(&b);
	}

	/* (a, b) is in the heap when (b, c) is merged; a's new pair (a, bc) must
	 * wait until (bc, d) had its turn */
	struct bpe b;
	struct ids ids = {0};
	struct buf word = {0};
	bpe_init(&b, 0);
	for (int i = 0; i < 4; i++)
		b.byte_id['a' + i] = i;
	bpe_add_merge(&b, 1, 2, 4, 0, false); /* bc */
	bpe_add_merge(&b, 0, 1, 5, 1, false); /* ab */
	bpe_add_merge(&b, 4, 3, 6, 2, false); /* bcd */
	bpe_add_merge(&b, 0, 4, 7, 3, false); /* abc */
	for (int i = 0; i < 30; i++)
		buf_add_z(&word, "abcd");
	ok(bpe_encode(&b, &w, buf_str(&word), &ids) == OK && ids.n == 60 &&
	   ids.p[0] == 0 && ids.p[1] == 6, "a stale entry is no merge");
	ids_deinit(&ids);
	buf_deinit(&word);
	bpe_deinit(&b);
	bpe_work_deinit(&w);
	return tap_done();
}
