/* SPDX-License-Identifier: Apache-2.0
 *
 * Equality, order and membership of values, and sorting.
 */
#include <math.h>

#include "base/alloc.h"
#include "jinja/jinja_op.h"

/* --- equality ------------------------------------------------------------ */

struct eq {
	struct jrt *rt;
	int depth; /* levels of nesting that are still permitted */
};

static bool equal_deep(struct eq *q, const struct jinja_value *a,
		       const struct jinja_value *b);

/* Enters one more level of container. False: nested too deeply; the failure is set. */
static bool eq_enter(struct eq *q)
{
	if (q->rt && !jrt_work(q->rt, 8))
		return false;
	if (--q->depth >= 0)
		return true;
	if (q->rt)
		jrt_limit(q->rt, "compares values that are nested too deeply");
	return false;
}

static bool equal_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
	if (jval_is_int(a) && jval_is_int(b))
		return jval_int(a) == jval_int(b);
	/* long double represents every int64 and every double exactly */
	long double x = a->kind == J_FLOAT ? a->f : (long double)jval_int(a);
	long double y = b->kind == J_FLOAT ? b->f : (long double)jval_int(b);
	return x == y;
}

static bool equal_seqs(struct eq *q, const struct jinja_value *a,
		       const struct jinja_value *b)
{
	if (a->l.n != b->l.n || !eq_enter(q))
		return false;
	bool same = true;
	for (size_t i = 0; same && i < a->l.n; i++)
		same = a->l.items[i] == b->l.items[i] ||
		       equal_deep(q, a->l.items[i], b->l.items[i]);
	q->depth++;
	return same;
}

static bool equal_dicts(struct eq *q, const struct jdict *a, const struct jdict *b)
{
	if (a->n_live != b->n_live || !eq_enter(q))
		return false;
	bool same = true;
	for (size_t i = 0; same && i < a->n; i++) {
		const struct jentry *x = &a->entries[i];
		if (!x->key)
			continue;
		const struct jentry *y = jdict_find(b, x->key, x->hash);
		same = y && (x->value == y->value ||
			     equal_deep(q, x->value, y->value));
	}
	q->depth++;
	return same;
}

static bool equal_ranges(const struct jrange *a, const struct jrange *b)
{
	return a->n == b->n && (a->n == 0 || (a->start == b->start &&
			       (a->n == 1 || a->step == b->step)));
}

static bool equal_deep(struct eq *q, const struct jinja_value *a,
		       const struct jinja_value *b)
{
	if (jval_is_num(a) && jval_is_num(b))
		return equal_numbers(a, b);
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case J_UNDEFINED:
	case J_NONE: return true;
	case J_STRING: return str_eq(jval_str(a), jval_str(b));
	case J_LIST:
	case J_TUPLE: return equal_seqs(q, a, b);
	case J_RANGE: return equal_ranges(&a->r, &b->r);
	case J_DICT: return equal_dicts(q, &a->d, &b->d);
	default: return a == b;
	}
}

bool jop_equal(const struct jinja_value *a, const struct jinja_value *b,
	       struct jrt *rt)
{
	struct eq q = {rt, JOP_DEPTH};
	return equal_deep(&q, a, b);
}

/* --- order --------------------------------------------------------------- */

static int order_numbers(const struct jinja_value *a, const struct jinja_value *b)
{
	long double x = a->kind == J_FLOAT ? a->f : (long double)jval_int(a);
	long double y = b->kind == J_FLOAT ? b->f : (long double)jval_int(b);
	return isnan(x) || isnan(y) ? 2 : x < y ? -1 : x > y;
}

/* Byte order of UTF-8 equals the order of its code points. */
static int order_strings(const struct jstr *a, const struct jstr *b)
{
	int c = memcmp(a->p, b->p, MIN(a->n, b->n));
	return c ? (c < 0 ? -1 : 1) : a->n < b->n ? -1 : a->n > b->n;
}

/* Orders sequences by their first unequal pair. Equal pairs need no order, so [none] can
 * be sorted among [none]. */
bool jop_order(struct jrt *rt, const struct jinja_value *a,
	       const struct jinja_value *b, const char *op, int *out_order)
{
	if (a->kind == J_UNDEFINED || b->kind == J_UNDEFINED)
		return jrt_undefined(rt, a->kind == J_UNDEFINED ? a : b);
	if (jval_is_num(a) && jval_is_num(b)) {
		*out_order = order_numbers(a, b);
		return true;
	}
	if (a->kind == J_STRING && b->kind == J_STRING) {
		*out_order = order_strings(&a->s, &b->s);
		return jrt_work(rt, MIN(a->s.n, b->s.n));
	}
	if (!jval_is_seq(a) || a->kind != b->kind)
		return jrt_fail(rt, "'%s' not supported between instances of '%s' and "
				"'%s'", op, jval_type(a), jval_type(b));
	for (size_t i = 0; i < a->l.n && i < b->l.n; i++) {
		if (jop_equal(a->l.items[i], b->l.items[i], rt))
			continue;
		if (jrt_failed(rt) || !jrt_enter(rt, 0))
			return false;
		bool can = jop_order(rt, a->l.items[i], b->l.items[i], op, out_order);
		jrt_leave(rt);
		return can;
	}
	*out_order = a->l.n < b->l.n ? -1 : a->l.n > b->l.n;
	return !jrt_failed(rt);
}

