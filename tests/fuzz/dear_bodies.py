#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks for small request bodies that cost a daemon much, and measures those already found.

    dear_bodies.py search SECONDS [FILE]   mutates and grows the seeds below; prints the dearest,
                                           and writes the dearest of each kind to FILE
    dear_bodies.py measure FILE            processor time of each body by thread; how long
                                           /health and a stream's next token wait beside them

HALOD_SRCDIR and HALOD_BUILDDIR are as for tests (tests/http/halod.py). A line of FILE is a JSON
object: `kind`, `path` and `body`, a text, since a body may repeat a key. A form's text has a
character for each byte. The daemon serves halo-tiny, and for images and sounds a tiny model of its
own. Costs are processor time of the daemon's threads
(/proc/PID/task/TID/schedstat), so other work on the machine hardly changes them.
"""
import base64
import collections
import copy
import json
import os
import random
import re
import struct
import sys
import tempfile
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
import sounds  # noqa: E402
from halod import BUILDDIR, SRCDIR, Halod  # noqa: E402

READERS = os.path.join(SRCDIR, "tests/golden/readers")
VISION = os.path.join(SRCDIR, "tests/golden/vision/qwen3vl")
HEARING = os.path.join(SRCDIR, "tests/golden/vision/qwen3omni")
SENSES = {"image": VISION, "sound": HEARING}  # kinds that need another model than halo-tiny
PREFILL_S = 0.0008  # processor time for which a token of a prompt is no news
LONGEST = 4096  # bytes of a body in a search
LONG = ("messages", "template", "image", "sound")  # kinds whose messages change
ENOUGH = 100  # bodies that a search keeps


# --- seeds -----------------------------------------------------------------------------

def user(content):
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 1}


def schema(s):
    return {**user("x"), "guided_json": s}


def tool(name, parameters, **more):
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def png(width, height, depth=8, colour=0, interlace=0, filtering=0, fill=b"\0"):
    """A PNG file of one value, deflated as far as zlib goes."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    row = bytes([filtering]) + (fill * ((width * depth * channels + 7) // 8))[
        :(width * depth * channels + 7) // 8]
    z = zlib.compressobj(9)
    data = b"".join(z.compress(row) for _ in range(height)) + z.flush()

    def chunk(name, payload):
        part = name + payload
        return struct.pack(">I", len(payload)) + part + struct.pack(">I", zlib.crc32(part))
    palette = chunk(b"PLTE", bytes(range(6))) if colour == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
        ">IIBBBBB", width, height, depth, colour, 0, 0, interlace)) + palette +
        chunk(b"IDAT", data) + chunk(b"IEND", b""))


def image(file, kind="png"):
    return {"type": "image_url", "image_url": {
        "url": "data:image/%s;base64,%s" % (kind, base64.b64encode(file).decode())}}


def golden_image(name):
    with open(os.path.join(SRCDIR, "tests/golden/images", name), "rb") as f:
        return image(f.read(), name.split(".")[-1])


def ahead(n, tail):
    return "".join("(?=.*%c)" % (97 + i) for i in range(n)) + tail


