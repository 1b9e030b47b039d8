/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns relaxed objects into JSON, byte by byte. Keys of a relaxed object have no quotes, and
 * strings stand between two marks without escapes:
 *
 *   {city:<|"|>Oslo<|"|>,days:[1,2],now:true}
 *
 * Quotes as in JSON are read, too. A bare word that is no JSON becomes a string. Thread:
 * one at a time.
 */
#pragma once
#include "output/jsonscan.h"

enum relaxedjson_state {
	RELAXED_VALUE,        /* a value must come */
	RELAXED_VALUE_OR_END, /* after [ */
	RELAXED_KEY,          /* after a comma in an object */
	RELAXED_KEY_OR_END,   /* after { */
	RELAXED_BARE_KEY,
	RELAXED_COLON,        /* after a key with quotes */
	RELAXED_WORD,         /* in a number, true, false or null */
	RELAXED_OPEN,         /* inside the mark that begins a string */
	RELAXED_TEXT,         /* inside a string between marks */
	RELAXED_STRING,       /* inside a string between JSON's quotes */
	RELAXED_AFTER,        /* after a value */
};

struct relaxedjson {
	/* begins and ends a string; its first byte does not occur again in it */
	const char *mark;
	enum relaxedjson_state state;
	size_t n_mark;      /* bytes of the mark that were read so far */
	int depth;
	uint64_t is_object; /* bit i: the container at depth i + 1 is an object */
	bool is_key;        /* the current string is a key */
	struct jsonscan scan; /* of a string between JSON's quotes */
	struct buf word;    /* a bare key or word */
};

/* mark must outlive l. The first time l must be all zero; later calls reuse its memory. */
void relaxedjson_init(struct relaxedjson *l, const char *mark);
void relaxedjson_deinit(struct relaxedjson *l);
/* Reads one byte and appends the JSON that it completes. DONE: the object is complete. */
enum jsonscan_result relaxedjson_push(struct relaxedjson *l, char c, struct buf *out);

/* Appends text as a JSON string holds it between its quotes. The text may begin or end
 * inside a character. */
void relaxedjson_add_text(struct buf *out, struct str text);
/* Appends a value of unknown type: as JSON if it is JSON, else as a string. Python's words
 * for true, false and null count as JSON. */
void relaxedjson_add_word(struct buf *out, struct str text);
