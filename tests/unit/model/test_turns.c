/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layers a transform_config turns, the matrices that it finds for them, and what is made
 * of a stored matrix. Goldens of whole models are the engine's tests.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/formats/turn_make.h"
#include "model/formats/turns.h"
#include "model/model.h"
#include "tests/tap.h"

static struct fail fail;

/* --- a matrix ------------------------------------------------------------ */

static float sylvester(int32_t i, int32_t j)
{
	return __builtin_parity((unsigned)(i & j)) ? -1 : 1;
}

/* R[i][j] by the definition in turn.h. */
static double element(const struct turn_matrix *r, int32_t i, int32_t j)
{
	int32_t line = r->n / r->order;
	double base = r->base ? (double)r->base[i / line * r->order + j / line] : 1;
	return (double)r->scale * base * (double)sylvester(i % line, j % line) *
	       (r->before ? (double)r->before[i] : 1) * (r->after ? (double)r->after[j] : 1);
}

/* M (n, n): signs of rows, a small matrix of this order, and Sylvester's. */
static float *stored(int32_t n, int32_t order)
{
	float *m = xmalloc((size_t)n * (size_t)n * sizeof *m);
	int32_t line = n / order;
	for (int32_t i = 0; i < n; i++)
		for (int32_t j = 0; j < n; j++) {
			int32_t small = i / line * order + j / line;
			float sign = i * 7 % 5 < 2 ? -1 : 1, base = small * 13 % 7 < 3 ? -1 : 1;
			m[i * n + j] = sign * base * sylvester(i % line, j % line);
		}
	return m;
}

/* The largest difference of R from M (or its transpose), in this order, times scale. */
static double off(const struct turn_matrix *r, const float *m, const int64_t *perm, bool is_back,
		  double scale)
{
	double most = 0;
	for (int32_t i = 0; i < r->n; i++)
		for (int32_t j = 0; j < r->n; j++) {
			int32_t from = is_back ? j : i, to = is_back ? i : j;
			int64_t row = perm ? perm[from] : from, column = perm ? perm[to] : to;
			double want = (double)m[row * r->n + column] * scale;
			most = fmax(most, fabs(element(r, i, j) - want));
		}
	return most;
}

static void matrix_case(int32_t n, int32_t order, bool is_permuted, bool is_changed, int32_t want)
{
	float *m = stored(n, order);
	int64_t *perm = xmalloc((size_t)n * sizeof *perm);
	for (int32_t i = 0; i < n; i++)
		perm[i] = (i * 5 + 3) % n;
	if (is_changed)
		m[n * n - 1] = 0.5f;
	const struct tensor t = {.name = "m", .file = "f", .dtype = DTYPE_F32, .n_dims = 2,
				 .dim = {n, n}, .data = m};
	const struct tensor p = {.name = "p", .file = "f", .dtype = DTYPE_I64, .n_dims = 1,
				 .dim = {n}, .data = perm};
	for (int back = 0; back < 2; back++) {
		struct turn_source s = {.n = n, .weight = &t, .perm = is_permuted ? &p : NULL,
					.is_transposed = back, .is_scaled = true};
		struct turn_matrix r;
		is_int(turn_check(&s, &fail), OK, "%d of order %d: %s", n, order, fail.text);
		turn_make(&s, &r);
		is_int(r.order, want, "%d of order %d%s: fast as far as it can be", n, order,
		       is_permuted ? ", permuted" : "");
		double most = off(&r, m, s.perm ? perm : NULL, back, 1 / sqrt(n));
		ok(most < 1e-6, "and the same matrix%s, %.1e off", back ? " back" : "", most);
		turn_free(&r);
	}
	free(perm);
	free(m);
}

static void test_matrices(void)
{
	matrix_case(64, 1, false, false, 1);
	matrix_case(48, 3, false, false, 3);
	matrix_case(48, 12, false, false, 12);
	matrix_case(56, 7, true, false, 56);
	matrix_case(40, 5, false, true, 40);
	matrix_case(21, 21, false, false, 21);
	matrix_case(1, 1, false, false, 1);

	struct turn_source s = {.n = 2 * TURN_MAX_LINE, .is_scaled = true};
	struct turn_matrix r;
	turn_make(&s, &r);
	is_int(r.order, 2, "lines are not longer than memory");
	ok(fabs(element(&r, 12345, 10101) * sqrt(s.n) - (double)sylvester(12345, 10101)) < 1e-5,
	   "nothing stored: Sylvester's");
	turn_free(&r);
}

static void test_tensors(void)
{
	static const float numbers[4] = {1, 1, 1, -1};
	static const int64_t order[2] = {0, 2};
	struct tensor t = {.name = "m", .file = "f", .dtype = DTYPE_F32, .n_dims = 2,
			   .dim = {2, 2}, .data = numbers};
	struct tensor p = {.name = "p", .file = "f", .dtype = DTYPE_I64, .n_dims = 1, .dim = {2},
			   .data = order};
	struct turn_source s = {.n = 2, .weight = &t, .perm = &p};
	is_int(turn_check(&s, &fail), E_FORMAT, "a row that is not there: %s", fail.text);
	s.perm = NULL;
	s.n = 4;
	is_int(turn_check(&s, &fail), E_FORMAT, "another size: %s", fail.text);
	s.n = 2;
	t.dtype = DTYPE_I8;
	is_int(turn_check(&s, &fail), E_FORMAT, "another type: %s", fail.text);
}

