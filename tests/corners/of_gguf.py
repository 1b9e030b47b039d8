# SPDX-License-Identifier: Apache-2.0
"""GGUF files at the corners of the format. rows() gives (name, {file: bytes}, the file to open,
what is expected): None, the answers and ids of mini.py; or words of the refusal."""
import gguf_file as g
import mini as m

U8, I8, U16, I16, U64, I64, F64 = 0, 1, 2, 3, 10, 11, 12
KEYS, WORDS, T = m.gguf_keys(), m.gguf_words(), m.gguf_tensors()
ALL = KEYS + WORDS
Q = "blk.0.attn_q.weight"


def without(*names):
    return [k for k in ALL if k[0] not in names]


def of(name, kind, value, keys=None):
    """With another value of a key, where it stood."""
    keys = ALL if keys is None else keys
    assert any(k[0] == name for k in keys), name
    return [(name, kind, value) if k[0] == name else k for k in keys]


def more(*keys):
    return ALL + list(keys)


def tensor(name, kind, shape, raw):
    return {**T, name: (kind, shape, raw)}


def of_arch(arch, keys, layers):
    """The same settings under another architecture's name."""
    keys = of("general.architecture", g.STRING, arch, of("llama.block_count", U64, layers, keys))
    return [(n.replace("llama.", arch + ".", 1), k, v) for n, k, v in keys]


def word(name, kind, value):
    return of("tokenizer.ggml." + name, kind, value)


def cast(kinds):
    return [(n, kinds.get(k, k), v) for n, k, v in ALL]


def splits(n, count=None, number=None, twice=False, kind=U16):
    """The files of one in n parts."""
    names, out = sorted(T), {}
    for i in range(n):
        part = {t: T[t] for t in names[i::n]}
        if twice and i:
            part[names[0]] = T[names[0]]
        keys = [("split.no", kind, (number or (lambda x: x))(i)),
                ("split.count", kind, count or n), ("split.tensors.count", g.I32, len(T))]
        out["m-%05d-of-%05d.gguf" % (i + 1, n)] = m.gguf((ALL if i == 0 else []) + keys, part)
    return out


def containers():
    """What the container allows, and the same answers."""
    yield "version-2", m.gguf(ALL, T, version=2)
    for align in 8, 16, 32, 64, 256, 4096:
        yield "align-%d" % align, m.gguf(more(("general.alignment", g.U32, align)), T, align=align)
    for kind, name in ((U64, "u64"), (g.I32, "i32"), (U8, "u8")):
        yield "align-as-" + name, m.gguf(more(("general.alignment", kind, 64)), T, align=64)
    yield "tensors-reversed", m.gguf(ALL, dict(reversed(T.items())))
    yield "tensors-sorted", m.gguf(ALL, dict(sorted(T.items())))
    yield "data-reversed", m.gguf(ALL, T, order=list(reversed(T)))
    yield "data-in-gaps", m.gguf(ALL, T, gap=100)
    yield "data-behind", m.gguf(ALL, T, end=b"\xff" * 77)
    yield "keys-reversed", m.gguf(list(reversed(ALL)), T)
    yield "words-first", m.gguf(WORDS + KEYS, T)
    yield "numbers-u64", m.gguf(cast({g.U32: U64, g.F32: F64}), T)
    yield "numbers-i32", m.gguf(cast({g.U32: g.I32}), T)
    yield "numbers-u16", m.gguf(cast({g.U32: U16}), T)
    yield "types-u8", m.gguf(word("token_type", (9, U8), WORDS[3][2]), T)
    yield "types-i64", m.gguf(word("token_type", (9, I64), WORDS[3][2]), T)
    yield "keys-of-all-types", m.gguf(more(*[("x.k%d" % k, k, 1) for k in m.SIZES]), T)
    yield "arrays-of-all-types", m.gguf(more(*[("x.a%d" % k, (9, k), [1, 0]) for k in m.SIZES]), T)
    yield "arrays-nested", m.gguf(more(("x", (9, (9, g.STRING)), [["a"], [], ["b", "c"]])), T)
    yield "arrays-empty", m.gguf(more(("x", (9, g.STRING), []), ("y", (9, g.F32), [])), T)
    yield "string-empty", m.gguf(more(("general.name", g.STRING, "")), T)
    yield "string-no-utf8", m.gguf(more(("general.name", g.STRING, b"\xff\xfe\0")), T)
    yield "string-long", m.gguf(more(("general.description", g.STRING, "x" * 70000)), T)
    yield "heads-of-each-layer", m.gguf(
        of("llama.attention.head_count_kv", (9, g.I32), [1, 1]), T)
    yield "tensor-flat-in-two-dims", m.gguf(
        ALL, tensor("output_norm.weight", "F32", [1, 16], T["output_norm.weight"][2]))
    for kind in "F16", "F32", "BF16":
        yield "all-" + kind, m.gguf(ALL, m.gguf_tensors(kind=kind))
    mixed = m.gguf_tensors(kind="F16")
    yield "all-mixed", m.gguf(ALL, {n: mixed[n] if i % 2 else t for i, (n, t) in enumerate(
        T.items())})
    w = m.weights()
    for kind in "F16", "BF16":
        yield "norms-" + kind, m.gguf(ALL, {n: t if len(t[1]) > 1 else (
            kind, t[1], m.raw(w[h][1], kind)) for h, (n, t) in zip(w, T.items())})
    yield "unused-tensor-named", m.gguf(ALL, tensor("rope_freqs.weight", "F32", [4],
                                                    m.raw([1.0] * 4, "F32")))
    yield "no-key-length", m.gguf(without("llama.attention.key_length",
                                          "llama.attention.value_length"), T)
    yield "no-rope-base", m.gguf(without("llama.rope.freq_base"), T)
    yield "vocab-size-key", m.gguf(more(("llama.vocab_size", g.U32, 20)), T)
    yield "file-type-unknown", m.gguf(more(("general.file_type", g.U32, 1024)), T)


