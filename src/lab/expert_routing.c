/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/expert_routing.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

/* The number below which a normal variable is with probability p. */
static double normal_of(double p)
{
	double low = -8, high = 8;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (erfc(-middle / sqrt(2)) / 2 < p)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

void expert_routing_chances(int32_t n_experts, double n_used, double *out)
{
	double sum = 0;
	int32_t n_full = 0; /* experts that every token uses */
	for (int32_t i = 0; i < n_experts; i++)
		sum += out[i] = exp(EXPERT_ROUTING_SIGMA * normal_of((i + 0.5) / n_experts));
	while (n_full < n_used && n_full < n_experts &&
	       out[n_experts - 1 - n_full] * (n_used - n_full) >= sum) {
		sum -= out[n_experts - 1 - n_full];
		n_full++;
	}
	for (int32_t i = 0; i < n_experts; i++)
		out[i] = i >= n_experts - n_full ? 1 : out[i] * (n_used - n_full) / sum;
}

/* Expected blocks of an expert that each of n_tok tokens uses with this chance. */
static double blocks_of(double n_tok, double chance, int32_t rows)
{
	double p = pow(1 - chance, n_tok), blocks = 0;
	if (chance > 1 - 1e-9)
		return ceil(n_tok / rows);
	/* Where the chance of no pair is no number any more, half of the last block is empty. */
	if (p < 1e-300)
		return n_tok * chance / rows + 0.5;
	for (int32_t k = 1; k <= n_tok; k++) {
		p *= (n_tok - k + 1) / k * chance / (1 - chance);
		blocks += p * ((k + rows - 1) / rows);
	}
	return blocks;
}

double expert_routing_blocks(double n_tok, double n_used, int32_t n_experts, int32_t rows,
		      double *out_used)
{
	double blocks = 0, *chance = xcalloc((size_t)n_experts, sizeof *chance);
	expert_routing_chances(n_experts, n_used, chance);
	*out_used = 0;
	for (int32_t i = 0; i < n_experts; i++) {
		*out_used += 1 - pow(1 - chance[i], n_tok);
		blocks += blocks_of(n_tok, chance[i], rows);
	}
	free(chance);
	return blocks;
}
