/* SPDX-License-Identifier: Apache-2.0
 *
 * The images of one chat: noted while its messages are read, looked at when the prompt's
 * tokens are there. Thread: one at a time.
 */
#pragma once
#include "api/api_private.h"
#include "json/json_read.h"

/* In the order of the messages. The body must outlive it. */
struct images {
	const struct api *api;
	struct arena *arena; /* holds the list */
	struct images_entry {
		struct str url;
		struct fail place; /* its param names the image */
		struct images_entry *next;
	} *first, **last;
	int n;
};

/* No image so far. */
void images_init(struct images *im, const struct api *a, struct arena *arena);
/* Notes the image of a part of a message: `image_url`, an object with a `url` or that
 * itself. Data URLs in base64 are taken, and addresses that api->fetch allows. E_INVAL, and
 * E_LIMIT for more than max_images, at the part's place. */
enum status images_add(struct images *im, const struct json_node *part,
		       struct fail *fail) MUST_USE;

/* Spells out, in a rendered prompt, what the template wrote for each image. What users wrote
 * stays as it is. */
void images_spell(const struct images *im, struct marked *io);

/* Puts as many tokens into the prompt as each image has, in place of the one that the
 * template wrote for it. E_INVAL where it did not write as many as there are images. Errors
 * of an image are at its place. */
struct images_use {
	uint64_t owner;          /* as struct lru_key has it */
	struct request *request; /* gets the images, with im's arena; NULL: they are counted */
	const _Atomic bool *is_gone; /* as struct fetch_ask has it */
	int64_t until_us;        /* set by images_expand */
};
enum status images_expand(const struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail) MUST_USE;
