/* SPDX-License-Identifier: Apache-2.0 */
#include "api/params.h"

#include "base/alloc.h"
#include "tests/unit/api/fixture.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"

static struct api_call *chat(const char *body)
{
	return fixture_call(fixture_api(), &dialect_chat, body);
}

static void test_defaults(void)
{
	struct api_call *c = chat("{" HELLO "}"), *d = chat("{" HELLO "}");
	const struct request *r = api_call_request(c);
	const struct sampler_params *s = &r->sampling;
	is_near(s->temperature, 0.6, 1e-6, "temperature of generation_config.json");
	is_near(s->top_p, 0.95, 1e-6, "top_p too");
	is_int(s->top_k, 20, "top_k too");
	is_near(s->min_p, 0, 0, "min_p off");
	is_near(s->repetition_penalty, 1, 0, "no repetition penalty");
	is_near(s->presence_penalty, 0, 0, "no presence penalty");
	is_near(s->frequency_penalty, 0, 0, "no frequency penalty");
	is_int(s->n_top_logprobs, -1, "no log-probabilities");
	is_int(s->n_bias, 0, "no bias");
	ok(s->seed != api_call_request(d)->sampling.seed, "seeds differ");
	is_int(r->n, 1, "one choice");
	is_int(r->max_tokens, 0, "as long as the context allows");
	is_int(r->min_tokens, 0, "as short as it likes");
	is_int(r->priority, 0, "no priority");
	is_int(r->parse.n_stops, 0, "no stop strings");
	is_int(r->n_stop_ids, 2, "two end tokens");
	ok(!r->ignore_eos, "which count");
	ok(r->skip_special, "special tokens have no text");
	is_int(r->arrival_us, 1000, "arrival");
	is_str(r->id, "r1", "id");
	ok(!api_call_is_stream(c), "no stream");
	fixture_drop(c);
	fixture_drop(d);

	c = fixture_call(fixture_api(), &dialect_completion, "{\"prompt\":\"a\"}");
	is_int(api_call_request(c)->max_tokens, 16, "a completion gets 16 tokens");
	fixture_drop(c);
}

/* Without a generation_config.json OpenAI's defaults hold. */
static void test_openai_defaults(void)
{
	struct model plain = *fixture_model();
	plain.defaults.temperature = plain.defaults.top_p = NAN;
	plain.defaults.top_k = -1;
	struct api *a = fixture_api_of(&plain);
	struct api_call *c = fixture_call(a, &dialect_chat, "{" HELLO "}");
	const struct sampler_params *s = &api_call_request(c)->sampling;
	is_near(s->temperature, 1, 0, "temperature");
	is_near(s->top_p, 1, 0, "top_p");
	is_int(s->top_k, 0, "top_k");
	fixture_drop(c);
	api_destroy(a);
}

static void test_values(void)
{
	struct api_call *c = chat(
		"{" HELLO ",\"temperature\":0,\"top_p\":0.5,\"top_k\":7,\"min_p\":0.1,"
		"\"repetition_penalty\":1.1,\"presence_penalty\":-2,"
		"\"frequency_penalty\":2,\"seed\":-5,\"n\":3,\"max_tokens\":9,"
		"\"min_tokens\":4,\"priority\":-1000000000,\"stop\":[\"a\",\"\xc3\xa9\"],"
		"\"logit_bias\":{\"7\":-100,\"3071\":5.5},"
		"\"stop_token_ids\":[1,2],\"user\":\"me\",\"unknown\":[1]}");
	const struct request *r = api_call_request(c);
	const struct sampler_params *s = &r->sampling;
	is_near(s->temperature, 0, 0, "temperature");
	is_near(s->top_p, 0.5, 0, "top_p");
	is_int(s->top_k, 7, "top_k");
	is_near(s->min_p, 0.1, 1e-6, "min_p");
	is_near(s->repetition_penalty, 1.1, 1e-6, "repetition_penalty");
	is_near(s->presence_penalty, -2, 0, "presence_penalty");
	is_near(s->frequency_penalty, 2, 0, "frequency_penalty");
	ok(s->seed == (uint64_t)-5, "seed");
	is_int(r->n, 3, "n");
	is_int(r->max_tokens, 9, "max_tokens");
	is_int(r->min_tokens, 4, "min_tokens");
	is_int(r->priority, -1000000000, "priority");
	is_int(r->parse.n_stops, 2, "stop");
	ok(str_is(r->parse.stops[1], "\xc3\xa9"), "its second");
	is_int(s->n_bias, 2, "logit_bias");
	is_int(s->bias[1].id, 3071, "its second id");
	is_near(s->bias[1].bias, 5.5, 0, "and bias");
	is_int(r->n_stop_ids, 4, "stop_token_ids beside the model's");
	is_int(r->stop_ids[3], 2, "its last");
	struct api_log log;
	api_call_log(c, &log);
	is_str(log.user, "me", "user");
	fixture_drop(c);
}

