/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level BPE as Hugging Face `tokenizers` does it, and SentencePiece's (spm.h): text to
 * ids and back.
 * Thread: any once created (immutable). The file format is read elsewhere
 * (model/tokenizer_hf.c, model/gguf_tokenizer.c) into struct tokenizer_def.
 */
#pragma once
#include "base/buf.h"
#include "base/marked.h"

struct added_token {
	struct str text; /* UTF-8 as written, not byte-level */
	int32_t id;
	bool special, lstrip, rstrip, single_word, normalized;
};

enum pretok_kind {
	PRETOK_SPLIT,      /* by regex */
	PRETOK_BYTE_LEVEL, /* bytes to their printable stand-ins */
	PRETOK_DIGITS,
};
enum pretok_behavior { /* what becomes of a match */
	SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_MERGED_PREVIOUS, SPLIT_MERGED_NEXT,
	SPLIT_CONTIGUOUS,
};
struct pretok_step {
	enum pretok_kind kind;
	struct str regex;   /* SPLIT; Oniguruma as in the file */
	bool is_literal;    /* SPLIT by {"String": …} */
	enum pretok_behavior behavior;
	bool invert;        /* SPLIT */
	bool add_prefix_space, use_regex; /* BYTE_LEVEL */
	bool individual_digits;           /* DIGITS */
};

/* SentencePiece: which texts (what stands between added tokens) get a space before them. */
enum space_prefix {
	SPACE_NEVER,
	SPACE_EACH,
	SPACE_UNLESS, /* each that does not begin with one */
	SPACE_FIRST,  /* the same, of the first, where no added token is before it */
};

struct merge {
	struct str left, right; /* byte-level spelling */
};

struct tokenizer_def {
	const struct str *pieces; /* [n_pieces], byte-level spelling; p NULL: hole */
	int32_t n_pieces;
	const struct merge *merges; /* in rank order */
	int32_t n_merges;
	const struct added_token *added;
	int n_added;
	const struct pretok_step *steps;
	int n_steps;
	bool nfc, ignore_merges;
	/* SentencePiece: pieces spelled with U+2581, bytes as "<0x0A>"; no steps. */
	bool is_spm;
	enum space_prefix space_prefix;
	/* Spaces are made of what is left of a text when normalized added tokens have been
	 * found, not before, and these stay as they are. */
	bool spaces_late;
	bool splits_words;   /* before each space */
	bool strips_space;   /* decoding takes one off the beginning */
	const float *scores; /* (n_pieces): merges by these; NULL: by `merges` */
	struct str unk;  /* piece for bytes without one; p NULL: they are left out */
	bool fuse_unk;   /* one for a run of such bytes */
	const int32_t *prefix, *suffix; /* ids around a text that stands alone */
	int n_prefix, n_suffix;
};

struct tokenizer;

/* Copies what it keeps. E_FORMAT names what is wrong, E_UNSUPPORTED what is not
 * known here. */
enum status tokenizer_create(const struct tokenizer_def *def,
			     struct tokenizer **out, struct fail *fail) MUST_USE;
void tokenizer_destroy(struct tokenizer *t);

struct ids {
	int32_t *p; /* free with ids_deinit */
	size_t n, cap;
};
void ids_add(struct ids *ids, int32_t id);
void ids_deinit(struct ids *ids);

/* Append the ids of s, all of it with one trust. Invalid UTF-8 is read as
 * U+FFFD. E_LIMIT when the regex gives up (match limit) or the text is longer than
 * 1 GiB, never wrong ids; *out is then as it was. */
enum status tokenizer_encode(const struct tokenizer *t, struct str s,
			     enum trust trust, struct ids *out,
			     struct fail *fail) MUST_USE;
/* The same over text whose trust changes inside. Pre-tokenization runs over
 * the whole text between added tokens, so that a text without any gives the same
 * ids however its marks lie. */
enum status tokenizer_encode_marked(const struct tokenizer *t,
				    const struct marked *m, struct ids *out,
				    struct fail *fail) MUST_USE;

/* The same of a text that is a prompt of its own, with what goes around such a one. */
enum status tokenizer_encode_alone(const struct tokenizer *t, const struct marked *m,
				   struct ids *out, struct fail *fail) MUST_USE;

/* Append the ids that go before and behind a text that is a prompt of its own (a
 * llama's bos). Text that came out of a chat template has its own. */
void tokenizer_add_prefix(const struct tokenizer *t, struct ids *out);
void tokenizer_add_suffix(const struct tokenizer *t, struct ids *out);

/* Ids run 0..n-1, holes included; the model's vocabulary may be larger. */
int32_t tokenizer_n_ids(const struct tokenizer *t);
/* Raw bytes of id ("Ġthe" is " the"); empty for holes and ids out of range. As in
 * Hugging Face, an added token whose characters are all in the byte-level alphabet
 * is read as spelled in it, too. */
struct str tokenizer_bytes(const struct tokenizer *t, int32_t id);
/* Id of an added token or vocabulary entry spelled exactly so, or -1. */
int32_t tokenizer_find(const struct tokenizer *t, struct str text);
bool tokenizer_is_added(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
bool tokenizer_strips_space(const struct tokenizer *t);
/* Append the text of ids; special tokens are left out when skip_special. Bytes that are not
 * UTF-8 become U+FFFD, one for each malformed part. (With strips_space, Hugging Face has one
 * for each byte of a run of bytes that is malformed anywhere; here it does not matter what
 * comes later.) strips_space is followed. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
		      bool skip_special, struct buf *out);

/* Incremental decoding: never emits half a character. */
struct detok {
	const struct tokenizer *t;
	bool skip_special;
	unsigned char held[4]; /* an unfinished character */
	int n_held;
	bool at_start; /* of a text: a space is to be taken off */
};
/* The ids may be a text's rest: nothing is taken off. */
void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
/* They are a text of their own (an answer): strips_space is followed. */
void detok_init_text(struct detok *d, const struct tokenizer *t, bool skip_special);
/* Append the characters that id completes (maybe none). */
void detok_push(struct detok *d, int32_t id, struct buf *out);
/* Append U+FFFD for what is still held. */
void detok_finish(struct detok *d, struct buf *out);
