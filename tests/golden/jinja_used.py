#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What chat templates use of Jinja:

    jinja_used.py FOLDER > jinja_used.tsv

reads each file of the folder as a template. It prints how many of them use each filter,
test, method, function and attribute of `loop`. Templates are downloaded by hand: tools,
collections and model repositories publish them. Needs jinja2 3.1.

halod knows what is listed, and little more (src/jinja). A name that is none of Jinja's,
and that halod refuses, has the count `refused`."""
import collections
import os
import sys

import jinja2
from jinja2 import meta, nodes

from jinja_env import make_env

NOT_JINJA = {("filter", "from_json"), ("filter", "regex_replace")}
ARGUMENT = {"map": ("filter", 0), "select": ("test", 0), "reject": ("test", 0),
            "selectattr": ("test", 1), "rejectattr": ("test", 1)}


def uses_of(tree, macros):
    """Yields (kind, name) for each use."""
    for x in tree.find_all((nodes.Call, nodes.Filter, nodes.Test, nodes.Getattr)):
        if isinstance(x, nodes.Getattr):
            if isinstance(x.node, nodes.Name) and x.node.name == "loop":
                yield "loop", x.attr
        elif isinstance(x, nodes.Test):
            yield "test", x.name
        elif isinstance(x, nodes.Filter):
            yield "filter", x.name
            kind, i = ARGUMENT.get(x.name, (None, 0))
            if kind and len(x.args) > i and isinstance(x.args[i], nodes.Const):
                yield kind, x.args[i].value
        elif isinstance(x.node, nodes.Getattr) and not isinstance(x.node.node, nodes.ExtensionAttribute):
            is_loop = isinstance(x.node.node, nodes.Name) and x.node.node.name == "loop"
            if not is_loop:
                yield "method", x.node.attr
        elif isinstance(x.node, nodes.Name) and x.node.name not in macros:
            yield "global", x.node.name


def main():
    env, counts, n = make_env(), collections.Counter(), 0
    known = set(env.globals) | {"caller"}
    for name in sorted(os.listdir(sys.argv[1])):
        with open(os.path.join(sys.argv[1], name), encoding="utf-8") as f:
            source = f.read()
        try:
            tree = env.parse(source)
        except jinja2.TemplateSyntaxError as e:
            print(f"{name}: {e}", file=sys.stderr)
            continue
        if not meta.find_undeclared_variables(tree) & {"messages", "message"}:
            continue
        n += 1
        macros = {m.name for m in tree.find_all(nodes.Macro)} | {"caller"}
        counts.update({u for u in uses_of(tree, macros) if u[0] != "global" or u[1] in known})
    print(f"# Of {n} published chat templates, so many use it. Written by jinja_used.py.")
    for use, count in sorted(counts.items(), key=lambda u: (u[0][0], -u[1], u[0][1])):
        print(*use, "refused" if use in NOT_JINJA else count, sep="\t")


if __name__ == "__main__":
    main()
