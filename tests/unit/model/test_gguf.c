/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF: the values of a file that the gguf package for Python wrote, its blocks of each
 * format against what that decodes them to (tests/ctl/test_gguf_py.py has it make others),
 * and files that are not right.
 */
#include "model/gguf.h"

#include "base/alloc.h"
#include "model/model.h"
#include "model/formats/quant.h"
#include "tests/tap.h"
#include "tests/unit/model/image.h"

static const char *same_name(const struct gguf *g, const char *name, struct arena *a)
{
	(void)g;
	(void)a;
	return name;
}

/* --- a file of the reference implementation --------------------------------- */

static void test_values(const struct gguf *g)
{
	int64_t i = 0;
	double d = 0;
	struct str s = {0};
	const struct gguf_value *v = gguf_find(g, "test.bool");
	ok(v && gguf_integer(v, 0, &i) && i == 1, "bool");
	v = gguf_find(g, "test.i8");
	ok(v && gguf_integer(v, 0, &i) && i == -7, "i8");
	ok(v && gguf_number(v, 0, &d) && d == -7, "an integer is a number");
	ok(v && !gguf_string(v, &s), "and no string");
	v = gguf_find(g, "test.u64");
	ok(v && gguf_integer(v, 0, &i) && i == (int64_t)1 << 40, "u64");
	v = gguf_find(g, "test.f64");
	ok(v && gguf_number(v, 0, &d) && d == 0.1 && !gguf_integer(v, 0, &i), "f64");
	v = gguf_find(g, "general.architecture");
	ok(v && gguf_string(v, &s) && str_is(s, "none"), "a string");
	v = gguf_find(g, "test.ints");
	ok(v && v->is_array && v->n == 3 && gguf_integer(v, 1, &i) && i == -1 &&
	   !gguf_integer(v, 3, &i), "an array of integers");
	is_str(gguf_type_name(v), "an array of numbers", "its type");
	v = gguf_find(g, "test.strings");
	const char *at = v ? v->p : NULL;
	struct str one = gguf_next_string(&at), two = gguf_next_string(&at);
	ok(v->n == 3 && str_is(one, "one") && two.n == 0 &&
	   str_is(gguf_next_string(&at), "drei"), "an array of strings");
	ok(!gguf_find(g, "test.none"), "no such key");
}

static void check_format(const struct tensors *ts, const struct tensor *t)
{
	char name[64];
	snprintf(name, sizeof name, "%s.expected", t->name);
	const struct tensor *want = tensors_find(ts, name);
	int32_t n = (int32_t)t->dim[0], k = (int32_t)t->dim[1];
	struct weight w = {.quant = t->dtype == DTYPE_BLOCKS ? t->quant
							     : quant_plain(t->dtype),
			   .n = n, .k = k, .group = k, .q = t->data};
	float *got = xcalloc((size_t)n * (size_t)k, sizeof *got), part[64];
	weight_decode(&w, 0, n, got);
	int wrong = 0, parts = 0;
	for (int i = 0; i < n * k; i++)
		wrong += memcmp(&got[i], (const float *)want->data + i, 4) != 0;
	is_int(wrong, 0, "%s: %d numbers, bit for bit", t->name, n * k);
	for (int32_t k0 = 0; k0 < k; k0 += 34) {
		int32_t k1 = MIN(k, k0 + 50);
		weight_decode_part(&w, 1, k0, k1, part);
		parts += memcmp(part, got + k + k0, sizeof *part * (size_t)(k1 - k0));
	}
	is_int(parts, 0, "%s: in parts", t->name);
	is_int((long long)weight_bytes(&w), (long long)t->n_bytes, "%s: bytes", t->name);
	free(got);
}