static void test_dry(void)
{
	struct api_call *c = chat("{" HELLO ",\"dry_multiplier\":0.8,\"dry_base\":2,"
				  "\"dry_allowed_length\":3,\"dry_penalty_last_n\":64,"
				  "\"dry_sequence_breakers\":[\"\\n\\n\"],"
				  "\"xtc_probability\":0.5,\"xtc_threshold\":0.2}");
	const struct sampler_params *s = &api_call_request(c)->sampling;
	const struct tokenizer *t = fixture_model()->tokenizer;
	is_near(s->dry.multiplier, 0.8, 1e-6, "dry_multiplier");
	is_near(s->dry.base, 2, 0, "dry_base");
	is_int(s->dry.allowed_length, 3, "dry_allowed_length");
	is_int(s->dry.last_n, 64, "dry_penalty_last_n");
	is_near(s->xtc.probability, 0.5, 0, "xtc_probability");
	is_near(s->xtc.threshold, 0.2, 1e-6, "xtc_threshold");
	int n_whole = 0, n_half = 0, n_bad = 0;
	for (int i = 0; i < s->dry.n_breakers; i++) {
		const struct sampler_breaker *b = &s->dry.breakers[i];
		struct str head = tokenizer_bytes(t, b->head);
		bool is_whole = str_find(head, STR("\n\n"), 0) >= 0;
		n_whole += is_whole && b->n_tail == 0;
		n_half += !is_whole && str_ends(head, STR("\n")) && b->n_tail == 1;
		n_bad += i > 0 && b->head < b[-1].head;
	}
	ok(n_half > 0 && n_whole + n_half == s->dry.n_breakers && n_bad == 0,
	   "the breaker's tokens: %d with all of it, %d with its half", n_whole, n_half);
	fixture_drop(c);
	c = chat("{" HELLO "}");
	s = &api_call_request(c)->sampling;
	ok(s->dry.multiplier == 0 && s->dry.n_breakers == 0 && s->xtc.probability == 0,
	   "both are off where nobody asks");
	fixture_drop(c);
}

static void test_spellings(void)
{
	struct api_call *c = chat("{" HELLO ",\"max_tokens\":9,"
				  "\"max_completion_tokens\":20,\"stop\":\"end\","
				  "\"top_k\":-1,\"top_p\":0,\"stop_token_ids\":[],"
				  "\"include_stop_str_in_output\":true,"
				  "\"skip_special_tokens\":false,"
				  "\"temperature\":null,\"ignore_eos\":true}");
	const struct request *r = api_call_request(c);
	is_int(r->max_tokens, 20, "the newer name wins");
	is_int(r->parse.n_stops, 1, "one stop string");
	ok(str_is(r->parse.stops[0], "end"), "as it is");
	ok(r->parse.include_stop, "which stays in the text");
	ok(!r->skip_special, "special tokens have text");
	is_int(r->sampling.top_k, 0, "-1 turns top_k off");
	ok(r->sampling.top_p > 0 && r->sampling.top_p < 1e-3f, "top_p 0: the best");
	is_near(r->sampling.temperature, 0.6, 1e-6, "null is the default");
	ok(r->ignore_eos, "ignore_eos");
	fixture_drop(c);

	c = chat("{" HELLO ",\"ignore_eos\":true,\"stop_token_ids\":[5]}");
	r = api_call_request(c);
	is_int(r->n_stop_ids, 1, "ignore_eos leaves the client's own ids");
	is_int(r->stop_ids[0], 5, "which");
	ok(!r->ignore_eos, "are obeyed");
	fixture_drop(c);

	c = chat("{" HELLO ",\"n\":1,\"best_of\":1,\"suffix\":\"\","
		 "\"response_format\":{\"type\":\"text\"},\"grammar\":null,"
		 "\"continue_final_message\":false}");
	is_int(api_call_request(c)->n, 1, "defaults that ask for nothing pass");
	fixture_drop(c);
}

