/* SPDX-License-Identifier: Apache-2.0
 *
 * Mixtral and MiniMax M2 call the parts of an expert w1, w3 and w2; GraniteMoE has all
 * experts of a layer in one tensor. Source: conversion_mapping.py of Hugging Face
 * Transformers.
 */
#include "model/usual_names.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

const char *usual_names_of(const char *name, struct arena *a)
{
	static const char sparse[] = "block_sparse_moe.";
	static const struct {
		const char *from, *to;
	} parts[] = {
		{"input_linear.", "experts.gate_up_proj."},
		{"output_linear.", "experts.down_proj."},
		{"router.layer.", "gate."},
		{"e_score_correction_bias", "gate.e_score_correction_bias"},
	}, of_expert[] = {{".w1.", ".gate_proj."}, {".w2.", ".down_proj."},
			  {".w3.", ".up_proj."}};
	const char *at = strstr(name, sparse), *rest = at ? at + strlen(sparse) : NULL;
	char full[300];
	if (!at)
		return NULL;
	snprintf(full, sizeof full, "%.*smlp.%s", (int)(at - name), name, rest);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (strncmp(rest, parts[i].from, strlen(parts[i].from)) == 0)
			snprintf(full, sizeof full, "%.*smlp.%s%s", (int)(at - name), name,
				 parts[i].to, rest + strlen(parts[i].from));
	for (size_t i = 0; i < ARRAY_LEN(of_expert); i++) {
		const char *w = strstr(rest, of_expert[i].from);
		if (w)
			snprintf(full, sizeof full, "%.*smlp.%.*s%s%s", (int)(at - name),
				 name, (int)(w - rest), rest, of_expert[i].to,
				 w + strlen(of_expert[i].from));
	}
	return arena_strdup(a, full);
}
