/* SPDX-License-Identifier: Apache-2.0
 *
 * Single layers with a setting of their own, in the methods of quant_method.c:
 *
 *   auto-round  extra_config: names or patterns, with the keys that differ
 *   gptq        dynamic: patterns with "+:" in front, with the keys that differ
 *   quark       layer_quant_config: names with wildcards, with a setting for all tensors
 *   modelopt    quantized_layers: names, with a quant_algo each
 *
 * A layer that a method leaves plain needs no setting: quant_open sees its plain tensor.
 */
#include "base/alloc.h"
#include "base/buf.h"
#include "json/jsonfile.h"
#include "model/formats/quant.h"

enum spelling { REGEX, REGEX_OR_NAME, WILDCARDS };

static const struct own {
	const char *method, *key;
	enum spelling spelling;
	const char *inside; /* the key whose value a layer's setting replaces; NULL: the
			     * setting's keys replace those of the config */
} owns[] = {
	{"auto-round", "extra_config", REGEX_OR_NAME, NULL},
	{"auto_round", "extra_config", REGEX_OR_NAME, NULL},
	{"intel/auto-round", "extra_config", REGEX_OR_NAME, NULL},
	{"gptq", "dynamic", REGEX, NULL},
	{"quark", "layer_quant_config", WILDCARDS, "global_quant_config"},
	{"modelopt", "quantized_layers", WILDCARDS, NULL},
	{"modelopt_fp4", "quantized_layers", WILDCARDS, NULL},
	{"modelopt_mixed", "quantized_layers", WILDCARDS, NULL},
};

/* The `target` for quant_scheme_add that means the same layers as `name`. */
static void put_target(enum spelling spelling, const char *name, struct buf *out)
{
	bool is_regex = spelling == REGEX ||
			(spelling == REGEX_OR_NAME && strpbrk(name, "*\\[(^$|?+"));
	bool has_wildcards = spelling == WILDCARDS && strpbrk(name, "*?");
	if (is_regex || has_wildcards)
		buf_add_z(out, "re:");
	if (spelling == REGEX && strncmp(name, "+:", 2) == 0)
		name += 2;
	for (; *name; name++) {
		if (has_wildcards && *name == '*')
			buf_add_z(out, ".*");
		else if (has_wildcards && *name == '?')
			buf_add_z(out, ".");
		else if (has_wildcards && is_char_of(*name, ".+()^$|\\{}[]"))
			buf_addf(out, "\\%c", *name);
		else
			buf_addf(out, "%c", *name);
	}
	if (has_wildcards)
		buf_add_z(out, "$");
	buf_addf(out, "%c", 0);
}

/* True if the layer is plain, or its setting says nothing about weights. */
static bool is_plain(const struct own *o, const char *name, const json_t *v)
{
	return json_integer_value(json_object_get(v, "bits")) >= 16 ||
	       (o->spelling == REGEX && strncmp(name, "-:", 2) == 0) ||
	       (o->inside && !jsonfile_get(v, "weight"));
}

static enum status quant_own_add(const json_t *config, const struct own *o, const char *name,
				 json_t *v, struct quant_scheme *s, struct fail *fail)
{
	struct quant_choice c;
	struct buf target = {0};
	bool is_known;
	json_t *merged = json_copy((json_t *)(uintptr_t)config);
	if (o->inside)
		json_object_set(merged, o->inside, v);
	else
		json_object_update(merged, v);
	enum status st = quant_method_read(merged, o->method, &c, &is_known, fail);
	put_target(o->spelling, name, &target);
	if (st == OK)
		st = quant_scheme_add(s, target.p, &c, fail);
	buf_deinit(&target);
	json_decref(merged);
	return st;
}

enum status quant_own_read(const json_t *config, const char *method, struct quant_scheme *s,
			   struct fail *fail)
{
	const struct own *o = owns;
	while (o < owns + ARRAY_LEN(owns) && strcmp(o->method, method) != 0)
		o++;
	if (o == owns + ARRAY_LEN(owns))
		return OK;
	const json_t *layers = jsonfile_get(config, o->key);
	const char *name;
	json_t *v;
	enum status st = OK;
	if (layers && !json_is_object(layers) && !json_is_false(layers))
		return quant_refuse(fail, o->key, layers);
	json_object_foreach((json_t *)(uintptr_t)layers, name, v) {
		if (!json_is_object(v))
			return quant_refuse(fail, o->key, layers);
		if (st == OK && !is_plain(o, name, v))
			st = quant_own_add(config, o, name, v, s, fail);
	}
	return st;
}
