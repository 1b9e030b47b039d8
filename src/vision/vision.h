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
enum status vision_create(const struct vision_opts *o, struct vision **out,
			  struct fail *fail) MUST_USE; /* vision_open and vision_load_tower in
						        * one */
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
