/* SPDX-License-Identifier: Apache-2.0
 *
 * Each row is fed whole, cut in two at every byte, and byte by byte: what comes
 * out must not depend on the cuts. It is written down as
 *   content  (r:reasoning)  [name args]  and  !text! for a call that is none
 */
#include "base/alloc.h"
#include "output/jsonscan.h"
#include "output/outparse.h"
#include "tests/tap.h"

struct row {
	const char *format, *name, *text, *want;
	bool thinks, one_call;
	const char *begun;
	int n_broken;
};

static const struct toolparse_param params[] = {
	{STR("city"), true}, {STR("days"), false}, {STR("code"), true}};
static const struct toolparse_tool tools[] = {
	{STR("weather"), params, 3}, {STR("f"), NULL, 0}, {STR("get.time"), NULL, 0}};

#define DEEP10 "[[[[[[[[[["
#define DEEP70 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10

static const struct row rows[] = {
	/* --- hermes --- */
	{.format = "hermes",
	 .name = "no call", "Just text.\n", "Just text.\n"},
	{.format = "hermes",
	 .name = "one call",
	 "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n"
	 "</tool_call>", "[weather {\"city\": \"Oslo\"}]"},
	{.format = "hermes",
	 .name = "text, then two calls, white space around",
	 "Let me look.\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
	 "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": null}]}}\n"
	 "</tool_call>\n",
	 "Let me look.[f {}][f {\"a\": [1, {\"b\": null}]}]"},
	{.format = "hermes",
	 .name = "one call only", .one_call = true,
	 .text = "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>"
		 "{\"name\":\"f\",\"arguments\":{}}</tool_call> and more",
	 .want = "[f {}]"},
	{.format = "hermes",
	 .name = "text behind a call",
	 "<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\nDone.",
	 "[f {}]\nDone."},
	{.format = "hermes",
	 .name = "a call inside reasoning is text", .thinks = true,
	 .text = "<think>\nI could <tool_call>{\"name\":\"f\"}</tool_call>\n</think>\n\n"
		 "<tool_call>\n{\"name\":\"f\"}\n</tool_call>",
	 .want = "(r:I could <tool_call>{\"name\":\"f\"}</tool_call>)[f {}]"},
	{.format = "hermes",
	 .name = "a list between the tags, as Falcon's templates ask for",
	 "<tool_call>\n[\n{\"name\": \"f\", \"arguments\": {\"a\": 1}},\n"
	 "{\"name\": \"f\", \"arguments\": {}}\n]\n</tool_call>\nDone.",
	 "[f {\"a\": 1}][f {}]\nDone."},
	{.format = "hermes",
	 .name = "a list without an end",
	 "<tool_call>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}", "[f {\"a\": 1}]"},
	{.format = "hermes",
	 .name = "no end tag",
	 "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
	 "[f {\"a\": 1}]"},
	{.format = "hermes",
	 .name = "half an end tag",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_",
	 "[f {\"a\": 1}]"},
	{.format = "hermes",
	 .name = "a brace too many",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}}\n</tool_call>",
	 "[f {\"a\": 1}]}\n</tool_call>"},
	{.format = "hermes",
	 .name = "arguments first",
	 "<tool_call>{\"arguments\": {\"a\": \"b\"}, \"id\": -1.5e3, \"name\": \"f\"}"
	 "</tool_call>", "[f {\"a\": \"b\"}]"},
	{.format = "hermes",
	 .name = "arguments in a string, not JSON",
	 "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1 \\n2}\"}",
	 "[f {\"a\": 1 \n!<tool_call>{\"name\": \"f\", \"arguments\": "
	 "\"{\\\"a\\\": 1 \\n2!}\"}", .n_broken = 1},
	{.format = "hermes",
	 .name = "arguments in a string, good ones",
	 "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"\\\\u00e9\\\"}"
	 "\"}</tool_call>", "[f {\"a\": \"\\u00e9\"}]"},
	{.format = "hermes",
	 .name = "parameters instead", "<tool_call>{\"name\":\"f\",\"parameters\":{}}",
	 "[f {}]"},
	{.format = "hermes",
	 .name = "escapes and characters",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {\"\\u0061\\ud83d\\ude00\": "
	 "\"é日😀 \\\" \\\\ </tool_call> \\n\"}}</tool_call>",
	 "[f {\"\\u0061\\ud83d\\ude00\": \"é日😀 \\\" \\\\ </tool_call> \\n\"}]"},
	{.format = "hermes",
	 .name = "escaped key and name",
	 "<tool_call>{\"\\u006eame\": \"\\u0066\", \"arguments\": {}}</tool_call>",
	 "[f {}]"},
	{.format = "hermes",
	 .name = "near misses", "a <tool_cal> <<tool_call <tool", "a <tool_cal> "
	 "<<tool_call <tool"},
	{.format = "hermes",
	 .name = "not JSON", "<tool_call>call f now</tool_call>",
	 "!<tool_call>c!all f now</tool_call>", .n_broken = 1},
	{.format = "hermes",
	 .name = "white space before what is no call is kept",
	 "so \n<tool_call> no", "so! \n<tool_call> n!o", .n_broken = 1},
	{.format = "hermes",
	 .name = "a list of something else", "<tool_call>[1]</tool_call>",
	 "!<tool_call>[1!]</tool_call>", .n_broken = 1},
	{.format = "hermes",
	 .name = "no name", "<tool_call>{\"arguments\": {}}</tool_call>",
	 "!<tool_call>{\"arguments\": {}}!</tool_call>", .n_broken = 1},
	{.format = "hermes",
	 .name = "empty name", "<tool_call>{\"name\": \"\"}",
	 "!<tool_call>{\"name\": \"\"!}", .n_broken = 1},
	{.format = "hermes",
	 .name = "a name that is no string", "<tool_call>{\"name\": 5}",
	 "!<tool_call>{\"name\": 5!}", .n_broken = 1},
	{.format = "hermes",
	 .name = "a name with a quote", "<tool_call>{\"name\": \"a\\\"b\"}",
	 "!<tool_call>{\"name\": \"a\\\"b\"!}", .n_broken = 1},
	{.format = "hermes",
	 .name = "two names", "<tool_call>{\"name\": \"f\", \"name\": \"f\"}",
	 "[f !<tool_call>{\"name\": \"f\", \"name\"!: \"f\"}", .n_broken = 1},
	{.format = "hermes",
	 .name = "arguments that are a number",
	 "<tool_call>{\"name\": \"f\", \"arguments\": 7}",
	 "[f !<tool_call>{\"name\": \"f\", \"arguments\": 7!}", .n_broken = 1},
	{.format = "hermes",
	 .name = "cut in the arguments",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b",
	 "[f {\"a\": \"b!<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b!",
	 .n_broken = 1},
	{.format = "hermes",
	 .name = "bad JSON in the arguments, then a good call",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {a: 1}}</tool_call>\n"
	 "<tool_call>{\"name\": \"f\"}</tool_call>",
	 "[f {!<tool_call>{\"name\": \"f\", \"arguments\": {a!: 1}}</tool_call>[f {}]",
	 .n_broken = 1},
	{.format = "hermes",
	 .name = "a line break inside a string",
	 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\n\"}}",
	 "[f {\"a\": \"!<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"\n!\"}}",
	 .n_broken = 1},
	{.format = "hermes",
	 .name = "the prompt holds its opening", .one_call = true,
	 .begun = "<tool_call>\n{\"name\": \"weather\", \"arguments\":",
	 .text = " {\"city\": \"Bergen\"}}\n</tool_call> x",
	 .want = "[weather {\"city\": \"Bergen\"}]"},

	/* --- qwen3-coder --- */
	{.format = "qwen3-coder",
	 .name = "one call",
	 "Hm.\n<tool_call>\n<function=weather>\n<parameter=city>\nSão \"Paulo\"\n"
	 "</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
	 "Hm.[weather {\"city\": \"São \\\"Paulo\\\"\", \"days\": 3}]"},
	{.format = "qwen3-coder",
	 .name = "lines and tags in a value",
	 "<tool_call>\n<function=weather>\n<parameter=code>\n\nif a < b:\n\tx = '</p>'\n"
	 "\n</parameter>\n</function>\n</tool_call>",
	 "[weather {\"code\": \"\\nif a < b:\\n\\u0009x = '</p>'\\n\"}]"},
	{.format = "qwen3-coder",
	 .name = "values whose type nobody says",
	 "<tool_call><function=g><parameter=a>{\"x\": [1]}</parameter><parameter=b>True"
	 "</parameter><parameter=c>two words</parameter><parameter=d></parameter>"
	 "</function></tool_call>",
	 "[g {\"a\": {\"x\": [1]}, \"b\": true, \"c\": \"two words\", \"d\": \"\"}]"},
	{.format = "qwen3-coder",
	 .name = "without the outer tags, and without parameters",
	 "<function=f>\n</function>", "[f {}]"},
	{.format = "qwen3-coder",
	 .name = "two calls, as Step's template writes them",
	 "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n"
	 "</tool_call><tool_call>\n<function=f>\n</function>\n</tool_call>",
	 "[weather {\"city\": \"Oslo\"}][f {}]"},
	{.format = "qwen3-coder",
	 .name = "a number for a string",
	 "<function=weather><parameter=city>12</parameter></function>",
	 "[weather {\"city\": \"12\"}]"},
	{.format = "qwen3-coder",
	 .name = "cut in a value",
	 "<function=weather><parameter=city>Os",
	 "[weather {\"city\": \"Os!<function=weather><parameter=city>Os!",
	 .n_broken = 1},
	{.format = "qwen3-coder",
	 .name = "JSON where tags belong", "<tool_call>\n{\"name\": \"f\"}",
	 "!<tool_call>\n{!\"name\": \"f\"}", .n_broken = 1},
	{.format = "qwen3-coder",
	 .name = "a name of two words", "<function=a b>", "!<function=a b>!",
	 .n_broken = 1},

	/* --- llama3 --- */
	{.format = "llama3",
	 .name = "a bare call",
	 "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", "[f {\"a\": \"b\"}]"},
	{.format = "llama3",
	 .name = "behind its tag",
	 "<|python_tag|>{\"name\": \"zz\", \"parameters\": {}}", "[zz {}]"},
	{.format = "llama3",
	 .name = "two, with a semicolon",
	 "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": "
	 "{\"a\": 1}}", "[f {}][f {\"a\": 1}]"},
	{.format = "llama3",
	 .name = "two, as Llama 4's template has them",
	 "{\"name\": \"f\", \"parameters\": {}}\n{\"name\": \"f\", \"parameters\": "
	 "{\"a\": 1}}", "[f {}][f {\"a\": 1}]"},
	{.format = "llama3",
	 .name = "JSON that is no call", "{\"name\": \"Bob\", \"age\": 5}",
	 "{\"name\": \"Bob\", \"age\": 5}"},
	{.format = "llama3",
	 .name = "JSON in text", "See {\"name\": \"f\", \"parameters\": {}}",
	 "See {\"name\": \"f\", \"parameters\": {}}"},
	{.format = "llama3",
	 .name = "text", "  Hello {there}", "  Hello {there}"},
	{.format = "llama3",
	 .name = "code", "<|python_tag|>print(1)", "!<|python_tag|>p!rint(1)",
	 .n_broken = 1},

	/* --- mistral --- */
	{.format = "mistral",
	 .name = "a list of two",
	 "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": \"[\"}}, {\"name\": "
	 "\"get.time\", \"arguments\": {}}]", "[f {\"a\": \"[\"}][get.time {}]"},
	{.format = "mistral",
	 .name = "text first, no end", "Sure. [TOOL_CALLS] [{\"name\": \"f\", "
	 "\"arguments\": {}, \"id\": \"abcdefghi\"}", "Sure.[f {}]"},
	{.format = "mistral-args",
	 .name = "name and arguments",
	 "[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]f[CALL_ID]123456789"
	 "[ARGS]{}", "[weather {\"city\": \"Rome\"}][f {}]"},
	{.format = "mistral-args",
	 .name = "without a tag between", "[TOOL_CALLS]f{\"a\": 1}",
	 "[f {\"a\": 1}]"},
	{.format = "mistral-args",
	 .name = "no name", "[TOOL_CALLS]{}", "![TOOL_CALLS]{!}", .n_broken = 1},
	{.format = "mistral-args",
	 .name = "arguments that are none", "[TOOL_CALLS]f[ARGS]5",
	 "[f ![TOOL_CALLS]f[ARGS]5!", .n_broken = 1},

	/* --- harmony --- */
	{.format = "harmony",
	 .name = "reasoning and an answer",
	 "<|channel|>analysis<|message|>Hm < 3.<|end|><|start|>assistant<|channel|>final"
	 "<|message|>Three.", "(r:Hm < 3.)Three."},
	{.format = "harmony",
	 .name = "reasoning, preamble and a call",
	 "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary"
	 "<|message|>Looking.<|end|><|start|>assistant<|channel|>commentary "
	 "to=functions.weather <|constrain|>json<|message|>{\"city\":\"Rome\"}<|call|>",
	 "(r:so)Looking.[weather {\"city\":\"Rome\"}]"},
	{.format = "harmony",
	 .name = "the recipient with the role, no end",
	 " to=functions.f<|channel|>commentary json<|message|>{}", "[f {}]"},
	{.format = "harmony",
	 .name = "plain text", "Hello <|there|>.", "Hello <|there|>."},
	{.format = "harmony",
	 .name = "arguments that are none",
	 "<|channel|>commentary to=functions.f<|message|>go<|end|>",
	 "[f !<|channel|>commentary to=functions.f<|message|>g!o", .n_broken = 1},

	/* --- glm --- */
	{.format = "glm",
	 .name = "one call",
	 "Ok.\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome\n</arg_value>"
	 "\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
	 "Ok.[weather {\"city\": \"Rome\\n\", \"days\": 2}]"},
	{.format = "glm",
	 .name = "without arguments", "<tool_call>f\n</tool_call>", "[f {}]"},
	{.format = "glm",
	 .name = "cut", "<tool_call>f\n<arg_key>a", "[f !<tool_call>f\n<arg_key>a!",
	 .n_broken = 1},
	{.format = "glm",
	 .name = "a key where a value belongs", "<tool_call>f<arg_key>a</arg_key><x>",
	 "[f !<tool_call>f<arg_key>a</arg_key><x!>", .n_broken = 1},

	/* --- hy3 --- */
	{.format = "hy3",
	 .name = "two calls in one block",
	 "Ok.<tool_calls:opensource>\n<tool_call:opensource>weather<tool_sep:opensource>\n"
	 "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Rome\n"
	 "</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n"
	 "<arg_value:opensource>2</arg_value:opensource>\n</tool_call:opensource>\n"
	 "<tool_call:opensource>f<tool_sep:opensource>\n</tool_call:opensource>\n"
	 "</tool_calls:opensource>",
	 "Ok.[weather {\"city\": \"Rome\\n\", \"days\": 2}][f {}]"},
	{.format = "hy3",
	 .name = "no end tag, and text behind",
	 "<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource>"
	 "</tool_call:opensource> Done.", "[f {}] Done."},
	{.format = "hy3",
	 .name = "GLM's tags are text", "<tool_call>f</tool_call>", "<tool_call>f</tool_call>"},
	{.format = "hy3",
	 .name = "a key where a value belongs",
	 "<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource>"
	 "<arg_key:opensource>a</arg_key:opensource><x>",
	 "[f !<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource>"
	 "<arg_key:opensource>a</arg_key:opensource><x!>", .n_broken = 1},

	{.format = "hy3-preview",
	 .name = "two calls in one block",
	 "Ok.<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n"
	 "<arg_value>Rome\n</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n"
	 "</tool_call>\n<tool_call>f<tool_sep>\n</tool_call>\n</tool_calls>",
	 "Ok.[weather {\"city\": \"Rome\\n\", \"days\": 2}][f {}]"},
	{.format = "hy3-preview",
	 .name = "Hy3's tags are text", "<tool_calls:opensource>", "<tool_calls:opensource>"},

	/* --- minimax --- */
	{.format = "minimax",
	 .name = "two calls in one block",
	 "Ok.\n<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Rome"
	 "</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n"
	 "<invoke name=\"f\">\n</invoke>\n</minimax:tool_call>\n",
	 "Ok.[weather {\"city\": \"Rome\", \"days\": 2}][f {}]"},
	{.format = "minimax",
	 .name = "no end tag, and text behind",
	 "<minimax:tool_call><invoke name=\"f\"></invoke> Done.", "[f {}] Done."},
	{.format = "minimax",
	 .name = "no invoke", "<minimax:tool_call>\nf", "!<minimax:tool_call>\nf!",
	 .n_broken = 1},

	/* --- deepseek-v4 --- */
	{.format = "deepseek-v4",
	 .name = "two calls in one block",
	 "Ok.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter "
	 "name=\"city\" string=\"true\">Rome</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
	 "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"f\">\n\n"
	 "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
	 "Ok.[weather {\"city\": \"Rome\", \"days\": 2}][f {}]"},
	{.format = "deepseek-v3.2",
	 .name = "a call",
	 "Ok.\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter "
	 "name=\"city\" string=\"true\">Rome</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
	 "</｜DSML｜function_calls>",
	 "Ok.[weather {\"city\": \"Rome\"}]"},
	{.format = "deepseek-v4",
	 .name = "no invoke", "<｜DSML｜tool_calls>\nf", "!<｜DSML｜tool_calls>\nf!",
	 .n_broken = 1},

	/* --- atem --- */
	{.format = "atem",
	 .name = "reasoning and an answer",
	 " to=self<|message|>Hm < 3.<|eom|><|start|>assistant to=user<|message|>Three.",
	 "(r:Hm < 3.)Three."},
	{.format = "atem",
	 .name = "reasoning and two calls",
	 " to=self<|message|>so<|eom|><|start|>assistant to=functions.weather<|message|>"
	 "<atem:function_calls>\n<atem:invoke name=\"functions.weather\">\n"
	 "<atem:parameter name=\"city\">Rome</atem:parameter>\n<atem:parameter name=\"days\">2"
	 "</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=f"
	 "<|message|><atem:function_calls>\n<atem:invoke name=\"f\">\n</atem:invoke>\n"
	 "</atem:function_calls>",
	 "(r:so)[functions.weather {\"city\": \"Rome\", \"days\": 2}][f {}]"},
	{.format = "atem",
	 .name = "tools whose names look like reasoning",
	 " to=functions.analysis<|message|><atem:function_calls>\n<atem:invoke name=\"analysis\">"
	 "\n</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=selfie<|message|>"
	 "<atem:function_calls>\n<atem:invoke name=\"selfie\">\n</atem:invoke>\n"
	 "</atem:function_calls>",
	 "[analysis {}][selfie {}]"},
	{.format = "atem", .name = "an answer alone", "<|message|>Three.", "Three."},
	{.format = "atem", .name = "plain text", "Hello <there>.", "Hello <there>."},
	{.format = "atem",
	 .name = "a key where a value belongs",
	 "<|message|><atem:function_calls><atem:invoke name=\"f\"><x>",
	 "[f !<atem:function_calls><atem:invoke name=\"f\"><x!>", .n_broken = 1},

	/* --- seed --- */
	{.format = "seed",
	 .name = "two calls",
	 "<seed:tool_call>\n<function=weather>\n<parameter=city>Oslo</parameter>\n</function>"
	 "\n</seed:tool_call>\n<seed:tool_call><function=f></function></seed:tool_call>",
	 "[weather {\"city\": \"Oslo\"}][f {}]"},
	{.format = "seed",
	 .name = "cut", "<seed:tool_call><function=f><para",
	 "[f !<seed:tool_call><function=f><para!", .n_broken = 1},

	/* --- gemma4 --- */
	{.format = "gemma4",
	 .name = "all kinds of values",
	 "Ok.\n<|tool_call>call:weather{city:<|\"|>Pa\"r<|\\is\n<|\"|>,days:-2.5,"
	 "o:{a:[],b:{}},l:[1,<|\"|>x,y}<|\"|>,true,null],e:<|\"|><|\"|>}<tool_call|>",
	 "Ok.[weather {\"city\": \"Pa\\\"r<|\\\\is\\n\", \"days\": -2.5, \"o\": {\"a\": [], "
	 "\"b\": {}}, \"l\": [1, \"x,y}\", true, null], \"e\": \"\"}]"},
	{.format = "gemma4",
	 .name = "two calls, words of Python, keys and strings with quotes",
	 "<|tool_call>call:f{}<tool_call|><|tool_call>call:f{\"a b\": None, <|\"|>c<|\"|>:"
	 "\"d\\u00e9\", e: True, g: 10 km}<tool_call|>",
	 "[f {}][f {\"a b\": null, \"c\": \"d\\u00e9\", \"e\": true, \"g\": \"10 km\"}]"},
	{.format = "gemma4",
	 .name = "no end tag", "<|tool_call>call:f{a:1}", "[f {\"a\": 1}]"},
	{.format = "gemma4",
	 .name = "cut in a string", "<|tool_call>call:f{a:<|\"|>b<|",
	 "[f {\"a\": \"b!<|tool_call>call:f{a:<|\"|>b<|!", .n_broken = 1},
	{.format = "gemma4",
	 .name = "a comma too many", "<|tool_call>call:f{a:1,}<tool_call|>",
	 "[f {\"a\": 1, !<|tool_call>call:f{a:1,}!<tool_call|>", .n_broken = 1},
	{.format = "gemma4",
	 .name = "the wrong bracket", "<|tool_call>call:f{a:[1}",
	 "[f {\"a\": [!<|tool_call>call:f{a:[1}!", .n_broken = 1},
	{.format = "gemma4",
	 .name = "no mark", "<|tool_call>call:f{a:<x", "[f {\"a\": !<|tool_call>call:f{a:<x!",
	 .n_broken = 1},
	{.format = "gemma4",
	 .name = "too deep", "<|tool_call>call:f{a:" DEEP70,
	 "[f {\"a\": [[[" DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10
	 "!<|tool_call>call:f{a:[[[[" DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 DEEP10 "![[[[[[",
	 .n_broken = 1},

	/* --- lfm2 --- */
	{.format = "lfm2",
	 .name = "all kinds of values",
	 "Ok.\n<|tool_call_start|>[weather(city=\"Pa\\\"r'<|is\", days = -2.5, now=True, "
	 "o={'a': [], \"b\": {}}, l=[1, 'x,y)]', None, (2,)], e='')]<|tool_call_end|>",
	 "Ok.[weather {\"city\": \"Pa\\\"r'<|is\", \"days\": -2.5, \"now\": true, \"o\": {\"a\": "
	 "[], \"b\": {}}, \"l\": [1, \"x,y)]\", null, [2]], \"e\": \"\"}]"},
	{.format = "lfm2",
	 .name = "two calls, text behind them, escapes",
	 "<|tool_call_start|>[f(), get.time(a='\\'\\n\\x41\\u00e9\\d', b=10 km,)]<|tool_call_end|>"
	 "Wait.", "[f {}][get.time {\"a\": \"'\\n\\u0041\\u00e9\\\\d\", \"b\": \"10 km\"}]Wait."},
	{.format = "lfm2",
	 .name = "no list, no end", "<|tool_call_start|>f(a=1)", "[f {\"a\": 1}]"},
	{.format = "lfm2",
	 .name = "objects",
	 "<|tool_call_start|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, g(b=2)]"
	 "<|tool_call_end|>", "[f {\"a\": 1}][g {\"b\": 2}]"},
	{.format = "lfm2",
	 .name = "cut in a string", "<|tool_call_start|>[f(a=\"b",
	 "[f {\"a\": \"b!<|tool_call_start|>[f(a=\"b!", .n_broken = 1},
	{.format = "lfm2",
	 .name = "an argument without a name", "<|tool_call_start|>[f(1)]<|tool_call_end|>",
	 "[f !<|tool_call_start|>[f(1!)]<|tool_call_end|>", .n_broken = 1},
	{.format = "lfm2",
	 .name = "the wrong bracket", "<|tool_call_start|>[f(a=[1})",
	 "[f {\"a\": [!<|tool_call_start|>[f(a=[1}!)", .n_broken = 1},
	{.format = "lfm2",
	 .name = "three quotes", "<|tool_call_start|>[f(a=\"\"\"b",
	 "[f {\"a\": \"\"!<|tool_call_start|>[f(a=\"\"\"!b", .n_broken = 1},
	{.format = "lfm2",
	 .name = "a key that is a list", "<|tool_call_start|>[f(a={[1]: 2}",
	 "[f {\"a\": {!<|tool_call_start|>[f(a={[!1]: 2}", .n_broken = 1},

	/* --- kimi --- */
	{.format = "kimi",
	 .name = "two calls",
	 "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
	 "<|tool_call_argument_begin|>{\"city\": \"Rome\"}<|tool_call_end|>"
	 "<|tool_call_begin|>functions.get.time:12<|tool_call_argument_begin|>{}"
	 "<|tool_call_end|><|tool_calls_section_end|>",
	 "Ok.[weather {\"city\": \"Rome\"}][get.time {}]"},
	{.format = "kimi",
	 .name = "a bare name, and no end",
	 "<|tool_calls_section_begin|><|tool_call_begin|>f<|tool_call_argument_begin|>{}",
	 "[f {}]"},
	{.format = "kimi",
	 .name = "no name",
	 "<|tool_calls_section_begin|><|tool_call_begin|>functions.:0"
	 "<|tool_call_argument_begin|>",
	 "!<|tool_calls_section_begin|><|tool_call_begin|>functions.:0"
	 "<|tool_call_argument_begin|>!", .n_broken = 1},

	/* --- deepseek-v3, deepseek --- */
	{.format = "deepseek-v3",
	 .name = "two calls",
	 "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
	 "{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
	 "<｜tool▁sep｜>f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	 "[weather {\"city\": \"Rome\"}][f {}]"},
	{.format = "deepseek-v3",
	 .name = "no end",
	 "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n``",
	 "[f {}]"},
	{.format = "deepseek",
	 .name = "two calls",
	 "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\"}"
	 "<｜tool▁call▁end｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
	 "<｜tool▁calls▁end｜>",
	 "Ok.[weather {\"city\": \"Rome\"}][f {}]"},

	/* --- nemotron --- */
	{.format = "nemotron",
	 .name = "two calls",
	 "Ok.<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"weather\", "
	 "\"arguments\": {\"city\": \"Rome\"}}]</TOOLCALL>\n",
	 "Ok.[f {}][weather {\"city\": \"Rome\"}]"},
	{.format = "granite",
	 .name = "two calls",
	 "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"weather\", "
	 "\"arguments\": {\"city\": \"Rome\"}}]",
	 "[f {}][weather {\"city\": \"Rome\"}]"},
	{.format = "granite",
	 .name = "no list", "<|tool_call|>f", "!<|tool_call|>f!", .n_broken = 1},
	{.format = "nemotron",
	 .name = "no list", "<TOOLCALL>{\"name\"", "!<TOOLCALL>{!\"name\"", .n_broken = 1},
};

struct record {
	struct buf out, ends;
	int last, n_broken;
};

static void close_last(struct record *r)
{
	if (r->last == OUT_REASONING)
		buf_add_c(&r->out, ')');
	if (r->last == OUT_CALL_BROKEN)
		buf_add_c(&r->out, '!');
}

static void record(struct record *r, const struct out_span *s, int n)
{
	for (int i = 0; i < n; i++) {
		if ((int)s[i].channel != r->last) {
			close_last(r);
			r->last = (int)s[i].channel;
			r->n_broken += r->last == OUT_CALL_BROKEN;
			const char *begin[] = {"", "(r:", "[", "", "]", "~", "!"};
			buf_add_z(&r->out, begin[r->last]);
		}
		struct buf *to = s[i].channel == OUT_CALL_END ? &r->ends : &r->out;
		buf_add_str(to, s[i].text);
		if (s[i].channel == OUT_CALL_NAME)
			buf_add_c(&r->out, ' ');
	}
}

static struct outparse *open_row(const struct row *r)
{
	return outparse_create(&(struct outparse_opts){
		.split_reasoning = r->thinks, .think_open = STR("<think>"),
		.think_close = STR("</think>"),
		.tools = {.format = toolformat_find(str_of(r->format)),
			  .tools = tools, .n_tools = ARRAY_LEN(tools),
			  .one_call = r->one_call,
			  .begun = str_of(r->begun ? r->begun : "")}});
}

static bool feed(const struct row *r, size_t cut, size_t step)
{
	struct outparse *p = open_row(r);
	const struct out_span *s;
	struct record rec = {.last = -1};
	size_t n = strlen(r->text);
	for (size_t at = 0; at < n;) {
		size_t end = at < cut ? cut : MIN(n, at + step);
		int k = outparse_push(p, (struct str){r->text + at, end - at}, &s);
		record(&rec, s, k);
		at = end;
	}
	int k = outparse_finish(p, false, &s);
	record(&rec, s, k);
	close_last(&rec);
	bool same = str_is(buf_str(&rec.out), r->want) && rec.n_broken == r->n_broken;
	same = same && outparse_stopped(p) == r->one_call;
	if (!same)
		printf("# cut %zu step %zu, %d broken\n# got  %s\n# want %s\n", cut, step,
		       rec.n_broken, buf_str(&rec.out).p, r->want);
	buf_deinit(&rec.out);
	buf_deinit(&rec.ends);
	outparse_destroy(p);
	return same;
}

static void test_rows(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		size_t n = strlen(r->text);
		bool same = feed(r, n, n) && feed(r, 0, 1);
		for (size_t cut = 1; same && cut < n; cut++)
			same = feed(r, cut, n);
		ok(same, "%s: %s", r->format, r->name);
	}
}

