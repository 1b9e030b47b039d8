/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/api/fixture.h"

#define USER "\"max_tokens\":9,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
#define HEAD \
	"{\"id\":\"msg_r1\",\"type\":\"message\",\"role\":\"assistant\"," \
	"\"model\":\"halo-tiny\",\"content\":["
#define USAGE(out) \
	"\"usage\":{\"input_tokens\":6,\"cache_creation_input_tokens\":0," \
	"\"cache_read_input_tokens\":4,\"output_tokens\":" out "}"
#define EVENT(name) "event: " name "\ndata: {\"type\":\"" name "\""
#define DELTA(i, kind, key, text) \
	EVENT("content_block_delta") ",\"index\":" i ",\"delta\":{\"type\":\"" kind \
	"\",\"" key "\":\"" text "\"}}\n\n"
#define STOP(i) EVENT("content_block_stop") ",\"index\":" i "}\n\n"

static const struct request_stats at_start = {.n_prompt = 10, .n_cached = 4};
static const struct request_stats at_end = {
	.n_prompt = 10, .n_cached = 4, .n_output = 11, .n_reasoning = 3};

/* --- answers ---------------------------------------------------------------------- */

static void expect(struct api_call *c, const struct event *e, const char *want,
		   const char *fact)
{
	char *got = fixture_event(c, e);
	is_str(got, want, "%s", fact);
	free(got);
}

static void expect_text(struct api_call *c, enum out_channel channel,
			const char *text, const char *want, const char *fact)
{
	struct fixture_text t;
	expect(c, fixture_text(&t, channel, text), want, fact);
}

static const struct event started = {.kind = EVENT_STARTED, .stats = at_start};
static const struct event done = {.kind = EVENT_DONE, .stats = at_end};

static void expect_end(struct api_call *c, enum finish finish, const char *stop)
{
	struct event e = {.kind = EVENT_CHOICE_DONE, .finish = finish,
			  .stop_string = stop};
	expect(c, &e, "", "nothing at the end of the text");
}

static void test_stream(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" USER ",\"stream\":true}");
	expect(c, &started,
	       EVENT("message_start") ",\"message\":" HEAD
	       "],\"stop_reason\":null,\"stop_sequence\":null," USAGE("0") "}}\n\n",
	       "message_start");
	expect_text(c, OUT_REASONING, "", "", "nothing for a token without text");
	expect_text(c, OUT_REASONING, "Hm \"x\"",
		    EVENT("content_block_start")
		    ",\"index\":0,\"content_block\":{\"type\":\"thinking\","
		    "\"thinking\":\"\",\"signature\":\"\"}}\n\n"
		    DELTA("0", "thinking_delta", "thinking", "Hm \\\"x\\\""),
		    "thinking begins");
	expect_text(c, OUT_REASONING, ".",
		    DELTA("0", "thinking_delta", "thinking", "."), "and goes on");
	expect_text(c, OUT_CONTENT, "A",
		    DELTA("0", "signature_delta", "signature", "halod")
		    STOP("0") EVENT("content_block_start")
		    ",\"index\":1,\"content_block\":{\"type\":\"text\","
		    "\"text\":\"\"}}\n\n" DELTA("1", "text_delta", "text", "A"),
		    "text in a block of its own");
	expect_end(c, FINISH_STOP, NULL);
	expect(c, &done,
	       STOP("1") EVENT("message_delta")
	       ",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},"
	       USAGE("11") "}\n\n" EVENT("message_stop") "}\n\n",
	       "the end");
	ok(api_call_is_done(c) && api_call_status(c) == OK, "done");
	fixture_drop(c);
}

/* Thoughts that end the answer are signed, too. */
static void test_cut_thoughts(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" USER ",\"stream\":true}");
	free(fixture_event(c, &started));
	expect_text(c, OUT_REASONING, "Hm",
		    EVENT("content_block_start")
		    ",\"index\":0,\"content_block\":{\"type\":\"thinking\","
		    "\"thinking\":\"\",\"signature\":\"\"}}\n\n"
		    DELTA("0", "thinking_delta", "thinking", "Hm"), "thinking");
	expect_end(c, FINISH_LENGTH, NULL);
	expect(c, &done,
	       DELTA("0", "signature_delta", "signature", "halod") STOP("0")
	       EVENT("message_delta")
	       ",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},"
	       USAGE("11") "}\n\n" EVENT("message_stop") "}\n\n",
	       "a signature before the end");
	fixture_drop(c);
}

