/* SPDX-License-Identifier: Apache-2.0
 *
 * The served model as a conversation sees it. Immutable, but for the caches, which have locks:
 * any thread may use it.
 */
#pragma once
#include <jansson.h>

#include "audio/audio.h"
#include "base/arena.h"
#include "chat/callstore.h"
#include "chat/chat_template.h"
#include "chat/grammarcache.h"
#include "fetch/fetch.h"
#include "model/model.h"
#include "output/toolparse.h"
#include "tokenizer/encodings.h"
#include "sound/sound.h"
#include "video/video.h"
#include "vision/vision.h"

struct chat_model {
	const struct model *model;
	struct vision *vision; /* NULL: messages hold no images */
	struct sound *sound;   /* NULL: messages hold no sound … */
	bool lacks_audio;      /* … because the libraries that read it are not there */
	int32_t max_images;    /* images, sounds and videos in a request at most */
	struct video_limits video; /* of one file */
	struct audio_limits audio; /* of one file, and of all audio of a request together */
	const struct fetch *fetch; /* NULL: no address is fetched */
	struct chat_template *template; /* NULL: the model has none */
	const char *template_text; /* the template's source; "" without a template */
	json_t *template_kwargs;   /* the server's template variables, an object; NULL: none */
	enum chat_reasoning reasoning;
	const struct tool_format *tool_format; /* of the model's tool calls; NULL: not known */
	struct toolgrammar_specials {
		struct str *p;
		size_t n;
	} specials; /* special tokens in the tags of tool_format */
	bool strict_tools; /* hold the arguments of every tool to its schema */
	struct grammarcache *grammars; /* compiled grammars */
	struct encodings *encodings;   /* prompts' texts with their tokens */
	struct callstore *calls;       /* the model's own words of its calls; not owned */
};

/* The settings that chat_model_init reads; its caller has set the other fields, calls too. */
struct chat_model_opts {
	const char *chat_template; /* replaces the model's own template; NULL: the model's */
	const char *chat_template_kwargs; /* a JSON object of variables; NULL or "": none */
	const char *tool_format; /* NULL or "auto": found from the template */
	struct arena *arena;     /* holds the strings, longer than m lives */
};

/* Compiles the template, chooses the format of calls, and makes the caches. E_CONFIG, E_FORMAT;
 * after an error, too, chat_model_deinit frees what was made. */
enum status chat_model_init(struct chat_model *m, const struct chat_model_opts *o,
			    struct fail *fail) MUST_USE;
void chat_model_deinit(struct chat_model *m);
