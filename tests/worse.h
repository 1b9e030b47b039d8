/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <math.h>

/* The larger of two errors. NaN is the worst: fmax would lose it, and the test with it. */
__attribute__((unused)) static double worse_of(double a, double b)
{
	return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}
