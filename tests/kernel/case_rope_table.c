/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernel/kernel_test.h"

/* The contract is exact to the last rounding: no error is allowed but a unit in
 * the last place of the device's own functions. */
static void check(struct kernel_test *kt, double scale)
{
	enum { T = 9, N = 64 };
	static const int32_t positions[T] = {0, 1, 2, 15, 16, 1000, 4095, 131071, 262143};
	double freq[N];
	float ref[T * N * 2];
	for (int i = 0; i < N; i++)
		freq[i] = pow(1e6, -2.0 * i / (2 * N));
	struct rope_table_args a = {T, N, positions, freq, ref, scale};
	rope_table_ref(&a);
	struct rope_table_args on = {T, N, UPLOAD(kt, positions, T), UPLOAD(kt, freq, N),
				     UPLOAD(kt, ref, T * N * 2), scale};
	kernel_ran(kt, kt->b->ops->rope_table(kt->b, &on), "rope_table");
	const float *got = kernel_download(kt, on.table, T * N * 2);
	double worst = 0, unit = 0;
	for (int i = 0; i < T * N; i++) {
		worst = fmax(worst, fabs((double)got[2 * i] - ref[2 * i]));
		worst = fmax(worst, fabs((double)got[2 * i + 1] - ref[2 * i + 1]));
		unit = fmax(unit, fabs(hypot(got[2 * i], got[2 * i + 1]) - scale));
	}
	kernel_ok(worst <= 6e-8 * scale, "%s: rope_table: largest error %.1e", kt->name, worst);
	kernel_ok(unit <= 1e-7 * scale, "%s: rope_table: cos^2 + sin^2 = scale^2", kt->name);
	kernel_ok(fabs(got[2 * (5 * N)] - scale * cos(1000)) <= 6e-8 * scale,
		  "%s: cos of position 1000", kt->name);
}

void case_rope_table(struct kernel_test *kt)
{
	check(kt, 1);
	check(kt, 1.25);
}
