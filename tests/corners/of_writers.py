#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same model, written by others: of_writers.py OUT, with numpy and the package gguf
(llama.cpp's writer, its quantizers and decoders), and safetensors where it is there. A folder
each: the file `opened` names what to open, and reference.json has the numbers of mini.forward
with the weights that the package decodes."""
import json
import os
import sys

import mini as m

import numpy as np
from gguf import GGMLQuantizationType as Q, GGUFEndian, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

WIDE = dict(m.CONFIG, hidden_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
            intermediate_size=256, num_hidden_layers=1)
QUANTIZED = (Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.TQ1_0, Q.TQ2_0, Q.MXFP4)
# Of these the package only decodes: random blocks. Where in a block a factor stands, and how much
# larger it is than the first, so that weights lie around 0.
RANDOM = {Q.Q2_K: {80: 1, 82: 1.5}, Q.Q3_K: {108: 1}, Q.Q4_K: {0: 1, 2: 7.5},
          Q.Q5_K: {0: 1, 2: 15.5}, Q.Q6_K: {208: 1}, Q.IQ1_S: {0: 1}, Q.IQ2_XXS: {0: 1},
          Q.IQ2_XS: {0: 1}, Q.IQ2_S: {0: 1}, Q.IQ3_XXS: {0: 1}, Q.IQ3_S: {0: 1}, Q.IQ4_NL: {0: 1},
          Q.IQ4_XS: {0: 1}, Q.IQ1_M: {}, Q.NVFP4: {}}


def paired(a, dim):
    return a.reshape(-1, 2, dim // 2, a.shape[-1]).swapaxes(1, 2).reshape(a.shape)


def unpaired(a, dim):
    return a.reshape(-1, dim // 2, 2, a.shape[-1]).swapaxes(1, 2).reshape(a.shape)


def blocks(rng, kind, shape):
    """Random blocks whose numbers are about as large as weights."""
    n, size = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (shape[0], shape[1] // n, size), dtype=np.uint8)
    vary = rng.uniform(0.7, 1.4, raw.shape[:2])

    def scaled(by):
        for at, more in RANDOM[kind].items():
            d = (vary * by * more).astype(np.float16)
            raw[..., at:at + 2] = d.view(np.uint8).reshape(*raw.shape[:2], 2)
        return raw.reshape(shape[0], -1)
    if kind == Q.NVFP4:  # scales: e4m3 without a sign
        raw[..., :4] = rng.integers(0x10, 0x28, raw[..., :4].shape)
    if kind == Q.IQ1_M:  # the factor lies in the highest four bits of four words
        d = int(np.float16(0.01).view(np.uint16))
        for i in range(4):
            raw[..., 49 + 2 * i] = raw[..., 49 + 2 * i] & 15 | (d >> 4 * i & 15) << 4
    return scaled(0.1 / np.std(dequantize(scaled(1), kind)))


def arrays(c, kind, seed):
    """{name in Hugging Face: (array, type)} as in the file, but for pairs, and the weights that
    they are."""
    rng, out, are = np.random.default_rng(seed), {}, {}
    for name, (shape, v) in m.weights(c, seed).items():
        a = np.array(v, np.float32).reshape(shape)
        if len(shape) > 1:
            a = a / np.float32(8)  # so that a wide model's answers are not sharp
            raw = quantize(paired(a, c["head_dim"]) if "q_proj" in name or "k_proj" in name
                           else a, kind) if kind in QUANTIZED else blocks(rng, kind, shape)
            out[name] = raw, kind
            a = dequantize(raw, kind).reshape(shape)
            if "q_proj" in name or "k_proj" in name:
                a = unpaired(a, c["head_dim"])
        else:
            out[name] = a, None
        are[name] = shape, [float(x) for x in a.reshape(-1)]
    return out, are


def write(path, c, tensors, keys=None, **options):
    align = options.pop("align", None)
    w = GGUFWriter(path, "llama", **options)
    if align:
        w.add_custom_alignment(align)
    add = {m.g.U32: w.add_uint32, m.g.F32: w.add_float32, m.g.STRING: w.add_string}
    for name, kind, value in (m.gguf_keys(c) + m.gguf_words(c))[1:]:
        if isinstance(kind, tuple):
            w.add_array(name, value)
        else:
            add[kind](name, value)
    if keys:
        keys(w)
    for name, (a, kind) in tensors.items():
        w.add_tensor(m.g.tensor_name(name), a, raw_dtype=kind if a.dtype == np.uint8 else None)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def put(out, name, opened, reference):
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    for file, value in (("opened", opened), ("reference.json", json.dumps(reference))):
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            f.write(value)
    return os.path.join(folder, "m.gguf")


def every_kind(w):
    w.add_uint8("x.u8", 1)
    w.add_int8("x.i8", -1)
    w.add_uint16("x.u16", 1)
    w.add_int16("x.i16", -1)
    w.add_int32("x.i32", -1)
    w.add_uint64("x.u64", 1)
    w.add_int64("x.i64", -1)
    w.add_float64("x.f64", 0.5)
    w.add_bool("x.bool", True)
    w.add_array("x.array", [[1, 2], [3]])
    w.add_name("mini")
    w.add_file_type(7)
    w.add_chat_template([{"name": "default", "template": "{{ messages[0].content }}"},
                         {"name": "tool_use", "template": "{{ tools }}"}])


def options(out):
    c = m.CONFIG
    tensors = {n: (np.array(v, np.float32).reshape(s), None)
               for n, (s, v) in m.weights(c).items()}
    for n, (a, _) in tensors.items():
        if "q_proj" in n or "k_proj" in n:
            tensors[n] = paired(a, c["head_dim"]), None
    reference = m.reference(c)
    for name, more in (("plain", {}), ("align-64", {"align": 64}), ("keys", {"keys": every_kind}),
                       ("temporary", {"use_temp_file": True}),
                       ("split-tensors", {"split_max_tensors": 8}),
                       ("split-size", {"split_max_size": 6000}),
                       ("split-small-first", {"split_max_tensors": 8, "small_first_shard": True})):
        opened = "" if name.startswith("split") else "m.gguf"
        write(put(out, "gguf-py-" + name, opened, reference), c, tensors, **more)
    write(put(out, "gguf-py-bad-big-endian", "m.gguf", "big-endian"), c, tensors,
          endianess=GGUFEndian.BIG)


def formats(out):
    for seed, kind in enumerate((*QUANTIZED, *RANDOM), 2):
        tensors, are = arrays(WIDE, kind, seed)
        path = put(out, "gguf-py-" + kind.name, "m.gguf", m.reference(
            WIDE, are, prompts=m.PROMPTS[:1], n=1))
        write(path, WIDE, tensors)


def folders(out):
    try:
        from safetensors.numpy import save_file
    except ImportError:
        print("safetensors is not there")
        return
    import of_folder
    for dtype in np.float32, np.float16:
        made = put(out, "safetensors-lib-" + dtype.__name__, "", m.reference())
        folder = os.path.dirname(made)
        for name, raw in of_folder.folder().items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(raw)
        save_file({n: np.array(v, dtype).reshape(s) for n, (s, v) in m.weights().items()},
                  os.path.join(folder, of_folder.ONE), metadata={"format": "pt"})


def main(out):
    options(out)
    formats(out)
    folders(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
