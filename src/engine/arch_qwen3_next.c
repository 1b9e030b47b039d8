/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3-Next and Qwen3.5, dense and with experts: gated delta nets, and every fourth
 * layer (or as the config lists them) attention with a gate of its output; experts with
 * a shared one that a sigmoid weighs. Source: modeling_qwen3_next.py, modeling_qwen3_5.py
 * and modeling_qwen3_5_moe.py of Hugging Face Transformers (of the models with vision the
 * text part: of text alone, its three rows of positions are one).
 */
#include "engine/arch.h"

static enum status load_layer(struct graph *g, int i, struct fail *fail)
{
	static const struct mlp_names names = {"mlp.gate", "mlp.shared_expert"};
	enum status st = g->c->is_linear[i] ? delta_load(g, i, fail)
					    : attention_load(g, i, fail);
	return st == OK ? mlp_load(g, i, &names, fail) : st;
}

static enum status run_layer(struct graph *g, int i, const struct graph_step *s,
			     struct fail *fail)
{
	const struct layer *l = &g->layers[i];
	enum status st = g->c->is_linear[i] ? delta_run(g, l, s, fail)
					    : attention_run(g, l, s, fail);
	return st == OK ? mlp_run(g, l, s, fail) : st;
}

const struct arch arch_qwen3_next = {load_layer, run_layer};
