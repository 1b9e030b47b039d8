/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson has no room for a text in its numbers. So a table, one for the process, has the
 * texts of the few that need one, by the value's address. The table holds a reference to
 * each value: an address is never used again while it has an entry. When the table has
 * doubled, the entries whose values nobody else holds are dropped.
 */
#include "json/json_digits.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MAX_TEXT 400 /* longer texts are not kept: no double needs so many digits */

struct entry {
	json_t *v; /* NULL: free */
	char *text;
};

static struct {
	pthread_mutex_t lock;
	struct entry *p;
	size_t n, cap; /* cap: a power of two, at least 2 * n */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the table -------------------------------------------------------------------- */

static struct entry *slot_of(struct entry *p, size_t cap, const json_t *v)
{
	size_t i = (uintptr_t)v / 16 * 0x9E3779B97F4A7C15u >> 16;
	while (p[i & (cap - 1)].v && p[i & (cap - 1)].v != v)
		i++;
	return &p[i & (cap - 1)];
}

/* Nobody but the table holds this value; nobody can take it up again. */
static bool is_dropped(const json_t *v)
{
	return __atomic_load_n(&v->refcount, __ATOMIC_ACQUIRE) == 1;
}

/* Drops what is not in use and makes room for as many again. */
static void sweep(void)
{
	size_t n_live = 0, cap = 64;
	for (size_t i = 0; i < kept.cap; i++)
		n_live += kept.p[i].v && !is_dropped(kept.p[i].v);
	while (cap < 4 * (n_live + 1))
		cap *= 2;
	struct entry *p = xcalloc(cap, sizeof *p);
	for (size_t i = 0; i < kept.cap; i++) {
		struct entry *e = &kept.p[i];
		if (!e->v)
			continue;
		if (is_dropped(e->v)) {
			json_decref(e->v);
			free(e->text);
			continue;
		}
		*slot_of(p, cap, e->v) = *e;
	}
	free(kept.p);
	kept.p = p;
	kept.cap = cap;
	kept.n = 0;
	for (size_t i = 0; i < cap; i++)
		kept.n += p[i].v != NULL;
}

static void keep_text(json_t *v, struct str text)
{
	pthread_mutex_lock(&kept.lock);
	if (2 * (kept.n + 1) > kept.cap)
		sweep();
	*slot_of(kept.p, kept.cap, v) = (struct entry){json_incref(v), xstrndup(text.p, text.n)};
	kept.n++;
	pthread_mutex_unlock(&kept.lock);
}

struct str json_digits_text(const json_t *v)
{
	struct str out = {0};
	if (!json_is_real(v))
		return out;
	pthread_mutex_lock(&kept.lock);
	const struct entry *e = kept.cap ? slot_of(kept.p, kept.cap, v) : NULL;
	if (e && e->v)
		out = str_of(e->text);
	pthread_mutex_unlock(&kept.lock);
	return out;
}

/* --- from text and back ------------------------------------------------------------- */

/* The text of a number without its own: 1.5, 2.0, 1e+30. */
static void add_value(const json_t *v, struct buf *out)
{
	size_t from = out->n;
	if (json_is_integer(v)) {
		buf_addf(out, "%lld", (long long)json_integer_value(v));
		return;
	}
	buf_add_json_num(out, json_real_value(v));
	if (!strpbrk(out->p + from, ".en"))
		buf_add_z(out, ".0");
}

json_t *json_digits_new(struct str text)
{
	json_error_t e;
	struct buf own = {0};
	bool is_integer = true;
	for (size_t i = 0; i < text.n; i++)
		is_integer &= !is_char_of(text.p[i], ".eE");
	json_t *v = json_loadb(text.p, text.n, JSON_DECODE_ANY, &e);
	if (!v && is_integer && json_error_code(&e) == json_error_numeric_overflow) {
		buf_add_str(&own, text);
		buf_add_z(&own, ".0");
		v = json_loadb(own.p, own.n, JSON_DECODE_ANY, NULL);
		buf_clear(&own);
	}
	if (json_is_real(v)) {
		add_value(v, &own);
		bool has_exponent = memchr(text.p, 'e', text.n) || memchr(text.p, 'E', text.n);
		if (text.n <= MAX_TEXT && (has_exponent || !str_eq(buf_str(&own), text)))
			keep_text(v, text);
	}
	buf_deinit(&own);
	return v;
}

void json_digits_add(const json_t *v, struct buf *out)
{
	struct str text = json_digits_text(v);
	if (text.p)
		buf_add_str(out, text);
	else
		add_value(v, out);
}

/* --- decimals ---------------------------------------------------------------------- */

/* 0.d1d2d3… times 10 to the power `exponent`; zero has no digits. */
struct scaled {
	struct buf digits; /* without zeros at either end */
	bool is_negative;
	int64_t exponent;
};

static struct scaled decimal_of(const json_t *v)
{
	struct scaled d = {0};
	struct buf text = {0};
	json_digits_add(v, &text);
	const char *p = buf_str(&text).p;
	bool in_fraction = false;
	d.is_negative = *p == '-';
	for (p += d.is_negative; *p && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			in_fraction = true;
			continue;
		}
		bool is_leading = *p == '0' && d.digits.n == 0;
		if (!is_leading)
			buf_add_c(&d.digits, *p);
		d.exponent += in_fraction ? -is_leading : !is_leading;
	}
	/* a large exponent was refused before; one far below zero may stand */
	d.exponent += *p ? MAX(strtoll(p + 1, NULL, 10), -1000000) : 0;
	while (d.digits.n && d.digits.p[d.digits.n - 1] == '0')
		d.digits.n--;
	if (d.digits.n == 0) {
		d.is_negative = false;
		d.exponent = 0;
	}
	buf_deinit(&text);
	return d;
}

