/* SPDX-License-Identifier: Apache-2.0
 *
 * A chat's body as a prompt. Thread: any.
 */
#pragma once
#include "base/marked.h"
#include "chat/chat_replay.h"
#include "chat/images.h"
#include "chat/tools.h"
#include "json/json_read.h"

/* One chat while it is rendered. The caller sets m, parse, arena, in.arena and images. */
struct chat {
	const struct chat_model *m;
	struct outparse_opts *parse; /* complete but for the stop strings */
	struct arena *arena;         /* holds what `parse` points to */
	struct chat_template_input in;
	struct chat_replay replay;
	struct images *images;
	struct images_form form; /* as images.form */
	const _Atomic bool *is_gone; /* as in struct fetch_ask */
	struct tools tools;
	struct str mark; /* ends the last message's text; p NULL: a new turn begins */
	/* The template failed once: what a message or a tool may leave out is filled in. */
	bool fills;
};

/* The tags of Gemma 4's channels of reasoning are special tokens. */
#define CHAT_CHANNEL_END "<channel|>"

/* Reads messages, tools and template variables. Appends the prompt to *out, without computing
 * its images; files of video are opened, and the caller calls images_close. Sets how the answer
 * behind it is split. E_INVAL where the model has no template;
 * other errors name their place in the body. */
enum status chat_render(const struct json_node *body, struct chat *chat,
			struct marked *out, struct fail *fail) MUST_USE;
