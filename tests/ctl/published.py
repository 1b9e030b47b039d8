# SPDX-License-Identifier: Apache-2.0
"""The keys that published models have in config.json, generation_config.json and
tokenizer_config.json. A test made its small models with one version of one library, which
writes keys of its own; what people download was written by others.

A row: the model, the small model of the same architecture, the keys whose values are the
small model's, and those with a value of their own. Keys of "text." are within text_config.
Some have an effect that the small model does not have (is_same False): then it only loads."""

COMMON = ("architectures bos_token_id eos_token_id hidden_act hidden_size initializer_range "
          "intermediate_size max_position_embeddings model_type num_attention_heads "
          "num_hidden_layers num_key_value_heads rms_norm_eps tie_word_embeddings torch_dtype "
          "transformers_version use_cache vocab_size ")
ROPE = "rope_scaling rope_theta "
PLAIN = {"attention_bias": False, "attention_dropout": 0.0, "pretraining_tp": 1}
LLAMA = dict(PLAIN, mlp_bias=False)
MOE = ("first_k_dense_replace moe_intermediate_size n_group n_routed_experts n_shared_experts "
       "norm_topk_prob num_experts_per_tok routed_scaling_factor topk_group ")
MLA = "kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim "
DEEPSEEK = {"attention_bias": False, "attention_dropout": 0.0, "ep_size": 1,
            "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
            "moe_layer_freq": 1, "num_nextn_predict_layers": 1, "scoring_func": "sigmoid",
            "topk_method": "noaux_tc"}
QWEN2 = {"attention_dropout": 0.0, "max_window_layers": 28, "sliding_window": 131072,
         "use_sliding_window": False, "use_mrope": False}
QWEN3 = {"attention_bias": False, "attention_dropout": 0.0, "max_window_layers": 36,
         "sliding_window": None, "use_sliding_window": False}
QWEN3_MOE = dict(QWEN3, router_aux_loss_coef=0.001, output_router_logits=False)
LINEAR = ("linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
          "linear_num_value_heads linear_value_head_dim ")
GRANITE = ("attention_multiplier embedding_multiplier logits_scaling residual_multiplier "
           "pad_token_id ")
GRANITE_MOE = {"attention_bias": False, "attention_dropout": 0.0, "output_router_logits": False,
               "router_aux_loss_coef": 0.0}
MAMBA = ("mamba_chunk_size mamba_conv_bias mamba_d_conv mamba_d_head mamba_d_state mamba_expand "
         "mamba_n_groups mamba_n_heads mamba_proj_bias ")
NEMOTRON = {"attention_bias": False, "attention_dropout": 0.0, "hidden_dropout": 0.0,
            "auto_map": {"AutoConfig": "configuration_nemotron_h.NemotronHConfig"},
            "mamba_hidden_act": "silu", "mamba_proj_bias": False, "mlp_bias": False,
            "mamba_ssm_cache_dtype": "float32", "num_logits_to_keep": 1,
            "rescale_prenorm_residual": True, "residual_in_fp32": False,
            "sliding_window": None, "time_step_floor": 1e-4, "time_step_max": 0.1,
            "time_step_min": 0.001, "time_step_limit": [0.0, float("inf")],
            "use_bias": False, "use_mamba_kernels": True, "time_step_rank": 256}
NEMOTRON_KEYS = ("architectures bos_token_id chunk_size conv_kernel eos_token_id expand head_dim "
                 "hidden_size hybrid_override_pattern initializer_range intermediate_size "
                 "layer_norm_epsilon mamba_head_dim mamba_num_heads max_position_embeddings "
                 "mlp_hidden_act model_type n_groups num_attention_heads num_hidden_layers "
                 "num_key_value_heads pad_token_id ssm_state_size tie_word_embeddings "
                 "torch_dtype transformers_version use_cache use_conv_bias vocab_size ")
NEMOTRON_MOE = ("moe_intermediate_size moe_shared_expert_intermediate_size n_group "
                "n_routed_experts n_shared_experts norm_topk_prob num_experts_per_tok "
                "routed_scaling_factor topk_group norm_eps ")
LLAMA4 = {"attention_bias": False, "attention_dropout": 0.0, "attn_temperature_tuning": True,
          "for_llm_compressor": False, "output_router_logits": False, "router_aux_loss_coef":
          0.001, "router_jitter_noise": 0.0, "cache_implementation": "hybrid",
          "_attn_implementation_autoset": True}
WITH_TEXT = "architectures model_type vision_config "
VOXTRAL_EARS = {"activation_dropout": 0.0, "activation_function": "gelu",
                "attention_dropout": 0.0, "dropout": 0.0, "head_dim": 64, "hidden_size": 1280,
                "initializer_range": 0.02, "intermediate_size": 5120, "layerdrop": 0.0,
                "max_source_positions": 1500, "model_type": "voxtral_encoder",
                "num_attention_heads": 20, "num_hidden_layers": 32, "num_key_value_heads": 20,
                "num_mel_bins": 128, "scale_embedding": False, "vocab_size": 51866}
STEP = ("att_impl_type attention_other_setting eos_token_id head_dim hidden_size "
        "intermediate_size layer_types max_position_embeddings moe_every_n_layer "
        "moe_intermediate_size moe_layer_offset moe_layers_enum moe_num_experts "
        "moe_router_activation moe_router_scaling_factor moe_top_k need_fp32_gate "
        "norm_expert_weight num_attention_groups num_attention_heads num_hidden_layers "
        "num_nextn_predict_layers partial_rotary_factors rms_norm_eps rope_scaling rope_theta "
        "share_expert_dim sink sliding_window swiglu_limits swiglu_limits_shared use_mfa "
        "use_head_wise_attn_gate use_moe use_moe_router_bias use_qk_norm use_rope_layers "
        "vocab_size yarn_only_types zero_centered").split()
