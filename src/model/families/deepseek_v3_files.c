/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3.2: DeepSeek-V3 with an indexer, which chooses the keys that attention sees. Mistral
 * 4: DeepSeek-V3 with a softmax router. Sources: configuration_deepseek_v32.py and
 * modeling_mistral4.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

#include "json/jsonfile.h"

static const struct config_setting settings[] = {CONFIG_INDEX_SETTINGS, {0}};

static enum status deepseek_v3_check(const json_t *text, struct arena *a, struct model_config *c,
				     struct fail *fail)
{
	const struct rope *r = &c->ropes[0];
	c->index.ratio = 1;
	if (!c->q_lora)
		return config_missing(fail, "q_lora_rank");
	if (c->mla.rope_dim > c->index.dim)
		return fail_at(fail, E_FORMAT, "index_head_dim", FILE_NAME
			       ": %d of %d elements rotate", c->mla.rope_dim, c->index.dim);
	/* yarn's attention factor would also multiply the rotated part of the indexer's keys
	 * and queries. */
	bool is_plain = r->attention_factor == 1 ||
			(r->attention_factor == 0 && r->mscale != 0 && r->mscale == r->mscale_all);
	if (r->kind == ROPE_YARN && !is_plain)
		return fail_at(fail, E_UNSUPPORTED, "rope_parameters", FILE_NAME
			       ": yarn that sharpens the rotated part, with an indexer");
	return OK;
}

static const struct gguf_key gguf_keys[] = {GGUF_INDEX_KEYS, {0}};

const struct model_family model_family_deepseek_v32 = {
	.settings = settings, .spell = config_rename_indexed, .check = deepseek_v3_check,
	.gguf_keys = gguf_keys};

/* --- Mistral 4 ------------------------------------------------------------------------ */

/* Defaults of Mistral4Config. */
static void mistral4_spell(json_t *text)
{
	config_default(text, "n_group", 1);
	config_default(text, "topk_group", 1);
	config_default(text, "first_k_dense_replace", 0);
	config_default(text, "routed_scaling_factor", 1);
}

/* A softmax router has neither groups nor a factor here. */
static enum status mistral4_check(const json_t *text, struct arena *a, struct model_config *c,
				  struct fail *fail)
{
	(void)a;
	if (c->n_groups != 1)
		return config_unsupported(fail, "n_group", jsonfile_get(text, "n_group"));
	if (c->routed_scale != 1)
		return config_unsupported(fail, "routed_scaling_factor",
					  jsonfile_get(text, "routed_scaling_factor"));
	return OK;
}

static void mistral4_fix(struct model_config *c)
{
	c->n_groups = c->n_groups_used = 0; /* a softmax */
}

/* What scales queries up counts positions by the context of the first training. */
static enum status mistral4_read_gguf(struct gguf_model_reader *r)
{
	char name[96], ctx[96];
	int64_t n = 0, of = 0;
	const struct gguf_value *v = gguf_model_key(r, "attention.temperature_length", name);
	const struct gguf_value *first =
		gguf_model_key(r, "rope.scaling.original_context_length", ctx);
	bool is_same = !v || (!v->is_array && gguf_integer(v, 0, &n) && first &&
			      !first->is_array && gguf_integer(first, 0, &of) && n == of);
	return is_same ? OK : gguf_model_refuse(r, name, v);
}

const struct model_family model_family_mistral4 = {
	.spell = mistral4_spell, .check = mistral4_check, .fix = mistral4_fix, .gating = 1,
	.gguf_reads = "attention.temperature_length", .read_gguf = mistral4_read_gguf};
