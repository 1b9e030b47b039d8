/* SPDX-License-Identifier: Apache-2.0
 *
 * The frequencies of rotary positions, stretched as a model's config says.
 * Thread: any.
 */
#pragma once
#include "model/model.h"

/* The n frequencies of heads of 2n, radians a position, where a sequence has up to n_ctx
 * tokens. Returns the factor of cos and sin. */
double rope_frequencies(const struct rope *r, int32_t n_ctx, int n, double *out);
/* True if rope_frequencies takes the long one of two sets of factors. False for ropes that
 * have one set. */
bool rope_is_long(const struct rope *r, int32_t n_ctx);
double rope_sharpness(const struct rope *r); /* the factor that rope_frequencies returns */
/* YaRN, 2023, eq. 22, as DeepSeek scales it: 0.1 mscale ln(factor) + 1. */
/* Attention temperature: the factor of a query at `position`, which grows with it; 1 at first.
 * Has the model one? */
float rope_attn_temp(const struct model_config *c, int32_t position);
bool rope_has_attn_temp(const struct model_config *c);
double rope_mscale(double factor, double mscale);
