/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes on a connection of the whole server: gate, TLS, heads, bodies, API and scheduler,
 * with a model of hashes below. The first byte says which server and how the bytes are cut, the
 * second how the client leaves. What the client hears is whole answers with JSON where they are
 * refusals, none of them behind one that closes. Another client beside it gets what it always
 * gets. Nothing is left of the client: no request, no KV page, no descriptor.
 *
 * Run in the source folder: it reads models/halo-tiny. All is one thread, on a clock of its own.
 */
#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "http/http_private.h"
#include "json/json_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define SECOND INT64_C(1000000)
#define KEYS "secret one\nbeside two\n"

enum { N_PAGES = 256, PAGE = 4, MAX_CTX = 512, MAX_CUTS = 48 };
enum server { PLAIN, KEYED, TLS, N_SERVERS };
/* RAW: the bytes are TLS's own, where the server has it. */
enum how { HEAR, HEAR_RAW, RESET, HALF_CLOSE, LATE, N_HOW };

static struct http *servers[N_SERVERS];
static struct sockaddr_un addresses[N_SERVERS];
static socklen_t n_address[N_SERVERS];
static uv_loop_t loop;
static struct health health;
static struct engine *engine;
static struct sched *sched;
static struct api_memory *memory;
static bool is_ready;
static gnutls_certificate_credentials_t trust;

static int64_t now_us = 1000 * SECOND;
static int64_t get_now(void *ctx) { return now_us; }
static const struct clock hand_clock = {get_now, NULL};

/* --- the model ---------------------------------------------------------------------- */

static int32_t n_vocab;

/* The next token is a hash of this one and its place; one in eight ends the answer. */
static enum status forward(void *ctx, const struct engine_batch *b, float *logits,
			   struct fail *fail)
{
	for (int r = 0; r < b->n_logit_rows; r++) {
		float *row = logits + (size_t)r * (size_t)n_vocab;
		int32_t t = b->logit_rows[r], seen[2] = {b->token[t], b->position[t]};
		uint64_t h = hash_bytes(7, seen, sizeof seen);
		memset(row, 0, (size_t)n_vocab * sizeof *row);
		row[h % (uint64_t)n_vocab] = 9;
		row[h % 97] = 8;
		if (h % 8 == 0)
			row[*(int32_t *)ctx] = 10;
	}
	return OK;
}

static enum status copy_page(void *ctx, int32_t dst, int32_t src) { return OK; }

static void on_ready(void *ctx) { is_ready = true; }

static struct api *open_model(void)
{
	static struct model *model;
	static int32_t eos;
	struct api *api;
	if (model_open("models/halo-tiny", NULL, &model, NULL) != OK)
		abort();
	n_vocab = model->config.n_vocab;
	eos = model->config.eos_ids[0];
	const struct engine_graph g = {.ctx = &eos, .n_vocab = n_vocab, .max_ctx = MAX_CTX,
				       .forward = forward, .copy_page = copy_page};
	const struct engine_opts eo = {.page_size = PAGE, .max_seqs = 4, .max_batch_tok = 512,
				       .prefix_cache = true};
	if (engine_create_with(&g, &eo, N_PAGES, &engine) != OK)
		abort();
	const struct sched_opts so = {.engine = engine, .tokenizer = model->tokenizer,
				      .clock = &hand_clock, .health = &health, .max_queue = 4,
				      .on_ready = on_ready};
	sched = sched_create(&so);
	memory = api_memory_create(NULL);
	const struct api_opts o = {.model = model, .model_name = "halo-tiny", .n_ctx = MAX_CTX,
				   .max_output_tok = 12, .memory = memory, .clock = &hand_clock};
	if (api_create(&o, &api, NULL) != OK)
		abort();
	return api;
}

/* --- servers ------------------------------------------------------------------------- */

static void write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "w");
	if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
		abort();
}

