/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of GGUF are those of config.json under other names, and so are the tensors.
 * Both are respelled here, and config.c reads and checks the one as the other. Tables:
 *
 *   archs   general.architecture and the model_type it is
 *   keys    <architecture>.<key> and what config.json calls it
 *   parts   of the names of tensors
 *
 * Some values differ. Llama's rows of q and k (gguf_model_is_paired) are put back when
 * they are opened (model.c), since rotating pairs of neighbours would be a second
 * kind of rope for the same model. Source: the gguf package for Python (constants.py,
 * tensor_mapping.py), and the converter of llama.cpp for what values mean.
 */
#include "model/gguf_model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
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
	/* Beside a model there may be one that sees or hears for it. */
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

static const struct arch {
	const char *name, *model_type, *class;
	bool is_paired;  /* see gguf_model_is_paired */
	bool has_experts;
} archs[] = {
	{"llama", "llama", "LlamaForCausalLM", true, false},
	{"qwen2", "qwen2", "Qwen2ForCausalLM", false, false},
	{"qwen3", "qwen3", "Qwen3ForCausalLM", false, false},
	{"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", false, true},
};

static const struct arch *find_arch(const struct gguf *g, struct str *out_name)
{
	const struct gguf_value *v = gguf_find(g, "general.architecture");
	*out_name = STR("");
	if (!v || !gguf_string(v, out_name))
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(archs); i++)
		if (str_is(*out_name, archs[i].name))
			return &archs[i];
	return NULL;
}

bool gguf_model_is_paired(const struct gguf *g)
{
	struct str name;
	const struct arch *arch = find_arch(g, &name);
	return arch && arch->is_paired;
}

/* --- names of tensors ------------------------------------------------------------ */

static const struct {
	const char *gguf, *hf;
} parts[] = {
	{"attn_norm", "input_layernorm"},
	{"attn_q", "self_attn.q_proj"},
	{"attn_k", "self_attn.k_proj"},
	{"attn_v", "self_attn.v_proj"},
	{"attn_output", "self_attn.o_proj"},
	{"attn_q_norm", "self_attn.q_norm"},
	{"attn_k_norm", "self_attn.k_norm"},
	{"ffn_norm", "post_attention_layernorm"},
	{"ffn_gate", "mlp.gate_proj"},
	{"ffn_up", "mlp.up_proj"},
	{"ffn_down", "mlp.down_proj"},
	{"ffn_gate_inp", "mlp.gate"},
	{"ffn_gate_exps", "mlp.experts.gate_proj"},
	{"ffn_up_exps", "mlp.experts.up_proj"},
	{"ffn_down_exps", "mlp.experts.down_proj"},
}, tops[] = {
	{"token_embd", "model.embed_tokens"},
	{"output_norm", "model.norm"},
	{"output", "lm_head"},
};

const char *gguf_model_rename(const struct gguf *g, const char *name, struct arena *a)
{
	char full[200];
	(void)g;
	const char *dot = strrchr(name, '.');
	if (!dot)
		return name;
	size_t n = (size_t)(dot - name);
	for (size_t i = 0; i < ARRAY_LEN(tops); i++)
		if (strlen(tops[i].gguf) == n && strncmp(name, tops[i].gguf, n) == 0) {
			snprintf(full, sizeof full, "%s%s", tops[i].hf, dot);
			return arena_strdup(a, full);
		}
	char *end;
	if (strncmp(name, "blk.", 4) != 0)
		return name;
	long layer = strtol(name + 4, &end, 10);
	if (end == name + 4 || *end != '.' || layer < 0 || layer > INT32_MAX || end >= dot)
		return name;
	n = (size_t)(dot - end) - 1;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strlen(parts[i].gguf) == n && strncmp(end + 1, parts[i].gguf, n) == 0) {
			snprintf(full, sizeof full, "model.layers.%ld.%s%s", layer,
				 parts[i].hf, dot);
			return arena_strdup(a, full);
		}
	return name;
}

/* --- keys -------------------------------------------------------------------------- */

struct reader {
	const struct gguf *g;
	const struct tensors *tensors;
	const char *path;
	const struct arch *arch;
	json_t *config;
	struct fail *fail;
};

/* NULL where there is none; the key's full name goes to `name`. */
static const struct gguf_value *find(const struct reader *r, const char *key,
				     char name[96])
{
	snprintf(name, 96, "%s.%s", r->arch->name, key);
	return gguf_find(r->g, name);
}

