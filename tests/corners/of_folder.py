# SPDX-License-Identifier: Apache-2.0
"""Folders at the corners of what Hugging Face's files may be: safetensors, config.json and the
files of tokenizers. rows() as in of_gguf.py; what is opened is the folder."""
import copy
import json

import mini as m

W = m.weights()
T, TOKENIZER = m.folder_tensors(), m.tokenizer()
WEIGHTS = m.safetensors(T)
Q = "model.layers.0.self_attn.q_proj.weight"
INDEX, ONE = "model.safetensors.index.json", "model.safetensors"
CHAT = "{% for x in messages %}{{ x.content }}{% endfor %}"


def text(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def folder(config=None, tokenizer=None, weights=WEIGHTS, **more):
    """more: names with __ for a dot, and contents; None removes a file."""
    files = {"config.json": text(config or m.CONFIG), ONE: weights,
             "tokenizer.json": text(tokenizer or TOKENIZER),
             "tokenizer_config.json": text({"chat_template": CHAT, "eos_token": "</s>"})}
    for name, value in more.items():
        files[name.replace("__", ".")] = None if value is None else text(value)
    return {n: v for n, v in files.items() if v is not None}


def configured(*removed, **changed):
    c = dict(m.CONFIG, **changed)
    return folder({k: v for k, v in c.items() if k not in removed})


def words(change):
    t = copy.deepcopy(TOKENIZER)
    change(t)
    return folder(tokenizer=t)


def tensor(name, kind, shape, raw):
    return {**T, name: (kind, shape, raw)}


def entry(name, key, value):
    def change(entries):
        entries[name][key] = value
        return entries
    return folder(weights=m.safetensors(T, header=change))


def as_text(change):
    """The header's text, changed."""
    return folder(weights=m.safetensors(T, header=lambda e: change(json.dumps(e).encode())))


def shards(n, index=None, drop=False, names=None, **more):
    """The weights in n files, and their index."""
    order, files, where = sorted(T), {}, {}
    for i in range(n):
        name = (names or (lambda i: "model-%05d-of-%05d.safetensors" % (i + 1, n)))(i)
        files[name] = m.safetensors({t: T[t] for t in order[i::n]})
        where.update((t, name) for t in order[i::n])
    made = {"metadata": {"total_size": 1}, "weight_map": where}
    files[INDEX] = text((index or (lambda x: x))(made))
    if drop:
        del files[max(f for f in files if f != INDEX)]
    return {**{k: v for k, v in folder(**more).items() if k != ONE}, **files}


def good_weights():
    for kind in "F16", "F32", "BF16":
        yield "weights-" + kind, folder(weights=m.safetensors(m.folder_tensors(kind=kind)))
    mixed = m.folder_tensors(kind="F32")
    yield "weights-mixed", folder(weights=m.safetensors(
        {n: mixed[n] if i % 3 else t for i, (n, t) in enumerate(T.items())}))
    yield "header-meta", folder(weights=m.safetensors(T, meta={"format": "pt"}))
    yield "header-padded", folder(weights=m.safetensors(T, pad=4096))
    for pad in 1, 2, 3, 5:
        yield "header-odd-%d" % pad, folder(weights=m.safetensors(T, pad=pad))
    yield "header-reversed", folder(weights=m.safetensors(dict(reversed(T.items()))))
    yield "data-reversed", folder(weights=m.safetensors(T, order=list(reversed(T))))
    yield "tensor-empty", folder(weights=m.safetensors(tensor(
        "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", [0], b"")))
    yield "tensor-rotary", folder(weights=m.safetensors(tensor(
        "model.layers.0.self_attn.rotary_emb.inv_freq", "F32", [4], bytes(16))))
    yield "names-without-model", folder(weights=m.safetensors(
        {n.replace("model.", "", 1): t for n, t in T.items()}))
    yield "odd-addresses", folder(weights=m.safetensors(
        {"a.bias": ("U8", [3], bytes(3)), **{n: t for n, t in T.items()}}))
    for n in 2, 3, len(T):
        yield "shards-%d" % n, shards(n)
    yield "shards-named-otherwise", shards(2, names=lambda i: "part %d.safetensors" % i)
    yield "shards-without-total", shards(2, index=lambda x: {"weight_map": x["weight_map"]})
    yield "shards-beside-one", {**shards(2), "consolidated.safetensors": b"x"}
    yield "beside-others", folder(**{"pytorch_model__bin": b"x", "README__md": b"x",
                                     "special_tokens_map__json": {}, "vocab__json": b"broken"})
    tied = dict(m.CONFIG, tie_word_embeddings=True)
    yield "tied-but-own-head", folder(tied)


def bad_weights():
    data = sum(len(t[2]) for t in T.values())
    yield "empty", folder(weights=b""), "0 bytes are no safetensors"
    yield "seven-bytes", folder(weights=b"\x10\0\0\0\0\0\0"), "7 bytes are no safetensors"
    yield "html", folder(weights=b"<html>not found</html>"), "not safetensors"
    yield "pickle", folder(weights=b"\x80\x02}q\0." * 4), "not safetensors"
    yield "gguf", folder(weights=m.gguf(m.gguf_keys(), m.gguf_tensors())), "not safetensors"
    yield "lfs", folder(weights=b"version https://git-lfs.github.com/spec/v1\noid sha256:" +
                        b"0" * 64 + b"\nsize 12\n"), "a pointer of git-lfs"
    yield "length-huge", folder(weights=m.safetensors(T, length=1 << 62)), "the header should have"
    yield "length-short", folder(weights=m.safetensors(T, length=30)), "line 1"
    yield "length-0", folder(weights=m.safetensors(T, length=0)), ONE
    yield "header-list", folder(weights=m.safetensors(T, header=lambda e: b"[]")), "not a JSON obj"
    yield "header-cut", as_text(lambda t: t[:-9]), "line 1"
    yield "header-nan", as_text(lambda t: t.replace(b"[16]", b"[NaN]", 1)), "line 1"
    yield "header-twice", as_text(lambda t: t[:-1] + b", " + json.dumps(Q).encode() + b": " +
                                  json.dumps({"dtype": "BF16", "shape": [0],
                                              "data_offsets": [0, 0]}).encode() + b"}"), "duplicate"
    yield "header-deep", as_text(lambda t: t[:-1] + b', "x": ' + b"[" * 99 + b"]" * 99 + b"}"), \
        "nested deeper"
    yield "entry-number", folder(weights=m.safetensors(T, header=lambda e: {**e, Q: 1})), Q
    yield "entry-no-dtype", folder(weights=m.safetensors(T, header=lambda e: {**e, Q: {}})), \
        "no dtype"
    yield "dtype-unknown", entry(Q, "dtype", "F2"), "unknown dtype F2"
    yield "dtype-number", entry(Q, "dtype", 5), "no dtype"
    yield "dtype-wider", entry(Q, "dtype", "F32"), "need 1024"
    yield "dtype-i16", entry(Q, "dtype", "I16"), "I16, not BF16"
    yield "shape-none", entry(Q, "shape", None), "has no shape"
    yield "shape-negative", entry(Q, "shape", [-16, -16]), "bad dimension"
    yield "shape-float", entry(Q, "shape", [16.0, 16]), "bad dimension"
    yield "shape-huge", entry(Q, "shape", [1 << 40, 1 << 40]), "impossible shape"
    yield "shape-deep", entry(Q, "shape", [1] * 7), "too many dimensions"
    yield "shape-turned", folder(weights=m.safetensors(tensor(
        "lm_head.weight", "BF16", [16, 20], T["lm_head.weight"][2]))), "shape (16, 20)"
    yield "offsets-one", entry(Q, "data_offsets", [0]), "no data_offsets"
    yield "offsets-turned", entry(Q, "data_offsets", [600, 88]), "impossible data_offsets"
    yield "offsets-beyond", entry(Q, "data_offsets", [data, data + 512]), "the file is truncated"
    yield "offsets-overlap", entry(Q, "data_offsets", [0, 512]), "overlap"
    yield "offsets-huge", entry(Q, "data_offsets", [1 << 62, (1 << 62) + 512]), "truncated"
    yield "offsets-long", as_text(lambda t: t.replace(b"[0, 640]", b"[0, 640000000000000000000]")), \
        ONE
    yield "cut", folder(weights=WEIGHTS[:-100]), "the file is truncated"
    yield "cut-header", folder(weights=WEIGHTS[:50]), "truncated, or not safetensors"
    yield "missing", folder(weights=m.safetensors({n: t for n, t in T.items() if n != Q})), \
        Q + " is missing"
    yield "unknown", folder(weights=m.safetensors(tensor("model.layers.0.odd.weight", "F32", [1],
                                                         bytes(4)))), "has no place in a llama"
    yield "bias", folder(weights=m.safetensors(tensor(Q[:-6] + "bias", "F32", [16],
                                                      b"\1" * 64))), "q_proj.bias has no place"
    yield "none", folder(weights=None), "neither model.safetensors"
    yield "shard-missing", shards(2, drop=True), "there is no"
    yield "shard-empty", {**shards(2), "model-00002-of-00002.safetensors": b""}, \
        "model-00002-of-00002.safetensors: 0 bytes"
    yield "index-broken", {**shards(2), INDEX: b"{"}, INDEX
    yield "index-empty", shards(2, index=lambda x: {}), "weight_map is missing"
    yield "index-list", shards(2, index=lambda x: {"weight_map": []}), "weight_map is a list"
    for name in "../x.safetensors", "/etc/passwd", ".hidden", "":
        yield "index-file-" + name, shards(2, index=lambda x, name=name: {
            "weight_map": {**x["weight_map"], Q: name}}), "is no file name"
    yield "index-file-number", shards(2, index=lambda x: {
        "weight_map": {**x["weight_map"], Q: 2}}), "an integer for a file name"
    yield "index-wrong", shards(2, index=lambda x: {"weight_map": {
        n: "model-00001-of-00002.safetensors" if n == Q else f
        for n, f in x["weight_map"].items()}}) if sorted(T).index(Q) % 2 else shards(
            2, index=lambda x: {"weight_map": {
                n: "model-00002-of-00002.safetensors" if n == Q else f
                for n, f in x["weight_map"].items()}}), "is not in it, though the index"
    yield "index-more", shards(2, index=lambda x: {"weight_map": {
        **x["weight_map"], "model.x": "model-00001-of-00002.safetensors"}}), "though the index"


def good_configs():
    for name, changed in (
            ("dtype", {"dtype": "bfloat16"}), ("dtype-null", {"torch_dtype": None}),
            ("dtype-f32", {"torch_dtype": "float32"}), ("rope-null", {"rope_scaling": None}),
            ("rope-default", {"rope_scaling": {"rope_type": "default"}}),
            ("rope-old-name", {"rope_scaling": {"type": "default"}}),
            ("rope-both-names", {"rope_scaling": {"type": "default", "rope_type": "default"}}),
            ("rope-linear-1", {"rope_scaling": {"type": "linear", "factor": 1.0}}),
            ("rope-parameters", {"rope_parameters": {"rope_type": "default",
                                                     "rope_theta": 10000.0}}),
            ("rope-integer", {"rope_theta": 10000}), ("eps-text-free", {"rms_norm_eps": 0.00001}),
            ("eos-list", {"eos_token_id": [18, 19]}), ("eos-null", {"eos_token_id": None}),
            ("bos-null", {"bos_token_id": None}), ("swish", {"hidden_act": "swish"}),
            ("context-huge", {"max_position_embeddings": 1 << 20}),
            ("bias-false", {"attention_bias": False, "mlp_bias": False}),
            ("tp", {"pretraining_tp": 2}), ("length", {"max_length": 10 ** 30}),
            ("infinity", {"x": float("inf")}), ("nan", {"initializer_range": float("nan")}),
            ("unknown-keys", {"x": {"y": [1, None, {"z": "\ud83d\ude00"}]}}),
            ("window-null", {"sliding_window": None}),
            ("quantization-null", {"quantization_config": None}),
            ("architectures-null", {"architectures": None}),
            ("architectures-own", {"architectures": ["LlamaForCausalLM", "Other"]})):
        yield name, configured(**changed)
    yield "no-head-dim", configured("head_dim")
    yield "no-tie", configured("tie_word_embeddings")
    yield "no-dtype", configured("torch_dtype")
    yield "no-theta", configured("rope_theta")
    yield "no-eos", configured("eos_token_id", "bos_token_id")
    one = json.dumps(m.CONFIG)
    yield "byte-order-mark", folder(b"\xef\xbb\xbf" + one.encode())
    yield "crlf", folder(json.dumps(m.CONFIG, indent=2).replace("\n", "\r\n").encode())
    yield "indented-by-tabs", folder(json.dumps(m.CONFIG, indent="\t").encode())
    yield "key-twice", folder(("{\"hidden_size\": 99, " + one[1:]).encode())
    yield "escapes", folder(one.replace("llama", "\\u006clama").encode())


def bad_configs():
    one = json.dumps(m.CONFIG)
    for name, raw, said in (
            ("empty", b" ", "config.json, line 1"), ("cut", one[:-5].encode(), "config.json, line 1"),
            ("utf16", one.encode("utf-16"), "config.json, line 1"),
            ("latin1", one.replace("silu", "s\xefu").encode("latin-1"), "config.json, line 1"),
            ("list", b"[1]", "not a JSON object"), ("text", b"\"x\"", "config.json"),
            ("comma", (one[:-1] + ",}").encode(), "config.json, line 1"),
            ("comment", ("// x\n" + one).encode(), "config.json, line 1"),
            ("two", (one + one).encode(), "config.json, line 1"),
            ("html", b"<html></html>", "config.json, line 1"),
            ("python", one.replace("false", "False").encode(), "config.json, line 1"),
            ("nul", one.replace("silu", "si\\u0000lu").encode(), "config.json"),
            ("deep", b"[" * 100000, "nested deeper"),
            ("lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2\n",
             "a pointer of git-lfs")):
        yield name, folder(raw), said
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                "intermediate_size", "max_position_embeddings", "rms_norm_eps"):
        yield "no-" + key, configured(key), key + " is missing"
        yield "null-" + key, configured(**{key: None}), key + " is missing"
        yield "text-" + key, configured(**{key: "16"}), key + " is a string"
        yield "negative-" + key, configured(**{key: -1}), key + " is -1"
    for name, changed, said in (
            ("bool", {"hidden_size": True}, "hidden_size is true"),
            ("fraction", {"hidden_size": 16.5}, "hidden_size is a number"),
            ("huge", {"hidden_size": 1 << 80}, "hidden_size"),
            ("nan", {"rms_norm_eps": float("nan")}, "rms_norm_eps is NaN"),
            ("infinity", {"rope_theta": float("inf")}, "rope_theta"),
            ("layers-3", {"num_hidden_layers": 3}, "model.layers.2."),
            ("layers-1", {"num_hidden_layers": 1}, "model.layers.1."),
            ("heads-5", {"num_attention_heads": 5}, "q_proj"),
            ("kv-0", {"num_key_value_heads": 0}, "num_key_value_heads is 0"),
            ("kv-3", {"num_key_value_heads": 3}, "3 key heads"),
            ("head-dim-odd", {"head_dim": 7}, "head_dim is 7"),
            ("vocab-more", {"vocab_size": 21}, "needs (21, 16)"),
            ("vocab-1", {"vocab_size": 1}, "vocab_size is 1"),
            ("act", {"hidden_act": "relu6"}, "hidden_act"), ("act-number", {"hidden_act": 1}, "hidden_act"),
            ("dtype", {"torch_dtype": "int3"}, "dtype"),
            ("eos-outside", {"eos_token_id": 20}, "eos_token_id"),
            ("eos-text", {"eos_token_id": "</s>"}, "eos_token_id"),
            ("rope-unknown", {"rope_scaling": {"rope_type": "spiral"}}, "\"spiral\""),
            ("rope-list", {"rope_scaling": [2]}, "rope_scaling"),
            ("rope-no-factor", {"rope_scaling": {"type": "linear"}}, "factor"),
            ("rope-negative", {"rope_scaling": {"type": "linear", "factor": -2}}, "factor"),
            ("theta-0", {"rope_theta": 0}, "rope_theta"),
            ("type-unknown", {"model_type": "llama9"}, "\"llama9\""),
            ("type-number", {"model_type": 1}, "model_type"),
            ("class-unknown", {"architectures": ["LlamaForTokenClassification"]}, "architectures"),
            ("bias-text", {"attention_bias": "yes"}, "attention_bias is a string"),
            ("tie-text", {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
            ("quantization", {"quantization_config": {"quant_method": "magic"}}, "magic"),
            ("quantization-list", {"quantization_config": []}, "quantization_config"),
            ("neutral", {"clip_qkv": 8}, "clip_qkv")):
        yield name, configured(**changed), said
    yield "no-type", configured("model_type"), "model_type is missing"
    yield "none", {ONE: WEIGHTS}, "neither config.json"


def good_words():
    yield "no-config", folder(tokenizer_config__json=None)
    yield "merges-in-pairs", words(lambda t: t["model"].update(
        merges=[x.split(" ") for x in m.MERGES]))
    yield "merges-with-version", words(lambda t: t["model"].update(
        merges=["#version: 0.2"] + m.MERGES))
    yield "split-and-bytes", words(lambda t: t.update(pre_tokenizer={
        "type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r" ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"},
             "behavior": "Isolated", "invert": False},
            dict(t["pre_tokenizer"], use_regex=False)]}))
    yield "normal-form", words(lambda t: t.update(normalizer={"type": "NFC"}))
    yield "normal-form-empty", words(lambda t: t.update(
        normalizer={"type": "Sequence", "normalizers": []}))
    yield "added-without-text", words(lambda t: t["added_tokens"].append(
        dict(t["added_tokens"][0], id=20, content="")))
    yield "template-file", folder(chat_template__jinja=CHAT.encode())
    yield "template-list", folder(tokenizer_config__json={"chat_template": [
        {"name": "default", "template": CHAT}, {"name": "rag", "template": "{{ x }}"}]})
    yield "template-object", folder(tokenizer_config__json={"chat_template": {"default": CHAT}})
    yield "template-of-processor", folder(tokenizer_config__json={},
                                          chat_template__json={"chat_template": CHAT})
    yield "length-huge", folder(tokenizer_config__json={"model_max_length": int(1e30)})
    yield "eos-object", folder(tokenizer_config__json={
        "eos_token": {"content": "</s>", "__type": "AddedToken", "lstrip": False}})
    yield "eos-null", folder(tokenizer_config__json={"eos_token": None})
    yield "eos-unknown", folder(tokenizer_config__json={"eos_token": "<gone>"})
    for name, value in (("lists", {"eos_token_id": [18, 19]}), ("odd", {"x": [1, {}]}),
                        ("none", {}), ("long", {"max_length": 10 ** 30, "temperature": None}),
                        ("sampling", {"temperature": 0.7, "top_p": 0.8, "top_k": 20,
                                      "repetition_penalty": 1.05, "do_sample": True}),
                        ("greedy", {"temperature": 0, "top_k": 0})):
        yield "generation-" + name, folder(generation_config__json=value)


