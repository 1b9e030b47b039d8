#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real, trained model: SmolLM2-135M-Instruct in Q4_1, beside llama.cpp's numbers
(tests/golden/make_trained.py). tests/fetch_models.py fetches it. The exact path and one chip's
machine code run a chat, the fast path four; with HALOD_CHECK=all each runs four, and so do the
other chip's code and fibers (make smollm2-long)."""
import json
import math
import os
import subprocess
import sys
import tempfile
import threading

import halod

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(halod.BUILDDIR, "clients"))
MODEL = os.path.join(CLIENTS, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
REFERENCE = os.path.join(halod.SRCDIR, "tests/golden/smollm2.json")
GFX11 = os.path.join(halod.BUILDDIR, "tests/hip-on-gfx11/libhip_gfx11.so")
LONG = "all" in halod.CHECK


def golden():
    with open(REFERENCE, encoding="utf-8") as f:
        return json.load(f)


def text_of(name):
    with open(os.path.join(halod.SRCDIR, name), encoding="utf-8") as f:
        return f.read()


def post(d, path, body):
    return d.request("POST", path, body, {"Content-Type": "application/json"})


def verify(t, name, *options, reference=REFERENCE, **environment):
    p = subprocess.run([os.path.join(halod.BUILDDIR, "haloctl"), "verify", "-m", MODEL, "-r",
                        reference, "-j", *options], capture_output=True, text=True, timeout=1800,
                       env={**os.environ, **environment})
    t.ok(p.returncode == 0, name + " keeps its bounds", p.stdout + p.stderr)
    found = json.loads(p.stdout or "{}")
    print("# %s: max %s, mean %s" % (name, found.get("max_delta"), found.get("mean_delta")))
    return found


def one_chat(folder, choose, n_steps):
    """Of the reference the chat that is chosen by its length, and so many steps."""
    g = golden()
    case = choose(g["cases"], key=lambda c: len(c["prompt_ids"]))
    case.update(steps=case["steps"][:n_steps], continuation_ids=case["continuation_ids"][:n_steps])
    path = os.path.join(folder, "reference.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"cases": [case], "peer": g["peer"]}, f)
    return path


def test_numbers(t, d):
    with tempfile.TemporaryDirectory() as folder:  # the longest: a token takes 0.06 s
        reference = REFERENCE if LONG else one_chat(folder, max, 10)
        found = verify(t, "exact", "--backend", "cpu", "--exact", reference=reference)
    t.ok(found.get("max_delta", 1) < 2e-4, "exact is llama.cpp's float32", found)
    verify(t, "fast", "--backend", "cpu")


def test_prompts(t, d):
    g = golden()
    for chat, case in zip(g["chats"], g["cases"]):
        text = post(d, "/apply-template", {"messages": chat}).json["prompt"]
        t.equal(text, case["prompt"], "the file's template: %r" % chat[-1]["content"][:30])
        ids = post(d, "/tokenize", {"messages": chat}).json["tokens"]
        t.equal(ids, case["prompt_ids"], "and its ids")
    ids = post(d, "/tokenize", {"content": text_of(g["text"]["file"])}).json["tokens"]
    t.equal(ids[:len(g["text"]["ids"])], g["text"]["ids"], "ids of a text")


def score(d, ids):
    """The perplexity of ids."""
    a = post(d, "/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True,
                                   "logprobs": 0}).json
    values = a["choices"][0]["logprobs"]["token_logprobs"][1:]
    return math.exp(-sum(values) / len(values)), values


def test_perplexity(t, d):
    text = golden()["text"]
    got = score(d, text["ids"])[0]
    own = text["own"] / text["float32"]
    print("# perplexity %.3f, llama.cpp %.3f, in float32 %.3f" % (
        got, text["own"], text["float32"]))
    t.ok(abs(math.log(got / text["float32"])) < max(0.015, 2 * math.log(own)),
         "perplexity is no further from float32 than twice llama.cpp's", got)


def test_context(t, d):
    """A text comes again, and is known: 700 tokens twice, or of a context of 8,192 tokens 8,000
    with a text of 2,600, in minutes."""
    ids = post(d, "/tokenize", {"content": text_of("LICENSE")}).json["tokens"]
    ids, n = ((ids * 4)[:8000], 1500) if LONG else (ids[:700] * 2, 600)
    d.patience = 5 * halod.PATIENCE  # minutes, on two shared cores that have no AVX-512
    values = score(d, ids)[1]
    first, last = (sum(v) / len(v) for v in (values[:n], values[-n:]))
    print("# mean log-probability of the first %d tokens %.2f, of the last %.3f" % (n, first, last))
    t.ok(last > first / (20 if LONG else 10), "a repeated text is known", (first, last))


def chat(d, content, **more):
    return post(d, "/v1/chat/completions", {"temperature": 0, "max_tokens": 60,
                                           "messages": [{"role": "user", "content": content}],
                                           **more}).json


QUESTIONS = ["Hi!", "Name a color.", "Say hello.", "Count to five."]


def test_answers(t, d):
    alone = []
    for q in QUESTIONS:
        a = chat(d, q, max_tokens=200)
        alone.append(a["choices"][0])
        t.equal(a["choices"][0]["finish_reason"], "stop", "ends by itself: " + q)
        t.ok("<|im" not in a["choices"][0]["message"]["content"], "without control tokens")
    beside = [None] * len(QUESTIONS)

    def ask(i):
        beside[i] = chat(d, QUESTIONS[i], max_tokens=200)["choices"][0]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(QUESTIONS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal([c["message"] for c in beside], [c["message"] for c in alone],
            "four side by side answer as each alone")
    parts, stream = [], d.stream(QUESTIONS[0], temperature=0, max_tokens=200)
    for e in stream.events():
        if e != "[DONE]" and e["choices"]:
            parts.append(e["choices"][0]["delta"].get("content") or "")
    t.equal("".join(parts), alone[0]["message"]["content"], "a stream is the whole answer")


def test_prefix(t, d):
    long = text_of("LICENSE")[:3000] + "\n\nWhat is this text about?"
    a, b = chat(d, long), chat(d, long)
    cached = b["usage"]["prompt_tokens_details"]["cached_tokens"]
    t.ok(cached > b["usage"]["prompt_tokens"] * 0.9, "the prompt is cached", cached)
    t.equal(a["choices"][0]["message"], b["choices"][0]["message"], "and gives the same answer")


def test_schema(t, d):
    schema = {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 40}, "people": {"type": "integer"}},
        "required": ["city", "people"], "additionalProperties": False}
    a = chat(d, "Describe Paris as JSON.", response_format={
        "type": "json_schema", "json_schema": {"name": "c", "schema": schema, "strict": True}})
    got = json.loads(a["choices"][0]["message"]["content"])
    t.ok(isinstance(got["city"], str) and isinstance(got["people"], int),
         "an answer keeps to a schema", got)


