/* SPDX-License-Identifier: Apache-2.0
 *
 * Which model a body asks for, and whether as a stream, before anything else of it is read: that
 * needs the model. Nothing is checked here. Thread: any.
 */
#pragma once
#include "base/buf.h"

/* The model that many clients of /v1/audio name, and do not let their users change. There it means
 * the model of a form without a name, unless a model has this name. */
#define PEEK_ANY_HEARER "whisper-1"

struct peek {
	struct buf model; /* "": the body names none */
	bool is_stream;
};

/* Reads the members of the outermost object alone, of which the last of a name counts. It parses no
 * value but the name, whatever the body has. takes_name: Ollama's older `name` counts. */
void peek_body(struct str body, bool takes_name, struct peek *out);
/* The same of a form with a file, which is sought for its boundary. */
void peek_form(struct str type, struct str body, struct peek *out);
/* The text of a member of the outermost object, as it stands there. quoted: its name, with its
 * quotes; a name with escapes is not found. False: there is none. */
bool peek_member(struct str body, const char *quoted, struct str *out) MUST_USE;
void peek_deinit(struct peek *p);
