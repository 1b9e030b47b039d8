/* SPDX-License-Identifier: Apache-2.0 */
#include "http/keys.h"

#include <unistd.h>

#include "tests/tap.h"

static char path[] = "/tmp/halod-keys-XXXXXX";

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
}

static bool finds(struct keys *k, const char *secret)
{
	return keys_find(k, str_of(secret)) != NULL;
}

static void test_find(void)
{
	struct keys *k;
	struct fail fail;
	char longest[258];
	memset(longest, 'k', 257);
	longest[257] = '\0';
	FILE *f = fopen(path, "w");
	fprintf(f, "# two users\n\n  sk-one \r\nsk-two\nsk-one\n%.256s", longest);
	fclose(f);
	is_int(keys_create(path, &k, &fail), OK, "a file of keys");
	is_int(keys_count(k), 3, "comments, blank lines and doubles do not count");
	ok(finds(k, "sk-one") && finds(k, "sk-two"), "its keys are found");
	ok(!finds(k, "sk-on") && !finds(k, "sk-one ") && !finds(k, "sk-onf") &&
		   !finds(k, "") && !finds(k, "# two users") && !finds(k, "SK-ONE"),
	   "others are not");
	ok(!finds(k, longest), "nor what is longer than any key");
	longest[256] = '\0';
	ok(finds(k, longest), "the longest there can be");
	ok(!keys_find(k, (struct str){"sk-one\0", 7}), "zeros are no padding");
	keys_destroy(k);
}

static void test_refused(void)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{"", "holds no API key"},
		{"# nothing\n\n", "holds no API key"},
		{"good\nn\xc3\xb6t good\n", ":2: a key has"},
		{"good\nsk-2 say \"hello\"\n", ":2: the name"},
		{"sk-1 1234567890123456789012345678901234567890123456789012345678901234"
		 "5\n", ":1: the name"},
		{"sk-1 Andr\xc3\xa9\n", ":1: the name"},
		{"s\xc3\xa9same\n", ":1: a key has"},
		{"sk-1 Ann\nsk-2 Bob\nsk-1 Bob\n", ":3: this key has another name above"},
		{"sk-1\nsk-1 Ann\n", ":2: this key has another name above"},
	};
	struct keys *k = NULL;
	struct fail fail;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		write_file(rows[i].text);
		ok(keys_create(path, &k, &fail) == E_CONFIG &&
			   strstr(fail.text, rows[i].says) &&
			   !strstr(fail.text, "good") && !k,
		   "refused: %s", rows[i].says);
	}
	is_int(keys_create("/nonexistent/keys", &k, &fail), E_CONFIG, "no file");
}

static void test_reload(void)
{
	struct keys *k;
	struct fail fail;
	bool changed;
	write_file("stays\ngoes\n");
	is_int(keys_create(path, &k, &fail), OK, "two keys");
	struct key *stays = keys_find(k, STR("stays"));
	struct key *goes = keys_find(k, STR("goes"));
	ok(keys_take(stays, 2) && keys_take(stays, 2) && !keys_take(stays, 2),
	   "two requests at a time, not three");
	ok(keys_take(goes, 0) && keys_take(goes, 0), "0 is no bound");
	keys_release(goes);
	write_file("new\nstays\n");
	uint64_t id = keys_id(stays);
	ok(id != 0 && id != keys_id(goes), "each has a number of its own");
	is_int(keys_reload(k, &changed, &fail), OK, "the file has changed");
	ok(changed, "which is told");
	ok(keys_reload(k, &changed, &fail) == OK && !changed, "and not told twice");
	ok(keys_id(stays) == id && keys_id(keys_find(k, STR("new"))) != id,
	   "numbers stay, and new keys get others");
	ok(!finds(k, "goes") && finds(k, "new"), "the new keys hold");
	ok(keys_find(k, STR("stays")) == stays && !keys_take(stays, 2),
	   "one that stays keeps its count");
	keys_release(goes); /* frees it: a leak checker would tell */
	write_file("b\xc3\xa4" "d key\nstays\n");
	ok(keys_reload(k, &changed, &fail) == E_CONFIG && strstr(fail.text, ":1: a key has") &&
		   changed && !finds(k, "new") && finds(k, "stays") && keys_count(k) == 1,
	   "of a file with a bad line the others count");
	write_file("new\nstays\n");
	is_int(keys_reload(k, &changed, &fail), OK, "which is mended");
	write_file("stays\n");
	ok(keys_reload(k, &changed, &fail) == OK && changed, "a key that only goes is told");
	keys_release(stays);
	ok(keys_take(stays, 2), "a request that is over makes room");
	keys_release(stays);
	keys_release(stays);
	keys_destroy(k);
}

