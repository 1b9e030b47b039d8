/* SPDX-License-Identifier: Apache-2.0 */
#include "api/response_store.h"
#include "tests/unit/api/fixture.h"

#define ECHO \
	"\"model\":\"halo-tiny\",\"instructions\":null,\"max_output_tokens\":null," \
	"\"metadata\":{},\"parallel_tool_calls\":true," \
	"\"previous_response_id\":null," \
	"\"reasoning\":{\"effort\":null,\"summary\":null},\"store\":true," \
	"\"temperature\":0.5,\"text\":{\"format\":{\"type\":\"text\"}}," \
	"\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null," \
	"\"truncation\":\"disabled\",\"user\":null,"
#define RESPONSE(status, error, details, output, usage) \
	"{\"id\":\"resp_R\",\"object\":\"response\",\"created_at\":0," \
	"\"status\":\"" status "\",\"error\":" error ",\"incomplete_details\":" \
	details "," ECHO "\"output\":[" output "],\"usage\":" usage "}"
#define USAGE \
	"{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4," \
	"\"cache_write_tokens\":0}," \
	"\"output_tokens\":11,\"output_tokens_details\":{\"reasoning_tokens\":3}," \
	"\"total_tokens\":21}"
#define EVENT(name, number) \
	"event: response." name "\ndata: {\"type\":\"response." name "\"," \
	"\"sequence_number\":" number ","
#define END "}\n\n"
#define PLACE(id, i) "\"item_id\":\"" id "\",\"output_index\":" i ",\"content_index\":0,"
#define THOUGHT(text) "{\"type\":\"reasoning_text\",\"text\":\"" text "\"}"
#define TEXT(text) \
	"{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[]," \
	"\"logprobs\":[]}"
#define REASONING(status, content) \
	"{\"id\":\"rs_R_0\",\"type\":\"reasoning\",\"status\":\"" status "\"," \
	"\"summary\":[],\"content\":[" content "]}"
#define MESSAGE(i, status, content) \
	"{\"id\":\"msg_R_" i "\",\"type\":\"message\",\"status\":\"" status "\"," \
	"\"role\":\"assistant\",\"content\":[" content "]}"

static const struct request_stats stats = {
	.n_prompt = 10, .n_cached = 4, .n_output = 11, .n_reasoning = 3};

/* The random part of the call's ids, known from its first object on. */
static char hex[33];

/* Bytes of an event: the random part of ids becomes R, the time 0. */
static char *clean(char *got)
{
	static const char key[] = "\"created_at\":";
	struct buf out = {0};
	char *at = strstr(got, "\"resp_");
	if (at)
		snprintf(hex, sizeof hex, "%.32s", at + 6);
	for (char *p = got; *p;) {
		if (hex[0] && strncmp(p, hex, 32) == 0) {
			buf_add_c(&out, 'R');
			p += 32;
		} else if (strncmp(p, key, sizeof key - 1) == 0) {
			buf_addf(&out, "%s0", key);
			p += sizeof key - 1;
			p += strspn(p, "0123456789");
		} else if (strncmp(p, ":\"call_", 7) == 0) {
			buf_add_z(&out, ":\"call_C");
			p += 7 + 24;
		} else {
			buf_add_c(&out, *p++);
		}
	}
	free(got);
	return buf_take(&out);
}

static void expect(struct api_call *c, const struct event *e, const char *want,
		   const char *fact)
{
	char *got = clean(fixture_event(c, e));
	is_str(got, want, "%s", fact);
	free(got);
}

static void expect_text(struct api_call *c, enum out_channel channel,
			const char *text, const char *want, const char *fact)
{
	struct fixture_text t;
	expect(c, fixture_text(&t, channel, text), want, fact);
}

static void expect_end(struct api_call *c, enum finish finish)
{
	struct event e = {.kind = EVENT_CHOICE_DONE, .finish = finish};
	expect(c, &e, "", "nothing at the end of the text");
}

static const struct event started = {.kind = EVENT_STARTED};
static const struct event done = {.kind = EVENT_DONE, .stats = stats};

static struct api_call *make(const char *body)
{
	hex[0] = '\0';
	return fixture_call(fixture_api(), &dialect_responses, body);
}

/* --- answers ------------------------------------------------------------------------ */

