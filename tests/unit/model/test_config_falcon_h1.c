/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of Falcon-H1: where its multipliers go.
 */
#include "tests/unit/model/config_text.h"

#define FALCON "\"model_type\":\"falcon_h1\",\"num_hidden_layers\":3,\"hidden_size\":64," \
	"\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16," \
	"\"vocab_size\":512,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5," \
	"\"rope_theta\":100000000000.0,\"intermediate_size\":96,\"mamba_n_heads\":6," \
	"\"mamba_d_state\":32"
#define SPACE ",\"mamba_d_ssm\":48,\"mamba_d_head\":8,\"mamba_norm_before_gate\":false"

static void test_plain(void)
{
	is_int(read_config("{" FALCON SPACE "}"), OK, "without multipliers: %s", fail.text);
	ok(c.n_linear == 3 && c.is_linear[2] && model_attends(&c, 2),
	   "all layers have a state, and keys and values");
	is_int((int)model_state_numbers(&c), 3 * (6 * 8 * 32 + (2 * 32 + 48) * 3), "its states");
	ok(c.act.kind == ACT_SILU && c.embed_scale == 1 && c.logit_scale == 1 &&
		   c.query_scalar == 16 && c.delta.by.z == 1 && c.delta.by.out == 1,
	   "all are 1");
	ok(c.delta.skips_norm, "no norm behind a state space");
	is_int(read_config("{" FALCON ",\"mamba_d_ssm\":48,\"mamba_d_head\":\"auto\","
			   "\"mamba_rms_norm\":true,\"mamba_norm_before_gate\":false}"), OK,
	       "a size that follows: %s", fail.text);
	ok(c.delta.v_dim == 8 && !c.delta.skips_norm, "heads of 8, and a norm");
}

static void test_multipliers(void)
{
	is_int(read_config("{" FALCON SPACE ",\"attention_in_multiplier\":0.5,"
			   "\"attention_out_multiplier\":0.8,\"key_multiplier\":0.25,"
			   "\"embedding_multiplier\":2,\"lm_head_multiplier\":0.125,"
			   "\"ssm_in_multiplier\":2,\"ssm_out_multiplier\":0.2,"
			   "\"ssm_multipliers\":[1,2,3,4,5],\"mlp_multipliers\":[0.7,0.6]}"),
	       OK, "with multipliers: %s", fail.text);
	is_near(c.embed_scale, 2 / 0.4, 1e-5, "x is divided by 0.5 0.8");
	is_near(c.norm_eps, 1e-5 / 0.16, 1e-9, "so is eps, twice");
	is_near(c.delta.gate_eps, 1e-5, 1e-10, "but not the one behind a state space");
	is_near(c.logit_scale, 0.125, 1e-9, "logits");
	is_near(c.query_scalar, 16 / (0.0625 * 0.0625), 1e-2, "q k: 0.5 0.5 0.25");
	is_near(c.delta.by.z, 2, 1e-6, "z");
	is_near(c.delta.by.v, 4, 1e-6, "x of the paper");
	is_near(c.delta.by.k, 6, 1e-6, "B");
	is_near(c.delta.by.q, 8, 1e-6, "C");
	is_near(c.delta.by.a, 10, 1e-6, "steps");
	is_near(c.delta.by.out, 0.2 / 0.4, 1e-6, "what a state space adds");
	ok(c.act.kind == ACT_SCALED, "the activation");
	is_near(c.act.alpha, 0.7, 1e-6, "of the gate");
	is_near(c.act.scale, 0.6 / 0.4, 1e-6, "and of the product");
}

static void test_bad(void)
{
	static const struct {
		const char *more, *param;
		enum status st;
	} bad[] = {
		{"\"mamba_rms_norm\":true,\"mamba_norm_before_gate\":true",
		 "mamba_norm_before_gate", E_UNSUPPORTED},
		{"\"mamba_d_ssm\":40", "mamba_d_ssm", E_FORMAT},
		{"\"key_multiplier\":0", "key_multiplier", E_FORMAT},
		{"\"ssm_in_multiplier\":\"1\"", "ssm_in_multiplier", E_FORMAT},
		{"\"ssm_multipliers\":[1,1,1,1]", "ssm_multipliers", E_FORMAT},
		{"\"ssm_multipliers\":[1,1,1,1,null]", "ssm_multipliers", E_FORMAT},
		{"\"mlp_multipliers\":[1,-1]", "mlp_multipliers", E_FORMAT},
		{"\"mlp_multipliers\":1", "mlp_multipliers", E_FORMAT},
		{"\"layer_types\":[\"hybrid\",\"attention\",\"hybrid\"]", "layer_types",
		 E_UNSUPPORTED},
		{"\"projectors_bias\":true", "projectors_bias", E_UNSUPPORTED},
		{"\"attention_bias\":true", "attention_bias", E_UNSUPPORTED},
		{"\"mlp_bias\":true", "mlp_bias", E_UNSUPPORTED},
		{"\"time_step_limit\":[0.0,0.1]", "time_step_limit", E_UNSUPPORTED},
		{"\"hidden_act\":\"gelu_pytorch_tanh\"", "hidden_act", E_UNSUPPORTED},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char text[1000];
		snprintf(text, sizeof text, "{" FALCON SPACE ",%s}", bad[i].more);
		is_int(read_config(text), bad[i].st, "%s: %s", bad[i].more, fail.text);
		is_str(fail.param, bad[i].param, "it is named");
	}
}

int main(void)
{
	arena_init(&arena);
	test_plain();
	test_multipliers();
	test_bad();
	arena_deinit(&arena);
	return tap_done();
}
