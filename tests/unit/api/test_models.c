/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies without a request: models, version, errors.
 */
#include "api/peek.h"
#include "base/alloc.h"
#include "tests/unit/api/fixture.h"

static json_t *parse(struct buf *b)
{
	json_error_t e;
	json_t *v = json_loads(b->p, 0, &e);
	ok(v != NULL, "parses: %s", v ? "" : e.text);
	buf_deinit(b);
	return v;
}

static const char *str_at(const json_t *v, const char *key)
{
	return json_string_value(json_object_get(v, key));
}

static void check_model(const json_t *m, const char *id)
{
	const json_t *meta = json_object_get(m, "meta");
	is_str(str_at(m, "id"), id, "id");
	is_str(str_at(m, "object"), "model", "object");
	is_str(str_at(m, "owned_by"), "halod", "owned_by");
	is_str(str_at(m, "root"), "halo-tiny", "root");
	ok(json_integer_value(json_object_get(m, "created")) > 0, "created");
	is_str(str_at(m, "type"), "model", "Anthropic's type");
	is_str(str_at(m, "display_name"), id, "Anthropic's name of it");
	ok(strlen(str_at(m, "created_at")) == 20, "Anthropic's date: %s", str_at(m, "created_at"));
	static const struct {
		const char *key;
		long long want;
	} rows[] = {
		{"n_vocab", 3200}, {"n_ctx_train", 4096}, {"n_embd", 256},
	};
	is_int(json_integer_value(json_object_get(m, "max_model_len")), 512,
	       "max_model_len is what is served");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		is_int(json_integer_value(json_object_get(meta, rows[i].key)),
		       rows[i].want, "%s", rows[i].key);
	/* 3200 x 256 embeddings and 8 layers of 16 experts of 3 x 128 x 256, four
	 * projections, router and norms: 16.6 million. */
	long long n = json_integer_value(json_object_get(meta, "n_params"));
	long long layer = 16 * 3 * 128 * 256 + 2 * 512 * 256 + 2 * 128 * 256 +
			  16 * 256 + 2 * 64 + 2 * 256;
	is_int(n, 3200 * 256 + 8 * layer + 256, "n_params");
	long long size = json_integer_value(json_object_get(meta, "size"));
	ok(size > n / 2 && size < n, "size: %lld bytes at four bits and more", size);
}

static struct api_row loaded(void)
{
	static const char *const aliases[] = {"gpt-tiny", "default"};
	return (struct api_row){.name = "halo-tiny", .aliases = aliases, .n_aliases = 2,
				.api = fixture_api(), .state = "loaded", .is_loaded = true};
}

static void test_list(void)
{
	struct buf b = {0};
	const struct api_row rows[] = {loaded(), {.name = "other", .state = "failed",
						  .why = "it is damaged"}};
	api_models_format(rows, 2, &b);
	json_t *v = parse(&b);
	const json_t *data = json_object_get(v, "data");
	is_str(str_at(v, "object"), "list", "a list");
	is_int(json_array_size(data), 4, "the model, its aliases, and one that is not loaded");
	check_model(json_array_get(data, 0), "halo-tiny");
	check_model(json_array_get(data, 2), "default");
	is_str(str_at(v, "first_id"), "halo-tiny", "the first one's id");
	is_str(str_at(v, "last_id"), "other", "the last one's id");
	const json_t *state = json_object_get(json_array_get(data, 0), "status");
	is_str(str_at(state, "value"), "loaded", "its state");
	state = json_object_get(json_array_get(data, 3), "status");
	is_str(str_at(state, "value"), "failed", "the other's state");
	is_str(str_at(state, "error"), "it is damaged", "and why");
	ok(json_is_false(json_object_get(v, "has_more")), "no more pages");
	json_decref(v);
}

static void test_one(void)
{
	struct buf b = {0};
	struct fail fail;
	const struct api_row row = loaded();
	is_int(api_model_format(&row, 1, STR("gpt-tiny"), &b, &fail), OK,
	       "by alias");
	json_t *v = parse(&b);
	check_model(v, "gpt-tiny");
	json_decref(v);
	is_int(api_model_format(&row, 1, STR("x\"y"), &b, &fail), E_MODEL,
	       "unknown");
	is_int(b.n, 0, "nothing written");
	api_error_format(&fail, &b);
	is_str(b.p,
	       "{\"error\":{\"message\":\"the model `x\\\"y` is not served here: this "
	       "is `halo-tiny`\",\"type\":\"not_found_error\",\"param\":\"model\","
	       "\"code\":\"model_not_found\"}}",
	       "the error");
	is_int(status_http(fail.code), 404, "HTTP 404");
	buf_deinit(&b);
}

static void test_version(void)
{
	struct buf b = {0};
	api_version_format("1.2.3", &b);
	is_str(b.p, "{\"version\":\"1.2.3\"}", "version");
	buf_deinit(&b);
}

static void test_errors(void)
{
	struct buf b = {0};
	struct fail f;
	fail_at(&f, E_INVAL, "messages[2].role", "`messages[2].role` is \"x\"");
	api_error_format(&f, &b);
	is_str(b.p,
	       "{\"error\":{\"message\":\"`messages[2].role` is \\\"x\\\"\","
	       "\"type\":\"invalid_request_error\",\"param\":\"messages[2].role\","
	       "\"code\":null}}",
	       "with a place, without a code");
	buf_clear(&b);
	f = (struct fail){.code = E_QUEUE_FULL};
	api_error_format(&f, &b);
	is_str(b.p,
	       "{\"error\":{\"message\":\"too many requests are waiting\","
	       "\"type\":\"rate_limit_exceeded\",\"param\":null,"
	       "\"code\":\"queue_full\"}}",
	       "the table's words where there are no better ones");
	buf_clear(&b);
	f = (struct fail){0};
	api_error_format(&f, &b);
	ok(strstr(b.p, "\"type\":\"server_error\""), "no code is ours to explain");
	buf_deinit(&b);
}

