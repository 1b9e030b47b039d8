/* SPDX-License-Identifier: Apache-2.0
 *
 * What a grammar costs, one case a line as CSV: case, shape, value, unit.
 *
 * The vocabulary is made up: 151,936 pieces with the lengths and first bytes of a
 * byte-level BPE's (all single bytes, words with and without a space, code, digits,
 * other scripts, runs of white space). A document is fed token by token, each time the
 * longest allowed one that fits; before each the mask is made. "cold" is the first
 * document of a grammar, "warm" another one with the masks of the first in its cache.
 * Times are of one thread's processor.
 */
#include <jansson.h>
#include <time.h>

#include "schema/schema.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/utf8.h"
#include "tests/tap.h"

#define N_VOCAB 151936
#define N_WORDS ((N_VOCAB + 63) / 64)

static struct str pieces[N_VOCAB];
static struct strmap id_of;
static struct grammar_vocab *vocab;

static double cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static uint64_t random_state = 1;
static uint32_t draw(uint32_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (uint32_t)((random_state * 2685821657736338717u) >> 33) % n;
}

/* --- vocabulary ---------------------------------------------------------- */

static void add_letters(struct buf *b, int n)
{
	static const char vowels[] = "aeiou", others[] = "bcdfghklmnprstvwyz";
	for (int i = 0; i < n; i++)
		buf_add_c(b, draw(5) < 2 ? vowels[draw(5)] : others[draw(18)]);
}

static void make_piece(struct buf *b)
{
	static const char *const marks[] = {"\"", "\",", "\":", "\"}", "\"]", "{\"", "\",\"",
		"():", "();\n", "->", "//", "==", "!=", "</", "='", ".get", "\\n", "[\"",
		"\": \"", "\", \"", "},{\"", "']", "\\\"", "://"};
	uint32_t kind = draw(100);
	if (kind < 45)
		buf_add_c(b, ' ');
	if (kind < 70) {
		add_letters(b, 2 + (int)draw(9));
	} else if (kind < 80) {
		buf_add_c(b, (char)('A' + draw(26)));
		add_letters(b, 1 + (int)draw(9));
	} else if (kind < 88) {
		for (int i = 1 + (int)draw(5); i > 0; i--) { /* Han, Cyrillic */
			char c[4];
			uint32_t cp = draw(2) ? 0x4E00 + draw(0x5000) : 0x430 + draw(32);
			buf_add(b, c, utf8_encode(cp, c));
		}
	} else if (kind < 96) {
		if (draw(3) == 0)
			add_letters(b, 1 + (int)draw(5));
		buf_add_z(b, marks[draw(sizeof marks / sizeof *marks)]);
		if (draw(3) == 0)
			add_letters(b, 1 + (int)draw(6));
	} else {
		for (int i = 1 + (int)draw(40); i > 0; i--)
			buf_add_c(b, kind < 98 ? ' ' : kind == 98 ? '\n' : '-');
	}
}

static void make_vocab(void)
{
	struct buf b = {0};
	uint32_t seen;
	strmap_init(&id_of, N_VOCAB);
	for (int32_t id = 0; id < N_VOCAB;) {
		buf_clear(&b);
		if (id < 256)
			buf_add_c(&b, (char)id);
		else
			make_piece(&b);
		if (strmap_get(&id_of, buf_str(&b), &seen))
			continue;
		pieces[id] = (struct str){memcpy(xmalloc(b.n), b.p, b.n), b.n};
		strmap_put(&id_of, pieces[id], (uint32_t)id);
		id++;
	}
	buf_deinit(&b);
	double start = cpu_us();
	vocab = grammar_vocab_create(pieces, N_VOCAB);
	printf("vocab,%d pieces,%.1f,ms\n", N_VOCAB, (cpu_us() - start) / 1e3);
}

/* --- documents ----------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The longest allowed piece that the rest of the text begins with. */
static struct str next_piece(const uint64_t *mask, struct str rest)
{
	for (size_t n = rest.n < 48 ? rest.n : 48; n > 0; n--) {
		uint32_t id;
		struct str s = {rest.p, n};
		if (strmap_get(&id_of, s, &id) && mask[id / 64] >> (id % 64) & 1)
			return s;
	}
	printf("# stuck at %.40s\n", rest.p);
	exit(1);
}

static void feed(struct grammar *g, struct str text, const char *name,
		 const char *how)
{
	static uint64_t mask[N_WORDS];
	double *us = xmalloc(text.n * sizeof *us), accept_us = 0;
	size_t n = 0;
	struct grammar_state *s = grammar_state_create(g, vocab);
	for (size_t at = 0; at < text.n;) {
		double start = cpu_us();
		if (grammar_state_mask(s, mask, N_WORDS) != OK)
			exit(1);
		us[n++] = cpu_us() - start;
		struct str piece = next_piece(
			mask, (struct str){text.p + at, text.n - at});
		start = cpu_us();
		if (grammar_state_accept(s, piece) != OK)
			exit(1);
		accept_us += cpu_us() - start;
		at += piece.n;
	}
	qsort(us, n, sizeof *us, by_value);
	printf("mask-%s,%s %zu tokens median,%.1f,us\n", name, how, n, us[n / 2]);
	printf("mask-%s,%s %zu tokens p99,%.1f,us\n", name, how, n, us[n - 1 - n / 100]);
	printf("mask-%s,%s %zu tokens worst,%.1f,us\n", name, how, n, us[n - 1]);
	printf("accept-%s,%s %zu tokens mean,%.2f,us\n", name, how, n,
	       accept_us / (double)n);
	free(us);
	grammar_state_destroy(s);
}

