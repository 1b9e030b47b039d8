/* SPDX-License-Identifier: Apache-2.0
 *
 * transform_config has schemes, each with a type, and places where its matrix is applied:
 *
 *   weight_input, weight_output  before the model was saved: nothing is left to do.
 *   input, output                in a step, before and behind a layer's product (its bias
 *                                included).
 *   q_attn, k_cache              on the heads of q and k. The same orthogonal matrix on both
 *                                changes no score, so halod leaves out such a pair.
 *
 * A layer X has the matrix in X.<scheme>_<place>.weight (n, n), and with `randomize` its
 * order in X.<scheme>_<place>.perm. n is head_dim, or all of what X reads or writes. Layers
 * share matrices, and a file holds a shared tensor once: so any layer's will do.
 *
 *   hadamard         Sylvester's, of numbers 1 and -1: R = H / sqrt(n), or its transpose
 *   random-hadamard  the same with random signs, of more orders
 *   random-matrix    R as stored, which is an inverse already where it should be
 */
#include "model/formats/turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/name_set.h"
#include "model/formats/quant.h"
#include "model/formats/turn_make.h"

#define SECTION "transform_config"

enum turn_type { HADAMARD, RANDOM_HADAMARD, RANDOM_MATRIX };

struct scheme {
	char *name;
	enum turn_type type;
	int32_t head_dim; /* 0: all */
	bool randomize;
};

struct turn_place {
	const struct scheme *scheme;
	struct name_set targets, ignore;
	bool takes_linear, ignores_linear, is_output, is_inverse;
};

/* What has been made of which tensors. */
struct turn_made {
	struct turn_source source;
	struct turn_matrix turn;
};

struct turns {
	struct scheme *schemes;
	struct turn_place *places;
	size_t n_schemes, n_places, n_made;
	struct turn_made **made;
};

static const char *side_name(const struct turn_place *p)
{
	return p->is_output ? "output" : "input";
}

/* --- reading -------------------------------------------------------------- */

static bool has_class(const struct name_set *s)
{
	uint32_t unused;
	return strmap_get(&s->by_name, STR("Linear"), &unused);
}

/* A name alone stands for a list of one. */
static enum status read_names(const json_t *place, const char *key, struct name_set *out,
			      struct fail *fail)
{
	const json_t *v = jsonfile_get(place, key);
	return json_is_string(v) ? name_set_add(out, json_string_value(v), 0, fail)
				 : name_set_read(out, v, key, fail);
}

static enum status read_place(struct turns *t, const struct scheme *s, const json_t *place,
			      bool is_output, struct fail *fail)
{
	t->places = xrealloc(t->places, (t->n_places + 1) * sizeof *t->places);
	struct turn_place *p = &t->places[t->n_places++];
	*p = (struct turn_place){.scheme = s, .is_output = is_output,
			    .is_inverse = json_is_true(jsonfile_get(place, "inverse"))};
	enum status st = read_names(place, "targets", &p->targets, fail);
	if (st == OK)
		st = read_names(place, "ignore", &p->ignore, fail);
	p->takes_linear = has_class(&p->targets);
	p->ignores_linear = has_class(&p->ignore);
	return st;
}

static bool is_at(const json_t *place, const char *location)
{
	const char *s = json_string_value(jsonfile_get(place, "location"));
	return s && strcmp(s, location) == 0;
}

static bool is_same(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = jsonfile_get(a, key), *y = jsonfile_get(b, key);
	return (quant_is_nothing(x) && quant_is_nothing(y)) || (x && y && json_equal(x, y));
}

/* Is there a place for keys as this one is for queries, or the other way round? */
static bool is_paired(const json_t *places, const json_t *place)
{
	const char *other = is_at(place, "q_attn") ? "k_cache" : "q_attn";
	const json_t *one;
	size_t i;
	json_array_foreach(places, i, one)
		if (is_at(one, other) && is_same(one, place, "targets") &&
		    is_same(one, place, "ignore") && is_same(one, place, "inverse"))
			return true;
	return false;
}

static bool is_in_weights(const json_t *place)
{
	return is_at(place, "weight_input") || is_at(place, "weight_output");
}

/* Is a step to do something, or what is no list of places? */
static bool has_steps(const json_t *places)
{
	const json_t *one;
	size_t i;
	json_array_foreach(places, i, one)
		if (!is_in_weights(one))
			return true;
	return places && !json_is_array(places);
}

/* Scores of attention would change. */
static enum status refuse_heads(const struct scheme *s, const json_t *place, struct fail *fail)
{
	return fail_at(fail, E_UNSUPPORTED, SECTION ".location", "config.json: " SECTION ": %s "
		       "turns heads at %s, and not queries and keys alike by a Hadamard matrix",
		       s->name, json_string_value(jsonfile_get(place, "location")));
}