static void test_empty_stream(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" USER ",\"stream\":true}");
	free(fixture_event(c, &started));
	expect_end(c, FINISH_LENGTH, NULL);
	expect(c, &done,
	       EVENT("message_delta")
	       ",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},"
	       USAGE("11") "}\n\n" EVENT("message_stop") "}\n\n",
	       "an answer without text has no block");
	fixture_drop(c);
}

static void test_whole(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic, "{" USER "}");
	expect(c, &started, "", "not a stream: nothing yet");
	expect_text(c, OUT_REASONING, "Hm", "", "nothing yet");
	expect_text(c, OUT_CONTENT, "A", "", "nothing yet");
	expect_text(c, OUT_CONTENT, "B", "", "nothing yet");
	expect_end(c, FINISH_STOP, "END");
	expect(c, &done,
	       HEAD "{\"type\":\"thinking\",\"thinking\":\"Hm\",\"signature\":\"halod\"},"
	       "{\"type\":\"text\",\"text\":\"AB\"}],"
	       "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\","
	       USAGE("11") "}",
	       "the whole message");
	fixture_drop(c);
}

/* The random part of a call's id becomes C. */
static void expect_calls(struct api_call *c, const struct event *e,
			 const char *want, const char *fact)
{
	char *got = fixture_event(c, e);
	struct buf clean = {0};
	for (char *p = got; *p;) {
		bool is_id = strncmp(p, "\"call_", 6) == 0;
		buf_add(&clean, p, is_id ? 6 : 1);
		p += is_id ? 6 : 1;
		if (is_id) {
			buf_add_c(&clean, 'C');
			p += 24;
		}
	}
	buf_add_c(&clean, '\0');
	is_str(clean.p, want, "%s", fact);
	buf_deinit(&clean);
	free(got);
}

#define TOOLS \
	"\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],"

static void test_calls(void)
{
	struct event delta = {.kind = EVENT_DELTA, .spans = fixture_call_spans, .n_spans = 8};
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" TOOLS USER "}");
	expect(c, &delta, "", "not a stream: nothing yet");
	expect_end(c, FINISH_STOP, NULL);
	expect_calls(c, &done,
		     HEAD "{\"type\":\"text\",\"text\":\"A\"},{\"type\":\"tool_use\","
		     "\"id\":\"call_C\",\"name\":\"f\",\"input\":{\"x\":1}},"
		     "{\"type\":\"text\",\"text\":\"<g\"}],"
		     "\"stop_reason\":\"tool_use\",\"stop_sequence\":null,"
		     USAGE("11") "}",
		     "a call is a block, a broken one is text");
	fixture_drop(c);
	c = fixture_call(fixture_api(), &dialect_anthropic,
			 "{" TOOLS USER ",\"stream\":true}");
	free(fixture_event(c, &started));
	delta.n_spans = 5;
	expect_calls(c, &delta,
		     EVENT("content_block_start") ",\"index\":0,\"content_block\":"
		     "{\"type\":\"text\",\"text\":\"\"}}\n\n"
		     DELTA("0", "text_delta", "text", "A") STOP("0")
		     EVENT("content_block_start") ",\"index\":1,\"content_block\":"
		     "{\"type\":\"tool_use\",\"id\":\"call_C\",\"name\":\"f\","
		     "\"input\":{}}}\n\n"
		     DELTA("1", "input_json_delta", "partial_json", "{\\\"x\\\":")
		     DELTA("1", "input_json_delta", "partial_json", "1}"),
		     "a stream of one");
	expect_end(c, FINISH_STOP, NULL);
	expect(c, &done,
	       STOP("1") EVENT("message_delta")
	       ",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":null},"
	       USAGE("11") "}\n\n" EVENT("message_stop") "}\n\n",
	       "its end");
	fixture_drop(c);
}

