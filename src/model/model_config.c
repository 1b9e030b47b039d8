/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json is a bag of keys from many authors. Tables decide what happens to a key:
 *
 *   archs.def  the model_types, and which groups of keys each one uses
 *   settings   keys whose value is read: its place, range and default
 *   families/  the same for keys that only one family has
 *   neutral    keys that would change the result: refused by name, unless the value
 *              is one that has no effect
 *
 * A key in no table is taken to be harmless (dropout, cache switches, …). A new architecture
 * needs a row in archs.def, and rows here or in families/ for its new keys.
 * model_config_rope.c reads the rope settings.
 */
#include "model/model_config_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "json/jsonfile.h"
#include "model/model_family.h"

const struct model_arch model_archs[] = {
#define ARCH(type, ident, ...) {.model_type = type, __VA_ARGS__},
#include "model/archs.def"
#undef ARCH
};
const size_t model_n_archs = ARRAY_LEN(model_archs);

static const struct {
	uint64_t of; /* KEYS_ bits of the architectures that have this key */
	struct config_setting is;
} settings[] = {
	{KEYS_ALL, {"num_hidden_layers", NULL, INT, AT(n_layers), 1, 1024, REQUIRED}},
	{KEYS_ALL, {"hidden_size", NULL, INT, AT(d_model), 8, 1 << 16, REQUIRED}},
	{KEYS_ALL, {"num_attention_heads", NULL, INT, AT(n_heads), 1, 1024, REQUIRED}},
	{KEYS_ALL, {"num_key_value_heads", NULL, INT, AT(n_kv_heads), 1, 1024, REQUIRED}},
	/* 0: computed below as hidden_size / num_attention_heads */
	{KEYS_HEADS, {"head_dim", NULL, INT, AT(head_dim), 2, 1024, 0}},
	{KEYS_FFN, {"intermediate_size", NULL, INT, AT(ffn_dim), 8, 1 << 20, REQUIRED}},
	{KEYS_LOCAL, {"intermediate_size", NULL, INT, AT(expert_dim), 8, 1 << 20, REQUIRED}},
	{KEYS_ALL, {"vocab_size", NULL, INT, AT(n_vocab), 2, 1 << 24, REQUIRED}},
	{KEYS_ALL, {"max_position_embeddings", NULL, INT, AT(max_ctx), 1, 1 << 27, REQUIRED}},
	{KEYS_ALL, {"rms_norm_eps", "layer_norm_eps", FLOAT, AT(norm_eps), 1e-12, 1e-2,
	 REQUIRED}},
	{KEYS_ALL, {"tie_word_embeddings", NULL, BOOL, AT(tied_embeddings), 0, 1, 0}},
	{KEYS_BIAS, {"attention_bias", NULL, BOOL, AT(o_bias), 0, 1, 0}},
	{KEYS_MLP_BIAS, {"mlp_bias", NULL, BOOL, AT(mlp_bias), 0, 1, 0}},
	{KEYS_OUT_BIAS, {"attention_bias", NULL, BOOL, AT(qkv_bias), 0, 1, 1}},
	{KEYS_OUT_BIAS, {"attention_out_bias", NULL, BOOL, AT(o_bias), 0, 1, 0}},
	{KEYS_LOGIT_SCALE, {"logit_scale", NULL, FLOAT, AT(logit_scale), 1e-6, 1e3, 1}},
	/* set_scales distributes these four. */
	{KEYS_SCALES, {"embedding_multiplier", NULL, FLOAT, AT(embed_scale), 1e-3, 1e6, 1}},
	{KEYS_SCALES, {"attention_multiplier", NULL, FLOAT, AT(query_scalar), 1e-6, 1e3, 1}},
	{KEYS_SCALES, {"residual_multiplier", NULL, FLOAT, AT(residual_scale), 1e-3, 1e3, 1}},
	{KEYS_SCALES, {"logits_scaling", NULL, FLOAT, AT(logit_scale), 1e-3, 1e6, 1}},
	{KEYS_ALL, {"bos_token_id", NULL, INT, AT(bos_id), 0, 1 << 24, -1}},
	{KEYS_EXPERTS | KEYS_LOCAL, {"num_experts", "num_local_experts", INT, AT(n_experts), 1,
	 4096, REQUIRED}},
	{KEYS_GROUPED, {"n_routed_experts", NULL, INT, AT(n_experts), 1, 4096, REQUIRED}},
	/* a number of experts; converted to a width below */
	{KEYS_GROUPED, {"n_shared_experts", NULL, INT, AT(shared_dim), 0, 64, REQUIRED}},
	{KEYS_SHARED, {"shared_expert_intermediate_size", NULL, INT, AT(shared_dim), 8, 1 << 20,
	 REQUIRED}},
	{KEYS_GROUPED, {"n_group", NULL, INT, AT(n_groups), 1, 4096, REQUIRED}},
	{KEYS_GROUPED, {"topk_group", NULL, INT, AT(n_groups_used), 1, 4096, REQUIRED}},
	{KEYS_GROUPED, {"routed_scaling_factor", NULL, FLOAT, AT(routed_scale), 1e-3, 1e3,
	 REQUIRED}},
	{KEYS_GROUPED, {"use_qk_norm", NULL, BOOL, AT(qk_norm), 0, 1, 0}},
	{KEYS_EXPERTS | KEYS_GROUPED | KEYS_LOCAL, {"num_experts_per_tok", "experts_per_token",
	 INT, AT(n_experts_used), 1, 256, REQUIRED}},
	{KEYS_EXPERTS | KEYS_GROUPED, {"moe_intermediate_size", NULL, INT, AT(expert_dim), 8,
	 1 << 20, REQUIRED}},
	{KEYS_EXPERTS, {"norm_topk_prob", NULL, BOOL, AT(norm_topk), 0, 1, 0}},
	{KEYS_SHARED, {"norm_topk_prob", NULL, BOOL, AT(norm_topk), 0, 1, 1}},
	{KEYS_QUERY_SCALE, {"query_pre_attn_scalar", NULL, FLOAT, AT(query_scalar), 1, 1e6,
	 REQUIRED}},
	/* used without layer_types: layer i has a window iff (i + 1) % pattern != 0. 0 is for
	 * models without windows. */
	{KEYS_WINDOW_LIST, {"sliding_window_pattern", "_sliding_window_pattern", INT,
	 AT(window_pattern), 0, 1024, 0}},
	{KEYS_DELTA, {"linear_num_key_heads", NULL, INT, AT(delta.k_heads), 1, 1024, REQUIRED}},
	{KEYS_DELTA, {"linear_num_value_heads", NULL, INT, AT(delta.v_heads), 1, 1024,
	 REQUIRED}},
	{KEYS_DELTA, {"linear_key_head_dim", NULL, INT, AT(delta.k_dim), 4, 256, REQUIRED}},
	{KEYS_DELTA, {"linear_value_head_dim", NULL, INT, AT(delta.v_dim), 4, 256, REQUIRED}},
	{KEYS_DELTA, {"linear_conv_kernel_dim", NULL, INT, AT(delta.conv_width), 2, 8,
	 REQUIRED}},
	{KEYS_MLA, {"q_lora_rank", NULL, INT, AT(q_lora), 8, 1 << 14, 0}},
	{KEYS_MLA, {"kv_lora_rank", NULL, INT, AT(mla.kv_lora), 8, 1024, REQUIRED}},
	{KEYS_MLA, {"qk_nope_head_dim", NULL, INT, AT(mla.nope_dim), 1, 1024, REQUIRED}},
	{KEYS_MLA, {"qk_rope_head_dim", NULL, INT, AT(mla.rope_dim), 0, 1024, REQUIRED}},
	{KEYS_MLA, {"v_head_dim", NULL, INT, AT(mla.v_dim), 1, 1024, REQUIRED}},
	{KEYS_MLA, {"rope_interleave", NULL, BOOL, AT(mla.is_interleaved), 0, 1, 1}},
	{KEYS_GROUPED, {"norm_topk_prob", NULL, BOOL, AT(norm_topk), 0, 1, 1}},
	{KEYS_SSM, {"mamba_n_heads", NULL, INT, AT(delta.v_heads), 1, 1024, REQUIRED}},
	{KEYS_SSM, {"mamba_n_groups", NULL, INT, AT(delta.k_heads), 1, 1024, 1}},
	{KEYS_SSM, {"mamba_d_state", NULL, INT, AT(delta.k_dim), 4, 256, 256}},
	{KEYS_SSM, {"mamba_d_head", NULL, INT, AT(delta.v_dim), 4, 1024, REQUIRED}},
	{KEYS_SSM, {"mamba_d_conv", NULL, INT, AT(delta.conv_width), 2, 8, 4}},
	{KEYS_SSM, {"mamba_conv_bias", NULL, BOOL, AT(delta.has_conv_bias), 0, 1, 1}},
	{KEYS_BESIDE, {"shared_intermediate_size", NULL, INT, AT(shared_dim), 0, 1 << 20, 0}},
	{KEYS_EXPERTS, {"decoder_sparse_step", NULL, INT, AT(sparse_step), 1, 1024, 1}},
};

