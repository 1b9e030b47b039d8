/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte-level alphabet of GPT-2: each byte has a printable character that
 * stands for it in vocabularies and merges (" the" is spelled "Ġthe").
 * Thread: any.
 */
#pragma once
#include "base/buf.h"

/* Append the bytes that `spelled` stands for. False, and nothing appended, where
 * it has a character outside the alphabet or is not UTF-8. */
bool bytelevel_decode(struct str spelled, struct buf *out);
