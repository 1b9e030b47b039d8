/* SPDX-License-Identifier: Apache-2.0
 *
 * Rope settings. There are two spellings: rope_theta with rope_scaling, or
 * rope_parameters with both inside. Either is read; if both exist, they must agree. An
 * unknown key inside these objects is refused, because each would change angles or
 * attention scores.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/model_arch.h"
#include "model/model_config_private.h"
#include "json/jsonfile.h"

/* "dynamic" counts as no scaling: it takes effect only beyond max_position_embeddings, which no
 * sequence exceeds. */
static const struct {
	const char *name;
	enum rope_kind kind;
} rope_kinds[] = {
	{"default", ROPE_DEFAULT}, {"dynamic", ROPE_DEFAULT}, {"linear", ROPE_LINEAR},
	{"llama3", ROPE_LLAMA3},   {"yarn", ROPE_YARN},	    {"proportional", ROPE_PART},
	{"longrope", ROPE_LONG},   {"su", ROPE_LONG},
};

#define KIND(k) (1u << ROPE_##k)
#define ROPE_AT(field) offsetof(struct rope, field)
static const char attn_temp_key[] = "llama_4_scaling_beta";
static const struct {
	const char *key;
	unsigned kinds;
	size_t at;
	double min, max, fallback;
} rope_keys[] = {
	{"factor", KIND(LINEAR) | KIND(LLAMA3) | KIND(YARN), ROPE_AT(factor), 1, 1e4,
	 REQUIRED},
	{"original_max_position_embeddings", KIND(LLAMA3), ROPE_AT(original_ctx), 1,
	 1 << 27, REQUIRED},
	/* 0: use max_position_embeddings; longrope: use the key of the same name in the outer
	 * config */
	{"original_max_position_embeddings", KIND(YARN) | KIND(LONG), ROPE_AT(original_ctx), 1,
	 1 << 27, 0},
	{"low_freq_factor", KIND(LLAMA3), ROPE_AT(low_freq), 1e-6, 1e6, REQUIRED},
	{"high_freq_factor", KIND(LLAMA3), ROPE_AT(high_freq), 1e-6, 1e6, REQUIRED},
	{"beta_fast", KIND(YARN), ROPE_AT(beta_fast), 1e-6, 1e6, 32},
	{"beta_slow", KIND(YARN), ROPE_AT(beta_slow), 1e-6, 1e6, 1},
	/* 0: max_position_embeddings / original_max_position_embeddings */
	{"factor", KIND(LONG), ROPE_AT(factor), 1, 1e4, 0},
	{"attention_factor", KIND(YARN) | KIND(LONG), ROPE_AT(attention_factor), 1e-3, 1e3, 0},
	{"mscale", KIND(YARN), ROPE_AT(mscale), 0, 1e3, 0},
	{"mscale_all_dim", KIND(YARN), ROPE_AT(mscale_all), 0, 1e3, 0},
	{"factor", KIND(PART), ROPE_AT(factor), 1, 1e4, 1},
	{"partial_rotary_factor", KIND(PART), ROPE_AT(part), 0, 1, 1},
	{attn_temp_key, KIND(YARN), ROPE_AT(attn_temp_beta), 0, 10, 0},
};

/* Refuse unknown keys: each would change angles or attention scores. mrope is accepted,
 * because for text all its position rows are equal. */
static enum status check_rope_keys(const json_t *object, struct fail *fail)
{
	static const char *const others[] = {
		"rope_type", "type", "rope_theta", "partial_rotary_factor", "truncate",
		"mrope_section", "mrope_interleaved", "interleaved", "finetuned",
		"max_position_embeddings", "short_factor", "long_factor"};
	const char *key;
	json_t *v;
	json_object_foreach((json_t *)object, key, v) {
		bool is_known = json_is_null(v);
		for (size_t i = 0; i < ARRAY_LEN(rope_keys); i++)
			is_known |= strcmp(key, rope_keys[i].key) == 0;
		for (size_t i = 0; i < ARRAY_LEN(others); i++)
			is_known |= strcmp(key, others[i]) == 0;
		if (!is_known)
			return config_unsupported(fail, key, v);
	}
	return OK;
}

