/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS over a socket that does not block, through GnuTLS. Thread: io.
 */
#pragma once
#include <sys/types.h>

#include "base/buf.h"

struct tls_server; /* certificate, key and priorities */
struct tls;        /* one connection */

/* PEM files. priorities: a GnuTLS priority string; "": TLS 1.2 and later with forward
 * secrecy and authenticated encryption only. E_CONFIG in words for every fault; fail must not be
 * NULL. */
enum status tls_server_create(const char *cert, const char *key, const char *priorities,
			      struct tls_server **out, struct fail *fail) MUST_USE;
/* It goes with the last connection that uses it. NULL is fine. */
void tls_server_unref(struct tls_server *s);

/* fd stays the caller's. NULL: out of memory. */
struct tls *tls_create(struct tls_server *s, int fd);
void tls_destroy(struct tls *t); /* NULL is fine */
/* 1: done; 0: call again when the socket is ready, see tls_wants_write; -1: refused. */
int tls_handshake(struct tls *t);
bool tls_wants_write(const struct tls *t);
/* Like recv and send; EAGAIN: wait. After EAGAIN call tls_send again with the same bytes. */
ssize_t tls_recv(struct tls *t, void *p, size_t n);
ssize_t tls_send(struct tls *t, const void *p, size_t n);
void tls_end(struct tls *t); /* sends TLS's goodbye, if the socket takes it */
