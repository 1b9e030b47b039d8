/* SPDX-License-Identifier: Apache-2.0
 *
 * The grammar of calls in every format, with tags that are special tokens where models
 * have such: what it accepts and refuses, and that whatever is written under it is
 * read as valid calls. The scripts below are what models write.
 */
#include "base/alloc.h"
#include "base/metrics.h"
#include "base/utf8.h"
#include "chat/grammarcache.h"
#include "fixture.h"
#include "model/tokenizer_hf.h"
#include "sched/guard.h"

/* --- a model with the tags of all formats -------------------------------- */

static const char *const specials[] = {
	"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|channel|>", "<|constrain|>",
	"<|message|>", "<|python_tag|>", "<arg_key>", "</arg_key>", "<arg_value>",
	"</arg_value>", "</parameter>", "<|tool_call>", "<tool_call|>", "<|\"|>",
	"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
	"<|tool_call_argument_begin|>", "<|tool_call_end|>", "<｜tool▁calls▁begin｜>",
	"<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
	"<TOOLCALL>", "</TOOLCALL>", "<|tool_call_start|>"};

static struct tokenizer *make_tokenizer(void)
{
	struct tokenizer *t;
	struct fail fail;
	json_t *j = json_load_file(tap_src("models/halo-tiny/tokenizer.json"), 0, NULL);
	json_t *added = json_object_get(j, "added_tokens");
	for (size_t i = 0; i < ARRAY_LEN(specials); i++)
		json_array_append_new(
			added, json_pack("{si, ss, sb, sb, sb, sb, sb}", "id",
					 3072 + (int)i, "content", specials[i],
					 "special", 1, "single_word", 0, "lstrip", 0,
					 "rstrip", 0, "normalized", 0));
	char *text = json_dumps(j, 0);
	if (!text || tokenizer_hf_parse(str_of(text), "tokenizer.json", &t, &fail) != OK) {
		printf("Bail out! %s\n", fail.text);
		exit(1);
	}
	free(text);
	json_decref(j);
	return t;
}

static struct model model;
static struct grammar_vocab *vocab;

static struct api *api_of(const char *format)
{
	const struct api_opts o = {
		.model = &model, .model_name = "m", .n_ctx = 512,
		.tool_format = format, .clock = &clock_monotonic};
	return fixture_api_with(&o);
}

#define TOOLS \
	"\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":" \
	"\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"maxLength\":3},\"n\":{" \
	"\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"t\":{\"type\":\"string\"}}," \
	"\"required\":[\"n\"]}}},{\"function\":{\"name\":\"go\",\"strict\":true}}]"
#define Q "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]," TOOLS
#define AUTO Q "}"
#define ONE Q ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}"
#define ANY Q ",\"tool_choice\":\"required\"}"
#define SINGLE Q ",\"tool_choice\":\"required\",\"parallel_tool_calls\":false}"

#define FORCED(schema) "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"tools\":[{" \
	"\"function\":{\"name\":\"f\",\"strict\":true,\"parameters\":{\"type\":\"object\"," \
	schema "}}}],\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}"
#define PYTHON FORCED("\"properties\":{\"b\":{\"type\":\"boolean\"},\"v\":{}," \
	"\"k\":{\"enum\":[null,\"x\"]},\"a-b\":{\"type\":\"null\"}}")
#define OPEN FORCED("\"additionalProperties\":{\"type\":\"integer\"}")

/* ^ stands for GRAMMAR_SPECIAL. */
static char *with_marks(const char *s)
{
	char *copy = xstrdup(s);
	for (char *p = copy; *p; p++)
		if (*p == '^')
			*p = GRAMMAR_SPECIAL;
	return copy;
}

/* --- what is accepted ---------------------------------------------------- */