static enum status read_places(struct turns *t, const struct scheme *s, const json_t *places,
			       struct fail *fail)
{
	enum status st = OK;
	const json_t *one;
	size_t i;
	if (!json_is_array(places))
		return quant_refuse(fail, SECTION ".apply", places);
	json_array_foreach(places, i, one) {
		bool is_output = is_at(one, "output");
		bool is_of_heads = is_at(one, "q_attn") || is_at(one, "k_cache");
		if (is_in_weights(one))
			continue;
		if (is_of_heads && s->type != RANDOM_MATRIX && is_paired(places, one))
			continue;
		if (is_of_heads)
			st = refuse_heads(s, one, fail);
		else if (is_output || is_at(one, "input"))
			st = read_place(t, s, one, is_output, fail);
		else
			st = quant_refuse(fail, SECTION ".location", one);
		if (st != OK)
			return st;
	}
	return OK;
}

static enum status read_scheme(struct scheme *s, const char *name, const json_t *v,
			       struct fail *fail)
{
	static const char *const types[] = {"hadamard", "random-hadamard", "random-matrix"};
	const json_t *head = jsonfile_get(v, "head_dim"), *type = jsonfile_get(v, "type");
	json_int_t n = json_integer_value(head);
	size_t i = 0;
	while (i < ARRAY_LEN(types) &&
	       (!json_is_string(type) || strcmp(json_string_value(type), types[i]) != 0))
		i++;
	if (i == ARRAY_LEN(types))
		return quant_refuse(fail, SECTION ".type", type);
	if (head && !json_is_null(head) && (!json_is_integer(head) || n < 1 || n > 1 << 20))
		return quant_refuse(fail, SECTION ".head_dim", head);
	*s = (struct scheme){.name = xstrdup(name), .type = (enum turn_type)i,
			     .head_dim = (int32_t)n,
			     .randomize = json_is_true(jsonfile_get(v, "randomize"))};
	return OK;
}

enum status turns_read(const json_t *config, struct turns **out, struct fail *fail)
{
	const json_t *groups = jsonfile_get(config, "config_groups");
	const char *name;
	json_t *one;
	*out = NULL;
	if (quant_is_nothing(config) || (groups && quant_is_nothing(groups)))
		return OK;
	if (!json_is_object(groups))
		return quant_refuse(fail, SECTION, config);
	struct turns *t = xcalloc(1, sizeof *t);
	t->schemes = xcalloc(json_object_size(groups), sizeof *t->schemes);
	enum status st = OK;
	json_object_foreach((json_t *)(uintptr_t)groups, name, one) {
		struct scheme *s = &t->schemes[t->n_schemes];
		if (st != OK || !has_steps(jsonfile_get(one, "apply")))
			continue;
		st = read_scheme(s, name, one, fail);
		if (st == OK) {
			t->n_schemes++;
			st = read_places(t, s, jsonfile_get(one, "apply"), fail);
		}
	}
	if (st == OK && t->n_places) {
		*out = t;
		return OK;
	}
	turns_destroy(t);
	return st;
}

void turns_destroy(struct turns *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_places; i++) {
		name_set_deinit(&t->places[i].targets);
		name_set_deinit(&t->places[i].ignore);
	}
	for (size_t i = 0; i < t->n_schemes; i++)
		free(t->schemes[i].name);
	for (size_t i = 0; i < t->n_made; i++) {
		turn_free(&t->made[i]->turn);
		free(t->made[i]);
	}
	free(t->made);
	free(t->places);
	free(t->schemes);
	free(t);
}

/* --- layers ---------------------------------------------------------------- */

static enum status is_of(const struct turn_place *p, const char *name, bool is_linear, bool *out,
			 struct fail *fail)
{
	bool hit = false;
	*out = false;
	if (is_linear && p->ignores_linear)
		return OK;
	enum status st = name_set_has(&p->ignore, name, &hit, fail);
	if (st != OK || hit)
		return st;
	if (is_linear && p->takes_linear)
		*out = true;
	else
		st = name_set_has(&p->targets, name, out, fail);
	return st;
}

