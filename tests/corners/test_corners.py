#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small files at the corners of what halod reads: each gives the right answer, or a refusal of
one sentence that names the place. `test_corners.py DIR NAME` leaves one in DIR."""
import concurrent.futures
import json
import os
import sys
import tempfile

import mini
import of_folder
import of_gguf
from corner import answers, put, refused
from tap import done, ok


def check(row, reference):
    name, files, opened, words = row
    with tempfile.TemporaryDirectory() as tmp:
        put(tmp, files)
        path = os.path.join(tmp, opened)
        return name, answers(path, reference) if words is None else refused(path, reference, words)


def rows():
    yield from of_gguf.rows()
    yield from of_folder.rows()


def main():
    if len(sys.argv) > 2:
        for name, files, _, _ in rows():
            if name == sys.argv[2]:
                put(sys.argv[1], files)
        return
    with tempfile.TemporaryDirectory() as tmp, concurrent.futures.ThreadPoolExecutor(2) as pool:
        reference = os.path.join(tmp, "reference.json")
        with open(reference, "w", encoding="utf-8") as f:
            json.dump(mini.reference(), f)
        for name, why in pool.map(lambda row: check(row, reference), rows()):
            ok(not why, name, why)
    done()


if __name__ == "__main__":
    main()