GEMMA4 = "dtype initializer_range tie_word_embeddings transformers_version "
TEXT_OF_GEMMA4 = " ".join("text." + k for k in (
    "attention_bias attention_k_eq_v bos_token_id enable_moe_block eos_token_id "
    "final_logit_softcapping head_dim hidden_activation hidden_size "
    "hidden_size_per_layer_input initializer_range intermediate_size layer_types "
    "max_position_embeddings model_type moe_intermediate_size num_attention_heads num_experts "
    "num_hidden_layers num_key_value_heads num_kv_shared_layers pad_token_id rms_norm_eps "
    "rope_parameters sliding_window tie_word_embeddings top_k_experts "
    "use_bidirectional_attention use_cache use_double_wide_mlp vocab_size "
    "vocab_size_per_layer_input").split())
GEMMA4_OWN = {"boa_token_id": 256000, "boi_token_id": 255999, "eoa_token_id": 258883,
              "eoa_token_index": 258883, "eoi_token_id": 258882,
              "vision_soft_tokens_per_image": 280, "text.attention_dropout": 0.0,
              "text.dtype": "bfloat16", "text.expert_intermediate_size": None}
QWEN35 = "tie_word_embeddings transformers_version "
TEXT_OF_QWEN35 = " ".join("text." + k for k in (
    LINEAR + "dtype eos_token_id head_dim hidden_act hidden_size initializer_range layer_types "
    "max_position_embeddings model_type num_attention_heads num_hidden_layers "
    "num_key_value_heads rms_norm_eps rope_parameters use_cache vocab_size").split()) + " "
QWEN35_OWN = {
    "vision_config": {
        "deepstack_visual_indexes": [], "depth": 1, "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 32, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 64,
        "model_type": "qwen3_5", "num_heads": 2, "num_position_embeddings": 16,
        "out_hidden_size": 64, "patch_size": 16, "spatial_merge_size": 2,
        "temporal_patch_size": 2},
    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
    "image_token_id": 248056, "video_token_id": 248057, "vision_start_token_id": 248053,
    "vision_end_token_id": 248054, "text.attention_bias": False, "text.attention_dropout": 0.0,
    "text.attn_output_gate": True, "text.full_attention_interval": 4,
    "text.mamba_ssm_dtype": "float32", "text.mlp_only_layers": [],
    "text.mtp_num_hidden_layers": 1, "text.mtp_use_dedicated_embeddings": False}

