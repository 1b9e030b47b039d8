/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures and limits of a rendering, and text with trust marks.
 *
 * Templates often build a prompt of a megabyte from small pieces with `ns.text = ns.text
 * + piece`. Copying the text each time would be quadratic. Therefore a finished string's
 * buffer stays open at its end. The first addition after that goes into the same buffer,
 * and the old and the longer string are views of the same bytes:
 *
 *   bytes   <|im_start|>user\nhello<|im_end|>\n........
 *   marks   T..................U....T...........
 *   old     |------------------------|
 *   new     |------------------------------------|
 *
 * An addition may extend the old string's last mark. Readers therefore stop at the
 * string's own length, not at the end of its last mark.
 */
#include "jinja/jinja_rt.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/utf8.h"

void *jrt_fail(struct jrt *rt, const char *fmt, ...)
{
	if (jrt_failed(rt))
		return NULL;
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fail_set(&rt->fail, E_TEMPLATE, "%s (line %d of the chat template)", text,
		 rt->line);
	return NULL;
}

void *jrt_limit(struct jrt *rt, const char *what)
{
	if (!jrt_failed(rt))
		fail_set(&rt->fail, E_LIMIT,
			 "the chat template %s (line %d of the chat template)", what,
			 rt->line);
	return NULL;
}

static void fail_no_memory(struct jrt *rt)
{
	if (!jrt_failed(rt))
		fail_default(&rt->fail, E_NOMEM);
}

/* Formats the message only here, on real use: templates mostly just ask whether an
 * undefined value is defined. */
void *jrt_undefined(struct jrt *rt, const struct jinja_value *v)
{
	int n = (int)MIN(v->u.name.n, 200);
	const char *p = v->u.name.p;
	switch (v->u.why) {
	case UNDEF_NAME:
		return jrt_fail(rt, "'%.*s' is undefined", n, p);
	case UNDEF_ATTR:
		return jrt_fail(rt, "'%s' has no attribute '%.*s'", v->u.type, n, p);
	case UNDEF_ITEM:
		return jrt_fail(rt, "%s has no element %.*s", v->u.type, n, p);
	case UNDEF_UNSAFE:
		return jrt_fail(rt, "access to attribute '%.*s' of '%s' object is "
				"unsafe", n, p, v->u.type);
	default:
		return jrt_fail(rt, "%.*s", n, p);
	}
}

bool jrt_room(struct jrt *rt, size_t n)
{
	size_t used = rt->arena->n_bytes - rt->mem_base;
	if (used <= rt->mem_max && n <= rt->mem_max - used)
		return true;
	jrt_limit(rt, "needs too much memory");
	return false;
}

bool jrt_work(struct jrt *rt, size_t n)
{
	/* One step pays for 64 elementary operations, because evaluating a node costs
	 * about as much. */
	rt->work += n;
	rt->steps -= (int64_t)(rt->work / 64);
	rt->work %= 64;
	if (rt->steps > 0)
		return true;
	jrt_limit(rt, "takes too many steps");
	return false;
}

bool jrt_enter(struct jrt *rt, int line)
{
	if (line)
		rt->line = line;
	if (--rt->steps <= 0)
		jrt_limit(rt, "takes too many steps");
	else if (rt->depth <= 0)
		jrt_limit(rt, "is nested too deeply");
	else if (jrt_room(rt, 0)) {
		rt->depth--;
		return true;
	}
	return false;
}

struct jinja_value *jrt_undef(struct jrt *rt, int why, const char *type,
			      struct str name)
{
	struct jinja_value *v = jval_new(rt->arena, J_UNDEFINED);
	v->u.why = why;
	v->u.type = type;
	v->u.name = name;
	return v;
}

struct jinja_value *jrt_undef_hint(struct jrt *rt, const char *hint)
{
	return jrt_undef(rt, UNDEF_HINT, NULL, str_of(hint));
}

/* --- text ---------------------------------------------------------------- */

/* Moves the text to new memory of `cap` bytes. */
static bool text_move(struct jtext *t, size_t cap)
{
	char *p = arena_try(t->rt->arena, cap);
	if (!p) {
		t->failed = true;
		fail_no_memory(t->rt);
		return false;
	}
	if (t->n)
		memcpy(p, t->p, t->n);
	t->p = p;
	t->cap = cap;
	return true;
}

struct jtext *jtext_new(struct jrt *rt, size_t cap)
{
	struct jtext *t = arena_alloc(rt->arena, sizeof *t);
	t->rt = rt;
	t->failed = cap > 0 && !jrt_room(rt, cap);
	if (!t->failed && cap)
		text_move(t, cap);
	return t;
}

/* Makes room for n more bytes. Doubling leaves the old buffer unused in the arena until
 * the rendering ends. All old buffers together are no larger than the final one. */
static bool text_reserve(struct jtext *t, size_t n)
{
	if (t->failed)
		return false;
	if (n <= t->cap - t->n)
		return true;
	size_t cap = MAX(t->cap * 2, 32);
	if (n > SIZE_MAX / 4 - t->n)
		cap = SIZE_MAX / 2;
	else if (cap < t->n + n)
		cap = t->n + n;
	if (!jrt_room(t->rt, cap)) {
		t->failed = true;
		return false;
	}
	return text_move(t, cap);
}

