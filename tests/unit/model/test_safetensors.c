/* SPDX-License-Identifier: Apache-2.0 */
#include "model/safetensors.h"

#include "tests/tap.h"
#include "tests/unit/model/image.h"

static struct arena arena;
static struct fail fail;

static enum status parse(struct str file, struct safetensors *out)
{
	fail = (struct fail){0};
	return safetensors_parse(file, "f.safetensors", &arena, out, &fail);
}

/* Every way to lie in a header: {header, data bytes, words of the message}. */
static const struct {
	const char *header;
	size_t n_data;
	const char *says;
} lies[] = {
	{"", 0, "line"},
	{"[]", 0, "not a JSON object"},
	{"nonsense", 0, "line 1"},
	{"{\"a\":1}", 8, "tensor a is not described"},
	{"{\"a\":{}}", 8, "tensor a has no dtype"},
	{"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
	 "tensor a has no dtype"},
	{"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 8,
	 "tensor a has the unknown dtype F6_E2M3"},
	{"{\"a\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 8,
	 "tensor a ends rows of F4 within a byte"},
	{"{\"a\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,1]}}", 8,
	 "tensor a ends rows of F4 within a byte"},
	{"{\"a\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[0,8]}}", 8,
	 "tensor a has 8 bytes, its shape and type need 4"},
	{"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 8,
	 "tensor a has no shape"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 8,
	 "tensor a has no shape"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],"
	 "\"data_offsets\":[0,4]}}", 8, "tensor a has too many dimensions"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 8,
	 "tensor a has a bad dimension"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 8,
	 "tensor a has a bad dimension"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
	 "\"data_offsets\":[0,0]}}", 8, "tensor a has an impossible shape"},
	{"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],"
	 "\"data_offsets\":[0,0]}}", 8, "tensor a has an impossible shape"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],"
	 "\"data_offsets\":[0,4]}}", 8, "bad dimension"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 8,
	 "tensor a has no data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 8,
	 "tensor a has no data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8,
	 "tensor a has no data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[\"0\",4]}}", 8,
	 "tensor a has no data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 8,
	 "tensor a has impossible data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 8,
	 "tensor a has impossible data_offsets"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}", 8,
	 "tensor a ends at byte 12 of the data, but there are 8: the file is truncated"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
	 "\"data_offsets\":[9223372036854775803,9223372036854775807]}}", 8,
	 "truncated"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 8,
	 "tensor a has 4 bytes, its shape and type need 8"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	 "\"b\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[2,6]}}", 8,
	 "tensors a and b overlap"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	 "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
	 "overlap"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
	 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
	 "duplicate"},
	{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", 8,
	 "line 1"},
};

static void test_lies(void)
{
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		struct buf b = image_make(lies[i].header, lies[i].n_data);
		struct safetensors s;
		enum status st = parse(buf_str(&b), &s);
		bool right = (st == E_FORMAT || st == E_UNSUPPORTED) &&
			     strstr(fail.text, "f.safetensors") &&
			     strstr(fail.text, lies[i].says);
		if (!ok(right, "refused: %s", lies[i].header))
			printf("# %s: %s\n", status_name(st), fail.text);
		if (st == OK)
			safetensors_deinit(&s);
		buf_deinit(&b);
	}
}

static const char two[] =
	"{\"__metadata__\":{\"format\":\"pt\"},"
	"\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
	"\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
	"\"none\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[16,16]}} ";

static void test_good(void)
{
	struct buf b = image_make(two, 16);
	struct safetensors s;
	is_int(parse(buf_str(&b), &s), OK, "a good file: %s", fail.text);
	is_int(s.n, 3, "metadata is no tensor");
	is_str(s.tensors[0].name, "a", "sorted by place");
	is_int(s.tensors[0].n_dims, 0, "a scalar has no dimensions");
	is_int(s.tensors[0].n_bytes, 4, "and one element");
	is_int(s.tensors[1].dim[0] * 10 + s.tensors[1].dim[1], 23,
	       "shape, outermost first");
	is_int(*(const unsigned char *)s.tensors[1].data, 4, "data at its offset");
	is_int(s.tensors[2].n_bytes, 0, "an empty tensor is fine");
	safetensors_deinit(&s);

	/* Cut at every length: never read beyond the end, never accept. The bytes are
	 * copied to a block of that size, so that a sanitizer sees one too many. */
	int accepted = 0;
	for (size_t n = 0; n < b.n; n++) {
		char *cut = malloc(n + !n);
		memcpy(cut, b.p, n);
		if (parse((struct str){cut, n}, &s) == OK) {
			accepted++;
			safetensors_deinit(&s);
		}
		free(cut);
	}
	is_int(accepted, 0, "a file cut short anywhere is refused");
	buf_deinit(&b);
}

/* A header whose length is no multiple of eight puts all data askew. */
static void test_alignment(void)
{
	for (size_t pad = 0; pad < 8; pad++) {
		char header[sizeof two + 8];
		snprintf(header, sizeof header, "%s%*s", two, (int)pad, "");
		struct buf b = image_make(header, 16);
		struct safetensors s;
		bool aligned = parse(buf_str(&b), &s) == OK;
		for (size_t i = 0; aligned && i < s.n; i++)
			aligned = (uintptr_t)s.tensors[i].data %
					  dtype_bytes(s.tensors[i].dtype) == 0;
		ok(aligned, "data is aligned with %zu bytes of padding", pad);
		is_int(((const unsigned char *)s.tensors[1].data)[11], 15,
		       "and is the same");
		safetensors_deinit(&s);
		buf_deinit(&b);
	}
}

static void test_lengths(void)
{
	struct safetensors s;
	static const char huge[16] = {-1, -1, -1, -1, -1, -1, -1, -1, '{', '}'};
	is_int(parse((struct str){huge, 16}, &s), E_FORMAT,
	       "a header longer than the file");
	is_int(parse((struct str){huge + 8, 4}, &s), E_FORMAT, "four bytes");
	struct buf deep = {0};
	for (int i = 0; i < 100000; i++)
		buf_add_z(&deep, "{\"a\":");
	struct buf b = image_make(deep.p, 0);
	is_int(parse(buf_str(&b), &s), E_FORMAT, "100,000 levels");
	ok(strstr(fail.text, "64 levels"), "and says so: %s", fail.text);
	buf_deinit(&deep);
	buf_deinit(&b);
}

/* Of no bytes, at a place that is aligned to nothing. */
static void test_nothing(void)
{
	struct buf b = image_make("{\"t\":{\"dtype\":\"F32\",\"shape\":[0],"
				  "\"data_offsets\":[3,3]}}  ", 3);
	struct arena a;
	struct safetensors s;
	arena_init(&a);
	if (ok(safetensors_parse(buf_str(&b), "x", &a, &s, &fail) == OK,
	       "a tensor of nothing: %s", fail.text)) {
		ok((uintptr_t)s.tensors[0].data % 4 == 0, "is aligned");
		safetensors_deinit(&s);
	}
	arena_deinit(&a);
	buf_deinit(&b);
}

int main(void)
{
	arena_init(&arena);
	test_good();
	test_lies();
	test_alignment();
	test_lengths();
	arena_deinit(&arena);
	test_nothing();
	return tap_done();
}
