/* SPDX-License-Identifier: Apache-2.0
 *
 * The images, sounds and videos of one chat. They are listed while its messages are read, and
 * computed when the prompt's tokens are known. Thread: one at a time.
 */
#pragma once
#include "chat/chat_model.h"
#include "sched/request.h"
#include "json/json_read.h"

enum images_kind { IMAGES_PICTURE, IMAGES_SOUND, IMAGES_VIDEO, IMAGES_KINDS };

/* The audio of a form. */
struct images_form {
	struct str file; /* p NULL: the body is no form */
	/* NULL: the file is read when the prompt's tokens are known. Else samples [from, from + n)
	 * of it are heard in place of all. */
	const struct audio *audio;
	int64_t from, n;
};

/* A list in the order of the messages. The body must outlive the list. A video has an entry for
 * each view of neighbouring frames (vision_frames), and for each part of its sound between and
 * behind them. */
struct images {
	const struct chat_model *m;
	struct arena *arena; /* holds the list */
	struct images_entry {
		enum images_kind kind;
		/* What `source` is: an address or data URL, digits of base64, or the file. */
		enum { IMAGES_URL, IMAGES_BASE64, IMAGES_FILE } form;
		struct str source;
		struct fail place; /* param names the image, sound or frame; for faults in it */
		/* Whose frames from `frame` on these are, or of whose sound a part; or NULL. */
		struct videos_clip *video;
		int frame;
		/* While they are computed: what the tower made, and what keeps its rows. */
		struct engine_image image;
		struct tower_view *view;
		struct audio audio; /* of a sound, until the tower has heard it */
		struct sound_file file; /* of a sound that is all of a file: has_file */
		bool has_file;
		int64_t us;         /* of a sound, and of all of a video's sound: its length */
		struct images_entry *next;
	} *first, **last;
	int n, n_of[IMAGES_KINDS]; /* in the list: all, and of each kind */
	int n_sent;     /* as max_images counts: a video once */
	int64_t until_us; /* deadline of fetching, from the first fetch on; 0: none was */
	/* For files of video that do not say it themselves; 0: as the model has it. */
	double video_fps;
	int32_t video_frames;
	double media_fps;
	int32_t media_frames; /* at most; without media_fps so many */
	bool hears_videos; /* files are heard, too */
	struct images_form form; /* what a part of audio without data stands for */
};

/* Makes an empty list. */
void images_init(struct images *im, const struct chat_model *m, struct arena *arena);
/* Makes a list of the same entries, which are no videos. Nothing of them is computed yet. */
void images_repeat(const struct images *from, struct images *out);
/* For images.c and sounds.c. Is this an address that may be fetched, or a data URL? `at` is its
 * place. E_INVAL. */
enum status images_check_url(const struct images *im, const struct json_node *at,
			     enum images_kind kind, struct str url, struct fail *fail) MUST_USE;
/* Appends an entry without a source, with the place of `from`. E_LIMIT for more than max_images,
 * at the place of `part`. */
enum status images_append(struct images *im, const struct json_node *part,
			  const struct json_node *from, enum images_kind kind,
			  struct images_entry **out, struct fail *fail) MUST_USE;
/* Adds a further entry of the same video and place behind this one. */
struct images_entry *images_add_behind(struct images *im, struct images_entry *e,
				       enum images_kind kind);
/* In a rendered prompt, replaces each `shown` that the template wrote by what `write` appends.
 * Users' texts stay as they are. */
void images_respell(struct marked *io, struct str shown,
		    void (*write)(struct marked *out, void *ctx), void *ctx);

/* Lists the image or sound of a message's part that is at `key`: a string or an object with a
 * `url`. Data URLs in base64 are taken, and addresses that m->fetch allows. E_INVAL, and E_LIMIT
 * for more than max_images, at the part's place. */
enum status images_add_url(struct images *im, const struct json_node *part, const char *key,
			   enum images_kind kind, struct fail *fail) MUST_USE;

/* The file of an entry that is no IMAGES_FILE, fetched where it is an address. E_INVAL,
 * E_CANCELLED; without a place. */
struct images_use;
enum status images_file(const struct images *im, const struct images_entry *e,
			const struct images_use *use, struct buf *out,
			struct fail *fail) MUST_USE;

/* Reports a fault that is in an entry. Returns its status: a file that is not supported is the
 * client's mistake. */
enum status images_blame(const struct images_entry *e, const struct fail *why,
			 struct fail *fail);

/* Length of all sounds together. Call it after images_expand. */
int64_t images_audio_us(const struct images *im);

/* When the messages are read: gets and counts files of video. It waits for the network and for
 * decoders. Errors are at their place; then, too, images_close lets go of the files. */
enum status images_open(struct images *im, const _Atomic bool *is_gone,
			struct fail *fail) MUST_USE;
/* Ends what images_open began, if images_expand has not. Of an empty or zeroed list: nothing. */
void images_close(struct images *im);

/* In a rendered prompt, replaces what the template wrote for each image and each video by the
 * model's own spelling. Behind images_open. */
void images_spell(const struct images *im, struct marked *io);

/* Replaces the one token that stands for each entry by all of its tokens. E_INVAL where the
 * template wrote fewer or more than the chat has. Errors of an entry are reported at its place. */
struct images_use {
	uint64_t owner;          /* as in struct lru_key */
	/* receives the images behind those that it has, held with im's arena; NULL: only the
	 * tokens are wanted */
	struct request *request;
	const _Atomic bool *is_gone; /* as in struct fetch_ask */
	int64_t until_us;        /* deadline of fetching; images_expand sets it */
	/* A prompt with sounds or videos that would have so many tokens or more is only counted.
	 * Nothing is computed for it, and the caller refuses it. 0: no bound. */
	int32_t max_tokens;
};
enum status images_expand(struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail) MUST_USE;
