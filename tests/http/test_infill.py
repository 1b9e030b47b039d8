#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/infill, as editors ask it (llama.vim, llama.vscode). halo-tiny has no tokens for it; a
copy with such tokens in its vocabulary writes nonsense, but by the whole path."""
import json
import os
import shutil
import tempfile

from halod import MODEL, Halod, run

NAMES = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>",
         "<|file_sep|>"]

# The body that llama.vim sends for a completion, and the one that warms the cache up.
VIM = {
    "model": "", "id_slot": -1, "input_prefix": "def add(a, b):\n", "input_suffix": "\nprint(add(1, 2))\n",
    "input_extra": [{"filename": "a.py", "text": "x = 1\n"},
                    {"filename": "b.py", "text": "y = 2\n", "time": 1700000000}],
    "prompt": "    return ", "n_predict": 12, "n_indent": 4, "top_k": 40, "top_p": 0.9,
    "stream": False, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True,
    "t_max_prompt_ms": 500, "t_max_predict_ms": 1000000,
    "response_fields": ["content", "timings/prompt_n", "timings/prompt_ms",
                        "timings/predicted_n", "timings/predicted_ms", "truncated",
                        "tokens_cached", "generation_settings/n_ctx"],
}


def model_with_tokens(to):
    for name in os.listdir(MODEL):
        shutil.copy(os.path.join(MODEL, name), to)
    path = os.path.join(to, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    for i, name in enumerate(NAMES):
        j["added_tokens"].append({"id": 3072 + i, "content": name, "special": True,
                                  "single_word": False, "lstrip": False,
                                  "rstrip": False, "normalized": False})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(j, f)
    os.remove(os.path.join(to, "reference.json"))
    return to


def infill(d, **body):
    return d.request("POST", "/infill", body)


def test_editor(t, d):
    a = infill(d, **VIM)
    t.equal(a.status, 200, "llama.vim's request is taken")
    got = a.json
    t.ok(isinstance(got["content"], str) and got["timings/predicted_n"] >= 1 and
         got["truncated"] is False and got["timings/prompt_n"] > 20 and
         got["generation_settings/n_ctx"] > 100 and "timings" not in got,
         "the fields it asked for, by their paths, and no others", got)
    warm = infill(d, **{**VIM, "n_predict": 0, "prompt": "    return a"})
    t.ok(warm.status == 200 and warm.json["content"] == "" and
         warm.json["timings/predicted_n"] == 0, "n_predict 0 writes nothing", warm.body)
    again = infill(d, **{**VIM, "prompt": "    return a"}).json
    t.ok(again["tokens_cached"] >= 16, "but is found in the cache", again)


def test_prompt(t, d):
    body = {"input_prefix": "ab ", "prompt": "cd", "input_suffix": " ef", "n_predict": 1}
    whole = infill(d, **body).json
    ids = d.request("POST", "/tokenize", {"content": "ab cd"}).json["tokens"]
    behind = d.request("POST", "/tokenize", {"content": " ef"}).json["tokens"]
    t.equal(whole["tokens_evaluated"], len(ids) + len(behind) + 3,
            "prefix and prompt, suffix, and the three tokens around them")
    t.ok({"content", "stop", "stop_type", "model", "timings", "truncated"} <= set(whole)
         and whole["stop"] is True, "llama.cpp's answer", whole)
    evil = infill(d, **{**body, "prompt": "<|fim_middle|>"}).json
    t.ok(evil["tokens_evaluated"] > whole["tokens_evaluated"],
         "a text spelled like such a token is text", evil)


def test_cut(t, d):
    n_ctx = d.get("/props").json["default_generation_settings"]["n_ctx"]
    a = infill(d, input_prefix="word " * 3 * n_ctx, input_suffix="end " * n_ctx,
               input_extra=[{"text": "file"}], n_predict=8)
    t.ok(a.status == 200 and a.json["truncated"] and
         n_ctx - 20 < a.json["tokens_evaluated"] + 8 <= n_ctx,
         "a long file is cut around the cursor", a.body[:300])


def test_time(t, d):
    a = infill(d, **{**VIM, "n_predict": 900, "t_max_predict_ms": 1, "stop": [],
                     "response_fields": [], "logit_bias": {"3065": -100, "3063": -100}})
    t.ok(a.json["tokens_predicted"] < 400 and a.json["stop_type"] == "limit",
         "t_max_predict_ms ends it", a.body)


def test_stream(t, d):
    conn = d.connect()
    conn.request("POST", "/infill", json.dumps(
        {**VIM, "stream": True, "response_fields": None, "temperature": 0}), {})
    events = [json.loads(l[6:]) for l in conn.getresponse().read().decode().split("\n")
              if l.startswith("data: ")]
    conn.close()
    t.ok(all(e["stop"] is False for e in events[:-1]) and events[-1]["stop"] is True,
         "a stream of pieces, and its end", events)
    whole = infill(d, **{**VIM, "temperature": 0, "response_fields": None}).json
    t.equal("".join(e["content"] for e in events), whole["content"], "the same text")


def test_faults(t, d):
    for body, param in (({}, "input_prefix"), ({"input_prefix": "a"}, "input_suffix"),
                        ({**VIM, "input_extra": [{}]}, "input_extra[0].text"),
                        ({**VIM, "input_extra": 1}, "input_extra"),
                        ({**VIM, "response_fields": [1]}, "response_fields[0]"),
                        ({**VIM, "n_predict": "x"}, "n_predict"),
                        ({**VIM, "lora": [{"id": 0}]}, "lora[0].id"),
                        ({**VIM, "dry_multiplier": "x"}, "dry_multiplier"),
                        ({**VIM, "guided_json": False}, "guided_json"),
                        ({**VIM, "json_schema": {"properties": {"max_tokens": {
                            "multipleOf": 0}}}},
                         "json_schema.properties.max_tokens.multipleOf"),
                        ({**VIM, "t_max_predict_ms": -2}, "t_max_predict_ms"),
                        ({**VIM, "temperature": "hot"}, "temperature")):
        a = infill(d, **body)
        t.equal((a.status, a.error["param"]), (400, param), f"{param} is named")


def test_without(t, _):
    d = Halod()
    try:
        a = infill(d, **VIM)
        t.ok(a.status == 501 and "fill in the middle" in a.error["message"],
             "a model without such tokens says so", a.body)
        a = d.request("POST", "/v1/completions", {"prompt": "a", "suffix": "b"})
        t.ok(a.status == 400 and a.error["param"] == "suffix" and
             "/infill" in a.error["message"], "suffix points to it", a.body)
    finally:
        t.equal(d.stop(), 0, "halod ends well")


with tempfile.TemporaryDirectory(prefix="halod-fim-") as where:
    run([test_editor, test_prompt, test_cut, test_time, test_stream, test_faults,
         test_without], model=model_with_tokens(where), ctx=1024)