static void test_stream(void)
{
	struct api_call *c = make(
		"{\"input\":\"hello\",\"temperature\":0.5,\"stream\":true}");
	expect(c, &started,
	       EVENT("created", "0") "\"response\":"
	       RESPONSE("in_progress", "null", "null", "", "null") END
	       EVENT("in_progress", "1") "\"response\":"
	       RESPONSE("in_progress", "null", "null", "", "null") END,
	       "the response without output");
	expect_text(c, OUT_REASONING, "", "", "nothing for a token without text");
	expect_text(c, OUT_REASONING, "Hm",
		    EVENT("output_item.added", "2") "\"output_index\":0,\"item\":"
		    REASONING("in_progress", "") END
		    EVENT("content_part.added", "3") PLACE("rs_R_0", "0") "\"part\":"
		    THOUGHT("") END
		    EVENT("reasoning_text.delta", "4") PLACE("rs_R_0", "0")
		    "\"delta\":\"Hm\"" END,
		    "reasoning begins");
	expect_text(c, OUT_CONTENT, "A",
		    EVENT("reasoning_text.done", "5") PLACE("rs_R_0", "0")
		    "\"text\":\"Hm\"" END
		    EVENT("content_part.done", "6") PLACE("rs_R_0", "0") "\"part\":"
		    THOUGHT("Hm") END
		    EVENT("output_item.done", "7") "\"output_index\":0,\"item\":"
		    REASONING("completed", THOUGHT("Hm")) END
		    EVENT("output_item.added", "8") "\"output_index\":1,\"item\":"
		    MESSAGE("1", "in_progress", "") END
		    EVENT("content_part.added", "9") PLACE("msg_R_1", "1") "\"part\":"
		    TEXT("") END
		    EVENT("output_text.delta", "10") PLACE("msg_R_1", "1")
		    "\"delta\":\"A\",\"logprobs\":[]" END,
		    "and ends where text begins");
	expect_text(c, OUT_CONTENT, "\"B",
		    EVENT("output_text.delta", "11") PLACE("msg_R_1", "1")
		    "\"delta\":\"\\\"B\",\"logprobs\":[]" END, "text goes on");
	expect_end(c, FINISH_STOP);
	expect(c, &done,
	       EVENT("output_text.done", "12") PLACE("msg_R_1", "1")
	       "\"text\":\"A\\\"B\",\"logprobs\":[]" END
	       EVENT("content_part.done", "13") PLACE("msg_R_1", "1") "\"part\":"
	       TEXT("A\\\"B") END
	       EVENT("output_item.done", "14") "\"output_index\":1,\"item\":"
	       MESSAGE("1", "completed", TEXT("A\\\"B")) END
	       EVENT("completed", "15") "\"response\":"
	       RESPONSE("completed", "null", "null",
			REASONING("completed", THOUGHT("Hm")) ","
			MESSAGE("1", "completed", TEXT("A\\\"B")), USAGE) END,
	       "the end, with all of it");
	fixture_drop(c);
}

static void test_whole(void)
{
	struct api_call *c = make("{\"input\":\"hello\",\"temperature\":0.5}");
	expect(c, &started, "", "not a stream: nothing yet");
	expect_text(c, OUT_CONTENT, "A", "", "nothing yet");
	expect_end(c, FINISH_LENGTH);
	expect(c, &done,
	       RESPONSE("incomplete", "null", "{\"reason\":\"max_output_tokens\"}",
			MESSAGE("0", "incomplete", TEXT("A")), USAGE),
	       "cut by max_output_tokens");
	fixture_drop(c);
}

#define CALL(status, args) \
	"{\"id\":\"fc_R_0\",\"type\":\"function_call\",\"status\":\"" status "\"," \
	"\"call_id\":\"call_C\",\"name\":\"f\",\"arguments\":\"" args "\"}"
#define AT "\"item_id\":\"fc_R_0\",\"output_index\":0,"
#define TOOLS \
	"\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}],"

