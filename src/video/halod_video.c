/* SPDX-License-Identifier: Apache-2.0
 *
 * The program halod-video: see video_wire.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "video/jail.h"
#include "video/reel.h"
#include "video/video_wire.h"

enum { USAGE = 2, MAX_ASKED = 1 << 16 };
/* A file, its packets, a decoder's pictures of 50 million pixels, and libraries. */
#define MEMORY ((int64_t)3 << 30)

static void video_write(const void *p, size_t n)
{
	const char *from = p;
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, from, n);
		if (done <= 0 && errno != EINTR)
			_exit(1); /* nobody reads */
		if (done > 0) {
			from += done;
			n -= (size_t)done;
		}
	}
}

static void video_send(enum video_wire_code code, double rate, const struct reel *r, int64_t n)
{
	const struct video_wire w = {.magic = VIDEO_WIRE_MAGIC, .code = code, .width = r->width,
				     .height = r->height, .n = n, .rate = rate};
	video_write(&w, sizeof w);
}

static void video_fault(enum video_wire_code code, const char *text)
{
	struct video_wire w = {.magic = VIDEO_WIRE_MAGIC, .code = code};
	strncpy(w.text, text, sizeof w.text - 1);
	video_write(&w, sizeof w);
	_exit(0);
}

static void video_emit(const struct reel *r, int i, const uint8_t *rgb)
{
	video_send(VIDEO_WIRE_FRAME, r->fps, r, i);
	video_write(rgb, 3 * (size_t)r->width * (size_t)r->height);
}

static void video_emit_sound(const struct reel *r, const float *samples, int n)
{
	video_send(VIDEO_WIRE_SOUND, r->rate, r, n);
	video_write(samples, sizeof *samples * (size_t)n);
}

/* "4,8,8,15": ascending, below `limit`. Returns how many; -1: it is no such list. */
static int video_list(char *text, int64_t limit, int64_t *out)
{
	int n = 0;
	for (char *p = text;; p++) {
		errno = 0;
		long long v = strtoll(p, &p, 10);
		if (errno || v < 0 || v >= limit || n == MAX_ASKED || (n > 0 && v < out[n - 1]))
			return -1;
		out[n++] = v;
		if (*p != ',')
			return *p ? -1 : n;
	}
}

static void video_check_size(const struct reel *r, const struct video_wire_limits *l)
{
	if ((l->max_side && MAX(r->width, r->height) > l->max_side) ||
	    (l->max_pixels && (int64_t)r->width * r->height > l->max_pixels))
		video_fault(VIDEO_WIRE_LIMIT, "has more pixels than this server reads");
}

int main(int argc, char **argv)
{
	static int64_t asked[MAX_ASKED];
	struct stat st;
	struct reel r;
	bool hears = argc == 5 && strcmp(argv[4], "sound") == 0;
	if ((argc != 4 && !hears && argc != 7) || fstat(STDIN_FILENO, &st) != 0 || st.st_size <= 0)
		return USAGE;
	const struct video_wire_limits limits = {(int32_t)atoll(argv[1]), atoll(argv[2])};
	const uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE,
				   STDIN_FILENO, 0);
	if (file == MAP_FAILED || close_range(STDERR_FILENO + 1, ~0U, 0) != 0)
		return USAGE;
	if (!jail_enter(MEMORY, atoll(argv[3])))
		video_fault(VIDEO_WIRE_FAULT, "cannot be read safely: this system has no seccomp");
	const char *fault = reel_open(&r, file, st.st_size, limits.max_pixels, hears);
	if (fault)
		video_fault(VIDEO_WIRE_FAULT, fault);
	video_check_size(&r, &limits);
	if (argc < 7) {
		video_send(VIDEO_WIRE_FOUND, r.fps, &r, r.n_frames);
		fault = hears ? reel_hear(&r, video_emit_sound) : NULL;
		if (fault)
			video_fault(VIDEO_WIRE_FAULT, fault);
		if (hears)
			video_emit_sound(&r, NULL, 0);
		_exit(0);
	}
	int n = video_list(argv[6], r.n_frames, asked);
	if (n < 0 || r.width != atoll(argv[4]) || r.height != atoll(argv[5]))
		_exit(USAGE);
	fault = reel_play(&r, asked, n, video_emit);
	if (fault)
		video_fault(VIDEO_WIRE_FAULT, fault);
	_exit(0);
}
