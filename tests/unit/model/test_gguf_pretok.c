/* SPDX-License-Identifier: Apache-2.0
 *
 * Each name of a GGUF file's pre-tokenizer, against ids of llama.cpp. Where that only comes
 * near, the ids are Hugging Face's. tests/golden/make_pretok_names.py made them.
 *
 * test_gguf_pretok FILE: a line of ids for each text of stdin, by the file's vocabulary. A NUL
 * ends a text (tests/ctl/test_vocabularies.py).
 */
#include <jansson.h>

#include "model/gguf_model.h"
#include "model/safetensors.h"
#include "model/tensors.h"
#include "tests/tap.h"

#define HEAD "tokenizer.ggml."

/* A GGUF file of keys alone, in memory. */
struct file {
	struct buf keys;
	uint64_t n_keys;
};

static void add_int(struct buf *b, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		buf_add_c(b, (char)(i < 8 ? v >> 8 * i : 0));
}

static void add_text(struct buf *b, struct str s)
{
	add_int(b, s.n, 8);
	buf_add_str(b, s);
}

static void add_key(struct file *f, const char *name, uint32_t type)
{
	add_text(&f->keys, str_of(name));
	add_int(&f->keys, type, 4);
	f->n_keys++;
}

static void add_string(struct file *f, const char *name, const char *value)
{
	add_key(f, name, GGUF_STRING);
	add_text(&f->keys, str_of(value));
}

static void begin_array(struct file *f, const char *name, uint32_t type, size_t n)
{
	add_key(f, name, GGUF_ARRAY);
	add_int(&f->keys, type, 4);
	add_int(&f->keys, n, 8);
}

static struct str text_of(const json_t *v)
{
	return (struct str){json_string_value(v), json_string_length(v)};
}

/* The two sides of a merge, parted by `between`. */
static void add_merge(struct buf *out, const json_t *merge, const char *between)
{
	struct buf b = {0};
	buf_add_str(&b, text_of(json_array_get(merge, 0)));
	buf_add_z(&b, between);
	buf_add_str(&b, text_of(json_array_get(merge, 1)));
	add_text(out, buf_str(&b));
	buf_deinit(&b);
}

/* The vocabulary of the goldens. pre NULL: no such key. has_types: the key of tokens' types
 * is there, which old files lack. */
static struct buf make(const json_t *top, const char *pre, bool has_types)
{
	const json_t *alphabet = json_object_get(top, "alphabet");
	const json_t *merges = json_object_get(top, "merges");
	size_t n_chars = json_array_size(alphabet), n_merges = json_array_size(merges);
	struct file f = {0};
	struct buf out = {0};
	add_string(&f, "general.architecture", "llama");
	add_string(&f, HEAD "model", "gpt2");
	if (pre)
		add_string(&f, HEAD "pre", pre);
	begin_array(&f, HEAD "tokens", GGUF_STRING, n_chars + n_merges);
	for (size_t i = 0; i < n_chars; i++)
		add_text(&f.keys, text_of(json_array_get(alphabet, i)));
	for (size_t i = 0; i < n_merges; i++)
		add_merge(&f.keys, json_array_get(merges, i), "");
	begin_array(&f, HEAD "merges", GGUF_STRING, n_merges);
	for (size_t i = 0; i < n_merges; i++)
		add_merge(&f.keys, json_array_get(merges, i), " ");
	if (has_types)
		begin_array(&f, HEAD "token_type", GGUF_I32, n_chars + n_merges);
	for (size_t i = 0; has_types && i < n_chars + n_merges; i++)
		add_int(&f.keys, 1, 4);
	buf_add_z(&out, "GGUF");
	add_int(&out, 3, 4);
	add_int(&out, 0, 8);
	add_int(&out, f.n_keys, 8);
	buf_add_str(&out, buf_str(&f.keys));
	add_int(&out, 0, 32); /* up to the alignment */
	buf_deinit(&f.keys);
	return out;
}

