/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine asks for X.experts.7.gate_proj in every checkpoint. E is the number of
 * experts, F the feed-forward width, D the model width. Some checkpoints hold all experts
 * in one tensor: X.experts.gate_proj (E, F, D), or gate and up together as
 * X.experts.gate_up_proj (E, 2F, D), first the gate's F rows, then those of up.
 *
 * gpt-oss alternates the rows of gate and up. Where its weights are not quantized, the
 * tensor is transposed to (E, D, 2F), and its down_proj is (E, F, D). Shapes alone do not
 * always tell the two apart, so the architecture decides.
 */
#include "model/experts.h"

#include <stdio.h>
#include <stdlib.h>

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

bool experts_find(const struct model *m, const char *name, int32_t n,
		  struct expert_place *out)
{
	static const char infix[] = ".experts.";
	const char *at = strstr(name, infix);
	if (!at || quant_is_weight(m->tensors, name))
		return false;
	size_t head = (size_t)(at - name) + strlen(infix);
	char *end;
	long e = strtol(name + head, &end, 10);
	if (end == name + head || *end != '.' || e < 0 || e >= m->config.n_experts)
		return false;
	const char *proj = end + 1;
	bool is_gpt_oss = strcmp(m->config.arch, "gpt_oss") == 0 &&
			  !tensors_gguf(m->tensors);
	out->part = (struct quant_part){.expert = (int32_t)e, .n_rows = n, .step = 1,
					.n_experts = m->config.n_experts,
					.is_transposed = is_gpt_oss};
	int fits = snprintf(out->name, sizeof out->name, "%.*s%s", (int)head, name, proj);
	if ((size_t)fits >= sizeof out->name)
		return false;
	if (is_there(m, out->name))
		return true;
	bool is_up = strcmp(proj, "up_proj") == 0;
	if (!is_up && strcmp(proj, "gate_proj") != 0)
		return false;
	snprintf(out->name, sizeof out->name, "%.*sgate_up_proj", (int)head, name);
	out->part.n_rows = 2 * n;
	out->part.step = is_gpt_oss ? 2 : 1;
	out->part.first = is_up ? is_gpt_oss ? 1 : n : 0;
	return is_there(m, out->name);
}
