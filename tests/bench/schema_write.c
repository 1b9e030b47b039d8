/* SPDX-License-Identifier: Apache-2.0
 *
 * Random documents of JSON schemas, for schema_suite.py.
 *
 * usage: schema_write N < schemas
 *
 * Each line of the input is a list of a schema and texts. Each line of the output is a list. Of a
 * schema that is refused it has false and the reason. Else it has
 *
 *   - the milliseconds that the schema took to compile,
 *   - for each text of the input whether it may be written,
 *   - N pairs: whether a random text came to its end within 4,000 bytes, and the text.
 *
 * A random text takes any byte that the grammar allows, with a liking for those that end things.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "json/json_fast.h"
#include "schema/schema.h"

#define MAX_TEXT 4000

static struct grammar_vocab *byte_vocab(void)
{
	static char bytes[256];
	static struct str tokens[256];
	for (int i = 0; i < 256; i++) {
		bytes[i] = (char)i;
		tokens[i] = (struct str){&bytes[i], 1};
	}
	return grammar_vocab_create(tokens, 256);
}

static uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* One of the allowed bytes; the closing ones more often the longer the text is. */
static int pick(const uint64_t *allowed, size_t length, uint64_t *seed)
{
	static const char closing[] = "\"]}";
	int all[256], n = 0;
	bool likes = random_bits(seed) % 100 < 25 + length / 4;
	for (const char *c = closing; likes && *c; c++)
		if (allowed[*c >> 6] >> (*c & 63) & 1)
			return *c;
	bool plain = random_bits(seed) % 100 < 90;
	for (int pass = plain ? 0 : 1; pass < 2 && n == 0; pass++)
		for (int i = 0; i < 256; i++)
			if ((allowed[i >> 6] >> (i & 63) & 1) &&
			    (pass == 1 || (i > ' ' && i < 0x7F && i != '\\')))
				all[n++] = i;
	return n ? all[random_bits(seed) % (uint64_t)n] : -1;
}

/* True: it came to its end. */
static bool write_text(struct grammar *g, const struct grammar_vocab *v, uint64_t seed,
		       struct buf *out)
{
	struct grammar_state *s = grammar_state_create(g, v);
	bool is_done = false;
	seed = seed * 0x9E3779B97F4A7C15u + 12345;
	while (out->n < MAX_TEXT && !is_done) {
		uint64_t allowed[4];
		if (grammar_state_may_end(s) &&
		    (grammar_state_must_end(s) || random_bits(&seed) % 2)) {
			is_done = true;
			break;
		}
		if (grammar_state_mask(s, allowed, 4) != OK)
			break;
		int c = pick(allowed, out->n, &seed);
		if (c < 0) {
			is_done = grammar_state_may_end(s);
			break;
		}
		char byte = (char)c;
		if (grammar_state_accept(s, (struct str){&byte, 1}) != OK)
			break;
		buf_add_c(out, byte);
	}
	grammar_state_destroy(s);
	return is_done;
}

static bool may_be_written(struct grammar *g, const struct grammar_vocab *v, struct str text)
{
	struct grammar_state *s = grammar_state_create(g, v);
	bool may = true;
	for (size_t i = 0; i < text.n && may; i++)
		may = grammar_state_accept(s, (struct str){text.p + i, 1}) == OK;
	may = may && grammar_state_may_end(s);
	grammar_state_destroy(s);
	return may;
}

static void answer(const char *line, int n, const struct grammar_vocab *v)
{
	struct grammar *g = NULL;
	struct fail fail = {0};
	struct buf out = {0}, text = {0};
	json_t *list = json_fast_load(str_of(line)), *schema = json_array_get(list, 0);
	const struct json_node at = {.v = schema};
	int64_t begin = clock_now_us(&clock_monotonic);
	enum status st = schema ? schema_grammar(&at, &g, &fail) : E_JSON;
	double ms = (double)(clock_now_us(&clock_monotonic) - begin) / 1000;
	if (st != OK) {
		buf_add_z(&out, "[false,");
		buf_add_json(&out, str_of(schema ? fail.text : "not JSON"));
	} else {
		buf_addf(&out, "[%.3f", ms);
	}
	for (size_t i = 1; i < json_array_size(list) && st == OK; i++)
		buf_add_z(&out, may_be_written(g, v, json_read_view(json_array_get(list, i)))
				? ",true" : ",false");
	for (int i = 0; i < n && st == OK; i++) {
		buf_clear(&text);
		bool is_done = write_text(g, v, (uint64_t)i + 1, &text);
		buf_add_z(&out, is_done ? ",[true," : ",[false,");
		buf_add_json(&out, is_done ? buf_str(&text) : STR(""));
		buf_add_c(&out, ']');
	}
	buf_add_c(&out, ']');
	puts(out.p);
	fflush(stdout);
	buf_deinit(&out);
	buf_deinit(&text);
	grammar_unref(g);
	json_decref(list);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t cap = 0;
	struct grammar_vocab *v = byte_vocab();
	while (getline(&line, &cap, stdin) > 0)
		answer(line, argc > 1 ? atoi(argv[1]) : 10, v);
	free(line);
	grammar_vocab_destroy(v);
	return 0;
}
