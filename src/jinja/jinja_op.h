/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's operators on values. Thread: the one that renders.
 */
#pragma once
#include "jinja/jinja_rt.h"

enum jop { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD };
enum jcmp { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOT_IN };

/* Maximal nesting of lists and dicts for comparing and printing. A list can contain
 * itself, so there must be a limit. */
#define JOP_DEPTH 300

struct jinja_value *jop_arith(struct jrt *rt, enum jop op, struct jinja_value *a,
			      struct jinja_value *b);
struct jinja_value *jop_negate(struct jrt *rt, struct jinja_value *v);
struct jinja_value *jop_plus(struct jrt *rt, struct jinja_value *v);
/* a == b. Never fails for scalars. rt may be NULL if both values are hashable. */
bool jop_equal(const struct jinja_value *a, const struct jinja_value *b,
	       struct jrt *rt);
/* Sets *out to -1, 0 or 1 for the order of a and b, or to 2 if one is NaN. False: failed,
 * because they have no order; the error text names `op`. */
bool jop_order(struct jrt *rt, const struct jinja_value *a,
	       const struct jinja_value *b, const char *op, int *out_order);
/* a op b as 0 or 1; -1: failed. */
int jop_compare(struct jrt *rt, enum jcmp op, struct jinja_value *a,
		struct jinja_value *b);
/* v[start:stop:step]; a part that was left out is NULL. */
struct jinja_value *jop_slice(struct jrt *rt, struct jinja_value *v,
			      struct jinja_value *start, struct jinja_value *stop,
			      struct jinja_value *step);
/* Item `key` of a sequence, string or dict. NULL: there is none (this is no failure). */
struct jinja_value *jop_subscript(struct jrt *rt, struct jinja_value *v,
				  struct jinja_value *key);
