/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/status.h"
#include "model/formats/blocks.h"

/* w, of any format, rounded to QUANT_INT8 with a scale a row, by all CPUs. *out points
 * into *memory (malloc); rows of zeros stay so, and NaN or infinite weights are the
 * caller's to keep out. E_NOMEM. Thread: any. */
enum status weight_to_int8(const struct weight *w, struct weight *out,
			   void **memory) MUST_USE;
