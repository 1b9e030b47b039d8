#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every field that the SDKs of OpenAI and Anthropic can send, at any depth, is served, refused,
in a table as one that changes nothing, or named in the answer's header X-Halod-Ignored. The
fields are those of the installed SDKs' types, so a new one is seen here first. test.sh
installs them below build/clients; without them this test is skipped."""
import collections.abc
import json
import os
import re
import types
import typing

from halod import SRCDIR, need, run

need("openai")
need("anthropic")
from anthropic.types.beta.message_create_params import (  # noqa: E402
    MessageCreateParamsNonStreaming as Beta)
from anthropic.types.message_create_params import (  # noqa: E402
    MessageCreateParamsNonStreaming as Messages)
from openai.types.chat.completion_create_params import (  # noqa: E402
    CompletionCreateParamsNonStreaming as Chat)
from openai.types.responses.response_create_params import (  # noqa: E402
    ResponseCreateParamsNonStreaming as Responses)
from typing_extensions import (  # noqa: E402
    Annotated, Literal, NotRequired, Required, get_type_hints, is_typeddict)

USER = [{"role": "user", "content": "Hi"}]
APIS = (("chat", 0, "/v1/chat/completions", Chat, {"messages": USER, "max_tokens": 1}),
        ("responses", 2, "/v1/responses", Responses,
         {"input": "Hi", "max_output_tokens": 1, "store": False}),
        ("messages", 3, "/v1/messages", Messages, {"messages": USER, "max_tokens": 1}),
        ("messages, beta", 3, "/v1/messages?beta=true", Beta,
         {"messages": USER, "max_tokens": 1}))
# Objects that become text for the model as a whole, or say nothing at all.
WHOLE = {"input[]": re.compile(
    r"(custom_tool|local_shell|shell|apply_patch|computer|web_search|file_search|mcp|tool_search|"
    r"code_interpreter|image_generation)_call(_output)?|tool_search_output|program(_output)?|"
    r"mcp_approval_re.*"),
         "input[].output[]": re.compile(r"none"),
         "messages[].content[]": re.compile(r".*_tool_result|redacted_thinking"),
         "messages[].content[].content[]": re.compile(r"web_search_result")}
DEPTH = 4


def table(name, macro, n):
    with open(os.path.join(SRCDIR, "src", "api", name), encoding="utf-8") as f:
        text = r'"((?:[^"\\]|\\.)*)"'
        return re.findall(r"^%s\(%s\)$" % (macro, ", ".join([text] * n)), f.read(), re.M)


TOP = {name: uses for name, uses, _, _ in table("fields.def", "FIELD", 4)}
INSIDE = table("fields_inside.def", "INSIDE", 4)


def alternatives(t):
    while typing.get_origin(t) in (Required, NotRequired, Annotated):
        t = typing.get_args(t)[0]
    if typing.get_origin(t) in (typing.Union, types.UnionType):
        for a in typing.get_args(t):
            yield from alternatives(a)
    else:
        yield t


def is_list(t):
    origin = typing.get_origin(t)
    return isinstance(origin, type) and issubclass(origin, collections.abc.Iterable) and \
        not issubclass(origin, collections.abc.Mapping)


def fields(td):
    return get_type_hints(td, include_extras=True)


def kinds(td):
    return [x for a in alternatives(fields(td).get("type", str))
            if typing.get_origin(a) is Literal for x in typing.get_args(a)] or ["none"]


def dummy(t, depth=0):
    """A value of the type."""
    for a in alternatives(t):
        if typing.get_origin(a) is Literal:
            return typing.get_args(a)[0]
        if is_typeddict(a):
            return filled(a, depth + 1)
        if is_list(a):
            inner = typing.get_args(a)
            return [dummy(inner[0], depth + 1)] if depth < 4 and inner else []
        if a in (str, int, float, bool):
            return {str: "x", int: 1, float: 1.0, bool: True}[a]
    return {}


def filled(td, depth=0):
    return {k: dummy(t, depth) for k, t in fields(td).items()
            if k in td.__required_keys__ or typing.get_origin(t) is Required}


def objects(td, place, chain):
    """(place, type, chain) of all objects inside; a chain leads from the body: (object, key, in
    a list) each."""
    for key, t in fields(td).items():
        for a in alternatives(t):
            many = is_list(a)
            for b in alternatives(typing.get_args(a)[0]) if many else (a,):
                if is_typeddict(b):
                    inner = (place + "." if place else "") + key + ("[]" if many else "")
                    yield inner, b, [*chain, (td, key, many)]


def body_of(base, chain, leaf):
    for td, key, many in reversed(chain[1:]):
        leaf = {**filled(td), key: [leaf] if many else leaf}
    _, key, many = chain[0]
    return {**base, key: [leaf] if many else leaf}


def is_known(column, place, kind, key):
    return any(key in names.split() for at, uses, of, names in INSIDE
               if at == place and uses[column] in "SN" and (not of or kind in of.split()))


def is_told(d, path, body, word):
    a = d.request("POST", path, body, {"anthropic-version": "2023-06-01"})
    told = a.headers.get("X-Halod-Ignored", "")
    return a.status in (400, 404, 422) or (a.status == 200 and word in told), (
        a.status, told, a.body[:300], body)


def check(t, d, api):
    name, column, path, top, base = api
    seen, n = set(), 0
    for key in fields(top):
        if TOP.get(key, "-----")[column] == "-" and key != "betas":
            good, why = is_told(d, path, {**base, key: "x"}, key)
            good or t.ok(False, "%s: %s" % (name, key), why)
    todo = list(objects(top, "", []))
    while todo:
        place, td, chain = todo.pop()
        if (place, td) in seen or TOP.get(chain[0][1], "-----")[column] not in "SC":
            continue
        seen.add((place, td))
        is_read = any(at == place and uses[column] != "-" for at, uses, _, _ in INSIDE)
        for kind in kinds(td):
            has_rows = any(at == place and uses[column] in "SN" and
                           (not of or kind in of.split()) for at, uses, of, _ in INSIDE)
            if not is_read or (place in WHOLE and WHOLE[place].fullmatch(kind)):
                continue
            leaf = {**filled(td), **({} if kind == "none" else {"type": kind})}
            if not has_rows:
                n += 1
                good, why = is_told(d, path, body_of(base, chain, leaf), "=" + kind)
                good or t.ok(False, "%s: %s of type %s" % (name, place, kind), why)
                continue
            for key, hint in fields(td).items():
                n += 1
                if is_known(column, place, kind, key):
                    continue
                good, why = is_told(d, path, body_of(base, chain,
                                                     {**leaf, key: dummy(hint)}), key)
                good or t.ok(False, "%s: %s.%s of type %s" % (name, place, key, kind), why)
            if len(chain) < DEPTH:
                todo += objects(td, place, chain)
    t.ok(n > 40, "%s: %d fields and types inside are looked at" % (name, n))


def test_fields(t, d):
    for api in APIS:
        check(t, d, api)


def test_told(t, d):
    """What the header and the log say, and that they say it safely."""
    a = d.request("POST", "/v1/chat/completions", {
        "messages": [{**USER[0], "mood\r\nX-Evil: 1": "good", "pace": 1}], "max_tokens": 1,
        "wish": 1})
    told = a.headers["X-Halod-Ignored"]
    t.ok(a.status == 200 and a.headers.get("X-Evil") is None and
         told == "messages[0].mood??X-Evil:?1, messages[0].pace, wish", "the header", told)
    d.wait_log("pace")
    a = d.request("POST", "/v1/chat/completions", {
        "messages": [{**USER[0], **{"field%d" % i: 1 for i in range(500)}}], "max_tokens": 1})
    told = a.headers["X-Halod-Ignored"]
    t.ok(told.endswith(", ...") and len(told) < 700, "is short", len(told))
    s = d.stream("Hi", max_tokens=1, wish=1)
    t.equal(s.headers["X-Halod-Ignored"], "wish", "a stream has it, too")
    list(s.events())
    a = d.request("POST", "/v1/chat/completions", {
        "messages": [*USER, {"role": "assistant", "content": None,
                             "function_call": {"name": "f", "arguments": "{}"}}, *USER]})
    t.equal((a.status, a.error["param"]), (400, "messages[1].function_call"),
            "what would be lost is refused")
    t.ok(d.chat("Hi", max_tokens=1).headers.get("X-Halod-Ignored") is None, "usually nothing")


run([test_fields, test_told])
