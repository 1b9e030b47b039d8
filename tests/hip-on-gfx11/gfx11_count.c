/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory accesses cost, as far as addresses say it: lines of 128 bytes, and cycles of
 * LDS. LDS serves 128 bytes a cycle from 32 banks of four bytes: 32 lanes of 4 bytes, 16
 * of 8, 8 of 16; a bank serves one word a cycle to all who want it. (Our model; AMD does
 * not say how lanes of wide accesses are grouped.)
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"

enum { LINE = 128, BANKS = 32, MAX_LINES = 2 * LANES };

void count_lines(struct group *g, const uint64_t *address, uint32_t exec, uint32_t n,
		 bool is_store)
{
	uint64_t seen[MAX_LINES];
	int n_seen = 0;
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		for (uint64_t x = address[i] / LINE; x <= (address[i] + n - 1) / LINE; x++) {
			int k = n_seen - 1;
			while (k >= 0 && seen[k] != x)
				k--;
			if (k < 0)
				seen[n_seen++] = x;
		}
	}
	*(is_store ? &g->counts.store_lines : &g->counts.lines) += (uint64_t)n_seen;
}

/* Cycles for the words of lanes [from, to): the most different words in one bank. */
static uint32_t bank_cycles(const uint32_t *address, uint32_t exec, int from, int to,
			    uint32_t words)
{
	uint32_t word[BANKS][LANES], most = 0;
	uint32_t n[BANKS] = {0};
	for (int i = from; i < to; i++)
		for (uint32_t j = 0; exec >> i & 1 && j < words; j++) {
			uint32_t x = address[i] / 4 + j, bank = x % BANKS, k = 0;
			while (k < n[bank] && word[bank][k] != x)
				k++;
			if (k == n[bank])
				word[bank][n[bank]++] = x;
			most = n[bank] > most ? n[bank] : most;
		}
	return most;
}

void count_banks(struct group *g, const uint32_t *address, uint32_t exec, uint32_t n)
{
	uint32_t words = n < 4 ? 1 : n / 4;
	int lanes = words == 1 ? 32 : words == 2 ? 16 : 8;
	for (int from = 0; from < LANES; from += lanes) {
		g->counts.lds_cycles += bank_cycles(address, exec, from, from + lanes, words);
		uint32_t active = exec >> from & (lanes == 32 ? ~0u : (1u << lanes) - 1);
		g->counts.lds_ideal += active != 0;
	}
	g->counts.lds_bytes += (uint64_t)__builtin_popcount(exec) * n;
}