/* --- membership ---------------------------------------------------------- */

/* `item in in`: 1 or 0; -1: failed. A generator is read up to the item found. */
static int contains(struct jrt *rt, struct jinja_value *item, struct jinja_value *in)
{
	uint64_t hash;
	switch (in->kind) {
	case J_STRING:
		if (item->kind == J_UNDEFINED)
			return jrt_undefined(rt, item), -1;
		if (item->kind != J_STRING)
			return jrt_fail(rt, "'in <string>' requires string as left "
					"operand, not %s", jval_type(item)), -1;
		if (!jrt_work(rt, in->s.n))
			return -1;
		return str_find(jval_str(in), jval_str(item), 0) >= 0;
	case J_DICT:
		if (!jdict_hash(item, &hash))
			return jrt_fail(rt, "unhashable type: '%s'",
					jval_type(item)), -1;
		return jdict_find(&in->d, item, hash) != NULL;
	default:
		break;
	}
	struct jiter it;
	if (!jiter_init(rt, &it, in))
		return -1;
	for (;;) {
		struct jinja_value *x = jiter_next(rt, &it);
		bool same = x && (x == item || jop_equal(x, item, rt));
		if (jrt_failed(rt) || !jrt_work(rt, 8))
			return -1;
		if (!x || same)
			return same;
	}
}

int jop_compare(struct jrt *rt, enum jcmp op, struct jinja_value *a,
		struct jinja_value *b)
{
	static const char *const names[] = {
		[CMP_LT] = "<", [CMP_LE] = "<=", [CMP_GT] = ">", [CMP_GE] = ">=",
	};
	if (op == CMP_EQ || op == CMP_NE) {
		if (a->kind == J_STRING && !jrt_work(rt, a->s.n))
			return -1;
		bool same = jop_equal(a, b, rt);
		return jrt_failed(rt) ? -1 : same == (op == CMP_EQ);
	}
	if (op == CMP_IN || op == CMP_NOT_IN) {
		int in = contains(rt, a, b);
		return in < 0 ? -1 : in == (op == CMP_IN);
	}
	int order;
	if (!jop_order(rt, a, b, names[op], &order))
		return -1;
	switch (op) {
	case CMP_LT: return order == -1;
	case CMP_LE: return order == -1 || order == 0;
	case CMP_GT: return order == 1;
	default: return order == 1 || order == 0;
	}
}

/* --- sorting ------------------------------------------------------------- */

struct sorted {
	struct jinja_value *item, *key;
};

/* Merges two sorted halves of `from` into `to`. Stable: the left half wins a tie. This
 * holds in reverse order too, as in Python. */
static bool merge(struct jrt *rt, struct sorted *from, struct sorted *to, size_t lo,
		  size_t mid, size_t hi, bool reverse)
{
	size_t i = lo, j = mid;
	for (size_t k = lo; k < hi; k++) {
		int order = -1;
		if (i < mid && j < hi) {
			const struct jinja_value *x = from[j].key, *y = from[i].key;
			if (!jrt_work(rt, 16) ||
			    !jop_order(rt, reverse ? y : x, reverse ? x : y, "<",
				       &order))
				return false;
		} else {
			order = i < mid ? 0 : -1;
		}
		to[k] = order == -1 ? from[j++] : from[i++];
	}
	return true;
}

/* Merges bottom-up between two arrays: no recursion is needed, and a failure can return
 * at once. */
bool jsort_by_keys(struct jrt *rt, struct jinja_value **items,
		   struct jinja_value **keys, size_t n, bool reverse)
{
	if (!jrt_room(rt, 2 * n * sizeof(struct sorted)))
		return false;
	struct sorted *from = arena_alloc(rt->arena, n * sizeof *from);
	struct sorted *to = arena_alloc(rt->arena, n * sizeof *to);
	for (size_t i = 0; i < n; i++)
		from[i] = (struct sorted){items[i], keys[i]};
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t lo = 0; lo < n; lo += 2 * width)
			if (!merge(rt, from, to, lo, MIN(lo + width, n),
				   MIN(lo + 2 * width, n), reverse))
				return false;
		struct sorted *other = from;
		from = to;
		to = other;
	}
	for (size_t i = 0; i < n; i++)
		items[i] = from[i].item;
	return true;
}
