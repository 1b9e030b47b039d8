/* SPDX-License-Identifier: Apache-2.0
 *
 * How v_dot2 and v_wmma add on silicon, as others have measured it on gfx1151: terms are cut to a
 * common grid, and one whose sign opposes the accumulator's counts one unit of it more. So
 * even sums of small integers are off. Denormals of the accumulator are flushed. The number of
 * guard bits (none) and v_wmma as a chain of eight are guesses: what holds under this adder does
 * not rest on the last place.
 */
#include "tests/hip-on-gfx11/gfx11_wave.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool adder_is_silicon;

void adder_open(void)
{
	const char *name = gfx11_option("adder");
	adder_is_silicon = name && strcmp(name, "silicon") == 0;
}

static float float_of(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

/* A half or bf16 in the low bits of x; *exponent: of its format's leading digit. */
static double number_of(uint32_t x, bool is_bf16, int *exponent)
{
	x &= 0xFFFF;
	if (is_bf16) {
		int e = (int)(x >> 7 & 255);
		*exponent = e ? e - 127 : -126;
		return e ? (double)float_of(x << 16) : 0;
	}
	int e = (int)(x >> 10 & 31), f = (int)(x & 1023);
	double v = e == 31 ? (f ? (double)NAN : (double)INFINITY)
		   : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
	*exponent = e ? e - 15 : -14;
	return x >> 15 ? -v : v;
}

static float flushed(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

float adder_dot2(uint32_t a, uint32_t b, uint32_t c, bool is_bf16)
{
	enum { NONE = -1000, DIGITS = 23 };
	double product[2];
	float sum = float_of(c);
	int largest = NONE;
	for (int i = 0; i < 2; i++) {
		int ea, eb;
		product[i] = number_of(a >> 16 * i, is_bf16, &ea) *
			     number_of(b >> 16 * i, is_bf16, &eb);
		if (product[i] != 0 && ea + eb > largest)
			largest = ea + eb;
	}
	if (!isfinite(sum) || !isfinite(product[0]) || !isfinite(product[1]))
		return (float)((double)sum + product[0] + product[1]);
	sum = flushed(sum);
	if (sum != 0 && ilogbf(sum) > largest)
		largest = ilogbf(sum);
	if (largest == NONE)
		return sum;
	double unit = ldexp(1, largest - DIGITS), sign = signbit(sum) ? -1 : 1;
	double units = floor(fabs((double)sum) / unit);
	for (int i = 0; i < 2; i++) {
		double n = floor(fabs(product[i]) / unit);
		if (product[i] != 0)
			units += (product[i] < 0) == (sign < 0) ? n : -(n + 1);
	}
	return flushed((float)(sign * units * unit));
}