/* allowed: JSON values, separated by blanks, that have no effect. A key that is null or absent
 * is always accepted. */
static const struct {
	const char *key, *allowed;
	uint64_t unless; /* groups of keys whose architectures read this key */
} neutral[] = {
	{"attention_bias", "false", KEYS_BIAS | KEYS_OUT_BIAS},
	{"attention_out_bias", "false", KEYS_OUT_BIAS},
	{"attn_output_gate", "true", 0},
	{"moe_layer_freq", "1", 0},
	{"mlp_bias", "false", KEYS_MLP_BIAS},
	{"lm_head_bias", "false", 0},
	{"use_sliding_window", "false", KEYS_WINDOW_SOME},
	{"partial_rotary_factor", "1 1.0", KEYS_PARTIAL},
	{"scoring_func", "\"softmax\"", KEYS_GROUPED | KEYS_SIGMOID},
	{"use_routing_bias", "true", 0},
	{"qk_norm_type", "\"per_layer\"", 0},
	{"shared_intermediate_size", "0", KEYS_BESIDE},
	{"mamba_proj_bias", "false", 0},
	{"projectors_bias", "false", 0},
	{"zero_centered", "true", 0}, {"sink", "false", 0},
	{"use_head_wise_attn_gate", "true", 0}, {"use_moe_router_bias", "true", 0},
	{"norm_expert_weight", "true", 0}, {"moe_router_activation", "\"sigmoid\"", 0},
	{"moe_every_n_layer", "1", 0}, {"use_mfa", "false", 0},
	{"att_impl_type", "\"GQA\"", 0}, {"use_rope_layers", "[]", 0},
	{"yarn_only_types", "[\"full_attention\"]", 0},
	{"mamba_hidden_act", "\"silu\"", 0},
	{"use_bias", "false", 0},
	{"normalization_function", "\"rmsnorm\"", 0},
	{"scoring_func", "\"sigmoid\"", KEYS_EXPERTS},
	{"topk_method", "\"noaux_tc\"", 0},
	{"attn_logit_softcapping", "", 0},
	{"final_logit_softcapping", "", 0},
	{"logit_scale", "1 1.0", KEYS_LOGIT_SCALE},
	{"rotary_pct", "1 1.0", 0}, {"use_gated_activation", "true", 0},
	{"use_parallel_block", "true", 0},
	{"logits_scaling", "1 1.0", KEYS_SCALES},
	{"embedding_multiplier", "1 1.0", KEYS_SCALES},
	{"residual_multiplier", "1 1.0", KEYS_SCALES},
	{"attention_multiplier", "", KEYS_SCALES},
	{"query_pre_attn_scalar", "", KEYS_QUERY_SCALE},
	{"rope_local_base_freq", "", KEYS_LOCAL_ROPE},
	{"use_bidirectional_attention", "false \"vision\"", KEYS_QUERY_SCALE}, /* alike for text */
	{"shared_expert_intermediate_size", "0", KEYS_SHARED},
	{"n_shared_experts", "0", KEYS_GROUPED},
	{"n_group", "1", KEYS_GROUPED},
	{"topk_group", "1", KEYS_GROUPED},
	{"routed_scaling_factor", "1 1.0", KEYS_GROUPED},
	{"output_gate_type", "\"swish\" \"silu\"", 0},
	{"indexer_kv_heads", "1", 0},
	{"index_topk", "", 0},
	{"clip_qkv", "", 0},
	{"conv_bias", "false", 0},
	{"use_expert_bias", "true", 0},
	{"qk_layernorm", "false", 0},
	{"attention_chunk_size", "", 0},
	{"no_rope_layers", "[]", KEYS_NO_ROPE},
	{"no_rope_layer_interval", "0", KEYS_NO_ROPE},
	{"scale_emb", "1 1.0", 0},
	{"scale_depth", "", 0}, {"dim_model_base", "", 0}, {"use_cla", "false", 0},
	{"alibi", "false", 0}, {"use_alibi", "false", 0}, {"activation_sparsity_pattern", "", 0},
	{"apply_residual_connection_post_layernorm", "false", 0},
	{"num_kv_shared_layers", "0", 0},
	{"parallel_attn", "false", 0},
	{"use_parallel_residual", "false", 0},
	{"pruned_heads", "{}", 0},
	{"is_encoder_decoder", "false", 0}, {"is_causal", "true", 0},
	{"add_cross_attention", "false", 0},
};

