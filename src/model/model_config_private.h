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

/* Read c->ropes[0], and set c->max_ctx if yarn stretches it. layer_type: use the entry of
 * rope_parameters for this type of layer; NULL: one entry is for all. theta: default of
 * rope_theta; 0: it is required. has_attn_temp: the architecture may have llama_4_scaling_beta;
 * else it must be 0 or absent. a: memory for longrope's factors; NULL: longrope is refused. */
enum status config_rope_read(const json_t *root, const char *layer_type, double theta,
			     bool has_attn_temp, struct arena *a, struct model_config *c,
			     struct fail *fail) MUST_USE;
/* Read c->ropes[1] and c->rope_of: the rope of the layers with a window. Call it when the
 * windows are known. */
enum status config_rope_read_local(const json_t *root, struct arena *a,
				   struct model_config *c, struct fail *fail) MUST_USE;
/* Compute c->n_rot, which must be even, from partial_rotary_factor, beside or inside the
 * rope object, or from rotary_dim. keys: of the architecture. Without KEYS_PARTIAL the key
 * must be 1 or absent. c->head_dim must be known. */
enum status config_partial_read(const json_t *root, uint64_t keys, struct model_config *c,
				struct fail *fail) MUST_USE;
struct model_arch;
/* Reads which layers have windows or recurrent states. Call it after the settings are read. */
enum status config_windows_read(const json_t *root, const struct model_arch *arch,
				struct arena *a, struct model_config *c,
				struct fail *fail) MUST_USE;
/* Read layer_types, if present: out[i] becomes true if layer i is `name`; any other layer
 * must be full attention. */
enum status config_layer_types(const json_t *root, const char *name, bool *out,
			       const struct model_config *c, struct fail *fail) MUST_USE;
/* The same into c->is_linear, which says what holds without layer_types; counts c->n_linear. */
enum status config_linear_layers(const json_t *root, const char *name, struct model_config *c,
				 struct fail *fail) MUST_USE;
/* For model_family.spell. What the key `own` says replaces what `usual` says. config_default gives
 * a key an integer. A null is as an absent key. */
void config_rename(json_t *text, const char *own, const char *usual);
void config_default(json_t *text, const char *key, json_int_t n);
/* Files say that layers with an indexer are "full_attention", or "indexed_attention": renames the
 * latter. */
void config_rename_indexed(json_t *text);
/* True if config.json is of an encoder of BERT's kind, which config_encoder_read reads. */
bool config_encoder_is(const json_t *root);
enum status config_encoder_read(const json_t *root, struct model_config *c,
				struct fail *fail) MUST_USE;
/* True if config.json is of an EAGLE-3 head. config_eagle_read then reads c->eagle, once the rest
 * is read. */
bool config_eagle_is(const json_t *root);
enum status config_eagle_read(const json_t *root, struct model_config *c,
			      struct fail *fail) MUST_USE;
/* Reads use_bidirectional_attention of a text model. Call it after the windows are read. */
enum status config_encoder_of_text(const json_t *text, struct model_config *c,
				   struct fail *fail) MUST_USE;