static struct grammar *compile(struct str schema)
{
	json_t *v = json_loadb(schema.p, schema.n, 0, NULL);
	struct json_node at = {.v = v};
	struct grammar *g = NULL;
	struct fail f = {0};
	if (!v || schema_grammar(&at, &g, &f) != OK) {
		printf("# %s\n", v ? f.text : "not JSON");
		exit(1);
	}
	json_decref(v);
	return g;
}

/* From the schema's text to the first mask. */
static void first_token(struct str schema, const char *name)
{
	static uint64_t mask[N_WORDS];
	double ms[5];
	for (int i = 0; i < 5; i++) {
		double start = cpu_us();
		struct grammar *g = compile(schema);
		struct grammar_state *s = grammar_state_create(g, vocab);
		if (grammar_state_mask(s, mask, N_WORDS) != OK)
			exit(1);
		ms[i] = (cpu_us() - start) / 1e3;
		grammar_state_destroy(s);
		grammar_unref(g);
	}
	qsort(ms, 5, sizeof *ms, by_value);
	printf("first-token-%s,%zu bytes of schema,%.2f,ms\n", name, schema.n, ms[2]);
}

static void add_sentence(struct buf *b, int n)
{
	for (int i = 0; i < n; i++) {
		if (i)
			buf_add_c(b, ' ');
		add_letters(b, 2 + (int)draw(7));
	}
}

static const char people_schema[] =
	"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
	"\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":200},"
	"\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
	"\"about\":{\"type\":\"string\"},\"kind\":{\"enum\":[\"person\",\"robot\"]},"
	"\"scores\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}}},"
	"\"required\":[\"name\",\"age\",\"about\",\"kind\",\"scores\"]}}";

static void make_people(struct buf *b, int n)
{
	for (int i = 0; i < n; i++) {
		buf_add_z(b, i ? ", {\"name\": \"" : "[{\"name\": \"");
		add_sentence(b, 2);
		buf_addf(b, "\", \"age\": %u, \"about\": \"", draw(100));
		add_sentence(b, 12);
		buf_addf(b, "\", \"kind\": \"%s\", \"scores\": [%u.5, %u, -0.%u]}",
			 draw(2) ? "person" : "robot", draw(100), draw(10), draw(1000));
	}
	buf_add_c(b, ']');
}

/* Many tools' worth: objects of properties of all kinds, with their descriptions. */
static void make_large_schema(struct buf *b, size_t n_bytes)
{
	static const char *const kinds[] = {
		"\"type\":\"string\"", "\"type\":\"integer\",\"minimum\":0",
		"\"type\":\"array\",\"items\":{\"type\":\"string\"}",
		"\"enum\":[\"one\",\"two\",\"three\"]", "\"type\":\"boolean\"",
		"\"type\":[\"string\",\"null\"],\"maxLength\":64",
		"\"$ref\":\"#/$defs/node\"",
		"\"type\":\"string\",\"pattern\":\"^[a-z]{2,8}-[0-9]+$\""};
	buf_add_z(b, "{\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"next\":"
		     "{\"$ref\":\"#/$defs/node\"}}}},\"anyOf\":[");
	for (int tool = 0; b->n < n_bytes; tool++) {
		buf_addf(b, "%s{\"type\":\"object\",\"properties\":{\"tool\":{\"const\":"
			 "\"t%d\"}", tool ? "," : "", tool);
		for (int i = 0; i < 12; i++) {
			buf_add_z(b, ",\"");
			add_letters(b, 8);
			buf_addf(b, "%d\":{%s,\"description\":\"", i, kinds[draw(8)]);
			add_sentence(b, 5);
			buf_add_z(b, "\"}");
		}
		buf_add_z(b, "},\"required\":[\"tool\"],\"additionalProperties\":false}");
	}
	buf_add_z(b, "]}");
}

int main(void)
{
	struct buf a = {0}, b = {0}, large = {0};
	make_vocab();
	make_people(&a, 30);
	make_people(&b, 30);
	struct grammar *g = compile(str_of(people_schema));
	feed(g, buf_str(&a), "schema", "cold");
	feed(g, buf_str(&b), "schema", "warm");
	grammar_unref(g);
	g = compile(STR("{\"type\":\"array\",\"items\":{\"type\":\"object\"}}"));
	feed(g, buf_str(&a), "any-json", "cold");
	feed(g, buf_str(&b), "any-json", "warm");
	grammar_unref(g);
	first_token(str_of(people_schema), "schema");
	make_large_schema(&large, 100000);
	first_token(buf_str(&large), "large");
	buf_deinit(&a);
	buf_deinit(&b);
	buf_deinit(&large);
	return 0;
}