static const struct script {
	const char *format, *body, *text;
	bool good;
} scripts[] = {
	{"hermes", ONE, " {\"n\": 3}}\n</tool_call>", true},
	{"hermes", ONE, "{\"s\":\"abc\",\"n\":9}}</tool_call>", true},
	{"hermes", ONE, " {\"n\": 3}}\n</tool_call>\n<tool_call>", false},
	{"hermes", ONE, " {}}\n</tool_call>", false},
	{"hermes", ONE, " {\"n\": 30}}\n</tool_call>", false},
	{"hermes", ANY, " \"go\", \"arguments\": {}}\n</tool_call>", true},
	{"hermes", ANY, " \"go\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
	 "\"f\", \"arguments\": {\"n\": 1}}\n</tool_call>", true},
	{"hermes", SINGLE, " \"go\", \"arguments\": {}}\n</tool_call>\n<", false},
	{"hermes", ANY, " \"gone\", ", false},
	{"hermes", ANY, " \"go\", \"arguments\": {\"n\": 1}}\n</tool_call>", false},
	{"hermes", AUTO, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 2}}\n"
	 "</tool_call>", true},
	{"qwen3-coder", ONE, "<parameter=n>\n3\n^</parameter>\n</function>\n</tool_call>", true},
	{"qwen3-coder", ONE, "<parameter=s>\na<b\n^</parameter>\n<parameter=n>\n3", false},
	{"qwen3-coder", ONE, "<parameter=s>\nab\n^</parameter>\n<parameter=n>\n3\n"
	 "^</parameter>\n<parameter=t>\nany <tex</t>\n</paramete\n^</parameter>\n"
	 "</function>\n</tool_call>", true},
	{"qwen3-coder", ONE, "<parameter=n>\n3\n^</parameter>\n<parameter=t>\n</parameter>",
	 false},
	{"qwen3-coder", ONE, "<parameter=n>\n3\n^</parameter>\n<parameter=s>", false},
	{"qwen3-coder", ONE, "<parameter=n>\n33", false},
	{"qwen3-coder", ANY, "go>\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n"
	 "<parameter=n>\n7\n^</parameter>\n</function>\n</tool_call>", true},
	{"qwen3-coder", AUTO, "<function=go></function>", true},
	{"glm", ONE, "^<arg_key>s^</arg_key>\n^<arg_value>ab^</arg_value>\n^<arg_key>n"
	 "^</arg_key>\n^<arg_value>3^</arg_value>\n</tool_call>", true},
	{"glm", ONE, "^<arg_key>n^</arg_key>\n^<arg_value>3^</arg_value>\n^<arg_key>t"
	 "^</arg_key>\n^<arg_value>\n<x> </arg_valu ^</arg_value>\n</tool_call>", true},
	{"glm", ONE, "<arg_key>", false},
	{"glm", ANY, "go\n</tool_call>", true},
	{"hy3", ONE, "<arg_key:opensource>n</arg_key:opensource>\n<arg_value:opensource>3"
	 "</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>", true},
	{"hy3", ONE, "<arg_key:opensource>n</arg_key:opensource>\n<arg_value:opensource>33",
	 false},
	{"hy3", ANY, "go<tool_sep:opensource>\n</tool_call:opensource>\n"
	 "</tool_calls:opensource>", true},
	{"hy3", SINGLE, "go<tool_sep:opensource>\n</tool_call:opensource>\n<tool_call:", false},
	{"hy3-preview", ONE, "^<arg_key>n^</arg_key>\n^<arg_value>3^</arg_value>\n</tool_call>\n"
	 "</tool_calls>", true},
	{"hy3-preview", SINGLE, "go<tool_sep>\n</tool_call>\n<tool_call>", false},
	{"atem", ONE, "<atem:parameter name=\"n\">3</atem:parameter>\n</atem:invoke>\n"
	 "</atem:function_calls>", true},
	{"atem", ONE, "<atem:parameter name=\"n\">33", false},
	{"atem", ANY, "go\">\n</atem:invoke>\n<atem:invoke name=\"f\">\n<atem:parameter name="
	 "\"n\">7</atem:parameter>\n</atem:invoke>\n</atem:function_calls>", true},
	{"minimax", ONE, "<parameter name=\"n\">3^</parameter>\n</invoke>\n"
	 "</minimax:tool_call>", true},
	{"minimax", ONE, "<parametername=\"n\">3", false},
	{"minimax", ANY, "go\">\n</invoke>\n<invoke name=\"f\">\n<parameter name=\"n\">7"
	 "^</parameter>\n</invoke>\n</minimax:tool_call>", true},
	{"minimax", SINGLE, "go\">\n</invoke>\n<invoke", false},
	{"deepseek-v4", ONE, "<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n"
	 "</｜DSML｜invoke>\n</｜DSML｜tool_calls>", true},
	{"deepseek-v4", ONE, "<｜DSML｜parameter name=\"n\" string=\"true\">3", false},
	{"deepseek-v4", ONE, "<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n"
	 "<｜DSML｜parameter name=\"t\" string=\"true\">a </｜DSML｜ b</｜DSML｜parameter>\n"
	 "</｜DSML｜invoke>\n</｜DSML｜tool_calls>", true},
	{"deepseek-v4", ANY, "go\">\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"f\">\n"
	 "<｜DSML｜parameter name=\"n\" string=\"false\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
	 "</｜DSML｜tool_calls>", true},
	{"deepseek-v3.2", ANY, "go\">\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"f\">\n"
	 "<｜DSML｜parameter name=\"n\" string=\"false\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
	 "</｜DSML｜function_calls>", true},
	{"deepseek-v3.2", ONE, "<｜DSML｜parameter name=\"n\" string=\"false\">3"
	 "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>", false},
	{"deepseek-v4", SINGLE, "go\">\n</｜DSML｜invoke>\n<｜DSML｜invoke", false},
	{"seed", ONE, "<parameter=n>3^</parameter>\n</function>\n</seed:tool_call>", true},
	{"seed", ANY, "gone>", false},
	{"llama3", ONE, " {\"n\": 3}}", true},
	{"llama3", ANY, " \"go\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": "
	 "{\"n\": 3}}", true},
	{"llama3", AUTO, "^<|python_tag|>{\"name\": \"go\", \"parameters\": {}}", true},
	{"llama3", AUTO, "<|python_tag|>{\"name\": \"go\", \"parameters\": {}}", true},
	{"mistral", ONE, " {\"n\": 3}}]", true},
	{"mistral", ANY, " \"go\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": "
	 "{\"n\": 3}}]", true},
	{"mistral", SINGLE, " \"go\", \"arguments\": {}},", false},
	{"mistral", AUTO, "[TOOL_CALLS][{\"name\": \"go\", \"arguments\": {}},", true},
	{"mistral", AUTO, ", {\"name\": \"go\", \"arguments\": {}}]", true},
	{"mistral-args", ONE, "{\"n\": 3}", true},
	{"mistral-args", ANY, "go^[ARGS]{}^[TOOL_CALLS]f^[ARGS]{\"n\": 3}", true},
	{"mistral-args", ANY, "f^[CALL_ID]abcDEF123^[ARGS]{\"n\": 3}", true},
	{"mistral-args", ANY, "go[ARGS]", false},
	{"mistral-args", AUTO, "[TOOL_CALLS]f^[ARGS]{\"n\": 4}", true},
	{"harmony", ONE, "{\"n\": 3}", true},
	{"harmony", ANY, "f ^<|constrain|>json^<|message|>{\"n\": 3}", true},
	{"harmony", ANY, "g <|constrain", false},
	{"harmony", AUTO, "f<|message|>{\"n\": 3}", true},
	{"harmony", AUTO, "f<|message|>{\"n\": 0", false},
	{"gemma4", ONE, "{n:3,t:^<|\"|>a <|\" {b}\n\"^<|\"|>}^<tool_call|>", true},
	{"gemma4", ONE, "{s:^<|\"|>abc^<|\"|>,n:9}^<tool_call|>", true},
	{"gemma4", ONE, "{s:^<|\"|>abcd", false},
	{"gemma4", ONE, "{s:^<|\"|>a<", false},
	{"gemma4", ONE, "{s:\"a", false},
	{"gemma4", ONE, "{s:<|\"|>a", false},
	{"gemma4", ONE, "{\"n\"", false},
	{"gemma4", ONE, "{n:3,t:^<|\"|>a<|\"|>", false},
	{"gemma4", ANY, "go{}^<tool_call|>^<|tool_call>call:f{n:1}^<tool_call|>", true},
	{"gemma4", SINGLE, "go{}^<tool_call|>^<", false},
	{"gemma4", AUTO, "<|tool_call>call:f{n: 2}^<tool_call|>", true},
	{"gemma4", AUTO, "^<|tool_call>call:f{n: 2}^<tool_call|>", true},
	{"gemma4", AUTO, "^<|tool_call>call:f{m", false},
	{"lfm2", ONE, "n=3, t=\"a \\\"b\\\"\")]^<|tool_call_end|>", true},
	{"lfm2", ONE, "s=\"abc\",n=9)]^<|tool_call_end|>", true},
	{"lfm2", ONE, "s=\"abcd", false},
	{"lfm2", ONE, "n=30", false},
	{"lfm2", ONE, "\"n\"", false},
	{"lfm2", ONE, "n=3, m=", false},
	{"lfm2", ONE, ")]", false},
	{"lfm2", ANY, "go(), f(n=1)]^<|tool_call_end|>", true},
	{"lfm2", SINGLE, "go(),", false},
	{"lfm2", SINGLE, "go()]^<|tool_call_end|>", true},
	{"lfm2", AUTO, "^<|tool_call_start|>[f(n=2)]^<|tool_call_end|>", true},
	{"lfm2", AUTO, "<|tool_call_start|>[f(n=2),", true},
	{"lfm2", AUTO, "<|tool_call_start|>[f(m", false},
	{"lfm2", PYTHON, "b=True, v=[1, \"x\", False, {\"a\": None}], k=None)]^<|tool_call_end|>",
	 true},
	{"lfm2", PYTHON, "b=true", false},
	{"lfm2", PYTHON, "k=\"x\", v={})]^<|tool_call_end|>", false},
	{"lfm2", PYTHON, "v={\"a\": [None]}, k=\"x\")]^<|tool_call_end|>", true},
	{"lfm2", OPEN, "a_1=1, B=2)]^<|tool_call_end|>", true},
	{"lfm2", OPEN, "a=\"1\"", false},
	{"lfm2", OPEN, "1a=1", false},
	{"kimi", ONE, "{\"n\": 3}^<|tool_call_end|>^<|tool_calls_section_end|>", true},
	{"kimi", ANY, "go:0^<|tool_call_argument_begin|>{}^<|tool_call_end|>"
	 "^<|tool_call_begin|>functions.f:1^<|tool_call_argument_begin|>{\"n\": 3}"
	 "^<|tool_call_end|>^<|tool_calls_section_end|>", true},
	{"kimi", AUTO, "<|tool_calls_section_begin|>^<|tool_call_begin|>functions.go:0"
	 "^<|tool_call_argument_begin|>{}^<|tool_call_end|>^<|tool_calls_section_end|>", true},
	{"kimi", AUTO, "<|tool_calls_section_begin|><|tool_call_begin|>", false},
	{"deepseek", ONE, "{\"n\": 3}^<｜tool▁call▁end｜>^<｜tool▁calls▁end｜>", true},
	{"deepseek", AUTO, "<｜tool▁calls▁begin｜>^<｜tool▁call▁begin｜>go^<｜tool▁sep｜>{}"
	 "^<｜tool▁call▁end｜>^<｜tool▁calls▁end｜>", true},
	{"deepseek-v3", ANY, "go\n```json\n{}\n```^<｜tool▁call▁end｜>\n^<｜tool▁call▁begin｜>"
	 "function^<｜tool▁sep｜>f\n```json\n{\"n\": 1}\n```^<｜tool▁call▁end｜>"
	 "^<｜tool▁calls▁end｜>", true},
	{"nemotron", ONE, " {\"n\": 3}}]^</TOOLCALL>", true},
	{"granite", ONE, " {\"n\": 3}}]", true},
	{"granite", ANY, " \"go\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": "
	 "{\"n\": 1}}]", true},
	{"nemotron", ANY, " \"go\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": "
	 "{\"n\": 1}}]^</TOOLCALL>", true},
};