enum status config_missing(struct fail *fail, const char *key)
{
	return fail_at(fail, E_MISSING, key, FILE_NAME ": %s is missing", key);
}

enum status config_wrong(struct fail *fail, const char *key, const json_t *v,
			 const char *want)
{
	return fail_at(fail, E_FORMAT, key, FILE_NAME ": %s is %s, not %s", key,
		       jsonfile_type(v), want);
}

/* The value as JSON text, shortened for a message. */
static const char *spelled(const json_t *v, char buf[64])
{
	char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
	snprintf(buf, 64, "%s", text ? text : "?");
	free(text);
	return buf;
}

enum status config_unsupported(struct fail *fail, const char *key,
			       const json_t *v)
{
	char buf[64];
	return fail_at(fail, E_UNSUPPORTED, key,
		       FILE_NAME ": %s %s is not supported", key, spelled(v, buf));
}

/* --- architecture --------------------------------------------------------- */

bool model_family_has(const char *words, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = words; p && n && (p = strstr(p, word)); p++)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

static const struct model_arch *arch_find(const json_t *root, const char *model_type)
{
	const char *text = json_string_value(
		jsonfile_get(jsonfile_get(root, "text_config"), "model_type"));
	const struct model_arch *found = NULL;
	for (size_t i = 0; i < model_n_archs; i++) {
		const struct model_arch *a = &model_archs[i];
		if (!a->outer && strcmp(a->model_type, model_type) == 0 && !found)
			found = a;
		if (a->outer && text && strcmp(a->outer, model_type) == 0 &&
		    model_family_has(a->text_type, text))
			return a;
	}
	return found;
}

