/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that remembers who wrote it.
 *
 * A prompt is template text with the client's words inside. "<|im_end|>" is a
 * control token where the template wrote it and plain text where a user did, so
 * the renderer keeps for every byte who wrote it and the tokenizer obeys. The
 * marks cover the text in order; the last `end` is the text's length.
 */
#pragma once
#include "base/buf.h"

enum trust {
	TRUST_TEMPLATE, /* every added token is recognised */
	TRUST_MODEL,    /* assistant turns sent back: added tokens that are not
	                 * special (<think>, <tool_call>) are, control tokens not */
	TRUST_USER,     /* none is */
};

struct mark {
	size_t end;       /* offset behind the last byte */
	enum trust trust;
};

struct marked {
	struct buf text;
	struct mark *marks;
	size_t n_marks, cap_marks;
};

void marked_add(struct marked *m, struct str s, enum trust trust);
void marked_deinit(struct marked *m);
