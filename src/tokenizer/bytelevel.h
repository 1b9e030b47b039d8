/* SPDX-License-Identifier: Apache-2.0
 *
 * GPT-2's byte-level alphabet. Each byte has a printable character that stands for it in
 * vocabularies and merges: " the" is spelled "Ġthe". Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Appends the bytes that `spelled` stands for. Returns false and appends nothing if
 * `spelled` is not UTF-8 or has a character outside the alphabet. */
bool bytelevel_decode(struct str spelled, struct buf *out);
/* Appends the characters that stand for these bytes. */
void bytelevel_encode(struct str bytes, struct buf *out);
