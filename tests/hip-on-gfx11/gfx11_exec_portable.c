/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter's instructions, for hosts with portable.
 */
#include <stdbool.h>

#define HALVES 0
#define EXECUTOR executor_portable
#define EXECUTOR_NAME "portable"

static bool is_there(void)
{
	return true;
}

#include "tests/hip-on-gfx11/gfx11_exec.h"
