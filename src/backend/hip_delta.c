/* SPDX-License-Identifier: Apache-2.0
 *
 * Gated delta nets: causal_conv, delta_rule, gated_norm, sigmoid_gate.
 */
#include "backend/hip_launch.h"

enum status hip_causal_conv(struct backend *b, const struct causal_conv_args *a)
{
	return hip_refuse(hip_of(b), "causal_conv has no kernel yet");
}

enum status hip_delta_rule(struct backend *b, const struct delta_rule_args *a)
{
	return hip_refuse(hip_of(b), "delta_rule has no kernel yet");
}

enum status hip_gated_norm(struct backend *b, const struct gated_norm_args *a)
{
	return hip_refuse(hip_of(b), "gated_norm has no kernel yet");
}

enum status hip_sigmoid_gate(struct backend *b, const struct sigmoid_gate_args *a)
{
	return hip_refuse(hip_of(b), "sigmoid_gate has no kernel yet");
}
