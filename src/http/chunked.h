/* SPDX-License-Identifier: Apache-2.0
 *
 * A body in chunks (RFC 9112, 7.1), taken apart as it comes. Strict: lines end in CR LF,
 * a size is 1 to 15 hexadecimal digits, extensions and trailers are checked and left
 * out. Pure. Thread: any.
 */
#pragma once
#include "base/buf.h"

enum chunked_at {
	CHUNKED_SIZE, CHUNKED_DATA, CHUNKED_DATA_END, CHUNKED_TRAILER, CHUNKED_END,
	CHUNKED_BAD
};

struct chunked {
	enum chunked_at at;
	uint64_t n_left;    /* of this chunk's data */
	size_t n_trailers;  /* bytes */
};

/* Take what can be taken off the front of *in. *out_data: the next piece of the body, a
 * view into it, empty where there is none. After a call that took nothing and gave
 * nothing more bytes must come. At the end at is CHUNKED_END, and *in what comes
 * behind; on a fault CHUNKED_BAD and *fail, E_FRAMING. */
void chunked_take(struct chunked *c, struct str *in, struct str *out_data,
		  struct fail *fail);
