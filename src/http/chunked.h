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
	uint64_t n_left;    /* bytes of this chunk's data still to come */
	size_t n_trailers;  /* bytes of trailers so far */
};

/* Takes what it can off the front of *in. *out_data: the next piece of the body, a view
 * into *in; empty where there is none. A call that takes nothing and returns no data needs
 * more bytes. At the body's end the state is CHUNKED_END, and *in holds what follows. On a
 * fault it is CHUNKED_BAD, with E_FRAMING in *fail. */
void chunked_take(struct chunked *c, struct str *in, struct str *out_data,
		  struct fail *fail);
