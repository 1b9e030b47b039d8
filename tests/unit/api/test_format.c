/* SPDX-License-Identifier: Apache-2.0
 *
 * Scripted events in, exact bytes out.
 */
#include <math.h>

#include "tests/unit/api/fixture.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]"
#define HEAD_CHAT(chunk) \
	"{\"id\":\"chatcmpl-r1\",\"object\":\"chat.completion" chunk "\"," \
	"\"created\":0,\"model\":\"halo-tiny\"," \
	"\"system_fingerprint\":\"fp_test\",\"choices\":["
#define HEAD_TEXT \
	"{\"id\":\"cmpl-r1\",\"object\":\"text_completion\"," \
	"\"created\":0,\"model\":\"halo-tiny\"," \
	"\"system_fingerprint\":\"fp_test\",\"choices\":["
#define CHUNK "data: " HEAD_CHAT(".chunk")
#define TEXT_CHUNK "data: " HEAD_TEXT
#define NO_FINISH ",\"logprobs\":null,\"finish_reason\":null}]"
#define TIMINGS \
	"\"timings\":{\"ttft_ms\":30,\"tpot_ms\":5,\"queue_ms\":10," \
	"\"body_ms\":2,\"parse_ms\":5," \
	"\"cache_n\":4,\"disk_n\":0,\"cache_miss\":\"differs\"," \
	"\"cache_miss_at\":5,\"prompt_n\":6,\"prompt_ms\":20," \
	"\"prompt_per_token_ms\":3.333,\"prompt_per_second\":300," \
	"\"predicted_n\":11,\"predicted_ms\":50," \
	"\"predicted_per_token_ms\":5,\"predicted_per_second\":200}"
#define USAGE \
	"\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":11," \
	"\"total_tokens\":21,\"prompt_tokens_details\":{\"cached_tokens\":4}," \
	"\"completion_tokens_details\":{\"reasoning_tokens\":3}}"

static const struct request_stats stats = {
	.arrival_us = 1000,
	.received_us = 3000,
	.parsed_us = 8000,
	.scheduled_us = 11000,
	.first_token_us = 31000,
	.last_token_us = 81000,
	.n_prompt = 10,
	.n_cached = 4,
	.miss = {MISS_DIFFERS, 5},
	.n_output = 11,
	.n_reasoning = 3,
};

/* --- events -------------------------------------------------------------- */

static void expect(struct api_call *c, const struct event *e, const char *want,
		   const char *fact)
{
	char *got = fixture_event(c, e);
	is_str(got, want, "%s", fact);
	free(got);
}

static struct event text_event(int choice, enum out_channel channel,
			       const char *text)
{
	static struct event_span span;
	static struct event_token token;
	span = (struct event_span){channel, str_of(text)};
	return (struct event){
		.kind = EVENT_DELTA,
		.choice = choice,
		.spans = &span,
		.n_spans = text[0] != '\0',
		.tokens = &token,
		.n_tokens = 1,
	};
}

static void expect_text(struct api_call *c, int choice, enum out_channel channel,
			const char *text, const char *want, const char *fact)
{
	struct event e = text_event(choice, channel, text);
	expect(c, &e, want, fact);
}

static void expect_end(struct api_call *c, int choice, enum finish finish,
		       const char *want, const char *fact)
{
	struct event e = {
		.kind = EVENT_CHOICE_DONE, .choice = choice, .finish = finish};
	expect(c, &e, want, fact);
}

static void expect_done(struct api_call *c, const char *want, const char *fact)
{
	struct event e = {.kind = EVENT_DONE, .stats = stats};
	expect(c, &e, want, fact);
}

/* --- streams ------------------------------------------------------------- */

