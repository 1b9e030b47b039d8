#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schemas from outside through halod's compiler: how many are accepted, and whether all
that random walks write under them is valid by other validators. These are `jsonschema`, and
`jsonschema_rs` where it is installed. The official suite's own texts are judged, too. An invalid
one may not be written. How many of the valid ones may be is counted (src/schema/schema.h says why
not all).

usage: schema_suite.py [-n TEXTS] [-w SCHEMA_WRITE] [-v] FILE-or-FOLDER...

A file is one schema; or a list of {"schema": ...} as the official suite
(JSON-Schema-Test-Suite, tests/draft2020-12) has it; or one schema a line (.jsonl).
`make schema-suite SUITE=FOLDER` runs it with 10 texts a schema. Exits 1 where a text
is invalid. What the official suite tests of contentMediaType and contentEncoding in draft 7 is not
counted: they are notes since.
"""
import argparse
import collections
import decimal
import json
import os
import subprocess
import sys

import jsonschema

try:
    import jsonschema_rs
except ImportError:
    jsonschema_rs = None


def read(path):
    if os.path.isdir(path):
        for folder, _, names in sorted(os.walk(path)):
            for name in sorted(names):
                if name.endswith((".json", ".jsonl")):
                    yield from read(os.path.join(folder, name))
        return
    with open(path, encoding="utf-8") as f:
        if path.endswith(".jsonl"):
            for i, line in enumerate(f):
                yield f"{path}:{i + 1}", json.loads(line), []
            return
        whole = json.load(f)
    if isinstance(whole, list):
        for group in whole:
            is_note = path.endswith("content.json")
            yield (f"{path}: {group.get('description')}", group["schema"],
                   [t for t in group.get("tests", []) if not is_note])
    else:
        yield path, whole, []


def spellings(data):
    """A value as halod may write it: no space behind commas and colons, or one."""
    return [json.dumps(data, ensure_ascii=False, separators=s) for s in ((",", ":"), (", ", ": "))]


def judge_tests(name, schema, tests, answer, count):
    """Takes the answers about the suite's own texts from those about a schema."""
    for test in tests:
        may = [answer.pop(1) for _ in spellings(test["data"])]
        kind = "of the suite's texts %s" % ("valid" if test["valid"] else "invalid")
        count[kind] += 1
        count[kind + " and may be written"] += any(may)
        if any(may) and not test["valid"]:
            count["invalid"] += 1
            print(f"INVALID: {name}: {test['description']}\n  {json.dumps(schema)}\n"
                  f"  {json.dumps(test['data'])}")


def judge_of(schema):
    """Decimals, for 0.07 is a multiple of 0.01."""
    exact = json.loads(json.dumps(schema), parse_float=decimal.Decimal)
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return kind(exact, format_checker=kind.FORMAT_CHECKER)


def second_of(schema):
    try:
        return jsonschema_rs.validator_for(schema) if jsonschema_rs else None
    except Exception:  # a reference to elsewhere, a regex of another kind
        return None


def is_valid(judge, second, text):
    return (judge.is_valid(json.loads(text, parse_float=decimal.Decimal)) and
            (not second or second.is_valid(json.loads(text))))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("-n", type=int, default=10, help="texts a schema (10)")
    args.add_argument("-w", default="tests/bench/schema_write", help="the program")
    args.add_argument("-v", action="store_true", help="print each refusal")
    args.add_argument("paths", nargs="+")
    args = args.parse_args()
    cases = [c for p in args.paths for c in read(p)]
    lines = "".join(json.dumps([schema] + [s for t in tests for s in spellings(t["data"])]) + "\n"
                    for _, schema, tests in cases)
    run = subprocess.run([args.w, str(args.n)], input=lines, stdout=subprocess.PIPE,
                         text=True, check=False)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if run.returncode or len(answers) != len(cases):
        print(f"{args.w} ended with {run.returncode} at {cases[len(answers)]}")
        return 2
    count, slowest = collections.Counter(), 0
    for (name, schema, tests), answer in zip(cases, answers):
        if answer[0] is False:
            count["refused"] += 1
            if args.v:
                print(f"refused: {name}: {answer[1]}")
            continue
        count["accepted"] += 1
        slowest = max(slowest, answer[0])
        judge_tests(name, schema, tests, answer, count)
        judge, second = judge_of(schema), second_of(schema)
        for is_whole, text in answer[1:]:
            if not is_whole:
                count["not ended"] += 1
                continue
            count["texts"] += 1
            try:
                valid = is_valid(judge, second, text)
                count["judged twice"] += second is not None
            except Exception as e:  # a reference to elsewhere, a regex of another kind
                count["not judged"] += 1
                if args.v:
                    print(f"not judged: {name}: {e}")
                break
            if not valid:
                count["invalid"] += 1
                print(f"INVALID: {name}\n  {json.dumps(schema)}\n  {text}")
    print(f"{len(cases)} schemas:", ", ".join(f"{n} {k}" for k, n in count.items()),
          f"; slowest {slowest:.1f} ms")
    return 1 if count["invalid"] else 0


if __name__ == "__main__":
    sys.exit(main())