const char *model_arch_needs(const char *name)
{
	static const struct {
		const char *names, *needs;
	} missing[] = {
#define MISSING(names, needs) {names, needs},
#include "model/archs_missing.def"
#undef MISSING
	};
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (model_family_has(missing[i].names, name))
			return missing[i].needs;
	return NULL;
}

bool model_arch_pairs(const char *model_type)
{
	bool does = false;
	for (size_t i = 0; i < model_n_archs; i++)
		does |= strcmp(model_archs[i].model_type, model_type) == 0 &&
			model_archs[i].rope_interleaved;
	return does;
}

static enum status unknown_arch(struct fail *fail, const json_t *type)
{
	const char *name = json_string_value(type), *needs = model_arch_needs(name);
	if (needs)
		return fail_at(fail, E_UNSUPPORTED, "model_type", FILE_NAME
			       ": model_type \"%.40s\" is not supported: it would need %s",
			       name, needs);
	return fail_at(fail, E_UNSUPPORTED, "model_type",
		       FILE_NAME ": model_type \"%.40s\" is not supported; docs/models.md "
		       "lists those that are", name);
}

/* True if `class` is the class of the body without output head: "Qwen3Model" or
 * "Gemma3TextModel" if `whole` is "Qwen3ForCausalLM" or the like. */
static bool is_body_of(const char *class, const char *whole)
{
	const char *end = strstr(whole, "ForCausalLM");
	size_t n = end ? (size_t)(end - whole) : 0;
	return n > 0 && strncmp(class, whole, n) == 0 &&
	       (strcmp(class + n, "Model") == 0 || strcmp(class + n, "TextModel") == 0);
}

static enum status read_arch(const json_t *root, const struct model_arch **out,
			     bool *out_has_head, struct fail *fail)
{
	const json_t *type = jsonfile_get(root, "model_type");
	if (!type)
		return config_missing(fail, "model_type");
	if (!json_is_string(type))
		return config_wrong(fail, "model_type", type, "a string");
	const struct model_arch *arch = arch_find(root, json_string_value(type));
	if (!arch)
		return unknown_arch(fail, type);
	/* The class tells a language model from other models with the same body, such as
	 * a classifier. A body without output head is an embedding model. */
	const json_t *classes = jsonfile_get(root, "architectures");
	const json_t *class;
	size_t i;
	bool is_whole = !classes || (strcmp(arch->class, "LlamaForCausalLM") == 0 &&
				     config_eagle_is(root));
	bool is_body = false;
	json_array_foreach((json_t *)classes, i, class) {
		const char *name = json_is_string(class) ? json_string_value(class) : "";
		/* Old files of EXAONE-MoE have a large E before "ForCausalLM". */
		is_whole |= strcasecmp(name, arch->class) == 0 ||
			    (arch->aligner && strcmp(name, arch->aligner) == 0);
		is_body |= is_body_of(name, arch->class);
	}
	if (!is_whole && !is_body)
		return config_unsupported(fail, "architectures", classes);
	*out = arch;
	*out_has_head = is_whole;
	return OK;
}

const json_t *model_config_outer(const json_t *root)
{
	const json_t *thinker = jsonfile_get(root, "thinker_config");
	return thinker ? thinker : root;
}

/* True for a file of the form that arch->flat_body is for. */
static bool is_flat(const json_t *root, const struct model_arch *arch)
{
	return arch->flat_body && !jsonfile_get(root, arch->within);
}

/* Find the config of the text model inside the outer config. */
static enum status find_text(const json_t *root, const struct model_arch *arch,
			     const json_t **out, struct fail *fail)
{
	*out = root;
	if (!arch->within)
		return OK;
	const json_t *outer = root;
	if (*arch->within && !is_flat(root, arch) && !(outer = jsonfile_get(root, arch->within)))
		return config_missing(fail, arch->within);
	const json_t *text = jsonfile_get(outer, "text_config");
	if (!text)
		return config_missing(fail, "text_config");
	if (!json_is_object(text))
		return config_wrong(fail, "text_config", text, "an object");
	const json_t *type = jsonfile_get(text, "model_type");
	if (type && (!json_is_string(type) ||
		     !model_family_has(arch->text_type, json_string_value(type))))
		return config_unsupported(fail, "model_type", type);
	*out = text;
	return OK;
}

