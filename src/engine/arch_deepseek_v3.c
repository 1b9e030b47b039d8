/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V3: attention over a compressed key, first layers dense, then grouped experts
 * and a shared one. Source: modeling_deepseek_v3.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

static enum status load_layer(struct graph *g, int i, struct fail *fail)
{
	static const struct mlp_names names = {"mlp.gate", "mlp.shared_experts"};
	enum status st = mla_load(g, i, fail);
	return st == OK ? mlp_load(g, i, &names, fail) : st;
}

static enum status run_layer(struct graph *g, int i, const struct graph_step *s,
			     struct fail *fail)
{
	enum status st = mla_run(g, &g->layers[i], s, fail);
	return st == OK ? mlp_run(g, &g->layers[i], s, fail) : st;
}

const struct arch arch_deepseek_v3 = {load_layer, run_layer};
