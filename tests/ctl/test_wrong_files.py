#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders that lack a file, or have it in a form that halod does not read: what it says names
the file, and what would help."""
import os
import shutil
import tempfile

from tap import SRC, done, haloctl, ok

FOLDER = os.path.join(SRC, "tests/golden/models/llama-biases")
WEIGHTS, WORDS = "model.safetensors", "tokenizer.json"

with tempfile.TemporaryDirectory() as tmp:
    for without, there, said in (
            (WEIGHTS, (), ("neither model.safetensors",)),
            (WEIGHTS, ("pytorch_model.bin",), ("pytorch_model.bin is a pickle",
                                               "save_pretrained")),
            (WEIGHTS, ("pytorch_model-00001-of-00002.bin",), ("is a pickle",)),
            (WEIGHTS, ("consolidated.00.pth",), ("consolidated.00.pth is a pickle",)),
            (WEIGHTS, ("consolidated.safetensors",), ("Mistral's own layout",)),
            (WEIGHTS, ("adapter_model.safetensors",), ("is an adapter", "merge")),
            (WEIGHTS, ("adapter_model.safetensors", "training_args.bin"),
             ("is an adapter", "merge")),
            (WEIGHTS, ("model-00001-of-00002.safetensors", "pytorch_model.bin"),
             ("model-00001-of-00002.safetensors is a part", "index")),
            (WORDS, (), ("there is no", "tokenizer.json: fetch it")),
            (WORDS, ("tokenizer.model",), ("only tokenizer.model", "save_pretrained")),
            (WORDS, ("vocab.json", "merges.txt"), ("only vocab.json",)),
            (WORDS, ("tiktoken.model",), ("only tiktoken.model",)),
            (WORDS, ("tekken.json",), ("tekken.json", "line 1"))):
        folder = os.path.join(tmp, "model")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(FOLDER, folder)
        os.remove(os.path.join(folder, without))
        for name in there:
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        code, out, err = haloctl("inspect", "--model", folder)
        ok(code == 2 and all(s in err for s in said), "without %s, with %s" % (
            without, ", ".join(there) or "nothing else"), err)
done()
