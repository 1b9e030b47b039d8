/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict where two readers could disagree: nothing stands before the first boundary, lines
 * end in CR LF, and a part says its name once. The search for boundaries is linear.
 */
#include "api/multipart.h"

#include <strings.h>

#include "base/utf8.h"

#define MAX_BOUNDARY 70

/* --- headers: NAME: VALUE; KEY=VALUE; KEY="VALUE" ---------------------------------- */

static bool is_word(struct str s, const char *word)
{
	return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static struct str skip(struct str s, size_t n)
{
	return (struct str){s.p + n, s.n - n};
}

static struct str trim(struct str s)
{
	while (s.n && is_char_of(s.p[0], " \t"))
		s = skip(s, 1);
	while (s.n && is_char_of(s.p[s.n - 1], " \t"))
		s.n--;
	return s;
}

/* Takes the text up to the character, or all of it, and the character itself off *io. */
static struct str take_until(struct str *io, char c)
{
	const char *at = io->n ? memchr(io->p, c, io->n) : NULL;
	struct str front = {io->p, at ? (size_t)(at - io->p) : io->n};
	*io = skip(*io, at ? front.n + 1 : front.n);
	return front;
}

/* Takes a quoted text off *io. Backslashes are left in it. False: it has no end. */
static bool take_quoted(struct str *io, struct str *out)
{
	size_t n = 1;
	while (n < io->n && io->p[n] != '"')
		n += io->p[n] == '\\' ? 2 : 1;
	if (n >= io->n)
		return false;
	*out = (struct str){io->p + 1, n - 1};
	*io = skip(*io, n + 1);
	return true;
}

/* Takes the next KEY=VALUE off *io. False: there is none. *out_is_bad: it is none. */
static bool take_pair(struct str *io, struct str *key, struct str *value, bool *out_is_bad)
{
	*out_is_bad = false;
	*io = trim(*io);
	if (!io->n)
		return false;
	const char *equal = memchr(io->p, '=', io->n);
	*key = (struct str){io->p, equal ? (size_t)(equal - io->p) : io->n};
	*io = skip(*io, equal ? key->n + 1 : key->n);
	*key = trim(*key);
	*io = trim(*io);
	if (io->n && io->p[0] == '"') {
		*out_is_bad = !take_quoted(io, value);
		struct str rest = take_until(io, ';');
		*out_is_bad |= trim(rest).n > 0;
	} else {
		*value = trim(take_until(io, ';'));
	}
	*out_is_bad |= !equal || !key->n;
	return true;
}

static bool is_boundary(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] >= 0x7F)
			return false;
	return s.n > 0 && s.n <= MAX_BOUNDARY && s.p[s.n - 1] != ' ';
}

static enum status find_boundary(struct str type, struct str *out, struct fail *fail)
{
	struct str key, value;
	bool is_bad = false;
	*out = (struct str){"", 0};
	if (!is_word(trim(take_until(&type, ';')), "multipart/form-data"))
		return fail_set(fail, E_MEDIA_TYPE, "a form with a file is expected "
				"(Content-Type: multipart/form-data)");
	while (!is_bad && take_pair(&type, &key, &value, &is_bad))
		if (is_word(key, "boundary")) {
			is_bad |= out->n > 0;
			*out = value;
		}
	if (is_bad || !is_boundary(*out))
		return fail_set(fail, E_MEDIA_TYPE, "the Content-Type of the form has no boundary "
				"of 1 to %d characters", MAX_BOUNDARY);
	return OK;
}

/* --- parts ------------------------------------------------------------------------- */

struct reader {
	struct str left; /* of the body */
	struct multipart *out;
	struct fail *fail;
};

static enum status fail_part(const struct reader *r, const char *what)
{
	return fail_set(r->fail, E_INVAL, "part %d of the form %s", r->out->n + 1, what);
}

/* Is this the line behind a boundary? Then takes it off *io. *out_is_end: it ends the form. */
static bool take_boundary_end(struct str *io, bool *out_is_end)
{
	struct str s = *io;
	*out_is_end = str_starts(s, STR("--"));
	if (*out_is_end)
		s = skip(s, 2);
	while (s.n && is_char_of(s.p[0], " \t"))
		s = skip(s, 1);
	if (*out_is_end && !s.n)
		return true;
	if (!str_starts(s, STR("\r\n")))
		return false;
	*io = skip(s, 2);
	return true;
}

static enum status read_disposition(struct reader *r, struct str value,
				    struct multipart_part *part)
{
	struct str key, text;
	bool is_bad = false, has_filename = false;
	if (part->name.p)
		return fail_part(r, "has two Content-Disposition headers");
	if (!is_word(trim(take_until(&value, ';')), "form-data"))
		return fail_part(r, "has a Content-Disposition other than form-data");
	while (!is_bad && take_pair(&value, &key, &text, &is_bad)) {
		if (is_word(key, "name")) {
			is_bad |= part->name.p != NULL;
			part->name = text;
		} else if (is_word(key, "filename")) {
			is_bad |= has_filename;
			part->filename = text;
			part->is_file = has_filename = true;
		} else if (is_word(key, "filename*")) { /* RFC 5987: some send it alone */
			take_until(&text, '\'');
			take_until(&text, '\'');
			if (!has_filename)
				part->filename = text;
			part->is_file = true;
		}
	}
	if (is_bad)
		return fail_part(r, "has a broken Content-Disposition");
	return part->name.n ? OK : fail_part(r, "has no name");
}

