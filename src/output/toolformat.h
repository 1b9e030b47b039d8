/* SPDX-License-Identifier: Apache-2.0
 *
 * How models write tool calls: one row per format, and the parser states that toolparse.c
 * runs for it. Thread: any (constant data).
 */
#pragma once
#include "base/buf.h"

/* The kind of a piece of the model's text. */
enum out_channel {
	OUT_CONTENT,
	OUT_REASONING,
	OUT_CALL_NAME,   /* a call begins; the text is its whole name */
	OUT_CALL_ARGS,   /* a piece of the arguments' JSON, never cut inside an escape */
	OUT_CALL_END,    /* the call is complete; the text is what the model wrote for it */
	OUT_CALL_CUT,    /* the answer's limit fell inside a call, or a stop string; the text is
			  * what the model wrote of it. Without a NAME, no name had come */
	OUT_CALL_BROKEN, /* text that looked like a call but is malformed. After a NAME, that call
			  * has no END, and this is its whole text */
};

enum tool_kind {
	TOOL_TEXT,   /* passes text to a channel until a literal comes */
	TOOL_EXPECT, /* accepts white space and then a literal; else goes to state `other` */
	TOOL_UNTIL,  /* reads a name, key or header up to a literal */
	TOOL_VALUE,  /* reads a parameter's value up to a literal */
	TOOL_CALL,   /* reads a JSON object that holds name and arguments */
	TOOL_ARGS,   /* reads a JSON object, the arguments */
	TOOL_PYTHON, /* reads arguments in Python's form (pyargs.h) */
	TOOL_RELAXED, /* reads a relaxed object (relaxedjson.h); the literal marks strings */
};

/* What a TOOL_UNTIL state reads. TAKE_HEADER chooses next[0] for text, next[1] for
 * reasoning, next[2] for a call. If next[2] is outside of calls, it is for a message to a
 * tool, in which a call follows. TAKE_ID reads "functions.NAME:0". */
enum tool_take { TAKE_NOTHING, TAKE_NAME, TAKE_KEY, TAKE_HEADER, TAKE_ID };

enum { TOOL_LITERALS = 4 };
/* Flags added to a next state. TOOL_END: the call is complete. TOOL_AGAIN: the next state
 * reads the same text again. */
enum { TOOL_END = 0x100, TOOL_AGAIN = 0x200, TOOL_STATE = 0xff };

/* A literal's first byte must not occur again in it (a test asserts this). After a failed
 * match the search can therefore continue at the current byte. */
struct tool_state {
	enum tool_kind kind;
	const char *literals[TOOL_LITERALS];
	unsigned short next[TOOL_LITERALS]; /* next state for each literal; CALL, ARGS, PYTHON
					     * and RELAXED use the first */
	unsigned short other; /* for EXPECT: state without a literal; 0: the call is broken */
	enum tool_take take;  /* for UNTIL */
	enum out_channel channel; /* for TEXT */
	bool is_outside;      /* outside of calls: text kept here is content */
	bool is_bare;        /* for CALL: no tag precedes, so the name must be a known tool's */
	bool strips_newlines; /* for VALUE: one newline at each end belongs to the format */
};
extern const struct tool_state tool_states[];
extern const int n_tool_states;

/* The fixed text of a call for a grammar: before the name, before the arguments, and after
 * them. A space or newline in it is optional; a tab stands for a space that must come. #
 * stands for a letter or digit, and @ for one to three digits. */
struct tool_way {
	const char *open, *mid, *end; /* open NULL: the format has no such variant */
};

/* Fixed text around arguments that stand one by one between tags. */
struct tool_tags {
	const char *before_key, *before_value; /* notation as in tool_way; NULL: the arguments are
					        * one JSON object */
	const char *end; /* ends a value; its first byte does not occur again in it */
	unsigned char value; /* the TOOL_VALUE state */
	const char *before_text; /* before the value of a string; NULL: before_value */
};

struct tool_format {
	const char *name;     /* as the option tool_format spells it */
	const char *marks[2]; /* a chat template that contains all of these uses this format */
	const char *or_marks[2]; /* so does a template that contains one of these */
	const char *tags[3];  /* tokens that must reach the parser, even if they are special */
	unsigned char start;
	/* Text that opens a call at the end of a prompt: `any` for a call of any tool,
	 * before_name + name + after_name for one tool. A last space is left out, because
	 * it is part of the model's next token. */
	const char *any, *before_name, *after_name;
	/* First and last words of a call in a prompt; NULL: calls cannot be found by
	 * them. */
	const char *open, *close_tag;
	/* Text that ends reasoning, if the format itself marks reasoning; else NULL. */
	const char *end_reasoning;
	/* `first`: a turn's first call. `other`: the same in another spelling. `again`:
	 * each further call. `close` ends a list of calls; NULL: nothing does. */
	struct tool_way first, other, again;
	const char *close;
	struct tool_tags args;
	/* What stands before a list of calls in the history, where no template shows calls. */
	const char *hidden;
	bool is_python; /* arguments are in Python's form (pyargs.h) */
	/* Arguments are a relaxed object (relaxedjson.h) with this mark. */
	const char *relaxed_mark;
};
extern const struct tool_format tool_formats[];
extern const int n_tool_formats;

/* The format of this name, or NULL. */
const struct tool_format *toolformat_find(struct str name);
/* The first format whose marks all occur in the template, or one of whose or_marks does.
 * NULL: there is none. */
const struct tool_format *toolformat_detect(struct str chat_template);