static void test_close(void)
{
	static const char *const begun[][2] = {
		{"{", "{}"}, {" {\"a", "{}"}, {"{\"a\"", "{}"}, {"{\"a\":", "{}"},
		{"{\"a\": 12", "{}"}, {"{\"a\": 12,", "{\"a\": 12}"},
		{"{\"a\": tru", "{}"}, {"{\"a\": true", "{\"a\": true}"},
		{"{\"a\": \"so f", "{\"a\": \"so f\"}"}, {"{\"a\": \"x\\", "{\"a\": \"x\"}"},
		{"{\"a\": \"x\\ud83d", "{\"a\": \"x\"}"},
		{"{\"a\": \"x\\ud83d\\ude00", "{\"a\": \"x\\ud83d\\ude00\"}"},
		{"{\"a\": [1, {\"b\": [\"c\", \"d", "{\"a\": [1, {\"b\": [\"c\", \"d\"]}]}"},
		{"{\"a\": [", "{\"a\": []}"}, {"{\"a\": [[1], 2", "{\"a\": [[1]]}"},
		{"{\"a\": 1, \"b\": -", "{\"a\": 1}"}, {"{\"a\": {}} ", "{\"a\": {}}"}};
	static const char *const none[] = {"", " ", "[1", "\"a", "7", "{a", "{\"a\": }", "{} x"};
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		struct buf out = {0};
		ok(toolparse_close(str_of(begun[i][0]), &out) &&
		   str_is(jsonscan_trim(buf_str(&out)), begun[i][1]) &&
		   jsonscan_is_value(buf_str(&out)), "closed: %s", begun[i][0]);
		buf_deinit(&out);
	}
	for (size_t i = 0; i < ARRAY_LEN(none); i++) {
		struct buf out = {0};
		ok(!toolparse_close(str_of(none[i]), &out) && out.n == 0, "not begun: %s", none[i]);
		buf_deinit(&out);
	}
}

