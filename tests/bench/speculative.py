#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoding with drafts in multiples of the speed without, on real texts, with 1, 2 and 4
streams: runs bench_speculate, which computes each step and draws the known answer.

edit: a C file before a commit and after it. extract: rows of CSV, and the same as JSON.
prose: pieces of the documentation, behind other pieces. random: letters. stories: what
halo-tiny itself says of some beasts, behind stories of others.

"by turns and their medians" is the same with each step at the median of those as wide. It hardly
depends on what else the machine does. The last line says what the worst case is by it. With
--floor the exit status is 1 below it. A case that cannot run is told of, and the status is 2
in the end.

Usage: speculative.py -b BUILD [-m MODEL] [--mode auto|lookup|mtp] [--rounds N] [--floor 0.98]
"""
import argparse
import os
import subprocess
import sys
import tempfile

import lookup

TREE = lookup.TREE
BEASTS = ("fox", "dog", "cat", "bear", "cow", "owl", "mouse", "horse", "frog", "duck", "hen",
          "wolf", "bird", "fish", "sheep", "goat", "bee", "ant", "lion", "pig", "crow", "hare",
          "swan", "deer")
TOGETHER = 6 # stories of one text: each has some 100 to 170 tokens


def stories(build):
    ask = lambda beast: subprocess.run(
        [os.path.join(build, "haloctl"), "generate", "-m", TREE + "/models/halo-tiny", "-n",
         "300", "-p", "Tell me a short story about a %s." % beast],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    told = [ask(b) for b in BEASTS]
    texts = ["\n\n".join(told[i:i + TOGETHER]) for i in range(0, len(told), TOGETHER)]
    return list(zip(texts, texts[1:] + texts[:1]))


def small(pairs, n, most=1600):
    """The first n whose halves both are texts of some length, cut to what fits."""
    found = []
    for pair in pairs:
        if all(len(text) > 700 for text in pair):
            found.append(tuple(text[:most] for text in pair))
        if len(found) == n:
            break
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--build", required=True)
    p.add_argument("-m", "--model", default=TREE + "/models/halo-tiny")
    p.add_argument("--mode", default="auto")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--streams", default="1,2,4")
    p.add_argument("--cases", default="edit,extract,prose,random,stories")
    p.add_argument("--floor", type=float, default=0)
    a = p.parse_args()
    cases = {"edit": lambda: small(lookup.edits(), 4),
             "extract": lambda: small(lookup.extractions(14), 4),
             "prose": lambda: small(lookup.prose(), 4),
             "random": lambda: small(lookup.random_text(), 4),
             "stories": lambda: small(stories(a.build), 4)}
    head = lookup.git("log", "-1", "--format=%h,%cs").strip()
    model = os.path.basename(os.path.normpath(a.model))
    worst, failed = [], []
    print("commit,date,case,shape,value,unit")
    with tempfile.TemporaryDirectory() as tmp:
        for case in a.cases.split(","):
            pairs = cases[case]()
            files = lookup.write_pairs(tmp, case, pairs)
            for n in a.streams.split(","):
                if len(pairs) < int(n):
                    failed.append("%s: %d texts for %s streams" % (case, len(pairs), n))
                    continue
                name = "%s %s %s" % (model, a.mode, case)
                r = subprocess.run([os.path.join(a.build, "tests/bench/bench_speculate"),
                                    a.model, a.mode, name, n, str(a.rounds), *files],
                                   stdout=subprocess.PIPE, text=True)
                if r.returncode:
                    failed.append("%s, %s streams: status %d" % (case, n, r.returncode))
                for line in r.stdout.splitlines():
                    print("%s,%s" % (head, line), flush=True)
                    if "by turns and their medians" in line:
                        worst.append((float(line.split(",")[-2]), case, n))
    if worst:
        print("# the slowest: %.3f times as fast, %s, %s streams" % min(worst))
    for what in failed:
        print("speculative.py: " + what, file=sys.stderr)
    sys.exit(2 if failed or not worst else min(worst)[0] < a.floor)


main()
