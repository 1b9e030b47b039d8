/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands read, and small JSON. Thread: main.
 */
#pragma once
#include "tokenizer/tokenizer.h"

/* All of stdin, at most 256 MiB; says on stderr what is wrong and returns false. */
bool input_stdin(struct buf *out);
/* Numbers in text, whatever blanks, commas and brackets stand between them, as
 * ids. False where something else stands there. */
bool input_ids(struct str text, struct ids *out);
/* Append "[1,2,3]". */
void input_add_ids(struct buf *b, const struct ids *ids);
/* The folder of halo-tiny, the model that comes with halod; malloc'ed. NULL: it is not
 * near this program. */
char *input_halo_tiny(void);
/* n ids below n_vocab; the same for the same seed, on every machine. */
void input_random_ids(uint64_t seed, int32_t n_vocab, int32_t *out, int n);