/* Marks the n bytes added last with this trust. */
static void text_mark(struct jtext *t, size_t n, enum trust trust)
{
	if (t->n_marks && t->marks[t->n_marks - 1].trust == trust) {
		t->marks[t->n_marks - 1].end += n;
		return;
	}
	if (t->n_marks == t->cap_marks) {
		size_t cap = t->cap_marks ? t->cap_marks * 2 : 2;
		struct mark *marks = arena_alloc(t->rt->arena, cap * sizeof *marks);
		if (t->n_marks)
			memcpy(marks, t->marks, t->n_marks * sizeof *marks);
		t->marks = marks;
		t->cap_marks = cap;
	}
	t->marks[t->n_marks++] = (struct mark){t->n, trust};
}

void jtext_add(struct jtext *t, struct str s, enum trust trust)
{
	if (s.n == 0 || !text_reserve(t, s.n))
		return;
	memcpy(t->p + t->n, s.p, s.n);
	t->n += s.n;
	text_mark(t, s.n, trust);
}

void jtext_addf(struct jtext *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n > 0)
		jtext_add(t, (struct str){text, MIN((size_t)n, sizeof text - 1)},
			  TRUST_TEMPLATE);
}

void jtext_add_cp(struct jtext *t, uint32_t cp, enum trust trust)
{
	char c[4];
	jtext_add(t, (struct str){c, utf8_encode(cp, c)}, trust);
}

/* Index of the first mark that ends after byte `at`. */
static size_t mark_at(const struct jstr *s, size_t at)
{
	size_t lo = 0, hi = s->n_marks - 1;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (s->marks[mid].end > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

enum trust jstr_trust_at(const struct jstr *s, size_t at)
{
	return s->n_marks ? s->marks[mark_at(s, at)].trust : s->trust;
}

void jtext_add_part(struct jtext *t, const struct jstr *s, size_t from, size_t to)
{
	if (from >= to)
		return;
	if (!s->n_marks) {
		jtext_add(t, (struct str){s->p + from, to - from}, s->trust);
		return;
	}
	for (size_t i = mark_at(s, from); from < to; i++) {
		size_t end = MIN(s->marks[i].end, to);
		jtext_add(t, (struct str){s->p + from, end - from},
			  s->marks[i].trust);
		from = end;
	}
}

void jtext_add_jstr(struct jtext *t, const struct jstr *s)
{
	jtext_add_part(t, s, 0, s->n);
}

void jtext_fill(struct jtext *t, struct str s, enum trust trust, size_t times)
{
	if (s.n == 0 || times == 0)
		return;
	if (times > SIZE_MAX / 8 / s.n) {
		t->failed = true;
		jrt_limit(t->rt, "needs too much memory");
		return;
	}
	if (!text_reserve(t, s.n * times))
		return;
	for (size_t i = 0; i < times; i++)
		memcpy(t->p + t->n + i * s.n, s.p, s.n);
	t->n += s.n * times;
	text_mark(t, s.n * times, trust);
}

/* a single mark needs no array, and most strings have one writer */
struct jinja_value *jtext_finish(struct jtext *t)
{
	if (t->failed || jrt_failed(t->rt))
		return NULL;
	if (t->n == 0)
		return &jval_empty;
	return jval_from_jstr(t->rt->arena, (struct jstr){
		.p = t->p, .n = t->n, .trust = t->marks[0].trust, .tail = t,
		.marks = t->n_marks > 1 ? t->marks : NULL,
		.n_marks = t->n_marks > 1 ? (uint32_t)t->n_marks : 0,
	});
}

struct jinja_value *jstr_slice(struct jrt *rt, const struct jstr *s, size_t from,
			       size_t to)
{
	if (from >= to)
		return &jval_empty;
	if (from == 0 && to == s->n)
		return jval_from_jstr(rt->arena, *s);
	struct jstr part = {.p = s->p + from, .n = to - from, .trust = s->trust};
	if (s->n_marks) {
		size_t first = mark_at(s, from), last = mark_at(s, to - 1);
		part.trust = s->marks[first].trust;
		if (last > first) {
			size_t n = last - first + 1;
			struct mark *marks = arena_alloc(rt->arena, n * sizeof *marks);
			for (size_t i = 0; i < n; i++) {
				marks[i] = s->marks[first + i];
				marks[i].end = MIN(marks[i].end, to) - from;
			}
			part.marks = marks;
			part.n_marks = (uint32_t)n;
		}
	}
	return jval_from_jstr(rt->arena, part);
}

struct jinja_value *jstr_concat(struct jrt *rt, const struct jstr *a,
				const struct jstr *b)
{
	if (b->n == 0)
		return jval_from_jstr(rt->arena, *a);
	if (a->n == 0)
		return jval_from_jstr(rt->arena, *b);
	/* If no other string uses the bytes after a, extend a's buffer in place. */
	struct jtext *t = a->tail;
	if (!t || t->failed || t->n != a->n || t->p != a->p) {
		/* A string that was itself concatenated will probably be extended again.
		 * Give it room, so that a loop of n additions takes linear time. */
		t = jtext_new(rt, (a->n + b->n) * (a->tail ? 2 : 1));
		jtext_add_jstr(t, a);
	}
	jtext_add_jstr(t, b);
	return jtext_finish(t);
}
