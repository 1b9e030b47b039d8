#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a real model writes under JSON Schemas, judged by `jsonschema` and, where it is installed,
`jsonschema_rs`. A model with a chat template chats; another one completes.

usage: schema_model.py MODEL SCHEMAS.jsonl [FROM [SECONDS]]

Each schema is asked for at temperature 0 and 1.2, from line FROM (0) on, for so many seconds (600).
HALOD_SRCDIR and HALOD_BUILDDIR are as for tests (tests/http/halod.py). Prints the counts, and each
text that is not valid; then it exits with 1. `cut` are answers that had no room in 160 tokens.
"""
import collections
import json
import os
import queue
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from halod import Halod  # noqa: E402
from schema_suite import is_valid, judge_of, second_of  # noqa: E402

ROOM = 160
AT_ONCE = 8


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


def work(d, chats, cases, end, count):
    while time.monotonic() < end:
        try:
            i, schema, temperature = cases.get_nowait()
        except queue.Empty:
            return
        status, why, text = ask(d, chats, schema, temperature, i)
        count["asked"] += 1
        if status != 200:
            count["refused"] += 1
        elif why != "stop":
            count["cut"] += 1
        elif is_valid(judge_of(schema), second_of(schema), text):
            count["valid"] += 1
        else:
            count["invalid"] += 1
            print("INVALID: line %d, temperature %g: %s" % (i + 1, temperature, text))


def main():
    model, path, begin, seconds = sys.argv[1:] + ["0", "600"][len(sys.argv) - 3:]
    cases, count = queue.Queue(), collections.Counter()
    with open(path, encoding="utf-8") as f:
        for i, line in enumerate(f):
            for temperature in (0, 1.2):
                if i >= int(begin):
                    cases.put((i, json.loads(line), temperature))
    d = Halod(model=model, max_seqs=AT_ONCE, ctx=2048, access_log="no")
    chats = d.chat("x", max_tokens=1).status == 200
    end = time.monotonic() + float(seconds)
    threads = [threading.Thread(target=work, args=(d, chats, cases, end, count))
               for _ in range(AT_ONCE)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(", ".join("%d %s" % (count[k], k) for k in ("asked", "refused", "cut", "valid", "invalid")))
    return d.stop() or (1 if count["invalid"] else 0)


if __name__ == "__main__":
    sys.exit(main())