def heads():
    good = m.gguf(ALL, T)
    yield "empty", b"", "not a GGUF file"
    yield "four-bytes", b"GGUF", "ends within its header"
    yield "ggml", b"lmgg" + good[4:], "not a GGUF file"
    yield "ggjt", b"tjgg" + good[4:], "not a GGUF file"
    yield "html", b"<!DOCTYPE html><html><body>404</body></html>", "not a GGUF file"
    yield "gzip", b"\x1f\x8b\x08\0" + good, "not a GGUF file"
    yield "lfs", (b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 +
                  b"\nsize 12\n"), "a pointer of git-lfs"
    yield "safetensors", m.safetensors(m.folder_tensors()), "not a GGUF file"
    for version in 0, 1, 4:
        yield "version-%d" % version, m.gguf(ALL, T, version=version), \
            "version %d of GGUF" % version
    yield "big-endian", m.gguf(ALL, T, version=3 << 24), "big-endian"
    yield "keys-too-many", m.gguf(ALL, T, n_keys=1 << 40), "keys: no GGUF file, or truncated"
    yield "keys-one-more", m.gguf(ALL, T, n_keys=len(ALL) + 1), ""
    yield "keys-one-less", m.gguf(ALL, T, n_keys=len(ALL) - 1), ""
    yield "tensors-too-many", m.gguf(ALL, T, n_tensors=1 << 60), "tensors: no GGUF file"
    yield "tensors-one-more", m.gguf(ALL, T, n_tensors=len(T) + 1), ""
    for cut in 12, 24, 40, 300, 700, 1800:
        yield "cut-at-%d" % cut, good[:cut], ""
    yield "cut-in-data", good[:-2000], "the file is truncated"
    yield "cut-by-a-byte", m.gguf(ALL, T)[:-1] if len(T["output.weight"][2]) % 32 == 0 else \
        good[:-40], "truncated"