static enum status read_rope_keys(const json_t *v, struct rope *r, struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(rope_keys); i++) {
		const json_t *n = jsonfile_get(v, rope_keys[i].key);
		double d = rope_keys[i].fallback;
		if (!(rope_keys[i].kinds & 1u << r->kind))
			continue;
		if (!n && isnan(d))
			return config_missing(fail, rope_keys[i].key);
		if (n && !json_is_number(n))
			return config_wrong(fail, rope_keys[i].key, n, "a number");
		if (n)
			d = json_number_value(n);
		if (n && !(d >= rope_keys[i].min && d <= rope_keys[i].max))
			return fail_at(fail, E_FORMAT, rope_keys[i].key,
				       FILE_NAME ": %s is %g, outside %g to %g",
				       rope_keys[i].key, d, rope_keys[i].min,
				       rope_keys[i].max);
		memcpy((char *)r + rope_keys[i].at, &d, sizeof d);
	}
	const json_t *truncate = jsonfile_get(v, "truncate");
	r->is_exact = r->kind == ROPE_YARN && json_is_false(truncate);
	if (r->kind == ROPE_LLAMA3 && r->low_freq >= r->high_freq)
		return fail_at(fail, E_FORMAT, "low_freq_factor",
			       FILE_NAME ": low_freq_factor is not below "
			       "high_freq_factor");
	if (r->kind == ROPE_YARN && r->beta_slow > r->beta_fast)
		return fail_at(fail, E_FORMAT, "beta_slow",
			       FILE_NAME ": beta_slow is above beta_fast");
	return OK;
}

/* Read a list of divisors, one for each pair of elements. */
static enum status read_factors(const json_t *object, const char *key, struct arena *a,
				const float **out, int32_t *out_n, struct fail *fail)
{
	const json_t *list = jsonfile_get(object, key);
	size_t n = json_array_size(list);
	if (!list)
		return config_missing(fail, key);
	if (n == 0)
		return config_wrong(fail, key, list, "a list of numbers");
	float *factors = arena_alloc(a, n * sizeof *factors);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		factors[i] = (float)json_number_value(v);
		if (!(factors[i] > 0 && factors[i] < 1e9f))
			return fail_at(fail, E_FORMAT, key, FILE_NAME ": element %zu of %s is "
				       "not a number above 0", i, key);
	}
	*out = factors;
	*out_n = (int32_t)n;
	return OK;
}

static enum status read_both_factors(const json_t *object, struct arena *a, struct rope *r,
				     struct fail *fail)
{
	int32_t n_long;
	enum status st = read_factors(object, "short_factor", a, &r->factors, &r->n_factors,
				      fail);
	if (st == OK)
		st = read_factors(object, "long_factor", a, &r->long_factors, &n_long, fail);
	if (st == OK && n_long != r->n_factors)
		st = fail_at(fail, E_FORMAT, "long_factor", FILE_NAME ": long_factor has %d "
			     "elements, and short_factor %d", (int)n_long, (int)r->n_factors);
	return st;
}

/* True if two ropes rotate alike. */
static bool are_same(const struct rope *a, const struct rope *b)
{
	struct rope x = *a, y = *b;
	size_t n = (size_t)a->n_factors * sizeof *a->factors;
	if (a->n_factors != b->n_factors ||
	    (n && (memcmp(a->factors, b->factors, n) != 0 ||
		   memcmp(a->long_factors, b->long_factors, n) != 0)))
		return false;
	x.factors = x.long_factors = y.factors = y.long_factors = NULL;
	return memcmp(&x, &y, sizeof x) == 0;
}

/* Read the object rope_scaling or rope_parameters. */
static enum status read_rope_object(const json_t *v, const char *key, struct arena *a,
				    struct rope *out, struct fail *fail)
{
	if (!json_is_object(v))
		return config_wrong(fail, key, v, "an object");
	const json_t *type = jsonfile_get(v, "rope_type");
	if (!type)
		type = jsonfile_get(v, "type");
	const char *name = json_string_value(type);
	if (!name)
		return config_unsupported(fail, key, v);
	for (size_t i = 0; i < ARRAY_LEN(rope_kinds); i++)
		if (strcmp(rope_kinds[i].name, name) == 0)
			out->kind = rope_kinds[i].kind;
	if (out->kind == ROPE_NONE || (out->kind == ROPE_LONG && !a))
		return config_unsupported(fail, key, v);
	const json_t *temp = jsonfile_get(v, attn_temp_key);
	if (temp && out->kind != ROPE_YARN)
		return config_unsupported(fail, attn_temp_key, temp);
	enum status st = check_rope_keys(v, fail);
	if (st == OK && out->kind == ROPE_LONG)
		st = read_both_factors(v, a, out, fail);
	return st == OK ? read_rope_keys(v, out, fail) : st;
}

