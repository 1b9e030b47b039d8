/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/status.h"
#include "model/formats/blocks.h"

/* Round w, of any format, to QUANT_INT8 with one scale a row, on all CPUs. *out points
 * into *memory, which is malloc'ed. Rows of zeros stay zero. The caller must not pass
 * weights that are NaN or infinite. E_NOMEM. Thread: any. */
enum status weight_to_int8(const struct weight *w, struct weight *out,
			   void **memory) MUST_USE;
