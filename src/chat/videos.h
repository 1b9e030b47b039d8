/* SPDX-License-Identifier: Apache-2.0
 *
 * The videos of a chat, for chat/images.h, which lists them and gives them their places. A video
 * comes as its frames, which are images. Thread: one at a time.
 */
#pragma once
#include "chat/images.h"

struct videos_clip {
	const struct str *frames; /* addresses or data URLs, or the digits of base64 of JPEGs */
	int n;
	bool is_list;   /* of URLs: a fault names the frame by its place in the body */
	double fps;     /* frames in a second of the video */
	struct vision_clip clip; /* once it was measured */
	struct buf first;        /* the first frame's file, from videos_measure to videos_look */
};

/* Is a part of this type video? */
bool videos_is_kind(struct str kind);
/* Lists the video of a message's part. `video` is a list of frames, each a data URL or an address
 * that m->fetch allows. `video_url` is a string, or an object with a `url`: a data URL of
 * video/jpeg with frames between commas. `fps` says how many frames make a second. E_INVAL at the
 * part's place; E_LIMIT. */
enum status videos_add(struct images *im, const struct json_node *part,
		       struct fail *fail) MUST_USE;

/* In a rendered prompt, replaces what the template wrote for each video: by a token for each view
 * of its frames, and by their times where the model reads them in words. */
void videos_spell(const struct images *im, struct marked *io);

/* Counts the tokens of an entry, by the size of its video's first frame: e->image.n. E_INVAL,
 * E_LIMIT, E_UNSUPPORTED, E_CANCELLED, E_NOMEM. */
enum status videos_measure(const struct images *im, struct images_entry *e,
			   const struct images_use *use, struct fail *fail) MUST_USE;
/* After videos_measure: runs the tower. Sets e->image and e->view. Errors are those of
 * vision_video_look. */
enum status videos_look(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail) MUST_USE;
