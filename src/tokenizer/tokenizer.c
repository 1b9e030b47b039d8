/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to ids, by the stages of Hugging Face `tokenizers`:
 *
 *   text ─ added tokens (not normalized) ─ normal form ─ added tokens (normalized)
 *        ─ words (pretok.c) ─ merges (bpe.c) ─ ids
 *
 * Encoders have unigrams (unigram.c) or WordPiece (wordpiece.c) in place of merges, and
 * normal forms of their own (charsmap.c, berttext.c) in place of normalize.c.
 *
 * For SentencePiece the normal form or the words stage rewrites spaces, too: see spm.h.
 *
 * Each stage works on the pieces that the stage before left as plain text. Only the two
 * searches for added tokens look at who wrote a byte (its trust). Words and merges treat
 * the text as if one writer had written all of it.
 *
 * Control tokens come out of these two searches only. Merging cannot make one, even if
 * the vocabulary could spell it (see bpe_add_merge). There are two exceptions, harmless
 * for all known models. A special token that is a single byte of the alphabet (some
 * models pad with "!") is that byte. A model whose alphabet has gaps emits its unknown
 * token for the missing bytes.
 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/added.h"
#include "tokenizer/berttext.h"
#include "tokenizer/bpe.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/encodings.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pretok.h"
#include "tokenizer/spm.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocab.h"
#include "tokenizer/wordpiece.h"

#define MAX_TEXT_BYTES ((size_t)1 << 30)
#define KNOWN_MIN 256 /* bytes; shorter stretches are encoded as fast as they are found */

struct tokenizer {
	struct vocab vocab;
	struct bpe bpe;
	struct pretok *pretok;
	struct normalizer *normal; /* NULL: none */
	struct added *raw, *normalized; /* added tokens searched before and after it */
	enum tokenizer_kind kind;
	struct unigram unigram;
	struct charsmap *charsmap; /* NULL: none */
	struct space_rules spaces;
	struct bert_text bert;
	struct wordpiece wordpiece;
	bool is_spm, spaces_late, splits_words, strips_space;
	enum space_prefix space_prefix;
	struct ids prefix, suffix;
};

static bool ids_grow(struct ids *ids, size_t cap)
{
	int32_t *p = alloc_or_drop(ids->p, cap * sizeof *p);
	if (!p)
		return false;
	ids->p = p;
	ids->cap = cap;
	return true;
}

void ids_add(struct ids *ids, int32_t id)
{
	if (ids->n == ids->cap && !ids_grow(ids, ids->cap ? ids->cap * 2 : 64))
		return;
	ids->p[ids->n++] = id;
}

void ids_deinit(struct ids *ids)
{
	free(ids->p);
	*ids = (struct ids){0};
}

void ids_add_all(struct ids *ids, const int32_t *p, size_t n)
{
	if (ids->n + n > ids->cap && !ids_grow(ids, MAX(ids->cap * 2, ids->n + n)))
		return;
	if (n)
		memcpy(ids->p + ids->n, p, n * sizeof *p);
	ids->n += n;
}

/* --- building -------------------------------------------------------------- */

static enum status set_alphabet(struct tokenizer *t,
				const struct tokenizer_def *def,
				struct fail *fail)
{
	int n_missing = 256;
	for (int32_t id = 0; id < def->n_pieces; id++) {
		const struct vocab_entry *e = &t->vocab.entries[id];
		if (!(e->flags & VOCAB_BYTES) || e->bytes.n != 1)
			continue;
		t->bpe.byte_id[(unsigned char)e->bytes.p[0]] = id;
		n_missing--;
	}
	if (n_missing == 0 || !def->unk.p)
		return OK;
	int32_t id = vocab_find(&t->vocab, def->unk);
	if (!vocab_has(&t->vocab, id, VOCAB_PIECE))
		return fail_set(fail, E_FORMAT,
				"%d bytes have no piece, nor has the unknown "
				"token", n_missing);
	t->bpe.unk_id = id;
	t->bpe.fuse_unk = def->fuse_unk;
	return OK;
}

