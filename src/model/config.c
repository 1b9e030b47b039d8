/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json is a bag of keys from many authors. Three tables say what is done
 * with them:
 *
 *   archs     the model_types there are, and which groups of keys each has
 *   settings  keys whose value is kept: where, in what range, default
 *   neutral   keys that would change the result: accepted only where their value
 *             is the one under which they do nothing, refused by name otherwise
 *
 * A key in no table is taken to be harmless (dropout, cache switches, …). A new
 * architecture is a row in the first table, and rows for what it adds.
 *
 * Rope settings come in two spellings: rope_theta with rope_scaling, and
 * rope_parameters with both inside. Either is read; together they must agree.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "model/jsonfile.h"

#define FILE_NAME "config.json"

enum { KEYS_ALL = 1, KEYS_EXPERTS = 2 };

static const struct arch {
	const char *model_type, *class;
	unsigned keys;
} archs[] = {
	{"qwen3", "Qwen3ForCausalLM", KEYS_ALL},
	{"qwen3_moe", "Qwen3MoeForCausalLM", KEYS_ALL | KEYS_EXPERTS},
};

enum kind { INT, FLOAT, BOOL };
#define REQUIRED NAN
#define AT(field) offsetof(struct model_config, field)

static const struct setting {
	const char *key, *alias; /* alias NULL: none */
	unsigned keys;
	enum kind kind;
	size_t at;
	double min, max;
	double fallback; /* REQUIRED: there must be a value */
} settings[] = {
	{"num_hidden_layers", NULL, KEYS_ALL, INT, AT(n_layers), 1, 1024, REQUIRED},
	{"hidden_size", NULL, KEYS_ALL, INT, AT(d_model), 8, 1 << 16, REQUIRED},
	{"num_attention_heads", NULL, KEYS_ALL, INT, AT(n_heads), 1, 1024, REQUIRED},
	{"num_key_value_heads", NULL, KEYS_ALL, INT, AT(n_kv_heads), 1, 1024,
	 REQUIRED},
	/* 0: hidden_size / num_attention_heads, below */
	{"head_dim", NULL, KEYS_ALL, INT, AT(head_dim), 2, 1024, 0},
	{"intermediate_size", NULL, KEYS_ALL, INT, AT(ffn_dim), 8, 1 << 20, REQUIRED},
	{"vocab_size", NULL, KEYS_ALL, INT, AT(n_vocab), 2, 1 << 24, REQUIRED},
	{"max_position_embeddings", NULL, KEYS_ALL, INT, AT(max_ctx), 1, 1 << 27,
	 REQUIRED},
	{"rms_norm_eps", NULL, KEYS_ALL, FLOAT, AT(norm_eps), 1e-12, 1e-2, 1e-6},
	{"tie_word_embeddings", NULL, KEYS_ALL, BOOL, AT(tied_embeddings), 0, 1, 0},
	{"bos_token_id", NULL, KEYS_ALL, INT, AT(bos_id), 0, 1 << 24, -1},
	{"num_experts", "num_local_experts", KEYS_EXPERTS, INT, AT(n_experts), 1, 4096,
	 REQUIRED},
	{"num_experts_per_tok", NULL, KEYS_EXPERTS, INT, AT(n_experts_used), 1, 256,
	 REQUIRED},
	{"moe_intermediate_size", NULL, KEYS_EXPERTS, INT, AT(expert_dim), 8, 1 << 20,
	 REQUIRED},
	{"norm_topk_prob", NULL, KEYS_EXPERTS, BOOL, AT(norm_topk), 0, 1, 0},
	{"decoder_sparse_step", NULL, KEYS_EXPERTS, INT, AT(sparse_step), 1, 1024, 1},
};

/* allowed: JSON values, separated by blanks, under which the key does nothing;
 * null and absence always do. */
static const struct {
	const char *key, *allowed;
} neutral[] = {
	{"hidden_act", "\"silu\" \"swish\""},
	{"attention_bias", "false"},
	{"mlp_bias", "false"},
	{"use_sliding_window", "false"},
	{"use_qk_norm", "true"},
	{"partial_rotary_factor", "1 1.0"},
	{"attn_logit_softcapping", ""},
	{"final_logit_softcapping", ""},
	{"logit_scale", "1 1.0"},
	{"logits_scaling", "1 1.0"},
	{"embedding_multiplier", "1 1.0"},
	{"residual_multiplier", "1 1.0"},
	{"attention_multiplier", ""},
	{"query_pre_attn_scalar", ""},
	{"shared_expert_intermediate_size", "0"},
	{"n_shared_experts", "0"},
	{"pruned_heads", "{}"},
	{"is_encoder_decoder", "false"},
	{"add_cross_attention", "false"},
};

static enum status missing(struct fail *fail, const char *key)
{
	return fail_at(fail, E_MISSING, key, FILE_NAME ": %s is missing", key);
}

static enum status wrong(struct fail *fail, const char *key, const json_t *v,
			 const char *want)
{
	return fail_at(fail, E_FORMAT, key, FILE_NAME ": %s is %s, not %s", key,
		       jsonfile_type(v), want);
}

