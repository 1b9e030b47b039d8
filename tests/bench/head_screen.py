#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many rows of an int8 output head a screen by its high bits leaves to be read whole.

    tests/bench/head_screen.py MODEL.gguf [NAME]    (torch, transformers and gguf; prints CSV)

The head gets a scale a row and integers up to 127, as lm_head = int8 makes it. Its high bits are the
nearest multiples of 2^(8 - bits). The rest of a row times the input x is at most

    L1: scale * 2^(7 - bits) * |x|_1               L2: scale * |rest|_2 * |x|_2

A row remains if its screened logit and that bound reach the k-th best exact logit: no screen that
proves its answer reads fewer rows by this bound. Rows are means over positions of docs/tour.md, which
the model reads; "most" is the position where most remain."""
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
N_TOK, EACH, BLOCK = 700, 10, 16384


def inputs(path):
    """The head (V, K), and its inputs at some positions of the text (T, K), rounded to halves."""
    folder, file = os.path.split(path)
    with open(os.path.join(TOP, "docs/tour.md"), encoding="utf-8") as f:
        ids = AutoTokenizer.from_pretrained(folder, gguf_file=file)(f.read())["input_ids"]
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    x = model.model(torch.tensor([ids[:N_TOK]])).last_hidden_state[0]
    return model.get_output_embeddings().weight, x[EACH::EACH].half().float()


def scores(head, x, bits):
    """Exact and screened logits, and how far they can be apart by each bound: (T, V) each."""
    step, parts = 2 ** (8 - bits), []
    for w in head.split(BLOCK):
        scale = w.abs().amax(1) / 127
        q = torch.round(w / scale[:, None])
        high = torch.floor(q / step + 0.5) * step
        parts.append((x @ q.T * scale, x @ high.T * scale,
                      x.abs().sum(1)[:, None] * (scale * step / 2),
                      x.norm(dim=1)[:, None] * ((q - high).norm(dim=1) * scale)))
    return [torch.cat(p, 1) for p in zip(*parts)]


@torch.no_grad()
def main():
    path = sys.argv[1]
    name = sys.argv[2] if len(sys.argv) > 2 else os.path.basename(path)
    head, x = inputs(path)
    for bits in 4, 5, 6:
        exact, screened, l1, l2 = scores(head, x, bits)
        for bound, most in ("L1", l1), ("L2", l2):
            if ((exact - screened).abs() > most * 1.0001 + 1e-3).any():
                sys.exit("head_screen: a logit lies outside its bound %s" % bound)
            for k in 1, 20:
                least = exact.topk(k, 1).values[:, -1:]
                left = 100 * (screened + most >= least).float().mean(1)
                case = "%s, %d bits, %s, best %d: " % (name, bits, bound, k)
                print('head_screen,"%srows left",%.1f,%%' % (case, left.mean()))
                print('head_screen,"%srows left, most",%.1f,%%' % (case, left.max()), flush=True)


main()