static int32_t find_piece(const struct tokenizer *t, struct str s)
{
	int32_t id = vocab_find(&t->vocab, s);
	return vocab_has(&t->vocab, id, VOCAB_PIECE) ? id : -1;
}

static enum status add_merges(struct tokenizer *t,
			      const struct tokenizer_def *def,
			      struct fail *fail)
{
	struct buf both = {0};
	enum status st = OK;
	for (int32_t i = 0; i < def->n_merges && st == OK; i++) {
		struct str left = def->merges[i].left;
		struct str right = def->merges[i].right;
		buf_clear(&both);
		buf_add_str(&both, left);
		buf_add_str(&both, right);
		int32_t l = find_piece(t, left), r = find_piece(t, right);
		int32_t m = find_piece(t, buf_str(&both));
		struct str missing = l < 0 ? left : r < 0 ? right
							  : buf_str(&both);
		if (left.n == 0 || right.n == 0)
			st = fail_set(fail, E_FORMAT,
				      "merge %d has an empty side", i);
		else if (l < 0 || r < 0 || m < 0)
			st = fail_set(fail, E_FORMAT,
				      "merge %d needs the piece \"%.*s\", "
				      "which is not in the vocabulary", i,
				      (int)MIN(missing.n, 60), missing.p);
		else
			bpe_add_merge(&t->bpe, l, r, m,
				      (uint32_t)(def->ranks_by_id ? m : i),
				      vocab_has(&t->vocab, m, VOCAB_SPECIAL));
	}
	buf_deinit(&both);
	return st;
}

/* Adds the words that are one token. With ignore_merges these are all pieces, else the
 * pieces that their own merges lead to. */
static enum status add_words(struct tokenizer *t,
			     const struct tokenizer_def *def)
{
	struct bpe_work w = {0};
	struct ids ids = {0};
	enum status st = OK;
	for (int32_t id = 0; id < def->n_pieces && st == OK; id++) {
		const struct vocab_entry *e = &t->vocab.entries[id];
		if (!(e->flags & VOCAB_BYTES) || e->bytes.n == 0 ||
		    (e->flags & VOCAB_SPECIAL && e->bytes.n > 1))
			continue;
		ids.n = 0;
		if (!def->ignore_merges)
			st = bpe_encode(&t->bpe, &w, e->bytes, &ids);
		if (def->ignore_merges || (ids.n == 1 && ids.p[0] == id))
			bpe_add_word(&t->bpe, e->bytes, id);
	}
	ids_deinit(&ids);
	bpe_work_deinit(&w);
	return st;
}

static void add_added(struct tokenizer *t, const struct tokenizer_def *def)
{
	t->raw = added_create(false);
	t->normalized = added_create(t->is_spm && !t->spaces_late);
	for (int i = 0; i < def->n_added; i++) {
		const struct added_token *a = &def->added[i];
		struct str text = vocab_added_text(&t->vocab, def, t->normal, a);
		if (text.n > 0)
			added_insert(a->normalized ? t->normalized : t->raw,
				     text, a);
	}
}

static enum status check_ids(const struct tokenizer *t, const int32_t *ids,
			     int n, struct fail *fail)
{
	for (int i = 0; i < n; i++)
		if (!vocab_has(&t->vocab, ids[i], VOCAB_ADDED) &&
		    !vocab_has(&t->vocab, ids[i], VOCAB_PIECE))
			return fail_set(fail, E_FORMAT,
					"id %d goes around a text, but there "
					"is no such token", ids[i]);
	return OK;
}

