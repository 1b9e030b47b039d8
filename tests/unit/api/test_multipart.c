/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms with files: what clients send is taken apart to the byte, and what two readers could
 * read differently is refused with a sentence.
 */
#include "api/multipart.h"

#include "api/peek.h"
#include "base/alloc.h"
#include "tests/tap.h"

#define TYPE "multipart/form-data; boundary=xYx"
#define FILE_HEAD "Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n"
#define PURPOSE "--xYx\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
#define WHOLE PURPOSE "--xYx\r\n" FILE_HEAD "Content-Type: text/plain\r\n\r\n{}\r\n\r\n--xYx--\r\n"
#define NAMED(head) "--xYx\r\n" head "\r\n\r\nv\r\n--xYx--"
#define DISPOSITION "Content-Disposition: form-data; "

static struct multipart form;
static struct fail fail;

static enum status read_form(const char *type, struct str body)
{
	fail = (struct fail){0};
	return multipart_read(str_of(type), body, &form, &fail);
}

static void test_whole(void)
{
	is_int(read_form(TYPE, STR(WHOLE)), OK, "a form is read");
	is_int(form.n, 2, "it has two parts");
	const struct multipart_part *purpose = multipart_find(&form, "purpose", NULL);
	const struct multipart_part *file = multipart_find(&form, "file", NULL);
	ok(purpose && str_is(purpose->content, "batch") && !purpose->is_file, "a field");
	ok(file && file->is_file && str_is(file->filename, "a.jsonl"), "a file, its name");
	ok(file && str_is(file->type, "text/plain"), "its type");
	ok(file && str_is(file->content, "{}\r\n"), "its bytes, a line's end among them");
	ok(!multipart_find(&form, "file", file), "there is no second one");
	ok(!multipart_find(&form, "files", NULL), "nor one of another name");
}

