/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/api/fixture.h"

static void check(api_text_fn fn, const char *body, const char *want)
{
	struct buf out = {0};
	struct fail fail = {0};
	enum status st = fn(fixture_api(), &(struct api_input){.body = str_of(body)}, &out, &fail);
	buf_add_c(&out, '\0');
	is_str(st == OK ? out.p : fail.text, want, "%s", body);
	buf_deinit(&out);
}

static void check_refused(api_text_fn fn, const char *body, enum status want,
			  const char *param)
{
	struct buf out = {0};
	struct fail fail = {0};
	enum status st = fn(fixture_api(), &(struct api_input){.body = str_of(body)}, &out, &fail);
	ok(st == want && strcmp(fail.param, param) == 0 && out.n == 0,
	   "refused: %.60s", body);
	if (st != want)
		printf("# %s [%s] %s\n", status_name(st), fail.param, fail.text);
	buf_deinit(&out);
}

/* The ids that a body gives, to be compared. */
static json_t *ids_of(const char *body)
{
	struct buf out = {0};
	struct fail fail = {0};
	const struct api_input in = {.body = str_of(body)};
	if (api_tokenize(fixture_api(), &in, &out, &fail) != OK)
		printf("# %s\n", fail.text);
	json_t *all = json_loadb(out.p ? out.p : "", out.n, 0, NULL);
	json_t *ids = json_incref(json_object_get(all, "tokens"));
	is_int(json_integer_value(json_object_get(all, "count")),
	       (long long)json_array_size(ids), "count: %.60s", body);
	json_decref(all);
	buf_deinit(&out);
	return ids;
}

static void test_tokenize(void)
{
	json_t *llama = ids_of("{\"content\":\"hi <|im_end|>\"}");
	json_t *vllm = ids_of("{\"model\":\"halo-tiny\",\"prompt\":\"hi <|im_end|>\"}");
	json_t *plain =
		ids_of("{\"content\":\"hi <|im_end|>\",\"parse_special\":false}");
	ok(json_equal(llama, vllm) && json_array_size(llama) > 1,
	   "both spellings, one answer");
	ok(json_array_size(plain) > json_array_size(llama),
	   "without parse_special a control token is letters");
	json_decref(llama);
	json_decref(vllm);
	json_decref(plain);
	check(api_tokenize, "{\"content\":\"\"}",
	      "{\"count\":0,\"max_model_len\":512,\"tokens\":[],"
	      "\"token_strs\":null}");
	check(api_tokenize, "{\"prompt\":\"\",\"return_token_strs\":true}",
	      "{\"count\":0,\"max_model_len\":512,\"tokens\":[],"
	      "\"token_strs\":[]}");
	check(api_tokenize, "{\"content\":\"a\\u00e9\",\"with_pieces\":true}",
	      "{\"count\":3,\"max_model_len\":512,\"tokens\":["
	      "{\"id\":64,\"piece\":\"a\"},{\"id\":127,\"piece\":[195]},"
	      "{\"id\":102,\"piece\":[169]}],\"token_strs\":null}");
	check(api_tokenize, "{\"prompt\":\"a b\",\"return_token_strs\":true}",
	      "{\"count\":2,\"max_model_len\":512,\"tokens\":[64,304],"
	      "\"token_strs\":[\"a\",\" b\"]}");
	check_refused(api_tokenize, "{}", E_INVAL, "content");
	check_refused(api_tokenize, "{\"prompt\":7}", E_INVAL, "prompt");
	check_refused(api_tokenize, "{\"content\":\"x\",\"add_special\":\"no\"}",
		      E_INVAL, "add_special");
	check_refused(api_tokenize, "{\"messages\":[]}", E_INVAL, "messages");
	check_refused(api_tokenize, "[", E_JSON, "");
}

static void test_chat(void)
{
	const char *chat = "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, chat);
	const struct ids *want = &api_call_request(c)->prompts[0];
	json_t *got = ids_of(chat);
	bool is_same = json_array_size(got) == want->n;
	for (size_t i = 0; is_same && i < want->n; i++)
		is_same = json_integer_value(json_array_get(got, i)) == want->p[i];
	ok(is_same, "messages give the ids of the chat call");
	json_decref(got);
	fixture_drop(c);
	check(api_apply_template, chat,
	      "{\"prompt\":\"<|im_start|>user\\nhi<|im_end|>\\n"
	      "<|im_start|>assistant\\n\"}");
	check_refused(api_apply_template, "{\"prompt\":\"hi\"}", E_INVAL, "messages");
	check_refused(api_apply_template,
		      "{\"messages\":[{\"role\":\"cat\",\"content\":\"\"}]}", E_INVAL,
		      "messages[0].role");
}

