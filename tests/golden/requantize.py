#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file that llama.cpp's llama_model_quantize makes of a GGUF file's float32 weights, without
llama.cpp: requantize.py FILE.gguf FORMAT OUT.gguf

Which tensor gets which format is in smollm2_quants.json, and so is the SHA-256 of all their bytes.
The package libgguf has ggml's own quantizers. Exits with 1 where a byte differs."""
import hashlib
import json
import pathlib
import re
import sys

import gguf
import libgguf
import numpy as np

QUANTS = pathlib.Path(__file__).parent / "smollm2_quants.json"


def type_of(types, name):
    layer = re.match(r"blk\.(\d+)\.", name)
    kind = types[re.sub(r"^blk\.\d+\.", "", name)]
    return gguf.GGMLQuantizationType[kind if isinstance(kind, str) else kind[int(layer[1])]]


def main():
    source, name, target = sys.argv[1:]
    wanted = json.loads(QUANTS.read_text(encoding="utf-8"))["formats"][name]
    reader, sha = gguf.GGUFReader(source), hashlib.sha256()
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(key, field.contents(), field.types[0], sub_type=(
                field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None))
    for t in sorted(reader.tensors, key=lambda t: t.name):
        kind = type_of(wanted["types"], t.name)
        rows = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        data = rows
        if kind != gguf.GGMLQuantizationType.F32:
            data = libgguf.quantize_rows(rows, int(kind))
            data = np.ascontiguousarray(data).reshape(rows.shape[0], -1)
        sha.update(t.name.encode() + data.tobytes())
        writer.add_tensor(t.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    sys.exit(sha.hexdigest() != wanted["sha256"] and "the bytes are not llama.cpp's")


main()