static const struct {
	const char *what, *type;
	struct str body;
	enum status want;
	const char *name, *content; /* of the first part */
} rows[] = {
#define ROW(what, type, text, name, value) {what, type, {text, sizeof(text) - 1}, OK, name, value}
#define BAD(what, type, text, want) {what, type, {text, sizeof(text) - 1}, want, NULL, NULL}
	ROW("a quoted boundary", "Multipart/Form-Data; charset=x; boundary=\"xYx\"",
	    NAMED(DISPOSITION "name=a"), "a", "v"),
	ROW("headers in any case, blanks around", TYPE,
	    NAMED("content-disposition:  FORM-DATA ;  NAME = \"a b\" "), "a b", "v"),
	ROW("other headers", TYPE, NAMED("X: y\r\n" DISPOSITION "name=a; size=3"), "a", "v"),
	ROW("a quote within a name", TYPE, NAMED(DISPOSITION "name=\"a\\\"b\""), "a\\\"b", "v"),
	ROW("a backslash at its end", TYPE, NAMED(DISPOSITION "filename=\"C:\\\\\"; name=a"),
	    "a", "v"),
	ROW("an empty value", TYPE,
	    "--xYx\r\n" DISPOSITION "name=a\r\n\r\n\r\n--xYx--", "a", ""),
	ROW("a line's end before it", TYPE, "\r\n" NAMED(DISPOSITION "name=a"), "a", "v"),
	ROW("blanks behind a boundary", TYPE,
	    "--xYx \t\r\n" DISPOSITION "name=a\r\n\r\nv\r\n--xYx--", "a", "v"),
	ROW("a value that begins like the boundary", TYPE,
	    "--xYx\r\n" DISPOSITION "name=a\r\n\r\n\r\n--xYxx\r\n--xYx--", "a", "\r\n--xYxx"),
	ROW("a value that begins like the end", TYPE,
	    "--xYx\r\n" DISPOSITION "name=a\r\n\r\n\r\n--xYx--x\r\n--xYx--", "a", "\r\n--xYx--x"),
	ROW("blanks behind the end", TYPE, NAMED(DISPOSITION "name=a") " \t", "a", "v"),
	ROW("text behind the end", TYPE, NAMED(DISPOSITION "name=a") "\r\n--xYx\r\n", "a", "v"),
	ROW("the binary encoding", TYPE,
	    NAMED("Content-Transfer-Encoding: binary\r\n" DISPOSITION "name=a"), "a", "v"),
	BAD("JSON", "application/json", "{}", E_MEDIA_TYPE),
	BAD("no type", "", WHOLE, E_MEDIA_TYPE),
	BAD("another multipart", "multipart/mixed; boundary=xYx", WHOLE, E_MEDIA_TYPE),
	BAD("no boundary", "multipart/form-data", WHOLE, E_MEDIA_TYPE),
	BAD("an empty boundary", "multipart/form-data; boundary=", WHOLE, E_MEDIA_TYPE),
	BAD("a boundary without its quote", "multipart/form-data; boundary=\"xYx", WHOLE,
	    E_MEDIA_TYPE),
	BAD("a boundary of 71 characters", "multipart/form-data; boundary="
	    "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggg1", WHOLE,
	    E_MEDIA_TYPE),
	BAD("two boundaries", TYPE "; boundary=b", WHOLE, E_MEDIA_TYPE),
	BAD("a header of two lines", TYPE, NAMED(DISPOSITION "name=a;\r\n filename=b"), E_INVAL),
	BAD("a header without a colon", TYPE, NAMED("X\r\n" DISPOSITION "name=a"), E_INVAL),
	BAD("an empty body", TYPE, "", E_INVAL),
	BAD("text before the boundary", TYPE, "x\r\n" WHOLE, E_INVAL),
	BAD("another boundary", TYPE,
	    "--xYz\r\n" DISPOSITION "name=a\r\n\r\nv\r\n--xYz--", E_INVAL),
	BAD("a part that is cut off", TYPE,
	    "--xYx\r\n" DISPOSITION "name=a\r\n\r\nv\r\n--xY", E_INVAL),
	BAD("headers that are cut off", TYPE, "--xYx\r\n" DISPOSITION "name=a\r\n", E_INVAL),
	BAD("bare line feeds", TYPE, "--xYx\n" DISPOSITION "name=a\n\nv\n--xYx--", E_INVAL),
	BAD("no disposition", TYPE, NAMED("Content-Type: text/plain"), E_INVAL),
	BAD("two dispositions", TYPE,
	    NAMED(DISPOSITION "name=a\r\n" DISPOSITION "name=b"), E_INVAL),
	BAD("two names", TYPE, NAMED(DISPOSITION "name=a; name=b"), E_INVAL),
	BAD("two file names", TYPE, NAMED(DISPOSITION "name=a; filename=b; filename=c"), E_INVAL),
	BAD("no name", TYPE, NAMED(DISPOSITION "filename=a"), E_INVAL),
	BAD("an empty name", TYPE, NAMED(DISPOSITION "name=\"\""), E_INVAL),
	BAD("a name without its quote", TYPE, NAMED(DISPOSITION "name=\"a"), E_INVAL),
	BAD("text behind a quote", TYPE, NAMED(DISPOSITION "name=\"a\"b"), E_INVAL),
	BAD("an attachment", TYPE, NAMED("Content-Disposition: attachment; name=a"), E_INVAL),
	BAD("base64", TYPE, NAMED("Content-Transfer-Encoding: base64\r\n" DISPOSITION "name=a"),
	    E_INVAL),
#undef ROW
#undef BAD
};

static void test_rows(void)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		enum status st = read_form(rows[i].type, rows[i].body);
		is_int(st, rows[i].want, "%s", rows[i].what);
		if (rows[i].want != OK)
			ok(fail.text[0], "%s: %s", rows[i].what, fail.text);
		else
			ok(st == OK && str_is(form.parts[0].name, rows[i].name) &&
				   str_is(form.parts[0].content, rows[i].content),
			   "%s: name and value", rows[i].what);
	}
}

static void test_filename(void)
{
	static const char *const heads[] = {
		"filename*=utf-8''na%c3%afve.wav",
		"filename*=utf-8''x; filename=\"na%c3%afve.wav\"",
		"filename=\"na%c3%afve.wav\"; filename*=utf-8''x"};
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		char text[200];
		snprintf(text, sizeof text, NAMED(DISPOSITION "name=file; %s"), heads[i]);
		ok(read_form(TYPE, str_of(text)) == OK && form.parts[0].is_file &&
			   str_is(form.parts[0].filename, "na%c3%afve.wav"), "%s", heads[i]);
	}
}

