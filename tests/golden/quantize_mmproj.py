#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tower of tests/golden/vision/mmproj-qwen3vl.gguf in block formats of GGUF.

    pip install gguf   (in a venv)
    quantize_mmproj.py

Writes to tests/golden/vision:
  mmproj-blocks.gguf  the gguf package's blocks: Q8_0, Q4_0, Q5_1, Q4_1 and Q5_0 in
                      turn, where rows are long enough; the rest as it is
  mmproj-floats.gguf  the same numbers as the gguf package reads them, in F32"""

import os

import gguf
from gguf import GGMLQuantizationType as Q, quants

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vision")
TYPES = [Q.Q8_0, Q.Q4_0, Q.Q5_1, Q.Q4_1, Q.Q5_0]


def copy_keys(reader, writer):
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)


def main():
    reader = gguf.GGUFReader(os.path.join(HERE, "mmproj-qwen3vl.gguf"))
    blocks = gguf.GGUFWriter(os.path.join(HERE, "mmproj-blocks.gguf"), "clip")
    floats = gguf.GGUFWriter(os.path.join(HERE, "mmproj-floats.gguf"), "clip")
    copy_keys(reader, blocks)
    copy_keys(reader, floats)
    n = 0
    for t in reader.tensors:
        x = t.data.copy()
        if x.ndim == 2 and x.shape[1] % 32 == 0 and t.name.endswith(".weight"):
            kind = TYPES[n % len(TYPES)]
            n += 1
            q = quants.quantize(x, kind)
            blocks.add_tensor(t.name, q, raw_dtype=kind)
            x = quants.dequantize(q, kind)
        else:
            blocks.add_tensor(t.name, x)
        floats.add_tensor(t.name, x)
    for w in (blocks, floats):
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()


main()
