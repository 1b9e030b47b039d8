/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the ids of stretches of text. Each request of a conversation repeats the whole
 * conversation, and only the last messages are new.
 *
 * The ids of a stretch between two added tokens depend on its bytes, on who wrote them, and on
 * whether it begins the text. All three are compared, so what is remembered is what would be
 * computed. A stretch is found only in the space that it was put in: else a client could learn
 * from the time of an answer what another client has asked. What was used least recently gives
 * way. A few long conversations have tens of thousands of stretches. Thread: any; it has a lock.
 */
#pragma once
#include "base/markview.h"
#include "tokenizer/tokenizer.h"

struct encodings;
struct encodings *encodings_create(size_t max_bytes); /* limit of the memory for all stretches */
void encodings_destroy(struct encodings *e); /* NULL is fine */

/* The key of a stretch, into *key. begins: the stretch begins the text. */
void encodings_key(struct str space, struct markview stretch, bool begins, struct buf *key);
/* Append the ids of the stretch with this key. False: it is not remembered. */
bool encodings_get(struct encodings *e, struct str key, struct ids *out);
void encodings_put(struct encodings *e, struct str key, const int32_t *ids, size_t n);
