/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipe that nobody reads, or a terminal that was stopped, must not stop the thread
 * that logs: it may be the one that serves everybody. So a line is written only as far
 * as stderr takes it at once. The rest waits here, and when too much waits, lines are
 * dropped and counted. In the ordinary case nothing waits: what was logged before a
 * crash is there.
 *
 * O_NONBLOCK belongs to the open file, which other processes share with us. A pipe and
 * a terminal are therefore opened once more by way of /proc, and that one does not
 * block. A socket, systemd's journal, has a flag for each call. A file never blocks in
 * this sense.
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

/* What may wait. A notice of dropped lines is written even beyond it. */
#define KEPT_BYTES (256u << 10)
/* What a pipe takes whole, once poll says that it takes something. */
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
	sink.kind = fd >= 0 ? OWN : POLLED; /* another user's pipe cannot be opened */
	sink.fd = fd >= 0 ? fd : STDERR_FILENO;
}

/* As write, and EAGAIN where it would wait. */
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
	/* What it returns cannot be helped any more. */
	if (write_some(p, n) < 0)
		return;
}

/* How many of the bytes are out. Where nobody is left to read, all of them. */
static size_t push(struct str s)
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

/* The next three: with the lock. */
static void flush(void)
{
	if (sink.kept.n > 0)
		buf_drop(&sink.kept, push(buf_str(&sink.kept)));
	if (sink.kept.n > 0 || sink.n_dropped == 0 || !sink.notice)
		return;
	sink.notice(&sink.kept, sink.n_dropped);
	sink.n_dropped = 0;
	buf_drop(&sink.kept, push(buf_str(&sink.kept)));
}

static void add(struct str line)
{
	/* Lines keep their order, and one that is begun is ended. Where lines were
	 * dropped, the next one waits until that was told. */
	bool is_clear = sink.kept.n == 0 && sink.n_dropped == 0;
	size_t done = is_clear ? push(line) : 0;
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
	add(line);
	pthread_mutex_unlock(&sink.lock);
}

void log_sink_flush(void)
{
	pthread_mutex_lock(&sink.lock);
	flush();
	pthread_mutex_unlock(&sink.lock);
}
