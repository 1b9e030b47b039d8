#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schemas that Zod 4 and pydantic make of their types, with documents: schema_clients.tsv.

usage: make_client_schemas.py FOLDER > schema_clients.tsv
    needs `pydantic`, `email-validator` and `jsonschema[format-nongpl]`, node, and `zod`
    installed in FOLDER (npm install --prefix FOLDER zod)

The form is that of make_schemas.py. Zod or pydantic says whether a document is valid, and
so does `jsonschema`: where the two differ, the document is left out. (Zod's objects take
further members, and its schema for them does not; checks that no schema can say, too.)
"""
import collections
import datetime
import decimal
import enum
import ipaddress
import json
import os
import pathlib
import re
import subprocess
import sys
import typing as T
import uuid

import jsonschema
import pydantic as P
from pydantic import Field


class Letter(enum.Enum):
    A = "a"
    B = "b"


class Inner(P.BaseModel):
    x: int
    y: T.Optional[str] = None


class Cat(P.BaseModel):
    kind: T.Literal["cat"]
    n: int


class Dog(P.BaseModel):
    kind: T.Literal["dog"]
    s: str


class Node(P.BaseModel):
    v: int
    kids: T.List["Node"]


class Forbid(P.BaseModel):
    model_config = {"extra": "forbid"}
    a: int


PYDANTIC = {
    "str": (str, "x", 1), "int": (int, 7, 1.5), "float": (float, 1.5, "x"),
    "bool": (bool, True, "x"), "None": (None, None, 0), "bytes": (bytes, "ab", 1),
    "Decimal": (decimal.Decimal, "1.5", "x"), "Optional": (T.Optional[int], None, "x"),
    "Union": (T.Union[int, str], "x", None), "Literal": (T.Literal["a", "b"], "b", "c"),
    "Enum": (Letter, "a", "c"), "List": (T.List[int], [1, 2], ["x"]),
    "Set": (T.Set[T.Literal["a", "b"]], ["a"], ["c"]), "FrozenSet": (T.FrozenSet[int], [1], ["x"]),
    "Tuple": (T.Tuple[int, str], [1, "x"], [1]), "Tuple, any": (T.Tuple[int, ...], [1, 2], ["x"]),
    "Dict": (T.Dict[str, int], {"a": 1}, {"a": "x"}),
    "Dict of Literal": (T.Dict[T.Literal["a", "b"], int], {"a": 1}, {"c": 1}),
    "Dict of Enum": (T.Dict[Letter, int], {"b": 1}, {"c": 1}),
    "Dict of constr": (T.Dict[P.constr(pattern="^x-", min_length=3), int], {"x-a": 1},
                       {"x-": 1}, {"y-a": 1}),
    "date": (datetime.date, "2024-02-29", "2023-02-29"),
    "datetime": (datetime.datetime, "2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z"),
    "time": (datetime.time, "12:00:00Z", "25:00:00Z"),
    "timedelta": (datetime.timedelta, "P1D", "x"),
    "UUID": (uuid.UUID, "123e4567-e89b-42d3-a456-426614174000", "123e"),
    "AnyUrl": (P.AnyUrl, "https://example.org/", "x y"),
    "HttpUrl": (P.HttpUrl, "https://example.org/", "x y"),
    "EmailStr": (P.EmailStr, "a@example.com", "a@"),
    "IPv4Address": (ipaddress.IPv4Address, "192.0.2.1", "192.0.2.256"),
    "IPv6Address": (ipaddress.IPv6Address, "2001:db8:0:0:0:0:0:1", "2001:db8"),
    "IPv4Network": (ipaddress.IPv4Network, "192.0.2.0/24", 1),
    "Path": (pathlib.Path, "/tmp/a", 1), "SecretStr": (P.SecretStr, "x", 1),
    "Base64Str": (P.Base64Str, "YWI=", 1), "Json": (P.Json, "[1]", 1),
    "Pattern": (re.Pattern, "a+", 1), "ByteSize": (P.ByteSize, 12, -1),
    "multiple_of": (P.conint(multiple_of=5), 10, 11),
    "multiple_of 0.5": (P.confloat(multiple_of=0.5), 1.5, 1.25),
    "ge, lt": (T.Annotated[int, Field(ge=1, lt=10)], 9, 10, 0),
    "constr": (P.constr(min_length=2, max_length=3, pattern="^[a-z]+$"), "ab", "a", "A1"),
    "look-ahead": (T.Annotated[str, P.WithJsonSchema({
        "type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{4,8}$"})], "Abc1"),
    "conlist": (P.conlist(int, min_length=1, max_length=2), [1], [], [1, 2, 3]),
    "model": (Inner, {"x": 1, "y": None}, {"y": "a"}),
    "list of models": (T.List[Inner], [{"x": 1}], [{}]),
    "discriminator": (T.Annotated[T.Union[Cat, Dog], Field(discriminator="kind")],
                      {"kind": "dog", "s": "x"}, {"kind": "dog", "n": 1}),
    "recursive": (Node, {"v": 1, "kids": [{"v": 2, "kids": []}]}, {"v": 1, "kids": [1]}),
    "extra forbid": (Forbid, {"a": 1}, {"a": 1, "b": 2}),
    "Any": (T.Any, [1]), "deque": (collections.deque[int], [1], ["x"]),
    "Mapping": (T.Mapping[str, int], {"a": 1}, {"a": "x"}),
    "JsonValue": (P.JsonValue, {"a": [None]}),
}


def pydantic_rows():
    for name, (kind, *documents) in PYDANTIC.items():
        model = P.create_model("M", f=(kind, ...))
        rows = []
        for d in documents:
            text = json.dumps({"f": d})
            try:
                model.model_validate_json(text)
                rows.append((json.loads(text), True))
            except P.ValidationError:
                rows.append((json.loads(text), False))
        yield name, model.model_json_schema(), rows


def zod_rows(folder):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                          "make_client_schemas.mjs")
    out = subprocess.run(["node", script, os.path.abspath(folder)], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    for line in out.splitlines():
        row = json.loads(line)
        yield row["name"], row["schema"], row["documents"]


def exact(v):
    """With decimals, for 0.07 is a multiple of 0.01."""
    return json.loads(json.dumps(v), parse_float=decimal.Decimal)


def main():
    rows = [("zod " + n, s, d) for n, s, d in zod_rows(sys.argv[1])]
    rows += [("pydantic " + n, s, d) for n, s, d in pydantic_rows()]
    for name, schema, documents in rows:
        judge = jsonschema.Draft202012Validator(
            exact(schema), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        print("S\t" + json.dumps(schema, ensure_ascii=False))
        n = 0
        for document, is_valid in documents:
            try:
                is_also = judge.is_valid(exact(document))
            except re.error:  # a pattern that only JavaScript has
                is_also = is_valid
            if is_also != is_valid:
                print("left out: %s: %r" % (name, document), file=sys.stderr)
                continue
            n += 1
            print("%d%d\t%s" % (is_valid, is_valid, json.dumps(document, ensure_ascii=False)))
        assert n > 0, name


main()
