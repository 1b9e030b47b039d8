/* SPDX-License-Identifier: Apache-2.0
 *
 * MLA: head_linear, mla_rope_kv.
 */
#include "backend/hip_launch.h"

enum status hip_head_linear(struct backend *b, const struct head_linear_args *a)
{
	return hip_refuse(hip_of(b), "head_linear has no kernel yet");
}

enum status hip_mla_rope_kv(struct backend *b, const struct mla_rope_kv_args *a)
{
	return hip_refuse(hip_of(b), "mla_rope_kv has no kernel yet");
}