static struct grammar_state *state_of(struct api_call *c)
{
	const struct request *r = api_call_request(c);
	struct grammar_state *s =
		grammar_state_create(r->grammar ? r->grammar : r->call_grammar, vocab);
	if (r->grammar && grammar_state_accept(s, r->grammar_begun) != OK)
		ok(false, "what the prompt has begun is of the grammar");
	return s;
}

static void test_scripts(void)
{
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		const struct script *x = &scripts[i];
		struct api *a = api_of(x->format);
		struct api_call *c = fixture_call(a, &dialect_chat, x->body);
		struct grammar_state *s = state_of(c);
		char *text = with_marks(x->text);
		bool is_in = grammar_state_accept(s, str_of(text)) == OK &&
			     grammar_state_may_end(s);
		ok(is_in == x->good, "%s, script %zu: %.50s", x->format, i, x->text);
		free(text);
		grammar_state_destroy(s);
		fixture_drop(c);
		api_destroy(a);
	}
}

/* --- whatever is written ------------------------------------------------- */

static uint64_t seed = 1;
static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

/* Ends of values that are no tokens, and what is left of one where the walk writes it: no
 * walk would find it by itself. */
static const char *const long_ends[] = {"</｜DSML｜parameter>", "</arg_value:opensource>",
					      "</atem:parameter>"};
