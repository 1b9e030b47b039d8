/* SPDX-License-Identifier: Apache-2.0
 *
 * config.def as a table, for config.c and config_print.c alone. It lists the keys and
 * converts values between text and struct config. Thread: any.
 */
#pragma once
#include "daemon/config.h"

enum config_type { TEXT, LIST, INT, REAL, SIZE, TIME, BOOL, CHOICES };

struct config_row {
	const char *section; /* a section's title; such a row has nothing else */
	const char *name, *dflt, *min, *max, *choices, *help;
	enum config_type type;
	size_t offset; /* of the field in struct config */
};

#define CONFIG_ROWS_MAX 128
extern const struct config_row config_rows[];
extern const int config_n_rows;

/* The row of a key, spelled with _ or -, or NULL. */
const struct config_row *config_find(struct str key);
/* The name of the key most like this one; NULL: none is near. */
const char *config_nearest(struct str key);
/* What to use in place of another server's flag ("--ctx-size", "-m") or command ("serve"),
 * as half a sentence. NULL: the flag is not known. */
const char *config_foreign(struct str flag);

/* Parse text into the row's field; the message of E_CONFIG begins with place. */
enum status config_set(struct config *c, const struct config_row *r,
		       const char *text, const char *place,
		       struct fail *fail) MUST_USE;
/* Sets every field to its default. */
void config_set_defaults(struct config *c);
/* May a section [model NAME] set it? */
bool config_is_per_model(const struct config_row *r);
/* Is it of one model alone, so that no section takes it over from above? */
bool config_is_own(const struct config_row *r);
/* Copies the row's field; texts are shared. */
void config_copy(struct config *to, const struct config *from, const struct config_row *r);
/* Append the value as it would be written in a file. */
void config_value_format(const struct config *c, const struct config_row *r,
			 struct buf *out);