/* Forced aligners: Qwen's own files say it within, and Transformers' by the class. *out: classes
 * of the output head; 0: it writes text. */
static enum status read_classes(const json_t *root, const struct model_arch *arch, int32_t *out,
				struct fail *fail)
{
	const json_t *outer = model_config_outer(root);
	const json_t *classes = jsonfile_get(root, "architectures");
	const char *class = json_string_value(json_array_get(classes, 0));
	const char *type = json_string_value(jsonfile_get(outer, "model_type"));
	bool is_flat_one = class && arch->aligner && strcmp(class, arch->aligner) == 0;
	*out = 0;
	if (!is_flat_one && (outer == root || !type || !strstr(type, "forced_aligner")))
		return OK;
	const json_t *labels = jsonfile_get(root, "id2label");
	const json_t *n = jsonfile_get(outer, is_flat_one ? "num_labels" : "classify_num");
	json_int_t most = json_is_integer(n) ? json_integer_value(n)
					     : (json_int_t)json_object_size(labels);
	if (most < 2 || most > 1 << 20)
		return fail_at(fail, E_FORMAT, "classify_num", FILE_NAME ": the classes of a "
			       "forced aligner are missing (classify_num, or id2label), or not 2 "
			       "to %d", 1 << 20);
	*out = (int32_t)most;
	return OK;
}

/* --- settings -------------------------------------------------------------- */

static void model_config_store(struct model_config *c, const struct config_setting *s, double v)
{
	char *at = (char *)c + s->at;
	if (s->kind == INT)
		*(int32_t *)(void *)at = (int32_t)v;
	else if (s->kind == FLOAT)
		*(float *)(void *)at = (float)v;
	else
		*(bool *)(void *)at = v != 0;
}

static enum status read_setting(const json_t *root, const struct config_setting *s,
				struct model_config *c, struct fail *fail)
{
	const json_t *v = jsonfile_get(root, s->key);
	const json_t *other = s->alias ? jsonfile_get(root, s->alias) : NULL;
	if (v && other && !json_equal(v, other))
		return fail_at(fail, E_FORMAT, s->alias, FILE_NAME ": %s and %s disagree",
			       s->key, s->alias);
	v = v ? v : other;
	if (!v && isnan(s->fallback))
		return config_missing(fail, s->key);
	if (!v) {
		model_config_store(c, s, s->fallback);
		return OK;
	}
	if (s->kind == BOOL) {
		if (!json_is_boolean(v))
			return config_wrong(fail, s->key, v, "true or false");
		model_config_store(c, s, json_is_true(v));
		return OK;
	}
	if (s->kind == INT && !json_is_integer(v))
		return config_wrong(fail, s->key, v, "an integer");
	if (!json_is_number(v))
		return config_wrong(fail, s->key, v, "a number");
	double d = json_number_value(v);
	if (!(d >= s->min && d <= s->max))
		return fail_at(fail, E_FORMAT, s->key,
			       FILE_NAME ": %s is %g, outside %.10g to %.10g", s->key, d,
			       s->min, s->max);
	model_config_store(c, s, d);
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
		return config_wrong(fail, key, list, "a list");
	size_t n = json_array_size(list);
	c->dense_layers = arena_alloc(a, n * sizeof *c->dense_layers);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t layer = json_integer_value(v);
		if (!json_is_integer(v) || layer < 0 || layer >= c->n_layers)
			return config_wrong(fail, key, v, "a layer of the model");
		c->dense_layers[c->n_dense_layers++] = (int32_t)layer;
	}
	return OK;
}

/* Read the list that says "dense" or "sparse" for each layer. */
static enum status read_mlp_types(const json_t *types, struct arena *a,
				  struct model_config *c, struct fail *fail)
{
	static const char key[] = "mlp_layer_types";
	if (json_array_size(types) != (size_t)c->n_layers)
		return config_wrong(fail, key, types, "a list of a type a layer");
	c->dense_layers = arena_alloc(a, (size_t)c->n_layers * sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(types, (size_t)i);
		const char *type = json_is_string(v) ? json_string_value(v) : "";
		if (strcmp(type, "dense") == 0)
			c->dense_layers[c->n_dense_layers++] = i;
		else if (strcmp(type, "sparse") != 0)
			return config_unsupported(fail, key, v);
	}
	return OK;
}