static void test_calls(void)
{
	struct event delta = {.kind = EVENT_DELTA, .spans = fixture_call_spans + 1, .n_spans = 4};
	struct api_call *c = make("{" TOOLS "\"input\":\"hello\",\"stream\":true}");
	free(clean(fixture_event(c, &started)));
	expect(c, &delta,
	       EVENT("output_item.added", "2") "\"output_index\":0,\"item\":"
	       CALL("in_progress", "") END
	       EVENT("function_call_arguments.delta", "3") AT
	       "\"delta\":\"{\\\"x\\\":\"" END
	       EVENT("function_call_arguments.delta", "4") AT "\"delta\":\"1}\"" END,
	       "a call begins");
	delta.spans += 4;
	delta.n_spans = 3;
	char *got = clean(fixture_event(c, &delta));
	ok(strstr(got, EVENT("function_call_arguments.done", "5") AT
		  "\"arguments\":\"{\\\"x\\\":1}\",\"name\":\"f\"" END
		  EVENT("output_item.done", "6") "\"output_index\":0,\"item\":"
		  CALL("completed", "{\\\"x\\\":1}") END) == got,
	   "and ends where the next begins");
	ok(!strstr(strstr(got, "fc_R_1"), ".done\""), "a broken call is never done");
	free(got);
	expect_end(c, FINISH_STOP);
	got = clean(fixture_event(c, &done));
	ok(strstr(got, "\"output\":[" CALL("completed", "{\\\"x\\\":1}") ","
		  MESSAGE("2", "completed", TEXT("<g")) "]"),
	   "the whole has no broken call");
	free(got);
	fixture_drop(c);
}

/* max_output_tokens fell inside a call: the item is done, and incomplete. */
static void test_cut(void)
{
	static struct event_span spans[] = {
		{OUT_CALL_NAME, {"f", 1}},
		{OUT_CALL_ARGS, {"{\"x\":", 5}},
		{OUT_CALL_CUT, {"<tool_call>", 11}},
	};
	struct event delta = {.kind = EVENT_DELTA, .spans = spans, .n_spans = 3};
	struct api_call *c = make("{" TOOLS "\"input\":\"hello\",\"stream\":true}");
	free(clean(fixture_event(c, &started)));
	expect(c, &delta,
	       EVENT("output_item.added", "2") "\"output_index\":0,\"item\":"
	       CALL("in_progress", "") END
	       EVENT("function_call_arguments.delta", "3") AT "\"delta\":\"{\\\"x\\\":\"" END,
	       "a call that is cut");
	expect_end(c, FINISH_LENGTH);
	char *got = clean(fixture_event(c, &done));
	ok(strstr(got, EVENT("function_call_arguments.done", "4") AT
		  "\"arguments\":\"{\\\"x\\\":\",\"name\":\"f\"" END
		  EVENT("output_item.done", "5") "\"output_index\":0,\"item\":"
		  CALL("incomplete", "{\\\"x\\\":") END) == got &&
	   strstr(got, "\"output\":[" CALL("incomplete", "{\\\"x\\\":") "]"),
	   "is done, incomplete, and in the whole");
	free(got);
	fixture_drop(c);
}

static void test_failed(void)
{
	struct event failed = {.kind = EVENT_FAILED, .stats = stats};
	fail_set(&failed.fail, E_TIMEOUT, "too slow");
	struct api_call *c = make(
		"{\"input\":\"hello\",\"temperature\":0.5,\"stream\":true}");
	free(clean(fixture_event(c, &started)));
	expect(c, &failed,
	       EVENT("failed", "2") "\"response\":"
	       RESPONSE("failed", "{\"code\":\"timeout\",\"message\":\"too slow\"}",
			"null", "", USAGE) END,
	       "a failure in the middle");
	ok(api_call_is_done(c) && api_call_status(c) == E_TIMEOUT, "its status");
	fixture_drop(c);
}

/* --- bodies --------------------------------------------------------------------------- */

static void check_same(const char *body, const char *chat, const char *fact)
{
	fixture_check_same(&dialect_responses, body, chat, fact);
}

