/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/evict.h"

#include "tests/tap.h"

static int choose(const struct evict_item *x, int n)
{
	return evict_choose(x, n, 100000);
}

int main(void)
{
	is_int(evict_choose(NULL, 0, 0), -1, "of nothing, nothing");
	struct evict_item same[] = {{1000, 0, 100, 0, 99000, false},
				    {1000, 0, 100, 0, 98000, false}};
	is_int(choose(same, 2), 1, "of two alike, what was used longest ago");
	struct evict_item deep[] = {{1000, 65536, 65636, 0, 99000, false},
				    {1000, 0, 100, 0, 99000, false}};
	is_int(choose(deep, 2), 1, "what lies deep in a prompt costs more to compute");
	struct evict_item large[] = {{1000, 0, 100, 0, 99000, false},
				     {9000, 0, 100, 0, 99000, false}};
	is_int(choose(large, 2), 1, "what takes more room for the same work goes first");
	struct evict_item needed[] = {{1000, 0, 100, 0, 10, true},
				      {1000, 100, 200, 0, 99999, false}};
	is_int(choose(needed, 2), 1, "what others go on from stays, however old");
	is_int(choose(needed, 1), 0, "unless there is no other");
	struct evict_item young[] = {{1000, 0, 100, 0, 99990, false},
				     {1000, 0, 80, 0, 100000, false}};
	is_int(choose(young, 2), 1, "between two of this minute the cost decides");

	/* Of a recurrent model: the last state alone, behind pages of other files. */
	struct evict_item state[] = {{1000, 4096, 4096, 4096, 99000, false},
				     {1000, 0, 400, 0, 99000, false}};
	is_int(choose(state, 2), 1, "a state alone is worth the tokens that lead to it");
	struct evict_item both[] = {{1000, 4000, 4096, 0, 99000, false},
				    {1000, 4000, 4096, 4096, 99000, false}};
	is_int(choose(both, 2), 0, "pages with a state are worth more than without");

	/* Four agents take turns; each goes on from its own history, all from one prompt. The
	 * store is full at twelve files. Nobody's next turn has lost anything. */
	struct evict_item files[64];
	int n = 0, owner[64];
	files[n] = (struct evict_item){100, 0, 1000, 0, 0, false};
	owner[n++] = -1;
	int length[4] = {1000, 1000, 1000, 1000}, n_gone = 0, n_gone_last = 0;
	for (int turn = 0; turn < 40; turn++) {
		int agent = turn % 4;
		int64_t now = turn * 30;
		for (int i = 0; i < n; i++) {
			if (owner[i] == agent || owner[i] < 0)
				files[i].used_s = now;
			/* All but the last of each agent is gone on from. */
			files[i].is_needed = owner[i] < 0 || files[i].n_tok < length[owner[i]];
		}
		files[n] = (struct evict_item){10, length[agent], length[agent] + 100, 0, now,
					       false};
		owner[n++] = agent;
		length[agent] += 100;
		if (n <= 12)
			continue;
		int i = evict_choose(files, n, now);
		n_gone += owner[i] < 0;
		n_gone_last += owner[i] == agent;
		length[owner[i] < 0 ? 0 : owner[i]] -= 100;
		files[i] = files[--n];
		owner[i] = owner[n];
	}
	is_int(n_gone, 0, "the prompt that all have in common stays");
	is_int(n_gone_last, 0, "and so does what was just written");
	return tap_done();
}
