/* SPDX-License-Identifier: Apache-2.0
 *
 * The clock of launch_cost.c beside published times (calibration.def). Each lies within the bar
 * that `kernels predict` prints. The rows for the test have a small error in the mean. The fitted
 * figures are those that suit the rows for the fit best.
 */
#include "lab/launch_cost.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/tap.h"

enum set { FIT, TEST };

struct launch_row {
	enum set set;
	enum cost_part part;
	const char *what;
	double us, mb;
	int n;
};

struct step_row {
	enum set set;
	const char *chip;
	double peak;
	const char *what;
	double ms, gb;
	int layers, big, small;
};

struct matrix_row {
	enum set set;
	enum cost_part part;
	const char *chip, *what;
	double share;
};

#define CAL_LAUNCH(set, part, what, us, mb, n) {set, COST_##part, what, us, mb, n},
#define CAL_STEP(...)
#define CAL_MATRIX(...)
static const struct launch_row launches[] = {
#include "lab/calibration.def"
};
#undef CAL_LAUNCH
#undef CAL_STEP
#define CAL_LAUNCH(...)
#define CAL_STEP(...) {__VA_ARGS__},
static const struct step_row steps[] = {
#include "lab/calibration.def"
};
#undef CAL_STEP
#undef CAL_MATRIX
#define CAL_STEP(...)
#define CAL_MATRIX(set, part, chip, what, share) {set, COST_##part, chip, what, share},
static const struct matrix_row products[] = {
#include "lab/calibration.def"
};

/* --- the clock, for launches that cannot be walked ---------------------------------- */

static double launch_us(const struct cost_chip *c, double read_gbs, double mb)
{
	double us = mb / read_gbs * 1e3;
	return c->node_us + cost_plain_ramp_us(c) + us + cost_drain_us(c, us);
}

static double launch_row_us(const struct cost_chip *c, const struct launch_row *r)
{
	return r->n * launch_us(c, c->read_gbs, r->mb / r->n);
}

static double step_row_ms(const struct cost_chip *c, const struct step_row *r)
{
	double peak = strcmp(r->chip, "gfx1151") == 0 ? 256 : 864;
	double gbs = c->read_gbs * r->peak / peak;
	int big = r->layers * r->big + 1;
	return (big * launch_us(c, gbs, r->gb * 1e3 / big) +
		r->layers * r->small * launch_us(c, gbs, 0)) * 1e-3;
}

static void is_within(const char *what, double published, double predicted,
		      const struct cost_bar *bar)
{
	double x = published / predicted;
	ok(x >= bar->low && x <= bar->high,
	   "%s: published %.4g, predicted %.4g (%.4g to %.4g), %+.0f %%", what, published,
	   predicted, predicted * bar->low, predicted * bar->high,
	   100 * (predicted / published - 1));
}

/* --- the tests ---------------------------------------------------------------------- */

static void test_launches(const struct cost_chip *c)
{
	for (size_t i = 0; i < ARRAY_LEN(launches); i++) {
		const struct launch_row *r = &launches[i];
		is_within(r->what, r->us, launch_row_us(c, r), &c->bar[r->part]);
		ok(r->part == (r->mb >= 20 ? COST_BIG : COST_SMALL), "%s: its part", r->what);
	}
}

static void test_steps(void)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		const struct step_row *r = &steps[i];
		const struct cost_chip *c = cost_chip_find(r->chip);
		is_within(r->what, r->ms, step_row_ms(c, r), &c->bar[COST_STEP]);
	}
}

/* Mean logarithm of the shares for the fit. */
static void test_products(void)
{
	double sum = 0;
	int n = 0;
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		const struct matrix_row *r = &products[i];
		const struct cost_chip *c = cost_chip_find(r->chip);
		is_within(r->what, 1 / r->share, 1 / COST_MATRIX_SHARE, &c->bar[r->part]);
		sum += r->set == FIT ? log(r->share) : 0;
		n += r->set == FIT;
	}
	is_near(COST_MATRIX_SHARE, exp(sum / n), 0.002, "the share: the rows for the fit");
}

/* Root of the mean square of the logarithms of predicted to published. */
static double error_of(const struct cost_chip *c, enum set set)
{
	double sum = 0;
	int n = 0;
	for (size_t i = 0; i < ARRAY_LEN(launches); i++)
		if (launches[i].set == set) {
			sum += pow(log(launch_row_us(c, &launches[i]) / launches[i].us), 2);
			n++;
		}
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i].set == set && strcmp(steps[i].chip, c->arch) == 0) {
			sum += pow(log(step_row_ms(c, &steps[i]) / steps[i].ms), 2);
			n++;
		}
	return sqrt(sum / n);
}

/* No other figures fit the rows for the fit better. */
static void test_fit(const struct cost_chip *c)
{
	double least = error_of(c, FIT);
	for (int i = -8; i <= 8; i++)
		for (int j = -8; j <= 8; j++) {
			struct cost_chip other = *c;
			other.start_us += 0.1 * i;
			other.drain_us += 0.5 * j;
			least = fmin(least, error_of(&other, FIT));
		}
	ok(error_of(c, FIT) < 1.005 * least, "the fitted figures fit: error %.4f, at best %.4f",
	   error_of(c, FIT), least);
	ok(error_of(c, TEST) < 0.07, "rows not for the fit: error %.4f", error_of(c, TEST));
}

static void test_sets(void)
{
	int n[2] = {0};
	for (size_t i = 0; i < ARRAY_LEN(launches); i++)
		n[launches[i].set]++;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		n[steps[i].set] += strcmp(steps[i].chip, "gfx1151") == 0;
	ok(n[FIT] - n[TEST] <= 2 && n[TEST] >= 12, "half of the rows are not for the fit: %d of %d",
	   n[TEST], n[FIT] + n[TEST]);
}

/* A node takes 1.86 us on gfx1151 with up to 128 workgroups, and 13.0 with 8,192, which start one
 * after the other. */
static void test_node(void)
{
	const struct cost_chip *c = cost_chip_find("gfx1151"), *w = cost_chip_find("gfx1100");
	is_near(c->node_us, 1.86, 0.001, "a node, gfx1151");
	is_near(c->node_us + (8192 - 128) * c->group_ns * 1e-3, 13.0, 0.05, "of 8,192 workgroups");
	is_near(w->node_us, 3.85, 0.001, "a node, gfx1100");
	is_near(w->node_us + (8192 - 128) * w->group_ns * 1e-3, 9.96, 0.05, "of 8,192 workgroups");
}

int main(void)
{
	const struct cost_chip *c = cost_chip_find("gfx1151");
	test_sets();
	test_launches(c);
	test_steps();
	test_products();
	test_fit(c);
	test_node();
	return tap_done();
}
