/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file has the settings of config.json under other names, and the tensors under
 * other names too. This file renames both to Hugging Face's names, so that model_config.c
 * reads and checks both kinds alike. Tables:
 *
 *   archs.def  general.architecture and its model_type
 *   keys       <architecture>.<key> and its name in config.json
 *   parts      parts of the names of tensors (gguf_names.c)
 *   families/  the same for what only one family has
 *
 * Some values differ too. Llama's rows of q and k are stored in pairs
 * (gguf_model_is_paired). model.c restores the order when it opens them; otherwise the
 * same model would need a second kind of rope, which rotates pairs of neighbours.
 * Sources: the gguf package for Python (constants.py, tensor_mapping.py), and llama.cpp's
 * converter for the meaning of values.
 */
#include "model/model_family.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/gguf_beside.h"
#include "model/model.h"

/* --- the file ----------------------------------------------------------------- */

static bool is_part_but_first(const char *name)
{
	const char *of = strstr(name, "-of-");
	return of && of - name > 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
}

bool gguf_model_is_first(const char *file)
{
	return str_ends(str_of(file), STR(".gguf")) && !is_part_but_first(file) &&
	       !gguf_beside_is_tower(file) && !gguf_beside_is_mtp(file);
}

static bool has_file(const char *dir, const char *name)
{
	char *path = file_join(dir, name);
	bool is = file_exists(path);
	free(path);
	return is;
}

enum status gguf_model_find(const char *path, char **out, struct fail *fail)
{
	struct stat sb;
	enum status st = OK;
	*out = NULL;
	if (stat(path, &sb) != 0)
		return OK;
	if (!S_ISDIR(sb.st_mode)) {
		*out = xstrdup(path);
		return OK;
	}
	if (has_file(path, "model.safetensors") ||
	    has_file(path, "model.safetensors.index.json"))
		return OK;
	DIR *d = opendir(path);
	if (!d)
		return OK;
	for (struct dirent *e; st == OK && (e = readdir(d));) {
		if (!gguf_model_is_first(e->d_name))
			continue;
		if (*out)
			st = fail_set(fail, E_FORMAT, "%s: there is also %s beside it; say "
				      "which", *out, e->d_name);
		else
			*out = file_join(path, e->d_name);
	}
	closedir(d);
	if (st != OK) {
		free(*out);
		*out = NULL;
	}
	return st;
}

/* --- architectures ------------------------------------------------------------- */

const struct model_arch *gguf_model_arch(const struct gguf *g, struct str *out_name)
{
	const struct gguf_value *v = gguf_find(g, "general.architecture");
	*out_name = STR("");
	if (!v || !gguf_string(v, out_name))
		return NULL;
	for (size_t i = 0; i < model_n_archs; i++)
		if (model_archs[i].gguf && str_is(*out_name, model_archs[i].gguf))
			return &model_archs[i];
	return NULL;
}

bool gguf_model_is_paired(const struct gguf *g)
{
	struct str name;
	const struct model_arch *arch = gguf_model_arch(g, &name);
	return arch && arch->in_gguf & GGUF_PAIRED;
}

bool gguf_model_is_tiled(const struct gguf *g)
{
	struct str name;
	const struct model_arch *arch = gguf_model_arch(g, &name);
	return arch && arch->in_gguf & GGUF_HEADS_TILED;
}

/* True if some layer has the tensor `part`. */
static bool has_in_layers(const struct tensors *ts, const struct model_config *c, const char *part)
{
	char name[96];
	bool has = false;
	for (int32_t i = 0; i < c->n_layers && !has; i++) {
		snprintf(name, sizeof name, "model.layers.%d.%s", (int)i, part);
		has = tensors_has(ts, name);
	}
	return has;
}

void gguf_model_fix_config(const struct tensors *ts, struct model_config *c)
{
	/* Only the tensors show whether there are biases. */
	c->qkv_bias |= has_in_layers(ts, c, "self_attn.q_proj.bias") ||
		       has_in_layers(ts, c, "self_attn.k_proj.bias") ||
		       has_in_layers(ts, c, "self_attn.v_proj.bias");
	c->o_bias = has_in_layers(ts, c, "self_attn.o_proj.bias");
	c->mlp_bias = has_in_layers(ts, c, "mlp.gate_proj.bias") ||
		      has_in_layers(ts, c, "mlp.up_proj.bias") ||
		      has_in_layers(ts, c, "mlp.down_proj.bias");
	c->body = "model.";
	c->norm_plus_one = false; /* norms are stored with the 1 already added */
	c->delta.heads_tiled = gguf_model_is_tiled(tensors_gguf(ts));
}

/* --- keys -------------------------------------------------------------------------- */

const struct gguf_value *gguf_model_key(const struct gguf_model_reader *r, const char *key,
				     char name[96])
{
	snprintf(name, 96, "%s.%s", r->arch->gguf, key);
	return gguf_find(r->g, name);
}