static void test_limits(void)
{
	struct buf b = {0};
	for (int i = 0; i < MULTIPART_PARTS; i++)
		buf_add_z(&b, "--xYx\r\n" DISPOSITION "name=a\r\n\r\nv\r\n");
	size_t n = b.n;
	buf_add_z(&b, "--xYx--");
	is_int(read_form(TYPE, buf_str(&b)), OK, "%d parts", MULTIPART_PARTS);
	b.n = n;
	buf_add_z(&b, PURPOSE "--xYx--");
	is_int(read_form(TYPE, buf_str(&b)), E_LIMIT, "one more: %s", fail.text);
	buf_clear(&b);
	buf_add_z(&b, "--xYx\r\nX: ");
	for (int i = 0; i < MULTIPART_HEAD; i++)
		buf_add_c(&b, 'x');
	buf_add_z(&b, "\r\n" DISPOSITION "name=a\r\n\r\nv\r\n--xYx--");
	is_int(read_form(TYPE, buf_str(&b)), E_INVAL, "%s", fail.text);
	buf_deinit(&b);
}

/* Texts have a bound; the file has none of its own. */
static void test_long_parts(void)
{
	static const char *const heads[] = {FILE_HEAD, DISPOSITION "name=file\r\n",
					    DISPOSITION "name=a\r\n",
					    DISPOSITION "name=a; filename=b\r\n",
					    DISPOSITION "name=\xff\r\n"};
	for (size_t i = 0; i < 2 * ARRAY_LEN(heads); i++) {
		struct buf b = {0};
		bool is_over = i % 2;
		buf_addf(&b, "--xYx\r\n%s\r\n", heads[i / 2]);
		for (int k = 0; k < MULTIPART_TEXT + is_over; k++)
			buf_add_c(&b, 'x');
		buf_add_z(&b, "\r\n--xYx--");
		enum status st = read_form(TYPE, buf_str(&b));
		bool is_refused = is_over && i / 2 >= 2;
		ok((st != OK) == is_refused && (!is_refused || strstr(fail.text, "64 KB")),
		   "%zu: %s", i, fail.text);
		if (is_refused && i / 2 < 4)
			is_str(fail.param, "a", "which is named");
		buf_deinit(&b);
	}
}

static void add_long(struct buf *b, const char *name)
{
	buf_addf(b, "--xYx\r\n" DISPOSITION "name=%s\r\n\r\n", name);
	for (int i = 0; i < MULTIPART_TEXT; i++)
		buf_add_c(b, "\r\n--xY"[i % 6]);
	buf_add_z(b, "\r\n");
}

/* The model is found wherever it stands in a long form, and before a fault. */
static void test_peek(void)
{
	static const struct {
		const char *what, *parts, *want; /* F: a long file; m: the field; a: another */
	} forms[] = {
		{"alone", "m", "v"}, {"before the file", "amF", "v"}, {"behind it", "Fma", "v"},
		{"between two files", "FmF", "v"}, {"nowhere", "FaF", ""}, {"no part", "", ""},
		{"where the end is missing", "Fm-", ""}, {"before a missing end", "Fma-", "v"},
		{"twice", "mFm", "v"},
	};
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct buf b = {0};
		struct peek peek;
		for (const char *p = forms[i].parts; *p && *p != '-'; p++)
			if (*p == 'F')
				add_long(&b, "file");
			else
				buf_addf(&b, "--xYx\r\n" DISPOSITION "name=%s\r\n\r\nv\r\n",
					 *p == 'm' ? "model" : "a");
		if (!strchr(forms[i].parts, '-'))
			buf_add_z(&b, "--xYx--\r\n");
		peek_form(STR(TYPE), buf_str(&b), &peek);
		ok(str_is(buf_str(&peek.model), forms[i].want), "%s: %.*s", forms[i].what,
		   (int)peek.model.n, peek.model.p);
		peek_deinit(&peek);
		buf_deinit(&b);
	}
	struct peek none;
	peek_form(STR("text/plain"), STR(WHOLE), &none);
	ok(none.model.n == 0, "no form");
	peek_deinit(&none);
}

int main(void)
{
	test_whole();
	test_peek();
	test_rows();
	test_filename();
	test_limits();
	test_long_parts();
	return tap_done();
}