static const char *closing = "";

/* The longest token that goes on with it and may come; -1: none does. */
static int32_t closing_token(const uint64_t *bits)
{
	int32_t best = -1;
	size_t n = 0;
	for (int32_t i = 0; i < 3200; i++) {
		struct str t = tokenizer_bytes(model.tokenizer, i);
		if (bits[i / 64] >> (i % 64) & 1 && t.n > n &&
		    !tokenizer_is_special(model.tokenizer, i) &&
		    str_starts(str_of(closing), t)) {
			best = i;
			n = t.n;
		}
	}
	closing = best >= 0 ? closing + n : "";
	return best;
}

/* A token that is allowed; what ends a text or a list more often than chance would. */
static int32_t next_token(struct grammar_state *s)
{
	static uint64_t bits[50];
	static int32_t ids[3200];
	static const char *const ends[] = {"\"", "}", "</parameter>", "</arg_value>",
					   "<|\"|>"};
	uint32_t n = 0;
	if (grammar_state_mask(s, bits, ARRAY_LEN(bits)) != OK)
		return -1;
	if (!*closing && draw(8) == 0)
		closing = long_ends[draw(ARRAY_LEN(long_ends))];
	int32_t next = *closing ? closing_token(bits) : -1;
	if (next >= 0)
		return next;
	for (int32_t i = 0; i < 3200; i++)
		if (bits[i / 64] >> (i % 64) & 1)
			ids[n++] = i;
	int32_t end = tokenizer_find(model.tokenizer, str_of(ends[draw(ARRAY_LEN(ends))]));
	if (draw(2) == 0 && end >= 0 && bits[end / 64] >> (end % 64) & 1)
		return end;
	return n ? ids[draw(n)] : -1;
}