/* Build what turns words into tokens. The vocabulary must exist already. */
static enum status build_words(struct tokenizer *t, const struct tokenizer_def *def,
			       struct fail *fail)
{
	if (def->kind == TOKENIZER_WORDPIECE)
		return wordpiece_build(&t->wordpiece, &t->vocab, def, fail);
	if (def->kind == TOKENIZER_UNIGRAM) {
		enum status st = unigram_build(&t->unigram, &t->vocab, def, fail);
		return st == OK && def->charsmap.n
			       ? charsmap_create(def->charsmap, &t->charsmap, fail)
			       : st;
	}
	enum status st = def->is_spm ? spm_build(&t->bpe, &t->vocab, def, fail)
				     : set_alphabet(t, def, fail);
	if (st == OK)
		st = add_merges(t, def, fail);
	if (st == OK)
		st = add_words(t, def);
	if (st == OK && !def->is_spm)
		st = pretok_create(def->steps, def->n_steps, true, &t->pretok, fail);
	return st;
}

enum status tokenizer_create(const struct tokenizer_def *def,
			     struct tokenizer **out, struct fail *fail)
{
	struct tokenizer *t = xcalloc(1, sizeof *t);
	t->kind = def->kind;
	t->spaces = def->spaces;
	t->bert = def->bert;
	t->is_spm = def->is_spm;
	t->space_prefix = def->space_prefix;
	t->spaces_late = def->spaces_late;
	t->splits_words = def->splits_words;
	t->strips_space = def->strips_space;
	bpe_init(&t->bpe, (size_t)def->n_merges);
	enum status st = OK;
	if (def->n_normal)
		st = normalizer_create(def->normal, def->n_normal, &t->normal, fail);
	if (st == OK)
		st = vocab_init(&t->vocab, def, t->normal, fail);
	if (st == OK)
		st = build_words(t, def, fail);
	if (st == OK)
		st = check_ids(t, def->prefix, def->n_prefix, fail);
	if (st == OK)
		st = check_ids(t, def->suffix, def->n_suffix, fail);
	if (st != OK) {
		tokenizer_destroy(t);
		return fail_default(fail, st);
	}
	add_added(t, def);
	ids_add_all(&t->prefix, def->prefix, (size_t)def->n_prefix);
	ids_add_all(&t->suffix, def->suffix, (size_t)def->n_suffix);
	*out = t;
	return OK;
}

void tokenizer_destroy(struct tokenizer *t)
{
	if (!t)
		return;
	bpe_deinit(&t->bpe);
	unigram_deinit(&t->unigram);
	charsmap_destroy(t->charsmap);
	normalizer_destroy(t->normal);
	vocab_deinit(&t->vocab);
	pretok_destroy(t->pretok);
	added_destroy(t->raw);
	added_destroy(t->normalized);
	ids_deinit(&t->prefix);
	ids_deinit(&t->suffix);
	free(t);
}

/* --- encoding -------------------------------------------------------------- */

struct encoding {
	const struct tokenizer *t;
	struct pretok_work *pretok;
	struct bpe_work bpe;
	struct unigram_work unigram;
	const char *begin; /* first byte of the whole text */
	struct ids *out;
	struct fail *fail;
	const struct tokenizer_memory *memory; /* NULL: nothing is remembered */
	struct buf key;
};

static enum status on_word(void *ctx, struct str word)
{
	struct encoding *e = ctx;
	if (e->t->kind == TOKENIZER_WORDPIECE)
		return wordpiece_encode(&e->t->wordpiece, word, e->out);
	if (e->t->kind == TOKENIZER_UNIGRAM)
		return unigram_encode(&e->t->unigram, &e->unigram, word, e->out);
	return bpe_encode(&e->t->bpe, &e->bpe, word, e->out);
}

/* Encodes the plain text between two added tokens. */
typedef enum status (*plain_fn)(struct encoding *e, struct markview plain);

/* Writes `plain` to out in SentencePiece's form, with the spaces that belong before it. */
static void make_spaces(const struct encoding *e, struct markview plain, struct marked *out)
{
	spm_normalize(plain, spm_takes_prefix(e->t->space_prefix, plain.text,
					      plain.text.p == e->begin), out);
}

