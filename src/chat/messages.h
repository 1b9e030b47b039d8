/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns `messages` of a chat call into the values that a template reads. Thread: any.
 */
#pragma once
#include "json/json_read.h"
#include "chat/chat_template.h"
#include "chat/chat_replay.h"
#include "chat/images.h"

struct messages_opts {
	const struct chat_template *chat;
	struct arena *arena;   /* holds the result */
	struct chat_replay *replay; /* receives the calls whose exact text is known */
	/* A mark to put behind the last message's text; the message must then be the
	 * assistant's. p NULL: no mark, and any role. */
	struct str final_mark;
	/* True: a message with calls and without text has the text "", not None. */
	bool fills_content;
	struct images *images; /* receives what users and tools show and play */
};

/* *out: a list of dicts, one for each message. */
enum status messages_read(const struct json_node *at, const struct messages_opts *o,
			  struct jinja_value **out, struct fail *fail) MUST_USE;

/* What a model's messages may have, as in "text and images". */
const char *messages_kinds(const struct chat_model *m);
/* Is a part of this type an image, a sound or a video that the model takes? */
bool messages_takes(const struct chat_model *m, struct str kind);

/* Checks a tool or a tool call: an object with a `function` that has a `name`. */
enum status messages_check_function(const struct json_node *holder,
				    struct fail *fail) MUST_USE;
