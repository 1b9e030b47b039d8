#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for the fuzzers: make_seeds.py OUT writes a folder for each fuzzer, OUT/gguf for
fuzz_gguf and so on. A seed is small and holds what its reader knows: of GGUF both kinds of
vocabulary and a block of each format, of the API a body of each route with its parameters.
Others are what has gone wrong once (attacks.py), what costs most
(tests/http/dear_bodies.jsonl), and the files of tests/corners. Run from the top of the tree."""
import json
import os
import struct
import sys

for folder in "ctl", "corners":
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", folder))
import attacks
import gguf_file as g
import of_folder
import of_gguf

GOLDEN = "tests/golden/tokenizer/"
BYTES = ["<0x%02X>" % i for i in range(256)]
MODEL = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32,
         "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16,
         "intermediate_size": 32, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
         "rope_theta": 1e4}


def put(folder, name, raw):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(raw)


def vocabulary(model, pre, tokens, types, more):
    head = "tokenizer.ggml."
    return [(head + "model", g.STRING, model), (head + "pre", g.STRING, pre),
            (head + "tokens", (g.ARRAY, g.STRING), tokens),
            (head + "token_type", (g.ARRAY, g.I32), types),
            (head + "bos_token_id", g.U32, 1), (head + "add_bos_token", g.BOOL, True)] + [
            (head + n, *v) for n, v in more.items()] + [
            ("tokenizer.chat_template", g.STRING, "{{ messages[0].content }}")]


def image(out):
    for i, raw in enumerate(attacks.pictures()):
        put(out, "attack-%d" % i, raw)
    golden = "tests/golden/images"
    for name in sorted(os.listdir(golden)):
        if name.endswith((".jpg", ".png", ".webp")):
            with open(os.path.join(golden, name), "rb") as f:
                put(out, name, f.read())


def audio(out):
    golden = "tests/golden/audio"
    for name in sorted(os.listdir(golden)):
        if not name.endswith(".tsv"):
            with open(os.path.join(golden, name), "rb") as f:
                put(out, name, f.read())


def gguf(out):
    pieces = ["<unk>", "<s>", "</s>"] + BYTES + ["\u2581", "H", "e", "l", "o", "He", "ll",
                                                 "\u2581He", "llo", "\u2581Hello"]
    types = [2, 3, 3] + [6] * 256 + [1] * 10
    scores = [0.0] * 259 + [-float(i) for i in range(10)]
    spm = vocabulary("llama", "default", pieces, types, {
        "scores": ((g.ARRAY, g.F32), scores), "add_space_prefix": (g.BOOL, True)})
    words = ["H", "e", "l", "o", "He", "ll", "Hell", "Hello", "<s>", "<|x|>"]
    bpe = vocabulary("gpt2", "qwen2", words, [1] * 8 + [3, 4], {
        "merges": ((g.ARRAY, g.STRING), ["H e", "l l", "He ll", "Hell o"])})
    plain = ("F32", [2, 4], bytes(32))
    tensors = {"token_embd.weight": plain, "blk.0.attn_q.weight": ("Q8_0", [1, 32],
                                                                   bytes(34)),
               "blk.0.attn_k.weight": ("Q4_0", [1, 32], bytes(18)),
               "blk.0.ffn_down.weight": ("MXFP4", [1, 32], bytes(17)),
               "rope_freqs.weight": ("F32", [8], struct.pack("<8f", *[1.0] * 8))}
    for name, keys in (("sentencepiece", spm), ("bpe", bpe)):
        os.makedirs(out, exist_ok=True)
        g.write(os.path.join(out, name), g.model_keys(MODEL) + keys, tensors)
    golden = "tests/golden/models"
    for name in sorted(os.listdir(golden)):
        with open(os.path.join(golden, name, "config.json"), "rb") as f:
            top = json.load(f)
        if top.get("model_type") in g.ARCHS:
            try:
                g.write(os.path.join(out, "keys-" + name), g.model_keys(top) + bpe, tensors)
            except KeyError:
                pass  # its keys are made by llama.cpp's converter alone
    with open("tests/golden/formats/blocks.gguf", "rb") as f:
        put(out, "blocks", f.read())
    ends = [("tokenizer.ggml.tokens", (g.ARRAY, g.STRING), words[:7] + ["<|end|>", "<|eot|>", "<s>"])
            if k[0] == "tokenizer.ggml.tokens" else k for k in bpe]
    odd = {**tensors, "blk.0.ffn_gate.bias": ("F32", [2], bytes(8)), "blk.0.no": plain}
    for name, keys, parts in (
            ("ends", ends, tensors), ("biases", bpe, odd),
            ("window", bpe + [("llama.attention.sliding_window", g.U32, 16)], tensors),
            ("bos", bpe + [("tokenizer.ggml.add_bos_token", g.BOOL, True)], {}),
            *(("pre-" + p, vocabulary("gpt2", p, words, [1] * 8 + [3, 4], {
                "merges": ((g.ARRAY, g.STRING), ["H e", "l l"])}), {}) for p in (
                    "smollm", "gpt-4o", "deepseek-llm", "superbpe", "default", "kimi-k2"))):
        g.write(os.path.join(out, name), g.model_keys(MODEL) + keys, parts)
    with open(os.path.join(out, "bpe"), "rb") as f:
        for i, raw in enumerate(attacks.damaged(f.read())):
            put(out, "damaged-%d" % i, raw)
    for name, files, _, _ in of_gguf.rows():
        for file, raw in files.items():
            put(out, name + "-" + file, raw[:16384])


def config(out):
    """Three files with a NUL behind each."""
    names = "config.json", "generation_config.json", "tokenizer_config.json"
    for name, files, _, _ in of_folder.rows():
        put(out, name.replace("/", "_"), b"".join(files.get(n, b"{}") + b"\0" for n in names))
    golden = "tests/golden/models"
    for name in sorted(os.listdir(golden)):
        with open(os.path.join(golden, name, "config.json"), "rb") as f:
            put(out, "golden-" + name, f.read() + b"\0{}\0{}\0")
    for i, texts in enumerate(attacks.configs({**MODEL, "vocab_size": 300})):
        put(out, "attack-%d" % i, "".join(t + "\0" for t in texts).encode())


def safetensors(out):
    os.makedirs(out, exist_ok=True)
    g.write_safetensors(os.path.join(out, "types"), {
        "a.weight": ("BF16", [2, 4], bytes(16)), "a.bias": ("F32", [4], bytes(16)),
        "b.weight_packed": ("I32", [2, 2], bytes(16)), "c": ("F8_E4M3", [3], bytes(3)),
        "d": ("U8", [0, 3], b""), "e": ("I64", [], bytes(8))})
    g.write_safetensors(os.path.join(out, "empty"), {})
    for name, files, _, _ in of_folder.rows():
        for file, raw in files.items():
            if name.startswith("safetensors") and file.endswith(".safetensors"):
                put(out, name.replace("/", "_") + "-" + file, raw)


def tokenizer(out):
    """One line of JSON, and behind it a text."""
    text = "\nHello <s>w\u00f6rld</s>  12"
    for base, variants in (("base.json", "variants.json"),
                           ("fallback_base.json", "fallback.json")):
        with open(GOLDEN + base, encoding="utf-8") as f:
            top = json.load(f)
        with open(GOLDEN + variants, encoding="utf-8") as f:
            rows = json.load(f)["variants"]
        keep = 259 + 24 if "fallback" in base else 256
        vocab = {p: i for p, i in top["model"]["vocab"].items() if i < keep}
        merges = [m for m in top["model"]["merges"]
                  if m[0] in vocab and m[1] in vocab and "".join(m) in vocab]
        top["model"].update(vocab=vocab, merges=merges)
        for row in rows:
            if row["model"] or any(a["id"] >= keep for a in
                                   row["patch"].get("added_tokens", [])):
                continue
            one = dict(top, **row["patch"])
            put(out, base[:4] + "-" + row["name"].replace("/", "_"),
                (json.dumps(one, separators=(",", ":")) + text).encode())
    for name, files, _, _ in of_folder.rows():
        if name.startswith("words") and "tokenizer.json" in files:
            put(out, name, files["tokenizer.json"] + text.encode())


TOOLS = [{"type": "function", "function": {
    "name": "add", "description": "Adds.", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"], "additionalProperties": False}}}]
CALL = {"id": "call_1", "type": "function",
        "function": {"name": "add", "arguments": "{\"a\": 1}"}}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


def api(out):
    """A byte for the route, in the order of endpoint.def, and a body."""
    paths = attacks.endpoints()
    bodies = [
        {"messages": CHAT, "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "seed": 1,
         "stop": ["x"], "n": 2, "logprobs": True, "top_logprobs": 3, "stream": True,
         "stream_options": {"include_usage": True}, "logit_bias": {"5": 1}},
        {"messages": CHAT, "tools": TOOLS, "tool_choice": "required"},
        {"messages": CHAT + [{"role": "assistant", "content": None, "tool_calls": [CALL]},
                             {"role": "tool", "tool_call_id": "call_1", "content": "2"}],
         "tools": TOOLS, "parallel_tool_calls": False},
        {"messages": CHAT, "response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
         "chat_template_kwargs": {"enable_thinking": False}, "guided_regex": "[ab]+"},
        {"prompt": "Once", "echo": True, "logprobs": 2, "max_tokens": 3, "top_k": 5,
         "min_p": 0.1, "repetition_penalty": 1.1, "guided_choice": ["a", "b"]},
        {"prompt": [[1, 2, 3], [4]], "max_tokens": 1, "stop_token_ids": [3]},
        {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
         "tools": [{"name": "add", "input_schema": SCHEMA}],
         "thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"input": "Hello", "instructions": "Be brief.", "max_output_tokens": 5,
         "text": {"format": {"type": "json_object"}}, "reasoning": {"effort": "low"}},
        {"input": [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Hi"}]},
            {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "2"}]},
        {"input_prefix": "int f(", "input_suffix": "}", "n_predict": 3,
         "input_extra": [{"filename": "a.c", "text": "x"}]},
    ]
    for i, body in enumerate(bodies):  # each of them with each route, so that it reaches its own
        for kind in range(len(paths)):
            put(out, "%d-%d" % (i, kind), bytes([kind]) + json.dumps(body).encode())
    field = '--edge\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    form = "".join(field % x for x in (
        ("file", "RIFF"), ("temperature", "0.5"), ("stream", "true"), ("language", "en"),
        ("timestamp_granularities[]", "word"), ("prompt", "Hi"))) + "--edge--\r\n"
    put(out, "form", bytes([paths.index("/v1/audio/transcriptions")]) + form.encode())
    for i, (path, text) in enumerate(attacks.bodies() + dear()):
        put(out, "attack-%d" % i, bytes([paths.index(path)]) + attacks.as_bytes(text))


def dear():
    """The dearest bodies that a search has found: [(path, text)]"""
    with open("tests/http/dear_bodies.jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [(x["path"], x["body"]) for x in rows if x["kind"] != "image"]


def guides():
    """[(kind of grammar, text)] in all bodies of others."""
    kinds = {"guided_grammar": 0, "guided_regex": 1, "guided_json": 2, "schema": 2,
             "parameters": 2}

    def walk(v):
        for k, x in v.items() if isinstance(v, dict) else ():
            if k in kinds and isinstance(x, str if kinds[k] < 2 else (dict, bool)):
                yield kinds[k], x if kinds[k] < 2 else json.dumps(x)
        for x in v.values() if isinstance(v, dict) else v if isinstance(v, list) else ():
            yield from walk(x)
    found = set()
    for _, text in attacks.bodies() + dear():
        try:
            found.update(walk(json.loads(text)))
        except ValueError:
            pass  # an attack on JSON itself
    return sorted(found)


def grammar(out):
    """A byte for what it is (GBNF, regular expression, schema), and the text."""
    for i, text in enumerate(('root ::= "a" [b-z]+ ("," root)? | item{2,3}\nitem ::= "x"',
                              'root ::= ws "\\u00e9" [^"\\x00-\\x1f]*\nws ::= [ \\t]*')):
        put(out, "gbnf-%d" % i, b"\0" + text.encode())
    for i, text in enumerate((r"(\d{1,3}\.){3}\d+", r"^[\w.+-]+@(?:[a-z]+\.)+[a-z]{2,}$",
                              r"(a|b)*?c+x{2,}|[^\s]\p{L}\u00e9",
                              "^a(?<=a)(?<!b)[[\0](?<\0c)")):
        put(out, "regex-%d" % i, b"\1" + text.encode())
    with open("tests/golden/schemas.tsv", encoding="utf-8") as f:
        schemas = [line.split("\t", 1)[1] for line in f if line.startswith("S\t")]
    for i, text in enumerate(schemas[:60]):
        put(out, "schema-%d" % i, b"\2" + text.strip().encode())
    for i, (kind, text) in enumerate(guides()):
        put(out, "attack-%d" % i, bytes([kind]) + attacks.as_bytes(text))


def jinja(out):
    with open("models/halo-tiny/tokenizer_config.json", encoding="utf-8") as f:
        put(out, "halo-tiny", json.load(f)["chat_template"].encode())
    for name in ("statements", "expressions", "filters", "methods"):
        with open("tests/golden/jinja/%s.json" % name, encoding="utf-8") as f:
            top = json.load(f)
        cases = top if isinstance(top, list) else top.get("cases", [])
        texts = [c["template"] if isinstance(c, dict) else c[0] for c in cases]
        for i, text in enumerate(texts[:80]):
            put(out, "%s-%d" % (name, i), text.encode())
    for i, text in enumerate(attacks.TEMPLATES):
        put(out, "attack-%d" % i, text.encode())


def toolparse(out):
    """A byte for the format, one for the cuts, and an answer."""
    answers = [
        'Hi<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
        "<think>so</think><tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
        "</function>\n</tool_call>",
        '<|python_tag|>{"name": "add", "parameters": {"a": [1, {"b": "c"}]}}',
        '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]',
        '[TOOL_CALLS]add[ARGS]{"a": 1}',
        '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"a":1}<|call|>',
        "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
        '<minimax:tool_call>\n<invoke name="add">\n<parameter name="a">1</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        "<seed:tool_call>\n<function=add>\n<parameter=a>1</parameter>\n</function>\n"
        "</seed:tool_call>",
        '<|tool_call>call:add{a:1,b:<|"|>x<|"|>,c:[true,{d:null}]}<tool_call|>',
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>"
        '{"a":1}<|tool_call_end|><|tool_calls_section_end|>',
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>add"
        '<\uff5ctool\u2581sep\uff5c>{"a":1}<\uff5ctool\u2581call\u2581end\uff5c>'
        "<\uff5ctool\u2581calls\u2581end\uff5c>",
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function"
        '<\uff5ctool\u2581sep\uff5c>add\n```json\n{"a":1}\n```<\uff5ctool\u2581call\u2581end\uff5c>',
        *('<\uff5cDSML\uff5c%s>\n<\uff5cDSML\uff5cinvoke name="add">\n<\uff5cDSML\uff5cparameter name='
          '"a" string="false">1</\uff5cDSML\uff5cparameter>\n</\uff5cDSML\uff5cinvoke>\n'
          "</\uff5cDSML\uff5c%s>" % (w, w) for w in ("tool_calls", "function_calls")),
        '<TOOLCALL>[{"name": "add", "arguments": {"a": 1}}, {"name": "b", "arguments": {}}]</TOOLCALL>',
        '<|tool_call|>[{"name": "add", "arguments": {"a": 1}}]',
        "<|tool_call_start|>[add(a=1, b='x', c=[True, {'d': None}]), f()]<|tool_call_end|>",
    ]
    for i, text in enumerate(answers):
        for kind in range(20):
            put(out, "%d-%d" % (i, kind), bytes([kind, i]) + text.encode())


def head(out):
    post = b"POST /x HTTP/1.1\r\nHost: h\r\n"
    requests = [
        post + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
        post + b"Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"GET http://h/?a=b HTTP/1.0\r\nConnection: keep-alive, TE\r\nTE: x\r\n\r\n",
        b"\r\nOPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nUpgrade: h2c\r\n\r\n",
        post + b"X: a\r\n b\r\n\r\n", post + b"Content-Length: 0\x005\r\n\r\n",
        post + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n"]
    for i, request in enumerate(requests):
        for step in (0, 5):
            put(out, "%d-%d" % (i, step), bytes([step]) + request)
    for i, request in enumerate(attacks.requests()):
        put(out, "attack-%d" % i, bytes([i]) + request)


def http(out):
    """A byte for the server and the cuts, one for the client's end, and requests. One dear body of
    each address: fuzz_api has all of them."""
    requests = list(attacks.requests())
    requests += [attacks.post(p, attacks.as_bytes(t)) for p, t in dict(reversed(dear())).items()]
    requests += [attacks.post(p, attacks.as_bytes(t), b"Authorization: Bearer secret")
                 for p, t in attacks.bodies()]
    for i, request in enumerate(requests):
        put(out, str(i), bytes([255 - i % 3 if i % 2 else i % 240, i % 255]) + request)


def kvfile(out):
    """Heads by kvfile.h, with and without pages, states and a key."""
    for i, (key, n_tok, first, size, n_states) in enumerate((
            (b"k", 4, 0, 4, 0), (b"", 12, 4, 4, 1), (b"key\n" * 9, 8, 8, 2, 2))):
        n_pages = (n_tok - first) // size
        body = key.ljust((len(key) + 7) // 8 * 8, b"\0")
        body += struct.pack("<%di" % n_tok, *range(n_tok))
        body = body.ljust((len(body) + 7) // 8 * 8, b"\0")
        body += bytes(8 * n_pages) + struct.pack("<IIQ", size, 0, 0) * n_states
        length = 4096 + n_pages * 8 + n_states * 3
        head = b"halodkv2" + struct.pack("<QQQQIIIIIIQ", length, 4096, 8, 3, len(key), n_tok,
                                         first, size, n_states, 0, 0)
        raw = (head + body).ljust(length, b"\0")
        put(out, str(i), raw)
        for k, text in enumerate(attacks.damaged(raw)):
            put(out, "%d-damaged-%d" % (i, k), text)


def multipart(out):
    """A line with the Content-Type, and the form."""
    named = b'Content-Disposition: form-data; name="%s"%s\r\n'
    parts = [named % (b"purpose", b"") + b"\r\nbatch",
             named % (b"file", b'; filename="a\\".jsonl"') + b"Content-Type: text/plain\r\n\r\n{}\n",
             named % (b"a[b]", b"") + b"Content-Transfer-Encoding: binary\r\n\r\n"]
    for i in range(1, 4):
        body = b"".join(b"--xYx\r\n" + p + b"\r\n" for p in parts[:i])
        put(out, "form-%d" % i, b"multipart/form-data; boundary=xYx\n" + body + b"--xYx--\r\n")
    put(out, "quoted", b'Multipart/form-data; boundary="x"\n\r\n--x \r\n' + parts[0] + b"\r\n--x--")


def video(out):
    """Messages of halod-video; the length says which kind is expected."""
    wire = struct.Struct("<IIiiqd96s")
    for code in 1, 2, 3, 4, 5:
        raw = wire.pack(0x56444C48, code, 64, 48, 24, 12, b"is broken" if code in (3, 4) else b"")
        for i, kind in enumerate(("sound", "found", "frame")):
            put(out, "%s-%d" % (kind, code), raw + bytes(i + 1))


def main(out):
    head(os.path.join(out, "head"))
    multipart(os.path.join(out, "multipart"))
    http(os.path.join(out, "http"))
    kvfile(os.path.join(out, "kvfile"))
    video(os.path.join(out, "video"))
    image(os.path.join(out, "image"))
    audio(os.path.join(out, "audio"))
    api(os.path.join(out, "api"))
    grammar(os.path.join(out, "grammar"))
    jinja(os.path.join(out, "jinja"))
    toolparse(os.path.join(out, "toolparse"))
    safetensors(os.path.join(out, "safetensors"))
    gguf(os.path.join(out, "gguf"))
    config(os.path.join(out, "config"))
    tokenizer(os.path.join(out, "tokenizer"))


main(*sys.argv[1:])
