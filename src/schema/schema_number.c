/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers between bounds, digit by digit from the most significant one. As long as the
 * digits equal those of a bound, the number is "tight" against that bound. After the
 * first difference the remaining digits are free. A range thus needs as many parts as its
 * bounds have digits.
 *
 * Bounded numbers are written without an exponent. They have few enough digits that a
 * reader's double does not round them onto an excluded bound.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define INT_DIGITS 15          /* maximal digits of the integer part */
#define INTEGER_MAX 999999999999999999 /* bound of integers without a maximum */
#define FRACTION_MAX 1e15
#define FREE_DIGITS 10         /* digits after the point for a number without a bound nearby */

static grammar_part digit(struct schema_reader *x, int lo, int hi)
{
	struct grammar_range r = {(uint32_t)('0' + lo), (uint32_t)('0' + hi)};
	return grammar_build_class(x->b, &r, lo <= hi, false);
}

static grammar_part digits(struct schema_reader *x, int min, int max)
{
	return grammar_build_repeat(x->b, digit(x, 0, 9), (uint32_t)min,
				    (uint32_t)MAX(min, max));
}

static grammar_part zeros(struct schema_reader *x, int max)
{
	return grammar_build_repeat(x->b, digit(x, 0, 0), 1, (uint32_t)max);
}

static grammar_part then(struct schema_reader *x, grammar_part a, grammar_part b)
{
	grammar_part seq[2] = {a, b};
	return grammar_build_seq(x->b, seq, 2);
}

static grammar_part either(struct schema_reader *x, grammar_part a, grammar_part b)
{
	grammar_part alts[2] = {a, b};
	return grammar_build_alt(x->b, alts, 2);
}

/* --- integers ------------------------------------------------------------ */

/* The last n digits of a number between lo and hi of equal length. is_lo, is_hi: the
 * digits so far are tight against that bound. */
