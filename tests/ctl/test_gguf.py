#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints rewritten as GGUF answer as they did: halo-tiny, whose int4 in groups of
32 is exactly Q4_0 or Q8_0, and small dense ones."""
import json
import os
import shutil
import struct
import tempfile

import gguf_families
import gguf_file as g
from tap import CHECK, SRC, TINY, done, eq, haloctl, ok

GOLDEN = os.path.join(SRC, "tests/golden/models")


def tiny_tensors():
    """halo-tiny in all formats that it is exact in."""
    t = g.load(TINY)
    config = g.read_json(TINY, "config.json")
    out = {}
    for name, (dtype, shape, raw) in t.items():
        if name.endswith(".weight"):
            kind = "BF16" if "embed" in name else "F32"
            out[g.tensor_name(name)] = (kind, shape, raw if kind == "BF16"
                                        else g.bf16_to_f32(raw))
        if not name.endswith(".weight_packed") or ".experts." in name:
            continue
        base = name[:-len(".weight_packed")]
        out[g.tensor_name(base + ".weight")] = (
            "Q8_0", [shape[0], shape[1] * 8],
            g.int4_blocks(raw, t[base + ".weight_scale"][2], "Q8_0"))
    for layer in range(config["num_hidden_layers"]):
        for proj in ("gate_proj", "up_proj", "down_proj"):
            head = "model.layers.%d.mlp.experts." % layer
            parts = []
            for e in range(config["num_experts"]):
                base = "%s%d.%s" % (head, e, proj)
                _, shape, raw = t[base + ".weight_packed"]
                parts.append(g.int4_blocks(raw, t[base + ".weight_scale"][2], "Q4_0"))
            out[g.tensor_name(head + proj + ".weight")] = (
                "Q4_0", [len(parts), shape[0], shape[1] * 8], b"".join(parts))
    return config, out


def dense_tensors(name, kind):
    folder = os.path.join(GOLDEN, name)
    config = g.read_json(folder, "config.json")
    dim = config["head_dim"] if config.get("head_dim") else \
        config["hidden_size"] // config["num_attention_heads"]
    out = {}
    for name, (dtype, shape, raw) in g.load(folder).items():
        assert dtype == "BF16", (name, dtype)
        if g.ARCHS[config["model_type"]] == "llama" and ("q_proj" in name or
                                                         "k_proj" in name):
            raw = g.pair_rows(raw, shape[0], dim)
        if kind == "F32" or len(shape) == 1:
            out[g.tensor_name(name)] = ("F32", shape, g.bf16_to_f32(raw))
        else:
            out[g.tensor_name(name)] = (kind, shape, raw if kind == "BF16" else
                                        g.f32_to_f16(g.bf16_to_f32(raw)))
    factors = g.rope_factors(config)
    if factors:
        out["rope_freqs.weight"] = ("F32", [len(factors) // 4], factors)
    return folder, config, out


def verify(path, reference, name):
    if os.path.isdir(reference):
        reference = os.path.join(reference, "reference.json")
    code, out, err = haloctl("verify", "--exact", "--model", path, "--json",
                             "--reference", reference)
    v = json.loads(out or b"{}")
    ok(code == 0 and v.get("pass") and v["max_delta"] <= 0.02,
       name + " answers as its reference", out + err.encode())


def keys_of(folder, config, tensors):
    n_vocab = tensors["token_embd.weight"][1][0]
    return g.model_keys(config) + g.tokenizer_keys(folder, n_vocab)


def split(tmp, keys, tensors):
    """In two files, the second without the keys of the model."""
    names = sorted(tensors)
    for i in range(2):
        part = [("split.no", g.U32, i), ("split.count", g.U32, 2)]
        g.write(os.path.join(tmp, "m-%05d-of-00002.gguf" % (i + 1)),
                part + (keys if i == 0 else []),
                {n: tensors[n] for n in names[i::2]})


def tiny(tmp):
    config, tensors = tiny_tensors()
    keys = keys_of(TINY, config, tensors)
    # A pooling is nothing to a model that writes.
    keys += [("qwen3moe.pooling_type", g.U32, 3), ("qwen3moe.attention.causal", g.BOOL, True)]
    path = os.path.join(tmp, "tiny.gguf")
    g.write(path, keys, tensors)
    some = g.read_json(TINY, "reference.json")
    some["cases"] = some["cases"][:1 if "short" in CHECK else 4]
    short = os.path.join(tmp, "some.json")
    with open(short, "w", encoding="utf-8") as f:
        json.dump(some, f)
    verify(path, short, "halo-tiny in Q4_0, Q8_0, BF16 and F32")
    args = ("-p", "What is 2+2?", "-n", "12", "--temperature", "0", "--chat")
    want = haloctl("generate", "--model", TINY, *args)
    got = haloctl("generate", "--model", path, *args)
    ok(want[0] == got[0] and want[1] == got[1], "the chat template is the same",
       (want, got))
    code, out, err = haloctl("inspect", "--model", path, "--json")
    v = json.loads(out)
    eq(sorted(v["formats"]), ["bf16", "f32", "q4_0", "q8_0"], "its formats")
    eq(v["formats"]["q4_0"]["bytes"] * 32, v["formats"]["q4_0"]["weights"] * 18,
       "bytes of Q4_0")
    eq(v["parts"]["experts"]["bytes_per_token"] * 4, v["parts"]["experts"]["bytes"],
       "4 of 16 experts are read")
    eq(v["parts"]["other"]["tensors"], 0, "every tensor is of a part")
    shutil.copy(path, os.path.join(tmp, "other.gguf"))
    code, out, err = haloctl("inspect", "--model", tmp)
    ok(code == 2 and "say which" in err, "two files in a folder", err)
    os.remove(os.path.join(tmp, "other.gguf"))
    os.remove(path)
    split(tmp, keys, tensors)
    some["cases"] = some["cases"][:1]
    with open(short, "w", encoding="utf-8") as f:
        json.dump(some, f)
    verify(tmp, short, "the folder of a split one")
    return keys, tensors


def refusals(tmp, keys, tensors):
    """Each names the file and the key."""
    def without(name):
        return [k for k in keys if k[0] != name]

    def changed(name, kind, value):
        return without(name) + [(name, kind, value)]

    small = {n: t for n, t in tensors.items() if "exps" not in n}
    path = os.path.join(tmp, "bad.gguf")
    arch = "qwen3moe."
    for bad, words in (
            (changed("general.architecture", g.STRING, "mamba"), '"mamba"'),
            (changed("general.architecture", g.STRING, "jamba"), "Mamba layers"),
            (without("general.architecture"), "general.architecture"),
            (without(arch + "block_count"), arch + "block_count is missing"),
            (changed(arch + "block_count", g.STRING, "8"), arch + "block_count is"),
            (changed(arch + "attention.head_count", g.U32, 0), "num_attention_heads"),
            (changed(arch + "attention.head_count_kv", (g.ARRAY, g.I32), [2, 2]),
             arch + "attention.head_count_kv"),
            (changed(arch + "attention.value_length", g.U32, 32),
             arch + "attention.value_length"),
            (changed(arch + "final_logit_softcapping", g.F32, 30.0),
             arch + "final_logit_softcapping"),
            (changed(arch + "attention.shared_kv_layers", g.U32, 2),
             arch + "attention.shared_kv_layers"),
            (changed(arch + "attention.output_scale", g.F32, 0.5),
             arch + "attention.output_scale"),
            (changed(arch + "swiglu_clamp_exp", (g.ARRAY, g.F32), [7.0] * 8),
             arch + "swiglu_clamp_exp"),
            (changed(arch + "rope.scaling.alpha", g.F32, 1000.0), arch + "rope.scaling.alpha"),
            (changed(arch + "attention.causal", g.BOOL, False),
             arch + "attention.causal is false"),
            (changed(arch + "attention.causal", g.STRING, "no"), arch + "attention.causal is"),
            (changed("general.architecture", g.STRING, "nomic-bert"), "from a folder"),
            (changed(arch + "expert_gating_func", g.U32, 2), arch + "expert_gating"),
            ([(n.replace(arch, "deepseek2."), k, "deepseek2" if n.endswith("architecture")
               else v) for n, k, v in keys] + [
                ("deepseek2.attention.kv_lora_rank", g.U32, 32),
                ("deepseek2.rope.dimension_count", g.U32, 8)], "as of DeepSeek-V2"),
            (changed(arch + "rope.scaling.type", g.STRING, "longrope"), '"longrope"'),
            (changed("tokenizer.ggml.pre", g.STRING, "whitespace"), '"whitespace"'),
            (changed("tokenizer.ggml.pre", g.U32, 1), "tokenizer.ggml.pre is not a string"),
            (changed("tokenizer.ggml.model", g.STRING, "bert"), '"bert"'),
            (changed("tokenizer.ggml.model", g.STRING, "llama"), "tokenizer.ggml.pre"),
            (changed("tokenizer.ggml.tokens", g.STRING, "a"), "tokenizer.ggml.tokens"),
            (changed("tokenizer.ggml.token_type", (g.ARRAY, g.I32), [1]),
             "tokenizer.ggml.token_type"),
            (changed("tokenizer.ggml.merges", (g.ARRAY, g.STRING), ["ab"]),
             "tokenizer.ggml.merges"),
            (changed("tokenizer.ggml.eos_token_id", g.U32, 1 << 30), "eos_token_id"),
            (changed("tokenizer.ggml.bos_token_id", g.U32, 1 << 30), "bos_token_id")):
        g.write(path, bad, small)
        code, out, err = haloctl("inspect", "--model", path)
        ok(code == 2 and words in err and "bad.gguf" in err, "refused: " + words, err)
    g.write(path, keys, small)
    code, out, err = haloctl("verify", "--model", path, "--reference",
                             os.path.join(TINY, "reference.json"))
    ok(code == 2 and "experts" in err and "bad.gguf" in err, "no experts", err)
    os.remove(path)


def bad_tensors(tmp):
    """Of another type, shape or size than the keys say: each names the file and tensor."""
    path = os.path.join(tmp, "bad.gguf")
    folder, config, tensors = dense_tensors("qwen2-bias", "F16")
    keys = keys_of(folder, config, tensors)
    hf = "model.layers.0."
    q = tensors["blk.0.attn_q.weight"]
    for name, other, words in (
            ("blk.0.attn_norm.weight", ("Q8_0", [64], bytes(68)),
             hf + "input_layernorm.weight"),
            ("blk.0.attn_norm.weight", ("F32", [32], bytes(128)),
             hf + "input_layernorm.weight"),
            ("blk.0.attn_q.weight", (q[0], [64, 128], q[2]), hf + "self_attn.q_proj"),
            ("blk.0.attn_q.bias", ("F32", [1], bytes(4)), hf + "self_attn.q_proj.bias"),
            ("blk.1.ffn_down.weight", ("Q4_0", [1, 32], bytes(18)),
             "model.layers.1.mlp.down_proj"),
            ("token_embd.weight", ("F32", [64], bytes(256)), "token_embd.weight"),
            ("token_embd.weight", ("F32", [2, 64], bytes(512)), "below 2")):
        g.write(path, keys, {**tensors, name: other})
        code, out, err = haloctl("verify", "--model", path, "--reference",
                                 os.path.join(folder, "reference.json"))
        ok(code == 2 and words in err and "bad.gguf" in err, "refused: " + words, err)
    for key, value in (("block_count", 1 << 31), ("context_length", 0xFFFFFFFF),
                       ("attention.head_count", 1 << 20), ("embedding_length", 1 << 31)):
        g.write(path, [(n, t, value if n == "qwen2." + key else v) for n, t, v in keys],
                tensors)
        code, out, err = haloctl("inspect", "--model", path)
        ok(code == 2 and "bad.gguf" in err, "refused: %s %d" % (key, value), err)
    os.remove(path)


def dense(tmp):
    path = os.path.join(tmp, "dense.gguf")
    for name, kind in (("qwen3-bf16", "F16"), ("qwen3-bf16", "BF16"),
                       ("qwen2-bias", "F16"), ("llama-llama3", "BF16"),
                       ("mistral-window", "F32")):
        folder, config, tensors = dense_tensors(name, kind)
        g.write(path, keys_of(folder, config, tensors), tensors)
        verify(path, folder, "%s in %s" % (name, kind))
    code, out, err = haloctl("inspect", "--model", path)
    ok(b"put in another order or format at load: 0.14 MiB" in out,
       "rows of q and k are put in order", out)
    blocks = os.path.join(SRC, "tests/golden/formats/llama")
    verify(blocks + ".gguf", blocks + ".json", "a llama in blocks of every kind")
    code, out, err = haloctl("inspect", "--json", "--model", blocks + ".gguf")
    eq(len(json.loads(out)["formats"]), 15, "it has them all, and F32")


def answers(path, keys, tensors):
    """The space before a text is not of a chat's answer, but of the rest of a prompt."""
    g.write(path, keys(add_bos_token=(g.BOOL, False)) + [
        ("tokenizer.chat_template", g.STRING, "{{ messages[0].content }}")], tensors)
    n_spaces = 0
    for prompt in "abcdefgh":
        args = ("generate", "--model", path, "-p", prompt, "-n", "4", "--temperature", "0")
        rest, answer = haloctl(*args, "--raw")[1], haloctl(*args, "--chat")[1]
        n_spaces += rest.startswith(b" ")
        eq(answer, rest[1:] if rest.startswith(b" ") else rest, "an answer to " + prompt)
    ok(n_spaces > 0, "some begin with a space")


