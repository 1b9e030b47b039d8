/* SPDX-License-Identifier: Apache-2.0
 *
 * How models write tool calls: one row per format, and the states in which
 * toolparse.c reads it. Thread: any (constant).
 */
#pragma once
#include "base/buf.h"

/* Where a piece of the model's text belongs. */
enum out_channel {
	OUT_CONTENT,
	OUT_REASONING,
	OUT_CALL_NAME,   /* a call begins: its whole name */
	OUT_CALL_ARGS,   /* a piece of its arguments' JSON, never half an escape */
	OUT_CALL_END,    /* it is complete: the exact text that the model wrote for it */
	OUT_CALL_BROKEN, /* this text was to be a call and is none. Behind a NAME: that
	                  * call never ends, this is all of its text */
};

enum tool_kind {
	TOOL_TEXT,   /* goes to a channel until one of the literals comes */
	TOOL_EXPECT, /* white space, then one of the literals, or `other` */
	TOOL_UNTIL,  /* taken as a name, a key or a header, up to a literal */
	TOOL_VALUE,  /* a parameter's value, up to a literal */
	TOOL_CALL,   /* a JSON object with name and arguments */
	TOOL_ARGS,   /* a JSON object: the arguments */
};

/* HEADER: the first of next for text, the second for reasoning, the third for a
 * call. */
enum tool_take { TAKE_NOTHING, TAKE_NAME, TAKE_KEY, TAKE_HEADER };

enum { TOOL_LITERALS = 4 };
/* With a next state: the call is complete; what was read is read again there. */
enum { TOOL_END = 0x80, TOOL_AGAIN = 0x40, TOOL_STATE = 0x3f };

/* The first byte of a literal does not come again in it (asserted by a test): a
 * failed match then goes on with that byte at the latest. */
struct tool_state {
	enum tool_kind kind;
	const char *literals[TOOL_LITERALS];
	unsigned char next[TOOL_LITERALS]; /* CALL, ARGS: the first */
	unsigned char other;  /* EXPECT: 0 is none, the call is broken */
	enum tool_take take;  /* UNTIL */
	enum out_channel channel; /* TEXT */
	bool is_outside;      /* of calls; text kept here is content */
	bool is_guess;        /* CALL: without a tag, so it must name a known tool */
	bool strips_newlines; /* VALUE: one at each end is the format's */
};
extern const struct tool_state tool_states[];
extern const int n_tool_states;

/* The words of one call in a grammar: up to its name, up to its arguments, and behind
 * them. Where there is a space or a newline there may be one; # is a letter or digit. */
struct tool_way {
	const char *open, *mid, *end; /* open NULL: it is never written this way */
};

/* Around arguments that stand one by one between tags. */
struct tool_tags {
	const char *before_key, *before_value; /* as above; NULL: they are one JSON */
	const char *end; /* of a value; its first byte does not come again in it */
	unsigned char value; /* the state that reads one */
};

struct tool_format {
	const char *name;     /* as tool_format of the configuration spells it */
	const char *marks[2]; /* a template with all of these writes this format */
	const char *tags[3];  /* tokens that must be seen, special ones too */
	unsigned char start;
	/* The opening of a call as the prompt's end, without a last space, which is
	 * part of the model's next token: of any tool, and of one (before and behind
	 * its name). */
	const char *any, *before_name, *after_name;
	/* A call's first and last words in a prompt; NULL: not told by them. */
	const char *open, *close_tag;
	/* The format knows reasoning itself; what ends it, else NULL. */
	const char *end_reasoning;
	/* A turn's first call, the first as others write it, and a further one; what a
	 * list of calls ends with, else NULL. */
	struct tool_way first, other, again;
	const char *close;
	struct tool_tags args;
};
extern const struct tool_format tool_formats[];
extern const int n_tool_formats;

/* NULL: there is none of that name. */
const struct tool_format *toolformat_find(struct str name);
/* The first whose marks are all in a template, or NULL. */
const struct tool_format *toolformat_detect(struct str chat_template);
