/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages and states of prompts in a folder, for after they have left the memory. Threads of
 * its own read and write. A call never waits for the disk, except create, await and destroy.
 * Thread: engine.
 *
 * Nothing here is fatal. What cannot be written is not kept, and what cannot be read, or is
 * damaged, foreign, or another user's, is computed again.
 */
#pragma once
#include "base/buf.h"
#include "kv/staging.h"

struct kvdisk;

/* Three: one is copied to the device while two are read. */
enum { KVDISK_READ_BUFFERS = 3, KVDISK_RUN_BUFFERS = 2 };
enum { KVDISK_QUEUE_BYTES = 256 << 20 }; /* of runs that wait for the writer, at most */

/* A prompt within a space (kv/spaces.h). */
struct kvdisk_prompt {
	struct str space;
	const int32_t *tokens; /* whole pages count */
	int n;
};

struct kvdisk_opts {
	const char *dir;
	int64_t limit;      /* bytes of all files */
	struct str key;     /* all that the bits of a page depend on but its tokens */
	int page_size;      /* tokens */
	size_t page_bytes, state_bytes;
	/* Buffers are kept for KVDISK_READ_BUFFERS reads of so many bytes of pages, for a state,
	 * and for KVDISK_RUN_BUFFERS runs of so many bytes. A read that is larger, or finds none
	 * free, has memory of its own. 0: no buffers. */
	size_t read_bytes, run_bytes;
	struct staging_source pinned; /* for the buffers */
	void (*on_read)(void *ctx); /* any thread: a read is done, or there is room again */
	void *ctx;
	/* NULL, or called by kvdisk_create for each prompt that a file of this key begins. */
	void (*on_prompt)(void *ctx, const struct kvdisk_prompt *p);
	void *prompt_ctx;
};

/* Makes the folder where it is missing. *out_fd: a descriptor of it, the caller's. E_CONFIG: the
 * folder is not ours alone to write, or cannot be opened. */
enum status kvdisk_open_folder(const char *dir, int *out_fd, struct fail *fail) MUST_USE;
/* The same, and learns what is in it. */
enum status kvdisk_create(const struct kvdisk_opts *o, struct kvdisk **out,
			  struct fail *fail) MUST_USE;
/* Writes what is queued, for at most wait_us. NULL is fine. */
void kvdisk_destroy(struct kvdisk *d, int64_t wait_us);
/* Until something that was queued has been written, or nothing is queued, for at most wait_us.
 * False: the time is over, or nobody writes. For what has to be kept before an end. */
bool kvdisk_await(struct kvdisk *d, int64_t wait_us);
void kvdisk_set_on_read(struct kvdisk *d, void (*on_read)(void *ctx), void *ctx);

/* What is there of pages [first, n / page_size). */
struct kvdisk_known {
	int n_pages;      /* so many from `first` on, without a gap */
	int state_page;   /* pages before the last state among them; 0: none */
};
/* A prompt's way through the pages that are there, with copies of its tokens. The reads of
 * these pages share it. */
struct kvdisk_path;
/* NULL: no page is there. Else kvdisk_path_release follows. */
struct kvdisk_path *kvdisk_find(struct kvdisk *d, const struct kvdisk_prompt *p, int first,
				struct kvdisk_known *out);
void kvdisk_path_release(struct kvdisk_path *path); /* NULL is fine */
/* So many pages from `first` on are kept, without a gap, for another key. */
int kvdisk_find_foreign(struct kvdisk *d, const struct kvdisk_prompt *p, int first);
/* Says of each page of the prompt whether the disk has it or is about to, and the same of the
 * state at its end. pages, states: (n / page_size) each, n tokens in the prompt. */
void kvdisk_kept(struct kvdisk *d, const struct kvdisk_prompt *p, bool *pages, bool *states);

struct kvdisk_read;
/* Begin to read n pages from `first` on, and the state at the end of page state_page - 1
 * (0: none), all on the path. */
struct kvdisk_read *kvdisk_read_begin(struct kvdisk *d, struct kvdisk_path *path,
				      int first, int n, int state_page);
/* What has been read, until kvdisk_read_end. */
struct kvdisk_got {
	const char *pages, *state; /* state: NULL where it is not good */
	int n;                     /* good pages */
	bool is_pinned, is_state_pinned;
};
/* False: still under way. */
bool kvdisk_read_done(struct kvdisk *d, const struct kvdisk_read *r, struct kvdisk_got *out);
/* Until this read is done, kvdisk_find finds nothing: others would wait behind it. */
void kvdisk_read_is_slow(struct kvdisk *d, const struct kvdisk_read *r);
void kvdisk_read_end(struct kvdisk *d, struct kvdisk_read *r); /* NULL is fine */

/* Pages and states that go into one file. kvdisk_run_create copies the prompt and makes
 * room for the others, which the caller fills. */
struct kvdisk_run {
	char *key;
	size_t key_n;
	int32_t *tokens;
	int n_tok, first; /* tokens up to the last page's end; page it begins with */
	int n_pages, n_states;
	char *pages, *states;
	bool is_pinned;
	uint32_t state_at[4]; /* tokens */
	char name[32];
	struct kvdisk_run *next;
};
enum { KVDISK_RUN_STATES = 4 };
/* NULL: there is no room in the queue, or no memory. */
struct kvdisk_run *kvdisk_run_create(struct kvdisk *d, const struct kvdisk_prompt *p,
				     int first, int n_pages, int n_states);
/* Take the run over, to write it. Its n_pages, n_tok and n_states may have become smaller. */
void kvdisk_write(struct kvdisk *d, struct kvdisk_run *run);
void kvdisk_run_destroy(struct kvdisk *d, struct kvdisk_run *run); /* run NULL is fine */