/* In the whole form the input must be an object: one that max_tokens cut off is closed. */
static void test_cut(void)
{
	static struct event_span spans[] = {
		{OUT_CALL_NAME, {"f", 1}},
		{OUT_CALL_ARGS, {"{\"x\":[\"a", 8}},
		{OUT_CALL_CUT, {"<tool_call>", 11}},
	};
	struct event delta = {.kind = EVENT_DELTA, .spans = spans, .n_spans = 3};
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" TOOLS USER "}");
	expect(c, &delta, "", "cut: nothing yet");
	expect_end(c, FINISH_LENGTH, NULL);
	expect_calls(c, &done,
		     HEAD "{\"type\":\"tool_use\",\"id\":\"call_C\",\"name\":\"f\","
		     "\"input\":{\"x\":[\"a\"]}}],"
		     "\"stop_reason\":\"max_tokens\",\"stop_sequence\":null,"
		     USAGE("11") "}",
		     "a call that max_tokens cut");
	fixture_drop(c);
	c = fixture_call(fixture_api(), &dialect_anthropic,
			 "{" TOOLS USER ",\"stream\":true}");
	free(fixture_event(c, &started));
	expect_calls(c, &delta,
		     EVENT("content_block_start") ",\"index\":0,\"content_block\":"
		     "{\"type\":\"tool_use\",\"id\":\"call_C\",\"name\":\"f\","
		     "\"input\":{}}}\n\n"
		     DELTA("0", "input_json_delta", "partial_json", "{\\\"x\\\":[\\\"a"),
		     "and in a stream");
	expect_end(c, FINISH_LENGTH, NULL);
	expect(c, &done,
	       STOP("0") EVENT("message_delta")
	       ",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},"
	       USAGE("11") "}\n\n" EVENT("message_stop") "}\n\n",
	       "its end");
	fixture_drop(c);
}

static void test_failed(void)
{
	struct event failed = {.kind = EVENT_FAILED};
	fail_set(&failed.fail, E_BACKEND, "it broke");
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic,
					  "{" USER ",\"stream\":true}");
	free(fixture_event(c, &started));
	expect(c, &failed,
	       "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":"
	       "\"api_error\",\"message\":\"it broke\"}}\n\n",
	       "a failure in the middle");
	ok(api_call_is_done(c) && api_call_status(c) == E_BACKEND, "its status");
	fixture_drop(c);
}

static void check_error(enum status code, const char *want)
{
	struct buf b = {0};
	struct fail f = {.code = code, .text = "no", .got = 700, .limit = 512};
	api_error_format_anthropic(&f, &b);
	ok(str_find(buf_str(&b), str_of(want), 0) > 0, "%s: %s", status_name(code),
	   want);
	buf_deinit(&b);
}

static void test_errors(void)
{
	check_error(E_INVAL, "\"invalid_request_error\",\"message\":\"no\"");
	check_error(E_AUTH, "authentication_error");
	check_error(E_MODEL, "not_found_error");
	check_error(E_TOO_LARGE, "request_too_large");
	check_error(E_QUEUE_FULL, "rate_limit_error");
	check_error(E_LOADING, "overloaded_error");
	check_error(E_INTERNAL, "api_error");
	check_error(E_CTX_LEN, "\"prompt is too long: 700 tokens > 512 maximum\"");
}

/* --- bodies ------------------------------------------------------------------------- */

static void check_same(const char *body, const char *chat, const char *fact)
{
	fixture_check_same(&dialect_anthropic, body, chat, fact);
}