static enum status wrong(const struct reader *r, const char *key,
			 const struct gguf_value *v, const char *want)
{
	return fail_at(r->fail, E_FORMAT, key, "%s: %s is %s, not %s", r->path, key,
		       gguf_type_name(v), want);
}

static enum status refuse(const struct reader *r, const char *key,
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
	{"attention.sliding_window", "sliding_window", false, false},
	{"expert_count", "num_experts", false, false},
	{"expert_used_count", "num_experts_per_tok", false, false},
	{"expert_feed_forward_length", "moe_intermediate_size", false, false},
};

static enum status copy_keys(struct reader *r)
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
		if (v->is_array) /* of a value a layer */
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

/* Keys that would change the result: only this value, under which they do nothing. */
static enum status check_neutral(struct reader *r)
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
		{"expert_gating_func", 1},         {"leading_dense_block_count", 0},
		{"attention.temperature_length", 0}, {"expert_shared_feed_forward_length", 0},
		{"swin_norm", 0},                  {"pooling_type", 0},
	};
	char name[96];
	for (size_t i = 0; i < ARRAY_LEN(neutral); i++) {
		const struct gguf_value *v = find(r, neutral[i].key, name);
		double d;
		if (v && (v->is_array || !gguf_number(v, 0, &d) ||
			  (d != neutral[i].allowed && d != 0)))
			return refuse(r, name, v);
	}
	return OK;
}

static int64_t known(const struct reader *r, const char *hf)
{
	return json_integer_value(json_object_get(r->config, hf));
}

/* Values of the same must agree: keys and values of heads, what of a head rotates. */
static enum status check_heads(struct reader *r)
{
	static const char *const same[] = {"attention.value_length",
					   "rope.dimension_count"};
	char name[96];
	int64_t heads = known(r, "num_attention_heads"), n = 0;
	if (!json_object_get(r->config, "num_key_value_heads"))
		json_object_set_new(r->config, "num_key_value_heads",
				    json_integer(heads));
	if (!json_object_get(r->config, "head_dim") && heads > 0)
		json_object_set_new(r->config, "head_dim",
				    json_integer(known(r, "hidden_size") / heads));
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		const struct gguf_value *v = find(r, same[i], name);
		if (v && (v->is_array || !gguf_integer(v, 0, &n) ||
			  n != known(r, "head_dim")))
			return refuse(r, name, v);
	}
	const struct gguf_value *v = find(r, "expert_count", name);
	if (v && !r->arch->has_experts && (!gguf_integer(v, 0, &n) || n != 0))
		return refuse(r, name, v);
	if (r->arch->has_experts && !json_object_get(r->config, "intermediate_size"))
		json_object_set(r->config, "intermediate_size",
				json_object_get(r->config, "moe_intermediate_size"));
	return OK;
}

static enum status read_rope(struct reader *r)
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

/* --- tokens, and what to sample with ------------------------------------------------ */

/* Ends of text, by key, and by the spelling of the token for files that do not say. */
static void read_ends(struct reader *r)
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

static json_t *read_sampling(const struct reader *r)
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

static enum status read_all(struct reader *r)
{
	char window[96];
	const char *type = r->arch->model_type, *class = r->arch->class;
	/* Mistral is written as a llama that has a window. */
	if (strcmp(type, "llama") == 0 && find(r, "attention.sliding_window", window)) {
		type = "mistral";
		class = "MistralForCausalLM";
	}
	json_object_set_new(r->config, "model_type", json_string(type));
	json_object_set_new(r->config, "architectures", json_pack("[s]", class));
	/* The routers of these are renormalised; the files do not say. */
	if (r->arch->has_experts)
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
	return st == OK ? read_rope(r) : st;
}

enum status gguf_model_config(const struct tensors *ts, json_t **out_config,
			      json_t **out_generation, struct fail *fail)
{
	struct reader r = {.g = tensors_gguf(ts), .tensors = ts, .path = tensors_dir(ts),
			   .fail = fail};
	struct str name;
	r.arch = find_arch(r.g, &name);
	if (!r.arch) {
		struct buf known_names = {0};
		for (size_t i = 0; i < ARRAY_LEN(archs); i++)
			buf_addf(&known_names, "%s%s", i ? ", " : "", archs[i].name);
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
