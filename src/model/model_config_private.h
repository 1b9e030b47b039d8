/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by model_config.c and the files model_config_*.c. Thread: any.
 */
#pragma once
#include <math.h>

#include "model/model_config.h"

#define FILE_NAME "config.json"
#define REQUIRED NAN /* default of a setting that must be present */

/* Fill in *fail for a key: E_MISSING, E_FORMAT (v is not `want`), E_UNSUPPORTED. */
enum status config_missing(struct fail *fail, const char *key);
enum status config_wrong(struct fail *fail, const char *key, const json_t *v,
			 const char *want);
enum status config_unsupported(struct fail *fail, const char *key, const json_t *v);

/* c->ropes[0], and c->max_ctx where yarn stretches it. layer_type: whose rope_parameters
 * these are, where layers of each type have their own; or NULL. theta: where rope_theta is
 * not given; 0: it must be. has_late: the architecture has llama_4_scaling_beta, else it
 * must be 0 or absent. a: for the factors of longrope; NULL: that is refused. */
enum status config_rope_read(const json_t *root, const char *layer_type, double theta,
			     bool has_late, struct arena *a, struct model_config *c,
			     struct fail *fail) MUST_USE;
/* c->ropes[1] and c->rope_of: a rope of their own for the layers with a window, which are
 * known by then. */
enum status config_rope_read_local(const json_t *root, struct arena *a,
				   struct model_config *c, struct fail *fail) MUST_USE;
/* Compute c->n_rot, which must be even, from partial_rotary_factor, beside or inside the
 * rope object, or from rotary_dim. keys: of the architecture. Without KEYS_PARTIAL the key
 * must be 1 or absent. c->head_dim must be known. */
enum status config_partial_read(const json_t *root, uint64_t keys, struct model_config *c,
				struct fail *fail) MUST_USE;
/* LFM2: gives the settings in `text` the names and meanings that others have. */
void config_lfm2_spell(json_t *text);
/* Gemma 4, behind its settings and windows: per_layer_config, and what must fit together. */
enum status config_gemma4_read(const json_t *text, struct model_config *c,
			       struct fail *fail) MUST_USE;
/* Granite 4 hybrids: names and meanings that others have; and behind the settings and types
 * of layers, what must fit together. */
void config_space_spell(json_t *text);
enum status config_space_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail) MUST_USE;
/* Sizes of a state space, and time_step_limit. */
enum status config_space_check(const json_t *text, const struct model_config *c,
			       struct fail *fail) MUST_USE;
/* ERNIE 4.5 with experts, behind its settings. */
enum status config_ernie_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail) MUST_USE;
/* Hunyuan: names that others have; lists of one number; the rope's base. */
void config_hunyuan_spell(json_t *text);
/* Nemotron-H: the same two. */
void config_nemotron_spell(json_t *text);
enum status config_nemotron_read(const json_t *text, struct arena *a, struct model_config *c,
				 struct fail *fail) MUST_USE;
/* Read layer_types, if present: out[i] becomes true if layer i is `name`; any other layer
 * must be full attention. */
enum status config_layer_types(const json_t *root, const char *name, bool *out,
			       const struct model_config *c, struct fail *fail) MUST_USE;
/* Llama 4: names and meanings that others have; and behind the settings and the layers
 * without rotation, its chunks. */
void config_llama4_spell(json_t *text);
enum status config_llama4_read(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail) MUST_USE;
/* Indexers: types of layers as others call them; and behind all settings, what must fit
 * together with MLA. */
void config_index_spell(json_t *text);
enum status config_index_read(struct model_config *c, struct fail *fail) MUST_USE;
/* Qwen4-Exp: behind all settings, its layers with n-grams, and what must fit together. */
enum status config_qwen4_read(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail) MUST_USE;
/* DeepSeek-V4: names and meanings that others have; and behind all settings, its compressed
 * keys and hashed layers, and what must fit together. */
void config_deepseek4_spell(json_t *text);
enum status config_deepseek4_read(const json_t *text, struct arena *a, struct model_config *c,
				  struct fail *fail) MUST_USE;
/* True if config.json is of an encoder of BERT's kind, which config_encoder_read reads. */
bool config_encoder_is(const json_t *root);
enum status config_encoder_read(const json_t *root, struct model_config *c,
				struct fail *fail) MUST_USE;
/* use_bidirectional_attention of a text model, behind its windows. */
enum status config_encoder_of_text(const json_t *text, struct model_config *c,
				   struct fail *fail) MUST_USE;