def broken_keys():
    yield "key-twice", more(ALL[1]), "llama.block_count is there twice"
    yield "key-empty", more(("", g.U32, 1)), "is empty"
    yield "key-long", more(("k" * 300, g.U32, 1)), "longer than"
    yield "key-with-nul", more(("a\0b", g.U32, 1)), "no UTF-8"
    yield "key-no-utf8", more((b"\xc3\x28", g.U32, 1)), "no UTF-8"
    at = m.gguf_value(g.STRING, "x.y")
    yield "value-type-13", more(at + b"\x0d\0\0\0"), "unknown type 13"
    yield "value-array-of-99", more(at + b"\x09\0\0\0\x63\0\0\0" + bytes(8)), "unknown type 99"
    yield "value-array-endless", more(at + b"\x09\0\0\0\x04\0\0\0" + b"\xff" * 8), "x.y"
    yield "value-string-endless", more(at + b"\x08\0\0\0" + b"\xff" * 8), "x.y"
    deep = (9, g.U32)
    value = [1]
    for _ in range(6):
        deep, value = (9, deep), [value]
    yield "value-nested-deep", more(("x.y", deep, value)), "arrays in arrays"
    a = "general.alignment"
    for v in 0, 1, 3, 24, 1 << 21:
        yield "align-%d" % v, more((a, g.U32, v)), a
    yield "align-text", more((a, g.STRING, "32")), a
    for key in "general.architecture", "llama.block_count", "llama.context_length", \
            "llama.embedding_length", "llama.attention.head_count", \
            "llama.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", \
            "tokenizer.ggml.tokens", "tokenizer.ggml.merges":
        yield "no-" + key, without(key), key
    n = "llama.attention."
    yield "arch-unknown", of("general.architecture", g.STRING, "gptj"), '"gptj"'
    yield "arch-number", of("general.architecture", g.U32, 1), "architecture is missing, or no text"
    yield "layers-text", of("llama.block_count", g.STRING, "2"), "llama.block_count is string"
    yield "layers-float", of("llama.block_count", g.F32, 2.5), "llama.block_count"
    yield "layers-0", of("llama.block_count", g.U32, 0), "llama.block_count is 0"
    yield "layers-huge", of("llama.block_count", U64, 1 << 40), "is 1099511627776, not 1 to 1024"
    for arch in "hy_v3", "exaone-moe", "gpt-oss", "gemma4", "laguna": # their code walks the layers
        yield "layers-huge-" + arch, of_arch(arch, more(
            ("llama.expert_feed_forward_length", g.U32, 8),
            ("llama.expert_used_count", g.U32, 1), ("llama.expert_count", g.U32, 2)), 1 << 40), \
            "is 1099511627776, not 1 to 1024"
    yield "shared-experts-alone", of_arch("hy_v3", more(
        ("llama.expert_shared_feed_forward_length", g.U32, 8)), 2), \
        "hy_v3.expert_feed_forward_length is missing"
    yield "layers-3", of("llama.block_count", g.U32, 3), "model.layers.2."
    yield "layers-1", of("llama.block_count", g.U32, 1), "model.layers.1."
    yield "heads-0", of(n + "head_count", g.U32, 0), "num_attention_heads"
    yield "heads-huge", of(n + "head_count", U64, 1 << 63), n + "head_count"
    yield "heads-negative", of(n + "head_count", g.I32, -2), "num_attention_heads"
    yield "heads-3", of(n + "head_count", g.U32, 3), "self_attn.q_proj"
    yield "kv-heads-of-layers", of(n + "head_count_kv", (9, g.I32), [1, 2]), n + "head_count_kv"
    yield "kv-heads-3", of(n + "head_count_kv", g.U32, 3), "3 key heads"
    yield "value-length", of(n + "value_length", g.U32, 4), n + "value_length"
    yield "eps-nan", of(n + "layer_norm_rms_epsilon", g.F32, float("nan")), "rms_norm_eps"
    yield "eps-negative", of(n + "layer_norm_rms_epsilon", g.F32, -1.0), "rms_norm_eps"
    yield "eps-text", of(n + "layer_norm_rms_epsilon", g.STRING, "1"), n + "layer_norm_rms"
    yield "context-0", of("llama.context_length", g.U32, 0), "max_position_embeddings"
    yield "rope-dims", of("llama.rope.dimension_count", g.U32, 6), "llama.rope.dimension_count"
    yield "rope-scaling", more(("llama.rope.scaling.type", g.STRING, "su")), '"su"'
    yield "experts", more(("llama.expert_count", g.U32, 4)), "num_experts_per_tok is missing"


