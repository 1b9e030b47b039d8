/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes that experts' kernels are compiled in, for tests and tuning. Thread: any.
 */
#pragma once
#include "backend/hip_launch.h"

int hip_experts_tile_count(void); /* rows of moe_tile.def */
const char *hip_experts_tile_name(int i);
