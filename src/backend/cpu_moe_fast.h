/* SPDX-License-Identifier: Apache-2.0
 *
 * The chosen experts on the fast path. Thread: engine.
 */
#pragma once
#include "backend/cpu.h"

bool cpu_moe_fast_can(const struct backend *b, const struct experts *e);
enum status cpu_moe_fast(struct backend *b,
			 const struct moe_experts_args *a) MUST_USE;