static void test_formats(const char *path, bool is_other)
{
	struct model_opts o = {.use_mmap = true};
	struct tensors *ts;
	struct fail fail = {0};
	if (!ok(tensors_open_gguf(path, &o, same_name, &ts, &fail) == OK, "opens: %s", fail.text))
		return;
	test_values(tensors_gguf(ts));
	bool seen[QUANT_COUNT] = {false};
	for (size_t i = 0; i < tensors_count(ts); i++) {
		const struct tensor *t = tensors_at(ts, i);
		if (t->dtype == DTYPE_BLOCKS)
			seen[t->quant] = true;
		if (!strstr(t->name, ".expected"))
			check_format(ts, t);
	}
	for (enum quant q = 0; q < QUANT_COUNT; q++)
		/* No file has NF4, which quant_made.c makes; and only ggml decodes Q1_0 and
		 * Q2_0, so other files than the golden one lack them. */
		ok(seen[q] == (quant_block(q) > 0 && q != QUANT_NF4) ||
		   (is_other && (q == QUANT_Q1_0 || q == QUANT_Q2_0)), "%s has its blocks here",
		   quant_name(q));
	tensors_close(ts);
}

/* --- files that are not right ------------------------------------------------ */

/* A file is written with these; numbers are little-endian. */
static void put(struct buf *b, uint64_t v, int n_bytes)
{
	for (int i = 0; i < n_bytes; i++)
		buf_add_c(b, (char)(v >> 8 * i));
}

static void put_string(struct buf *b, const char *s)
{
	put(b, strlen(s), 8);
	buf_add_z(b, s);
}

static void put_head(struct buf *b, uint64_t n_tensors, uint64_t n_pairs)
{
	buf_add_z(b, "GGUF");
	put(b, 3, 4);
	put(b, n_tensors, 8);
	put(b, n_pairs, 8);
}

static void put_tensor(struct buf *b, const char *name, int n_dims, uint64_t d0,
		       uint64_t d1, uint32_t type, uint64_t offset)
{
	put_string(b, name);
	put(b, (uint64_t)n_dims, 4);
	if (n_dims > 0)
		put(b, d0, 8);
	for (int i = 1; i < n_dims; i++)
		put(b, d1, 8);
	put(b, type, 4);
	put(b, offset, 8);
}

static void pad(struct buf *b, size_t n_data)
{
	while (b->n % 32)
		buf_add_c(b, 0);
	for (size_t i = 0; i < n_data; i++)
		buf_add_c(b, (char)i);
}

static struct fail fail;

static enum status parse(const struct buf *b)
{
	struct arena a;
	struct gguf g;
	struct safetensors s;
	/* In memory of its own, so that a read behind its end is seen. */
	char *file = xmalloc(b->n + 1);
	memcpy(file, b->p, b->n);
	file = xrealloc(file, b->n ? b->n : 1);
	arena_init(&a);
	fail = (struct fail){0};
	enum status st = gguf_parse((struct str){file, b->n}, "x.gguf", &a, &g, &s,
				    &fail);
	if (st == OK) {
		gguf_deinit(&g);
		safetensors_deinit(&s);
	}
	arena_deinit(&a);
	free(file);
	return st;
}

/* Ends the file b, parses, compares the fault, clears b. */
static void faulty(struct buf *b, enum status want, const char *words)
{
	enum status st = parse(b);
	ok(st == want && strstr(fail.text, words) && strstr(fail.text, "x.gguf"),
	   "%s: %s", words, fail.text);
	buf_deinit(b);
	*b = (struct buf){0};
}