static int compare_magnitudes(const struct scaled *a, const struct scaled *b)
{
	if (!a->digits.n || !b->digits.n)
		return (a->digits.n > 0) - (b->digits.n > 0);
	if (a->exponent != b->exponent)
		return a->exponent < b->exponent ? -1 : 1;
	int c = memcmp(a->digits.p, b->digits.p, MIN(a->digits.n, b->digits.n));
	return c ? c : (a->digits.n > b->digits.n) - (a->digits.n < b->digits.n);
}

int json_digits_compare(const json_t *a, const json_t *b)
{
	if (json_is_integer(a) && json_is_integer(b)) {
		json_int_t i = json_integer_value(a), k = json_integer_value(b);
		return (i > k) - (i < k);
	}
	struct scaled x = decimal_of(a), y = decimal_of(b);
	int c = x.is_negative != y.is_negative ? y.is_negative - x.is_negative
	      : x.is_negative                  ? compare_magnitudes(&y, &x)
					       : compare_magnitudes(&x, &y);
	buf_deinit(&x.digits);
	buf_deinit(&y.digits);
	return c;
}

bool json_digits_is_integer(const json_t *v)
{
	if (!json_is_real(v))
		return json_is_integer(v);
	struct scaled d = decimal_of(v);
	bool is_integer = (int64_t)d.digits.n <= d.exponent || d.digits.n == 0;
	buf_deinit(&d.digits);
	return is_integer;
}

json_wide json_digits_round(const json_t *v, bool is_up)
{
	if (json_is_integer(v))
		return json_integer_value(v);
	struct scaled d = decimal_of(v);
	json_wide out = 0;
	bool has_rest = (int64_t)d.digits.n > d.exponent && d.digits.n > 0;
	if (d.exponent > 38) {
		out = JSON_WIDE_MAX + 1;
	} else {
		for (int64_t i = 0; i < d.exponent; i++)
			out = out * 10 + (i < (int64_t)d.digits.n ? d.digits.p[i] - '0' : 0);
		out += has_rest && is_up != d.is_negative;
	}
	buf_deinit(&d.digits);
	return d.is_negative ? -out : out;
}

const char *json_digits_of_wide(json_wide v, char *out)
{
	char *p = out + JSON_WIDE_BYTES - 1;
	bool is_negative = v < 0;
	*p = '\0';
	do {
		int digit = (int)(v % 10);
		*--p = (char)('0' + (digit < 0 ? -digit : digit));
		v /= 10;
	} while (v);
	if (is_negative)
		*--p = '-';
	return memmove(out, p, strlen(p) + 1);
}

/* --- trees ------------------------------------------------------------------------- */

bool json_digits_equal(const json_t *a, const json_t *b)
{
	const char *key;
	json_t *item;
	if (json_is_number(a) && json_is_number(b))
		return json_digits_compare(a, b) == 0;
	if (json_is_array(a) && json_is_array(b)) {
		bool same = json_array_size(a) == json_array_size(b);
		for (size_t i = 0; same && i < json_array_size(a); i++)
			same = json_digits_equal(json_array_get(a, i), json_array_get(b, i));
		return same;
	}
	if (!json_is_object(a) || !json_is_object(b))
		return json_equal(a, b);
	bool same = json_object_size(a) == json_object_size(b);
	json_object_foreach((json_t *)(uintptr_t)a, key, item)
		same = same && json_digits_equal(item, json_object_get(b, key));
	return same;
}

static void write_items(const json_t *v, bool is_spaced, struct buf *out)
{
	for (size_t i = 0; i < json_array_size(v); i++) {
		if (i > 0)
			buf_add_z(out, is_spaced ? ", " : ",");
		json_digits_write(json_array_get(v, i), is_spaced, out);
	}
}

static void write_members(const json_t *v, bool is_spaced, struct buf *out)
{
	const char *key, *comma = "";
	json_t *item;
	json_object_foreach((json_t *)(uintptr_t)v, key, item) {
		buf_add_z(out, comma);
		buf_add_json(out, str_of(key));
		buf_add_z(out, is_spaced ? ": " : ":");
		json_digits_write(item, is_spaced, out);
		comma = is_spaced ? ", " : ",";
	}
}

void json_digits_write(const json_t *v, bool is_spaced, struct buf *out)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		buf_add_c(out, '{');
		write_members(v, is_spaced, out);
		buf_add_c(out, '}');
		break;
	case JSON_ARRAY:
		buf_add_c(out, '[');
		write_items(v, is_spaced, out);
		buf_add_c(out, ']');
		break;
	case JSON_STRING:
		buf_add_json(out, (struct str){json_string_value(v), json_string_length(v)});
		break;
	case JSON_INTEGER:
	case JSON_REAL: json_digits_add(v, out); break;
	case JSON_TRUE: buf_add_z(out, "true"); break;
	case JSON_FALSE: buf_add_z(out, "false"); break;
	case JSON_NULL: buf_add_z(out, "null"); break;
	}
}

json_t *json_digits_copy(const json_t *v)
{
	json_t *out, *item;
	const char *key;
	if (json_is_array(v)) {
		out = json_array();
		for (size_t i = 0; i < json_array_size(v); i++)
			json_array_append_new(out, json_digits_copy(json_array_get(v, i)));
		return out;
	}
	if (!json_is_object(v))
		return json_incref((json_t *)(uintptr_t)v);
	out = json_object();
	json_object_foreach((json_t *)(uintptr_t)v, key, item)
		json_object_set_new_nocheck(out, key, json_digits_copy(item));
	return out;
}