def bad_words():
    for name, change, said in (
            ("no-model", lambda t: t.pop("model"), "model is not an object"),
            ("type", lambda t: t["model"].update(type="Magic"), "model.type"),
            ("vocab-list", lambda t: t["model"].update(vocab=[]), "model.vocab"),
            ("vocab-text", lambda t: t["model"]["vocab"].update(H="0"), 'model.vocab["H"]'),
            ("vocab-negative", lambda t: t["model"]["vocab"].update(H=-1), 'model.vocab["H"]'),
            ("vocab-far", lambda t: t["model"]["vocab"].update(H=1 << 40), 'model.vocab["H"]'),
            ("vocab-twice", lambda t: t["model"]["vocab"].update(H=1), "id of another piece"),
            ("no-merges", lambda t: t["model"].pop("merges"), "model.merges"),
            ("merge-three", lambda t: t["model"]["merges"].append("a b c"), "model.merges[7]"),
            ("merge-one", lambda t: t["model"]["merges"].append("a"), "model.merges[7]"),
            ("merge-number", lambda t: t["model"]["merges"].append(1), "model.merges[7]"),
            ("merge-gone", lambda t: t["model"]["merges"].append("x y"), "merge 7"),
            ("merge-to-gone", lambda t: t["model"]["merges"].append("a H"), "merge 7"),
            ("dropout", lambda t: t["model"].update(dropout=0.1), "model.dropout"),
            ("suffix", lambda t: t["model"].update(end_of_word_suffix="</w>"), "end_of_word_suffix"),
            ("added-object", lambda t: t.update(added_tokens={}), "added_tokens is not a list"),
            ("added-no-id", lambda t: t["added_tokens"][0].pop("id"), "added_tokens[0] has no id"),
            ("added-no-flag", lambda t: t["added_tokens"][1].pop("special"), "added_tokens[1] lacks"),
            ("added-far", lambda t: t["added_tokens"][1].update(id=99), "added_tokens[1]"),
            ("added-no-text", lambda t: t["added_tokens"][1].pop("content"), "added_tokens[1] has no"),
            ("normalizer", lambda t: t.update(normalizer={"type": "Magic"}), "normalizer"),
            ("normalizer-text", lambda t: t.update(normalizer="NFC"), "normalizer is not an object"),
            ("pre", lambda t: t.update(pre_tokenizer={"type": "Magic"}), "pre_tokenizer"),
            ("pre-none", lambda t: t.update(pre_tokenizer=None), "pre_tokenizer"),
            ("pre-regex", lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated",
                 "invert": False}, t["pre_tokenizer"]]}), "regular expression"),
            ("pre-behavior", lambda t: t.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd", "invert": False},
                t["pre_tokenizer"]]}), "behavior"),
            ("decoder", lambda t: t.update(decoder={"type": "Magic"}), "decoder"),
            ("decoder-none", lambda t: t.update(decoder=None), "decoder"),
            ("post", lambda t: t.update(post_processor={"type": "Magic"}), "post_processor"),
            ("post-gone", lambda t: t.update(post_processor={
                "type": "TemplateProcessing", "single": [
                    {"SpecialToken": {"id": "<x>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                "special_tokens": {"<x>": {"id": "<x>", "ids": [77], "tokens": ["<x>"]}}}), "id 77")):
        yield name, words(change), said
    yield "empty", folder(tokenizer=b" "), "tokenizer.json, line 1"
    yield "cut", folder(tokenizer=text(TOKENIZER)[:-40]), "tokenizer.json, line 1"
    yield "none", folder(tokenizer__json=None), "tokenizer.json"
    yield "old", folder(tokenizer__json=None, tokenizer__model=b"x"), "only"
    for name, value, said in (
            ("list", b"[]", "not a JSON object"), ("cut", b"{", "tokenizer_config.json, line 1"),
            ("template-number", {"chat_template": 5}, "chat_template is an integer"),
            ("template-list", {"chat_template": [{"name": "x", "template": "y"}]},
             "no chat_template is named"),
            ("template-inner", {"chat_template": [{"name": "default", "template": 5}]},
             "chat_template is an integer")):
        yield "config-" + name, folder(tokenizer_config__json=value), said
    for name, value, said in (
            ("eos", {"eos_token_id": 77}, "generation_config.json: eos_token_id"),
            ("eos-text", {"eos_token_id": ["a"]}, "generation_config.json: eos_token_id"),
            ("hot", {"temperature": 1e9}, "temperature must be"), ("text", {"top_p": "1"}, "top_p"),
            ("top-p", {"top_p": 1.5}, "top_p must be"), ("cut", b"{\"a\"", "line 1")):
        yield "generation-" + name, folder(generation_config__json=value), said


def rows():
    for kind, good, bad in (("safetensors", good_weights, bad_weights),
                            ("config", good_configs, bad_configs), ("words", good_words, bad_words)):
        for name, files in good():
            yield "%s-%s" % (kind, name), files, "", None
        for name, files, said in bad():
            yield "%s-bad-%s" % (kind, name), files, "", said

