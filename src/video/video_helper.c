/* SPDX-License-Identifier: Apache-2.0 */
#include "video/video_helper.h"

#include <build-config.h>
#include <build-paths.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "video/video_wire.h"

/* How often a client that goes away is noticed. */
enum { LOOK_MS = 50 };

/* --- turns ------------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t is_less;
	int n;
} running = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static bool video_helper_turn(const _Atomic bool *is_gone)
{
	bool has_turn = false;
	pthread_mutex_lock(&running.lock);
	while (!has_turn && !(is_gone && atomic_load(is_gone))) {
		struct timespec until;
		has_turn = running.n < VIDEO_HELPERS;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += LOOK_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		if (!has_turn)
			pthread_cond_timedwait(&running.is_less, &running.lock, &until);
	}
	running.n += has_turn;
	pthread_mutex_unlock(&running.lock);
	return has_turn;
}

static void video_helper_pass(void)
{
	pthread_mutex_lock(&running.lock);
	running.n--;
	pthread_cond_signal(&running.is_less);
	pthread_mutex_unlock(&running.lock);
}

/* --- its life ---------------------------------------------------------------------------- */

static char *video_helper_find(void)
{
	static const char *const places[] = {"halod-video", "../lib/" PACKAGE "/halod-video"};
	char *found = file_beside_program(places, ARRAY_LEN(places));
	return found ? found : xstrdup(HALOD_LIBDIR "/halod-video");
}

bool video_helper_is_there(const char *program)
{
	char *found = program ? NULL : video_helper_find();
	bool is_there = access(program ? program : found, X_OK) == 0;
	free(found);
	return is_there;
}

/* It gets the file, a pipe, and nothing else of halod: no environment, no signal that is ignored
 * or blocked. */
static int video_helper_spawn(const char *path, char *const *args, int fd, int to, pid_t *pid)
{
	static char *const environment[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, to, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawnattr_init(&how);
	posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigdefault(&how, &all);
	posix_spawnattr_setsigmask(&how, &none);
	int error = posix_spawn(pid, path, &files, &how, args, environment);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return error;
}

enum status video_helper_start(struct video_helper *h, const char *program, char *const *args,
			       int fd, int64_t max_us, const _Atomic bool *is_gone,
			       struct fail *fail)
{
	int ends[2];
	if (!video_helper_turn(is_gone))
		return fail_default(fail, E_CANCELLED);
	if (pipe2(ends, O_CLOEXEC) != 0) {
		int error = errno;
		video_helper_pass();
		return fail_set(fail, E_NOMEM, "a video cannot be read now: %s", strerror(error));
	}
	char *found = program ? NULL : video_helper_find();
	const char *path = program ? program : found;
	int error = video_helper_spawn(path, args, fd, ends[1], &h->pid);
	close(ends[1]);
	if (error) {
		close(ends[0]);
		video_helper_pass();
		fail_set(fail, E_UNSUPPORTED, "files of video cannot be read: %s does not start: "
			 "%s", path, strerror(error));
	} else {
		h->from = ends[0];
		h->is_on = true;
		h->left_us = max_us;
	}
	free(found);
	return error ? E_UNSUPPORTED : OK;
}

/* Waits for its end, and gives its turn to another. Returns what waitpid says of it. */
static int video_helper_bury(struct video_helper *h)
{
	int how = 0;
	while (waitpid(h->pid, &how, 0) < 0 && errno == EINTR)
		;
	close(h->from);
	h->is_on = false;
	video_helper_pass();
	return how;
}

void video_helper_stop(struct video_helper *h)
{
	if (!h->is_on)
		return;
	kill(h->pid, SIGKILL);
	video_helper_bury(h);
}

static enum status video_helper_late(struct fail *fail)
{
	return fail_set(fail, E_LIMIT, "the video takes too long to read (video_timeout)");
}

/* It closed its pipe before it wrote all: how it ended, in words. */
static enum status video_helper_ended(struct video_helper *h, struct fail *fail)
{
	int how = video_helper_bury(h);
	if (WIFEXITED(how) && WEXITSTATUS(how) == 127)
		return fail_set(fail, E_UNSUPPORTED, "files of video cannot be read: halod-video "
				"does not start here: install libavformat, libavcodec, libavutil "
				"and libswscale");
	if (WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU)
		return video_helper_late(fail);
	return video_wire_strange(fail);
}

/* Waits until there is something to read. */
static enum status video_helper_wait(struct video_helper *h, const _Atomic bool *is_gone,
				     struct fail *fail)
{
	struct pollfd p = {h->from, POLLIN, 0};
	for (;;) {
		int64_t begin = clock_now_us(&clock_monotonic);
		int ready = poll(&p, 1, LOOK_MS);
		h->left_us -= clock_now_us(&clock_monotonic) - begin;
		if (is_gone && atomic_load(is_gone))
			return fail_default(fail, E_CANCELLED);
		if (ready > 0)
			return OK;
		if (h->left_us <= 0)
			return video_helper_late(fail);
	}
}

enum status video_helper_read(struct video_helper *h, void *out, size_t n,
			      const _Atomic bool *is_gone, struct fail *fail)
{
	char *to = out;
	while (n > 0) {
		enum status st = video_helper_wait(h, is_gone, fail);
		if (st != OK)
			return st;
		ssize_t got = read(h->from, to, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return video_helper_ended(h, fail);
		to += got;
		n -= (size_t)got;
	}
	return OK;
}
