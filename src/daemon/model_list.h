/* SPDX-License-Identifier: Apache-2.0
 *
 * Which models the settings name: `model`, then the sections, then what models_dir holds. Thread:
 * io.
 */
#pragma once
#include "daemon/config.h"

/* Each has the settings of one model: model is where it is, and model_name what it is called, or
 * "" where boot_plan finds the name. They share the texts of the config, which outlives them. */
struct model_list {
	struct config **all; /* the first is meant where a request names none */
	int n;               /* at least 1 after model_list_find */
	struct arena arena;
};

/* E_CONFIG: a section names no files, or models_dir cannot be read or holds no model. Nothing of a
 * model is opened. After a failure, too, model_list_deinit must be called. */
enum status model_list_find(const struct config *c, struct model_list *out,
			    struct fail *fail) MUST_USE;
/* Are they the same models, in the same order? Their settings are not compared. */
bool model_list_is_same(const struct model_list *a, const struct model_list *b);
void model_list_deinit(struct model_list *m);
