/* SPDX-License-Identifier: Apache-2.0
 *
 * The videos of a chat, for chat/images.h, which lists them and gives them their places. A video
 * comes as its frames, which are images, or as a file, of which frames are chosen. Thread: one at
 * a time.
 */
#pragma once
#include "chat/images.h"

struct videos_clip {
	const struct str *frames; /* addresses or data URLs, or the digits of base64 of JPEGs */
	int n;          /* of a file: 0 until videos_open */
	bool is_list;   /* of URLs: a fault names the frame by its place in the body */
	double fps;     /* frames in a second of the video */
	double rate;    /* the same, of those that are shown */
	struct vision_clip clip; /* once it was measured */
	struct buf first;        /* the first frame's file, from videos_measure to videos_look */
	/* Of a file: */
	struct str url;
	double want_fps;    /* as in struct vision_choice, and so is want_n */
	int32_t want_n;
	const int64_t *at;  /* (n) numbers of the chosen frames */
	int32_t most_n;     /* frames at most; 0: as the model has it */
	struct video *file; /* from videos_open to videos_close */
	struct audio sound; /* from videos_open until it is heard */
	int32_t n_heard;    /* tokens of all of it; 0: it has none, or is not heard */
	struct tower_view *heard; /* from then to videos_close */
};

/* Is a part of this type video? */
bool videos_is_kind(struct str kind);
/* Lists the video of a message's part. `video` is a list of frames, each a data URL or an address
 * that m->fetch allows. A string in its place, or `video_url`, a string or an object with a `url`,
 * is a data URL of video/jpeg with frames between commas, or a file: a data URL or an address.
 * `fps` says how many frames make a second, or how many are chosen of one; `num_frames` how many
 * are chosen of a file. E_INVAL at the part's place; E_LIMIT. */
enum status videos_add(struct images *im, const struct json_node *part,
		       struct fail *fail) MUST_USE;

/* Reads a body's `mm_processor_kwargs` and `media_io_kwargs`: `fps` and `num_frames` of videos that
 * do not say it themselves, and whether files are heard. E_INVAL at their place. */
enum status videos_read_kwargs(struct images *im, const struct json_node *body,
			       struct fail *fail) MUST_USE;
/* Gets and counts the files of all videos, chooses their frames, and reads their sound where that
 * is wanted. An entry then stands for each view, and for each part of the sound between views.
 * E_INVAL, E_LIMIT, E_CANCELLED and E_NOMEM at their place. */
enum status videos_open(struct images *im, const struct images_use *use,
			struct fail *fail) MUST_USE;
/* Lets go of a video's file and frames. Once more is fine. */
void videos_close(struct videos_clip *v);

/* In a rendered prompt, replaces what the template wrote for each video: by a token for each of its
 * entries, and by their times where the model reads them in words. */
void videos_spell(const struct images *im, struct marked *io);

/* Counts the tokens of an entry, by the size of its video's first frame: e->image.n. E_INVAL,
 * E_LIMIT, E_UNSUPPORTED, E_CANCELLED, E_NOMEM. */
enum status videos_measure(const struct images *im, struct images_entry *e,
			   const struct images_use *use, struct fail *fail) MUST_USE;
/* After videos_measure: runs the tower. Sets e->image and e->view. Errors are those of
 * vision_video_look. */
enum status videos_look(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail) MUST_USE;
/* The same, of a part of its sound; behind videos_open. Errors are those of sound_hear. */
enum status videos_hear(const struct images *im, struct images_entry *e,
			const struct images_use *use, struct fail *fail) MUST_USE;