def sentencepiece(tmp):
    """The tokenizer of Llama 2 and Mistral: pieces with scores, bytes, no merges."""
    path = os.path.join(tmp, "spm.gguf")
    folder, config, tensors = dense_tensors("mistral-window", "BF16")
    with open(os.path.join(SRC, "tests/golden/tokenizer/spm.json"), encoding="utf-8") as f:
        spm = json.load(f)
    head = "tokenizer.ggml."
    n_more = tensors["token_embd.weight"][1][0] - len(spm["pieces"])
    tokens = spm["pieces"] + ["[PAD%d]" % i for i in range(n_more)]
    types = spm["types"] + [5] * n_more
    scores = spm["scores"] + [-10000.0] * n_more

    def keys(**other):
        made = {"model": (g.STRING, "llama"), "pre": (g.STRING, "default"),
                "tokens": ((g.ARRAY, g.STRING), tokens),
                "scores": ((g.ARRAY, g.F32), scores),
                "token_type": ((g.ARRAY, g.I32), types),
                "bos_token_id": (g.U32, 1), "eos_token_id": (g.U32, 2), **other}
        return g.model_keys(config) + [(head + k, *v) for k, v in made.items() if v]

    g.write(path, keys(), tensors)
    for text, ids, back in spm["cases"]:
        if not text:
            continue
        code, out, err = haloctl("tokenize", "--model", path, stdin=text.encode())
        got = [int(x) for x in out.split()]
        eq(got, ids, "SentencePiece: %r" % text[:30])
        code, out, err = haloctl("detokenize", "--model", path, "-i",
                                 " ".join(map(str, ids)))
        eq(out.decode(), back, "and back")
    code, out, err = haloctl("tokenize", "--model", path, "-s", stdin=b"<s>the</s>the")
    the = tokens.index("\u2581the")
    eq([int(x) for x in out.split()], [1, the, 2, the], "each text has its space")
    g.write(path, keys(add_space_prefix=(g.BOOL, False)), tensors)
    code, out, err = haloctl("tokenize", "--model", path, stdin=b" the")
    eq([int(x) for x in out.split()], [the], "or none")
    verify(path, folder, "mistral with such a one")
    answers(path, keys, tensors)
    for other, words in (({"scores": None}, "scores is missing"),
                         ({"scores": ((g.ARRAY, g.F32), [1.0])}, "scores is missing"),
                         ({"pre": (g.STRING, "qwen2")}, 'is not "default"'),
                         ({"tokens": ((g.ARRAY, g.STRING),
                                      ["<0xFX>" if t == "<0xFE>" else t for t in tokens])},
                          "without a piece <0xFE>"),
                         ({"remove_extra_whitespaces": (g.BOOL, True)},
                          "remove_extra_whitespaces")):
        g.write(path, keys(**other), tensors)
        code, out, err = haloctl("tokenize", "--model", path, "-p", "x")
        ok(code == 2 and words in err and "spm.gguf" in err, "refused: " + words, err)
    os.remove(path)