/* What a parser said of a text: its content, and each call's name and arguments. */
struct said {
	struct buf content, calls, args; /* args: of the last call */
	int n_names, n_ends, n_cuts, n_broken;
};

static void listen(struct said *to, const struct out_span *s, int n)
{
	for (int i = 0; i < n; i++) {
		enum out_channel is = s[i].channel;
		if (is == OUT_CONTENT || is == OUT_REASONING)
			buf_add_str(&to->content, s[i].text);
		if (is == OUT_CALL_NAME)
			buf_clear(&to->args);
		if (is == OUT_CALL_NAME || is == OUT_CALL_ARGS)
			buf_add_str(&to->calls, s[i].text);
		if (is == OUT_CALL_ARGS)
			buf_add_str(&to->args, s[i].text);
		to->n_names += is == OUT_CALL_NAME;
		to->n_ends += is == OUT_CALL_END;
		to->n_cuts += is == OUT_CALL_CUT;
		to->n_broken += is == OUT_CALL_BROKEN;
	}
}

static struct said say(const struct row *r, size_t n, bool is_cut)
{
	struct outparse *p = open_row(r);
	const struct out_span *s;
	struct said out = {0};
	int k = outparse_push(p, (struct str){r->text, n}, &s);
	listen(&out, s, k);
	k = outparse_finish(p, is_cut, &s);
	listen(&out, s, k);
	outparse_destroy(p);
	return out;
}