static grammar_part same_length(struct schema_reader *x, const char *lo,
				const char *hi, int n, bool is_lo, bool is_hi)
{
	if (n == 0)
		return lit(x, "");
	if (!is_lo && !is_hi)
		return digits(x, n, n);
	int a = is_lo ? *lo - '0' : 0, b = is_hi ? *hi - '0' : 9;
	if (a == b && is_lo && is_hi)
		return then(x, digit(x, a, a),
			    same_length(x, lo + 1, hi + 1, n - 1, true, true));
	struct grammar_parts alts = {0};
	if (is_lo)
		grammar_parts_add(&alts, then(x, digit(x, a, a),
					      same_length(x, lo + 1, hi + 1, n - 1,
							  true, false)));
	int mid_a = a + is_lo, mid_b = b - is_hi;
	if (mid_a <= mid_b)
		grammar_parts_add(&alts, then(x, digit(x, mid_a, mid_b),
					      digits(x, n - 1, n - 1)));
	if (is_hi)
		grammar_parts_add(&alts, then(x, digit(x, b, b),
					      same_length(x, lo + 1, hi + 1, n - 1,
							  false, true)));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* Integers with 0 <= lo <= hi <= JSON_WIDE_MAX, written without leading zeros. */
static grammar_part natural(struct schema_reader *x, json_wide lo, json_wide hi)
{
	struct grammar_parts alts = {0};
	json_wide low = 0, high = 9; /* the numbers of n digits */
	for (int n = 1; low <= hi; n++) {
		json_wide a = MAX(lo, low), b = MIN(hi, high);
		char text_a[JSON_WIDE_BYTES], text_b[JSON_WIDE_BYTES];
		if (a <= b)
			grammar_parts_add(&alts, same_length(x, json_digits_of_wide(a, text_a),
							     json_digits_of_wide(b, text_b), n,
							     true, true));
		low = high + 1;
		if (high < JSON_WIDE_MAX)
			high = high * 10 + 9;
	}
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

static grammar_part integer_range(struct schema_reader *x, json_wide lo, json_wide hi)
{
	struct grammar_parts alts = {0};
	if (lo < 0 && lo <= hi)
		grammar_parts_add(&alts, then(x, lit(x, "-"),
					      natural(x, hi < 0 ? -hi : 1, -lo)));
	if (hi >= 0 && lo <= hi)
		grammar_parts_add(&alts, natural(x, MAX(lo, (json_wide)0), hi));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* --- fractions ----------------------------------------------------------- */

/* The absolute value of a bound: its integer part and the digits after the point, without
 * trailing zeros. */
struct decimal {
	uint64_t whole;
	char frac[32];
	int n;
	bool is_excluded;
};

struct fraction {
	const struct decimal *lo, *hi; /* bounds that the digits are tight against; NULL: not
				        * tight */
	int n_max;                     /* maximum of digits */
};

/* True if the fraction may end before digit i. */
static bool may_end(const struct fraction *f, int i)
{
	const struct decimal *lo = f->lo, *hi = f->hi;
	if (lo && (i < lo->n || lo->is_excluded))
		return false;
	return !hi || i < hi->n || !hi->is_excluded;
}

static grammar_part fraction_from(struct schema_reader *x, struct fraction f, int i);

/* The fraction from digit i on; it may be empty if may_end says so. */
static grammar_part fraction_rest(struct schema_reader *x, struct fraction f, int i)
{
	grammar_part some = fraction_from(x, f, i);
	return may_end(&f, i) ? grammar_build_opt(x->b, some) : some;
}

/* The fraction from digit i on, with at least one digit. */
static grammar_part fraction_from(struct schema_reader *x, struct fraction f, int i)
{
	const struct decimal *lo = f.lo, *hi = f.hi;
	if (!lo && !hi)
		return digits(x, 1, f.n_max - i);
	if (i >= f.n_max)
		return grammar_build_alt(x->b, NULL, 0);
	if (hi && i >= hi->n) /* only zeros may follow the last digit of the upper bound */
		return may_end(&f, i) ? zeros(x, f.n_max - i)
				      : grammar_build_alt(x->b, NULL, 0);
	int a = lo && i < lo->n ? lo->frac[i] - '0' : 0;
	int b = hi ? hi->frac[i] - '0' : 9;
	struct grammar_parts alts = {0};
	for (int way = 0; way < 3; way++) {
		struct fraction g = f;
		bool is_a = way == 0, is_b = way == 2;
		int from = is_b ? b : a + (way == 1 && lo);
		int to = is_a ? a : b - (way == 1 && hi);
		if ((is_a && !lo) || (is_b && !hi) || from > to ||
		    (lo && hi && a == b && way > 0) || (lo && hi && a > b))
			continue;
		g.lo = is_a ? lo : NULL;
		g.hi = is_b || (is_a && hi && a == b) ? hi : NULL;
		grammar_part rest = fraction_rest(x, g, i + 1);
		grammar_parts_add(&alts, then(x, digit(x, from, to), rest));
	}
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* The point and the fraction. lo or hi is given if the integer part equals that bound's
 * integer part; otherwise it is NULL. */
static grammar_part fraction(struct schema_reader *x, const struct decimal *lo,
			     const struct decimal *hi, int n_max)
{
	struct fraction f = {lo, hi, n_max};
	grammar_part some = then(x, lit(x, "."), fraction_from(x, f, 0));
	return may_end(&f, 0) ? grammar_build_opt(x->b, some) : some;
}

/* Number of digits after the point that a double near the bound still distinguishes. */
static int fraction_digits(const struct decimal *d)
{
	int n = 1;
	for (uint64_t w = d->whole; w >= 10; w /= 10)
		n++;
	return MAX(d->n + 1, INT_DIGITS - n);
}

/* Numbers with lo <= number <= hi, both not negative. */
static grammar_part positive(struct schema_reader *x, const struct decimal *lo,
			     const struct decimal *hi)
{
	int n_lo = fraction_digits(lo), n_hi = fraction_digits(hi);
	bool is_free = hi->whole == (uint64_t)FRACTION_MAX - 1;
	grammar_part free_fraction =
		fraction(x, NULL, NULL, is_free ? FREE_DIGITS : MAX(n_hi, 2));
	struct grammar_parts alts = {0};
	if (lo->whole == hi->whole) {
		grammar_parts_add(&alts, then(x, natural(x, lo->whole, lo->whole),
					      fraction(x, lo, hi, MAX(n_lo, n_hi))));
	} else if (lo->whole < hi->whole) {
		grammar_parts_add(&alts, then(x, natural(x, lo->whole, lo->whole),
					      fraction(x, lo, NULL, n_lo)));
		if (lo->whole + 1 < hi->whole)
			grammar_parts_add(&alts, then(x, natural(x, lo->whole + 1,
								 hi->whole - 1),
						      free_fraction));
		grammar_parts_add(&alts, then(x, natural(x, hi->whole, hi->whole),
					      fraction(x, NULL, hi, n_hi)));
	}
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* --- bounds -------------------------------------------------------------- */

/* The first (is_lo) or last integer within a bound. */
static json_wide round_in(const json_t *v, bool is_lo, bool is_excluded)
{
	json_wide i = json_digits_round(v, is_lo);
	if (is_excluded && json_digits_is_integer(v))
		i += is_lo ? 1 : -1;
	return MIN(MAX(i, -JSON_WIDE_MAX - 1), JSON_WIDE_MAX + 1);
}

static const struct bound_key {
	const char *name;
	bool is_lo, is_excluded;
} bound_keys[] = {
	{"minimum", true, false}, {"exclusiveMinimum", true, true},
	{"maximum", false, false}, {"exclusiveMaximum", false, true}};

static void read_bound(struct schema_reader *x, const struct json_node *schema,
		       const struct bound_key *key, struct schema_bounds *b)
{
	bool is_lo = key->is_lo, is_excluded = key->is_excluded;
	const struct json_node *at = schema_get(x, schema, key->name);
	double v = 0;
	/* In draft 4 the boolean says that the other keyword's bound is excluded. */
	if (is_excluded && json_is_boolean(at->v))
		return;
	const json_t *old = json_object_get(schema->v, is_lo ? "exclusiveMinimum"
							     : "exclusiveMaximum");
	is_excluded |= json_is_true(old);
	schema_check(x, json_read_num(at, -INFINITY, INFINITY, &v, x->fail));
	if (!at->v || x->st != OK)
		return;
	b->where = at;
	json_wide i = round_in(at->v, is_lo, is_excluded);
	if (is_lo) {
		b->int_lo = MAX(b->int_lo, i);
		if (v > b->lo || (v == b->lo && is_excluded)) {
			b->lo = v;
			b->lo_excluded = is_excluded;
		}
	} else {
		b->int_hi = MIN(b->int_hi, i);
		if (v < b->hi || (v == b->hi && is_excluded)) {
			b->hi = v;
			b->hi_excluded = is_excluded;
		}
	}
}

struct schema_bounds schema_number_bounds(struct schema_reader *x, const struct schema_list *l)
{
	struct schema_bounds b = {.lo = -INFINITY, .hi = INFINITY,
			   .int_lo = -JSON_WIDE_MAX - 1, .int_hi = JSON_WIDE_MAX + 1};
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		struct str format = STR("");
		const struct json_node *at = schema_get(x, l->p[i].at, "format");
		for (size_t k = 0; k < ARRAY_LEN(bound_keys); k++)
			read_bound(x, l->p[i].at, &bound_keys[k], &b);
		schema_check(x, json_read_str(at, &format, x->fail));
		if (str_is(format, "int32")) {
			b.int_lo = MAX(b.int_lo, INT32_MIN);
			b.int_hi = MIN(b.int_hi, INT32_MAX);
		}
	}
	return b;
}

/* --- excluded values --------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	return json_digits_compare(*(json_t *const *)a, *(json_t *const *)b);
}

/* The numbers that the list excludes (SCHEMA_NOT_VALUES), sorted. The caller frees the
 * array. */
static const json_t **excluded(const struct schema_list *l, size_t *out_n)
{
	const json_t **out = NULL;
	size_t n = 0;
	for (size_t i = 0; i < l->n; i++) {
		const json_t *not = json_object_get(l->p[i].at->v, SCHEMA_NOT_VALUES);
		out = xrealloc(out, (n + json_array_size(not) + 1) * sizeof *out);
		for (size_t k = 0; k < json_array_size(not); k++) {
			const json_t *v = json_array_get(not, k);
			if (json_is_number(v))
				out[n++] = v;
		}
	}
	if (n > 1)
		qsort(out, n, sizeof *out, by_value);
	*out_n = n;
	return out;
}

static grammar_part integers_but(struct schema_reader *x, json_wide lo, json_wide hi,
				 const json_t *const *not, size_t n)
{
	struct grammar_parts alts = {0};
	schema_work(x, n * 1000); /* each gap between two excluded numbers costs a range */
	for (size_t i = 0; i < n && x->st == OK; i++) {
		json_wide v = json_digits_round(not[i], false);
		if (!json_digits_is_integer(not[i]))
			continue;
		if (v > lo)
			grammar_parts_add(&alts, integer_range(x, lo, MIN(hi, v - 1)));
		lo = MAX(lo, v + 1);
	}
	grammar_parts_add(&alts, integer_range(x, lo, hi));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

/* The first of the usual limits that is beyond v >= 0, where the schema has none: other
 * programs can read such integers. */
static json_wide usual_limit(json_wide v)
{
	static const json_wide limits[] = {INTEGER_MAX, INT64_MAX, UINT64_MAX};
	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		if (v < limits[i])
			return limits[i];
	return MIN(v, JSON_WIDE_MAX / 2) * 2;
}

grammar_part schema_integer(struct schema_reader *x, const struct schema_list *l)
{
	struct schema_bounds b = schema_number_bounds(x, l);
	grammar_part out;
	if (x->st == OK && (b.int_lo > JSON_WIDE_MAX || b.int_hi < -JSON_WIDE_MAX))
		schema_refuse(x, b.where, "has too many digits to be held to");
	if (b.int_hi > JSON_WIDE_MAX)
		b.int_hi = usual_limit(MAX(b.int_lo, (json_wide)0));
	if (b.int_lo < -JSON_WIDE_MAX)
		b.int_lo = -usual_limit(-MIN(b.int_hi, (json_wide)0));
	if (x->st != OK || schema_multiple(x, l, &b, true, &out))
		return x->st == OK ? out : 0;
	size_t n;
	const json_t **not = excluded(l, &n);
	char name[120], lo[JSON_WIDE_BYTES], hi[JSON_WIDE_BYTES];
	uint32_t rule;
	snprintf(name, sizeof name, "integer from %s to %s", json_digits_of_wide(b.int_lo, lo),
		 json_digits_of_wide(b.int_hi, hi));
	if (n > 0)
		out = integers_but(x, b.int_lo, b.int_hi, not, n);
	free(not);
	if (n > 0)
		return out;
	if (schema_rule(x, name, &rule))
		grammar_build_set_rule(x->b, rule, integer_range(x, b.int_lo, b.int_hi));
	return grammar_build_ref(x->b, rule);
}

/* Converts v >= 0 to decimal. False: it has too many digits. */
static bool to_decimal(double v, bool is_excluded, struct decimal *out)
{
	char text[64];
	int precision = 0;
	/* find the shortest decimal that reads back equal */
	do
		snprintf(text, sizeof text, "%.*f", precision, v);
	while (strtod(text, NULL) != v && ++precision < 30);
	*out = (struct decimal){.is_excluded = is_excluded};
	if (strtod(text, NULL) != v)
		return false;
	out->whole = strtoull(text, NULL, 10);
	const char *point = strchr(text, '.');
	out->n = point ? (int)strlen(point + 1) : 0;
	if (point)
		memcpy(out->frac, point + 1, (size_t)out->n);
	while (out->n > 0 && out->frac[out->n - 1] == '0')
		out->n--;
	return true;
}

/* Numbers from lo to hi, with lo >= 0; hi may be infinite. */
static grammar_part positive_range(struct schema_reader *x, double lo, bool lo_excluded,
				   double hi, bool hi_excluded, const struct schema_bounds *b)
{
	struct decimal from, to = {.whole = (uint64_t)FRACTION_MAX - 1, .frac = "9",
				   .n = 1};
	if (lo > hi || (lo == hi && (lo_excluded || hi_excluded)))
		return grammar_build_alt(x->b, NULL, 0);
	if (lo >= FRACTION_MAX || !to_decimal(lo, lo_excluded, &from) ||
	    (hi < FRACTION_MAX && !to_decimal(hi, hi_excluded, &to))) {
		schema_refuse(x, b->where, "has too many digits to be held to");
		return 0;
	}
	return positive(x, &from, &to);
}

static grammar_part any_number(struct schema_reader *x, bool is_fraction)
{
	/* with is_fraction, the last digit is not zero, so the number is no integer */
	struct str regex = is_fraction
		? STR("-?(?:0|[1-9]\\d{0,8})\\.\\d{0,5}[1-9]")
		: STR("-?(?:0|[1-9]\\d{0,15})(?:\\.\\d{1,16})?(?:[eE][+-]?\\d{1,2})?");
	grammar_part out = 0;
	schema_check(x, grammar_build_regex(x->b, regex, &out, x->fail));
	return out;
}

static grammar_part bounded(struct schema_reader *x, const struct schema_bounds *b)
{
	grammar_part out = grammar_build_alt(x->b, NULL, 0);
	if (b->lo < 0) {
		bool below = b->hi < 0;
		/* "-0" is not written: the negative part ends above zero, and the other
		 * part has zero */
		grammar_part minus = positive_range(
			x, below ? -b->hi : 0, below ? b->hi_excluded : true, -b->lo,
			b->lo_excluded, b);
		out = either(x, out, then(x, lit(x, "-"), minus));
	}
	if (b->hi >= 0) {
		bool above = b->lo >= 0;
		grammar_part plus = positive_range(x, above ? b->lo : 0,
						   above && b->lo_excluded, b->hi,
						   b->hi_excluded, b);
		out = either(x, out, plus);
	}
	return out;
}

static grammar_part number_between(struct schema_reader *x, const struct schema_bounds *b)
{
	bool is_free = isinf(b->lo) && isinf(b->hi);
	if (b->lo > b->hi)
		return grammar_build_alt(x->b, NULL, 0);
	return is_free ? any_number(x, false) : bounded(x, b);
}

/* The ranges between the excluded numbers. */
static grammar_part numbers_but(struct schema_reader *x, struct schema_bounds b,
				const json_t *const *not, size_t n)
{
	struct grammar_parts alts = {0};
	schema_work(x, n * 1000);
	for (size_t i = 0; i < n && x->st == OK; i++) {
		struct schema_bounds below = b;
		double v = json_number_value(not[i]);
		if (v < b.lo || v > b.hi)
			continue;
		below.hi = v;
		below.hi_excluded = true;
		grammar_parts_add(&alts, number_between(x, &below));
		b.lo = v;
		b.lo_excluded = true;
	}
	grammar_parts_add(&alts, number_between(x, &b));
	grammar_part out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return out;
}

grammar_part schema_number(struct schema_reader *x, const struct schema_list *l,
			   bool is_fraction)
{
	struct schema_bounds b = schema_number_bounds(x, l);
	grammar_part out;
	if (x->st != OK)
		return 0;
	if (!b.where)
		b.where = l->n ? l->p[0].at : &x->root;
	if (is_fraction && !(isinf(b.lo) && isinf(b.hi))) {
		schema_refuse(x, b.where, "cannot be held to for numbers that are no "
			      "integers");
		return 0;
	}
	if (schema_multiple(x, l, &b, false, &out))
		return out;
	size_t n;
	const json_t **not = excluded(l, &n);
	if (n > 0 && !is_fraction)
		out = numbers_but(x, b, not, n);
	free(not);
	if (n > 0 && !is_fraction)
		return out;
	if (n > 0)
		schema_refuse(x, b.where, "cannot leave out values of numbers that are no "
			      "integers");
	char name[100];
	uint32_t rule;
	snprintf(name, sizeof name, "number from %a %d to %a %d, %d", b.lo, b.lo_excluded,
		 b.hi, b.hi_excluded, is_fraction);
	if (schema_rule(x, name, &rule))
		grammar_build_set_rule(x->b, rule, is_fraction ? any_number(x, true)
							       : number_between(x, &b));
	return grammar_build_ref(x->b, rule);
}
