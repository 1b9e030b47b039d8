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
	struct rope_table_args a = {T, N, positions, freq, ref, scale, NULL};
	rope_table_ref(&a);
	struct rope_table_args on = {T, N, UPLOAD(kt, positions, T), UPLOAD(kt, freq, N),
				     UPLOAD(kt, ref, T * N * 2), scale, NULL};
	kernel_ran(kt, kt->b->ops->rope_table(kt->b, &on), "rope_table");
	const float *got = kernel_download(kt, on.table, T * N * 2);
	double worst = 0, unit = 0;
	for (int i = 0; i < T * N; i++) {
		worst = worse_of(worst, fabs((double)got[2 * i] - ref[2 * i]));
		worst = worse_of(worst, fabs((double)got[2 * i + 1] - ref[2 * i + 1]));
		unit = worse_of(unit, fabs(hypot(got[2 * i], got[2 * i + 1]) - scale));
	}
	kernel_ok(worst <= 6e-8 * scale, "%s: rope_table: largest error %.1e", kt->name, worst);
	kernel_ok(unit <= 1e-7 * scale, "%s: rope_table: cos^2 + sin^2 = scale^2", kt->name);
	kernel_ok(fabs(got[2 * (5 * N)] - scale * cos(1000)) <= 6e-8 * scale,
		  "%s: cos of position 1000", kt->name);
}

/* Pairs alternate between three positions of a token. */
static void check_axes(struct kernel_test *kt)
{
	enum { T = 5, N = 9 };
	static const int32_t positions[T * 3] = {0, 0, 0, 7, 7, 7, 8, 9, 10, 8, 100, 8, 200,
						 200, 4000};
	int32_t axis[N];
	double freq[N];
	float ref[T * N * 2], wrong[T * N * 2] = {0};
	for (int i = 0; i < N; i++) {
		freq[i] = pow(1e4, -1.0 * i / N);
		axis[i] = i < 7 ? i % 3 : 0;
	}
	struct rope_table_args a = {T, N, positions, freq, ref, 1, axis};
	rope_table_ref(&a);
	struct rope_table_args on = {T, N, UPLOAD(kt, positions, T * 3), UPLOAD(kt, freq, N),
				     UPLOAD(kt, wrong, T * N * 2), 1, UPLOAD(kt, axis, N)};
	kernel_ran(kt, kt->b->ops->rope_table(kt->b, &on), "rope_table");
	const float *got = kernel_download(kt, on.table, T * N * 2);
	double worst = 0;
	for (int i = 0; i < T * N * 2; i++)
		worst = worse_of(worst, fabs((double)got[i] - ref[i]));
	kernel_ok(worst <= 6e-8, "%s: rope_table of three axes: largest error %.1e", kt->name,
		  worst);
	kernel_ok(fabs(got[2 * (3 * N + 1)] - cos(100 * freq[1])) <= 6e-8,
		  "%s: pair 1 rotates by the height", kt->name);
}

void case_rope_table(struct kernel_test *kt)
{
	check(kt, 1);
	check(kt, 1.25);
	check_axes(kt);
}
