#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random blocks of each format of GGUF, and what the gguf package for Python decodes
them to: for type X a tensor X (2 rows) and X.expected in float32. make_blocks.py [SEED
OUT]; without them tests/golden/formats/blocks.gguf, from the top of the tree. Needs numpy
and gguf (PyPI)."""
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
    T.F16: [0], T.BF16: [],
}


def main(seed=7, out="tests/golden/formats/blocks.gguf"):
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
        blocks = 2 if elements == 256 else 6 if elements == 32 else 64
        raw = rng.integers(0, 256, (2 * blocks, size), dtype=np.uint8)
        for at in halves:  # finite, and of all sizes: subnormal, negative, the largest
            h = rng.integers(0, 1 << 16, 2 * blocks).astype(np.uint16)
            h = np.where((h & 0x7C00) == 0x7C00, h & 0x83FF, h).astype(np.uint16)
            raw[:, at:at + 2] = h.view(np.uint8).reshape(-1, 2)
        if t == T.MXFP4:
            raw[:, 0] %= 252
            raw[:4, 0] = [0, 1, 2, 251]
        if t == T.IQ1_M:  # the highest four bits of d
            raw[:, 55] &= 0xBF
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
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
