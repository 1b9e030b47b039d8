/* SPDX-License-Identifier: Apache-2.0
 *
 * The first position that a token sees.
 */
#pragma once
#include "kernels/device/dialect.h"

/* Of a token at position p. window: positions that it sees; 0: all; below 0: a chunk of -window
 * positions, a power of two, so that p & window is where its chunk begins. */
DEVICE int32_t attention_seen(int32_t window, int32_t p)
{
	if (window < 0)
		return p & window;
	return window && p >= window ? p - window + 1 : 0;
}