static enum status wrong(const struct gguf_model_reader *r, const char *key,
			 const struct gguf_value *v, const char *want)
{
	return fail_at(r->fail, E_FORMAT, key, "%s: %s is %s, not %s", r->path, key,
		       gguf_type_name(v), want);
}

enum status gguf_model_refuse(const struct gguf_model_reader *r, const char *key,
			  const struct gguf_value *v)
{
	double d = 0;
	struct str s;
	if (gguf_string(v, &s))
		return fail_at(r->fail, E_UNSUPPORTED, key, "%s: %s \"%.*s\" is not "
			       "supported", r->path, key, (int)MIN(s.n, 60), s.p);
	if (!v->is_array && gguf_number(v, 0, &d))
		return fail_at(r->fail, E_UNSUPPORTED, key, "%s: %s %g is not supported",
			       r->path, key, d);
	return fail_at(r->fail, E_UNSUPPORTED, key, "%s: %s, %s, is not supported",
		       r->path, key, gguf_type_name(v));
}

static const struct {
	struct gguf_key is;
	uint64_t of; /* KEYS_ bits of the architectures that have this key; 0: all */
} keys[] = {
	{{"block_count", "num_hidden_layers", true, false}, 0},
	{{"embedding_length", "hidden_size", true, false}, 0},
	{{"attention.head_count", "num_attention_heads", true, false}, 0},
	{{"attention.head_count_kv", "num_key_value_heads", false, false}, 0},
	{{"attention.key_length", "head_dim", false, false}, 0},
	{{"feed_forward_length", "intermediate_size", false, false}, 0},
	{{"context_length", "max_position_embeddings", true, false}, 0},
	{{"attention.layer_norm_epsilon", "rms_norm_eps", false, true}, 0},
	{{"attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true}, 0},
	{{"rope.freq_base", "rope_theta", false, true}, 0},
	{{"rope.freq_base_swa", "rope_local_base_freq", false, true}, 0},
	{{"embedding_scale", "embedding_multiplier", false, true}, KEYS_SCALES},
	{{"attention.scale", "attention_multiplier", false, true}, KEYS_SCALES},
	{{"residual_scale", "residual_multiplier", false, true}, KEYS_SCALES},
	{{"logit_scale", "logit_scale", false, true}, KEYS_LOGIT_SCALE},
	{{"logit_scale", "logits_scaling", false, true}, KEYS_SCALES},
	{{"attention.sliding_window", "sliding_window", false, false}, 0},
	{{"attention.sliding_window_pattern", "sliding_window_pattern", false, false}, 0},
	{{"expert_count", "num_experts", false, false}, 0},
	{{"expert_used_count", "num_experts_per_tok", false, false}, 0},
	{{"expert_feed_forward_length", "moe_intermediate_size", false, false}, 0},
	{{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false, false},
	 0},
	{{"expert_count", "n_routed_experts", false, false}, KEYS_GROUPED},
	{{"expert_shared_count", "n_shared_experts", false, false}, KEYS_GROUPED},
	{{"expert_group_count", "n_group", false, false}, KEYS_GROUPED},
	{{"expert_group_used_count", "topk_group", false, false}, KEYS_GROUPED},
	{{"expert_weights_scale", "routed_scaling_factor", false, true}, KEYS_GROUPED},
	{{"leading_dense_block_count", "first_k_dense_replace", false, false}, KEYS_GROUPED},
	{{"attention.q_lora_rank", "q_lora_rank", false, false}, KEYS_MLA},
	{{"attention.kv_lora_rank", "kv_lora_rank", true, false}, KEYS_MLA},
	{{"rope.dimension_count", "qk_rope_head_dim", true, false}, KEYS_MLA},
	{{"ssm.conv_kernel", "mamba_d_conv", true, false}, KEYS_SSM},
	{{"ssm.state_size", "mamba_d_state", true, false}, KEYS_SSM},
	{{"ssm.group_count", "mamba_n_groups", true, false}, KEYS_SSM},
	{{"ssm.time_step_rank", "mamba_n_heads", true, false}, KEYS_SSM},
	{{"full_attention_interval", "full_attention_interval", false, false}, 0},
	{{"ssm.conv_kernel", "linear_conv_kernel_dim", false, false}, 0},
	{{"ssm.state_size", "linear_key_head_dim", false, false}, 0},
	{{"ssm.group_count", "linear_num_key_heads", false, false}, 0},
	{{"ssm.time_step_rank", "linear_num_value_heads", false, false}, 0},
};

static bool is_pattern(const char *hf)
{
	return strcmp(hf, "sliding_window_pattern") == 0;
}

/* True if v has a number for each layer, and all are equal. */
static bool is_same_of_all(const struct gguf_model_reader *r, const struct gguf_value *v)
{
	double first, d;
	bool is = v->n == (uint64_t)gguf_model_known(r, "num_hidden_layers") &&
		  gguf_number(v, 0, &first);
	for (uint64_t i = 1; is && i < v->n; i++)
		is = gguf_number(v, i, &d) && d == first;
	return is;
}

static enum status copy_key(struct gguf_model_reader *r, const struct gguf_key *k)
{
	const struct model_family *own = r->arch->family;
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, k->gguf, name);
	int64_t n;
	double d;
	if (!v && k->is_needed && !json_object_get(r->config, k->hf))
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (!v || (v->is_array && is_pattern(k->hf)))
		return OK;
	if (v->is_array && own && model_family_has(own->of_layers, k->hf))
		return OK;
	if (v->is_array && !is_same_of_all(r, v)) /* layers that differ */
		return gguf_model_refuse(r, name, v);
	if (k->is_float ? !gguf_number(v, 0, &d) : !gguf_integer(v, 0, &n))
		return wrong(r, name, v, k->is_float ? "a number" : "an integer");
	/* Families walk the layers before model_config.c sees their number. */
	if (strcmp(k->hf, "num_hidden_layers") == 0 && (n < 1 || n > 1024))
		return fail_at(r->fail, E_FORMAT, name, "%s: %s is %lld, not 1 to 1024", r->path,
			       name, (long long)n);
	json_object_set_new(r->config, k->hf, k->is_float ? json_real(isfinite(d) ? d : 0)
							  : json_integer(n));
	return OK;
}

static const struct gguf_key *own_keys(const struct model_arch *arch)
{
	static const struct gguf_key none = {0};
	return arch->family && arch->family->gguf_keys ? arch->family->gguf_keys : &none;
}

static enum status copy_keys(struct gguf_model_reader *r)
{
	enum status st = OK;
	for (size_t i = 0; i < ARRAY_LEN(keys) && st == OK; i++)
		if (!keys[i].of || r->arch->keys & keys[i].of)
			st = copy_key(r, &keys[i].is);
	for (const struct gguf_key *k = own_keys(r->arch); k->gguf && st == OK; k++)
		st = copy_key(r, k);
	return st;
}

/* How a router's logits become weights. 1: softmax, then the best experts; 2: sigmoid, in
 * models with groups; 3: the best experts, then softmax, which gpt-oss does; 4: the root of
 * softplus. Files of deepseek2 without the key are older models with softmax, which are
 * refused. */
static enum status check_gating(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "expert_gating_func", name);
	int64_t n = 0, want = 1;
	if (r->arch->family && r->arch->family->gating)
		want = r->arch->family->gating;
	else if (r->arch->keys & (KEYS_GROUPED | KEYS_SIGMOID))
		want = 2;
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || (n != 0 && n != want)))
		return gguf_model_refuse(r, name, v);
	if (!v && want == 2 && r->arch->keys & KEYS_MLA)
		return fail_at(r->fail, E_UNSUPPORTED, name, "%s: a %s without %s, as of "
			       "DeepSeek-V2, is not supported", r->path, r->arch->gguf, name);
	return OK;
}

