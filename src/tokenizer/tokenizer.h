/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizer: converts text to token ids and back. Supports byte-level BPE as in Hugging
 * Face `tokenizers`, SentencePiece BPE (spm.h), and what encoders have: SentencePiece's
 * unigrams (unigram.h) and WordPiece (wordpiece.h). The readers of file formats
 * (model/tokenizer_hf.c, model/gguf_tokenizer.c) fill struct tokenizer_def. Thread: any
 * once created (immutable).
 */
#pragma once
#include "base/buf.h"
#include "base/marked.h"

struct normal_step;

struct added_token {
	struct str text; /* UTF-8 as written in the text, not in the byte-level alphabet */
	int32_t id;
	bool special, lstrip, rstrip, single_word, normalized;
};

enum pretok_kind {
	PRETOK_SPLIT,      /* cut by a regular expression */
	PRETOK_BYTE_LEVEL, /* cut, and replace bytes by their printable stand-ins */
	PRETOK_DIGITS,
};
enum pretok_behavior { /* what becomes of the text that matched */
	SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_MERGED_PREVIOUS, SPLIT_MERGED_NEXT,
	SPLIT_CONTIGUOUS,
};
struct pretok_step {
	enum pretok_kind kind;
	struct str regex;   /* for SPLIT: Oniguruma syntax, as in the file */
	bool is_literal;    /* for SPLIT: `regex` is a plain string, from {"String": …} */
	enum pretok_behavior behavior;
	bool invert;        /* for SPLIT: the text between matches counts as the match */
	bool add_prefix_space, use_regex; /* for BYTE_LEVEL */
	bool individual_digits;           /* for DIGITS: each digit is a piece of its own */
};

/* SentencePiece: which stretches of text between added tokens get a space before them. */
enum space_prefix {
	SPACE_NEVER,
	SPACE_EACH,
	SPACE_UNLESS, /* each stretch that does not begin with a space */
	SPACE_FIRST,  /* as SPACE_UNLESS, but only the stretch that begins the whole text */
};

struct merge {
	struct str left, right; /* in the byte-level alphabet */
};

/* How white space of a text changes, before space_prefix puts a space in front. */
struct space_rules {
	bool strips_left, strips_right;
	bool squeezes; /* several spaces become one */
	bool splits;   /* any white space parts words, and is left only as one space */
};

/* How words become tokens. */
enum tokenizer_kind { TOKENIZER_BPE, TOKENIZER_UNIGRAM, TOKENIZER_WORDPIECE };

/* How a text changes before WordPiece cuts it (berttext.h). */
struct bert_text {
	bool cleans;         /* no control characters; each white space is a space */
	bool spaces_han;     /* a space on both sides of a Chinese character */
	bool strips_accents;
	bool lowers;
};

struct tokenizer_def {
	const struct str *pieces; /* [n_pieces], in the byte-level alphabet; p NULL: unused id */
	int32_t n_pieces;
	const struct merge *merges; /* in ascending order of rank */
	int32_t n_merges;
	/* A merge ranks as the piece that it makes, by the piece's id, in place of its own place;
	 * of equal ones the leftmost in the text comes first. */
	bool ranks_by_id;
	const struct added_token *added;
	int n_added;
	const struct pretok_step *steps;
	int n_steps;
	const struct normal_step *normal; /* for BPE, before all else; see normalize.h */
	int n_normal;
	bool ignore_merges;
	/* SentencePiece vocabulary: pieces spell a space as U+2581 and bytes as "<0x0A>";
	 * there are no steps. */
	bool is_spm;
	enum space_prefix space_prefix;
	/* Text is respelled with U+2581 only after the normalized added tokens were
	 * found. The tokens' own text stays as it is. */
	bool spaces_late;
	bool splits_words;   /* each space begins a new word */
	bool strips_space;   /* decoding removes one space from the beginning of the text */
	const float *scores; /* [n_pieces]: merge by these scores; NULL: merge by `merges` */
	enum tokenizer_kind kind;
	/* TOKENIZER_UNIGRAM, which has is_spm and spaces_late too. */
	const double *log_probs; /* [n_pieces] */
	int32_t unk_id;
	struct str charsmap;     /* charsmap.h; n 0: none */
	struct space_rules spaces;
	/* TOKENIZER_WORDPIECE */
	struct bert_text bert;
	int32_t max_word;        /* characters; a longer word is unknown */
	struct str unk;  /* piece for bytes without a piece; p NULL: such bytes are dropped */
	bool fuse_unk;   /* a run of unknown bytes becomes one unknown token */
	const int32_t *prefix, *suffix; /* ids around a stand-alone prompt (BOS, EOS) */
	int n_prefix, n_suffix;
};

