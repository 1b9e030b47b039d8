/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic and subscripts. Integers have 64 bits. Python would continue with a longer
 * integer; here the template fails rather than compute a wrong number.
 */
#include "jinja/jinja_op.h"

#include <math.h>

#include "base/alloc.h"
#include "base/utf8.h"

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%"};

static void *overflow(struct jrt *rt)
{
	return jrt_fail(rt, "an integer does not fit into 64 bits");
}

static void *bad_operands(struct jrt *rt, enum jop op, const struct jinja_value *a,
			  const struct jinja_value *b)
{
	return jrt_fail(rt, "unsupported operand type(s) for %s: '%s' and '%s'",
			op_names[op], jval_type(a), jval_type(b));
}

static double to_double(const struct jinja_value *v)
{
	return v->kind == J_FLOAT ? v->f : (double)jval_int(v);
}

static struct jinja_value *int_divide(struct jrt *rt, enum jop op, int64_t a, int64_t b)
{
	if (b == 0)
		return jrt_fail(rt, op == OP_DIV ? "division by zero" :
				"integer division or modulo by zero");
	if (op == OP_DIV)
		return jinja_float(rt->arena, (double)((long double)a / b));
	if (b == -1) /* INT64_MIN / -1 would trap */
		return op == OP_MOD ? jinja_int(rt->arena, 0) :
		       a == INT64_MIN ? overflow(rt) : jinja_int(rt->arena, -a);
	int64_t q = a / b, r = a % b;
	if (r != 0 && (r < 0) != (b < 0)) { /* Python rounds down, C rounds to zero */
		q--;
		r += b;
	}
	return jinja_int(rt->arena, op == OP_MOD ? r : q);
}

static struct jinja_value *int_arith(struct jrt *rt, enum jop op, int64_t a, int64_t b)
{
	int64_t r;
	bool over;
	switch (op) {
	case OP_ADD: over = __builtin_add_overflow(a, b, &r); break;
	case OP_SUB: over = __builtin_sub_overflow(a, b, &r); break;
	case OP_MUL: over = __builtin_mul_overflow(a, b, &r); break;
	default: return int_divide(rt, op, a, b);
	}
	return over ? overflow(rt) : jinja_int(rt->arena, r);
}

static struct jinja_value *float_arith(struct jrt *rt, enum jop op, double a, double b)
{
	double r;
	if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
		return jrt_fail(rt, op == OP_DIV ? "float division by zero" :
				"float floor division or modulo by zero");
	switch (op) {
	case OP_ADD: r = a + b; break;
	case OP_SUB: r = a - b; break;
	case OP_MUL: r = a * b; break;
	case OP_DIV: r = a / b; break;
	default: { /* divmod as in CPython, including the signs of zeros */
		double mod = fmod(a, b);
		double div = (a - mod) / b;
		if (mod != 0 && (b < 0) != (mod < 0)) {
			mod += b;
			div -= 1;
		} else if (mod == 0) {
			mod = copysign(0.0, b);
		}
		double whole = div != 0 ? floor(div) : copysign(0.0, a / b);
		if (div != 0 && div - whole > 0.5)
			whole += 1;
		r = op == OP_MOD ? mod : whole;
	}
	}
	return jinja_float(rt->arena, r);
}

/* seq * times. The result's size is known in advance, so the memory limit is checked
 * first. */
static struct jinja_value *repeat(struct jrt *rt, struct jinja_value *seq, int64_t times)
{
	if (times < 0)
		times = 0;
	if (seq->kind == J_STRING) {
		struct jtext *t = jtext_new(rt, 0);
		if (!seq->s.n_marks) {
			jtext_fill(t, jval_str(seq), seq->s.trust, (size_t)times);
		} else if (times <= (int64_t)(rt->mem_max / seq->s.n)) {
			for (int64_t i = 0; i < times; i++)
				jtext_add_jstr(t, &seq->s);
		} else {
			return jrt_limit(rt, "needs too much memory");
		}
		return jtext_finish(t);
	}
	size_t n = seq->l.n;
	if (n && times > (int64_t)(rt->mem_max / sizeof(void *) / n))
		return jrt_limit(rt, "needs too much memory");
	if (!jrt_room(rt, n * (size_t)times * sizeof(void *)) ||
	    !jrt_work(rt, n * (size_t)times))
		return NULL;
	struct jinja_value *out = jval_seq(rt->arena, seq->kind, n * (size_t)times);
	for (size_t i = 0; n && i < (size_t)times; i++) {
		memcpy(out->l.items + out->l.n, seq->l.items, n * sizeof(void *));
		out->l.n += n;
	}
	return out;
}

static bool is_repeatable(const struct jinja_value *v)
{
	return v->kind == J_STRING || jval_is_seq(v);
}