static void test_prompts(void)
{
	check_same("{" USER "}",
		   "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}", "text");
	check_same("{\"system\":\"be kind\"," USER "}",
		   "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
		   "{\"role\":\"user\",\"content\":\"hello\"}]}", "a system prompt");
	check_same("{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header:"
		   " cc_version=1; cch=a1\"},{\"type\":\"text\",\"text\":\"be\","
		   "\"cache_control\":{\"type\":\"ephemeral\"}},"
		   "{\"type\":\"text\",\"text\":\"kind\"}]," USER "}",
		   "{\"messages\":[{\"role\":\"system\",\"content\":\"be\\nkind\"},"
		   "{\"role\":\"user\",\"content\":\"hello\"}]}",
		   "blocks, without the billing header");
	check_same("{\"system\":\"x-anthropic-billing-header: y\\nbe kind\"," USER "}",
		   "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
		   "{\"role\":\"user\",\"content\":\"hello\"}]}", "the same in a string");
	check_same("{\"system\":\"x-anthropic-billing-header: y\"," USER "}",
		   "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}",
		   "nothing but the header");
	check_same(
		"{\"max_tokens\":9,\"tools\":[{\"name\":\"f\",\"description\":\"d\","
		"\"input_schema\":{\"type\":\"object\"}},"
		"{\"type\":\"web_search_20250305\",\"name\":\"web_search\"}],"
		"\"messages\":[{\"role\":\"user\",\"content\":["
		"{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
		"{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
		"\"thinking\":\"hm\",\"signature\":\"\"},{\"type\":\"text\","
		"\"text\":\"yes\"},{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\","
		"\"input\":{\"x\":1}}]},"
		"{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
		"\"tool_use_id\":\"t1\",\"content\":[{\"type\":\"text\","
		"\"text\":\"42\"}]},{\"type\":\"text\",\"text\":\"so?\"}]}]}",
		"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
		"\"description\":\"d\",\"parameters\":{\"type\":\"object\"}}}],"
		"\"messages\":[{\"role\":\"user\",\"content\":\"a\\nb\"},"
		"{\"role\":\"assistant\",\"content\":\"yes\",\"reasoning_content\":\"hm\","
		"\"tool_calls\":[{\"id\":\"t1\",\"type\":\"function\",\"function\":"
		"{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},"
		"{\"role\":\"tool\",\"content\":\"42\",\"tool_call_id\":\"t1\"},"
		"{\"role\":\"user\",\"content\":\"so?\"}]}",
		"blocks of a whole conversation with tools");
	check_same("{\"max_tokens\":9,\"system\":\"be kind\",\"messages\":[{\"role\":\"user\","
		   "\"content\":\"hello\"},{\"role\":\"system\",\"content\":"
		   "[{\"type\":\"text\",\"text\":\"brief\"}]},{\"role\":\"system\","
		   "\"content\":\"\"},{\"role\":\"user\",\"content\":\"so?\"}]}",
		   "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
		   "{\"role\":\"user\",\"content\":\"hello\"},{\"role\":\"system\","
		   "\"content\":\"brief\"},{\"role\":\"user\",\"content\":\"so?\"}]}",
		   "a system message in the middle");
	check_same("{\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
		   "\"content\":\"hello\"},{\"role\":\"assistant\",\"content\":"
		   "[{\"type\":\"text\",\"text\":\"Well, \"}]}]}",
		   "{\"continue_final_message\":true,\"messages\":["
		   "{\"role\":\"user\",\"content\":\"hello\"},"
		   "{\"role\":\"assistant\",\"content\":\"Well, \"}]}",
		   "an answer that the client began");
	check_same("{\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
		   "\"content\":\"hello\"},{\"role\":\"assistant\",\"content\":["
		   "{\"type\":\"text\",\"text\":\"a\"},"
		   "{\"type\":\"server_tool_use\",\"id\":\"t1\",\"name\":\"web_search\","
		   "\"input\":{\"q\":1}},{\"type\":\"web_search_tool_result\","
		   "\"tool_use_id\":\"t1\",\"content\":[{\"title\":\"T\","
		   "\"encrypted_content\":\"zz\"}]},{\"type\":\"text\",\"text\":\"b\"}]},"
		   "{\"role\":\"user\",\"content\":\"so?\"}]}",
		   "{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"},"
		   "{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":["
		   "{\"id\":\"t1\",\"type\":\"function\",\"function\":{\"name\":"
		   "\"web_search\",\"arguments\":{\"q\":1}}}]},"
		   "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":"
		   "\"[{\\\"title\\\": \\\"T\\\"}]\"},"
		   "{\"role\":\"assistant\",\"content\":\"b\"},"
		   "{\"role\":\"user\",\"content\":\"so?\"}]}",
		   "what Anthropic's own tools did");
	check_same("{\"thinking\":{\"type\":\"disabled\"}," USER "}",
		   "{\"enable_thinking\":false,"
		   "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}",
		   "no thinking");
}