/* Read first_k_dense_replace: that many first layers are dense. */
static enum status read_first_dense(const json_t *root, struct arena *a,
				    struct model_config *c, struct fail *fail)
{
	static const char key[] = "first_k_dense_replace";
	const json_t *v = jsonfile_get(root, key);
	json_int_t n = json_integer_value(v);
	if (!v)
		return config_missing(fail, key);
	if (!json_is_integer(v) || n < 0)
		return config_wrong(fail, key, v, "a number of layers");
	c->n_dense_layers = n < c->n_layers ? (int32_t)n : c->n_layers;
	c->dense_layers = arena_alloc(a, (size_t)c->n_dense_layers *
						 sizeof *c->dense_layers);
	for (int32_t i = 0; i < c->n_dense_layers; i++)
		c->dense_layers[i] = i;
	return OK;
}

static enum status read_grouped(const json_t *root, struct arena *a,
				struct model_config *c, struct fail *fail)
{
	const json_t *types = jsonfile_get(root, "mlp_layer_types");
	enum status st = types ? read_mlp_types(types, a, c, fail)
			       : read_first_dense(root, a, c, fail);
	if (st != OK)
		return st;
	c->sparse_step = 1;
	c->shared_dim *= c->expert_dim;
	if (c->n_experts % c->n_groups || c->n_groups_used > c->n_groups ||
	    c->n_experts_used > c->n_experts / c->n_groups * c->n_groups_used)
		return fail_at(fail, E_FORMAT, "n_group", FILE_NAME
			       ": %d of %d experts cannot be chosen from %d of %d groups",
			       c->n_experts_used, c->n_experts, c->n_groups_used,
			       c->n_groups);
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
	return config_unsupported(fail, "dtype", v);
}

/* --- activation ----------------------------------------------------------- */

/* Read hidden_act or hidden_activation. is_fixed: the architecture sets the activation
 * itself, so the key may only name SiLU. */
static enum status read_activation(const json_t *root, bool is_fixed,
				   struct model_config *c, struct fail *fail)
{
	static const struct {
		const char *name;
		enum activation_kind kind;
	} names[] = {{"silu", ACT_SILU}, {"swish", ACT_SILU},
		     {"gelu_pytorch_tanh", ACT_GELU_TANH}};
	static const char *const keys[] = {"hidden_act", "hidden_activation"};
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const json_t *v = jsonfile_get(root, keys[k]);
		const char *name = json_string_value(v);
		size_t i = 0;
		while (name && i < ARRAY_LEN(names) && strcmp(names[i].name, name) != 0)
			i++;
		if (v && (!name || i == ARRAY_LEN(names) ||
			  (is_fixed && names[i].kind != ACT_SILU)))
			return config_unsupported(fail, keys[k], v);
		if (v)
			c->act.kind = names[i].kind;
	}
	return OK;
}

/* --- keys that must have no effect ------------------------------------------ */

static bool is_allowed(const json_t *v, const char *allowed)
{
	char buf[64];
	return model_family_has(allowed, spelled(v, buf));
}

/* True if the family reads the key. */
static bool is_own(const struct model_family *f, const char *key)
{
	if (f && model_family_has(f->reads, key))
		return true;
	for (const struct config_setting *s = f ? f->settings : NULL; s && s->key; s++)
		if (strcmp(s->key, key) == 0)
			return true;
	return false;
}

static enum status check_neutral(const json_t *root, const struct model_arch *arch,
				 struct fail *fail)
{
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const json_t *v = jsonfile_get(root, neutral[i].key);
		if (v && !(arch->keys & neutral[i].unless) &&
		    !is_own(arch->family, neutral[i].key) &&
		    !is_allowed(v, neutral[i].allowed))
			return config_unsupported(fail, neutral[i].key, v);
	}
	return OK;
}

/* --- the whole config ------------------------------------------------------- */

static enum status check_sizes(struct model_config *c, struct fail *fail)
{
	if (c->mla.kv_lora > 0)
		c->head_dim = c->mla.nope_dim + c->mla.rope_dim;
	if (c->head_dim == 0)
		c->head_dim = c->d_model / c->n_heads;
	if (c->mla.kv_lora > 0 && (c->mla.rope_dim % 2 || c->mla.kv_lora + c->mla.rope_dim > 1024))
		return fail_at(fail, E_UNSUPPORTED, "qk_rope_head_dim", FILE_NAME
			       ": keys of %d elements, %d of them rotated", c->mla.kv_lora +
			       c->mla.rope_dim, c->mla.rope_dim);
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

/* Layer i is rotated where no_rope_layers has 1 for it; without that list, where
 * (i + 1) % no_rope_layer_interval != 0. */
static enum status read_no_rope(const json_t *root, struct arena *a,
				struct model_config *c, struct fail *fail)
{
	static const char key[] = "no_rope_layers", every[] = "no_rope_layer_interval";
	const json_t *list = jsonfile_get(root, key), *v = jsonfile_get(root, every);
	json_int_t interval = v ? json_integer_value(v) : 4;
	if ((v && !json_is_integer(v)) || interval < 1)
		return config_wrong(fail, every, v, "a number of layers");
	if (list && json_array_size(list) != (size_t)c->n_layers)
		return config_wrong(fail, key, list, "a list of a number a layer");
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *is = list ? json_array_get(list, (size_t)i) : NULL;
		json_int_t n = is ? json_integer_value(is) : (i + 1) % interval != 0;
		if (is && (!json_is_integer(is) || n < 0 || n > 1))
			return config_wrong(fail, key, is, "0 or 1");
		c->is_unrotated[i] = n == 0;
	}
	return OK;
}

