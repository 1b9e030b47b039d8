#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hybrid model behind the daemon, small and random: prompts share a prefix up to a
checkpoint of the recurrent state, streams and batches say what a request alone says, and
clients who hang up leave nothing behind."""
import json
import os
import threading

from halod import SRCDIR, Stream, run

MODEL = os.path.join(SRCDIR, "tests/golden/models/qwen35moe")
PROMPT = [(i * 37 + i // 7) % 480 for i in range(300)]


def body(prompt, n, **more):
    return {"prompt": prompt, "max_tokens": n, "temperature": 0, "ignore_eos": True,
            "logprobs": 1, **more}


def complete(d, prompt, n=24):
    """Tokens' log-probabilities and how many of the prompt were known."""
    a = d.request("POST", "/v1/completions", body(prompt, n)).json
    return (a["choices"][0]["logprobs"]["token_logprobs"],
            a["usage"]["prompt_tokens_details"]["cached_tokens"])


def stream(d, prompt, n):
    conn = d.connect()
    conn.request("POST", "/v1/completions", json.dumps(body(prompt, n, stream=True)))
    return Stream(conn)


def streamed(d, prompt, n=24):
    s = stream(d, prompt, n)
    out = []
    for e in s.events():
        if e != "[DONE]" and e["choices"] and e["choices"][0].get("logprobs"):
            out += e["choices"][0]["logprobs"]["token_logprobs"]
    s.close()
    return out


def test_prefix(t, d):
    first, cached = complete(d, PROMPT)
    t.equal((len(first), cached), (24, 0), "a prompt nobody has seen")
    again, cached = complete(d, PROMPT)
    t.ok(200 <= cached < 300, "is known up to a checkpoint", cached)
    t.equal(again, first, "and answered alike, to the last bit")
    longer, cached = complete(d, PROMPT + [5, 6, 7])
    t.ok(200 <= cached < 303, "so is a longer one", cached)
    t.ok(longer != first, "which is another")
    other = PROMPT[:120] + PROMPT[:180]
    branch, _ = complete(d, other)
    alone, cached = complete(d, other)
    t.equal(branch, alone, "a branch is answered alike from either checkpoint")
    t.equal(complete(d, PROMPT)[0], first, "and has not touched the first")


def test_streams(t, d):
    """Eight at once, of four prompts."""
    prompts = [PROMPT[i * 11:i * 11 + 60 + 20 * i] for i in range(4)]
    want = [complete(d, p)[0] for p in prompts]
    got = [None] * 8

    def client(i):
        got[i] = streamed(d, prompts[i % 4])
    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal(got, want + want, "streams side by side are those of each alone")


def test_hangup(t, d):
    want, _ = complete(d, PROMPT)
    for _ in range(3):
        s = stream(d, PROMPT + [9], 2000)
        next(s.events())
        s.close()
    d.wait_metrics(num_requests_running=0, num_requests_waiting=0)
    got, cached = complete(d, PROMPT)
    t.equal(got, want, "after clients who hung up the answer is the same")
    t.ok(cached >= 200, "and the prefix still known", cached)


run([test_prefix, test_streams, test_hangup], model=MODEL, max_seqs=4)