struct seen {
	int n_calls, n_bad;
	struct buf name, args, rest;
};

static bool is_valid(struct seen *x)
{
	json_t *v = json_loadb(x->args.p, x->args.n, JSON_ALLOW_NUL, NULL);
	json_int_t n = json_integer_value(json_object_get(v, "n"));
	json_t *s = json_object_get(v, "s"), *t = json_object_get(v, "t");
	size_t n_s = s ? utf8_count(str_of(json_string_value(s) ?: "long")) : 0;
	size_t n_known = (s != NULL) + (t != NULL) + (n != 0);
	bool good = str_is(buf_str(&x->name), "go")
			    ? json_is_object(v) && json_object_size(v) == 0
			    : n >= 1 && n <= 9 && n_s <= 3 && (!t || json_is_string(t)) &&
				      json_object_size(v) == n_known;
	json_decref(v);
	return good;
}

static void on_text(void *ctx, enum out_channel channel, struct str text)
{
	struct seen *x = ctx;
	if (channel == OUT_CALL_NAME) {
		buf_clear(&x->args);
		buf_clear(&x->name);
		buf_add_str(&x->name, text);
	} else if (channel == OUT_CALL_ARGS) {
		buf_add_str(&x->args, text);
	} else if (channel == OUT_CALL_END) {
		x->n_calls++;
		x->n_bad += !is_valid(x);
	} else {
		buf_add_str(&x->rest, text);
	}
}

/* One answer written at random: its calls, put together as the daemon does. */
static void write_one(struct api_call *c, struct seen *x)
{
	const struct request *r = api_call_request(c);
	struct grammar_state *s = state_of(c);
	struct toolparse *p = toolparse_create(&r->parse.tools, on_text, x);
	struct detok d;
	struct buf bytes = {0};
	detok_init(&d, model.tokenizer, false);
	toolparse_push(p, r->parse.tools.begun);
	int n = 0;
	for (; n < 3000 && !toolparse_is_over(p); n++) {
		if (grammar_state_must_end(s) ||
		    (grammar_state_may_end(s) && (n > 300 || draw(2) == 0)))
			break;
		int32_t id = next_token(s);
		buf_clear(&bytes);
		grammar_add_token(model.tokenizer, id, &bytes);
		if (id < 0 || grammar_state_accept(s, buf_str(&bytes)) != OK) {
			x->n_bad++;
			break;
		}
		buf_clear(&bytes);
		detok_push(&d, id, &bytes);
		toolparse_push(p, buf_str(&bytes));
	}
	x->n_bad += n == 3000;
	toolparse_finish(p, false);
	toolparse_destroy(p);
	grammar_state_destroy(s);
	buf_deinit(&bytes);
}