/* Layers without a window are not rotated, unless none has a window. */
static void set_window_rope(struct arena *a, struct model_config *c)
{
	if (!c->is_windowed)
		return;
	c->is_unrotated = arena_alloc(a, (size_t)c->n_layers * sizeof *c->is_unrotated);
	for (int32_t i = 0; i < c->n_layers; i++)
		c->is_unrotated[i] = !c->is_windowed[i];
}

static enum status read_settings(const json_t *text, const struct model_arch *arch,
				 struct model_config *c, struct fail *fail)
{
	const struct config_setting *own = arch->family ? arch->family->settings : NULL;
	enum status st = check_neutral(text, arch, fail);
	for (size_t i = 0; st == OK && i < ARRAY_LEN(settings); i++)
		if (settings[i].of & arch->keys)
			st = read_setting(text, &settings[i].is, c, fail);
	for (; st == OK && own && own->key; own++)
		st = read_setting(text, own, c, fail);
	return st;
}

/* Settings of one text model, all defaults in place. */
static enum status read_text(const json_t *text, const struct model_arch *arch,
			     struct arena *a, struct model_config *c, struct fail *fail)
{
	const struct model_family *own = arch->family;
	bool fixes_act = arch->keys & (KEYS_DELTA | KEYS_GROUPED) || (own && own->fixes_act);
	enum status st = read_settings(text, arch, c, fail);
	if (st == OK && arch->keys & KEYS_EXPERTS)
		st = read_dense_layers(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_GROUPED)
		st = read_grouped(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_NO_ROPE)
		st = read_no_rope(text, a, c, fail);
	if (st == OK)
		st = read_activation(text, fixes_act, c, fail);
	if (st == OK)
		st = read_dtype(text, c, fail);
	if (st == OK)
		st = config_rope_read(text, arch->keys & KEYS_LOCAL_ROPE ? "full_attention"
									 : NULL,
				      arch->theta, arch->keys & KEYS_ATTN_TEMP, a, c, fail);
	if (st == OK)
		st = own && own->layers ? own->layers(text, a, c, fail)
					: config_windows_read(text, arch, a, c, fail);
	if (st == OK && arch->keys & KEYS_LOCAL_ROPE)
		st = config_rope_read_local(text, a, c, fail);
	if (st == OK && arch->keys & KEYS_WINDOW_ROPE)
		set_window_rope(a, c);
	if (st == OK && arch->keys & KEYS_QUERY_SCALE)
		st = config_encoder_of_text(text, c, fail);
	if (st == OK && own && own->read)
		st = own->read(text, a, c, fail);
	if (st == OK)
		st = check_sizes(c, fail);
	if (st == OK)
		st = config_partial_read(text, arch->keys, c, fail);
	if (st == OK)
		st = model_ids_read(jsonfile_get(text, "eos_token_id"), FILE_NAME,
				    "eos_token_id", c->n_vocab, c->eos_ids, &c->n_eos,
				    fail);
	if (st == OK && own && own->check)
		st = own->check(text, a, c, fail);
	return st;
}

/* Round x to the nearest number of float type t. */
static float rounded(enum dtype t, float x)
{
	int exponent, bits = t == DTYPE_BF16 ? 8 : t == DTYPE_F16 ? 11 : 24;
	double m = frexp(x, &exponent);
	return (float)ldexp(nearbyint(ldexp(m, bits)), exponent - bits);
}

/* Granite multiplies what each layer adds by a number r: x becomes x + r f(norm(x)). The graph
 * computes y = x / r instead, which becomes y + f(norm(y)): x and y have the same norm, except
 * for its eps. So r is needed only here. */
static void set_scales(struct model_config *c)
{
	c->embed_scale /= c->residual_scale;
	c->norm_eps /= c->residual_scale * c->residual_scale;
	c->query_scalar = 1 / (c->query_scalar * c->query_scalar);
	c->logit_scale = 1 / c->logit_scale;
}

