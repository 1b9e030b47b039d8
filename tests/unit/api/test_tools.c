/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools and calls: what the model is shown, how an answer's calls go out, and how they
 * come back.
 */
#include "base/alloc.h"
#include "base/metrics.h"
#include "fixture.h"

#define ASK "<|im_start|>user\n"
#define ANSWER "<|im_end|>\n<|im_start|>assistant\n"
#define TOOLS \
	"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" \
	"{\"properties\":{\"x\":{\"type\":\"string\"}}}}},{\"function\":{\"name\":\"g\"}}]"
#define Q "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]"

/* --- an answer ----------------------------------------------------------- */

static void feed(struct api_call *c, enum event_kind kind, struct event_span *spans,
		 int n, enum finish finish, struct buf *out)
{
	const struct event e = {.kind = kind, .spans = spans, .n_spans = n,
				.finish = finish};
	char *bytes = fixture_event(c, &e);
	buf_add_z(out, bytes);
	free(bytes);
}

/* All that goes out for these spans. */
static char *answer(struct api_call *c, const struct event_span *spans, int n,
		    enum finish finish)
{
	struct buf out = {0};
	for (int i = 0; i < n; i++) {
		struct event_span one = spans[i];
		feed(c, EVENT_DELTA, &one, 1, FINISH_NONE, &out);
	}
	feed(c, EVENT_CHOICE_DONE, NULL, 0, finish, &out);
	feed(c, EVENT_DONE, NULL, 0, FINISH_NONE, &out);
	return buf_take(&out);
}

/* The n-th id in bytes, "" if there is none. */
static const char *id_in(const char *bytes, int n)
{
	static char id[64];
	const char *at = bytes;
	for (int i = 0; i <= n && at; i++)
		at = strstr(i ? at + 1 : at, "\"call_");
	snprintf(id, sizeof id, "%.*s", at ? (int)strcspn(at + 1, "\"") : 0,
		 at ? at + 1 : "");
	return id;
}

#define EXACT "<tool_call>{ \"name\":\"f\",\"arguments\":{\"x\":\"\\u00e9\"} }</tool_call>"

static const struct event_span two_calls[] = {
	{OUT_CONTENT, STR("Hm.")},
	{OUT_CALL_NAME, STR("f")},
	{OUT_CALL_ARGS, STR("{\"x\":")},
	{OUT_CALL_ARGS, STR("\"\\u00e9\"}")},
	{OUT_CALL_END, STR(EXACT)},
	{OUT_CALL_NAME, STR("g")},
	{OUT_CALL_ARGS, STR("{}")},
	{OUT_CALL_END, STR("<tool_call>g</tool_call>")},
};

static void test_whole(void)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, Q "," TOOLS "}");
	metrics_reset();
	char *got = answer(c, two_calls, ARRAY_LEN(two_calls), FINISH_STOP);
	char first[64], second[64];
	snprintf(first, sizeof first, "%s", id_in(got, 0));
	snprintf(second, sizeof second, "%s", id_in(got, 1));
	ok(strlen(first) == 29 && strlen(second) == 29 && strcmp(first, second),
	   "ids are long and differ");
	struct buf want = {0};
	buf_addf(&want,
		 "\"content\":\"Hm.\",\"tool_calls\":[{\"id\":\"%s\",\"type\":\"function\","
		 "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":"
		 "\\\"\\\\u00e9\\\"}\"}},{\"id\":\"%s\",\"type\":\"function\","
		 "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}],\"refusal\":null}",
		 first, second);
	ok(strstr(got, want.p), "both calls, arguments as strings");
	ok(strstr(got, "\"finish_reason\":\"tool_calls\""), "the finish reason");
	is_int(metric_get_by(METRIC_TOOL_CALLS, "complete"), 2, "both are counted");
	buf_deinit(&want);
	free(got);
	fixture_drop(c);

	c = fixture_call(fixture_api(), &dialect_chat, Q "," TOOLS "}");
	got = answer(c, two_calls + 1, 4, FINISH_LENGTH);
	ok(strstr(got, "\"content\":null,\"tool_calls\""), "no text beside a call");
	ok(strstr(got, "\"finish_reason\":\"length\""), "a cut answer is still cut");
	free(got);
	fixture_drop(c);
}