/* The value as JSON, cut short to be quoted in a message. */
static const char *spelled(const json_t *v, char buf[64])
{
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	snprintf(buf, 64, "%s", text ? text : "?");
	free(text);
	return buf;
}

static enum status unsupported(struct fail *fail, const char *key,
			       const json_t *v)
{
	char buf[64];
	return fail_at(fail, E_UNSUPPORTED, key,
		       FILE_NAME ": %s %s is not supported", key, spelled(v, buf));
}

/* --- the architecture ----------------------------------------------------- */

static const struct arch *arch_find(const char *model_type)
{
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (strcmp(archs[i].model_type, model_type) == 0)
			return &archs[i];
	return NULL;
}

static enum status unknown_arch(struct fail *fail, const json_t *type)
{
	char known[160] = "";
	for (size_t i = 0, n = 0; i < ARRAY_LEN(archs) && n < sizeof known; i++)
		n += (size_t)snprintf(known + n, sizeof known - n, "%s%s",
				      i ? ", " : "", archs[i].model_type);
	return fail_at(fail, E_UNSUPPORTED, "model_type",
		       FILE_NAME ": model_type \"%.40s\" is not supported, only %s",
		       json_string_value(type), known);
}

static enum status read_arch(const json_t *root, const struct arch **out,
			     struct fail *fail)
{
	const json_t *type = jsonfile_get(root, "model_type");
	if (!type)
		return missing(fail, "model_type");
	if (!json_is_string(type))
		return wrong(fail, "model_type", type, "a string");
	const struct arch *arch = arch_find(json_string_value(type));
	if (!arch)
		return unknown_arch(fail, type);
	/* The same body with another head (a classifier, an embedder) has another
	 * class. */
	const json_t *classes = jsonfile_get(root, "architectures");
	const json_t *class;
	size_t i;
	json_array_foreach((json_t *)classes, i, class)
		if (json_is_string(class) &&
		    strcmp(json_string_value(class), arch->class) == 0)
			break;
	if (classes && i == json_array_size(classes))
		return unsupported(fail, "architectures", classes);
	*out = arch;
	return OK;
}

/* --- kept values ---------------------------------------------------------- */

static void store(struct model_config *c, const struct setting *s, double v)
{
	char *at = (char *)c + s->at;
	if (s->kind == INT)
		*(int32_t *)(void *)at = (int32_t)v;
	else if (s->kind == FLOAT)
		*(float *)(void *)at = (float)v;
	else
		*(bool *)(void *)at = v != 0;
}

static enum status read_setting(const json_t *root, const struct setting *s,
				struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, s->key);
	if (!v && s->alias)
		v = jsonfile_get(root, s->alias);
	if (!v && isnan(s->fallback))
		return missing(fail, s->key);
	if (!v) {
		store(c, s, s->fallback);
		return OK;
	}
	if (s->kind == BOOL) {
		if (!json_is_boolean(v))
			return wrong(fail, s->key, v, "true or false");
		store(c, s, json_is_true(v));
		return OK;
	}
	if (s->kind == INT && !json_is_integer(v))
		return wrong(fail, s->key, v, "an integer");
	if (!json_is_number(v))
		return wrong(fail, s->key, v, "a number");
	double d = json_number_value(v);
	if (!(d >= s->min && d <= s->max))
		return fail_at(fail, E_FORMAT, s->key,
			       FILE_NAME ": %s is %g, outside %g to %g", s->key, d,
			       s->min, s->max);
	store(c, s, d);
	return OK;
}

static enum status read_dense_layers(const json_t *root, struct arena *a,
				     struct model_config *c, struct fail *fail)
{
	static const char key[] = "mlp_only_layers";
	const json_t *list = jsonfile_get(root, key);
	if (!list)
		return OK;
	if (!json_is_array(list))
		return wrong(fail, key, list, "a list");
	size_t n = json_array_size(list);
	c->dense_layers = arena_alloc(a, n * sizeof *c->dense_layers);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t layer = json_integer_value(v);
		if (!json_is_integer(v) || layer < 0 || layer >= c->n_layers)
			return wrong(fail, key, v, "a layer of the model");
		c->dense_layers[c->n_dense_layers++] = (int32_t)layer;
	}
	return OK;
}

static enum status read_dtype(const json_t *root, struct model_config *c,
			      struct fail *fail)
{
	static const struct {
		const char *name;
		enum dtype dtype;
	} names[] = {{"bfloat16", DTYPE_BF16}, {"float16", DTYPE_F16},
		     {"float32", DTYPE_F32}};
	const json_t *v = jsonfile_get(root, "dtype");
	if (!v)
		v = jsonfile_get(root, "torch_dtype");
	c->dtype = DTYPE_BF16;
	if (!v)
		return OK;
	const char *name = json_string_value(v);
	for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i].name, name) == 0) {
			c->dtype = names[i].dtype;
			return OK;
		}
	return unsupported(fail, "dtype", v);
}

