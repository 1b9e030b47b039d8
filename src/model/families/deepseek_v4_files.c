/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek-V4. Published files spell some settings otherwise than files that Hugging Face
 * Transformers writes. In GGUF a layer compresses its keys in blocks. Blocks of 4 positions
 * overlap, and an indexer chooses among them; larger blocks are all attended to. Sources:
 * configuration_deepseek_v4.py of Transformers; llama.cpp's converter, and its deepseek4.cpp.
 */
#include "model/model_family.h"

#include "base/alloc.h"
#include "json/jsonfile.h"

static const struct config_setting settings[] = {
	{"n_routed_experts", NULL, INT, AT(n_experts), 1, 4096, REQUIRED},
	{"num_experts_per_tok", "experts_per_token", INT, AT(n_experts_used), 1, 256, REQUIRED},
	{"moe_intermediate_size", NULL, INT, AT(expert_dim), 8, 1 << 20, REQUIRED},
	{"q_lora_rank", NULL, INT, AT(q_lora), 8, 1 << 14, REQUIRED},
	{"o_lora_rank", NULL, INT, AT(compress.o_lora), 8, 1 << 14, REQUIRED},
	{"o_groups", NULL, INT, AT(compress.o_groups), 1, 1024, REQUIRED},
	/* a number of shared experts: only 1 is supported */
	{"n_shared_experts", NULL, INT, AT(shared_dim), 1, 1, 1},
	{"routed_scaling_factor", NULL, FLOAT, AT(routed_scale), 1e-3, 1e3, 1.5},
	{"swiglu_limit", NULL, FLOAT, AT(act.limit), 1e-3, 1e4, 10},
	{"hc_mult", NULL, INT, AT(streams.count), 2, 16, 4},
	{"hc_sinkhorn_iters", NULL, INT, AT(streams.iters), 1, 1000, 20},
	{"hc_eps", NULL, FLOAT, AT(streams.eps), 1e-12, 1e-2, 1e-6},
	/* index_topk counts blocks, not positions */
	CONFIG_INDEX_SETTINGS,
	{0}};

/* The keys that a layer attends to beside its window: none, compressed keys that an indexer
 * chooses, or all heavily compressed keys. */
enum kind { PLAIN, CHOSEN, HEAVY };
static const char *const kind_names[] = {
	[PLAIN] = "sliding_attention", [CHOSEN] = "compressed_sparse_attention",
	[HEAVY] = "heavily_compressed_attention"};
/* Keys of our own that spell adds to the settings. */
static const char kinds_key[] = "halod_kinds", hashed_key[] = "halod_hashed";

static const char rates_key[] = "compress_rates", partial_key[] = "partial_rotary_factor";

/* --- spelling ---------------------------------------------------------------------- */

/* The kind of layer i; -1 if config.json gives no known kind. */
static int kind_of(const json_t *text, json_int_t i)
{
	const json_t *types = jsonfile_get(text, "layer_types");
	const json_t *ratios = jsonfile_get(text, "compress_ratios");
	const char *type = json_string_value(json_array_get(types, (size_t)i));
	if (types) {
		for (int k = PLAIN; type && k <= HEAVY; k++)
			if (strcmp(type, kind_names[k]) == 0)
				return k;
		return -1;
	}
	if (!ratios)
		return i < 2 || i % 2 == 0 ? HEAVY : CHOSEN;
	const json_t *v = json_array_get(ratios, (size_t)i);
	json_int_t ratio = json_is_integer(v) ? json_integer_value(v) : -1;
	return ratio == 0 ? PLAIN : ratio == 4 ? CHOSEN : ratio == 128 ? HEAVY : -1;
}

/* Translate layer_types to the names that other models use. If all layers have a known kind,
 * store the kinds under kinds_key. An unknown type stays in the list, so that reading refuses
 * it. */
static void spell_layers(json_t *text, json_int_t n)
{
	const json_t *given = jsonfile_get(text, "layer_types");
	json_t *types = json_array(), *kinds = json_array();
	bool fits = true;
	for (json_int_t i = 0; i < n; i++) {
		int k = kind_of(text, i);
		json_t *own = json_array_get(given, (size_t)i);
		fits &= k >= 0;
		json_array_append_new(kinds, json_integer(k));
		if (k < 0 && own)
			json_array_append(types, own);
		else
			json_array_append_new(types, json_string(k == PLAIN ? kind_names[PLAIN]
									    : "full_attention"));
	}
	if (!given || json_array_size(given) >= (size_t)n)
		json_object_set(text, "layer_types", types);
	if (fits)
		json_object_set(text, kinds_key, kinds);
	json_decref(types);
	json_decref(kinds);
}

