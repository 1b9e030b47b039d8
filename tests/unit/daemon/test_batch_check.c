/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a batch's file: which are taken, what their bodies are to the digit, and how a file
 * is cut into them.
 */
#include "daemon/batch_check.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/tap.h"

#define CHAT "/v1/chat/completions"
#define HEAD "\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"" CHAT "\""
#define LINE(body) "{" HEAD ",\"body\":" body "}"

static struct fail fail;

static void test_lines(void)
{
	static const struct {
		const char *what, *text, *body; /* NULL: refused */
	} rows[] = {
		{"a body", LINE("{\"a\":1}"), "{\"a\":1}"},
		{"digits beyond a double", LINE("{\"a\":0.12345678901234567890123}"),
		 "{\"a\":0.12345678901234567890123}"},
		{"brackets and quotes in strings", LINE("{\"}\":\"\\\\\\\"}]{\",\"b\":[{}]}"),
		 "{\"}\":\"\\\\\\\"}]{\",\"b\":[{}]}"},
		{"a body within another member",
		 "{\"x\":{\"body\":{\"n\":1}},\"y\":[\"body\",{\"body\":{}}],\"z\":\"body\","
		 HEAD " , \"body\" : {\"n\":2}}",
		 "{\"n\":2}"},
		{"a body that comes first",
		 " {\"body\":{} ," HEAD "}", "{}"},
		{"a body whose name has escapes",
		 "{" HEAD ",\"b\\u006fdy\":{}}", NULL},
		{"a list", LINE("[]"), NULL},
		{"two bodies", LINE("{},\"body\":{}"), NULL},
		{"text behind it", LINE("{}") "x", NULL},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct batch_line l;
		const struct batch_lines at = {.text = str_of(rows[i].text), .line = 1};
		enum status st = batch_check_line(&at, CHAT, &l, &fail);
		ok((st == OK) == (rows[i].body != NULL), "%s", rows[i].what);
		if (st == OK)
			ok(rows[i].body && str_is(l.body, rows[i].body) && str_is(l.custom_id, "a"),
			   "%s: what is read", rows[i].what);
		else
			ok(fail.text[0] && !l.tree, "%s: %s", rows[i].what, fail.text);
		json_decref(l.tree);
	}
}

static int file_of(struct str text)
{
	char path[] = "/tmp/halod-lines-XXXXXX";
	int fd = mkstemp(path);
	unlink(path);
	if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
		exit(1);
	return fd;
}

/* Lines of all lengths around the size of a read, and one that is longer than several. */
static void test_cuts(void)
{
	static const size_t lengths[] = {1, 262143, 262144, 262145, 1000000, 3, 2};
	struct buf text = {0};
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		for (size_t k = 0; k < lengths[i]; k++)
			buf_add_c(&text, (char)('a' + i));
		buf_add_z(&text, i + 1 < ARRAY_LEN(lengths) ? "\n \r\n" : "");
	}
	struct batch_lines l = {.fd = file_of(buf_str(&text)), .max_bytes = 1000000};
	for (int round = 0; round < 2; round++) {
		size_t n = 0;
		batch_lines_rewind(&l);
		while (batch_lines_next(&l)) {
			ok(l.text.n == lengths[n] && l.line == (int)(2 * n + 1) &&
				   l.text.p[0] == (char)('a' + n) &&
				   l.text.p[l.text.n - 1] == (char)('a' + n),
			   "a line of %zu bytes", lengths[n]);
			n++;
		}
		ok(n == ARRAY_LEN(lengths) && !l.why, "these are all");
	}
	l.max_bytes = 999999;
	batch_lines_rewind(&l);
	int n_long = 0, n_all = 0;
	while (batch_lines_next(&l)) {
		n_long += l.is_long && l.text.n == 0 && l.line == 9;
		n_all++;
	}
	ok(n_long == 1 && n_all == (int)ARRAY_LEN(lengths), "one that is too long is passed over");
	struct batch_line line;
	l.is_long = true;
	ok(batch_check_line(&l, CHAT, &line, &fail) == E_TOO_LARGE, "%s", fail.text);
	close(l.fd);
	l.fd = open(".", O_RDONLY);
	batch_lines_rewind(&l);
	ok(!batch_lines_next(&l) && l.why, "a folder has no lines");
	close(l.fd);
	batch_lines_deinit(&l);
	buf_deinit(&text);
}

static void test_file(void)
{
	static atomic_bool is_over;
	struct buf text = {0};
	char *faults;
	int n;
	for (int i = 0; i < 30; i++)
		buf_add_z(&text, LINE("{}") "\n");
	int fd = file_of(buf_str(&text));
	const struct batch_rules rules = {.endpoint = CHAT, .max_lines = 100,
					  .max_bytes = 1000, .is_over = &is_over};
	ok(batch_check_file(fd, &rules, &n, &faults, &fail) == OK, "a file is read");
	ok(faults && strstr(faults, "\"line\":21}]") && !strstr(faults, "\"line\":22"),
	   "the first twenty faults are told: %.60s", faults ? faults : "");
	free(faults);
	is_over = true;
	ok(batch_check_file(fd, &rules, &n, &faults, &fail) == OK && n == 0,
	   "it ends early where the process does");
	close(fd);
	is_over = false;
	fd = open(".", O_RDONLY);
	ok(batch_check_file(fd, &rules, &n, &faults, &fail) == E_IO && !faults, "%s", fail.text);
	close(fd);
	buf_deinit(&text);
}

/* Names that begin with the same letter mean one model, and so do names of none and "a". */
static bool is_one(void *ctx, struct str a, struct str b)
{
	(void)ctx;
	return (a.n ? a.p[0] : 'a') == (b.n ? b.p[0] : 'a');
}

static void test_models(void)
{
	static atomic_bool is_over;
	static const struct {
		const char *model, *body;
		bool is_fault;
	} rows[] = {
		{"b", "{\"model\":\"b\"}", false}, {"b", "{\"model\":\"b-alias\"}", false},
		{"b", "{\"model\":\"c\"}", true},  {"b", "{}", true},
		{"", "{}", false},                   {"", "{\"model\":\"a\"}", false},
		{"", "{\"model\":\"c\"}", true},   {"b", "{\"model\":3}", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct buf text = {0};
		char *faults;
		int n;
		buf_addf(&text, "{" HEAD ",\"body\":%s}\n", rows[i].body);
		int fd = file_of(buf_str(&text));
		const struct batch_rules rules = {CHAT, 100, 1000, &is_over, str_of(rows[i].model),
						  is_one, NULL};
		ok(batch_check_file(fd, &rules, &n, &faults, &fail) == OK &&
			   (faults && strstr(faults, "\"mismatched_model\"")) == rows[i].is_fault,
		   "a batch for \"%s\" and a request with %s: %s", rows[i].model, rows[i].body,
		   faults ? faults : "");
		free(faults);
		close(fd);
		buf_deinit(&text);
	}
}

int main(void)
{
	test_lines();
	test_cuts();
	test_file();
	test_models();
	return tap_done();
}
