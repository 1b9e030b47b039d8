/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a file of kept pages. What is accepted can be read from end to end, its
 * offsets lie within the file, and written again it is the same.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "kv/kvfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct kvfile f;
	struct kvfile_head h;
	size_t n_head = kvfile_peek((struct str){(const char *)data, n});
	if (n_head == 0 || n_head > n)
		return 0;
	char *head = xmalloc(n_head);
	memcpy(head, data, n_head);
	/* The fuzzer cannot guess a sum. */
	memcpy(&h, head, sizeof h);
	h.sum = 0;
	memcpy(head, &h, sizeof h);
	h.sum = hash_bytes(0, head, n_head);
	memcpy(head, &h, sizeof h);
	if (kvfile_parse((struct str){head, n_head}, n, &f) == OK) {
		char *again = xmalloc(n_head);
		assert(kvfile_bytes(&f) == n && kvfile_data_at(&f) == n_head);
		assert(kvfile_n_pages(&f) == 0 || kvfile_page_at(&f, kvfile_n_pages(&f) - 1) +
							  f.page_bytes <= n);
		kvfile_write_head(&f, again);
		assert(kvfile_parse((struct str){again, n_head}, n, &f) == OK);
		free(again);
	}
	free(head);
	return 0;
}
