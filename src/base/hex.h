/* SPDX-License-Identifier: Apache-2.0
 *
 * Hexadecimal digits. Thread: any.
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

/* The value of two, as in %2F; -1: they are none. The second is read only behind a digit. */
static inline int hex_pair(const char *p)
{
	int high = hex_digit(p[0]);
	int low = high >= 0 ? hex_digit(p[1]) : -1;
	return low >= 0 ? high << 4 | low : -1;
}