def seeds():
    """[(kind, path, body)]"""
    chat, complete = "/v1/chat/completions", "/v1/completions"
    objects = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    out = [
        ("regex", chat, {**user("x"), "guided_regex": p}) for p in (
            "[a-z]{3,9}", ahead(6, "[a-z]{2,30}"), "(a|b|ab)*c", "(?!.*x).{1,50}", r"\w{1,40}\d",
            r"(?=.*\p{L})(?=.*\p{N}).{1,20}", "((a{1,9}){1,9}){1,9}", "(a?){30}a{30}",
            r"[^\W\d_]{2,20}", "(?i)straße|[À-ž]{1,9}", "(x+x+)+y", r"(?<!a)b|(?<=ab)c")]
    out += [
        ("grammar", chat, {**user("x"), "guided_grammar": g}) for g in (
            'root ::= "a" | "b" root', 'root ::= x{1,9}\nx ::= [a-z]{1,9} | "é"',
            'root ::= a b c\na ::= "x"? b\nb ::= "y"* c\nc ::= "z"+ | a',
            'root ::= (("a" | "b") ("c" | "d")){2,8}', "root ::= [^\\x00-\\x1f]* root | [😀-🙏]",
            'root ::= r\nr ::= r "a" | "b"')]
    out += [
        ("schema", chat, schema(s)) for s in (
            objects, {"type": "string", "pattern": "^" + ahead(4, "[a-z]{4,20}") + "$"},
            {"oneOf": [{"type": "object", "properties": {"a": {"const": i}}} for i in range(4)]},
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], **objects},
            {"allOf": [{"not": {"const": 1}}, {"type": "integer", "multipleOf": 7}]},
            {"type": "integer", "minimum": -123456789, "maximum": 987654321},
            {"type": "number", "minimum": -1.5, "exclusiveMaximum": 3.25, "multipleOf": 0.25},
            {"type": "array", "items": objects, "minItems": 3, "maxItems": 9, "uniqueItems": True},
            {"enum": ["a", "b", 1, None, [1, 2], {"x": 1}]},
            {"type": "string", "minLength": 5, "maxLength": 500, "format": "date-time"},
            {"$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
             "$ref": "#/$defs/n"},
            {"patternProperties": {"^a.*": {"type": "null"}, "b$": {"type": "integer"}},
             "additionalProperties": {"type": "string"}, "minProperties": 2},
            {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]},
             "else": {"required": ["c"]}, **objects},
            {"dependentRequired": {"a": ["b"], "b": ["a"]}, **objects},
            {"contains": {"const": 5}, "minContains": 1, "maxContains": 4, "type": "array"},
            {"prefixItems": [{"type": "null"}, objects], "unevaluatedItems": False},
            {"propertyNames": {"pattern": "^[a-z]{1,9}$"}, "type": "object", "maxProperties": 5})]
    out += [
        ("tools", chat, {**user("x"), "tools": [tool("f", objects, strict=True), tool("g", objects)],
                         "tool_choice": "required"}),
        ("tools", "/v1/messages", {**user("x"), "tools": [
            {"name": "f", "input_schema": objects}, {"name": "g", "input_schema": objects}],
            "tool_choice": {"type": "any"}}),
        ("tools", "/v1/responses", {"input": "x", "max_output_tokens": 16, "tools": [
            {"type": "function", "name": "f", "parameters": objects, "strict": True}],
            "tool_choice": "required"}),
        ("format", chat, {**user("x"), "response_format": {"type": "json_schema", "json_schema": {
            "name": "x", "schema": objects}}}),
        ("choice", chat, {**user("x"), "guided_choice": ["a", "ab", "abc"]}),
        ("messages", chat, {"messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\nho", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "<tool_response>x"},
            {"role": "user", "content": [{"type": "text", "text": "go on"}]}], "max_tokens": 1}),
        ("messages", "/v1/messages", {"system": [{"type": "text", "text": "s"}], "messages": [
            {"role": "user", "content": "a"}, {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": ""},
                {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
                                          "content": [{"type": "text", "text": "r"}]}]}],
            "max_tokens": 1}),
        ("messages", "/v1/responses", {"input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "x"}],
            "max_output_tokens": 16}),
        ("template", "/apply-template", {**user("a</think>b<think>"), "chat_template_kwargs": {
            "a": [1, {"b": "c"}], "enable_thinking": True}, "tools": [tool("f", objects)]}),
        ("stop", chat, {**user("x"), "stop": ["a", "b"]}),
        ("stop", complete, {"prompt": "a", "max_tokens": 1, "stop": ["x", "yz"],
                            "stop_token_ids": [1, 2], "ignore_eos": True}),
        ("bias", chat, {**user("x"), "logit_bias": {"1": 1, "2": -100}}),
        ("bias", complete, {"prompt": "a", "max_tokens": 1, "logit_bias": [[1, 1.5], ["ab", -1]],
                            "dry_multiplier": 0.8, "dry_sequence_breakers": ["\n", ":"]}),
        ("many", complete, {"prompt": ["a", "b"], "n": 4, "best_of": 4, "max_tokens": 1,
                            "logprobs": 5, "echo": True}),
        ("many", complete, {"prompt": [1, 2, 3], "n": 2, "max_tokens": 1, "prompt_logprobs": 5}),
        ("text", "/tokenize", {"content": "ab 12 é\u0301 \u0958 x  \n", "with_pieces": True}),
        ("text", "/tokenize", {"prompt": "aaaa 1234567890", "return_token_strs": True}),
        ("text", "/tokenize", {"content": "<|im_start|>user<|im_end|>"}),
        ("text", "/tokenize", {"content": "a\u0300\u0316\u0300\u0316"}),
        ("ids", "/detokenize", {"tokens": [1, 2, 300]}),
        ("infill", "/infill", {"input_prefix": "def f(", "input_suffix": "\n", "n_predict": 1,
                               "input_extra": [{"filename": "a", "text": "b"}]}),
        ("rerank", "/v1/rerank", {"query": "q", "documents": ["a", {"text": "b"}], "top_n": 2}),
        ("embed", "/v1/embeddings", {"input": ["a", "b"], "encoding_format": "base64"}),
        ("nest", chat, {**user("x"), "metadata": {"a": [[[[{"b": [1, 2.5e300, "\\u0000"]}]]]]}}),
        ("nest", "/v1/responses", {"input": "x", "max_output_tokens": 16, "reasoning": {
            "effort": "low"}, "text": {"format": {"type": "json_schema", "name": "x",
                                                  "schema": objects}}}),
    ]
    return out


KEPT = "$KEPT"  # stands for the id of a response, or of a file, that the daemon keeps
EDGE = "edge"


