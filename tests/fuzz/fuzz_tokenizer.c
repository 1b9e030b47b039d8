/* SPDX-License-Identifier: Apache-2.0
 *
 * One tokenizer.json and one text from the same bytes: the file up to the first
 * newline, the text behind it. An input without a newline is a text for
 * halo-tiny's tokenizer; run in the source folder. Whatever they are, decoding in
 * parts gives what decoding at once gives, and a text that NFC leaves alone comes
 * back.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "model/tokenizer_hf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const struct tokenizer *t, struct str text,
		       bool comes_back)
{
	struct ids ids = {0};
	struct buf whole = {0}, parts = {0}, clean = {0};
	struct detok d;
	if (tokenizer_encode(t, text, TRUST_USER, &ids, NULL) != OK)
		assert(ids.n == 0);
	else
		utf8_add_clean(&clean, text);
	tokenizer_decode(t, ids.p, ids.n, false, &whole);
	detok_init_text(&d, t, false);
	for (size_t i = 0; i < ids.n; i++) {
		assert(ids.p[i] >= 0 && ids.p[i] < tokenizer_n_ids(t));
		detok_push(&d, ids.p[i], &parts);
	}
	detok_finish(&d, &parts);
	assert(str_eq(buf_str(&whole), buf_str(&parts)));
	/* All is below U+0300, so NFC changes nothing. */
	for (size_t i = 0; i < text.n; i++)
		comes_back &= (unsigned char)text.p[i] < 0xCC;
	assert(!comes_back || str_eq(buf_str(&whole), buf_str(&clean)));
	ids_deinit(&ids);
	buf_deinit(&whole);
	buf_deinit(&parts);
	buf_deinit(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct tokenizer_files tiny; /* kept to the end */
	struct str in = {(const char *)data, n};
	if (!tiny.tokenizer) {
		if (tokenizer_hf_load("models/halo-tiny", &tiny, NULL) != OK)
			abort();
	}
	ptrdiff_t line = str_find(in, STR("\n"), 0);
	if (line < 0) {
		check_text(tiny.tokenizer, in, true);
		return 0;
	}
	struct tokenizer *t = NULL;
	struct str json = {in.p, (size_t)line};
	struct fail fail = {0};
	if (tokenizer_hf_parse(json, "fuzz", &t, &fail) == OK)
		check_text(t, (struct str){in.p + line + 1,
					   in.n - (size_t)line - 1}, false);
	else
		assert(fail.text[0]);
	tokenizer_destroy(t);
	return 0;
}
