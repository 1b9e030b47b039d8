/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt-oss: a window in every other layer, attention sinks, and experts with biases and
 * a clamped activation in all. Source: modeling_gpt_oss.py of Hugging Face Transformers.
 */
#include "engine/arch.h"

static enum status load_layer(struct graph *g, int i, struct fail *fail)
{
	static const struct mlp_names names = {"mlp.router", "mlp.shared_expert"};
	enum status st = attention_load(g, i, fail);
	return st == OK ? mlp_load(g, i, &names, fail) : st;
}

static enum status run_layer(struct graph *g, int i, const struct graph_step *s,
			     struct fail *fail)
{
	enum status st = attention_run(g, &g->layers[i], s, fail);
	return st == OK ? mlp_run(g, &g->layers[i], s, fail) : st;
}

const struct arch arch_gpt_oss = {load_layer, run_layer};
