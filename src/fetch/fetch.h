/* SPDX-License-Identifier: Apache-2.0
 *
 * Gets files of images, audio and video that clients name by an address: by HTTP from the hosts
 * that `image_urls` lists, and from the folder `image_dir`. fetch_get waits for the network, so
 * it is not for the io thread. Thread: any, once created.
 */
#pragma once
#include "base/buf.h"

struct fetch;

enum fetch_kind { FETCH_IMAGE, FETCH_AUDIO, FETCH_VIDEO, FETCH_KINDS };
/* "image", "audio" or "video": as media types begin, and as texts call it. */
const char *fetch_kind_name(enum fetch_kind kind);

struct fetch_opts {
	/* The entries of image_urls: beginnings of addresses ("https://host/folder/"),
	 * "https://" for any host, and private IP addresses that hosts may have
	 * ("192.168.1.5"). */
	const char *const *from;
	int n_from;
	const char *dir;    /* folder for file: addresses; NULL or "": none */
	int64_t timeout_us; /* for all files of a request together */
	int64_t max_bytes[FETCH_KINDS]; /* of one file */
};

/* E_CONFIG: an entry of `from` is none of these three, or dir is no folder. */
enum status fetch_create(const struct fetch_opts *o, struct fetch **out,
			 struct fail *fail) MUST_USE;
void fetch_destroy(struct fetch *f); /* NULL is fine */

/* Whether the settings allow this address. */
bool fetch_allows(const struct fetch *f, struct str url);

struct fetch_ask {
	struct str url;
	/* deadline: fetch_until, called at the request's first file */
	int64_t until_us;
	const _Atomic bool *is_gone; /* true: the client has gone; NULL: it stays */
	enum fetch_kind kind;
};
int64_t fetch_until(const struct fetch *f);
/* Appends the file to *out. E_INVAL: the text says why not, and continues the words "the
 * image", "the audio" or "the video". E_CANCELLED: *is_gone was true. */
enum status fetch_get(const struct fetch *f, const struct fetch_ask *ask, struct buf *out,
		      struct fail *fail) MUST_USE;
