/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file of a kvdisk holds which page or state. Pages are named by a hash of the key and
 * all tokens up to their end. A hash only finds a file: the reader compares the tokens.
 * Thread: the caller's lock.
 */
#pragma once
#include "base/buf.h"

struct kvindex_file;

/* A page, or the state at a page's end. */
struct kvindex_link {
	uint64_t hash;
	struct kvindex_file *file;
	struct kvindex_link *next; /* in its bucket */
	uint32_t i;                /* index among the file's pages, or among its states */
};

struct kvindex_file {
	char name[32];
	int64_t bytes, used_s;
	int32_t first_tok, n_tok, state_tok; /* as in struct evict_item */
	bool is_pending; /* not written yet */
	bool is_seen;    /* a mark: the scan under way has found it, or another file continues it */
	uint64_t before; /* hash of the page before its first; 0: it begins a prompt */
	struct kvindex_link *links; /* pages, then states */
	uint32_t n_links;
};

struct kvindex {
	struct kvindex_link **buckets;
	uint32_t n_buckets;
	struct kvindex_file **files;
	int n_files, cap_files;
};

void kvindex_init(struct kvindex *x);
void kvindex_deinit(struct kvindex *x);
/* Hashes of: the empty prompt of a key; a page after another; the state at a page's end. */
uint64_t kvindex_root(struct str key);
uint64_t kvindex_page(uint64_t before, const int32_t *tokens, int page_size);
uint64_t kvindex_state(uint64_t page);
/* Takes over *f, made by xcalloc, and its links, whose hashes are set. */
void kvindex_add(struct kvindex *x, struct kvindex_file *f);
void kvindex_remove(struct kvindex *x, struct kvindex_file *f); /* and frees it */
/* written: only in files that can be read already. NULL: there is none. */
const struct kvindex_link *kvindex_find(const struct kvindex *x, uint64_t hash, bool written);
struct kvindex_file *kvindex_named(const struct kvindex *x, const char *name);
/* The written file to give up first, or NULL. */
struct kvindex_file *kvindex_least(const struct kvindex *x, int64_t now_s);