static void write_pem(const char *cert_path, const char *key_path)
{
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t cert;
	gnutls_datum_t pem[2];
	if (gnutls_x509_privkey_init(&key) < 0 || gnutls_x509_crt_init(&cert) < 0 ||
	    gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, 256, 0) < 0 ||
	    gnutls_x509_crt_set_version(cert, 3) < 0 ||
	    gnutls_x509_crt_set_serial(cert, "1", 1) < 0 ||
	    gnutls_x509_crt_set_activation_time(cert, 0) < 0 ||
	    gnutls_x509_crt_set_expiration_time(cert, INT32_MAX) < 0 ||
	    gnutls_x509_crt_set_key(cert, key) < 0 ||
	    gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA512, 0) < 0 ||
	    gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem[0]) < 0 ||
	    gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL,
					       GNUTLS_PKCS_PLAIN, &pem[1]) < 0)
		abort();
	write_file(cert_path, pem[0].data, pem[0].size);
	write_file(key_path, pem[1].data, pem[1].size);
	gnutls_free(pem[0].data);
	gnutls_free(pem[1].data);
	gnutls_x509_crt_deinit(cert);
	gnutls_x509_privkey_deinit(key);
}

/* A socket without a name in any folder: the kernel gives it one. */
static int listen_anywhere(enum server i)
{
	const struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	n_address[i] = sizeof addresses[i];
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(sa_family_t)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&addresses[i], &n_address[i]) != 0)
		abort();
	return fd;
}

static struct model_row rows[N_SERVERS];

static void open_servers(void)
{
	static const char *const origins[] = {"http://page"};
	char dir[] = "/tmp/fuzz_http.XXXXXX", cert[64], key[64], keys[64];
	struct api *api = open_model();
	struct fail fail;
	log_init(LOG_ERROR, LOG_TEXT);
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir) || uv_loop_init(&loop) != 0)
		abort();
	snprintf(cert, sizeof cert, "%s/cert", dir);
	snprintf(key, sizeof key, "%s/key", dir);
	snprintf(keys, sizeof keys, "%s/keys", dir);
	write_pem(cert, key);
	write_file(keys, KEYS, strlen(KEYS));
	atomic_store(&health.state, HEALTH_READY);
	for (enum server i = 0; i < N_SERVERS; i++) {
		struct model_row *r = &rows[i];
		row_init(r);
		r->name = "halo-tiny";
		r->api = api;
		r->sched = sched;
		r->health = &health;
		r->state = ROW_LOADED;
		const struct http_opts o = {
			.rows = r, .n_rows = 1,
			.loop = &loop, .listen_fd = listen_anywhere(i), .max_connections = 3,
			.max_body_bytes = 12000, .body_memory_bytes = 1 << 20,
			.keepalive_s = 5, .header_s = 30, .idle_s = 60, .stall_s = 5,
			.heartbeat_stall_us = INT64_MAX / 2, .page = true,
			.max_requests_per_key = 1, .metrics_need_key = true,
			.api_key_file = i == KEYED ? keys : NULL, .cors_origins = origins,
			.n_cors_origins = i == KEYED, .tls_cert = i == TLS ? cert : NULL,
			.tls_key = i == TLS ? key : NULL, .clock = &hand_clock,
			.health = &health, .model_name = "halo-tiny", .version = "0",
			.memory = memory, .backend = "none", .backend_reason = "a test"};
		if (http_create(&o, &servers[i], &fail) != OK) {
			fprintf(stderr, "%s\n", fail.text);
			abort();
		}
		http_set_ready(servers[i]);
	}
	unlink(cert);
	unlink(key);
	unlink(keys);
	rmdir(dir);
	if (gnutls_certificate_allocate_credentials(&trust) < 0)
		abort();
}

/* Until nothing moves: all sockets are unix ones, so nothing comes later. */
static void settle(void)
{
	bool has_moved;
	do {
		has_moved = sched_iterate(sched);
		if (is_ready) {
			is_ready = false;
			has_moved = true;
			http_wake(servers[PLAIN]);
		}
		for (int i = 0; i < N_SERVERS; i++)
			http_run(servers[i]);
		uv_run(&loop, UV_RUN_NOWAIT);
		for (int i = 0; i < N_SERVERS; i++)
			has_moved |= servers[i]->needs_run;
	} while (has_moved);
}

/* --- clients -------------------------------------------------------------------------- */

struct client {
	int fd;
	gnutls_session_t tls; /* NULL: plain */
	struct buf got;
	bool is_closed;
};

static bool is_later(ssize_t n)
{
	return n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED;
}

static ssize_t get(struct client *c, void *p, size_t n)
{
	if (c->tls)
		return gnutls_record_recv(c->tls, p, n);
	ssize_t got = recv(c->fd, p, n, MSG_DONTWAIT);
	return got < 0 && errno == EAGAIN ? GNUTLS_E_AGAIN : got;
}

