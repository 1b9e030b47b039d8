/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends an answer: the model's ends, and the special token that its chat template writes
 * behind an assistant's last message.
 */
#include "base/alloc.h"
#include "tests/unit/api/fixture.h"

#define TURN "<|im_start|>{{ m.role }}\n{{ m.content }}"

static bool ends(const struct api *a, const char *token, const char *body)
{
	struct api_call *c = fixture_call(a, &dialect_chat, body);
	const struct request *r = api_call_request(c);
	int32_t id = tokenizer_find(fixture_model()->tokenizer, str_of(token));
	bool does = false;
	for (int i = 0; i < r->n_stop_ids; i++)
		does |= r->stop_ids[i] == id;
	fixture_drop(c);
	return does;
}

#define BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"

int main(void)
{
	static const struct {
		const char *template, *fact;
		bool ends; /* <|im_start|> does, which no other source calls an end */
	} rows[] = {
		{"{% for m in messages %}" TURN "<|im_end|>\n{% endfor %}", "a known end", false},
		{"{% for m in messages %}{{ m.content }}<|im_start|>{% endfor %}",
		 "a token behind the answer", true},
		{"{% for m in messages %}{{ m.content + ' \n<|im_start|>\n' }}{% endfor %}",
		 "behind blanks", true},
		{"{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}{% if "
		 "loop.last %}<|im_start|>{% else %}<|im_end|>{% endif %}{% endif %}{% endfor %}",
		 "of the last answer", true},
		{"{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}",
		 "nothing behind it", false},
		{"{% for m in messages %}{{ m.content }}. <|im_start|>{% endfor %}",
		 "words come first", false},
		{"{% for m in messages %}{{ m.content }}<tool_call>{% endfor %}",
		 "a token that is not special", false},
		{"{% for m in messages %}{{ m.content }}{% endfor %}"
		 "{% if add_generation_prompt %}<|im_start|>{% endif %}", "the next turn", false},
		{"{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('no') }}"
		 "{% endif %}{{ m.content }}<|im_start|>{% endfor %}", "it raises", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct api *a = fixture_api_with(&(struct api_opts){
			.model = fixture_model(), .model_name = "m", .n_ctx = 512, .n_slots = 1,
			.version = "1", .system_fingerprint = "f", .clock = &clock_monotonic,
			.chat_template = rows[i].template});
		ok(ends(a, "<|im_start|>", BODY) == rows[i].ends, "%s", rows[i].fact);
		ok(ends(a, "<|im_end|>", BODY) && ends(a, "<|endoftext|>", BODY),
		   "and the model's own ends stay");
		api_destroy(a);
	}
	return tap_done();
}
