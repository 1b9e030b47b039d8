/* SPDX-License-Identifier: Apache-2.0
 *
 * Base64, RFC 4648 section 4. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Appends the bytes that `text` stands for. The padding may be missing. False: it is no
 * base64; some bytes may have been appended. */
bool base64_decode(struct str text, struct buf *out);
