/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's chat template, compiled, with what was found out about it by trying.
 * Thread: any once created (immutable).
 */
#pragma once
#include "jinja/jinja.h"
#include "tokenizer/tokenizer.h"

struct chat_template;

/* Whether templates are told to reason where a request does not say it. AUTO: they are told
 * nothing. */
enum chat_reasoning { CHAT_REASONING_AUTO, CHAT_REASONING_ON, CHAT_REASONING_OFF };

/* What every rendering gets besides the messages. bos_text and eos_text: "" where the model
 * has no such token. */
struct chat_template_opts {
	struct str source;
	const char *bos_text, *eos_text;
};

/* E_FORMAT, with line and column: the source has an error. */
enum status chat_template_create(const struct chat_template_opts *o,
				 struct chat_template **out,
				 struct fail *fail) MUST_USE;
void chat_template_destroy(struct chat_template *t);

/* What was found out about a template. */
struct chat_template_ways {
	/* loses or refuses a system message behind others: callers put all into the first */
	bool wants_one_system;
	/* how it takes the arguments of calls in the history. Both: either way. Neither: it
	 * shows no calls */
	bool takes_objects, takes_strings;
	bool hides_calls;     /* shows calls of the history nowhere, or fails on them */
	bool shows_tools;     /* shows the list of tools */
	bool takes_system;    /* shows a first message of the system */
	bool wants_short_ids; /* accepts call ids only of nine letters and digits */
	/* shows the calls of a message without text only where the content is None, not "" */
	bool wants_none;
	bool prints_none; /* writes the word None where a message with calls has no text */
	bool lists_tools; /* without tools: fails on None, but takes an empty list */
};
const struct chat_template_ways *chat_template_ways(const struct chat_template *t);

struct chat_template_input {
	struct arena *arena; /* holds the values below, and what rendering allocates */
	struct jinja_value *messages;
	struct jinja_value *tools;  /* NULL: none */
	struct jinja_value *globals; /* a dict of further variables */
	bool is_whole; /* the last message is to be continued: no new turn is opened */
};

/* Append the prompt, up to where the assistant begins to write. E_TEMPLATE with
 * the template's words, E_LIMIT. */
enum status chat_template_render(const struct chat_template *t,
				 const struct chat_template_input *in,
				 struct marked *out, struct fail *fail) MUST_USE;

/* The special token that the template writes behind an assistant's last message; -1: it writes
 * none there. */
int32_t chat_template_end(const struct chat_template *t, const struct tokenizer *tokenizer);

/* Does a rendered prompt end inside a reasoning block that the template opened? Blocks in
 * users' texts do not count. */
bool chat_template_opens(const struct marked *prompt, struct str open,
			 struct str close);
/* Does a rendered prompt end behind a reasoning block that the template opened and closed?
 * Then the model answers without reasoning. */
bool chat_template_closes(const struct marked *prompt, struct str open,
			  struct str close);