def broken_words():
    t, tokens = "tokenizer.ggml.", WORDS[2][2]
    yield "model-unknown", word("model", g.STRING, "rwkv"), '"rwkv"'
    yield "model-none", word("model", g.STRING, "none"), '"none"'
    yield "pre-unknown", word("pre", g.STRING, "of-tomorrow"), '"of-tomorrow"'
    yield "tokens-numbers", word("tokens", (9, g.U32), [1] * 20), t + "tokens"
    yield "tokens-few", word("tokens", (9, g.STRING), tokens[:19]), t + "token_type"
    yield "types-99", word("token_type", (9, g.I32), [99] * 20), t + "token_type"
    yield "types-text", word("token_type", (9, g.STRING), ["1"] * 20), t + "token_type"
    yield "merge-one-word", word("merges", (9, g.STRING), ["He"]), t + "merges"
    yield "merge-half", word("merges", (9, g.STRING), ["H "]), t + "merges"
    yield "merge-of-none", word("merges", (9, g.STRING), ["x y"]), "merge 0"
    yield "merge-to-none", word("merges", (9, g.STRING), ["l o"]), "merge 0"
    yield "bos-outside", word("bos_token_id", g.U32, 20), t + "bos_token_id"
    yield "eos-negative", word("eos_token_id", g.I32, -1), "eos_token_id"
    yield "eos-text", word("eos_token_id", g.STRING, "</s>"), t + "eos_token_id"
    yield "add-bos-text", more((t + "add_bos_token", g.STRING, "yes")), t + "add_bos_token"
    yield "template-number", more(("tokenizer.chat_template", g.U32, 1)), "chat_template"
    long = tokens[:19] + [tokens[0]]
    yield "token-twice", word("tokens", (9, g.STRING), long), '"H"'


def broken_tensors():
    q = T[Q]
    yield "twice", m.gguf(ALL, T, n_tensors=len(T) + 1, head=lambda h: h + m.gguf_value(
        g.STRING, Q) + b"\1\0\0\0" + (4).to_bytes(8, "little") + bytes(4) +
        (1 << 20).to_bytes(8, "little")), ""
    yield "missing", m.gguf(ALL, {n: t for n, t in T.items() if n != Q}), "self_attn.q_proj"
    yield "unknown", m.gguf(ALL, tensor("blk.0.odd.weight", "F32", [1], bytes(4))), \
        "blk.0.odd.weight"
    yield "of-layer-9", m.gguf(ALL, tensor("blk.9.attn_q.weight", *q)), "model.layers.9.self_attn.q_proj"
    yield "shape-turned", m.gguf(ALL, tensor("blk.0.ffn_up.weight", "BF16", [16, 24],
                                             T["blk.0.ffn_up.weight"][2])), "up_proj"
    yield "shape-flat", m.gguf(ALL, tensor(Q, "BF16", [256], q[2])), "q_proj"
    yield "dims-4", m.gguf(ALL, tensor(Q, "BF16", [1, 1, 16, 16], q[2])), "shape (1, 1, 16, 16)"
    yield "dims-5", m.gguf(ALL, tensor(Q, "BF16", [1, 1, 1, 16, 16], q[2])), "1, 1, 1, 16, 16"
    yield "dims-0", m.gguf(ALL, tensor(Q, "BF16", [], q[2])), "q_proj"
    yield "dim-0", m.gguf(ALL, tensor(Q, "BF16", [0, 16], b"")), "q_proj"
    yield "dim-huge", m.gguf(ALL, tensor(Q, "BF16", [1 << 62, 16], q[2])), Q
    yield "dim-negative", m.gguf(ALL, tensor(Q, "BF16", [2 ** 64 - 1, 16], q[2])), Q
    for kind, name in ((4, "Q4_2"), (9, "Q8_1"), (31, "Q4_0_4_4"), (36, "IQ4_NL_4_4"),
                       (250, "type 250"), (1 << 31, "type 2147483648")):
        yield "type-%d" % kind, m.gguf(ALL, tensor(Q, kind, [16, 16], q[2])), name
    yield "type-i8", m.gguf(ALL, tensor(Q, 24, [16, 16], q[2][:256])), "q_proj"
    yield "type-f64", m.gguf(ALL, tensor(Q, "F64", [16, 16], bytes(2048))), "q_proj"
    yield "blocks-part", m.gguf(ALL, tensor(Q, "Q8_0", [16, 16], bytes(272))), "no multiple of"
    yield "norm-in-blocks", m.gguf(ALL, tensor("output_norm.weight", "Q8_0", [32], bytes(34))), \
        "model.norm.weight is q8_0"
    yield "at-odd-place", m.gguf(ALL, T, places={Q: 33}), "multiple of the alignment"
    yield "overlap", m.gguf(ALL, T, places={Q: 0}), "overlap"
    yield "beyond", m.gguf(ALL, T, places={Q: 1 << 40}), "the file is truncated"
    yield "beyond-wraps", m.gguf(ALL, T, places={Q: (1 << 64) - 32}), "the file is truncated"
    yield "name-long", m.gguf(ALL, tensor("x" * 250, "F32", [1], bytes(4))), "longer than"
    yield "name-no-utf8", m.gguf(ALL, tensor(b"\xff", "F32", [1], bytes(4))), "no UTF-8"