static void test_random(void)
{
	for (int i = 0; i < n_tool_formats; i++) {
		struct api *a = api_of(tool_formats[i].name);
		static const char *const bodies[] = {ONE, ANY, SINGLE};
		for (size_t k = 0; k < ARRAY_LEN(bodies); k++) {
			struct api_call *c = fixture_call(a, &dialect_chat, bodies[k]);
			struct seen x = {0};
			for (int j = 0; j < 40; j++)
				write_one(c, &x);
			ok(x.n_calls >= 40 && x.n_bad == 0 && (k == 1 || x.n_calls == 40),
			   "%s, body %zu: %d calls, all valid", tool_formats[i].name, k,
			   x.n_calls);
			if (x.n_bad)
				printf("# %d bad, the last %s %s\n", x.n_bad,
				       buf_str(&x.name).p, buf_str(&x.args).p);
			is_str(x.rest.n ? x.rest.p : "", "", "and nothing else");
			buf_deinit(&x.name);
			buf_deinit(&x.args);
			buf_deinit(&x.rest);
			fixture_drop(c);
		}
		api_destroy(a);
	}
}

/* --- who is held --------------------------------------------------------- */

static void test_held(void)
{
	struct api *a = api_of("hermes");
	static const struct {
		const char *strict, *choice;
		bool is_held;
	} rows[] = {
		{"true", "\"auto\"", true}, {"false", "\"auto\"", false},
		{"null", "\"auto\"", false}, {"null", "\"none\"", false},
		{"true", "\"none\"", false}, {"null", "\"required\"", true},
		{"false", "\"required\"", true},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf body = {0};
		buf_addf(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],"
			 "\"tools\":[{\"function\":{\"name\":\"f\",\"strict\":%s}}],"
			 "\"tool_choice\":%s}", rows[i].strict, rows[i].choice);
		struct api_call *c = fixture_call(a, &dialect_chat, buf_str(&body).p);
		const struct request *r = api_call_request(c);
		ok((r->grammar || r->call_grammar) == rows[i].is_held,
		   "strict %s, choice %s", rows[i].strict, rows[i].choice);
		fixture_drop(c);
		buf_deinit(&body);
	}
	api_destroy(a);
}

/* What tools cost is bounded for all of them together. */
static void test_costly(void)
{
	struct api *a = api_of("hermes");
	struct buf body = {0};
	struct api_call *c = NULL;
	struct fail fail;
	buf_add_z(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"tools\":[");
	for (int i = 0; i < 300; i++) {
		buf_addf(&body, "%s{\"function\":{\"name\":\"f%d\",\"strict\":true,"
			 "\"parameters\":{\"properties\":{\"x\":{\"oneOf\":[", i ? "," : "", i);
		for (int k = 0; k < 20; k++) {
			buf_addf(&body, "%s{\"enum\":[", k ? "," : "");
			for (int j = 0; j < 20; j++)
				buf_addf(&body, "%s%d", j ? "," : "", 1000 * k + j);
			buf_add_z(&body, "]}");
		}
		buf_add_z(&body, "]}}}}}");
	}
	buf_add_z(&body, "]}");
	enum status st = fixture_try(a, &dialect_chat, buf_str(&body), &c, &fail);
	is_int(st, E_LIMIT, "too much work for one request");
	is_str(fail.param, "tools", "and where");
	if (st == OK)
		fixture_drop(c);
	buf_deinit(&body);
	api_destroy(a);
}

/* --- while it is written -------------------------------------------------- */

/* An answer of which the tokens are scripted. */
struct script_run {
	struct api *a;
	struct api_call *c;
	struct guard g;
	struct outparse *parse;
	struct detok d;
	bool may_end;
};

static void begin_run(struct script_run *x, const char *format, const char *body)
{
	x->a = api_of(format);
	x->c = fixture_call(x->a, &dialect_chat, body);
	const struct request *r = api_call_request(x->c);
	guard_init(&x->g, r, model.tokenizer, vocab, 3200);
	x->parse = outparse_create(&r->parse);
	detok_init(&x->d, model.tokenizer, false);
}

static void end_run(struct script_run *x)
{
	guard_deinit(&x->g);
	outparse_destroy(x->parse);
	fixture_drop(x->c);
	api_destroy(x->a);
}

