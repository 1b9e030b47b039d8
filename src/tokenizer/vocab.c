/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/vocab.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "tokenizer/added.h"
#include "tokenizer/bytelevel.h"
#include "tokenizer/normalize.h"
#include "tokenizer/spm.h"

/* Arguments of "%.*s" for an error text: at most 60 bytes of a spelling. */
#define SHOWN(s) (int)MIN((s).n, 60), (s).p

struct str vocab_added_text(struct vocab *v, const struct tokenizer_def *def,
			    const struct normalizer *normal, const struct added_token *token)
{
	struct marked text = {0}, formed = {0}, spaced = {0};
	struct str s = token->text;
	bool is_changed = false;
	marked_add(&text, s, TRUST_TEMPLATE);
	if (normal && token->normalized &&
	    normalizer_run(normal, markview_of(&text), &formed, &is_changed, NULL) == OK &&
	    is_changed)
		s = buf_str(&formed.text);
	if (def->is_spm && !def->spaces_late && token->normalized && s.n) {
		spm_normalize(markview_of(is_changed ? &formed : &text),
			      spm_takes_prefix(def->space_prefix, s, true), &spaced);
		s = buf_str(&spaced.text);
	}
	s = arena_str(&v->arena, s);
	marked_deinit(&text);
	marked_deinit(&formed);
	marked_deinit(&spaced);
	return s;
}

/* Decodes a spelling as Hugging Face's decoder does. If all its characters are in the
 * byte-level alphabet, stores their bytes and returns true. Otherwise stores the
 * characters as they are. SentencePiece spellings follow spm_decode. */
static bool set_bytes(struct vocab *v, int32_t id, struct str spelling, bool is_spm,
		      struct buf *scratch)
{
	buf_clear(scratch);
	if (is_spm) {
		bool is_reachable = spm_decode(spelling, scratch);
		v->entries[id].bytes = arena_str(&v->arena, buf_str(scratch));
		return is_reachable;
	}
	bool is_bytes = bytelevel_decode(spelling, scratch);
	v->entries[id].bytes =
		!is_bytes || str_eq(buf_str(scratch), spelling)
			? spelling
			: arena_str(&v->arena, buf_str(scratch));
	return is_bytes;
}

static enum status add_piece(struct vocab *v, const struct tokenizer_def *def,
			     int32_t id, struct buf *scratch,
			     struct fail *fail)
{
	struct str s = def->pieces[id];
	uint32_t other;
	if (utf8_check(s) >= 0)
		return fail_set(fail, E_FORMAT, "piece %d is not UTF-8", id);
	if (strmap_get(&v->by_spelling, s, &other))
		return fail_set(fail, E_FORMAT,
				"pieces %u and %d are both \"%.*s\"", other,
				id, SHOWN(s));
	s = arena_str(&v->arena, s);
	strmap_put(&v->by_spelling, s, (uint32_t)id);
	v->entries[id].flags = VOCAB_PIECE;
	if (set_bytes(v, id, s, def->is_spm, scratch))
		v->entries[id].flags |= VOCAB_BYTES;
	return OK;
}

static enum status check_added(const struct vocab *v,
			       const struct added_token *a, int i,
			       struct fail *fail)
{
	struct str s = a->text;
	uint32_t other;
	if (s.n > ADDED_MAX_BYTES)
		return fail_set(fail, E_FORMAT,
				"added token %d has %zu bytes, at most %d are "
				"supported", i, s.n, ADDED_MAX_BYTES);
	if (utf8_check(s) >= 0)
		return fail_set(fail, E_FORMAT, "added token %d is not UTF-8",
				i);
	const struct vocab_entry *e = &v->entries[a->id];
	bool is_known = strmap_get(&v->by_spelling, s, &other);
	if (e->flags & VOCAB_ADDED)
		return fail_set(fail, E_FORMAT,
				"added token %d, \"%.*s\": another one has id "
				"%d", i, SHOWN(s), a->id);
	if (is_known && (int32_t)other != a->id)
		return fail_set(fail, E_FORMAT,
				"added token %d, \"%.*s\", has id %d, but %u "
				"is spelled so", i, SHOWN(s), a->id, other);
	if (e->flags && !is_known)
		return fail_set(fail, E_FORMAT,
				"added token %d, \"%.*s\", has id %d of "
				"another piece", i, SHOWN(s), a->id);
	return OK;
}

static enum status add_added(struct vocab *v, const struct tokenizer_def *def,
			     const struct normalizer *normal, int i, struct buf *scratch,
			     struct fail *fail)
{
	const struct added_token *a = &def->added[i];
	if (a->text.n == 0)
		return OK; /* an empty text is never found, so Hugging Face ignores it too */
	enum status st = check_added(v, a, i, fail);
	if (st != OK)
		return st;
	strmap_put(&v->by_spelling, arena_str(&v->arena, a->text),
		   (uint32_t)a->id);
	set_bytes(v, a->id, vocab_added_text(v, def, normal, a), def->is_spm, scratch);
	v->entries[a->id].flags |=
		VOCAB_ADDED | (a->special ? VOCAB_SPECIAL : 0);
	return OK;
}

/* Counts the ids. An id costs memory, so there may not be more unused ids than tokens. */
static enum status count_ids(const struct tokenizer_def *def, int32_t *out_n,
			     struct fail *fail)
{
	int64_t most = ((int64_t)def->n_pieces + def->n_added) * 2 + 4096;
	int32_t n = def->n_pieces;
	for (int i = 0; i < def->n_added; i++) {
		int32_t id = def->added[i].id;
		if (id < 0 || id >= most)
			return fail_set(fail, E_FORMAT,
					"added token %d has id %d, out of range",
					i, id);
		n = MAX(n, id + 1);
	}
	*out_n = n;
	return OK;
}

enum status vocab_init(struct vocab *v, const struct tokenizer_def *def,
		       const struct normalizer *normal, struct fail *fail)
{
	*v = (struct vocab){0};
	arena_init(&v->arena);
	enum status st = count_ids(def, &v->n, fail);
	if (st != OK)
		return st;
	struct buf scratch = {0};
	strmap_init(&v->by_spelling, (size_t)v->n);
	v->entries = xcalloc((size_t)v->n + 1, sizeof *v->entries);
	for (int32_t id = 0; id < def->n_pieces && st == OK; id++)
		if (def->pieces[id].p)
			st = add_piece(v, def, id, &scratch, fail);
	for (int i = 0; i < def->n_added && st == OK; i++)
		st = add_added(v, def, normal, i, &scratch, fail);
	buf_deinit(&scratch);
	return st;
}

void vocab_deinit(struct vocab *v)
{
	free(v->entries);
	strmap_deinit(&v->by_spelling);
	arena_deinit(&v->arena);
}

int32_t vocab_find(const struct vocab *v, struct str spelling)
{
	uint32_t id;
	return strmap_get(&v->by_spelling, spelling, &id) ? (int32_t)id : -1;
}

bool vocab_has(const struct vocab *v, int32_t id, int flags)
{
	return id >= 0 && id < v->n && (v->entries[id].flags & flags) == flags;
}
