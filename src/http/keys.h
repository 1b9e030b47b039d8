/* SPDX-License-Identifier: Apache-2.0
 *
 * API keys from a file, and how many requests each has in flight. Thread: io.
 *
 * One key a line, 1 to 256 visible ASCII characters, and behind it the name of its owner, which
 * several keys may share. Blank lines and lines that begin with # are left out. A key is
 * compared with all others in time that depends on their number only.
 */
#pragma once
#include "base/buf.h"

enum { KEYS_NAMES = 100, KEYS_NAME_BYTES = 64 };

struct keys;
struct key;

/* E_CONFIG with path:line. A file without a key is refused: it would let no client in.
 * Error texts never hold a key. fail must not be NULL, here and below. */
enum status keys_create(const char *path, struct keys **out,
			struct fail *fail) MUST_USE;
void keys_destroy(struct keys *k); /* when no key is held; NULL is fine */
/* Reads the file again. Then exactly the keys that can be read from it are valid, none if it is
 * empty, missing or cannot be read. A removed key admits no new request; requests that hold it
 * go on. *out_has_changed: a key was added or removed, or has another name. E_CONFIG: the file
 * has a fault. */
enum status keys_reload(struct keys *k, bool *out_has_changed,
			struct fail *fail) MUST_USE;
int keys_count(const struct keys *k);

/* NULL: there is no such key. */
struct key *keys_find(struct keys *k, struct str secret);
/* Counts a request under a key. False: the key already has max in flight (max 0: no bound). */
bool keys_take(struct key *key, int max) MUST_USE;
void keys_release(struct key *key);
/* The name behind the key in the file, at most KEYS_NAME_BYTES; "unnamed" if there is none. */
const char *keys_name(const struct key *key);
/* Counts a request that has ended, and its tokens, under the key's name. */
void keys_count_request(struct key *key, int n_prompt, int n_output);
/* Appends what was counted as metrics, a label for each name. Names beyond the first
 * KEYS_NAMES count as "other". */
void keys_format(const struct keys *k, struct buf *out);
/* A number that names the key. It stays the same over restarts, no two keys share it, and
 * it is never 0. */
uint64_t keys_id(const struct key *key);