/* All that has come. */
static void hear(struct client *c)
{
	char piece[4096];
	while (!c->is_closed) {
		settle();
		ssize_t n = get(c, piece, sizeof piece);
		if (n > 0)
			buf_add(&c->got, piece, (size_t)n);
		else if (is_later(n))
			return;
		else
			c->is_closed = true;
	}
}

static void say(struct client *c, const char *p, size_t n)
{
	while (n > 0 && !c->is_closed) {
		ssize_t sent = c->tls ? gnutls_record_send(c->tls, p, n)
				      : send(c->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
			settle();
		} else {
			size_t before = c->got.n;
			hear(c);
			if (c->got.n == before)
				return; /* it does not listen any more */
		}
	}
}

static void hang_up(struct client *c)
{
	if (c->tls)
		gnutls_deinit(c->tls);
	close(c->fd);
	buf_deinit(&c->got);
	settle();
}

static void shake_hands(struct client *c)
{
	int rc;
	if (gnutls_init(&c->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0 ||
	    gnutls_set_default_priority(c->tls) < 0 ||
	    gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, trust) < 0)
		abort();
	gnutls_transport_set_int(c->tls, c->fd);
	for (int i = 0; i < 100 && is_later(rc = gnutls_handshake(c->tls)); i++)
		settle();
	assert(rc == 0);
}

static void dial(struct client *c, enum server i, bool is_tls)
{
	*c = (struct client){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)};
	if (c->fd < 0 ||
	    connect(c->fd, (struct sockaddr *)&addresses[i], n_address[i]) != 0)
		abort();
	settle();
	if (is_tls)
		shake_hands(c);
}

/* --- answers -------------------------------------------------------------------------- */

struct answer {
	int status;
	struct str head, body;
	bool is_last; /* it says that the connection closes */
};

static struct str header(struct str head, const char *name)
{
	ptrdiff_t at = str_find(head, str_of(name), 0);
	if (at < 0)
		return (struct str){"", 0};
	const char *p = head.p + at + strlen(name);
	return (struct str){p, (size_t)((const char *)memchr(p, '\r', (size_t)(
		head.p + head.n - p)) - p)};
}

/* Takes chunks apart, in place. Bytes they took; 0: they are not whole. */
static size_t join_chunks(char *p, size_t n, struct str *out)
{
	char *to = p;
	for (char *at = p;;) {
		char *line = memmem(at, n - (size_t)(at - p), "\r\n", 2);
		if (!line)
			return 0;
		size_t size = strtoul(at, NULL, 16);
		at = line + 2;
		if (size + 2 > n - (size_t)(at - p))
			return 0;
		memmove(to, at, size);
		to += size;
		at += size;
		assert(at[0] == '\r' && at[1] == '\n');
		at += 2;
		if (size == 0) {
			*out = (struct str){p, (size_t)(to - p)};
			return (size_t)(at - p);
		}
	}
}

static void check_json(struct str text, bool is_error)
{
	json_t *v;
	struct fail fail;
	/* json_read.h holds numbers of any size, jansson arrays. */
	if (json_read_parse(text, &v, &fail) != OK)
		v = json_loadb(text.p, text.n, 0, NULL);
	assert(v);
	const json_t *error = json_object_get(v, "error");
	const char *words = json_string_value(
		json_is_object(error) ? json_object_get(error, "message") : error);
	assert(!is_error || (words && *words));
	json_decref(v);
}

static void check_events(struct str text)
{
	while (text.n > 0) {
		ptrdiff_t line = str_find(text, STR("\n"), 0);
		assert(line >= 0);
		struct str one = {text.p, (size_t)line};
		if (str_starts(one, STR("data: ")) && !str_is(one, "data: [DONE]"))
			check_json((struct str){one.p + 6, one.n - 6}, false);
		text.p += line + 1;
		text.n -= (size_t)line + 1;
	}
}

