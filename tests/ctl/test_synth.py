#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""haloctl synth: what it writes is a model like any other."""
import hashlib
import json
import os
import struct
import tempfile

from tap import TINY, done, eq, haloctl, ok


def tensors(path):
    """Header of a safetensors file and where its data begin."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), 8 + n


def bf16(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0]
            for i in range(0, len(data), 2)]


def deviation(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def make(out, *args):
    code, text, err = haloctl("synth", "--out", out, *args)
    eq(code, 0, "synth " + " ".join(args))
    if code:
        print("# " + err)


def numbers(folder):
    """Weights have the deviation that keeps activations of order one."""
    path = os.path.join(folder, "model.safetensors")
    header, begin = tensors(path)
    name = "model.layers.0.mlp.gate_proj."
    with open(path, "rb") as f:
        def read(tensor, n):
            f.seek(begin + header[tensor]["data_offsets"][0])
            return f.read(n)
        words = struct.unpack("<20000I", read(name + "weight_packed", 80000))
        scales = bf16(read(name + "weight_scale", 20000))
        head = bf16(read("model.embed_tokens.weight", 40000))
        rows = {read("model.embed_tokens.weight", 2048 * 600)[i * 2048:][:2048]
                for i in range(600)}
    nibbles = [w >> 4 * i & 15 for w in words for i in range(8)]
    mean, dev = deviation(nibbles)
    ok(abs(mean - 8) < 0.05 and 2.3 < dev < 2.6 and min(nibbles) == 1
       and max(nibbles) == 15, "integers spread around zero", (mean, dev))
    ok(0.9 < dev * sum(scales) / len(scales) * 1024 ** 0.5 < 1.1,
       "and their scales make outputs of one", sum(scales) / len(scales))
    ok(min(scales) < 0.8 * max(scales), "scales differ")
    mean, dev = deviation(head)
    ok(1.8 < dev * 1024 ** 0.5 < 2.2, "a head of logits that are not flat", dev)
    eq(len(rows), 600, "no two rows are the same")


def same_again(tmp):
    a, b, c = (os.path.join(tmp, x) for x in "abc")
    small = ["--shape", "qwen3-0.6b", "--layers", "1", "--vocab", "3100"]
    for out, seed in ((a, "7"), (b, "7"), (c, "8")):
        make(out, *small, "--seed", seed)
    a, b, c = (digest(os.path.join(x, "model.safetensors")) for x in (a, b, c))
    ok(a == b and a != c, "the seed decides every byte")


def runs(tmp, n_layers, *args):
    out = os.path.join(tmp, "-".join(args).replace("/", ""))
    make(out, "--layers", str(n_layers), *args)
    code, text, err = haloctl("inspect", "--model", out, "--json")
    eq(code, 0, "it can be inspected")
    v = json.loads(text)
    eq(v["config"]["layers"], n_layers, "the layers asked for")
    code, text, err = haloctl("generate", "--model", out, "--raw", "-p",
                              "Once upon a time", "-n", "8", "--temperature", "1",
                              "--seed", "3")
    ok(code == 0 and len(text) > 12, "and says something", (text, err))
    return out, v


# The formats of a mix, of a model whose embedding is its output head.
MIXES = {
    "q4_0": ["q4_0", "q6_k"], "q4_k_m": ["q4_k", "q6_k"], "q5_k_m": ["q5_k", "q6_k"],
    "q6_k": ["q6_k"], "q8_0": ["q8_0"], "iq4_xs": ["iq4_xs", "q6_k"],
    "ud-q4_k_xl": ["q4_k", "q5_k", "q6_k"], "mxfp4": ["mxfp4_block", "q8_0"],
    "nvfp4": ["bf16", "nvfp4_block"],
}
# Bits of a weight in the file, of all of Qwen3-30B-A3B: published files have so many.
BITS = {"q4_k_m": 4.86, "q5_k_m": 5.69, "q6_k": 6.57, "q8_0": 8.51, "iq4_xs": 4.34}
# GB of files of Qwen3.8-Flash-Next with their MTP layer. A published ud-q4_k_xl without it has
# 111.3, a folder in NVFP4 126.
FLASH = {"iq4_xs": 99.7, "ud-q4_k_xl": 111.3, "mxfp4": 125.5, "nvfp4": 128.7}


def mixes(tmp):
    """GGUF files in the mixes that people download."""
    for name, formats in MIXES.items():
        out, v = runs(tmp, 2, "--shape", "qwen3-0.6b", "--vocab", "3200", "--format", name)
        eq(sorted(f for f in v["formats"] if f != "f32"), formats, name + " has its formats")
        eq(os.listdir(out), ["model.gguf"], "in one file")
    text, err = haloctl("tokenize", "--model", out, "-p", "What is 2+2?")[1:]
    eq(text, haloctl("tokenize", "--model", TINY, "-p", "What is 2+2?")[1],
       "text is encoded as by the tokenizer it comes from")
    empty = os.path.join(tmp, "empty")
    make(empty, "--shape", "qwen3-0.6b", "--layers", "1", "--vocab", "3200", "--empty", "--format",
         "nvfp4")
    code, out, err = haloctl("generate", "--model", empty, "-p", "x", "--max-tokens", "1")
    eq((code, err), (0, err), "an empty one in NVFP4 has the scales without which it does not load")
    for name, bits in BITS.items():
        big = os.path.join(tmp, "big")
        make(big, "--shape", "qwen3-30b-a3b", "--empty", "--format", name)
        v = json.loads(haloctl("inspect", "--model", big, "--json")[1])
        ok(abs(v["bits_per_weight"] - bits) < 0.02, "30B-A3B in %s is as large as published "
           "files" % name, v["bits_per_weight"])
    out, v = runs(tmp, 4, "--shape", "qwen3.5-35b-a3b", "--vocab", "3200", "--experts", "8",
                  "--format", "q4_k_m")
    eq(sorted(v["formats"]), ["f32", "q4_k", "q5_k", "q6_k"], "gated delta nets have Q5_K")


def flash_next(tmp):
    """Qwen3.8-Flash-Next, whose experts and n-grams have rows that are no blocks of 256."""
    shape = ["--shape", "qwen3.8-flash-next"]
    out, v = runs(tmp, 4, *shape, "--vocab", "3200", "--experts", "10", "--ngrams", "500",
                  "--format", "ud-q4_k_xl")
    eq(sorted(v["formats"]), ["bf16", "f32", "iq4_nl", "q4_k", "q5_1", "q6_k", "q8_0"],
       "formats of blocks that fit the rows")
    eq(v["parts"]["n-grams"]["weights"], 160 * 8320, "a table of n-grams of 16 parts")
    out = os.path.join(tmp, "flash")
    for name, size in FLASH.items():
        make(out, *shape, "--empty", "--format", name)
        v = json.loads(haloctl("inspect", "--model", out, "--json")[1])
        parts = v["parts"]
        ok(abs(v["weight_bytes"] * 1e-9 - size) < 0.05, "%s is a file of %.1f GB" % (name, size),
           v["weight_bytes"])
        n = parts["other"]["tensors"]
        eq((v["tensors"] - n, n), (1864, 49) if name == "nvfp4" else (1224, 32),
           "tensors of published files, and of the MTP layer; in NVFP4 also factors of both")
        ok(176.9e9 < v["weights"] - parts["other"]["weights"] < 177e9, "177 B", v["weights"])
        eq(v["memory_bytes"], v["weight_bytes"] - parts["n-grams"]["bytes"] + v["kv_bytes"] +
           v["state_bytes"], "n-grams stay on the disk")
        ok(parts["n-grams"]["bytes_per_token"] < 3000, "and a token reads 16 rows of them",
           parts["n-grams"])
        ok(parts["streams"]["bytes_per_token"] > 0.3e9, "it reads all mixers of the streams",
           parts["streams"])
    text = haloctl("inspect", "--model", out)[1].decode()
    ok("n-grams that stay in the model's files, and are not in the memory: 51879.92 MiB" in text,
       "the text says so", text)


def faults(tmp):
    out = os.path.join(tmp, "none")
    for args, word in ((["--out", out], "--shape"),
                       (["--shape", "qwen3-8b"], "--out"),
                       (["--shape", "qwen9", "--out", out], "qwen3-30b-a3b"),
                       (["--shape", "qwen3-8b", "--out", out, "--format", "q9"], "q9"),
                       (["--shape", "qwen3-8b", "--out", out, "--experts", "9"],
                        "experts"),
                       (["--shape", "qwen3-30b-a3b", "--out", out, "--experts", "4"],
                        "experts"),
                       (["--shape", "qwen3-8b", "--out", out, "--vocab", "100"], "100"),
                       (["--shape", "qwen3-8b", "--out", out, "--ngrams", "100"], "ngrams"),
                       (["--shape", "qwen3.8-flash-next", "--out", out], "ud-q4_k_xl"),
                       (["--shape", "qwen3-8b", "--out", "/nonexistent/x"],
                        "/nonexistent")):
        code, text, err = haloctl("synth", *args)
        ok(code == 2 and word in err, "refused: " + " ".join(args), err)


with tempfile.TemporaryDirectory() as tmp:
    faults(tmp)
    same_again(tmp)
    dense = ["--shape", "qwen3-0.6b", "--vocab", "3200"]
    folder, v = runs(tmp, 2, *dense, "--format", "w4a16-g32")
    eq(v["parts"]["ffn"]["bytes"], 2 * 3 * 1024 * 3072 * 9 // 16 + 2 * 3 * 16,
       "half a byte a weight, and scales")
    numbers(folder)
    runs(tmp, 1, *dense, "--format", "w4a16-g128-asym")
    runs(tmp, 1, *dense, "--format", "bf16")
    folder, v = runs(tmp, 1, "--shape", "qwen3-30b-a3b", "--vocab", "3200",
                     "--experts", "12")
    eq(v["config"]["experts"], 12, "the experts asked for")
    big = os.path.join(tmp, "hybrid")
    make(big, "--shape", "qwen3.5-27b", "--empty")
    v = json.loads(haloctl("inspect", "--model", big, "--json")[1])
    eq(round(v["weights"] / 1e9, 1), 26.9,
       "a dense model with gated delta nets has as many weights as the published one")
    folder, v = runs(tmp, 4, "--shape", "qwen3.5-35b-a3b", "--vocab", "3200",
                     "--experts", "8")
    names, _ = tensors(os.path.join(folder, "model.safetensors"))
    layer = "model.language_model.layers.%d."
    ok(layer % 2 + "linear_attn.A_log" in names and
       layer % 3 + "self_attn.q_norm.weight" in names and
       layer % 2 + "self_attn.q_norm.weight" not in names, "every fourth layer attends")
    eq(names[layer % 3 + "self_attn.q_proj.weight_shape"]["shape"] +
       names[layer % 0 + "linear_attn.conv1d.weight"]["shape"], [2, 8192, 1, 4],
       "the convolution's shape")
    code, text, err = haloctl("tokenize", "--model", folder, "-p", "What is 2+2?")
    eq(text, haloctl("tokenize", "--model", TINY, "-p", "What is 2+2?")[1],
       "text is encoded as by the tokenizer it comes from")
    mixes(tmp)
    flash_next(tmp)
    done()
