/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config: a method with one setting for all layers (quant_method.c), which some
 * layers may have another one of (quant_own.c); or compressed-tensors with groups of layers
 * (quant_ct_config.c). For the last a layer's format is found by the rules of the
 * compressed-tensors library:
 *
 *   1. a name that `ignore` lists, or one of its patterns matches: plain
 *   2. the first group that targets the layer by name or pattern
 *   3. the first group that targets its class, Linear or Embedding
 *   4. else plain
 *
 * Rule 3 can be wrong here: embeddings are looked up by name like any layer, and a router
 * may not be of class Linear. quant_open therefore checks which tensor exists, and treats
 * a layer with unpacked numbers as plain.
 */
#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/formats/name_set.h"
#include "model/formats/quant.h"

#define SECTION "quantization_config"

struct scheme_group {
	struct name_set targets;
	bool takes_linear, takes_embedding;
	struct quant_choice choice;
};

struct quant_scheme {
	struct name_set ignore;
	struct scheme_group *groups;
	size_t n_groups;
	struct quant_choice all; /* format of a layer that is in no group */
	struct name_set own;     /* names of layers, or of what layers are in, and their groups */
	bool asks_fp8_kv, is_made;
};

enum status quant_refuse(struct fail *fail, const char *key, const json_t *v)
{
	char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	enum status st = fail_at(fail, E_UNSUPPORTED, key,
				 "config.json: " SECTION ": %s %.160s is not "
				 "supported", key, text ? text : "(missing)");
	free(text);
	return st;
}

/* --- reading -------------------------------------------------------------- */

static bool is_string(const json_t *v, const char *want)
{
	return json_is_string(v) && strcmp(json_string_value(v), want) == 0;
}

/* An absent value, null, false, {} or []: the setting is off. */
static bool is_nothing(const json_t *v)
{
	return !v || json_is_false(v) ||
	       (json_is_object(v) && json_object_size(v) == 0) ||
	       (json_is_array(v) && json_array_size(v) == 0);
}

enum status quant_need_nothing(const json_t *object, const char *key,
			       struct fail *fail)
{
	const json_t *v = jsonfile_get(object, key);
	return is_nothing(v) ? OK : quant_refuse(fail, key, v);
}

static enum status read_targets(const json_t *targets, struct scheme_group *g,
				struct fail *fail)
{
	if (!json_is_array(targets) || json_array_size(targets) == 0)
		return quant_refuse(fail, "targets", targets);
	enum status st = name_set_read(&g->targets, targets, "targets", fail);
	if (st != OK)
		return st;
	for (size_t i = 0; i < g->targets.n_exact; i++) {
		const char *name = g->targets.exact[i];
		if (strcmp(name, "Linear") == 0)
			g->takes_linear = true;
		else if (strcmp(name, "Embedding") == 0)
			g->takes_embedding = true;
		else if (g->choice.is_packed && !strchr(name, '.') && strcmp(name, "lm_head") != 0)
			/* another class; attention, say, has no weights of its own */
			return quant_refuse(fail, "targets", targets);
	}
	return OK;
}

/* Rotations that were multiplied into the weights need nothing more. A rotation in each step
 * is refused. */
static enum status check_rotations(const json_t *config, struct fail *fail)
{
	const json_t *groups = jsonfile_get(config, "config_groups"), *place;
	const char *name;
	json_t *one;
	size_t i;
	if (is_nothing(config) || (groups && is_nothing(groups)))
		return OK;
	if (!json_is_object(groups))
		return quant_refuse(fail, "transform_config", config);
	json_object_foreach((json_t *)(uintptr_t)groups, name, one) {
		const json_t *places = jsonfile_get(one, "apply");
		if (places && !json_is_array(places))
			return quant_refuse(fail, "transform_config.apply", places);
		json_array_foreach(places, i, place) {
			const json_t *at = jsonfile_get(place, "location");
			if (is_string(at, "weight_input") || is_string(at, "weight_output"))
				continue;
			return fail_at(fail, E_UNSUPPORTED, "transform_config.location",
				       "config.json: transform_config: %s rotates at %.60s in each "
				       "step, which halod does not do. Rotations that are in the "
				       "weights alone run", name,
				       json_is_string(at) ? json_string_value(at) : "no place");
		}
	}
	return OK;
}