static void test_stream(void)
{
	static const char *const want[] = {
		"\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
		"\"delta\":{\"content\":\"Hm.\"}",
		"\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call_",
		"\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
		"\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
		"\"{\\\"x\\\":\"}}]}",
		"\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":"
		"\"\\\"\\\\u00e9\\\"}\"}}]}",
		"\"delta\":{\"tool_calls\":[{\"index\":1,\"id\":\"call_",
		"\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{}\"",
		"\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"",
	};
	struct api_call *c =
		fixture_call(fixture_api(), &dialect_chat, Q ",\"stream\":true," TOOLS "}");
	char *got = answer(c, two_calls, ARRAY_LEN(two_calls), FINISH_STOP);
	const char *at = got;
	for (size_t i = 0; i < ARRAY_LEN(want) && at; i++) {
		at = strstr(at, want[i]);
		ok(at, "in its place: %s", want[i]);
	}
	is_str(id_in(got, 2), "", "each id is said once");
	ok(!strstr(got, "tool_call>"), "the text of a call is not");
	free(got);
	fixture_drop(c);
}

/* max_tokens may end an answer inside a call. It stays a call, whole and streamed. */
static void test_cut(void)
{
	static const struct event_span spans[] = {
		{OUT_CALL_NAME, STR("f")},
		{OUT_CALL_ARGS, STR("{\"x\":\"a")},
		{OUT_CALL_CUT, STR("<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"a")},
	};
	for (int is_stream = 0; is_stream < 2; is_stream++) {
		struct api_call *c = fixture_call(fixture_api(), &dialect_chat,
						  is_stream ? Q ",\"stream\":true," TOOLS "}"
							    : Q "," TOOLS "}");
		metrics_reset();
		char *got = answer(c, spans, ARRAY_LEN(spans), FINISH_LENGTH);
		ok(strstr(got, "\"arguments\":\"{\\\"x\\\":\\\"a\"}}]") &&
		   strstr(got, "\"finish_reason\":\"length\"") && !strstr(got, "tool_call>") &&
		   (is_stream || strstr(got, "\"content\":null")),
		   "a cut call has its arguments so far, stream %d", is_stream);
		is_int(metric_get_by(METRIC_TOOL_CALLS, "cut"), 1, "and is counted");
		free(got);
		fixture_drop(c);
		c = fixture_call(fixture_api(), &dialect_chat,
				 is_stream ? Q ",\"stream\":true," TOOLS "}" : Q "," TOOLS "}");
		got = answer(c, spans + 2, 1, FINISH_LENGTH);
		ok(!strstr(got, "tool_call"), "without a name nothing is left, stream %d",
		   is_stream);
		free(got);
		fixture_drop(c);
	}
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, Q "," TOOLS "}");
	char *got = answer(c, spans, ARRAY_LEN(spans), FINISH_STOP);
	ok(strstr(got, "\"tool_calls\":[") && strstr(got, "\"finish_reason\":\"stop\""),
	   "a stop string that cuts a call does not ask for it to be run");
	free(got);
	fixture_drop(c);
}

static void test_broken(void)
{
	static const struct event_span spans[] = {
		{OUT_CALL_NAME, STR("f")},
		{OUT_CALL_ARGS, STR("{")},
		{OUT_CALL_BROKEN, STR("<tool_call>f{")},
		{OUT_CONTENT, STR("!x")},
		{OUT_CALL_NAME, STR("g")},
		{OUT_CALL_ARGS, STR("{}")},
		{OUT_CALL_END, STR("<tool_call>g")},
	};
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, Q "," TOOLS "}");
	metrics_reset();
	char *got = answer(c, spans, 4, FINISH_STOP);
	ok(strstr(got, "\"content\":\"<tool_call>f{!x\",\"refusal\":null}") &&
	   strstr(got, "\"finish_reason\":\"stop\""), "a broken call is text");
	is_int(metric_get_by(METRIC_TOOL_CALLS, "broken"), 1, "and counted");
	free(got);
	fixture_drop(c);

	c = fixture_call(fixture_api(), &dialect_chat, Q "," TOOLS "}");
	got = answer(c, spans, ARRAY_LEN(spans), FINISH_STOP);
	ok(strstr(got, "\"name\":\"g\"") && !strstr(got, "\"name\":\"f\""),
	   "a good one behind it is a call");
	free(got);
	fixture_drop(c);

	c = fixture_call(fixture_api(), &dialect_chat, Q ",\"stream\":true," TOOLS "}");
	got = answer(c, spans, ARRAY_LEN(spans), FINISH_STOP);
	ok(strstr(got, "\"delta\":{\"content\":\"<tool_call>f{\"}") &&
	   strstr(got, "{\"index\":1,\"id\""), "in a stream its index is not used again");
	free(got);
	fixture_drop(c);
}

