/* SPDX-License-Identifier: Apache-2.0
 *
 * The chat templates of a folder, in each form in which models ship them. Thread: any.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

/* One source, malloc'ed, that is `tools` for requests with tools, and `plain` for others; one of
 * them alone if the other is empty. */
char *model_templates_join(struct str plain, struct str tools);
/* config: tokenizer_config.json, or NULL. In the order of Hugging Face: chat_template.jinja with
 * additional_chat_templates/NAME.jinja, then `chat_template` of config (a text, or one for each
 * name), then chat_template.json, which older processors wrote. Of named ones "default" and
 * "tool_use" count. *out: malloc'ed, "" if there is none. E_FORMAT: there are named templates,
 * but no "default". */
enum status model_templates_load(const char *dir, const json_t *config,
				 char **out, struct fail *fail) MUST_USE;