static enum status encode_spm(struct encoding *e, struct markview plain)
{
	struct marked spaced = {0};
	enum status st = OK;
	if (e->t->spaces_late) {
		make_spaces(e, plain, &spaced);
		plain = markview_of(&spaced);
	}
	struct str rest = plain.text;
	while (rest.n && st == OK) {
		ptrdiff_t cut = e->t->splits_words ? str_find(rest, STR(" "), 1) : -1;
		size_t n = cut < 0 ? rest.n : (size_t)cut;
		st = on_word(e, (struct str){rest.p, n});
		rest = (struct str){rest.p + n, rest.n - n};
	}
	marked_deinit(&spaced);
	return st;
}

static enum status encode_words(struct encoding *e, struct markview plain)
{
	if (e->t->is_spm)
		return encode_spm(e, plain);
	if (e->t->kind == TOKENIZER_WORDPIECE)
		return berttext_words(plain.text, on_word, e);
	return pretok_run(e->t->pretok, e->pretok, plain.text, on_word, e,
			  e->fail);
}

static enum status encode_around(struct encoding *e, const struct added *a,
				 struct markview v, plain_fn on_plain)
{
	struct added_scan scan;
	struct added_match m;
	enum status st = OK;
	added_scan_init(&scan, a, v);
	for (;;) {
		size_t from = scan.done;
		bool found = added_scan_next(&scan, &m);
		size_t to = found ? m.start : v.text.n;
		if (from < to)
			st = on_plain(e, markview_slice(v, from, to));
		if (st != OK || !found)
			return st;
		ids_add(e->out, m.id);
	}
}

/* Converts v to the normal form of an encoder's tokenizer, then encodes it. */
static enum status encode_normal(struct encoding *e, struct markview v)
{
	const struct tokenizer *t = e->t;
	struct marked mapped = {0}, normal = {0};
	if (t->kind == TOKENIZER_WORDPIECE) {
		berttext_normalize(&t->bert, v, &normal);
	} else {
		if (t->charsmap) {
			charsmap_run(t->charsmap, v, &mapped);
			v = markview_of(&mapped);
		}
		unigram_spaces(&t->spaces, v, &normal);
	}
	enum status st = encode_around(e, t->normalized, markview_of(&normal), encode_words);
	marked_deinit(&mapped);
	marked_deinit(&normal);
	return st;
}

static enum status encode_stretch(struct encoding *e, struct markview v)
{
	struct marked normal = {0}, spaced = {0};
	bool is_changed = false;
	if (e->t->kind != TOKENIZER_BPE)
		return encode_normal(e, v);
	bool begins = v.text.p == e->begin;
	enum status st = OK;
	if (e->t->normal)
		st = normalizer_run(e->t->normal, v, &normal, &is_changed, e->fail);
	if (is_changed) {
		v = markview_of(&normal);
		if (begins) /* for space_prefix: this is where the whole text begins now */
			e->begin = v.text.p;
	}
	if (st == OK && v.text.n && e->t->is_spm && !e->t->spaces_late) {
		make_spaces(e, v, &spaced);
		v = markview_of(&spaced);
	}
	if (st == OK && v.text.n)
		st = encode_around(e, e->t->normalized, v, encode_words);
	if (begins && is_changed)
		e->begin = NULL; /* another text may get this memory */
	marked_deinit(&normal);
	marked_deinit(&spaced);
	return st;
}

/* Like encode_stretch, but uses remembered ids if there are any. */
static enum status encode_plain(struct encoding *e, struct markview v)
{
	struct encodings *known = e->memory ? e->memory->known : NULL;
	size_t before = e->out->n;
	if (!known || v.text.n < KNOWN_MIN)
		return encode_stretch(e, v);
	encodings_key(e->memory->space, v, v.text.p == e->begin, &e->key);
	if (encodings_get(known, buf_str(&e->key), e->out))
		return OK;
	enum status st = encode_stretch(e, v);
	if (st == OK)
		encodings_put(known, buf_str(&e->key), e->out->p + before,
			      e->out->n - before);
	return st;
}

/* Copies v with U+FFFD for each malformed sequence. The bytes of one sequence may have
 * two writers. */
