/* SPDX-License-Identifier: Apache-2.0
 *
 * The first position that a token sees.
 */
#pragma once
#include "kernels/device/dialect.h"

/* The first position that a token at position p sees. window: how many positions it sees; 0: all;
 * below 0: those of a chunk of -window positions, a power of two, so that p & window is where the
 * chunk begins. */
DEVICE int32_t attention_seen(int32_t window, int32_t p)
{
	if (window < 0)
		return p & window;
	return window && p >= window ? p - window + 1 : 0;
}
