#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What halo-tiny writes under the random schemas of tests/golden/schemas.tsv, wildly
sampled, whole and streamed, judged by another validator (`jsonschema`).
HALOD_SCHEMAS=200 takes them all."""
import json
import os

from halod import SRCDIR, need, run

jsonschema = need("jsonschema")

N = int(os.environ.get("HALOD_SCHEMAS", "24"))
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


run([test_schemas])