def other_seeds():
    """Of endpoints whose bodies tests/fuzz/test_bodies.py does not read."""
    chat = "/v1/chat/completions"
    objects = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    return [
        ("ollama", "/api/chat", {"model": "halo-tiny", "stream": False, "format": objects, "messages": [
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [
                {"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "content": "b"}], "options": {
                "num_predict": 2, "stop": ["a"], "temperature": 0}, "tools": [tool("f", objects)]}),
        ("ollama", "/api/generate", {"model": "halo-tiny", "stream": False, "prompt": "a", "system": "b",
                                     "suffix": "c", "options": {"num_predict": 2}}),
        ("ollama", "/api/embed", {"model": "halo-tiny", "input": ["a", "b"], "truncate": False}),
        ("ollama", "/api/show", {"model": "halo-tiny", "verbose": True}),
        ("native", "/completion", {"prompt": ["a", 1, "b"], "n_predict": 2, "n_probs": 5,
                                   "logit_bias": [[1, 1.5], [2, False]], "grammar": 'root ::= "a"',
                                   "response_fields": ["content", "timings/prompt_n"],
                                   "samplers": ["top_k", "min_p"], "priority": -1}),
        ("native", "/completion", {"prompt": "a", "n_predict": 2, "json_schema": objects}),
        ("count", "/v1/responses/input_tokens", {"input": [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}]}]}),
        ("count", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "a"}],
                                                "tools": [{"name": "f", "input_schema": objects}]}),
        ("stored", "/v1/responses", {"input": "b", "max_output_tokens": 16,
                                     "previous_response_id": KEPT}),
        ("stored", "/v1/responses", {"input": [{"type": "item_reference", "id": "msg_1"}, {
            "role": "user", "content": "a"}], "max_output_tokens": 16,
            "previous_response_id": KEPT}),
        ("batch", "/v1/batches", {"input_file_id": KEPT, "endpoint": chat,
                                  "completion_window": "24h", "metadata": {"a": "b"},
                                  "output_expires_after": {"anchor": "created_at",
                                                           "seconds": 3600}}),
    ]


def form(*parts):
    """A form's text. Parts: (what its head says, bytes)."""
    return "".join("--%s\r\n%s\r\n\r\n%s\r\n" % (EDGE, head, data.decode("latin-1"))
                   for head, data in parts) + "--%s--\r\n" % EDGE


def field(name, value):
    return 'Content-Disposition: form-data; name="%s"' % name, value.encode()


def file_of(data, name="a"):
    return 'Content-Disposition: form-data; name="file"; filename="%s"' % name, data


