#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random schemas of the keywords that clients combine, one a line, for schema_suite.py.

usage: schema_made.py [N [SEED]] > FILE.jsonl        (2,000 of seed 1)

References into $defs (recursive ones, too), oneOf, anyOf, allOf, not, if, contains,
patternProperties, unevaluated*, dependent*, uniqueItems, maps that count, bounds beyond
64 bits. Most have a value; some have none.
"""
import json
import random
import sys

PATTERNS = ["^[a-z]{2,6}$", "^usr_[a-z0-9]{4}$", "^\\d{3}-\\d{2}$", "^2026-", "[A-Z]", "^(?!no).+$"]
FORMATS = ["date", "uuid", "ipv4", "email", "date-time", "time"]
NAMES = ["id", "name", "kind", "tags", "size", "x-y", "größe", "a b"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def string(self):
        r, s = self.r, {"type": "string"}
        how = r.randrange(6)
        if how == 0:
            s["pattern"] = r.choice(PATTERNS)
        elif how == 1:
            s["format"] = r.choice(FORMATS)
        elif how == 2:
            s = {"enum": r.sample(["red", "green", "blue", "größe", "\"q\"", ""], r.randint(1, 4))}
        else:
            s["maxLength"] = r.randint(3, 12)
            if how == 3:
                s["minLength"] = r.randint(0, 3)
        return s

    def number(self):
        r = self.r
        kind = r.choice(["integer", "integer", "number"])
        lo = r.choice([0, 1, -5, 100, 1900] + [2**63, 10**19, -2**64] * (kind == "integer"))
        s = {"type": kind}
        if r.random() < .6:
            s[r.choice(["minimum", "exclusiveMinimum"])] = lo
        if r.random() < .6:
            s[r.choice(["maximum", "exclusiveMaximum"])] = lo + r.choice([2, 10, 200, 70000])
        if r.random() < .2:
            s["multipleOf"] = r.choice([2, 5, 10]) if kind == "integer" else r.choice([.5, .25])
        return s

    def array(self, depth):
        r, s = self.r, {"type": "array", "items": self.any(depth + 1)}
        if r.random() < .5:
            s["maxItems"] = r.randint(2, 4)
        if r.random() < .4:
            s["minItems"] = r.randint(0, 2)
        how = r.randrange(8)
        if how < 3:
            s["uniqueItems"] = True
        elif how == 3:
            s["prefixItems"] = [self.any(depth + 1), self.any(depth + 1)]
            s["items"] = r.choice([False, s["items"]])
        elif how == 4:
            s["contains"] = {"type": s["items"].get("type", "string")}
        return s

    def object(self, depth):
        r = self.r
        names = r.sample(NAMES, r.randint(0, 4))
        s = {"type": "object", "properties": {n: self.any(depth + 1) for n in names},
             "required": [n for n in names if r.random() < .6]}
        how = r.randrange(10)
        if how < 4:
            s["additionalProperties"] = False
        elif how == 4:
            s["additionalProperties"] = self.string()
            s["minProperties"] = len(s["required"]) + r.randint(0, 3)
            s["maxProperties"] = s["minProperties"] + 2
        elif how == 5:
            s["patternProperties"] = {"^x-[a-d]": self.string()}
        elif how == 6:
            s["unevaluatedProperties"] = False
            s["allOf"] = [{"properties": {"extra": self.string()}, "required": ["extra"]}]
        elif how == 7 and names:
            s["dependentRequired"] = {names[0]: names[-1:]}
        elif how == 8 and names:
            s["if"] = {"properties": {names[0]: {"type": "string"}}, "required": names[:1]}
            s["then"] = {"required": names[-1:]}
        return s

    def mixed(self, depth):
        r = self.r
        how = r.randrange(5)
        if how == 0:
            return {"anyOf": [self.any(depth + 1), {"type": "null"}]}
        if how == 1:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": k},
                                                                "v": self.any(depth + 2)},
                               "required": ["kind", "v"], "additionalProperties": False}
                              for k in ("a", "b")]}
        if how == 2:
            return {"allOf": [self.string(), {"maxLength": 20}]}
        if how == 3:
            return {"type": ["string", "integer"], "maxLength": 8,
                    "not": {"enum": ["", 0, "none"]}}
        return {"$ref": "#/$defs/" + r.choice(["node", "code"])}

    def any(self, depth):
        n = self.r.randrange(10)
        if depth > 3 or n < 4:
            return self.r.choice([self.string, self.number, lambda: {"type": "boolean"}])()
        return self.array(depth) if n < 6 else self.object(depth) if n < 8 else self.mixed(depth)

    def root(self):
        return {**self.object(0), "$defs": {
            "code": self.string(),
            "node": {"type": "object", "properties": {
                "v": self.number(), "next": {"anyOf": [{"$ref": "#/$defs/node"},
                                                       {"type": "null"}]}},
                     "required": ["v", "next"], "additionalProperties": False}}}


def main():
    n, seed = (int(a) for a in (sys.argv[1:] + ["2000", "1"][len(sys.argv) - 1:])[:2])
    maker = Maker(seed)
    for _ in range(n):
        print(json.dumps(maker.root()))


if __name__ == "__main__":
    main()