/* May this token come now? -1: any may. */
static int may_come(struct script_run *x, int32_t id)
{
	const uint64_t *mask;
	if (guard_mask(&x->g, x->parse, &mask, &x->may_end) != OK)
		return 0;
	return mask ? (int)(mask[id / 64] >> (id % 64) & 1) : -1;
}

static int32_t token_of(const char *text)
{
	int32_t id = tokenizer_find(model.tokenizer, str_of(text));
	for (int32_t i = 0; id < 0 && i < 3200; i++) /* not spelled as in its text */
		if (str_is(tokenizer_bytes(model.tokenizer, i), text))
			id = i;
	return id;
}

/* Write a text as the model would: false where a token is not allowed. */
static bool write_text(struct script_run *x, const char *text)
{
	struct ids ids = {0};
	struct buf out = {0};
	const struct out_span *spans;
	bool good = tokenizer_encode(model.tokenizer, str_of(text), TRUST_TEMPLATE, &ids,
				     NULL) == OK;
	for (size_t i = 0; i < ids.n && good; i++) {
		int may = may_come(x, ids.p[i]);
		good = may != 0 && (may < 0 || guard_follow(&x->g, ids.p[i]) == OK);
		buf_clear(&out);
		detok_push(&x->d, ids.p[i], &out);
		outparse_push(x->parse, buf_str(&out), &spans);
	}
	ids_deinit(&ids);
	buf_deinit(&out);
	return good;
}

/* Steps of a script: text that must be allowed, and then whether the tokens may come
 * (1, 0; -1: anything may). */
struct step {
	const char *text;
	const char *token[3];
	int may[3];
	bool may_end;
};

static void run_steps(const char *format, const char *body, const struct step *s, size_t n,
		      const char *fact)
{
	struct script_run x;
	begin_run(&x, format, body);
	for (size_t i = 0; i < n; i++) {
		ok(write_text(&x, s[i].text), "%s: step %zu is allowed", fact, i);
		for (int k = 0; k < 3 && s[i].token[k]; k++)
			is_int(may_come(&x, token_of(s[i].token[k])), s[i].may[k],
			       "%s: then %s", fact, s[i].token[k]);
		is_int(x.may_end, s[i].may_end, "%s: the end after step %zu", fact, i);
	}
	end_run(&x);
}
#define RUN(format, body, steps, fact) \
	run_steps(format, body, steps, ARRAY_LEN(steps), fact)

#define FORMAT \
	",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"," \
	"\"schema\":{\"enum\":[[1],[2]]}}},\"enable_thinking\":false}"

