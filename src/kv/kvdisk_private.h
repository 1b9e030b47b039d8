/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by kvdisk.c (what the engine asks) and kvdisk_io.c (the threads).
 */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "kv/kvdisk.h"
#include "kv/kvfile.h"
#include "kv/kvindex.h"

#define KVDISK_SUFFIX ".halodkv"

struct kvdisk_path {
	char *key;
	size_t key_n;
	int32_t *tokens; /* (n_pages, page_size) */
	uint64_t *names; /* (n_pages) */
	int n_pages;
	atomic_int n_users; /* who found it, and the reads */
};

struct kvdisk_read {
	struct kvdisk_path *path;
	int n_tok, first, n, state_page;
	char *pages, *state; /* staging buffers */
	bool is_pinned, is_state_pinned;
	int n_good;
	bool has_state, is_done, is_dropped;
	struct kvdisk_read *next;
};

/* One reads while another compares sums. */
enum { KVDISK_READERS = 2 };

struct kvdisk {
	struct kvdisk_opts o;
	char *dir, *key;
	int fd; /* of the folder */
	pthread_t readers[KVDISK_READERS], writer;
	int n_readers;
	bool has_writer;
	struct staging read_staging, state_staging, run_staging;

	/* everything below: under the lock */
	pthread_mutex_t lock;
	pthread_cond_t wake_reader, wake_writer, idle;
	struct kvindex index;
	struct kvdisk_read *reads, **last_read;
	struct kvdisk_run *runs, **last_run;
	size_t queued; /* bytes of runs, the one that is being written included */
	double told_queued; /* as metrics have it */
	bool was_full; /* a run was refused, and nobody has been told of room since */
	bool stops;
	const struct kvdisk_read *slow; /* nobody waits for it any more; NULL: there is none */
	bool has_told, has_told_unread; /* in the log: a failure to write; to read */
	bool is_unread; /* a file could not be read: the next scan looks at it again */
	int64_t changed_ns; /* the folder's time of change, as of the last scan or write */
};

void kvdisk_read_free(struct kvdisk *d, struct kvdisk_read *r);
void *kvdisk_io_reader(void *arg);
void *kvdisk_io_writer(void *arg);
/* Learn what has come into the folder and what has gone. Takes the lock, in between. */
void kvdisk_io_scan(struct kvdisk *d);
/* Lock held. Updates the metrics of the folder. */
void kvdisk_io_publish(struct kvdisk *d);
/* The index entry of a run or of a parsed file, found by this key. */
struct kvindex_file *kvdisk_io_entry(const struct kvfile *f, struct str key, const char *name);
