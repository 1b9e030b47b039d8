/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file has the settings of config.json under other names, and the tensors under
 * other names too. This file renames both to Hugging Face's names, so that model_config.c
 * reads and checks both kinds alike. Tables:
 *
 *   archs.def  general.architecture and its model_type
 *   keys       <architecture>.<key> and its name in config.json
 *   parts      parts of the names of tensors
 *
 * Some values differ too. Llama's rows of q and k are stored in pairs
 * (gguf_model_is_paired). model.c restores the order when it opens them; otherwise the
 * same model would need a second kind of rope, which rotates pairs of neighbours.
 * Sources: the gguf package for Python (constants.py, tensor_mapping.py), and llama.cpp's
 * converter for the meaning of values.
 */
#include "model/gguf_model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/model_arch.h"
#include "model/model.h"

/* --- the file ----------------------------------------------------------------- */

static bool is_part_but_first(const char *name)
{
	const char *of = strstr(name, "-of-");
	return of && of - name > 6 && of[-6] == '-' && strncmp(of - 5, "00001", 5) != 0;
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
	/* Skip vision or audio encoders ("mmproj"), which may lie beside the model. */
	for (struct dirent *e; st == OK && (e = readdir(d));) {
		if (!str_ends(str_of(e->d_name), STR(".gguf")) ||
		    is_part_but_first(e->d_name) || strstr(e->d_name, "mmproj"))
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

static const struct model_arch *find_arch(const struct gguf *g, struct str *out_name)
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
	const struct model_arch *arch = find_arch(g, &name);
	return arch && arch->in_gguf & GGUF_PAIRED;
}

void gguf_model_fix_config(const struct gguf *g, struct model_config *c)
{
	struct str name;
	const struct model_arch *arch = find_arch(g, &name);
	c->norm_plus_one = false; /* norms are stored with the 1 already added */
	c->delta_in_turn = arch->in_gguf & GGUF_IN_TURN;
}

/* --- names of tensors ------------------------------------------------------------ */

/* Names within a layer. A row also lists the part after the dot if it differs. */
static const struct name {
	const char *gguf, *hf;
} parts[] = {
	{"attn_norm", "input_layernorm"},
	{"attn_q", "self_attn.q_proj"},
	{"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"},
	{"attn_output", "self_attn.o_proj"},
	{"attn_q_norm", "self_attn.q_norm"},
	{"attn_k_norm", "self_attn.k_norm"},
	{"attn_sinks.weight", "self_attn.sinks"},
	{"post_attention_norm", "post_attention_layernorm"},
	{"post_ffw_norm", "post_feedforward_layernorm"},
	{"ffn_gate", "mlp.gate_proj"},
	{"ffn_up", "mlp.up_proj"},
	{"ffn_down", "mlp.down_proj"},
	{"ffn_gate_exps.bias", "mlp.experts.gate_proj_bias"},
	{"ffn_up_exps.bias", "mlp.experts.up_proj_bias"},
	{"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
	{"ffn_gate_exps", "mlp.experts.gate_proj"},
	{"ffn_up_exps", "mlp.experts.up_proj"},
	{"ffn_down_exps", "mlp.experts.down_proj"},
	{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
	{"ffn_up_shexp", "mlp.shared_expert.up_proj"},
	{"ffn_down_shexp", "mlp.shared_expert.down_proj"},
	{"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
	{"attn_qkv", "linear_attn.in_proj_qkv"},
	{"attn_gate", "linear_attn.in_proj_z"},
	{"ssm_in", "linear_attn.in_proj_qkvz"},
	{"ssm_ba", "linear_attn.in_proj_ba"},
	{"ssm_beta", "linear_attn.in_proj_b"},
	{"ssm_alpha", "linear_attn.in_proj_a"},
	{"ssm_conv1d", "linear_attn.conv1d"},
	{"ssm_dt.bias", "linear_attn.dt_bias"},
	{"ssm_a", "linear_attn.A_log"},
	{"ssm_norm", "linear_attn.norm"},
	{"ssm_out", "linear_attn.out_proj"},
}, tops[] = {
	{"token_embd", "model.embed_tokens"},
	{"output_norm", "model.norm"},
	{"output", "lm_head"},
};

/* If `name` is the row's name, alone or followed by a dot, returns the Hugging Face name.
 * *out_rest is the text after the row's name. */
static const char *match(const struct name *row, const char *name, const char **out_rest)
{
	size_t n = strlen(row->gguf);
	if (strncmp(name, row->gguf, n) != 0 || (name[n] != '.' && name[n]))
		return NULL;
	*out_rest = name + n;
	return row->hf;
}

const char *gguf_model_rename(const struct gguf *g, const char *name, struct arena *a)
{
	char full[260];
	const char *rest, *hf = NULL;
	char *part;
	struct str arch_name;
	const struct model_arch *arch = find_arch(g, &arch_name);
	for (size_t i = 0; i < ARRAY_LEN(tops); i++)
		if ((hf = match(&tops[i], name, &rest))) {
			snprintf(full, sizeof full, "%s%s", hf, rest);
			return arena_strdup(a, full);
		}
	if (strncmp(name, "blk.", 4) != 0)
		return name;
	long layer = strtol(name + 4, &part, 10);
	if (part == name + 4 || *part != '.' || layer < 0 || layer > INT32_MAX)
		return name;
	const struct name router = {
		"ffn_gate_inp", arch && arch->in_gguf & GGUF_OSS ? "mlp.router" : "mlp.gate"};
	/* In a layer with two norms, Hugging Face names this one after the attention
	 * before it. */
	const struct name mlp_norm = {
		"ffn_norm", arch && arch->in_gguf & GGUF_FOUR_NORMS
				    ? "pre_feedforward_layernorm" : "post_attention_layernorm"};
	hf = match(&router, part + 1, &rest);
	hf = hf ? hf : match(&mlp_norm, part + 1, &rest);
	for (size_t i = 0; i < ARRAY_LEN(parts) && !hf; i++)
		hf = match(&parts[i], part + 1, &rest);
	if (!hf)
		return name;
	snprintf(full, sizeof full, "model.layers.%ld.%s%s", layer, hf, rest);
	return arena_strdup(a, full);
}

/* --- keys -------------------------------------------------------------------------- */

struct gguf_model_reader {
	const struct gguf *g;
	const struct tensors *tensors;
	const char *path;
	const struct model_arch *arch;
	json_t *config;
	struct fail *fail;
};

/* Returns NULL if the file lacks the key. `name` receives the key's full name. */
static const struct gguf_value *find(const struct gguf_model_reader *r, const char *key,
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

static enum status refuse(const struct gguf_model_reader *r, const char *key,
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
	const char *gguf, *hf;
	bool is_needed, is_float;
} keys[] = {
	{"block_count", "num_hidden_layers", true, false},
	{"embedding_length", "hidden_size", true, false},
	{"attention.head_count", "num_attention_heads", true, false},
	{"attention.head_count_kv", "num_key_value_heads", false, false},
	{"attention.key_length", "head_dim", false, false},
	{"feed_forward_length", "intermediate_size", false, false},
	{"context_length", "max_position_embeddings", true, false},
	{"attention.layer_norm_rms_epsilon", "rms_norm_eps", true, true},
	{"rope.freq_base", "rope_theta", false, true},
	{"rope.freq_base_swa", "rope_local_base_freq", false, true},
	{"attention.sliding_window", "sliding_window", false, false},
	{"attention.sliding_window_pattern", "sliding_window_pattern", false, false},
	{"expert_count", "num_experts", false, false},
	{"expert_used_count", "num_experts_per_tok", false, false},
	{"expert_feed_forward_length", "moe_intermediate_size", false, false},
	{"expert_shared_feed_forward_length", "shared_expert_intermediate_size", false,
	 false},
	{"full_attention_interval", "full_attention_interval", false, false},
	{"ssm.conv_kernel", "linear_conv_kernel_dim", false, false},
	{"ssm.state_size", "linear_key_head_dim", false, false},
	{"ssm.group_count", "linear_num_key_heads", false, false},
	{"ssm.time_step_rank", "linear_num_value_heads", false, false},
};

static enum status copy_keys(struct gguf_model_reader *r)
{
	char name[96];
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const struct gguf_value *v = find(r, keys[i].gguf, name);
		int64_t n;
		double d;
		if (!v && keys[i].is_needed)
			return fail_at(r->fail, E_MISSING, name, "%s: %s is missing",
				       r->path, name);
		if (!v)
			continue;
		if (v->is_array) /* one value per layer is not supported */
			return refuse(r, name, v);
		if (keys[i].is_float ? !gguf_number(v, 0, &d) : !gguf_integer(v, 0, &n))
			return wrong(r, name, v, keys[i].is_float ? "a number"
								  : "an integer");
		json_object_set_new(r->config, keys[i].hf,
				    keys[i].is_float ? json_real(isfinite(d) ? d : 0)
						     : json_integer(n));
	}
	return OK;
}

/* Keys that would change the result: each may only have the value that has no effect. */
static enum status check_neutral(struct gguf_model_reader *r)
{
	static const struct {
		const char *key;
		double allowed;
	} neutral[] = {
		{"attn_logit_softcapping", 0},     {"final_logit_softcapping", 0},
		{"router_logit_softcapping", 0},   {"logit_scale", 1},
		{"residual_scale", 1},             {"embedding_scale", 1},
		{"attention.scale", 0},            {"attention.max_alibi_bias", 0},
		{"attention.clamp_kqv", 0},        {"attention.causal", 1},
		{"use_parallel_residual", 0},      {"expert_shared_count", 0},
		{"expert_group_count", 1},         {"expert_weights_scale", 1},
		{"leading_dense_block_count", 0},
		{"attention.temperature_length", 0}, {"swin_norm", 0},
		{"pooling_type", 0},
	};
	char name[96];
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const struct gguf_value *v = find(r, neutral[i].key, name);
		double d;
		if (v && (v->is_array || !gguf_number(v, 0, &d) ||
			  (d != neutral[i].allowed && d != 0)))
			return refuse(r, name, v);
	}
	/* 1: softmax over all experts, then choose the best. 3: choose the best, then
	 * softmax over those, as gpt-oss does. */
	const struct gguf_value *v = find(r, "expert_gating_func", name);
	int64_t n = 0;
	if (v && (v->is_array || !gguf_integer(v, 0, &n) ||
		  (n != 0 && n != (r->arch->in_gguf & GGUF_OSS ? 3 : 1))))
		return refuse(r, name, v);
	return OK;
}

static int64_t known(const struct gguf_model_reader *r, const char *hf)
{
	return json_integer_value(json_object_get(r->config, hf));
}

static void set_default(const struct gguf_model_reader *r, const char *hf, int64_t n)
{
	if (!json_object_get(r->config, hf))
		json_object_set_new(r->config, hf, json_integer(n));
}

/* Check the sizes of heads, which GGUF states separately for keys and for values: they
 * must agree. */
static enum status check_heads(struct gguf_model_reader *r)
{
	char name[96];
	int64_t heads = known(r, "num_attention_heads"), n = 0;
	set_default(r, "num_key_value_heads", heads);
	set_default(r, "head_dim", heads > 0 ? known(r, "hidden_size") / heads : 0);
	const struct gguf_value *v = find(r, "attention.value_length", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n != known(r, "head_dim")))
		return refuse(r, name, v);
	v = find(r, "rope.dimension_count", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 1 ||
		  n > known(r, "head_dim") ||
		  (n != known(r, "head_dim") && !(r->arch->in_gguf & GGUF_HYBRID))))
		return refuse(r, name, v);
	if (v && r->arch->in_gguf & GGUF_HYBRID)
		json_object_set_new(r->config, "partial_rotary_factor",
				    json_real((double)n / (double)known(r, "head_dim")));
	v = find(r, "expert_count", name);
	if (v && !(r->arch->in_gguf & GGUF_EXPERTS) && (!gguf_integer(v, 0, &n) || n != 0))
		return refuse(r, name, v);
	if (r->arch->in_gguf & GGUF_EXPERTS)
		set_default(r, "intermediate_size", known(r, "moe_intermediate_size"));
	return OK;
}

/* Settings that follow from the model's family, because its GGUF files lack them. */
static enum status read_family(struct gguf_model_reader *r)
{
	char name[96];
	int64_t n = 0, layers = known(r, "num_hidden_layers");
	const struct gguf_value *v = find(r, "nextn_predict_layers", name);
	if (v && (v->is_array || !gguf_integer(v, 0, &n) || n < 0 || n >= layers))
		return refuse(r, name, v);
	json_object_set_new(r->config, "num_hidden_layers", json_integer(layers - n));
	if (r->arch->in_gguf & GGUF_HYBRID) {
		int64_t v_heads = known(r, "linear_num_value_heads");
		v = find(r, "ssm.inner_size", name);
		if (!v || v->is_array || !gguf_integer(v, 0, &n) || v_heads < 1 ||
		    n % v_heads)
			return fail_at(r->fail, E_FORMAT, name, "%s: %s is missing, or no "
				       "multiple of ssm.time_step_rank", r->path, name);
		set_default(r, "linear_value_head_dim", n / v_heads);
		set_default(r, "full_attention_interval", 4);
	}
	/* The scale of queries is not in the file. Only Gemma 3 27B, recognised by its 62
	 * layers, uses hidden_size / heads in place of head_dim. */
	if (r->arch->in_gguf & GGUF_FOUR_NORMS)
		set_default(r, "query_pre_attn_scalar",
			    layers == 62 ? known(r, "hidden_size") / known(r, "num_attention_heads")
					 : known(r, "head_dim"));
	if (!(r->arch->in_gguf & GGUF_OSS))
		return OK;
	json_t *types = json_array();
	for (int64_t i = 0; i < layers && i < 1024; i++)
		json_array_append_new(types, json_string(i % 2 ? "full_attention"
							       : "sliding_attention"));
	json_object_set_new(r->config, "layer_types", types);
	json_object_set_new(r->config, "attention_bias", json_true());
	json_object_set(r->config, "intermediate_size",
			json_object_get(r->config, "moe_intermediate_size"));
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
		   {"rope.scaling.yarn_log_multiplier", 0}};
	char name[96];
	double d;
	struct str type;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		const struct gguf_value *v = find(r, odd[i].key, name);
		if (v && (v->is_array || !gguf_number(v, 0, &d) || d != odd[i].allowed))
			return refuse(r, name, v);
	}
	const struct gguf_value *v = find(r, "rope.scaling.type", name);
	if (!v || (gguf_string(v, &type) && str_is(type, "none")))
		return OK;
	if (!gguf_string(v, &type) ||
	    !(str_is(type, "linear") || str_is(type, "yarn")) ||
	    tensors_find(r->tensors, "rope_freqs.weight"))
		return refuse(r, name, v);
	json_t *rope = json_pack("{s:s%}", "rope_type", type.p, type.n);
	if (r->arch->in_gguf & GGUF_OSS) /* gpt-oss was trained without truncation */
		json_object_set_new(rope, "truncate", json_false());
	json_object_set_new(r->config, "rope_scaling", rope);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		v = find(r, numbers[i].gguf, name);
		if (v && (v->is_array || !gguf_number(v, 0, &d) || !isfinite(d)))
			return wrong(r, name, v, "a number");
		if (v)
			json_object_set_new(rope, numbers[i].hf, json_real(d));
	}
	return OK;
}

