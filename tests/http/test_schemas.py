#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What halo-tiny writes under the random schemas of tests/golden/schemas.tsv, wildly
sampled, whole and streamed, judged by another validator (`jsonschema`).
HALOD_CHECK=all takes them all."""
import json
import os
import sys

from halod import CHECK, SRCDIR, need, run

jsonschema = need("jsonschema")

N = 200 if "all" in CHECK else 24
PATH = os.path.join(SRCDIR, "tests/golden/schemas.tsv")
ASK = {"temperature": 1.5, "max_tokens": 150, "enable_thinking": False}


def streamed(d, more):
    text, finish = "", None
    for line in d.stream("Write JSON.", **more).lines():
        if line and line != "data: [DONE]":
            for c in json.loads(line[6:])["choices"]:
                text += c["delta"].get("content") or ""
                finish = c["finish_reason"] or finish
    return text, finish


def whole(d, more):
    a = d.chat("Write JSON.", **more)
    if a.status != 200:
        return a.body, "refused"
    c = a.json["choices"][0]
    return c["message"]["content"] or "", c["finish_reason"]


def test_schemas(t, d):
    with open(PATH, encoding="utf-8") as f:
        schemas = [json.loads(l[2:]) for l in f if l.startswith("S\t")][:N]
    n_ended = 0
    for i, schema in enumerate(schemas):
        judge = jsonschema.Draft202012Validator(
            schema, format_checker=jsonschema.FormatChecker(["date", "uuid", "ipv4"]))
        how = streamed if i % 2 else whole
        text, finish = how(d, {**ASK, "seed": i, "response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
        valid = finish == "length"  # cut off before its end
        if finish == "stop":
            n_ended += 1
            try:
                valid = judge.is_valid(json.loads(text))
            except ValueError:
                valid = False
        t.ok(valid, f"schema {i}: {finish}", (schema, text))
    t.ok(n_ended > len(schemas) / 2, f"{n_ended} of {len(schemas)} came to their end")


def test_made(t, d):
    """Schemas of the keywords that clients combine, at two temperatures."""
    sys.path.insert(0, os.path.join(SRCDIR, "tests/bench"))
    maker = __import__("schema_made").Maker(7)
    count = {"stop": 0, "length": 0, "refused": 0}
    n_bad = 0
    for i in range(N):
        schema = maker.root()
        judge = jsonschema.Draft202012Validator(schema)
        text, finish = whole(d, {**ASK, "seed": i, "temperature": 1.8 if i % 2 else 1,
                                 "response_format": {"type": "json_schema", "json_schema": {
                                     "name": "x", "schema": schema}}})
        count[finish] += 1
        if finish == "stop" and not judge.is_valid(json.loads(text)):
            n_bad += 1
            print("#", json.dumps(schema), text)
    t.equal(n_bad, 0, f"made schemas: {count}")
    t.ok(count["refused"] <= max(2, 0.03 * N), f"{count['refused']} of {N} are refused", count)


def test_integers(t, d):
    """Integers beyond 64 bits are held exactly, bound by bound."""
    for i, v in enumerate((
            {"minimum": 10**19}, {"minimum": 2**63}, {"exclusiveMinimum": 2**63 - 1},
            {"maximum": -2**63 - 1}, {"maximum": -10**19}, {"exclusiveMaximum": -2**63},
            {"enum": [2**64 - 1]}, {"const": 2**64 - 1}, {"minimum": 10**16, "multipleOf": 3})):
        schema = {"type": "object", "properties": {"v": {"type": "integer", **v}},
                  "required": ["v"], "additionalProperties": False}
        text, finish = whole(d, {**ASK, "seed": i, "response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})
        t.ok(finish == "stop" and jsonschema.Draft202012Validator(schema).is_valid(
            json.loads(text)), f"{v}: {text}", finish)


run([test_schemas, test_made, test_integers])