/* Tokens that see those after them. Only encoders do that here. */
static enum status check_causal(struct gguf_model_reader *r)
{
	char name[96];
	int64_t is = 1;
	if (r->arch->in_gguf & GGUF_ENCODER) {
		json_object_set_new(r->config, "use_bidirectional_attention", json_true());
		/* EmbeddingGemma's config.json. Other models round their scale to bfloat16. */
		json_object_set_new(r->config, "dtype", json_string("float32"));
		return OK;
	}
	const struct gguf_value *v = gguf_model_key(r, "attention.causal", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &is)))
		return wrong(r, name, v, "true or false");
	if (is != 0)
		return OK;
	return fail_at(r->fail, E_UNSUPPORTED, name, "%s: %s is false: tokens of a %s that see "
		       "those after them are not supported", r->path, name, r->arch->gguf);
}

/* True if the family reads the key. */
static bool is_own(const struct model_arch *arch, const char *key)
{
	for (const struct gguf_key *k = own_keys(arch); k->gguf; k++)
		if (strcmp(k->gguf, key) == 0)
			return true;
	return arch->family && model_family_has(arch->family->gguf_reads, key);
}

/* Keys that would change the result. Each may only have the value that changes nothing, or 0. */
static enum status check_neutral(struct gguf_model_reader *r)
{
	static const struct {
		const char *key;
		double allowed;
		uint64_t unless; /* KEYS_ bits of architectures that use the key */
	} neutral[] = {
		{"attn_logit_softcapping", 0, 0}, {"final_logit_softcapping", 0, 0},
		{"router_logit_softcapping", 0, 0},
		{"logit_scale", 1, KEYS_SCALES | KEYS_LOGIT_SCALE},
		{"residual_scale", 1, KEYS_SCALES}, {"embedding_scale", 1, KEYS_SCALES},
		{"attention.scale", 0, KEYS_SCALES}, {"attention.max_alibi_bias", 0, 0},
		{"attention.clamp_kqv", 0, 0},
		{"use_parallel_residual", 0, 0}, {"expert_shared_count", 0, KEYS_GROUPED},
		{"expert_group_count", 1, KEYS_GROUPED},
		{"expert_weights_scale", 1, KEYS_GROUPED},
		{"leading_dense_block_count", 0, KEYS_GROUPED},
		{"attention.temperature_length", 0, 0}, {"swin_norm", 0, 0},
		{"attention.temperature_scale", 0, KEYS_ATTN_TEMP},
		{"attention.output_scale", 1, 0}, {"attention.relative_buckets_count", 0, 0},
		{"attention.shared_kv_layers", 0, 0},
		{"attention.indexer.top_k", 0, 0},
		{"attention.kv_lora_rank", 0, KEYS_MLA},
		{"embedding_length_per_layer_input", 0, 0},
		{"hyper_connection.count", 1, 0},
		{"activation_sparsity_scale", 0, 0}, {"altup.num_inputs", 1, 0},
		{"expert_group_scale", 1, 0}, {"experts_per_group", 1, 0},
		{"expert_chunk_feed_forward_length", 0, 0},
		{"interleave_moe_layer_step", 1, 0},
		{"moe_every_n_layers", 1, 0}, {"moe_latent_size", 0, 0},
		{"swiglu_clamp_exp", 0, 0},
		{"swiglu_clamp_shexp", 0, 0}, {"ssm.dt_b_c_rms", 0, 0},
		{"rope.scaling.alpha", 1, 0}, {"rescale_every_n_layers", 0, 0},
		{"token_shift_count", 0, 0}, {"kda.head_dim", 0, 0},
	};
	char name[96];
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const struct gguf_value *v = gguf_model_key(r, neutral[i].key, name);
		double d;
		if (v && !(r->arch->keys & neutral[i].unless) &&
		    !is_own(r->arch, neutral[i].key) &&
		    (v->is_array || !gguf_number(v, 0, &d) ||
			  (d != neutral[i].allowed && d != 0)))
			return gguf_model_refuse(r, name, v);
	}
	enum status st = check_causal(r);
	return st == OK ? check_gating(r) : st;
}

