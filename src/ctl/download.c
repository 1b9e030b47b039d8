/* SPDX-License-Identifier: Apache-2.0 */
#include <build-config.h>

#include "ctl/download.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
	MAX_TEXT = 64 << 20,
	TRIES = 5,              /* attempts in a row without a new byte */
	SLOW_S = 60,            /* a connection slower than a byte a second for this long is
				 * broken */
	CONNECT_S = 30,
	MAX_DIGEST = 32,
	CHUNK = 1 << 20,
};

static CURL *open_curl(const struct download *d, const char *url, char *error)
{
	CURL *c = curl_easy_init();
	if (!c)
		return NULL;
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SLOW_S);
	curl_easy_setopt(c, CURLOPT_USERAGENT, PACKAGE "/" PACKAGE_VERSION);
	if (d->token) {
		/* curl does not send the token to another host after a redirect. */
		curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, d->token);
	}
	return c;
}

static enum status refuse_status(long code, const char *url, struct fail *fail)
{
	if (code == 401 || code == 403)
		return fail_set(fail, E_AUTH, "%s: status %ld: there is no such model, or it is "
				"private. Check the name. If its page asks for it, accept the "
				"conditions there; then set HF_TOKEN to a token of yours", url,
				code);
	if (code == 404)
		return fail_set(fail, E_MISSING, "%s: status 404, there is no such model or "
				"revision", url);
	return fail_set(fail, E_IO, "%s: status %ld", url, code);
}

/* --- text ------------------------------------------------------------------------- */

static size_t on_text(char *bytes, size_t size, size_t n, void *ctx)
{
	struct buf *out = ctx;
	if (out->n + n > MAX_TEXT)
		return 0;
	buf_add(out, bytes, n);
	return n;
}

enum status download_text(const struct download *d, const char *url, struct buf *out,
			  struct fail *fail)
{
	char error[CURL_ERROR_SIZE] = "";
	long code = 0;
	CURL *c = open_curl(d, url, error);
	if (!c)
		return fail_set(fail, E_NOMEM, "no memory for a connection");
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_text);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, out);
	CURLcode done = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &code);
	curl_easy_cleanup(c);
	if (done != CURLE_OK)
		return fail_set(fail, E_IO, "%s: %s", url,
				*error ? error : curl_easy_strerror(done));
	return code == 200 ? OK : refuse_status(code, url, fail);
}

/* --- files ------------------------------------------------------------------------ */

struct file_transfer {
	const struct download *d;
	const struct download_file *f;
	CURL *curl;
	int fd;
	char *part;         /* path of the incomplete file */
	int64_t n_have;
	gnutls_hash_hd_t hash;
	int error;          /* errno of a write that failed */
};

/* git's digest of a file is the digest of "blob SIZE" and NUL, then the file. */
static void hash_begin(struct file_transfer *t)
{
	char head[40];
	if (t->hash)
		gnutls_hash_deinit(t->hash, NULL);
	t->hash = NULL;
	if (gnutls_hash_init(&t->hash, t->f->is_sha256 ? GNUTLS_DIG_SHA256
						       : GNUTLS_DIG_SHA1) != 0)
		return;
	int n = snprintf(head, sizeof head, "blob %lld", (long long)t->f->n_bytes);
	if (!t->f->is_sha256)
		gnutls_hash(t->hash, head, (size_t)n + 1);
}

/* Hashes the bytes that an earlier run left; the transfer continues after them. */
static enum status take_up(struct file_transfer *t, struct fail *fail)
{
	char *bytes = xmalloc(CHUNK);
	ssize_t n;
	hash_begin(t);
	t->n_have = 0;
	while (t->hash && (n = pread(t->fd, bytes, CHUNK, t->n_have)) > 0) {
		gnutls_hash(t->hash, bytes, (size_t)n);
		t->n_have += n;
	}
	free(bytes);
	if (t->n_have <= t->f->n_bytes)
		return OK;
	t->n_have = 0;
	hash_begin(t);
	return ftruncate(t->fd, 0) == 0 ? OK : fail_set(fail, E_IO, "%s: %s", t->part,
							strerror(errno));
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
	struct file_transfer *t = ctx;
	long code = 0;
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
	if (code != 200 && code != 206) /* the body is an error page */
		return n;
	if (t->n_have + (int64_t)n > t->f->n_bytes) {
		t->error = EFBIG;
		return 0;
	}
	for (size_t at = 0; at < n;) {
		ssize_t done = pwrite(t->fd, bytes + at, n - at, t->n_have);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			t->error = errno;
			return 0;
		}
		gnutls_hash(t->hash, bytes + at, (size_t)done);
		at += (size_t)done;
		t->n_have += done;
	}
	if (t->d->on_progress)
		t->d->on_progress(t->d->ctx, t->n_have, t->f->n_bytes);
	return n;
}