static void forget(struct said *s)
{
	buf_deinit(&s->content);
	buf_deinit(&s->calls);
	buf_deinit(&s->args);
}

/* The text of an unfinished literal is all that a cut may leave in the content, or of a JSON
 * object that may be no call: it is not said yet that it has a name. */
static bool is_begun(struct str content, struct str whole)
{
	size_t n = 0;
	while (n < content.n && n < whole.n && content.p[n] == whole.p[n])
		n++;
	struct str rest = jsonscan_trim((struct str){content.p + n, content.n - n});
	if (str_starts(STR("<think>"), rest) || str_starts(STR("</think>"), rest) ||
	    str_starts(STR("{\"name\": \"f\""), rest))
		return true;
	for (int i = 0; i < n_tool_states; i++)
		for (int k = 0; k < TOOL_LITERALS && tool_states[i].literals[k]; k++)
			if (str_starts(str_of(tool_states[i].literals[k]), rest))
				return true;
	return false;
}

/* A limit may cut an answer anywhere. A call stays a call then, with its arguments so far,
 * and its markup is never text. */
static void test_cut(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct row *r = &rows[i];
		size_t n_bad = 0, n = strlen(r->text);
		struct said whole = say(r, n, false);
		for (size_t at = 0; at < n && !whole.n_broken; at++) {
			struct said cut = say(r, at, true);
			struct buf closed = {0};
			bool good = str_starts(buf_str(&whole.calls), buf_str(&cut.calls)) &&
				    is_begun(buf_str(&cut.content), buf_str(&whole.content)) &&
				    cut.n_broken == 0 && cut.n_cuts <= 1 &&
				    cut.n_ends + cut.n_cuts >= cut.n_names;
			if (cut.args.n)
				good &= toolparse_close(buf_str(&cut.args), &closed) &&
					jsonscan_is_value(buf_str(&closed));
			if (!good && !n_bad++)
				printf("# at %zu of %s\n# content %s\n# calls %s\n", at, r->text,
				       buf_str(&cut.content).p, buf_str(&cut.calls).p);
			buf_deinit(&closed);
			forget(&cut);
		}
		is_int((long)n_bad, 0, "%s, cut anywhere: %s", r->format, r->name);
		forget(&whole);
	}
}