MODELS = [
    ("Llama 2 7B Chat", "llama-llama3",
     COMMON + "rope_scaling", {"_name_or_path": "meta-llama/Llama-2-7b-chat-hf",
                               "pretraining_tp": 1, "pad_token_id": 0}, True),
    ("TinyLlama 1.1B Chat", "llama-llama3", COMMON + ROPE,
     {"attention_bias": False, "pretraining_tp": 1}, True),
    ("Llama 3.1 8B Instruct", "llama-llama3", COMMON + ROPE, LLAMA, True),
    ("Llama 3.2 1B Instruct", "llama-llama3", COMMON + ROPE + "head_dim", LLAMA, True),
    ("Bielik 11B v2", "llama-llama3", COMMON + ROPE + "head_dim",
     dict(LLAMA, _name_or_path="speakleash/Bielik-11B-v2", unk_token_id=0), True),
    ("Mistral 7B v0.1", "mistral-window", COMMON + ROPE + "sliding_window", {}, True),
    ("Mistral 7B v0.3", "mistral-window", COMMON + ROPE,
     {"attention_dropout": 0.0, "sliding_window": None}, False),
    ("Mistral Small 3.2", "mistral3", WITH_TEXT +
     "image_token_index multimodal_projector_bias projector_hidden_act spatial_merge_size "
     "vision_feature_layer torch_dtype transformers_version text.hidden_size text.head_dim "
     "text.intermediate_size text.max_position_embeddings text.model_type "
     "text.num_attention_heads text.num_hidden_layers text.num_key_value_heads "
     "text.rms_norm_eps text.rope_theta text.vocab_size text.hidden_act "
     "text.initializer_range text.use_cache",
     {"text.attention_dropout": 0.0, "text.sliding_window": None}, True),
    ("Voxtral Mini 3B", "mistral3",
     "projector_hidden_act torch_dtype transformers_version text.head_dim text.hidden_act "
     "text.hidden_size text.initializer_range text.intermediate_size "
     "text.max_position_embeddings text.num_attention_heads text.num_hidden_layers "
     "text.num_key_value_heads text.rms_norm_eps text.rope_theta text.rope_scaling "
     "text.use_cache text.vocab_size",
     {"architectures": ["VoxtralForConditionalGeneration"], "model_type": "voxtral",
      "audio_config": VOXTRAL_EARS, "audio_token_id": 24, "hidden_size": 3072,
      "vocab_size": 131072, "text.model_type": "llama", "text.attention_bias": False,
      "text.attention_dropout": 0.0, "text.mlp_bias": False, "text.pretraining_tp": 1,
      "text.sliding_window": None}, True),
    ("Ministral 3 8B", "ministral3", WITH_TEXT +
     "dtype image_token_index multimodal_projector_bias projector_hidden_act "
     "spatial_merge_size transformers_version vision_feature_layer text.head_dim "
     "text.hidden_act text.hidden_size text.initializer_range text.intermediate_size "
     "text.max_position_embeddings text.model_type text.num_attention_heads "
     "text.num_hidden_layers text.num_key_value_heads text.rms_norm_eps text.rope_parameters "
     "text.use_cache text.vocab_size text.tie_word_embeddings",
     {"text.attention_dropout": 0.0, "text.sliding_window": None}, True),
    ("Mistral Small 4 119B", "mistral4", WITH_TEXT +
     "dtype image_token_index multimodal_projector_bias projector_hidden_act "
     "spatial_merge_size transformers_version vision_feature_layer " + " ".join(
         "text." + k for k in (MOE + MLA).split() if k != "scoring_func") +
     " text.attention_bias text.attention_dropout text.bos_token_id text.eos_token_id "
     "text.head_dim text.hidden_act text.hidden_size text.initializer_range "
     "text.intermediate_size text.max_position_embeddings text.model_type "
     "text.num_attention_heads text.num_hidden_layers text.num_key_value_heads "
     "text.output_router_logits text.pad_token_id text.pretraining_tp text.qk_head_dim "
     "text.rms_norm_eps text.rope_interleave text.rope_parameters "
     "text.tie_word_embeddings text.use_cache text.vocab_size",
     {"text.sliding_window": None}, True),
    ("Mixtral 8x7B Instruct", "mixtral", COMMON + "rope_theta num_experts_per_tok "
     "num_local_experts sliding_window", {"attention_dropout": 0.0, "output_router_logits":
                                          False, "router_aux_loss_coef": 0.02}, True),
    ("Qwen2.5 7B Instruct", "qwen2-bias", COMMON + "rope_theta", QWEN2, True),
    ("Qwen3 8B", "qwen3-bf16", COMMON + ROPE + "head_dim", QWEN3, True),
    ("Qwen3 8B AWQ", "qwen3-awq", COMMON + ROPE + "head_dim quantization_config", QWEN3, True),
    ("Qwen3 30B A3B", "qwen3moe-ct-mixed", COMMON + ROPE + "head_dim moe_intermediate_size "
     "norm_topk_prob num_experts num_experts_per_tok quantization_config decoder_sparse_step "
     "mlp_only_layers", QWEN3_MOE, True),
    ("Qwen3 VL 8B", "qwen3vl", WITH_TEXT +
     "image_token_id tie_word_embeddings transformers_version video_token_id "
     "vision_end_token_id vision_start_token_id text.bos_token_id text.dtype "
     "text.eos_token_id text.head_dim text.hidden_act text.hidden_size text.initializer_range "
     "text.intermediate_size text.max_position_embeddings text.model_type "
     "text.num_attention_heads text.num_hidden_layers text.num_key_value_heads "
     "text.rms_norm_eps text.rope_scaling text.rope_theta text.use_cache text.vocab_size",
     {"text.attention_bias": False, "text.attention_dropout": 0.0}, True),
    ("Qwen3 VL 30B A3B", "qwen3vlmoe", WITH_TEXT +
     "image_token_id tie_word_embeddings transformers_version video_token_id "
     "vision_end_token_id vision_start_token_id text.bos_token_id text.decoder_sparse_step "
     "text.dtype text.eos_token_id text.head_dim text.hidden_act text.hidden_size "
     "text.initializer_range text.intermediate_size text.max_position_embeddings "
     "text.mlp_only_layers text.model_type text.moe_intermediate_size "
     "text.num_attention_heads text.num_experts text.num_experts_per_tok "
     "text.num_hidden_layers text.num_key_value_heads text.rms_norm_eps text.rope_scaling "
     "text.rope_theta text.use_cache text.vocab_size",
     {"text.attention_bias": False, "text.attention_dropout": 0.0,
      "text.norm_topk_prob": True}, True),
    ("Qwen3-Next 80B A3B", "qwen3next", COMMON + ROPE + LINEAR + "head_dim "
     "moe_intermediate_size norm_topk_prob num_experts num_experts_per_tok "
     "partial_rotary_factor shared_expert_intermediate_size",
     {"attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1,
      "full_attention_interval": 4, "mlp_only_layers": [], "output_router_logits": False,
      "router_aux_loss_coef": 0.001, "use_sliding_window": False}, True),
    ("Qwen3.5 27B", "qwen35", QWEN35 + TEXT_OF_QWEN35 + "text.intermediate_size",
     QWEN35_OWN, True),
    ("Qwen3.5 35B A3B", "qwen35moe", QWEN35 + TEXT_OF_QWEN35 + "text.moe_intermediate_size "
     "text.num_experts text.num_experts_per_tok text.shared_expert_intermediate_size",
     dict(QWEN35_OWN, model_type="qwen3_5_moe",
          architectures=["Qwen3_5MoeForConditionalGeneration"],
          **{"text.router_aux_loss_coef": 0.001}), True),
    ("GLM-4.5 Air", "glm4moe-groups", COMMON + ROPE + MOE +
     "attention_bias head_dim partial_rotary_factor use_qk_norm pad_token_id",
     {"attention_dropout": 0.0, "num_nextn_predict_layers": 1}, True),
    ("GLM-4.7-Flash", "glm4moelite", COMMON + MOE + MLA +
     "rope_scaling rope_theta pad_token_id partial_rotary_factor",
     {"attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16",
      "num_nextn_predict_layers": 1, "topk_method": "noaux_tc"}, True),
    ("DeepSeek V3 0324", "deepseekv3-yarn", COMMON + ROPE + MOE + MLA, DEEPSEEK, True),
    ("Kimi K2 Instruct", "deepseekv3-yarn", COMMON + ROPE + MOE + MLA,
     dict(DEEPSEEK, aux_loss_alpha=0.001, seq_aux=True, num_nextn_predict_layers=0,
          pretraining_tp=1), True),
    ("Kimi Linear 48B A3B Instruct", "kimilinear", "architectures bos_token_id dtype eos_token_id "
     "first_k_dense_replace head_dim hidden_act hidden_size initializer_range intermediate_size "
     "linear_attn_config mla_use_nope model_max_length model_type moe_intermediate_size "
     "moe_layer_freq moe_renormalize moe_router_activation_func num_attention_heads "
     "num_expert_group num_experts num_experts_per_token num_hidden_layers num_key_value_heads "
     "num_shared_experts pad_token_id rms_norm_eps rope_theta routed_scaling_factor "
     "tie_word_embeddings topk_group transformers_version use_cache use_grouped_topk "
     "vocab_size " + MLA, {"auto_map": {"AutoConfig": "configuration_kimi.KimiLinearConfig"},
                           "num_nextn_predict_layers": 0, "rope_scaling": None}, True),
    ("Ling 3.0 tiny", "ling3", "architectures attention_dropout dtype eos_token_id "
     "expert_swiglu_limit_list first_k_dense_replace gated_attention_proj_granularity_type "
     "head_dim hidden_act hidden_size initializer_range intermediate_size kda_lower_bound "
     "kda_safe_gate layer_group_size share_expert_swiglu_limit_list "
     "max_position_embeddings model_type moe_intermediate_size moe_router_enable_expert_bias "
     "moe_shared_expert_intermediate_size mtp_loss_scaling_factor n_group no_kda_lora "
     "norm_topk_prob num_attention_heads num_experts num_experts_per_tok num_hidden_layers "
     "num_key_value_heads num_shared_experts pad_token_id partial_rotary_factor rms_norm_eps "
     "rope_interleave rotary_dim routed_scaling_factor score_function scoring_func "
     "short_conv_kernel_size tie_word_embeddings topk_group topk_method transformers_version "
     "use_cache use_kda_lora use_mla_nope use_qk_norm vocab_size " + MLA,
     {"auto_map": {"AutoConfig": "configuration_bailing_moe_v3.BailingMoeV3Config"},
      "embedding_dropout": 0.0, "group_norm_size": 1, "linear_silu": True,
      "max_window_layers": 20, "mtp_use_kda": False, "qk_head_dim": 24,
      "num_kv_heads_for_linear_attn": 0, "num_nextn_predict_layers": 0, "output_dropout": 0.0,
      "output_router_logits": False, "rope_theta": 6000000, "router_dtype": "fp32",
      "scale_router_input": False, "seq_aux": True, "up_proj_norm": False, "use_bias": False, "use_nGPT": False, "use_qkv_bias": False,
      "value_norm": False, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 6000000,
                                               "rope_type": "default"}}, True),
    ("DeepSeek V3.2", "deepseekv32", COMMON + "rope_scaling rope_theta index_head_dim "
     "index_n_heads index_topk " + MOE + MLA,
     dict(DEEPSEEK, auto_map=None), True),
    ("Seed-OSS 36B", "seedoss", COMMON + ROPE + "attention_bias attention_out_bias head_dim "
     "pad_token_id", {"attention_dropout": 0.1, "mlp_bias": False, "residual_dropout": 0.1},
     True),
    ("Granite 3.3 8B", "granite", COMMON + ROPE + GRANITE,
     {"attention_bias": False, "attention_dropout": 0.0, "mlp_bias": False}, True),
    ("Granite 3.1 3B A800M", "granitemoe", COMMON + ROPE + GRANITE +
     "num_experts_per_tok num_local_experts", GRANITE_MOE, True),
    ("Granite MoE Shared", "granitemoeshared", COMMON + ROPE + GRANITE +
     "num_experts_per_tok num_local_experts shared_intermediate_size", GRANITE_MOE, True),
    ("Granite 4.0 H Small", "granitehybridmoe", COMMON + ROPE + GRANITE + MAMBA + "layer_types "
     "num_experts_per_tok num_local_experts position_embedding_type shared_intermediate_size",
     dict(GRANITE_MOE, init_method="mup", normalization_function="rmsnorm"), True),
    ("Granite 4.0 H 1B", "granitehybrid", COMMON + ROPE + GRANITE + MAMBA + "layer_types "
     "num_experts_per_tok num_local_experts position_embedding_type shared_intermediate_size",
     dict(GRANITE_MOE, init_method="mup", normalization_function="rmsnorm"), True),
    ("Bamba 9B v2", "bamba", COMMON + ROPE + MAMBA + "attn_layer_indices pad_token_id",
     {"attention_bias": False, "attention_dropout": 0.0, "attn_rotary_emb": 64,
      "mlp_bias": False, "num_logits_to_keep": 1}, True),
    ("Falcon H1 0.5B", "falconh1", COMMON + ROPE + MAMBA + "attention_in_multiplier "
     "attention_out_multiplier embedding_multiplier head_dim key_multiplier lm_head_multiplier "
     "mamba_d_ssm mamba_norm_before_gate mamba_rms_norm mlp_multipliers pad_token_id "
     "ssm_in_multiplier ssm_multipliers ssm_out_multiplier",
     {"attention_bias": False, "attention_dropout": 0.0, "attn_layer_indices": None,
      "mamba_use_mlp": True, "mlp_bias": False, "mlp_expansion_factor": 8,
      "num_logits_to_keep": 1, "projectors_bias": False,
      "time_step_floor": 1e-4, "time_step_max": 0.1, "time_step_min": 0.001}, True),
    ("Nemotron Nano 12B v2", "nemotronh", NEMOTRON_KEYS + "attention_head_dim rms_norm_eps",
     NEMOTRON, True),
    ("Nemotron 3 Nano 30B A3B", "nemotronhmoe", NEMOTRON_KEYS + NEMOTRON_MOE,
     dict(NEMOTRON, partial_rotary_factor=1.0, rope_theta=10000), True),
    ("Nemotron 3 Super", "nemotronhsuper", NEMOTRON_KEYS + NEMOTRON_MOE + "moe_latent_size",
     dict(NEMOTRON, dtype="bfloat16", moe_shared_expert_overlap=False, mtp_hybrid_override_pattern="*E",
          num_nextn_predict_layers=1, partial_rotary_factor=1.0, rope_theta=10000), True),
    ("MiniMax M2", "minimaxm2", COMMON + "rope_theta head_dim num_experts_per_tok "
     "num_local_experts rotary_dim",
     {"attention_dropout": 0.0, "attn_type_list": [1, 1], "layernorm_full_attention_beta": 1.0,
      "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0,
      "max_model_len": 196608, "mlp_intermediate_size": 8192, "mtp_transformer_layers": 1,
      "num_mtp_modules": 3, "output_router_logits": False, "qk_norm_type": "per_layer",
      "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "scoring_func": "sigmoid",
      "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "use_mtp": True,
      "use_qk_norm": True, "use_routing_bias": True,
      "auto_map": {"AutoConfig": "configuration_minimax_m2.MiniMaxM2Config"}}, True),
    ("Llama 4 Scout", "llama4", WITH_TEXT +
     "boi_token_index eoi_token_index image_token_index torch_dtype transformers_version "
     "tie_word_embeddings text.attention_chunk_size text.attn_scale text.bos_token_id "
     "text.eos_token_id text.floor_scale text.head_dim text.hidden_act text.hidden_size "
     "text.initializer_range text.interleave_moe_layer_step text.intermediate_size "
     "text.intermediate_size_mlp text.max_position_embeddings text.model_type "
     "text.no_rope_layers text.num_attention_heads text.num_experts_per_tok "
     "text.num_hidden_layers text.num_key_value_heads text.num_local_experts "
     "text.pad_token_id text.rms_norm_eps text.rope_scaling text.rope_theta "
     "text.use_cache text.use_qk_norm text.vocab_size text.torch_dtype",
     {"text." + k: v for k, v in LLAMA4.items()}, True),
    ("ERNIE 4.5 0.3B", "ernie45", COMMON + ROPE + "head_dim pad_token_id",
     {"use_bias": False}, True),
    ("ERNIE 4.5 21B A3B", "ernie45moe", COMMON + "rope_theta moe_intermediate_size moe_k "
     "moe_layer_end_index moe_layer_interval moe_layer_start_index moe_num_experts "
     "moe_num_shared_experts pad_token_id",
     {"moe_capacity": [64, 64, 64], "moe_gate": "topk", "moe_use_aux_free": True,
      "num_nextn_predict_layers": 1, "rope_scaling": None, "use_bias": False,
      "dtype": "bfloat16", "is_quantized": False, "use_rmsnorm": True}, True),
    ("Hunyuan 7B", "hunyuan", COMMON + ROPE + "head_dim pad_token_id",
     {"add_classification_head": False, "attention_bias": False, "attention_dropout": 0.0,
      "attention_head_dim": 16, "cla_share_factor": 2, "class_num": 0, "dense_list": [32, 0],
      "eod_token_id": 3, "enable_lm_head_fp32": True, "im_end_id": 5, "im_newline_id": 11,
      "im_start_id": 4, "image_token_id": 0, "mask_init_id": 12, "mlp_bias": False,
      "norm_type": "rms", "org_vocab_size": 512, "pad_id": 501, "pool_type": "last",
      "pretraining_tp": 1, "sep_token_id": 4, "text_end_id": 7, "text_start_id": 6,
      "use_cla": False, "use_qk_norm": True, "use_rotary_pos_emb": True,
      "video_end_id": 10, "video_start_id": 9, "xdrope_section": None}, True),
    ("Hunyuan A13B", "hunyuanmoe", COMMON + ROPE + "num_experts pad_token_id head_dim",
     {"add_classification_head": False, "attention_bias": False, "attention_dropout": 0.0,
      "attention_head_dim": 16, "capacity_factor": 1.0, "cla_share_factor": 2, "class_num": 0,
      "dense_list": [32, 0], "eod_token_id": 3, "group_limited_greedy": False,
      "mlp_bias": False, "moe_drop_tokens": False, "moe_intermediate_size": [24, 24],
      "moe_layer_num_skipped": 0, "moe_random_routing_dropped_token": False,
      "moe_topk": [2, 2], "n_group": None, "norm_topk_prob": True, "norm_type": "rms",
      "num_shared_expert": [1, 1], "pool_type": "last", "pretraining_tp": 1,
      "routed_scaling_factor": 1.0, "topk_group": None,
      "unk_token_id": 0, "use_cla": False, "use_mixed_mlp_moe": True, "use_qk_norm": True,
      "use_rotary_pos_emb": True}, True),
    ("Hy3 Preview", "hyv3", COMMON + "head_dim moe_intermediate_size num_experts "
     "num_experts_per_tok num_shared_experts rope_parameters router_scaling_factor",
     {"attention_bias": False, "enable_attention_fp32_softmax": False,
      "enable_lm_head_fp32": True, "enable_moe_fp32_combine": False, "expert_hidden_dim": 24,
      "first_k_dense_replace": 1, "moe_router_enable_expert_bias": True,
      "moe_router_use_sigmoid": True, "num_nextn_predict_layers": 1,
      "output_router_logits": True, "qk_norm": True, "route_norm": True}, True),
    ("K-EXAONE 236B A23B", "exaonemoe", COMMON + "head_dim layer_types first_k_dense_replace "
     "mlp_layer_types moe_intermediate_size n_group norm_topk_prob num_experts "
     "num_experts_per_tok num_shared_experts pad_token_id rope_parameters "
     "routed_scaling_factor sliding_window topk_group",
     {"attention_dropout": 0.0, "is_moe_layer": [False, True, True, True],
      "num_nextn_predict_layers": 1, "scoring_func": "sigmoid",
      "sliding_window_pattern": "LLLG", "topk_method": "noaux_tc"}, True),
    ("Laguna XS 2.1", "laguna", COMMON + "gating head_dim layer_types mlp_layer_types "
     "moe_intermediate_size moe_routed_scaling_factor num_attention_heads_per_layer num_experts "
     "num_experts_per_tok rope_parameters shared_expert_intermediate_size sliding_window",
     {"attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1,
      "mlp_only_layers": [0], "moe_apply_router_weight_on_input": False,
      "norm_topk_prob": True, "output_router_logits": False, "qkv_bias": False,
      "router_aux_loss_coef": 0.0}, True),
    ("Step 3.7 Flash", "step37", WITH_TEXT + "image_token_id projector_bias " + " ".join(
        "text." + k for k in STEP),
     {"text.tie_word_embeddings": False, "text.model_type": "step3p5"}, True),
    ("Step 3.5 Flash", "step37", " ".join(STEP),
     {"architectures": ["Step3p5ForCausalLM"], "model_type": "step3p5",
      "tie_word_embeddings": False, "torch_dtype": "bfloat16",
      "auto_map": {"AutoConfig": "configuration_step3p5.Step3p5Config"}}, True),
    ("Muse Glimmer 30B", "museglimmer", WITH_TEXT +
     "dtype image_token_id out_hidden_size projector_hidden_act projector_hidden_size "
     "tie_word_embeddings transformers_version video_token_id " + " ".join("text." + k for k in (
         "attention_bias attention_dropout bos_token_id eos_token_id "
         "final_logit_softcapping head_dim hidden_activation hidden_size "
         "initializer_range intermediate_size layer_rope_theta layer_types "
         "max_position_embeddings model_type num_attention_heads "
         "num_hidden_layers num_key_value_heads output_multiplier pad_token_id "
         "post_norm_eps qk_scale_factor rms_norm_eps rope_parameters "
         "sliding_window tie_word_embeddings use_cache vocab_size").split()), {},
     True),
    ("OLMo 2 7B", "olmo2", COMMON + ROPE + "pad_token_id",
     {"attention_bias": False, "attention_dropout": 0.0}, True),
    ("Olmo 3 7B", "olmo3", COMMON + "rope_theta rope_scaling layer_types pad_token_id "
     "sliding_window", {"attention_bias": False, "attention_dropout": 0.0}, True),
    ("EXAONE 4.0 32B", "exaone4", COMMON + ROPE + "head_dim layer_types pad_token_id "
     "sliding_window", {"attention_dropout": 0.0, "sliding_window_pattern": "LLLG"}, True),
    ("EXAONE 4.0 1.2B", "exaone4", COMMON + ROPE + "head_dim pad_token_id",
     {"attention_dropout": 0.0, "layer_types": ["full_attention"] * 4, "sliding_window": None,
      "sliding_window_pattern": None}, False),
    ("Command R+", "cohere", COMMON.replace("rms_norm_eps ", "").replace(
        "tie_word_embeddings ", "") + "layer_norm_eps logit_scale pad_token_id rope_theta "
     "use_qk_norm", {"attention_bias": False, "attention_dropout": 0.0,
                     "model_max_length": 131072}, True),
    ("Command R7B", "cohere2", COMMON.replace("rms_norm_eps ", "").replace(
        "tie_word_embeddings ", "") + ROPE + "head_dim layer_norm_eps logit_scale "
     "pad_token_id sliding_window",
     {"attention_bias": False, "attention_dropout": 0.0, "cache_implementation": "hybrid",
      "layer_switch": 4, "order_of_interleaved_layers": "local_attn_first",
      "position_embedding_type": "rope_gptj", "rotary_pct": 1.0, "sliding_window_pattern": 4,
      "use_embedding_sharing": True, "use_gated_activation": True,
      "use_parallel_block": True, "use_parallel_embedding": False}, True),
    ("SmolLM3 3B", "smollm3", COMMON + ROPE + "layer_types no_rope_layer_interval "
     "no_rope_layers pad_token_id",
     {"attention_bias": False, "attention_dropout": 0.0, "max_window_layers": 28,
      "mlp_bias": False, "pretraining_tp": 2, "sliding_window": None,
      "use_sliding_window": False, "_name_or_path": "/checkpoints"}, True),
    ("LFM2 1.2B", "lfm2", COMMON.replace("hidden_act ", "").replace("rms_norm_eps ", "") +
     "block_auto_adjust_ff_dim block_ffn_dim_multiplier block_multiple_of conv_L_cache norm_eps "
     "pad_token_id rope_theta layer_types",
     {"block_dim": 32, "block_ff_dim": 72, "block_mlp_init_scale": 1.0, "block_norm_eps": 1e-5,
      "block_out_init_scale": 1.0, "block_use_swiglu": True,
      "block_use_xavier_init": True, "conv_bias": False, "head_dim": 8, "conv_dim": 32, "conv_dim_out": 32,
      "conv_use_xavier_init": True, "full_attn_idxs": [1], "num_heads": 4,
      "theta": 10000.0, "tie_embedding": True, "use_pos_enc": True}, True),
    ("LFM2 8B A1B", "lfm2moe", COMMON.replace("hidden_act ", "").replace("rms_norm_eps ", "") +
     "conv_L_cache layer_types moe_intermediate_size norm_eps norm_topk_prob num_dense_layers "
     "num_experts num_experts_per_tok pad_token_id rope_theta routed_scaling_factor "
     "use_expert_bias", {"conv_bias": False}, True),
    ("gpt-oss 20B", "gptoss", COMMON + ROPE + "attention_bias head_dim layer_types "
     "num_experts_per_tok num_local_experts pad_token_id sliding_window swiglu_limit",
     {"attention_dropout": 0.0, "experts_per_token": 2, "initial_context_length": 4096,
      "output_router_logits": False, "router_aux_loss_coef": 0.9}, True),
    ("Gemma 3 1B", "gemma3", "architectures attention_bias bos_token_id eos_token_id head_dim "
     "hidden_size initializer_range intermediate_size max_position_embeddings model_type "
     "num_attention_heads num_hidden_layers num_key_value_heads pad_token_id "
     "query_pre_attn_scalar rms_norm_eps rope_local_base_freq rope_theta sliding_window "
     "torch_dtype transformers_version use_cache vocab_size "
     "hidden_activation rope_scaling",
     {"attention_dropout": 0.0, "attn_logit_softcapping": None, "cache_implementation":
      "hybrid", "final_logit_softcapping": None, "sliding_window_pattern": 3}, True),
    ("Gemma 4 E2B", "gemma4", GEMMA4 + TEXT_OF_GEMMA4, dict(
        GEMMA4_OWN, architectures=["Gemma4ForConditionalGeneration"], model_type="gemma4",
        eos_token_id=[1, 106],
        vision_config=None, audio_config=None, image_token_id=258880, video_token_id=258884,
        audio_token_id=258881, **{"text.global_head_dim": 24,
                                  "text.num_global_key_value_heads": None}), True),
    ("Phi-3 mini 4k", "phi3", COMMON + ROPE + "embd_pdrop original_max_position_embeddings "
     "pad_token_id resid_pdrop sliding_window",
     {"attention_bias": False, "attention_dropout": 0.0, "_name_or_path": "Phi-3-mini",
      "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}, False),
    ("Phi-4 mini", "phi3", COMMON + ROPE + "embd_pdrop original_max_position_embeddings "
     "pad_token_id resid_pdrop sliding_window partial_rotary_factor",
     {"_name_or_path": "Phi-4-mini-instruct", "attention_bias": False, "attention_dropout": 0.0,
      "full_attn_mod": 1,
      "interpolate_factor": 1, "lm_head_bias": False, "mlp_bias": False,
      "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}, True),
    ("Qwen3.8-Flash-Next", "qwen4exp", WITH_TEXT + "image_token_id " + " ".join(
        "text." + k for k in (
            "attention_bias attention_dropout bos_token_id eos_token_id hc_count hc_lowrank "
            "head_dim heads_per_ngram hidden_act hidden_size indexer_budget "
            "indexer_compress_ratio indexer_head_dim indexer_kv_heads indexer_n_heads "
            "layer_types linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads "
            "linear_num_value_heads linear_value_head_dim make_ngram_vocab_size_divisible_by "
            "max_position_embeddings model_type moe_intermediate_size ngram_size "
            "ngram_vocab_size_base num_attention_heads num_experts num_experts_per_tok "
            "num_hidden_layers num_key_value_heads output_gate_type partial_rotary_factor "
            "ple_conv_kernel_size ple_embed_dim ple_layer_ids rms_norm_eps rope_parameters "
            "shared_expert_intermediate_size split_ngram_parts tie_word_embeddings "
            "vocab_size").split()),
     {"quantization_config": None, "text.full_attention_interval": 4,
      "text.mamba_ssm_dtype": "float32", "text.use_cache": True, "text.mtp_num_hidden_layers": 1,
      "text.mtp_use_dedicated_embeddings": False, "text.mtp": {
          "hybrid": True, "layer_types": ["full_attention"], "num_hidden_layers": 1,
          "rope_theta": 10000}}, True),
    ("GLM 5.3 Flash", "glm5next", WITH_TEXT + "image_token_id video_token_id " + " ".join(
        "text." + k for k in (
            "attention_bias attention_dropout bos_token_id dtype eos_token_id hc_eps hc_mult "
            "hc_sinkhorn_iters head_dim hidden_act hidden_size index_head_dim index_kpool "
            "index_kpool_always_select_tail index_n_heads index_topk indexer_types "
            "initializer_range intermediate_size kv_lora_rank max_position_embeddings "
            "mlp_layer_types model_type moe_intermediate_size n_group n_routed_experts "
            "n_shared_experts norm_topk_prob num_attention_heads num_experts_per_tok "
            "num_hidden_layers num_key_value_heads pad_token_id q_lora_rank qk_head_dim "
            "qk_nope_head_dim qk_rope_head_dim rms_norm_eps routed_scaling_factor swiglu_limit "
            "tie_word_embeddings topk_group use_cache v_head_dim vocab_size").split()),
     {"text.first_k_dense_replace": 1, "text.index_kpool_compress": True,
      "text.index_share_for_mtp_iteration": True, "text.indexer_rope_interleave": True,
      "text.layer_types": ["linear_attention"] + ["deepseek_sparse_attention"] * 2 +
                          ["linear_attention", "deepseek_sparse_attention"],
      "text.linear_attn_config": {
          "full_attn_layers": [1, 2, 4], "gate_lower_bound": -5.0, "head_dim": 20,
          "kda_layers": [0, 3], "num_heads": 4, "short_conv_kernel_size": 4},
      "text.mhc": True, "text.mla_use_nope": True, "text.moe_router_dtype": "float32",
      "text.num_nextn_predict_layers": 1, "text.scoring_func": "sigmoid",
      "text.topk_method": "noaux_tc"}, True),
    ("DeepSeek V4 Flash", "deepseekv4-fp8",
     "architectures attention_bias attention_dropout compress_rate_hca compress_ratios "
     "compress_rope_theta expert_dtype hc_eps hidden_act initializer_range norm_topk_prob "
     "tie_word_embeddings transformers_version use_cache "
     "hc_mult hc_sinkhorn_iters head_dim hidden_size index_head_dim index_n_heads index_topk "
     "max_position_embeddings model_type moe_intermediate_size n_routed_experts "
     "n_shared_experts num_attention_heads num_experts_per_tok num_hash_layers "
     "num_hidden_layers num_key_value_heads num_nextn_predict_layers o_groups o_lora_rank "
     "q_lora_rank qk_rope_head_dim quantization_config rms_norm_eps rope_scaling rope_theta "
     "routed_scaling_factor scoring_func sliding_window swiglu_limit torch_dtype vocab_size "
     "bos_token_id eos_token_id",  # compress_rate_hca: the small model's is not 128
     {"topk_method": "noaux_tc", "auto_map": {"AutoModel": "DeepseekV4ForCausalLM"}}, True),
    ("Gemma 4 26B A4B", "gemma4moe", WITH_TEXT + "audio_config audio_token_id image_token_id "
     "video_token_id " + GEMMA4 + TEXT_OF_GEMMA4,
     dict(GEMMA4_OWN, **{"text.global_head_dim": 32, "text.num_global_key_value_heads": 1}), True),
]

# Of alibaba/rtp-llm's tokenizers of seven models (rtp_llm/test/model_test/fake_test/testdata)
# each key is here, and those of Llama's and Gemma's, which are known.
GENERATION = [
    {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
     "max_length": 4096, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.31.0"},
    {"_from_model_config": True, "max_length": 10 ** 30 + 19884624838656, "eos_token_id": [2, 3],
     "transformers_version": "4.39.0", "do_sample": True, "top_k": 50},
    {"bos_token_id": 1, "eos_token_id": [2, 3, 4], "pad_token_id": 5, "do_sample": True,
     "temperature": None, "top_p": None, "cache_implementation": "hybrid",
     "repetition_penalty": 1.05, "no_repeat_ngram_size": None, "transformers_version": "4.55.0"},
]

TOKENIZER = [
    {"add_bos_token": True, "add_eos_token": False, "clean_up_tokenization_spaces": False,
     "legacy": False, "model_max_length": 10 ** 30 + 19884624838656, "pad_token": None,
     "padding_side": "right", "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer",
     "use_default_system_prompt": False, "extra_special_tokens": {}},
    {"clean_up_tokenization_spaces": True, "model_input_names": ["input_ids"],
     "model_max_length": 131072, "tokenizer_class": "PreTrainedTokenizerFast",
     "additional_special_tokens": ["<|im_end|>"], "errors": "replace", "split_special_tokens":
     False, "add_prefix_space": False, "unk_token": None, "backend": "tokenizers",
     "processor_class": "Gemma3Processor", "spaces_between_special_tokens": False,
     "auto_map": {"AutoTokenizer": [None, "x.X"]}, "is_local": False, "local_files_only": False,
     "do_lower_case": False, "remove_space": False},
]

AIC = "ai-dynamo/aiconfigurator: aic-core/src/aiconfigurator_core/model_configs/%s_config.json"
MLC = "mlc-ai/mlc-llm: python/mlc_llm/model/model_preset.py, %s"
MAXTEXT = ("AI-Hypercomputer/maxtext: "
           "src/maxtext/checkpoint_conversion/utils/hf_model_configs.py, %s_dict")
SIM = "inference-sim/inference-sim: model_configs/%s/config.json"
BRIDGE = "NVIDIA-NeMo/Megatron-Bridge: tests/unit_tests/models/%s"
# Where a key set was read: a public repository and a path in it, or who quotes the file. A row
# may have keys of other versions of that file, too. quantization_config is only there where the
# small model's weights are in that format; those have tests of their own.
SOURCES = {
    "Llama 2 7B Chat": SIM % "llama-2-7b-hf",
    "TinyLlama 1.1B Chat": MLC % "tinyllama_1b_chat_v1.0",
    "Llama 3.1 8B Instruct": AIC % "meta-llama--Meta-Llama-3.1-8B",
    "Llama 3.2 1B Instruct": MLC % "llama3_2_1b",
    "Mistral 7B v0.1": MLC % "mistral_7b",
    "Mistral 7B v0.3": MLC % "mistral_7b_v03",
    "Ministral 3 8B": MLC % "ministral3_3b_2512",
    "Mixtral 8x7B Instruct": AIC % "mistralai--Mixtral-8x7B-v0.1",
    "Qwen2.5 7B Instruct": SIM % "qwen2.5-7b-instruct",
    "Qwen3 8B": AIC % "Qwen--Qwen3-8B",
    "Qwen3 30B A3B": AIC % "Qwen--Qwen3-30B-A3B",
    "Qwen3 VL 8B": AIC % "Qwen--Qwen3-VL-8B-Instruct",
    "Qwen3 VL 30B A3B": AIC % "Qwen--Qwen3-VL-30B-A3B-Instruct",
    "Qwen3-Next 80B A3B": MAXTEXT % "qwen3_next_80b_a3b",
    "Qwen3.5 27B": AIC % "Qwen--Qwen3.5-27B",
    "Qwen3.5 35B A3B": AIC % "Qwen--Qwen3.5-35B-A3B",
    "GLM-4.5 Air": "alibaba/rtp-llm: "
                   "rtp_llm/test/model_test/fake_test/testdata/glm45/tokenizer/config.json",
    "GLM-4.7-Flash": "a test of a drafter on Apple's GPUs, with the keys of the file",
    "DeepSeek V3 0324": AIC % "deepseek-ai--DeepSeek-V3",
    "Kimi K2 Instruct": AIC % "moonshotai--Kimi-K2-Instruct",
    "GLM 5.3 Flash": "the keys that tests of vLLM and of converters give it",
    "Ling 3.0 tiny": "the config.json of a finetune of it, as an app's tests carry it",
    "Kimi Linear 48B A3B Instruct": "the config.json of a quantization of it in NVFP4",
    "DeepSeek V3.2": AIC % "deepseek-ai--DeepSeek-V3.2",
    "DeepSeek V4 Flash": AIC % "deepseek-ai--DeepSeek-V4-Flash",
    "Granite 4.0 H Small": "a test that quotes the text of granite-4.0-3b-vision",
    "Falcon H1 0.5B": BRIDGE % "falcon_h1/test_falcon_h1_bridge.py",
    "Nemotron Nano 12B v2": BRIDGE % "nemotronh/test_nemotron_h_bridge.py",
    "Nemotron 3 Nano 30B A3B": AIC % "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Nemotron 3 Super": AIC % "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "MiniMax M2": AIC % "MiniMaxAI--MiniMax-M2.5",
    "Llama 4 Scout": AIC % "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "ERNIE 4.5 21B A3B": "a test of PaddlePaddle/FastDeploy, which writes such a file",
    "Hunyuan 7B": "a log of a quantization, which prints the file of Hy-MT2-7B",
    "K-EXAONE 236B A23B": "tests of a runtime for Apple's GPUs, with the keys of the file",
    "Step 3.5 Flash": "a runtime in Zig, which reads the keys of the file",
    "Step 3.7 Flash": "configuration_step3p7.py of Hugging Face Transformers, for the keys "
                      "that the files on the hub have",
    "Laguna XS 2.1": "a test of a plugin for an inference server, with the keys of the file",
    "Hy3 Preview": "a test of a runtime for Apple's GPUs, with the keys of the file",
    "OLMo 2 7B": MLC % "olmo2_7b",
    "Olmo 3 7B": MAXTEXT % "olmo3_7b",
    "EXAONE 4.0 32B": "a test of NVIDIA/TensorRT-LLM, test_modeling_exaone4.py",
    "Command R+": MLC % "aya-23",
    "SmolLM3 3B": "a generator of a small model that keeps to the file's keys",
    "LFM2 1.2B": "a test of a container of LFM2-1.2B, which quotes its file",
    "gpt-oss 20B": AIC % "openai--gpt-oss-20b",
    "Gemma 3 1B": MLC % "gemma3_1b_it",
    "Gemma 4 E2B": MAXTEXT % "gemma4_e2b",
    "Gemma 4 26B A4B": AIC % "google--gemma-4-26B-A4B",
    "Phi-3 mini 4k": MLC % "phi-3_5",
    "Phi-4 mini": MLC % "phi-4",
    "Qwen3.8-Flash-Next": "tests of its readers in two servers, which are shaped as the file",
}
# Nobody quotes these as far as was found. Their keys are known of the published files.
KNOWN = ("Bielik 11B v2", "Mistral Small 3.2", "Mistral Small 4 119B", "Muse Glimmer 30B",
         "Qwen3 8B AWQ", "Seed-OSS 36B", "Voxtral Mini 3B", "Granite 3.3 8B",
         "Granite 3.1 3B A800M",
         "Granite MoE Shared", "Granite 4.0 H 1B", "Bamba 9B v2", "ERNIE 4.5 0.3B",
         "Hunyuan A13B", "EXAONE 4.0 1.2B", "Command R7B", "LFM2 8B A1B")