static void test_bad_tensors(void)
{
	struct buf b = {0};
	static const struct {
		const char *words;
		int n_dims;
		uint64_t d0, d1;
		uint32_t type;
		uint64_t offset;
		enum status status;
	} cases[] = {
		{"tensor t of 256 bytes", 1, 64, 0, 0, 0, E_FORMAT},
		{"tensor t of 64 bytes", 1, 16, 0, 0, 96, E_FORMAT},
		{"tensor t of 64 bytes", 1, 16, 0, 0, ~(uint64_t)31, E_FORMAT},
		{"tensor t does not begin", 1, 4, 0, 0, 8, E_FORMAT},
		{"tensor t has too many", 7, 1, 1, 0, 0, E_FORMAT},
		{"tensor t has an impossible shape", 2, 1ull << 62, 16, 0, 0, E_FORMAT},
		{"tensor t has an impossible shape", 1, 1ull << 63, 0, 0, 0, E_FORMAT},
		{"tensor t has an impossible shape", 3, 1u << 31, 1u << 31, 2, 0,
		 E_FORMAT},
		{"tensor t has rows of 48", 1, 48, 0, 2, 0, E_FORMAT},
		{"tensor t is Q4_2, which", 1, 32, 0, 4, 0, E_UNSUPPORTED},
		{"tensor t is IQ4_NL_8_8, which", 1, 32, 0, 38, 0, E_UNSUPPORTED},
		{"tensor t has the unknown type 43", 1, 32, 0, 43, 0, E_UNSUPPORTED},
		{"tensor t has the unknown type 63", 1, 32, 0, 63, 0, E_UNSUPPORTED},
		{"tensor t has the unknown type 99", 1, 32, 0, 99, 0, E_UNSUPPORTED},
		{"tensor t is Q8_K, which", 1, 256, 0, 15, 0, E_UNSUPPORTED},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put_head(&b, 1, 0);
		put_tensor(&b, "t", cases[i].n_dims, cases[i].d0, cases[i].d1,
			   cases[i].type, cases[i].offset);
		pad(&b, 128);
		faulty(&b, cases[i].status, cases[i].words);
	}
	put_head(&b, 2, 0);
	put_tensor(&b, "t", 1, 16, 0, 0, 0);
	put_tensor(&b, "u", 1, 16, 0, 0, 32);
	pad(&b, 128);
	faulty(&b, E_FORMAT, "tensors t and u overlap");
	put_head(&b, 1, 0);
	put_tensor(&b, "a\xFF", 1, 4, 0, 0, 0);
	faulty(&b, E_FORMAT, "the name of tensor 0");
	put_head(&b, 1, 0);
	put_tensor(&b, "", 1, 4, 0, 0, 0);
	faulty(&b, E_FORMAT, "the name of tensor 0");
	put_head(&b, 1ull << 40, 0);
	faulty(&b, E_FORMAT, "there are 1099511627776 tensors");
}

static void test_bad_pairs(void)
{
	struct buf b = {0};
	put_head(&b, 0, ~0ull);
	faulty(&b, E_FORMAT, "there are 18446744073709551615 keys");
	put_head(&b, 0, 1);
	put_string(&b, "k");
	put(&b, 13, 4);
	put(&b, 0, 8);
	faulty(&b, E_FORMAT, "k has the unknown type 13");
	put_head(&b, 0, 1);
	put_string(&b, "k");
	put(&b, GGUF_ARRAY, 4);
	put(&b, GGUF_U64, 4);
	put(&b, 1ull << 61, 8); /* times 8 is 0 */
	put(&b, 0, 8);
	faulty(&b, E_FORMAT, "the value of k");
	put_head(&b, 0, 1);
	put_string(&b, "k");
	put(&b, GGUF_STRING, 4);
	put(&b, ~0ull, 8);
	faulty(&b, E_FORMAT, "the value of k");
	put_head(&b, 0, 1);
	put_string(&b, "deep");
	for (int i = 0; i < 50; i++) {
		put(&b, GGUF_ARRAY, 4);
		put(&b, GGUF_ARRAY, 4);
		put(&b, 1, 8);
	}
	faulty(&b, E_FORMAT, "the value of deep");
	put_head(&b, 0, 2);
	for (int i = 0; i < 2; i++) {
		put_string(&b, "k");
		put(&b, GGUF_U8, 4);
		put(&b, 1, 1);
	}
	faulty(&b, E_FORMAT, "k is there twice");
	put_head(&b, 0, 1);
	put_string(&b, "general.alignment");
	put(&b, GGUF_U32, 4);
	put(&b, 24, 4);
	faulty(&b, E_FORMAT, "general.alignment");
	buf_add_z(&b, "GGUF");
	put(&b, 0x03000000, 4);
	pad(&b, 32);
	faulty(&b, E_UNSUPPORTED, "big-endian");
	buf_add_z(&b, "GGML....................");
	faulty(&b, E_FORMAT, "not a GGUF file");
}

