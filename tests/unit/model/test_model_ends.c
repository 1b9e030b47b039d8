/* SPDX-License-Identifier: Apache-2.0
 *
 * Which special tokens of a family's vocabulary end an answer. A row has the special tokens,
 * the tokenizer's own end, and the ends that are found.
 */
#include "model/model_ends.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "model/tokenizer_hf.h"
#include "tests/tap.h"

#define MAX_TOKENS 16

static const struct {
	const char *family, *tokens[MAX_TOKENS], *eos, *ends;
} rows[] = {
	{"ChatML (Qwen, SmolLM, LFM2)", {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
	 "<|im_end|>", "<|im_end|> <|endoftext|>"},
	{"ChatML on a base model", {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
	 "<|endoftext|>", "<|endoftext|> <|im_end|>"},
	{"Llama 2, Mistral", {"<unk>", "<s>", "</s>", "[INST]", "[/INST]"}, "</s>", "</s>"},
	{"Llama 3", {"<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>",
		     "<|start_header_id|>", "<|end_header_id|>"},
	 "<|eot_id|>", "<|eot_id|> <|eom_id|> <|end_of_text|>"},
	{"Llama 4", {"<|begin_of_text|>", "<|end_of_text|>", "<|eom|>", "<|eot|>",
		     "<|header_start|>"}, "<|eot|>", "<|eot|> <|eom|> <|end_of_text|>"},
	{"Muse Glimmer", {"<|begin_of_text|>", "<|end_of_text|>", "<|eom|>", "<|eot|>", "<|start|>",
			  "<|message|>"}, "<|eot|>", "<|eot|> <|end_of_text|>"},
	{"Phi-3, Phi-4-mini", {"<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>",
			       "<|user|>"}, "<|endoftext|>", "<|endoftext|> <|end|>"},
	{"gpt-oss", {"<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>",
		     "<|end|>", "<|message|>", "<|call|>"},
	 "<|return|>", "<|return|> <|call|> <|endoftext|>"},
	{"Solar", {"<|begin|>", "<|end|>", "<|calls|>", "<|flush|>"}, "<|flush|>",
	 "<|flush|> <|calls|>"},
	{"Gemma 3", {"<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"}, "<eos>",
	 "<eos> <end_of_turn>"},
	{"Gemma 4", {"<pad>", "<eos>", "<bos>", "</s>", "<|turn>", "<turn|>", "<|tool_response>"},
	 "<eos>", "<eos> <turn|> <|tool_response>"},
	{"Kimi", {"[BOS]", "[EOS]", "<|im_end|>", "[EOT]", "<|im_user|>"}, "[EOS]",
	 "[EOS] <|im_end|> [EOT]"},
	{"DeepSeek", {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>"}, "",
	 "<｜end▁of▁sentence｜>"},
	{"ERNIE 4.5", {"<s>", "</s>", "<|begin_of_sentence|>", "<|end_of_sentence|>"}, "</s>",
	 "</s> <|end_of_sentence|>"},
	{"Granite", {"<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>"},
	 "<|end_of_text|>", "<|end_of_text|>"},
	{"EXAONE 4", {"[BOS]", "[|endofturn|]", "[|user|]"}, "[|endofturn|]", "[|endofturn|]"},
	{"a family of its own", {"<seed:bos>", "<seed:eos>"}, "<seed:eos>", "<seed:eos>"},
	{"an end that is no token", {"<s>"}, "</s>", ""},
};

static struct tokenizer *tokenizer_with(const char *const *tokens, bool special)
{
	struct buf b = {0};
	struct tokenizer *t = NULL;
	struct fail fail = {0};
	buf_add_z(&b, "{\"added_tokens\":[");
	for (int i = 0; i < MAX_TOKENS && tokens[i]; i++)
		buf_addf(&b, "%s{\"id\":%d,\"content\":\"%s\",\"special\":%s,\"lstrip\":false,"
			 "\"rstrip\":false,\"single_word\":false,\"normalized\":false}",
			 i ? "," : "", i + 1, tokens[i], special ? "true" : "false");
	buf_add_z(&b, "],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
		  "\"add_prefix_space\":false,\"use_regex\":true},\"post_processor\":null,"
		  "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
		  "\"vocab\":{\"a\":0},\"merges\":[]}}");
	if (tokenizer_hf_parse(buf_str(&b), "t.json", &t, &fail) != OK)
		printf("Bail out! %s\n", fail.text);
	buf_deinit(&b);
	return t;
}

static char *ends_of(const struct tokenizer *t, const char *eos)
{
	struct generation_defaults d = {.n_eos = 0};
	struct buf b = {0};
	model_ends_find(t, eos, &d);
	for (int i = 0; i < d.n_eos; i++) {
		buf_add_z(&b, i ? " " : "");
		buf_add_str(&b, tokenizer_bytes(t, d.eos_ids[i]));
	}
	buf_add_z(&b, "");
	return buf_take(&b);
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tokenizer *t = tokenizer_with(rows[i].tokens, true);
		char *got = ends_of(t, rows[i].eos);
		is_str(got ? got : "", rows[i].ends, "%s", rows[i].family);
		free(got);
		tokenizer_destroy(t);
		t = tokenizer_with(rows[i].tokens, false);
		got = ends_of(t, "");
		is_str(got ? got : "", "", "%s: words that are not special end nothing",
		       rows[i].family);
		free(got);
		tokenizer_destroy(t);
	}
	struct generation_defaults d = {.n_eos = 0};
	for (int32_t id = -3; id < 100; id++)
		model_ends_add(&d, id / 2);
	ok(d.n_eos <= MODEL_MAX_EOS && d.eos_ids[0] == 0 && d.eos_ids[1] == 1,
	   "each once, and none that is no id");
	return tap_done();
}