/* Arguments may be shown at any moment: no piece ends inside an escape, a surrogate
 * pair, and, where the text comes in whole characters, a character. */
static void test_pieces(void)
{
	const struct row r = {.format = "hermes"};
	const char *const text[] = {
		"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x", "\\", "u", "d",
		"8", "3", "d", "\\", "u", "d", "e", "0", "0", "é", "\\", "n", "\"}", "}"};
	const char *const want[] = {"{\"a\": \"x", "", "", "", "", "", "", "", "", "", "",
				    "", "\\ud83d\\ude00", "é", "", "\\n", "\"}", ""};
	struct outparse *p = open_row(&r);
	for (size_t i = 0; i < ARRAY_LEN(text); i++) {
		const struct out_span *s;
		struct buf got = {0};
		int n = outparse_push(p, str_of(text[i]), &s);
		for (int k = 0; k < n; k++)
			if (s[k].channel == OUT_CALL_ARGS)
				buf_add_str(&got, s[k].text);
		is_str(buf_str(&got).p, want[i], "piece %zu", i);
		buf_deinit(&got);
	}
	outparse_destroy(p);
}

static void test_exact(void)
{
	const struct row r = {.format = "hermes"};
	static const char call[] = "<tool_call>{ \"name\":\"f\",\t\"arguments\" : {}}\n\n"
				   "</tool_call>";
	struct outparse *p = open_row(&r);
	struct record rec = {.last = -1};
	const struct out_span *s;
	struct buf text = {0};
	buf_addf(&text, "a \n%s \n", call);
	int n = outparse_push(p, buf_str(&text), &s);
	record(&rec, s, n);
	is_str(buf_str(&rec.ends).p, call, "a call's end has the exact text");
	buf_deinit(&rec.out);
	buf_deinit(&rec.ends);
	buf_deinit(&text);
	outparse_destroy(p);
}

