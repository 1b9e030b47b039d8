/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/survey.h"

#include "tests/tap.h"

/* Parts that the files call otherwise. Of 4 experts a token reads 2; layers of experts have
 * no keys and values. */
static void test_other_names(void)
{
	struct fail fail = {0};
	struct model *m;
	struct survey s;
	if (!ok(model_open(tap_src("tests/golden/models/nemotronhmoe"), NULL, &m, &fail) == OK,
		"nemotronhmoe: %s", fail.text))
		return;
	survey_model(m, &s);
	is_int(s.part[PART_OTHER].n_tensors, 0, "every tensor has a part");
	is_int(s.part[PART_FFN].n_weights, 2 * 2 * 40 * 32, "two shared experts without gates");
	is_int(s.part[PART_EXPERTS].token_bytes * 2, 2 * 4 * 2 * 24 * 32 * 2,
	       "half of the experts");
	is_int(survey_kv_bytes(&m->config, DTYPE_F16), 2 * 2 * 16 * 2, "keys of one layer");
	is_int(survey_kv_read(&m->config, DTYPE_F16, 10), 10 * 2 * 2 * 16 * 2, "and a token's");
	model_close(m);
}

/* Of the table a token reads a row of each part; the layer that drafts is not read. */
static void test_streams(void)
{
	struct fail fail = {0};
	struct model *m;
	struct survey s;
	if (!ok(model_open(tap_src("tests/golden/formats/qwen4exp-mtp.gguf"), NULL, &m, &fail) ==
		OK, "qwen4exp-mtp: %s", fail.text))
		return;
	survey_model(m, &s);
	is_int(s.part[PART_NGRAMS].n_weights, 416 * 8, "the table of n-grams");
	is_int(s.part[PART_NGRAMS].token_bytes, 4 * 8 * 2, "one row of each of four parts");
	/* two layers with two mixers, a last one, and what n-grams add, with its norms */
	is_int(s.part[PART_STREAMS].n_weights,
	       4 * (64 + 2 * 64 + 2 * 16 * 64) + 64 + 2 * 16 * 64 + 64 * 32 + 32 * 32 + 64 * 4 +
	       3 * 64, "streams");
	is_int(s.part[PART_STREAMS].token_bytes, s.part[PART_STREAMS].n_bytes, "are read whole");
	is_int(s.part[PART_OTHER].n_tensors, 32, "the MTP layer");
	model_close(m);
}

int main(void)
{
	is_str(part_name(survey_part("model.embed_tokens.weight")), "embedding", "part");
	is_str(part_name(survey_part("lm_head.weight")), "lm_head", "part");
	is_str(part_name(survey_part("model.layers.0.self_attn.q_norm.weight")),
	       "norms", "part");
	is_str(part_name(survey_part("model.layers.0.self_attn.q_proj.weight_scale")),
	       "attention", "part");
	is_str(part_name(survey_part("model.layers.0.mlp.gate.weight")), "router",
	       "part");
	is_str(part_name(survey_part("model.layers.0.mlp.gate_proj.weight")), "ffn",
	       "part");
	is_str(part_name(survey_part("model.layers.0.mlp.experts.3.gate_proj.weight")),
	       "experts", "part");
	is_str(part_name(survey_part("code2wav.x")), "other", "part");

	struct fail fail = {0};
	struct model *m;
	if (!ok(model_open(tap_src("models/halo-tiny"), NULL, &m, &fail) == OK,
		"halo-tiny: %s", fail.text))
		return tap_done();
	struct survey s;
	survey_model(m, &s);
	/* 8 layers: q 512x256, k and v 128x256, o 256x512; 16 experts of three
	 * 128x256; router 16x256; embedding 3200x256. */
	int64_t attention = 8 * (512 * 256 + 2 * 128 * 256 + 256 * 512);
	int64_t experts = 8 * 16 * 3 * 128 * 256;
	is_int(s.part[PART_ATTENTION].n_weights, attention, "weights of attention");
	is_int(s.part[PART_EXPERTS].n_weights, experts, "weights of experts");
	is_int(s.part[PART_ROUTER].n_weights, 8 * 16 * 256, "weights of routers");
	/* Half a byte each, a bf16 scale for 32, a shape of 16 bytes a matrix. */
	int64_t bytes = experts / 2 + experts / 32 * 2 + 8 * 16 * 3 * 16;
	is_int(s.part[PART_EXPERTS].n_bytes, bytes, "bytes of experts");
	is_int(s.part[PART_EXPERTS].token_bytes, bytes / 4, "a quarter a token");
	is_int(s.part[PART_EMBEDDING].token_bytes, 512, "one row");
	is_int(s.part[PART_LM_HEAD].token_bytes, 3200 * 256 * 2,
	       "tied: all of the embedding again");
	is_int(s.format[QUANT_INT4].n_weights, attention + experts, "weights in int4");
	is_int(s.format[QUANT_INT4].n_bytes + s.format[QUANT_BF16].n_bytes, s.n_bytes,
	       "formats add up");
	is_int(s.n_tensors, 1290, "all tensors");
	is_int(survey_kv_bytes(&m->config, DTYPE_F16), 2 * 8 * 2 * 64 * 2,
	       "a token of context");
	model_close(m);
	test_other_names();
	test_streams();
	return tap_done();
}
