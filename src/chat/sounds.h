/* SPDX-License-Identifier: Apache-2.0
 *
 * The sounds of a chat, for chat/images.h, which lists them and gives them their places. Thread:
 * one at a time.
 */
#pragma once
#include "chat/images.h"

/* Is a part of this type audio? */
bool sounds_is_kind(struct str kind);
/* Lists the audio of a message's part: `input_audio` with `data` in base64 and its `format`, or
 * `audio_url`, a string or an object with a `url`, which is a data URL or an address that
 * m->fetch allows. E_INVAL at the part's place. */
enum status sounds_add(struct images *im, const struct json_node *part,
		       struct fail *fail) MUST_USE;

/* The longest that a further sound may be: what the others have left of the request's time, in
 * microseconds. 0: no limit. */
int64_t sounds_left(const struct images *im);
/* Fills a clip up as the tower needs it, and counts its tokens. E_NOMEM. */
enum status sounds_count(const struct images *im, struct audio *a, int32_t *out_n,
			 struct fail *fail) MUST_USE;
/* Then runs the tower, and frees the samples. The caller unrefs *out. Errors as of sound_hear. */
enum status sounds_run(const struct images *im, struct audio *a, const struct images_use *use,
		       struct tower_view **out, struct fail *fail) MUST_USE;

/* Reads the file of an entry, and counts its tokens: e->audio, e->image.n. E_INVAL, E_LIMIT,
 * E_UNSUPPORTED, E_CANCELLED, E_NOMEM. */
enum status sounds_measure(const struct images *im, struct images_entry *e,
			   const struct images_use *use, struct fail *fail) MUST_USE;
/* Behind it: runs the tower. Sets e->image and e->view, and frees the samples. Errors as of
 * sound_hear. */
enum status sounds_hear(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail) MUST_USE;
