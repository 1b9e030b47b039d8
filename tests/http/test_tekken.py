#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder with tekken.json in place of tokenizer.json: ids of texts and of conversations against
mistral-common (tests/golden/make_tekken.py), for each version of the file; and what is refused."""
import json
import os
import shutil
import subprocess
import tempfile

from halod import BUILDDIR, SRCDIR, Halod, run
from test_images import image, text, user

GOLDEN = os.path.join(SRCDIR, "tests/golden/tekken")
WEIGHTS = os.path.join(SRCDIR, "tests/golden/models/mistral-window")
SEES = os.path.join(SRCDIR, "tests/golden/vision/mistral3")


def read(name):
    with open(os.path.join(GOLDEN, name), encoding="utf-8") as f:
        return json.load(f)


def folder(tmp, version, change=None):
    """A model with this version of the file; change(file) damages it."""
    tekken = read("tekken.json")
    tekken["config"]["version"] = version
    if change:
        change(tekken)
    shutil.rmtree(os.path.join(tmp, version), ignore_errors=True)
    made = shutil.copytree(WEIGHTS, os.path.join(tmp, version))
    for name in "tokenizer.json", "tokenizer_config.json":
        os.remove(os.path.join(made, name))
    with open(os.path.join(made, "tekken.json"), "w", encoding="utf-8") as f:
        json.dump(tekken, f)
    return made


def tokens(d, **body):
    return d.request("POST", "/tokenize", body).json["tokens"]


def check_chats(t, d, version):
    for c in read("cases.json")["chats"]:
        if c["version"] != version:
            continue
        more = {"tools": c["tools"]} if c["tools"] else {}
        t.equal(tokens(d, messages=c["messages"], **more), c["ids"],
                "%s: %d messages" % (version, len(c["messages"])))
        a = d.request("POST", "/v1/chat/completions", {
            "messages": c["messages"], "max_tokens": 2, **more})
        t.ok(a.status == 200 and a.json["usage"]["prompt_tokens"] == len(c["ids"]),
             "which is answered", a.body)


def test_texts(t, d):
    for c in read("cases.json")["texts"]:
        t.equal(tokens(d, content=c["text"], parse_special=False), c["ids"], "ids of %r" % c["text"])
        t.equal(d.request("POST", "/detokenize", {"tokens": c["ids"]}).json["content"],
                c["text"], "and the text of the ids")
    t.equal(tokens(d, content="a", add_special=True)[0], 1, "a prompt alone begins with <s>")


def test_chats(t, d):
    check_chats(t, d, "v13")


def test_images(t, d):
    """An image stands where its part does."""
    with tempfile.TemporaryDirectory() as tmp:
        made = folder(tmp, "v13")
        for name in "config.json", "preprocessor_config.json", "model.safetensors":
            shutil.copy(os.path.join(SEES, name), os.path.join(made, name))
        path = os.path.join(made, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config["image_token_index"] = config["image_token_id"] = 10
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        other = Halod(model=made)
        ids = tokens(other, messages=user(text("First "), image("rgb.png"), text(" then")))
        words = tokens(other, messages=[{"role": "user", "content": "First "}])
        t.ok(ids[:len(words) - 1] == words[:-1] and ids[len(words) - 1] == 10 and
             ids.count(13) == 1 and ids.index(13) < ids.index(4) - 1, "an image in a message", ids)
        t.equal(other.stop(), 0, "it ends well")


def test_versions(t, d):
    with tempfile.TemporaryDirectory() as tmp:
        for version in "v7", "v11":
            other = Halod(model=folder(tmp, version))
            check_chats(t, other, version)
            t.equal(other.stop(), 0, "%s ends well" % version)
        made = folder(tmp, "v15")
        chat = {"messages": [{"role": "user", "content": "?"}]}
        other = Halod(model=made)
        a = other.request("POST", "/v1/chat/completions", chat)
        t.ok(a.status == 400 and "chat_template" in a.json["error"]["message"],
             "an unknown version has no chat template", a.body)
        t.equal(other.stop(), 0, "v15 ends well")


def swap(tekken):
    vocab = tekken["vocab"]
    vocab[300]["token_bytes"], vocab[7]["token_bytes"] = "YQ==", vocab[300]["token_bytes"]


def set_to(*path, value):
    def change(tekken):
        at = tekken
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    return change


def test_refused(t, d):
    twin = read("tekken.json")["vocab"][300]["token_bytes"]
    with tempfile.TemporaryDirectory() as tmp:
        for change, words in (
                (swap, "vocab[7] is not the byte"),
                (set_to("vocab", 301, "token_bytes", value=twin),
                 "vocab[301] has the bytes of another piece"),
                (set_to("vocab", 301, "token_bytes", value="?"), "vocab[301] has no token_bytes"),
                (set_to("vocab", 301, "rank", value=5), "vocab[301] has another rank"),
                (set_to("vocab", value=[]), "vocab has 0 pieces where config tells of 476"),
                (set_to("special_tokens", 4, "token_str", value=""), "special_tokens[4]"),
                (set_to("special_tokens", value=7), "special_tokens is no list"),
                (set_to("special_tokens", 4, "token_str", value="<s>"), "<s>"),
                (set_to("config", value={}), "default_vocab_size"),
                (set_to("config", "default_vocab_size", value=270), "less than 256 pieces"),
                (set_to("config", "pattern", value=None), "no pattern"),
                (set_to("config", "pattern", value="("), "pre-tokenizer step 0")):
            p = subprocess.run([os.path.join(BUILDDIR, "haloctl"), "tokenize", "--text", "a",
                                "--model", folder(tmp, "v13", change)],
                               capture_output=True, text=True)
            t.ok(p.returncode == 2 and "tekken.json: " in p.stderr and words in p.stderr,
                 "refused: " + words, p.stderr or p.returncode)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        run([test_texts, test_chats, test_images, test_versions, test_refused], model=folder(home, "v13"))
