/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/answer_rules.h"

#include "tests/tap.h"

static const char story[] =
	"Once upon a time there was a quiet girl named Rosa. Rosa lived in a small "
	"village. She had a best friend, a fox named Tiny. One morning the fox was lost, "
	"and Rosa looked for it in the woods.";

static void is_fault(const char *text, const char *want, const char *name)
{
	const char *fault = answer_story_fault(str_of(text));
	is_str(fault ? fault : "none", want, "%s", name);
}

static void words(void)
{
	ok(answer_has_word(str_of("The answer is Four."), "four"), "a word in other case");
	ok(answer_has_word(str_of("2+2=4"), "4"), "a digit behind a sign");
	ok(!answer_has_word(str_of("2+2=40"), "4"), "a number is not its first digit");
	ok(!answer_has_word(str_of("Fourteen"), "four"), "a word is not its beginning");
	ok(!answer_has_word(str_of("I want petit four s"), "fours"), "nor its parts");
	ok(!answer_has_word((struct str){NULL, 0}, "four"), "nothing has no word");
}

static void stories(void)
{
	struct buf b = {0};
	is_fault(story, "none", "a sound story");
	is_fault("Once upon a time.", "it has fewer than 20 words", "a short one");
	is_fault("", "it has fewer than 20 words", "none at all");
	for (int i = 0; i < 12; i++)
		buf_add_z(&b, "and the fox was in the wood ");
	buf_add_c(&b, '\0');
	is_fault(b.p, "it repeats itself", "a loop");
	is_fault("xq zlork wem tibl grosh prrn fleb quam nost drell vimp skorn oft blay "
		 "turmb gesh pflin wozz krem splud yorn", "it is not English",
		 "words of no language");
	buf_clear(&b);
	for (int i = 0; i < 30; i++)
		buf_add_z(&b, "\xD0\xB4\xD0\xB0 the ");
	buf_add_c(&b, '\0');
	is_fault(b.p, "it is not English", "letters of another script");
	buf_clear(&b);
	buf_addf(&b, "%s \xEF\xBF\xBD", story);
	buf_add_c(&b, '\0');
	is_fault(b.p, "it holds broken characters", "a replacement character");
	buf_clear(&b);
	buf_addf(&b, "%s \xC3", story);
	buf_add_c(&b, '\0');
	is_fault(b.p, "it holds broken characters", "half a character");
	buf_clear(&b);
	buf_addf(&b, "%s \xE2\x80\x9CYes\xE2\x80\x9D", story);
	buf_add_c(&b, '\0');
	is_fault(b.p, "none", "quotation marks are no other script");
	buf_deinit(&b);
}

int main(void)
{
	words();
	stories();
	return tap_done();
}
