/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the input of commands, and writes small JSON. Thread: main.
 */
#pragma once
#include "tokenizer/tokenizer.h"

/* Reads all of stdin, at most 256 MiB. False: the reason was printed on stderr. */
bool input_stdin(struct buf *out);
/* Reads numbers as ids, with any blanks, commas and brackets between them. False if the text
 * has anything else. */
bool input_ids(struct str text, struct ids *out);
/* Append "[1,2,3]". */
void input_add_ids(struct buf *b, const struct ids *ids);
/* The folder of halo-tiny, the model that comes with halod; malloc'ed. NULL: it is not at any
 * of the usual places beside this program. */
char *input_halo_tiny(void);
/* n random ids below n_vocab. The same seed gives the same ids on every machine. */
void input_random_ids(uint64_t seed, int32_t n_vocab, int32_t *out, int n);