def test_tools(t, d):
    """The file's template knows no tools: they stand in the system message."""
    tools = [{"type": "function", "function": {
        "name": "get_weather", "description": "The weather of a city.", "parameters": {
            "type": "object", "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"], "additionalProperties": False}}}]
    question = "What is the weather in Paris?"
    a = chat(d, question, tools=tools, tool_choice="required")["choices"][0]
    calls = a["message"]["tool_calls"] or [{"function": {"name": "", "arguments": "{}"}}]
    t.equal((a["finish_reason"], calls[0]["function"]["name"]), ("tool_calls", "get_weather"),
            "a tool is called")
    city = json.loads(calls[0]["function"]["arguments"])
    t.equal(city, {"city": "Paris"}, "with what was asked for")
    back = post(d, "/v1/chat/completions", {"temperature": 0, "max_tokens": 60, "tools": tools,
                                           "messages": [
        {"role": "user", "content": question}, {**a["message"]},
        {"role": "tool", "tool_call_id": calls[0].get("id"), "content": "12 degrees, rain"}]})
    text = back.json["choices"][0]["message"]["content"] or ""
    t.ok("12" in text or "rain" in text, "and its result is in the answer", text)


def test_speculation(t, d):
    """Draft tokens cost nothing but time: the same answer as without."""
    text = "Repeat this: " + "the quick brown fox jumps over the lazy dog. " * 4
    with_drafts = chat(d, text)["choices"][0]["message"]
    other = halod.Halod(model=MODEL, ctx=2048, **{**halod.QUICK, "speculative": "off",
                                                  "threads": 2})
    try:
        t.equal(with_drafts, chat(other, text)["choices"][0]["message"],
                "an answer with drafts is the one without")
    finally:
        other.stop()


def test_machine_code(t, d):
    """The instructions of a chip, executed one after the other (tests/hip-on-gfx11)."""
    with tempfile.TemporaryDirectory() as folder:
        reference = REFERENCE if LONG else one_chat(folder, min, 2)
        for chip in ("gfx1151", "gfx1100") if LONG else ("gfx1151",):
            code = os.path.join(halod.BUILDDIR, "kernels", chip + ".hsaco")
            if os.path.exists(GFX11) and os.path.exists(code):
                verify(t, "machine code of " + chip, "--backend", "hip", "--hip-library", GFX11,
                       reference=reference, HALOD_GFX11="target=%s,code=%s" % (chip, code))
            else:
                t.skip("no %s or %s" % (code, GFX11))


def test_fibers(t, d):
    verify(t, "fibers", "--backend", "hip", "--hip-library", halod.FIBERS)


if __name__ == "__main__":
    if not os.path.exists(MODEL):
        print("1..0 # SKIP no %s: run tests/fetch_models.py %s, which needs a network"
              % (MODEL, CLIENTS))
        sys.exit(0)
    tests = [test_numbers, test_prompts, test_perplexity, test_context, test_answers,
             test_prefix, test_schema, test_tools, test_speculation, test_machine_code]
    halod.run(tests + [test_fibers] * LONG, model=MODEL, threads=2)
