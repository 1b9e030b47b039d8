/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine asks for X.experts.7.gate_proj in any checkpoint. Where all experts are in
 * one tensor, it is X.experts.gate_proj (E, F, D), or the gate and up together are
 * X.experts.gate_up_proj (E, 2F, D): gate first, then up. Qwen3-VL-MoE is published transposed:
 * gate_up_proj (E, D, 2F), down_proj (E, F, D); is_stored_transposed sees it by the shape. Plain
 * numbers of gpt-oss and Llama 4 are transposed too. In gpt-oss the rows of gate and up alternate.
 * A square shape could not show this, so for these two the architecture decides.
 *
 * Phi-3 has q, k and v of a layer in one tensor, and gate and up in one. A state space has one
 * input projection; the engine asks for its last rows (the steps) as a weight of their own.
 */
#include "model/experts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static bool is_there(const struct model *m, const char *name)
{
	struct quant_want w = {.tensors = m->tensors, .name = name,
			       .part = &(struct quant_part){.n_rows = 0}};
	static const char *const suffixes[] = {"weight", "weight_packed",
					       "weight_blocks"};
	for (int i = 0; i < 3; i++)
		if (quant_find(&w, suffixes[i]))
			return true;
	return false;
}

/* True if the tensor's shape is (E, K, n_rows) and cannot be (E, n_rows, K). */
static bool is_stored_transposed(const struct model *m, const struct expert_place *place)
{
	struct quant_want w = {.tensors = m->tensors, .name = place->name,
			       .part = &place->part};
	const struct tensor *t = quant_find(&w, "weight");
	int32_t rows = place->part.n_rows;
	return t && t->n_dims == 3 && t->dim[1] != rows && t->dim[2] == rows;
}

/* Find q_proj as rows of qkv_proj, and the like. Where layers differ in their heads there is no
 * qkv_proj: its rows would be cut by the heads of another layer. */
static bool fused_find(const struct model *m, const char *name, int32_t n,
		       struct expert_place *out)
{
	const struct model_config *c = &m->config;
	int32_t nq = c->n_heads * c->head_dim, nkv = c->n_kv_heads * c->head_dim;
	int32_t n_space = (int32_t)model_delta_channels(c) +
			  c->delta.v_heads * (c->delta.v_dim + 1);
	const struct {
		const char *part, *whole;
		int32_t first, n_rows;
	} all[] = {
		{"self_attn.q_proj", "self_attn.qkv_proj", 0, nq + 2 * nkv},
		{"self_attn.k_proj", "self_attn.qkv_proj", nq, nq + 2 * nkv},
		{"self_attn.v_proj", "self_attn.qkv_proj", nq + nkv, nq + 2 * nkv},
		{"shared_experts.gate_proj", "shared_experts.gate_up_proj", 0, 2 * n},
		{"shared_experts.up_proj", "shared_experts.gate_up_proj", n, 2 * n},
		{"mamba.in_proj_rows", "mamba.in_proj", 0, n_space},
		{"mamba.in_proj_steps", "mamba.in_proj", n_space - c->delta.v_heads, n_space},
		{"mlp.gate_proj", "mlp.gate_up_proj", 0, 2 * n},
		{"mlp.up_proj", "mlp.gate_up_proj", n, 2 * n},
	};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		if (!str_ends(str_of(name), str_of(all[i].part)))
			continue;
		if (c->heads_of && str_ends(str_of(all[i].whole), STR("qkv_proj")))
			return false;
		size_t head = strlen(name) - strlen(all[i].part);
		snprintf(out->name, sizeof out->name, "%.*s%s", (int)head, name,
			 all[i].whole);
		out->part = (struct quant_part){.n_rows = all[i].n_rows,
						.first = all[i].first, .step = 1};
		return !quant_is_weight(m->tensors, name) && is_there(m, out->name);
	}
	return false;
}

bool experts_find(const struct model *m, const char *name, int32_t n,
		  struct expert_place *out)
{
	static const char infix[] = ".experts.";
	const char *at = strstr(name, infix);
	if (!at)
		return fused_find(m, name, n, out);
	if (quant_is_weight(m->tensors, name))
		return false;
	size_t head = (size_t)(at - name) + strlen(infix);
	char *end;
	long e = strtol(name + head, &end, 10);
	if (end == name + head || *end != '.' || e < 0 || e >= m->config.n_experts)
		return false;
	const char *proj = end + 1;
	bool is_gpt_oss = strcmp(m->config.arch, "gpt_oss") == 0 &&
			  !tensors_gguf(m->tensors);
	bool is_llama4 = strncmp(m->config.arch, "llama4", 6) == 0 &&
			 !tensors_gguf(m->tensors);
	out->part = (struct quant_part){.expert = (int32_t)e, .n_rows = n, .step = 1,
					.n_experts = m->config.n_experts,
					.is_transposed = is_gpt_oss || is_llama4};
	int fits = snprintf(out->name, sizeof out->name, "%.*s%s", (int)head, name, proj);
	if ((size_t)fits >= sizeof out->name)
		return false;
	if (is_there(m, out->name)) {
		out->part.is_transposed |= is_stored_transposed(m, out);
		return true;
	}
	bool is_up = strcmp(proj, "up_proj") == 0;
	if (!is_up && strcmp(proj, "gate_proj") != 0)
		return false;
	snprintf(out->name, sizeof out->name, "%.*sgate_up_proj", (int)head, name);
	out->part.n_rows = 2 * n;
	out->part.step = is_gpt_oss ? 2 : 1;
	out->part.first = is_up ? is_gpt_oss ? 1 : n : 0;
	out->part.is_transposed |= is_stored_transposed(m, out);
	return is_there(m, out->name);
}
