#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints of architectures with more parts than make_dense_models.py can
compute by itself, and what Hugging Face Transformers makes of them in float32 on the CPU.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_hf_models.py [--all DIR] [--only NAME...]

Writes tests/golden/models/NAME; with --all also larger and odder ones to DIR, each of
which `haloctl verify --exact` must pass."""

import json
import os
import re
import shutil
import sys

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

GOLDEN = "tests/golden/models"
BASE = {"vocab_size": 512, "hidden_size": 32, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "intermediate_size": 32, "max_position_embeddings": 4096,
        "tie_word_embeddings": False, "bos_token_id": None, "eos_token_id": 500,
        "pad_token_id": 501}
DELTA = {"linear_conv_kernel_dim": 4, "linear_key_head_dim": 16,
         "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_value_head_dim": 16,
         "layer_types": ["linear_attention"] * 3 + ["full_attention"],
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                             "partial_rotary_factor": 0.25}}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
           "shared_expert_intermediate_size": 28}
OSS = {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
       "layer_types": ["sliding_attention", "full_attention"] * 2,
       "rope_parameters": {"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
                           "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                           "original_max_position_embeddings": 128}}
MLA = {"q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
       "qk_rope_head_dim": 8, "v_head_dim": 12, "head_dim": 8, "num_key_value_heads": 4,
       "num_hidden_layers": 3, "n_routed_experts": 4, "num_experts_per_tok": 2,
       "moe_intermediate_size": 24, "n_shared_experts": 1, "n_group": 2,
       "topk_group": 1, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
       "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0,
                           "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
                           "mscale_all_dim": 0.7,
                           "original_max_position_embeddings": 128}}
GEMMA = {"sliding_window": 16, "query_pre_attn_scalar": 24, "num_hidden_layers": 6,
         "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2,
         "tie_word_embeddings": True, "use_bidirectional_attention": False,
         "hidden_activation": "gelu_pytorch_tanh", "bos_token_id": 499,
         "rope_parameters": {
             "full_attention": {"rope_type": "linear", "factor": 8.0,
                                "rope_theta": 1000000.0},
             "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
MROPE = {"rope_parameters": {**DELTA["rope_parameters"], "mrope_interleaved": True,
                             "mrope_section": [1, 1, 0]}}


def seeing(text, vision):
    """Settings of a model with a vision tower, as small as can be, which is not read."""
    return {"text_config": {**BASE, **text}, "tie_word_embeddings": False,
            "vision_config": vision}


VISION = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1,
          "patch_size": 2, "spatial_merge_size": 1, "temporal_patch_size": 1,
          "out_hidden_size": 32, "num_position_embeddings": 4,
          "deepstack_visual_indexes": [0]}
QWEN_VL = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e6,
                               "mrope_interleaved": True, "mrope_section": [4, 2, 2]}}
QWEN_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
MISTRAL = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
           "model_type": "mistral", "sliding_window": None}
# Queries are longer from position 16 on.
LATE = {"model_type": "ministral3", "rope_parameters": {
    "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
    "original_max_position_embeddings": 16}}
# As Mistral Small 4: DeepSeek-V3's attention, and Ministral 3's queries.
MISTRAL4 = {**{k: v for k, v in MLA.items() if k != "head_dim"}, "model_type": "mistral4",
            "n_group": 1, "routed_scaling_factor": 1.0, "first_k_dense_replace": 0,
            "qk_nope_head_dim": 24, "head_dim": 32,
            "rope_parameters": LATE["rope_parameters"]}
PIXTRAL = {"model_type": "pixtral", "hidden_size": 8, "intermediate_size": 8,
           "num_hidden_layers": 1, "num_attention_heads": 1, "head_dim": 8,
           "patch_size": 2, "image_size": 4}
SCALES = {"embedding_multiplier": 1.5, "attention_multiplier": 0.6,
          "residual_multiplier": 0.22, "logits_scaling": 0.5, "rms_norm_eps": 1e-5,
          "head_dim": 8}
# As GGUF can say it: both scales of yarn are the same.
LITE = {**MLA, "n_group": 1, "mlp_layer_types": ["dense", "sparse", "sparse"],
        "n_shared_experts": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "rope_parameters": {**MLA["rope_parameters"], "mscale_all_dim": 1.0}}

PLAIN = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
SMALL = {**PLAIN, "num_hidden_layers": 2, "tie_word_embeddings": True}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 24}
PHI = {**SMALL, "rope_parameters": {**PLAIN["rope_parameters"],
                                    "partial_rotary_factor": 0.75}, "sliding_window": 24,
       "original_max_position_embeddings": 4096}
# Longer contexts than 32 or 512 tokens rotate by the long factors.
PHI_LONG = {**PHI, "head_dim": 8, "original_max_position_embeddings": 32,
            "max_position_embeddings": 256,
            "rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0,
                                "partial_rotary_factor": 0.75,
                                "short_factor": [1.0, 1.05, 1.3],
                                "long_factor": [1.3, 5.5, 31.5]}}
PHI_SHORT = {**PHI_LONG, "original_max_position_embeddings": 512,
             "max_position_embeddings": 4096}
MINIMAX = {**SMALL, **LOCAL, "rope_parameters": {**PLAIN["rope_parameters"],
                                                 "partial_rotary_factor": 0.5}}
# Layers that see all do not rotate.
EXAONE = {**SMALL, "num_hidden_layers": 4, "sliding_window": 16,
          "sliding_window_pattern": 4}
# Layers with a window rotate as if the context were not stretched.
OLMO = {**SMALL, "num_hidden_layers": 4, "sliding_window": 16,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                               "attention_factor": 1.2079441541679836, "beta_fast": 32.0,
                               "beta_slow": 1.0, "original_max_position_embeddings": 128},
            "sliding_attention": PLAIN["rope_parameters"]}}

# The width of its dense layers is not what intermediate_size says.
LFM = {**SMALL, "num_hidden_layers": 4, "norm_eps": 1e-5, "conv_L_cache": 3,
       "layer_types": ["conv", "full_attention", "conv", "conv"],
       "intermediate_size": 72, "block_multiple_of": 16, "head_dim": 8}

# As Granite 4 h-micro and h-tiny.
SPACE = {**SCALES, "num_hidden_layers": 4, "tie_word_embeddings": True,
         "layer_types": ["linear_attention", "linear_attention", "full_attention",
                         "linear_attention"],
         "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_d_conv": 4,
         "mamba_n_groups": 1, "mamba_expand": 2, "mamba_chunk_size": 16,
         "position_embedding_type": "nope",
         "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 40}

# As Bamba 9B.
BAMBA = {"num_hidden_layers": 4, "attn_layer_indices": [2], "tie_word_embeddings": False,
         "head_dim": 8, "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 16,
         "mamba_d_conv": 4, "mamba_n_groups": 2, "mamba_chunk_size": 16,
         "intermediate_size": 40}

# As Falcon-H1 0.5B, with each multiplier another than 1.
FALCON = {"num_hidden_layers": 3, "intermediate_size": 40, "mamba_d_ssm": 48,
          "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 16, "mamba_d_conv": 4,
          "mamba_n_groups": 2, "mamba_chunk_size": 16, "mamba_rms_norm": False,
          "mamba_norm_before_gate": False, "attention_in_multiplier": 0.8,
          "attention_out_multiplier": 0.9375, "embedding_multiplier": 5.656854249492381,
          "key_multiplier": 0.39062499999999994, "lm_head_multiplier": 0.390625,
          "mlp_multipliers": [0.8838834764831844, 0.5859375], "ssm_in_multiplier": 1.25,
          "ssm_multipliers": [0.3535533905932738, 0.25, 0.3535533905932738, 0.5,
                              0.7071067811865476],
          "ssm_out_multiplier": 0.23570226039551587,
          "rope_parameters": {"rope_type": "default", "rope_theta": 100000000000.0}}

# As Nemotron-H 8B and Nemotron 3 Nano: layers of one part.
NEMOTRON = {"layers_block_type": ["linear_attention", "mlp", "linear_attention",
                                  "full_attention", "mlp"],
            "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2,
            "conv_kernel": 4, "chunk_size": 16, "intermediate_size": 40}
NEMOTRON_MOE = {**NEMOTRON, "layers_block_type": ["linear_attention", "moe",
                                                  "full_attention", "moe"],
                "n_routed_experts": 4, "num_experts_per_tok": 2,
                "moe_intermediate_size": 24, "moe_shared_expert_intermediate_size": 40,
                "routed_scaling_factor": 2.5}

# As Qwen3.8-Flash-Next. An indexer keeps 8 blocks of 4 positions. Layers 1 and 3 read
# n-grams, up to three tokens long.
QWEN4 = {**DELTA, **EXPERTS, "hc_count": 4, "hc_lowrank": 24, "output_gate_type": "sigmoid",
         "layer_types": ["linear_attention", "indexed_attention"] * 2,
         "indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 16,
         "indexer_budget": 32, "indexer_compress_ratio": 4, "ple_layer_ids": [1, 3],
         "ple_embed_dim": 32, "heads_per_ngram": 2, "ngram_size": 3,
         "ngram_vocab_size_base": 97, "make_ngram_vocab_size_divisible_by": 16,
         "split_ngram_parts": 3}

# As Nemotron 3 Super: routed experts between two projections.
NEMOTRON_SUPER = {**NEMOTRON_MOE, "moe_latent_size": 24, "n_routed_experts": 8,
                  "n_group": 2, "topk_group": 1}

# As Scout, in small chunks; and as Maverick, with experts in every second layer.
LLAMA4 = {"num_hidden_layers": 4, "num_local_experts": 4, "num_experts_per_tok": 1,
          "intermediate_size": 32, "intermediate_size_mlp": 40, "attention_chunk_size": 32,
          "floor_scale": 16, "attn_scale": 0.3,
          "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                              "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                              "original_max_position_embeddings": 64}}
MAVERICK = {**LLAMA4, "interleave_moe_layer_step": 2, "attention_chunk_size": 8192,
            "floor_scale": 8192, "attn_scale": 0.1, "intermediate_size": 24}

# An indexer keeps 24 positions. With fewer heads positions tie at a score of 0.
SPARSE = {**MLA, "index_topk": 24, "index_head_dim": 16, "index_n_heads": 16,
          "mlp_layer_types": ["dense", "sparse", "sparse"],
          "rope_parameters": {**MLA["rope_parameters"], "mscale_all_dim": 1.0}}

HY3 = {**SMALL, "tie_word_embeddings": False, "num_hidden_layers": 3, "num_experts": 4,
       "num_experts_per_tok": 2, "moe_intermediate_size": 24, "num_shared_experts": 2,
       "intermediate_size": 40}

# Layers that see all do not rotate.
EXAONE_MOE = {**EXAONE, "tie_word_embeddings": False, "num_experts": 4,
              "num_experts_per_tok": 2, "moe_intermediate_size": 24, "num_shared_experts": 2,
              "intermediate_size": 40}

# As Laguna XS: other heads where there is a window, gates of heads.
LAGUNA = {"layer_types": ["full_attention"] + ["sliding_attention"] * 3, "sliding_window": 16,
          "num_attention_heads_per_layer": [4, 6, 6, 6], "gating": "per-head",
          "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "shared_expert_intermediate_size": 40, "moe_routed_scaling_factor": 2.5,
          "rope_parameters": {
              "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 32.0,
                                 "beta_fast": 64.0, "beta_slow": 1.0,
                                 "attention_factor": 1.3465735902799727,
                                 "original_max_position_embeddings": 128,
                                 "partial_rotary_factor": 0.5},
              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                    "partial_rotary_factor": 1.0}}}

# As Step 3.7: other heads where there is a window; limits of the routed experts, of the shared
# one and of the dense layer, alike and not.
STEP = {"num_hidden_layers": 5, "layer_types":
        ["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"],
        "sliding_window": 16, "num_sliding_attention_heads": 6, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24, "share_expert_dim": 40,
        "moe_router_scaling_factor": 3.0, "mlp_layer_types": ["dense"] + ["sparse"] * 4,
        "swiglu_limits": [0.0, 0.75, 0.0, 0.75, 0.5],
        "swiglu_limits_shared": [1.5, 0.75, 1.5, 0.0, 1.5],
        "rope_parameters": {
            "full_attention": {"rope_type": "llama3", "rope_theta": 5e6, "factor": 2.0,
                               "original_max_position_embeddings": 128,
                               "low_freq_factor": 1.0, "high_freq_factor": 32.0,
                               "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0,
                                  "partial_rotary_factor": 1.0}}}
STEP_TOWER = {"width": 8, "layers": 1, "heads": 1, "mlp_ratio": 1.0, "image_size": 28}

# Layers with a window rotate, every fourth from the last one on sees all.
MUSE = {**PLAIN, "num_hidden_layers": 5, "sliding_window": 16, "qk_scale_factor": 1.5,
        "output_multiplier": 0.35, "final_logit_softcapping": 4.0}
MUSE_TOWER = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
              "num_attention_heads": 1, "patch_size": 2, "pos_emb_height": 2,
              "pos_emb_width": 2}

# "dynamic" with alpha stretches the base alone.
HUNYUAN = {**SMALL, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0,
                                        "alpha": 1000.0, "factor": 1.0}}

# As E2B: embeddings of each layer; the last layers read keys and values of those before
# them, and are twice as wide.
GEMMA4_ROPE = {"rope_parameters": {
    "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                       "partial_rotary_factor": 0.25},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}
GEMMA4 = {**GEMMA4_ROPE, "num_hidden_layers": 6, "tie_word_embeddings": True,
          "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2,
          "sliding_window": 16, "global_head_dim": 24, "hidden_size_per_layer_input": 8,
          "vocab_size_per_layer_input": 512, "num_kv_shared_layers": 3,
          "use_double_wide_mlp": True, "final_logit_softcapping": 4.0,
          "bos_token_id": 499}
# As 26B-A4B: experts beside a dense part; keys are values where all is seen.
GEMMA4_MOE = {**GEMMA4_ROPE, "num_hidden_layers": 4, "tie_word_embeddings": True,
              "layer_types": ["sliding_attention", "full_attention"] * 2,
              "sliding_window": 16, "global_head_dim": 32, "num_global_key_value_heads": 1,
              "attention_k_eq_v": True, "hidden_size_per_layer_input": 0,
              "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
              "moe_intermediate_size": 24, "final_logit_softcapping": 4.0,
              "bos_token_id": 499}

# The layer with latent attention is not the first, and heads of both kinds differ in size.
KIMI = {"num_key_value_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "num_local_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 24, "n_shared_experts": 1, "linear_head_dim": 20,
        "linear_num_heads": 4,
        "layer_types": ["linear_attention"] * 2 + ["full_attention", "linear_attention"]}
LING = {"num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 32, "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8, "v_head_dim": 12, "num_local_experts": 8, "num_experts_per_tok": 2,
        "n_group": 4, "topk_group": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
        "head_dim": 20, "layer_group_size": 2, "first_k_dense_replace": 1, "pad_token_id": None}
# As Ling 3 flash: limits of the routed experts and of the shared one, alike and not.
LING_LIMITS = {"expert_swiglu_limit_list": [0, 0.75, 0, 0.75],
               "share_expert_swiglu_limit_list": [0, 1.5, 1.0, 0.75]}
# As GLM-5.3 Flash: 16 positions in pools of 4. The third layer sees what the second one chose.
GLM5 = {"num_key_value_heads": 4, "num_hidden_layers": 5, "q_lora_rank": 24, "kv_lora_rank": 32,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 0, "v_head_dim": 12, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_shared_experts": 1,
        "layer_types": ["linear_attention"] + ["indexed_attention"] * 2 +
                       ["linear_attention", "indexed_attention"],
        "indexer_types": ["full", "full", "shared", "full", "full"],
        "mlp_layer_types": ["dense"] + ["sparse"] * 4, "index_topk": 16, "index_kpool": 4,
        "index_head_dim": 16, "index_n_heads": 16, "linear_head_dim": 20, "linear_num_heads": 4,
        "swiglu_limit": 0.75}
GLM5_TOWER = {"depth": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 1,
              "patch_size": 2, "image_size": 4, "out_hidden_size": 32,
              "projection_intermediate_size": 8}
# name: (class of the config, class of the model, settings, goes into the repository)
COMPRESSED = {"num_key_value_heads": 1, "head_dim": 16, "q_lora_rank": 24,
              "qk_rope_head_dim": 8, "moe_intermediate_size": 24, "n_routed_experts": 4,
              "num_experts_per_tok": 2, "o_groups": 2, "o_lora_rank": 16, "index_n_heads": 16,
              "index_head_dim": 16, "index_topk": 8, "sliding_window": 24,
              "layer_types": ["sliding_attention", "compressed_sparse_attention",
                              "heavily_compressed_attention", "compressed_sparse_attention"],
              "compress_rates": {"compressed_sparse_attention": 4,
                                 "heavily_compressed_attention": 32},
              "num_hash_layers": 2, "swiglu_limit": 0.75,
              "rope_parameters": {"rope_type": "yarn", "factor": 16.0, "beta_fast": 32.0,
                                  "beta_slow": 1.0, "original_max_position_embeddings": 256}}
MODELS = {
    "qwen3next": (hf.Qwen3NextConfig, hf.Qwen3NextForCausalLM,
                  {**DELTA, **EXPERTS}, True),
    "gptoss": (hf.GptOssConfig, hf.GptOssForCausalLM, OSS, True),
    "deepseekv3-yarn": (hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM, MLA, True),
    "qwen35": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM, {**DELTA, **MROPE}, True),
    "qwen35-heads64": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM,
                       {**DELTA, "head_dim": 64, "linear_key_head_dim": 64,
                        "linear_value_head_dim": 64}, False),
    "qwen35moe": (hf.Qwen3_5MoeTextConfig, hf.Qwen3_5MoeForCausalLM,
                  {**DELTA, **MROPE, **EXPERTS}, True),
    "qwen35moe-tied": (hf.Qwen3_5MoeTextConfig, hf.Qwen3_5MoeForCausalLM,
                       {**DELTA, **MROPE, **EXPERTS, "tie_word_embeddings": True}, False),
    "qwen3next-wide": (hf.Qwen3NextConfig, hf.Qwen3NextForCausalLM,
                       {**DELTA, **EXPERTS, "linear_num_value_heads": 8,
                        "linear_key_head_dim": 32, "linear_value_head_dim": 24,
                        "linear_conv_kernel_dim": 3, "num_hidden_layers": 6,
                        "layer_types": ["full_attention", "linear_attention"] * 3,
                        "mlp_only_layers": [1], "norm_topk_prob": False}, False),
    "deepseekv3-dense": (hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM,
                         {**MLA, "first_k_dense_replace": 3}, False),
    "deepseekv3-plain": (hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM,
                         {**MLA, "q_lora_rank": None, "rope_interleave": False,
                          "n_group": 1, "n_shared_experts": 2,
                          "rope_parameters": {"rope_type": "default",
                                              "rope_theta": 10000.0}}, False),
    "qwen35-yarn": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM,
                    {**DELTA, "head_dim": 32, "layer_types": [
                        "linear_attention", "full_attention"] * 2,
                     "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4,
                                         "factor": 4.0, "partial_rotary_factor": 0.5,
                                         "original_max_position_embeddings": 64}}, True),
    "gemma3": (hf.Gemma3TextConfig, hf.Gemma3ForCausalLM, GEMMA, True),
    "qwen3vl": (hf.Qwen3VLConfig, hf.Qwen3VLForConditionalGeneration,
                seeing(QWEN_VL, VISION), True),
    "qwen3vlmoe": (hf.Qwen3VLMoeConfig, hf.Qwen3VLMoeForConditionalGeneration,
                   seeing({**QWEN_VL, **QWEN_MOE}, VISION), True),
    "mistral3": (hf.Mistral3Config, hf.Mistral3ForConditionalGeneration,
                 seeing(MISTRAL, PIXTRAL), True),
    "seedoss": (hf.SeedOssConfig, hf.SeedOssForCausalLM, {}, True),
    "granite": (hf.GraniteConfig, hf.GraniteForCausalLM, SCALES, True),
    "smollm3": (hf.SmolLM3Config, hf.SmolLM3ForCausalLM, {"no_rope_layers": [1, 1, 1, 0]},
                True),
    "glm4moelite": (hf.Glm4MoeLiteConfig, hf.Glm4MoeLiteForCausalLM, LITE, True),
    "ministral3": (hf.Mistral3Config, hf.Mistral3ForConditionalGeneration,
                   seeing(LATE, PIXTRAL), True),
    "phi3": (hf.Phi3Config, hf.Phi3ForCausalLM, PHI, True),
    "mixtral": (hf.MixtralConfig, hf.MixtralForCausalLM, {**SMALL, **LOCAL}, True),
    "granitemoe": (hf.GraniteMoeConfig, hf.GraniteMoeForCausalLM,
                   {**SMALL, **LOCAL, **SCALES}, True),
    "minimaxm2": (hf.MiniMaxM2Config, hf.MiniMaxM2ForCausalLM, MINIMAX, True),
    "olmo2": (hf.Olmo2Config, hf.Olmo2ForCausalLM, {**SMALL, "head_dim": 8}, True),
    "olmo3": (hf.Olmo3Config, hf.Olmo3ForCausalLM, {**OLMO, "head_dim": 8}, True),
    "lfm2": (hf.Lfm2Config, hf.Lfm2ForCausalLM, LFM, True),
    "lfm2moe": (hf.Lfm2MoeConfig, hf.Lfm2MoeForCausalLM,
                {**LFM, "intermediate_size": 48, "num_experts": 4,
                 "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                 "num_dense_layers": 1}, True),
    "exaone4": (hf.Exaone4Config, hf.Exaone4ForCausalLM, EXAONE, True),
    "gemma4": (hf.Gemma4TextConfig, hf.Gemma4ForCausalLM, GEMMA4, True),
    "gemma4moe": (hf.Gemma4Config, hf.Gemma4ForConditionalGeneration,
                  seeing(GEMMA4_MOE, {
                      "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8,
                      "patch_size": 2, "position_embedding_size": 4}), True),
    "granitehybrid": (hf.GraniteMoeHybridConfig, hf.GraniteMoeHybridForCausalLM, SPACE,
                      True),
    "granitehybridmoe": (hf.GraniteMoeHybridConfig, hf.GraniteMoeHybridForCausalLM,
                         {**SPACE, **LOCAL, "mamba_n_groups": 2}, True),
    "nemotronh": (hf.NemotronHConfig, hf.NemotronHForCausalLM, NEMOTRON, True),
    "nemotronhmoe": (hf.NemotronHConfig, hf.NemotronHForCausalLM, NEMOTRON_MOE, True),
    "granitemoeshared": (hf.GraniteMoeSharedConfig, hf.GraniteMoeSharedForCausalLM,
                         {**SMALL, **LOCAL, **SCALES, "shared_intermediate_size": 40}, True),
    "ernie45": (hf.Ernie4_5Config, hf.Ernie4_5ForCausalLM, SMALL, True),
    "hunyuan": (hf.HunYuanDenseV1Config, hf.HunYuanDenseV1ForCausalLM, HUNYUAN, True),
    "hunyuanmoe": (hf.HunYuanMoEV1Config, hf.HunYuanMoEV1ForCausalLM,
                   {**SMALL, "intermediate_size": 24, "num_experts": 4, "moe_topk": 2}, True),
    "ernie45moe": (hf.Ernie4_5_MoeConfig, hf.Ernie4_5_MoeForCausalLM,
                   {**SMALL, "num_hidden_layers": 3, "moe_num_experts": 4, "moe_k": 2,
                    "moe_intermediate_size": 24, "moe_num_shared_experts": 2}, True),
    "bamba": (hf.BambaConfig, hf.BambaForCausalLM, BAMBA, True),
    "qwen4exp": (hf.Qwen4ExpConfig, hf.Qwen4ExpForConditionalGeneration,
                 {**seeing(QWEN4, VISION), "image_token_id": 502}, True),
    "llama4": (hf.Llama4Config, hf.Llama4ForConditionalGeneration,
               seeing(LLAMA4, {
                   "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
                   "num_attention_heads": 1, "patch_size": 2, "image_size": 4,
                   "vision_output_dim": 8, "projector_input_dim": 8,
                   "projector_output_dim": 8}), True),
    "llama4-dense": (hf.Llama4TextConfig, hf.Llama4ForCausalLM, MAVERICK, True),
    "nemotronhsuper": (hf.NemotronHConfig, hf.NemotronHForCausalLM, NEMOTRON_SUPER, True),
    "deepseekv32": (hf.DeepseekV32Config, hf.DeepseekV32ForCausalLM, SPARSE, True),
    "deepseekv4": (hf.DeepseekV4Config, hf.DeepseekV4ForCausalLM, COMPRESSED, True),
    "phi3-long": (hf.Phi3Config, hf.Phi3ForCausalLM, PHI_LONG, True),
    "phi3-short": (hf.Phi3Config, hf.Phi3ForCausalLM, PHI_SHORT, True),
    # Command R+, and Command R7B.
    "cohere": (hf.CohereConfig, hf.CohereForCausalLM,
               {**SMALL, "use_qk_norm": True, "logit_scale": 0.25}, True),
    "cohere2": (hf.Cohere2Config, hf.Cohere2ForCausalLM,
                {**SMALL, "num_hidden_layers": 4, "sliding_window": 16, "logit_scale": 0.25,
                 "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, True),
    "laguna": (hf.LagunaConfig, hf.LagunaForCausalLM, LAGUNA, True),
    # As Laguna M: gates of channels, no window.
    "laguna-each": (hf.LagunaConfig, hf.LagunaForCausalLM,
                    {**SMALL, **{k: v for k, v in LAGUNA.items() if k not in (
                        "layer_types", "sliding_window", "num_attention_heads_per_layer",
                        "rope_parameters")}, "gating": "per-element", "rope_parameters": {
                            "full_attention": PLAIN["rope_parameters"],
                            "sliding_attention": PLAIN["rope_parameters"]}}, False),
    "museglimmer": (hf.MuseGlimmerConfig, hf.MuseGlimmerForConditionalGeneration,
                    {**seeing(MUSE, MUSE_TOWER), "out_hidden_size": 32,
                     "projector_hidden_size": 8}, True),
    "mistral4": (hf.Mistral3Config, hf.Mistral3ForConditionalGeneration,
                 seeing(MISTRAL4, PIXTRAL), True),
    "exaonemoe": (hf.ExaoneMoeConfig, hf.ExaoneMoeForCausalLM, EXAONE_MOE, True),
    "hyv3": (hf.HYV3Config, hf.HYV3ForCausalLM, HY3, True),
    "falconh1": (hf.FalconH1Config, hf.FalconH1ForCausalLM, FALCON, True),
    # As Falcon-H1 7B, whose state spaces have norms; and a head that is the embeddings.
    "falconh1-norm": (hf.FalconH1Config, hf.FalconH1ForCausalLM,
                      {**FALCON, "mamba_rms_norm": True, "tie_word_embeddings": True}, False),
    "kimilinear": (hf.KimiLinearConfig, hf.KimiLinearForCausalLM, KIMI, True),
    "ling3": (hf.BailingHybridConfig, hf.BailingHybridForCausalLM, LING, True),
    "step37": (hf.Step3p7Config, hf.Step3p7ForConditionalGeneration,
               seeing(STEP, STEP_TOWER), True),
    "glm5next": (hf.Glm5NextConfig, hf.Glm5NextForConditionalGeneration,
                 seeing(GLM5, GLM5_TOWER), True),
}


def randomize(model, rng):
    """Large enough for attention, gates and routers to choose."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=rng)
            if "norm" in name or name.endswith(("router.scale", "per_expert_scale")):  # near 1, or near 0 where 1 is added
                p.copy_(p + 0.1 * noise)
                if name.endswith("q_norm.weight") and "gemma4" in model.config.model_type:
                    p.mul_(0.25)  # Gemma 4 does not divide q . k by the root of a head
                if name.endswith("router.scale"):
                    p.mul_(4)  # it is divided by the root of the width
            elif name.endswith("A_log"):
                p.copy_(noise)
            elif p.dim() == 1 or "bias" in name:
                p.copy_(0.5 * noise)
            elif "conv1d" in name or ".conv.conv." in name:
                p.copy_(0.5 * noise)
            elif "embed" in name:
                p.copy_(0.5 * noise)
            else:
                # Of experts in one tensor either dimension may be the input.
                p.copy_(1.5 * noise / min(p.shape[-1], 64) ** 0.5)
            # A position more or less must not decide what attention gives.
            if "q_b_proj" in name and model.config.model_type in (
                    "deepseek_v32", "deepseek_v4", "glm5_next"):
                p.mul_(0.25)
            if "kv_b_proj" in name and model.config.model_type == "glm5_next":
                p.mul_(0.5)  # nor a pool of them
        for name, b in model.named_buffers():
            if "e_score_correction_bias" in name or "expert_bias" in name:
                b.copy_(0.2 * torch.randn(b.shape, generator=rng))
            elif name.endswith("tid2eid"):
                b.copy_(torch.rand(b.shape[0], model.config.n_routed_experts,
                                   generator=rng).topk(b.shape[1]).indices)
            elif name.endswith("layer_scalar"):
                b.copy_(0.3 + torch.rand(b.shape, generator=rng))


