#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with an MTP layer, as llama.cpp's own converter writes them in GGUF.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_mtp_gguf.py LLAMA_CPP                        (a tree of its sources)

Writes tests/golden/formats/NAME.gguf of tests/golden/models/NAME: matrices in BF16, as they
are there. The converter knows tokenizers by a hash of theirs, and this tiny one is not known:
it is said to be Qwen2's, whose words it has, and to have no tokens of GLM."""
import os
import sys

GOLDEN = os.path.dirname(os.path.abspath(__file__))
NAMES = ("qwen3next-mtp", "glm4moe-mtp")


def main(llama):
    sys.path[:0] = [os.path.join(llama, "gguf-py"), llama]
    from conversion.base import TextModel
    import convert_hf_to_gguf
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
    TextModel._set_vocab_glm = TextModel._set_vocab_gpt2
    for name in NAMES:
        sys.argv = ["convert_hf_to_gguf.py", os.path.join(GOLDEN, "models", name),
                    "--outtype", "bf16", "--outfile",
                    os.path.join(GOLDEN, "formats", name + ".gguf")]
        convert_hf_to_gguf.main()


main(*sys.argv[1:])
