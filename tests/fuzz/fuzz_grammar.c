/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a grammar, a regex or a schema: the first says which. What compiles is
 * walked by its own masks: each token that a mask allows must be accepted, and no
 * text may get stuck where it cannot end. It has a tenth of the work that the server grants.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/work.h"
#include "schema/schema.h"

#define WORK 1500000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct grammar_vocab *make_vocab(void)
{
	static char bytes[256];
	static struct str pieces[260] = {
		[256] = {"\": \"", 4}, [257] = {"\"}", 2}, [258] = {"aaaa", 4},
		[259] = {"]]", 2}};
	for (int i = 0; i < 256; i++) {
		bytes[i] = (char)i;
		pieces[i] = (struct str){&bytes[i], 1};
	}
	return grammar_vocab_create(pieces, 260);
}

static enum status compile(uint8_t kind, struct str text, struct grammar **out)
{
	struct fail fail;
	if (kind == 0)
		return grammar_create_gbnf(text, out, &fail);
	if (kind == 1)
		return grammar_create_regex(text, out, &fail);
	json_t *v;
	enum status st = json_read_parse(text, &v, &fail);
	if (st != OK)
		return st;
	struct json_node at = json_read_root(v);
	st = schema_grammar(&at, out, &fail);
	json_decref(v);
	return st;
}

static struct str piece_of(int id)
{
	static const struct str more[] = {
		{"\": \"", 4}, {"\"}", 2}, {"aaaa", 4}, {"]]", 2}};
	static char one;
	if (id >= 256)
		return more[id - 256];
	one = (char)id;
	return (struct str){&one, 1};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct grammar_vocab *vocab;
	struct grammar *g;
	if (!vocab)
		vocab = make_vocab();
	if (n == 0)
		return 0;
	struct work_budget work;
	work_begin(&work, WORK);
	enum status compiled =
		compile(data[0] % 3, (struct str){(const char *)data + 1, n - 1}, &g);
	work_end();
	if (compiled != OK)
		return 0;
	struct grammar_state *s = grammar_state_create(g, vocab);
	uint64_t mask[5];
	uint32_t seed = (uint32_t)n;
	for (int step = 0; step < 50; step++) {
		if (grammar_state_mask(s, mask, 5) != OK)
			break;
		int allowed[260], n_allowed = 0;
		for (int i = 0; i < 260; i++)
			if (mask[i / 64] >> (i % 64) & 1)
				allowed[n_allowed++] = i;
		if (n_allowed == 0) {
			if (!grammar_state_may_end(s))
				abort();
			break;
		}
		seed = seed * 1664525u + 1013904223u;
		int id = allowed[(seed >> 8) % (uint32_t)n_allowed];
		enum status st = grammar_state_accept(s, piece_of(id));
		if (st == E_LIMIT)
			break;
		if (st != OK)
			abort();
	}
	grammar_state_destroy(s);
	grammar_unref(g);
	return 0;
}