int64_t gguf_model_known(const struct gguf_model_reader *r, const char *hf)
{
	return json_integer_value(json_object_get(r->config, hf));
}

static void set_default(const struct gguf_model_reader *r, const char *hf, int64_t n)
{
	if (!json_object_get(r->config, hf))
		json_object_set_new(r->config, hf, json_integer(n));
}

/* GLM-4.5 and DeepSeek: how their router chooses among groups of experts. A key that the
 * file lacks gets the value that llama.cpp assumes. */
static enum status read_groups(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0;
	const struct gguf_value *v = gguf_model_key(r, "expert_weights_norm", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n)))
		return wrong(r, name, v, "true or false");
	json_object_set_new(r->config, "norm_topk_prob", json_boolean(n != 0));
	json_object_set_new(r->config, "use_qk_norm", json_boolean(tensors_find(
		r->tensors, "model.layers.0.self_attn.q_norm.weight")));
	set_default(r, "n_shared_experts", 0);
	set_default(r, "n_group", 1);
	set_default(r, "topk_group", 1);
	set_default(r, "first_k_dense_replace", 0);
	if (json_number_value(json_object_get(r->config, "routed_scaling_factor")) == 0)
		json_object_set_new(r->config, "routed_scaling_factor", json_integer(1));
	return OK;
}

/* MLA. Since the middle of 2025 files have the head sizes under names of their own (*_mla), and
 * the usual keys hold the sizes of the compressed key. */
static enum status read_mla(struct gguf_model_reader *r)
{
	static const char *const sizes[][2] = {
		{"attention.key_length_mla", "attention.key_length"},
		{"attention.value_length_mla", "attention.value_length"}};
	char name[96];
	int64_t n[2] = {0}, n_rope = gguf_model_known(r, "qk_rope_head_dim");
	for (int i = 0; i < 2; i++) {
		const struct gguf_value *v = gguf_model_key(r, sizes[i][0], name);
		v = v ? v : gguf_model_key(r, sizes[i][1], name);
		if (!v)
			return fail_at(r->fail, E_MISSING, name, "%s: %s is missing",
				       r->path, name);
		if (v->is_array || !gguf_integer(v, 0, &n[i]) || n[i] < 1 || n[i] > 4096)
			return wrong(r, name, v, "a size of a head");
	}
	json_object_set_new(r->config, "qk_nope_head_dim", json_integer(n[0] - n_rope));
	json_object_set_new(r->config, "v_head_dim", json_integer(n[1]));
	json_object_set(r->config, "num_key_value_heads",
			json_object_get(r->config, "num_attention_heads"));
	set_default(r, "intermediate_size", gguf_model_known(r, "moe_intermediate_size"));
	return OK;
}

int64_t gguf_model_layers(const struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0;
	const struct gguf_value *v = gguf_model_key(r, "nextn_predict_layers", name);
	bool is_number = v && !v->is_array && gguf_integer(v, 0, &n) && n > 0;
	return gguf_model_known(r, "num_hidden_layers") - (is_number ? n : 0);
}

