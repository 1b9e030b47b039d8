/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of tool calls. A new format needs a row and states here, a test in
 * test_toolparse.c, and its name in config.def.
 *
 *   hermes        <tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>; a list of such
 *                 objects may stand between the tags, as Falcon's templates ask for
 *   qwen3-coder   <tool_call>\n<function=f>\n<parameter=p>\nv\n</parameter>\n
 *                 </function>\n</tool_call>; the outer tags may be missing
 *   llama3        {"name": "f", "parameters": {…}}, perhaps behind <|python_tag|>,
 *                 several with ; between
 *   mistral       [TOOL_CALLS][{"name": "f", "arguments": {…}}, …]
 *   mistral-args  [TOOL_CALLS]f[ARGS]{…}, an id perhaps between them
 *   harmony       <|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}
 *                 with reasoning on the channel "analysis"
 *   glm           <tool_call>f\n<arg_key>p</arg_key>\n<arg_value>v</arg_value>…
 *   hy3           <tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n and
 *                 keys and values as glm's, whose tags end in ":opensource", too; of several
 *                 <tool_call:opensource>
 *   hy3-preview   the same without ":opensource"
 *   minimax       <minimax:tool_call>\n<invoke name="f">\n<parameter name="p">v
 *                 </parameter>\n</invoke>\n</minimax:tool_call>, of several <invoke>
 *   atem          to=f<|message|><atem:function_calls>\n<atem:invoke name="f">\n
 *                 <atem:parameter name="p">v</atem:parameter>\n</atem:invoke>\n
 *                 </atem:function_calls>, of several <atem:invoke>; with reasoning in a message
 *                 to=self
 *   seed          <seed:tool_call>\n<function=f>\n<parameter=p>v</parameter>\n
 *                 </function>\n</seed:tool_call>
 *   gemma4        <|tool_call>call:f{p:<|"|>v<|"|>,n:1}<tool_call|>
 *   kimi          <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0
 *                 <|tool_call_argument_begin|>{…}<|tool_call_end|>, of several calls, and
 *                 <|tool_calls_section_end|>
 *   deepseek-v3   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n
 *                 ```json\n{…}\n```<｜tool▁call▁end｜>, of several calls, and
 *                 <｜tool▁calls▁end｜>
 *   deepseek      the same, but <｜tool▁call▁begin｜>f<｜tool▁sep｜>{…}<｜tool▁call▁end｜>
 *   deepseek-v4   <｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="p"
 *                 string="true">v</｜DSML｜parameter>\n</｜DSML｜invoke>\n
 *                 </｜DSML｜tool_calls>, of several <｜DSML｜invoke; "false" before JSON
 *   deepseek-v3.2 the same with function_calls in place of tool_calls
 *   nemotron      <TOOLCALL>[{"name": "f", "arguments": {…}}, …]</TOOLCALL>
 *   granite       <|tool_call|>[{"name": "f", "arguments": {…}}, …]
 *   lfm2          <|tool_call_start|>[f(p="v", n=1), …]<|tool_call_end|>; objects as hermes has
 *                 them may stand in the list
 */
#include "output/toolformat.h"

enum {
	NONE,
	HERMES, HERMES_FORM, HERMES_CALL, HERMES_ITEM, HERMES_NEXT, HERMES_END, HERMES_CLOSE,
	CODER, CODER_CALL, CODER_NAME, CODER_BODY, CODER_KEY, CODER_VALUE, CODER_CLOSE,
	LLAMA, LLAMA_TEXT, LLAMA_CALL, LLAMA_BARE, LLAMA_NEXT,
	MISTRAL, MISTRAL_FORM, MISTRAL_ITEM, MISTRAL_NEXT, MISTRAL_NAME, MISTRAL_ID,
	MISTRAL_ARGS, MISTRAL_CLOSE,
	HARMONY, HARMONY_REASON, HARMONY_TEXT, HARMONY_NEXT, HARMONY_ARGS,
	HARMONY_CLOSE,
	GLM, GLM_NAME, GLM_KEY, GLM_OPEN, GLM_VALUE, GLM_BODY,
	HY, HY_CALL, HY_NAME, HY_KEY, HY_OPEN, HY_VALUE, HY_BODY, HY_NEXT,
	HYP, HYP_CALL, HYP_NAME, HYP_KEY, HYP_OPEN, HYP_VALUE, HYP_BODY, HYP_NEXT,
	MINIMAX, MINIMAX_CALL, MINIMAX_NAME, MINIMAX_BODY, MINIMAX_KEY, MINIMAX_VALUE,
	MINIMAX_NEXT,
	ATEM, ATEM_REASON, ATEM_TEXT, ATEM_TOOL, ATEM_NEXT, ATEM_CALL, ATEM_NAME, ATEM_BODY,
	ATEM_KEY, ATEM_VALUE, ATEM_MORE,
	SEED, SEED_CALL, SEED_NAME, SEED_BODY, SEED_KEY, SEED_VALUE, SEED_CLOSE,
	GEMMA, GEMMA_CALL, GEMMA_NAME, GEMMA_ARGS, GEMMA_CLOSE,
	KIMI, KIMI_CALL, KIMI_NAME, KIMI_ARGS, KIMI_END, KIMI_NEXT,
	DEEP3, DEEP3_CALL, DEEP3_TYPE, DEEP3_NAME, DEEP3_FENCE, DEEP3_ARGS, DEEP3_END,
	DEEP3_NEXT,
	DEEP, DEEP_CALL, DEEP_NAME, DEEP_ARGS, DEEP_END, DEEP_NEXT,
	DSML, DSML_CALL, DSML_NAME, DSML_BODY, DSML_KEY, DSML_TYPE, DSML_VALUE, DSML_NEXT,
	NEMO, NEMO_LIST, NEMO_ITEM, NEMO_NEXT, NEMO_CLOSE,
	GRANITE, GRANITE_LIST, GRANITE_ITEM, GRANITE_NEXT,
	LFM, LFM_LIST, LFM_ITEM, LFM_NAME, LFM_ARGS, LFM_CALL, LFM_NEXT, LFM_CLOSE,
	N_STATES
};
_Static_assert(N_STATES - 1 <= TOOL_STATE, "the number of a state is below its flags");