def merged(tmp):
    """The tokenizer of Gemma 4: pieces as SentencePiece's, and merges. There are no words:
    a merge may join what a space or a new line divides. Bytes without a piece are spelled."""
    path = os.path.join(tmp, "merged.gguf")
    folder, config, tensors = dense_tensors("mistral-window", "BF16")
    pieces = (["<pad>", "<bos>"] + ["<0x%02X>" % i for i in range(256)]
              + ["a", "b", "\u2581", "\n", "\u2581b", "a\u2581b", "\n\n", "<turn|>"])
    merges = ["\u2581 b", "a \u2581b", "\n \n"]
    tokens = pieces + ["[PAD%d]" % i for i in range(512 - len(pieces))]
    types = [3, 3] + [6] * 256 + [1] * 7 + [3] + [5] * (512 - len(pieces))
    head = "tokenizer.ggml."
    g.write(path, g.model_keys(config) + [
        (head + "model", g.STRING, "gemma4"), (head + "merges", (g.ARRAY, g.STRING), merges),
        (head + "tokens", (g.ARRAY, g.STRING), tokens),
        (head + "token_type", (g.ARRAY, g.I32), types),
        (head + "add_space_prefix", g.BOOL, False), (head + "bos_token_id", g.U32, 1)],
            tensors)
    text = "a b\n\nb  b\u00e9<turn|>"
    code, out, err = haloctl("tokenize", "--model", path, "-s", stdin=text.encode())
    ids = [int(x) for x in out.split()]
    eq([tokens[i] for i in ids],
       ["a\u2581b", "\n\n", "b", "\u2581", "\u2581b", "<0xC3>", "<0xA9>", "<turn|>"],
       "Gemma 4's pieces")
    code, out, err = haloctl("detokenize", "--model", path, "-i",
                             " ".join(map(str, ids[:-1])))
    eq(out.decode(), text[:-7], "and back")
    os.remove(path)