static void test_progress(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat,
					  "{" HELLO ",\"stream\":true,\"return_progress\":true}");
	struct event started = {.kind = EVENT_STARTED, .stats = stats};
	struct event progress = {.kind = EVENT_PROGRESS, .n_prefilled = 8};
	started.stats.scheduled_us = INT64_MAX; /* no time has passed since */
	expect(c, &started, "", "nothing at the start, so a router may still try another box");
	expect(c, &progress,
	       CHUNK "{\"index\":0,\"delta\":{}" NO_FINISH
		     ",\"prompt_progress\":{\"total\":10,\"cache\":4,\"processed\":8,"
		     "\"time_ms\":0}}\n\n",
	       "how far the prompt is, where the client asks");
	fixture_drop(c);
	c = fixture_call(fixture_api(), &dialect_completion,
			 "{\"prompt\":\"x\",\"return_progress\":true}");
	expect(c, &progress, "", "not in an answer that is no stream");
	fixture_drop(c);
}

static void test_chat_stream(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat,
					  "{" HELLO ",\"stream\":true}");
	struct event started = {.kind = EVENT_STARTED};
	struct event progress = {.kind = EVENT_PROGRESS, .n_prefilled = 3};
	ok(api_call_is_stream(c), "is a stream");
	expect(c, &started, "", "nothing at the start");
	expect(c, &progress, "", "nothing while the prompt is read");
	expect_text(c, 0, OUT_REASONING, "",
		    CHUNK "{\"index\":0,\"delta\":{\"role\":\"assistant\","
			  "\"content\":\"\"}" NO_FINISH "}\n\n",
		    "the first token opens, with no text yet");
	expect_text(c, 0, OUT_REASONING, "Hm \"x\"\n",
		    CHUNK "{\"index\":0,\"delta\":{"
			  "\"reasoning_content\":\"Hm \\\"x\\\"\\n\","
			  "\"reasoning\":\"Hm \\\"x\\\"\\n\"}" NO_FINISH "}\n\n",
		    "reasoning, under both names");
	expect_text(c, 0, OUT_CONTENT, "", "", "no chunk for a token without text");
	expect_text(c, 0, OUT_CONTENT, "h\xc3\xa9 \xf0\x9f\xa6\x8a",
		    CHUNK "{\"index\":0,\"delta\":{\"content\":"
			  "\"h\xc3\xa9 \xf0\x9f\xa6\x8a\"}" NO_FINISH "}\n\n",
		    "content");
	ok(!api_call_is_done(c), "not done yet");
	expect_end(c, 0, FINISH_STOP, "", "the end waits for the timings");
	expect_done(c,
		    CHUNK "{\"index\":0,\"delta\":{},\"logprobs\":null,"
			  "\"finish_reason\":\"stop\"}]," TIMINGS "}\n\n"
			  "data: [DONE]\n\n",
		    "finish, timings, [DONE]");
	ok(api_call_is_done(c), "done");
	is_int(api_call_status(c), OK, "well");
	fixture_drop(c);
}

static void test_usage_chunk(void)
{
	struct api_call *c = fixture_call(
		fixture_api(), &dialect_chat,
		"{" HELLO ",\"stream\":true,"
		"\"stream_options\":{\"include_usage\":true}}");
	expect_text(c, 0, OUT_CONTENT, "a",
		    CHUNK "{\"index\":0,\"delta\":{\"role\":\"assistant\","
			  "\"content\":\"\"}" NO_FINISH ",\"usage\":null}\n\n"
			  CHUNK "{\"index\":0,\"delta\":{\"content\":\"a\"}"
			  NO_FINISH ",\"usage\":null}\n\n",
		    "role first, then text; usage is null");
	expect_end(c, 0, FINISH_LENGTH,
		   CHUNK "{\"index\":0,\"delta\":{},\"logprobs\":null,"
			 "\"finish_reason\":\"length\"}],\"usage\":null}\n\n",
		   "the finish does not wait");
	expect_done(c, CHUNK "]," USAGE "," TIMINGS "}\n\ndata: [DONE]\n\n",
		    "usage in a chunk without choices");
	fixture_drop(c);
}

