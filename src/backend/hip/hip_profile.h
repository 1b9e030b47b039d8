/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's clock for a profile (base/profile.h). Thread: engine.
 */
#pragma once
#include "backend/hip/hip.h"

const struct profile_device *hip_profile_device(struct backend *b);
/* The stage to which the time of a kernel with this stage counts, within the one that runs now. */
enum profile_stage hip_profile_stage(struct hip *h, enum profile_stage of_kernel);
void hip_profile_free(struct hip *h);
