/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/chat_model.h"

#include "base/log.h"
#include "chat/chat_vars.h"
#include "chat/toolgrammar.h"
#include "chat/tools.h"
#include "model/tokenizer_tekken.h"
#include "sound/sound.h"

/* Bounds of the cache of compiled grammars and their masks: their number, their bytes. */
#define GRAMMARS 64
#define GRAMMAR_BYTES (64u << 20)
/* Bound of the cache of prompts' texts with their tokens. An entry takes about twice its
 * text's bytes. */
#define ENCODING_BYTES ((size_t)32 << 20)

/* A template without tools names no format of calls. The model is then told to write the calls
 * of Hermes: see chat_plain.h. */
static void choose_plain(struct chat_model *m, const char *name)
{
	bool is_auto = !name || strcmp(name, "auto") == 0;
	if (is_auto && !m->tool_format && m->template &&
	    !chat_template_ways(m->template)->shows_tools)
		m->tool_format = toolformat_find(STR("hermes"));
}

/* The template in the model's files, or what replaces it in files of Voxtral. */
static const char *own_template(const struct chat_model *m)
{
	const struct model *of = m->model;
	const char *version, *heard = NULL;
	if (m->sound && sound_token(m->sound) == tokenizer_find(of->tokenizer, STR("[AUDIO]")))
		heard = tokenizer_tekken_hearing(of->chat_template, &version);
	if (heard)
		log_info("chat template: the file's shows no audio, so it is mistral-common's "
			 "for %s; chat_template names another one", version);
	return heard ? heard : of->chat_template;
}

enum status chat_model_init(struct chat_model *m, const struct chat_model_opts *o,
			    struct fail *fail)
{
	const struct model *of = m->model;
	const char *template = o->chat_template ? o->chat_template : own_template(m);
	m->grammars = grammarcache_create(GRAMMARS, GRAMMAR_BYTES);
	m->encodings = encodings_create(ENCODING_BYTES);
	m->template_text = arena_strdup(o->arena, template ? template : "");
	enum status st = chat_vars_parse(o->chat_template_kwargs, &m->template_kwargs, fail);
	if (st == OK)
		st = tools_choose_format(o->tool_format, m->template_text, &m->tool_format,
					 fail);
	/* A model without a template still completes raw prompts. */
	if (st == OK && m->template_text[0]) {
		const struct chat_template_opts t = {
			.source = str_of(m->template_text),
			.bos_text = of->bos_text,
			.eos_text = of->eos_text,
		};
		st = chat_template_create(&t, &m->template, fail);
	}
	if (st == OK)
		choose_plain(m, o->tool_format);
	toolgrammar_find_specials(of->tokenizer, m->tool_format, o->arena, &m->specials);
	return st;
}

void chat_model_deinit(struct chat_model *m)
{
	chat_template_destroy(m->template);
	json_decref(m->template_kwargs);
	grammarcache_destroy(m->grammars);
	encodings_destroy(m->encodings);
}
