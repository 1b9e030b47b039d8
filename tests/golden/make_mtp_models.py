#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny random checkpoints with an MTP layer (multi-token prediction), and what that
layer drafts.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_mtp_models.py [NAME...]

Hugging Face Transformers runs the model and the decoder layer, in float32. What lies around
that layer is written here from its description: DeepSeek-V3 Technical Report, 2024, eq. 21 to
23; and for Qwen4-Exp from that of vLLM (qwen4_exp/nvidia/mtp.py). The layer of each checkpoint is
the last one of a model that is one layer deeper.

mtp.json has a text, and for some n what is drafted behind tokens [0, n): three tokens, each
with how far its logit is above the next best. In qwen35-mtp and qwen3next-mtp a token alone
decides the next one, so that their draft tokens are mostly right. In qwen35-mtp-again the layer
computes what the model does. make_mtp_gguf.py makes GGUF files of two of them, make_mtp_images.py
drafts behind images."""

import json
import os
import shutil
import sys

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from make_hf_models import (BASE, DELTA, EXPERTS, GOLDEN, MLA, MROPE, QWEN4, SPARSE, case,
                            randomize)

HYBRID = {**DELTA, **MROPE, "num_hidden_layers": 3,
          "layer_types": ["linear_attention", "full_attention", "full_attention"]}
GROUPS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
          "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
          "routed_scaling_factor": 1.5, "use_qk_norm": True, "attention_bias": True,
          "num_hidden_layers": 3,
          "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                              "partial_rotary_factor": 0.5}}
# One table of n-grams, which llama.cpp's converter needs. Two layers have an indexer.
STREAMS = {**QWEN4, "hc_count": 2, "hc_lowrank": 16, "ple_layer_ids": [1], "num_hidden_layers": 3,
           "layer_types": ["linear_attention", "indexed_attention", "indexed_attention"],
           "rope_parameters": MROPE["rope_parameters"]}
# name: (class of the config, class of the model, settings, names as Qwen has them)
MODELS = {
    "qwen35-mtp": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM, HYBRID, True),
    "qwen35moe-mtp": (hf.Qwen3_5MoeTextConfig, hf.Qwen3_5MoeForCausalLM,
                      {**HYBRID, **EXPERTS}, True),
    "deepseekv3-mtp": (hf.DeepseekV3Config, hf.DeepseekV3ForCausalLM, MLA, False),
    "glm4moe-mtp": (hf.Glm4MoeConfig, hf.Glm4MoeForCausalLM, GROUPS, False),
    "qwen3next-mtp": (hf.Qwen3NextConfig, hf.Qwen3NextForCausalLM,
                      {**HYBRID, **EXPERTS, "rope_parameters": DELTA["rope_parameters"]}, True),
    "deepseekv32-mtp": (hf.DeepseekV32Config, hf.DeepseekV32ForCausalLM,
                        {**SPARSE, "num_hidden_layers": 3}, False),
    "qwen4exp-mtp": (hf.Qwen4ExpTextConfig, hf.Qwen4ExpForCausalLM, STREAMS, True),
    "qwen35-mtp-again": (hf.Qwen3_5TextConfig, hf.Qwen3_5ForCausalLM, HYBRID, True),
}
LENGTHS = (12, 13, 17, 18, 19, 40, 44, 45)


def parts(rng, d, plus_one):
    """Tensors of the layer beside the decoder's, by their names in DeepSeek's files."""
    first = 0 if plus_one else 1
    norm = lambda: (first + 0.1 * torch.randn(d, generator=rng)).to(torch.bfloat16)
    return {"eh_proj": (torch.randn(d, 2 * d, generator=rng) / d ** 0.5).to(torch.bfloat16),
            "enorm": norm(), "hnorm": norm(), "shared_head.norm": norm()}


QWEN = {"eh_proj": "mtp.fc", "enorm": "mtp.pre_fc_norm_embedding",
        "hnorm": "mtp.pre_fc_norm_hidden", "shared_head.norm": "mtp.norm"}


class Streams:
    """What lies around the layer of a model with residual streams, which is one hidden state."""
    PARTS = ("fc_embedding", "fc_hidden", "pre_fc_norm_embedding", "pre_fc_norm_hidden")

    def __init__(self, model, rng):
        c = model.config
        d, wide = c.hidden_size, c.hidden_size * c.hc_count
        self.mixer = type(model.model.hyper_connection_mixer)(c, use_combine=False)
        self.mixer.config = c
        randomize(self.mixer, rng)
        round_up = lambda t: t.to(torch.bfloat16)
        self.fc = [round_up(torch.randn(d, d, generator=rng) / d ** 0.5) for _ in range(2)]
        self.norms = [round_up(0.1 * torch.randn(n, generator=rng)) for n in (d, wide)]
        self.mixer = self.mixer.to(torch.bfloat16).float()

    def tensors(self):
        yield from zip(("mtp.%s.weight" % p for p in self.PARTS), self.fc + self.norms)
        for key, t in self.mixer.state_dict().items():
            yield "mtp.hyper_connection_mixer." + key, t.to(torch.bfloat16)

    @staticmethod
    def hidden(model, ids):
        """All streams behind the last layer."""
        kept = []
        hook = model.model.hyper_connection_mixer.register_forward_pre_hook(
            lambda module, args: kept.append(args[0]))
        model.model(torch.tensor([ids]))
        hook.remove()
        return kept[0][0]

    def enter(self, embedded, before, eps):
        e = norm(embedded, self.norms[0], True, eps) @ self.fc[0].double().T
        h = norm(before, self.norms[1], True, eps).unflatten(-1, (-1, e.shape[-1]))
        return (e[:, None] + h @ self.fc[1].double().T).flatten(1)

    def leave(self, y, eps):
        """What the head reads, and the hidden state for the next token."""
        return self.mixer(y[None, None])[0, 0].double(), y.double()


class One:
    """The same for a model with one residual stream. extra: parts()."""
    def __init__(self, extra, plus_one):
        self.extra, self.plus_one = extra, plus_one

    def tensors(self, names):
        for key, t in self.extra.items():
            yield names(key) + ".weight", t

    @staticmethod
    def hidden(model, ids):
        return model.model(torch.tensor([ids])).last_hidden_state[0]

    def enter(self, embedded, before, eps):
        e = norm(embedded, self.extra["enorm"], self.plus_one, eps)
        h = norm(before, self.extra["hnorm"], self.plus_one, eps)
        return torch.cat([e, h], -1) @ self.extra["eh_proj"].double().T

    def leave(self, y, eps):
        last = norm(y, self.extra["shared_head.norm"], self.plus_one, eps)
        return last, last


def follow(model, extra, rng):
    """The next token is that at a fixed place behind this one: the output head holds the
    embeddings in another order, and what layers add is small."""
    with torch.no_grad():
        embed = model.get_input_embeddings().weight
        embed.copy_(torch.nn.functional.normalize(embed.float(), dim=-1) * 4)
        order = torch.randperm(500, generator=rng)
        head = model.get_output_embeddings().weight
        head.copy_(0 * head)
        for i in range(500):
            head[order[(i + 1) % 500]] = embed[order[i]]
        for name, p in model.named_parameters():
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight",
                              "experts.down_proj")):
                p.mul_(0.12)
            elif name.endswith("model.norm.weight"):
                p.zero_()
    d = embed.shape[1]
    extra["eh_proj"] = torch.cat([torch.eye(d) * 4, torch.randn(d, d, generator=rng) * 0.2],
                                 1).to(torch.bfloat16)
    for name in ("enorm", "shared_head.norm"):
        extra[name] = torch.zeros(d, dtype=torch.bfloat16)


def again(model, extra):
    """The layer is the model's only one that does anything, and reads embeddings alone. So its
    drafts are right where it reads what the model has read."""
    first, second, layer = model.model.layers
    d = model.config.hidden_size
    with torch.no_grad():
        first.linear_attn.out_proj.weight.zero_()
        first.mlp.down_proj.weight.zero_()
        layer.load_state_dict(second.state_dict())
        embed = model.get_input_embeddings().weight
        embed.copy_(torch.nn.functional.normalize(embed, dim=-1) * d ** 0.5)
    extra["eh_proj"] = torch.cat([torch.eye(d), torch.zeros(d, d)], 1).to(torch.bfloat16)
    extra["enorm"] = torch.zeros(d, dtype=torch.bfloat16)
    extra["shared_head.norm"] = model.model.norm.weight.detach().to(torch.bfloat16)


def norm(x, weight, plus_one, eps):
    x, weight = x.double(), weight.double()
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * scale * (weight + 1 if plus_one else weight)


def draft(model, layer, around, ids, places=lambda n: torch.arange(n)[None]):
    """Three tokens behind ids, whose last one the model has not read. places: the positions of
    the first n tokens."""
    eps = model.config.rms_norm_eps
    embed = model.get_input_embeddings()
    head = model.get_output_embeddings().weight.double()
    hidden = around.hidden(model, ids[:-1])
    before = torch.cat([hidden[:1], hidden]).double()  # the first has none before it
    ids, out = list(ids), []
    for _ in range(3):
        x = around.enter(embed(torch.tensor([ids]))[0], before, eps).float()[None]
        at = places(len(ids))
        mask = torch.full((len(ids), len(ids)), -1e30).triu(1)[None, None]
        y = layer(x, attention_mask=mask, position_ids=at,
                  position_embeddings=model.model.rotary_emb(x, at))
        y = (y[0] if isinstance(y, tuple) else y)[0]
        last, state = around.leave(y[-1], eps)
        best = (head @ last).topk(2)
        out.append([int(best.indices[0]), round(float(best.values[0] - best.values[1]), 4)])
        before = torch.cat([before, state[None]])
        ids.append(out[-1][0])
    return out


def make(i, name):
    config_class, model_class, settings, is_qwen = MODELS[name]
    rng = torch.Generator().manual_seed(70 + i)
    folder = os.path.join(GOLDEN, name)
    shutil.rmtree(folder, ignore_errors=True)
    model = model_class(config_class(**{**BASE, **settings})).eval()
    randomize(model, rng)
    d, n = model.config.hidden_size, model.config.num_hidden_layers - 1
    has_streams = name == "qwen4exp-mtp"
    extra = {} if has_streams else parts(rng, d, is_qwen)
    around = Streams(model, rng) if has_streams else One(extra, is_qwen)
    if name in ("qwen35-mtp", "qwen3next-mtp"):
        follow(model, extra, rng)
    if name == "qwen35-mtp-again":
        again(model, extra)
    model.to(torch.bfloat16).save_pretrained(folder)
    model = model_class.from_pretrained(folder, dtype=torch.float32,
                                        attn_implementation="eager",
                                        experts_implementation="eager").eval()
    layer = model.model.layers[n]
    model.model.layers = model.model.layers[:n]
    model.config.num_hidden_layers = n

    path = os.path.join(folder, "model.safetensors")
    deep, tensors = "model.layers.%d." % n, load_file(path)
    for key in list(tensors):
        if is_qwen and key.startswith(deep):
            tensors["mtp.layers.0." + key[len(deep):]] = tensors.pop(key)
    tensors.update(around.tensors() if has_streams else around.tensors(
        lambda key: QWEN[key] if is_qwen else deep + key))
    save_file(tensors, path, {"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["num_hidden_layers"] = n
    config["mtp_num_hidden_layers" if is_qwen else "num_nextn_predict_layers"] = 1
    if has_streams:  # as it is published
        config["mtp_use_dedicated_embeddings"] = False
        config["mtp"] = {"hybrid": True, "layer_types": ["full_attention"],
                         "mtp_use_hidden_state_from_layer": None, "num_hidden_layers": 1,
                         "rope_theta": 10000000}
    for key in ("layer_types", "mlp_layer_types"):
        if config.get(key):
            config[key] = config[key][:n]
    with open(path, "w") as f:
        json.dump(config, f, indent=2, sort_keys=True)
    for extra_file in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra_file)):
            os.remove(os.path.join(folder, extra_file))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(GOLDEN, "qwen3-bf16", file), folder)

    text = torch.randint(0, 500, (50,), generator=rng).tolist()
    with torch.no_grad():
        found = [{"n": k, "draft": draft(model, layer, around, text[:k + 1])}
                 for k in LENGTHS]
    with open(os.path.join(folder, "mtp.json"), "w") as f:
        json.dump({"reference": "tests/golden/make_mtp_models.py", "text": text,
                   "behind": found}, f)
    cases = [case(model, torch.randint(0, 500, (n,), generator=rng).tolist(), 12)
             for n in (1, 60)]
    with open(os.path.join(folder, "reference.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_mtp_models.py",
                   "cases": cases}, f)
    size = sum(os.path.getsize(os.path.join(folder, x)) for x in os.listdir(folder))
    print("%s: %d KB, transformers %s" % (folder, size // 1024, hf.__version__))


def main():
    torch.set_num_threads(2)
    for i, name in enumerate(MODELS):
        if name in sys.argv[1:] or len(sys.argv) == 1:
            make(i, name)


if __name__ == "__main__":
    main()
