/* SPDX-License-Identifier: Apache-2.0
 *
 * How tokens are spread over experts: the statistics that expert_routing.h names, and the blocks
 * of pairs that follow from them, beside a simulation.
 */
#include "lab/expert_routing.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/tap.h"

enum { MOST = 512 };

static void test_chances(int32_t n, double used)
{
	double chance[MOST], sum = 0;
	bool good = true;
	expert_routing_chances(n, used, chance);
	for (int32_t i = 0; i < n; i++) {
		sum += chance[i];
		good = good && chance[i] > 0 && chance[i] <= 1;
		good = good && (!i || chance[i] >= chance[i - 1]);
	}
	is_near(sum, used, 1e-6, "%g of %d experts: a token uses so many", used, n);
	ok(good, "%g of %d experts: chances ascend to at most 1", used, n);
}

static void test_published(void)
{
	double chance[256], most = 0, gini = 0;
	expert_routing_chances(256, 8, chance);
	for (int32_t i = 0; i < 256; i++) {
		most += i >= 256 - 27 ? chance[i] / 8 : 0;
		gini += (2 * i - 255) * chance[i] / (256 * 8);
	}
	is_near(most, 0.50, 0.02, "27 of 256 experts take half of the uses");
	is_near(gini, 0.65, 0.02, "the Gini coefficient of the uses");
}

/* Number of different experts and of blocks, in the mean of many draws of n_tok tokens. */
static void simulate(const double *chance, int32_t n, int n_tok, int rows, double *used,
		     double *blocks)
{
	enum { DRAWS = 200 };
	uint32_t random = 1;
	*used = *blocks = 0;
	for (int d = 0; d < DRAWS; d++)
		for (int32_t e = 0; e < n; e++) {
			int pairs = 0;
			for (int t = 0; t < n_tok; t++) {
				random = random * 1664525 + 1013904223;
				pairs += (random >> 8) * 0x1p-24 < chance[e];
			}
			*used += (double)(pairs > 0) / DRAWS;
			*blocks += (double)((pairs + rows - 1) / rows) / DRAWS;
		}
}

static void test_blocks(int32_t n, double n_used, int n_tok, int rows)
{
	double chance[MOST], used, sim_used, sim_blocks;
	double blocks = expert_routing_blocks(n_tok, n_used, n, rows, &used);
	expert_routing_chances(n, n_used, chance);
	simulate(chance, n, n_tok, rows, &sim_used, &sim_blocks);
	is_near(used, sim_used, 0.02 * sim_used, "%d tokens, %g of %d: experts with pairs", n_tok,
		n_used, n);
	is_near(blocks, sim_blocks, 0.03 * sim_blocks, "in blocks of %d", rows);
}

int main(void)
{
	double used;
	test_chances(128, 8);
	test_chances(256, 8);
	test_chances(512, 10);
	test_chances(16, 4);
	test_chances(8, 8);
	test_chances(2, 1);
	test_published();
	test_blocks(128, 8, 1, 4);
	test_blocks(128, 8, 128, 16);
	test_blocks(128, 8, 512, 64);
	test_blocks(256, 8, 512, 128);
	test_blocks(16, 4, 200, 32);
	expert_routing_blocks(1, 8, 128, 16, &used);
	is_near(used, 8, 1e-6, "a token uses eight experts");
	is_near(expert_routing_blocks(1e6, 8, 128, 128, &used), 1e6 * 8 / 128, 200,
		"many tokens: no block is lost");
	return tap_done();
}