/* Set what depends only on the architecture. */
static void set_arch(const struct model_arch *arch, struct model_config *c)
{
	snprintf(c->arch, sizeof c->arch, "%s", arch->model_type);
	c->prefix = arch->prefix ? arch->prefix : "";
	c->body = arch->body ? arch->body : "model.";
	c->qkv_bias |= arch->qkv_bias || (c->o_bias && !(arch->keys & KEYS_OUT_BIAS));
	if (arch->keys & KEYS_GROUPED) /* attention_bias does not apply to o */
		c->o_bias = false;
	c->norm_plus_one = arch->norm_plus_one || arch->keys & KEYS_DELTA;
	c->mla.eps = 1e-6f; /* a constant in Transformers, whatever rms_norm_eps is */
	if (arch->keys & KEYS_SSM) {
		c->delta.gate_eps = c->norm_eps;
		c->sparse_step = 1;
	}
	if (arch->keys & KEYS_LOCAL) {
		c->sparse_step = 1;
		c->norm_topk = true;
	}
	if (arch->keys & KEYS_SIGMOID) {
		c->n_groups = c->n_groups_used = 1;
		c->routed_scale = 1;
	}
	if (arch->keys & KEYS_SCALES) {
		set_scales(c);
	} else {
		if (!(arch->keys & KEYS_LOGIT_SCALE))
			c->logit_scale = 1;
		/* Round the factors to the type of the weights, as in training. */
		float scale = arch->scales_embedding ? sqrtf((float)c->d_model) : 1;
		c->embed_scale = rounded(c->dtype, scale);
		c->gemma4.embed_scale =
			rounded(c->dtype, sqrtf((float)c->gemma4.embed_dim)) * sqrtf(0.5f);
	}
	if (arch->family && arch->family->fix)
		arch->family->fix(c);
}

void config_rename(json_t *text, const char *own, const char *usual)
{
	const json_t *v = jsonfile_get(text, own);
	if (v)
		json_object_set(text, usual, (json_t *)(uintptr_t)v);
}

void config_default(json_t *text, const char *key, json_int_t n)
{
	if (!jsonfile_get(text, key))
		json_object_set_new(text, key, json_integer(n));
}

/* EXAONE 4 spells sliding_window_pattern "LLLG": in each group of that many layers, the last
 * has full attention. */
static void spell_pattern(json_t *text)
{
	static const char key[] = "sliding_window_pattern";
	const char *s = json_string_value(jsonfile_get(text, key));
	size_t n = s ? strspn(s, "L") : 0;
	if (s && strcmp(s + n, "G") == 0)
		json_object_set_new(text, key, json_integer((json_int_t)n + 1));
}

/* Command R's config.json has its context as model_max_length, beside one of the first training. */
static void spell_context(json_t *text)
{
	const json_t *most = jsonfile_get(text, "model_max_length");
	if (json_is_integer(most))
		json_object_set(text, "max_position_embeddings", (json_t *)(uintptr_t)most);
}

enum status model_config_read(const json_t *root, struct arena *a,
			      struct model_config *out, struct fail *fail)
{
	struct model_config c = {0};
	const struct model_arch *arch = NULL;
	const json_t *found = root;
	bool has_head = false;
	if (config_encoder_is(root)) {
		*out = c;
		return config_encoder_read(root, out, fail);
	}
	enum status st = read_arch(root, &arch, &has_head, fail);
	if (st == OK)
		st = find_text(root, arch, &found, fail);
	if (st != OK)
		return st;
	json_t *text = json_copy((json_t *)(uintptr_t)found);
	if (arch->within && !jsonfile_get(text, "eos_token_id"))
		json_object_set(text, "eos_token_id",
				json_object_get(root, "eos_token_id"));
	json_t *defaults = arch->defaults ? json_loads(arch->defaults, 0, NULL) : NULL;
	for (size_t i = 0; defaults && i < ARRAY_LEN(settings); i++)
		if (settings[i].is.alias && jsonfile_get(text, settings[i].is.alias))
			json_object_del(defaults, settings[i].is.key);
	if (defaults)
		json_object_update_missing(text, defaults);
	spell_pattern(text);
	if (arch->keys & KEYS_LOGIT_SCALE)
		spell_context(text);
	if (arch->family && arch->family->spell)
		arch->family->spell(text);
	st = read_text(text, arch, a, &c, fail);
	json_decref(defaults);
	json_decref(text);
	/* If the outer config has tie_word_embeddings, it overrides that of the text
	 * config. */
	const json_t *tied = jsonfile_get(root, "tie_word_embeddings");
	if (found != root && json_is_boolean(tied))
		c.tied_embeddings = json_is_true(tied);
	if (st == OK && config_eagle_is(root))
		st = config_eagle_read(root, &c, fail);
	if (st != OK)
		return st;
	if (arch->aligner)
		st = read_classes(root, arch, &c.n_classes, fail);
	if (st != OK)
		return st;
	c.tied_embeddings &= !c.n_classes;
	set_arch(arch, &c);
	if (is_flat(root, arch)) {
		c.prefix = "";
		c.body = arch->flat_body;
	}
	c.has_head = has_head;
	*out = c;
	return OK;
}