/* Read the settings of longrope that stand in the outer config. */
static enum status end_long(const json_t *root, const struct model_config *c, struct rope *r,
			    struct fail *fail)
{
	static const char key[] = "original_max_position_embeddings";
	const json_t *v = jsonfile_get(root, key);
	if (r->original_ctx == 0)
		r->original_ctx = json_number_value(v);
	if (!(r->original_ctx > 1 && r->original_ctx <= 1 << 27))
		return v ? config_wrong(fail, key, v, "a number above 1")
			 : config_missing(fail, key);
	if (r->factor == 0)
		r->factor = c->max_ctx / r->original_ctx;
	return OK;
}

static enum status read_theta(const json_t *root, const json_t *params, double fallback,
			      double *out, struct fail *fail)
{
	const json_t *outer = jsonfile_get(root, "rope_theta");
	const json_t *inner = params ? jsonfile_get(params, "rope_theta") : NULL;
	const json_t *v = inner ? inner : outer;
	if (!v && fallback == 0)
		return config_missing(fail, "rope_theta");
	double theta = v ? json_number_value(v) : fallback;
	if (!(theta > 1 && theta <= 1e12))
		return fail_at(fail, E_FORMAT, "rope_theta",
			       FILE_NAME ": rope_theta must be a number above 1");
	if (inner && outer && json_number_value(outer) != theta)
		return fail_at(fail, E_FORMAT, "rope_theta",
			       FILE_NAME ": rope_theta and "
			       "rope_parameters.rope_theta disagree");
	*out = theta;
	return OK;
}

/* The object rope_parameters, or its member for one type of layer. layer_type NULL: all
 * layers share it. */
static const json_t *params_of(const json_t *root, const char *layer_type)
{
	const json_t *params = jsonfile_get(root, "rope_parameters");
	const json_t *own = layer_type ? jsonfile_get(params, layer_type) : NULL;
	return json_is_object(own) ? own : params;
}

enum status config_rope_read(const json_t *root, const char *layer_type, double theta,
			     bool has_attn_temp, struct arena *a, struct model_config *c,
			     struct fail *fail)
{
	const json_t *scaling = jsonfile_get(root, "rope_scaling");
	const json_t *params = params_of(root, layer_type);
	struct rope old, new;
	memset(&old, 0, sizeof old); /* padding too, because memcmp compares the two */
	memset(&new, 0, sizeof new);
	enum status st = OK;
	if (scaling)
		st = read_rope_object(scaling, "rope_scaling", a, &old, fail);
	if (st == OK && params)
		st = read_rope_object(params, "rope_parameters", a, &new, fail);
	if (st == OK && scaling && params && !are_same(&old, &new))
		st = fail_at(fail, E_FORMAT, "rope_scaling", FILE_NAME
			     ": rope_scaling and rope_parameters disagree");
	c->n_ropes = 1;
	c->ropes[0] = params ? new : old;
	if (c->ropes[0].kind == ROPE_NONE)
		c->ropes[0].kind = ROPE_DEFAULT;
	if (st == OK)
		st = read_theta(root, params, theta, &c->ropes[0].theta, fail);
	if (st == OK && c->ropes[0].attn_temp_beta != 0 && !has_attn_temp)
		return config_unsupported(fail, attn_temp_key, jsonfile_get(
			params ? params : scaling, attn_temp_key));
	if (st == OK && c->ropes[0].kind == ROPE_LONG)
		return end_long(root, c, &c->ropes[0], fail);
	if (st != OK || c->ropes[0].kind != ROPE_YARN)
		return st;
	/* For the other kinds, max_position_embeddings is already the extended length. */
	if (c->ropes[0].original_ctx == 0)
		c->ropes[0].original_ctx = c->max_ctx;
	double stretched = c->ropes[0].original_ctx * c->ropes[0].factor;
	if (stretched > c->max_ctx)
		c->max_ctx = (int32_t)fmin(stretched, 1 << 27);
	return OK;
}

