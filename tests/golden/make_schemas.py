#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random schemas and documents with another validator's verdict: schemas.tsv.

usage: make_schemas.py [N] > schemas.tsv     needs `jsonschema` (4.x)

A line is "S<tab>schema" or "<must><valid><tab>document" about the schema above it.
valid: 1 where jsonschema, formats included, accepts the document. must: 1 where the
document is also spelled as halod spells it (made from the schema itself, properties in
order, nothing further), so that a grammar that is neither too wide nor too narrow
accepts all of "11", may accept "01" and must refuse "00".
"""
import json
import random
import sys

import jsonschema

WORDS = ["a", "b", "ab", "id", "na\"me", "x y", "größe", "z1"]
rng = random.Random(7)


def schema(depth):
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "pattern",
             "format"]
    if depth > 0:
        kinds += ["object"] * 5 + ["array"] * 3 + ["anyOf", "allOf", "oneOf", "types",
                                                   "ref", "dict", "tuple"]
    kind = rng.choice(kinds)
    if kind == "string":
        lo = rng.choice([0, 0, 1, 3])
        return {"type": "string", **rng.choice([{}, {"minLength": lo}, {
            "minLength": lo, "maxLength": lo + rng.randrange(4)}])}
    if kind in ("integer", "number"):
        s = {"type": kind}
        step = 1 if kind == "integer" else rng.choice([1, 0.5, 0.01])
        lo = rng.randrange(-150, 150) * step
        if rng.random() < 0.7:
            s[rng.choice(["minimum", "exclusiveMinimum"])] = lo
        if rng.random() < 0.7:
            s[rng.choice(["maximum", "exclusiveMaximum"])] = lo + step * rng.choice(
                [1, 2, 9, 10, 99, 1000])
        return s
    if kind == "enum":
        return rng.choice([{"enum": rng.sample([1, -2.5, "a", None, True, [1], {"k": 0}], 3)},
                           {"const": rng.choice([0, "c", None, False])}])
    if kind == "pattern":
        return {"type": "string", "pattern": rng.choice([
            "^[a-c]+$", "b", "^a", "z$", "^(ab|c){1,3}$", "^[^a-y]$", "^\\d{2,3}$",
            "^a?b*[\"\\\\]$", "x|^y$"])}
    if kind == "format":
        return {"type": "string", "format": rng.choice(["date", "uuid", "ipv4", "email"])}
    if kind == "types":
        return {"type": rng.sample(["string", "integer", "null", "boolean", "array"], 2)}
    if kind == "dict":
        return {"type": "object", "additionalProperties": schema(depth - 1)}
    if kind == "tuple":
        return {"type": "array", "prefixItems": [schema(depth - 1) for _ in range(2)],
                "items": rng.choice([False, {"type": "integer"}]),
                "minItems": rng.randrange(3)}
    if kind == "array":
        lo = rng.randrange(3)
        return {"type": "array", "items": schema(depth - 1), "minItems": lo,
                "maxItems": lo + rng.randrange(3)}
    if kind == "anyOf":
        return {"anyOf": [schema(depth - 1) for _ in range(2)]}
    if kind == "oneOf":
        return {"oneOf": [{"type": "object", "properties": {
            "k": {"const": i}, "v": schema(depth - 1)}, "required": ["k"],
            "additionalProperties": False} for i in range(2)]}
    if kind == "allOf":
        return {"allOf": [{"type": "integer", "minimum": rng.randrange(9)},
                          {"maximum": 9 + rng.randrange(9)}]}
    if kind == "ref":
        return {"$ref": "#/$defs/tree"}
    names = rng.sample(WORDS, rng.randrange(1, 5))
    s = {"type": "object", "properties": {n: schema(depth - 1) for n in names},
         "required": [n for n in names if rng.random() < 0.5]}
    more = rng.choice([None, False, True, {"type": "integer"}])
    if more is not None:
        s["additionalProperties"] = more
    return s


TREE = {"type": "object", "properties": {
    "v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["v"]}


def text():
    return "".join(rng.choice("abcxyz\"\\\n é€😀01") for _ in range(rng.randrange(6)))


def anything(depth=2):
    return rng.choice([None, True, False, rng.randrange(-200, 200), 0.5, -1.25, text(), "ab",
                       "bz", "99", "2024-02-29", "127.0.0.1",
                       [anything(depth - 1) for _ in range(rng.randrange(3))] if depth else [],
                       {rng.choice(WORDS): anything(depth - 1)} if depth else {}])


def instance(s, depth=4):
    """A document that the schema was read for; not sure to be valid."""
    if s is True or s == {}:
        return anything()
    if s is False:
        return None
    if "$ref" in s:
        return instance(TREE, depth - 1)
    if "anyOf" in s or "oneOf" in s:
        return instance(rng.choice(s.get("anyOf") or s["oneOf"]), depth)
    if "allOf" in s:
        return rng.randrange(20)
    if "enum" in s:
        return rng.choice(s["enum"])
    if "const" in s:
        return s["const"]
    kind = s["type"]
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if kind == "string":
        if "pattern" in s:
            return rng.choice(["abc", "b", "a", "xz", "abab", "c", "z", "12", "123", "ab\"",
                               "bb\\", "y", "x", "", "é"])
        if "format" in s:
            return rng.choice(["2024-02-29", "2023-02-28", "2023-02-30", "1.2.3.4",
                               "300.1.1.1", "a@bc.de", "123e4567-e89b-12d3-a456-426614174000"])
        return text()
    if kind == "integer":
        lo = s.get("minimum", s.get("exclusiveMinimum", -9))
        return lo + rng.randrange(-1, 12)
    if kind == "number":
        lo = s.get("minimum", s.get("exclusiveMinimum", -9))
        return round(lo + rng.choice([0, 1, 0.25, 0.005, -0.005, 7.5, 10]), 4)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        prefix, items = s.get("prefixItems", []), s.get("items", True)
        n = rng.randrange(s.get("minItems", 0), s.get("maxItems", s.get("minItems", 0) + 2) + 1)
        if depth <= 0:
            n = s.get("minItems", 0)
        return [instance(prefix[i] if i < len(prefix) else items, depth - 1)
                for i in range(n)]
    v = {}
    for name, sub in s.get("properties", {}).items():
        if name in s.get("required", []) or (depth > 0 and rng.random() < 0.5):
            v[name] = instance(sub, depth - 1)
    if "additionalProperties" in s and s["additionalProperties"] is not False:
        for name in ["q", "abq", "idx"][:rng.randrange(3)]:
            v[name] = instance(s["additionalProperties"], depth - 1)
    return v


def spoil(v):
    """Something else somewhere."""
    if isinstance(v, list) and v and rng.random() < 0.7:
        i = rng.randrange(len(v))
        return v[:i] + [spoil(v[i])] + v[i + rng.randrange(1, 2):]
    if isinstance(v, dict) and v and rng.random() < 0.7:
        k = rng.choice(list(v))
        if rng.random() < 0.3:
            return {n: x for n, x in v.items() if n != k}
        return {n: spoil(x) if n == k else x for n, x in v.items()}
    if isinstance(v, str) and v and rng.random() < 0.5:
        return v + rng.choice("ab1z")
    if isinstance(v, (int, float)) and not isinstance(v, bool) and rng.random() < 0.6:
        return v + rng.choice([1, -1, 0.5, 100, -100])
    return anything()


def dump(v):
    return json.dumps(v, ensure_ascii=False)


def main():
    left = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    while left > 0:
        s = schema(3)
        if "$ref" in dump(s):
            s["$defs"] = {"tree": TREE}
        judge = jsonschema.Draft202012Validator(
            s, format_checker=jsonschema.FormatChecker(["date", "uuid", "ipv4", "email"]))
        lines, seen = ["S\t" + dump(s)], set()
        for _ in range(10):
            own = instance(s)
            for doc, must in ((own, 1), (spoil(own), 0)):
                line = dump(doc)
                if line in seen or len(line) > 300:
                    continue
                seen.add(line)
                valid = judge.is_valid(doc)
                lines.append("%d%d\t%s" % (must and valid, valid, line))
        # One that allows nothing is refused by halod, as it should be.
        if any(line[1] == "1" for line in lines[1:]):
            print("\n".join(lines))
            left -= 1


main()
