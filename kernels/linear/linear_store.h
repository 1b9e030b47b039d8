/* SPDX-License-Identifier: Apache-2.0
 *
 * How a linear layer stores its output. C for the host, C++ for the kernel.
 */
#pragma once

enum linear_store {
	LINEAR_TO_F16,
	LINEAR_TO_F32,
	LINEAR_ADD_F32 /* y += output */
};

#ifdef DEVICE
/* Returns the number stored, before it is rounded to f16. */
DEVICE float linear_store(void *y, size_t at, float x, uint32_t how)
{
	if (how == LINEAR_TO_F16)
		((uint16_t *)y)[at] = f32_to_f16(x);
	else if (how == LINEAR_TO_F32)
		((float *)y)[at] = x;
	else
		((float *)y)[at] = x += ((float *)y)[at];
	return x;
}
#endif
