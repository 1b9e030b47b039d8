/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of a model's weights (formats/turns.h), by the names that its layers have in the
 * checkpoint.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/experts.h"
#include "model/formats/turns.h"
#include "model/model_turns.h"

bool model_turns(const struct model *m)
{
	return quant_scheme_turns(m->scheme) != NULL;
}

/* Rows [first, first + n) of a layer with all outputs of several weights. */
static enum status check_part(const struct model *m, const struct expert_place *place,
			      int32_t n, const struct turn_matrix *out, struct fail *fail)
{
	if (!out || (place->part.first % out->n == 0 && n % out->n == 0))
		return OK;
	return fail_at(fail, E_UNSUPPORTED, "transform_config", "%s: transform_config: blocks of "
		       "%d outputs of %s, which has several matrices in it", m->dir, (int)out->n,
		       place->name);
}

enum status model_weight_turns(const struct model *m, const char *name,
			       const struct model_turned *of, const struct turn_matrix **in,
			       const struct turn_matrix **out, struct fail *fail)
{
	struct turns *t = quant_scheme_turns(m->scheme);
	struct expert_place place;
	char full[256];
	*in = *out = NULL;
	if (!t)
		return OK;
	bool is_part = experts_find(m, name, of->n, &place);
	bool is_of_expert = is_part && place.part.n_experts;
	const char *layer = model_stored_name(m, is_part ? place.name : name, full);
	struct turn_sides sides;
	enum status st = turns_of(t, layer, of->is_linear, &sides, fail);
	if (st != OK || (!sides.in && !sides.out))
		return st;
	if (of->why_not || is_of_expert)
		return fail_at(fail, E_UNSUPPORTED, "transform_config", "config.json: "
			       "transform_config turns the %s of %s: halod does not do so with %s",
			       sides.in ? "inputs" : "outputs", layer,
			       is_of_expert ? "experts" : of->why_not);
	st = turns_find(t, m->tensors, layer, of->is_linear,
			is_part ? place.part.n_rows : of->n, of->k, in, out, fail);
	return st == OK && is_part ? check_part(m, &place, of->n, *out, fail) : st;
}

/* The layer's name, where t holds the numbers of a weight. */
static bool is_numbers(const struct tensor *t, char layer[256])
{
	static const char *const suffixes[] = {".weight", ".weight_packed"};
	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
		if (t->n_dims == 2 && str_ends(str_of(t->name), str_of(suffixes[i])))
			return snprintf(layer, 256, "%.*s", (int)(strlen(t->name) -
								  strlen(suffixes[i])),
					t->name) < 256;
	return false;
}

void model_turn_sizes(const struct model *m, int32_t *k, int32_t *n)
{
	const struct turns *t = quant_scheme_turns(m->scheme);
	struct turn_sides head = {false, false};
	char name[200];
	snprintf(name, sizeof name, "%slm_head", m->config.prefix);
	if (t && turns_of(t, name, true, &head, NULL) != OK)
		head.in = true; /* loading fails */
	*k = head.in ? m->config.d_model : 0; /* it may have no tensor of its own */
	*n = 0;
	for (size_t i = 0; t && i < tensors_count(m->tensors); i++) {
		const struct tensor *w = tensors_at(m->tensors, i);
		struct turn_sides sides;
		int64_t n_weights;
		char layer[256];
		if (!is_numbers(w, layer) || turns_of(t, layer, true, &sides, NULL) != OK)
			continue;
		model_tensor_quant(m, w, &n_weights);
		bool is_head = strstr(layer, "lm_head") != NULL; /* its outputs never turn */
		if (sides.out && !is_head)
			*n = MAX(*n, (int32_t)w->dim[0]);
		if (sides.in && w->dim[0])
			*k = MAX(*k, (int32_t)(n_weights / w->dim[0]));
	}
}

enum status model_turns_no_sight(const struct model *m, struct fail *fail)
{
	static const char *const words[] = {"vision", "visual", "multi_modal_projector"};
	const struct turns *t = quant_scheme_turns(m->scheme);
	for (size_t i = 0; t && i < tensors_count(m->tensors); i++) {
		const struct tensor *w = tensors_at(m->tensors, i);
		struct turn_sides sides = {false, false};
		enum status st = OK;
		char layer[256];
		bool is_there = false;
		for (size_t j = 0; j < ARRAY_LEN(words); j++)
			is_there |= strstr(w->name, words[j]) != NULL;
		if (is_there && is_numbers(w, layer))
			st = turns_of(t, layer, true, &sides, fail);
		if (st != OK)
			return st;
		if (sides.in || sides.out)
			return fail_at(fail, E_UNSUPPORTED, "transform_config", "config.json: "
				       "transform_config turns inputs or outputs of %s: halod does "
				       "not do so with vision towers", layer);
	}
	return OK;
}
