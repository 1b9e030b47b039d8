#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chat templates in each form in which models ship them: which one a request takes, and
which tokens begin its prompt, or a prompt without a template."""
import json
import os
import shutil
import sys
import tempfile

from halod import Halod, MODEL, SRCDIR, run

sys.path.insert(0, os.path.join(SRCDIR, "tests/ctl"))
import gguf_file as g  # noqa: E402

FOLDER = os.path.join(SRCDIR, "tests/golden/models/llama-biases")
ASK = {"messages": [{"role": "user", "content": "x"}]}
TOOLS = dict(ASK, tools=[{"type": "function", "function": {
    "name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}])
PLAIN, USE = "default\n", "\n  tool_use {{ tools|length }}\n  "
NAMED = [{"name": "default", "template": PLAIN}, {"name": "tool_use", "template": USE},
         {"name": "rag", "template": "rag"}]


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def folder_of(tmp, config, files, source=FOLDER):
    folder = os.path.join(tmp, "model")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    os.remove(os.path.join(folder, "reference.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as f:
        own = json.load(f)
    own.pop("chat_template", None)
    own.update(config)
    write(folder, "tokenizer_config.json", json.dumps(own))
    for name, text in files.items():
        write(folder, name, text)
    return folder


def gguf_of(tmp, extra, template=None):
    path = os.path.join(tmp, "model.gguf")
    tensors = {}
    for name, (_, shape, raw) in g.load(FOLDER).items():
        if "q_proj" in name or "k_proj" in name:
            raw = g.pair_rows(raw, shape[0], 32)
        tensors[g.tensor_name(name)] = (("BF16", shape, raw) if len(shape) > 1 else
                                        ("F32", shape, g.bf16_to_f32(raw)))
    keys = g.model_keys(g.read_json(FOLDER, "config.json")) + g.tokenizer_keys(FOLDER, 512)
    keys = [k for k in keys if k[0] != "tokenizer.chat_template"] + extra
    if template is not None:
        keys.append(("tokenizer.chat_template", g.STRING, template))
    g.write(path, keys, tensors)
    return path


def prompts(model):
    d = Halod(model=model, ctx=256)
    try:
        return [d.request("POST", "/apply-template", body).json.get("prompt")
                for body in (ASK, TOOLS)] + [d.request("POST", "/tokenize", ASK).json]
    finally:
        d.stop()


def test_forms(t, tmp):
    both = ["default", "\n  tool_use 1\n  "]
    extra = "additional_chat_templates/tool_use.jinja"
    for config, files, want, name in (
            ({"chat_template": NAMED}, {}, both, "a list of tokenizer_config.json"),
            ({"chat_template": {n["name"]: n["template"] for n in NAMED}}, {}, both,
             "an object of it"),
            ({}, {"chat_template.jinja": PLAIN, extra: USE}, both, "files"),
            ({"chat_template": "old"}, {"chat_template.jinja": PLAIN, extra: USE}, both,
             "files before tokenizer_config.json"),
            ({}, {"chat_template.json": json.dumps({"chat_template": PLAIN})},
             ["default"] * 2, "chat_template.json"),
            ({"chat_template": PLAIN}, {"chat_template.json": json.dumps(
                {"chat_template": "old"})}, ["default"] * 2,
             "tokenizer_config.json before it"),
            ({"chat_template": NAMED[:1]}, {}, ["default"] * 2, "a list of one"),
            ({"chat_template": PLAIN}, {extra: USE}, ["default"] * 2,
             "files beside tokenizer_config.json are of chat_template.jinja")):
        got = prompts(folder_of(tmp, config, files))
        t.equal(got[0], want[0], name)
        if want[1] != "default":
            t.equal(got[1], want[1], name + ", with tools")
    key = "tokenizer.chat_template.tool_use"
    t.equal(prompts(gguf_of(tmp, [(key, g.STRING, USE)], PLAIN))[:2], both, "keys of a GGUF")
    t.equal(prompts(gguf_of(tmp, [(key, g.STRING, "only")]))[0], "only",
            "a GGUF with that one alone")


def test_begin(t, tmp):
    """BOS: llama.cpp puts one before a GGUF's chat. In a folder the template decides."""
    bos = "tokenizer.ggml.bos_token_id"
    adds = "tokenizer.ggml.add_bos_token"
    silent = "{{ messages[0].content }}"
    writes = "{{ bos_token }}" + silent
    for template, extra, n, name in (
            (silent, [(bos, g.U32, 501), (adds, g.BOOL, True)], 1, "one is added"),
            (writes, [(bos, g.U32, 501), (adds, g.BOOL, True)], 1, "never two"),
            (writes, [(bos, g.U32, 501), (adds, g.BOOL, False)], 1, "the template's own"),
            (silent, [(bos, g.U32, 501), (adds, g.BOOL, False)], 0, "none")):
        tokens = prompts(gguf_of(tmp, extra, template))[2]["tokens"]
        t.equal((tokens.count(501), len(tokens)), (n, n + 1), "GGUF: " + name)
    for template, n in ((silent, 0), (writes, 1)):
        tokens = prompts(folder_of(tmp, {"chat_template": template,
                                         "bos_token": "<|endoftext|>"}, {}))[2]["tokens"]
        t.equal(tokens.count(501), n, "a folder: %d" % n)


