/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch's file: what each must be, and what is read of it. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "batch/batch_lines.h"

/* One request of a batch. The views point into the text and the tree. */
struct batch_line {
	json_t *tree;         /* the caller frees it by json_decref */
	struct str custom_id;
	struct str body;      /* a JSON object, digit for digit as it was sent */
	const char *fault;    /* for E_INVAL: OpenAI's word for it */
};

/* Reads the line at which the walk is. E_JSON, E_INVAL, E_TOO_LARGE: fail->text says what is wrong;
 * then there is no tree. E_NOMEM. */
enum status batch_check_line(const struct batch_lines *l, const char *endpoint,
			     struct batch_line *out, struct fail *fail) MUST_USE;

struct batch_rules {
	const char *endpoint;
	int max_lines;
	size_t max_bytes;            /* of a line */
	const _Atomic bool *is_over; /* stop early */
	struct str model;            /* the batch's: no line names another */
	bool (*is_one)(void *ctx, struct str a, struct str b); /* do both names, or none, mean one
								* model? NULL: there is one */
	void *ctx;                   /* of is_one */
};
/* Reads the whole file. *out_faults: a JSON list of what is wrong, or NULL; the caller frees it.
 * *out_n: its requests. E_IO, E_NOMEM: it cannot be read now. */
enum status batch_check_file(int fd, const struct batch_rules *rules, int *out_n,
			     char **out_faults, struct fail *fail) MUST_USE;
