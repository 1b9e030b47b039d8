#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every field that clients send is served, refused by name, or documented as one that
changes nothing: the table src/api/fields.def, what the daemon does, docs/api.md and
conf/openapi.json agree."""
import json
import os
import re

from halod import SRCDIR, Halod, run

ENDPOINTS = [
    ("/v1/chat/completions", "ChatRequest",
     {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
    ("/v1/completions", "CompletionRequest", {"prompt": "Hi", "max_tokens": 1}),
    ("/v1/responses", "ResponsesRequest", {"input": "Hi", "max_output_tokens": 1}),
    ("/v1/messages", "MessagesRequest",
     {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
    ("/infill", "InfillRequest", {"input_prefix": "a", "input_suffix": "b", "n_predict": 1}),
]
WORDS = {"S": "yes", "C": "yes", "N": "no effect", "R": "refused", "-": ""}


def read(*path):
    with open(os.path.join(SRCDIR, *path), encoding="utf-8") as f:
        return f.read()


def rows():
    text = r'"((?:[^"\\]|\\.)*)"'
    found = re.findall(r"^FIELD\(%s, %s, %s, %s\)$" % ((text,) * 4),
                       read("src", "api", "fields.def"), re.M)
    return [[json.loads('"%s"' % x) for x in row] for row in found]


def test_docs(t, d):
    table = read("docs", "api.md").split("\n## Fields\n")[1].split("\n## ")[0]
    cells = [[c.strip() for c in line.strip("|").split("|")]
             for line in table.splitlines() if line.startswith("| `")]
    want = [["`%s`" % name, *(WORDS[u] for u in uses), words]
            for name, uses, _, words in rows()]
    t.ok(len(want) > 100, "the table is found")
    for have, is_so in zip(cells, want):
        if have != is_so:
            t.equal(have, is_so, "docs/api.md says what fields.def says")
    t.equal(len(cells), len(want), "docs/api.md has all rows")


def test_described(t, d):
    schemas = json.loads(read("conf", "openapi.json"))["components"]["schemas"]
    for i, (path, name, _) in enumerate(ENDPOINTS):
        served = {row[0] for row in rows() if row[1][i] in "SC"}
        t.equal(set(schemas[name]["properties"]) ^ served, set(),
                path + ": what is served is described, and nothing else")


def test_refused(t, d):
    for i, (path, _, body) in enumerate(ENDPOINTS[:4]):
        for name, uses, neutral, words in rows():
            if uses[i] != "R":
                continue
            a = d.request("POST", path, {**body, name: "x-other"})
            message = a.json["error"]["message"]
            good = a.status == 400 and "`%s` is not supported" % name in message
            if not good or words not in message:
                t.ok(False, "%s: %s is refused by name" % (path, name), (a.status, a.body))
        for k in range(5):  # the k-th value of each field that has so many
            quiet = {row[0]: [None, False, "", *json.loads(row[2])][k:k + 1]
                     for row in rows() if row[1][i] == "R"}
            a = d.request("POST", path, {**body, **{n: v[0] for n, v in quiet.items() if v}})
            t.equal(a.status, 200, "%s: values that ask for nothing pass, %d" % (path, k))
        idle = {row[0]: "x" for row in rows() if row[1][i] == "N"}
        a = d.request("POST", path, {**body, **idle})
        t.equal(a.status, 200, path + ": what changes nothing passes")


def test_wrong_values(t, d):
    """What is served is read: a value that it cannot have is refused."""
    for i, (path, _, body) in enumerate(ENDPOINTS[:4]):
        for name, uses, _, _ in rows():
            if uses[i] not in "SC" or name == "metadata":
                continue
            more = {"dry_multiplier": 1} if name == "dry_sequence_breakers" else {}
            answers = [d.request("POST", path, {**body, **more, name: bad})
                       for bad in ([[7]], {"x": 7})]
            if all(a.status not in (400, 404) for a in answers):
                t.ok(False, "%s: %s is read" % (path, name), answers[0].body)
    t.ok(True, "served fields are read")


def test_unknown(t, d):
    body = {**ENDPOINTS[0][2], "a_word_of_nobody": 1}
    t.equal([d.request("POST", ENDPOINTS[0][0], body).status for _ in range(3)], [200] * 3,
            "an unknown field is no fault")
    d.wait_log("a_word_of_nobody")
    t.equal(sum("a_word_of_nobody" in line for line in d.lines), 1, "the log names it once")


run([test_docs, test_described, test_refused, test_wrong_values, test_unknown])
