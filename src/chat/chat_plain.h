/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools for templates that know none: what the template would not show is written as plain
 * text into the messages, before they are rendered. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "chat/chat_model.h"

/* What is written as text. */
struct chat_plain {
	bool tools; /* the list of tools, and how to call one */
	bool calls; /* calls of the history, and their results */
};

/* What of it this model's template does not show. */
struct chat_plain chat_plain_of(const struct chat_model *m);

/* A new list of messages for `messages`, a chat's list that messages_read has taken. tools: the
 * chat's; NULL: none are shown. The caller frees it with json_decref. */
json_t *chat_plain_messages(const struct chat_model *m, const json_t *messages,
			    const json_t *tools);