enum status config_rope_read_local(const json_t *root, struct arena *a,
				   struct model_config *c, struct fail *fail)
{
	static const char key[] = "rope_local_base_freq";
	const json_t *whole = jsonfile_get(root, "rope_parameters");
	const json_t *params = params_of(root, "sliding_attention");
	struct rope *local = &c->ropes[1];
	if (!c->is_windowed)
		return OK;
	c->n_ropes = 2;
	c->rope_of = arena_alloc(a, (size_t)c->n_layers * sizeof *c->rope_of);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->rope_of[i] = c->is_windowed[i];
	if (params != whole) {
		enum status st = read_rope_object(params, "sliding_attention", NULL, local, fail);
		return st == OK ? read_theta(params, params, 0, &local->theta, fail) : st;
	}
	const json_t *v = jsonfile_get(root, key);
	local->kind = ROPE_DEFAULT;
	local->theta = v ? json_number_value(v) : c->ropes[0].theta;
	return local->theta > 1 && local->theta <= 1e12
		       ? OK : config_wrong(fail, key, v, "a number above 1");
}

/* rotary_dim of MiniMax M2, as a part of head_dim; 0: the key is absent. */
static double read_rotary_factor(const json_t *root, bool is_known, const struct model_config *c)
{
	const json_t *v = jsonfile_get(root, "rotary_dim");
	return is_known ? json_number_value(v) / c->head_dim : 0;
}

enum status config_partial_read(const json_t *root, uint64_t keys, struct model_config *c,
				struct fail *fail)
{
	bool is_known = keys & KEYS_PARTIAL;
	static const char key[] = "partial_rotary_factor";
	const json_t *params = jsonfile_get(root, "rope_parameters");
	const json_t *scaling = jsonfile_get(root, "rope_scaling");
	bool is_part = c->ropes[0].kind == ROPE_PART; /* the rope object's reader has read it */
	const json_t *full = is_part ? NULL : params_of(root, "full_attention");
	/* A family has read that of layers with a window, if it may differ. */
	const json_t *local = c->ropes[1].n_rot ? NULL : params_of(root, "sliding_attention");
	const json_t *found[] = {
		jsonfile_get(root, key), params ? jsonfile_get(params, key) : NULL,
		scaling ? jsonfile_get(scaling, key) : NULL,
		full ? jsonfile_get(full, key) : NULL, local ? jsonfile_get(local, key) : NULL};
	double factor = read_rotary_factor(root, is_known, c);
	for (size_t i = 0; i < ARRAY_LEN(found); i++) {
		double v = json_number_value(found[i]);
		if (!found[i])
			continue;
		if (!json_is_number(found[i]) || !(v > 0 && v <= 1))
			return config_wrong(fail, key, found[i], "a number of 0 to 1");
		if (factor != 0 && v != factor)
			return fail_at(fail, E_FORMAT, key,
				       FILE_NAME ": %s is both %g and %g", key, factor,
				       v);
		factor = v;
		/* The part of a head with rope has a size of its own in MLA; this may repeat it. */
		bool is_own = c->mla.kv_lora > 0 &&
			      fabs(v * c->head_dim - c->mla.rope_dim) < 0.5;
		if (v != 1 && !is_known && !is_own)
			return config_unsupported(fail, key, found[i]);
	}
	if (factor == 0 && is_known && !(keys & KEYS_MAY_PARTIAL))
		return config_missing(fail, key);
	c->n_rot = factor == 0 ? c->head_dim : (int32_t)(c->head_dim * factor);
	if (c->mla.kv_lora > 0)
		c->n_rot = c->mla.rope_dim;
	if ((c->n_rot < 2 && c->n_ropes) || c->n_rot % 2)
		return fail_at(fail, E_FORMAT, key, FILE_NAME
			       ": %s rotates %d of %d elements, not an even number", key,
			       c->n_rot, c->head_dim);
	if (c->ropes[0].kind == ROPE_LONG && c->ropes[0].n_factors != c->n_rot / 2)
		return fail_at(fail, E_FORMAT, "short_factor", FILE_NAME ": short_factor has %d "
			       "elements: %d pairs of a head rotate", (int)c->ropes[0].n_factors,
			       c->n_rot / 2);
	return OK;
}