/* --- the prompt ---------------------------------------------------------- */

static void expect_end(const struct api *a, const char *body, const char *end,
		       const char *begun, const char *fact)
{
	struct api_call *c = fixture_call(a, &dialect_chat, body);
	const struct outparse_opts *o = &api_call_request(c)->parse;
	char *prompt = fixture_prompt(c);
	size_t n = strlen(prompt), n_end = strlen(end);
	is_str(n > n_end ? prompt + n - n_end : prompt, end, "%s", fact);
	ok(str_eq(o->tools.begun, str_of(begun)), "%s: what the parser knows", fact);
	free(prompt);
	fixture_drop(c);
}

static void test_choice(void)
{
	const struct api *a = fixture_api();
	expect_end(a, Q "," TOOLS "}", ASK "q" ANSWER, "", "auto");
	expect_end(a, Q ",\"tool_choice\":\"required\"," TOOLS "}",
		   ANSWER "<think>\n\n</think>\n\n<tool_call>\n{\"name\":",
		   "<tool_call>\n{\"name\":", "required");
	expect_end(a, Q ",\"tool_choice\":\"required\",\"tools\":[{\"function\":{\"name\":"
		   "\"h\"}}]}",
		   "</think>\n\n<tool_call>\n{\"name\": \"h\", \"arguments\":",
		   "<tool_call>\n{\"name\": \"h\", \"arguments\":",
		   "required, with one tool");
	expect_end(a, Q ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":"
		   "\"g\"}}," TOOLS "}",
		   "<tool_call>\n{\"name\": \"g\", \"arguments\":",
		   "<tool_call>\n{\"name\": \"g\", \"arguments\":", "named");

	struct api_call *c = fixture_call(
		a, &dialect_chat, Q ",\"parallel_tool_calls\":false," TOOLS "}");
	const struct toolparse_opts *o = &api_call_request(c)->parse.tools;
	ok(o->one_call && o->n_tools == 2 && strcmp(o->format->name, "hermes") == 0,
	   "one call, in the template's format");
	ok(o->tools[0].n_params == 1 && o->tools[0].params[0].is_string,
	   "a parameter's type");
	fixture_drop(c);
	c = fixture_call(a, &dialect_chat, Q ",\"tool_choice\":\"none\"," TOOLS "}");
	ok(!api_call_request(c)->parse.tools.format, "none: no call is looked for");
	fixture_drop(c);
}

static void expect_close(const char *body, int max_reasoning, const char *close, const char *what)
{
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, body);
	const struct request *r = api_call_request(c);
	struct buf text = {0};
	tokenizer_decode(fixture_model()->tokenizer, r->close_ids, (size_t)r->n_close_ids, false,
			 &text);
	is_str(buf_str(&text).p, close, "%s: what closes it", what);
	is_int(r->max_reasoning, max_reasoning, "%s: the budget", what);
	buf_deinit(&text);
	fixture_drop(c);
}

#define SAID "\"reasoning_budget_message\":\" I have to answer now.\""

