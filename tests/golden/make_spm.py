#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A SentencePiece vocabulary of 512 pieces, trained on this tree's own documents, and what
the sentencepiece package makes of texts with it: tests/golden/tokenizer/spm.json.

    pip install sentencepiece       (in a venv outside the repository)
    tests/golden/make_spm.py        from the top of the tree
"""
import io
import json

import sentencepiece as spm

TEXTS = [
    "", " ", "  ", "a", " a", "Hello, world!", "The engine thread runs the model.",
    "  two  spaces   three ", "tabs\tand\nlines\r\n\n", "naïve café", "你好,世界",
    "👋🏽 hi", "\u2581looks like a space", "x\u2581y", "<s>", "</s> and <unk>", "<0x0A>",
    "0123456789 3.14e-10", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the the the the the the the the the the the the the the the the the the the",
    "\u00e9\u0065\u0301", "\U0010ffff\u0000z", "memory memories remember", "kernel.h:12",
]


def main():
    text = ""
    for name in ("README.md", "kernels/README.md", "man/halod.8.in", "man/haloctl.1"):
        with open(name, encoding="utf-8") as f:
            text += f.read()
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(l for l in text.splitlines() if l), model_writer=model,
        model_type="bpe", vocab_size=512, byte_fallback=True, add_dummy_prefix=True,
        remove_extra_whitespaces=False, normalization_rule_name="identity",
        character_coverage=0.995, split_digits=True, minloglevel=2)
    p = spm.SentencePieceProcessor(model_proto=model.getvalue())
    n = p.vocab_size()
    types = [2 if p.is_unknown(i) else 3 if p.is_control(i) else 6 if p.is_byte(i) else 1
             for i in range(n)]
    with open("tests/golden/tokenizer/spm.json", "w", encoding="utf-8") as f:
        json.dump({"pieces": [p.id_to_piece(i) for i in range(n)],
                   "scores": [p.get_score(i) for i in range(n)], "types": types,
                   "cases": [[t, p.encode(t), p.decode(p.encode(t))] for t in TEXTS
                             if "\0" not in t]}, f)
        f.write("\n")


main()