static void test_two_choices(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat,
					  "{" HELLO ",\"stream\":true,\"n\":2}");
	expect_text(c, 1, OUT_CONTENT, "b",
		    CHUNK "{\"index\":1,\"delta\":{\"role\":\"assistant\","
			  "\"content\":\"\"}" NO_FINISH "}\n\n"
			  CHUNK "{\"index\":1,\"delta\":{\"content\":\"b\"}"
			  NO_FINISH "}\n\n",
		    "the second may come first");
	expect_end(c, 1, FINISH_STOP,
		   CHUNK "{\"index\":1,\"delta\":{},\"logprobs\":null,"
			 "\"finish_reason\":\"stop\"}]}\n\n",
		   "and end first");
	expect_end(c, 0, FINISH_LENGTH,
		   CHUNK "{\"index\":0,\"delta\":{\"role\":\"assistant\","
			 "\"content\":\"\"}" NO_FINISH "}\n\n",
		   "a choice without text is opened all the same");
	struct event done = {.kind = EVENT_DONE, .stats = stats};
	char *got = fixture_event(c, &done);
	ok(strstr(got, "\"index\":0,\"delta\":{},\"logprobs\":null,"
		       "\"finish_reason\":\"length\"") &&
		   /* 50 ms, two streams, nine gaps */
		   strstr(got, "\"tpot_ms\":11.111,") &&
		   strstr(got, "\"predicted_per_second\":180}"),
	   "the last of them carries the timings");
	free(got);
	struct api_log log;
	api_call_log(c, &log);
	is_int(log.n_choices, 2, "log: choices");
	is_int(log.finish, FINISH_LENGTH, "log: finish of the last");
	is_int(log.stats.n_output, 11, "log: tokens");
	ok(log.is_stream, "log: stream");
	fixture_drop(c);
}

static void test_failed_stream(void)
{
	struct api_call *c = fixture_call(
		fixture_api(), &dialect_chat,
		"{" HELLO ",\"stream\":true,\"user\":\"u1\"}");
	struct event e = text_event(0, OUT_CONTENT, "a");
	free(fixture_event(c, &e));
	struct event failed = {.kind = EVENT_FAILED, .stats = stats};
	fail_set(&failed.fail, E_BACKEND, "matmul of (3, 4) broke");
	expect(c, &failed,
	       "data: {\"error\":{\"message\":\"matmul of (3, 4) broke\","
	       "\"type\":\"server_error\",\"param\":null,"
	       "\"code\":\"backend_failed\"}}\n\n",
	       "an error chunk, no [DONE]");
	ok(api_call_is_done(c), "over");
	is_int(api_call_status(c), E_BACKEND, "badly");
	struct api_log log;
	api_call_log(c, &log);
	is_int(log.finish, FINISH_ERROR, "log: error");
	is_str(log.user, "u1", "log: user");
	fixture_drop(c);
}

static void test_completion_stream(void)
{
	struct api_call *c = fixture_call(
		fixture_api(), &dialect_completion,
		"{\"prompt\":\"Once\",\"stream\":true,\"echo\":true}");
	expect_text(c, 0, OUT_CONTENT, " upon",
		    TEXT_CHUNK "{\"index\":0,\"text\":\"Once\"" NO_FINISH "}\n\n"
		    TEXT_CHUNK "{\"index\":0,\"text\":\" upon\"" NO_FINISH "}\n\n",
		    "the prompt first, when echo is on");
	expect_end(c, 0, FINISH_LENGTH, "", "the end waits");
	expect_done(c,
		    TEXT_CHUNK "{\"index\":0,\"text\":\"\",\"logprobs\":null,"
			       "\"finish_reason\":\"length\"}]," TIMINGS
			       "}\n\ndata: [DONE]\n\n",
		    "finish");
	fixture_drop(c);

	c = fixture_call(fixture_api(), &dialect_completion,
			 "{\"prompt\":\"Once\",\"stream\":true}");
	expect_text(c, 0, OUT_CONTENT, "", "", "no opening chunk without echo");
	fixture_drop(c);
}

/* --- whole answers ------------------------------------------------------- */

