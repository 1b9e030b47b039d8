/* SPDX-License-Identifier: Apache-2.0
 *
 * The frequencies of rotary positions, stretched as a model's config says.
 * Thread: any.
 */
#pragma once
#include "model/model.h"

/* The n frequencies of heads of 2n, radians a position, where a sequence has up to n_ctx
 * tokens. Returns what cos and sin are to be multiplied by. */
double rope_frequencies(const struct rope *r, int32_t n_ctx, int n, double *out);
/* Which of two sets of factors that is. False for ropes that have one. */
bool rope_is_long(const struct rope *r, int32_t n_ctx);
double rope_sharpness(const struct rope *r); /* what that returns */
/* YaRN, 2023, eq. 22, as DeepSeek scales it: 0.1 mscale ln(factor) + 1. */
/* What a late query at `position` is multiplied by; whether there are any. */
float rope_late(const struct model_config *c, int32_t position);
bool rope_has_late(const struct model_config *c);
double rope_mscale(double factor, double mscale);