/* Time and text: long runs of what is always held back stay linear and whole. */
static void test_long(void)
{
	static const char *const parts[] = {
		"  ", "<tool", "<tool_call>", "<tool_call>{\"name\":", DEEP70, "[TOOL_CALLS]",
		"<|channel|>", "{\"a\":\""};
	int n_bad = 0;
	for (int f = 0; f < n_tool_formats; f++) {
		for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
			const struct row r = {.format = tool_formats[f].name};
			struct outparse *p = open_row(&r);
			const struct out_span *s;
			struct buf in = {0}, out = {0};
			while (in.n < 100000)
				buf_add_z(&in, parts[i]);
			for (int pass = 0; pass < 2; pass++) {
				int n = pass ? outparse_finish(p, false, &s)
					     : outparse_push(p, buf_str(&in), &s);
				for (int k = 0; k < n; k++)
					if (s[k].channel == OUT_CONTENT ||
					    s[k].channel == OUT_CALL_BROKEN)
						buf_add_str(&out, s[k].text);
			}
			n_bad += !str_eq(buf_str(&in), buf_str(&out));
			buf_deinit(&in);
			buf_deinit(&out);
			outparse_destroy(p);
		}
	}
	is_int(n_bad, 0, "text that never becomes a call comes out whole");
}