/* The first answer of *got, of which it takes the bytes. False: there is no whole one. */
static bool take_answer(struct str *got, struct answer *a)
{
	ptrdiff_t end = str_find(*got, STR("\r\n\r\n"), 0);
	if (end < 0)
		return false;
	*a = (struct answer){.head = {got->p, (size_t)end + 2}};
	assert(str_starts(*got, STR("HTTP/1.")));
	a->status = atoi(got->p + 9);
	assert(a->status >= 100 && a->status < 600);
	char *body = (char *)got->p + end + 4;
	size_t left = got->n - (size_t)end - 4, n = 0;
	struct str length = header(a->head, "\r\nContent-Length: ");
	if (header(a->head, "\r\nTransfer-Encoding: ").n) {
		n = join_chunks(body, left, &a->body);
		if (n == 0)
			return false;
	} else if (length.n) {
		n = strtoul(length.p, NULL, 10);
		a->body = (struct str){body, n};
		if (n > left)
			return false;
	} else {
		assert(a->status == 100 || a->status == 204 || a->status == 304);
	}
	a->is_last = str_is(header(a->head, "\r\nConnection: "), "close");
	got->p = body + n;
	got->n = left - n;
	return true;
}

/* All that a client heard. May_cut: its last answer may be cut off. */
static void check_answers(struct str got, bool may_cut)
{
	struct answer a = {0};
	while (got.n > 0) {
		assert(!a.is_last); /* nothing comes behind that */
		if (!take_answer(&got, &a)) {
			assert(may_cut);
			return;
		}
		struct str kind = header(a.head, "\r\nContent-Type: ");
		if (str_is(kind, "application/json"))
			check_json(a.body, a.status >= 400);
		else if (str_is(kind, "text/event-stream"))
			check_events(a.body);
		else
			assert(a.status < 400);
	}
}

/* --- a client beside ------------------------------------------------------------------- */

static void check_neighbour(enum server i)
{
	static const char body[] = "{\"content\":\"Who are you?\"}";
	static struct buf want;
	char text[300];
	struct client c;
	struct answer a;
	snprintf(text, sizeof text, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
		 "X-Request-Id: beside\r\nAuthorization: Bearer beside\r\n"
		 "Content-Length: %zu\r\n\r\n%s", strlen(body), body);
	dial(&c, i, i == TLS);
	say(&c, text, strlen(text));
	hear(&c);
	struct str got = buf_str(&c.got);
	assert(take_answer(&got, &a) && got.n == 0 && a.status == 200);
	assert(str_is(header(a.head, "\r\nX-Request-Id: "), "beside"));
	if (want.n == 0)
		buf_add_str(&want, a.body);
	assert(str_eq(a.body, buf_str(&want)));
	hang_up(&c);
}

static int lowest_free_file(void)
{
	int fd = dup(0);
	close(fd);
	return fd;
}

static void check_rest(void)
{
	for (int i = 0; i < 2; i++) {
		now_us += 140 * SECOND;
		settle();
	}
	for (int i = 0; i < N_SERVERS; i++) {
		const struct http *h = servers[i];
		assert(h->n_socks == 0 && TAILQ_EMPTY(&h->socks) && LIST_EMPTY(&h->conns));
		assert(h->n_active == 0 && h->body_bytes == 0 && h->n_slow == 0);
	}
	assert(sched_is_idle(sched) && engine_pages_free(engine) == N_PAGES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!sched)
		open_servers();
	if (n < 3)
		return 0;
	enum server i = data[0] % N_SERVERS;
	enum how how = data[1] % N_HOW;
	bool is_tls = i == TLS && how != HEAR_RAW;
	const char *p = (const char *)data + 2;
	size_t left = n - 2, step = MAX(data[0] / N_SERVERS + 1u, left / MAX_CUTS);
	step = data[0] >= 240 ? left : step;
	int file = lowest_free_file();
	struct client c;
	dial(&c, i, is_tls);
	for (bool is_half = false; left > 0;) {
		size_t piece = MIN(step, left);
		say(&c, p, piece);
		p += piece;
		left -= piece;
		if (!is_half && left < n / 2) {
			is_half = true;
			check_neighbour(i);
		}
	}
	if (how == HALF_CLOSE)
		shutdown(c.fd, SHUT_WR);
	if (how == LATE)
		now_us += 70 * SECOND;
	if (how != RESET)
		hear(&c);
	bool has_no_body = memmem(data, n, "HEAD", 4); /* then lengths say nothing */
	if (!has_no_body && !(i == TLS && !is_tls))
		/* Who has not read for so long is dropped. And a TLS session that the client ends
		 * without a goodbye is over for both: GnuTLS sends no more of a long answer. */
		check_answers(buf_str(&c.got), how == RESET || how == LATE ||
					       (is_tls && how == HALF_CLOSE));
	hang_up(&c);
	check_rest();
	check_neighbour(i);
	assert(lowest_free_file() == file);
	return 0;
}