/* In the first num_hash_layers layers the token's id decides its experts ("hash_moe"). */
static void spell_hashed(json_t *text, json_int_t n)
{
	const json_t *types = jsonfile_get(text, "mlp_layer_types");
	const json_t *first = jsonfile_get(text, "num_hash_layers");
	json_int_t n_first = json_is_integer(first) ? json_integer_value(first) : 3;
	json_t *list = json_array();
	for (json_int_t i = 0; i < n && !types; i++)
		json_array_append_new(list, json_string(i < n_first ? "hash_moe" : "moe"));
	if (!types)
		json_object_set(text, "mlp_layer_types", list);
	json_decref(list);
	json_object_set(text, hashed_key, json_object_get(text, "mlp_layer_types"));
}

/* Layers with only a window get the rope "main", the others the rope "compress". */
static void spell_ropes(json_t *text)
{
	json_t *params = json_object_get(text, "rope_parameters");
	json_t *scaling = json_object_get(text, "rope_scaling");
	json_t *main = json_object_get(params, "main");
	json_t *compress = json_object_get(params, "compress");
	json_t *both = json_object();
	if (json_is_object(main) && json_is_object(compress)) {
		json_object_set(both, "sliding_attention", main);
		json_object_set(both, "full_attention", compress);
	} else {
		json_t *own = json_is_object(params) ? json_copy(params)
			      : json_is_object(scaling) ? json_copy(scaling) : json_object();
		json_t *plain = json_pack("{s:s}", "rope_type", "default");
		const json_t *type = json_object_get(own, "rope_type");
		type = type ? type : json_object_get(own, "type");
		const char *name = json_string_value(type);
		if (!type)
			json_object_set_new(own, "rope_type", json_string("default"));
		if (name && strcmp(name, "yarn") == 0 &&
		    !jsonfile_get(own, "attention_factor"))
			json_object_set_new(own, "attention_factor", json_real(1));
		json_object_set(own, "rope_theta", json_object_get(text, "compress_rope_theta"));
		json_object_set(plain, "rope_theta", json_object_get(text, "rope_theta"));
		json_object_set_new(both, "full_attention", own);
		json_object_set_new(both, "sliding_attention", plain);
	}
	json_object_set_new(text, "rope_parameters", both);
	json_object_del(text, "rope_scaling");
	json_object_del(text, "rope_theta");
}

static void spell_partial(json_t *text)
{
	const json_t *rope = jsonfile_get(text, "qk_rope_head_dim");
	json_int_t dim = json_integer_value(jsonfile_get(text, "head_dim"));
	double part = 64.0 / 512;
	if (json_is_integer(rope) && dim > 0)
		part = (double)json_integer_value(rope) / (double)dim;
	if (!jsonfile_get(text, partial_key))
		json_object_set_new(text, partial_key, json_real(part));
}

static void deepseek_v4_spell(json_t *text)
{
	json_int_t n = json_integer_value(jsonfile_get(text, "num_hidden_layers"));
	json_t *rates = json_object_get(text, rates_key);
	json_t *of_both = json_is_object(rates) ? json_copy(rates) : json_object();
	json_t *chosen = json_object_get(text, "compress_rate_csa");
	json_t *heavy = json_object_get(text, "compress_rate_hca");
	if (chosen)
		json_object_set(of_both, kind_names[CHOSEN], chosen);
	if (heavy)
		json_object_set(of_both, kind_names[HEAVY], heavy);
	if (!rates || json_is_object(rates))
		json_object_set(text, rates_key, of_both);
	json_decref(of_both);
	config_default(text, "head_dim", 512);
	spell_ropes(text);
	spell_partial(text);
	if (n < 1 || n > 1024)
		return;
	spell_layers(text, n);
	spell_hashed(text, n);
}

/* --- reading ----------------------------------------------------------------------- */

static enum status read_rate(const json_t *text, enum kind kind, int32_t fallback,
			     int32_t *out, struct fail *fail)
{
	const json_t *rates = jsonfile_get(text, rates_key);
	const json_t *v = jsonfile_get(rates, kind_names[kind]);
	json_int_t n = v ? json_integer_value(v) : fallback;
	if (rates && !json_is_object(rates))
		return config_wrong(fail, rates_key, rates, "an object");
	if ((v && !json_is_integer(v)) || n < 2 || n > 4096)
		return config_wrong(fail, rates_key, v, "a number of tokens from 2 to 4096");
	*out = (int32_t)n;
	return OK;
}

