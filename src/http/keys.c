/* SPDX-License-Identifier: Apache-2.0 */
#include "http/keys.h"

#include <gnutls/crypto.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"

#define KEY_BYTES 256
#define MAX_KEYS 4096
#define MAX_FILE_BYTES (2u << 20)

/* What the keys of one name did. It stays when its keys go: a counter never falls. */
struct key_owner {
	char name[KEYS_NAME_BYTES + 1];
	uint64_t n_requests, n_prompt, n_output;
};

struct key {
	LIST_ENTRY(key) link;
	unsigned char secret[KEY_BYTES]; /* padded with zeros, which occur in no key */
	uint64_t id;
	char name[KEYS_NAME_BYTES + 1];
	struct key_owner *owner;
	int n_active;
	bool is_listed; /* the key is in the file now */
};

struct keys {
	char *path;
	LIST_HEAD(key_list, key) list;
	int n;
	struct key_owner owners[KEYS_NAMES + 1]; /* in order of their first key */
	int n_owners;
};

static void set_secret(unsigned char to[KEY_BYTES], struct str s)
{
	memset(to, 0, KEY_BYTES);
	memcpy(to, s.p, s.n);
}

/* A key's number: the same after a restart, since KV pages on disk are found by it, and
 * different from every other key's. */
static uint64_t id_of(const unsigned char secret[KEY_BYTES])
{
	unsigned char digest[32];
	uint64_t id = 0;
	if (gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, KEY_BYTES, digest) != 0)
		random_bytes(digest, sizeof digest);
	memcpy(&id, digest, sizeof id);
	return id ? id : 1;
}

/* No branch and no index depends on the bytes, so the time says nothing about them. */
static bool is_same(const unsigned char *a, const unsigned char *b)
{
	volatile unsigned char diff = 0;
	for (size_t i = 0; i < KEY_BYTES; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static struct key *find_key(const struct key_list *list, const unsigned char *secret)
{
	struct key *key, *found = NULL;
	LIST_FOREACH(key, list, link)
		if (is_same(key->secret, secret))
			found = key; /* no break: the time must not tell the key's place */
	return found;
}

static void free_key(struct key *key)
{
	LIST_REMOVE(key, link);
	explicit_bzero(key, sizeof *key);
	free(key);
}

static void free_list(struct key_list *list)
{
	while (!LIST_EMPTY(list))
		free_key(LIST_FIRST(list));
}

/* --- the file ------------------------------------------------------------------- */

static bool is_visible(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7F)
			return false;
	return true;
}

static struct str keys_trim(struct str s)
{
	while (s.n && is_char_of(s.p[0], " \t\r"))
		s.p++, s.n--;
	while (s.n && is_char_of(s.p[s.n - 1], " \t\r"))
		s.n--;
	return s;
}

/* Quotes would have to be escaped in a label of a metric. */
static bool is_name(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] >= 0x7F || is_char_of(s.p[i], "\"\\"))
			return false;
	return s.n <= KEYS_NAME_BYTES;
}

/* Takes the key off the line's beginning. */
static struct str cut_secret(struct str *io)
{
	struct str s = *io;
	size_t n = 0;
	while (n < s.n && !is_char_of(s.p[n], " \t"))
		n++;
	*io = keys_trim((struct str){s.p + n, s.n - n});
	return (struct str){s.p, n};
}

/* io_last: the newest key of the list; NULL: it is empty. The keys stay in the file's order. */
static enum status add_line(struct key_list *list, struct key **io_last, int *n, struct str s,
			    int line, const char *path, struct fail *fail)
{
	unsigned char secret[KEY_BYTES];
	struct str name = keys_trim(s);
	if (name.n == 0 || name.p[0] == '#')
		return OK;
	s = cut_secret(&name);
	if (s.n > KEY_BYTES || !is_visible(s))
		return fail_set(fail, E_CONFIG,
				"%s:%d: a key has 1 to %d visible ASCII characters",
				path, line, KEY_BYTES);
	if (!is_name(name))
		return fail_set(fail, E_CONFIG,
				"%s:%d: the name behind a key has at most %d ASCII characters, "
				"and no quote or backslash", path, line, KEYS_NAME_BYTES);
	set_secret(secret, s);
	const struct key *known = find_key(list, secret);
	if (known && !str_eq(str_of(known->name), name)) {
		explicit_bzero(secret, sizeof secret);
		return fail_set(fail, E_CONFIG, "%s:%d: this key has another name above", path,
				line);
	}
	if (!known) {
		if (*n == MAX_KEYS)
			return fail_set(fail, E_LIMIT, "%s:%d: more than %d keys",
					path, line, MAX_KEYS);
		struct key *key = xcalloc(1, sizeof *key);
		memcpy(key->secret, secret, KEY_BYTES);
		snprintf(key->name, sizeof key->name, "%.*s", (int)name.n, name.p);
		key->is_listed = true;
		if (*io_last)
			LIST_INSERT_AFTER(*io_last, key, link);
		else
			LIST_INSERT_HEAD(list, key, link);
		*io_last = key;
		++*n;
	}
	explicit_bzero(secret, sizeof secret);
	return OK;
}

