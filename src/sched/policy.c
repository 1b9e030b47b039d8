/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules.
 *
 * Pace. Every stream decodes in every step, so the time between its tokens is
 * the time of a step. A step's time grows with the prompt tokens it carries;
 * beside running streams these are held to prefill_chunk, whatever the number
 * and length of the waiting prompts. Alone, prefill may fill the step.
 *
 * Order. First come, first served, for slots, pages and prefill tokens alike. The
 * first in line that does not fit holds up those behind it: a long prompt that
 * small ones keep overtaking would never start.
 *
 * Admission. A sequence gets the pages of all its tokens when it starts, so a
 * prefill is never cut short by a lack of them. Beside running sequences
 * there must also be a page for each of those, and some for its own first
 * tokens of output: otherwise it would start only to be thrown out at the next
 * page border, and its prefill would be for nothing.
 *
 * Preemption (carried out by batch.c) follows from the order: the youngest gives
 * way, whole. The oldest thus always goes on, and the whole never stands still.
 */
#include "sched/policy.h"

/* Output tokens a newcomer must have room for beside others. More wastes pages,
 * fewer lets it come and go; a few seconds of stream is neither. */
#define GROWTH_TOK 64

static int min(int a, int b)
{
	return a < b ? a : b;
}

void policy_plan(const struct policy_limits *l, const struct policy_seq *seqs,
		 int n, int *out_n_tok)
{
	int left = l->max_batch_tok, n_decoding = 0;
	for (int i = 0; i < n; i++)
		n_decoding += seqs[i].is_decoding;
	for (int i = 0; i < n; i++) {
		out_n_tok[i] = seqs[i].is_decoding && left > 0;
		left -= out_n_tok[i];
	}
	/* What a grammar has decided ahead: some tokens, so at once. */
	for (int i = 0; i < n; i++) {
		if (out_n_tok[i] == 0 || !seqs[i].is_decoding)
			continue;
		int more = min(seqs[i].n_pending - 1, left);
		out_n_tok[i] += more;
		left -= more;
	}
	if (n_decoding > 0)
		left = min(left, l->prefill_chunk);
	for (int i = 0; i < n; i++) {
		if (seqs[i].is_decoding)
			continue;
		out_n_tok[i] = min(seqs[i].n_pending, left);
		left -= out_n_tok[i];
	}
}

int policy_slots(int max_seqs, int max_batch_tok)
{
	int slots = min(max_seqs, max_batch_tok - 1);
	return slots > 1 ? slots : 1;
}

int policy_pages(int n_tok, int page_size)
{
	return n_tok / page_size + (n_tok % page_size != 0);
}

bool policy_admits(const struct policy_room *room, int n_need_tok,
		   int n_growth_tok)
{
	int need = policy_pages(n_need_tok, room->page_size);
	if (room->n_running > 0)
		need += room->n_running +
			policy_pages(min(n_growth_tok, GROWTH_TOK),
				     room->page_size);
	return need <= room->pages_free;
}
