/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend for the cases that runs the .hip kernels as fibers: "device" memory is the
 * host's. Operations that have no kernel yet are NULL in its table.
 */
#pragma once
#include <stdbool.h>

#include "backend/backend.h"

enum { FIBER_BACKEND_AXES = 5 }; /* rows of linear_int4.def */

/* i_axes: which of them linear takes; is_reversed: threads in the other order. */
void fiber_backend_create(int i_axes, bool is_reversed, struct backend **out);
const char *fiber_backend_axes_name(int i_axes);
