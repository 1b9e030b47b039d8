/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model may write: a grammar over bytes, where a text has got to in it, and
 * which tokens may come next.
 *
 *   struct grammar        compiled, immutable, counted; any thread
 *   struct grammar_vocab  the vocabulary as a trie, once a tokenizer; any thread
 *   struct grammar_state  one text being written; one thread at a time
 *
 * The language is one of valid UTF-8 texts. What a grammar has accepted so far
 * can always be completed: branches that never end are not entered. See
 * grammar_state.c for how it works and grammar_mask.c for what it costs.
 */
#pragma once
#include "base/buf.h"
#include "tokenizer/tokenizer.h"

/* Bounds on what comes from a client; beyond them E_LIMIT. */
#define GRAMMAR_MAX_TEXT (1u << 20)    /* bytes of GBNF or of one regex */
#define GRAMMAR_MAX_NODES (1u << 20)
#define GRAMMAR_MAX_REPEAT 1000000     /* {m,n}; it costs nothing */
#define GRAMMAR_MAX_NESTING 200        /* groups in groups */
#define GRAMMAR_MAX_DEPTH 768          /* rules within rules, while writing */

struct grammar;

/* GBNF as llama.cpp reads it, from the rule `root`. E_INVAL with the line, E_LIMIT. */
enum status grammar_create_gbnf(struct str text, struct grammar **out,
				struct fail *fail) MUST_USE;
/* Texts that the whole of the regex matches; `^` and `$` may stand at the ends of
 * its alternatives. E_INVAL with the place, for what is not regular as well. */
enum status grammar_create_regex(struct str text, struct grammar **out,
				 struct fail *fail) MUST_USE;
/* One of n > 0 texts. E_INVAL where one is not UTF-8. */
enum status grammar_create_choice(const struct str *texts, size_t n,
				  struct grammar **out, struct fail *fail) MUST_USE;
struct grammar *grammar_ref(struct grammar *g); /* returns g */
void grammar_unref(struct grammar *g);
/* Bytes of memory, the masks that it keeps included. */
size_t grammar_size(struct grammar *g);

/* --- vocabulary ---------------------------------------------------------- */

/* A special token is no text, even where it is spelled like one: in a grammar that calls
 * for it, and in the vocabulary, it is this byte and its text. No notation of a client can
 * write that byte, so nothing else leads to such a token. */
#define GRAMMAR_SPECIAL '\xff'

/* Append a token of t as it is spelled there. */
void grammar_add_token(const struct tokenizer *t, int32_t id, struct buf *out);

struct grammar_vocab;
/* bytes[id] of n tokens; those with n == 0 are never allowed. Copies nothing but
 * the bytes it needs. */
struct grammar_vocab *grammar_vocab_create(const struct str *bytes, int32_t n);
/* Every token of t, special ones behind GRAMMAR_SPECIAL. */
struct grammar_vocab *grammar_vocab_of(const struct tokenizer *t);
void grammar_vocab_destroy(struct grammar_vocab *v);

/* --- state --------------------------------------------------------------- */

struct grammar_state;
/* At the beginning. Keeps g (a reference) and v (which outlives it). */
struct grammar_state *grammar_state_create(struct grammar *g,
					   const struct grammar_vocab *v);
void grammar_state_destroy(struct grammar_state *s);

/* Go on by bytes. E_INVAL where the grammar does not allow them, E_LIMIT where it is
 * too ambiguous to be followed; the state has not moved then, but for texts longer
 * than GRAMMAR_ACCEPT_BYTES (more than any token), which leave it somewhere. */
#define GRAMMAR_ACCEPT_BYTES 1024
enum status grammar_state_accept(struct grammar_state *s,
				 struct str bytes) MUST_USE;
/* The text may end here. */
bool grammar_state_may_end(const struct grammar_state *s);
/* The text must end here: nothing can follow. */
bool grammar_state_must_end(const struct grammar_state *s);
/* Set bit id of allowed[] (n_words * 64 bits, all others cleared) for each token
 * whose bytes could be accepted. End tokens are the caller's to add. E_LIMIT as
 * above. Ids beyond the words are left out. */
enum status grammar_state_mask(struct grammar_state *s, uint64_t *allowed,
			       size_t n_words) MUST_USE;
/* Append the bytes that must come next, as far as there is only one way to go on;
 * at most max. The state does not move. */
void grammar_state_forced(struct grammar_state *s, size_t max, struct buf *out);
