/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies with bytes changed, dropped and doubled at random, from a fixed seed. Every
 * one is either refused with words that are valid UTF-8, or answered to the end in
 * valid JSON; the sanitizers watch. fuzz_api does the same without an end.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "tests/unit/api/fixture.h"

static uint64_t state = 0x9E3779B97F4A7C15u;

static uint32_t roll(uint32_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % n;
}

static const char *const seeds[] = {
	"{\"model\":\"halo-tiny\",\"messages\":[{\"role\":\"system\",\"content\":\"a\"},"
	"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\xc3\xa9\"}]},"
	"{\"role\":\"assistant\",\"content\":null,\"reasoning\":\"r\","
	"\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
	"\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"content\":\"<|im_end|>\"}],"
	"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
	"\"stream\":true,\"stream_options\":{\"include_usage\":true},\"n\":2}",
	"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0.5,"
	"\"top_p\":1,\"top_k\":-1,\"min_p\":0,\"seed\":1,\"stop\":[\"a\",\"b\"],"
	"\"logit_bias\":{\"5\":1.5},\"logprobs\":true,\"top_logprobs\":2,"
	"\"max_tokens\":5,\"min_tokens\":1,\"stop_token_ids\":[1],\"user\":\"u\","
	"\"chat_template_kwargs\":{\"enable_thinking\":false}}",
	"{\"prompt\":[\"a\",[1,2,3]],\"echo\":true,\"max_tokens\":3,\"n\":2}",
	"{\"prompt\":\"Once upon\",\"logprobs\":3,\"stream\":true}",
	"{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"a\"}],\"messages\":["
	"{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\",\"content\":["
	"{\"type\":\"thinking\",\"thinking\":\"c\"},{\"type\":\"tool_use\",\"id\":\"1\","
	"\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":["
	"{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"d\"}]}],"
	"\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"stop_sequences\":[\"e\"],"
	"\"tool_choice\":{\"type\":\"auto\"},\"stream\":true}",
	"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
	"\"text\":\"a\"}]},{\"type\":\"reasoning\",\"content\":[]},"
	"{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\","
	"\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"1\","
	"\"output\":\"b\"}],\"instructions\":\"c\",\"tools\":[{\"type\":\"function\","
	"\"name\":\"f\"}],\"reasoning\":{\"effort\":\"low\"},\"stream\":true}",
};

static const struct dialect *kinds[ARRAY_LEN(seeds)] = {
	&dialect_chat, &dialect_chat, &dialect_completion, &dialect_completion, &dialect_anthropic,
	&dialect_responses};

static const char *const pieces[] = {
	"null", "-1", "1e999", "\"\"", "[]", "{}", "[[", "\\ud83d", "\\u0000",
	"99999999999999999999", "\xff", "true", "0.5", ",", ":", "\"role\":",
};

static void mutate(struct buf *b)
{
	uint32_t n_edits = 1 + roll(4);
	for (uint32_t i = 0; i < n_edits; i++) {
		uint32_t at = roll((uint32_t)b->n);
		uint32_t some = 1 + roll(12);
		uint32_t n = MIN(some, (uint32_t)b->n - at);
		struct buf out = {0};
		buf_add(&out, b->p, at);
		switch (roll(4)) {
		case 0: buf_add_c(&out, (char)roll(256)); break;
		case 1: buf_add_z(&out, pieces[roll(ARRAY_LEN(pieces))]); break;
		case 2: buf_add(&out, b->p + at, n); n = 0; break;
		case 3: break;
		}
		buf_add(&out, b->p + at + n, b->n - at - n);
		buf_deinit(b);
		*b = out;
		if (b->n == 0)
			buf_add_c(b, '{');
	}
}

static bool is_json(struct str s)
{
	json_t *v = json_loadb(s.p, s.n, JSON_ALLOW_NUL, NULL);
	json_decref(v);
	return v != NULL;
}

/* Every frame of a stream, or the whole. */
static bool is_answer(const struct api_call *c, struct str s)
{
	if (!api_call_is_stream(c))
		return is_json(s);
	while (s.n) {
		ptrdiff_t end = str_find(s, STR("\n\n"), 0);
		struct str line = {s.p, end < 0 ? 0 : (size_t)end};
		ptrdiff_t name = str_find(line, STR("\n"), 0);
		if (str_starts(line, STR("event: ")) && name > 0)
			line = (struct str){line.p + name + 1,
					    line.n - (size_t)name - 1};
		if (!str_starts(line, STR("data: ")))
			return false;
		line = (struct str){line.p + 6, line.n - 6};
		if (!str_is(line, "[DONE]") && !is_json(line))
			return false;
		s = (struct str){s.p + end + 2, s.n - (size_t)end - 2};
	}
	return true;
}

static bool answer(struct api_call *c)
{
	struct event_token token = {.id = 5, .logprob = -1};
	struct event_span span = {OUT_CONTENT, STR("text")};
	struct event e = {.kind = EVENT_DELTA, .spans = &span, .n_spans = 1,
			  .tokens = &token, .n_tokens = 1};
	const struct request *r = api_call_request(c);
	struct buf out = {0};
	for (; e.choice < r->n_prompts * r->n; e.choice++) {
		e.kind = EVENT_DELTA;
		api_call_on_event(c, &e, &out);
		e.kind = EVENT_CHOICE_DONE;
		e.finish = FINISH_LENGTH;
		api_call_on_event(c, &e, &out);
	}
	struct event done = {.kind = EVENT_DONE};
	api_call_on_event(c, &done, &out);
	bool good = is_answer(c, buf_str(&out));
	buf_deinit(&out);
	return good;
}

int main(void)
{
	int n_taken = 0, n_refused = 0, n_bad = 0;
	for (int i = 0; i < 6000; i++) {
		struct buf body = {0};
		uint32_t seed = roll(ARRAY_LEN(seeds));
		buf_add_z(&body, seeds[seed]);
		if (i >= (int)ARRAY_LEN(seeds))
			mutate(&body);
		struct api_call *c;
		struct fail fail;
		const struct dialect *kind = kinds[seed];
		bool good;
		if (fixture_try(fixture_api(), kind, buf_str(&body), &c, &fail) ==
		    OK) {
			good = answer(c);
			n_taken++;
			fixture_drop(c);
		} else {
			struct buf out = {0};
			api_error_format(&fail, &out);
			good = is_json(buf_str(&out)) && fail.text[0] &&
			       utf8_check(str_of(fail.text)) < 0;
			n_refused++;
			buf_deinit(&out);
		}
		if (!good) {
			n_bad++;
			printf("# %.*s\n", (int)body.n, body.p);
		}
		buf_deinit(&body);
	}
	is_int(n_bad, 0, "every body was answered or refused in good order");
	ok(n_taken > 100 && n_refused > 1000, "%d taken, %d refused", n_taken,
	   n_refused);
	return tap_done();
}
