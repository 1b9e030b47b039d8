#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the numbers of Hugging Face Transformers into tests/golden/gemma3_270m.json, after
make_trained.py gemma3 made it: make_gemma3.py FILE.gguf

llama.cpp's gelu is a table in float16, so its numbers are 0.0008 from these on average. The
embeddings' factor, the root of 640, is 25.25: in bfloat16, as the model was trained and as halod
has it. llama.cpp takes 25.298, which differs by 0.002; the
perplexities stay its own.

Needs torch, transformers (5.24 was used), accelerate and gguf, in a virtual environment."""
import json
import os
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM

FILE = pathlib.Path(__file__).resolve().parent / "gemma3_270m.json"


def logprobs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


def main():
    folder, name = os.path.split(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32,
                                                 attn_implementation="eager")
    model.model.embed_tokens.embed_scale.fill_(25.25)
    out = json.loads(FILE.read_text(encoding="utf-8"))
    for c in out["cases"]:
        ids, n = c["prompt_ids"] + c["continuation_ids"], len(c["prompt_ids"])
        x = logprobs(model, ids)
        c["prompt_logprobs"] = [round(x[i, ids[i + 1]].item(), 5) for i in range(n - 1)]
        for i, step in enumerate(c["steps"]):
            best = x[n - 1 + i].topk(len(step["top"]))
            step["top"] = [[int(t), round(float(v), 5)] for v, t in zip(*best)]
        # Behind a choice that is another one for llama.cpp the case ends.
        alike = [step["top"][0][0] == step["token"] for step in c["steps"]] + [False]
        for key in ("steps", "continuation_ids"):
            del c[key][alike.index(False):]
    FILE.write_text(json.dumps(out, separators=(",", ":"), ensure_ascii=False) + "\n",
                    encoding="utf-8")


main()