def parts():
    """Splits."""
    two, three = splits(2), splits(3)
    yield "two", two, min(two), None
    yield "three-by-the-last", three, max(three), None
    yield "in-a-folder", two, "", None
    yield "numbers-u64", splits(2, kind=U64), min(two), None
    first = {n: m.gguf((ALL if i == 0 else []) + [("split.no", U16, i), ("split.count", U16, 2)],
                       T if i else {}) for i, n in enumerate(sorted(two))}
    yield "first-without-tensors", first, min(two), None
    yield "each-tensor", splits(len(T)), "", None
    yield "without-numbers", {n: m.gguf(ALL if i == 0 else [], {
        t: T[t] for t in sorted(T)[i::2]}) for i, n in enumerate(sorted(two))}, min(two), \
        "split.no"
    yield "one-of-one", {"m-00001-of-00001.gguf": m.gguf(ALL, T)}, "m-00001-of-00001.gguf", None
    yield "part-missing", {n: b for n, b in three.items() if n != min(three)}, max(three), \
        "there is no"
    yield "part-empty", {**two, max(two): b""}, min(two), "not a GGUF file"
    yield "count-wrong", splits(2, count=3), min(two), "split.count"
    yield "number-wrong", splits(2, number=lambda i: 1 - i), min(two), "split.no"
    yield "tensor-twice", splits(2, twice=True), min(two), "a second time"
    yield "part-alone", {"x.gguf": two[min(two)]}, "x.gguf", "split.no"
    yield "parts-0", {"m-00000-of-00000.gguf": m.gguf(ALL, T)}, "m-00000-of-00000.gguf", \
        "not a number of files"
    yield "two-in-a-folder", {"a.gguf": m.gguf(ALL, T), "b.gguf": m.gguf(ALL, T)}, "", "say which"
    yield "beside-mmproj", {"a.gguf": m.gguf(ALL, T), "mmproj-a.gguf": b"x"}, "", None
    yield "named-otherwise", {"blob": m.gguf(ALL, T)}, "blob", None


def rows():
    for name, raw in containers():
        yield "gguf-" + name, {"m.gguf": raw}, "m.gguf", None
    for name, raw, words in heads():
        yield "gguf-head-" + name, {"m.gguf": raw}, "m.gguf", words
    for name, keys, words in broken_keys():
        yield "gguf-key-" + name, {"m.gguf": m.gguf(keys, T)}, "m.gguf", words
    for name, keys, words in broken_words():
        yield "gguf-words-" + name, {"m.gguf": m.gguf(keys, T)}, "m.gguf", words
    for name, raw, words in broken_tensors():
        yield "gguf-tensor-" + name, {"m.gguf": raw}, "m.gguf", words
    for name, files, opened, words in parts():
        yield "gguf-split-" + name, files, opened, words