static void test_guard(void)
{
	static const struct step lazy[] = {
		{"Hi ", {"a", "<tool_call>"}, {-1, -1}, true},
		{"<tool_call>", {"a", "{", "\n"}, {0, 1, 1}, false},
		{"\n{\"name\": \"f\", \"arguments\": {\"n\": ", {"3", "0", "a"}, {1, 0, 0},
		 false},
		{"3}}\n", {"</tool_call>", "a"}, {1, 0}, false},
		{"</tool_call>", {"a", "<tool_call>"}, {-1, -1}, true},
		{"\n<tool_call>\n", {"{", "a"}, {1, 0}, false},
	};
	RUN("hermes", AUTO, lazy, "strict");
	static const struct step both[] = {
		{"", {"[", "<tool_call>", "a"}, {1, 1, 0}, false},
		{"[", {"1", "<tool_call>", "a"}, {1, 0, 0}, false},
		{"1]", {"a", "["}, {0, 0}, true},
	};
	RUN("hermes", Q FORMAT, both, "a document");
	static const struct step call[] = {
		{"<tool_call>\n{\"name\": \"go\", \"arguments\": {}}\n", {"["}, {0}, false},
		{"</tool_call>", {"\n", "<tool_call>", "["}, {1, 1, 0}, true},
		{"\n<tool_call>\n{\"name\": \"", {"f", "["}, {1, 0}, false},
	};
	RUN("hermes", Q FORMAT, call, "calls in its place");
	static const struct step list[] = {
		{"[TOOL_CALLS][{\"name\": \"go\", \"arguments\": {}}", {",", "]", "a"}, {1, 1, 0},
		 false},
		{",", {"{", "a"}, {1, 0}, false},
		{" {\"name\": \"f\", \"arguments\": {\"n\": 1}}]", {"a"}, {-1}, true},
	};
	RUN("mistral", AUTO, list, "a list of calls");
	static const struct step special[] = {
		{"[TOOL_CALLS]", {"f", "[ARGS]", "a"}, {1, 0, 0}, false},
		{"f", {"[ARGS]", "[", "<|message|>"}, {1, 0, 0}, false},
		{"[ARGS]{\"n\": 1}", {"a"}, {-1}, true},
	};
	RUN("mistral-args", AUTO, special, "tags that are tokens");
	static const struct step channels[] = {
		{"<|channel|>analysis<|message|>Hm", {"a"}, {-1}, true},
		{"<|start|>assistant<|channel|>final<|message|>", {"[", "a"}, {1, 0}, false},
		{"[2]", {"a"}, {0}, true},
	};
	RUN("harmony", Q FORMAT, channels, "a format, in its channel");
	static const struct step to_tool[] = {
		{" to=functions.f<|message|>", {"a", "<atem:function_calls>"}, {-1, -1}, true},
		{"<atem:function_calls>\n<atem:invoke name=\"", {"f", "["}, {1, 0}, false},
		{"f\">\n<atem:parameter name=\"n\">3</atem:parameter>\n</atem:invoke>\n"
		 "</atem:function_calls>", {"<|start|>"}, {-1}, true},
		{"<|eom|><|start|>assistant to=user<|message|>", {"[", "a"}, {1, 0}, false},
		{"[2]", {"a"}, {0}, true},
	};
	RUN("atem", Q FORMAT, to_tool, "a call, and a format in the message to the user");
	static const struct step commentary[] = {
		{"<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
		 {"{", "a"}, {1, 0}, false},
		{"{\"n\": 1", {"}", "1"}, {1, 0}, false},
		{"}", {"a"}, {-1}, true},
	};
	RUN("harmony", AUTO, commentary, "a call in its channel");
	struct script_run x;
	begin_run(&x, "hermes", AUTO);
	ok(write_text(&x, "<tool_call>") && !write_text(&x, "{\"name\": \"other"),
	   "no tool of another name");
	end_run(&x);
}

/* The same again is not compiled again. */
static void test_cache(void)
{
	static const char guided[] =
		"{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"guided_json\":"
		"{\"type\":\"integer\"}}";
	static const char *const bodies[] = {ONE, ANY, SINGLE, AUTO, guided};
	struct api *a = api_of("hermes");
	metrics_reset();
	for (size_t i = 0; i < 2 * ARRAY_LEN(bodies); i++)
		fixture_drop(fixture_call(a, &dialect_chat, bodies[i % ARRAY_LEN(bodies)]));
	is_int(metric_get(METRIC_GRAMMARS_COMPILED), ARRAY_LEN(bodies),
	       "each grammar is compiled once");
	api_destroy(a);

	struct grammarcache *c = grammarcache_create(2, 1u << 20);
	struct grammar *g[4];
	static const char keys[][2] = {"a", "b", "c"};
	for (size_t i = 0; i < 3; i++) {
		if (grammar_create_regex(str_of(keys[i]), &g[i], NULL) != OK)
			ok(false, "compiles");
		if (i == 2) /* now b is the oldest */
			grammar_unref(grammarcache_get(c, STR("a")));
		grammarcache_put(c, str_of(keys[i]), g[i]);
		grammar_unref(g[i]);
	}
	g[3] = grammarcache_get(c, STR("a"));
	ok(g[3] == g[0] && !grammarcache_get(c, STR("b")),
	   "the one that was not used goes");
	grammar_unref(g[3]);
	grammarcache_destroy(c);
	c = grammarcache_create(100, 1000);
	if (grammar_create_regex(STR("[a-z]{3}"), &g[0], NULL) != OK)
		ok(false, "compiles");
	ok(grammar_size(g[0]) > 1000, "a grammar has a size");
	grammarcache_put(c, STR("x"), g[0]);
	ok(!grammarcache_get(c, STR("x")), "and is not kept where it is too large");
	grammar_unref(g[0]);
	grammarcache_destroy(c);
}

int main(void)
{
	model = *fixture_model();
	model.tokenizer = make_tokenizer();
	vocab = grammar_vocab_of(model.tokenizer);
	test_scripts();
	test_random();
	test_held();
	test_costly();
	test_guard();
	test_cache();
	grammar_vocab_destroy(vocab);
	tokenizer_destroy(model.tokenizer);
	return tap_done();
}