static struct jinja_value *join_seqs(struct jrt *rt, struct jinja_value *a,
				     struct jinja_value *b)
{
	size_t n = a->l.n + b->l.n;
	if (!jrt_room(rt, n * sizeof(void *)) || !jrt_work(rt, n))
		return NULL;
	struct jinja_value *out = jval_seq(rt->arena, a->kind, n);
	for (size_t i = 0; i < a->l.n; i++)
		out->l.items[out->l.n++] = a->l.items[i];
	for (size_t i = 0; i < b->l.n; i++)
		out->l.items[out->l.n++] = b->l.items[i];
	return out;
}

static struct jinja_value *add_others(struct jrt *rt, struct jinja_value *a,
				      struct jinja_value *b)
{
	if (a->kind == J_STRING && b->kind == J_STRING)
		return jrt_work(rt, b->s.n) ? jstr_concat(rt, &a->s, &b->s) : NULL;
	if (jval_is_seq(a) && a->kind == b->kind)
		return join_seqs(rt, a, b);
	if (is_repeatable(a))
		return jrt_fail(rt, "can only concatenate %s (not \"%s\") to %s",
				jval_type(a), jval_type(b), jval_type(a));
	return bad_operands(rt, OP_ADD, a, b);
}

struct jinja_value *jop_arith(struct jrt *rt, enum jop op, struct jinja_value *a,
			      struct jinja_value *b)
{
	if (op == OP_MOD && a->kind == J_STRING)
		return jformat_percent(rt, &a->s, b);
	if (a->kind == J_UNDEFINED)
		return jrt_undefined(rt, a);
	if (b->kind == J_UNDEFINED)
		return jrt_undefined(rt, b);
	if (jval_is_num(a) && jval_is_num(b)) {
		if (jval_is_int(a) && jval_is_int(b))
			return int_arith(rt, op, jval_int(a), jval_int(b));
		return float_arith(rt, op, to_double(a), to_double(b));
	}
	if (op == OP_ADD)
		return add_others(rt, a, b);
	if (op == OP_MUL && is_repeatable(a) && jval_is_int(b))
		return repeat(rt, a, jval_int(b));
	if (op == OP_MUL && is_repeatable(b) && jval_is_int(a))
		return repeat(rt, b, jval_int(a));
	return bad_operands(rt, op, a, b);
}

struct jinja_value *jop_negate(struct jrt *rt, struct jinja_value *v)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	if (v->kind == J_FLOAT)
		return jinja_float(rt->arena, -v->f);
	if (!jval_is_int(v))
		return jrt_fail(rt, "bad operand type for unary -: '%s'", jval_type(v));
	return int_arith(rt, OP_SUB, 0, jval_int(v));
}

struct jinja_value *jop_plus(struct jrt *rt, struct jinja_value *v)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	if (!jval_is_num(v))
		return jrt_fail(rt, "bad operand type for unary +: '%s'", jval_type(v));
	return v->kind == J_BOOL ? jinja_int(rt->arena, v->b) : v;
}

/* --- subscripts and slices ----------------------------------------------- */

/* Byte offset of character i; the end if s is shorter. */
static size_t char_offset(const struct jstr *s, size_t i)
{
	size_t at = 0;
	uint32_t c;
	for (; i > 0 && at < s->n; i--)
		at += utf8_decode((struct str){s->p + at, s->n - at}, &c);
	return at;
}

static struct jinja_value *char_at(struct jrt *rt, const struct jstr *s, int64_t i)
{
	if (!jrt_work(rt, s->n))
		return NULL;
	int64_t n = i < 0 ? (int64_t)utf8_count((struct str){s->p, s->n}) : 0;
	size_t at = i + n < 0 ? s->n : char_offset(s, (size_t)(i + n));
	if (at >= s->n)
		return NULL;
	uint32_t c;
	size_t len = utf8_decode((struct str){s->p + at, s->n - at}, &c);
	return jstr_slice(rt, s, at, at + len);
}

/* NULL also for an unhashable key of a dict and for s['x'] of a string: the caller then
 * tries attributes. */
struct jinja_value *jop_subscript(struct jrt *rt, struct jinja_value *v,
				  struct jinja_value *key)
{
	uint64_t hash;
	switch (v->kind) {
	case J_DICT: {
		if (!jdict_hash(key, &hash))
			return NULL;
		struct jentry *e = jdict_find(&v->d, key, hash);
		return e ? e->value : NULL;
	}
	case J_STRING:
		return jval_is_int(key) ? char_at(rt, &v->s, jval_int(key)) : NULL;
	case J_LIST:
	case J_TUPLE:
	case J_RANGE: {
		if (!jval_is_int(key))
			return NULL;
		int64_t i = jval_int(key), n = jval_len(v);
		if (i < 0)
			i += n;
		return i < 0 || i >= n ? NULL : jval_at(rt->arena, v, (size_t)i);
	}
	default:
		return NULL;
	}
}