/* --- end tokens and sampling defaults ---------------------------------------------- */

/* The end-of-text tokens: those named by keys, plus control tokens with a well-known
 * spelling, because some files lack the keys. */
static void read_ends(struct gguf_model_reader *r)
{
	static const char *const ids[] = {"tokenizer.ggml.eos_token_id",
					  "tokenizer.ggml.eot_token_id",
					  "tokenizer.ggml.eom_token_id"};
	static const char *const spelled[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>",
					      "<|return|>", "<|call|>", "<|endoftext|>",
					      "<|end_of_text|>"};
	json_t *list = json_array();
	int64_t id;
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		const struct gguf_value *v = gguf_find(r->g, ids[i]);
		if (v && gguf_integer(v, 0, &id))
			json_array_append_new(list, json_integer(id));
	}
	const struct gguf_value *tokens = gguf_find(r->g, "tokenizer.ggml.tokens");
	const struct gguf_value *types = gguf_find(r->g, "tokenizer.ggml.token_type");
	bool has = tokens && tokens->is_array && tokens->type == GGUF_STRING;
	const char *at = has ? tokens->p : NULL;
	for (uint64_t i = 0; has && i < tokens->n; i++) {
		struct str s = gguf_next_string(&at);
		int64_t type = 0;
		for (size_t k = 0; s.n > 1 && s.p[0] == '<' && k < ARRAY_LEN(spelled); k++)
			if (str_is(s, spelled[k]) && types && types->is_array &&
			    gguf_integer(types, i, &type) && type == 3)
				json_array_append_new(list, json_integer((json_int_t)i));
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

static enum status read_all(struct gguf_model_reader *r)
{
	char window[96];
	const char *type = r->arch->model_type, *class = r->arch->class;
	/* GGUF files of Mistral name their architecture "llama" and have a sliding
	 * window. */
	if (strcmp(type, "llama") == 0 && find(r, "attention.sliding_window", window)) {
		type = "mistral";
		class = "MistralForCausalLM";
	}
	json_object_set_new(r->config, "model_type", json_string(type));
	json_object_set_new(r->config, "architectures", json_pack("[s]", class));
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
	enum status st = copy_keys(r);
	if (st == OK)
		st = check_neutral(r);
	if (st == OK)
		st = check_heads(r);
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
	r.arch = find_arch(r.g, &name);
	if (!r.arch) {
		struct buf known_names = {0};
		for (size_t i = 0; i < model_n_archs; i++)
			if (model_archs[i].gguf)
				buf_addf(&known_names, "%s%s", known_names.n ? ", " : "",
					 model_archs[i].gguf);
		enum status st = fail_at(
			fail, E_UNSUPPORTED, "general.architecture", "%s: "
			"general.architecture \"%.*s\" is not supported, only %.*s",
			r.path, (int)MIN(name.n, 60), name.p, (int)known_names.n,
			known_names.p);
		buf_deinit(&known_names);
		return st;
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
