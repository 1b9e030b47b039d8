/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that remembers who wrote it.
 *
 * A prompt is template text with the client's words inside. "<|im_end|>" is a control
 * token if the template wrote it, and plain text if a user did. So the renderer records
 * the writer of every byte, and the tokenizer obeys. The marks cover the text in order;
 * the last mark's `end` is the text's length.
 */
#pragma once
#include "base/buf.h"

enum trust {
	TRUST_TEMPLATE, /* every added token is recognised */
	TRUST_MODEL,    /* Text of earlier assistant turns. Added tokens that are not
			 * special (<think>, <tool_call>) are recognised; control tokens
			 * are not. */
	TRUST_USER,     /* no added token is recognised */
};

struct mark {
	size_t end;       /* offset just after the last byte */
	enum trust trust;
};

struct marked {
	struct buf text;
	struct mark *marks;
	size_t n_marks, cap_marks;
};

void marked_add(struct marked *m, struct str s, enum trust trust);
void marked_deinit(struct marked *m);
