#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A hundred small bodies that cost most of all that a search has found (dear_bodies.jsonl, made by
tests/fuzz/dear_bodies.py). What each costs is counted in units of the request's budget
(base/work.h), which are the same on every machine, and is bounded; a refusal says which part was
too dear. While they are worked on all at once, the daemon answers others."""
import json
import os
import re
import sys
import threading

from halod import SRCDIR, Halod, run

sys.path.insert(0, os.path.join(SRCDIR, "tests/fuzz"))
import dear_bodies  # noqa: E402

# http/conn_call.c: WORK_BASE, WORK_BYTE, WORK_OWN_IMAGE
BASE, BYTE, IMAGE = 15000000, 100, 60000000
SLACK = 1000000  # the last piece of work is counted before it is refused
TOO_DEAR = re.compile(r"needs too much work before it can begin: most went into|too much work|"
                      r"too many (states|cuts|scans|combinations)|too ambiguous")


def bodies(*kinds):
    with open(os.path.join(SRCDIR, "tests/http/dear_bodies.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    return [x for x in lines if (x["kind"] in kinds) == bool(kinds)]


def post(d, x, name):
    return d.request("POST", x["path"], x["body"].encode(), {
        "Content-Type": "application/json", "X-Request-Id": name})


def work_of(d, name):
    """{part: units} of a request, of the log."""
    line = d.wait_log(r"\b%s: work: " % name)
    return {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", line.split("work: ")[1])}


def check(t, d, corpus):
    n_dear, most, wrong = 0, 0, []
    for i, x in enumerate(corpus):
        name = "%s-%d" % (x["kind"], i)
        a = post(d, x, name)
        work = work_of(d, name)
        size = len(x["body"].encode())
        spent = sum(work.values())
        most = max(most, spent)
        may = BASE + BYTE * size + min(work["image"], IMAGE)
        is_dear = spent > may
        n_dear += is_dear
        # A picture is paid for as a whole before it is decoded.
        if spent - work["image"] > may + SLACK:
            wrong.append("%s: %s of %d units" % (name, work, may))
        if a.status not in (200, 400, 501, 503):
            wrong.append("%s: %d %s" % (name, a.status, a.body[:200]))
        if is_dear and (a.status != 400 or not TOO_DEAR.search(a.error["message"])):
            wrong.append("%s: used up, but %d %s" % (name, a.status, a.body[:200]))
    t.ok(not wrong, "%d bodies: none takes more than its budget, %d units at most" % (
        len(corpus), most), "\n".join(wrong))
    return n_dear


def test_work(t, d):
    corpus = bodies()
    text = [x for x in corpus if x["kind"] != "image"]
    t.ok(len(corpus) >= 100 and max(len(x["body"]) for x in text) <= dear_bodies.LONGEST,
         "a hundred small bodies")
    t.ok(check(t, d, text) >= 5, "some of them are too dear")
    vision = Halod(model=dear_bodies.VISION, log_level="debug", ctx=4096)
    try:
        images = [("image", "/v1/chat/completions", dear_bodies.user(
            [dear_bodies.image(dear_bodies.png(*size))])) for size in (
                (7071, 7071, 1), (16384, 3000, 1, 3, 1), (2400, 2400, 16, 6, 1, 4))]
        images = [{"kind": k, "path": p, "body": dear_bodies.spell(b)} for k, p, b in images]
        t.ok(check(t, vision, bodies("image") + images) >= 1, "so are some pictures")
    finally:
        t.equal(vision.stop(), 0, "halod ends well")


def test_others(t, d):
    """All at once, so that the workers have work for long: meanwhile others are answered."""
    corpus = [x for x in bodies() if x["kind"] in ("regex", "schema", "grammar", "tools")] * 3
    s = d.long_stream()
    events = s.events()
    left = threading.Semaphore(0)
    threads = [threading.Thread(target=lambda x=x: (post(d, x, "x"), left.release()))
               for x in corpus]
    for thread in threads:
        thread.start()
    n_health = n_tokens = 0
    while any(thread.is_alive() for thread in threads):
        n_health += d.get("/health").status == 200
        n_tokens += next(events, None) is not None  # a slow machine may read it to its end
    for thread in threads:
        thread.join()
    t.ok(n_health > 3 and n_tokens > 3,
         "meanwhile /health answers %d times, and a stream gets %d tokens" % (n_health, n_tokens))
    s.close()


run([test_work, test_others], log_level="debug", max_queue=1000,
    embedding_model=os.path.join(dear_bodies.READERS, "last"),
    rerank_model=os.path.join(dear_bodies.READERS, "reranker"))
