/* SPDX-License-Identifier: Apache-2.0
 *
 * multipleOf, in decimal arithmetic: 0.07 is a multiple of 0.01. All multipleOf of a list
 * form one step, units / 10^digits. Its multiples are k * units for integers k, written
 * with `digits` digits after the point.
 *
 *   few multiples between the bounds   are written out
 *   a small step                       is read digit by digit; the state is the remainder
 *   else                               the MANY multiples nearest to zero or to a bound
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema/schema_private.h"
#include "base/alloc.h"

#define MANY 1000
#define MAX_STEP 64      /* maximum of distinct remainders */
#define MAX_LENGTH 12    /* maximal digits of a number that is read digit by digit */
#define MAX_DIGITS 9     /* maximal digits after the point */
#define MAX_UNITS 1000000000000000 /* maximum of units: exact in a double */

static const int64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000,
				 100000000, 1000000000};

static int64_t gcd(int64_t a, int64_t b)
{
	return b ? gcd(b, a % b) : a;
}

struct multiple_step {
	int64_t units; /* the step is units / 10^digits */
	int digits;
};

/* Converts v to units of 10^-digits. False: v has more digits. */
static bool to_units(double v, int digits, int64_t *out)
{
	double u = v * (double)powers[digits];
	if (fabs(u) > (double)MAX_UNITS)
		return false;
	*out = (int64_t)llround(u);
	/* is the decimal's double exactly v? */
	return (double)*out / (double)powers[digits] == v;
}

static bool first_step(struct multiple_step *s, double v)
{
	*s = (struct multiple_step){0};
	while (s->digits < MAX_DIGITS && !to_units(v, s->digits, &s->units))
		s->digits++;
	return to_units(v, s->digits, &s->units) && s->units > 0;
}

/* Replaces the step by the least common multiple of it and v. */
static bool add_step(struct multiple_step *s, double v)
{
	struct multiple_step own;
	if (!first_step(&own, v))
		return false;
	int digits = MAX(own.digits, s->digits);
	own.units *= powers[digits - own.digits];
	s->units *= powers[digits - s->digits];
	s->digits = digits;
	int64_t common = gcd(s->units, own.units);
	if (s->units / common > MAX_UNITS / own.units)
		return false;
	s->units = s->units / common * own.units;
	while (s->digits > 0 && s->units % 10 == 0) {
		s->units /= 10;
		s->digits--;
	}
	return true;
}

static void write_units(json_wide u, int digits, struct buf *out)
{
	char text[JSON_WIDE_BYTES];
	json_wide a = u < 0 ? -u : u;
	buf_addf(out, "%s%s", u < 0 ? "-" : "", json_digits_of_wide(a / powers[digits], text));
	if (a % powers[digits] == 0)
		return;
	buf_addf(out, ".%0*lld", digits, (long long)(a % powers[digits]));
	while (out->p[out->n - 1] == '0')
		out->n--;
}

/* Writes out the multiples k_lo..k_hi: at most MANY, those nearest to zero. */
static grammar_part write_out(struct schema_reader *x, const struct multiple_step *s,
			      json_wide k_lo, json_wide k_hi)
{
	if (k_hi - k_lo >= MANY) {
		json_wide from = k_lo > 0 ? k_lo : k_hi < 0 ? k_hi - MANY + 1 : -MANY / 2;
		k_lo = MIN(MAX(k_lo, from), k_hi - MANY + 1);
		k_hi = k_lo + MANY - 1;
	}
	struct str *texts = xcalloc((size_t)MAX(k_hi - k_lo + 1, (json_wide)0) + 1, sizeof *texts);
	struct buf text = {0};
	size_t n = 0;
	for (json_wide k = k_lo; k <= k_hi; k++) {
		buf_clear(&text);
		write_units(k * s->units, s->digits, &text);
		texts[n++] = arena_str(&x->arena, buf_str(&text));
	}
	schema_work(x, n * 10);
	grammar_part out = grammar_build_choice(x->b, texts, n);
	buf_deinit(&text);
	free(texts);
	return out;
}

/* --- digit by digit ------------------------------------------------------------- */

