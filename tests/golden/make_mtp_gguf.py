#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with an MTP layer, as llama.cpp's own converter writes them in GGUF.

    pip install torch transformers safetensors       (in a venv outside the repository)
    make_mtp_gguf.py LLAMA_CPP [NAME...]              (a tree of its sources)

Writes tests/golden/formats/NAME.gguf of tests/golden/models/NAME: matrices in BF16, as they
are there. The converter knows tokenizers by a hash of theirs, and this tiny one is not known:
it is said to be Qwen2's, whose words it has, and to have no tokens of GLM. The converter of October
2026 leaves out Qwen4-Exp's layer. `teach` adds it with the names that llama.cpp's later sources
read."""
import json
import os
import sys

GOLDEN = os.path.dirname(os.path.abspath(__file__))
NAMES = ("qwen3next-mtp", "glm4moe-mtp", "qwen4exp-mtp")
MIXER = {"hc_norm": "hc_head_norm", "input_mix_weight_down": "hc_head_down",
         "input_mix_weight_up": "hc_head_up"}


def teach():
    import torch
    from conversion.base import ModelBase
    from conversion.qwen4exp import Qwen4ExpTextModel as Model
    others, read, halves = Model.modify_tensors, ModelBase.load_hparams, {}

    def modify(self, t, name, layer):
        to = "blk.%d.nextn." % self.hparams["num_hidden_layers"]
        part = name.split(".")[-2]
        if name.startswith("mtp.hyper_connection_mixer."):
            return [(to + MIXER[part] + ".weight", t + 1 if part == "hc_norm" else t)]
        if part in ("enorm", "hnorm"):
            return [(to + part + ".weight", t + 1)]
        if not name.startswith("mtp.fc_"):
            return others(self, t, name, layer)
        halves[part] = t
        return [] if len(halves) < 2 else [(to + "eh_proj.weight", torch.cat(
            [halves["fc_embedding"], halves["fc_hidden"]], 1))]

    def load_hparams(folder, is_mistral_format=False):
        """As it is written: Transformers would name the layers otherwise."""
        if os.path.basename(folder) != "qwen4exp-mtp":
            return read(folder, is_mistral_format)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
            c = json.load(f)
        c["layer_types"] = [t.replace("indexed", "full") for t in c["layer_types"]]
        return c

    Model.no_mtp, Model.modify_tensors = False, modify
    ModelBase.load_hparams = staticmethod(load_hparams)


def main(llama, *only):
    sys.path[:0] = [os.path.join(llama, "gguf-py"), llama]
    from conversion.base import TextModel
    import convert_hf_to_gguf
    TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
    TextModel._set_vocab_glm = TextModel._set_vocab_gpt2
    teach()
    for name in only or NAMES:
        sys.argv = ["convert_hf_to_gguf.py", os.path.join(GOLDEN, "models", name),
                    "--outtype", "bf16", "--outfile",
                    os.path.join(GOLDEN, "formats", name + ".gguf")]
        convert_hf_to_gguf.main()


main(*sys.argv[1:])