/* Adds the keys that can be read. E_CONFIG, with the first fault: not all can, or there is none. */
static enum status read_list(const char *path, struct key_list *list, int *out_n,
			     struct fail *fail)
{
	struct buf b = {0};
	struct fail last;
	struct key *newest = NULL;
	int n = 0, line = 1;
	enum status st = file_read(path, MAX_FILE_BYTES, &b, fail), added = OK;
	for (size_t i = 0; i < b.n && added != E_LIMIT; line++) {
		const char *end = memchr(b.p + i, '\n', b.n - i);
		size_t len = end ? (size_t)(end - b.p) - i : b.n - i;
		added = add_line(list, &newest, &n, (struct str){b.p + i, len}, line, path,
				 &last);
		if (added != OK && st == OK) {
			st = added;
			*fail = last;
		}
		i += len + 1;
	}
	if (st == OK && n == 0)
		st = fail_set(fail, E_CONFIG, "%s: holds no API key", path);
	if (b.p)
		explicit_bzero(b.p, b.n);
	buf_deinit(&b);
	*out_n = n;
	if (st != OK) /* also when the file is missing: it is a wrong setting */
		st = fail->code = E_CONFIG;
	return st;
}

/* --- names ---------------------------------------------------------------------- */

static struct key_owner *find_owner(struct keys *k, const char *name)
{
	for (int i = 0; i < k->n_owners; i++)
		if (strcmp(k->owners[i].name, name) == 0)
			return &k->owners[i];
	return NULL;
}

/* All names that come too late share one owner, which may be there already: a metric must not
 * have one label twice. */
static struct key_owner *owner_of(struct keys *k, const char *name)
{
	name = *name ? name : "unnamed";
	struct key_owner *o = find_owner(k, name);
	if (!o && k->n_owners >= KEYS_NAMES) {
		name = "other";
		o = find_owner(k, name);
	}
	if (o)
		return o;
	o = &k->owners[k->n_owners++];
	snprintf(o->name, sizeof o->name, "%s", name);
	return o;
}

const char *keys_name(const struct key *key)
{
	return *key->name ? key->name : "unnamed";
}

void keys_count_request(struct key *key, int n_prompt, int n_output)
{
	key->owner->n_requests++;
	key->owner->n_prompt += (uint64_t)n_prompt;
	key->owner->n_output += (uint64_t)n_output;
}

void keys_format(const struct keys *k, struct buf *out)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} rows[] = {
		{"key_requests_total", "Requests that ended, by the name of their API key.",
		 offsetof(struct key_owner, n_requests)},
		{"key_prompt_tokens_total", "Their prompt tokens.",
		 offsetof(struct key_owner, n_prompt)},
		{"key_generation_tokens_total", "Their output tokens.",
		 offsetof(struct key_owner, n_output)},
	};
	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		buf_addf(out, "# HELP halod_%s %s\n# TYPE halod_%s counter\n", rows[r].name,
			 rows[r].help, rows[r].name);
		for (int i = 0; i < k->n_owners; i++) {
			uint64_t v;
			memcpy(&v, (const char *)&k->owners[i] + rows[r].at, sizeof v);
			buf_addf(out, "halod_%s{key=\"%s\"} %llu\n", rows[r].name,
				 k->owners[i].name, (unsigned long long)v);
		}
	}
}

/* --- life ----------------------------------------------------------------------- */

enum status keys_reload(struct keys *k, bool *out_has_changed, struct fail *fail)
{
	bool has_new = false;
	int n_before = k->n;
	struct key_list fresh = LIST_HEAD_INITIALIZER(fresh);
	struct key *key, *next, *old;
	enum status st = read_list(k->path, &fresh, &k->n, fail);
	/* A key that stays in the file keeps its count. A removed key is freed when its
	 * last request ends. */
	LIST_FOREACH(key, &k->list, link)
		key->is_listed = false;
	for (key = LIST_FIRST(&fresh); key; key = next) {
		next = LIST_NEXT(key, link);
		old = find_key(&k->list, key->secret);
		if (old) {
			old->is_listed = true;
			has_new |= strcmp(old->name, key->name) != 0;
			memcpy(old->name, key->name, sizeof old->name);
			old->owner = owner_of(k, old->name);
			free_key(key);
		} else {
			LIST_REMOVE(key, link);
			LIST_INSERT_HEAD(&k->list, key, link);
			key->id = id_of(key->secret);
			key->owner = owner_of(k, key->name);
			has_new = true;
		}
	}
	for (key = LIST_FIRST(&k->list); key; key = next) {
		next = LIST_NEXT(key, link);
		if (!key->is_listed && key->n_active == 0)
			free_key(key);
	}
	*out_has_changed = has_new || k->n != n_before;
	return st;
}

enum status keys_create(const char *path, struct keys **out, struct fail *fail)
{
	struct keys *k = xcalloc(1, sizeof *k);
	k->path = xstrdup(path);
	LIST_INIT(&k->list);
	bool has_changed;
	enum status st = keys_reload(k, &has_changed, fail);
	if (st == OK)
		*out = k;
	else
		keys_destroy(k);
	return st;
}

void keys_destroy(struct keys *k)
{
	if (!k)
		return;
	free_list(&k->list);
	free(k->path);
	free(k);
}

int keys_count(const struct keys *k) { return k->n; }
uint64_t keys_id(const struct key *key) { return key->id; }

/* --- use ------------------------------------------------------------------------ */

struct key *keys_find(struct keys *k, struct str secret)
{
	unsigned char padded[KEY_BYTES];
	if (secret.n == 0 || secret.n > KEY_BYTES || !is_visible(secret))
		return NULL;
	set_secret(padded, secret);
	struct key *key = find_key(&k->list, padded);
	explicit_bzero(padded, sizeof padded);
	return key && key->is_listed ? key : NULL;
}

bool keys_take(struct key *key, int max)
{
	if (max > 0 && key->n_active >= max)
		return false;
	key->n_active++;
	return true;
}

void keys_release(struct key *key)
{
	key->n_active--;
	if (!key->is_listed && key->n_active == 0)
		free_key(key);
}
