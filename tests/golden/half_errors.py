#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far Hugging Face Transformers is off in float16 and in bfloat16 from what it computes
in float32 (reference.json), for tiny models of make_hf_models.py without experts. What a GPU
backend that keeps activations in float16 is compared with (tests/golden/half_errors.tsv).

    pip install torch transformers safetensors       (in a venv outside the repository)
    half_errors.py NAME... > tests/golden/half_errors.tsv
"""
import json
import os
import sys

import torch
import transformers as hf

GOLDEN = "tests/golden/models"


def differences(model, case):
    """[(|difference|, token)] of what haloctl verify compares."""
    prompt, ids = case["prompt_ids"], case["prompt_ids"] + case["continuation_ids"]
    with torch.no_grad():
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
    found = [(abs(float(rows[i, ids[i + 1]]) - want), i + 1)
             for i, want in enumerate(case["prompt_logprobs"])]
    for i, step in enumerate(case["steps"]):
        token, want = next(t for t in step["top"] if t[0] == step["token"])
        at = len(prompt) + i
        found.append((abs(float(rows[at - 1, token]) - want), at))
    return found


def main():
    torch.set_num_threads(2)
    print("# tests/golden/half_errors.py, torch %s, transformers %s" %
          (torch.__version__, hf.__version__))
    print("# model\ttype\tlargest\tcase\ttoken\tmean")
    for name in sys.argv[1:]:
        folder = os.path.join(GOLDEN, name)
        with open(os.path.join(folder, "reference.json"), encoding="utf-8") as f:
            cases = json.load(f)["cases"]
        for dtype in ("float16", "bfloat16"):
            model = hf.AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, dtype), attn_implementation="eager").eval()
            found = [(d, i, t) for i, case in enumerate(cases)
                     for d, t in differences(model, case)]
            largest, i, token = max(found)
            print("%s\t%s\t%.4f\t%d\t%d\t%.5f" % (
                name, dtype, largest, i, token, sum(f[0] for f in found) / len(found)))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