/* Every length of a good file but the whole is refused or has all its tensors' bytes. */
static void test_truncated(void)
{
	struct buf b = {0};
	put_head(&b, 2, 2);
	put_string(&b, "general.alignment");
	put(&b, GGUF_U32, 4);
	put(&b, 32, 4);
	put_string(&b, "words");
	put(&b, GGUF_ARRAY, 4);
	put(&b, GGUF_STRING, 4);
	put(&b, 2, 8);
	put_string(&b, "a");
	put_string(&b, "bcd");
	put_tensor(&b, "t", 2, 32, 2, 8, 0);
	put_tensor(&b, "u", 1, 3, 0, 0, 96);
	pad(&b, 96 + 12);
	is_int(parse(&b), OK, "a good file: %s", fail.text);
	int accepted = 0;
	for (size_t n = b.n; n-- > 0;) {
		struct buf cut = {.p = b.p, .n = n};
		accepted += parse(&cut) != E_FORMAT;
	}
	is_int(accepted, 0, "cut anywhere it is refused");
	buf_deinit(&b);
}

/* The file ends before the data would begin: a tensor of nothing still has an address
 * that is aligned. */
static void test_no_data(void)
{
	struct buf b = {0};
	struct arena a;
	struct gguf g;
	struct safetensors s;
	put_head(&b, 1, 0);
	put_tensor(&b, "t", 2, 0, 3, 0, 0);
	ok(b.n % 32 != 0, "no padding");
	arena_init(&a);
	char *file = xmalloc(b.n);
	memcpy(file, b.p, b.n);
	is_int(gguf_parse((struct str){file, b.n}, "x", &a, &g, &s, &fail), OK,
	       "a tensor of nothing");
	ok((uintptr_t)s.tensors[0].data % 8 == 0, "is aligned");
	gguf_deinit(&g);
	safetensors_deinit(&s);
	arena_deinit(&a);
	free(file);
	buf_deinit(&b);
}

/* --- split files ----------------------------------------------------------------- */

static void put_part(const char *dir, const char *file, int no, int of, const char *name)
{
	struct buf b = {0};
	put_head(&b, 1, 2);
	put_string(&b, "split.no");
	put(&b, GGUF_U16, 4);
	put(&b, (uint64_t)no, 2);
	put_string(&b, "split.count");
	put(&b, GGUF_U16, 4);
	put(&b, (uint64_t)of, 2);
	put_tensor(&b, name, 1, 4, 0, 0, 0);
	pad(&b, 16);
	image_write(dir, file, (struct str){b.p, b.n});
	buf_deinit(&b);
}

static enum status open_file(const char *dir, const char *file, size_t *out_n)
{
	struct model_opts o = {.use_mmap = true};
	struct tensors *ts = NULL;
	char *path = file_join(dir, file);
	fail = (struct fail){0};
	enum status st = tensors_open_gguf(path, &o, same_name, &ts, &fail);
	*out_n = st == OK ? tensors_count(ts) : 0;
	if (st == OK)
		tensors_close(ts);
	free(path);
	return st;
}

static void test_split(void)
{
	char *dir = image_dir();
	size_t n;
	put_part(dir, "m-00001-of-00002.gguf", 0, 2, "t");
	is_int(open_file(dir, "m-00001-of-00002.gguf", &n), E_MISSING, "a part alone");
	ok(strstr(fail.text, "m-00002-of-00002.gguf"), "says what is missing: %s",
	   fail.text);
	put_part(dir, "m-00002-of-00002.gguf", 1, 2, "u");
	is_int(open_file(dir, "m-00001-of-00002.gguf", &n), OK, "two: %s", fail.text);
	is_int((long long)n, 2, "their tensors");
	is_int(open_file(dir, "m-00002-of-00002.gguf", &n), OK, "by the second");
	put_part(dir, "m-00002-of-00002.gguf", 0, 2, "u");
	is_int(open_file(dir, "m-00001-of-00002.gguf", &n), E_FORMAT,
	       "the first in the second's place");
	put_part(dir, "m-00002-of-00002.gguf", 1, 3, "u");
	is_int(open_file(dir, "m-00001-of-00002.gguf", &n), E_FORMAT, "one of three");
	put_part(dir, "m-00002-of-00002.gguf", 1, 2, "t");
	is_int(open_file(dir, "m-00001-of-00002.gguf", &n), E_FORMAT, "t twice");
	ok(strstr(fail.text, "tensor t is there"), "says so: %s", fail.text);
	put_part(dir, "alone.gguf", 1, 2, "t");
	is_int(open_file(dir, "alone.gguf", &n), E_FORMAT,
	       "a part that is not called so: %s", fail.text);
	image_remove(dir);
}

