/* SPDX-License-Identifier: Apache-2.0
 *
 * The activation of a gated feed-forward layer: y = act(gate) * up, element by element.
 * Below, g is an element of gate and u the same element of up. Thread: any.
 */
#pragma once

enum activation_kind {
	/* SiLU: g / (1 + exp(-g)) * u. Shazeer, GLU Variants Improve Transformer, 2020,
	 * eq. 6. */
	ACT_SILU,
	/* GELU, tanh form: 0.5 g (1 + tanh(sqrt(2 / pi) (g + 0.044715 g^3))) * u.
	 * Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, section 2;
	 * "gelu_pytorch_tanh". */
	ACT_GELU_TANH,
	/* g / (1 + exp(-alpha g)) * (u + 1), where g is first clamped to at most `limit`
	 * and u to [-limit, limit]. OpenAI, gpt-oss model card, 2025, section 2.2. */
	ACT_CLAMPED,
	/* max(g, 0) u. A layer without a gate has g = u, which gives the square of max(u, 0).
	 * So et al., Primer, 2021, section 3. Also used in shared experts. */
	ACT_RELU,
	/* SiLU of g, which is first clamped to at most `gate_limit`, times u clamped to [-limit,
	 * limit]. Also used in shared experts. modeling_deepseek_v4.py of Hugging Face
	 * Transformers, DeepseekV4Experts. */
	ACT_CLIPPED,
	/* scale silu(alpha g) u. modeling_falcon_h1.py of Hugging Face Transformers,
	 * FalconH1MLP. */
	ACT_SCALED,
};

struct activation {
	enum activation_kind kind;
	/* alpha: ACT_CLAMPED and ACT_SCALED; limit: ACT_CLAMPED and ACT_CLIPPED; gate_limit:
	 * ACT_CLIPPED; scale: ACT_SCALED; else 0. */
	float alpha, limit, gate_limit, scale;
};
