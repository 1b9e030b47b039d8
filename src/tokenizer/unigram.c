/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/unigram.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/berttext.h"

/* By how much an unknown character's log probability is below that of the rarest piece. Source:
 * unigram_model.cc of SentencePiece, kUnkPenalty. */
#define UNKNOWN_COSTS 10.0

/* The best split of the word up to a byte, the one with the largest log probability. */
struct unigram_node {
	double log_prob;
	size_t from; /* where the last piece of this split begins */
	int32_t id;  /* id of that piece; -1: no split ends here */
};

enum status unigram_build(struct unigram *u, const struct vocab *v,
			  const struct tokenizer_def *def, struct fail *fail)
{
	double least = INFINITY;
	if (!vocab_has(v, def->unk_id, VOCAB_PIECE))
		return fail_set(fail, E_FORMAT, "a unigram vocabulary without an unknown "
				"token");
	u->unk_id = def->unk_id;
	strmap_init(&u->pieces, (size_t)def->n_pieces);
	u->log_probs = xmalloc(((size_t)def->n_pieces + 1) * sizeof *u->log_probs);
	for (int32_t id = 0; id < def->n_pieces; id++) {
		struct str s = v->entries[id].bytes;
		u->log_probs[id] = def->log_probs[id];
		if (!isfinite(def->log_probs[id]))
			return fail_set(fail, E_FORMAT, "piece %d has no probability",
					(int)id);
		least = fmin(least, def->log_probs[id]);
		bool is_text = vocab_has(v, id, VOCAB_PIECE | VOCAB_BYTES) &&
			       !vocab_has(v, id, VOCAB_SPECIAL) && id != def->unk_id;
		if (is_text && s.n) {
			strmap_put(&u->pieces, s, (uint32_t)id);
			u->max_bytes = MAX(u->max_bytes, s.n);
		}
	}
	u->unknown = least - UNKNOWN_COSTS;
	return OK;
}

void unigram_deinit(struct unigram *u)
{
	strmap_deinit(&u->pieces);
	free(u->log_probs);
}

void unigram_work_deinit(struct unigram_work *w)
{
	free(w->nodes);
	free(w->ids);
}

static enum status make_room(struct unigram_work *w, size_t n)
{
	if (n <= w->cap)
		return OK;
	unigram_work_deinit(w);
	w->nodes = malloc(n * sizeof *w->nodes);
	w->ids = malloc(n * sizeof *w->ids);
	w->cap = w->nodes && w->ids ? n : 0;
	return w->cap ? OK : E_NOMEM;
}

static void offer(struct unigram_node *to, double log_prob, size_t from, int32_t id)
{
	if (to->id < 0 || log_prob > to->log_prob)
		*to = (struct unigram_node){log_prob, from, id};
}

/* Extends the split that ends at byte `from`, where a character begins, by each piece that
 * begins there. Returns that character's bytes. */
static size_t go_on(const struct unigram *u, struct unigram_node *nodes, struct str word,
		    size_t from)
{
	size_t most = MIN(word.n, from + u->max_bytes), first = 0;
	double so_far = nodes[from].log_prob;
	bool has_char = false;
	for (size_t to = from; to < most || !first;) {
		uint32_t cp, id;
		to += utf8_decode((struct str){word.p + to, word.n - to}, &cp);
		first = first ? first : to - from;
		if (!strmap_get(&u->pieces, (struct str){word.p + from, to - from}, &id))
			continue;
		offer(&nodes[to], so_far + u->log_probs[id], from, (int32_t)id);
		has_char |= to - from == first;
	}
	if (!has_char)
		offer(&nodes[from + first], so_far + u->unknown, from, u->unk_id);
	return first;
}

enum status unigram_encode(const struct unigram *u, struct unigram_work *w,
			   struct str word, struct ids *out)
{
	enum status st = make_room(w, word.n + 1);
	size_t n = 0;
	if (st != OK)
		return st;
	for (size_t i = 0; i <= word.n; i++)
		w->nodes[i] = (struct unigram_node){0, 0, -1};
	for (size_t at = 0; at < word.n;)
		at += go_on(u, w->nodes, word, at);
	for (size_t at = word.n; at > 0; at = w->nodes[at].from) {
		int32_t id = w->nodes[at].id;
		if (id != u->unk_id || n == 0 || w->ids[n - 1] != id)
			w->ids[n++] = id;
	}
	while (n > 0)
		ids_add(out, w->ids[--n]);
	return OK;
}

/* --- white space ------------------------------------------------------------------- */

static size_t decode_at(struct str s, size_t at, bool *is_space)
{
	uint32_t cp;
	size_t n = utf8_decode((struct str){s.p + at, s.n - at}, &cp);
	*is_space = berttext_is_space(cp);
	return n;
}

/* v without the white space at its ends that the rules strip. */
static struct markview strip(const struct space_rules *r, struct markview v)
{
	size_t begin = 0, end = v.text.n, from = v.text.n, n;
	bool is_space;
	for (size_t at = 0; at < v.text.n; at += n) {
		n = decode_at(v.text, at, &is_space);
		if (is_space)
			continue;
		from = MIN(from, at);
		end = at + n;
	}
	begin = r->strips_left || r->splits ? from : 0;
	if (from == v.text.n) /* nothing but white space */
		end = r->strips_left || r->strips_right || r->splits ? begin : end;
	else if (!r->strips_right && !r->splits)
		end = v.text.n;
	return markview_slice(v, begin, MAX(begin, end));
}

void unigram_spaces(const struct space_rules *r, struct markview v, struct marked *out)
{
	v = strip(r, v);
	bool was_space = false;
	for (size_t at = 0, n; at < v.text.n; at += n) {
		bool is_space;
		n = decode_at(v.text, at, &is_space);
		bool is_plain = v.text.p[at] == ' ';
		bool joins = r->splits ? is_space : r->squeezes && is_plain;
		/* A word that begins with U+2581 has its space already. */
		struct str rest = {v.text.p + at + n, v.text.n - at - n};
		bool has_own = r->splits && str_starts(rest, STR("\xE2\x96\x81"));
		if (!joins)
			markview_copy(v, at, at + n, out);
		else if (!was_space && !has_own)
			marked_add(out, STR(" "), markview_least(v, at, at + n));
		was_space = joins && !has_own;
	}
}
