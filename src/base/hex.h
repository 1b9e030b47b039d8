/* SPDX-License-Identifier: Apache-2.0
 *
 * A hexadecimal digit. Thread: any.
 */
#pragma once

/* Its value, in capitals or not; -1: it is none. */
static inline int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
