/* SPDX-License-Identifier: Apache-2.0
 *
 * The setting `lora`: LoRA adapters of the model, by the names that requests give. Thread: that of
 * boot.
 */
#pragma once
#include "api/api.h"
#include "daemon/config.h"
#include "model/lora.h"

/* What the setting says. */
struct adapters {
	char **names, **paths; /* (n) */
	int n;
	/* (n_all) further names of the model: its aliases, then those of its adapters */
	const char **all;
	int n_all;
};

/* Items are NAME=PATH, or PATH, whose last part is the name then; a NAME has no '/'. E_CONFIG: a
 * name is there twice, or the model has it already. Views into c. After a failure, too, call
 * adapters_deinit. */
enum status adapters_plan(const struct config *c, const char *model_name, struct adapters *out,
			  struct fail *fail) MUST_USE;
void adapters_deinit(struct adapters *a);

/* The opened files. */
struct adapters_open {
	struct lora **loras;    /* (n); NULL once adapters_drop was called */
	struct api_lora *names; /* (n) for api_opts; their hashes are 0 before the files are open */
	int n;
};
/* Names of a, without files. */
void adapters_name(const struct adapters *a, struct adapters_open *out);
/* Opens the files for model m; looks as lora_open has it. Errors are those of lora_open, and begin
 * with "lora". */
enum status adapters_open(const struct adapters *a, const struct model *m, bool looks,
			  struct adapters_open *out, struct fail *fail) MUST_USE;
void adapters_drop(struct adapters_open *o);  /* the numbers: the engine has copies */
void adapters_close(struct adapters_open *o); /* all; all zeros is fine */
