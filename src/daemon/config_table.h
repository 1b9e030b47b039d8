/* SPDX-License-Identifier: Apache-2.0
 *
 * config.def as a table, for config.c and config_print.c alone: what the keys are and
 * how a value goes from text into struct config and back. Thread: any.
 */
#pragma once
#include "daemon/config.h"

enum config_type { TEXT, LIST, INT, SIZE, TIME, BOOL, CHOICES };

struct config_row {
	const char *section; /* title; then nothing else is set */
	const char *name, *dflt, *min, *max, *choices, *help;
	enum config_type type;
	size_t offset; /* in struct config */
};

#define CONFIG_ROWS_MAX 100
extern const struct config_row config_rows[];
extern const int config_n_rows;

/* The row of a key, spelled with _ or -, or NULL. */
const struct config_row *config_find(struct str key);
/* The name of the key most like this one, NULL when none is near. */
const char *config_nearest(struct str key);
/* What to use in the place of a flag ("--ctx-size", "-m") or a command ("serve") of
 * another server, as half a sentence. NULL: not one that is known. */
const char *config_foreign(struct str flag);

/* Parse text into the row's field; the message of E_CONFIG begins with place. */
enum status config_set(struct config *c, const struct config_row *r,
		       const char *text, const char *place,
		       struct fail *fail) MUST_USE;
/* Every field its default. */
void config_set_defaults(struct config *c);
/* Append the value as it would be written in a file. */
void config_value_format(const struct config *c, const struct config_row *r,
			 struct buf *out);