static enum status read_groups(const json_t *config, struct quant_scheme *s,
			    struct fail *fail)
{
	const json_t *state = jsonfile_get(config, "quantization_status");
	const json_t *groups = jsonfile_get(config, "config_groups");
	if (state && !is_string(state, "compressed"))
		return quant_refuse(fail, "quantization_status", state);
	if (!json_is_object(groups))
		return quant_refuse(fail, "config_groups", groups);
	enum status st = check_rotations(jsonfile_get(config, "transform_config"), fail);
	if (st == OK)
		st = quant_need_nothing(config, "moe_sparsity_config", fail);
	const json_t *sparsity = jsonfile_get(config, "sparsity_config");
	if (st == OK && !is_nothing(sparsity) &&
	    !is_string(jsonfile_get(sparsity, "format"), "dense"))
		st = quant_refuse(fail, "sparsity_config", sparsity);
	if (st == OK)
		st = name_set_read(&s->ignore, jsonfile_get(config, "ignore"),
				   "ignore", fail);
	s->groups = xcalloc(json_object_size(groups) + 1, sizeof *s->groups);
	const char *key;
	json_t *group;
	json_object_foreach((json_t *)groups, key, group) {
		struct scheme_group *g = &s->groups[s->n_groups++];
		if (st == OK)
			st = quant_ct_read(config, group, &g->choice, fail);
		if (st == OK)
			st = read_targets(jsonfile_get(group, "targets"), g, fail);
	}
	return st;
}

/* --- layers with a setting of their own ------------------------------------------- */

static bool same_choice(const struct quant_choice *a, const struct quant_choice *b)
{
	return a->is_packed == b->is_packed && a->quant == b->quant &&
	       a->is_asymmetric == b->is_asymmetric && a->group == b->group &&
	       a->group_n == b->group_n && a->zero_step == b->zero_step &&
	       a->is_signed == b->is_signed && a->is_in_order == b->is_in_order &&
	       a->stored == b->stored && a->bits == b->bits;
}

enum status quant_scheme_add(struct quant_scheme *s, const char *target,
			     const struct quant_choice *c, struct fail *fail)
{
	bool is_pattern = strncmp(target, "re:", 3) == 0;
	size_t i = 0;
	while (i < s->n_groups && (is_pattern || s->groups[i].targets.n_patterns ||
				   !same_choice(&s->groups[i].choice, c)))
		i++;
	if (i == s->n_groups) {
		s->groups = xrealloc(s->groups, (i + 1) * sizeof *s->groups);
		s->groups[s->n_groups++] = (struct scheme_group){.choice = *c};
	}
	return name_set_add(is_pattern ? &s->groups[i].targets : &s->own, target, (uint32_t)i,
			    fail);
}

/* Find the setting of the layer `name`, or of what it is in: "a.b" for "a.b.c". */
static const struct quant_choice *own_choice(const struct quant_scheme *s, const char *name)
{
	struct str part = str_of(name);
	uint32_t i;
	if (!s->own.n_exact)
		return NULL;
	while (!strmap_get(&s->own.by_name, part, &i)) {
		while (part.n && part.p[part.n - 1] != '.')
			part.n--;
		if (!part.n)
			return NULL;
		part.n--;
	}
	return &s->groups[i].choice;
}

/* Read whether the KV cache should be small, in two spellings: compressed-tensors' (also
 * ModelOpt's since 2025) and ModelOpt's older one. The wish is only recorded: the cache
 * stays in a wider type, and the scales in the checkpoint are not needed. */