struct digits {
	struct schema_reader *x;
	int64_t mod;
	uint32_t rules[MAX_LENGTH + 1][MAX_STEP];
	bool is_made[MAX_LENGTH + 1][MAX_STEP];
	grammar_part end; /* what follows the last digit */
};

/* Reads up to `left` more digits; the digits so far leave the remainder `rest`. */
static grammar_part digits_from(struct digits *d, int left, int64_t rest, bool is_first)
{
	struct schema_reader *x = d->x;
	if (d->is_made[left][rest] && !is_first)
		return grammar_build_tail(x->b, d->rules[left][rest]);
	if (!is_first) {
		d->is_made[left][rest] = true;
		d->rules[left][rest] = grammar_build_rule(x->b, STR("digits"));
	}
	struct grammar_parts alts = {0};
	for (int c = is_first; c <= 9 && left > 0; c++) {
		struct grammar_range r = {(uint32_t)('0' + c), (uint32_t)('0' + c)};
		grammar_part pair[2] = {
			grammar_build_class(x->b, &r, 1, false),
			digits_from(d, left - 1, (rest * 10 + c) % d->mod, false)};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
	}
	if (rest == 0 && !is_first)
		grammar_parts_add(&alts, d->end);
	grammar_part part = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	schema_work(x, 200);
	if (is_first)
		return part;
	grammar_build_set_rule(x->b, d->rules[left][rest], part);
	return grammar_build_tail(x->b, d->rules[left][rest]);
}

/* The multiples of `mod` above zero with up to `length` digits, followed by `end`. */
static grammar_part multiples(struct schema_reader *x, int64_t mod, int length,
			      grammar_part end)
{
	struct digits *d = xcalloc(1, sizeof *d);
	d->x = x;
	d->mod = mod;
	d->end = end;
	uint32_t rule = grammar_build_rule(x->b, STR("multiple"));
	grammar_build_set_rule(x->b, rule, digits_from(d, length, 0, true));
	free(d);
	return grammar_build_ref(x->b, rule);
}

/* A multiple is written as the digits of a whole number k and an end; this function makes
 * the end. For a step of 10, 100, … the end is that many `zeros`. For a step of 0.1, 0.01,
 * … it is an optional fraction of at most `digits` digits. */
static grammar_part make_end(struct schema_reader *x, int zeros, int digits)
{
	char text[24] = "";
	for (int i = 0; i < zeros; i++)
		text[i] = '0';
	if (digits == 0)
		return grammar_build_lit(x->b, str_of(text));
	struct grammar_range ten = {'0', '9'};
	grammar_part pair[2] = {
		grammar_build_lit(x->b, STR(".")),
		grammar_build_repeat(x->b, grammar_build_class(x->b, &ten, 1, false), 1,
				     (uint32_t)digits)};
	return grammar_build_opt(x->b, grammar_build_seq(x->b, pair, 2));
}

static int length_below(int64_t whole)
{
	int n = 0;
	for (int64_t p = 10; n < MAX_LENGTH && p - 1 <= whole; p *= 10)
		n++;
	return n;
}

/* Reads multiples digit by digit, with as many digits as surely stay within the bounds.
 * False: the step does not permit this, or a bound excludes zero. */
static bool by_digits(struct schema_reader *x, const struct multiple_step *s, double lo, double hi,
		      grammar_part *out)
{
	struct multiple_step t = *s;
	int zeros = 0;
	while (t.digits == 0 && t.units % 10 == 0) {
		t.units /= 10;
		zeros++;
	}
	bool is_unit = t.digits > 0 && t.units == 1;
	if ((t.digits > 0 && !is_unit) || t.units > MAX_STEP || zeros > 6 ||
	    lo > 0 || hi < 0)
		return false;
	int64_t scale = 1;
	for (int i = 0; i < zeros; i++)
		scale *= 10;
	/* A fraction, or an excluded bound, must stay within too, so the bound is reduced
	 * by one. */
	double far = 1e13;
	int up = length_below((int64_t)((MIN(hi, far) - 1) / (double)scale));
	int down = length_below((int64_t)((MIN(-lo, far) - 1) / (double)scale));
	grammar_part end = make_end(x, zeros, is_unit ? s->digits : 0);
	struct grammar_parts alts = {0};
	grammar_parts_add(&alts, grammar_build_lit(x->b, STR("0")));
	if (is_unit && hi >= 1) {
		grammar_part pair[2] = {grammar_build_lit(x->b, STR("0")), end};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
	}
	if (up > 0)
		grammar_parts_add(&alts, multiples(x, t.units, up, end));
	if (down > 0) {
		grammar_part pair[2] = {grammar_build_lit(x->b, STR("-")),
					multiples(x, t.units, down, end)};
		grammar_parts_add(&alts, grammar_build_seq(x->b, pair, 2));
	}
	*out = grammar_build_alt(x->b, alts.p, alts.n);
	free(alts.p);
	return up > 1 || down > 1;
}