static void test_user_is_cut(void)
{
	struct buf body = {0};
	buf_add_z(&body, "{" HELLO ",\"user\":\"x");
	for (int i = 0; i < 300; i++)
		buf_add_z(&body, "\xc3\xa9");
	buf_add_z(&body, "\"}");
	struct api_call *c = chat(body.p);
	struct api_log log;
	api_call_log(c, &log);
	is_int(strlen(log.user), 255, "at a whole character");
	fixture_drop(c);
	buf_deinit(&body);
}

static void test_server_limits(void)
{
	const struct api_opts o = {
		.model = fixture_model(),
		.model_name = "m",
		.n_ctx = 100,
		.max_output_tok = 10,
		.max_choices = 2,
		.clock = &clock_monotonic,
	};
	struct api *a;
	if (api_create(&o, &a, NULL) != OK)
		printf("Bail out!\n");
	struct api_call *c;
	struct fail fail;
	c = fixture_call(a, &dialect_chat, "{" HELLO ",\"max_tokens\":5000}");
	is_int(api_call_request(c)->max_tokens, 10, "cut to the server's bound");
	fixture_drop(c);
	c = fixture_call(a, &dialect_chat, "{" HELLO "}");
	is_int(api_call_request(c)->max_tokens, 10, "which is the default");
	fixture_drop(c);
	c = fixture_call(a, &dialect_completion, "{\"prompt\":\"a\"}");
	is_int(api_call_request(c)->max_tokens, 10, "for completions as well");
	fixture_drop(c);
	is_int(fixture_try(a, &dialect_chat, STR("{" HELLO ",\"n\":3}"), &c, &fail),
	       E_INVAL, "n beyond the server's bound");
	is_str(fail.param, "n", "by name");
	api_destroy(a);
}

/* A prompt of exactly n tokens. */
static enum status try_length(int n, const char *more, struct fail *fail)
{
	struct buf body = {0};
	buf_add_z(&body, "{\"prompt\":[");
	for (int i = 0; i < n; i++)
		buf_addf(&body, "%s5", i ? "," : "");
	buf_addf(&body, "]%s}", more);
	struct api_call *c;
	enum status st = fixture_try(fixture_api(), &dialect_completion,
				     buf_str(&body), &c, fail);
	if (st == OK)
		fixture_drop(c);
	buf_deinit(&body);
	return st;
}

static void test_context(void)
{
	struct fail fail;
	is_int(try_length(511, "", &fail), OK, "room for one token");
	is_int(try_length(512, "", &fail), E_CTX_LEN, "none");
	is_str(fail.param, "prompt", "param");
	is_int(fail.got, 512, "tokens");
	is_int(fail.limit, 512, "context");
	ok(strstr(fail.text, "512 tokens"), "says: %s", fail.text);
	is_int(try_length(500, ",\"max_tokens\":12", &fail), OK, "just fits");
	is_int(try_length(500, ",\"max_tokens\":13", &fail), E_CTX_LEN,
	       "one too many asked for");
	ok(strstr(fail.text, "500 tokens") && strstr(fail.text, "13") &&
		   strstr(fail.text, "512"),
	   "says: %s", fail.text);
	struct buf out = {0};
	api_error_format(&fail, &out);
	ok(strstr(out.p, "\"code\":\"context_length_exceeded\","
			 "\"n_prompt_tokens\":500,\"n_ctx\":512}}"),
	   "both counts: %s", out.p);
	is_int(status_http(fail.code), 400, "HTTP 400");
	buf_deinit(&out);
}