enum status gguf_model_read_types(struct gguf_model_reader *r, const char *others)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.head_count_kv", name);
	int64_t layers = gguf_model_layers(r), n, heads = 0;
	if (!v || !v->is_array || layers < 1 ||
	    v->n != (uint64_t)gguf_model_known(r, "num_hidden_layers"))
		return fail_at(r->fail, E_FORMAT, name, "%s: %s is no list of a number a layer",
			       r->path, name);
	json_t *types = json_array();
	for (int64_t i = 0; i < layers; i++) {
		bool is_right = gguf_integer(v, (uint64_t)i, &n) && n >= 0 &&
				(n == 0 || heads == 0 || n == heads);
		if (!is_right) {
			json_decref(types);
			return gguf_model_refuse(r, name, v);
		}
		heads = n ? n : heads;
		json_array_append_new(types, json_string(n ? "full_attention" : others));
	}
	json_object_set_new(r->config, "layer_types", types);
	json_object_set_new(r->config, "num_key_value_heads", json_integer(heads));
	json_object_set_new(r->config, "block_auto_adjust_ff_dim", json_false());
	return OK;
}

/* Keys that repeat a value must agree with it: sizes of heads, and of their rotated part. */
static enum status check_heads(struct gguf_model_reader *r)
{
	char name[96];
	if (r->arch->keys & KEYS_MLA)
		return read_mla(r);
	if (r->arch->family && r->arch->family->has_own_heads)
		return OK;
	int64_t heads = gguf_model_known(r, "num_attention_heads"), n = 0;
	set_default(r, "num_key_value_heads", heads);
	set_default(r, "head_dim", heads > 0 ? gguf_model_known(r, "hidden_size") / heads : 0);
	const struct gguf_value *v = gguf_model_key(r, "attention.value_length", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n != gguf_model_known(r, "head_dim")))
		return gguf_model_refuse(r, name, v);
	v = gguf_model_key(r, "rope.dimension_count", name);
	if (is_own(r->arch, "rope.dimension_count"))
		v = NULL;
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 1 ||
		  n > gguf_model_known(r, "head_dim") ||
		  (n != gguf_model_known(r, "head_dim") && !(r->arch->keys & KEYS_PARTIAL))))
		return gguf_model_refuse(r, name, v);
	if (v && r->arch->keys & KEYS_PARTIAL)
		json_object_set_new(r->config, "partial_rotary_factor",
				    json_real((double)n / (double)gguf_model_known(r, "head_dim")));
	v = gguf_model_key(r, "expert_count", name);
	if (v && !(r->arch->in_gguf & GGUF_EXPERTS) && (!gguf_integer(v, 0, &n) || n != 0))
		return gguf_model_refuse(r, name, v);
	if (r->arch->in_gguf & GGUF_EXPERTS)
		set_default(r, "intermediate_size", gguf_model_known(r, "moe_intermediate_size"));
	return OK;
}

/* Read which layers have a window, if the file has a list of them. */
static void read_pattern(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.sliding_window_pattern", name);
	int64_t n = 0;
	if (!v || !v->is_array)
		return;
	json_t *types = json_array();
	for (int64_t i = 0; i < layers && gguf_integer(v, (uint64_t)i, &n); i++)
		json_array_append_new(types, json_string(n ? "sliding_attention"
							   : "full_attention"));
	json_object_set_new(r->config, "layer_types", types);
}

/* Read which layers are gated delta nets, if the file has a list of them. The list may go on
 * for layers of multi-token prediction. */
static enum status read_recurrent(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.recurrent_layers", name);
	int64_t is_one = 0;
	if (!v)
		return OK;
	if (!v->is_array || v->n < (uint64_t)layers)
		return wrong(r, name, v, "a list of a value a layer");
	json_t *types = json_array();
	for (int64_t i = 0; i < layers && gguf_integer(v, (uint64_t)i, &is_one); i++)
		json_array_append_new(types, json_string(is_one ? "linear_attention"
								: "full_attention"));
	json_object_set_new(r->config, "layer_types", types);
	return OK;
}

static enum status read_hybrid(struct gguf_model_reader *r, int64_t layers)
{
	char name[96];
	int64_t n = 0, v_heads = gguf_model_known(r, "linear_num_value_heads");
	const struct gguf_value *v = gguf_model_key(r, "ssm.inner_size", name);
	if (!v || v->is_array || !gguf_integer(v, 0, &n) || v_heads < 1 || n % v_heads)
		return fail_at(r->fail, E_FORMAT, name, "%s: %s is missing, or no multiple of "
			       "ssm.time_step_rank", r->path, name);
	set_default(r, "linear_value_head_dim", n / v_heads);
	set_default(r, "full_attention_interval", 4);
	return read_recurrent(r, layers);
}

