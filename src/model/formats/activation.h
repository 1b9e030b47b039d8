/* SPDX-License-Identifier: Apache-2.0
 *
 * The activation of a gated feed-forward layer: y = act(gate) * up. Each is a row of
 * numbers (g of gate, u of up) to one number. Thread: any.
 */
#pragma once

enum activation_kind {
	/* g / (1 + exp(-g)) * u. Shazeer, GLU Variants Improve Transformer, 2020, eq. 6. */
	ACT_SILU,
	/* 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))) * u. Hendrycks and Gimpel,
	 * Gaussian Error Linear Units, 2016, section 2; "gelu_pytorch_tanh". */
	ACT_GELU_TANH,
	/* g at most `limit`, u within +-limit: g / (1 + exp(-alpha g)) * (u + 1).
	 * OpenAI, gpt-oss model card, 2025, section 2.2. */
	ACT_CLAMPED,
};

struct activation {
	enum activation_kind kind;
	float alpha, limit; /* of ACT_CLAMPED; else 0 */
};
