/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns loose objects into JSON, byte by byte. Keys of a loose object have no quotes, and
 * strings stand between two marks without escapes:
 *
 *   {city:<|"|>Oslo<|"|>,days:[1,2],now:true}
 *
 * Quotes as in JSON are read, too. A bare word that is no JSON becomes a string. Thread:
 * one at a time.
 */
#pragma once
#include "output/jsonscan.h"

enum loosejson_state {
	LOOSE_VALUE,        /* a value must come */
	LOOSE_VALUE_OR_END, /* after [ */
	LOOSE_KEY,          /* after a comma in an object */
	LOOSE_KEY_OR_END,   /* after { */
	LOOSE_BARE_KEY,
	LOOSE_COLON,        /* after a key with quotes */
	LOOSE_WORD,         /* in a number, true, false or null */
	LOOSE_OPEN,         /* inside the mark that begins a string */
	LOOSE_TEXT,         /* inside a string between marks */
	LOOSE_STRING,       /* inside a string between JSON's quotes */
	LOOSE_AFTER,        /* after a value */
};

struct loosejson {
	/* begins and ends a string; its first byte does not occur again in it */
	const char *mark;
	enum loosejson_state state;
	size_t n_mark;      /* bytes of the mark that were read so far */
	int depth;
	uint64_t is_object; /* bit i: the container at depth i + 1 is an object */
	bool is_key;        /* the current string is a key */
	struct jsonscan scan; /* of a string between JSON's quotes */
	struct buf word;    /* a bare key or word */
};

/* mark must outlive l. The first time l must be all zero; later calls reuse its memory. */
void loosejson_init(struct loosejson *l, const char *mark);
void loosejson_deinit(struct loosejson *l);
/* Reads one byte and appends the JSON that it completes. DONE: the object is complete. */
enum jsonscan_result loosejson_push(struct loosejson *l, char c, struct buf *out);

/* Appends text as a JSON string holds it between its quotes. The text may begin or end
 * inside a character. */
void loosejson_add_text(struct buf *out, struct str text);
/* Appends a value of unknown type: as JSON if it is JSON, else as a string. Python's words
 * for true, false and null count as JSON. */
void loosejson_add_word(struct buf *out, struct str text);