def case(model, prompt, n):
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(n):
            row = model(torch.tensor([ids])).logits[0, -1]
            ids.append(int(row.argmax()))
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
    first, steps = len(prompt) - 1, []
    for i in range(n):
        top = rows[first + i].topk(5)
        steps.append({"token": ids[len(prompt) + i],
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
    return {"prompt_ids": ids[:len(prompt)],
            "prompt_logprobs": [round(float(rows[i, ids[i + 1]]), 5)
                                for i in range(first)],
            "continuation_ids": ids[len(prompt):], "steps": steps}


def publish_kimi(folder):
    """config.json as Kimi-Linear is published, and the names of its dense layers."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    types = config.pop("layer_types")
    config["linear_attn_config"] = {
        "full_attn_layers": [i + 1 for i, kind in enumerate(types) if kind == "full_attention"],
        "kda_layers": [i + 1 for i, kind in enumerate(types) if kind != "full_attention"],
        "head_dim": config.pop("linear_head_dim"), "num_heads": config.pop("linear_num_heads"),
        "short_conv_kernel_size": config.pop("linear_conv_kernel_dim")}
    config["first_k_dense_replace"] = config.pop("mlp_layer_types").index("sparse")
    for ours, published in (("num_local_experts", "num_experts"),
                            ("num_experts_per_tok", "num_experts_per_token"),
                            ("n_group", "num_expert_group"), ("norm_topk_prob", "moe_renormalize"),
                            ("n_shared_experts", "num_shared_experts"),
                            ("max_position_embeddings", "model_max_length")):
        if ours in config:
            config[published] = config.pop(ours)
    config.update(mla_use_nope=True, moe_router_activation_func="sigmoid", moe_layer_freq=1,
                  use_grouped_topk=True, rope_theta=10000.0)
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
    path = os.path.join(folder, "model.safetensors")
    dense = re.compile(r"block_sparse_moe(?=\.(gate|up|down)_proj)")
    save_file({dense.sub("mlp", name): t for name, t in load_file(path).items()}, path,
              {"format": "pt"})


def publish_ling(folder):
    """config.json as Ling 3 is published."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    for ours in ("layer_types", "mlp_layer_types", "qk_head_dim", "linear_num_heads"):
        config.pop(ours, None)
    config["head_dim"] = config.pop("linear_head_dim")
    config["short_conv_kernel_size"] = config.pop("linear_conv_kernel_dim")
    for saved, published in (("num_experts_per_token", "num_experts_per_tok"),
                             ("num_expert_group", "n_group"),
                             ("moe_renormalize", "norm_topk_prob"),
                             ("model_max_length", "max_position_embeddings")):
        if saved in config:
            config[published] = config.pop(saved)
    config.update(architectures=["BailingMoeV3ForCausalLM"], no_kda_lora=True,
                  use_kda_lora=False, use_mla_nope=False, rope_interleave=True,
                  gated_attention_proj_granularity_type="head_wise", rotary_dim=8,
                  partial_rotary_factor=0.5, use_qk_norm=True, scoring_func="sigmoid",
                  score_function="sigmoid", topk_method="noaux_tc",
                  moe_router_enable_expert_bias=True,
                  moe_shared_expert_intermediate_size=config["moe_intermediate_size"],
                  **LING_LIMITS)
    with open(path, "w") as f:
        json.dump(config, f, indent=2)


def limit_ling(model):
    """LING_LIMITS, which Transformers does not read, as the model's makers apply them in vLLM:
    min(silu(gate), limit) * max(min(up, limit), -limit)."""
    def apply(limit, gate, up):
        gate = torch.nn.functional.silu(gate)
        return gate.clamp(max=limit) * up.clamp(-limit, limit) if limit else gate * up

    def shared(part, limit):
        part.forward = lambda x: part.down_proj(
            apply(limit, part.gate_proj(x), part.up_proj(x)))

    def routed(part, limit):
        def forward(x, chosen, weight):
            out = torch.zeros_like(x)
            for e in range(part.num_experts):
                token, place = torch.where(chosen == e)
                gate, up = (x[token] @ part.gate_up_proj[e].T).chunk(2, dim=-1)
                y = apply(limit, gate, up) @ part.down_proj[e].T
                out.index_add_(0, token, y * weight[token, place, None])
            return out
        part.forward = forward

    for i, layer in enumerate(model.model.layers):
        if hasattr(layer.mlp, "experts"):
            routed(layer.mlp.experts, LING_LIMITS["expert_swiglu_limit_list"][i])
            shared(layer.mlp.shared_experts, LING_LIMITS["share_expert_swiglu_limit_list"][i])


def publish_step(folder):
    """config.json as Step 3.7 is published: a number a layer, for the MTP layers too."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    c = config["text_config"]
    rope, types, mlp = (c.pop(k) for k in ("rope_parameters", "layer_types", "mlp_layer_types"))
    full = rope["full_attention"]
    c["layer_types"] = types + ["sliding_attention"] * 3
    for key, own in (("rope_theta", "rope_theta"),
                     ("partial_rotary_factors", "partial_rotary_factor")):
        c[key] = [rope[kind][own] for kind in c["layer_types"]]
    c["rope_scaling"] = {k: v for k, v in full.items() if k not in (
        "rope_theta", "partial_rotary_factor")}
    c["moe_layers_enum"] = ",".join(str(i) for i, kind in enumerate(mlp) if kind == "sparse")
    for key in "swiglu_limits", "swiglu_limits_shared":
        c[key] += [0.0] * 3
    heads = c.pop("num_sliding_attention_heads")
    c["attention_other_setting"] = {
        "attention_type": "sliding_attention", "num_attention_heads": heads,
        "num_attention_groups": c["num_key_value_heads"], "head_dim": c["head_dim"],
        "true_head_dim": c["head_dim"]}
    for ours, published in (("num_key_value_heads", "num_attention_groups"),
                            ("n_routed_experts", "moe_num_experts"),
                            ("num_experts_per_tok", "moe_top_k")):
        c[published] = c.pop(ours)
    for key in ("per_layer_config", "mtp_layer_types", "mtp_mlp_layer_types",
                "query_pre_attn_scalar", "num_local_experts"):
        c.pop(key, None)
    c.update(model_type="step3p5", num_nextn_predict_layers=3, att_impl_type="GQA",
             moe_every_n_layer=1, moe_layer_offset=0, moe_router_activation="sigmoid",
             need_fp32_gate=True, norm_expert_weight=True, sink=False, use_mfa=False,
             use_head_wise_attn_gate=True, use_moe=True, use_moe_router_bias=True,
             use_qk_norm=True, use_rope_layers=[], yarn_only_types=["full_attention"],
             zero_centered=True)
    with open(path, "w") as f:
        json.dump(config, f, indent=2)


def transpose_experts(folder):
    """As Qwen3-VL-MoE is published: rows and columns of its experts changed."""
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    for name, t in tensors.items():
        if ".experts." in name:
            tensors[name] = t.transpose(1, 2).contiguous()
    save_file(tensors, path, {"format": "pt"})


# Tokens of the prompts, where others than the usual ones are of interest.
LENGTHS = {"phi3-long": (40, 150)}


def make(i, name, into):
    config_class, model_class, settings, _ = MODELS[name]
    rng = torch.Generator().manual_seed(7 + i)
    config = config_class(**(settings if "text_config" in settings else
                             {**BASE, **settings}))
    folder = os.path.join(into, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = model_class(config).eval()
    randomize(model, rng)
    model = model.to(torch.bfloat16)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.remove(os.path.join(folder, extra))
    if name == "qwen3vlmoe":
        transpose_experts(folder)
    if name == "kimilinear":
        publish_kimi(folder)
    if name == "ling3":
        publish_ling(folder)
    if name == "step37":
        publish_step(folder)
    # As it is on disk: to(bfloat16) has also rounded the frequencies of rope.
    model = model_class.from_pretrained(folder, dtype=torch.float32,
                                        attn_implementation="eager",
                                        experts_implementation="eager").eval()
    if name == "llama4":  # the whole model of this version fails without images
        model = model.language_model
    if name == "ling3":
        limit_ling(model)
    # As with weights in bfloat16, which scale embeddings by a number of that type.
    for buffer, b in model.named_buffers():
        if buffer.endswith("embed_scale"):
            b.copy_(b.to(torch.bfloat16))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 12)
             for n in LENGTHS.get(name.rstrip("~"), (1, 23, 150))]
    if name == "qwen4exp":  # n-grams end where a text does
        ids = torch.randint(0, 500, (40,), generator=rng).tolist()
        for at in (5, 11, 12, 20, 22, 38):
            ids[at] = 500
        cases.append(case(model, ids, 4))
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_hf_models.py",
                   "cases": cases}, f)
    size = sum(os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder))
    print("%s: %d KB, transformers %s" % (folder, size // 1024, hf.__version__))


def main():
    more = sys.argv[2] if sys.argv[1:2] == ["--all"] else None
    torch.set_num_threads(2)
    only = sys.argv[2:] if sys.argv[1:2] == ["--only"] else list(MODELS)
    for i, name in enumerate(MODELS):
        if name not in only:
            continue
        if MODELS[name][3]:
            make(i, name, GOLDEN)
        elif more:
            make(i, name, more)


if __name__ == "__main__":
    main()