def no_name(tmp):
    """A file of before May 2024 does not name its pre-tokenizer. It runs, with a warning."""
    path = os.path.join(tmp, "old.gguf")
    folder, config, tensors = dense_tensors("qwen2-bias", "F16")
    keys = g.model_keys(config) + g.tokenizer_keys(folder, tensors["token_embd.weight"][1][0])
    for pre, n in ((None, 1), ("default", 1), ("gpt-2", 0)):
        named = [("tokenizer.ggml.pre", g.STRING, pre)] if pre else []
        g.write(path, [k for k in keys if k[0] != "tokenizer.ggml.pre"] + named, tensors)
        for command in ("tokenize",), ("generate", "-n", "1"):
            code, out, err = haloctl(*command, "--model", path, "-p", "a b")
            ok(code == 0 and err.count("does not name its pre-tokenizer") == n,
               "%s with %s: %d warnings" % (command[0], pre or "no name", n), err)
    os.remove(path)


def whole_words(tmp):
    """A word that is a token is that token, even where no merges lead to it, if the model's
    tokenizer.json has "ignore_merges". Those of GLM-4, Llama 3 and Mistral have."""
    path = os.path.join(tmp, "words.gguf")
    folder, config, tensors = dense_tensors("qwen2-bias", "F16")
    pieces = ["a", "b", "c", "ab", "bc", "abc"]
    tokens = pieces + ["[PAD%d]" % i for i in range(512 - len(pieces))]
    head = "tokenizer.ggml."
    for pre, want in (("glm4", "abc"), ("pixtral", "abc"), ("tekken", "abc"),
                      ("qwen2", "ab c"), ("smaug-bpe", "ab c")):
        g.write(path, g.model_keys(config) + [
            (head + "model", g.STRING, "gpt2"), (head + "pre", g.STRING, pre),
            (head + "tokens", (g.ARRAY, g.STRING), tokens),
            (head + "token_type", (g.ARRAY, g.I32), [1] * 6 + [5] * 506),
            (head + "merges", (g.ARRAY, g.STRING), ["a b", "b c", "a bc"])], tensors)
        code, out, err = haloctl("tokenize", "--model", path, stdin=b"abc")
        eq(" ".join(tokens[int(x)] for x in out.split()), want, "a word of " + pre)
    os.remove(path)


