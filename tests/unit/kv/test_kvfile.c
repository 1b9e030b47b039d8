/* SPDX-License-Identifier: Apache-2.0
 *
 * A file's head: what was written is read, and with any byte changed it is refused.
 */
#include "kv/kvfile.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "tests/tap.h"

enum { N_TOK = 12, P = 4 };

/* A day of four agents, as engine_disk.c writes it: a prompt of 20,000 tokens in common, and
 * 500 turns of 300 to 1,500 tokens each. Beyond 100,000 tokens a history begins anew. Each turn
 * writes its full pages, 32 MiB a file. Returns bytes written for bytes of KV made. */
static double day_of_agents(uint64_t page_bytes, uint64_t state_bytes)
{
	const uint32_t size = 16, common = 20000;
	const uint32_t most = (uint32_t)MAX((32 << 20) / page_bytes, 1);
	double written = 0, made = 0;
	uint32_t seed = 1;
	for (int agent = 0; agent < 4; agent++) {
		uint32_t length = agent ? common : 0, kept = length;
		for (int turn = 0; turn < 500; turn++) {
			seed = seed * 1664525 + 1013904223; /* Numerical Recipes, 7.1 */
			length += (turn || agent ? 0 : common) + 300 + (seed >> 16) % 1200;
			while (length / size > kept / size) {
				uint32_t n = MIN(length / size - kept / size, most);
				struct kvfile f = {.key = {NULL, 600}, .page_size = size,
						   .first_tok = kept / size * size,
						   .n_tok = (kept / size + n) * size,
						   .page_bytes = page_bytes,
						   .state_bytes = state_bytes};
				f.n_states = state_bytes && length / size == kept / size + n;
				written += (double)kvfile_bytes(&f);
				made += (double)(n * page_bytes + f.n_states * state_bytes);
				kept += n * size;
			}
			if (length > 100000)
				length = kept = common;
		}
	}
	return written / made;
}

static void test_amplification(void)
{
	/* Bytes of a token's keys and values in bf16, times a page of 16; bytes of a state. */
	const struct {
		const char *model;
		uint64_t page, state;
	} models[] = {
		{"Qwen3-30B-A3B", 16 * 2 * 48 * 4 * 128 * 2, 0},
		{"Qwen3-8B", 16 * 2 * 36 * 8 * 128 * 2, 0},
		{"Qwen3.5-35B-A3B", 16 * 2 * 10 * 2 * 256 * 2, 66 << 20},
		{"halo-tiny", 16 * 4096, 0}};
	for (size_t i = 0; i < ARRAY_LEN(models); i++) {
		double a = day_of_agents(models[i].page, models[i].state);
		ok(a > 1 && a < 1.2, "%s: written %.3f bytes for each that was made",
		   models[i].model, a);
	}
}

int main(void)
{
	test_amplification();
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
