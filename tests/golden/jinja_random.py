#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random templates against jinja2:

    jinja_random.py COUNT SEED FILE && build/tests/unit/jinja/test_jinja FILE

writes COUNT cases with what jinja2 makes of them. Cases about which the two differ on
purpose are not made: integers beyond 64 bits, generators printed by address."""
import copy
import json
import random
import re
import sys
import warnings

from jinja_env import make_env, render

CONTEXT = {
    "a": 3, "b": -2, "c": 2.5, "s": "hello World", "u": "Ünï é漢", "e": "", "t": True, "f": False,
    "no": None, "l": [3, 1, 2], "w": ["b", "A", "a"], "d": {"k": "v", "x": 1, "n": None},
    "m": [{"r": "user", "c": "one", "n": 1}, {"r": "sys", "c": " two ", "n": 2}, {"r": "user", "c": "", "n": 1}],
}
NAMES = list(CONTEXT) + ["undef", "x", "y"]
STRINGS = ["''", "'a'", "'-'", "'ab c'", "'é'", "' x '", "'a,b'", "'%s'", "'{}'", "'A1'", "'12'", "'1.5'"]
NUMBERS = ["0", "1", "2", "-1", "3", "7", "10", "0.5", "1.0", "2.5", "-3.25", "1e3"]
FILTERS = ["abs", "capitalize", "default('D')", "d(1, true)", "dictsort", "e", "first", "float", "int", "items | list", "join", "join('-')",
           "join(',', attribute='r')", "last", "length", "list", "lower", "map('upper') | list", "map(attribute='c') | list", "max", "min",
           "reject | list", "replace('a', 'b')", "reverse | list", "reverse", "select | list", "selectattr('r', 'eq', 'user') | list",
           "rejectattr('n', 'gt', 1) | list", "sort", "sort(reverse=true)", "sort(attribute='n')", "string", "sum", "sum(attribute='n')", "title", "tojson",
           "tojson(indent=1)", "trim", "unique | list", "upper", "indent(1)",
           "count", "string | length", "tojson(sort_keys=true)", "select('string') | list", "select('odd') | list", "map('int') | list"]
TESTS = ["defined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "boolean", "true", "false", "odd", "even",
         "divisibleby 2", "in [1, 2]", "in 'abc'", "eq 1", "ne 'a'", "gt 1", "undefined", "sameas none", "callable"]
METHODS = ["split()", "split(',')", "strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "startswith('a')", "endswith('d')", "find('o')",
           "replace('l', 'L', 1)", "get('k')", "get('q', 1)", "keys() | list", "values() | list", "items() | list", "format(1)",
           "join(['p', 'q'])", "splitlines()", "rsplit('o', 1)", "capitalize()", "rfind('l')"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, choices):
        return self.r.choice(choices)

    def atom(self):
        kind = self.r.random()
        if kind < 0.4:
            return self.pick(NAMES)
        if kind < 0.6:
            return self.pick(STRINGS)
        if kind < 0.8:
            return self.pick(NUMBERS)
        return self.pick(["true", "false", "none", "[]", "{}", "()", "[1, 2]", "{'a': 1}", "(1, 'a')", "range(4)", "range(3, 0, -1)"])

    def index(self):
        return self.pick(["0", "1", "-1", "5", "'k'", "'r'", "a", "1:", ":2", "::-1", ":-1", "-2:", "1:3", "::2", "2::-1", "b:", ":9"])

    def expr(self, depth):
        if depth <= 0:
            return self.atom()
        sub = lambda: self.expr(depth - self.r.randint(1, 2))  # noqa: E731
        kind = self.r.random()
        if kind < 0.30:
            return f"{sub()} {self.pick(BINARY)} {sub()}"
        if kind < 0.42:
            return f"({sub()})"
        if kind < 0.57:
            return f"{self.pick(['', '(']) and '(' + sub() + ')' or self.atom()} | {self.pick(FILTERS)}"
        if kind < 0.66:
            return f"{sub()} is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind < 0.74:
            return f"({sub()}).{self.pick(METHODS)}"
        if kind < 0.82:
            index, of = self.index(), f"({sub()})"
            if ":" in index:  # slices of constants are folded, by other rules
                of = self.pick([self.pick(NAMES), f"({self.pick(NAMES)} or {sub()})", f"({self.pick(NAMES)} ~ {sub()})"])
            return f"{of}[{index}]"
        if kind < 0.86:
            return f"{sub()} if {sub()} else {sub()}"
        if kind < 0.89:
            return f"{sub()} if {sub()}"
        if kind < 0.92:
            return f"{self.pick(['not ', '-', '+'])}{sub()}"
        if kind < 0.95:
            return f"[{sub()}, {sub()}]"
        if kind < 0.97:
            return "{" + f"{self.pick(STRINGS)}: {sub()}" + "}"
        return f"({self.atom()}).{self.pick(['k', 'x', 'r', 'c', 'nope', 'items', 'get'])}"

    def gap(self):
        return self.pick(["", "", "", " ", "\n", "  \n", "\n  ", "t", "é "])

    def tag(self, body):
        return "{%" + self.pick(["", "", "-", "+"]) + " " + body + " " + self.pick(["", "", "-", "+"]) + "%}" + self.gap()

    def out(self, depth):
        return "{{" + self.pick(["", "", "-"]) + " " + self.expr(depth) + " " + self.pick(["", "", "-"]) + "}}" + self.gap()

    def body(self, depth):
        return self.gap() + "".join(self.stmt(depth - 1) for _ in range(self.r.randint(1, 3)))

    def stmt(self, depth):
        kind = self.r.random() if depth > 0 else self.r.random() * 0.45
        name = self.pick(["x", "y", "a", "s", "q"])
        if kind < 0.25:
            return self.out(2)
        if kind < 0.38:
            return self.tag(f"set {name} = {self.expr(2)}")
        if kind < 0.41:
            return "{{ " + name + " }}"
        if kind < 0.45:
            return "{{ loop.%s }}" % self.pick(["index", "last", "first", "length", "revindex", "previtem", "nextitem"]) if self.r.random() < .5 else "{#- c -#} "
        if kind < 0.60:
            text = self.tag(f"if {self.expr(2)}") + self.body(depth)
            if self.r.random() < 0.3:
                text += self.tag(f"elif {self.expr(1)}") + self.body(depth)
            if self.r.random() < 0.5:
                text += self.tag("else") + self.body(depth)
            return text + self.tag("endif")
        if kind < 0.78:
            over = self.pick(["l", "m", "w", "s", "d", "range(3)", "[]", "undef", "d.items()", self.expr(1)])
            cond = f" if {self.expr(1)}" if self.r.random() < 0.2 else ""
            text = self.tag(f"for {name} in {over}{cond}") + self.body(depth)
            if self.r.random() < 0.2:
                text += self.tag(f"if {self.expr(1)}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + "."
            if self.r.random() < 0.2:
                text += self.tag("else") + self.body(depth)
            return text + self.tag("endfor")
        if kind < 0.84:
            return self.tag(f"set {name}") + self.body(depth) + self.tag("endset")
        if kind < 0.90:
            params = self.pick(["", "p", "p, r=1", "p=2"])
            args = self.pick(["", "1", "1, 2", "p=5", "r=3", "'z', r='w'"])
            return self.tag(f"macro mac({params})") + self.body(depth) + "{{ p }}{{ r }}" + self.tag("endmacro") + "{{ mac(" + args + ") }}"
        if kind < 0.95:
            return self.tag(f"with {name} = {self.expr(1)}") + self.body(depth) + self.tag("endwith")
        return self.tag(f"filter {self.pick(['upper', 'trim', 'length', 'title', 'reverse'])}") + self.body(depth) + self.tag("endfilter")

    def template(self):
        if self.r.random() < 0.5:
            return "{{ " + self.expr(4) + " }}"
        return "".join(self.stmt(3) for _ in range(self.r.randint(1, 4)))


# Printed addresses, numbers too long.
UNSAID = re.compile(r" at 0x|bound method|built-in method|<function|\d{19}|<class|Markup|iterator object|generator|Exceeds the limit")


def main():
    warnings.simplefilter("ignore")  # templates that are foolish Python
    count, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    env, maker, cases = make_env(), Maker(seed), []
    while len(cases) < count:
        template = maker.template()
        kind, text = render(env, template, copy.deepcopy(CONTEXT))
        if UNSAID.search(text) or len(text) > 5000:
            continue
        cases.append({"template": template, **({"output": text} if kind == "ok" else {"error": kind})})
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"context": CONTEXT, "cases": cases}, f, ensure_ascii=False, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
