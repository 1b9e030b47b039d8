#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GET /stats and /slots: what runs, what the last minutes were like, who sees what."""
import os
import tempfile
import time

from halod import PATIENCE, Halod, Tap, traceback

SECRET = "My secret word is xylophone."
PHASES = ("queue_ms", "prefill_ms", "decode_ms")


def stats(d, headers={}):
    a = d.get("/stats", headers)
    assert a.status == 200, a.body
    return a.json


def rows(d, headers={}):
    return {r["id"]: r for r in stats(d, headers)["requests"]}


def wait_row(d, request_id, headers={}):
    """A request's row, which is there when its last byte has gone out."""
    deadline = time.monotonic() + PATIENCE
    while request_id not in (got := rows(d, headers)):
        assert time.monotonic() < deadline, got
    return got[request_id]


def test_idle(t, d):
    deadline = time.monotonic() + PATIENCE
    while not (s := stats(d))["kv_pages"]:  # the engine's first iteration tells them
        assert time.monotonic() < deadline, s
    t.equal((s["running"], s["waiting"], s["active"], s["requests"], s["ttft_ms"]),
            (0, 0, [], [], {"n": 0, "median": None, "p95": None}), "nothing has run")
    m = s["memory"]
    t.ok(0 < m["process"] <= m["used"] + (64 << 20) and m["used"] < m["total"], "its memory", m)
    t.ok(s["kv_pages"] > 0 and s["kv_usage"] == 0 and len(s["buckets"]) == 60 and
         s["bucket_seconds"] == 10 and s["model"] == "halo-tiny", "its shape", s)


def test_row(t, d):
    a = d.chat(SECRET, {"X-Request-Id": "one"}, max_tokens=12, ignore_eos=True)
    row, timings = wait_row(d, "one"), a.json["timings"]
    t.equal({k: row[k] for k in ("ttft_ms", "tpot_ms", "queue_ms")},
            {k: timings[k] for k in ("ttft_ms", "tpot_ms", "queue_ms")},
            "times as the answer's timings have them")
    t.ok(abs(row["queue_ms"] + row["prefill_ms"] - row["ttft_ms"]) < 0.01 and
         row["decode_ms"] == timings["predicted_ms"], "the phases add up", row)
    t.equal((row["path"], row["status"], row["finish"], row["stream"], row["choices"]),
            ("/v1/chat/completions", 200, "length", False, 1), "what it was")
    t.equal((row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]),
            (a.json["usage"]["prompt_tokens"], 12, 0), "tokens")
    t.ok(abs(row["ended"] - time.time()) < PATIENCE, "when it ended", row["ended"])
    d.chat(SECRET, {"X-Request-Id": "two"}, max_tokens=2)
    again = wait_row(d, "two")
    t.ok(again["cached_tokens"] >= 16 and again["cache_saved_ms"] > 0,
         "the same prompt again: cached tokens, and what they saved", again)
    s = stats(d)
    t.equal([r["id"] for r in s["requests"]], ["two", "one"], "the newest comes first")
    t.equal((s["ttft_ms"]["n"], sum(b["requests"] for b in s["buckets"]),
             sum(b["output_tokens"] for b in s["buckets"])),
            (2, 2, 12 + again["output_tokens"]), "the last minutes count both")
    ttft = sorted([row["ttft_ms"], again["ttft_ms"]])
    t.ok(0.97 < s["ttft_ms"]["median"] / ttft[0] < 1.03 and
         0.97 < s["ttft_ms"]["p95"] / ttft[1] < 1.03, "median and p95 of the two",
         (s["ttft_ms"], ttft))
    t.ok(b"xylophone" not in d.get("/stats").body, "nothing of a prompt is told")


def test_drafts(t, d):
    # With two tokens to choose from, they repeat.
    d.chat("Hi", {"X-Request-Id": "draft"}, max_tokens=64, temperature=0,
           ignore_eos=True, logit_bias={"11": 100, "12": 100})
    row = wait_row(d, "draft")
    t.ok(row["draft_tokens"] >= row["accepted_tokens"] > 0 and
         row["speculation_saved_ms"] > 0, "draft tokens and what they saved", row)


def wait_states(d, want):
    deadline = time.monotonic() + PATIENCE
    while True:
        s = stats(d)
        if sorted(r["state"] for r in s["active"]) == want:
            return s
        assert time.monotonic() < deadline, s


