/* SPDX-License-Identifier: Apache-2.0
 *
 * `messages` of a chat call to what a template reads. Thread: any.
 */
#pragma once
#include "json/json_read.h"
#include "api/chat_template.h"
#include "api/chat_replay.h"
#include "api/images.h"

struct messages_opts {
	const struct chat_template *chat;
	struct arena *arena;   /* holds the result */
	struct chat_replay *replay; /* calls whose exact text is known are noted there */
	/* Behind the text of the last message, which must be the assistant's; p NULL: it
	 * may be anyone's. */
	struct str final_mark;
	/* A message with calls and without text has the text "", not None. */
	bool fills_content;
	struct images *images; /* receives the images of users and tools */
};

/* A list of dicts. */
enum status messages_read(const struct json_node *at, const struct messages_opts *o,
			  struct jinja_value **out, struct fail *fail) MUST_USE;

/* A tool or a call of one: must be an object with a `function` that has a `name`. */
enum status messages_check_function(const struct json_node *holder,
				    struct fail *fail) MUST_USE;
