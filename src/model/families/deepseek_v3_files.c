/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3.2: DeepSeek-V3 with an indexer, which chooses the keys that attention sees. Source:
 * configuration_deepseek_v32.py of Hugging Face Transformers.
 */
#include "model/model_family.h"

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
