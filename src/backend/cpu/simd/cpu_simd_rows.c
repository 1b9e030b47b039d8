/* SPDX-License-Identifier: Apache-2.0
 *
 * Row operations between the matrix products: norm, rotation, activation. A row's numbers
 * depend on the row alone. Sums use one vector of lanes, in order, then vf_sum; remaining
 * elements are added one by one.
 */
#include "backend/cpu/simd/cpu_simd.h"

#include <math.h>

#include "backend/cpu/cpu_math.h"
#include "base/alloc.h"

VINLINE float squares(const float *x, int n)
{
	vf acc = {0};
	int i = 0;
	for (; i + VL <= n; i += VL)
		acc = vf_fma(vf_load(x + i), vf_load(x + i), acc);
	float sum = vf_sum(acc);
	for (; i < n; i++)
		sum += x[i] * x[i];
	return sum;
}

void ISA(cpu_norm)(const float *x, int n, float eps, const float *weight, float *y)
{
	float scale = 1 / sqrtf(squares(x, n) / (float)n + eps);
	int i = 0;
	for (; i + VL <= n; i += VL)
		vf_store(y + i, vf_load(x + i) * vf_all(scale) * vf_load(weight + i));
	for (; i < n; i++)
		y[i] = x[i] * scale * weight[i];
}

/* Load cosines and sines of VL frequencies, which alternate in memory. */
VINLINE void angles(const float *rope, vf *c, vf *s)
{
#if CPU_AVX512
	const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22,
					       24, 26, 28, 30);
	__m512 a = _mm512_loadu_ps(rope), b = _mm512_loadu_ps(rope + VL);
	*c = (vf)_mm512_permutex2var_ps(a, even, b);
	*s = (vf)_mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)),
					b);
#elif CPU_AVX2
	vf a = vf_load(rope), b = vf_load(rope + VL);
	*c = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
	*s = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
	vf a = vf_load(rope), b = vf_load(rope + VL);
	*c = __builtin_shufflevector(a, b, 0, 2, 4, 6);
	*s = __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

void ISA(cpu_rotate)(float *x, int n, const float *rope)
{
	int i = 0;
	for (; i + VL <= n; i += VL) {
		vf c, s, a = vf_load(x + i), b = vf_load(x + n + i);
		angles(rope + 2 * i, &c, &s);
		vf_store(x + i, a * c - b * s);
		vf_store(x + n + i, b * c + a * s);
	}
	for (; i < n; i++) {
		float c = rope[2 * i], s = rope[2 * i + 1], a = x[i], b = x[n + i];
		x[i] = a * c - b * s;
		x[n + i] = b * c + a * s;
	}
}

/* Like act_mul4, for one vector. */
VINLINE vf activate(const struct activation *act, vf g, vf u)
{
	if (act->kind == ACT_SILU)
		return vf_silu(g) * u;
	if (act->kind == ACT_GELU_TANH)
		return vf_gelu(g) * u;
	if (act->kind == ACT_RELU)
		return vf_select(g > vf_all(0), g * u, vf_all(0));
	vf limit = vf_all(act->limit), alpha = vf_all(act->alpha);
	if (act->kind == ACT_SCALED)
		return vf_silu(alpha * g) * (vf_all(act->scale) * u);
	vf most = act->kind == ACT_CLIPPED ? vf_all(act->gate_limit) : limit;
	g = vf_select(g > most, most, g);
	u = vf_select(u > limit, limit, u);
	u = vf_select(u < -limit, -limit, u);
	if (act->kind == ACT_CLIPPED)
		return vf_silu(g) * u;
	return vf_silu(alpha * g) * ((u + vf_all(1)) / alpha);
}

/* Inlined for each kind of activation, so that loops have no branch. */
VINLINE void activate_all(const struct activation *act, const float *gate,
			  const float *up, size_t n, float *y)
{
	size_t i = 0;
	for (; i + VL <= n; i += VL)
		vf_store(y + i, activate(act, vf_load(gate + i), vf_load(up + i)));
	for (; i < n; i++)
		y[i] = act_mul4(act, vec4_all(gate[i]), vec4_all(up[i]))[0];
}

void ISA(cpu_act_mul)(const struct activation *act, const float *gate, const float *up,
		      size_t n, float *y)
{
	if (act->kind == ACT_SILU)
		activate_all(&(struct activation){.kind = ACT_SILU}, gate, up, n, y);
	else
		activate_all(act, gate, up, n, y);
}

#if CPU_AVX512 || CPU_AVX2
void ISA(cpu_to_half)(const float *x, int32_t n, uint16_t *out)
{
	const __m256 most = _mm256_set1_ps(65504), least = _mm256_set1_ps(-65504);
	for (int32_t i = 0; i < n; i += 8) {
		float rest[8] = {0};
		const float *p = x + i;
		if (n - i < 8)
			p = memcpy(rest, p, (size_t)(n - i) * sizeof *p);
		/* Clamp to finite halves. min and max return their second operand for
		 * NaN, which keeps NaN. */
		__m256 v = _mm256_min_ps(most, _mm256_loadu_ps(p));
		__m128i half = _mm256_cvtps_ph(_mm256_max_ps(least, v), 0);
		if (n - i < 8)
			memcpy(out + i, &half, (size_t)(n - i) * sizeof *out);
		else
			_mm_storeu_si128((void *)(out + i), half);
	}
}
#endif
