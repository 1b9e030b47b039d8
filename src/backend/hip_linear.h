/* SPDX-License-Identifier: Apache-2.0
 *
 * The shapes that linear's int4 kernel is compiled in, for tests and tuning. Thread:
 * any.
 */
#pragma once
#include "backend/hip_launch.h"

int hip_linear_int4_count(void); /* rows of linear_int4.def */
const char *hip_linear_int4_name(int i);
