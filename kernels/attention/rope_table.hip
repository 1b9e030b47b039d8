/* SPDX-License-Identifier: Apache-2.0
 *
 * MATH      kernels/ops/rope_table.h. Let n be the integer nearest to angle / (pi/2), and
 *           r = angle - n pi/2. Sine and cosine of the angle are those of r, swapped or
 *           negated according to n mod 4 (Cody and Waite; pi/2 as a sum of two 53-bit
 *           parts, subtracted by fused multiply-add).
 * LAYOUT    position (T), with axis (T, 3), inv_freq (n_freq) f64, table (T, n_freq, 2) f32
 * GEOMETRY  one workgroup of 64 threads a token
 * PRECISION f64 until the last rounding. For |r| <= pi/4 the Taylor series to r^15 is
 *           within 3e-17 of the sine, and the one to r^16 within 3e-18 of the cosine
 * ROOFLINE  bound by launch overhead; once a step for all layers
 * TRIED     v_sin_f32: it does not reduce its argument, and is off by 0.004 at position
 *           100,000
 * SEE       kernels/ops/rope_table_ref.c
 */
#include "kernels/device/dialect.h"

enum { ROPE_TABLE_THREADS = 64 };

DEVICE double rope_sin(double r)
{
	double s = r * r;
	double p = -1.0 / 1307674368000.0;
	p = __builtin_fma(p, s, 1.0 / 6227020800.0);
	p = __builtin_fma(p, s, -1.0 / 39916800.0);
	p = __builtin_fma(p, s, 1.0 / 362880.0);
	p = __builtin_fma(p, s, -1.0 / 5040.0);
	p = __builtin_fma(p, s, 1.0 / 120.0);
	p = __builtin_fma(p, s, -1.0 / 6.0);
	return __builtin_fma(p * s, r, r);
}

DEVICE double rope_cos(double r)
{
	double s = r * r;
	double p = 1.0 / 20922789888000.0;
	p = __builtin_fma(p, s, -1.0 / 87178291200.0);
	p = __builtin_fma(p, s, 1.0 / 479001600.0);
	p = __builtin_fma(p, s, -1.0 / 3628800.0);
	p = __builtin_fma(p, s, 1.0 / 40320.0);
	p = __builtin_fma(p, s, -1.0 / 720.0);
	p = __builtin_fma(p, s, 1.0 / 24.0);
	p = __builtin_fma(p, s, -1.0 / 2.0);
	return __builtin_fma(p, s, 1.0);
}

KERNEL(ROPE_TABLE_THREADS)
void rope_table_kernel(int32_t n_freq, const int32_t *position, const double *inv_freq,
		       float *table, double scale, const int32_t *axis)
{
	size_t t = group_index_x();
	for (int32_t i = (int32_t)thread_index(); i < n_freq; i += ROPE_TABLE_THREADS) {
		double angle = position[axis ? 3 * t + (size_t)axis[i] : t] * inv_freq[i];
		double n = __builtin_rint(angle * 0x1.45f306dc9c883p-1);
		double r = __builtin_fma(n, -0x1.921fb54442d18p+0, angle);
		r = __builtin_fma(n, -0x1.1a62633145c07p-54, r);
		double sine = rope_sin(r), cosine = rope_cos(r);
		int32_t quarter = (int32_t)n;
		double c = quarter & 1 ? sine : cosine, s = quarter & 1 ? cosine : sine;
		float *out = table + (t * (size_t)n_freq + (size_t)i) * 2;
		out[0] = (float)(scale * ((quarter + 1) & 2 ? -c : c));
		out[1] = (float)(scale * (quarter & 2 ? -s : s));
	}
}
