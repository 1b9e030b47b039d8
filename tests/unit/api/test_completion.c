/* SPDX-License-Identifier: Apache-2.0 */
#include "api/completion.h"

#include "base/alloc.h"
#include "model/tokenizer_hf.h"
#include "tests/unit/api/fixture.h"

static struct api_call *completion(const char *body)
{
	return fixture_call(fixture_api(), &dialect_completion, body);
}

static void is_prompt(const struct request *r, int i, const int32_t *want, size_t n,
		      const char *fact)
{
	ok(r->prompts[i].n == n &&
		   memcmp(r->prompts[i].p, want, n * sizeof *want) == 0,
	   "%s", fact);
}

static void test_spellings(void)
{
	static const int32_t control[] = {3064, 285, 198};
	struct api_call *c =
		completion("{\"prompt\":\"<|im_start|>user\\n\",\"model\":null}");
	const struct request *r = api_call_request(c);
	is_int(r->n_prompts, 1, "a string is one prompt");
	is_prompt(r, 0, control, 3, "control tokens are the caller's to write");
	ok(!r->parse.split_reasoning, "nothing is split off the answer");
	fixture_drop(c);

	c = completion("{\"prompt\":[3064,285,198]}");
	r = api_call_request(c);
	is_int(r->n_prompts, 1, "a list of ids is one prompt");
	is_prompt(r, 0, control, 3, "those ids");
	fixture_drop(c);

	c = completion("{\"prompt\":[\"<|im_start|>\",[285,198],\"user\"],\"n\":2}");
	r = api_call_request(c);
	is_int(r->n_prompts, 3, "a list of strings and lists is as many prompts");
	is_int(r->n, 2, "two choices each");
	is_prompt(r, 0, control, 1, "a string");
	is_prompt(r, 1, control + 1, 2, "ids");
	is_prompt(r, 2, control + 1, 1, "a string");
	struct api_log log;
	api_call_log(c, &log);
	is_int(log.n_choices, 6, "six choices in all");
	fixture_drop(c);
}

/* halo-tiny, were it a llama: its tokenizer puts a token in front of a text. */
static void test_bos(void)
{
	struct fail fail;
	json_t *file = json_load_file(tap_src("models/halo-tiny/tokenizer.json"), 0, NULL);
	json_object_set_new(file, "post_processor", json_pack(
		"{s:s, s:[{s:{s:s}}, {s:{s:s}}], s:{s:{s:[i]}}}", "type",
		"TemplateProcessing", "single", "SpecialToken", "id", "B", "Sequence", "id",
		"A", "special_tokens", "B", "ids", 3063));
	char *text = json_dumps(file, 0);
	json_decref(file);
	struct model m = *fixture_model();
	if (!ok(tokenizer_hf_parse(str_of(text), "test", &m.tokenizer, &fail) == OK,
		"a tokenizer with a bos"))
		printf("# %s\n", fail.text);
	free(text);
	struct api *a = fixture_api_of(&m);
	static const int32_t raw[] = {3063, 285, 198}, given[] = {285};
	struct api_call *c = fixture_call(a, &dialect_completion, "{\"prompt\":\"user\\n\"}");
	is_prompt(api_call_request(c), 0, raw, 3, "a raw prompt gets it");
	fixture_drop(c);
	c = fixture_call(a, &dialect_completion, "{\"prompt\":[285]}");
	is_prompt(api_call_request(c), 0, given, 1, "ids are taken as they are");
	fixture_drop(c);
	c = fixture_call(a, &dialect_chat,
			 "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}");
	is_int(api_call_request(c)->prompts[0].p[0], 3064,
	       "a chat template writes its own");
	fixture_drop(c);
	api_destroy(a);
	tokenizer_destroy(m.tokenizer);
}

static void test_echo(void)
{
	struct api_call *c = completion(
		"{\"prompt\":[\"One \xf0\x9f\xa6\x8a\",[3064,285]],\"echo\":true}");
	struct event e = {.kind = EVENT_CHOICE_DONE, .finish = FINISH_STOP};
	for (e.choice = 0; e.choice < 2; e.choice++)
		free(fixture_event(c, &e));
	struct event done = {.kind = EVENT_DONE};
	char *got = fixture_event(c, &done);
	ok(strstr(got, "{\"index\":0,\"text\":\"One \xf0\x9f\xa6\x8a\"") &&
		   strstr(got, "{\"index\":1,\"text\":\"<|im_start|>user\""),
	   "each prompt before its answer");
	free(got);
	fixture_drop(c);
}

static void test_refused(void)
{
	static const struct refused rows[] = {
		{"{}", E_INVAL, "prompt", "required"},
		{"{\"prompt\":null}", E_INVAL, "prompt", "required"},
		{"{\"prompt\":5}", E_INVAL, "prompt", "a string or a list"},
		{"{\"prompt\":\"\"}", E_INVAL, "prompt", "must not be empty"},
		{"{\"prompt\":[]}", E_INVAL, "prompt", "must not be empty"},
		{"{\"prompt\":[\"a\",\"\"]}", E_INVAL, "prompt[1]",
		 "must not be empty"},
		{"{\"prompt\":[[1],[]]}", E_INVAL, "prompt[1]",
		 "must not be empty"},
		{"{\"prompt\":[[1,2],[3,\"x\"]]}", E_INVAL, "prompt[1][1]",
		 "an integer"},
		{"{\"prompt\":[1,\"x\"]}", E_INVAL, "prompt[1]", "an integer"},
		{"{\"prompt\":[1,null]}", E_INVAL, "prompt[1]", "required"},
		{"{\"prompt\":[\"a\",5]}", E_INVAL, "prompt[1]", "a string"},
		{"{\"prompt\":[3200]}", E_INVAL, "prompt[0]", "at most 3199"},
		{"{\"prompt\":[-1]}", E_INVAL, "prompt[0]", "at least 0"},
		{"{\"prompt\":[{}]}", E_INVAL, "prompt[0]", "a string"},
		{"{\"prompt\":\"a\",\"suffix\":\"b\"}", E_INVAL, "suffix",
		 "not supported"},
		{"{\"prompt\":\"a\",\"logprobs\":21}", E_INVAL, "logprobs",
		 "at most 20"},
		{"{\"prompt\":\"a\",\"logprobs\":true}", E_INVAL, "logprobs",
		 "an integer"},
		{"{\"prompt\":\"a\",\"echo\":1}", E_INVAL, "echo",
		 "true or false"},
		{"{\"prompt\":\"a\",\"max_tokens\":0}", E_INVAL, "max_tokens",
		 "echoed"},
		{"{\"prompt\":\"a\",\"stream\":true,\"prompt_logprobs\":1}", E_INVAL,
		 "prompt_logprobs", "`stream`"},
	};
	fixture_check_refused(fixture_api(), &dialect_completion, rows,
			      ARRAY_LEN(rows));
}

static void test_many(void)
{
	struct buf body = {0};
	buf_add_z(&body, "{\"n\":8,\"prompt\":[\"a\"");
	for (int i = 1; i < 17; i++)
		buf_add_z(&body, ",\"a\"");
	buf_add_z(&body, "]}");
	const struct refused row = {body.p, E_INVAL, "prompt", "at most 16"};
	fixture_check_refused(fixture_api(), &dialect_completion, &row, 1);
	buf_deinit(&body);
}

int main(void)
{
	test_spellings();
	test_bos();
	test_echo();
	test_refused();
	test_many();
	return tap_done();
}
