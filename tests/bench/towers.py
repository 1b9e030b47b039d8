#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders with vision and audio towers of the widths of published models, for `haloctl kernels
predict --image` and `--audio`. Weights are zero and take no room. Voxtral has its text, the others
have none.

    towers.py OUT [NAME...]

Writes OUT/NAME. The rest of each folder is that of a tiny model in tests/golden/vision. Sizes are
those of the models' config.json; of Gemma 4, what Transformers takes where it says nothing."""

import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden/vision")
SO400M = {"hidden_size": 1152, "intermediate_size": 4304}
GEMMA4 = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
          "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64,
          "patch_size": 16, "position_embedding_size": 10240, "use_clipped_linears": False}
GEMMA4_SEEN = {"max_soft_tokens": 280, "patch_size": 16, "pooling_kernel_size": 3}
MODELS = {
    "qwen3vl-8b": ("qwen3vl", 4096, {
        **SO400M, "depth": 27, "num_heads": 16, "patch_size": 16, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": 4096, "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24]}, {
        "size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16,
        "temporal_patch_size": 2, "merge_size": 2}, {}),
    "gemma3-4b": ("gemma3", 2560, {
        **SO400M, "num_hidden_layers": 27, "num_attention_heads": 16, "patch_size": 14,
        "image_size": 896}, {"size": {"height": 896, "width": 896}},
        {"mm_tokens_per_image": 256}),
    "mistral3-24b": ("mistral3", 5120, {
        "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "head_dim": 64, "patch_size": 14, "image_size": 1540},
        {"size": {"longest_edge": 1540}, "patch_size": {"height": 14, "width": 14}}, {}),
    "gemma4-e2b": ("gemma4clip", 1536, GEMMA4, GEMMA4_SEEN, {}),
    "gemma4-e2b-ranges": ("gemma4clip", 1536, {**GEMMA4, "use_clipped_linears": True},
                          GEMMA4_SEEN, {}),
}


def hears(width, layers, out):
    return {"d_model": width, "encoder_layers": layers, "encoder_attention_heads": width // 64,
            "encoder_ffn_dim": 4 * width, "downsample_hidden_size": 480, "n_window": 50,
            "n_window_infer": 800, "max_source_positions": 1500, "output_dim": out}


SOUNDS = {"qwen3-asr-0.6b": ("qwen3asr", hears(896, 18, 1024)),
          "qwen3-asr-1.7b": ("qwen3asr", hears(1024, 24, 2048)),
          "qwen3-omni-30b-a3b": ("qwen3omni", hears(1280, 32, 2048))}
VOXTRAL = {"voxtral-mini-3b": {"hidden_size": 3072, "intermediate_size": 8192, "head_dim": 128,
                               "num_hidden_layers": 30, "num_attention_heads": 32,
                               "num_key_value_heads": 8, "vocab_size": 131072}}
WHISPER = {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20,
           "num_hidden_layers": 32, "max_source_positions": 1500}


def linear(name, n, k, bias):
    out = [(name + ".weight", [n, k])]
    return out + [(name + ".bias", [n])] if bias else out


def qwen(v, out):
    d, f, at = v["hidden_size"], v["intermediate_size"], "model.visual."
    p, wide = v["patch_size"], v["hidden_size"] * v["spatial_merge_size"] ** 2
    t = linear(at + "patch_embed.proj", d, 3 * v["temporal_patch_size"] * p * p, True)
    t.append((at + "pos_embed.weight", [v["num_position_embeddings"], d]))
    for i in range(v["depth"]):
        layer = "%sblocks.%d." % (at, i)
        t += linear(layer + "attn.qkv", 3 * d, d, True) + linear(layer + "attn.proj", d, d, True)
        t += linear(layer + "mlp.linear_fc1", f, d, True)
        t += linear(layer + "mlp.linear_fc2", d, f, True)
        for norm in ("norm1", "norm2"):
            t += [(layer + norm + ".weight", [d]), (layer + norm + ".bias", [d])]
    for i, base in enumerate(["merger"] + ["deepstack_merger_list.%d" % i for i in range(
            len(v["deepstack_visual_indexes"]))]):
        n = wide if i else d
        t += [(at + base + ".norm.weight", [n]), (at + base + ".norm.bias", [n])]
        t += linear(at + base + ".linear_fc1", wide, wide, True)
        t += linear(at + base + ".linear_fc2", out, wide, True)
    return t


def siglip(v, out):
    d, f, at = v["hidden_size"], v["intermediate_size"], "vision_tower.vision_model."
    side = v["image_size"] // v["patch_size"]
    t = linear(at + "embeddings.patch_embedding", d, 3 * v["patch_size"] ** 2, True)
    t.append((at + "embeddings.position_embedding.weight", [side * side, d]))
    for i in range(v["num_hidden_layers"]):
        layer = "%sencoder.layers.%d." % (at, i)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            t += linear(layer + "self_attn." + part, d, d, True)
        t += linear(layer + "mlp.fc1", f, d, True) + linear(layer + "mlp.fc2", d, f, True)
        for norm in ("layer_norm1", "layer_norm2"):
            t += [(layer + norm + ".weight", [d]), (layer + norm + ".bias", [d])]
    t += [(at + "post_layernorm.weight", [d]), (at + "post_layernorm.bias", [d])]
    return t + [("multi_modal_projector.mm_soft_emb_norm.weight", [d]),
                ("multi_modal_projector.mm_input_projection_weight", [d, out])]


def gated(v, layers, norms, attn, mlp):
    """attn: names of q, k, v and o; mlp: of gate, up and down."""
    d, f, t = v["hidden_size"], v["intermediate_size"], []
    for i in range(v["num_hidden_layers"]):
        for norm in norms:
            t.append(("%s%d.%s.weight" % (layers, i, norm), [d]))
        for name in attn:
            t += linear("%s%d.%s" % (layers, i, name), d, d, False)
        for name, n, k in zip(mlp, (f, f, d), (d, d, f)):
            t += linear("%s%d.%s" % (layers, i, name), n, k, False)
    return t


def pixtral(v, out):
    d, mm = v["hidden_size"], "multi_modal_projector."
    t = gated(v, "vision_tower.transformer.layers.", ("attention_norm", "ffn_norm"),
              ["attention.%s_proj" % x for x in "qkvo"],
              ["feed_forward.%s_proj" % x for x in ("gate", "up", "down")])
    t += [("vision_tower.patch_conv.weight", [d, 3 * v["patch_size"] ** 2]),
          ("vision_tower.ln_pre.weight", [d]), (mm + "norm.weight", [d]),
          (mm + "patch_merger.merging_layer.weight", [d, 4 * d])]
    return t + linear(mm + "linear_1", out, d, False) + linear(mm + "linear_2", out, out, False)


def gemma4(v, out):
    d, at = v["hidden_size"], "model.vision_tower."
    t = gated(v, at + "encoder.layers.", (
        "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
        "post_feedforward_layernorm"), ["self_attn.%s_proj.linear" % x for x in "qkvo"],
        ["mlp.%s_proj.linear" % x for x in ("gate", "up", "down")])
    for i in range(v["num_hidden_layers"]):
        for norm in ("q_norm", "k_norm"):
            t.append(("%sencoder.layers.%d.self_attn.%s.weight" % (at, i, norm),
                      [v["head_dim"]]))
    if v["use_clipped_linears"]:
        t += [("%s.%s_%s" % (name[:-len(".linear.weight")], way, end), [])
              for name, _ in t if name.endswith(".linear.weight")
              for way in ("input", "output") for end in ("min", "max")]
    t += [(at + "patch_embedder.input_proj.weight", [d, 3 * v["patch_size"] ** 2]),
          (at + "patch_embedder.position_embedding_table",
           [2, v["position_embedding_size"], d])]
    return t + linear("model.embed_vision.embedding_projection", out, d, False)


def audio(v):
    d, f, n, at = v["d_model"], v["encoder_ffn_dim"], v["downsample_hidden_size"], \
        "thinker.audio_tower."
    t = linear(at + "conv_out", d, n * 16, False)  # of 128 bands, 16 are left
    for i in range(3):
        t += [("%sconv2d%d.weight" % (at, i + 1), [n, n if i else 1, 3, 3]),
              ("%sconv2d%d.bias" % (at, i + 1), [n])]
    for i in range(v["encoder_layers"]):
        layer = "%slayers.%d." % (at, i)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            t += linear(layer + "self_attn." + part, d, d, True)
        t += linear(layer + "fc1", f, d, True) + linear(layer + "fc2", d, f, True)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            t += [(layer + norm + ".weight", [d]), (layer + norm + ".bias", [d])]
    t += [(at + "ln_post.weight", [d]), (at + "ln_post.bias", [d])]
    return t + linear(at + "proj1", d, d, True) + linear(at + "proj2", v["output_dim"], d, True)


def voxtral(v, t):
    d, f, at, mm = v["hidden_size"], v["intermediate_size"], "audio_tower.", \
        "multi_modal_projector."
    out = [(at + "conv1.weight", [d, 128, 3]), (at + "conv1.bias", [d]),
           (at + "conv2.weight", [d, d, 3]), (at + "conv2.bias", [d]),
           (at + "embed_positions.weight", [v["max_source_positions"], d])]
    for i in range(v["num_hidden_layers"]):
        layer = "%slayers.%d." % (at, i)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            out += linear(layer + "self_attn." + part, d, d, part != "k_proj")
        out += linear(layer + "fc1", f, d, True) + linear(layer + "fc2", d, f, True)
        for norm in ("self_attn_layer_norm", "final_layer_norm"):
            out += [(layer + norm + ".weight", [d]), (layer + norm + ".bias", [d])]
    out += [(at + "layer_norm.weight", [d]), (at + "layer_norm.bias", [d])]
    n, k, at = t["hidden_size"], t["head_dim"], "language_model.model."
    out += linear(mm + "linear_1", n, f, False) + linear(mm + "linear_2", n, n, False)
    out += linear("language_model.lm_head", t["vocab_size"], n, False)
    out += linear(at + "embed_tokens", t["vocab_size"], n, False) + [(at + "norm.weight", [n])]
    for i in range(t["num_hidden_layers"]):
        layer = "%slayers.%d." % (at, i)
        for part, wide, deep in (
                ("self_attn.q_proj", t["num_attention_heads"] * k, n),
                ("self_attn.k_proj", t["num_key_value_heads"] * k, n),
                ("self_attn.v_proj", t["num_key_value_heads"] * k, n),
                ("self_attn.o_proj", n, t["num_attention_heads"] * k),
                ("mlp.gate_proj", t["intermediate_size"], n),
                ("mlp.up_proj", t["intermediate_size"], n),
                ("mlp.down_proj", n, t["intermediate_size"])):
            out += linear(layer + part, wide, deep, False)
        out += [(layer + "input_layernorm.weight", [n]),
                (layer + "post_attention_layernorm.weight", [n])]
    return out


TENSORS = {"qwen3vl": qwen, "gemma3": siglip, "mistral3": pixtral, "gemma4clip": gemma4}


def write_weights(path, tensors):
    header, at = {}, 0
    for name, shape in tensors:
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + at)
    return at


def start(into, name, tiny, files=("tokenizer.json", "tokenizer_config.json")):
    folder = os.path.join(into, name)
    os.makedirs(folder, exist_ok=True)
    for file in files:
        shutil.copy(os.path.join(GOLDEN, tiny, file), folder)
    return folder


def make_sound(into, name):
    tiny, change = SOUNDS[name]
    folder = start(into, name, tiny)
    shutil.copy(os.path.join(GOLDEN, tiny, "preprocessor_config.json"), folder)
    with open(os.path.join(GOLDEN, tiny, "config.json")) as f:
        made = json.load(f)
    made["thinker_config"]["audio_config"].update(change)
    made["thinker_config"]["text_config"]["hidden_size"] = change["output_dim"]
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(made, f, indent=1)
    n_bytes = write_weights(os.path.join(folder, "model.safetensors"), audio(change))
    print("%s: %.0f million weights" % (folder, n_bytes / 2e6))


def make_voxtral(into, name):
    folder = start(into, name, "voxtral", ("tekken.json", "preprocessor_config.json"))
    with open(os.path.join(GOLDEN, "voxtral/config.json")) as f:
        made = json.load(f)
    made["audio_config"].update(WHISPER)
    made["text_config"].update(VOXTRAL[name])
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(made, f, indent=1)
    n_bytes = write_weights(os.path.join(folder, "model.safetensors"),
                            voxtral(WHISPER, made["text_config"]))
    print("%s: %.0f million weights" % (folder, n_bytes / 2e6))


def main():
    into = sys.argv[1]
    for name in sys.argv[2:] or [*MODELS, *SOUNDS, *VOXTRAL]:
        if name in SOUNDS or name in VOXTRAL:
            (make_sound if name in SOUNDS else make_voxtral)(into, name)
            continue
        tiny, out, vision, processor, more = MODELS[name]
        folder = start(into, name, tiny)
        for file, change in (("config.json", more), ("preprocessor_config.json", processor)):
            with open(os.path.join(GOLDEN, tiny, file)) as f:
                made = {**json.load(f), **change}
            if file == "config.json":
                made["vision_config"].update(vision)
                made["text_config"]["hidden_size"] = out
            with open(os.path.join(folder, file), "w") as f:
                json.dump(made, f, indent=1)
        n_bytes = write_weights(os.path.join(folder, "model.safetensors"),
                                TENSORS[tiny](vision, out))
        print("%s: %.0f million weights" % (folder, n_bytes / 2e6))


if __name__ == "__main__":
    main()