static void test_chat_answer(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, "{" HELLO "}");
	ok(!api_call_is_stream(c), "not a stream");
	expect_text(c, 0, OUT_REASONING, "one ", "", "silent");
	expect_text(c, 0, OUT_REASONING, "two", "", "until");
	expect_text(c, 0, OUT_CONTENT, "A\t", "", "the");
	expect_text(c, 0, OUT_CONTENT, "B", "", "end");
	expect_end(c, 0, FINISH_STOP, "", "of all choices");
	expect_done(c,
		    HEAD_CHAT("") "{\"index\":0,\"message\":{\"role\":\"assistant\","
		    "\"content\":\"A\\tB\",\"reasoning_content\":\"one two\","
		    "\"reasoning\":\"one two\",\"refusal\":null},"
		    "\"logprobs\":null,\"finish_reason\":\"stop\"}],"
		    USAGE "," TIMINGS "}",
		    "one object");
	fixture_drop(c);
}

static void test_failed_answer(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, "{" HELLO "}");
	struct event failed = {.kind = EVENT_FAILED};
	fail_set(&failed.fail, E_TIMEOUT, "waited 30 s");
	expect(c, &failed,
	       "{\"error\":{\"message\":\"waited 30 s\","
	       "\"type\":\"unavailable_error\",\"param\":null,"
	       "\"code\":\"timeout\"}}",
	       "a plain error");
	is_int(status_http(api_call_status(c)), 503, "with its HTTP status");
	fixture_drop(c);
}

/* Every byte there is comes out as JSON that reads back. */
static void test_any_bytes(void)
{
	char all[256];
	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, "{" HELLO "}");
	struct event e = text_event(0, OUT_CONTENT, "x");
	e.spans[0].text = (struct str){all, sizeof all};
	free(fixture_event(c, &e));
	expect_end(c, 0, FINISH_STOP, "", "ends");
	struct event done = {.kind = EVENT_DONE, .stats = stats};
	char *got = fixture_event(c, &done);
	json_error_t err;
	json_t *v = json_loads(got, JSON_ALLOW_NUL, &err);
	ok(v != NULL, "parses: %s", v ? "" : err.text);
	json_t *content = json_object_get(
		json_object_get(json_array_get(json_object_get(v, "choices"), 0),
				"message"),
		"content");
	/* 128 ASCII ones and 128 stray ones, three bytes each */
	is_int(json_string_length(content), 128 + 3 * 128, "all are there");
	ok(memcmp(json_string_value(content), all, 128) == 0, "ASCII unchanged");
	json_decref(v);
	free(got);
	fixture_drop(c);
}

static void test_no_tokens(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, "{" HELLO "}");
	expect_end(c, 0, FINISH_LENGTH, "", "ends");
	struct event done = {.kind = EVENT_DONE,
			     .stats = {.arrival_us = 1000, .n_prompt = 10}};
	char *got = fixture_event(c, &done);
	ok(strstr(got, "\"ttft_ms\":null,\"tpot_ms\":null,\"queue_ms\":0,") &&
		   strstr(got, "\"predicted_per_second\":0}"),
	   "nothing is divided by zero");
	ok(strstr(got, "\"content\":\"\""), "content is an empty string");
	free(got);
	fixture_drop(c);
}

/* --- log-probabilities --------------------------------------------------- */

static int32_t id_of(const char *piece)
{
	int32_t id = tokenizer_find(fixture_model()->tokenizer, str_of(piece));
	if (id < 0)
		printf("Bail out! no token %s\n", piece);
	return id;
}

/* A token that is the first byte of "\xc3\xa9", which the vocabulary has as a byte. */
static int32_t id_of_byte(unsigned char byte)
{
	const struct tokenizer *t = fixture_model()->tokenizer;
	for (int32_t id = 0; id < tokenizer_n_ids(t); id++) {
		struct str s = tokenizer_bytes(t, id);
		if (s.n == 1 && (unsigned char)s.p[0] == byte)
			return id;
	}
	return -1;
}

static struct event logprob_event(int32_t id, float logprob, const char *text)
{
	static struct token_logprob top[2];
	struct event e = text_event(0, OUT_CONTENT, text);
	top[0] = (struct token_logprob){id_of("b"), -0.5f};
	top[1] = (struct token_logprob){id_of("c"), -INFINITY};
	e.tokens[0] = (struct event_token){.id = id, .logprob = logprob, .n_top = 2, .top = top};
	return e;
}