/* Who takes images: with video (Qwen3-VL), or without (Gemma 3). */
static struct vision *open_eyes(const char *dir, struct model **m)
{
	struct vision *v = NULL;
	struct fail fail = {0};
	enum status st = model_open(tap_src(dir), NULL, m, &fail);
	const struct vision_opts o = {.model = *m, .backend = {.name = "cpu", .n_threads = 1},
				      .max_tokens = 64, .step_tokens = 64};
	if (st == OK)
		st = vision_open(&o, &v, &fail);
	if (st != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	return v;
}

/* Bodies that are for a worker thread, however a client spells them. */
static void test_may_see(void)
{
	enum { NO_EYES, EYES, VIDEO, N_EYES };
	static const char *const dirs[] = {[EYES] = "tests/golden/vision/gemma3",
					   [VIDEO] = "tests/golden/vision/qwen3vl"};
	static const struct {
		const char *body;
		bool sees, watches, hears; /* where the model does so */
	} rows[] = {
		{"{\"type\":\"image_url\"}", true, false, false},
		{"{\"type\":\"video\"}", false, true, false},
		{"{\"type\":\"input_audio\"}", false, false, true},
		{"{\"type\":\"input_\\u0061udio\"}", true, true, true},
		{"{\"previous_response_id\":\"resp_1\"}", true, true, true},
		{"{\"\\u00e9\\u00f6\\u0020\\u00\":\"\\u0\\u00", false, false, false},
		{"{\"text\":\"plain\"}", false, false, false},
	};
	for (int i = 0; i < 2 * N_EYES; i++) {
		char tower = 0; /* no function of it is called */
		int eyes = i / 2;
		bool has_ears = i % 2;
		struct model *m = NULL;
		struct vision *v = eyes ? open_eyes(dirs[eyes], &m) : NULL;
		const struct api_opts o = {
			.model = fixture_model(), .model_name = "a", .n_ctx = 64, .n_slots = 1,
			.clock = &clock_monotonic, .vision = v,
			.sound = has_ears ? (struct sound *)&tower : NULL};
		struct api *a = fixture_api_with(&o);
		for (size_t k = 0; k < ARRAY_LEN(rows); k++)
			is_int(api_may_see(a, str_of(rows[k].body)),
			       (eyes && rows[k].sees) || (eyes == VIDEO && rows[k].watches) ||
				       (has_ears && rows[k].hears),
			       "eyes %d, ears %d: %s", eyes, has_ears, rows[k].body);
		api_destroy(a);
		vision_destroy(v);
		model_close(m);
	}
}

static size_t n_taken; /* bytes that jansson asked for */

static void *count_malloc(size_t n)
{
	n_taken += n;
	return malloc(n);
}

/* What is dear to parse is no name, and is not parsed. */
static void test_peek_dear(void)
{
	struct buf body = {0};
	struct peek p;
	json_malloc_t take;
	json_free_t give;
	json_get_alloc_funcs(&take, &give);
	json_set_alloc_funcs(count_malloc, free);
	buf_add_z(&body, "{\"model\":[0");
	for (int i = 0; i < 10000; i++)
		buf_add_z(&body, ",0");
	buf_add_z(&body, "]");
	for (int i = 0; i < 10000; i++)
		buf_add_z(&body, ",\"model\":\"x\"");
	buf_add_z(&body, ",\"model\":\"y\"}");
	peek_body(buf_str(&body), false, &p);
	ok(str_is(buf_str(&p.model), "y"), "the last name counts");
	ok(n_taken < 1000, "and is all that was parsed, in %zu bytes", n_taken);
	peek_deinit(&p);
	json_set_alloc_funcs(take, give);
	buf_deinit(&body);
}

static void test_peek(void)
{
	static const struct {
		const char *body;
		bool takes_name;
		const char *want;
	} rows[] = {
		{"{\"model\":\"a\\u0062\"}", false, "ab"},
		{"{\"model\":[\"a\"]}", false, ""},
		{"{\"model\":\"a\",\"model\":1}", false, ""},
		{"{\"model\":\"a\",\"name\":\"b\"}", true, "a"},
		{"{\"model\":\"\",\"name\":\"b\"}", true, "b"},
		{"{\"name\":\"b\"}", false, ""},
		{"{\"messages\":[{\"model\":\"b\"}],\"model\" : \"a\" }", false, "a"},
		{"{\"x\":\"\\\\\",\"model\":\"a\"}", false, "a"},
		{"{\"x\":\"\\\"\",\"model\":\"a\"}", false, "a"},
		{"{\"x\":\"\\\\\\\",\\\"model\":\"b\",\"model\":\"a\"}", false, "a"},
		{"{\"model\":\"a\",\"x\":\"\\", false, "a"},
		{"{\"model\":\"", false, ""},
		{"{\"", false, ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peek p;
		peek_body(str_of(rows[i].body), rows[i].takes_name, &p);
		ok(str_is(buf_str(&p.model), rows[i].want), "%s names %s", rows[i].body,
		   rows[i].want);
		peek_deinit(&p);
	}
	test_peek_dear();
}

int main(void)
{
	test_list();
	test_one();
	test_version();
	test_errors();
	test_may_see();
	test_peek();
	return tap_done();
}