static void clean(struct markview v, struct marked *out)
{
	for (size_t i = 0; i < v.text.n;) {
		uint32_t cp;
		size_t len = utf8_decode((struct str){v.text.p + i,
						      v.text.n - i}, &cp);
		if (cp == UTF8_BAD)
			marked_add(out, STR("\xEF\xBF\xBD"),
				   markview_least(v, i, i + len));
		else
			markview_copy(v, i, i + len, out);
		i += len;
	}
}

static enum status encode(const struct tokenizer *t, struct markview v,
			  const struct tokenizer_memory *memory, struct ids *out,
			  struct fail *fail)
{
	if (v.text.n == 0)
		return OK;
	if (v.text.n > MAX_TEXT_BYTES)
		return fail_set(fail, E_LIMIT, "a text of %zu bytes is too long",
				v.text.n);
	struct encoding e = {
		.t = t, .out = out, .fail = fail, .memory = memory,
		.pretok = t->pretok ? pretok_work_create() : NULL,
	};
	struct marked cleaned = {0};
	size_t before = out->n;
	enum status st = E_NOMEM;
	if (!t->pretok || e.pretok) {
		if (utf8_check(v.text) >= 0) {
			clean(v, &cleaned);
			v = markview_of(&cleaned);
		}
		e.begin = v.text.p;
		st = encode_around(&e, t->raw, v, encode_plain);
	}
	if (st != OK) {
		out->n = before;
		fail_default(fail, st);
	}
	marked_deinit(&cleaned);
	pretok_work_destroy(e.pretok);
	bpe_work_deinit(&e.bpe);
	unigram_work_deinit(&e.unigram);
	buf_deinit(&e.key);
	return st;
}

enum status tokenizer_encode(const struct tokenizer *t, struct str s,
			     enum trust trust, struct ids *out,
			     struct fail *fail)
{
	struct mark mark = {s.n, trust};
	struct markview v = {s, &mark, 1, 0};
	return encode(t, v, NULL, out, fail);
}

enum status tokenizer_encode_marked(const struct tokenizer *t,
				    const struct marked *m, struct ids *out,
				    struct fail *fail)
{
	return encode(t, markview_of(m), NULL, out, fail);
}

enum status tokenizer_encode_again(const struct tokenizer *t, const struct marked *m,
				   const struct tokenizer_memory *memory, struct ids *out,
				   struct fail *fail)
{
	return encode(t, markview_of(m), memory, out, fail);
}

enum status tokenizer_encode_alone(const struct tokenizer *t, const struct marked *m,
				   struct ids *out, struct fail *fail)
{
	size_t before = out->n;
	tokenizer_add_prefix(t, out);
	enum status st = tokenizer_encode_marked(t, m, out, fail);
	if (st == OK)
		tokenizer_add_suffix(t, out);
	else
		out->n = before;
	return st;
}

void tokenizer_add_prefix(const struct tokenizer *t, struct ids *out)
{
	ids_add_all(out, t->prefix.p, t->prefix.n);
}

void tokenizer_add_suffix(const struct tokenizer *t, struct ids *out)
{
	ids_add_all(out, t->suffix.p, t->suffix.n);
}

/* --- looking up ------------------------------------------------------------ */

int32_t tokenizer_n_ids(const struct tokenizer *t)
{
	return t->vocab.n;
}

struct str tokenizer_bytes(const struct tokenizer *t, int32_t id)
{
	if (!vocab_has(&t->vocab, id, 0))
		return STR("");
	struct str s = t->vocab.entries[id].bytes;
	return s.p ? s : STR("");
}

int32_t tokenizer_find(const struct tokenizer *t, struct str text)
{
	return vocab_find(&t->vocab, text);
}

bool tokenizer_is_added(const struct tokenizer *t, int32_t id)
{
	return vocab_has(&t->vocab, id, VOCAB_ADDED);
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
	return vocab_has(&t->vocab, id, VOCAB_SPECIAL);
}

bool tokenizer_strips_space(const struct tokenizer *t)
{
	return t->strips_space;
}
