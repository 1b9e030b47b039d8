/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a safetensors file: every tensor that is accepted can be read from
 * end to end, and none shares a byte with another.
 */
#include <stdlib.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct arena a;
	struct safetensors s;
	arena_init(&a);
	if (safetensors_parse((struct str){(const char *)data, n}, "fuzz", &a, &s,
			      NULL) == OK) {
		size_t total = 0;
		volatile unsigned char sum = 0;
		for (size_t i = 0; i < s.n; i++) {
			const struct tensor *t = &s.tensors[i];
			const unsigned char *p = t->data;
			total += t->n_bytes;
			for (size_t j = 0; j < t->n_bytes; j++)
				sum ^= p[j];
			if ((uintptr_t)p % dtype_bytes(t->dtype))
				abort();
		}
		(void)sum;
		if (total > n)
			abort();
		safetensors_deinit(&s);
	}
	arena_deinit(&a);
	return 0;
}
