/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's vision tower. It has a backend of its own, so that it runs beside the text model's
 * steps: on a GPU in a stream of its own. Images are processed one at a time, so that several
 * large ones do not need memory at once. Thread: any, once created; calls wait for each other.
 */
#pragma once
#include "backend/backend.h"
#include "engine/memory_plan.h"
#include "engine/tower_view.h"
#include "image/image.h"

struct vision;

struct vision_opts {
	struct model *model;         /* outlives the vision */
	const char *mmproj;          /* GGUF file with the tower; NULL or "": none, or the only one
				      * beside a model that is a GGUF file */
	struct backend_opts backend; /* where the tower runs; on the CPU if this backend's
				      * kernels do not support it */
	struct image_limits limits;
	int32_t max_tokens;          /* limit for one image: a larger one is made smaller */
	int32_t step_tokens;         /* tokens of one image that always fit into a step */
	size_t cache_bytes;          /* memory for results that are kept; 0: none is kept */
	struct memory_ledger *ledger; /* as in embed_opts; used until vision_load_tower returns */
};

/* Opens the tower's files and counts its memory, but takes none. *out NULL: the model has no
 * tower. E_UNSUPPORTED, E_MISSING and E_FORMAT name what cannot be read: the model can still be
 * served without images. E_CONFIG: the memory is too small. */
enum status vision_open(const struct vision_opts *o, struct vision **out,
			struct fail *fail) MUST_USE;
/* Takes the tower's memory. Call it once, before any image. If it fails, the ledger no longer
 * counts that memory, and only vision_destroy may be called. */
enum status vision_load_tower(struct vision *v, struct fail *fail) MUST_USE;
void vision_destroy(struct vision *v); /* NULL is fine; views may live on */

/* What the text model's engine must know about images (engine_opts.image_rules). Valid as long as
 * v. */
const struct engine_image_rules *vision_image_rules(const struct vision *v);
int32_t vision_token(const struct vision *v); /* the token that stands for an image */
/* Token i of the tokens that stand for image m in a prompt. */
int32_t vision_token_at(const struct vision *v, const struct engine_image *m, int32_t i);
/* *shown: what a chat template writes for an image; *spelled: the text that replaces it before
 * tokenizing. False: nothing is replaced. */
bool vision_spelling(const struct vision *v, struct str *shown, struct str *spelled);
const char *vision_device(const struct vision *v); /* for the log */
const char *vision_note(const struct vision *v); /* why the backend is the CPU and not that of
						  * opts; or "" */

/* owner: only calls with the same owner share a view (struct lru_key). */
struct vision_file {
	struct str bytes;
	uint64_t owner;
};

/* The view of an image's file; the caller unrefs it. Errors as of image_decode; E_INVAL if one
 * side is more than 200 times the other. */
enum status vision_look(struct vision *v, const struct vision_file *f,
			struct tower_view **out, struct fail *fail) MUST_USE;
/* Like vision_look, but does not run the tower, to count tokens only. rows may be NULL. */
enum status vision_measure(struct vision *v, const struct vision_file *f,
			   struct tower_view **out, struct fail *fail) MUST_USE;

/* How many neighbouring frames of a video make one view, as of an image. 0: the model takes no
 * video, or v is NULL. */
enum { VISION_MAX_FRAMES = 8 };
int vision_frames(const struct vision *v);
int32_t vision_video_token(const struct vision *v); /* the token that stands for such frames */
/* How many positions lie between frames that are a second apart. 0: their times stand in the
 * text. */
double vision_video_second(const struct vision *v);
/* What a chat template writes for a video. */
#define VISION_VIDEO_SHOWN VISION_VIDEO_OPEN VISION_VIDEO_PAD VISION_VIDEO_END
#define VISION_VIDEO_OPEN "<|vision_start|>"
#define VISION_VIDEO_PAD "<|video_pad|>"
#define VISION_VIDEO_END "<|vision_end|>"

/* What all frames of a video have in common. */
struct vision_clip {
	int32_t width, height;           /* as they came */
	int32_t seen_width, seen_height; /* as the tower sees them */
	int32_t n;                       /* tokens of a view */
};
/* Of a video of n frames, by its first frame's file. Errors as of vision_look. */
enum status vision_video_measure(struct vision *v, struct str first, int n,
				 struct vision_clip *out, struct fail *fail) MUST_USE;
/* The same, of frames of width x height pixels. */
enum status vision_video_measure_size(struct vision *v, int32_t width, int32_t height, int n,
				      struct vision_clip *out, struct fail *fail) MUST_USE;

/* Which frames of a file the model's processor would choose. */
enum { VISION_MAX_CHOSEN = 768 };
struct vision_choice {
	int64_t n_frames; /* of the file */
	double fps;       /* of them in a second; 0: not known */
	double want_fps;  /* frames a second; 0: as the model has it */
	int32_t want_n;   /* so many frames, and not by want_fps; 0: as many as that makes */
	/* Chosen: numbers of frames, ascending. One may come twice. */
	int32_t n;
	int64_t at[VISION_MAX_CHOSEN];
	/* When a frame is shown: at[i] / fps. Where positions say it, i / rate. */
	double rate;
};
/* Sets n, at and rate, and fps where it is not known. E_INVAL: it has fewer than are wanted. */
enum status vision_video_choose(const struct vision *v, struct vision_choice *c,
				struct fail *fail) MUST_USE;
/* Neighbouring frames: vision_frames() of them, or fewer at the video's end. */
struct vision_look_frames {
	const struct vision_clip *clip;
	const struct str *files;
	bool are_pixels; /* they are no files, but (height, width, 3) of the clip's size */
	int n;
	uint64_t owner;
	int at; /* set: the frame that the fault is in */
};
/* Their view, with rows; the caller unrefs it. E_INVAL for one of another size; other errors as of
 * vision_look. */
enum status vision_video_look(struct vision *v, struct vision_look_frames *f,
			      struct tower_view **out, struct fail *fail) MUST_USE;
