/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembered ids of texts against ids that are computed: conversations that grow, by writers
 * of every trust, with a memory that is always too small for all of them.
 */
#include "base/alloc.h"
#include "tests/unit/api/fixture.h"
#include "tokenizer/encodings.h"

static uint32_t state = 11;
static uint32_t draw(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 16) % n;
}

static void add_message(struct marked *m)
{
	static const char *const words[] = {"Hello", " there", "\n", "  ", "<|im_end|>", "é",
					    "<think>", " 12345", "int main(void)", "\xF0\x9F",
					    "…", "e\xCC\x81"};
	struct buf text = {0};
	enum trust trust = (enum trust)draw(3);
	for (uint32_t n = draw(120); n > 0; n--)
		buf_add_z(&text, words[draw(ARRAY_LEN(words))]);
	marked_add(m, STR("<|im_start|>user\n"), TRUST_TEMPLATE);
	marked_add(m, buf_str(&text), trust);
	marked_add(m, STR("<|im_end|>\n"), TRUST_TEMPLATE);
	buf_deinit(&text);
}

static bool is_same(const struct marked *m, const struct tokenizer_memory *memory)
{
	const struct tokenizer *t = fixture_model()->tokenizer;
	struct ids want = {0}, got = {0};
	ids_add(&got, 7); /* what was there stays */
	bool good = tokenizer_encode_marked(t, m, &want, NULL) == OK &&
		    tokenizer_encode_again(t, m, memory, &got, NULL) == OK &&
		    got.n == want.n + 1 && got.p[0] == 7 &&
		    (want.n == 0 || memcmp(got.p + 1, want.p, want.n * sizeof *want.p) == 0);
	ids_deinit(&want);
	ids_deinit(&got);
	return good;
}

/* Every round a turn more, of one of four conversations in two spaces. */
static void test_turns(void)
{
	struct encodings *e = encodings_create(40000);
	struct marked talk[4] = {0};
	int n_same = 0;
	enum { ROUNDS = 400 };
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t k = draw(4);
		const struct tokenizer_memory memory = {e, k % 2 ? STR("a") : STR("")};
		if (talk[k].text.n > 30000)
			marked_deinit(&talk[k]);
		add_message(&talk[k]);
		n_same += is_same(&talk[k], &memory);
	}
	is_int(n_same, ROUNDS, "the same ids as if nothing were remembered");
	for (int k = 0; k < 4; k++)
		marked_deinit(&talk[k]);
	encodings_destroy(e);
}

static struct marked long_text(enum trust trust)
{
	struct marked m = {0};
	for (int i = 0; i < 40; i++)
		marked_add(&m, STR("<think> of me "), trust);
	return m;
}

static bool knows(struct encodings *e, struct str space, const struct marked *m, bool begins)
{
	struct buf key = {0};
	struct ids ids = {0};
	encodings_key(space, markview_of(m), begins, &key);
	bool known = encodings_get(e, buf_str(&key), &ids);
	ids_deinit(&ids);
	buf_deinit(&key);
	return known;
}

static void test_keys(void)
{
	const struct tokenizer *t = fixture_model()->tokenizer;
	struct encodings *e = encodings_create(4000);
	struct marked user = long_text(TRUST_USER), model = long_text(TRUST_MODEL);
	struct marked shorter = long_text(TRUST_USER);
	shorter.text.n -= 1;
	shorter.marks[0].end -= 1;
	const struct tokenizer_memory memory = {e, STR("key")};
	struct ids ids = {0};
	ok(tokenizer_encode_again(t, &user, &memory, &ids, NULL) == OK &&
	   knows(e, STR("key"), &user, true), "what was encoded is known");
	ok(!knows(e, STR("other"), &user, true) && !knows(e, STR(""), &user, true),
	   "in its space only");
	ok(!knows(e, STR("key"), &model, true), "of its writer only");
	ok(!knows(e, STR("key"), &user, false), "where it began a text only");
	ok(!knows(e, STR("key"), &shorter, true), "and whole only");
	struct buf other = {0};
	for (int i = 0; i < 2500; i++)
		buf_add_c(&other, (char)('a' + i % 26));
	encodings_put(e, buf_str(&other), ids.p, 1);
	ok(!knows(e, STR("key"), &user, true) && encodings_get(e, buf_str(&other), &ids),
	   "the older one gives way");
	for (int i = 0; i < 2500; i++)
		buf_add_c(&other, 'x');
	encodings_put(e, buf_str(&other), ids.p, 1);
	ok(!encodings_get(e, buf_str(&other), &ids), "what is larger than the memory is not kept");
	buf_deinit(&other);
	ids_deinit(&ids);
	marked_deinit(&user);
	marked_deinit(&model);
	marked_deinit(&shorter);
	encodings_destroy(e);
}

int main(void)
{
	test_turns();
	test_keys();
	return tap_done();
}