/* Settings that follow from the model's family, because its GGUF files lack them. */
static enum status read_family(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0, layers = gguf_model_known(r, "num_hidden_layers");
	const struct gguf_value *v = gguf_model_key(r, "nextn_predict_layers", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 0 || n >= layers))
		return gguf_model_refuse(r, name, v);
	json_object_set_new(r->config, "num_hidden_layers", json_integer(layers - n));
	enum status st = r->arch->in_gguf & GGUF_HYBRID ? read_hybrid(r, layers - n) : OK;
	if (st != OK)
		return st;
	/* The scale of queries is not in the file. Only Gemma 3 27B, recognised by its 62
	 * layers, uses hidden_size / heads in place of head_dim. */
	if (r->arch->keys & KEYS_QUERY_SCALE)
		set_default(r, "query_pre_attn_scalar",
			    layers == 62 ? gguf_model_known(r, "hidden_size") /
						   gguf_model_known(r, "num_attention_heads")
					 : gguf_model_known(r, "head_dim"));
	if (r->arch->keys & KEYS_WINDOW_LIST)
		read_pattern(r, layers);
	/* 0 means no window, or experts as wide as the feed-forward */
	if (json_object_get(r->config, "sliding_window") &&
	    gguf_model_known(r, "sliding_window") == 0)
		json_object_del(r->config, "sliding_window");
	if (r->arch->keys & KEYS_LOCAL && gguf_model_known(r, "moe_intermediate_size") > 0)
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, "moe_intermediate_size"));
	return OK;
}

static const char yarn_log[] = "rope.scaling.yarn_log_multiplier";

/* Read yarn's factor of the attention logits. MLA: files store a tenth of mscale_all_dim, and
 * no factor for the rotated part. Ministral 3: mscale_all_dim, with mscale 1, and the factor
 * that sharpens late queries. */
static enum status read_sharpness(struct gguf_model_reader *r, json_t *rope)
{
	char name[96], other[96];
	double d = 0, beta = 0;
	const struct gguf_value *v = gguf_model_key(r, yarn_log, name);
	const struct gguf_value *temp = gguf_model_key(r, "attention.temperature_scale", other);
	if (v && (v->is_array || !gguf_number(v, 0, &d) || !(d >= 0 && d <= 100)))
		return wrong(r, name, v, "a number of 0 to 100");
	if (v && r->arch->keys & KEYS_ATTN_TEMP) {
		json_object_set_new(rope, "mscale", json_real(1));
		json_object_set_new(rope, "mscale_all_dim", json_real(d));
	}
	if (r->arch->keys & KEYS_ATTN_TEMP && temp) {
		if (temp->is_array || !gguf_number(temp, 0, &beta) || !isfinite(beta))
			return wrong(r, other, temp, "a number");
		json_object_set_new(rope, "llama_4_scaling_beta", json_real(beta));
	}
	if (!(r->arch->keys & KEYS_MLA))
		return OK;
	/* The stored tenth is a float32; rounding gives the decimal number of config.json back. */
	d = v ? nearbyint(d * 1e7) / 1e6 : 0;
	json_object_set_new(rope, "mscale", json_real(d));
	json_object_set_new(rope, "mscale_all_dim", json_real(d));
	return OK;
}

/* True if v is yarn's default attention factor, which files of OLMo 3 and Laguna store. It can be
 * ignored. */
static bool is_own_sharpness(const struct gguf_model_reader *r, const struct gguf_value *v)
{
	char name[96];
	const struct gguf_value *of = gguf_model_key(r, "rope.scaling.factor", name);
	double is, factor;
	return v && of && model_family_has("olmo2 laguna", r->arch->gguf) && !v->is_array &&
	       !of->is_array && gguf_number(v, 0, &is) && gguf_number(of, 0, &factor) &&
	       factor >= 1 && fabs(is - (1 + 0.1 * log(factor))) < 1e-5;
}

static const struct {
	const char *tensor, *hf;
} long_rope[] = {{"rope_factors_long.weight", "long_factor"},
		 {"rope_factors_short.weight", "short_factor"}};

/* Longrope's factors are in two tensors. The rope type in their file may be "longrope" or
 * "none". */
static enum status read_long_rope(struct gguf_model_reader *r)
{
	char name[96];
	double ctx, sharp = 1;
	struct str type = STR("longrope");
	const struct gguf_value *v = gguf_model_key(r, "rope.scaling.type", name);
	if (v && (!gguf_string(v, &type) ||
		  !(str_is(type, "longrope") || str_is(type, "none"))))
		return gguf_model_refuse(r, name, v);
	v = gguf_model_key(r, "rope.scaling.original_context_length", name);
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (v->is_array || !gguf_number(v, 0, &ctx))
		return wrong(r, name, v, "a number");
	v = gguf_model_key(r, "rope.scaling.attn_factor", name);
	if (v && (v->is_array || !gguf_number(v, 0, &sharp) || !(sharp > 0)))
		return wrong(r, name, v, "a number above 0");
	json_t *rope = json_pack("{s:s, s:f, s:f}", "rope_type", "longrope",
				 "original_max_position_embeddings", ctx, "attention_factor",
				 sharp);
	json_object_set_new(r->config, "rope_scaling", rope);
	for (size_t i = 0; i < ARRAY_LEN(long_rope); i++) {
		const struct tensor *t = tensors_find(r->tensors, long_rope[i].tensor);
		if (!t || t->dtype != DTYPE_F32 || t->n_dims != 1)
			return fail_set(r->fail, E_FORMAT, "%s: %s is not a list of float32",
					r->path, long_rope[i].tensor);
		json_t *list = json_array();
		for (int64_t k = 0; k < t->dim[0]; k++)
			json_array_append_new(list, json_real((double)((const float *)
									t->data)[k]));
		json_object_set_new(rope, long_rope[i].hf, list);
	}
	return OK;
}

