/* SPDX-License-Identifier: Apache-2.0
 *
 * Constrains what a model may write. A grammar over bytes defines the permitted texts, a
 * state follows one text, and a mask says which tokens may come next.
 *
 *   struct grammar        compiled, immutable, reference-counted; any thread
 *   struct grammar_vocab  the vocabulary as a trie, one per tokenizer; any thread
 *   struct grammar_state  one text being written; one thread at a time
 *
 * A grammar describes valid UTF-8 texts. Every accepted beginning can be completed,
 * because branches that cannot end are never entered. grammar_state.c explains the
 * algorithm, grammar_mask.c its cost.
 */
#pragma once
#include "base/buf.h"
#include "tokenizer/tokenizer.h"

/* Limits on input from a client; beyond them functions fail with E_LIMIT. */
#define GRAMMAR_MAX_TEXT (1u << 20)    /* bytes of a GBNF text or of one regex */
#define GRAMMAR_MAX_NODES (1u << 20)
#define GRAMMAR_MAX_REPEAT 1000000     /* counts in {m,n}; a count takes no memory */
#define GRAMMAR_MAX_NESTING 200        /* nesting of groups */
#define GRAMMAR_MAX_DEPTH 768          /* nesting of rules while a text is written */

struct grammar;

/* Parses GBNF in llama.cpp's dialect; texts derive from the rule `root`. Errors: E_INVAL
 * with the line; E_LIMIT. */
enum status grammar_create_gbnf(struct str text, struct grammar **out,
				struct fail *fail) MUST_USE;
/* Accepts the texts that the whole regex matches. `^` and `$` may stand at the ends of
 * its alternatives. E_INVAL with the place: a syntax error, or a construct that is not
 * regular. */
enum status grammar_create_regex(struct str text, struct grammar **out,
				 struct fail *fail) MUST_USE;
/* Accepts one of n > 0 texts. E_INVAL: a text is not UTF-8. */
enum status grammar_create_choice(const struct str *texts, size_t n,
				  struct grammar **out, struct fail *fail) MUST_USE;
struct grammar *grammar_ref(struct grammar *g); /* takes a reference and returns g */
void grammar_unref(struct grammar *g);
/* Memory in bytes, including the cached masks. */
size_t grammar_size(struct grammar *g);

/* --- vocabulary ---------------------------------------------------------- */

/* In grammars and in the vocabulary, a special token is spelled as this byte and then its
 * text. No notation that a client writes can express this byte. Text that merely looks
 * like a special token therefore never matches one. */
#define GRAMMAR_SPECIAL '\xff'

/* Appends the spelling of token id: its bytes, with GRAMMAR_SPECIAL before a special
 * token. */
void grammar_add_token(const struct tokenizer *t, int32_t id, struct buf *out);

struct grammar_vocab;
/* bytes[id] is the spelling of each of n tokens. Tokens with no bytes are never allowed.
 * Copies the bytes that it needs. */
struct grammar_vocab *grammar_vocab_create(const struct str *bytes, int32_t n);
/* The vocabulary of all tokens of t; special ones are spelled with GRAMMAR_SPECIAL. */
struct grammar_vocab *grammar_vocab_of(const struct tokenizer *t);
void grammar_vocab_destroy(struct grammar_vocab *v);

/* --- state --------------------------------------------------------------- */

struct grammar_state;
/* A state at the beginning of a text. Takes a reference to g. v must outlive the state. */
struct grammar_state *grammar_state_create(struct grammar *g,
					   const struct grammar_vocab *v);
void grammar_state_destroy(struct grammar_state *s);

/* Reads the next bytes of the text. Errors: E_INVAL if the grammar forbids them; E_LIMIT
 * if the text is too ambiguous to follow. After an error the state is unchanged, unless
 * `bytes` was longer than GRAMMAR_ACCEPT_BYTES (longer than any token). Then the state is
 * undefined. */
#define GRAMMAR_ACCEPT_BYTES 1024
enum status grammar_state_accept(struct grammar_state *s,
				 struct str bytes) MUST_USE;
/* True if the text may end here. */
bool grammar_state_may_end(const struct grammar_state *s);
/* True if the text must end here, because nothing may follow. */
bool grammar_state_must_end(const struct grammar_state *s);
/* Sets bit id of allowed[] (n_words * 64 bits) for each token whose bytes the grammar
 * would accept next, and clears all other bits. The caller adds the end tokens. Ids
 * beyond n_words are dropped. Errors: E_LIMIT as above. */
enum status grammar_state_mask(struct grammar_state *s, uint64_t *allowed,
			       size_t n_words) MUST_USE;
/* Appends the bytes that must come next, up to the first choice, at most max bytes. The
 * state does not change. */
void grammar_state_forced(struct grammar_state *s, size_t max, struct buf *out);
