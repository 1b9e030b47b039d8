#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for the fuzzers of files: make_seeds.py OUT writes the folders OUT/safetensors,
OUT/gguf and OUT/tokenizer, each to be given to the fuzzer of that name. They are small
files in which everything is there that a reader knows: of GGUF both kinds of vocabulary and
a block of each format; of tokenizer.json byte-level steps and SentencePiece's. Run from the
top of the tree."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../ctl"))
import gguf_file as g

GOLDEN = "tests/golden/tokenizer/"
BYTES = ["<0x%02X>" % i for i in range(256)]
MODEL = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
         "intermediate_size": 32, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
         "rope_theta": 1e4}


def put(folder, name, raw):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(raw)


def vocabulary(model, pre, tokens, types, more):
    head = "tokenizer.ggml."
    return [(head + "model", g.STRING, model), (head + "pre", g.STRING, pre),
            (head + "tokens", (g.ARRAY, g.STRING), tokens),
            (head + "token_type", (g.ARRAY, g.I32), types),
            (head + "bos_token_id", g.U32, 1), (head + "add_bos_token", g.BOOL, True)] + [
            (head + n, *v) for n, v in more.items()] + [
            ("tokenizer.chat_template", g.STRING, "{{ messages[0].content }}")]


def gguf(out):
    pieces = ["<unk>", "<s>", "</s>"] + BYTES + ["\u2581", "H", "e", "l", "o", "He", "ll",
                                                 "\u2581He", "llo", "\u2581Hello"]
    types = [2, 3, 3] + [6] * 256 + [1] * 10
    scores = [0.0] * 259 + [-float(i) for i in range(10)]
    spm = vocabulary("llama", "default", pieces, types, {
        "scores": ((g.ARRAY, g.F32), scores), "add_space_prefix": (g.BOOL, True)})
    words = ["H", "e", "l", "o", "He", "ll", "Hell", "Hello", "<s>", "<|x|>"]
    bpe = vocabulary("gpt2", "qwen2", words, [1] * 8 + [3, 4], {
        "merges": ((g.ARRAY, g.STRING), ["H e", "l l", "He ll", "Hell o"])})
    plain = ("F32", [2, 4], bytes(32))
    tensors = {"token_embd.weight": plain, "blk.0.attn_q.weight": ("Q8_0", [1, 32],
                                                                   bytes(34)),
               "blk.0.attn_k.weight": ("Q4_0", [1, 32], bytes(18)),
               "blk.0.ffn_down.weight": ("MXFP4", [1, 32], bytes(17)),
               "rope_freqs.weight": ("F32", [8], struct.pack("<8f", *[1.0] * 8))}
    for name, keys in (("sentencepiece", spm), ("bpe", bpe)):
        os.makedirs(out, exist_ok=True)
        g.write(os.path.join(out, name), g.model_keys(MODEL) + keys, tensors)
    with open("tests/golden/formats/blocks.gguf", "rb") as f:
        put(out, "blocks", f.read())


def safetensors(out):
    os.makedirs(out, exist_ok=True)
    g.write_safetensors(os.path.join(out, "types"), {
        "a.weight": ("BF16", [2, 4], bytes(16)), "a.bias": ("F32", [4], bytes(16)),
        "b.weight_packed": ("I32", [2, 2], bytes(16)), "c": ("F8_E4M3", [3], bytes(3)),
        "d": ("U8", [0, 3], b""), "e": ("I64", [], bytes(8))})
    g.write_safetensors(os.path.join(out, "empty"), {})


def tokenizer(out):
    """One line of JSON, and behind it a text."""
    text = "\nHello <s>w\u00f6rld</s>  12"
    for base, variants in (("base.json", "variants.json"),
                           ("fallback_base.json", "fallback.json")):
        with open(GOLDEN + base, encoding="utf-8") as f:
            top = json.load(f)
        with open(GOLDEN + variants, encoding="utf-8") as f:
            rows = json.load(f)["variants"]
        keep = 259 + 24 if "fallback" in base else 256
        vocab = {p: i for p, i in top["model"]["vocab"].items() if i < keep}
        merges = [m for m in top["model"]["merges"]
                  if m[0] in vocab and m[1] in vocab and "".join(m) in vocab]
        top["model"].update(vocab=vocab, merges=merges)
        for row in rows:
            if row["model"] or any(a["id"] >= keep for a in
                                   row["patch"].get("added_tokens", [])):
                continue
            one = dict(top, **row["patch"])
            put(out, base[:4] + "-" + row["name"].replace("/", "_"),
                (json.dumps(one, separators=(",", ":")) + text).encode())


def main(out):
    safetensors(os.path.join(out, "safetensors"))
    gguf(os.path.join(out, "gguf"))
    tokenizer(os.path.join(out, "tokenizer"))


main(*sys.argv[1:])