static enum status read_rope(struct gguf_model_reader *r)
{
	static const struct {
		const char *gguf, *hf;
	} numbers[] = {
		{"rope.scaling.factor", "factor"},
		{"rope.scaling.original_context_length",
		 "original_max_position_embeddings"},
		{"rope.scaling.yarn_beta_fast", "beta_fast"},
		{"rope.scaling.yarn_beta_slow", "beta_slow"},
	};
	static const struct {
		const char *key;
		double allowed;
	} odd[] = {{"rope.scaling.attn_factor", 1}, {"rope.scaling.yarn_attn_factor", 1},
		   {"rope.scaling.yarn_ext_factor", 1}, {"rope.scale_linear", 1},
		   {yarn_log, 0}};
	char name[96];
	double d;
	struct str type;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		const struct gguf_value *v = gguf_model_key(r, odd[i].key, name);
		if (odd[i].key == yarn_log && r->arch->keys & (KEYS_MLA | KEYS_ATTN_TEMP))
			continue;
		if (i < 2 && (is_own_sharpness(r, v) ||
			      tensors_find(r->tensors, long_rope[0].tensor)))
			continue;
		if (v && (v->is_array || !gguf_number(v, 0, &d) || d != odd[i].allowed))
			return gguf_model_refuse(r, name, v);
	}
	if (tensors_find(r->tensors, long_rope[0].tensor))
		return read_long_rope(r);
	const struct gguf_value *v = gguf_model_key(r, "rope.scaling.type", name);
	if (!v || (gguf_string(v, &type) && str_is(type, "none")))
		return OK;
	if (!gguf_string(v, &type) ||
	    !(str_is(type, "linear") || str_is(type, "yarn")) ||
	    tensors_find(r->tensors, "rope_freqs.weight"))
		return gguf_model_refuse(r, name, v);
	json_t *rope = json_pack("{s:s%}", "rope_type", type.p, type.n);
	if (r->arch->family && r->arch->family->yarn_is_exact)
		json_object_set_new(rope, "truncate", json_false());
	json_object_set_new(r->config, "rope_scaling", rope);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		v = gguf_model_key(r, numbers[i].gguf, name);
		if (v && (v->is_array || !gguf_number(v, 0, &d) || !isfinite(d)))
			return wrong(r, name, v, "a number");
		if (v)
			json_object_set_new(rope, numbers[i].hf, json_real(d));
	}
	return read_sharpness(r, rope);
}

/* --- end tokens and sampling defaults ---------------------------------------------- */

/* The end-of-text tokens that keys name; model_ends.c adds those that the vocabulary shows. */
static void read_ends(struct gguf_model_reader *r)
{
	static const char *const ids[] = {"tokenizer.ggml.eos_token_id",
					  "tokenizer.ggml.eot_token_id",
					  "tokenizer.ggml.eom_token_id"};
	json_t *list = json_array();
	int64_t id;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		const struct gguf_value *v = gguf_find(r->g, ids[i]);
		if (v && gguf_integer(v, 0, &id))
			json_array_append_new(list, json_integer(id));
	}
	json_object_set_new(r->config, "eos_token_id", list);
	const struct gguf_value *bos = gguf_find(r->g, "tokenizer.ggml.bos_token_id");
	if (bos && gguf_integer(bos, 0, &id))
		json_object_set_new(r->config, "bos_token_id", json_integer(id));
}

static json_t *read_sampling(const struct gguf_model_reader *r)
{
	static const struct {
		const char *gguf, *hf;
	} numbers[] = {
		{"general.sampling.temp", "temperature"},
		{"general.sampling.top_k", "top_k"},
		{"general.sampling.top_p", "top_p"},
		{"general.sampling.min_p", "min_p"},
		{"general.sampling.penalty_repeat", "repetition_penalty"},
	};
	json_t *out = json_object();
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const struct gguf_value *v = gguf_find(r->g, numbers[i].gguf);
		double d;
		if (v && !v->is_array && gguf_number(v, 0, &d) && isfinite(d))
			json_object_set_new(out, numbers[i].hf, json_real(d));
	}
	return out;
}

/* True if the file has a number above 0 under this key. */
static bool has_any(const struct gguf_model_reader *r, const char *key)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, key, name);
	double d = 0;
	return v && !v->is_array && gguf_number(v, 0, &d) && d > 0;
}

/* Switch to another architecture that has the same name in GGUF. */
static void take_arch(struct gguf_model_reader *r, const char *model_type,
		      const char **out_type, const char **out_class)
{
	for (size_t i = 0; i < model_n_archs; i++)
		if (strcmp(model_archs[i].model_type, model_type) == 0)
			r->arch = &model_archs[i];
	*out_type = r->arch->model_type;
	*out_class = r->arch->class;
}

