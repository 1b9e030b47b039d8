#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guessed tokens change no answer: a daemon that verifies as many guesses as it can beside
one that guesses nothing, to the last bit of every log-probability, for models of each kind
and with what else a request may ask for."""
import os
from concurrent.futures import ThreadPoolExecutor

from halod import BUILDDIR, MODEL, SRCDIR, Halod, Tap

GOLDEN = os.path.join(SRCDIR, "tests/golden/models")
FIBERS = os.path.join(BUILDDIR, "tests/hip-on-cpu/libhip_cpu.so")
NAMES = ("deepseekv3-yarn", "gemma3", "glm4moe-groups", "gptoss", "mistral-window",
         "qwen2-yarn-window", "qwen3-bf16", "qwen3moe-ct-asym")
HYBRIDS = ("qwen3next", "qwen35", "qwen35moe")
ON_FIBERS = ("deepseekv3-yarn", "gemma3", "gptoss", "qwen3moe-ct-asym", "qwen35moe")
# Twice the same tokens: what follows the first part is a guess of what follows the second.
PROMPT = [(i * 37 + i // 7) % 300 for i in range(40)] * 2
REPEAT = "Repeat: one two three four. one two three four. one two three four."
SCHEMA = {"type": "json_schema", "json_schema": {"name": "p", "schema": {
    "type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"], "additionalProperties": False}}}
TOOLS = [{"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]}}}]


def chat(text, **more):
    return "/v1/chat/completions", {"temperature": 0, "max_tokens": 160, **more,
                                    "messages": [{"role": "user", "content": text}]}


def raw(prompt, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": 40, "temperature": 0,
                               "ignore_eos": True, "logprobs": 1, **more}


ASKED = {
    "a story": chat("Tell me a short story about a fox."),
    "text to repeat": chat(REPEAT),
    "log-probabilities": chat(REPEAT, logprobs=True, top_logprobs=3),
    "a schema": chat("Maria is 31. Give her name and age as JSON.", response_format=SCHEMA),
    "a tool": chat("What is the weather in Paris?", tools=TOOLS),
    "penalties": chat(REPEAT, frequency_penalty=0.5, repetition_penalty=1.1),
    "a stop string": chat("Tell me a short story about a dog.", stop=["day"]),
    "three choices by a seed": chat("Tell me a short story about a cat.", n=3,
                                    temperature=0.8, seed=7),
    "the rest of a prompt that is known": raw(PROMPT + PROMPT[:9]),
    "a prompt of ids": raw(PROMPT),
    # Random weights repeat nothing. With two tokens to choose from, they must.
    "two tokens only": raw(PROMPT, logit_bias={"11": 100, "12": 100}),
}


# Random weights take turns between a few tokens of one class, so some guesses are wrong. A
# recurrent state then goes back; later prompts resume where it was kept.
CLASS = {str(i): 100 for i in range(11, 15)}
SOME = raw(PROMPT, max_tokens=60, logit_bias=CLASS, repetition_penalty=1.5, temperature=0.7,
           seed=3)
RESUMED = {
    "some of four tokens": SOME,
    "the same once more": SOME,
    "an answer goes on": raw(PROMPT + [11, 12, 13, 14] * 9, logit_bias=CLASS),
    "and from its middle": raw(PROMPT + [11, 12, 13, 14] * 5, logit_bias=CLASS),
}


def said(d, what):
    """What the answer says, without what differs from one to the next."""
    a = d.request("POST", *what).json
    if "choices" not in a:
        return a
    for c in a["choices"]:
        for call in c.get("message", {}).get("tool_calls") or ():
            del call["id"]
    return a["choices"], a["usage"]["completion_tokens"]


def numbers(d):
    m = d.metrics()
    return [int(m["spec_decode_num_%s_total" % k])
            for k in ("drafts", "draft_tokens", "accepted_tokens")]


def both(t, name, asked, **settings):
    """The same requests to both. Returns the one that guesses."""
    off = Halod(speculative="off", **settings)
    want = {k: said(off, v) for k, v in asked.items()}
    t.equal(numbers(off), [0, 0, 0], "%s: off guesses nothing" % name)
    off.stop()
    on = Halod(speculative="lookup", **settings)
    for k, v in asked.items():
        t.equal(said(on, v), want[k], "%s: %s" % (name, k))
    return on


def main():
    t = Tap()
    on = both(t, "halo-tiny", ASKED, model=MODEL)
    drafts, guesses, right = numbers(on)
    t.ok(0 < drafts < guesses and 0 < right <= guesses, "guesses were verified",
         (drafts, guesses, right))
    timings = on.request("POST", *ASKED["two tokens only"]).json["timings"]
    t.ok(timings.get("draft_n", 0) >= timings.get("draft_n_accepted", 0) > 0,
         "timings tell", timings)
    before = numbers(on)
    a = on.request("POST", *raw(PROMPT, **{"speculative.n_max": 0})).json
    t.ok("draft_n" not in a["timings"] and numbers(on) == before,
         "a request may do without", a["timings"])
    a = on.request("POST", *raw(PROMPT, **{"speculative.n_max": -1}))
    t.ok(a.status == 400 and "speculative.n_max" in a.error["message"], "-1 is refused",
         a.body)
    on.stop()
    # Its drafts follow what steps cost here, so they differ from run to run.
    off, auto = Halod(model=MODEL, speculative="off"), Halod(model=MODEL)
    for k, v in ASKED.items():
        t.equal(said(auto, v), said(off, v), "auto: " + k)
    with ThreadPoolExecutor(4) as pool:
        few = list(ASKED.values()) * 3
        t.equal(list(pool.map(lambda v: said(auto, v), few)), [said(off, v) for v in few],
                "auto: four requests at once")
    t.ok(numbers(auto)[0] > 0, "auto: there were guesses", numbers(auto))
    t.equal((off.stop(), auto.stop()), (0, 0), "both end well")
    few = {k: ASKED[k] for k in ("a prompt of ids", "two tokens only")}
    for name in NAMES:
        on = both(t, name, few, model=os.path.join(GOLDEN, name))
        t.ok(numbers(on)[1] > 0, name + ": there were guesses", numbers(on))
        on.stop()
    for name in HYBRIDS:
        on = both(t, name, few | RESUMED, model=os.path.join(GOLDEN, name))
        drafts, guesses, right = numbers(on)
        t.ok(0 < right < guesses, name + ": some guesses were right", numbers(on))
        on.stop()
    for name in ON_FIBERS if os.path.exists(FIBERS) else ():
        on = both(t, name + " on fibers", {"two tokens only": raw(
            PROMPT, max_tokens=24, logit_bias={"11": 100, "12": 100},
            **{"speculative.n_max": 3})},
                  model=os.path.join(GOLDEN, name), backend="hip", hip_library=FIBERS)
        drafts, guesses, right = numbers(on)
        t.ok(guesses > 0, name + " on fibers: there were guesses", numbers(on))
        # Each step with guesses gives one token, and those that were right.
        replays = on.metrics()["graph_replays_total"]
        t.ok(drafts > 3 and replays > 24 - drafts - right,
             name + " on fibers: steps with guesses were replayed", (drafts, right, replays))
        on.stop()
    t.done()


main()