/* One connection. *out_again: true if another attempt may succeed. */
static enum status try_once(struct file_transfer *t, bool *out_again, struct fail *fail)
{
	char error[CURL_ERROR_SIZE] = "";
	long code = 0;
	*out_again = false;
	t->curl = open_curl(t->d, t->f->url, error);
	if (!t->curl)
		return fail_set(fail, E_NOMEM, "no memory for a connection");
	curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->n_have);
	CURLcode done = curl_easy_perform(t->curl);
	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
	curl_easy_cleanup(t->curl);
	if (t->error == EFBIG)
		return fail_set(fail, E_FORMAT, "%s: longer than the %lld bytes that the hub "
				"says", t->f->url, (long long)t->f->n_bytes);
	if (t->error)
		return fail_set(fail, E_IO, "%s: %s", t->part, strerror(t->error));
	if (done == CURLE_OK && (code == 200 || code == 206))
		return OK;
	if (done == CURLE_RANGE_ERROR || code == 416) {
		/* The server cannot continue in the middle: start from the beginning. */
		t->n_have = 0;
		hash_begin(t);
		*out_again = ftruncate(t->fd, 0) == 0;
	} else {
		*out_again = done != CURLE_OK || code == 429 || code >= 500;
	}
	return done == CURLE_OK ? refuse_status(code, t->f->url, fail)
				: fail_set(fail, E_IO, "%s: %s", t->f->url,
					   *error ? error : curl_easy_strerror(done));
}

static enum status download_fetch(struct file_transfer *t, struct fail *fail)
{
	enum status st = OK;
	for (int n_tried = 0; t->n_have < t->f->n_bytes;) {
		int64_t before = t->n_have;
		bool again;
		st = try_once(t, &again, fail);
		if (st == OK && t->n_have < t->f->n_bytes)
			st = fail_set(fail, E_IO, "%s: it ended after %lld of %lld bytes",
				      t->f->url, (long long)t->n_have,
				      (long long)t->f->n_bytes);
		else if (st != OK && !again)
			return st;
		n_tried = t->n_have > before ? 1 : n_tried + 1;
		if (st != OK && n_tried >= TRIES)
			return st;
		if (st != OK)
			usleep((useconds_t)(200000 << n_tried));
	}
	return OK;
}

static enum status download_check(struct file_transfer *t, struct fail *fail)
{
	unsigned char digest[MAX_DIGEST];
	char text[2 * MAX_DIGEST + 1];
	size_t n = t->f->is_sha256 ? 32 : 20;
	gnutls_hash_output(t->hash, digest);
	for (size_t i = 0; i < n; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	if (strcmp(text, t->f->digest) == 0)
		return OK;
	unlink(t->part);
	return fail_set(fail, E_FORMAT, "%s: its digest is %s, and the hub says %s. It was "
			"damaged on the way and is removed: run the same command again",
			t->f->url, text, t->f->digest);
}

enum status download_file(const struct download *d, const struct download_file *f,
			  struct fail *fail)
{
	struct file_transfer t = {.d = d, .f = f};
	struct buf part = {0};
	buf_addf(&part, "%s.incomplete", f->path);
	t.part = part.p;
	t.fd = open(t.part, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	enum status st = OK;
	if (t.fd < 0)
		st = fail_set(fail, E_IO, "%s: %s", t.part, strerror(errno));
	else if (flock(t.fd, LOCK_EX | LOCK_NB) != 0)
		st = fail_set(fail, E_IO, "%s: another process fetches this file", t.part);
	if (st == OK)
		st = take_up(&t, fail);
	if (st == OK && !t.hash)
		st = fail_set(fail, E_UNSUPPORTED, "GnuTLS has no digest for %s", f->path);
	if (st == OK)
		st = download_fetch(&t, fail);
	if (st == OK)
		st = download_check(&t, fail);
	if (st == OK && (fsync(t.fd) != 0 || rename(t.part, f->path) != 0))
		st = fail_set(fail, E_IO, "%s: %s", f->path, strerror(errno));
	if (t.hash)
		gnutls_hash_deinit(t.hash, NULL);
	if (t.fd >= 0)
		close(t.fd);
	buf_deinit(&part);
	return st;
}