#define BAD(field, param, says) {"{" HELLO "," field "}", E_INVAL, param, says}

static void test_refused(void)
{
	static const struct refused rows[] = {
		BAD("\"temperature\":-0.1", "temperature", "between 0 and 100"),
		BAD("\"temperature\":\"1\"", "temperature", "must be a number"),
		BAD("\"temperature\":101", "temperature", "got 101"),
		BAD("\"top_p\":1.1", "top_p", "between 0 and 1"),
		BAD("\"top_p\":-1", "top_p", "between"),
		BAD("\"top_k\":-2", "top_k", "at least -1"),
		BAD("\"top_k\":1.5", "top_k", "must be an integer"),
		BAD("\"top_k\":99999999999", "top_k", "at most"),
		BAD("\"min_p\":2", "min_p", "between"),
		BAD("\"repetition_penalty\":0", "repetition_penalty", "between"),
		BAD("\"presence_penalty\":3", "presence_penalty", "between -2"),
		BAD("\"frequency_penalty\":-3", "frequency_penalty", "between -2"),
		BAD("\"dry_multiplier\":-1", "dry_multiplier", "between"),
		BAD("\"dry_penalty_last_n\":-2", "dry_penalty_last_n", "at least -1"),
		BAD("\"dry_multiplier\":1,\"dry_sequence_breakers\":[\"\"]",
		    "dry_sequence_breakers[0]", "1 to 40 bytes"),
		BAD("\"xtc_probability\":2", "xtc_probability", "between"),
		BAD("\"xtc_threshold\":\"x\"", "xtc_threshold", "a number"),
		BAD("\"frequency_penalty\":[]", "frequency_penalty", "a list"),
		BAD("\"seed\":1.5", "seed", "integer"),
		BAD("\"seed\":true", "seed", "integer"),
		BAD("\"n\":0", "n", "at least 1"),
		BAD("\"n\":9", "n", "at most 8"),
		BAD("\"max_tokens\":0", "max_tokens", "at least 1"),
		BAD("\"max_tokens\":-2", "max_tokens", "at least 1"),
		BAD("\"max_completion_tokens\":\"5\"", "max_completion_tokens",
		    "integer"),
		BAD("\"max_tokens\":5,\"min_tokens\":6", "min_tokens", "at most 5"),
		BAD("\"priority\":1000000001", "priority", "at most 1000000000"),
		BAD("\"priority\":1.5", "priority", "integer"),
		BAD("\"stop\":5", "stop", "must be a list"),
		BAD("\"stop\":[\"\"]", "stop[0]", "must not be empty"),
		BAD("\"stop\":[\"a\",\"\"]", "stop[1]", "must not be empty"),
		BAD("\"stop\":[\"a\",7]", "stop[1]", "must be a string"),
		BAD("\"stop\":[null]", "stop[0]", "required"),
		BAD("\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\","
		    "\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]",
		    "stop", "at most 16"),
		BAD("\"stop_token_ids\":[1,-1]", "stop_token_ids[1]", "at least 0"),
		BAD("\"stop_token_ids\":[3200]", "stop_token_ids[0]", "at most 3199"),
		BAD("\"stop_token_ids\":7", "stop_token_ids", "list"),
		BAD("\"logit_bias\":[]", "logit_bias", "an object"),
		BAD("\"logit_bias\":{\"x\":1}", "logit_bias.x", "token id"),
		BAD("\"logit_bias\":{\"3200\":1}", "logit_bias.3200", "0 to 3199"),
		BAD("\"logit_bias\":{\"01\":1}", "logit_bias.01", "token id"),
		BAD("\"logit_bias\":{\"-1\":1}", "logit_bias.-1", "token id"),
		BAD("\"logit_bias\":{\"99999999999\":1}", "logit_bias.99999999999",
		    "token id"),
		BAD("\"logit_bias\":{\"1\":101}", "logit_bias.1", "between -100"),
		BAD("\"logit_bias\":{\"1\":\"x\"}", "logit_bias.1", "a number"),
		BAD("\"stream\":1", "stream", "true or false"),
		BAD("\"stream_options\":{}", "stream_options", "`stream`"),
		BAD("\"stream\":true,\"stream_options\":[]", "stream_options",
		    "an object"),
		BAD("\"stream\":true,\"stream_options\":{\"include_usage\":1}",
		    "stream_options.include_usage", "true or false"),
		BAD("\"ignore_eos\":\"yes\"", "ignore_eos", "true or false"),
		BAD("\"user\":5", "user", "a string"),
		BAD("\"best_of\":4", "best_of", "not supported"),
		BAD("\"grammar\":\"root ::= x\"", "grammar", "`x` is not defined"),
		BAD("\"grammar\":5", "grammar", "a string"),
		BAD("\"response_format\":5", "response_format", "an object"),
		BAD("\"response_format\":{}", "response_format.type", ""),
		BAD("\"response_format\":{\"type\":\"xml\"}",
		    "response_format.type", "json_schema"),
		BAD("\"response_format\":{\"type\":\"json_schema\"}",
		    "response_format.json_schema", ""),
		BAD("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
		    "{\"name\":\"x\"}}", "response_format.json_schema.schema", ""),
		BAD("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":"
		    "{\"schema\":{\"properties\":{\"a\":{\"multipleOf\":0}}}}}",
		    "response_format.json_schema.schema.properties.a.multipleOf",
		    "no step"),
		BAD("\"guided_json\":\"{\"", "guided_json", "JSON schema"),
		BAD("\"guided_json\":\"{\\\"minLength\\\":-1}\"", "guided_json.minLength",
		    "at least"),
		BAD("\"guided_regex\":\"(\"", "guided_regex", "not closed"),
		BAD("\"guided_choice\":[]", "guided_choice", "at least one"),
		BAD("\"guided_choice\":[\"a\",1]", "guided_choice[1]", "a string"),
		BAD("\"guided_grammar\":\"root = 1\"", "guided_grammar", "line 1"),
		BAD("\"structured_outputs\":{\"regex\":\"a**+\"}",
		    "structured_outputs.regex", ""),
		BAD("\"structured_outputs\":{\"structural_tag\":{}}",
		    "structured_outputs.structural_tag", "not supported"),
		BAD("\"structured_outputs\":[]", "structured_outputs", "an object"),
		BAD("\"guided_regex\":\"a\",\"guided_choice\":[\"a\"]",
		    "guided_choice", "second way"),
		BAD("\"functions\":[{}]", "functions", "use `tools`"),
		{"{" HELLO ",\"model\":\"gpt-5\"}", E_MODEL, "model",
		 "`gpt-5` is not served here: this is `halo-tiny`"},
		{"{" HELLO ",\"model\":5}", E_INVAL, "model", "a string"},
		{"{" HELLO, E_JSON, "", "line 1"},
		{"[]", E_INVAL, "", "JSON object"},
	};
	fixture_check_refused(fixture_api(), &dialect_chat, rows, ARRAY_LEN(rows));
}