def test_running(t, d):
    """Two sequences may run; a third request waits."""
    two = [d.long_stream(headers={"X-Request-Id": "run%d" % i}) for i in range(2)]
    third = d.connect()
    third.request("POST", "/v1/chat/completions", '{"messages": [{"role": "user", '
                  '"content": "Hi"}], "max_tokens": 2}', {"X-Request-Id": "third"})
    s = wait_states(d, ["decode", "decode", "queued"])
    t.equal((s["running"], s["waiting"]), (2, 1), "two run, one waits")
    t.ok(s["kv_pages_used"] > 0 and 0 < s["kv_usage"] <= 1, "KV in use", s)
    by_id = {r["id"]: r for r in s["active"]}
    t.ok(by_id["run0"]["output_tokens"] > 0 and by_id["run0"]["queue_ms"] >= 0 and
         by_id["run0"]["prefilled_tokens"] == by_id["run0"]["prompt_tokens"] > 0,
         "one that writes", by_id)
    t.ok(by_id["third"]["queue_ms"] is None and by_id["third"]["age_ms"] > 0,
         "one that waits", by_id)
    slots = d.get("/slots").json
    t.equal([(x["id"], x["is_processing"], x["request"], x["state"]) for x in slots],
            [(0, True, "run0", "decode"), (1, True, "run1", "decode")], "the slots")
    t.ok(slots[0]["n_prompt_tokens"] == slots[0]["n_prompt_tokens_processed"] > 0 and
         slots[0]["next_token"][0]["n_decoded"] > 0, "how far they are", slots)
    b = stats(d)["buckets"]
    t.ok(max(x["tokens_per_second"] for x in b) > 1 and max(x["memory_used"] for x in b) > 0,
         "tokens per second and memory, while they run", b[-2:])
    t.ok(max(x["running"] for x in b) == 2 and max(x["waiting"] for x in b) == 1 and
         max(x["kv_usage"] for x in b) > 0, "the minutes keep the most of each", b[-2:])
    for s in two:
        s.close()
    third.getresponse().read()
    row = wait_row(d, "run0")
    t.equal((row["finish"], row["status"]), ("abort", 499), "a client that hung up")
    t.ok(wait_row(d, "third")["queue_ms"] > 0, "the third has waited")
    d.wait_metrics(num_requests_running=0)
    t.equal(stats(d)["active"], [], "then nothing runs")


def test_many(t, d):
    for i in range(25):
        d.chat("Hi", {"X-Request-Id": "m%d" % i}, max_tokens=1)
    wait_row(d, "m24")
    t.equal([r["id"] for r in stats(d)["requests"]],
            ["m%d" % i for i in range(24, 4, -1)], "the last twenty")
    a = d.chat("Hi", {"X-Request-Id": "seven"}, n=2, max_tokens=3, ignore_eos=True)
    t.equal((wait_row(d, "seven")["choices"], wait_row(d, "seven")["output_tokens"]),
            (2, a.json["usage"]["completion_tokens"]), "two choices are one request")
    d.chat("Hi", {"X-Request-Id": "bad"}, temperature=-1)
    d.chat("Hi", {"X-Request-Id": "good"}, max_tokens=1)
    wait_row(d, "good")
    t.ok("bad" not in rows(d), "one that was refused is not among them")
    t.equal(sum(b["failed"] for b in stats(d)["buckets"]), 1, "but is counted: it has failed")
    t.ok(not any('"path":"/stats"' in (l or "") for l in d.lines),
         "looking is not logged")


def test_keys(t):
    """A key sees its own requests, and totals of all."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys")
        with open(path, "w") as f:
            f.write("sk-one\nsk-two\n")
        os.chmod(path, 0o640)
        d = Halod(api_key_file=path, max_seqs=2)
        one, two = {"X-Api-Key": "sk-one"}, {"X-Api-Key": "sk-two"}
        t.equal([d.get(p).status for p in ("/stats", "/slots")], [401, 401],
                "both need a key")
        d.chat("Hi", {"X-Request-Id": "ones", **one}, max_tokens=1)
        wait_row(d, "ones", one)
        t.equal(list(rows(d, two)), [], "another key's row is not there")
        t.equal(stats(d, two)["ttft_ms"]["n"], 1, "but counts")
        s = d.long_stream(headers={"X-Request-Id": "runs", **one})
        own, other = stats(d, one), stats(d, two)
        t.equal(([r["id"] for r in own["active"]], other["active"]), (["runs"], []),
                "nor is a request that runs")
        t.equal((own["running"], other["running"]), (1, 1), "but it is counted")
        t.equal(d.get("/slots", one).json[0]["request"], "runs", "its slot")
        t.equal(d.get("/slots", two).json[0],
                {"id": 0, "n_ctx": own_ctx(d, one), "speculative": False,
                 "is_processing": True}, "another key sees that it is taken")
        t.ok(b"runs" not in d.get("/slots", two).body + d.get("/stats", two).body,
             "and no more")
        s.close()
        t.equal(d.stop(), 0, "halod ends well")


def own_ctx(d, headers):
    return d.get("/props", headers).json["default_generation_settings"]["n_ctx"]


t = Tap()
d = Halod(max_seqs=2, speculative="lookup")
for test in (test_idle, test_row, test_drafts, test_running, test_many):
    try:
        test(t, d)
    except Exception:
        t.ok(False, test.__name__, traceback.format_exc())
t.equal(d.stop(), 0, "halod ends well")
try:
    test_keys(t)
except Exception:
    t.ok(False, "test_keys", traceback.format_exc())
t.done()
