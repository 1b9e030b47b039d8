/* SPDX-License-Identifier: Apache-2.0
 *
 * Which addresses the settings allow, and which of them are of the internet. Fetching itself is
 * in tests/http/test_image_fetch.py.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fetch/fetch_address.h"
#include "fetch/fetch.h"
#include "tests/tap.h"

static void test_addresses(void)
{
	/* First and last ones of the ranges of RFC 6890, and their neighbours. */
	static const struct {
		const char *text;
		bool is_public;
	} rows[] = {
		{"0.0.0.0", 0},		{"0.255.255.255", 0},	{"1.0.0.0", 1},
		{"9.255.255.255", 1},	{"10.0.0.0", 0},	{"10.255.255.255", 0},
		{"11.0.0.0", 1},	{"100.63.255.255", 1},	{"100.64.0.0", 0},
		{"100.127.255.255", 0}, {"100.128.0.0", 1},	{"126.255.255.255", 1},
		{"127.0.0.1", 0},	{"127.255.255.255", 0}, {"128.0.0.0", 1},
		{"169.253.255.255", 1}, {"169.254.169.254", 0}, {"169.255.0.0", 1},
		{"172.15.255.255", 1},	{"172.16.0.0", 0},	{"172.31.255.255", 0},
		{"172.32.0.0", 1},	{"192.0.0.1", 0},	{"192.0.1.0", 1},
		{"192.0.2.1", 0},	{"192.88.99.1", 0},	{"192.167.255.255", 1},
		{"192.168.0.1", 0},	{"192.169.0.0", 1},	{"198.17.255.255", 1},
		{"198.18.0.0", 0},	{"198.19.255.255", 0},	{"198.20.0.0", 1},
		{"198.51.100.7", 0},	{"203.0.113.7", 0},	{"223.255.255.255", 1},
		{"224.0.0.1", 0},	{"255.255.255.255", 0}, {"::", 0},
		{"::1", 0},		{"::10.0.0.1", 0},	{"::ffff:127.0.0.1", 0},
		{"::ffff:8.8.8.8", 1},	{"64:ff9b::10.0.0.1", 0}, {"64:ff9b::8.8.8.8", 1},
		{"64:ff9b:1::1", 0},	{"100::1", 0},		{"1fff::1", 0},
		{"2000::1", 1},		{"2001::1", 0},		{"2001:1ff::1", 0},
		{"2001:200::1", 1},	{"2001:db8::1", 0},	{"2002:a00:1::1", 0},
		{"2002:808:808::1", 1}, {"2600::1", 1},		{"3fff::1", 1},
		{"4000::1", 0},		{"fc00::1", 0},		{"fdff::1", 0},
		{"fe80::1", 0},		{"fec0::1", 0},		{"ff02::1", 0},
		{"[::1]", 0},
	};
	struct fetch_address a, b;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		ok(fetch_address_parse(rows[i].text, &a), "%s is an address", rows[i].text);
		is_int(fetch_address_is_public(&a), rows[i].is_public, "%s is public: %d",
		       rows[i].text, rows[i].is_public);
	}
	for (const char *const *s = (const char *const[]){"", "127.1", "localhost", "[1.2.3.4]",
							  "::1%lo", "1.2.3.4.5", NULL}; *s; s++)
		ok(!fetch_address_parse(*s, &a), "\"%s\" is none", *s);
	struct sockaddr_in v4 = {.sin_family = AF_INET};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr other = {.sa_family = AF_UNIX};
	inet_pton(AF_INET, "192.168.1.5", &v4.sin_addr);
	inet_pton(AF_INET6, "::ffff:192.168.1.5", &v6.sin6_addr);
	ok(fetch_address_of((struct sockaddr *)&v4, &a) &&
		   fetch_address_of((struct sockaddr *)&v6, &b) && fetch_address_eq(&a, &b),
	   "an address of IPv4 inside of IPv6 is the same one");
	ok(!fetch_address_of(&other, &a), "a unix socket has none");
}