static void test_params(void)
{
	struct api_call *c = fixture_call(
		fixture_api(), &dialect_anthropic,
		"{" USER ",\"temperature\":0.5,\"top_k\":3,\"top_p\":0.5,\"stream\":true,"
		"\"stop_sequences\":[\"A\",\"B\"],\"metadata\":{\"user_id\":\"u1\"},"
		"\"service_tier\":\"auto\"}");
	const struct request *r = api_call_request(c);
	struct api_log log;
	api_call_log(c, &log);
	is_near(r->sampling.temperature, 0.5, 1e-6, "temperature");
	is_int(r->sampling.top_k, 3, "top_k");
	is_int(r->max_tokens, 9, "max_tokens");
	ok(r->parse.n_stops == 2 && str_is(r->parse.stops[1], "B"), "stop_sequences");
	ok(api_call_is_stream(c) && strcmp(log.user, "u1") == 0, "stream, user_id");
	fixture_drop(c);
	c = fixture_call(fixture_api(), &dialect_anthropic,
			 "{\"max_tokens\":32000,\"messages\":[{\"role\":\"user\","
			 "\"content\":\"hello\"}]}");
	r = api_call_request(c);
	is_int(r->max_tokens, 512 - (int)r->prompts[0].n,
	       "more max_tokens than there is room for is cut");
	fixture_drop(c);
}

#define M(content) "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\"," \
		   "\"content\":" content "}]}"