/* --- layers -------------------------------------------------------------- */

#define SCHEME(name, about, places) "\"" name "\":{" about ",\"apply\":[" places "]}"
#define PLACE(targets, location) "{\"targets\":[" targets "],\"location\":\"" location "\"}"

static enum status read(const char *groups, struct turns **out)
{
	char *text = xasprintf("{\"config_groups\":{%s}}", groups);
	json_t *root = json_loads(text, 0, NULL);
	fail = (struct fail){0};
	enum status st = root ? turns_read(root, out, &fail) : E_FORMAT;
	json_decref(root);
	free(text);
	return st;
}

static const char *sides(const struct turns *t, const char *name, bool is_linear)
{
	struct turn_sides s;
	if (turns_of(t, name, is_linear, &s, &fail) != OK)
		return fail.param;
	return s.in && s.out ? "both" : s.in ? "in" : s.out ? "out" : "none";
}

static void test_places(void)
{
	struct turns *t;
	is_int(read(SCHEME("a", "\"type\":\"hadamard\"",
			   PLACE("\"Linear\"", "weight_input") ","
			   "{\"targets\":\"Linear\",\"ignore\":\"lm_head\",\"location\":\"input\"},"
			   PLACE("\"re:.*q_proj$\",\"b.up\"", "output")) ","
		    SCHEME("heads", "\"type\":\"random-hadamard\",\"head_dim\":16",
			   "{\"targets\":[\"re:.*attn$\"],\"location\":\"q_attn\"},"
			   "{\"targets\":[\"re:.*attn$\"],\"location\":\"k_cache\",\"ignore\":[]}"),
		    &t), OK, "%s", fail.text);
	is_str(sides(t, "x.q_proj", true), "both", "by class and by pattern");
	is_str(sides(t, "x.k_proj", true), "in", "by class");
	is_str(sides(t, "lm_head", true), "none", "ignored");
	is_str(sides(t, "b.up", false), "out", "by name, of another class");
	turns_destroy(t);
	is_int(read(SCHEME("a", "\"type\":\"hadamard\"", PLACE("\"Linear\"", "weight_input")), &t),
	       OK, "nothing for a step");
	ok(!t, "then there are no turns");
	is_int(read(SCHEME("a", "\"type\":\"hadamard\"", PLACE("\"Linear\"", "input")) ","
		    SCHEME("b", "\"type\":\"hadamard\"", PLACE("\"re:x\"", "input")), &t), OK,
	       "two schemes");
	is_str(sides(t, "x", true), "transform_config", "but not for one input: %s", fail.text);
	turns_destroy(t);
}

/* The orders of what turns the layer, or the error's text. */
static const char *orders(struct turns *t, const struct model *m, const char *name, int32_t n,
			  int32_t k)
{
	static char text[80];
	const struct turn_matrix *in, *out;
	if (turns_find(t, m->tensors, name, true, n, k, &in, &out, &fail) != OK)
		return fail.param;
	snprintf(text, sizeof text, "%d/%d %d/%d", in ? in->n : 0, in ? in->order : 0,
		 out ? out->n : 0, out ? out->order : 0);
	return text;
}

/* Matrices of a model that the library saved. */
static void test_found(void)
{
	struct model *m;
	struct turns *t;
	if (!ok(model_open(tap_src("tests/golden/models/qwen3-ct-turns"), NULL, &m, &fail) == OK,
		"opens: %s", fail.text))
		return;
	const char *up = "model.layers.1.mlp.up_proj";
	is_int(read(SCHEME("v", "\"type\":\"random-hadamard\"", PLACE("\"re:.*up_proj\"", "input"))
		    "," SCHEME("u", "\"type\":\"hadamard\",\"head_dim\":16",
			       PLACE("\"re:.*(up|gate)_proj\"", "output")) ","
		    SCHEME("w", "\"type\":\"hadamard\",\"head_dim\":32",
			   PLACE("\"re:.*down_proj\"", "output")) ","
		    SCHEME("x", "\"type\":\"random-matrix\"", PLACE("\"re:.*o_proj\"", "output")),
		    &t), OK, "%s", fail.text);
	is_str(orders(t, m, up, 96, 48), "48/48 16/1", "of a layer that shares them");
	is_str(orders(t, m, up, 96, 64), "transform_config", "no layer has that size: %s",
	       fail.text);
	is_str(orders(t, m, "model.layers.0.mlp.gate_proj", 24, 48), "transform_config.head_dim",
	       "blocks that do not divide: %s", fail.text);
	is_str(orders(t, m, "model.layers.0.mlp.down_proj", 96, 96), "0/0 32/1",
	       "a Hadamard matrix need not be stored");
	is_str(orders(t, m, "model.layers.0.self_attn.o_proj", 48, 64), "transform_config",
	       "any other must be: %s", fail.text);
	const struct turn_matrix *in[2], *out;
	for (int i = 0; i < 2; i++)
		is_int(turns_find(t, m->tensors, i ? up : "model.layers.0.mlp.up_proj", true, 96,
				  48, &in[i], &out, &fail), OK, "once more");
	ok(in[0] == in[1], "a matrix is made once");
	turns_destroy(t);
	model_close(m);
}

int main(void)
{
	test_matrices();
	test_tensors();
	test_places();
	test_found();
	return tap_done();
}
