#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What integers as inputs of matrix products cost a real model: its perplexity.

    tests/bench/activations.py MODEL.gguf [NAME]    (torch, transformers and gguf; prints CSV)

Inputs of all matrices but the output head become integers, with a scale for each 32 of them, as
weights in blocks have it. In 4 bits it is the scale of seven that errs least. "Turned" multiplies
blocks of 64 inputs by a Hadamard matrix before, so that one large input coarsens no others. The
weights are then turned, too, and keep 32 bits: in 4 bits anew they would cost more. The text is the
first N_TOK tokens of the second half of docs/api.md. All else is float32."""
import math
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
N_TOK, GROUP, TURN = 1024, 32, 64
SCALES = (1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


def as_integers(x, bits):
    most, g = 2 ** (bits - 1) - 1, x.reshape(*x.shape[:-1], -1, GROUP)
    full = g.abs().amax(-1, keepdim=True).clamp_min(1e-6) / most
    best = least = None
    for by in SCALES if bits == 4 else (1,):
        y = (g / (full * by)).round().clamp(-most, most) * full * by
        error = ((y - g) ** 2).sum(-1, keepdim=True)
        best = y if best is None else torch.where(error < least, y, best)
        least = error if least is None else torch.minimum(error, least)
    return best.reshape(x.shape)


def turn(x):
    matrix = torch.ones(1, 1)
    while len(matrix) < TURN:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return (x.reshape(*x.shape[:-1], -1, TURN) @ (matrix / TURN ** 0.5)).reshape(x.shape)


class Rounded(torch.nn.Module):
    """A matrix whose input is rounded to integers."""

    def __init__(self, weight, bits, turns):
        super().__init__()
        self.bits, self.turns = bits, turns
        self.weight = turn(weight) if turns else weight

    def forward(self, x):
        return as_integers(turn(x) if self.turns else x, self.bits) @ self.weight.T


def matrices(model):
    return [(n, m) for n, m in model.model.named_modules() if isinstance(m, torch.nn.Linear)]


def perplexity(model, ids):
    scores = model(ids[None]).logits[0, :-1]
    return math.exp(torch.nn.functional.cross_entropy(scores, ids[1:]).item())


def main():
    path = sys.argv[1]
    folder, file = os.path.split(path)
    name = sys.argv[2] if len(sys.argv) > 2 else file
    with open(os.path.join(TOP, "docs/api.md"), encoding="utf-8") as f:
        text = f.read()
    ids = AutoTokenizer.from_pretrained(folder, gguf_file=file)(text[len(text) // 2:])["input_ids"]
    ids = torch.tensor(ids[:N_TOK])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    found = matrices(model)

    def row(what, bits=0, turns=False):
        for at, m in found:
            model.model.set_submodule(at, Rounded(m.weight, bits, turns) if bits else m)
        print('activations,"%s, %s",%.2f,perplexity' % (name, what, perplexity(model, ids)),
              flush=True)

    with torch.no_grad():
        row("float32")
        row("8 bits", 8)
        row("4 bits", 4)
        row("4 bits turned", 4, True)


if __name__ == "__main__":
    main()