/* --- rope ----------------------------------------------------------------- */

/* rope_scaling, or rope_parameters: only the kind that scales nothing. */
static enum status check_rope(const json_t *rope, const char *key,
			      struct fail *fail)
{
	if (!json_is_object(rope))
		return wrong(fail, key, rope, "an object");
	const json_t *type = jsonfile_get(rope, "rope_type");
	if (!type)
		type = jsonfile_get(rope, "type");
	const json_t *partial = jsonfile_get(rope, "partial_rotary_factor");
	if (!type || !json_is_string(type) ||
	    strcmp(json_string_value(type), "default") != 0 ||
	    (partial && json_number_value(partial) != 1))
		return unsupported(fail, key, rope);
	return OK;
}

static enum status read_rope(const json_t *root, struct model_config *c,
			     struct fail *fail)
{
	const json_t *scaling = jsonfile_get(root, "rope_scaling");
	const json_t *params = jsonfile_get(root, "rope_parameters");
	const json_t *outer = jsonfile_get(root, "rope_theta");
	enum status st = OK;
	if (scaling)
		st = check_rope(scaling, "rope_scaling", fail);
	if (st == OK && params)
		st = check_rope(params, "rope_parameters", fail);
	if (st != OK)
		return st;
	const json_t *inner = params ? jsonfile_get(params, "rope_theta") : NULL;
	const json_t *v = inner ? inner : outer;
	if (!v)
		return missing(fail, "rope_theta");
	double theta = json_number_value(v);
	if (!(theta > 1 && theta <= 1e12))
		return fail_at(fail, E_FORMAT, "rope_theta",
			       FILE_NAME ": rope_theta must be a number above 1");
	if (inner && outer && json_number_value(outer) != theta)
		return fail_at(fail, E_FORMAT, "rope_theta",
			       FILE_NAME ": rope_theta and "
			       "rope_parameters.rope_theta disagree");
	c->rope = ROPE_DEFAULT;
	c->rope_theta = (float)theta;
	return OK;
}

/* --- what must have no effect --------------------------------------------- */

static bool is_allowed(const json_t *v, const char *allowed)
{
	char buf[64];
	const char *text = spelled(v, buf);
	size_t n = strlen(text);
	for (const char *p = allowed; (p = strstr(p, text)); p++)
		if ((p == allowed || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

static enum status check_neutral(const json_t *root, struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const json_t *v = jsonfile_get(root, neutral[i].key);
		if (v && !is_allowed(v, neutral[i].allowed))
			return unsupported(fail, neutral[i].key, v);
	}
	const json_t *types = jsonfile_get(root, "layer_types");
	const json_t *type;
	size_t i;
	json_array_foreach((json_t *)types, i, type)
		if (!json_is_string(type) ||
		    strcmp(json_string_value(type), "full_attention") != 0)
			return unsupported(fail, "layer_types", type);
	return OK;
}

/* --- together ------------------------------------------------------------- */

static enum status check_sizes(struct model_config *c, struct fail *fail)
{
	if (c->head_dim == 0)
		c->head_dim = c->d_model / c->n_heads;
	if (c->head_dim < 2 || c->head_dim % 2)
		return fail_at(fail, E_FORMAT, "head_dim",
			       FILE_NAME ": head_dim is %d, not an even number",
			       c->head_dim);
	if (c->n_heads % c->n_kv_heads)
		return fail_at(fail, E_FORMAT, "num_key_value_heads",
			       FILE_NAME ": %d query heads cannot share %d key heads",
			       c->n_heads, c->n_kv_heads);
	if (c->n_experts_used > c->n_experts)
		return fail_at(fail, E_FORMAT, "num_experts_per_tok",
			       FILE_NAME ": %d experts a token, of %d",
			       c->n_experts_used, c->n_experts);
	return OK;
}

enum status model_config_read(const json_t *root, struct arena *a,
			      struct model_config *out, struct fail *fail)
{
	struct model_config c = {0};
	const struct arch *arch = NULL;
	enum status st = read_arch(root, &arch, fail);
	if (st == OK)
		st = check_neutral(root, fail);
	for (size_t i = 0; st == OK && i < ARRAY_LEN(settings); i++)
		if (settings[i].keys & arch->keys)
			st = read_setting(root, &settings[i], &c, fail);
	if (st == OK && arch->keys & KEYS_EXPERTS)
		st = read_dense_layers(root, a, &c, fail);
	if (st == OK)
		st = read_dtype(root, &c, fail);
	if (st == OK)
		st = read_rope(root, &c, fail);
	if (st == OK)
		st = check_sizes(&c, fail);
	if (st == OK)
		st = model_ids_read(jsonfile_get(root, "eos_token_id"), FILE_NAME,
				    "eos_token_id", c.n_vocab, c.eos_ids, &c.n_eos,
				    fail);
	if (st != OK)
		return st;
	snprintf(c.arch, sizeof c.arch, "%s", arch->model_type);
	*out = c;
	return OK;
}