def families(tmp):
    """Models whose files differ in more than names."""
    path = os.path.join(tmp, "family.gguf")
    for name in sorted(os.listdir(GOLDEN)):
        folder = os.path.join(GOLDEN, name)
        config = g.read_json(folder, "config.json")
        if gguf_families.is_known(config) and "quantization_config" not in config:
            tensors = gguf_families.tensors(config, g.load(folder))
            g.write(path, gguf_families.keys(folder, config, tensors), tensors)
            verify(path, folder, name + " as GGUF")
            continue
        config = config.get("text_config") or config
        kind = config["model_type"]
        if kind == "gpt_oss":
            tensors = g.oss_tensors(g.load(folder))
        elif kind == "gemma3_text":
            tensors = g.gemma_tensors(config, g.load(folder))
        elif kind.startswith(("qwen3_next", "qwen3_5")):
            tensors = g.hybrid_tensors(config, g.load(folder), "model.language_model.")
        else:
            continue
        g.write(path, keys_of(folder, config, tensors), tensors)
        verify(path, folder, name + " as GGUF")


def with_mtp_keys(keys, n):
    """Of a file with an MTP layer behind n layers: lists of a number a layer have its number, too."""
    more = {"block_count": n + 1}
    for k, _, v in keys:
        if isinstance(v, list) and len(v) == n:
            more[k.partition(".")[2]] = v + [max(v)]
    arch = next(k for k, _, _ in keys if k.endswith(".block_count")).partition(".")[0]
    return [(k, t, more.get(k.partition(".")[2], v)) for k, t, v in keys] + [
        (arch + ".nextn_predict_layers", g.U32, 1)]


