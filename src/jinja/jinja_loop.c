/* SPDX-License-Identifier: Apache-2.0
 *
 * Iteration and the variable `loop`. Items are fetched one by one, as late as in Jinja.
 * The `if` of a `for` thus sees what the body did before, and loop.last looks one item
 * ahead.
 */
#include "base/utf8.h"
#include "jinja/jinja_ast.h"

bool jiter_init(struct jrt *rt, struct jiter *it, struct jinja_value *src)
{
	*it = (struct jiter){.src = src};
	switch (src->kind) {
	case J_UNDEFINED:
	case J_STRING:
	case J_LIST:
	case J_TUPLE:
	case J_RANGE:
	case J_GENERATOR:
	case J_VIEW:
	case J_DICT:
		return true;
	default:
		return jrt_fail(rt, "'%s' object is not iterable", jval_type(src));
	}
}

static struct jinja_value *next_entry(struct jrt *rt, struct jiter *it,
				      const struct jdict *d, enum jview_what what)
{
	while (it->pos < d->n && !d->entries[it->pos].key)
		it->pos++;
	if (it->pos >= d->n)
		return NULL;
	const struct jentry *e = &d->entries[it->pos++];
	return what == VIEW_KEYS ? e->key : what == VIEW_VALUES ? e->value
					  : jval_pair(rt->arena, e->key, e->value);
}

static struct jinja_value *next_any(struct jrt *rt, struct jiter *it)
{
	struct jinja_value *src = it->src;
	switch (src->kind) {
	case J_LIST:
	case J_TUPLE: return it->pos < src->l.n ? src->l.items[it->pos++] : NULL;
	case J_GENERATOR:
		return src->l.pos < src->l.n ? src->l.items[src->l.pos++] : NULL;
	case J_RANGE:
		return it->pos < src->r.n ? jval_at(rt->arena, src, it->pos++) : NULL;
	case J_DICT: return next_entry(rt, it, &src->d, VIEW_KEYS);
	case J_VIEW: return next_entry(rt, it, &src->view.dict->d, src->view.what);
	case J_STRING: {
		uint32_t c;
		size_t at = it->pos;
		if (at >= src->s.n)
			return NULL;
		it->pos += utf8_decode((struct str){src->s.p + at, src->s.n - at}, &c);
		return jstr_slice(rt, &src->s, at, it->pos);
	}
	default: return NULL; /* iterating over undefined gives no items */
	}
}

struct jinja_value *jiter_next(struct jrt *rt, struct jiter *it)
{
	for (;;) {
		struct jinja_value *v = next_any(rt, it);
		if (!v || !it->filter)
			return v;
		if (!jrt_work(rt, 64))
			return NULL;
		if (jstmt_for_test(rt, it->filter, it->frame, v))
			return v;
		if (jrt_failed(rt))
			return NULL;
	}
}

/* Collects the remaining items in a list. */
static struct jinja_value *collect(struct jrt *rt, struct jiter *it)
{
	struct jinja_value *out = jinja_list(rt->arena), *v;
	while ((v = jiter_next(rt, it))) {
		jval_seq_add(rt->arena, out, v);
		if (!jrt_work(rt, 4) || !jrt_room(rt, 0))
			return NULL;
	}
	return jrt_failed(rt) ? NULL : out;
}

struct jinja_value *jiter_list(struct jrt *rt, struct jinja_value *src)
{
	struct jiter it;
	if (!jiter_init(rt, &it, src))
		return NULL;
	return collect(rt, &it);
}

/* --- loop ---------------------------------------------------------------- */

/* Fetches the next item early and keeps it for the loop. */
static struct jinja_value *peek(struct jrt *rt, struct jloop *loop)
{
	if (!loop->after_known) {
		loop->after = jiter_next(rt, &loop->it);
		loop->after_known = true;
	}
	return loop->after;
}

bool jloop_next(struct jrt *rt, struct jloop *loop)
{
	struct jinja_value *v = peek(rt, loop);
	if (!v)
		return false;
	loop->after_known = false;
	loop->index0++;
	loop->before = loop->current;
	loop->current = v;
	return true;
}

/* If the source has no known length, fetches all items now to count them. */
static bool loop_length(struct jrt *rt, struct jloop *loop)
{
	if (loop->length >= 0)
		return true;
	int64_t n = loop->it.filter ? -1 : jval_len(loop->it.src);
	if (n < 0) {
		struct jinja_value *rest = collect(rt, &loop->it);
		if (!rest)
			return false;
		n = (int64_t)rest->l.n + loop->index0 + 1 +
		    (loop->after_known && loop->after);
		loop->it = (struct jiter){.src = rest};
	}
	loop->length = n;
	return true;
}

static struct jinja_value *from_length(struct jrt *rt, struct jloop *loop, int64_t minus)
{
	return loop_length(rt, loop) ? jinja_int(rt->arena, loop->length - minus) : NULL;
}

struct jinja_value *jloop_attr(struct jrt *rt, struct jinja_value *v, struct str name)
{
	struct jloop *loop = v->loop;
	struct arena *a = rt->arena;
	if (str_is(name, "index0"))
		return jinja_int(a, loop->index0);
	if (str_is(name, "index"))
		return jinja_int(a, loop->index0 + 1);
	if (str_is(name, "first"))
		return jval_bool(loop->index0 == 0);
	if (str_is(name, "last")) {
		bool more = peek(rt, loop);
		return jrt_failed(rt) ? NULL : jval_bool(!more);
	}
	if (str_is(name, "length"))
		return from_length(rt, loop, 0);
	if (str_is(name, "revindex"))
		return from_length(rt, loop, loop->index0);
	if (str_is(name, "revindex0"))
		return from_length(rt, loop, loop->index0 + 1);
	if (str_is(name, "previtem"))
		return loop->index0 > 0 ? loop->before :
		       jrt_undef_hint(rt, "there is no previous item");
	if (str_is(name, "nextitem")) {
		struct jinja_value *next = peek(rt, loop);
		return next || jrt_failed(rt) ? next :
		       jrt_undef_hint(rt, "there is no next item");
	}
	if (str_is(name, "depth0") || str_is(name, "depth"))
		return jinja_int(a, str_is(name, "depth"));
	return NULL;
}

JNATIVE(loop_cycle)
{
	if (args->n_pos == 0)
		return jrt_fail(rt, "no items for cycling given");
	return args->pos[self->loop->index0 % args->n_pos];
}

const struct jbuiltin jloop_methods[] = {
	{"cycle", "*", loop_cycle},
	{NULL, NULL, NULL},
};