static const struct refused rows[] = {
	{"{", E_JSON, "", ""},
	{"{\"messages\":[]}", E_INVAL, "max_tokens", "required"},
	{"{\"max_tokens\":1}", E_INVAL, "messages", "required"},
	{"{\"max_tokens\":1,\"messages\":[]}", E_INVAL, "messages", "at least one"},
	{"{\"max_tokens\":1,\"messages\":[7]}", E_INVAL, "messages[0]", ""},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"tool\",\"content\":\"\"}]}",
	 E_INVAL, "messages[0].role", "user, assistant or system"},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"system\",\"content\":\"\"}]}",
	 E_INVAL, "messages", "at least one"},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
	 "{\"role\":\"assistant\",\"content\":\"a\"}],\"tools\":[{\"name\":\"f\","
	 "\"input_schema\":{}}],\"tool_choice\":{\"type\":\"any\"}}", E_INVAL,
	 "tool_choice", "demands a call"},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\"}]}", E_INVAL,
	 "messages[0].content", ""},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"
	 "\"tools\":[{\"name\":\"f\",\"strict\":true,\"input_schema\":{\"properties\":"
	 "{\"a\":{\"multipleOf\":0}}}}]}", E_INVAL, "tools[0].input_schema.properties.a.multipleOf",
	 "`tools[0].input_schema.properties.a.multipleOf`"},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"
	 "\"tools\":[{\"name\":\"a b\",\"input_schema\":{}}]}", E_INVAL,
	 "tools[0].name", "letters"},
	{"{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"
	 "\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"not\":{}}"
	 "}}}", E_INVAL, "output_config.format.schema", "no value"},
	{M("7"), E_INVAL, "messages[0].content", ""},
	{M("[{\"type\":\"image\",\"source\":{}}]"), E_INVAL,
	 "messages[0].content[0].type", "\"image\": this model reads text only"},
	{M("[{\"text\":\"x\"}]"), E_INVAL, "messages[0].content[0].type", ""},
	{M("[{\"type\":\"tool_result\",\"content\":\"\"}]"), E_INVAL,
	 "messages[0].content[0].tool_use_id", ""},
	{M("[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":"
	   "[{\"type\":\"image\"}]}]"), E_INVAL,
	 "messages[0].content[0].content[0].type", "image"},
	{"{\"system\":7," USER "}", E_INVAL, "system", ""},
	{"{\"tools\":[{}]," USER "}", E_INVAL, "tools[0].name", ""},
	{"{\"tool_choice\":{\"type\":\"all\"}," USER "}", E_INVAL, "tool_choice.type",
	 "auto, any, tool or none"},
	{"{\"thinking\":true," USER "}", E_INVAL, "thinking", ""},
	{"{\"model\":\"claude\"," USER "}", E_MODEL, "model", "halo-tiny"},
	{"{\"temperature\":\"hot\"," USER "}", E_INVAL, "temperature", ""},
	/* Words of the chat that is made of the body, in the client's own names. */
	{"{\"stop_sequences\":[\"a\",\"\"]," USER "}", E_INVAL, "stop_sequences[1]",
	 "`stop_sequences[1]` must not be empty"},
	{"{\"stop_sequences\":7," USER "}", E_INVAL, "stop_sequences", ""},
	{"{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":true}," USER "}", E_INVAL,
	 "thinking.budget_tokens", "`thinking.budget_tokens` must be an integer"},
	{"{\"metadata\":{\"user_id\":7}," USER "}", E_INVAL, "metadata.user_id", ""},
	{"{\"output_config\":{\"format\":{\"type\":\"yaml\"}}," USER "}", E_INVAL,
	 "output_config.format.type", ""},
	{"{\"output_format\":{\"type\":\"json_schema\"}," USER "}", E_INVAL,
	 "output_format.schema", "`output_format.schema` is required"},
	{"{\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"},\"tools\":[{\"name\":\"f\","
	 "\"input_schema\":{}}]," USER "}", E_INVAL, "tool_choice.name", "is not among"},
	{"{\"tools\":[{\"type\":\"bash_1\",\"name\":\"bash\"},{\"name\":\"f\","
	 "\"input_schema\":{\"function\":7},\"strict\":7}]," USER "}", E_INVAL,
	 "tools[1].strict", "`tools[1].strict`"},
	/* A guide holds here too, or is refused: it is never ignored. */
	{"{\"guided_json\":false," USER "}", E_INVAL, "guided_json", "no value"},
	{"{\"structured_outputs\":{\"json\":false}," USER "}", E_INVAL,
	 "structured_outputs.json", ""},
	{"{\"guided_regex\":\"(\"," USER "}", E_INVAL, "guided_regex", ""},
	{"{\"logit_bias\":{\"x\":1}," USER "}", E_INVAL, "logit_bias.x", ""},
	{"{\"response_format\":{\"type\":\"json_object\"}," USER "}", E_INVAL, "response_format",
	 "not supported"},
	{"{\"mirostat\":2," USER "}", E_INVAL, "mirostat", "not supported"},
};

static void test_count(void)
{
	struct buf b = {0};
	struct fail fail;
	struct api_call *c = fixture_call(fixture_api(), &dialect_anthropic, "{" USER "}");
	char want[64];
	snprintf(want, sizeof want, "{\"input_tokens\":%zu}",
		 api_call_request(c)->prompts[0].n);
	struct api_input in = {
		.body = STR("{\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}")};
	is_int(api_count_tokens(fixture_api(), &in, &b, &fail), OK,
	       "count_tokens needs no max_tokens");
	buf_add_c(&b, '\0');
	is_str(b.p, want, "and counts what the call has");
	buf_clear(&b);
	in.body = STR("{\"messages\":7}");
	is_int(api_count_tokens(fixture_api(), &in, &b, &fail),
	       E_INVAL, "a wrong type");
	ok(b.n == 0 && strcmp(fail.param, "messages") == 0, "and its place");
	buf_deinit(&b);
	fixture_drop(c);
}

int main(void)
{
	test_stream();
	test_cut_thoughts();
	test_empty_stream();
	test_whole();
	test_calls();
	test_cut();
	test_failed();
	test_errors();
	test_prompts();
	test_params();
	fixture_check_refused(fixture_api(), &dialect_anthropic, rows,
			      sizeof rows / sizeof *rows);
	test_count();
	return tap_done();
}