/* Prometheus refuses a metric that has one label twice. */
static void test_other(struct str file, const char *what)
{
	struct keys *k;
	struct fail fail;
	struct buf b = {0};
	write_file(file.p);
	is_int(keys_create(path, &k, &fail), OK, "%s", what);
	keys_count_request(keys_find(k, STR("sk-a")), 1, 1);
	keys_count_request(keys_find(k, STR("sk-299")), 1, 1);
	keys_format(k, &b);
	const char *label = "halod_key_requests_total{key=\"other\"} ";
	const char *at = strstr(b.p, label);
	ok(at && strtol(at + strlen(label), NULL, 10) == 2 && !strstr(at + 1, label),
	   "has one label, and all requests under it");
	buf_deinit(&b);
	keys_destroy(k);
}

static void test_names(void)
{
	struct keys *k;
	struct fail fail;
	bool changed;
	struct buf b = {0}, text = {0};
	write_file("sk-1 alice\nsk-2\talice \nsk-3  Bob of sales\r\nsk-4\n");
	is_int(keys_create(path, &k, &fail), OK, "keys with names");
	ok(finds(k, "sk-1") && !finds(k, "sk-1 alice"), "a name is no part of a key");
	is_str(keys_name(keys_find(k, STR("sk-3"))), "Bob of sales", "names may have blanks");
	is_str(keys_name(keys_find(k, STR("sk-4"))), "unnamed", "a key need not have one");
	keys_count_request(keys_find(k, STR("sk-1")), 10, 1);
	keys_count_request(keys_find(k, STR("sk-2")), 5, 2);
	keys_count_request(keys_find(k, STR("sk-4")), 7, 0);
	write_file("sk-2 carol\n");
	ok(keys_reload(k, &changed, &fail) == OK && changed, "a key gets another name");
	keys_count_request(keys_find(k, STR("sk-2")), 1, 1);
	keys_format(k, &b);
	ok(strstr(b.p, "halod_key_requests_total{key=\"alice\"} 2\n") &&
		   strstr(b.p, "halod_key_prompt_tokens_total{key=\"alice\"} 15\n") &&
		   strstr(b.p, "halod_key_generation_tokens_total{key=\"alice\"} 3\n") &&
		   strstr(b.p, "halod_key_prompt_tokens_total{key=\"unnamed\"} 7\n") &&
		   strstr(b.p, "halod_key_requests_total{key=\"carol\"} 1\n"),
	   "requests and tokens count by name, and what was counted stays");
	for (int i = 0; i < 3 * KEYS_NAMES; i++)
		buf_addf(&text, "sk-%d owner%d\n", i, i);
	write_file(text.p);
	is_int(keys_reload(k, &changed, &fail), OK, "more names than metrics may have");
	keys_count_request(keys_find(k, STR("sk-299")), 1, 1);
	buf_clear(&b);
	keys_format(k, &b);
	int n = 0;
	for (const char *at = b.p; (at = strstr(at, "halod_key_requests_total{")); at++)
		n++;
	ok(n == KEYS_NAMES + 1 && strstr(b.p, "halod_key_requests_total{key=\"other\"} 1\n"),
	   "the last of them count as one");
	keys_destroy(k);
	buf_add_z(&text, "sk-a other\n");
	test_other(buf_str(&text), "an owner whose name is other, behind them");
	buf_clear(&b);
	buf_addf(&b, "sk-a other\n%s", text.p);
	test_other(buf_str(&b), "and before them");
	buf_deinit(&b);
	buf_deinit(&text);
}

/* Who empties the file, removes it, or makes it unreadable wants nobody to get in. */
static void test_revoked(void)
{
	static const char *const texts[] = {"", "# all gone\n", "n\xc3\xb6t good\n", NULL};
	struct keys *k;
	struct fail fail;
	bool changed;
	write_file("first\n");
	is_int(keys_create(path, &k, &fail), OK, "one key");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		const char *what = texts[i] ? texts[i] : "no file";
		if (texts[i])
			write_file(texts[i]);
		else
			unlink(path);
		ok(keys_reload(k, &changed, &fail) == E_CONFIG && changed, "\"%s\": told", what);
		ok(!finds(k, "first") && keys_count(k) == 0, "\"%s\": no key is left", what);
		ok(keys_reload(k, &changed, &fail) == E_CONFIG && !changed, "nor again");
		write_file("first\n");
		ok(keys_reload(k, &changed, &fail) == OK && changed && finds(k, "first"),
		   "a file with a key lets clients in again");
	}
	keys_destroy(k);
}

int main(void)
{
	close(mkstemp(path));
	test_find();
	test_refused();
	test_names();
	test_reload();
	test_revoked();
	unlink(path);
	return tap_done();
}
