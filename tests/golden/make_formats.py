#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One random layer of each weight format, and its numbers decoded with numpy
straight from the description of the format, as tests/golden/formats/
model.safetensors: for layer X its tensors and X.expected (N, K) in float32.
tests/unit/model/test_formats.c compares. Needs numpy; run from the top of the tree."""
import json
import struct
import numpy as np

rng = np.random.default_rng(5)
out = {}
NAMES = {"int32": "I32", "uint8": "U8", "float16": "F16", "float32": "F32",
         "int64": "I64"}


def put(name, a, dtype=None):
    out[name] = (dtype or NAMES[a.dtype.name], np.ascontiguousarray(a))


def bf16(a):
    """float32 to bfloat16 bits (cut off) and what they stand for."""
    bits = (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def pack(a, axis, bits, order=None):
    """Integers to int32 words along an axis, the first in the lowest bits, or in
    the bits that order says."""
    per = 32 // bits
    a = np.moveaxis(a, axis, -1).astype(np.uint64)
    pad = -a.shape[-1] % per
    a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, pad)])
    a = a.reshape(*a.shape[:-1], -1, per)
    word = np.zeros(a.shape[:-1], np.uint64)
    for i in range(per):
        word |= a[..., order[i] if order else i] << np.uint64(bits * i)
    return np.moveaxis(word.astype(np.uint32).view(np.int32), -1, axis)


def e4m3(b):
    s = np.where(b & 128, -1.0, 1.0)
    e, m = (b >> 3 & 15).astype(int), (b & 7).astype(float)
    v = np.where(e == 0, m / 8 * 2.0 ** -6, (1 + m / 8) * 2.0 ** (e - 7.0))
    return np.where((b & 127) == 127, np.nan, s * v)


def bytes_e4m3(shape):
    b = rng.integers(0, 256, shape, dtype=np.uint8)
    return np.where((b & 127) == 127, 126, b).astype(np.uint8)


def scales(*shape):
    return (rng.random(shape) * 0.02 + 1e-3).astype(np.float32)


def integers(name, n, k, group, bits, asym):
    q = rng.integers(0, 1 << bits, (n, k))
    z = rng.integers(0, 1 << bits, (n, k // group)) if asym else \
        np.full((n, k // group), 1 << (bits - 1))
    s_bits, s = bf16(scales(n, k // group))
    put(name + ".weight_packed", pack(q, 1, bits))
    put(name + ".weight_scale", s_bits, "BF16")
    put(name + ".weight_shape", np.array([n, k], np.int64))
    if asym:
        put(name + ".weight_zero_point", pack(z, 0, bits))
    w = (q - np.repeat(z, group, 1)).astype(np.float32) * np.repeat(s, group, 1)
    put(name + ".expected", w.astype(np.float32))


def awq(name, n, k, group):
    q = rng.integers(0, 16, (k, n))
    z = rng.integers(0, 16, (k // group, n))
    s = scales(k // group, n).astype(np.float16)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    put(name + ".qweight", pack(q, 1, 4, order))
    put(name + ".qzeros", pack(z, 1, 4, order))
    put(name + ".scales", s)
    w = (q - np.repeat(z, group, 0)) * np.repeat(s.astype(np.float32), group, 0)
    put(name + ".expected", w.T.astype(np.float32))


def gptq(name, n, k, group, bits, version, desc_act):
    q = rng.integers(0, 1 << bits, (k, n))
    z = rng.integers(0, 1 << bits, (k // group, n))
    s = scales(k // group, n).astype(np.float16)
    g = np.arange(k) // group
    if desc_act:
        g = rng.permutation(g)
    stored = (z - 1) % (1 << bits) if version == 1 else z
    put(name + ".qweight", pack(q, 0, bits))
    put(name + ".qzeros", pack(stored, 1, bits))
    put(name + ".scales", s)
    put(name + ".g_idx", g.astype(np.int32))
    w = (q - z[g]) * s.astype(np.float32)[g]
    put(name + ".expected", w.T.astype(np.float32))


def nvfp4(name, n, k, spelling):
    values = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6],
                      np.float32)
    q = rng.integers(0, 16, (n, k)).astype(np.uint8)
    s = bytes_e4m3((n, k // 16)) & 127
    packed = q[:, 0::2] | q[:, 1::2] << 4
    scale = e4m3(s).astype(np.float32)
    if spelling == "ct":
        put(name + ".weight_packed", packed)
        put(name + ".weight_global_scale", np.array([1234.5], np.float32))
        scale = scale / np.float32(1234.5)
    else:
        put(name + ".weight", packed)
        put(name + ".weight_scale_2", np.array(0.00071, np.float32))
        scale = scale * np.float32(0.00071)
    put(name + ".weight_scale", s, "F8_E4M3")
    put(name + ".expected", values[q] * np.repeat(scale, 16, 1))


def fp8(name, n, k, rows, cols, suffix, shape=None):
    q = bytes_e4m3((n, k))
    s = scales(-(-n // rows), -(-k // cols))
    put(name + ".weight", q, "F8_E4M3")
    put(name + suffix, s.reshape(shape) if shape is not None else s)
    big = np.repeat(np.repeat(s, rows, 0)[:n], cols, 1)[:, :k]
    put(name + ".expected", e4m3(q).astype(np.float32) * big)


integers("int4", 20, 48, 16, 4, False)
integers("int4_asym", 20, 48, 16, 4, True)
integers("int8", 18, 48, 16, 8, False)
integers("int8_asym", 18, 48, 24, 8, True)
integers("int8_row", 5, 40, 40, 8, False)
awq("awq", 24, 40, 8)
awq("awq_row", 8, 16, 16)
gptq("gptq", 16, 48, 16, 4, 1, False)
gptq("gptq_act", 16, 48, 16, 4, 1, True)
gptq("gptq_v2", 24, 32, 8, 4, 2, True)
gptq("gptq8", 12, 48, 24, 8, 1, True)
nvfp4("nvfp4_ct", 10, 48, "ct")
nvfp4("nvfp4_modelopt", 10, 48, "modelopt")
fp8("fp8_block", 24, 40, 16, 32, ".weight_scale_inv")
fp8("fp8_tensor", 9, 24, 9, 24, ".weight_scale", ())
fp8("fp8_one", 9, 24, 9, 24, ".weight_scale", (1,))
fp8("fp8_channel", 9, 24, 1, 24, ".weight_scale")
fp8("fp8_vector", 9, 24, 1, 24, ".weight_scale", (9,))
plain = rng.standard_normal((20, 48)).astype(np.float32)
put("plain_int4.weight", plain)
put("plain_int4.expected", plain)



def mxfp4(shape):
    """Bytes of e2m1, scales and the numbers, for shape (..., N, K)."""
    q = rng.integers(0, 16, shape).astype(np.uint8)
    s = rng.integers(110, 140, (*shape[:-1], shape[-1] // 32)).astype(np.uint8)
    s.flat[0], s.flat[1] = 0, 251
    w = E2M1[q] * np.repeat(2.0 ** (s.astype(float) - 127), 32, -1)
    return q[..., 0::2] | q[..., 1::2] << 4, s, w.astype(np.float32)


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
for name, packed, dtype in (("mxfp4_ct", ".weight_packed", "U8"),
                            ("mxfp4_modelopt", ".weight", "F8_E8M0")):
    q, s, w = mxfp4((6, 96))
    put(name + packed, q)
    put(name + ".weight_scale", s, dtype)
    put(name + ".expected", w)

# Of all experts (E) in one tensor: X.experts.PROJ..., and what each of them is as
# X.expected.PROJ (E, N, K).
E, F, D = 3, 8, 64
q, s, w = mxfp4((E, 2 * F, D))  # gpt-oss: rows of gate and up in turn
put("turn.experts.gate_up_proj_blocks", q.reshape(E, 2 * F, D // 32, 16))
put("turn.experts.gate_up_proj_scales", s)
put("turn.expected.gate_proj", w[:, 0::2])
put("turn.expected.up_proj", w[:, 1::2])
bits, w = bf16(rng.standard_normal((E, D, 2 * F)))  # the same in bfloat16
put("wide.experts.gate_up_proj", bits, "BF16")
put("wide.expected.gate_proj", w[:, :, 0::2].transpose(0, 2, 1))
put("wide.expected.up_proj", w[:, :, 1::2].transpose(0, 2, 1))
bits, w = bf16(rng.standard_normal((E, F, D)))
put("wide.experts.down_proj", bits, "BF16")
put("wide.expected.down_proj", w.transpose(0, 2, 1))
w = rng.standard_normal((E, 2 * F, D)).astype(np.float16)  # Qwen3.5: gate, then up
put("half.experts.gate_up_proj", w)
put("half.expected.gate_proj", w[:, :F].astype(np.float32))
put("half.expected.up_proj", w[:, F:].astype(np.float32))
w = rng.standard_normal((E, D, F)).astype(np.float16)
put("half.experts.down_proj.weight", w)
put("half.expected.down_proj", w.astype(np.float32))
q, z = rng.integers(0, 16, (E, 2 * F, D)), rng.integers(0, 16, (E, 2 * F, D // 32))
s_bits, s = bf16(scales(E, 2 * F, D // 32))
put("pack.experts.gate_up_proj.weight_packed", pack(q, 2, 4))
put("pack.experts.gate_up_proj.weight_scale", s_bits, "BF16")
put("pack.experts.gate_up_proj.weight_zero_point", pack(z, 1, 4))
w = ((q - np.repeat(z, 32, 2)) * np.repeat(s, 32, 2)).astype(np.float32)
put("pack.expected.gate_proj", w[:, :F])
put("pack.expected.up_proj", w[:, F:])


def ordered(name, n, k, group, bits):
    """actorder of compressed-tensors: groups of inputs anywhere, with zero points."""
    g = rng.permutation(np.arange(k) // group)
    q, z = rng.integers(0, 1 << bits, (n, k)), rng.integers(0, 1 << bits, (n, k // group))
    s_bits, s = bf16(scales(n, k // group))
    put(name + ".weight_packed", pack(q, 1, bits))
    put(name + ".weight_scale", s_bits, "BF16")
    put(name + ".weight_zero_point", pack(z, 0, bits))
    put(name + ".weight_g_idx", g.astype(np.int32))
    put(name + ".expected", ((q - z[:, g]) * s[:, g]).astype(np.float32))


ordered("int4_order", 10, 48, 16, 4)
ordered("int8_order", 10, 48, 8, 8)

# DeepSeek-V4 as published: FP4 among FP8. Random numbers of their own leave the others' alone.
kept, rng = rng, np.random.default_rng(6)
for name, packed, dtype, scale in (("fp4", "I8", "F8_E8M0", ".scale"),
                                   ("fp4_inv", "F4", "F8_E8M0", ".weight_scale_inv")):
    q, s, w = mxfp4((6, 96))
    put(name + ".weight", q, packed)
    put(name + scale, s, dtype)
    put(name + ".expected", w)
for name, dtype, suffix in (("fp8_e8m0", "F8_E8M0", ".scale"),
                            ("fp8_bytes", "U8", ".weight_scale_inv")):
    q, s = bytes_e4m3((24, 40)), rng.integers(100, 140, (2, 2)).astype(np.uint8)
    s.flat[0] = 0
    put(name + ".weight", q, "F8_E4M3")
    put(name + suffix, s, dtype)
    big = np.repeat(np.repeat(2.0 ** (s.astype(float) - 127), 16, 0)[:24], 32, 1)[:, :40]
    put(name + ".expected", (e4m3(q) * big).astype(np.float32))
rng = kept



def save(path):
    header, at, data = {}, 0, b""
    for name in sorted(out, key=lambda n: -out[n][1].itemsize):
        dtype, a = out[name]
        raw = a.tobytes()
        shape = list(a.shape)
        if dtype == "F4":  # headers count numbers, of which a byte holds two
            shape[-1] *= 2
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


save("tests/golden/formats/model.safetensors")
out = {}

# Layers that loading makes into other formats, in formats/made.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
       -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
FP4 = [x / 192 * s for s in (1, -1) for x in (0, 1, 128, 192, 64, 96, 32, 48)]


def bnb4(name, n, k, block, kind, nested=False):
    values = np.array(NF4 if kind == "nf4" else FP4, np.float32)
    q = rng.integers(0, 16, n * k).astype(np.uint8)
    blocks = -(-n * k // block)
    about = {"quant_type": kind, "blocksize": block, "dtype": "bfloat16", "shape": [n, k]}
    if nested:  # groups of four: bitsandbytes has 256
        about.update({"nested_blocksize": 4, "nested_dtype": "float32",
                      "nested_offset": 0.0125})
        at = rng.integers(0, 256, blocks).astype(np.uint8)
        table, outer = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32), \
            scales(-(-blocks // 4))
        factor = table[at] * outer[np.arange(blocks) // 4] + np.float32(0.0125)
        put(name + ".weight.absmax", at)
        put(name + ".weight.nested_quant_map", table)
        put(name + ".weight.nested_absmax", outer)
    else:
        factor = scales(blocks)
        put(name + ".weight.absmax", factor)
    put(name + ".weight", (q[0::2] << 4 | q[1::2]).reshape(-1, 1))
    put(name + ".weight.quant_map", values)
    put(name + ".weight.quant_state.bitsandbytes__" + kind,
        np.frombuffer(json.dumps(about).encode(), np.uint8))
    w = values[q] * np.repeat(factor, block)[:n * k]
    put(name + ".expected", w.reshape(n, k).astype(np.float32))


def hqq(name, n, k, group, bits):
    q = rng.integers(0, 1 << bits, (n * k // group, group)).astype(np.uint8)
    half = len(q) // 2
    z, s = rng.uniform(0, (1 << bits) - 1, (len(q), 1)).astype(np.float16), \
        scales(len(q), 1).astype(np.float16)
    put(name + ".W_q", q if bits == 8 else q[:half] << 4 | q[half:])
    put(name + ".zero", z)
    put(name + ".scale", s)
    put(name + ".shape", np.array([n, k], np.int64))
    w = (q - z.astype(np.float32)) * s.astype(np.float32)
    put(name + ".expected", w.reshape(n, k))


bnb4("nf4", 8, 96, 64, "nf4")
bnb4("nf4_nested", 12, 64, 64, "nf4", True)
bnb4("nf4_odd", 8, 40, 64, "nf4")
bnb4("fp4", 8, 64, 64, "fp4")
hqq("hqq", 8, 128, 64, 4)
hqq("hqq_odd", 8, 48, 24, 4)
hqq("hqq8", 6, 64, 32, 8)
q, s = rng.integers(-127, 128, (10, 24)).astype(np.int8), scales(10) * 100
put("llmint8.weight", q, "I8")
put("llmint8.SCB", s)
put("llmint8.expected", q * (s / np.float32(127))[:, None])


def quark(name, n, k, group, is_signed, order):
    """Eight outputs a word, in AWQ's order or in their own; int4 in two's complement."""
    q, z = rng.integers(0, 16, (n, k)), rng.integers(0, 16, (n, k // group))
    if is_signed:
        z[:] = 0
    s_bits, s = bf16(scales(n, k // group))
    put(name + ".weight", pack(q.T, 1, 4, order))
    put(name + ".weight_scale", np.ascontiguousarray(s_bits.T), "BF16")
    put(name + ".weight_zero_point", pack(z.T, 1, 4, order))
    value = np.where(q > 7, q - 16, q) if is_signed else q
    put(name + ".expected", ((value - np.repeat(z, group, 1)) *
                             np.repeat(s, group, 1)).astype(np.float32))


REORDER = [0, 2, 4, 6, 1, 3, 5, 7]
quark("quark_int4", 16, 48, 16, True, REORDER)
quark("quark_uint4", 16, 48, 16, False, REORDER)
quark("quark_order", 8, 32, 16, True, None)
for name, count in (("ct_bytes", 10), ("ct_byte", 1)):
    q = rng.integers(-128, 128, (10, 24)).astype(np.int8)
    s_bits, s = bf16(scales(count, 1))
    put(name + ".weight", q, "I8")
    put(name + ".weight_scale", s_bits, "BF16")
    put(name + ".expected", (q * s).astype(np.float32))


def stream(a, axis, bits):
    """Integers to int32 words along an axis, without gaps."""
    a = np.moveaxis(a, axis, -1)
    bit = (a[..., None] >> np.arange(bits)) & 1
    bit = bit.reshape(*a.shape[:-1], -1).astype(np.uint8)
    bit = np.pad(bit, [(0, 0)] * (a.ndim - 1) + [(0, -bit.shape[-1] % 32)])
    word = np.packbits(bit, axis=-1, bitorder="little").view(np.int32)
    return np.ascontiguousarray(np.moveaxis(word, -1, axis))


def ct_stream(name, n, k, group, bits, asym):
    """compressed-tensors with a number of bits that does not divide a word."""
    middle = 1 << (bits - 1)
    q = rng.integers(0, 2 * middle, (n, k))
    z = rng.integers(0, 2 * middle, (n, k // group)) if asym else \
        np.full((n, k // group), middle)
    s_bits, s = bf16(scales(n, k // group))
    put(name + ".weight_packed", stream(q, 1, bits))
    put(name + ".weight_scale", s_bits, "BF16")
    put(name + ".weight_shape", np.array([n, k], np.int64))
    if asym:
        put(name + ".weight_zero_point", stream(z, 0, bits))
    w = (q - np.repeat(z, group, 1)) * np.repeat(s, group, 1)
    put(name + ".expected", w.astype(np.float32))


def ct_bytes(name, n, k, rows, cols, bits, asym, suffix=".weight_scale"):
    """A byte for each integer, a scale for rows by cols of them."""
    low, high = -(1 << (bits - 1)), 1 << (bits - 1)
    q = rng.integers(low, high, (n, k)).astype(np.int8)
    s_bits, s = bf16(scales(-(-n // rows), k // cols))
    put(name + ".weight", q, "I8")
    put(name + suffix, s_bits, "BF16")
    z = np.zeros_like(s)
    if asym:
        z = rng.integers(low, high, s.shape).astype(np.int8)
        put(name + ".weight_zero_point", z, "I8")

    def spread(a):
        return np.repeat(np.repeat(a.astype(np.float32), rows, 0)[:n], cols, 1)
    put(name + ".expected", (q - spread(z)) * spread(s))


def power_bytes(n, k):
    s = rng.integers(110, 140, (n, k // 32)).astype(np.uint8)
    s.flat[0], s.flat[1] = 0, 240
    return s, np.repeat(2.0 ** (s.astype(float) - 127), 32, 1)


def mxfp8(name, n, k, dtype):
    q, (s, scale) = bytes_e4m3((n, k)), power_bytes(n, k)
    put(name + ".weight", q, "F8_E4M3")
    put(name + ".weight_scale", s, dtype)
    put(name + ".expected", (e4m3(q) * scale).astype(np.float32))


def mxfp6(name, n, k, fraction, suffix):
    """Six bits: a sign, 5 - fraction bits of exponent, the fraction."""
    q, (s, scale) = rng.integers(0, 64, (n, k)), power_bytes(n, k)
    e, m = q >> fraction & ((32 >> fraction) - 1), q & ((1 << fraction) - 1)
    bias = 1 if fraction == 3 else 3
    v = np.where(e == 0, m / 2.0 ** fraction * 2.0 ** (1 - bias),
                 (1 + m / 2.0 ** fraction) * 2.0 ** (e - float(bias)))
    put(name + suffix, stream(q, 1, 6).view(np.uint8))
    put(name + ".weight_scale", s)
    put(name + ".expected", (np.where(q & 32, -v, v) * scale).astype(np.float32))


def gptq_small(name, n, k, group, bits, version):
    q, z = rng.integers(0, 1 << bits, (k, n)), rng.integers(0, 1 << bits, (k // group, n))
    s = scales(k // group, n).astype(np.float16)
    g = rng.permutation(np.arange(k) // group)
    put(name + ".qweight", stream(q, 0, bits))
    put(name + ".qzeros", stream((z - 1) % (1 << bits) if version == 1 else z, 1, bits))
    put(name + ".scales", s)
    put(name + ".g_idx", g.astype(np.int32))
    put(name + ".expected", ((q - z[g]) * s.astype(np.float32)[g]).T.astype(np.float32))


def modelopt_int4(name, n, k, group, has_factors):
    """Two outputs a byte in two's complement, and a factor of each input."""
    q, s = rng.integers(-8, 8, (n, k)), scales(n, k // group)
    put(name + ".weight", ((q[::2] & 15) | (q[1::2] & 15) << 4).astype(np.uint8))
    put(name + ".weight_scale", s)
    w = (q * np.repeat(s, group, 1)).astype(np.float32)
    if has_factors:
        bits, by = bf16(rng.uniform(0.1, 9, k).astype(np.float32))
        put(name + ".pre_quant_scale", bits, "BF16")
        w *= by
    put(name + ".expected", w)


def hqq_small(name, n, k, group, bits, axis):
    """Rows of the numbers in parts, the first in the highest bits; three bits in words."""
    rows, width = (n * k // group, group) if axis else (group, n * k // group)
    q = rng.integers(0, 1 << bits, (rows, width))
    each = 10 if bits == 3 else 8 // bits
    parts = np.pad(q, [(0, -rows % each), (0, 0)]).reshape(each, -1, width)
    word = sum(parts[i].astype(np.int64) << bits * (each - 1 - i) for i in range(each))
    put(name + ".W_q", word.astype(np.int32 if bits == 3 else np.uint8))
    shape = (rows, 1) if axis else (1, width)
    z, s = rng.uniform(0, (1 << bits) - 1, shape).astype(np.float16), \
        scales(*shape).astype(np.float16)
    put(name + ".zero", z)
    put(name + ".scale", s)
    put(name + ".shape", np.array([n, k], np.int64))
    put(name + ".nbits", np.array([bits], np.int32))
    put(name + ".axis", np.array([axis], np.int32))
    w = (q.astype(np.float32) - z.astype(np.float32)) * s.astype(np.float32)
    put(name + ".expected", w.reshape(n, k))


ct_bytes("ct_bytes_asym", 10, 24, 1, 24, 8, True)
ct_bytes("ct_bytes_group", 10, 48, 1, 16, 8, True)
ct_bytes("ct_bytes_4", 10, 48, 1, 16, 4, False)
ct_bytes("ct_bytes_block", 10, 48, 8, 16, 8, False, ".weight_scale_inv")
ct_stream("ct_2", 10, 48, 16, 2, False)
ct_stream("ct_3", 10, 48, 16, 3, True)
ct_stream("ct_5", 10, 40, 40, 5, False)
ct_stream("ct_6", 10, 48, 16, 6, True)
ct_stream("ct_7", 10, 48, 16, 7, False)
mxfp8("mxfp8", 6, 96, "U8")
mxfp8("mxfp8_powers", 6, 96, "F8_E8M0")
mxfp6("mxfp6", 6, 96, 3, ".weight_packed")
mxfp6("mxfp6_quark", 6, 96, 2, ".weight")
gptq_small("gptq_2", 16, 48, 16, 2, 1)
gptq_small("gptq_3", 32, 96, 32, 3, 2)
gptq_small("gptq_6", 16, 96, 32, 6, 1)
hqq_small("hqq_1", 8, 64, 32, 1, 1)
hqq_small("hqq_2", 8, 64, 32, 2, 1)
hqq_small("hqq_3", 8, 64, 32, 3, 1)
hqq_small("hqq_columns", 8, 48, 24, 4, 0)
fp8("fp8_group", 9, 48, 1, 16, ".weight_scale")
fp8("fp8_modelopt", 9, 160, 128, 128, ".weight_scale", (1, 1, 2, 1))
bnb4("nf4_stored", 8, 96, 64, "nf4")
modelopt_int4("modelopt_int4", 10, 48, 16, True)
modelopt_int4("modelopt_folded", 10, 64, 32, False)
out["nf4_stored.weight"] = ("BF16", out["nf4_stored.weight"][1].reshape(-1).view(np.uint16))
save("tests/golden/formats/made/model.safetensors")