static struct fetch *make(const char *const *from, int n, const char *dir, struct fail *fail)
{
	struct fetch *f = NULL;
	const struct fetch_opts o = {.from = from, .n_from = n, .dir = dir,
				     .timeout_us = 1000000, .max_bytes = {100, 50}};
	return fetch_create(&o, &f, fail) == OK ? f : NULL;
}

static void test_allowed(void)
{
	static const char *const from[] = {"https://Img.example/a/b", "http://127.0.0.1:8099",
					   "https://cdn.example:8443/x/"};
	static const struct {
		const char *url;
		bool is_allowed;
	} rows[] = {
		{"https://img.example/a/b", 1},
		{"https://IMG.EXAMPLE/a/b?size=2", 1},
		{"https://img.example:443/a/b/c.png", 1},
		{"https://img.example/a/bc", 0},
		{"https://img.example/a", 0},
		{"https://img.example/a/b/../c", 0},
		{"https://img.example/a/b/%2e%2e/c", 0},
		{"https://img.example/a/b/..%2Fc", 0},
		{"https://img.example/a/b/..%5cc", 0},
		{"https://img.example/x/../a/b/c", 1},
		{"http://img.example/a/b", 0},
		{"https://img.example:444/a/b", 0},
		{"https://img.example.evil.example/a/b", 0},
		{"https://evil.example/https://img.example/a/b", 0},
		{"https://img.example@evil.example/a/b", 0},
		{"https://user:word@img.example/a/b", 0},
		{"https://evil.example\\@img.example/a/b", 0},
		{"https://img.example /a/b", 0},
		{"https://img.example/a/b\n", 0},
		{"http://127.0.0.1:8099/any", 1},
		{"http://127.1:8099/any", 1},
		{"http://0x7f000001:8099/any", 1},
		{"http://127.0.0.1/any", 0},
		{"http://localhost:8099/any", 0},
		{"https://cdn.example:8443/x/1.png", 1},
		{"https://cdn.example:8443/x", 0},
		{"ftp://img.example/a/b", 0},
		{"file:///etc/passwd", 0},
		{"gopher://127.0.0.1:8099/", 0},
		{"//img.example/a/b", 0},
		{"img.example/a/b", 0},
		{"", 0},
	};
	struct fail fail = {0};
	struct fetch *f = make(from, ARRAY_LEN(from), NULL, &fail);
	ok(f, "the settings are read: %s", fail.text);
	for (size_t i = 0; f && i < ARRAY_LEN(rows); i++)
		is_int(fetch_allows(f, str_of(rows[i].url)), rows[i].is_allowed,
		       "\"%s\" is allowed: %d", rows[i].url, rows[i].is_allowed);
	fetch_destroy(f);
	static const char *const any[] = {"https://"};
	f = make(any, 1, NULL, &fail);
	ok(f && fetch_allows(f, STR("https://h/x")) && !fetch_allows(f, STR("http://h/x")) &&
		   !fetch_allows(f, STR("file:///x")), "any host by https");
	fetch_destroy(f);
}

static void test_wrong_settings(void)
{
	static const char *const wrong[] = {"example.org", "ftp://example.org/", "https://a/?b",
					    "https://*.example.org/", "https://u@h/", "*", ""};
	struct fail fail = {0};
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		fail = (struct fail){0};
		ok(!make(&wrong[i], 1, NULL, &fail) && fail.code == E_CONFIG &&
			   strstr(fail.text, "image_urls"), "\"%s\" is refused: %s", wrong[i],
		   fail.text);
	}
	ok(!make(NULL, 0, "/proc/self/exe", &fail) && fail.code == E_CONFIG, "a file is no folder");
	ok(!make(NULL, 0, "tests", &fail) && strstr(fail.text, "image_dir"), "nor is half a path");
}