def lists_of_mtp(tmp):
    """Ling 3 and Step 3.7 with lists that are one number longer than the model has layers."""
    for name in ("ling3", "step37"):
        folder = os.path.join(GOLDEN, name)
        config = g.read_json(folder, "config.json")
        tensors = gguf_families.tensors(config, g.load(folder))
        n = gguf_families.text_config(config)["num_hidden_layers"]
        path = os.path.join(tmp, name + "-mtp.gguf")
        g.write(path, with_mtp_keys(gguf_families.keys(folder, config, tensors), n), tensors)
        verify(path, folder, name + " with keys of an MTP layer")
        os.remove(path)


def mtp_block(tmp):
    """An MTP layer is both attention and experts in Nemotron 3, as no other layer
    is. llama.cpp's converter puts it behind the others, and it is not read."""
    path = os.path.join(tmp, "drafting.gguf")
    folder = os.path.join(GOLDEN, "nemotronhsuper")
    config = g.read_json(folder, "config.json")
    tensors = gguf_families.tensors(config, g.load(folder))
    keys = gguf_families.keys(folder, config, tensors)
    n = len(config["layers_block_type"])
    for name, w in list(tensors.items()):
        for layer in (n - 2, n - 1):  # attention, experts
            head = "blk.%d." % layer
            if name.startswith(head):
                tensors["blk.%d.%s" % (n, name[len(head):])] = w
    hidden = config["hidden_size"]
    tensors["blk.%d.nextn.eh_proj.weight" % n] = ("BF16", [hidden, 2 * hidden],
                                                  bytes(4 * hidden * hidden))
    tensors["blk.%d.nextn.enorm.weight" % n] = ("F32", [hidden], bytes(4 * hidden))
    tensors["blk.%d.nextn.hnorm.weight" % n] = ("F32", [hidden], bytes(4 * hidden))
    g.write(path, with_mtp_keys(keys, n), tensors)
    verify(path, folder, "Nemotron 3 with an MTP layer")
    os.remove(path)


def two_tables(raw):
    """The file with a second layer in its list of those with n-grams: the key's pair is
    followed by four bytes more, which padding in front of the data gives up."""
    key = b"qwen4exp.ple.layers"
    at = raw.index(key) + len(key) + 8  # behind the types of the array and of its elements
    count, = struct.unpack_from("<Q", raw, at)
    eq(count, 1, "it lists one layer")
    return raw[:at] + struct.pack("<QI", 2, 1) + raw[at + 8:]


