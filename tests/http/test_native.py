#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's own /completion, as SillyTavern and plugins of editors ask it. test_infill.py has
what it shares with /infill."""
import json

from halod import run

GREEDY = {"temperature": 0, "n_predict": 8}
TEXT = "Once upon a time"


def ask(d, path="/completion", **body):
    return d.request("POST", path, {"prompt": TEXT, **GREEDY, **body})


def frames(a):
    return [json.loads(line[6:]) for line in a.body.decode().split("\n\n") if line]


def test_answer(t, d):
    a = ask(d).json
    other = d.request("POST", "/v1/completions", {"prompt": TEXT, "max_tokens": 8,
                                                  "temperature": 0}).json
    t.equal(a["content"], other["choices"][0]["text"], "the text of /v1/completions")
    t.equal((a["tokens_predicted"], a["stop"], a["stop_type"], a["tokens"], a["has_new_line"]),
            (8, True, "limit", [], "\n" in a["content"]), "its end")
    t.equal((a["generation_settings"]["temperature"], a["generation_settings"]["n_predict"]),
            (0, 8), "the settings it had")
    t.equal(ask(d, "/completions").json["content"], a["content"], "/completions is the same")
    ids = ask(d, return_tokens=True).json["tokens"]
    text = d.request("POST", "/detokenize", {"tokens": ids}).json["content"]
    t.equal((len(ids), text), (8, a["content"]), "return_tokens")
    all_frames = frames(ask(d, stream=True))
    t.equal("".join(f["content"] for f in all_frames), a["content"], "the stream: the same text")
    t.equal([i for f in all_frames for i in f["tokens"]], ids, "and tokens")
    t.equal([f["stop"] for f in all_frames], [False] * (len(all_frames) - 1) + [True], "one end")
    word = ask(d, stop=[a["content"][3:6]]).json
    t.equal((word["stop_type"], word["stopping_word"], word["content"]),
            ("word", a["content"][3:6], a["content"][:3]), "a stop string")
    t.equal(ask(d, n_predict=0).json["content"], "", "n_predict 0 writes nothing")
    t.equal([ask(d, n_predict=n, stop=["e"]).json["generation_settings"]["n_predict"]
             for n in (0, -1)], [0, -1], "both are told as they were asked")


def test_prompts(t, d):
    ids = d.request("POST", "/tokenize", {"content": TEXT}).json["tokens"]
    want = ask(d).json
    for prompt, what in ((ids, "ids"), ([TEXT], "a list of one text"),
                         (ids[:2] + [d.request("POST", "/detokenize", {
                             "tokens": ids[2:]}).json["content"]], "ids and a text")):
        a = ask(d, prompt=prompt).json
        t.equal((a["content"], a["tokens_evaluated"]),
                (want["content"], want["tokens_evaluated"]), "a prompt of " + what)
    for prompt in (["a", "b"], [1, -1], [1, 10**6], [None, 1], {}, 3, "", [], None):
        a = ask(d, prompt=prompt)
        t.ok(a.status == 400 and a.error["param"].startswith("prompt"),
             "refused: %r" % (prompt,), a.body)


def test_options(t, d):
    a = ask(d, n_probs=3).json
    p = a["completion_probabilities"]
    t.equal([len(x["top_logprobs"]) for x in p], [3] * 8, "n_probs: the likeliest of each token")
    t.ok(all(x["id"] == x["top_logprobs"][0]["id"] and x["logprob"] <= 0 for x in p),
         "greedy takes the first")
    first = p[0]["id"]
    for bias in ([[first, False]], {str(first): -100}):
        b = ask(d, n_probs=1, logit_bias=bias).json
        t.ok(b["completion_probabilities"][0]["id"] != first, "logit_bias %s" % bias)
    t.equal(ask(d, logit_bias=[[i, False] for i in range(300)]).status, 200, "of many tokens")
    t.ok(ask(d, repeat_penalty=1.8, n_predict=40).json["content"] !=
         ask(d, n_predict=40).json["content"], "repeat_penalty")
    a = ask(d, mirostat=2, typical_p=0.5, samplers=["top_k"], cache_prompt=True, n_keep=-1,
            input_prefix="x")
    t.equal(sorted(a.headers["X-Halod-Ignored"].split(", ")),
            ["input_prefix", "mirostat", "typical_p"], "what has no effect is told")
    t.ok("X-Halod-Ignored" not in ask(d, mirostat=0, typical_p=1,
                                                top_n_sigma=0).headers, "unless it asks for none")
    a = ask(d, json_schema={"type": "object", "properties": {"n": {"type": "integer"}},
                            "required": ["n"], "additionalProperties": False}, n_predict=-1).json
    t.equal(list(json.loads(a["content"])), ["n"], "a schema")
    for bad in ({"n_predict": -2}, {"n_probs": 99}, {"logit_bias": [[1]]}, {"logit_bias": [3]},
                {"return_tokens": 1}, {"post_sampling_probs": True}):
        a = ask(d, **bad)
        t.ok(a.status == 400 and a.error["param"].startswith(list(bad)[0]), "refused: %s" % bad,
             a.body)


run([test_answer, test_prompts, test_options])