/* --- the whole -------------------------------------------------------------------- */

static bool has_excluded(const struct schema_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		const json_t *not = json_object_get(l->p[i].at->v, SCHEMA_NOT_VALUES);
		for (size_t k = 0; k < json_array_size(not); k++)
			if (json_is_number(json_array_get(not, k)))
				return true;
	}
	return false;
}

/* The first k (is_lo) or the last k within an integer bound, exactly. */
static json_wide integer_k(json_wide bound, const struct multiple_step *s, bool is_lo)
{
	json_wide k = bound / s->units, rest = bound % s->units;
	return is_lo ? k + (rest > 0) : k - (rest < 0);
}

#define MOST_K 100000000000000 /* a double still tells neighbours apart */

/* The same for a number's bound. Beyond MOST_K a double is not exact: *out_far becomes true
 * if the bound leaves no k below that. */
static json_wide first_k(double v, bool is_excluded, const struct multiple_step *s, bool is_lo,
			 bool *out_far)
{
	double k = v * (double)powers[s->digits] / (double)s->units;
	double near = round(k);
	*out_far |= is_lo ? k > MOST_K : k < -MOST_K;
	if (fabs(k) > MOST_K)
		return k > 0 ? MOST_K : -MOST_K;
	if (fabs(k - near) < 1e-6) /* the bound is a multiple, up to rounding errors */
		return (json_wide)near + (is_excluded ? (is_lo ? 1 : -1) : 0);
	return (json_wide)(is_lo ? ceil(k) : floor(k));
}

bool schema_multiple(struct schema_reader *x, const struct schema_list *l,
		     const struct schema_bounds *b, bool is_integer, grammar_part *out)
{
	struct multiple_step s = {0};
	bool has = false, is_fine = true;
	const struct json_node *where = NULL;
	for (size_t i = 0; i < l->n && x->st == OK; i++) {
		const struct json_node *at = schema_get(x, l->p[i].at, "multipleOf");
		double v = 0;
		schema_check(x, json_read_num(at, 0, INFINITY, &v, x->fail));
		if (!at->v || x->st != OK)
			continue;
		where = at;
		if (has)
			is_fine &= add_step(&s, v);
		else
			is_fine = first_step(&s, v);
		has = true;
	}
	if (has && is_integer && is_fine)
		is_fine = add_step(&s, 1);
	if (!has || x->st != OK)
		return false;
	*out = 0;
	if (!is_fine)
		schema_refuse(x, where, "is no step that numbers can be held to");
	else if (has_excluded(l))
		schema_refuse(x, where, "cannot be held to beside values that are left out");
	if (x->st != OK)
		return true;
	bool is_far = false;
	double lo = is_integer ? (double)b->int_lo : b->lo;
	double hi = is_integer ? (double)b->int_hi : b->hi;
	json_wide k_lo = is_integer ? integer_k(b->int_lo, &s, true)
				    : first_k(lo, b->lo_excluded, &s, true, &is_far);
	json_wide k_hi = is_integer ? integer_k(b->int_hi, &s, false)
				    : first_k(hi, b->hi_excluded, &s, false, &is_far);
	if (is_far) {
		schema_refuse(x, b->where, "has too many digits to be held to");
		return true;
	}
	if (k_hi - k_lo >= MANY && by_digits(x, &s, lo, hi, out) &&
	    !(b->lo == 0 && b->lo_excluded) && !(b->hi == 0 && b->hi_excluded))
		return true;
	*out = write_out(x, &s, k_lo, k_hi);
	return true;
}
