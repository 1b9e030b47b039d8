/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

#define PEM_BYTES (1u << 20)

/* The default priorities, by RFC 9325: no TLS before 1.2, no static RSA, no CBC, no SHA-1. */
#define SOUND "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:" \
	"-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:" \
	"-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1:%SERVER_PRECEDENCE"

struct tls_server {
	int refs;
	gnutls_certificate_credentials_t credentials;
	gnutls_priority_t priorities;
};

struct tls {
	struct tls_server *server; /* its certificate, whatever is read later */
	gnutls_session_t session;
};

/* --- server ------------------------------------------------------------------------- */

static enum status read_pem(const char *path, const char *what, const char *mark,
			    struct buf *out, struct fail *fail)
{
	enum status st = path ? file_read(path, PEM_BYTES, out, fail)
			      : fail_set(fail, E_CONFIG, "%s is not set", what);
	if (st != OK && path) { /* a missing file is a wrong setting */
		st = fail->code = E_CONFIG;
		fail_within(fail, st, what);
	}
	if (st == OK && str_find(buf_str(out), str_of(mark), 0) < 0)
		st = fail_set(fail, E_CONFIG, "%s: %s is not in PEM: there is no \"%s\"",
			      what, path, mark);
	return st;
}

static gnutls_datum_t datum(const struct buf *b)
{
	return (gnutls_datum_t){(unsigned char *)b->p, (unsigned)b->n};
}

/* It is taken all the same: a service that does not start helps nobody. */
static void warn_of_dates(gnutls_x509_crt_t c, const char *path)
{
	time_t now = time(NULL), from = gnutls_x509_crt_get_activation_time(c),
	       to = gnutls_x509_crt_get_expiration_time(c);
	struct tm tm;
	char day[32];
	time_t at = now > to ? to : from;
	strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&at, &tm));
	if (now > to)
		log_warn("tls_cert: %s has expired on %s: clients will refuse it", path, day);
	else if (now < from)
		log_warn("tls_cert: %s begins on %s: until then clients will refuse it", path,
			 day);
}

/* GnuTLS' own function for both at once leaks a certificate that breaks off. */
static int set_pair(gnutls_certificate_credentials_t to, const char *path,
		    const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
	gnutls_x509_crt_t *list = NULL;
	gnutls_x509_privkey_t k = NULL;
	unsigned n = 0;
	int e = gnutls_x509_crt_list_import2(&list, &n, cert, GNUTLS_X509_FMT_PEM, 0);
	if (e >= 0)
		e = gnutls_x509_privkey_init(&k);
	if (e >= 0)
		e = gnutls_x509_privkey_import2(k, key, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (e >= 0)
		e = gnutls_certificate_set_x509_key(to, list, (int)n, k);
	if (e >= 0 && n > 0)
		warn_of_dates(list[0], path);
	for (unsigned i = 0; list && i < n; i++)
		gnutls_x509_crt_deinit(list[i]);
	gnutls_free(list);
	gnutls_x509_privkey_deinit(k);
	return e;
}

static enum status tls_load(struct tls_server *s, const char *cert, const char *key,
			    struct fail *fail)
{
	struct buf c = {0}, k = {0};
	enum status st = read_pem(cert, "tls_cert", "-----BEGIN CERTIFICATE-----", &c, fail);
	if (st == OK)
		st = read_pem(key, "tls_key", "PRIVATE KEY-----", &k, fail);
	if (st == OK) {
		gnutls_datum_t cd = datum(&c), kd = datum(&k);
		int e = set_pair(s->credentials, cert, &cd, &kd);
		if (e < 0)
			st = fail_set(fail, E_CONFIG, "tls_cert and tls_key (%s, %s) cannot "
				      "be used: damaged, or not of each other (%s)", cert,
				      key, gnutls_strerror(e));
	}
	if (k.p)
		explicit_bzero(k.p, k.n);
	buf_deinit(&c);
	buf_deinit(&k);
	return st;
}

enum status tls_server_create(const char *cert, const char *key, const char *priorities,
			      struct tls_server **out, struct fail *fail)
{
	struct tls_server *s = xcalloc(1, sizeof *s);
	s->refs = 1;
	const char *at = "";
	enum status st = OK;
	if (gnutls_certificate_allocate_credentials(&s->credentials) < 0)
		st = fail_set(fail, E_CONFIG, "tls_cert: GnuTLS does not start");
	if (st == OK)
		st = tls_load(s, cert, key, fail);
	if (st == OK && gnutls_priority_init(&s->priorities, *priorities ? priorities : SOUND,
					     &at) < 0)
		st = fail_set(fail, E_CONFIG, "tls_priorities: GnuTLS does not understand "
			      "\"%s\"", at && *at ? at : priorities);
	if (st == OK)
		*out = s;
	else
		tls_server_unref(s);
	return st;
}

void tls_server_unref(struct tls_server *s)
{
	if (!s || --s->refs > 0)
		return;
	if (s->priorities)
		gnutls_priority_deinit(s->priorities);
	if (s->credentials)
		gnutls_certificate_free_credentials(s->credentials);
	free(s);
}

/* --- connection --------------------------------------------------------------------- */

struct tls *tls_create(struct tls_server *s, int fd)
{
	static const gnutls_datum_t http_1_1 = {(unsigned char *)"http/1.1", 8};
	struct tls *t = xcalloc(1, sizeof *t);
	if (gnutls_init(&t->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
		free(t);
		return NULL;
	}
	t->server = s;
	s->refs++;
	gnutls_priority_set(t->session, s->priorities);
	gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, s->credentials);
	gnutls_alpn_set_protocols(t->session, &http_1_1, 1, 0);
	gnutls_handshake_set_timeout(t->session, GNUTLS_INDEFINITE_TIMEOUT);
	gnutls_transport_set_int(t->session, fd);
	return t;
}

void tls_destroy(struct tls *t)
{
	if (!t)
		return;
	gnutls_deinit(t->session);
	tls_server_unref(t->server);
	free(t);
}

int tls_handshake(struct tls *t)
{
	int e;
	do {
		e = gnutls_handshake(t->session);
	} while (e == GNUTLS_E_WARNING_ALERT_RECEIVED);
	if (e == 0)
		return 1;
	if (!gnutls_error_is_fatal(e))
		return 0;
	gnutls_alert_send_appropriate(t->session, e);
	return -1;
}

bool tls_wants_write(const struct tls *t)
{
	return gnutls_record_get_direction(t->session) == 1;
}

static ssize_t result(ssize_t n)
{
	if (n >= 0)
		return n;
	errno = gnutls_error_is_fatal((int)n) ? ECONNRESET : EAGAIN;
	return -1;
}

ssize_t tls_recv(struct tls *t, void *p, size_t n)
{
	ssize_t got = gnutls_record_recv(t->session, p, n);
	/* A client that hangs up without TLS's goodbye is no attack here: the parsers of
	 * head and body see whether all bytes came. */
	return got == GNUTLS_E_PREMATURE_TERMINATION ? 0 : result(got);
}

ssize_t tls_send(struct tls *t, const void *p, size_t n)
{
	return result(gnutls_record_send(t->session, p, n));
}

void tls_end(struct tls *t) { gnutls_bye(t->session, GNUTLS_SHUT_WR); }
