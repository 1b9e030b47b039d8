/* SPDX-License-Identifier: Apache-2.0
 *
 * A config.json as a text, and what is read of it.
 */
#pragma once
#include <stdlib.h>

#include "base/alloc.h"
#include "model/model_config.h"
#include "tests/tap.h"

static struct arena arena;
static struct model_config c;
static struct fail fail;

static enum status read_config(const char *text)
{
	json_t *root = json_loads(text, 0, NULL);
	if (!root)
		abort();
	fail = (struct fail){0};
	enum status st = model_config_read(root, &arena, &c, &fail);
	json_decref(root);
	return st;
}
