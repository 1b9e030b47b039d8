#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tiny EAGLE-3 heads for models of tests/golden/models, and what they draft.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_eagle3.py

Hugging Face Transformers runs the model, in float32. The head is written here from its
description: EAGLE-3, 2025 (arXiv 2503.01840), section 3. Names, the order of parts and the layers
are those of the checkpoints that SGLang and vLLM read. The first token has no hidden states before
it; its own stand in.

eagle3.json is as mtp.json of make_mtp_models.py. In the head of qwen35-mtp the token before decides
the first draft token, which is mostly right there."""

import json
import os
import shutil

import torch
import transformers as hf
from safetensors.torch import save_file

from make_mtp_models import LENGTHS

HERE = os.path.dirname(os.path.abspath(__file__))
HEADS, KV_HEADS, HEAD_DIM, FFN, THETA, EPS = 4, 2, 8, 48, 5000.0, 1e-5
N_DRAFT = 256


def norm(x, weight):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * weight


def rotate(x):
    """(heads, T, head_dim) by their positions: element i of the first half with i of the second."""
    half = HEAD_DIM // 2
    angle = torch.arange(x.shape[1]).double()[:, None] * THETA ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


def layer(w, embed, hidden):
    """The hidden states behind each token."""
    both = torch.cat([norm(embed, w["midlayer.input_layernorm.weight"]),
                      norm(hidden, w["midlayer.hidden_norm.weight"])], -1)
    heads = lambda name, n: (both @ w["midlayer.self_attn.%s_proj.weight" % name].T).reshape(
        len(both), n, HEAD_DIM).transpose(0, 1)
    q, k, v = rotate(heads("q", HEADS)), rotate(heads("k", KV_HEADS)), heads("v", KV_HEADS)
    k, v = (x.repeat_interleave(HEADS // KV_HEADS, 0) for x in (k, v))
    score = q @ k.transpose(1, 2) / HEAD_DIM ** 0.5
    score = score.masked_fill(torch.ones(score.shape[1:]).triu(1).bool(), float("-inf"))
    seen = (score.softmax(-1) @ v).transpose(0, 1).reshape(len(both), -1)
    x = hidden + seen @ w["midlayer.self_attn.o_proj.weight"].T
    n = norm(x, w["midlayer.post_attention_layernorm.weight"])
    mlp = lambda name: w["midlayer.mlp.%s_proj.weight" % name].T
    return x + (torch.nn.functional.silu(n @ mlp("gate")) * (n @ mlp("up"))) @ mlp("down")


def draft(model, w, taps, ids):
    """Three tokens behind ids, whose last one the model has not read."""
    states = model.model(torch.tensor([ids[:-1]]), output_hidden_states=True).hidden_states
    hidden = torch.cat([states[i][0] for i in taps], -1).double() @ w["fc.weight"].T
    before = torch.cat([hidden[:1], hidden])
    ids, out = list(ids), []
    for _ in range(3):
        # The head's table is the model's.
        x = layer(w, model.get_input_embeddings()(torch.tensor([ids]))[0].double(), before)
        best = (w["lm_head.weight"] @ norm(x[-1], w["norm.weight"])).topk(2)
        at = int(best.indices[0])
        out.append([at + int(w["d2t"][at]), round(float(best.values[0] - best.values[1]), 4)])
        before = torch.cat([before, x[-1:]])
        ids.append(out[-1][0])
    return out


def weights(rng, d, embed):
    random = lambda *shape: torch.randn(*shape, generator=rng) / shape[-1] ** 0.5
    some = lambda: 1 + 0.1 * torch.randn(d, generator=rng)
    w = {"fc.weight": random(d, 3 * d), "norm.weight": some(), "lm_head.weight": random(N_DRAFT, d),
         "embed_tokens.weight": embed}
    w.update({"midlayer.%s.weight" % k: some() for k in (
        "input_layernorm", "hidden_norm", "post_attention_layernorm")})
    w.update({"midlayer.self_attn.%s_proj.weight" % k: random(n * HEAD_DIM, 2 * d)
              for k, n in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS))})
    w["midlayer.self_attn.o_proj.weight"] = random(d, HEADS * HEAD_DIM)
    w.update({"midlayer.mlp.%s_proj.weight" % k: random(FFN, d) for k in ("gate", "up")})
    w["midlayer.mlp.down_proj.weight"] = random(d, FFN)
    return w


def follow(model, w, kept):
    """The token behind the next one is at a fixed place behind this one; so is each of them in the
    model. What the layer adds is small, and fc takes the table of tokens."""
    embed = model.get_input_embeddings().weight.double()
    head = model.get_output_embeddings().weight.double()
    d = embed.shape[1]
    w["fc.weight"] = torch.cat([torch.zeros(d, 2 * d), torch.eye(d)], 1)
    # Of each token the one that the model says next, and of that one the next.
    next_of = (torch.nn.functional.normalize(embed, dim=-1) @ head.T).argmax(-1)
    w["lm_head.weight"] = torch.zeros(N_DRAFT, d)
    place = {int(t): i for i, t in enumerate(kept)}
    for t in range(500):
        at = place.get(int(next_of[next_of[t]]))
        if at is not None:
            w["lm_head.weight"][at] = embed[t].float()
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        w["midlayer.%s.weight" % name] *= 0.1


def make(seed, target, taps, more, follows):
    rng = torch.Generator().manual_seed(seed)
    folder = os.path.join(HERE, "drafters", target + "-eagle3")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = hf.AutoModelForCausalLM.from_pretrained(
        os.path.join(HERE, "models", target), dtype=torch.float32,
        attn_implementation="eager").eval()
    c = model.config
    w = weights(rng, c.hidden_size, model.get_input_embeddings().weight.detach().clone())
    kept = torch.randperm(500, generator=rng)[:N_DRAFT].sort().values
    if follows:
        follow(model, w, kept)
    w = {k: v.to(torch.bfloat16) for k, v in w.items()}
    w["d2t"] = kept - torch.arange(N_DRAFT)
    w["t2d"] = torch.zeros(c.vocab_size, dtype=torch.bool)
    w["t2d"][kept] = True
    # A head without a table of tokens reads the model's.
    save_file({k: v.contiguous() for k, v in w.items() if follows or k != "embed_tokens.weight"},
              os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama",
                   "hidden_size": c.hidden_size, "intermediate_size": FFN, "num_hidden_layers": 1,
                   "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
                   "head_dim": HEAD_DIM, "vocab_size": c.vocab_size, "draft_vocab_size": N_DRAFT,
                   "max_position_embeddings": 2048, "rms_norm_eps": EPS, "rope_theta": THETA,
                   "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
                   **more}, f, indent=1)
    w = {k: v if k == "d2t" else v.double() for k, v in w.items()}
    text = torch.randint(0, 500, (50,), generator=rng).tolist()
    with torch.no_grad():
        found = [{"n": k, "draft": draft(model, w, taps, text[:k + 1])} for k in LENGTHS]
    with open(os.path.join(folder, "eagle3.json"), "w") as f:
        json.dump({"reference": "tests/golden/make_eagle3.py", "text": text, "behind": found}, f)
    print(folder, os.listdir(folder), "transformers", hf.__version__)


def main():
    torch.set_num_threads(2)
    make(81, "smollm3", (2, 2, 1), {}, False)  # 2, half and 3 less than the number of layers
    make(82, "qwen35-mtp", (1, 1, 0), {"eagle_aux_hidden_state_layer_ids": [1, 1, 0]}, True)
    make(83, "llama-biases", (1, 0, 1), {"eagle_aux_hidden_state_layer_ids": [1, 0, 1]}, False)


if __name__ == "__main__":
    main()
