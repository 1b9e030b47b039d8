/* SPDX-License-Identifier: Apache-2.0
 *
 * Detokenizer: turns ids back into text. A token may end inside a character, so up to
 * three bytes wait for the next token. The output of all calls together equals the output
 * of decoding all bytes at once. This holds because the waiting bytes begin with a lead
 * byte, and a malformed sequence before them never extends past a lead byte.
 */
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

void detok_init(struct detok *d, const struct tokenizer *t, bool skip_special)
{
	*d = (struct detok){.t = t, .skip_special = skip_special};
}

void detok_init_text(struct detok *d, const struct tokenizer *t, bool skip_special)
{
	detok_init(d, t, skip_special);
	d->at_start = tokenizer_strips_space(t);
}

/* Removes the text's first space, if the bytes appended from offset `from` on are the
 * text's first ones. */
static void strip_space(struct detok *d, size_t from, struct buf *out)
{
	if (!d->at_start || out->n == from)
		return;
	d->at_start = false;
	if (out->p[from] == ' ') {
		memmove(out->p + from, out->p + from + 1, out->n - from - 1);
		out->p[--out->n] = '\0';
	}
}

static void push(struct detok *d, int32_t id, struct buf *out)
{
	if (d->skip_special && tokenizer_is_special(d->t, id))
		return;
	struct str s = tokenizer_bytes(d->t, id);
	/* Complete the waiting character byte by byte, or find it malformed. The rest of
	 * s can then be decoded without a copy. */
	while (d->n_held > 0 && s.n > 0) {
		d->held[d->n_held++] = (unsigned char)s.p[0];
		s.p++;
		s.n--;
		struct str all = {(const char *)d->held, (size_t)d->n_held};
		size_t tail = utf8_partial_tail(all);
		utf8_add_clean(out, (struct str){all.p, all.n - tail});
		memmove(d->held, all.p + all.n - tail, tail);
		d->n_held = (int)tail;
	}
	if (s.n == 0)
		return;
	size_t tail = utf8_partial_tail(s);
	utf8_add_clean(out, (struct str){s.p, s.n - tail});
	memcpy(d->held, s.p + s.n - tail, tail);
	d->n_held = (int)tail;
}

void detok_push(struct detok *d, int32_t id, struct buf *out)
{
	size_t from = out->n;
	push(d, id, out);
	strip_space(d, from, out);
}

void detok_finish(struct detok *d, struct buf *out)
{
	utf8_add_clean(out, (struct str){(const char *)d->held,
					 (size_t)d->n_held});
	d->n_held = 0;
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
		      bool skip_special, struct buf *out)
{
	struct detok d;
	detok_init_text(&d, t, skip_special);
	for (size_t i = 0; i < n; i++)
		detok_push(&d, ids[i], out);
	detok_finish(&d, out);
}
