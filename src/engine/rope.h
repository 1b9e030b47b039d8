/* SPDX-License-Identifier: Apache-2.0
 *
 * The frequencies of rotary positions, stretched as a model's config says.
 * Thread: any.
 */
#pragma once
#include "model/model.h"

/* The n frequencies of heads of 2n, radians a position. Returns what cos and sin are
 * to be multiplied by. */
double rope_frequencies(const struct rope *r, int n, double *out);
double rope_sharpness(const struct rope *r); /* what that returns */
/* YaRN, 2023, eq. 22, as DeepSeek scales it: 0.1 mscale ln(factor) + 1. */
/* What a late query at `position` is multiplied by; whether there are any. */
float rope_late(const struct model_config *c, int32_t position);
bool rope_has_late(const struct model_config *c);
double rope_mscale(double factor, double mscale);