static enum status read_kinds(const json_t *text, struct arena *a, struct model_config *c,
			      struct fail *fail)
{
	const json_t *kinds = jsonfile_get(text, kinds_key);
	enum status st = read_rate(text, CHOSEN, 4, &c->index.ratio, fail);
	if (st == OK)
		st = read_rate(text, HEAVY, 128, &c->compress.heavy_ratio, fail);
	if (st != OK)
		return st;
	if (json_array_size(kinds) != (size_t)c->n_layers)
		return config_wrong(fail, "compress_ratios",
				    jsonfile_get(text, "compress_ratios"),
				    "a list of 0, 4 or 128 for each layer");
	if (c->index.ratio == c->compress.heavy_ratio)
		return fail_at(fail, E_UNSUPPORTED, rates_key, FILE_NAME
			       ": both kinds of layers compress %d tokens",
			       c->compress.heavy_ratio);
	c->compress.of = arena_alloc(a, (size_t)c->n_layers * sizeof *c->compress.of);
	for (int32_t i = 0; i < c->n_layers; i++) {
		json_int_t k = json_integer_value(json_array_get(kinds, (size_t)i));
		c->compress.of[i] = k == CHOSEN ? c->index.ratio
				    : k == HEAVY ? c->compress.heavy_ratio : 0;
	}
	return OK;
}

static enum status read_hashed(const json_t *text, struct arena *a, struct model_config *c,
			       struct fail *fail)
{
	static const char key[] = "mlp_layer_types";
	const json_t *types = jsonfile_get(text, hashed_key);
	if (json_array_size(types) < (size_t)c->n_layers)
		return config_wrong(fail, key, types, "a list of a type a layer");
	c->compress.is_hashed = arena_alloc(a, (size_t)c->n_layers * sizeof *c->compress.is_hashed);
	for (int32_t i = 0; i < c->n_layers; i++) {
		const json_t *v = json_array_get(types, (size_t)i);
		const char *type = json_is_string(v) ? json_string_value(v) : "";
		c->compress.is_hashed[i] = strcmp(type, "hash_moe") == 0;
		if (!c->compress.is_hashed[i] && strcmp(type, "moe") != 0)
			return config_unsupported(fail, key, v);
	}
	return OK;
}

/* Check keys that may have only one value. */
static enum status check_fixed(const json_t *text, struct fail *fail)
{
	const json_t *scores = jsonfile_get(text, "scoring_func");
	const json_t *norm = jsonfile_get(text, "norm_topk_prob");
	const char *name = json_string_value(scores);
	if (scores && (!name || strcmp(name, "sqrtsoftplus") != 0))
		return config_unsupported(fail, "scoring_func", scores);
	if (norm && !json_is_true(norm))
		return config_unsupported(fail, "norm_topk_prob", norm);
	return OK;
}

static enum status check_sizes(const struct model_config *c, struct fail *fail)
{
	if (c->n_kv_heads != 1)
		return fail_at(fail, E_UNSUPPORTED, "num_key_value_heads", FILE_NAME
			       ": %d heads of keys, not one", c->n_kv_heads);
	if (c->n_heads % c->compress.o_groups)
		return fail_at(fail, E_FORMAT, "o_groups", FILE_NAME
			       ": %d heads in %d groups", c->n_heads, c->compress.o_groups);
	if (c->n_rot > c->index.dim)
		return fail_at(fail, E_FORMAT, "index_head_dim", FILE_NAME
			       ": %d of %d elements rotate", c->n_rot, c->index.dim);
	return OK;
}

static enum status deepseek_v4_check(const json_t *text, struct arena *a, struct model_config *c,
				     struct fail *fail)
{
	const struct rope *r = &c->ropes[0];
	enum status st = check_fixed(text, fail);
	if (st == OK)
		st = read_kinds(text, a, c, fail);
	if (st == OK)
		st = read_hashed(text, a, c, fail);
	if (st == OK)
		st = check_sizes(c, fail);
	if (st == OK && !c->window)
		st = config_missing(fail, "sliding_window");
	/* The attention's output is rotated back, so cos and sin must have no factor. */
	if (st == OK && r->kind == ROPE_YARN && r->attention_factor != 1)
		st = fail_at(fail, E_UNSUPPORTED, "rope_parameters", FILE_NAME
			     ": yarn with an attention_factor of %g, not 1", r->attention_factor);
	return st;
}

static void deepseek_v4_fix(struct model_config *c)
{
	c->act.kind = ACT_CLIPPED;
	c->act.gate_limit = c->act.limit;
	c->n_groups = c->n_groups_used = c->sparse_step = 1;
	c->norm_topk = true;
	c->shared_dim = c->expert_dim;
	c->mla.eps = c->norm_eps;
}

/* --- GGUF ---------------------------------------------------------------------------- */

