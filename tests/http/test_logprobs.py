#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How likely the prompt was: echo with logprobs, and prompt_logprobs, against what the
model says when it is asked token by token."""
import json
import math

from halod import Halod, run

TEXT = "The capital of France is Paris. Héllo"


def complete(d, **more):
    return d.request("POST", "/v1/completions", {"temperature": 0, **more})


def ids_of(d, text):
    return d.request("POST", "/tokenize", {"prompt": text}).json["tokens"]


def one_by_one(d, ids):
    """Each token's log-probability behind those before it: of an answer of one token that
    nothing but it can be."""
    out = []
    for i in range(1, len(ids)):
        a = complete(d, prompt=ids[:i], max_tokens=1, logprobs=0,
                     logit_bias={str(ids[i]): 100}).json
        out.append(a["choices"][0]["logprobs"]["token_logprobs"][0])
    return out


def close(a, b):
    return len(a) == len(b) and all(math.isclose(x, y, abs_tol=1e-4)
                                    for x, y in zip(a, b))


def test_echo(t, d):
    ids = ids_of(d, TEXT)
    want = one_by_one(d, ids)
    c = complete(d, prompt=TEXT, echo=True, logprobs=3, max_tokens=4).json["choices"][0]
    l = c["logprobs"]
    n = len(ids)
    t.ok(c["text"].startswith(TEXT) and len(l["tokens"]) > n and len(l["tokens"]) ==
         len(l["token_logprobs"]) == len(l["top_logprobs"]) == len(l["text_offset"]),
         "every token of prompt and answer is there", c)
    t.ok(l["token_logprobs"][0] is None and l["top_logprobs"][0] is None,
         "but nothing is said of the first")
    t.ok(close(l["token_logprobs"][1:n], want), "as likely as one by one",
         (l["token_logprobs"][1:n], want))
    t.ok(all(c["text"][o:].startswith(s) for o, s in zip(l["text_offset"], l["tokens"])
             if not s.startswith(("bytes:", "<|"))), "offsets are of the text that is sent", l)
    t.ok(all(3 <= len(x) <= 4 and tok in x for x, tok in
             zip(l["top_logprobs"][1:], l["tokens"][1:])),
         "three of the likeliest, and the token itself", l["top_logprobs"])
    again = complete(d, prompt=TEXT, echo=True, logprobs=3, max_tokens=4).json
    t.equal(again["choices"][0]["logprobs"], l, "the same when the prefix is cached")
    t.equal(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0,
            "which it is then not taken from")


def test_nothing_written(t, d):
    a = complete(d, prompt=TEXT, echo=True, logprobs=1, max_tokens=0).json
    c = a["choices"][0]
    t.ok(c["text"] == TEXT and c["finish_reason"] == "length" and
         a["usage"]["completion_tokens"] == 0 and
         len(c["logprobs"]["tokens"]) == len(ids_of(d, TEXT)), "the prompt alone", a)
    many = complete(d, prompt=[TEXT, "Hello there"], echo=True, logprobs=1, max_tokens=0,
                    n=2, temperature=1).json["choices"]
    t.ok([m["text"] for m in many] == [TEXT] * 2 + ["Hello there"] * 2 and
         many[0]["logprobs"] == many[1]["logprobs"] == c["logprobs"] and
         many[2]["logprobs"]["token_logprobs"] == many[3]["logprobs"]["token_logprobs"],
         "of several prompts and choices", many)
    one = complete(d, prompt=[ids_of(d, TEXT)[0]], echo=True, logprobs=1, max_tokens=0)
    t.equal(one.json["choices"][0]["logprobs"]["token_logprobs"], [None],
            "a prompt of one token")
    a = complete(d, prompt=TEXT, max_tokens=0)
    t.equal((a.status, a.error["param"]), (400, "max_tokens"), "without echo: refused")


def test_stream(t, d):
    want = complete(d, prompt=TEXT, echo=True, logprobs=2, max_tokens=3).json["choices"][0]
    conn = d.connect()
    conn.request("POST", "/v1/completions", json.dumps(
        {"prompt": TEXT, "echo": True, "logprobs": 2, "max_tokens": 3, "temperature": 0,
         "stream": True}), {})
    text, lists = "", {}
    for line in conn.getresponse().read().decode().split("\n"):
        if not line.startswith("data: {"):
            continue
        for c in json.loads(line[6:])["choices"]:
            text += c["text"]
            for key, v in (c["logprobs"] or {}).items():
                lists.setdefault(key, []).extend(v)
    conn.close()
    t.ok(text == want["text"] and lists == want["logprobs"], "a stream says the same",
         (lists, want["logprobs"]))


def test_prompt_logprobs(t, d):
    ids = ids_of(d, TEXT)
    want = one_by_one(d, ids)
    a = complete(d, prompt=TEXT, prompt_logprobs=2, max_tokens=1).json
    p = a["choices"][0]["prompt_logprobs"]
    t.ok(len(p) == len(ids) and p[0] is None and close(
        [x[str(i)]["logprob"] for x, i in zip(p[1:], ids[1:])], want),
        "vLLM's list, by id", p)
    t.ok(all(min(v["rank"] for v in x.values()) == 1 and 2 <= len(x) <= 3 and
             x[str(i)]["decoded_token"] for x, i in zip(p[1:], ids[1:])),
         "with ranks and texts", p)
    t.ok(all(sorted(x.values(), key=lambda v: v["rank"]) ==
             sorted(x.values(), key=lambda v: -v["logprob"]) for x in p[1:]),
         "the likelier, the lower the rank", p)
    c = d.chat("Hello", prompt_logprobs=0, max_tokens=2, temperature=0).json
    n = c["usage"]["prompt_tokens"]
    t.ok(len(c["prompt_logprobs"]) == n and c["prompt_logprobs"][0] is None,
         "a chat has them beside its choices", c)
    a = d.chat("Hello", prompt_logprobs=1, stream=True)
    t.equal((a.status, a.error["param"]), (400, "prompt_logprobs"), "not in a stream")
    a = d.chat("Hello", prompt_logprobs=21)
    t.equal((a.status, a.error["param"]), (400, "prompt_logprobs"), "and not too many")


def test_long(t, _):
    """A prompt of many steps, beside others, on so few pages that it is thrown out."""
    text = " ".join("word%d" % i for i in range(60))
    d = Halod(ctx=512, max_seqs=4, kv_cache="2M", page_size=16, prefill_chunk=16,
              max_batch_tokens=64)
    try:
        want = complete(d, prompt=text, echo=True, logprobs=0, max_tokens=1).json
        streams = [d.stream("Tell me a story.", ignore_eos=True, max_tokens=200)
                   for _ in range(3)]
        got = complete(d, prompt=text, echo=True, logprobs=0, max_tokens=1).json
        for s in streams:
            s.close()
        a, b = (x["choices"][0]["logprobs"]["token_logprobs"] for x in (want, got))
        t.ok(a == b and len(a) > 100, f"{len(a)} tokens, the same beside other streams",
             (a[:20], b[:20]))
    finally:
        t.equal(d.stop(), 0, "halod ends well")


run([test_echo, test_nothing_written, test_stream, test_prompt_logprobs, test_long])
