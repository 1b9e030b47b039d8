#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a real model writes under JSON Schemas, judged by `jsonschema` and, where it is installed,
`jsonschema_rs`. A model with a chat template chats; another one completes.

usage: schema_model.py [-s SECONDS] [-v] MODEL FILE-or-FOLDER...

Files and folders are as for schema_suite.py. Each schema is asked for at temperature 0 and 1.2.
HALOD_SRCDIR and HALOD_BUILDDIR are as for tests (tests/http/halod.py). Prints the counts of each
path and of all, and each text that is not valid; then it exits with 1. `refused` are schemas that
the request was refused for, `cut` are answers that had no room in 160 tokens. A text that no judge
can read the schema of is `not judged`.
"""
import argparse
import collections
import decimal
import json
import os
import queue
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from halod import Halod  # noqa: E402
from schema_suite import judge_of, read, second_of  # noqa: E402

ROOM = 160
AT_ONCE = 8
TEMPERATURES = (0, 1.2)
KINDS = ("asked", "refused", "cut", "valid", "invalid", "not judged")


def ask(d, chats, schema, temperature, seed):
    """(status, why it ended, text)"""
    more = {"guided_json": schema, "temperature": temperature, "max_tokens": ROOM, "seed": seed}
    if chats:
        a = d.chat("Write an example in JSON.", **more)
    else:
        a = d.request("POST", "/v1/completions", {"prompt": "An example in JSON:\n", **more})
    if a.status != 200:
        return a.status, None, a.body
    choice = a.json["choices"][0]
    return 200, choice["finish_reason"], choice["message"]["content"] if chats else choice["text"]


def verdict(schema, text):
    """Of the judges that can read the schema: "valid" where all say so."""
    said = []
    for judge, number in ((judge_of(schema), decimal.Decimal), (second_of(schema), float)):
        if judge is None:
            continue
        try:
            value = json.loads(text, parse_float=number)
        except ValueError:
            return "invalid"
        try:
            said.append(judge.is_valid(value))
        except Exception:  # a reference to elsewhere, a regex of another kind
            pass
    return "not judged" if not said else "valid" if all(said) else "invalid"


def work(d, chats, cases, args, end):
    while time.monotonic() < end:
        try:
            name, schema, temperature, seed, count = cases.get_nowait()
        except queue.Empty:
            return
        status, why, text = ask(d, chats, schema, temperature, seed)
        kind = "refused" if status != 200 else "cut" if why != "stop" else verdict(schema, text)
        count["asked"] += 1
        count[kind] += 1
        if kind == "invalid" or (args.v and kind in ("refused", "not judged")):
            print("%s: %s, temperature %g: %s\n  %s" % (kind.upper(), name, temperature,
                                                       json.dumps(schema)[:2000], text), flush=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("-s", type=float, default=600, help="seconds (600)")
    args.add_argument("-v", action="store_true", help="print what is refused or not judged, too")
    args.add_argument("model")
    args.add_argument("paths", nargs="+")
    args = args.parse_args()
    cases, counts = queue.Queue(), {path: collections.Counter() for path in args.paths}
    for path in args.paths:
        for i, (name, schema, _) in enumerate(read(path)):
            for temperature in TEMPERATURES:
                cases.put((name, schema, temperature, i, counts[path]))
    d = Halod(model=args.model, max_seqs=AT_ONCE, ctx=2048, access_log="no")
    chats = d.chat("x", max_tokens=1).status == 200
    end = time.monotonic() + args.s
    threads = [threading.Thread(target=work, args=(d, chats, cases, args, end))
               for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    counts["all"] = sum(counts.values(), collections.Counter())
    for path, count in counts.items():
        print("%s: %s" % (path, ", ".join("%d %s" % (count[k], k) for k in KINDS)))
    return d.stop() or (1 if counts["all"]["invalid"] else 0)


if __name__ == "__main__":
    sys.exit(main())
