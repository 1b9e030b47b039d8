#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What /openapi.json says of halod is so: every route is in it and no other, and what
each answers is documented and has the shape that is said."""
import json
import os
import re
import tempfile

from halod import SRCDIR, run
from sounds import form

MODEL = "halo-tiny"
FORM = "multipart/form-data"
NOT_HERE = ("/v1/embeddings", "/v1/rerank", "/rerank", "/v1/audio/transcriptions",
            "/v1/audio/translations", "/infill", "/api/embed",
            "/api/embeddings")  # of this model


def faults(doc, schema, v, at="answer"):
    """Where v departs from the schema, in words: the part of JSON Schema that the
    description uses, and an error for any other part."""
    known = {"$ref", "type", "properties", "required", "items", "enum", "const", "anyOf",
             "oneOf", "minItems", "maxItems", "minimum", "maximum", "minLength",
             "additionalProperties", "description", "format"}
    out = ["%s: %s is not checked" % (at, k) for k in set(schema) - known]
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return out + faults(doc, doc["components"]["schemas"][name], v, at)
    for key, good in (("anyOf", lambda n: n >= 1), ("oneOf", lambda n: n == 1)):
        if key in schema and not good(sum(not faults(doc, s, v, at)
                                          for s in schema[key])):
            out.append("%s: %r is not %s" % (at, v, key))
    types = {"object": dict, "array": list, "string": str, "boolean": bool,
             "integer": int, "number": (int, float), "null": type(None)}
    want = schema.get("type")
    if want and (not isinstance(v, types[want]) or
                 (isinstance(v, bool) and want != "boolean")):
        return out + ["%s: %r is no %s" % (at, v, want)]
    if v not in schema.get("enum", [v]) or v != schema.get("const", v):
        out.append("%s: %r is none of the values" % (at, v))
    if isinstance(v, (int, float)) and not isinstance(v, bool) and not (
            schema.get("minimum", v) <= v <= schema.get("maximum", v)):
        out.append("%s: %r is out of range" % (at, v))
    if isinstance(v, list):
        if len(v) < schema.get("minItems", 0):
            out.append("%s: too few" % at)
        for i, x in enumerate(v):
            out += faults(doc, schema.get("items", {}), x, "%s[%d]" % (at, i))
    if isinstance(v, dict):
        out += ["%s: no %s" % (at, k) for k in schema.get("required", []) if k not in v]
        for k, x in v.items():
            sub = schema.get("properties", {}).get(k)
            out += faults(doc, sub, x, at + "." + k) if sub else []
    return out


def operations(doc):
    for path, methods in doc["paths"].items():
        for method, op in methods.items():
            yield path, method.upper(), op


def check(t, doc, op, a, want, what):
    """Is the answer one that is documented?"""
    documented = op["responses"].get(str(a.status))
    if not t.ok(a.status == want and documented, "%s: %d, documented" % (what, want),
                (a.status, a.body)):
        return
    kind = a.headers["Content-Type"].split(";")[0]
    if not t.ok(kind in documented["content"], "%s: its type" % what, kind):
        return
    if kind == "application/json":
        wrong = faults(doc, documented["content"][kind]["schema"], a.json)
        t.ok(not wrong, "%s: its shape" % what, "\n".join(wrong))


def test_routes(t, d):
    a = d.get("/openapi.json")
    with open(os.path.join(SRCDIR, "conf", "openapi.json"), "rb") as f:
        t.equal((a.status, a.body), (200, f.read()), "is served as it is in conf/")
    with open(os.path.join(SRCDIR, "src", "api", "endpoint.def")) as f:
        rows = re.findall(r'^ENDPOINT_\w+\((?:(\w+), *)?"([^"]+)", \w+, ([^"]*), "',
                          f.read(), re.M)
    rows = [(m or "POST", p, flags) for m, p, flags in rows]
    t.ok(len(rows) > 10, "routes are found")
    t.equal(sorted((m, p) for p, m, _ in operations(a.json)),
            sorted((m, p.replace("*", "{id}")) for m, p, _ in rows),
            "every route is described, and no other")
    is_open = {(m, p): "ROUTE_OPEN" in flags for m, p, flags in rows}
    t.equal({(m, p) for p, m, op in operations(a.json) if op.get("security") == []},
            {k for k in is_open if is_open[k]}, "those that need no key")
    ids = [op["operationId"] for _, _, op in operations(a.json)]
    t.equal(len(set(ids)), len(ids), "every operation has its own id")
    refs = set(re.findall(r'"#/components/schemas/(\w+)"', a.body.decode()))
    t.equal(refs, set(a.json["components"]["schemas"]), "every schema is used and there")


def made(d, path):
    """The id of something that is at this path."""
    if "models" in path:
        return MODEL
    if "files" in path:
        return send(d, b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", '
                       b'"body": {"prompt": "a", "max_tokens": 1}}').json["id"]
    if "batches" in path:
        return d.request("POST", "/v1/batches", batch(d)).json["id"]
    return d.request("POST", "/v1/responses", {"input": "Hi", "max_output_tokens": 1}).json["id"]


def send(d, data):
    form = (b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + data +
            b"\r\n--b--\r\n")
    return d.request("POST", "/v1/files", form,
                     {"Content-Type": "multipart/form-data; boundary=b"})


def batch(d):
    return {"input_file_id": made(d, "files"), "endpoint": "/v1/completions",
            "completion_window": "24h"}


def test_answers(t, d):
    doc = d.get("/openapi.json").json
    for path, method, op in operations(doc):
        what = method + " " + path
        if method in ("GET", "DELETE"):
            its = made(d, path)
            check(t, doc, op, d.request(method, path.replace("{id}", its)), 200, what)
            if "{id}" in path:
                a = d.request(method, path.replace("{id}", "x"))
                check(t, doc, op, a, 404, what)
            continue
        if "requestBody" not in op:  # responses refuse it for whatever there is
            good = 200 if "batches" in path else 400
            if "{id}" not in path:
                check(t, doc, op, d.request(method, path), 501, what)
                continue
            for it, want in ((made(d, path), good), ("x", 404)):
                check(t, doc, op, d.request(method, path.replace("{id}", it)), want, what)
            continue
        (kind, body), = op["requestBody"]["content"].items()
        if kind == FORM and path in NOT_HERE:
            check(t, doc, op, d.request("POST", path, *form(b"")), 501, what)
        elif kind == FORM:
            check(t, doc, op, send(d, b"x"), 200, what)
            check(t, doc, op, send(d, b"x" * (1 << 20)), 413, what + " too large")
        if kind == FORM:
            check(t, doc, op, d.request("POST", path, {}), 415, what + " no form")
            continue
        wrong = faults(doc, body["schema"], body["example"], "example")
        t.ok(not wrong, "%s: its example" % what, "\n".join(wrong))
        good = 501 if path in NOT_HERE else 200
        example = batch(d) if "batches" in path else body["example"]
        check(t, doc, op, d.request("POST", path, example), good, what)
        big = b" " * ((16 << 20) + 1)
        check(t, doc, op, d.request("POST", path, big), 413, what + " too large")
        if good != 200:
            continue
        check(t, doc, op, d.request("POST", path, "{"), 400, what + " no JSON")
        check(t, doc, op, d.request("POST", path, {}), 400, what + " nothing")
        if "text/event-stream" in op["responses"]["200"]["content"]:
            a = d.request("POST", path, {**body["example"], "stream": True})
            check(t, doc, op, a, 200, what + " stream")
            t.equal(a.headers["Content-Type"].split(";")[0], "text/event-stream",
                    what + ": is a stream")
            a = d.request("POST", path, {**body["example"], "model": "x"})
            check(t, doc, op, a, 404, what + " another model")


def test_fields(t, d):
    """A field of a wrong type is refused wherever its type is documented."""
    doc = d.get("/openapi.json").json
    for path, method, op in operations(doc):
        if "application/json" not in op.get("requestBody", {}).get("content", ()) or (
                path in NOT_HERE):
            continue
        body = op["requestBody"]["content"]["application/json"]
        name = body["schema"]["$ref"].rsplit("/", 1)[1]
        for field, schema in doc["components"]["schemas"][name]["properties"].items():
            if schema.get("type") not in ("integer", "number", "boolean"):
                continue
            for bad in ("no", [1], {}):
                a = d.request("POST", path, {**body["example"], field: bad})
                if a.status != 400:
                    t.ok(False, "%s: %s: %r is refused" % (path, field, bad),
                         (a.status, a.body[:200]))
            if "minimum" in schema:
                a = d.request("POST", path, {**body["example"],
                                             field: schema["minimum"] - 1})
                t.equal(a.status, 400, "%s: %s below its minimum" % (path, field))
    t.ok(True, "wrong types are refused")


with tempfile.TemporaryDirectory() as state:
    run([test_routes, test_answers, test_fields], state_dir=state, max_upload="1M")