static void test_detokenize(void)
{
	json_t *ids = ids_of("{\"content\":\"One \\u00e9 <|im_end|>\"}");
	json_t *body = json_pack("{so}", "tokens", ids);
	char *text = json_dumps(body, 0);
	check(api_detokenize, text,
	      "{\"content\":\"One \xc3\xa9 <|im_end|>\","
	      "\"prompt\":\"One \xc3\xa9 <|im_end|>\"}");
	free(text);
	json_decref(body);
	check(api_detokenize, "{\"tokens\":[]}", "{\"content\":\"\",\"prompt\":\"\"}");
	check_refused(api_detokenize, "{}", E_INVAL, "tokens");
	check_refused(api_detokenize, "{\"tokens\":[0,-1]}", E_INVAL, "tokens[1]");
	check_refused(api_detokenize, "{\"tokens\":[99999999]}", E_INVAL,
		      "tokens[0]");
	check_refused(api_detokenize, "{\"tokens\":[\"a\"]}", E_INVAL, "tokens[0]");
}

static void test_props(void)
{
	struct buf b = {0};
	const struct api_slot running[] = {
		{.id = "r\"1", .progress = {.is_started = true, .n_prompt = 40, .n_cached = 16,
					    .n_prefilled = 40, .n_output = 3}},
		{.progress = {.is_started = true, .n_prompt = 9}},
		{.id = "beyond the last slot"}};
	api_slots_format(fixture_api(), running, 3, &b);
	buf_add_c(&b, '\0');
	is_str(b.p,
	       "[{\"id\":0,\"n_ctx\":512,\"speculative\":false,\"is_processing\":true,"
	       "\"request\":\"r\\\"1\",\"state\":\"decode\",\"n_prompt_tokens\":40,"
	       "\"n_prompt_tokens_cache\":16,\"n_prompt_tokens_processed\":40,"
	       "\"next_token\":[{\"has_next_token\":true,\"n_decoded\":3}]},"
	       "{\"id\":1,\"n_ctx\":512,\"speculative\":false,"
	       "\"is_processing\":true}]",
	       "slots: one's own, and another's");
	buf_clear(&b);
	api_slots_format(fixture_api(), running + 1, 1, &b);
	buf_add_c(&b, '\0');
	is_str(b.p,
	       "[{\"id\":0,\"n_ctx\":512,\"speculative\":false,"
	       "\"is_processing\":true},"
	       "{\"id\":1,\"n_ctx\":512,\"speculative\":false,"
	       "\"is_processing\":false}]",
	       "slots");
	buf_clear(&b);
	const struct api_row row = {.name = "m", .state = "loaded"};
	api_props_format(fixture_api(), &row, 1, &b);
	json_t *props = json_loadb(b.p, b.n, 0, NULL);
	is_int(json_integer_value(json_object_get(props, "total_slots")), 2, "props");
	is_str(json_string_value(json_object_get(props, "chat_template")),
	       fixture_model()->chat_template, "the template");
	json_decref(props);
	buf_deinit(&b);
}

/* More than a million tokens, and what may be asked of them. */
static void test_many(void)
{
	size_t n = (1u << 20) + 1;
	struct buf body = {0}, out = {0};
	struct fail fail = {0};
	buf_add_z(&body, "{\"content\":\"");
	for (size_t i = 0; i < n; i++)
		buf_add_z(&body, "<|im_end|>");
	buf_add_z(&body, "\"");
	size_t end = body.n;
	buf_add_c(&body, '}');
	struct api_input in = {.body = buf_str(&body)};
	is_int(api_tokenize(fixture_api(), &in, &out, &fail), OK,
	       "many tokens: %s", fail.text);
	const char *more[] = {",\"with_pieces\":true}", ",\"return_token_strs\":true}"};
	for (int i = 0; i < 2; i++) {
		body.n = end;
		buf_add_z(&body, more[i]);
		buf_clear(&out);
		in.body = buf_str(&body);
		is_int(api_tokenize(fixture_api(), &in, &out, &fail), E_LIMIT,
		       "not with the text of each");
		is_int((long)out.n, 0, "and nothing is written");
	}
	buf_deinit(&body);
	buf_deinit(&out);
}

int main(void)
{
	test_many();
	test_tokenize();
	test_chat();
	test_detokenize();
	test_props();
	return tap_done();
}