static void test_prompts(void)
{
	check_same("{\"input\":\"hello\",\"instructions\":\"be kind\"}",
		   "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
		   "{\"role\":\"user\",\"content\":\"hello\"}]}", "instructions");
	check_same(
		"{\"input\":["
		"{\"role\":\"developer\",\"content\":\"be kind\"},"
		"{\"type\":\"message\",\"role\":\"user\",\"content\":["
		"{\"type\":\"input_text\",\"text\":\"a\"},"
		"{\"type\":\"input_text\",\"text\":\"b\"}]},"
		"{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":["
		"{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},"
		"{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":"
		"[{\"type\":\"output_text\",\"text\":\"yes\",\"annotations\":[]}]},"
		"{\"type\":\"function_call\",\"call_id\":\"t1\",\"name\":\"f\","
		"\"arguments\":\"{\\\"x\\\":1}\"},"
		"{\"type\":\"function_call_output\",\"call_id\":\"t1\",\"output\":\"42\"},"
		"{\"type\":\"function_call_output\",\"call_id\":\"t2\",\"output\":["
		"{\"type\":\"input_text\",\"text\":\"43\"}]}],"
		"\"tools\":[{\"type\":\"web_search\"},{\"type\":\"custom\",\"name\":\"c\"},"
		"{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}]}",
		"{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},"
		"{\"role\":\"user\",\"content\":\"a\\nb\"},"
		"{\"role\":\"assistant\",\"content\":\"yes\",\"reasoning_content\":\"hm\","
		"\"tool_calls\":[{\"id\":\"t1\",\"type\":\"function\",\"function\":"
		"{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},"
		"{\"role\":\"tool\",\"content\":\"42\",\"tool_call_id\":\"t1\"},"
		"{\"role\":\"tool\",\"content\":\"43\",\"tool_call_id\":\"t2\"}],"
		"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
		"\"parameters\":{}}}]}",
		"items of a whole conversation; unknown tools are skipped");
	check_same("{\"input\":\"hello\",\"reasoning\":{\"effort\":\"none\"}}",
		   "{\"enable_thinking\":false,\"messages\":[{\"role\":\"user\","
		   "\"content\":\"hello\"}]}", "no reasoning");
}

static void test_params(void)
{
	struct api_call *c = make(
		"{\"input\":\"hello\",\"temperature\":0.25,\"max_output_tokens\":7,"
		"\"include\":[\"reasoning.encrypted_content\"],\"user\":\"u\"}");
	const struct request *r = api_call_request(c);
	is_near(r->sampling.temperature, 0.25, 1e-6, "temperature");
	is_int(r->max_tokens, 7, "max_output_tokens");
	fixture_drop(c);
}

#define ITEM(item) "{\"input\":[" item "]}"
static const struct refused rows[] = {
	{"{}", E_INVAL, "input", "required"},
	{"{\"input\":7}", E_INVAL, "input", ""},
	{"{\"input\":[]}", E_INVAL, "input", "at least one"},
	{"{\"input\":\"q\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true,"
	 "\"parameters\":{\"properties\":{\"a\":{\"multipleOf\":0}}}}]}", E_INVAL,
	 "tools[0].parameters.properties.a.multipleOf", "no step"},
	{"{\"input\":\"q\",\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\","
	 "\"name\":\"f\",\"parameters\":7}]}", E_INVAL, "tools[1].parameters",
	 "`tools[1].parameters`"},
	{"{\"input\":\"q\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\","
	 "\"schema\":{\"properties\":{\"a\":{\"multipleOf\":0}}}}}}", E_INVAL,
	 "text.format.schema.properties.a.multipleOf", "no step"},
	{"{\"input\":\"q\",\"max_output_tokens\":0}", E_INVAL, "max_output_tokens", ""},
	{"{\"input\":\"q\",\"reasoning\":{\"effort\":\"vast\"}}", E_INVAL,
	 "reasoning.effort", ""},
	{ITEM("7"), E_INVAL, "input[0]", ""},
	{ITEM("{\"type\":\"item_reference\",\"id\":\"x\"}"), E_INVAL, "input[0].id",
	 "not known"},
	{ITEM("{\"type\":\"compaction\",\"id\":\"x\"}"), E_INVAL, "input[0].type",
	 "compaction"},
	{ITEM("{\"role\":\"cat\",\"content\":\"\"}"), E_INVAL, "input[0].role", ""},
	{ITEM("{\"role\":\"user\"}"), E_INVAL, "input[0].content", ""},
	{ITEM("{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}"), E_INVAL,
	 "input[0].content[0].type", "reads text only"},
	{ITEM("{\"type\":\"function_call\",\"name\":\"f\"}"), E_INVAL,
	 "input[0].call_id", ""},
	{ITEM("{\"type\":\"function_call_output\",\"call_id\":\"t\"}"), E_INVAL,
	 "input[0].output", ""},
	{"{\"input\":\"x\",\"tools\":[{\"type\":\"function\"}]}", E_INVAL,
	 "tools[0].name", ""},
	{"{\"input\":\"x\",\"tools\":[{}]}", E_INVAL, "tools[0].type", ""},
	{"{\"input\":\"x\",\"background\":true}", E_INVAL, "background", ""},
	{"{\"input\":\"x\",\"instructions\":[]}", E_INVAL, "instructions", ""},
	{"{\"input\":\"x\",\"previous_response_id\":\"resp_0\"}", E_INVAL,
	 "previous_response_id", "not known"},
	{"{\"input\":\"x\",\"parallel_tool_calls\":7}", E_INVAL,
	 "parallel_tool_calls", ""},
	{"{\"input\":\"x\",\"store\":7}", E_INVAL, "store", ""},
	{"{\"input\":\"x\",\"model\":\"gpt-5\"}", E_MODEL, "model", ""},
	/* Words of the chat that is made of the body, in the client's own names. */
	{"{\"input\":\"q\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\","
	 "\"schema\":{\"properties\":{\"max_tokens\":{\"multipleOf\":0}}}}}}", E_INVAL,
	 "text.format.schema.properties.max_tokens.multipleOf",
	 "`text.format.schema.properties.max_tokens.multipleOf`"},
	{"{\"input\":\"q\",\"text\":{\"format\":{\"type\":\"json_schema\"}}}", E_INVAL,
	 "text.format.schema", "required"},
	{"{\"input\":\"q\",\"text\":{\"format\":{\"type\":\"yaml\"}}}", E_INVAL,
	 "text.format.type", "json_schema"},
	{"{\"input\":\"x\",\"instructions\":\"i\",\"max_output_tokens\":true}", E_INVAL,
	 "max_output_tokens", "`max_output_tokens` must be an integer"},
	{"{\"input\":\"x\",\"tool_choice\":{\"type\":\"function\",\"name\":\"g\"},"
	 "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}", E_INVAL, "tool_choice.name",
	 "is not among"},
	{"{\"input\":\"x\",\"max_output_tokens\":4095}", E_CTX_LEN, "input",
	 "`max_output_tokens` asks for 4095 more"},
	/* A guide holds here too, or is refused: it is never ignored. */
	{"{\"input\":\"q\",\"guided_json\":false}", E_INVAL, "guided_json", "no value"},
	{"{\"input\":\"q\",\"structured_outputs\":{\"json\":false}}", E_INVAL,
	 "structured_outputs.json", ""},
	{"{\"input\":\"q\",\"guided_regex\":\"(\"}", E_INVAL, "guided_regex", ""},
	{"{\"input\":\"q\",\"logit_bias\":{\"x\":1}}", E_INVAL, "logit_bias.x", ""},
	{"{\"input\":\"q\",\"response_format\":{\"type\":\"json_object\"}}", E_INVAL,
	 "response_format", "not supported"},
	{"{\"input\":\"q\",\"mirostat\":2}", E_INVAL, "mirostat", "not supported"},
};

static void test_too_long(void)
{
	struct buf body = {0};
	struct api_call *c;
	struct fail fail;
	buf_add_z(&body, "{\"input\":\"");
	for (int i = 0; i < 600; i++)
		buf_add_z(&body, "word ");
	buf_add_z(&body, "\"}");
	is_int(fixture_try(fixture_api(), &dialect_responses, buf_str(&body), &c, &fail),
	       E_CTX_LEN, "too long");
	is_str(fail.param, "input", "named as it is called here");
	buf_deinit(&body);
}

/* --- going on -------------------------------------------------------------------------- */

/* Run a call to its end; its id, static. */
static const char *answer(const char *body, const char *text)
{
	static char id[64];
	struct api_call *c = make(body);
	struct event_span span = {OUT_CONTENT, str_of(text)};
	struct event delta = {.kind = EVENT_DELTA, .spans = &span, .n_spans = 1};
	free(clean(fixture_event(c, &delta)));
	free(clean(fixture_event(c, &done)));
	fixture_drop(c);
	snprintf(id, sizeof id, "resp_%s", hex);
	return id;
}

static void test_previous(void)
{
	char body[300];
	const char *id =
		answer("{\"input\":\"one\",\"instructions\":\"be kind\"}", "two");
	snprintf(body, sizeof body,
		 "{\"input\":\"three\",\"previous_response_id\":\"%s\"}", id);
	const char *again = answer(body, "four");
	snprintf(body, sizeof body,
		 "{\"input\":\"five\",\"previous_response_id\":\"%s\"}", again);
	check_same(body,
		   "{\"messages\":[{\"role\":\"user\",\"content\":\"one\"},"
		   "{\"role\":\"assistant\",\"content\":\"two\"},"
		   "{\"role\":\"user\",\"content\":\"three\"},"
		   "{\"role\":\"assistant\",\"content\":\"four\"},"
		   "{\"role\":\"user\",\"content\":\"five\"}]}",
		   "a conversation by ids; instructions are for one response");
	id = answer("{\"input\":\"one\",\"store\":false}", "two");
	snprintf(body, sizeof body,
		 "{\"input\":\"x\",\"previous_response_id\":\"%s\"}", id);
	struct refused row = {body, E_INVAL, "previous_response_id", "not known"};
	fixture_check_refused(fixture_api(), &dialect_responses, &row, 1);
}

static void put_as(struct response_store *s, uint64_t owner, const char *id,
		   const char *messages)
{
	const struct str parts[RESPONSE_PARTS] = {str_of(messages)};
	response_store_put(s, owner, str_of(id), parts);
}

static bool has_as(struct response_store *s, uint64_t owner, const char *id)
{
	struct buf b = {0};
	bool found = response_store_get(s, owner, str_of(id), RESPONSE_MESSAGES, &b);
	buf_deinit(&b);
	return found;
}

static void put(struct response_store *s, const char *id, const char *messages)
{
	put_as(s, 0, id, messages);
}

static bool has(struct response_store *s, const char *id) { return has_as(s, 0, id); }

static void test_owners(void)
{
	struct response_store *s = response_store_create(4, 1000);
	put_as(s, 1, "a", "1");
	ok(has_as(s, 1, "a") && !has_as(s, 2, "a") && !has_as(s, 0, "a"),
	   "a response is there for its owner alone");
	ok(!response_store_delete(s, 2, STR("a")) && has_as(s, 1, "a"),
	   "who alone can delete it");
	for (const char *id = "bcdefgh"; *id; id++)
		put_as(s, 2, (char[]){*id, '\0'}, "2");
	ok(has_as(s, 1, "a") && has_as(s, 2, "f") && has_as(s, 2, "h") &&
		   !has_as(s, 2, "e"),
	   "an owner of many pushes out its own, oldest first");
	put_as(s, 3, "x", "3");
	ok(has_as(s, 1, "a") && has_as(s, 3, "x") && !has_as(s, 2, "f"),
	   "a new owner takes from who has most");
	ok(response_store_delete(s, 1, STR("a")) && !has_as(s, 1, "a"), "its own it deletes");
	response_store_destroy(s);
	s = response_store_create(100, 40);
	put_as(s, 1, "a", "1");
	put_as(s, 1, "b", "1");
	put_as(s, 2, "c", "a long one of thirty bytes ...");
	put_as(s, 3, "d", "eleven more");
	ok(has_as(s, 1, "a") && has_as(s, 1, "b") && !has_as(s, 2, "c") &&
		   has_as(s, 3, "d"),
	   "where bytes are short, who holds most of them");
	response_store_destroy(s);
}

static void test_store(void)
{
	struct response_store *s = response_store_create(2, 20);
	put(s, "a", "1");
	put(s, "b", "2");
	ok(has(s, "a") && has(s, "b") && !has(s, "c") && !has(s, ""), "two are kept");
	put(s, "c", "3");
	ok(!has(s, "a") && has(s, "b") && has(s, "c"), "a third takes the oldest's place");
	put(s, "d", "123456789012345678");
	ok(!has(s, "b") && !has(s, "c") && has(s, "d"), "so do many bytes");
	put(s, "e", "12345678901234567890");
	ok(has(s, "d") && !has(s, "e"), "what is too large takes no place");
	response_store_destroy(s);
}

int main(void)
{
	test_stream();
	test_whole();
	test_calls();
	test_cut();
	test_failed();
	test_prompts();
	test_params();
	test_owners();
	fixture_check_refused(fixture_api(), &dialect_responses, rows,
			      sizeof rows / sizeof *rows);
	test_too_long();
	test_previous();
	test_store();
	return tap_done();
}
