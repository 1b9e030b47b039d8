/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: modeling_xlm_roberta.py and modeling_nomic_bert.py of Hugging Face Transformers,
 * and its conversion_mapping.py for the files of nomic-embed.
 */
#include "model/encoder_names.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct encoder_name {
	const char *from, *to;
};

static const struct encoder_name tops[] = {
	{"embeddings.word_embeddings.", "embed_tokens."},
	{"embeddings.position_embeddings.", "places."},
	{"embeddings.token_type_embeddings.", "types."},
	{"embeddings.LayerNorm.", "embed_norm."},
	{"emb_ln.", "embed_norm."},
};

/* Parts of a name after the layer's number. The first row that fits holds. */
static const struct encoder_name parts[] = {
	{"attention.self.query.", "self_attn.q_proj."},
	{"attention.self.key.", "self_attn.k_proj."},
	{"attention.self.value.", "self_attn.v_proj."},
	{"attention.output.dense.", "self_attn.o_proj."},
	{"attention.output.LayerNorm.", "post_attention_layernorm."},
	{"intermediate.dense.", "mlp.up_proj."},
	{"output.dense.", "mlp.down_proj."},
	{"output.LayerNorm.", "post_mlp_layernorm."},
	{"attn.Wqkv.", "self_attn.qkv_proj."},
	{"attn.out_proj.", "self_attn.o_proj."},
	{"mlp.fc11.", "mlp.up_proj."},
	{"mlp.fc12.", "mlp.gate_proj."},
	{"mlp.fc2.", "mlp.down_proj."},
	{"norm1.", "post_attention_layernorm."},
	{"norm2.", "post_mlp_layernorm."},
};

static const char *behind(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(name, prefix, n) == 0 ? name + n : NULL;
}

/* The name without the prefix of a model around the encoder. */
static const char *bare(const char *name)
{
	static const char *const outer[] = {"roberta.", "bert.", "nomic_bert.", "model."};
	for (size_t i = 0; i < ARRAY_LEN(outer); i++)
		if (behind(name, outer[i]))
			return behind(name, outer[i]);
	return name;
}

const char *encoder_names_of(const char *name, struct arena *a)
{
	static const char *const layers[] = {"encoder.layer.", "encoder.layers.", "layers."};
	const char *rest = bare(name), *part = NULL;
	char full[300];
	for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
		const char *at = behind(rest, tops[i].from);
		if (at) {
			snprintf(full, sizeof full, "model.%s%s", tops[i].to, at);
			return arena_strdup(a, full);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(layers) && !part; i++)
		part = behind(rest, layers[i]);
	size_t n = part ? strspn(part, "0123456789") : 0;
	if (!part || n == 0 || part[n] != '.')
		return NULL;
	const char *tail = part + n + 1, *to = "";
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (behind(tail, parts[i].from)) {
			to = parts[i].to;
			tail = behind(tail, parts[i].from);
			break;
		}
	snprintf(full, sizeof full, "model.layers.%.*s.%s%s", (int)n, part, to, tail);
	return strcmp(full, name) == 0 ? NULL : arena_strdup(a, full);
}
