/* SPDX-License-Identifier: Apache-2.0
 *
 * The process halod-video, one for a file. Thread: one at a time, and not the io thread: each
 * function may wait.
 */
#pragma once
#include <sys/types.h>

#include "base/buf.h"

/* So many run at once in this process; others wait. So much memory for pixels is out, too. */
enum { VIDEO_HELPERS = 2 };

/* Zeroed: none runs. */
struct video_helper {
	pid_t pid;
	int from; /* what it writes */
	bool is_on;
	int64_t left_us; /* how long halod still waits for it */
};

/* Is there such a program? As video_helper_start. */
bool video_helper_is_there(const char *program);
/* Starts one on the file `fd`, with `args`, which end in NULL; the first is the program's name.
 * program: its path; NULL: as it was installed. max_us: as left_us. E_CANCELLED: *is_gone was true
 * while it waited for its turn. E_UNSUPPORTED: it does not start; E_NOMEM. */
enum status video_helper_start(struct video_helper *h, const char *program, char *const *args,
			       int fd, int64_t max_us, const _Atomic bool *is_gone,
			       struct fail *fail) MUST_USE;
/* Reads n bytes. E_INVAL: it ended before, and the text says how; E_LIMIT: it took too long;
 * E_CANCELLED. */
enum status video_helper_read(struct video_helper *h, void *out, size_t n,
			      const _Atomic bool *is_gone, struct fail *fail) MUST_USE;
/* Ends it, if it runs. */
void video_helper_stop(struct video_helper *h);