static void test_budget_message(void)
{
	expect_close(Q ",\"thinking_budget\":7," SAID "}", 7,
		     " I have to answer now.\n</think>\n\n", "a message before the close");
	expect_close(Q ",\"thinking_budget\":0," SAID "}", 0, "\n</think>\n\n",
		     "no thinking, no message");
	struct api_call *c = fixture_call(fixture_api(), &dialect_chat, Q "," SAID "}");
	is_int(api_call_request(c)->n_close_ids, 0, "a message without a budget changes nothing");
	fixture_drop(c);
	expect_close(Q ",\"thinking_budget\":7,\"reasoning_budget_message\":\"<|im_end|>\"}", 7,
		     "<|im_end|>\n</think>\n\n", "control tokens in it are text");
	c = fixture_call(fixture_api(), &dialect_chat,
			 Q ",\"thinking_budget\":7,\"reasoning_budget_message\":\"<|im_end|>\"}");
	const struct request *r = api_call_request(c);
	int32_t end = tokenizer_find(fixture_model()->tokenizer, STR("<|im_end|>"));
	int n_end = 0;
	for (int i = 0; i < r->n_close_ids; i++)
		n_end += r->close_ids[i] == end;
	ok(end > 0 && n_end == 0, "and not the token");
	fixture_drop(c);
}

/* One budget for all requests of a turn: what was thought since the user's message. */
static void test_budget_of_turn(void)
{
#define TURN(key, user) "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}," \
	"{\"role\":\"assistant\",\"content\":\"\",\"" key "\":\"one two three\"," \
	"\"tool_calls\":[" \
	"{\"id\":\"c1\",\"type\":\"function\"," \
	"\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}," \
	"{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"four five six\"}" user \
	"],\"thinking_budget\":"
	struct ids ids = {0};
	struct fail fail = {0};
	if (tokenizer_encode(fixture_model()->tokenizer, STR("one two three"), TRUST_MODEL, &ids,
			     &fail) != OK)
		exit(99);
	int n = (int)ids.n;
	ids_deinit(&ids);
	ok(n > 1, "it has %d tokens", n);
	expect_close(TURN("reasoning_content", "") "100}", 100 - n, "\n</think>\n\n",
		     "a turn with tools");
	expect_close(TURN("reasoning", "") "100}", 100 - n, "\n</think>\n\n", "by its other name");
	expect_close(TURN("reasoning", "") "1," SAID "}", 0, "\n</think>\n\n", "all is spent");
	expect_close(TURN("reasoning", ",{\"role\":\"user\",\"content\":\"r\"}") "100}", 100,
		     "\n</think>\n\n", "the user's next message begins anew");
}

static void test_budget(void)
{
	static const char *const bodies[] = {
		Q ",\"thinking_budget\":7}", Q ",\"max_reasoning_tokens\":7}",
		Q ",\"thinking_token_budget\":7}", Q ",\"thinking_budget_tokens\":7}",
		Q ",\"chat_template_kwargs\":{\"thinking_budget\":7}}"};
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct api_call *c = fixture_call(fixture_api(), &dialect_chat, bodies[i]);
		const struct request *r = api_call_request(c);
		struct buf text = {0};
		tokenizer_decode(fixture_model()->tokenizer, r->close_ids,
				 (size_t)r->n_close_ids, false, &text);
		is_str(buf_str(&text).p, "\n</think>\n\n", "what closes the reasoning");
		is_int(r->max_reasoning, 7, "and when");
		buf_deinit(&text);
		fixture_drop(c);
	}
	struct api_call *c =
		fixture_call(fixture_api(), &dialect_chat, Q ",\"thinking_budget\":-1}");
	is_int(api_call_request(c)->n_close_ids, 0, "-1: no bound");
	fixture_drop(c);
	test_budget_message();
	test_budget_of_turn();
	expect_end(fixture_api(), Q ",\"reasoning_effort\":\"none\"}",
		   "<think>\n\n</think>\n\n", "", "no effort, no thinking");
}

