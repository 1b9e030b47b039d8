/* SPDX-License-Identifier: Apache-2.0
 *
 * A fine-tune often leaves the end of its base model in the settings, and ends its turns with
 * another token. An answer that never ends is worse than one end too many, so all sources
 * count together.
 */
#include "model/model_ends.h"

#include "base/alloc.h"

/* The spellings that llama.cpp takes for ends, but those of tokens around code to fill in. */
static const char *const spelled[] = {
	"<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|end|>", "<|return|>",
	"<|call|>", "<|calls|>", "<|flush|>", "<end_of_turn>", "<turn|>", "<|tool_response>",
	"<|endoftext|>", "<|end_of_text|>", "<|end_of_sentence|>", "<｜end▁of▁sentence｜>",
	"<end_of_utterance>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<eos>", "</s>",
};

void model_ends_add(struct generation_defaults *d, int32_t id)
{
	for (int i = 0; i < d->n_eos; i++)
		if (d->eos_ids[i] == id)
			return;
	if (id >= 0 && d->n_eos < MODEL_MAX_EOS)
		d->eos_ids[d->n_eos++] = id;
}

static int32_t special(const struct tokenizer *t, const char *text)
{
	int32_t id = tokenizer_find(t, str_of(text));
	return id >= 0 && tokenizer_is_special(t, id) ? id : -1;
}

/* False for a token that does not end a turn beside others of the same vocabulary. In harmony
 * and in Solar's format <|end|> ends one of several messages of a turn, and in Muse Glimmer's
 * <|eom|>. Gemma 4's </s> is text. */
static bool ends_turn(const struct tokenizer *t, const char *text)
{
	if (strcmp(text, "<|end|>") == 0) {
		bool has_call = special(t, "<|call|>") >= 0;
		bool has_calls = has_call || special(t, "<|calls|>") >= 0;
		return !(has_call && special(t, "<|return|>") >= 0) &&
		       !(has_calls && special(t, "<|flush|>") >= 0);
	}
	if (strcmp(text, "<|eom|>") == 0)
		return special(t, "<|start|>") < 0 || special(t, "<|message|>") < 0;
	return strcmp(text, "</s>") != 0 || special(t, "<|tool_response>") < 0;
}

void model_ends_find(const struct tokenizer *t, const char *eos_text,
		     struct generation_defaults *d)
{
	if (*eos_text)
		model_ends_add(d, tokenizer_find(t, str_of(eos_text)));
	for (size_t i = 0; i < ARRAY_LEN(spelled); i++)
		if (ends_turn(t, spelled[i]))
			model_ends_add(d, special(t, spelled[i]));
}