struct slice {
	int64_t start, stop, step;
	size_t n; /* number of items that the slice selects */
};

static bool slice_part(struct jrt *rt, struct jinja_value *v, int64_t *out)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	if (!jval_is_int(v)) {
		jrt_fail(rt, "slice indices must be integers or None");
		return false;
	}
	*out = jval_int(v);
	return true;
}

static int64_t clamp(int64_t i, int64_t len, int64_t lo, int64_t hi)
{
	if (i < 0)
		i += len;
	return i < lo ? lo : i > hi ? hi : i;
}

/* Computes a slice over len items like Python's slice.indices. */
static bool slice_of(struct jrt *rt, int64_t len, struct jinja_value *start,
		     struct jinja_value *stop, struct jinja_value *step,
		     struct slice *out)
{
	out->step = 1;
	if (step && step->kind != J_NONE && !slice_part(rt, step, &out->step))
		return false;
	if (out->step == 0) {
		jrt_fail(rt, "slice step cannot be zero");
		return false;
	}
	bool back = out->step < 0;
	int64_t lo = back ? -1 : 0, hi = back ? len - 1 : len;
	out->start = back ? hi : lo;
	out->stop = back ? lo : hi;
	int64_t i = 0;
	if (start && start->kind != J_NONE) {
		if (!slice_part(rt, start, &i))
			return false;
		out->start = clamp(i, len, lo, hi);
	}
	if (stop && stop->kind != J_NONE) {
		if (!slice_part(rt, stop, &i))
			return false;
		out->stop = clamp(i, len, lo, hi);
	}
	int64_t span = back ? out->start - out->stop : out->stop - out->start;
	uint64_t by = back ? -(uint64_t)out->step : (uint64_t)out->step;
	out->n = span > 0 ? ((uint64_t)span - 1) / by + 1 : 0;
	return true;
}

/* Without a step the result is one piece that shares s's bytes. */
static struct jinja_value *slice_string(struct jrt *rt, const struct jstr *s,
					size_t len, const struct slice *sl)
{
	if (sl->n == 0)
		return &jval_empty;
	if (sl->step == 1) {
		size_t from = char_offset(s, (size_t)sl->start);
		struct jstr rest = {.p = s->p + from, .n = s->n - from};
		return jstr_slice(rt, s, from, from + char_offset(&rest, sl->n));
	}
	if (!jrt_room(rt, (len + 1) * sizeof(size_t)))
		return NULL;
	size_t *offsets = arena_alloc(rt->arena, (len + 1) * sizeof *offsets);
	uint32_t c;
	for (size_t i = 0, at = 0; i < len; i++) {
		at += utf8_decode((struct str){s->p + at, s->n - at}, &c);
		offsets[i + 1] = at;
	}
	struct jtext *t = jtext_new(rt, sl->n);
	for (size_t i = 0; i < sl->n; i++) {
		int64_t at = sl->start + (int64_t)i * sl->step;
		jtext_add_part(t, s, offsets[at], offsets[at + 1]);
	}
	return jtext_finish(t);
}

struct jinja_value *jop_slice(struct jrt *rt, struct jinja_value *v,
			      struct jinja_value *start, struct jinja_value *stop,
			      struct jinja_value *step)
{
	if (v->kind == J_UNDEFINED)
		return jrt_undefined(rt, v);
	if (v->kind != J_STRING && !jval_is_seq(v) && v->kind != J_RANGE)
		return jrt_fail(rt, v->kind == J_DICT ? "unhashable type: 'slice'" :
				"'%s' object is not subscriptable", jval_type(v));
	int64_t len = jval_len(v);
	struct slice sl;
	if (!jrt_work(rt, v->kind == J_STRING ? v->s.n : 1) ||
	    !slice_of(rt, len, start, stop, step, &sl))
		return NULL;
	if (v->kind == J_STRING)
		return slice_string(rt, &v->s, (size_t)len, &sl);
	if (v->kind == J_RANGE) {
		struct jinja_value *r = jval_new(rt->arena, J_RANGE);
		r->r = v->r;
		r->r.start = v->r.start + sl.start * v->r.step;
		r->r.stop = v->r.start + sl.stop * v->r.step;
		r->r.step = v->r.step * sl.step;
		r->r.n = sl.n;
		return r;
	}
	if (!jrt_room(rt, sl.n * sizeof(void *)) || !jrt_work(rt, sl.n))
		return NULL;
	struct jinja_value *out = jval_seq(rt->arena, v->kind, sl.n);
	for (size_t i = 0; i < sl.n; i++)
		out->l.items[i] = v->l.items[sl.start + (int64_t)i * sl.step];
	out->l.n = sl.n;
	return out;
}
