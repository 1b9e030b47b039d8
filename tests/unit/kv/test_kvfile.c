/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's head: what was written is read, and with any byte changed it is refused.
 */
#include "kv/kvfile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tests/tap.h"

enum { N_TOK = 12, P = 4 };

int main(void)
{
	int32_t tokens[N_TOK];
	for (int i = 0; i < N_TOK; i++)
		tokens[i] = 7 * i;
	const uint64_t sums[2] = {11, 12};
	const struct kvfile_state state = {.at_tok = 8, .sum = 13};
	const struct kvfile f = {.key = STR("key"), .tokens = tokens, .n_tok = N_TOK,
				 .first_tok = 4, .page_size = P, .n_states = 1,
				 .page_bytes = 100, .state_bytes = 30, .page_sums = sums,
				 .states = &state};
	size_t n = kvfile_data_at(&f);
	uint64_t all = kvfile_bytes(&f);
	char *head = xmalloc(n);
	struct kvfile g;
	kvfile_write_head(&f, head);
	is_int((int)kvfile_n_pages(&f), 2, "two pages are its own");
	is_int((int64_t)all, (int64_t)n + 230, "the data lie behind the head");
	is_int((int64_t)kvfile_peek((struct str){head, n}), (int64_t)n, "says how long it is");
	is_int(kvfile_parse((struct str){head, n}, all, &g), OK, "is read");
	ok(str_eq(g.key, f.key) && g.n_tok == N_TOK && g.first_tok == 4 && g.page_size == P,
	   "with its numbers");
	ok(!memcmp(g.tokens, tokens, sizeof tokens) && g.page_sums[1] == 12 &&
	   g.states[0].at_tok == 8 && g.states[0].sum == 13, "and its arrays");
	is_int(kvfile_parse((struct str){head, n}, all - 1, &g), E_FORMAT,
	       "a shorter file is refused");
	is_int(kvfile_parse((struct str){head, n - 1}, all, &g), E_FORMAT, "a part, too");
	int n_believed = 0;
	for (size_t i = 0; i < n; i++) {
		head[i] ^= 0x10;
		n_believed += kvfile_parse((struct str){head, n}, all, &g) == OK;
		head[i] ^= 0x10;
	}
	is_int(n_believed, 0, "with any byte changed it is refused");
	is_int((int64_t)kvfile_peek(STR("")), 0, "an empty file is none");
	free(head);
	return tap_done();
}
