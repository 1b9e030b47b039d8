/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch's file: what each must be, and what is read of it. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* One request of a batch. The views point into the text and the tree. */
struct batch_line {
	json_t *tree;         /* the caller frees it by json_decref */
	struct str custom_id;
	struct str body;      /* a JSON object, digit for digit as it was sent */
	const char *fault;    /* for E_INVAL: OpenAI's word for it */
};

/* E_JSON, E_INVAL: fail->text says what is wrong; then there is no tree. */
enum status batch_check_line(struct str text, const char *endpoint, struct batch_line *out,
			     struct fail *fail) MUST_USE;

/* A walk through the lines of a file that are not blank. */
struct batch_lines {
	int fd;       /* it is read from its start; the caller's */
	int line;     /* of `text`, from 1 on */
	struct str text;
	struct buf buf;
	size_t from;  /* of buf, the next line */
	bool is_end;
	int why;      /* an errno: the file cannot be read; 0: it can */
};
void batch_lines_rewind(struct batch_lines *l);
/* False: there is none any more, or `why`. */
bool batch_lines_next(struct batch_lines *l);
void batch_lines_deinit(struct batch_lines *l);

/* Reads the whole file. *out_faults: a JSON list of what is wrong, or NULL; the caller frees it.
 * *out_n: its requests. is_over: stop early. */
void batch_check_file(int fd, const char *endpoint, int max_lines, const _Atomic bool *is_over,
		      int *out_n, char **out_faults);
