/* SPDX-License-Identifier: Apache-2.0
 *
 * The names that tokenizer.ggml.pre of a GGUF file may have, and what each stands for: the
 * expressions that cut a text into words, and settings that a tokenizer.json would say.
 * Thread: any.
 */
#pragma once
#include "base/buf.h"

enum { GGUF_PRETOK_SPLITS = 6 };

enum gguf_pretok_flags {
	PRE_NFC = 1,   /* texts get Unicode's normal form C */
	PRE_WHOLE = 2, /* a word that is a token is that token, whatever the merges say */
	PRE_BOS = 4,   /* prompts begin with the token bos where the file does not say */
	PRE_SPACED = 8, /* SentencePiece's spelling, U+2581 for a space; no words */
};

struct gguf_pretok {
	const char *name;
	/* Oniguruma's syntax. Each cuts the pieces of the one before; NULL: no more. */
	const char *const *splits; /* [GGUF_PRETOK_SPLITS] */
	unsigned flags;            /* gguf_pretok_flags */
};

/* The row of `name`; NULL: it is none that llama.cpp writes. */
const struct gguf_pretok *gguf_pretok_find(struct str name);
/* What a file without a name has, as in llama.cpp. The ids may be wrong: a warning is due. */
extern const char gguf_pretok_default[];
