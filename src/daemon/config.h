/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings. config.def lists the keys; a file and then the command line set their values.
 * Read once, at start. Thread: any once loaded (immutable).
 *
 * File: lines `key = value`; # begins a comment; a value may be in "quotes", in
 * which \" and \\ stand for themselves. SIZE takes K, M, G, T (powers of 1024) or
 * none, TIME ms, s, m, h, d or none (seconds), BOOL yes/no, on/off, true/false,
 * 1/0. Keys may be spelled with - for _. A line [model NAME] begins a section: what follows is
 * of that model.
 */
#pragma once
#include "base/arena.h"

#define CONFIG_TYPE_TEXT const char *
#define CONFIG_TYPE_LIST struct config_list
#define CONFIG_TYPE_INT int64_t
#define CONFIG_TYPE_REAL double /* NAN: auto */
#define CONFIG_TYPE_SIZE int64_t /* bytes */
#define CONFIG_TYPE_TIME int64_t /* microseconds */
#define CONFIG_TYPE_BOOL bool

struct config_list {
	const char *const *items;
	int n;
};

struct config {
#define SECTION(title)
#define KEY(name, type, dflt, min, max, help) CONFIG_TYPE_##type name;
#define CHOICE(name, dflt, choices, help) const char *name;
#include "daemon/config.def"
#undef SECTION
#undef KEY
#undef CHOICE
	struct arena arena; /* holds the values of TEXT and LIST */
	struct config_section *sections; /* in the order of the file */
	int n_sections;
};

/* A section [model NAME]. Its settings are complete: what it does not set, or a flag sets, is as
 * for all models. model, model_name, aliases, lora, mmproj and draft_model above the sections
 * are of `model` alone. */
struct config_section {
	const char *name;
	char *where; /* "FILE:LINE" */
	struct config *config; /* model_name is the section's name; it has no sections */
};

/* What the command line asks for. PRINT: print the settings, see config_format. */
enum config_action {
	CONFIG_RUN,
	CONFIG_CHECK,
	CONFIG_PRINT,
	CONFIG_HELP,
	CONFIG_VERSION,
};

/* Sets the defaults, then reads the file (-c FILE; without -c, default_file where it
 * exists), then the flags. E_CONFIG or E_IO names file:line and key, or the flag. After a
 * failure, too, config_deinit must be called. */
enum status config_load(struct config *c, int argc, char *const *argv,
			const char *default_file, enum config_action *out_action,
			struct fail *fail) MUST_USE;
void config_deinit(struct config *c);
/* Empties what is of one model alone: c gets the settings of another. */
void config_clear_own(struct config *c);

/* Writes the settings as a config file with help, ranges and defaults. A key with its
 * default value is commented out: with no setting changed this is conf/halod.conf. */
void config_format(const struct config *c, struct buf *out);
/* Appends the keys whose values differ, separated by commas. */
void config_changes_format(const struct config *a, const struct config *b, struct buf *out);
void config_help_format(struct buf *out); /* --help */
