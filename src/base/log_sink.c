/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipe that nobody reads, or a stopped terminal, must not stop the thread that logs:
 * that thread may serve all clients. So a line is written only as far as stderr takes it
 * at once, and the rest is kept here. When too much is kept, lines are dropped and
 * counted. Normally nothing is kept, so all lines before a crash are in the log.
 *
 * The flag O_NONBLOCK belongs to the open file, which other processes share with us. For
 * a pipe or a terminal we therefore open our own non-blocking copy by way of /proc. A
 * socket (systemd's journal) takes a flag with each call. A regular file never blocks.
 */
#include "base/log_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/metrics.h"

/* Most bytes to keep. The notice of dropped lines may exceed this limit. */
#define KEPT_BYTES (256u << 10)
/* A pipe that polls as writable takes this many bytes without blocking. */
#define PIECE_BYTES 4096

enum sink_kind { PLAIN, OWN, SOCKET, POLLED };

static struct {
	pthread_mutex_t lock;
	enum sink_kind kind;
	int fd;
	struct buf kept;
	long n_dropped;
	log_sink_notice_fn notice;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .kind = PLAIN, .fd = STDERR_FILENO};

void log_sink_set_notice(log_sink_notice_fn fn) { sink.notice = fn; }

void log_sink_open(void)
{
	struct stat st;
	if (sink.fd != STDERR_FILENO)
		close(sink.fd);
	sink.fd = STDERR_FILENO;
	sink.kind = PLAIN;
	if (fstat(STDERR_FILENO, &st) != 0 || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return;
	if (S_ISSOCK(st.st_mode)) {
		sink.kind = SOCKET;
		return;
	}
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	sink.kind = fd >= 0 ? OWN : POLLED; /* opening fails if another user owns the pipe */
	sink.fd = fd >= 0 ? fd : STDERR_FILENO;
}

/* Like write, but fails with EAGAIN instead of waiting. */
static ssize_t write_some(const char *p, size_t n)
{
	struct pollfd ready = {sink.fd, POLLOUT, 0};
	if (sink.kind == SOCKET)
		return send(sink.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sink.kind == POLLED) {
		if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) {
			errno = ready.revents & (POLLERR | POLLHUP) ? EPIPE : EAGAIN;
			return -1;
		}
		n = n < PIECE_BYTES ? n : PIECE_BYTES;
	}
	return write(sink.fd, p, n);
}

void log_sink_write_last(const char *p, size_t n)
{
	/* The process is dying: a failed write cannot be repaired. */
	if (write_some(p, n) < 0)
		return;
}

/* Returns how many bytes are done with. If the reader is gone, that is all of them. */
static size_t log_sink_push(struct str s)
{
	size_t done = 0;
	while (done < s.n) {
		ssize_t n = write_some(s.p + done, s.n - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? done : s.n;
		done += (size_t)n;
	}
	return done;
}

/* The next three functions need the lock. */
static void flush(void)
{
	if (sink.kept.n > 0)
		buf_drop(&sink.kept, log_sink_push(buf_str(&sink.kept)));
	if (sink.kept.n > 0 || sink.n_dropped == 0 || !sink.notice)
		return;
	sink.notice(&sink.kept, sink.n_dropped);
	sink.n_dropped = 0;
	buf_drop(&sink.kept, log_sink_push(buf_str(&sink.kept)));
}

static void log_sink_add(struct str line)
{
	/* Lines keep their order, and a line cut in the middle is finished first. After a
	 * drop, the notice of the dropped lines comes before any further line. */
	bool is_clear = sink.kept.n == 0 && sink.n_dropped == 0;
	size_t done = is_clear ? log_sink_push(line) : 0;
	if (done == line.n)
		return;
	if (done == 0 && (sink.n_dropped > 0 || sink.kept.n + line.n > KEPT_BYTES)) {
		sink.n_dropped++;
		metric_add(METRIC_LOG_DROPPED, 1);
		return;
	}
	buf_add(&sink.kept, line.p + done, line.n - done);
}

void log_sink_write(struct str line)
{
	pthread_mutex_lock(&sink.lock);
	flush();
	log_sink_add(line);
	pthread_mutex_unlock(&sink.lock);
}

void log_sink_flush(void)
{
	pthread_mutex_lock(&sink.lock);
	flush();
	pthread_mutex_unlock(&sink.lock);
}