static enum status read_kv(const json_t *config, struct quant_scheme *s, struct fail *fail)
{
	const json_t *scheme = jsonfile_get(config, "kv_cache_scheme");
	const json_t *algo = jsonfile_get(config, "kv_cache_quant_algo");
	if (is_nothing(scheme))
		scheme = NULL;
	if (scheme && !json_is_integer(jsonfile_get(scheme, "num_bits")))
		return quant_refuse(fail, "kv_cache_scheme", scheme);
	if (algo && !json_is_string(algo))
		return quant_refuse(fail, "kv_cache_quant_algo", algo);
	s->asks_fp8_kv = scheme || algo;
	return OK;
}

/* Must quant_made_all see the layers with this format? It makes scales of FP8 in one byte. */
static bool is_choice_made(const struct quant_choice *c)
{
	return c->is_packed && (c->stored != STORED_SO || c->quant == QUANT_FP8);
}

static enum status read_all(const json_t *config, struct quant_scheme *s,
			    struct fail *fail)
{
	const json_t *v = jsonfile_get(config, "quant_method");
	const char *method = json_string_value(v);
	bool is_known;
	enum status st = read_kv(config, s, fail);
	if (st != OK)
		return st;
	if (method && strcmp(method, "compressed-tensors") == 0)
		return read_groups(config, s, fail);
	if (!method)
		return quant_refuse(fail, "quant_method", v);
	st = quant_method_read(config, method, &s->all, &is_known, fail);
	s->is_made = strcmp(method, "bitsandbytes") == 0 || strcmp(method, "hqq") == 0;
	if (st == OK && is_known)
		return quant_own_read(config, method, s, fail);
	return st == OK ? quant_refuse(fail, "quant_method", v) : st;
}

enum status quant_scheme_parse(const json_t *config, struct quant_scheme **out,
			       struct fail *fail)
{
	struct quant_scheme *s = xcalloc(1, sizeof *s);
	enum status st = config ? read_all(config, s, fail) : OK;
	if (st != OK) {
		quant_scheme_destroy(s);
		return st;
	}
	s->is_made |= is_choice_made(&s->all);
	for (size_t i = 0; i < s->n_groups; i++)
		s->is_made |= is_choice_made(&s->groups[i].choice);
	*out = s;
	return OK;
}

void quant_scheme_destroy(struct quant_scheme *s)
{
	if (!s)
		return;
	name_set_deinit(&s->ignore);
	name_set_deinit(&s->own);
	for (size_t i = 0; i < s->n_groups; i++)
		name_set_deinit(&s->groups[i].targets);
	free(s->groups);
	free(s);
}

/* --- queries -------------------------------------------------------------- */

bool quant_scheme_is_made(const struct quant_scheme *s)
{
	return s->is_made;
}

bool quant_scheme_asks_fp8_kv(const struct quant_scheme *s)
{
	return s->asks_fp8_kv;
}

enum status quant_scheme_find(const struct quant_scheme *s, const char *name,
			      struct quant_choice *out, struct fail *fail)
{
	bool hit;
	*out = (struct quant_choice){0};
	enum status st = name_set_has(&s->ignore, name, &hit, fail);
	if (st != OK || hit)
		return st;
	const struct quant_choice *own = own_choice(s, name);
	const struct scheme_group *linear = NULL, *embedding = NULL;
	for (size_t i = 0; !own && i < s->n_groups; i++) {
		const struct scheme_group *g = &s->groups[i];
		st = name_set_has(&g->targets, name, &hit, fail);
		if (st != OK)
			return st;
		if (hit)
			own = &g->choice;
		if (g->takes_linear && !linear)
			linear = g;
		if (g->takes_embedding && !embedding)
			embedding = g;
	}
	if (embedding && strstr(name, "embed_tokens"))
		linear = embedding;
	*out = own ? *own : linear ? linear->choice : s->all;
	return OK;
}