def ngrams(tmp):
    """Qwen4-Exp by llama.cpp's converter (make_converted_gguf.py): two matrices of the
    indexer, and the numbers that hash n-grams."""
    made = os.path.join(SRC, "tests/golden/formats/qwen4exp")
    verify(made + ".gguf", made + ".json", "Qwen4-Exp as GGUF")
    code, out, err = haloctl("verify", "--model", made + ".gguf", "--json", "--reference",
                             made + ".json")
    ok(json.loads(out)["pass"], "and on the fast path", (out, err))
    with open(made + ".gguf", "rb") as f:
        raw = f.read()
    path = os.path.join(tmp, "ngrams.gguf")
    first, second = struct.pack("<3Q", 0, 97, 198), struct.pack("<3Q", 0, 98, 198)
    eq(raw.count(first), 1, "where its parts begin")
    for other, words in ((raw.replace(first, second), "qwen4exp.ple.head_offsets"),
                         (raw.replace(b"qwen4exp.ple.layer_mult", b"qwen4exp.ple.layer_nult"),
                          "qwen4exp.ple.layer_multipliers is missing"),
                         (raw.replace(b"qwen4exp.ple.eos_token", b"qwen4exp.ple.eot_token"),
                          "qwen4exp.ple.eos_token_id is missing"),
                         (raw.replace(b"qwen4exp.ple.layers", b"qwen4exp.ple.lawers"),
                          "qwen4exp.ple.layers names no layer, but the file has tensors of "
                          "n-grams, model.layers.0.ple."),
                         (two_tables(raw), "qwen4exp.ple.layers names 2 layers; a GGUF file "
                          "has one table of n-grams")):
        with open(path, "wb") as f:
            f.write(other)
        code, out, err = haloctl("inspect", "--model", path)
        ok(code == 2 and words in err, "refused: " + words, err)
    os.remove(path)


def recurrent(tmp):
    """A list of which layers are recurrent wins over the interval, and must have them all."""
    path = os.path.join(tmp, "hybrid.gguf")
    folder = os.path.join(GOLDEN, "qwen3next-mtp")
    config = g.read_json(folder, "config.json")
    tensors = g.hybrid_tensors(config, g.load(folder), "\0")
    keys = [k for k in keys_of(folder, config, tensors) if "interval" not in k[0]]
    name, kind = "qwen3next.attention.recurrent_layers", (g.ARRAY, g.BOOL)
    g.write(path, keys + [(name, kind, [True, False, False])], tensors)
    verify(path, folder, "recurrent layers by a list")
    for wrong in ((name, kind, [True]), (name, g.BOOL, True)):
        g.write(path, keys + [wrong], tensors)
        code, out, err = haloctl("inspect", "--model", path)
        ok(code == 2 and name in err and "a value a layer" in err, "refused: %s" % (wrong[2],),
           err)
    os.remove(path)


def blocks(tmp):
    """Arrays of DeepSeek-V4 that cannot be."""
    path = os.path.join(tmp, "blocks.gguf")
    folder = os.path.join(GOLDEN, "deepseekv4")
    config = g.read_json(folder, "config.json")
    tensors = gguf_families.tensors(config, g.load(folder))
    keys = gguf_families.keys(folder, config, tensors)
    for end, values in (("compress_ratios", [0, 4, 32, 16]), ("compress_ratios", [0, 4]),
                        ("compress_ratios", [0, 4, -32, 4]),
                        ("swiglu_clamp_shexp", [0.75, 0.75, 0.5, 0.75]),
                        ("swiglu_clamp_exp", [0.75, 0.75, 0.5, 0.75])):
        changed = [(name, kind, values if name.endswith(end) else value)
                   for name, kind, value in keys]
        g.write(path, changed, tensors)
        code, out, err = haloctl("inspect", "--model", path)
        ok(code == 2 and end in err, "refused: %s %s" % (end, values), err)
    os.remove(path)


with tempfile.TemporaryDirectory() as folder:
    made = tiny(folder)
    refusals(folder, *made)
    bad_tensors(folder)
    dense(folder)
    sentencepiece(folder)
    merged(folder)
    no_name(folder)
    whole_words(folder)
    families(folder)
    mtp_block(folder)
    lists_of_mtp(folder)
    ngrams(folder)
    recurrent(folder)
    blocks(folder)
done()
