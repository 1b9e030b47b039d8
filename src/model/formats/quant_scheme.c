/* SPDX-License-Identifier: Apache-2.0
 *
 * quantization_config: a method with one setting for all layers (quant_method.c);
 * auto-round, where some layers have another one; or compressed-tensors with groups of
 * layers. For the last a layer's format is found
 * by the rules of the compressed-tensors library:
 *
 *   1. a name that `ignore` lists, or one of its patterns matches: plain
 *   2. the first group that targets the layer by name or pattern
 *   3. the first group that targets the class Linear
 *   4. else plain
 *
 * Rule 3 can be wrong here: embeddings are looked up by name like any layer, and a router
 * may not be of class Linear. quant_open therefore checks which tensor exists, and treats
 * a layer with unpacked numbers as plain.
 */
#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/map.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"
#include "tokenizer/pattern.h"

#define SECTION "quantization_config"

/* A set of names: exact ones and patterns. */
struct name_set {
	char **exact;
	size_t n_exact;
	struct strmap by_name;
	struct pattern **patterns;
	size_t n_patterns;
};

struct scheme_group {
	struct name_set targets;
	bool takes_linear;
	struct quant_choice choice;
};

struct quant_scheme {
	struct name_set ignore;
	struct scheme_group *groups;
	size_t n_groups;
	struct quant_choice all; /* format of a layer that is in no group */
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

/* --- name sets ------------------------------------------------------------ */

static void name_set_deinit(struct name_set *s)
{
	strmap_deinit(&s->by_name);
	for (size_t i = 0; i < s->n_exact; i++)
		free(s->exact[i]);
	for (size_t i = 0; i < s->n_patterns; i++)
		pattern_destroy(s->patterns[i]);
	free(s->exact);
	free(s->patterns);
}

static enum status name_set_add(struct name_set *s, const char *name,
				struct fail *fail)
{
	if (strncmp(name, "re:", 3) != 0) {
		s->exact = xrealloc(s->exact, (s->n_exact + 1) * sizeof *s->exact);
		s->exact[s->n_exact] = xstrdup(name);
		strmap_put(&s->by_name, str_of(s->exact[s->n_exact]), 0);
		s->n_exact++;
		return OK;
	}
	struct pattern *p;
	enum status st = pattern_compile(str_of(name + 3), &p, fail);
	if (st != OK)
		return st;
	s->patterns = xrealloc(s->patterns,
			       (s->n_patterns + 1) * sizeof(struct pattern *));
	s->patterns[s->n_patterns++] = p;
	return OK;
}

static enum status name_set_read(struct name_set *s, const json_t *list,
				 const char *key, struct fail *fail)
{
	if (list && !json_is_array(list))
		return quant_refuse(fail, key, list);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		if (!name)
			return quant_refuse(fail, key, list);
		enum status st = name_set_add(s, name, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

static enum status name_set_has(const struct name_set *s, const char *name,
				bool *out, struct fail *fail)
{
	uint32_t unused;
	*out = strmap_get(&s->by_name, str_of(name), &unused);
	for (size_t i = 0; !*out && i < s->n_patterns; i++) {
		enum status st =
			pattern_match(s->patterns[i], str_of(name), out, fail);
		if (st != OK)
			return st;
	}
	return OK;
}

/* --- reading -------------------------------------------------------------- */

static bool is_string(const json_t *v, const char *want)
{
	return json_is_string(v) && strcmp(json_string_value(v), want) == 0;
}

/* True for an absent value, null, false, {} or []: the setting is off. */
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

/* Read the settings of integer weights with a scale per group or row. */
static enum status read_integers(const json_t *w, struct quant_choice *out,
				 struct fail *fail)
{
	const json_t *bits = jsonfile_get(w, "num_bits");
	const json_t *symmetric = jsonfile_get(w, "symmetric");
	const json_t *strategy = jsonfile_get(w, "strategy");
	const json_t *size = jsonfile_get(w, "group_size");
	const json_t *order = jsonfile_get(w, "actorder");
	json_int_t n_bits = json_integer_value(bits);
	if (!json_is_integer(bits) || (n_bits != 4 && n_bits != 8))
		return quant_refuse(fail, "num_bits", bits);
	if (!is_string(jsonfile_get(w, "type"), "int"))
		return quant_refuse(fail, "type", jsonfile_get(w, "type"));
	if (symmetric && !json_is_boolean(symmetric))
		return quant_refuse(fail, "symmetric", symmetric);
	/* With "weight" and its older name "static", inputs keep their order. The other
	 * values store a group for each input in weight_g_idx, which is read where it
	 * exists. */
	if (order && !json_is_boolean(order) && !is_string(order, "weight") &&
	    !is_string(order, "static") && !is_string(order, "group") &&
	    !is_string(order, "dynamic"))
		return quant_refuse(fail, "actorder", order);
	out->quant = n_bits == 4 ? QUANT_INT4 : QUANT_INT8;
	out->is_asymmetric = json_is_false(symmetric);
	if (is_string(strategy, "group")) {
		json_int_t g = json_integer_value(size);
		if (!json_is_integer(size) || g < 8 || g > 1 << 20)
			return quant_refuse(fail, "group_size", size);
		out->group = (int32_t)g;
	} else if (!is_string(strategy, "channel")) {
		return quant_refuse(fail, "strategy", strategy);
	}
	return quant_need_nothing(w, "block_structure", fail);
}

/* Check the settings that all floating-point formats share. */
static enum status need_float(const json_t *w, int n_bits, struct fail *fail)
{
	const json_t *bits = jsonfile_get(w, "num_bits");
	const json_t *symmetric = jsonfile_get(w, "symmetric");
	if (!json_is_integer(bits) || json_integer_value(bits) != n_bits)
		return quant_refuse(fail, "num_bits", bits);
	if (!is_string(jsonfile_get(w, "type"), "float"))
		return quant_refuse(fail, "type", jsonfile_get(w, "type"));
	if (symmetric && !json_is_true(symmetric))
		return quant_refuse(fail, "symmetric", symmetric);
	return quant_need_nothing(w, "actorder", fail);
}

static enum status read_nvfp4(const json_t *w, struct quant_choice *out,
			      struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	const json_t *size = jsonfile_get(w, "group_size");
	enum status st = need_float(w, 4, fail);
	if (st != OK)
		return st;
	if (!is_string(strategy, "tensor_group"))
		return quant_refuse(fail, "strategy", strategy);
	if (!json_is_integer(size) || json_integer_value(size) != 16)
		return quant_refuse(fail, "group_size", size);
	out->quant = QUANT_NVFP4;
	return OK;
}

static enum status read_mxfp4(const json_t *w, struct quant_choice *out,
			      struct fail *fail)
{
	const json_t *size = jsonfile_get(w, "group_size");
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = need_float(w, 4, fail);
	if (st != OK)
		return st;
	if (!is_string(strategy, "group"))
		return quant_refuse(fail, "strategy", strategy);
	if (!json_is_integer(size) || json_integer_value(size) != 32)
		return quant_refuse(fail, "group_size", size);
	out->quant = QUANT_MXFP4;
	return OK;
}

static enum status read_fp8(const json_t *w, struct quant_choice *out,
			    struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = need_float(w, 8, fail);
	if (st != OK)
		return st;
	out->quant = QUANT_FP8;
	if (is_string(strategy, "block"))
		return quant_block_read(jsonfile_get(w, "block_structure"),
					"block_structure", out, fail);
	if (!is_string(strategy, "tensor") && !is_string(strategy, "channel"))
		return quant_refuse(fail, "strategy", strategy);
	return OK;
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
		else if (!strchr(name, '.') && strcmp(name, "lm_head") != 0)
			/* a class other than Linear */
			return quant_refuse(fail, "targets", targets);
	}
	return OK;
}

/* Bytes with a scale for a row or for all. */
static enum status read_bytes(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	const json_t *strategy = jsonfile_get(w, "strategy");
	enum status st = OK;
	if (!is_string(strategy, "channel") && !is_string(strategy, "tensor"))
		return quant_refuse(fail, "strategy", strategy);
	if (json_integer_value(jsonfile_get(w, "num_bits")) != 8)
		st = quant_refuse(fail, "num_bits", jsonfile_get(w, "num_bits"));
	else if (!is_string(jsonfile_get(w, "type"), "int"))
		st = quant_refuse(fail, "type", jsonfile_get(w, "type"));
	else if (json_is_false(jsonfile_get(w, "symmetric")))
		st = quant_refuse(fail, "symmetric", jsonfile_get(w, "symmetric"));
	out->quant = QUANT_INT8;
	return st;
}

/* The older name of two formats. */
static enum status read_naive(const json_t *w, struct quant_choice *out, struct fail *fail)
{
	return is_string(jsonfile_get(w, "type"), "int") ? read_bytes(w, out, fail)
							  : read_fp8(w, out, fail);
}

/* Most formats are meant for kernels that round inputs too. Ours do not round inputs, which is
 * closer to the original model. */
static const struct {
	const char *name;
	enum status (*read)(const json_t *weights, struct quant_choice *out,
			    struct fail *fail);
	bool is_made; /* by quant_made.c */
} formats[] = {
	{"pack-quantized", read_integers, false},
	{"int-quantized", read_bytes, true},
	{"naive-quantized", read_naive, true},
	{"nvfp4-pack-quantized", read_nvfp4, false},
	{"mxfp4-pack-quantized", read_mxfp4, false},
	{"float-quantized", read_fp8, false},
};

static enum status read_group(const json_t *config, const json_t *group,
			      struct quant_scheme *s, struct fail *fail)
{
	struct scheme_group *g = &s->groups[s->n_groups++];
	const json_t *format = jsonfile_get(group, "format");
	const json_t *weights = jsonfile_get(group, "weights");
	size_t i = 0;
	if (!format)
		format = jsonfile_get(config, "format");
	while (i < ARRAY_LEN(formats) && !is_string(format, formats[i].name))
		i++;
	if (i == ARRAY_LEN(formats))
		return quant_refuse(fail, "format", format);
	if (!json_is_object(weights))
		return quant_refuse(fail, "weights", weights);
	enum status st = quant_need_nothing(group, "output_activations", fail);
	g->choice = (struct quant_choice){.is_packed = true};
	s->is_made |= formats[i].is_made;
	if (st == OK)
		st = formats[i].read(weights, &g->choice, fail);
	if (st == OK)
		st = quant_need_nothing(weights, "dynamic", fail);
	if (st == OK)
		st = read_targets(jsonfile_get(group, "targets"), g, fail);
	return st;
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
	enum status st = quant_need_nothing(config, "transform_config", fail);
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
		if (st == OK)
			st = read_group(config, group, s, fail);
	}
	return st;
}

/* AutoRound's extra_config: settings of single layers, or of those that a pattern fits. A
 * layer of 16 bits or more is plain, which its tensor says too. */
static enum status read_extra(const json_t *config, const char *method,
			      struct quant_scheme *s, struct fail *fail)
{
	static const char key[] = "extra_config";
	const json_t *extra = jsonfile_get(config, key);
	const char *name;
	json_t *own;
	enum status st = OK;
	s->groups = xcalloc(json_object_size(extra) + 1, sizeof *s->groups);
	json_object_foreach((json_t *)extra, name, own) {
		if (!json_is_object(own))
			return quant_refuse(fail, key, extra);
		if (json_integer_value(json_object_get(own, "bits")) >= 16)
			continue;
		struct scheme_group *g = &s->groups[s->n_groups++];
		struct buf target = {0};
		bool is_known;
		if (strpbrk(name, "*\\[(^$|?+"))
			buf_add_z(&target, "re:");
		buf_addf(&target, "%s%c", name, 0);
		st = name_set_add(&g->targets, target.p, fail);
		buf_deinit(&target);
		json_t *merged = json_copy((json_t *)(uintptr_t)config);
		json_object_update(merged, own);
		if (st == OK)
			st = quant_method_read(merged, method, &g->choice, &is_known, fail);
		json_decref(merged);
		if (st != OK)
			return st;
	}
	return OK;
}

/* Read whether the KV cache should be FP8, in two spellings: compressed-tensors' (also
 * ModelOpt's since 2025) and ModelOpt's older one. The wish is only recorded: the cache
 * stays in a wider type, and the scales in the checkpoint are not needed. Any other kind
 * of cache is refused. */
static enum status read_kv(const json_t *config, struct quant_scheme *s, struct fail *fail)
{
	const json_t *scheme = jsonfile_get(config, "kv_cache_scheme");
	const json_t *algo = jsonfile_get(config, "kv_cache_quant_algo");
	if (is_nothing(scheme))
		scheme = NULL;
	if (scheme && (json_integer_value(jsonfile_get(scheme, "num_bits")) != 8 ||
		       !is_string(jsonfile_get(scheme, "type"), "float")))
		return quant_refuse(fail, "kv_cache_scheme", scheme);
	if (algo && (!json_is_string(algo) ||
		     strcasecmp(json_string_value(algo), "FP8") != 0))
		return quant_refuse(fail, "kv_cache_quant_algo", algo);
	s->asks_fp8_kv = scheme || algo;
	return OK;
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
	s->is_made = strcmp(method, "bitsandbytes") == 0 || strcmp(method, "hqq") == 0 ||
		     (strcmp(method, "quark") == 0 &&
		      (s->all.quant == QUANT_AWQ4 || s->all.quant == QUANT_INT8));
	if (st == OK && is_known && strstr(method, "auto"))
		return read_extra(config, method, s, fail);
	return st == OK && !is_known ? quant_refuse(fail, "quant_method", v) : st;
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
	*out = s;
	return OK;
}

void quant_scheme_destroy(struct quant_scheme *s)
{
	if (!s)
		return;
	name_set_deinit(&s->ignore);
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
	const struct scheme_group *linear = NULL;
	for (size_t i = 0; i < s->n_groups; i++) {
		const struct scheme_group *g = &s->groups[i];
		st = name_set_has(&g->targets, name, &hit, fail);
		if (st != OK)
			return st;
		if (hit) {
			*out = g->choice;
			return OK;
		}
		if (g->takes_linear && !linear)
			linear = g;
	}
	*out = linear ? linear->choice : s->all;
	return OK;
}
