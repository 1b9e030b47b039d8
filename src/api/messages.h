/* SPDX-License-Identifier: Apache-2.0
 *
 * `messages` of a chat call to what a template reads. Thread: any.
 */
#pragma once
#include "api/json_read.h"
#include "text/jinja.h"

/* A list of dicts in arena a. one_system: all system messages become the first;
 * otherwise only leading ones do. */
enum status messages_read(const struct json_node *at, bool one_system,
			  struct arena *a, struct jinja_value **out,
			  struct fail *fail) MUST_USE;

/* A tool or a call of one: must be an object with a `function` that has a `name`. */
enum status messages_check_function(const struct json_node *holder,
				    struct fail *fail) MUST_USE;