/* --- halves of rows --------------------------------------------------------------- */

enum { HALF_ROWS = 3 };

/* What is read of both halves of a Q8_0 matrix with k columns, against the whole. */
static void check_halves(struct model *m, int32_t k, enum quant quant)
{
	struct weight whole, half;
	float want[128], got[64];
	if (!ok(model_weight(m, "eh_proj", HALF_ROWS, k, &whole, &fail) == OK, "%d columns: %s",
		(int)k, fail.text))
		return;
	for (int i = 0; i < 2; i++) {
		int wrong = 0;
		if (!ok(model_weight_half(m, "eh_proj", HALF_ROWS, k / 2, i, &half, &fail) == OK,
			"half %d of %d columns: %s", i, (int)k, fail.text))
			continue;
		is_int(half.quant, quant, "half %d of %d columns: its format", i, (int)k);
		is_int(half.k, k / 2, "its columns");
		for (int32_t row = 0; row < HALF_ROWS; row++) {
			weight_decode(&whole, row, row + 1, want);
			weight_decode(&half, row, row + 1, got);
			wrong += memcmp(got, want + i * (k / 2),
					sizeof *got * (size_t)(k / 2)) != 0;
		}
		is_int(wrong, 0, "its numbers");
	}
}

/* Each half of 128 columns is two blocks. The middle block of 96 is of both halves. */
static void test_halves(void)
{
	static const struct {
		int32_t k;
		enum quant quant;
	} widths[] = {{128, QUANT_Q8_0}, {96, QUANT_F32}, {32, QUANT_F32}};
	char *dir = image_dir(), *path = file_join(dir, "m.gguf");
	for (size_t i = 0; i < ARRAY_LEN(widths); i++) {
		struct model_opts o = {.use_mmap = true};
		struct model m = {0};
		struct buf b = {0};
		put_head(&b, 1, 0);
		put_tensor(&b, "eh_proj.weight", 2, (uint64_t)widths[i].k, HALF_ROWS, 8, 0);
		pad(&b, 0);
		for (int block = 0; block < HALF_ROWS * widths[i].k / 32; block++) {
			put(&b, 0x3C00 + (uint64_t)block * 64, 2); /* 1 and more */
			for (int j = 0; j < 32; j++)
				put(&b, (uint64_t)(block * 37 + j * 5), 1);
		}
		image_write(dir, "m.gguf", (struct str){b.p, b.n});
		fail = (struct fail){0};
		if (ok(tensors_open_gguf(path, &o, same_name, &m.tensors, &fail) == OK &&
		       quant_scheme_parse(NULL, &m.scheme, &fail) == OK, "opens: %s",
		       fail.text)) {
			arena_init(&m.arena);
			check_halves(&m, widths[i].k, widths[i].quant);
			arena_deinit(&m.arena);
			quant_scheme_destroy(m.scheme);
			tensors_close(m.tensors);
		}
		buf_deinit(&b);
	}
	free(path);
	image_remove(dir);
}

/* FILE: another of make_blocks.py's. */
int main(int argc, char **argv)
{
	test_formats(argc > 1 ? argv[1] : tap_src("tests/golden/formats/blocks.gguf"), argc > 1);
	if (argc > 1)
		return tap_done();
	test_bad_tensors();
	test_bad_pairs();
	test_truncated();
	test_no_data();
	test_split();
	test_halves();
	return tap_done();
}
