#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What speculation by lookup gains on real text: runs bench_lookup over pairs of a prompt
and its answer, which the source tree and its git history give.

edit: a C file before a commit and after it. extract: rows of CSV and the same rows as
JSON. prose: one page of the documentation and another one. random: letters.

Usage: lookup.py -b BUILD [--costs NAME=1:1.9,2:2.7 ...] [-o FILE]
"""
import argparse
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTHS = os.path.join(TREE, "tests/bench/results/predicted/widths.csv")
MODELS = ("qwen3-30b-a3b gfx1151", "qwen3.5-35b-a3b gfx1151", "qwen3-8b gfx1151")


def predicted_costs():
    """Milliseconds of a step of so many tokens: the last row that the file has of each."""
    costs = {m: {} for m in MODELS}
    with open(WIDTHS) as f:
        for row in csv.DictReader(l for l in f if not l.startswith("#")):
            m = re.fullmatch(r"(.*), (\d+) tokens, whole", row["shape"])
            if m and m[1] in costs:
                costs[m[1]][int(m[2])] = row["value"]
    return {m + " predicted": ",".join("%d:%s" % w for w in sorted(of.items()))
            for m, of in costs.items()}


def git(*args):
    return subprocess.run(["git", "-C", TREE, *args], check=True, capture_output=True,
                          text=True).stdout


def edits(n=40):
    """The files of C that single commits changed by at most 40 lines, the newest first."""
    for commit in git("log", "--no-merges", "--format=%h", "-n", "400", "--", "src").split():
        for line in git("show", "--numstat", "--format=", commit, "--", "src").splitlines():
            added, removed, path = line.split("\t")
            if not path.endswith(".c") or not 2 <= int(added) + int(removed) <= 40:
                continue
            try:
                yield git("show", commit + "~:" + path), git("show", commit + ":" + path)
            except subprocess.CalledProcessError:
                continue # the commit made or moved it
            n -= 1
            if n == 0:
                return


def extractions(n_rows=60):
    folder = os.path.join(TREE, "tests/bench/results")
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            text = open(os.path.join(where, name)).read()
            rows = [l for l in text.splitlines() if not l.startswith("#")][:n_rows]
            fields = list(csv.DictReader(io.StringIO("\n".join(rows))))
            yield ("Rows:\n" + "\n".join(rows) + "\nAs a list of JSON objects:\n",
                   json.dumps(fields, indent=1))


def prose():
    pages = ["README.md"] + ["docs/" + n for n in sorted(os.listdir(TREE + "/docs"))
                             if n.endswith(".md")]
    texts = [open(os.path.join(TREE, p)).read() for p in pages]
    return zip(texts, texts[1:] + texts[:1])


def random_text():
    r = random.Random(1)
    text = lambda: "".join(r.choices("abcdefghijklmnopqrstuvwxyz ", k=6000))
    return [(text(), text()) for _ in range(4)]


def write_pairs(folder, case, pairs):
    """Files of the pairs' texts, a prompt and an answer in turn."""
    files = []
    for i, pair in enumerate(pairs):
        for k, text in zip("pa", pair):
            files.append(os.path.join(folder, "%s%d%s" % (case, i, k)))
            open(files[-1], "w").write(text)
    return files


def main():
    p = argparse.ArgumentParser()
    p.add_argument("-b", "--build", required=True)
    p.add_argument("--costs", action="append", default=[])
    p.add_argument("-o", "--out", default="/dev/stdout")
    a = p.parse_args()
    costs = dict(c.split("=", 1) for c in a.costs) or predicted_costs()
    cases = {"edit": edits(), "extract": extractions(), "prose": prose(),
             "random": random_text()}
    head = git("log", "-1", "--format=%h,%cs").strip()
    with tempfile.TemporaryDirectory() as tmp, open(a.out, "w") as out:
        out.write("# tests/bench/lookup.py -b build: the policy replayed over known answers, tokens\n"
                  "# of halo-tiny's tokenizer; no model ran. Costs of a step: widths.csv.\n"
                  "commit,date,case,shape,value,unit\n")
        for case, pairs in cases.items():
            files = write_pairs(tmp, case, pairs)
            for name, table in costs.items():
                r = subprocess.run([os.path.join(a.build, "tests/bench/bench_lookup"),
                                    os.path.join(TREE, "models/halo-tiny"), table,
                                    name + " " + case, *files],
                                   stdout=subprocess.PIPE, text=True)
                if r.returncode:
                    sys.exit(r.returncode)
                out.writelines("%s,%s\n" % (head, l) for l in r.stdout.splitlines())


if __name__ == "__main__":
    main()