def form_seeds():
    """Forms of files, and the parts of their readers."""
    n, purpose, many = LONGEST - 300, field("purpose", "batch"), LONGEST // 60
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": user("x")}
    lines = "".join(json.dumps({**line, "custom_id": str(i)}) + "\n" for i in range(n // 160))
    out = [form(purpose, file_of(b)) for b in (
        lines.encode(), b"\n" * n, b"[" * n, b"\r\n--edg" * (n // 7), b"\r\n--" * (n // 4), b"-" * n)]
    out.append(form(purpose, *[("A: b\r\n" * 20 + field("x", "")[0], b"")] * 16, file_of(b"{}")))
    out.append(form(purpose, file_of(b"{}", "a" * n)))
    out.append(form(*[field("p%d" % i, "") for i in range(many)], purpose, file_of(b"{}")))
    out.append(form(purpose, field("expires_after[anchor]", "created_at"),
                    field("expires_after[seconds]", "1" * n), file_of(b"{}")))
    return [("form", "/v1/files", b) for b in out]


def list_seeds():
    """Requests without a body."""
    return [("list", path, "") for path in (
        "/v1/files?limit=10000", "/v1/files?limit=10000&order=asc&purpose=batch",
        "/v1/files?after=" + KEPT, "/v1/batches?limit=100", "/v1/files/" + KEPT,
        "/v1/files/%s/content" % KEPT, "/v1/responses/" + KEPT, "/stats", "/slots", "/props",
        "/v1/responses/%s/input_items?limit=100" % KEPT, "/api/tags", "/openapi.json", "/metrics")]


def grown(n):
    """Bodies of some n bytes that are dear as the compilers and readers are made: counts that
    multiply, choices that combine, lists of what is short."""
    chat = "/v1/chat/completions"
    few, many = max(n // 400, 2), max(n // 40, 4)
    props = {"p%d" % i: {"type": "integer"} for i in range(many // 2)}
    dag = {"d%d" % i: {"allOf": [{"$ref": "#/$defs/d%d" % (i + 1)}] * 2} for i in range(few + 6)}
    dag["d%d" % (few + 6)] = {"type": "object", "properties": {"a": {"type": "string"}}}
    anyof = {"type": "null"}
    for i in range(few + 4):
        anyof = {"anyOf": [anyof, {"type": "object", "properties": {"a%d" % i: anyof}}]} if i < 4 \
            else {"anyOf": [anyof, {"const": i}]}
    deep = {"type": "string"}
    for _ in range(min(n // 30, 60)):
        deep = {"type": "array", "items": deep}
    words = "|".join("w%dx" % i for i in range(many))
    patterns = ["^" + ahead(2 + i % 7, "[a-z]{%d,60}" % (5 + i % 20)) + "$" for i in range(few)]
    out = [("regex", {**user("x"), "guided_regex": r}) for r in (
        ahead(min(few + 3, 20), "[a-z]{10,60}"), "(%s)*" % words, "(%s){1,9}z" % words,
        "(?i:%s)" % words, ahead(6, "(%s){1,3}" % words[:n // 2]), "(?!.*(%s)).{1,80}" % words,
        "(a?){%d}a{%d}" % (n, n), "((((a{1,99}b?){1,99}c?){1,99}d?){1,99}){1,99}",
        "[%s]{1,60}" % "".join(chr(0x400 + 2 * i) for i in range(n // 3)),
        r"(?=.*\p{Lu})(?=.*\p{Ll})(?=.*\p{N})(?=.*\p{P})\w.{8,64}", r"(\p{L}{1,40}\s?){1,%d}" % n,
        "(?=(%s))" % words + "[a-z0-9]{2,80}", "(" * 150 + "a" + "?)" * 150,
        "(?!.*aa)(?!.*bb)(?!.*cc)(?!.*ab)[abc]{1,%d}" % min(n, 200),
        "(x|xx|xxx|xxxx){1,%d}" % n)]
    out += [("grammar", {**user("x"), "guided_grammar": g}) for g in (
        "root ::= " + " | ".join('"w%d"' % i for i in range(many)),
        "root ::= r0\n" + "\n".join('r%d ::= "a"? r%d "b"? r%d' % (i, i + 1, i + 1)
                                   for i in range(few + 8)) + '\nr%d ::= "c"' % (few + 8),
        "root ::= " + '("a"? "b"? "c"?)' * few + '"d"',
        "root ::= " + "(" * 150 + '"a"' + ")?" * 150,
        "root ::= " + "[a-zA-Z0-9_À-ÿ]{0,999}" * few,
        'root ::= (("a" | "aa" | "aaa"){1,999} | ("a" | "ab"){1,999}){1,999}',
        "root ::= x{1,9}\nx ::= " + " | ".join("[a-z]{%d}" % i for i in range(1, many)),
        'root ::= "x" root "y" | "x" root "z" | "x" root | "q"')]
    out += [("schema", schema(s)) for s in (
        {"type": "object", "properties": props, "additionalProperties": False},
        {"type": "object", "properties": props, "required": list(props)[:few]},
        {"type": "object", "properties": props, "minProperties": few, "maxProperties": few + 2},
        {"oneOf": [{"type": "object", "properties": {"a": {"const": i}}} for i in range(many)]},
        {"anyOf": [{"required": ["a%d" % i]} for i in range(many)], "type": "object"},
        {"allOf": [{"anyOf": [{"required": ["a%d" % i]}, {"required": ["b%d" % i]}]}
                   for i in range(few + 2)]},
        {"$defs": dag, "$ref": "#/$defs/d0"}, anyof, deep,
        {"enum": ["w%d" % i for i in range(many * 3)]},
        {"not": {"anyOf": [{"const": i} for i in range(many)]}, "type": "integer"},
        {"type": "object", "patternProperties": {p: {"type": "integer"} for p in patterns}},
        {"type": "object", "properties": {"p%d" % i: {"type": "string", "pattern": p}
                                          for i, p in enumerate(patterns)}},
        {"type": "string", "allOf": [{"pattern": p} for p in patterns[:4]]},
        {"type": "array", "uniqueItems": True, "items": {"enum": list(range(min(many, 40)))}},
        {"type": "array", "contains": {"const": 1}, "minContains": few, "maxContains": many,
         "items": {"enum": list(range(9))}},
        {"type": "integer", "multipleOf": 99991, "minimum": 10 ** 12, "maximum": 10 ** 17},
        {"type": "integer", "allOf": [{"multipleOf": m} for m in (7, 11, 13, 17)],
         "minimum": -10 ** 15},
        {"type": "object", "dependentRequired": {"a%d" % i: ["a%d" % (i + 1)]
                                                 for i in range(few + 4)}},
        {"type": "object", "dependentSchemas": {"a%d" % i: {"properties": {
            "b%d" % i: {"const": 1}}} for i in range(few + 4)}, "minProperties": 1},
        {"type": "string", "minLength": 1000, "maxLength": 100000},
        {"type": "string", "maxLength": 200, "pattern": ahead(4, "\\w{1,90}")},
        {"type": "object", "propertyNames": {"pattern": patterns[0]}, "minProperties": 3})]
    out += [("tools", {**user("x"), "tool_choice": choice, "tools": [
        tool("f%d" % i, {"type": "object", "properties": {"a": s}}, strict=True)
        for i in range(max(n // 150, 1))]}) for choice in ("required", "auto") for s in (
            {"type": "string"}, {"type": "string", "pattern": patterns[0]},
            {"enum": ["a", "b"]}, anyof)]
    out += [("format", {**user("x"), "response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "strict": True, "schema": {"type": "object", "properties": props}}}})]
    out += [("choice", {**user("x"), "guided_choice": ["w%d" % i for i in range(many * 4)]}),
            ("choice", {**user("x"), "guided_choice": ["a" * i for i in range(1, few * 3)]}),
            ("stop", {**user("x"), "stop": ["a" * (n // 20)] * 16}),
            ("stop", {**user("x"), "stop_token_ids": list(range(n // 5))}),
            ("bias", {**user("x"), "logit_bias": {str(i): 1 for i in range(n // 7)}}),
            ("bias", {**user("x"), "dry_multiplier": 1, "dry_sequence_breakers": [
                chr(97 + i % 26) * (n // 40) for i in range(32)]}),
            ("messages", {"messages": [{"role": "user", "content": ""}] * (n // 32)}),
            ("messages", {"messages": [{"role": "user", "content": [
                {"type": "text", "text": "a"}] * (n // 28)}]}),
            ("messages", {"messages": [{"role": ("user", "assistant")[i % 2], "content": "</think>"}
                                       for i in range(n // 45)]}),
            ("nest", {**user("x"), "chat_template_kwargs": {"k%d" % i: i for i in range(n // 9)}}),
            ("nest", {**user("x"), "metadata": json.loads("[" * 120 + "]" * 120)}),
            ("nest", {**user("x"), "x": [1] * (n // 2)}), ("nest", {**user("x"), "x": [[]] * (n // 3)}),
            ("nest", {**user("x"), "x": [1e300] * (n // 6)})]
    out = [(kind, chat, body) for kind, body in out]
    digits = "1" * n
    out += [("text", "/tokenize", {"content": c, "with_pieces": True}) for c in (
        "a" * n, " " * n, digits, "\n" * n, "\u0301\u0316" * (n // 4), "<|im_start|>" * (n // 12),
        "<|im_start|" * (n // 11), "'" * n, "\ufb03" * (n // 3), "\u1100\u1161" * (n // 6))]
    called = [{"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "f", "arguments": {}}}] * (n // 80)}]
    out += [("ollama", "/api/chat", {"model": "halo-tiny", "stream": False, "messages": m}) for m in (
        called + [{"role": "tool", "tool_name": "g", "content": ""}] * (n // 80),
        called + [{"role": "tool", "content": ""}] * (n // 40),
        [{"role": "user", "content": ""}] * (n // 32))]
    out += [("ollama", "/api/chat", {"model": "halo-tiny", "stream": False, **user("x"), "format": s})
            for s in ({"type": "object", "properties": props}, anyof)]
    out += [("ollama", "/api/generate", {"model": "halo-tiny", "stream": False, "prompt": "x", **more})
            for more in ({"options": {"stop": ["a" * 9] * (n // 12)}}, {"context": [1] * (n // 2)},
                         {"options": {"k%d" % i: 1 for i in range(n // 8)}})]
    out += [("native", "/completion", {"prompt": p, "n_predict": 2}) for p in (
        ["a", 1] * (n // 6), [1, ""] * (n // 5), [1, "<|im_start|>"] * (n // 17), ["a" * n])]
    out += [("native", "/completion", {"prompt": "a", "n_predict": 2, **more}) for more in (
        {"logit_bias": [[i % 300, 1] for i in range(n // 8)]},
        {"response_fields": ["timings/prompt_n"] * min(n // 19, 100), "n_probs": 20},
        {"dry_multiplier": 1, "dry_sequence_breakers": ["a"] * (n // 4)})]
    out += [("stored", "/v1/responses", {"max_output_tokens": 16, "input": [
        {"type": "item_reference", "id": "m%d" % i} for i in range(n // 38)]}),
            ("stored", "/v1/responses", {"max_output_tokens": 16, "previous_response_id": KEPT,
                                         "input": [{"role": "user", "content": "a"}] * (n // 32)}),
            ("batch", "/v1/batches", {"input_file_id": KEPT, "completion_window": "1" * n,
                                      "endpoint": "/v1/chat/completions"}),
            ("batch", "/v1/batches", {"input_file_id": KEPT, "completion_window": "24h",
                                      "endpoint": "/v1/chat/completions",
                                      "metadata": {"k%d" % i: "v" for i in range(n // 10)}}),
            ("count", "/v1/messages/count_tokens", {"messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1",
                                              "content": ""}] * (n // 55)}]}),
            ("count", "/v1/responses/input_tokens", {"input": "a" * n})]
    out += [("ids", "/detokenize", {"tokens": [7] * (n // 2)}),
            ("rerank", "/v1/rerank", {"query": "q" * (n // 2), "documents": ["a"] * (n // 8)}),
            ("embed", "/v1/embeddings", {"input": [""] * (n // 3)}),
            ("embed", "/v1/embeddings", {"input": ["a"] * (n // 4)}),
            ("many", "/v1/completions", {"prompt": ["a"] * 128, "max_tokens": 1, "logprobs": 5}),
            ("many", "/v1/completions", {"prompt": "a", "n": 128, "max_tokens": 1, "logprobs": 5}),
            ("template", "/apply-template", {"messages": [
                {"role": "assistant", "content": "", "tool_calls": [{
                    "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
                 * (n // 80)}]}),
            ("template", "/apply-template", {**user("x"), "tools": [tool("f", {"type": "object"})]
                                             * (n // 80)})]
    return out


def image_seeds():
    look = "/v1/chat/completions"
    files = [png(64, 64), png(7000, 7000, 1), png(4096, 4096, 8, 6, 0, 4),
             png(5000, 5000, 8, 3, 1, 3), png(3000, 3000, 16, 6, 1, 4), png(16384, 3000, 1, 3, 1)]
    out = [("image", look, user([image(f)])) for f in files]
    out += [("image", look, user([golden_image(n)])) for n in sorted(
        os.listdir(os.path.join(SRCDIR, "tests/golden/images")))
        if n.split(".")[-1] in ("png", "jpeg", "webp") and
        os.path.getsize(os.path.join(SRCDIR, "tests/golden/images", n)) < 20000]
    out.append(("image", "/tokenize", {"messages": user([image(files[1])] * 4)["messages"]}))
    return out


def crc(data, polynomial, bits):
    c = 0
    for byte in data:
        c ^= byte << (bits - 8)
        for _ in range(8):
            c = (c << 1 ^ (polynomial if c >> (bits - 1) else 0)) & ((1 << bits) - 1)
    return c


def silence(seconds, rate):
    """A FLAC file of one channel of nothing: eleven bytes for 65,535 samples."""
    n = int(seconds * rate) // 65535
    out = b"fLaC\x80\0\0\x22" + struct.pack(">HH6xQ16x", 65535, 65535,
                                              rate << 44 | 15 << 36 | n * 65535)
    for i in range(n):
        head = b"\xff\xf8\x70\0" + chr(i).encode() + b"\xff\xfe"
        frame = head + bytes([crc(head, 7, 8)]) + b"\0\0\0"
        out += frame + struct.pack(">H", crc(frame, 0x8005, 16))
    return out


def sound_seeds():
    """Audio as forms and in chats: the files of tests, and silence as long as fits."""
    silent = sounds.tone(0.01)[:40] + struct.pack("<I", 2 ** 30)
    files = [(n, sounds.raw(n)) for n in sorted(os.listdir(sounds.FOLDER)) if n.split(".")[-1]
             in ("wav", "flac", "mp3", "ogg") and
             os.path.getsize(os.path.join(sounds.FOLDER, n)) < 40000]
    files += [("long.wav", silent), ("tone.wav", sounds.tone(1)), ("slow.wav", sounds.tone(1, 96000)),
              ("s.flac", silence(290, 48000)), ("s.flac", silence(1790, 8000)),
              ("s.flac", silence(1790, 48000))]
    out = [("sound", "/v1/audio/transcriptions", form(file_of(f, n)))
           for n, f in files]
    out += [("sound", "/v1/audio/transcriptions", form(
        field("prompt", "a " * 2000), field("language", "en"),
        *[field("include[]", "logprobs")] * 40, file_of(sounds.tone(.1))))]
    return out + [("sound", "/v1/chat/completions", user([sounds.sound(f, n.split(".")[-1])]))
                  for n, f in files]


# --- mutation ---------------------------------------------------------------------------

def places(v, path=()):
    """Every value inside v, as its path."""
    yield path
    for k in v if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ():
        yield from places(v[k], (*path, k))


def at(v, path):
    for k in path:
        v = v[k]
    return v


def put(v, path, new):
    if not path:
        return new
    at(v, path[:-1])[path[-1]] = new
    return v


NUMBERS = (0, 1, 2, 3, 7, 9, 16, 30, 60, 100, 255, 1000, 4095, 65535, 1 << 20, (1 << 31) - 1)
PIECES = ("a", "1", " ", "\n", "é", "\u0301", "\u0316", "\u0e33", "\uac00", "<think>", "</think>", "<|im_start|>",
          "(?=.*a)", "(?!b)", "{1,60}", "[a-z]", r"\p{L}", r"\w", ".*", "|", "(a|b)", "?", "+",
          '"', "\\", "<tool_call>", "{", "[")


def mutate_text(s, r):
    how = r.randrange(7)
    i = r.randrange(len(s) + 1)
    j = min(len(s), i + r.choice((1, 2, 3, 5, 8, 13, 40)))
    if how == 0:
        return s + s
    if how == 1:
        return s[:i] + s[i:j] * r.choice((2, 3, 5, 10, 50)) + s[j:]
    if how == 2:
        return s[:i] + r.choice(PIECES) * r.choice((1, 1, 2, 5, 20, 200)) + s[i:]
    if how == 3:
        return s[:i] + s[j:]
    if how == 4:  # another number where one stands
        digits = [k for k, c in enumerate(s) if c.isdigit()]
        if digits:
            k = r.choice(digits)
            return s[:k] + str(r.choice(NUMBERS)) + s[k + 1:]
    if how == 5:
        return s[:i] + "(" + s[i:j] + ")" + r.choice(("*", "+", "?", "{2,9}", "")) + s[j:]
    return s[:i] + r.choice(PIECES) + s[j:]


def mutate(body, pool, r):
    """One change of a body, or several."""
    body = copy.deepcopy(body)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        path = r.choice(list(places(body)))
        v = at(body, path)
        if isinstance(v, str):
            body = put(body, path, mutate_text(v, r))
        elif isinstance(v, bool) or v is None:
            body = put(body, path, r.choice((True, False, None, 1, "a", [], {})))
        elif isinstance(v, (int, float)):
            body = put(body, path, r.choice((v * 2, v + 1, -v, v // 3, *NUMBERS)))
        elif isinstance(v, list) and v:
            how = r.randrange(4)
            if how == 0:
                v.extend(copy.deepcopy(v))
            elif how == 1:
                v.extend(copy.deepcopy(r.choice(v)) for _ in range(r.choice((1, 3, 10, 40))))
            elif how == 2:
                del v[r.randrange(len(v))]
            else:
                v[r.randrange(len(v))] = copy.deepcopy(v) if r.random() < .5 else [v[0]]
        elif isinstance(v, dict) and v:
            how, key = r.randrange(5), r.choice(list(v))
            if how < 2:  # more members, of other names
                for _ in range(r.choice((1, 3, 10, 40))):
                    v[key[:6] + str(len(v))] = copy.deepcopy(v[key])
            elif how == 2 and len(v) > 1:
                del v[key]
            elif how == 3:
                v[key] = copy.deepcopy(v)
            else:  # a part of another body
                other = r.choice(pool)
                v.update(copy.deepcopy({k: other[k] for k in r.sample(list(other), 1)}))
    return body


SHORT = {"max_tokens": 2, "max_completion_tokens": 2, "max_output_tokens": 16, "n_predict": 2}


def spell(body):
    """As JSON. An answer is short: its tokens are what was asked for."""
    if isinstance(body, str):
        return body
    body = {k: SHORT.get(k, v) for k, v in body.items()}
    if "messages" in body or "prompt" in body:
        body["max_tokens"] = 2
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


# --- costs ------------------------------------------------------------------------------

def threads(d):
    """{thread id: (name, CPU seconds)}"""
    out = {}
    folder = "/proc/%d/task" % d.process.pid
    for tid in os.listdir(folder):
        try:
            with open("%s/%s/comm" % (folder, tid)) as f:
                name = f.read().strip()
            with open("%s/%s/schedstat" % (folder, tid)) as f:
                out[tid] = name, int(f.read().split()[0]) * 1e-9
        except OSError:
            pass  # it has ended
    return out


class Cost:
    def __init__(self, before, after, status, message):
        cpu = collections.Counter()
        for tid, (name, s) in after.items():
            cpu["io" if name.startswith("halod") else "worker" if name == "worker"
                else "engine"] += s - before.get(tid, (name, 0))[1]
        self.worker, self.io, self.engine = cpu["worker"], cpu["io"], cpu["engine"]
        self.status, self.message = status, message

    def score(self, size):
        """What it costs a byte. The event loop and the engine, of which there is one each, are
        dearer than a worker."""
        return (self.worker + 4 * self.io + 4 * self.engine) / (300 + size)


def ask(d, path, body):
    kept = d.kept.get(path.split("/")[2] if path.startswith("/v1/") else "", "none")
    method, kind = ("POST", "application/json") if body else ("GET", "")
    data = body.replace(KEPT, kept).encode("utf-8", "surrogatepass")
    if body.startswith("--" + EDGE):
        kind, data = "multipart/form-data; boundary=" + EDGE, body.encode("latin-1", "replace")
    before = threads(d)
    a = d.request(method, path.replace(KEPT, kept), data or None, {"Content-Type": kind})
    cost = Cost(before, threads(d), a.status, a.body[:200].decode(errors="replace"))
    n = sum(int(x) for x in re.findall(rb'"(?:prompt|completion|input|output)_tokens":(\d+)', a.body))
    cost.engine = max(0, cost.engine - PREFILL_S * n)
    return cost


class Daemon(Halod):
    """Keeps a response, which is long, and a thousand files of lines."""

    def __init__(self, sense=None):
        self.kept, self.folder = {}, tempfile.TemporaryDirectory()
        if sense:
            super().__init__(model=SENSES[sense], access_log="no", prefix_cache="no", ctx=4096)
            return
        super().__init__(access_log="no", prefix_cache="no", state_dir=self.folder.name + "/s",
                         embedding_model=os.path.join(READERS, "last"),
                         rerank_model=os.path.join(READERS, "reranker"))
        answer = self.request("POST", "/v1/responses", {"input": [
            {"role": ("user", "assistant")[i % 2], "content": "a"} for i in range(101)],
            "max_output_tokens": 16})
        self.kept["responses"] = answer.json["id"]
        for _ in range(FILES):
            answer = self.request("POST", "/v1/files", form(
                field("purpose", "batch"), file_of(b"{}\n" * 40)).encode("latin-1"),
                {"Content-Type": "multipart/form-data; boundary=" + EDGE})
        self.kept["files"] = self.kept["batches"] = answer.json["id"]

    def stop(self, *args):
        code = super().stop(*args)
        self.folder.cleanup()
        return code


FILES = 990  # of the 1,000 that max_files allows


def climb(found, seconds, sense, r):
    """Fills found: {(path, body): (kind, cost)}, by changing what is dearest so far."""
    pool = collections.defaultdict(list)  # kind: [(score, path, body)]
    work = image_seeds() if sense == "image" else sound_seeds() if sense == "sound" else (
        seeds() + other_seeds() + form_seeds() + list_seeds() +
        [x for n in (300, 1000, 3600) for x in grown(n)])
    bodies = [b for _, _, b in work if isinstance(b, dict)]
    d = Daemon(sense)
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if work:
            kind, path, body = work.pop()
        else:
            kind = r.choice([k for k in pool if k != "list"])
            ranks = pool[kind]
            _, path, body = ranks[min(int(r.expovariate(.4)), len(ranks) - 1)]
            changed = mutate(body, bodies, r)
            if kind not in LONG and isinstance(body, dict) and "messages" in body:
                changed["messages"] = body["messages"]  # a long prompt is no news
            body = changed
        text = spell(body)
        if len(text) > LONGEST and not sense or (path, text) in found:
            continue
        try:
            cost = ask(d, path, text)
        except Exception as e:  # noqa: BLE001
            print("NO ANSWER: %s: %s %s" % (e, path, text), file=sys.stderr)
            d.process.kill()
            d = Daemon(sense)
            continue
        n += 1
        found[path, text] = kind, cost
        ranks = pool[kind]
        ranks.append((cost.score(len(text)), path, body))
        ranks.sort(key=lambda x: -x[0])
        del ranks[24:]
    d.stop()
    print("%d bodies in %d s" % (n, seconds), file=sys.stderr)


def line(kind, path, text, cost):
    return "%-9s %-22s %5d bytes  %d  worker %6.3f  io %6.4f  engine %6.3f  %s" % (
        kind, path, len(text), cost.status, cost.worker, cost.io, cost.engine,
        cost.message if cost.status != 200 else "")


def search(seconds, name):
    found = {}
    r = random.Random(int(os.environ.get("SEED", "1")))
    for sense in senses():
        climb(found, seconds / 5, sense, r)
    climb(found, seconds * 3 / 5, None, r)
    ranks = sorted(((c.score(len(t)), k, p, t, c) for (p, t), (k, c) in found.items()),
                   key=lambda x: -x[0])
    kinds, kept = collections.Counter(), []
    n_kinds = len({x[1] for x in ranks})
    for x in ranks:
        kinds[x[1]] += 1
        if kinds[x[1]] <= max(3, ENOUGH // n_kinds):
            kept.append(x)
    kept += [x for x in ranks if x not in kept][:max(0, ENOUGH - len(kept))]
    for _, kind, path, text, cost in sorted(kept, key=lambda x: -x[0]):
        print(line(kind, path, text, cost)[:200])
    if name:
        with open(name, "w") as f:
            for _, kind, path, text, _ in sorted(kept, key=lambda x: (x[1], -x[0])):
                f.write(json.dumps({"kind": kind, "path": path, "body": text}) + "\n")


# --- measures ---------------------------------------------------------------------------

class Beside:
    """What a client with a stream, and one that asks /health, notice while it lasts."""

    def __init__(self, d):
        self.d, self.gaps, self.waits, self.is_over = d, [], [], False
        self.stream = d.long_stream()
        self.threads = [threading.Thread(target=f) for f in (self.read, self.ask)]
        for t in self.threads:
            t.start()

    def read(self):
        last = time.monotonic()
        for _ in self.stream.events():
            now = time.monotonic()
            self.gaps.append(now - last)
            last = now
            if self.is_over:
                return

    def ask(self):
        while not self.is_over:
            begin = time.monotonic()
            self.d.get("/health")
            self.waits.append(time.monotonic() - begin)
            time.sleep(0.005)

    def end(self):
        self.is_over = True
        for t in self.threads:
            t.join()
        self.stream.close()
        return tuple(1e3 * x for x in (*spread(self.gaps), *spread(self.waits)))


def spread(values):
    """The median, and what one in a hundred exceeds."""
    v = sorted(values) or [0]
    return v[len(v) // 2], v[len(v) * 99 // 100]


def senses():
    return ["image"] + ["sound"] * sounds.is_built(BUILDDIR)


def measure_some(lines, sense):
    d = Daemon(sense)
    alone = Beside(d)
    time.sleep(2)
    notes = [("alone", alone.end())]
    most = collections.Counter()
    beside = Beside(d)
    for x in lines:
        cost = ask(d, x["path"], x["body"])
        print(line(x["kind"], x["path"], x["body"], cost)[:150])
        for who in ("worker", "io"):
            most[who] = max(most[who], getattr(cost, who))
        if len(beside.gaps) > 2500:  # the stream is near its end
            notes.append(("beside", beside.end()))
            beside = Beside(d)
    notes.append(("beside", beside.end()))
    d.stop()
    for what, (gap, gap99, wait, wait99) in notes:
        print("%s: a stream's gap %.1f ms, one in a hundred %.1f; /health %.1f ms, %.1f" % (
            what, gap, gap99, wait, wait99))
    print("CPU seconds at most: worker %.3f, io %.4f (with /health and the stream)" % (
        most["worker"], most["io"]))


def measure(name):
    with open(name) as f:
        lines = [json.loads(text) for text in f]
    for sense in (None, *senses()):
        measure_some([x for x in lines if (x["kind"] if x["kind"] in SENSES else None) == sense],
                     sense)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "search":
        search(float(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
    elif len(sys.argv) > 2 and sys.argv[1] == "measure":
        measure(sys.argv[2])
    else:
        sys.exit(__doc__)