struct tokenizer;

/* Copies all that it keeps from def. Errors: E_FORMAT, E_UNSUPPORTED; the text names the
 * faulty entry. */
enum status tokenizer_create(const struct tokenizer_def *def,
			     struct tokenizer **out, struct fail *fail) MUST_USE;
void tokenizer_destroy(struct tokenizer *t);

struct ids {
	int32_t *p; /* owned; free with ids_deinit */
	size_t n, cap;
};
void ids_add(struct ids *ids, int32_t id);
void ids_add_all(struct ids *ids, const int32_t *p, size_t n);
void ids_deinit(struct ids *ids);

/* Appends the ids of s, whose bytes all have the same trust. A malformed UTF-8 sequence
 * is read as U+FFFD. E_LIMIT: a regular expression exceeded its match limit, or the text
 * is longer than 1 GiB. After an error *out is unchanged. */
enum status tokenizer_encode(const struct tokenizer *t, struct str s,
			     enum trust trust, struct ids *out,
			     struct fail *fail) MUST_USE;
/* Like tokenizer_encode, for text whose trust changes inside. Pre-tokenization runs over
 * all text between two added tokens. A text without added tokens thus gives the same ids
 * for any placement of its marks. */
enum status tokenizer_encode_marked(const struct tokenizer *t,
				    const struct marked *m, struct ids *out,
				    struct fail *fail) MUST_USE;

/* Like tokenizer_encode_marked. Stretches of text that were encoded with the same `space`
 * before are looked up (encodings.h), and the others are remembered. */
struct encodings;
struct tokenizer_memory {
	struct encodings *known; /* serves only this tokenizer; NULL: nothing is remembered */
	struct str space;
};
enum status tokenizer_encode_again(const struct tokenizer *t, const struct marked *m,
				   const struct tokenizer_memory *memory, struct ids *out,
				   struct fail *fail) MUST_USE;

/* Like tokenizer_encode_marked, plus the ids that the tokenizer adds around a stand-alone
 * prompt, such as BOS and EOS. */
enum status tokenizer_encode_alone(const struct tokenizer *t, const struct marked *m,
				   struct ids *out, struct fail *fail) MUST_USE;

/* Append the ids that go before and after a stand-alone prompt, such as Llama's BOS. Text
 * from a chat template already has its own. */
void tokenizer_add_prefix(const struct tokenizer *t, struct ids *out);
void tokenizer_add_suffix(const struct tokenizer *t, struct ids *out);

/* Ids run 0..n-1, unused ids included. The model's vocabulary may be larger. */
int32_t tokenizer_n_ids(const struct tokenizer *t);
/* The raw bytes of id: "Ġthe" gives " the". Empty for unused ids and ids out of range. As
 * in Hugging Face, an added token is also decoded from the byte-level alphabet if all its
 * characters are in it. */
struct str tokenizer_bytes(const struct tokenizer *t, int32_t id);
/* The id of the added token or vocabulary entry with exactly this spelling; -1: none. */
int32_t tokenizer_find(const struct tokenizer *t, struct str text);
bool tokenizer_is_added(const struct tokenizer *t, int32_t id);
bool tokenizer_is_special(const struct tokenizer *t, int32_t id);
bool tokenizer_strips_space(const struct tokenizer *t);
/* Appends the text of n ids. skip_special: omits special tokens. Each malformed UTF-8
 * sequence becomes one U+FFFD. If the tokenizer has strips_space, the first space of the
 * text is removed.
 *
 * With strips_space, Hugging Face instead writes one U+FFFD for each byte of a run that
 * is malformed anywhere. We differ because our output must not depend on later ids. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
		      bool skip_special, struct buf *out);

/* Incremental decoder: never emits a part of a character. */
struct detok {
	const struct tokenizer *t;
	bool skip_special;
	unsigned char held[4]; /* bytes of an unfinished character */
	int n_held;
	bool at_start; /* nothing was emitted yet, and a first space is to be removed */
};
/* For ids that may continue a text: no space is removed. */
void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special);
/* For ids that begin a text, such as an answer: the first space is removed if the
 * tokenizer has strips_space. */
void detok_init_text(struct detok *d, const struct tokenizer *t, bool skip_special);
/* Appends the characters that id completes, possibly none. */
void detok_push(struct detok *d, int32_t id, struct buf *out);
/* Appends U+FFFD for the bytes that are still held. */
void detok_finish(struct detok *d, struct buf *out);