static const struct gguf_key gguf_keys[] = {
	GGUF_GROUP_KEYS,
	GGUF_INDEX_KEYS,
	{"attention.q_lora_rank", "q_lora_rank", false, false},
	{"rope.dimension_count", "qk_rope_head_dim", true, false},
	{"attention.output_group_count", "o_groups", true, false},
	{"attention.output_lora_rank", "o_lora_rank", true, false},
	{"attention.compress_rope_freq_base", "compress_rope_theta", true, true},
	{"hyper_connection.count", "hc_mult", true, false},
	{"hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters", true, false},
	{"hyper_connection.epsilon", "hc_eps", true, true},
	{"hash_layer_count", "num_hash_layers", true, false},
	{"swiglu_clamp_exp", "swiglu_limit", true, true},
	{0}};

static const struct gguf_name gguf_names[] = {
	GGUF_SHARED_EXPERTS("shared_experts"),
	{"attn_q_a_norm", "self_attn.q_a_norm"},
	{"attn_kv_a_norm", "self_attn.kv_norm"},
	{"attn_kv", "self_attn.kv_proj"},
	{"attn_output_a", "self_attn.o_a_proj"},
	{"attn_output_b", "self_attn.o_b_proj"},
	{"attn_compressor_kv", "self_attn.compressor.kv_proj"},
	{"attn_compressor_gate", "self_attn.compressor.gate_proj"},
	{"attn_compressor_ape.weight", "self_attn.compressor.position_bias"},
	{"attn_compressor_norm", "self_attn.compressor.kv_norm"},
	{"indexer.attn_q_b", "self_attn.compressor.indexer.q_b_proj"},
	{"indexer.proj", "self_attn.compressor.indexer.scorer.weights_proj"},
	{"indexer_compressor_kv", "self_attn.compressor.indexer.kv_proj"},
	{"indexer_compressor_gate", "self_attn.compressor.indexer.gate_proj"},
	{"indexer_compressor_ape.weight", "self_attn.compressor.indexer.position_bias"},
	{"indexer_compressor_norm", "self_attn.compressor.indexer.kv_norm"},
	{"hc_attn_fn", "attn_hc.fn"},
	{"hc_attn_base.weight", "attn_hc.base"},
	{"hc_attn_scale.weight", "attn_hc.scale"},
	{"hc_ffn_fn", "ffn_hc.fn"},
	{"hc_ffn_base.weight", "ffn_hc.base"},
	{"hc_ffn_scale.weight", "ffn_hc.scale"},
	{"ffn_gate_tid2eid.weight", "mlp.gate.tid2eid"},
	{0}};

/* Ratios in config.json: of chosen blocks, and of larger ones. */
enum { RATIO_CHOSEN = 4, RATIO_HEAVY = 128 };

static enum status read_ratios(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "attention.compress_ratios", name);
	int64_t layers = gguf_model_known(r, "num_hidden_layers"), heavy = 0, n;
	if (!v)
		return fail_at(r->fail, E_MISSING, name, "%s: %s is missing", r->path, name);
	if (!v->is_array || v->n < (uint64_t)layers)
		return gguf_model_refuse(r, name, v);
	json_t *list = json_array();
	bool fits = true;
	for (int64_t i = 0; i < layers && fits; i++) {
		fits = gguf_integer(v, (uint64_t)i, &n) && n >= 0 &&
		       (n == 0 || n == RATIO_CHOSEN || !heavy || n == heavy);
		heavy = fits && n && n != RATIO_CHOSEN ? n : heavy;
		json_array_append_new(list, json_integer(n && n != RATIO_CHOSEN ? RATIO_HEAVY : n));
	}
	json_object_set_new(r->config, "compress_ratios", list);
	if (heavy)
		json_object_set_new(r->config, "compress_rate_hca", json_integer(heavy));
	return fits ? OK : gguf_model_refuse(r, name, v);
}

/* The shared expert's limit must be that of the routed experts. */
static enum status check_limits(struct gguf_model_reader *r)
{
	char name[96];
	const struct gguf_value *v = gguf_model_key(r, "swiglu_clamp_shexp", name);
	double want = json_number_value(json_object_get(r->config, "swiglu_limit")), d;
	for (uint64_t i = 0; v && i < (v->is_array ? v->n : 1); i++)
		if (!gguf_number(v, i, &d) || d != want)
			return gguf_model_refuse(r, name, v);
	return OK;
}

static enum status deepseek_v4_read_gguf(struct gguf_model_reader *r)
{
	enum status st = read_ratios(r);
	return st == OK ? check_limits(r) : st;
}

const struct model_family model_family_deepseek_v4 = {
	.settings = settings, .reads = "scoring_func", .fixes_act = true,
	.spell = deepseek_v4_spell,
	.check = deepseek_v4_check, .fix = deepseek_v4_fix, .gguf_keys = gguf_keys,
	.gguf_names = gguf_names,
	.gguf_reads = "attention.kv_lora_rank swiglu_clamp_shexp", .gating = 4,
	.read_gguf = deepseek_v4_read_gguf};