/* A model may write NUL at any place, but JSON has none: no arguments hold one. */
static void test_nul(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n_bad = 0, n = strlen(rows[i].text);
		for (size_t at = 0; at <= n; at++) {
			struct outparse *p = open_row(&rows[i]);
			const struct out_span *s;
			struct buf in = {0};
			buf_add(&in, rows[i].text, at);
			buf_add_c(&in, '\0');
			buf_add_z(&in, rows[i].text + at);
			int n_spans = outparse_push(p, buf_str(&in), &s);
			for (int k = 0; k < n_spans; k++)
				n_bad += s[k].channel == OUT_CALL_ARGS && s[k].text.n &&
					 memchr(s[k].text.p, '\0', s[k].text.n);
			buf_deinit(&in);
			outparse_destroy(p);
		}
		is_int((long)n_bad, 0, "%s with a NUL: %s", rows[i].format, rows[i].name);
	}
}

static void test_tables(void)
{
	for (int i = 0; i < n_tool_states; i++)
		for (int k = 0; k < TOOL_LITERALS && tool_states[i].literals[k]; k++) {
			const char *lit = tool_states[i].literals[k];
			if (strchr(lit + 1, lit[0]))
				ok(false, "%s holds its first byte twice", lit);
		}
	static const char *const found[][2] = {
		{"… <tool_call>\n{\"name\": …", "hermes"},
		{"<tool_call>\n<function=x>\n<parameter=y>", "qwen3-coder"},
		{"'<tool_call>\n<function=' + call.name … '<parameter=' + key", "qwen3-coder"},
		{"<tool_call>{name}\n<arg_key>", "glm"},
		{"HYTK = ':opensource' … '<tool_sep{}>'.format(HYTK) … '<arg_key{}>'", "hy3"},
		{"'<tool_call>' + name + '<tool_sep>\n' … '<arg_key>'", "hy3-preview"},
		{"<minimax:tool_call>' + '<invoke name=\"", "minimax"},
		{"'<atem:function_calls>\n<atem:invoke name=\"' … '<|eom|>'", "atem"},
		{"<seed:tool_call>\n<function=x>\n<parameter=y>", "seed"},
		{"[TOOL_CALLS] [", "mistral"},
		{"[TOOL_CALLS]' + name + '[ARGS]", "mistral-args"},
		{"<|start_header_id|> … {\"name\": n, \"parameters\": p}", "llama3"},
		{"'<|header_start|>' + role + '<|header_end|>'", "llama3"},
		{"<|start|>assistant<|channel|>final<|message|>", "harmony"},
		{"'<|tool_call>call:' … '<tool_call|>'", "gemma4"},
		{"<|tool_calls_section_begin|> … <|tool_call_argument_begin|>", "kimi"},
		{"<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' … ```json", "deepseek-v3"},
		{"<｜tool▁call▁begin｜>'+ name + '<｜tool▁sep｜>'", "deepseek"},
		{"dsml_token = '｜DSML｜' … '<' + dsml_token + 'tool_calls>\n'", "deepseek-v4"},
		{"dsml_token = '｜DSML｜' … '<' + dsml_token + 'function_calls>\n'",
		 "deepseek-v3.2"},
		{"<TOOLCALL>[", "nemotron"},
		{"<|start_of_role|> … only with <|tool_call|> followed by a JSON list", "granite"},
		{"<|tool_call_start|>[' + call", "lfm2"},
		{"\"List of tools: <|tool_list_start|>[\"", "lfm2"},
		{"\"List of tools: [\"", "lfm2"}};
	for (size_t i = 0; i < ARRAY_LEN(found); i++) {
		const struct tool_format *f = toolformat_detect(str_of(found[i][0]));
		is_str(f ? f->name : NULL, found[i][1], "template of %s", found[i][1]);
		is_int(toolformat_find(str_of(found[i][1])) == f, 1, "and by its name");
	}
	ok(!toolformat_detect(STR("{{ messages[0].content }}")), "no calls, no format");
	ok(!toolformat_find(STR("xyz")), "an unknown name");
}

int main(void)
{
	test_rows();
	test_close();
	test_cut();
	test_pieces();
	test_exact();
	test_long();
	test_nul();
	test_tables();
	return tap_done();
}
