/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's clock for a profile (base/profile.h). Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

const struct profile_device *hip_profile_device(struct backend *b);
/* The stage to which a kernel's time counts, within the stage that runs now. Norms that are
 * launched by themselves and the parts of moe_experts have stages of their own, which the
 * kernel's name tells. */
enum profile_stage hip_profile_stage(struct hip *h, const char *kernel);
void hip_profile_free(struct hip *h);