static void test_no_socket(void)
{
	static const char *const any[] = {"http://"}, *const listed[] = {"http://", "127.0.0.1"};
	struct fail fail = {0};
	struct buf out = {0};
	/* Nobody listens at port 1: what was refused is told from what was tried. */
	struct fetch *f = make(any, 1, NULL, &fail), *g = make(listed, 2, NULL, &fail);
	struct fetch_ask ask = {STR("http://127.0.0.1:1/x"), fetch_until(f), NULL, FETCH_IMAGE};
	is_int(fetch_get(f, &ask, &out, &fail), E_INVAL, "a private address: %s", fail.text);
	ok(strstr(fail.text, "private address"), "is not asked");
	is_int(fetch_get(g, &ask, &out, &fail), E_INVAL, "a listed one: %s", fail.text);
	ok(!strstr(fail.text, "private address"), "is asked");
	ask.until_us = 0;
	is_int(fetch_get(g, &ask, &out, &fail), E_INVAL, "no time is left: %s", fail.text);
	ok(strstr(fail.text, "image_fetch_timeout"), "which is said");
	fetch_destroy(f);
	fetch_destroy(g);
	buf_deinit(&out);
}

static void write_file(const char *path, size_t n)
{
	FILE *f = fopen(path, "we");
	for (size_t i = 0; f && i < n; i++)
		fputc('x', f);
	if (f)
		fclose(f);
}

static void test_files(void)
{
	char dir[] = "/tmp/halod-fetch-XXXXXX", path[80], url[120];
	struct fail fail = {0};
	struct buf out = {0};
	ok(mkdtemp(dir), "a folder");
	const char *const names[] = {"fits", "long", "out", "in", "pipe", "a b"};
	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		if (i == 0 || i == 5)
			write_file(path, 100);
		else if (i == 1)
			write_file(path, 101);
		else if (i == 4)
			is_int(mkfifo(path, 0600), 0, "a pipe");
		else
			is_int(symlink(i == 2 ? "/etc/passwd" : "fits", path), 0, "a link");
	}
	struct fetch *f = make(NULL, 0, dir, &fail);
	static const struct {
		const char *rest, *words; /* NULL: it is read */
	} rows[] = {{"/fits", NULL},	  {"/in", NULL},	{"/a%20b", NULL},
		    {"/./x/../fits", NULL}, {"/long", "100 bytes"}, {"/out", "leads out"},
		    {"/pipe", "no file"}, {"", "not below"},	{"/", "not below"},
		    {"/none", "No such"}, {"x/fits", "not below"}, {"/../x", "not below"},
		    {"/%2e%2e/x", ""}};
	for (size_t i = 0; f && i < ARRAY_LEN(rows); i++) {
		snprintf(url, sizeof url, "file://%s%s", dir, rows[i].rest);
		struct fetch_ask ask = {str_of(url), 0, NULL, FETCH_IMAGE};
		buf_clear(&out);
		enum status st = fetch_get(f, &ask, &out, &fail);
		is_int(st, rows[i].words ? E_INVAL : OK, "%s: %s", rows[i].rest,
		       st == OK ? "" : fail.text);
		ok(rows[i].words ? strstr(fail.text, rows[i].words) != NULL : out.n == 100,
		   "and is told");
	}
	snprintf(url, sizeof url, "file://%s/fits", dir);
	struct fetch_ask ask = {str_of(url), 0, NULL, FETCH_AUDIO};
	is_int(fetch_get(f, &ask, &out, &fail), E_INVAL, "too long for audio: %s", fail.text);
	ok(strstr(fail.text, "50 bytes (max_audio_bytes)"), "whose bound is another");
	ask = (struct fetch_ask){STR("file:///etc/passwd"), 0, NULL, FETCH_IMAGE};
	is_int(fetch_get(f, &ask, &out, &fail), E_INVAL, "a file elsewhere: %s", fail.text);
	fetch_destroy(f);
	buf_deinit(&out);
	for (int i = 0; i < 6; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

int main(void)
{
	test_addresses();
	test_allowed();
	test_wrong_settings();
	test_no_socket();
	test_files();
	return tap_done();
}
