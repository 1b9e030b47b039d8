/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of one family of architectures have alone: settings in config.json, and keys and
 * names of tensors in GGUF. Rows of archs.def name it; without one, groups of keys (KEYS_) say
 * all. Each has a file, families/NAME_files.c. Its layer is in engine/families/NAME.c. Thread: any.
 */
#pragma once
#include "model/gguf_model_private.h"
#include "model/model_config_private.h"

enum config_kind { INT, FLOAT, BOOL };
#define AT(field) offsetof(struct model_config, field)

/* A key of config.json whose value is stored in struct model_config. */
struct config_setting {
	const char *key, *alias; /* alias: second spelling of the key, or NULL */
	enum config_kind kind;
	size_t at;
	double min, max;
	double fallback; /* default; REQUIRED: the key must be present */
};

/* A key of GGUF, without the architecture before it, and its name in config.json. */
struct gguf_key {
	const char *gguf, *hf;
	bool is_needed, is_float;
};

/* A tensor's name within a layer. It includes the part after the dot where that differs, too. */
struct gguf_name {
	const char *gguf, *hf;
};

/* Tables end with a row of zeros. Functions may be NULL. */
struct model_family {
	/* config.json. spell: renames and converts settings to those of other models. layers:
	 * which layers have windows or recurrent states, in place of the usual keys. read: what
	 * must be known before sizes are checked. check: when all is read. fix: what does not
	 * depend on the file. */
	const struct config_setting *settings;
	const char *reads;    /* keys that these functions read, separated by blanks */
	bool fixes_act;       /* hidden_act may only name SiLU */
	void (*spell)(json_t *text);
	enum status (*layers)(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail);
	enum status (*read)(const json_t *text, struct arena *a, struct model_config *c,
			    struct fail *fail);
	enum status (*check)(const json_t *text, struct arena *a, struct model_config *c,
			     struct fail *fail);
	void (*fix)(struct model_config *c);

	/* GGUF. read_gguf: what tables cannot say. It is called when the keys are copied. */
	const struct gguf_key *gguf_keys;
	const struct gguf_name *gguf_names;
	const char *gguf_reads;  /* keys that read_gguf reads, or that mean nothing */
	const char *of_layers;   /* names in config.json: a number a layer is allowed */
	int gating;              /* expert_gating_func; 0: as others of its groups of keys */
	bool has_own_heads;      /* read_gguf reads and checks sizes of heads */
	bool yarn_is_exact;      /* yarn without truncation, which the file does not say */
	enum status (*read_gguf)(struct gguf_model_reader *r);
};

/* True if `word` is one of `words`, which are separated by blanks; words may be NULL. */
bool model_family_has(const char *words, const char *word);

/* Names of a shared expert in layers with several. */
#define GGUF_SHARED_EXPERTS(name) \
	{"ffn_gate_shexp", "mlp." name ".gate_proj"}, {"ffn_up_shexp", "mlp." name ".up_proj"}, \
	{"ffn_down_shexp", "mlp." name ".down_proj"}
/* Keys of routers with groups of experts, and of indexers. */
#define GGUF_GROUP_KEYS \
	{"expert_count", "n_routed_experts", false, false}, \
	{"expert_shared_count", "n_shared_experts", false, false}, \
	{"expert_group_count", "n_group", false, false}, \
	{"expert_group_used_count", "topk_group", false, false}, \
	{"expert_weights_scale", "routed_scaling_factor", false, true}
#define GGUF_INDEX_KEYS \
	{"attention.indexer.head_count", "index_n_heads", true, false}, \
	{"attention.indexer.key_length", "index_head_dim", true, false}, \
	{"attention.indexer.top_k", "index_topk", true, false}
#define CONFIG_INDEX_SETTINGS \
	{"index_n_heads", NULL, INT, AT(index.heads), 1, 256, REQUIRED}, \
	{"index_head_dim", NULL, INT, AT(index.dim), 8, 512, REQUIRED}, \
	{"index_topk", NULL, INT, AT(index.budget), 1, 1 << 20, REQUIRED}

/* State spaces of Mamba-2: checks their sizes and time_step_limit; reads the size of a head and
 * whether convolutions have a bias from GGUF. */
enum status model_ssm_check(const json_t *text, const struct model_config *c,
			    struct fail *fail) MUST_USE;
enum status model_ssm_read_gguf(struct gguf_model_reader *r) MUST_USE;

/* Laguna and Step: the shared expert's width, heads of each layer
 * (num_attention_heads_per_layer), and the part of a head that rotates where there is a window.
 * In GGUF heads of queries are a number, or a list for each layer. */
enum status laguna_files_sizes(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail) MUST_USE;
enum status laguna_files_gguf_heads(struct gguf_model_reader *r) MUST_USE;

/* Step and Ling: limits of activations, a number a layer, of routed experts and of others. Lists
 * may go on for the MTP layers. In GGUF they are swiglu_clamp_exp and swiglu_clamp_shexp, and
 * become the keys that are given. */
enum status step3_files_limits(const json_t *text, const char *const keys[2], struct arena *a,
			       struct model_config *c, struct fail *fail) MUST_USE;
enum status step3_files_gguf_limits(struct gguf_model_reader *r,
				    const char *const hf[2]) MUST_USE;

/* Kimi-Linear and GLM-5.3: settings of linear_attn_config become those of Transformers; sizes of
 * Kimi delta attention, and its layers. */
void kimi_linear_files_inner(json_t *text);
enum status kimi_linear_files_delta(const json_t *text, struct arena *a, struct model_config *c,
				    struct fail *fail) MUST_USE;

extern const struct model_family model_family_bailing_hybrid, model_family_deepseek_v32,
	model_family_deepseek_v4,
	model_family_ernie4_5_moe, model_family_falcon_h1, model_family_gemma4,
	model_family_glm4_moe, model_family_glm5_next, model_family_gpt_oss,
	model_family_granite_hybrid,
	model_family_hunyuan, model_family_kimi_linear, model_family_laguna, model_family_lfm2,
	model_family_llama4, model_family_mistral4, model_family_muse_glimmer,
	model_family_nemotron_h, model_family_qwen4, model_family_step3;