static enum status load(const json_t *top, const char *pre, bool has_types,
			struct tokenizer_files *out, struct fail *fail)
{
	struct buf bytes = make(top, pre, has_types);
	struct gguf g = {0};
	struct safetensors none = {0};
	struct arena arena;
	arena_init(&arena);
	enum status st = gguf_parse(buf_str(&bytes), "made.gguf", &arena, &g, &none, fail);
	if (st == OK)
		st = gguf_tokenizer_load(&g, "made.gguf", out, fail);
	gguf_deinit(&g);
	safetensors_deinit(&none);
	arena_deinit(&arena);
	buf_deinit(&bytes);
	return st;
}

static bool same_ids(const struct ids *got, const json_t *want)
{
	bool same = got->n == json_array_size(want);
	for (size_t i = 0; same && i < got->n; i++)
		same = got->p[i] == json_integer_value(json_array_get(want, i));
	return same;
}

static void check_name(const json_t *top, const char *name, const char *pre, bool has_types)
{
	const json_t *groups = json_object_get(top, "groups");
	const json_t *texts = json_object_get(top, "texts");
	const json_t *names = json_object_get(top, "names");
	size_t group = (size_t)json_integer_value(json_object_get(names, name));
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	ok(load(top, pre, has_types, &f, &fail) == OK, "%s loads %s", name, fail.text);
	for (size_t i = 0; f.tokenizer && i < json_array_size(texts); i++) {
		const json_t *want = json_array_get(json_array_get(groups, group), i);
		struct ids got = {0};
		if (json_is_false(want))
			continue;
		if (json_is_null(want))
			want = json_array_get(json_array_get(groups, 0), i);
		enum status st = tokenizer_encode(f.tokenizer, text_of(json_array_get(texts, i)),
						  TRUST_USER, &got, NULL);
		ok(st == OK && same_ids(&got, want), "%s: ids of text %zu", name, i);
		ids_deinit(&got);
	}
	bool warns = strcmp(name, "default") == 0;
	ok((f.note != NULL) == warns, "%s: a warning %s", name, warns ? "comes" : "is not due");
	tokenizer_files_deinit(&f);
}

static int print_ids(const char *path)
{
	const struct model_opts opts = {.use_mmap = true};
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	struct tensors *ts = NULL;
	char *text = NULL;
	size_t room = 0;
	enum status st = tensors_open_gguf(path, &opts, gguf_names_hf, &ts, &fail);
	if (st == OK)
		st = gguf_tokenizer_load(tensors_gguf(ts), path, &f, &fail);
	for (ssize_t n; st == OK && (n = getdelim(&text, &room, '\0', stdin)) > 0;) {
		struct ids ids = {0};
		st = tokenizer_encode(f.tokenizer, (struct str){text, (size_t)n - 1}, TRUST_USER,
				      &ids, &fail);
		for (size_t i = 0; i < ids.n; i++)
			printf("%d ", ids.p[i]);
		printf("\n");
		ids_deinit(&ids);
	}
	if (st != OK)
		fprintf(stderr, "%s\n", fail.text);
	free(text);
	tokenizer_files_deinit(&f);
	tensors_close(ts);
	return st == OK ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return print_ids(argv[1]);
	json_t *top = json_load_file(tap_src("tests/golden/tokenizer/pretok_names.json"), 0, NULL);
	const json_t *names = json_object_get(top, "names");
	const char *name;
	json_t *group;
	struct tokenizer_files f = {0};
	struct fail fail = {0};
	ok(json_object_size(names) == 87, "there are names to compare");
	json_object_foreach ((json_t *)(uintptr_t)names, name, group)
		check_name(top, name, name, true);
	check_name(top, "default", NULL, true);
	check_name(top, "gpt-2", "gpt-2", false);
	ok(load(top, "no-such", true, &f, &fail) == E_UNSUPPORTED &&
	   strstr(fail.text, "\"no-such\"") && strstr(fail.text, HEAD "pre"),
	   "another name is refused: %s", fail.text);
	json_decref(top);
	return tap_done();
}
