#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of a daemon with speculative = auto, in multiples of one with off, which runs
beside it and answers in turn. Each case runs with 1, 2 and 4 streams.

prose: stories by halo-tiny, or random tokens of another model. random: a prompt and an
answer of random tokens. repeat: an answer held to two tokens, which must repeat itself.

Usage: HALOD_BUILDDIR=BUILD HALOD_SRCDIR=TREE speculative.py [-m MODEL] [--rounds N]
"""
import argparse
import os
import random
import statistics
import subprocess
import sys
import threading
import time

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TREE, "tests/http"))
from halod import MODEL, Halod  # noqa: E402

BEASTS = ("fox", "dog", "cat", "bear")


def raw(prompt, n, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": n, "temperature": 0,
                               "ignore_eos": True, **more}


def cases(n):
    r = random.Random(1)
    prompts = [[r.randrange(300) for _ in range(60)] for _ in BEASTS]
    return {
        "prose": [raw("A short story about a %s.\n" % b, n) for b in BEASTS],
        "random": [raw(p, n, temperature=5.0, seed=i) for i, p in enumerate(prompts)],
        "repeat": [raw(p, n, logit_bias={"11": 100, "12": 100}) for p in prompts],
    }


def seconds(d, asked):
    """How long all of them take side by side."""
    threads = [threading.Thread(target=d.request, args=("POST", *a)) for a in asked]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.monotonic() - begin


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-m", "--model", default=MODEL)
    p.add_argument("-n", "--tokens", type=int, default=400)
    p.add_argument("--rounds", type=int, default=9)
    a = p.parse_args()
    head = subprocess.run(["git", "-C", TREE, "log", "-1", "--format=%h,%cs"], check=True,
                          capture_output=True, text=True).stdout.strip()
    name = os.path.basename(os.path.normpath(a.model))
    both = [Halod(model=a.model, speculative=s) for s in ("off", "auto")]
    print("commit,date,case,shape,value,unit")
    for case, asked in cases(a.tokens).items():
        for n in (1, 2, 4):
            ratios = []
            for i in range(a.rounds + 1):
                took = {}
                for d in both if i % 2 else reversed(both):
                    took[d] = seconds(d, asked[:n])
                if i: # the first one warms up
                    ratios.append(took[both[0]] / took[both[1]])
            print('%s,speculative,"%s %s, %d streams",%.3f,1' % (
                head, name, case, n, statistics.median(ratios)), flush=True)
    for d in both:
        d.stop()


main()
