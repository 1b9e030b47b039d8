#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random blocks of each format of GGUF, and what the gguf package for Python decodes
them to: for type X a tensor X (2 rows) and X.expected in float32. Needs numpy and gguf (PyPI).

    make_blocks.py --ggml FILE   writes tests/golden/formats/blocks.gguf, from the top of the
                                 tree. FILE is a libggml-base.so of llama.cpp: it decodes Q1_0
                                 and Q2_0, which the package cannot
    make_blocks.py SEED OUT      other blocks, without these two"""
import ctypes
import sys

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFWriter
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

HALVES = {  # where in a block float16 numbers stand
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.TQ1_0: [52], T.TQ2_0: [64], T.IQ1_S: [0], T.IQ1_M: [], T.IQ2_XS: [0], T.IQ2_S: [0],
    T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ2_XXS: [0], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
    T.F16: [0], T.BF16: [], T.NVFP4: [],
}
OF_GGML = {"Q1_0": (41, 128), "Q2_0": (42, 64)}  # number of the type, weights of a block


def random_halves(rng, raw, at):
    """Finite float16 of all sizes: subnormal, negative, the largest."""
    h = rng.integers(0, 1 << 16, len(raw)).astype(np.uint16)
    h = np.where((h & 0x7C00) == 0x7C00, h & 0x83FF, h).astype(np.uint16)
    raw[:, at:at + 2] = h.view(np.uint8).reshape(-1, 2)


def add_of_ggml(ggml, rng, w):
    for name, (number, elements) in OF_GGML.items():
        raw = rng.integers(0, 256, (8, 18), dtype=np.uint8)
        random_halves(rng, raw, 0)
        wanted = np.zeros(len(raw) * elements, np.float32)
        decode = getattr(ggml, "dequantize_row_" + name.lower())
        decode(raw.ctypes.data_as(ctypes.c_void_p), wanted.ctypes.data_as(ctypes.c_void_p),
               ctypes.c_int64(wanted.size))
        assert np.isfinite(wanted).all() and wanted.any(), name
        # The shape counts weights, and the writer takes it as it is where bytes are signed.
        w.add_tensor(name, raw.view(np.int8), raw_shape=(2, 4 * elements), raw_dtype=number)
        w.add_tensor(name + ".expected", wanted.reshape(2, -1))


def main(seed=7, out="tests/golden/formats/blocks.gguf", ggml=None):
    rng = np.random.default_rng(int(seed))
    w = GGUFWriter(out, "none")
    w.add_bool("test.bool", True)
    w.add_int8("test.i8", -7)
    w.add_uint64("test.u64", 1 << 40)
    w.add_float64("test.f64", 0.1)
    w.add_array("test.strings", ["one", "", "drei"])
    w.add_array("test.ints", [3, -1, 4])
    for t, halves in HALVES.items():
        elements, size = GGML_QUANT_SIZES[t]
        blocks = {256: 2, 64: 2, 32: 6}.get(elements, 64)
        raw = rng.integers(0, 256, (2 * blocks, size), dtype=np.uint8)
        for at in halves:
            random_halves(rng, raw, at)
        if t == T.MXFP4:
            raw[:, 0] %= 252
            raw[:4, 0] = [0, 1, 2, 251]
        if t == T.IQ1_M:  # the highest four bits of d
            raw[:, 55] &= 0xBF
        if t == T.NVFP4:  # scales have no sign
            raw[:, :4] &= 0x7F
            raw[0, :4] = [0, 1, 0x7E, 0x7F]
        if t == T.BF16:  # no NaN
            raw[:, 1] &= 0xBF
        raw = raw.reshape(2, -1)
        wanted = dequantize(raw, t)
        assert np.isfinite(wanted).all(), t
        if t == T.F16:
            w.add_tensor(t.name, raw.view(np.float16))
        else:
            w.add_tensor(t.name, raw, raw_dtype=t)
        w.add_tensor(t.name + ".expected", wanted.astype(np.float32))
    if ggml:
        add_of_ggml(ctypes.CDLL(ggml), rng, w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if sys.argv[1] == "--ggml":
        main(ggml=sys.argv[2])
    else:
        main(*sys.argv[1:])