static void test_names(void)
{
	static const char *const names[] = {"halo-tiny", "gpt-tiny", "default"};
	char body[200];
	for (int i = 0; i < 3; i++) {
		snprintf(body, sizeof body, "{" HELLO ",\"model\":\"%s\"}",
			 names[i]);
		struct api_call *c = chat(body);
		ok(c != NULL, "answers to %s", names[i]);
		fixture_drop(c);
	}
}

static void test_made_id(void)
{
	const struct api_input in = {.dialect = &dialect_chat, .body = STR("{" HELLO "}")};
	struct api_call *c, *d;
	struct fail fail;
	is_int(api_call_create(fixture_api(), &in, &c, &fail), OK, "no request id");
	is_int(api_call_create(fixture_api(), &in, &d, &fail), OK, "and again");
	is_int(strlen(api_call_request(c)->id), 32, "one is made");
	ok(strcmp(api_call_request(c)->id, api_call_request(d)->id) != 0,
	   "a new one each time");
	fixture_drop(c);
	fixture_drop(d);
}

int main(void)
{
	test_defaults();
	test_openai_defaults();
	test_values();
	test_dry();
	test_spellings();
	test_user_is_cut();
	test_server_limits();
	test_context();
	test_refused();
	test_names();
	test_made_id();
	return tap_done();
}