static void test_continue(void)
{
	const struct api *a = fixture_api();
#define CONTINUE(text) \
	"{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\"," \
	"\"content\":\"" text "\"}],\"continue_final_message\":true}"
	expect_end(a, CONTINUE("Once upon "), "<think>\n\n</think>\n\nOnce upon ", "",
		   "the last message goes on");
	struct api_call *c = fixture_call(a, &dialect_chat, CONTINUE("<think>so"));
	ok(api_call_request(c)->parse.starts_in_reasoning, "inside its reasoning");
	fixture_drop(c);
	expect_end(a, Q ",\"add_generation_prompt\":false}", ASK "q<|im_end|>\n", "",
		   "no turn is opened");
	static const struct {
		const struct dialect *kind;
		const char *body;
		bool is_text;
	} rows[] = {
		{&dialect_chat, Q "}", true},
		{&dialect_chat, CONTINUE("Once"), false},
		{&dialect_chat, Q ",\"tool_choice\":\"required\"," TOOLS "}", false},
		{&dialect_completion, "{\"prompt\":\"a\"}", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		c = fixture_call(a, rows[i].kind, rows[i].body);
		is_int(api_call_request(c)->is_text, rows[i].is_text,
		       "%s: is the answer a text of its own", rows[i].body);
		fixture_drop(c);
	}
}

/* --- calls that come back ------------------------------------------------- */

/* The conversation with one call, its id and arguments as a client spells them. */
static char *history(const char *id, const char *args)
{
	struct buf b = {0};
	buf_addf(&b, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
		     "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"%s\","
		     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
		     "%s}}]},{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":"
		     "\"r\"}]}", id, args, id);
	return buf_take(&b);
}

static void expect_in(const struct api *a, const char *id, const char *args,
		      const char *part, const char *fact)
{
	char *body = history(id, args);
	struct api_call *c = fixture_call(a, &dialect_chat, body);
	char *prompt = fixture_prompt(c);
	ok(strstr(prompt, part), "%s", fact);
	if (!strstr(prompt, part))
		printf("# %s\n", prompt);
	free(prompt);
	free(body);
	fixture_drop(c);
}

static void test_exact_text(void)
{
	const struct api *a = fixture_api();
	struct api_call *c = fixture_call(a, &dialect_chat, Q "," TOOLS "}");
	char *got = answer(c, two_calls, ARRAY_LEN(two_calls), FINISH_STOP);
	char id[64];
	snprintf(id, sizeof id, "%s", id_in(got, 0));
	expect_in(a, id, "\"{ \\\"x\\\": \\\"é\\\" }\"",
		  "</think>\n\n" EXACT "<|im_end|>\n",
		  "a call spelled anew has the model's own words");
	expect_in(a, id, "\"{\\\"x\\\":\\\"e\\\"}\"",
		  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"e\"}}\n",
		  "one that was changed does not");
	expect_in(a, "call_other", "\"{\\\"x\\\":1}\"",
		  "{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n",
		  "nor has one that is not known");
	expect_in(a, "call_other", "{\"x\":1}", "\"arguments\": {\"x\": 1}}\n",
		  "an object is taken, too");
	expect_in(a, "call_other", "\"{broken\"", "\"arguments\": {broken}\n",
		  "what is no JSON goes as it came where the template can");
	free(got);
	fixture_drop(c);
}

/* Formats without words around a call: the arguments alone are the model's. */
static void test_exact_args(void)
{
	static const struct event_span call[] = {
		{OUT_CALL_NAME, STR("f")},
		{OUT_CALL_ARGS, STR("{ \"x\":\"\\u00e9\" }")},
		{OUT_CALL_END, STR("text")},
	};
	static const struct {
		const char *format, *source, *want, *fact;
	} rows[] = {
		{"mistral", "{{ messages[1].tool_calls | tojson }}",
		 "\"arguments\": { \"x\":\"\\u00e9\" }", "a template that dumps the call"},
		{"llama3", "{% set c = messages[1].tool_calls[0].function %}{\"parameters\": "
			   "{{ c.arguments | tojson }}}",
		 "{\"parameters\": { \"x\":\"\\u00e9\" }}", "one that dumps the arguments"},
		{"harmony", "{% set c = messages[1].tool_calls[0].function %}<{{ c.name }}"
			    "{{ '<' + c.arguments + '>' }}",
		 "<f<{ \"x\":\"\\u00e9\" }>", "one that prints strings"},
		{"mistral-args", "{% for k, v in messages[1].tool_calls[0].function.arguments"
				 " | items %}{{ k }}={{ v }}{% endfor %}",
		 "x=\xc3\xa9", "one that walks them has its own way"},
		{"llama3", "{{ messages[1].tool_calls[0].function.arguments | string | tojson "
			   "}}", "\"{\\\"x\\\":\\\"\xc3\xa9\\\"}\"", "so has one that quotes"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model copy = *fixture_model();
		copy.chat_template = (char *)rows[i].source;
		const struct api_opts o = {
			.model = &copy, .model_name = "m", .n_ctx = 512,
			.tool_format = rows[i].format, .clock = &clock_monotonic};
		struct api *a;
		char id[64];
		if (api_create(&o, &a, NULL) != OK)
			exit(1);
		char *asked = history("x", "\"{}\"");
		struct api_call *c = fixture_call(a, &dialect_chat, asked);
		char *got = answer(c, call, ARRAY_LEN(call), FINISH_STOP);
		snprintf(id, sizeof id, "%s", id_in(got, 0));
		expect_in(a, id, "\"{\\\"x\\\":\\\"\xc3\xa9\\\"}\"", rows[i].want,
			  rows[i].fact);
		free(got);
		free(asked);
		fixture_drop(c);
		api_destroy(a);
	}
}

/* A template with the marks of Qwen3.5's and Qwen3.8's: the format is found by them, calls come
 * from its words, and a history goes back into them. */
static void test_functions_in_xml(void)
{
	static const char source[] =
		"{% if tools %}Reply with <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n"
		"</parameter>\n</function>\n</tool_call>\n{% endif %}"
		"{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}"
		"{% for call in m.tool_calls or [] %}{% set f = call.function %}"
		"{{ '<tool_call>\n<function=' + f.name + '>\n' }}"
		"{% for k, v in f.arguments | items %}{{ '<parameter=' + k + '>\n' }}"
		"{{ v if v is string else v | tojson }}{{ '\n</parameter>\n' }}{% endfor %}"
		"{{ '</function>\n</tool_call>' }}{% endfor %}{% endfor %}";
	struct model copy = *fixture_model();
	copy.chat_template = (char *)source;
	struct api *a = fixture_api_of(&copy);
	struct api_call *c = fixture_call(a, &dialect_chat, Q "," TOOLS "}");
	const struct tool_format *f = api_call_request(c)->parse.tools.format;
	is_str(f ? f->name : NULL, "qwen3-coder", "its template tells the format");
	fixture_drop(c);
	expect_in(a, "call_other", "\"{\\\"x\\\":\\\"two\\\",\\\"n\\\":[1]}\"",
		  "<tool_call>\n<function=f>\n<parameter=x>\ntwo\n</parameter>\n<parameter=n>\n"
		  "[1]\n</parameter>\n</function>\n</tool_call>", "a call in its words");
	api_destroy(a);
}

#define TURNS(call) \
	"{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}" \
	"{% for c in m.tool_calls %}" call "{% endfor %}" \
	"{% else %}[{{ m.content }}]{% endif %}{% endfor %}"

static void test_templates(void)
{
	static const struct {
		const char *source, *args, *want, *fact;
	} rows[] = {
		{TURNS("{{ c.function.arguments | tojson }}"), "\"{\\\"x\\\":1}\"",
		 "{\"x\": 1}", "a template that dumps wants objects"},
		{TURNS("{{ '(' + c.function.arguments + ')' }}"), "{\"x\":1}",
		 "({\"x\": 1})", "one that concatenates wants strings"},
		{TURNS("{{ c.function.arguments }}"), "\"{\\\"x\\\":1}\"",
		 "{\"x\":1}", "one that prints does, too"},
		{TURNS("{% for k, v in c.function.arguments | items %}{{ k }}={{ v }}"
		       "{% endfor %}"), "\"{\\\"x\\\":\\\"y\\\"}\"",
		 "x=y", "one that walks wants objects"},
		{TURNS("{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}"
		       "{{ c.id | length }}:{{ c.function.arguments | tojson }}"),
		 "{\"x\":1}", "9:{\"x\": 1}", "one that wants short ids gets them"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct model copy = *fixture_model();
		copy.chat_template = (char *)rows[i].source;
		struct api *a = fixture_api_of(&copy);
		expect_in(a, "call_0123456789", rows[i].args, rows[i].want,
			  rows[i].fact);
		api_destroy(a);
	}
	/* A template that shows no calls, of a model that writes them in Python. */
	struct model silent = *fixture_model();
	silent.chat_template = (char *)"{% for m in messages %}<{{ m.content }}>{% endfor %}"
				       "{# <|tool_list_start|> #}";
	struct api *of_silent = fixture_api_of(&silent);
	expect_in(of_silent, "call_0123456789",
		  "\"{\\\"x\\\":[1.5,null,{\\\"y\\\":true}],\\\"a b\\\":\\\"q\\\"}\"",
		  "<|tool_call_start|>[f(x=[1.5, None, {\"y\": True}], **{\"a b\": \"q\"})]"
		  "<|tool_call_end|>>", "calls that a template hides are shown to it");
	api_destroy(of_silent);
	/* The same as a list of JSON. */
	silent.chat_template = (char *)"{% for m in messages %}<{{ m.content }}>{% endfor %}"
				       "{# <|start_of_role|> <|tool_call|> #}";
	of_silent = fixture_api_of(&silent);
	expect_in(of_silent, "call_0123456789", "\"{\\\"x\\\":[1.5,null]}\"",
		  "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"x\": [1.5, null]}}]>",
		  "also as a list of JSON");
	api_destroy(of_silent);
	struct model copy = *fixture_model();
	copy.chat_template = (char *)rows[0].source;
	struct api *a = fixture_api_of(&copy);
	char *body = history("x", "\"{broken\"");
	const struct refused no[] = {
		{body, E_INVAL, "messages[1].tool_calls[0].function.arguments",
		 "a JSON object"}};
	fixture_check_refused(a, &dialect_chat, no, ARRAY_LEN(no));
	free(body);
	api_destroy(a);
}

/* A template that knows no tools: they become text, unless the settings say that calls are
 * text. */
static void test_plain(void)
{
	struct model copy = *fixture_model();
	copy.chat_template = (char *)"{% for m in messages %}<{{ m.role }}:{{ m.content }}>"
				     "{% endfor %}";
	struct api *a = fixture_api_of(&copy);
	expect_in(a, "x", "\"{\\\"x\\\": 1.10}\"",
		  "<assistant:<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1.10}}\n"
		  "</tool_call>><user:<tool_response>\nr\n</tool_response>>",
		  "a call and its result");
	api_destroy(a);
	const struct api_opts o = {.model = &copy, .model_name = "m", .n_ctx = 512,
				   .tool_format = "none", .clock = &clock_monotonic};
	a = fixture_api_with(&o);
	static const struct refused no[] = {
		{Q ",\"tool_choice\":\"required\"," TOOLS "}", E_INVAL, "tool_choice", "format"},
		{Q "," TOOLS "}", E_INVAL, "tools", "shows no tools"}};
	fixture_check_refused(a, &dialect_chat, no, ARRAY_LEN(no));
	api_destroy(a);
}

int main(void)
{
	test_whole();
	test_stream();
	test_cut();
	test_broken();
	test_choice();
	test_budget();
	test_continue();
	test_exact_text();
	test_exact_args();
	test_templates();
	test_plain();
	test_functions_in_xml();
	return tap_done();
}
