/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the segments are in which attention.hip divides the positions of a row. That depends
 * on the row's position alone, so that its bits do, too.
 */
#pragma once
#include "kernels/attention/attention_launch.h"
#include "kernels/device/dialect.h"

/* Smallest segments in a segment of a row that sees n of them. */
DEVICE int32_t attention_each(int32_t n)
{
	int32_t each = (n + ATTENTION_SEGMENTS - 1) / ATTENTION_SEGMENTS;
	return n <= ATTENTION_ALONE ? (int32_t)ATTENTION_ALONE
	       : each == 1 && n > ATTENTION_SHORT ? 2 : each;
}

/* Positions from p on until segments have another length. */
DEVICE int32_t attention_room(int32_t p)
{
	int32_t of = p / ATTENTION_SEGMENT + 1, each = attention_each(of);
	int32_t n = of <= ATTENTION_ALONE ? (int32_t)ATTENTION_ALONE
		    : each == 1 ? (int32_t)ATTENTION_SHORT : each * ATTENTION_SEGMENTS;
	return n * ATTENTION_SEGMENT - p;
}
