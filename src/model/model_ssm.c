/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of state spaces of Mamba-2, in config.json and in GGUF. Thread: any.
 */
#include "json/jsonfile.h"
#include "model/model_family.h"

/* Steps are not limited: [0, Infinity]. */
static bool is_no_limit(const json_t *v)
{
	const char *text = json_text_odd_float(json_array_get(v, 1));
	if (!v)
		return true;
	return json_array_size(v) == 2 && json_number_value(json_array_get(v, 0)) == 0 &&
	       text && strcmp(text, "Infinity") == 0;
}

enum status model_ssm_check(const json_t *text, const struct model_config *c, struct fail *fail)
{
	static const char limit[] = "time_step_limit";
	if (!is_no_limit(jsonfile_get(text, limit)))
		return config_unsupported(fail, limit, jsonfile_get(text, limit));
	if (c->delta.v_heads % c->delta.k_heads || c->delta.k_dim % 4 || c->delta.v_dim % 4)
		return fail_at(fail, E_UNSUPPORTED, "mamba_n_heads", FILE_NAME
			       ": %d heads of %d in %d groups of %d", c->delta.v_heads,
			       c->delta.v_dim, c->delta.k_heads, c->delta.k_dim);
	return OK;
}

enum status model_ssm_read_gguf(struct gguf_model_reader *r)
{
	char name[96];
	int64_t heads = gguf_model_known(r, "mamba_n_heads"), n;
	const struct gguf_value *v = gguf_model_key(r, "ssm.inner_size", name);
	if (!v || v->is_array || !gguf_integer(v, 0, &n) || heads < 1 || n % heads)
		return fail_at(r->fail, E_FORMAT, name, "%s: %s is missing, or no multiple of "
			       "ssm.time_step_rank", r->path, name);
	json_object_set_new(r->config, "mamba_d_head", json_integer(n / heads));
	json_object_set_new(r->config, "mamba_conv_bias", json_boolean(tensors_find(
		r->tensors, "model.layers.0.mamba.conv1d.bias")));
	return OK;
}
