/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: `x is name` and `x is name(y)`.
 */
#include "jinja/jinja_op.h"

#define TEST(name) JNATIVE(test_##name)

#define KIND_TEST(name, condition) \
	TEST(name) \
	{ \
		return jval_bool(condition); \
	}

KIND_TEST(defined, self->kind != J_UNDEFINED)
KIND_TEST(undefined, self->kind == J_UNDEFINED)
KIND_TEST(none, self->kind == J_NONE)
KIND_TEST(boolean, self->kind == J_BOOL)
KIND_TEST(is_true, self->kind == J_BOOL && self->b)
KIND_TEST(is_false, self->kind == J_BOOL && !self->b)
KIND_TEST(string, self->kind == J_STRING)
KIND_TEST(integer, self->kind == J_INT)
KIND_TEST(float, self->kind == J_FLOAT)
KIND_TEST(number, jval_is_num(self))
KIND_TEST(mapping, self->kind == J_DICT)
KIND_TEST(escaped, false)
/* A sequence has a length and items. Undefined counts as one, as in Jinja. */
KIND_TEST(sequence, self->kind == J_UNDEFINED || self->kind == J_STRING ||
	  jval_is_seq(self) || self->kind == J_RANGE || self->kind == J_DICT)
KIND_TEST(iterable, self->kind == J_STRING || jval_is_seq(self) ||
	  self->kind == J_RANGE || self->kind == J_GENERATOR || self->kind == J_VIEW ||
	  self->kind == J_DICT || self->kind == J_UNDEFINED || self->kind == J_LOOP)
KIND_TEST(callable, self->kind == J_NATIVE || self->kind == J_MACRO ||
	  self->kind == J_LOOP || self->kind == J_UNDEFINED)

/* True if self % n == want. */
static struct jinja_value *remainder_is(struct jrt *rt, struct jinja_value *self,
					struct jinja_value *n, int want)
{
	struct jinja_value *rest = jop_arith(rt, OP_MOD, self, n);
	struct jinja_value number = {.kind = J_INT, .i = want};
	return rest ? jval_bool(jop_equal(rest, &number, rt)) : NULL;
}

static struct jinja_value two = {.kind = J_INT, .i = 2};

TEST(odd)
{
	return remainder_is(rt, self, &two, 1);
}

TEST(even)
{
	return remainder_is(rt, self, &two, 0);
}

TEST(divisibleby)
{
	return remainder_is(rt, self, v[0], 0);
}

/* Python's `is`: the same object. Equal small integers are the same object. */
TEST(sameas)
{
	struct jinja_value *x = self, *y = v[0];
	if (x->kind != y->kind)
		return &jval_false;
	if (x->kind == J_NONE || x->kind == J_BOOL)
		return jval_bool(jop_equal(x, y, rt));
	return jval_bool(x == y || (x->kind == J_INT && x->i == y->i && x->i >= -5 &&
				    x->i <= 256));
}

#define COMPARE_TEST(name, op) \
	TEST(name) \
	{ \
		int is = jop_compare(rt, op, self, v[0]); \
		return is < 0 ? NULL : jval_bool(is); \
	}

COMPARE_TEST(eq, CMP_EQ)
COMPARE_TEST(ne, CMP_NE)
COMPARE_TEST(lt, CMP_LT)
COMPARE_TEST(le, CMP_LE)
COMPARE_TEST(gt, CMP_GT)
COMPARE_TEST(ge, CMP_GE)
COMPARE_TEST(in, CMP_IN)

TEST(filter)
{
	return jval_bool(self->kind == J_STRING && jfilter_find(jval_str(self)));
}

TEST(test)
{
	return jval_bool(self->kind == J_STRING && jtest_find(jval_str(self)));
}

static const struct jbuiltin tests[] = {
	{"boolean", "", test_boolean}, {"callable", "", test_callable},
	{"defined", "", test_defined}, {"divisibleby", "num", test_divisibleby},
	{"escaped", "", test_escaped}, {"even", "", test_even},
	{"false", "", test_is_false}, {"filter", "", test_filter},
	{"float", "", test_float}, {"in", "seq", test_in},
	{"integer", "", test_integer}, {"iterable", "", test_iterable},
	{"mapping", "", test_mapping},
	{"none", "", test_none}, {"number", "", test_number}, {"odd", "", test_odd},
	{"sameas", "other", test_sameas}, {"sequence", "", test_sequence},
	{"string", "", test_string}, {"test", "", test_test}, {"true", "", test_is_true},
	{"undefined", "", test_undefined},
	{"eq", "other", test_eq}, {"equalto", "other", test_eq}, {"==", "other", test_eq},
	{"ne", "other", test_ne}, {"!=", "other", test_ne},
	{"lt", "other", test_lt}, {"lessthan", "other", test_lt}, {"<", "other", test_lt},
	{"le", "other", test_le}, {"<=", "other", test_le},
	{"gt", "other", test_gt}, {"greaterthan", "other", test_gt},
	{">", "other", test_gt}, {"ge", "other", test_ge}, {">=", "other", test_ge},
	{NULL, NULL, NULL},
};

const struct jbuiltin *jtest_find(struct str name)
{
	return jcall_find(tests, name);
}
