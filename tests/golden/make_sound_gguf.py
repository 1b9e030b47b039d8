#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tiny models of make_voxtral.py and make_omni.py as GGUF files, made by llama.cpp's own
converter.

    pip install torch transformers safetensors mistral-common     (in a venv)
    make_sound_gguf.py LLAMA_CPP [NAME...]        (a tree of llama.cpp's sources)

Writes NAME.gguf and mmproj-NAME.gguf in tests/golden/vision, for voxtral and qwen3omni.

The converter knows names of Voxtral's convolutions by numbers below that of the layers, and two
layers are too few: it is told of one more. It knows tokenizers by a hash of theirs, and the tiny
one is said to be Qwen2's. It puts `model.` before the names of Qwen3-Omni's vision tower, and then
finds no name in GGUF for them: that is taken off again."""

import os
import sys

OUT = "tests/golden/vision"
NAMES = "voxtral", "qwen3omni"


def load_converter(top):
    sys.path[:0] = [top, os.path.join(top, "gguf-py")]
    import convert_hf_to_gguf
    import gguf
    from conversion import load_all_models
    from conversion.base import TextModel
    from conversion.qwen3vl import Qwen3VLVisionModel
    load_all_models()
    names, see = gguf.get_tensor_name_map, Qwen3VLVisionModel.modify_tensors
    gguf.get_tensor_name_map = lambda arch, n: names(arch, n + 1)
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
    Qwen3VLVisionModel.modify_tensors = lambda self, data, name, bid: see(
        self, data, name.removeprefix("model."), bid)
    return convert_hf_to_gguf


def main():
    converter = load_converter(sys.argv[1])
    for name in sys.argv[2:] or NAMES:
        for flags, file in ([], name), (["--mmproj"], "mmproj-" + name):
            sys.argv = ["convert_hf_to_gguf.py", *flags, "--outtype", "bf16", "--outfile",
                        os.path.join(OUT, file + ".gguf"), os.path.join(OUT, name)]
            converter.main()


if __name__ == "__main__":
    main()
