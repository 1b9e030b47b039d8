/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch's file as it was sent. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* A walk through the lines of a file that are not blank. */
struct batch_lines {
	int fd;       /* it is read from its start; the caller's */
	size_t max_bytes; /* of a line; longer ones are not kept */
	int line;     /* of `text`, from 1 on */
	struct str text;
	bool is_long; /* the line is longer; text is "" */
	struct buf buf;
	size_t from;  /* of buf, the next line */
	bool is_end;
	int why;      /* an errno: the file cannot be read; 0: it can */
};
void batch_lines_rewind(struct batch_lines *l);
/* False: no line is left, or `why` says why none can be read. */
bool batch_lines_next(struct batch_lines *l);
void batch_lines_deinit(struct batch_lines *l);