#define TOP_B "{\"token\":\"b\",\"logprob\":-0.5,\"bytes\":[98]}"
#define TOP_C "{\"token\":\"c\",\"logprob\":-9999,\"bytes\":[99]}"

static void test_chat_logprobs(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat,
					  "{" HELLO ",\"stream\":true,"
					  "\"logprobs\":true,\"top_logprobs\":2}");
	is_int(api_call_request(c)->sampling.n_top_logprobs, 2, "two asked for");
	struct event e = logprob_event(id_of_byte(0xc3), -1.25f, "");
	char *got = fixture_event(c, &e);
	ok(strstr(got, "\"logprobs\":null"), "the opening chunk has none");
	free(got);
	e = logprob_event(id_of("b"), -0.5f, "\xef\xbf\xbd" "b");
	expect(c, &e,
	       CHUNK "{\"index\":0,\"delta\":{\"content\":\"\xef\xbf\xbd" "b\"},"
		     "\"logprobs\":{\"content\":["
		     "{\"token\":\"\xef\xbf\xbd\",\"logprob\":-1.25,"
		     "\"bytes\":[195],\"top_logprobs\":[" TOP_B "," TOP_C "]},"
		     "{\"token\":\"b\",\"logprob\":-0.5,"
		     "\"bytes\":[98],\"top_logprobs\":[" TOP_B "," TOP_C "]}"
		     "],\"refusal\":null},\"finish_reason\":null}]}\n\n",
	       "those of held-back tokens come with the next text");
	e = logprob_event(id_of("c"), -INFINITY, "");
	expect(c, &e, "", "the last is held back");
	expect_end(c, 0, FINISH_STOP, "", "until");
	struct event done = {.kind = EVENT_DONE, .stats = stats};
	got = fixture_event(c, &done);
	ok(strstr(got, "\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"c\","
		       "\"logprob\":-9999,"),
	   "the finish");
	free(got);
	fixture_drop(c);
}

static void test_completion_logprobs(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_completion,
					  "{\"prompt\":\"a\",\"logprobs\":2}");
	struct event e = logprob_event(id_of("b"), -0.5f, "b");
	free(fixture_event(c, &e));
	e = logprob_event(id_of_byte(0xc3), -1.25f, "");
	free(fixture_event(c, &e));
	e = logprob_event(id_of_byte(0xa9), -2.5f, "\xc3\xa9");
	free(fixture_event(c, &e));
	e = logprob_event(id_of("<|im_end|>"), -3, "");
	free(fixture_event(c, &e));
	e = logprob_event(id_of("c"), -INFINITY, "c");
	free(fixture_event(c, &e));
	expect_end(c, 0, FINISH_LENGTH, "", "ends");
	expect_done(c,
		    HEAD_TEXT
		    "{\"index\":0,\"text\":\"b\xc3\xa9" "c\",\"logprobs\":{"
		    "\"tokens\":[\"b\",\"bytes:\\\\xc3\",\"bytes:\\\\xa9\","
		    "\"<|im_end|>\",\"c\"],"
		    "\"token_logprobs\":[-0.5,-1.25,-2.5,-3,-9999],"
		    "\"top_logprobs\":[{\"b\":-0.5,\"c\":-9999},"
		    "{\"b\":-0.5,\"c\":-9999,\"bytes:\\\\xc3\":-1.25},"
		    "{\"b\":-0.5,\"c\":-9999,\"bytes:\\\\xa9\":-2.5},"
		    "{\"b\":-0.5,\"c\":-9999,\"<|im_end|>\":-3},"
		    "{\"b\":-0.5,\"c\":-9999}],"
		    "\"text_offset\":[0,1,2,2,2]},"
		    "\"finish_reason\":\"length\"}]," USAGE "," TIMINGS "}",
		    "four lists, offsets in characters");
	fixture_drop(c);
}

int main(void)
{
	test_progress();
	test_chat_stream();
	test_usage_chunk();
	test_two_choices();
	test_failed_stream();
	test_completion_stream();
	test_chat_answer();
	test_failed_answer();
	test_any_bytes();
	test_no_tokens();
	test_chat_logprobs();
	test_completion_logprobs();
	return tap_done();
}