static enum status read_header(struct reader *r, struct str line, struct multipart_part *part)
{
	bool is_folded = is_char_of(line.p[0], " \t");
	if (is_folded || !memchr(line.p, ':', line.n))
		return fail_part(r, is_folded ? "has a header of two lines"
					      : "has a header without a colon");
	struct str name = take_until(&line, ':');
	line = trim(line);
	if (is_word(name, "Content-Disposition"))
		return read_disposition(r, line, part);
	if (is_word(name, "Content-Type"))
		part->type = line;
	if (is_word(name, "Content-Transfer-Encoding") && !is_word(line, "binary") &&
	    !is_word(line, "8bit") && !is_word(line, "7bit"))
		return fail_part(r, "has a Content-Transfer-Encoding: send its bytes as they are");
	return OK;
}

static enum status read_headers(struct reader *r, struct multipart_part *part)
{
	struct str head = {r->left.p, r->left.n < MULTIPART_HEAD ? r->left.n : MULTIPART_HEAD};
	enum status st = OK;
	for (size_t from = 0; st == OK;) {
		ptrdiff_t end = str_find(head, STR("\r\n"), from);
		if (end < 0)
			return fail_part(r, head.n < MULTIPART_HEAD ? "ends in its headers"
							    : "has headers that are too long");
		struct str line = {head.p + from, (size_t)end - from};
		from = (size_t)end + 2;
		if (!line.n) {
			r->left = skip(r->left, from);
			return part->name.p ? OK : fail_part(r, "has no Content-Disposition");
		}
		st = read_header(r, line, part);
	}
	return st;
}

/* The boundary stands at the end of *line, which begins with CR LF and two dashes. */
static enum status read_content(struct reader *r, struct str line,
				struct multipart_part *part, bool *out_is_end)
{
	for (size_t from = 0;;) {
		ptrdiff_t at = str_find(r->left, line, from);
		if (at < 0)
			return fail_part(r, "is not ended by the boundary: the form was cut off");
		struct str behind = skip(r->left, (size_t)at + line.n);
		if (take_boundary_end(&behind, out_is_end)) {
			part->content = (struct str){r->left.p, (size_t)at};
			r->left = behind;
			return OK;
		}
		from = (size_t)at + line.n; /* a longer word that begins like the boundary */
	}
}

static enum status check_length(const struct reader *r, const struct multipart_part *p)
{
	char name[64];
	if (p->content.n <= MULTIPART_TEXT || str_is(p->name, "file"))
		return OK;
	if (p->name.n >= sizeof name || utf8_check(p->name) >= 0)
		return fail_part(r, "is longer than 64 KB, which only `file` may be");
	memcpy(name, p->name.p, p->name.n);
	name[p->name.n] = '\0';
	return fail_at(r->fail, E_LIMIT, name, "`%s` is longer than 64 KB, which only `file` may "
		       "be", name);
}

static enum status read_part(struct reader *r, struct str line, bool *out_is_end)
{
	struct multipart_part part = {.filename = {"", 0}, .type = {"", 0}};
	if (r->out->n == MULTIPART_PARTS)
		return fail_set(r->fail, E_LIMIT, "a form may have %d parts", MULTIPART_PARTS);
	enum status st = read_headers(r, &part);
	if (st == OK)
		st = read_content(r, line, &part, out_is_end);
	if (st == OK)
		st = check_length(r, &part);
	if (st == OK)
		r->out->parts[r->out->n++] = part;
	return st;
}

/* CR LF, two dashes and the boundary, written to text. */
static enum status boundary_line(struct str type, char text[MAX_BOUNDARY + 4], struct str *out,
				 struct fail *fail)
{
	struct str boundary;
	enum status st = find_boundary(type, &boundary, fail);
	if (st != OK)
		return st;
	memcpy(text, "\r\n--", 4);
	memcpy(text + 4, boundary.p, boundary.n);
	*out = (struct str){text, boundary.n + 4};
	return OK;
}

static enum status read_parts(struct reader *r, struct str line)
{
	struct str first = skip(line, 2);
	enum status st = OK;
	bool is_end = false;
	if (str_starts(r->left, STR("\r\n")))
		r->left = skip(r->left, 2);
	if (!str_starts(r->left, first))
		return fail_set(r->fail, E_INVAL, "the form does not begin with its boundary");
	r->left = skip(r->left, first.n);
	if (!take_boundary_end(&r->left, &is_end))
		return fail_set(r->fail, E_INVAL, "the form does not begin with its boundary");
	while (st == OK && !is_end)
		st = read_part(r, line, &is_end);
	return st;
}

enum status multipart_read(struct str type, struct str body, struct multipart *out,
			   struct fail *fail)
{
	char text[MAX_BOUNDARY + 4];
	struct reader r = {.left = body, .out = out, .fail = fail};
	struct str line;
	out->n = 0;
	enum status st = boundary_line(type, text, &line, fail);
	return st == OK ? read_parts(&r, line) : st;
}

const struct multipart_part *multipart_find(const struct multipart *m, const char *name,
					    const struct multipart_part *after)
{
	const struct multipart_part *end = m->parts + m->n;
	for (const struct multipart_part *p = after ? after + 1 : m->parts; p < end; p++)
		if (str_is(p->name, name))
			return p;
	return NULL;
}