#define TEXT(ch) .kind = TOOL_TEXT, .channel = (ch), .is_outside = true

#define GRANITE_OPEN "<|tool_call|>"
#define DEEP_CALLS "<｜tool▁calls▁begin｜>"
#define DEEP_CALLS_END "<｜tool▁calls▁end｜>"
#define DEEP_OPEN "<｜tool▁call▁begin｜>"
#define DEEP_SEP "<｜tool▁sep｜>"
#define DEEP_CLOSE "<｜tool▁call▁end｜>"
#define DSML_CALLS "<｜DSML｜tool_calls>"
#define DSML_CALLS_END "</｜DSML｜tool_calls>"
/* DeepSeek-V3.2's names for the tags around its calls. */
#define DSML_FUNCTIONS "<｜DSML｜function_calls>"
#define DSML_FUNCTIONS_END "</｜DSML｜function_calls>"
#define DSML_OPEN "<｜DSML｜invoke name=\""
#define DSML_WAY(before) {before "<｜DSML｜invoke\tname=\"", "\">\n", "</｜DSML｜invoke>\n"}
#define KIMI_CALLS "<|tool_calls_section_begin|>"
#define KIMI_CALLS_END "<|tool_calls_section_end|>"
#define KIMI_OPEN "<|tool_call_begin|>"
#define KIMI_SEP "<|tool_call_argument_begin|>"
#define KIMI_CLOSE "<|tool_call_end|>"
#define HY_TAG(name, suffix) "<" name suffix ">"
#define HY_END(name, suffix) "</" name suffix ">"
#define HY_STATES(S, x) \
	[S] = {TEXT(OUT_CONTENT), .literals = {HY_TAG("tool_calls", x)}, .next = {S##_CALL}}, \
	[S##_CALL] = {.kind = TOOL_EXPECT, .literals = {HY_TAG("tool_call", x)}, \
		      .next = {S##_NAME}}, \
	[S##_NAME] = {.kind = TOOL_UNTIL, .take = TAKE_NAME, \
		      .literals = {HY_TAG("tool_sep", x)}, .next = {S##_BODY}}, \
	[S##_KEY] = {.kind = TOOL_UNTIL, .take = TAKE_KEY, .literals = {HY_END("arg_key", x)}, \
		     .next = {S##_OPEN}}, \
	[S##_OPEN] = {.kind = TOOL_EXPECT, .literals = {HY_TAG("arg_value", x)}, \
		      .next = {S##_VALUE}}, \
	[S##_VALUE] = {.kind = TOOL_VALUE, .literals = {HY_END("arg_value", x)}, \
		       .next = {S##_BODY}}, \
	[S##_BODY] = {.kind = TOOL_EXPECT, \
		      .literals = {HY_TAG("arg_key", x), HY_END("tool_call", x)}, \
		      .next = {S##_KEY, S##_NEXT}}, \
	[S##_NEXT] = {.kind = TOOL_EXPECT, \
		      .literals = {HY_TAG("tool_call", x), HY_END("tool_calls", x)}, \
		      .next = {S##_NAME | TOOL_END, S | TOOL_END}, .other = S | TOOL_END}
#define HY_ROW(S, x) \
	.tags = {HY_TAG("tool_calls", x), HY_TAG("tool_sep", x), HY_TAG("arg_key", x)}, \
	.start = S, .any = HY_TAG("tool_calls", x) "\n" HY_TAG("tool_call", x), \
	.before_name = HY_TAG("tool_calls", x) "\n" HY_TAG("tool_call", x), \
	.after_name = HY_TAG("tool_sep", x) "\n", .open = HY_TAG("tool_calls", x), \
	.close_tag = HY_END("tool_calls", x), \
	.first = {HY_TAG("tool_calls", x) "\n" HY_TAG("tool_call", x), \
		  HY_TAG("tool_sep", x) "\n", HY_END("tool_call", x) "\n"}, \
	.again = {HY_TAG("tool_call", x), HY_TAG("tool_sep", x) "\n", \
		  HY_END("tool_call", x) "\n"}, \
	.close = HY_END("tool_calls", x), \
	.args = {HY_TAG("arg_key", x), HY_END("arg_key", x) "\n" HY_TAG("arg_value", x), \
		 HY_END("arg_value", x), S##_VALUE, NULL}
#define LFM_OPEN "<|tool_call_start|>"
#define LFM_END "<|tool_call_end|>"
#define GEMMA_MARK "<|\"|>"

const struct tool_state tool_states[] = {
	[HERMES] = {TEXT(OUT_CONTENT), .literals = {"<tool_call>"},
		    .next = {HERMES_FORM}},
	[HERMES_FORM] = {.kind = TOOL_EXPECT, .literals = {"["}, .next = {HERMES_ITEM},
			 .other = HERMES_CALL},
	[HERMES_ITEM] = {.kind = TOOL_CALL, .next = {HERMES_NEXT}},
	[HERMES_NEXT] = {.kind = TOOL_EXPECT, .literals = {",", "]"},
			 .next = {HERMES_ITEM | TOOL_END, HERMES_END | TOOL_END},
			 .other = HERMES | TOOL_END},
	[HERMES_END] = {.kind = TOOL_EXPECT, .literals = {"</tool_call>"}, .is_outside = true,
			.next = {HERMES}, .other = HERMES},
	[HERMES_CALL] = {.kind = TOOL_CALL, .next = {HERMES_CLOSE}},
	[HERMES_CLOSE] = {.kind = TOOL_EXPECT, .literals = {"</tool_call>"},
			  .next = {HERMES | TOOL_END}, .other = HERMES | TOOL_END},

	[CODER] = {TEXT(OUT_CONTENT), .literals = {"<tool_call>", "<function="},
		   .next = {CODER_CALL, CODER_NAME}},
	[CODER_CALL] = {.kind = TOOL_EXPECT, .literals = {"<function="},
			.next = {CODER_NAME}},
	[CODER_NAME] = {.kind = TOOL_UNTIL, .literals = {">"}, .next = {CODER_BODY},
			.take = TAKE_NAME},
	[CODER_BODY] = {.kind = TOOL_EXPECT, .literals = {"<parameter=", "</function>"},
			.next = {CODER_KEY, CODER_CLOSE}},
	[CODER_KEY] = {.kind = TOOL_UNTIL, .literals = {">"}, .next = {CODER_VALUE},
		       .take = TAKE_KEY},
	[CODER_VALUE] = {.kind = TOOL_VALUE, .literals = {"</parameter>"},
			 .next = {CODER_BODY}, .strips_newlines = true},
	[CODER_CLOSE] = {.kind = TOOL_EXPECT, .literals = {"</tool_call>"},
			 .next = {CODER | TOOL_END}, .other = CODER | TOOL_END},

	[LLAMA] = {.kind = TOOL_EXPECT, .is_outside = true,
		   .literals = {"<|python_tag|>", "{"},
		   .next = {LLAMA_CALL, LLAMA_BARE | TOOL_AGAIN}, .other = LLAMA_TEXT},
	[LLAMA_TEXT] = {TEXT(OUT_CONTENT), .literals = {"<|python_tag|>"},
			.next = {LLAMA_CALL}},
	[LLAMA_CALL] = {.kind = TOOL_CALL, .next = {LLAMA_NEXT}},
	[LLAMA_BARE] = {.kind = TOOL_CALL, .next = {LLAMA_NEXT}, .is_bare = true},
	[LLAMA_NEXT] = {.kind = TOOL_EXPECT, .literals = {";"},
			.next = {LLAMA_CALL | TOOL_END}, .other = LLAMA | TOOL_END},

	[MISTRAL] = {TEXT(OUT_CONTENT), .literals = {"[TOOL_CALLS]"},
		     .next = {MISTRAL_FORM}},
	[MISTRAL_FORM] = {.kind = TOOL_EXPECT, .literals = {"["},
			  .next = {MISTRAL_ITEM}, .other = MISTRAL_NAME},
	[MISTRAL_ITEM] = {.kind = TOOL_CALL, .next = {MISTRAL_NEXT}},
	[MISTRAL_NEXT] = {.kind = TOOL_EXPECT, .literals = {",", "]"},
			  .next = {MISTRAL_ITEM | TOOL_END, MISTRAL | TOOL_END},
			  .other = MISTRAL | TOOL_END},
	[MISTRAL_NAME] = {.kind = TOOL_UNTIL, .take = TAKE_NAME,
			  .literals = {"[ARGS]", "[CALL_ID]", "{"},
			  .next = {MISTRAL_ARGS, MISTRAL_ID,
				   MISTRAL_ARGS | TOOL_AGAIN}},
	[MISTRAL_ID] = {.kind = TOOL_UNTIL, .literals = {"[ARGS]"},
			.next = {MISTRAL_ARGS}},
	[MISTRAL_ARGS] = {.kind = TOOL_ARGS, .next = {MISTRAL_CLOSE}},
	[MISTRAL_CLOSE] = {.kind = TOOL_EXPECT, .other = MISTRAL | TOOL_END},

	[HARMONY] = {.kind = TOOL_UNTIL, .literals = {"<|message|>"},
		     .next = {HARMONY_TEXT, HARMONY_REASON, HARMONY_ARGS},
		     .take = TAKE_HEADER, .is_outside = true},
	[HARMONY_REASON] = {TEXT(OUT_REASONING),
			    .literals = {"<|end|>", "<|start|>", "<|channel|>"},
			    .next = {HARMONY_NEXT, HARMONY, HARMONY | TOOL_AGAIN}},
	[HARMONY_TEXT] = {TEXT(OUT_CONTENT),
			  .literals = {"<|end|>", "<|start|>", "<|channel|>"},
			  .next = {HARMONY_NEXT, HARMONY, HARMONY | TOOL_AGAIN}},
	[HARMONY_NEXT] = {.kind = TOOL_EXPECT, .is_outside = true,
			  .literals = {"<|start|>", "<|channel|>"},
			  .next = {HARMONY, HARMONY | TOOL_AGAIN},
			  .other = HARMONY_TEXT},
	[HARMONY_ARGS] = {.kind = TOOL_ARGS, .next = {HARMONY_CLOSE}},
	[HARMONY_CLOSE] = {.kind = TOOL_EXPECT,
			   .literals = {"<|call|>", "<|end|>", "<|start|>"},
			   .next = {HARMONY_NEXT | TOOL_END, HARMONY_NEXT | TOOL_END,
				    HARMONY | TOOL_END},
			   .other = HARMONY_TEXT | TOOL_END},

	[GLM] = {TEXT(OUT_CONTENT), .literals = {"<tool_call>"}, .next = {GLM_NAME}},
	[GLM_NAME] = {.kind = TOOL_UNTIL, .take = TAKE_NAME,
		      .literals = {"<arg_key>", "</tool_call>"},
		      .next = {GLM_KEY, GLM | TOOL_END}},
	[GLM_KEY] = {.kind = TOOL_UNTIL, .literals = {"</arg_key>"},
		     .next = {GLM_OPEN}, .take = TAKE_KEY},
	[GLM_OPEN] = {.kind = TOOL_EXPECT, .literals = {"<arg_value>"},
		      .next = {GLM_VALUE}},
	[GLM_VALUE] = {.kind = TOOL_VALUE, .literals = {"</arg_value>"},
		       .next = {GLM_BODY}},
	[GLM_BODY] = {.kind = TOOL_EXPECT, .literals = {"<arg_key>", "</tool_call>"},
		      .next = {GLM_KEY, GLM | TOOL_END}},

	HY_STATES(HY, ":opensource"),
	HY_STATES(HYP, ""),

	[MINIMAX] = {TEXT(OUT_CONTENT), .literals = {"<minimax:tool_call>"},
		     .next = {MINIMAX_CALL}},
	[MINIMAX_CALL] = {.kind = TOOL_EXPECT, .literals = {"<invoke name=\""},
			  .next = {MINIMAX_NAME}},
	[MINIMAX_NAME] = {.kind = TOOL_UNTIL, .literals = {"\">"}, .next = {MINIMAX_BODY},
			  .take = TAKE_NAME},
	[MINIMAX_BODY] = {.kind = TOOL_EXPECT,
			  .literals = {"<parameter name=\"", "</invoke>"},
			  .next = {MINIMAX_KEY, MINIMAX_NEXT}},
	[MINIMAX_KEY] = {.kind = TOOL_UNTIL, .literals = {"\">"}, .next = {MINIMAX_VALUE},
			 .take = TAKE_KEY},
	[MINIMAX_VALUE] = {.kind = TOOL_VALUE, .literals = {"</parameter>"},
			   .next = {MINIMAX_BODY}},
	[MINIMAX_NEXT] = {.kind = TOOL_EXPECT,
			  .literals = {"<invoke name=\"", "</minimax:tool_call>"},
			  .next = {MINIMAX_NAME | TOOL_END, MINIMAX | TOOL_END},
			  .other = MINIMAX | TOOL_END},

	[ATEM] = {.kind = TOOL_UNTIL, .literals = {"<|message|>"},
		  .next = {ATEM_TEXT, ATEM_REASON, ATEM_TOOL}, .take = TAKE_HEADER,
		  .is_outside = true},
	[ATEM_REASON] = {TEXT(OUT_REASONING), .literals = {"<|eom|>", "<|start|>"},
			 .next = {ATEM_NEXT, ATEM}},
	[ATEM_TEXT] = {TEXT(OUT_CONTENT),
		       .literals = {"<atem:function_calls>", "<|eom|>", "<|start|>"},
		       .next = {ATEM_CALL, ATEM_NEXT, ATEM}},
	/* A message to a tool, which is no content. */
	[ATEM_TOOL] = {.kind = TOOL_EXPECT, .is_outside = true, .other = ATEM_TEXT,
		       .literals = {"<atem:function_calls>", "<|eom|>", "<|start|>"},
		       .next = {ATEM_CALL, ATEM_NEXT, ATEM}},
	[ATEM_NEXT] = {.kind = TOOL_EXPECT, .is_outside = true, .literals = {"<|start|>"},
		       .next = {ATEM}, .other = ATEM_TEXT},
	[ATEM_CALL] = {.kind = TOOL_EXPECT, .literals = {"<atem:invoke name=\""},
		       .next = {ATEM_NAME}},
	[ATEM_NAME] = {.kind = TOOL_UNTIL, .literals = {"\">"}, .next = {ATEM_BODY},
		       .take = TAKE_NAME},
	[ATEM_BODY] = {.kind = TOOL_EXPECT,
		       .literals = {"<atem:parameter name=\"", "</atem:invoke>"},
		       .next = {ATEM_KEY, ATEM_MORE}},
	[ATEM_KEY] = {.kind = TOOL_UNTIL, .literals = {"\">"}, .next = {ATEM_VALUE},
		      .take = TAKE_KEY},
	[ATEM_VALUE] = {.kind = TOOL_VALUE, .literals = {"</atem:parameter>"},
			.next = {ATEM_BODY}},
	[ATEM_MORE] = {.kind = TOOL_EXPECT,
		       .literals = {"<atem:invoke name=\"", "</atem:function_calls>"},
		       .next = {ATEM_NAME | TOOL_END, ATEM_TOOL | TOOL_END},
		       .other = ATEM_TOOL | TOOL_END},

	[SEED] = {TEXT(OUT_CONTENT), .literals = {"<seed:tool_call>"}, .next = {SEED_CALL}},
	[SEED_CALL] = {.kind = TOOL_EXPECT, .literals = {"<function="}, .next = {SEED_NAME}},
	[SEED_NAME] = {.kind = TOOL_UNTIL, .literals = {">"}, .next = {SEED_BODY},
		       .take = TAKE_NAME},
	[SEED_BODY] = {.kind = TOOL_EXPECT, .literals = {"<parameter=", "</function>"},
		       .next = {SEED_KEY, SEED_CLOSE}},
	[SEED_KEY] = {.kind = TOOL_UNTIL, .literals = {">"}, .next = {SEED_VALUE},
		      .take = TAKE_KEY},
	[SEED_VALUE] = {.kind = TOOL_VALUE, .literals = {"</parameter>"},
			.next = {SEED_BODY}},
	[SEED_CLOSE] = {.kind = TOOL_EXPECT, .literals = {"</seed:tool_call>"},
			.next = {SEED | TOOL_END}, .other = SEED | TOOL_END},

	[GEMMA] = {TEXT(OUT_CONTENT), .literals = {"<|tool_call>"}, .next = {GEMMA_CALL}},
	[GEMMA_CALL] = {.kind = TOOL_EXPECT, .literals = {"call:"}, .next = {GEMMA_NAME}},
	[GEMMA_NAME] = {.kind = TOOL_UNTIL, .literals = {"{"}, .take = TAKE_NAME,
			.next = {GEMMA_ARGS | TOOL_AGAIN}},
	[GEMMA_ARGS] = {.kind = TOOL_RELAXED, .literals = {GEMMA_MARK}, .next = {GEMMA_CLOSE}},
	[GEMMA_CLOSE] = {.kind = TOOL_EXPECT, .literals = {"<tool_call|>"},
			 .next = {GEMMA | TOOL_END}, .other = GEMMA | TOOL_END},

	[KIMI] = {TEXT(OUT_CONTENT), .literals = {KIMI_CALLS}, .next = {KIMI_CALL}},
	[KIMI_CALL] = {.kind = TOOL_EXPECT, .literals = {KIMI_OPEN}, .next = {KIMI_NAME}},
	[KIMI_NAME] = {.kind = TOOL_UNTIL, .literals = {KIMI_SEP}, .take = TAKE_ID,
		       .next = {KIMI_ARGS}},
	[KIMI_ARGS] = {.kind = TOOL_ARGS, .next = {KIMI_END}},
	[KIMI_END] = {.kind = TOOL_EXPECT, .literals = {KIMI_CLOSE}, .next = {KIMI_NEXT},
		      .other = KIMI | TOOL_END},
	[KIMI_NEXT] = {.kind = TOOL_EXPECT, .literals = {KIMI_OPEN, KIMI_CALLS_END},
		       .next = {KIMI_NAME | TOOL_END, KIMI | TOOL_END},
		       .other = KIMI | TOOL_END},

	[DEEP3] = {TEXT(OUT_CONTENT), .literals = {DEEP_CALLS}, .next = {DEEP3_CALL}},
	[DEEP3_CALL] = {.kind = TOOL_EXPECT, .literals = {DEEP_OPEN}, .next = {DEEP3_TYPE}},
	[DEEP3_TYPE] = {.kind = TOOL_UNTIL, .literals = {DEEP_SEP}, .next = {DEEP3_NAME}},
	[DEEP3_NAME] = {.kind = TOOL_UNTIL, .literals = {"\n", "`"}, .take = TAKE_NAME,
			.next = {DEEP3_FENCE, DEEP3_FENCE}},
	[DEEP3_FENCE] = {.kind = TOOL_UNTIL, .literals = {"json"}, .next = {DEEP3_ARGS}},
	[DEEP3_ARGS] = {.kind = TOOL_ARGS, .next = {DEEP3_END}},
	[DEEP3_END] = {.kind = TOOL_EXPECT, .literals = {"`", DEEP_CLOSE},
		       .next = {DEEP3_END, DEEP3_NEXT}, .other = DEEP3 | TOOL_END},
	[DEEP3_NEXT] = {.kind = TOOL_EXPECT, .literals = {DEEP_OPEN, DEEP_CALLS_END},
			.next = {DEEP3_TYPE | TOOL_END, DEEP3 | TOOL_END},
			.other = DEEP3 | TOOL_END},

	[DEEP] = {TEXT(OUT_CONTENT), .literals = {DEEP_CALLS}, .next = {DEEP_CALL}},
	[DEEP_CALL] = {.kind = TOOL_EXPECT, .literals = {DEEP_OPEN}, .next = {DEEP_NAME}},
	[DEEP_NAME] = {.kind = TOOL_UNTIL, .literals = {DEEP_SEP}, .take = TAKE_NAME,
		       .next = {DEEP_ARGS}},
	[DEEP_ARGS] = {.kind = TOOL_ARGS, .next = {DEEP_END}},
	[DEEP_END] = {.kind = TOOL_EXPECT, .literals = {DEEP_CLOSE}, .next = {DEEP_NEXT},
		      .other = DEEP | TOOL_END},
	[DEEP_NEXT] = {.kind = TOOL_EXPECT, .literals = {DEEP_OPEN, DEEP_CALLS_END},
		       .next = {DEEP_NAME | TOOL_END, DEEP | TOOL_END},
		       .other = DEEP | TOOL_END},

	[DSML] = {TEXT(OUT_CONTENT), .literals = {DSML_CALLS, DSML_FUNCTIONS},
		  .next = {DSML_CALL, DSML_CALL}},
	[DSML_CALL] = {.kind = TOOL_EXPECT, .literals = {DSML_OPEN}, .next = {DSML_NAME}},
	[DSML_NAME] = {.kind = TOOL_UNTIL, .literals = {"\">"}, .next = {DSML_BODY},
		       .take = TAKE_NAME},
	[DSML_BODY] = {.kind = TOOL_EXPECT,
		       .literals = {"<｜DSML｜parameter name=\"", "</｜DSML｜invoke>"},
		       .next = {DSML_KEY, DSML_NEXT}},
	[DSML_KEY] = {.kind = TOOL_UNTIL, .literals = {"\""}, .next = {DSML_TYPE},
		      .take = TAKE_KEY},
	[DSML_TYPE] = {.kind = TOOL_UNTIL, .literals = {">"}, .next = {DSML_VALUE}},
	[DSML_VALUE] = {.kind = TOOL_VALUE, .literals = {"</｜DSML｜parameter>"},
			.next = {DSML_BODY}},
	[DSML_NEXT] = {.kind = TOOL_EXPECT,
		       .literals = {DSML_OPEN, DSML_CALLS_END, DSML_FUNCTIONS_END},
		       .next = {DSML_NAME | TOOL_END, DSML | TOOL_END, DSML | TOOL_END},
		       .other = DSML | TOOL_END},

	[NEMO] = {TEXT(OUT_CONTENT), .literals = {"<TOOLCALL>"}, .next = {NEMO_LIST}},
	[NEMO_LIST] = {.kind = TOOL_EXPECT, .literals = {"["}, .next = {NEMO_ITEM}},
	[NEMO_ITEM] = {.kind = TOOL_CALL, .next = {NEMO_NEXT}},
	[NEMO_NEXT] = {.kind = TOOL_EXPECT, .literals = {",", "]"},
		       .next = {NEMO_ITEM | TOOL_END, NEMO_CLOSE | TOOL_END},
		       .other = NEMO | TOOL_END},
	[NEMO_CLOSE] = {.kind = TOOL_EXPECT, .literals = {"</TOOLCALL>"}, .is_outside = true,
			.next = {NEMO}, .other = NEMO},

	[GRANITE] = {TEXT(OUT_CONTENT), .literals = {GRANITE_OPEN}, .next = {GRANITE_LIST}},
	[GRANITE_LIST] = {.kind = TOOL_EXPECT, .literals = {"["}, .next = {GRANITE_ITEM}},
	[GRANITE_ITEM] = {.kind = TOOL_CALL, .next = {GRANITE_NEXT}},
	[GRANITE_NEXT] = {.kind = TOOL_EXPECT, .literals = {",", "]"},
			  .next = {GRANITE_ITEM | TOOL_END, GRANITE | TOOL_END},
			  .other = GRANITE | TOOL_END},

	[LFM] = {TEXT(OUT_CONTENT), .literals = {LFM_OPEN}, .next = {LFM_LIST}},
	[LFM_LIST] = {.kind = TOOL_EXPECT, .literals = {"["}, .next = {LFM_ITEM},
		      .other = LFM_ITEM},
	[LFM_ITEM] = {.kind = TOOL_EXPECT, .literals = {"{"}, .next = {LFM_CALL | TOOL_AGAIN},
		      .other = LFM_NAME},
	[LFM_NAME] = {.kind = TOOL_UNTIL, .literals = {"("}, .take = TAKE_NAME,
		      .next = {LFM_ARGS}},
	[LFM_ARGS] = {.kind = TOOL_PYTHON, .next = {LFM_NEXT}},
	[LFM_CALL] = {.kind = TOOL_CALL, .next = {LFM_NEXT}},
	[LFM_NEXT] = {.kind = TOOL_EXPECT, .literals = {",", "]", LFM_END},
		      .next = {LFM_ITEM | TOOL_END, LFM_CLOSE | TOOL_END, LFM | TOOL_END},
		      .other = LFM | TOOL_END},
	[LFM_CLOSE] = {.kind = TOOL_EXPECT, .literals = {LFM_END}, .is_outside = true,
		       .next = {LFM}, .other = LFM},
};
const int n_tool_states = sizeof tool_states / sizeof tool_states[0];

#define ARGUMENTS "\", \"arguments\": "
#define PARAMETERS "\", \"parameters\": "
#define HERMES_WAY {"\n<tool_call>\n{ \"name\": \"", ARGUMENTS, " }\n</tool_call>"}
#define CODER_WAY {"\n<tool_call>\n<function=", ">\n", "</function>\n</tool_call>"}
#define GLM_WAY {"\n<tool_call>", "\n", "</tool_call>"}
#define SEED_WAY {"\n<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>"}

/* The first match wins, so formats with the rarest marks come first: "<tool_call>" alone
 * comes last but one. */
const struct tool_format tool_formats[] = {
	{.name = "harmony", .marks = {"<|channel|>", "<|message|>"},
	 .tags = {"<|channel|>", "<|message|>"}, .start = HARMONY,
	 .any = "<|channel|>commentary to=functions.",
	 .before_name = "<|channel|>commentary to=functions.",
	 .after_name = " <|constrain|>json<|message|>",
	 .end_reasoning = "<|end|><|start|>assistant<|channel|>final<|message|>",
	 .first = {"<|channel|>commentary to=functions.",
		   " <|constrain|>json<|message|>", ""},
	 .other = {"", "<|message|>", ""}},
	/* Its template puts the tags together. */
	{.name = "hy3", .marks = {"<tool_sep{}>", "':opensource'"}, HY_ROW(HY, ":opensource")},
	{.name = "hy3-preview", .marks = {"<tool_sep>"}, HY_ROW(HYP, "")},
	{.name = "glm", .marks = {"<arg_key>"}, .tags = {"<tool_call>", "<arg_key>"},
	 .start = GLM, .any = "<tool_call>", .before_name = "<tool_call>",
	 .after_name = "\n", .open = "<tool_call>", .close_tag = "</tool_call>",
	 .first = GLM_WAY, .again = GLM_WAY,
	 .args = {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>", GLM_VALUE, NULL}},
	{.name = "minimax", .marks = {"<minimax:tool_call>", "<invoke"},
	 .tags = {"<minimax:tool_call>", "</minimax:tool_call>"}, .start = MINIMAX,
	 .any = "<minimax:tool_call>\n<invoke name=\"",
	 .before_name = "<minimax:tool_call>\n<invoke name=\"", .after_name = "\">\n",
	 .open = "<minimax:tool_call>", .close_tag = "</minimax:tool_call>",
	 .first = {"\n<minimax:tool_call>\n<invoke\tname=\"", "\">\n", "</invoke>\n"},
	 .again = {"<invoke\tname=\"", "\">\n", "</invoke>\n"},
	 .close = "</minimax:tool_call>",
	 .args = {"<parameter\tname=\"", "\">", "</parameter>", MINIMAX_VALUE, NULL}},
	/* A call that a prompt opens names nobody in its header. */
	{.name = "atem", .marks = {"<atem:function_calls>", "<|eom|>"},
	 .tags = {"<|start|>", "<|message|>", "<|eom|>"}, .start = ATEM,
	 .any = "<|message|><atem:function_calls>\n<atem:invoke name=\"",
	 .before_name = "<|message|><atem:function_calls>\n<atem:invoke name=\"",
	 .after_name = "\">\n", .open = "<atem:function_calls>",
	 .close_tag = "</atem:function_calls>",
	 .end_reasoning = "<|eom|><|start|>assistant to=user<|message|>",
	 .first = {"<atem:function_calls>\n<atem:invoke\tname=\"", "\">\n", "</atem:invoke>\n"},
	 .other = {"<|message|><atem:function_calls>\n<atem:invoke\tname=\"", "\">\n",
		   "</atem:invoke>\n"},
	 .again = {"<atem:invoke\tname=\"", "\">\n", "</atem:invoke>\n"},
	 .close = "</atem:function_calls>",
	 .args = {"<atem:parameter\tname=\"", "\">", "</atem:parameter>", ATEM_VALUE, NULL}},
	{.name = "seed", .marks = {"<seed:tool_call>"},
	 .tags = {"<seed:tool_call>", "</seed:tool_call>"}, .start = SEED,
	 .any = "<seed:tool_call>\n<function=",
	 .before_name = "<seed:tool_call>\n<function=", .after_name = ">\n",
	 .open = "<seed:tool_call>", .close_tag = "</seed:tool_call>",
	 .first = SEED_WAY, .again = SEED_WAY,
	 .args = {"<parameter=", ">", "</parameter>", SEED_VALUE, NULL}},
	{.name = "gemma4", .marks = {"<|tool_call>", "<tool_call|>"},
	 .tags = {"<|tool_call>", "<tool_call|>", GEMMA_MARK}, .start = GEMMA,
	 .any = "<|tool_call>call:", .before_name = "<|tool_call>call:", .after_name = "",
	 .open = "<|tool_call>", .close_tag = "<tool_call|>",
	 .first = {"<|tool_call>call:", "", "<tool_call|>"},
	 .again = {"<|tool_call>call:", "", "<tool_call|>"}, .relaxed_mark = GEMMA_MARK},
	{.name = "kimi", .marks = {"<|tool_calls_section_begin|>",
					"<|tool_call_argument_begin|>"},
	 .tags = {KIMI_CALLS, KIMI_SEP}, .start = KIMI, .any = KIMI_CALLS KIMI_OPEN "functions.",
	 .before_name = KIMI_CALLS KIMI_OPEN "functions.", .after_name = ":0" KIMI_SEP,
	 .open = KIMI_CALLS, .close_tag = KIMI_CALLS_END,
	 .first = {KIMI_CALLS KIMI_OPEN "functions.", ":@" KIMI_SEP, KIMI_CLOSE},
	 .again = {KIMI_OPEN "functions.", ":@" KIMI_SEP, KIMI_CLOSE},
	 .close = KIMI_CALLS_END},
	{.name = "deepseek-v3", .marks = {"<｜tool▁sep｜>", "```json"},
	 .tags = {DEEP_CALLS, DEEP_SEP}, .start = DEEP3,
	 .any = DEEP_CALLS DEEP_OPEN "function" DEEP_SEP,
	 .before_name = DEEP_CALLS DEEP_OPEN "function" DEEP_SEP,
	 .after_name = "\n```json\n", .open = DEEP_CALLS, .close_tag = DEEP_CALLS_END,
	 .first = {DEEP_CALLS DEEP_OPEN "function" DEEP_SEP, "\n```json\n", "\n```" DEEP_CLOSE},
	 .again = {"\n" DEEP_OPEN "function" DEEP_SEP, "\n```json\n", "\n```" DEEP_CLOSE},
	 .close = DEEP_CALLS_END},
	{.name = "deepseek", .marks = {"<｜tool▁sep｜>"}, .tags = {DEEP_CALLS, DEEP_SEP},
	 .start = DEEP, .any = DEEP_CALLS DEEP_OPEN, .before_name = DEEP_CALLS DEEP_OPEN,
	 .after_name = DEEP_SEP, .open = DEEP_CALLS, .close_tag = DEEP_CALLS_END,
	 .first = {DEEP_CALLS DEEP_OPEN, DEEP_SEP, DEEP_CLOSE},
	 .again = {DEEP_OPEN, DEEP_SEP, DEEP_CLOSE}, .close = DEEP_CALLS_END},
	{.name = "deepseek-v4", .marks = {"｜DSML｜", "tool_calls>"}, .tags = {"｜DSML｜"},
	 .start = DSML, .any = DSML_CALLS "\n" DSML_OPEN,
	 .before_name = DSML_CALLS "\n" DSML_OPEN, .after_name = "\">\n",
	 .open = DSML_CALLS, .close_tag = DSML_CALLS_END,
	 .first = DSML_WAY("\n" DSML_CALLS "\n"), .again = DSML_WAY(""),
	 .close = DSML_CALLS_END,
	 .args = {"<｜DSML｜parameter\tname=\"", "\"\tstring=\"false\">",
		  "</｜DSML｜parameter>", DSML_VALUE, "\"\tstring=\"true\">"}},
	{.name = "deepseek-v3.2", .marks = {"｜DSML｜", "function_calls>"}, .tags = {"｜DSML｜"},
	 .start = DSML, .any = DSML_FUNCTIONS "\n" DSML_OPEN,
	 .before_name = DSML_FUNCTIONS "\n" DSML_OPEN, .after_name = "\">\n",
	 .open = DSML_FUNCTIONS, .close_tag = DSML_FUNCTIONS_END,
	 .first = DSML_WAY("\n" DSML_FUNCTIONS "\n"), .again = DSML_WAY(""),
	 .close = DSML_FUNCTIONS_END,
	 .args = {"<｜DSML｜parameter\tname=\"", "\"\tstring=\"false\">",
		  "</｜DSML｜parameter>", DSML_VALUE, "\"\tstring=\"true\">"}},
	{.name = "nemotron", .marks = {"<TOOLCALL>"}, .tags = {"<TOOLCALL>", "</TOOLCALL>"},
	 .start = NEMO, .any = "<TOOLCALL>[{\"name\":",
	 .before_name = "<TOOLCALL>[{\"name\": \"", .after_name = "\", \"arguments\":",
	 .open = "<TOOLCALL>", .close_tag = "</TOOLCALL>",
	 .first = {"<TOOLCALL>[{ \"name\": \"", ARGUMENTS, " }"},
	 .again = {", { \"name\": \"", ARGUMENTS, " }"}, .close = "]</TOOLCALL>"},
	/* Granite 3. Its templates show no calls of the history. */
	{.name = "granite", .marks = {GRANITE_OPEN, "<|start_of_role|>"},
	 .tags = {GRANITE_OPEN}, .start = GRANITE, .any = GRANITE_OPEN "[{\"name\":",
	 .before_name = GRANITE_OPEN "[{\"name\": \"", .after_name = "\", \"arguments\":",
	 .first = {GRANITE_OPEN "[{ \"name\": \"", ARGUMENTS, " }"},
	 .again = {", { \"name\": \"", ARGUMENTS, " }"}, .close = "]", .hidden = GRANITE_OPEN},
	/* The family's first templates show no calls of the history. */
	{.name = "lfm2", .marks = {LFM_OPEN},
	 .or_marks = {"<|tool_list_start|>", "List of tools: ["},
	 .tags = {LFM_OPEN, LFM_END}, .start = LFM, .any = LFM_OPEN "[",
	 .before_name = LFM_OPEN "[", .after_name = "(", .open = LFM_OPEN,
	 .close_tag = LFM_END, .first = {LFM_OPEN "[", "(", ")"}, .again = {", ", "(", ")"},
	 .close = "]" LFM_END, .is_python = true},
	{.name = "qwen3-coder", .marks = {"<function=", "<parameter="},
	 .tags = {"<tool_call>"}, .start = CODER,
	 .any = "<tool_call>\n<function=", .before_name = "<tool_call>\n<function=",
	 .after_name = ">\n", .open = "<tool_call>", .close_tag = "</tool_call>",
	 .first = CODER_WAY, .other = {"<function=", ">\n", "</function>"},
	 .again = CODER_WAY,
	 .args = {"<parameter=", ">", "</parameter>", CODER_VALUE, NULL}},
	{.name = "mistral-args", .marks = {"[TOOL_CALLS]", "[ARGS]"},
	 .tags = {"[TOOL_CALLS]", "[ARGS]"}, .start = MISTRAL, .any = "[TOOL_CALLS]",
	 .before_name = "[TOOL_CALLS]", .after_name = "[ARGS]",
	 .first = {"[TOOL_CALLS]", "[ARGS]", ""},
	 .other = {"[TOOL_CALLS]", "[CALL_ID]#########[ARGS]", ""},
	 .again = {"[TOOL_CALLS]", "[ARGS]", ""}},
	{.name = "mistral", .marks = {"[TOOL_CALLS]"}, .tags = {"[TOOL_CALLS]"},
	 .start = MISTRAL, .any = "[TOOL_CALLS][{\"name\":",
	 .before_name = "[TOOL_CALLS][{\"name\": \"",
	 .after_name = "\", \"arguments\":",
	 .first = {"[TOOL_CALLS] [{ \"name\": \"", ARGUMENTS, " }"},
	 .again = {", { \"name\": \"", ARGUMENTS, " }"}, .close = "]"},
	{.name = "hermes", .marks = {"<tool_call>"}, .tags = {"<tool_call>"},
	 .start = HERMES, .any = "<tool_call>\n{\"name\":",
	 .before_name = "<tool_call>\n{\"name\": \"",
	 .after_name = "\", \"arguments\":", .open = "<tool_call>",
	 .close_tag = "</tool_call>", .first = HERMES_WAY, .again = HERMES_WAY},
	/* Llama 4's template writes calls of this format, too. */
	{.name = "llama3", .marks = {"<|start_header_id|>", "\"parameters\""},
	 .or_marks = {"<|header_start|>"},
	 .tags = {"<|python_tag|>"}, .start = LLAMA, .any = "{\"name\":",
	 .before_name = "{\"name\": \"", .after_name = "\", \"parameters\":",
	 .first = {"{ \"name\": \"", PARAMETERS, " }"},
	 .other = {"<|python_tag|>{ \"name\": \"", PARAMETERS, " }"},
	 .again = {"; { \"name\": \"", PARAMETERS, " }"}},
};
const int n_tool_formats = sizeof tool_formats / sizeof tool_formats[0];

const struct tool_format *toolformat_find(struct str name)
{
	for (int i = 0; i < n_tool_formats; i++)
		if (str_is(name, tool_formats[i].name))
			return &tool_formats[i];
	return NULL;
}

static bool has_marks(struct str text, const struct tool_format *f)
{
	for (int i = 0; i < 2 && f->marks[i]; i++)
		if (str_find(text, str_of(f->marks[i]), 0) < 0)
			return false;
	return true;
}

static bool has_other_mark(struct str text, const struct tool_format *f)
{
	for (int i = 0; i < 2 && f->or_marks[i]; i++)
		if (str_find(text, str_of(f->or_marks[i]), 0) >= 0)
			return true;
	return false;
}

const struct tool_format *toolformat_detect(struct str chat_template)
{
	for (int i = 0; i < n_tool_formats; i++)
		if (has_marks(chat_template, &tool_formats[i]) ||
		    has_other_mark(chat_template, &tool_formats[i]))
			return &tool_formats[i];
	return NULL;
}
