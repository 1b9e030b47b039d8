/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's operators on values. Thread: the rendering's.
 */
#pragma once
#include "jinja/jinja_rt.h"

enum jop { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW };
enum jcmp { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE, CMP_IN, CMP_NOT_IN };

/* How deeply lists and dicts may lie in each other where they are compared or
 * printed: a list can be made to hold itself. */
#define JOP_DEPTH 300

struct jinja_value *jop_arith(struct jrt *rt, enum jop op, struct jinja_value *a,
			      struct jinja_value *b);
struct jinja_value *jop_negate(struct jrt *rt, struct jinja_value *v);
struct jinja_value *jop_plus(struct jrt *rt, struct jinja_value *v);
/* a == b. Never fails for scalars; rt may be NULL where only hashable values
 * come. */
bool jop_equal(const struct jinja_value *a, const struct jinja_value *b,
	       struct jrt *rt);
/* The order of a and b as -1, 0, 1, or 2 where one is NaN; false (failed) where
 * they have none. `op` is said in the failure. */
bool jop_order(struct jrt *rt, const struct jinja_value *a,
	       const struct jinja_value *b, const char *op, int *out_order);
/* a op b, as 0 or 1; -1 failed. */
int jop_compare(struct jrt *rt, enum jcmp op, struct jinja_value *a,
		struct jinja_value *b);
/* v[start:stop:step], NULL for parts left out. */
struct jinja_value *jop_slice(struct jrt *rt, struct jinja_value *v,
			      struct jinja_value *start, struct jinja_value *stop,
			      struct jinja_value *step);
/* Item `key` of a sequence, string or dict; NULL where there is none (not
 * failed). */
struct jinja_value *jop_subscript(struct jrt *rt, struct jinja_value *v,
				  struct jinja_value *key);
