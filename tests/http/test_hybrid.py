#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hybrid model behind the daemon, small and random: prompts share a prefix up to a
checkpoint of the recurrent state, streams and batches say what a request alone says, and
clients who hang up leave nothing behind."""
import json
import os
import tempfile
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


def chat(d, words, salt, n=40):
    """Tokens' log-probabilities, the answer, and how many of the prompt were known, of a
    conversation: user, assistant, user ..."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": w}
                for i, w in enumerate(words)]
    a = d.request("POST", "/v1/chat/completions", {
        "messages": messages, "max_tokens": n, "temperature": 0, "ignore_eos": True,
        "logprobs": True, "cache_salt": salt}).json
    c = a["choices"][0]
    return ([x["logprob"] for x in c["logprobs"]["content"]], c["message"]["content"],
            a["usage"]["prompt_tokens"],
            a["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_turns(t, d):
    """What was kept at the end of a turn and before the user's last words. Cold is the same
    prompt in a space of the cache where nothing is known yet."""
    words = ["a b c d e f g h " * 12]
    _, answer, n_first, _ = chat(d, words, "warm")
    asked = words + ["ok " * 40, "again, please: " * 6]
    _, _, n_asked, _ = chat(d, asked, "warm")
    edited = asked[:2] + ["another end: " * 6]
    warm, _, n, cached = chat(d, edited, "warm")
    cold, _, _, none = chat(d, edited, "cold edit")
    t.ok(n - cached < 80 + 16 and none == 0, "edited last words: all before them is known",
         (n, cached))
    t.equal(warm, cold, "and the answer is the cold one, to the last bit")
    again = edited + ["x " * 20, "and on"]
    warm, _, n, cached = chat(d, again, "warm")
    cold, _, _, none = chat(d, again, "cold next")
    t.ok(cached >= n_asked - 120 and none == 0, "a further turn goes on", (n, cached))
    t.equal(warm, cold, "with the cold answer, too")


def test_turn_end(t, d):
    """Tokens of an answer are the next prompt's: it resumes at the answer's end."""
    d.request("POST", "/v1/completions", body(PROMPT[50:250], 100, logit_bias={"9": 100}))
    prompt = PROMPT[50:250] + [9] * 100 + [7] * 20
    warm, cached = complete(d, prompt)
    t.ok(cached >= 288, "the end of a turn is kept", cached)
    cold = d.request("POST", "/v1/completions", body(prompt, 24, cache_salt="cold")).json
    t.equal(warm, cold["choices"][0]["logprobs"]["token_logprobs"], "and is the cold one's")
    m = d.metrics()
    t.ok(0 < m["state_checkpoints"] <= m["state_slots"] == 12,
         "/metrics tells what is kept, and the bound", m["state_checkpoints"])


with tempfile.TemporaryDirectory() as tmp:
    template = os.path.join(tmp, "chat.jinja")
    with open(template, "w", encoding="utf-8") as f:
        f.write("{% for m in messages %}[{{ m.role }}] {{ m.content }} [/]{% endfor %}"
                "[assistant] ")
    run([test_prefix, test_streams, test_hangup, test_turns, test_turn_end], model=MODEL,
        max_seqs=4, chat_template=template)
