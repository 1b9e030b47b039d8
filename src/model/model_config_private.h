/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by model_config.c and model_config_rope.c. Thread: any.
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

/* Read c->ropes[0], and c->max_ctx if yarn extends it. layer_type: read the
 * rope_parameters of this type of layer; NULL if there is one set for all. theta: used if
 * rope_theta is absent; 0: rope_theta is required. */
enum status config_rope_read(const json_t *root, const char *layer_type, double theta,
			     struct model_config *c, struct fail *fail) MUST_USE;
/* Read c->ropes[1], the rope of layers with a window, and set c->rope_of. The windows
 * must be known. */
enum status config_rope_read_local(const json_t *root, struct arena *a,
				   struct model_config *c, struct fail *fail) MUST_USE;
/* Compute c->n_rot, which must be even, from partial_rotary_factor, beside or inside the
 * rope object. is_known: the architecture supports the key; otherwise it must be 1 or
 * absent. c->head_dim must be known. */
enum status config_partial_read(const json_t *root, bool is_known, struct model_config *c,
				struct fail *fail) MUST_USE;