/* Find the place of each side; NULL: there is none. */
static enum status find_places(const struct turns *t, const char *name, bool is_linear,
			       const struct turn_place *side[2], struct fail *fail)
{
	side[0] = side[1] = NULL;
	for (size_t i = 0; i < t->n_places; i++) {
		const struct turn_place *p = &t->places[i];
		bool hit;
		enum status st = is_of(p, name, is_linear, &hit, fail);
		if (st != OK)
			return st;
		if (hit && side[p->is_output])
			return fail_at(fail, E_UNSUPPORTED, SECTION, "config.json: " SECTION
				       ": %s and %s both turn the %s of %s", p->scheme->name,
				       side[p->is_output]->scheme->name, side_name(p), name);
		if (hit)
			side[p->is_output] = p;
	}
	return OK;
}

enum status turns_of(const struct turns *t, const char *name, bool is_linear,
		     struct turn_sides *out, struct fail *fail)
{
	const struct turn_place *side[2];
	enum status st = find_places(t, name, is_linear, side, fail);
	*out = (struct turn_sides){st == OK && side[0], st == OK && side[1]};
	return st;
}

/* A tensor <layer>.<scheme>_<place>.<what> with n_dims dimensions of n: of this layer, else
 * of any that shares it. */
static const struct tensor *find_tensor(const struct tensors *ts, const struct turn_place *p,
					const char *layer, const char *what, int n_dims,
					int32_t n)
{
	char name[400], end[200];
	snprintf(end, sizeof end, ".%s_%s.%s", p->scheme->name, side_name(p), what);
	snprintf(name, sizeof name, "%s%s", layer, end);
	const struct tensor *t = tensors_find(ts, name);
	for (size_t i = 0; !t && i < tensors_count(ts); i++) {
		const struct tensor *other = tensors_at(ts, i);
		bool is_other = str_ends(str_of(other->name), str_of(end)) &&
				other->n_dims == n_dims && other->dim[0] == n &&
				other->dim[n_dims - 1] == n;
		t = is_other ? other : NULL;
	}
	return t;
}

/* The tensors of the matrix of layer `name`, checked. */
static enum status find_source(const struct tensors *ts, const struct turn_place *p,
			       const char *name, int32_t n, struct turn_source *out,
			       struct fail *fail)
{
	const struct scheme *s = p->scheme;
	bool is_made = s->type == HADAMARD && (n & (n - 1)) == 0;
	const struct tensor *w = find_tensor(ts, p, name, "weight", 2, n);
	const struct tensor *perm = s->randomize && s->type != RANDOM_MATRIX
					    ? find_tensor(ts, p, name, "perm", 1, n) : NULL;
	*out = (struct turn_source){.n = n, .weight = w, .perm = perm,
				    .is_transposed = p->is_inverse && s->type != RANDOM_MATRIX,
				    .is_scaled = s->type != RANDOM_MATRIX};
	if ((!w && !is_made) || (!perm && s->randomize && s->type != RANDOM_MATRIX))
		return fail_at(fail, E_MISSING, SECTION, "%s: tensor %s.%s_%s.%s is missing, "
			       "and no layer has one of its size, %d", tensors_dir(ts), name,
			       s->name, side_name(p), w || is_made ? "perm" : "weight", (int)n);
	return turn_check(out, fail);
}

static enum status find_turn(struct turns *t, const struct tensors *ts, const struct turn_place *p,
			     const char *name, int32_t size, const struct turn_matrix **out,
			     struct fail *fail)
{
	int32_t n = p->scheme->head_dim ? p->scheme->head_dim : size;
	struct turn_source source;
	if (size % n)
		return fail_at(fail, E_UNSUPPORTED, SECTION ".head_dim", "config.json: " SECTION
			       ": head_dim %d of %s does not divide the %d numbers of %s", (int)n,
			       p->scheme->name, (int)size, name);
	enum status st = find_source(ts, p, name, n, &source, fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < t->n_made; i++)
		if (turn_source_is_same(&t->made[i]->source, &source)) {
			*out = &t->made[i]->turn;
			return OK;
		}
	struct turn_made *m = xcalloc(1, sizeof *m);
	m->source = source;
	turn_make(&source, &m->turn);
	t->made = xrealloc(t->made, (t->n_made + 1) * sizeof(struct turn_made *));
	t->made[t->n_made++] = m;
	*out = &m->turn;
	return OK;
}

enum status turns_find(struct turns *t, const struct tensors *ts, const char *name,
		       bool is_linear, int32_t n, int32_t k, const struct turn_matrix **in,
		       const struct turn_matrix **out, struct fail *fail)
{
	const struct turn_place *side[2];
	*in = *out = NULL;
	enum status st = find_places(t, name, is_linear, side, fail);
	if (st == OK && side[0])
		st = find_turn(t, ts, side[0], name, k, in, fail);
	if (st == OK && side[1])
		st = find_turn(t, ts, side[1], name, n, out, fail);
	return st;
}