/* Granite has a name of its own for the width of the shared expert. Without state spaces Granite 4
 * is a "granite", and stores the width of its dense feed-forward under this key too. */
static void name_shared(struct gguf_model_reader *r)
{
	static const char usual[] = "shared_expert_intermediate_size";
	json_t *v = json_object_get(r->config, usual);
	if (v && r->arch->keys & KEYS_BESIDE)
		json_object_set(r->config, "shared_intermediate_size", v);
	if (r->arch->keys & KEYS_BESIDE || !(r->arch->in_gguf & GGUF_EXPERTS))
		json_object_del(r->config, usual);
}

static enum status read_all(struct gguf_model_reader *r)
{
	char window[96];
	const char *type = r->arch->model_type, *class = r->arch->class;
	/* GGUF files of Mistral name their architecture "llama" and have a sliding
	 * window. */
	if (strcmp(type, "llama") == 0 && gguf_model_key(r, "attention.sliding_window", window)) {
		type = "mistral";
		class = "MistralForCausalLM";
	}
	if (strcmp(r->arch->gguf, "llama") == 0 && has_any(r, "expert_count"))
		take_arch(r, "mixtral", &type, &class);
	if (strcmp(r->arch->gguf, "olmo2") == 0 && has_any(r, "attention.sliding_window"))
		take_arch(r, "olmo3", &type, &class);
	if (strcmp(r->arch->gguf, "granitehybrid") == 0 && has_any(r, "rope.scaling.finetuned"))
		take_arch(r, "bamba", &type, &class);
	json_object_set_new(r->config, "model_type", json_string(type));
	/* A reranker's file may have two rows of the output head in place of the head. It does not
	 * say whether the head was the table of tokens, so such a model writes nothing. */
	bool has_head = !tensors_find(r->tensors, "cls.output.weight") ||
			tensors_find(r->tensors, "lm_head.weight");
	int body = (int)strcspn(class, "F"); /* of "ForCausalLM" */
	json_object_set_new(r->config, "architectures", json_pack("[o]",
		has_head ? json_string(class) : json_sprintf("%.*sModel", body, class)));
	/* These architectures renormalise the router's weights, but their files do not
	 * say so. */
	if (r->arch->in_gguf & GGUF_EXPERTS)
		json_object_set_new(r->config, "norm_topk_prob", json_true());
	const struct tensor *embed =
		tensors_find(r->tensors, "model.embed_tokens.weight");
	if (!embed || embed->n_dims != 2)
		return fail_set(r->fail, E_MISSING, "%s: tensor token_embd.weight is "
				"missing, or no matrix", r->path);
	json_object_set_new(r->config, "vocab_size", json_integer(embed->dim[0]));
	json_object_set_new(r->config, "tie_word_embeddings",
			    json_boolean(!tensors_find(r->tensors, "lm_head.weight")));
	read_ends(r);
	if (r->arch->keys & KEYS_OUT_BIAS) /* gguf_model_fix_config finds biases */
		json_object_set_new(r->config, "attention_bias", json_false());
	enum status st = copy_keys(r);
	if (st == OK)
		st = check_neutral(r);
	if (st == OK)
		name_shared(r);
	if (st == OK && r->arch->family && r->arch->family->read_gguf)
		st = r->arch->family->read_gguf(r);
	if (st == OK)
		st = check_heads(r);
	if (st == OK && r->arch->keys & KEYS_GROUPED)
		st = read_groups(r);
	if (st == OK)
		st = read_family(r);
	return st == OK ? read_rope(r) : st;
}

enum status gguf_model_config(const struct tensors *ts, json_t **out_config,
			      json_t **out_generation, struct fail *fail)
{
	struct gguf_model_reader r = {.g = tensors_gguf(ts), .tensors = ts, .path = tensors_dir(ts),
			   .fail = fail};
	struct str name;
	r.arch = gguf_model_arch(r.g, &name);
	if (!name.p || !name.n)
		return fail_at(fail, E_MISSING, "general.architecture", "%s: general.architecture "
			       "is missing, or no text", r.path);
	if (!r.arch) {
		char own[64];
		snprintf(own, sizeof own, "%.*s", (int)MIN(name.n, 60), name.p);
		const char *needs = model_arch_needs(own);
		if (needs)
			return fail_at(fail, E_UNSUPPORTED, "general.architecture", "%s: "
				       "general.architecture \"%s\" is not supported: it "
				       "would need %s", r.path, own, needs);
		return fail_at(fail, E_UNSUPPORTED, "general.architecture", "%s: "
			       "general.architecture \"%s\" is not supported; docs/models.md "
			       "lists those that are", r.path, own);
	}
	r.config = json_object();
	enum status st = read_all(&r);
	if (st != OK) {
		json_decref(r.config);
		return st;
	}
	*out_config = r.config;
	*out_generation = read_sampling(&r);
	return OK;
}
