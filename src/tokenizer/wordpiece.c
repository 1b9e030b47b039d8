/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/wordpiece.h"

#include "base/utf8.h"

enum { LONGEST = 1024 }; /* bytes; a longer word is unknown */

enum status wordpiece_build(struct wordpiece *w, const struct vocab *v,
			    const struct tokenizer_def *def, struct fail *fail)
{
	*w = (struct wordpiece){v, vocab_find(v, def->unk), (size_t)def->max_word};
	if (!vocab_has(v, w->unk_id, VOCAB_PIECE))
		return fail_set(fail, E_FORMAT, "a WordPiece vocabulary without its unknown "
				"token");
	return OK;
}

/* The longest piece that s[from..] begins with, and its end; -1: none. */
static int32_t longest(const struct wordpiece *w, struct str s, size_t from, size_t *end)
{
	char text[LONGEST + 2] = "##";
	size_t n = s.n - from, before = from ? 2 : 0;
	memcpy(text + before, s.p + from, n);
	for (; n > 0; n--) {
		bool cuts = from + n < s.n && ((unsigned char)s.p[from + n] & 0xC0) == 0x80;
		int32_t id = cuts ? -1 : vocab_find(w->vocab, (struct str){text, before + n});
		if (vocab_has(w->vocab, id, VOCAB_PIECE) &&
		    !vocab_has(w->vocab, id, VOCAB_SPECIAL)) {
			*end = from + n;
			return id;
		}
	}
	return -1;
}

enum status wordpiece_encode(const struct wordpiece *w, struct str word, struct ids *out)
{
	size_t before = out->n;
	bool is_known = word.n <= LONGEST && utf8_count(word) <= w->max_chars;
	for (size_t at = 0; is_known && at < word.n;) {
		int32_t id = longest(w, word, at, &at);
		is_known = id >= 0;
		if (is_known)
			ids_add(out, id);
	}
	if (is_known)
		return OK;
	out->n = before;
	ids_add(out, w->unk_id);
	return OK;
}
