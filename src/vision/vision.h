/* SPDX-License-Identifier: Apache-2.0
 *
 * A model's vision tower. It has a backend of its own, so that it works beside the text's
 * steps: on a GPU in a stream of its own. One image is worked on at a time, so that many large
 * ones do not take memory together. Thread: any, once created; calls wait for each other.
 */
#pragma once
#include "backend/backend.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "image/image.h"

struct vision;

struct vision_opts {
	struct model *model;         /* outlives the vision */
	const char *mmproj;          /* GGUF file with the tower; NULL or "": none, or the only one
				      * beside a model that is a GGUF file */
	struct backend_opts backend; /* what its kernels do not support, the CPU computes */
	struct image_limits limits;
	int32_t max_tokens;          /* of one image: larger ones are made smaller */
	int32_t step_tokens;         /* that a step has for one image, whatever else it holds */
	size_t cache_bytes;          /* results that are kept; 0: none */
	struct memory_ledger *ledger; /* as embed_opts has it; until vision_load_tower returns */
};

/* Opens the tower's files and counts its memory, but takes none. *out NULL: the model has none.
 * E_UNSUPPORTED, E_MISSING and E_FORMAT name what cannot be read: the model can still be served
 * without images. E_CONFIG: it does not fit. */
enum status vision_open(const struct vision_opts *o, struct vision **out,
			struct fail *fail) MUST_USE;
/* Once, then images may be looked at: takes the tower's memory. Where it fails, that is not
 * counted any more, and only vision_destroy is left. */
enum status vision_load_tower(struct vision *v, struct fail *fail) MUST_USE;
enum status vision_create(const struct vision_opts *o, struct vision **out,
			  struct fail *fail) MUST_USE; /* both */
void vision_destroy(struct vision *v); /* NULL is fine; views may live on */

/* What the text part is to be told (engine_opts.sight). Valid as long as v. */
const struct engine_sight *vision_sight(const struct vision *v);
int32_t vision_token(const struct vision *v); /* the token that stands for an image */
/* Token i of those that an image has in a prompt. */
int32_t vision_token_at(const struct vision *v, const struct engine_image *m, int32_t i);
/* What a chat template writes for an image, and what that stands for before it becomes tokens.
 * False: it stands for itself. */
bool vision_spelling(const struct vision *v, struct str *shown, struct str *spelled);
const char *vision_device(const struct vision *v); /* for the log */
const char *vision_note(const struct vision *v); /* why it is not opts.backend; or "" */

/* What the model sees of an image, shared by those who hold it. image.at is 0. */
struct vision_view;
const struct engine_image *vision_view_image(const struct vision_view *w);
void vision_view_unref(struct vision_view *w); /* NULL is fine */

/* owner: whose views it may share, as struct lru_key has it. */
struct vision_file {
	struct str bytes;
	uint64_t owner;
};

/* The view of an image's file, for the caller to let go. Errors as image_decode's; E_INVAL
 * for one that is more than 200 times as wide as high, or the other way. */
enum status vision_look(struct vision *v, const struct vision_file *f,
			struct vision_view **out, struct fail *fail) MUST_USE;
/* The same without running the tower: rows may be NULL. To count tokens. */
enum status vision_measure(struct vision *v, const struct vision_file *f,
			   struct vision_view **out, struct fail *fail) MUST_USE;