def test_pieces(t, tmp):
    """A list that begins with a text begins as a text does, as llama.cpp has it."""
    model = gguf_of(tmp, [("tokenizer.ggml.bos_token_id", g.U32, 501),
                          ("tokenizer.ggml.add_bos_token", g.BOOL, True)])
    d = Halod(model=model, ctx=256)
    try:
        for prompt, n in (("x", 2), (["x"], 2), (["x", 5], 3), ([5, "x"], 2), ([5], 1)):
            a = d.request("POST", "/completion", {"prompt": prompt, "n_predict": 0})
            t.equal(a.json.get("tokens_evaluated"), n, "a prompt of %r" % (prompt,))
    finally:
        d.stop()


def test_missing(t, tmp):
    d = Halod(model=folder_of(tmp, {}, {}), ctx=256)
    try:
        a = d.request("POST", "/v1/chat/completions", ASK)
        t.ok(a.status == 400 and "chat_template.jinja" in a.error["message"],
             "a model without a template says what to add", a.body)
    finally:
        d.stop()


def in_folder(test):
    def named(t, _):
        with tempfile.TemporaryDirectory(prefix="halod-templates-") as tmp:
            test(t, tmp)
    named.__name__ = test.__name__
    return named


def test_thinking(t, tmp):
    """Mistral's tags around reasoning are special tokens, which text leaves out. The model
    thinks in these as in its own."""
    def own(text):
        return text.replace("<think>", "[THINK]").replace("</think>", "[/THINK]")

    with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    for a in tokenizer["added_tokens"]:
        if "think>" in a["content"]:
            a.update(content=own(a["content"]), special=True)
    with open(os.path.join(MODEL, "tokenizer_config.json"), encoding="utf-8") as f:
        template = json.load(f)["chat_template"]
    said = []
    for model in (MODEL, folder_of(tmp, {"added_tokens_decoder": {}}, {
            "tokenizer.json": json.dumps(tokenizer), "chat_template.jinja": own(template)},
            MODEL)):
        d = Halod(model=model, ctx=256)
        try:
            said.append(d.chat("What is 2+2?", temperature=0, max_tokens=60).json
                        ["choices"][0]["message"])
        finally:
            d.stop()
    t.ok(said[0].get("reasoning_content") and said[0].get("content"), "it thinks, then answers",
         said[0])
    t.equal(said[1], said[0], "in special tokens it says the same")


run([in_folder(f) for f in (test_forms, test_begin, test_pieces, test_missing, test_thinking)])
