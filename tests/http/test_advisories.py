#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests of the kind that advisories on other servers tell of; SECURITY.md has the list. Each is
answered in words or as if nothing were wrong, no answer holds an address of memory, and the
server serves on."""
import base64
import json
import os
import re

from halod import SRCDIR, run

VISION = os.path.join(SRCDIR, "tests/golden/vision/qwen3vl")
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
HI = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
TINY_PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
            "RU5ErkJggg==")


def tool(**parameters):
    return {**HI, "tool_choice": "required", "tools": [{"type": "function", "function": {
        "name": "f", "parameters": {"type": "object", "properties": {"a": parameters},
                                    "required": ["a"]}}}]}


def image(data):
    return {"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": data}}]}], "max_tokens": 2}


# (advisory, path, body, statuses)
ROWS = [
    ("CVE-2026-34756", CHAT, {**HI, "n": 10**9}, (400,)),
    ("CVE-2026-34756", COMPLETION, {"prompt": "a", "n": 2**31 - 1}, (400,)),
    ("CVE-2025-48944", CHAT, tool(type="string", pattern="("), (400,)),
    ("CVE-2025-48944", CHAT, tool(type="something"), (400,)),
    ("CVE-2025-62426", CHAT, {**HI, "chat_template_kwargs": {"tokenize": True,
                                                             "chat_template": "{{ 1 }}"}}, (200,)),
    ("CVE-2026-21869", COMPLETION, {"prompt": "a", "max_tokens": 2, "n_discard": -32,
                                    "n_keep": -5}, (200, 400)),
    ("CVE-2026-5760", CHAT, {**HI, "chat_template":
                             "{{ cycler.__init__.__globals__.os.popen('id').read() }}"}, (400,)),
    ("CVE-2026-5760", CHAT, {**HI, "messages": [{"role": "user", "content":
                                                 "{{ self.__init__.__globals__ }}"}]}, (200,)),
    ("CVE-2026-22773", CHAT, image("data:image/png;base64," + TINY_PNG), (200, 400)),
    ("CVE-2026-22778", CHAT, image("data:image/jp2;base64," + base64.b64encode(
        b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(range(200))).decode()), (400,)),
    ("CVE-2026-22778", CHAT, image("data:image/png;base64," + base64.b64encode(
        base64.b64decode(TINY_PNG)[:40] + b"\xff" * 99).decode()), (400,)),
    ("CVE-2026-24779", CHAT, image("http://img.example\\@127.0.0.1:22/x.png"), (400,)),
    ("CVE-2025-58446", CHAT, {**HI, "response_format": {
        "type": "json_schema", "json_schema": {"name": "x", "schema": {
            "enum": ["%d" % i for i in range(100000)]}}}}, (200, 400)),
    ("CVE-2025-57809", CHAT, {**HI, "grammar": "root ::= root root | \"a\""}, (200, 400)),
    ("CVE-2025-57809", CHAT, {**HI, "guided_regex": "(" * 50000 + ")" * 50000}, (400,)),
]


def test_rows(t, d):
    for advisory, path, body, want in ROWS:
        a = d.request("POST", path, body, {"Content-Type": "application/json"})
        t.ok(a.status in want and (a.status == 200 or a.error["message"]),
             "%s: %d" % (advisory, a.status), a.body[:300])
        t.ok(not re.search(rb"0x[0-9a-f]{6,}|uid=", a.body), "  and tells nothing of memory",
             a.body[:300])
        t.equal(d.get("/health").status, 200, "  and the server serves on")


def test_head(t, d):
    for size in 1 << 14, 1 << 20:
        got = d.raw_answer(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * size +
                           b"\r\n\r\n")
        t.ok(b" 431 " in got.split(b"\r\n")[0] if got else size > 1 << 14,
             "CVE-2025-48956: a head of %d bytes" % size, got[:200])
        t.equal(d.get("/health").status, 200, "  and the server serves on")


def test_listed(t, d):
    with open(os.path.join(SRCDIR, "SECURITY.md"), encoding="utf-8") as f:
        text = f.read()
    t.equal([row[0] for row in ROWS if row[0] not in text], [], "SECURITY.md lists each of them")


run([test_rows, test_head, test_listed], model=VISION)
