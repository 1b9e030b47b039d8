/* SPDX-License-Identifier: Apache-2.0
 *
 * The images of one chat. They are listed while its messages are read, and computed when
 * the prompt's tokens are known. Thread: one at a time.
 */
#pragma once
#include "chat/chat_model.h"
#include "sched/request.h"
#include "json/json_read.h"

/* A list in the order of the messages. The body must outlive the list. */
struct images {
	const struct chat_model *m;
	struct arena *arena; /* holds the list */
	struct images_entry {
		struct str url;
		struct fail place; /* param names the image; for faults in it */
		struct images_entry *next;
	} *first, **last;
	int n;
};

/* Makes an empty list. */
void images_init(struct images *im, const struct chat_model *m, struct arena *arena);
/* Lists the image of a message's part: `image_url`, a string or an object with a `url`.
 * Data URLs in base64 are taken, and addresses that m->fetch allows. E_INVAL, and E_LIMIT
 * for more than max_images, at the part's place. */
enum status images_add(struct images *im, const struct json_node *part,
		       struct fail *fail) MUST_USE;

/* In a rendered prompt, replaces what the template wrote for each image by the model's own
 * spelling. Users' texts stay as they are. */
void images_spell(const struct images *im, struct marked *io);

/* Replaces the one token that the template wrote for each image by all the image's tokens.
 * E_INVAL where the template wrote fewer or more than the chat has images. An image's
 * errors are reported at its place. */
struct images_use {
	uint64_t owner;          /* as in struct lru_key */
	/* receives the images, held with im's arena; NULL: only the tokens are wanted */
	struct request *request;
	const _Atomic bool *is_gone; /* as in struct fetch_ask */
	int64_t until_us;        /* deadline of fetching; images_expand sets it */
};
enum status images_expand(const struct images *im, const struct images_use *use,
			  struct ids *ids, struct fail *fail) MUST_USE;
