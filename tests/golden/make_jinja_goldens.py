#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/jinja/*.json: templates, contexts and what jinja2 makes of
them. Run it after changing a case; the files are in the tree, so that the C test
needs no Python.

A case is a template, or (template, context). Cases that jinja2 refuses are kept
with their kind of error: "compile" (E_FORMAT) or "render" (E_TEMPLATE)."""
import json
import os
import sys

from jinja_env import make_env, render
import jinja_chats

HERE = os.path.dirname(os.path.abspath(__file__))

CONTEXT = {
    "s": "hello", "u": "Größe ÉA ﬁ ß 漢字", "e": "", "n": 7, "f": 2.5, "t": True,
    "no": None, "l": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3, [4]]],
    "d": {"a": 1, "b": "two", "items": "shadow", "none": None, "z": [1, {"k": "v"}]},
    "users": [
        {"name": "John", "age": 30, "tags": ["x"], "city": {"name": "Rome"}},
        {"name": "ann", "age": 25, "tags": [], "city": {"name": "Bern"}},
        {"name": "Bob", "age": 30, "tags": ["y", "z"], "city": {"name": "Rome"}},
    ],
    "html": "<a href=\"x\">'T&C'</a>", "text": "first line\nsecond\n\nlast line",
    "big": 9007199254740993, "special": "<|im_start|>",
}

LEXER = [
    "a{{ 1 }}b", "{{1}}", "x\n", "x\n\n", "\nx", "{{ 1 }}\n", "{{ 1 }}\n\n",
    "{% if true %}\nyes\n{% endif %}\n", "  {% if true %}  \n yes\n  {% endif %}x",
    "a  {% if true %}b{% endif %}", "\t{% if true %}\n\tb\n\t{% endif %}",
    "a\n   {%- if true -%}\n  b  \n {%- endif %}c", "a {{- 1 -}} b", "a {{ 1 -}} \n\n b",
    "a\n\n {{- 1 }} b", "  {%+ if true %}x{% endif %}", "{% if true +%}\nx{% endif %}",
    "{% if true -%}\n\n\n   x{% endif %}", "{# c #}x", "  {# c #}\nx", "a {#- c -#} b",
    "  {#+ c +#}\nx", "{# {{ no }} {% x %} #}x", "{# a\nb\nc #}{{ 1 }}", "{#-#}x",
    "{% raw %}{{ x }}{% y %}{# z #}{% endraw %}", "a {%- raw -%}  {{ x }} {%- endraw -%} b",
    "{% raw %}\nx\n{% endraw %}\ny", "  {% raw %}x{% endraw %}", "{%raw%}a{%endraw%}",
    "{% raw %}  \n  {% endraw %}z", "  {%+ raw %}x{%+ endraw +%}\ny",
    "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ '}}' }}", "{{ \"%}\" }}",
    "{{ 'a' 'b' \"c\" }}", r"{{ 'a\nb\tc\\d\'e' }}", r'{{ "q\"q" }}', r"{{ '\x41\u00e9\U0001F600\101' }}",
    r"{{ '\q\ ' }}", "{{ 'line1\nline2' }}", r"{{ '\ud83d' }}|".replace("d83d", "0041"),
    "{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000_000 }} {{ 0 }} {{ 00 }}", "{{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1_0.2_5 }} {{ 2E+2 }}",
    "{{ 1.0 }} {{ 100000000000000000.0 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 0.0001 }} {{ 0.00001 }}",
    "{{ 1e308 * 10 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 2.0 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}",
    "{{ users.0.name }} {{ l.2 }}", "a\r\nb\rc{{ 1 }}\r\n", "{{ größe }}", "{{ 1 }}{{ 2 }}\n{{ 3 }}",
    "{%if true%}x{%endif%}", "{%- if true -%} x {%- else -%} y {%- endif -%}", "{{-1}} {{- 1}} {{+1}}",
    "{% if true: %}x{% endif %}", "{{ '{{ x }}' }}", "{ { x } }", "{", "{{ '{%' }}", "a{b}c{d", "{%% x",
    "   {% set x = 1 %}   {{ x }}", "{% set x = 1 %}\n{% set y = 2 %}\n{{ x }}{{ y }}\n", "\n\n{% if true %}\n\n\n{% endif %}\n\n",
    "  {{ 1 }}", "x  {#- c #}  y", "<div>\n    {% for i in [1,2] %}\n    <p>{{ i }}</p>\n    {% endfor %}\n</div>",
    "{% for i in [1,2] -%}\n  {{ i }}\n{%- endfor %}", "\u2003{%- if true %}x{% endif -%}\u00a0y", "{{ l[0]}}{{l [1] }}",
    "{# unclosed", "{% raw %}x", "{{ 1", "{% if true %}", "{{ 'x }}", "{{ 1 ] }}", "{{ ( }}", "{{ @ }}", "{% %}",
    "{{ }}", "{% nosuch %}", "{% endif %}", "{% for %}", "{{ 1 2 }}", "{{ a b }}", "{% if %}x{% endif %}", "{{ 01 }}",
    "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set a.b.c = 2 %}", "{% for x in %}{% endfor %}", "{% macro x(1) %}{% endmacro %}",
    "{{ x. }}", "{{ x[ }}", "{{ x | }}", "{{ x is }}", "{{ not }}", "{{ 1 + }}", "{{ {1:} }}", "{{ {1} }}", "{% else %}",
    "{% if 1 %}{% endfor %}", "{{ f(a=1, 2) }}", "{{ f(**a, *b) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% break %}",
    "{{ \"\\N{BULLET}\" }}x".replace("\\N{BULLET}", "\\u2022"), "{{ 1 is defined is true }}", "{% call x %}{% endcall %}",
]

EXPRESSIONS = [
    "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }}",
    "{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1 / 4 }} {{ 4 / 2 }}",
    "{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 'x' * -1 }}|",
    "{{ 1 ~ 2 + 3 }}", "{{ 1 + 2 ~ 3 }}", "{{ 2 * 3 ~ 4 * 5 }}", "{{ 'a' ~ 'b' * 2 }}", "{{ 1 == 1.0 }} {{ 1 == true }} {{ '1' == 1 }} {{ none == false }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 < 2 > 1 }} {{ 'a' < 'b' }} {{ [1,2] < [1,3] }} {{ (1,) <= (1,) }} {{ 1 != 2 }}",
    "{{ 1 in l }} {{ 9 in l }} {{ 9 not in l }} {{ 'ell' in s }} {{ 'a' in d }} {{ 'q' not in d }} {{ not 1 in l }} {{ '' in '' }}",
    "{{ true and false or true }} {{ not true or true }} {{ not (true or true) }} {{ 0 or 'x' }} {{ 'y' and 'z' }} {{ '' and 'z' }}| {{ none or 0 or [] or '' }}|",
    "{{ 1 if true }} {{ 1 if false }}| {{ 1 if false else 2 }} {{ 'a' if false else 'b' if false else 'c' }} {{ (1 if true else 2) + 1 }}",
    "{{ 1 if false else 2 if true else 3 }}", "{{ 'a' if t else 'b' ~ 'c' }}", "{{ ('a' if t else 'b') ~ 'c' }}", "{{ x if x is defined else 'd' }}",
    "{{ -1 | abs }} {{ -(1) }} {{ +1 }} {{ --1 }} {{ - 1.5 }} {{ +true }} {{ -true }} {{ not not 1 }}", "{{ 1 + -1 }}", "{{ 2*-3 }}",
    "{{ n is defined and n > 5 }} {{ missing is defined }} {{ n is not none }} {{ not n is none }} {{ n is odd and f is float }}",
    "{{ s.upper() }} {{ s['upper']() }} {{ d.a }} {{ d['a'] }} {{ d.items is string }} {{ d['items'] }} {{ d.get('b') }} {{ d.nope }}|{{ d['nope'] }}|",
    "{{ l[0] }} {{ l[-1] }} {{ l[9] }}| {{ s[0] }} {{ s[-1] }} {{ s[99] }}| {{ (1,2)[1] }} {{ nested[1][1][0] }} {{ l['x'] }}|",
    "{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[-2:] }} {{ l[5:] }} {{ s[1:3] }} {{ s[::-1] }} {{ s[-3:-1] }} {{ s[4:1:-1] }} {{ (1,2,3)[::-2] }}",
    "{{ u[0:5] }} {{ u[-2:] }} {{ u[::-1] }} {{ u[1::3] }} {{ u[2] }} {{ u|length }}", "{{ l[none:none] }} {{ l[:] }} {{ l[1:2:1] }} {{ s[100:] }}| {{ s[-100:2] }} {{ s[2:-100:-1] }}",
    "{{ range(10)[2:8:3] | list }} {{ range(5)[-1] }} {{ range(3) }} {{ range(1, 10, 2) }} {{ range(5, 0, -2) | list }}",
    "{{ [1, 'a', none, true, 1.5, [], {}, (), (1,), 'it\\'s', \"q\\\"q\", '\\n'] }}", "{{ {'a': 1, 2: 'b', none: [1], true: {}} }}", "{{ (1, 2) }} {{ () }} {{ 1, 2 }} {{ (1) }} {{ [1,] }}",
    "{{ {'b': 1, 'a': 2}.keys() | list }} {{ {'b': 1}.values() }} {{ {'b': 1}.items() }} {{ d.keys() }}", "{{ {1: 'a', 1.0: 'b', true: 'c'} }}", "{{ {'a': 1, 'a': 2} }}",
    "{{ users[0].city.name }} {{ users[0]['city']['name'] }} {{ users[0].nope }}| {{ (users|first).name }} {{ users[1:][0].age }}",
    "{{ missing }}|{{ missing | default('x') }}|{{ missing == none }}|{{ missing == missing2 }}|{{ not missing }}|{{ missing is undefined }}|{{ [missing] }}|{{ missing ~ 'x' }}",
    "{{ missing.x }}", "{{ missing['x'] }}", "{{ missing + 1 }}", "{{ missing() }}", "{{ d.nope.x }}", "{{ missing < 1 }}", "{{ -missing }}", "{{ 1 in missing }}", "{{ 'a' + missing }}", "{{ missing in l }}",
    "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ [1] + (1,) }}", "{{ none + 1 }}", "{{ 1 < 'a' }}", "{{ none < 1 }}", "{{ 1 / 0 }}", "{{ 1 // 0 }}", "{{ 1 % 0 }}", "{{ 1.0 / 0 }}", "{{ {} < {} }}", "{{ -'a' }}", "{{ 'a' - 'b' }}", "{{ 'a' * 'b' }}", "{{ 1 in 1 }}", "{{ 1 in 'a' }}", "{{ n() }}", "{{ none.x }}|{{ none['x'] }}|{{ n.x }}|", "{{ no[1:] }}", "{{ d[1:] }}", "{{ l['a':] }}", "{{ {[]: 1} }}", "{{ [] in {} }}",
    "{{ big }} {{ big + 1 }} {{ big == 9007199254740992.0 }} {{ 9007199254740992 == 9007199254740992.0 }}", "{{ n.__class__ }}|{{ s.__len__ }}|", "{{ s.__class__.__mro__ }}", "{{ d.__x }}|",
    "{{ true + true }} {{ true * 3 }} {{ 'abc' == \"abc\" }} {{ [1,2] == [1,2] }} {{ {'a':[1]} == {'a':[1]} }} {{ (1,) == [1] }} {{ [1] != [2] }}",
    "{{ 'a,b'.split(',')[1] }} {{ (s ~ 'x').upper() }} {{ 'x'.join(['a','b']) }} {{ [1,2,3][1:][0] }} {{ {'a': 1}['a'] }} {{ 'abc'[1] }} {{ \"%s-%d\" % ('a', 5) }} {{ '%s' % 'x' }}",
    "{{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'a': 1}, b=2) }} {{ dict() }}", "{{ range(3) | sum }} {{ range(0) | list }} {{ range(2) == range(0, 2) }} {{ 1 in range(3) }} {{ range(3) | length }} {{ range(3) is sequence }}",
    "{{ 1.0 is integer }} {{ 1 is integer }} {{ true is integer }} {{ 1.5 is number }} {{ true is number }}", "{{ 2 is divisibleby 2 }} {{ 3 is divisibleby(2) }} {{ 2 is in [1, 2] }} {{ 2 is not in [1] }} {{ 1 is eq 1 }} {{ 1 is lt(2) }} {{ 2 is ge 2 }} {{ 'a' is ne 'b' }} {{ 3 is sameas 3 }} {{ none is sameas none }} {{ [] is sameas [] }}",
    "{{ f(1) }}", "{{ [[1, 2], [3]] | sum(start=[]) }}", "{{ ['a', ['b']] | string }}", "{{ 5 | string ~ 'x' }}", "{{ 'x' ~ 5 | string | upper }}", "{{ 1 == 1 == 1 }} {{ 3 > 2 == 2 }} {{ 1 != 1 != 1 }}",
    "{{ 'abc' is string and 'abc' | length == 3 }}", "{{ not missing and 'ok' }}", "{{ (missing or {}).x }}|", "{{ [1, 2, 3] | map('string') | join('-') }}", "{{ users | selectattr('age', 'gt', 26) | map(attribute='name') | list }}",
    "{{ 1 if 2 is odd else 3 if 4 is even else 5 }}", "{{ [x for x in l] }}", "{{ l is iterable and l is not mapping and l is sequence }}", "{{ a if b }}|", "{{ (a if b) is undefined }}", "{{ s is string or n.x.y }}", "{{ 10 - 2 - 3 }} {{ 100 / 10 / 2 }} {{ 2 * 3 % 4 }}",
    "{{ 1_0 + 0x10 }}", "{{ [1,2,3,4][1:3] ~ [][0:1] }}", "{{ 'ab'[5:] ~ '|' }}", "{{ ((((1)))) }}", "{{ [ [ ] , { } ] }}", "{{ {'k': [1, {'j': (1,)}]}['k'][1].j[0] }}", "{{ l | first + l | last }}", "{{ -5 % 3 }} {{ 5.5 % -2 }} {{ -0.0 % 3 }} {{ 6 // -4 }}", "{{ 0.1 * 3 }} {{ 1e22 }} {{ 1e21 + 1 }} {{ 123456.789e3 }}", "{{ 3 == 3.0000000000000001 }}",
]

TESTS = [
    "{{ %s is %s }}" % (v, t)
    for t in ("defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence",
              "iterable", "boolean", "true", "false", "callable")
    for v in ("1", "1.5", "'a'", "none", "true", "false", "[]", "{}", "()", "missing", "range(2)", "range", "(l|map('string'))", "d.items()", "namespace(a=1)")
] + [
    "{{ 3 is odd }} {{ 3 is even }} {{ -3 is odd }} {{ 2.0 is even }}",
    "{{ 1 is equalto 1 }} {{ 1 is eq(1.0) }} {{ 'a' is == 'a' }}", "{{ 1 is equalto(1) }} {{ 2 is gt 1 }} {{ 2 is greaterthan(1) }} {{ 1 is lessthan 2 }} {{ 1 is le 1 }} {{ 'trim' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }}",
    "{{ 1 is nosuch }}", "{% if false %}{{ 1 is nosuch }}{% endif %}ok", "{{ 1 if true else (1 is nosuch) }}", "{{ 'a' is odd }}", "{{ 1 is divisibleby 0 }}", "{{ 1 is in 1 }}", "{{ missing is string }}", "{{ 'x' is in 'xyz' }}", "{{ 'a' is in d }}", "{{ 1 is gt 'a' }}", "{{ x is defined }}{% set x = 1 %}{{ x is defined }}", "{{ d.a is defined }} {{ d.q is defined }} {{ d.q is none }}", "{{ 'x' is escaped }}",
    "{% macro m() %}{% endmacro %}{{ m is callable }} {{ s.upper is callable }}", "{% for x in [1] %}{{ loop is defined }}{{ loop.index is number }}{{ loop is iterable }}{% endfor %}",
]

FILTERS = [
    "{{ -5 | abs }} {{ -1.5 | abs }} {{ true | abs }}", "{{ 'x' | abs }}", "{{ 'hELLO wORLD' | capitalize }} {{ u | capitalize }} {{ e | capitalize }}|{{ 5 | capitalize }}",
    "{{ l | count }} {{ d | length }} {{ u | length }} {{ e | length }} {{ missing | length }} {{ (1,2) | length }} {{ d.items() | length }}", "{{ 5 | length }}", "{{ (l | map('string')) | length }}",
    "{{ missing | default }}|{{ missing | default('x') }} {{ missing | d(1) }} {{ none | default('x') }} {{ '' | default('x', true) }} {{ '' | d('x', boolean=true) }} {{ 0 | default(5) }} {{ false | default('f', true) }} {{ default_value | default(default_value='q') }}",
    "{{ d | dictsort }} {{ {'b':1,'A':2,'c':0} | dictsort }} {{ {'b':1,'A':2} | dictsort(true) }} {{ {'b':1,'A':2} | dictsort(by='value') }} {{ {'b':1,'A':2} | dictsort(false, 'key', true) }} {{ {'b':1,'A':2} | dictsort(reverse=true) }}", "{{ {'a':1} | dictsort(by='x') }}", "{{ {'a':1, 2:3} | dictsort }}",
    "{{ html | escape }} {{ html | e }} {{ 5 | e }}", "{{ l | first }} {{ s | first }} {{ [] | first }}| {{ d | first }} {{ missing | first }}|", "{{ l | last }} {{ s | last }} {{ [] | last }}| {{ (1,2) | last }} {{ range(4) | last }}", "{{ '1.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ '1e3' | float }} {{ ' 2 ' | float }} {{ '1_0' | float }} {{ none | float }} {{ true | float }} {{ 'inf' | float }} {{ 'nan' | float }} {{ '0x10' | float }}",
    "{{ '%s and %d' | format('a', 5) }} {{ '%(a)s' | format(a=1) }}", "{{ '%d' | format('x') }}", "{{ '%s' | format }}", "{{ 'a' | format(1) }}", "{{ '%r' | format('a') }} {{ '%10s|%-10s|' | format('é', 'é') }}",
        "{{ text | indent }}|{{ text | indent(2) }}|{{ text | indent(2, true) }}|{{ text | indent(2, true, true) }}|{{ text | indent('> ', first=true) }}|{{ '' | indent(2, true) }}|{{ 'a\n' | indent }}|{{ text | indent(width=1, blank=true) }}", "{{ 'a\\r\\nb\\x0cc' | indent(1) }}",
    "{{ '42' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ '-3.9' | int }} {{ ' 5 ' | int }} {{ '1_000' | int }} {{ none | int }} {{ true | int }} {{ '' | int }} {{ '1e3' | int }} {{ [] | int(9) }} {{ '1__0' | int }} {{ 'nan' | int }}", "{{ missing | int }}",
    "{{ d | items | list }} {{ missing | items | list }}", "{{ 5 | items | list }}", "{{ l | join }} {{ l | join(', ') }} {{ users | join(', ', attribute='name') }} {{ s | join('-') }} {{ [1, none, true, 1.5, [2]] | join('|') }} {{ d | join('+') }} {{ missing | join('x') }}| {{ users | join('/', 'city.name') }}",
    "{{ l | list }} {{ s | list }} {{ d | list }} {{ (1,2) | list }} {{ range(3) | list }} {{ missing | list }}", "{{ 5 | list }}", "{{ 'HeLLo' | lower }} {{ u | lower }}", "{{ 'HeLLo' | upper }} {{ 5 | upper }}", "{{ words | map('upper') | list }} {{ users | map(attribute='name') | list }} {{ users | map(attribute='nope', default='?') | list }} {{ users | map(attribute='tags.0') | list }} {{ users | map(attribute='city.name') | join(',') }} {{ [[1,2],[3,4]] | map(attribute=1) | list }} {{ [[3,1],[2]] | map('sort') | list }} {{ ['a-b'] | map('replace', '-', '+') | list }} {{ [none] | map('default', 'x', true) | list }} {{ [] | map('upper') | list }}", "{{ l | map | list }}", "{{ l | map('nosuch') | list }}", "{{ l | map(attribute='x', foo=1) | list }}",
    "{{ l | max }} {{ l | min }} {{ words | max }} {{ words | min }} {{ words | max(case_sensitive=true) }} {{ users | max(attribute='age') }} {{ users | min(attribute='name') }} {{ [] | max }}| {{ [] | min }}| {{ [1, 2.5] | max }} {{ [1, 1.0] | max }} {{ [1.0, 1] | min }}", "{{ [1, 'a'] | max }}",
    "{{ l | reject('odd') | list }} {{ l | reject | list }} {{ [0, 1, '', 'a'] | reject | list }} {{ users | rejectattr('tags') | map(attribute='name') | list }} {{ users | rejectattr('age', 'eq', 30) | map(attribute='name') | list }}", "{{ 'a-b-c' | replace('-', '+') }} {{ 'aaa' | replace('a', 'b', 2) }} {{ 'abc' | replace('', '-') }} {{ 5 | replace(5, 6) }} {{ 'aaa' | replace('a', 'b', count=1) }} {{ 'x' | replace('y', 'z') }} {{ 'aXbX' | replace('X', '') }} {{ 'abc' | replace('', '-', 2) }}",
    "{{ l | reverse | list }} {{ s | reverse }} {{ u | reverse }} {{ d | reverse | list }} {{ (1,2) | reverse | list }} {{ range(3) | reverse | list }}", "{{ 5 | reverse }}", "{{ (l | reverse) | length }}", "{{ '<b>' | safe }} {{ 5 | safe }}",
    "{{ l | select('odd') | list }} {{ l | select('gt', 1) | list }} {{ [0, 1, none, 'a'] | select | list }} {{ [1, 'a', none] | select('string') | list }} {{ l | select('in', [1, 2]) | list }} {{ users | selectattr('tags') | map(attribute='name') | list }} {{ users | selectattr('age', 'equalto', 30) | map(attribute='name') | list }} {{ users | selectattr('city.name', '==', 'Bern') | list | length }} {{ users | selectattr('nope', 'defined') | list }} {{ users | selectattr('name', 'in', ['Bob']) | map(attribute='age') | first }}", "{{ l | select('nosuch') | list }}", "{{ l | selectattr }}{{ l | selectattr | list }}", "{% if [] | select %}true{% else %}false{% endif %} {% if l | select('gt', 9) %}true{% endif %} {% if [] %}x{% else %}empty{% endif %}",
    "{{ l | sort }} {{ l | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ users | sort(attribute='name') | map(attribute='name') | list }} {{ users | sort(true, attribute='age') | map(attribute='name') | list }} {{ [[2,1],[1,2]] | sort }} {{ s | sort }} {{ d | sort }} {{ [1.5, 1, true] | sort }} {{ [[2,'a'],[1,'b']] | sort(attribute=1) }}", "{{ [1, 'a'] | sort }}", "{{ [none, 1] | sort }}",     "{{ 5 | string }} {{ none | string }} {{ [1, 'a'] | string }} {{ 1.0 | string }} {{ missing | string }}| {{ true | string | length }}", "{{ l | sum }} {{ [] | sum }} {{ [1, 2.5] | sum }} {{ users | sum(attribute='age') }} {{ l | sum(start=10) }} {{ [] | sum(start=1.5) }}", "{{ ['a'] | sum }}", "{{ ['a'] | sum(start='') }}", "{{ 'hello world-foo (bar) [x] {y} <z> it\\'s o\\'neil' | title }} {{ 'FOO bAR' | title }}",
    "{{ '  a b  ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ 'xyaxy' | trim('yx') }} {{ 5 | trim }} {{ '\\n\\t a\\u2003' | trim }}| {{ '' | trim }}| {{ none | trim }} {{ '  x' | trim(none) }}",     "{{ [1, 2, 1, 'a', 'A', 'b'] | unique | list }} {{ words | unique(case_sensitive=true) | list }} {{ users | unique(attribute='age') | map(attribute='name') | list }} {{ [1, 1.0, true] | unique | list }}", "{{ [[1]] | unique | list }}",     "{{ 5 | nosuch }}", "{% if false %}{{ 5 | nosuch }}{% endif %}ok", "{% if true %}{{ 5 | nosuch }}{% endif %}", "{{ l | join(', ') | upper | replace(',', ';') }}", "{{ l | default([]) | first | string | length }}", "{{ none | upper }} {{ true | lower }} {{ missing | upper }}|{{ missing | trim }}|{{ missing | replace('a', 'b') }}|{{ missing | title }}|{{ missing | capitalize }}|", "{{ l | first('x') }}", "{{ s | upper(1) }}", "{{ s | default(foo=1) }}", "{{ s | replace }}",
    "{{ '%s' % [1] }} {{ '%s %s' % (1, 2) }} {{ '%(a)s' % {'a': 5} }} {{ 'x' % {} }} {{ '%d%%' % 50 }} {{ '%s' % none }} {{ '%s' % missing }}", "{{ '%d' % 'x' }}", "{{ '%s %s' % 1 }}", "{{ '%s' % (1, 2) }}", "{{ '%q' % 1 }}", "{{ '%' % 1 }}", "{{ 'abc' % 1 }}", "{{ '%(x)s' % {'a': 1} }}", ]

JSON = [
    "{{ d | tojson }}", "{{ users | tojson }}", "{{ users | tojson(indent=2) }}", "{{ d | tojson(indent=4) }}", "{{ [1, [], {}, [[]], {'a': {}}] | tojson(indent=1) }}", "{{ d | tojson(separators=(',', ':')) }}", "{{ {'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true) }}", "{{ {'b': [1, 2], 'a': 1} | tojson(indent=2, sort_keys=true, separators=(' ,', '= ')) }}",
    "{{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ '😀' | tojson(true) }} {{ html | tojson }} {{ text | tojson }}", "{{ '\\x00\\x01\\x1f\\x7f\\u2028 \\\\ \\\" / \\b\\f' | tojson }} {{ '\\x7f' | tojson(ensure_ascii=true) }}", "{{ [1.0, 1e20, 1e-7, 0.1, 100, -5, true, false, none] | tojson }}", "{{ [1e308 * 10, -1e308 * 10] | tojson }}", "{{ {1: 'a', 1.5: 'b', true: 'c', none: 'd'} | tojson }}", "{{ (1, 'a') | tojson }}", "{{ missing | tojson }}", "{{ range(3) | tojson }}", "{{ (l | map('string')) | tojson }}", "{{ (l | map('string') | list) | tojson }}", "{{ {(1,): 2} | tojson }}", "{{ 5 | tojson }} {{ 'a' | tojson }} {{ none | tojson }} {{ true | tojson }}", "{{ d | tojson(indent='--') }}", "{{ l | tojson(indent=0) }}", "{{ d.items() | list | tojson }}", "{{ special | tojson }}", "{{ {'a': 1, 2: 3} | tojson(sort_keys=true) }}", "{{ namespace(a=1) | tojson }}",
]

METHODS = [
    "{{ '{:d}|{:5d}|{:05d}|{:.2f}|{:8.3f}|{:08.1f}|{:s}|{:5s}|{:f}'.format(42, 42, -42, 3.14159, 2.5, -2.25, 'a', 'é', 1) }} {{ '<|image_{i:d}|>'.format(i=3) }} {{ '{}{}'.format(none, [1.5]) }}",
    "{{ '%d|%5d|%-5d|%05d|%i|%.2f|%8.3f|%-8.1f|%08.2f|%s|%5s|%-5s|%r|%%' % (1, 2, 3, -4, 5.9, 3.14159, 2.5, 2.25, -1.5, none, 'é', 'x', 'q') }}", "{{ '{}'.format() }}", "{{ '{1}'.format(1) }}", "{{ '{0}{}'.format(1, 2) }}", "{{ '{}{0}'.format(1, 2) }}", "{{ '{a}'.format(b=1) }}", "{{ '{:d}'.format(1.5) }}", "{{ '{:d}'.format('x') }}", "{{ '{:s}'.format(5) }}", "{{ '{' | format }}",
    "{{ 'a b  c'.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ ' a b '.split() }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a b  c '.split(none, 1) }} {{ 'a--b-c'.split('--') }} {{ 'a b c'.split(maxsplit=1) }} {{ 'a,b'.split(sep=',') }} {{ ' a  b '.split(' ') }}", "{{ 'a b  c'.rsplit() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a,b,c'.rsplit(',') }} {{ ' a b '.split(none, 0) }}", "{{ 'x'.split('') }}", "{{ 'a\\nb\\r\\nc\\rd\\n'.splitlines() }} {{ 'a\\nb\\n'.splitlines(true) }} {{ ''.splitlines() }} {{ '\\n'.splitlines() }} {{ 'a\\x0bb\\x0cc\\u2028d'.splitlines() }}",
    "[{{ '  a '.strip() }}][{{ '  a '.lstrip() }}][{{ '  a '.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcab'.strip('ba') }}][{{ 'abc'.lstrip('ab') }}][{{ 'abc'.rstrip('cb') }}][{{ '\\n a\\t'.strip() }}][{{ 'éaé'.strip('é') }}][{{ ' a'.strip(none) }}]", "{{ s.startswith('he') }} {{ s.startswith('x') }} {{ s.startswith(('x', 'h')) }} {{ s.endswith('lo') }} {{ s.endswith(('a', 'o')) }} {{ s.startswith('') }}", "{{ s.startswith(1) }}",
    "{{ s.find('l') }} {{ s.find('z') }} {{ s.rfind('l') }} {{ u.find('ß') }} {{ s.count('l') }} {{ s.count('') }} {{ s.find('') }} {{ s.rfind('') }}", "{{ s.index('z') }}", "{{ 'a-b'.replace('-', '+') }} {{ 'aaa'.replace('a', 'b', 1) }} {{ 'abc'.replace('', '.') }} {{ ''.replace('', 'x') }} {{ 'a'.replace('a', '') }}|", "{{ 'a'.replace(1, 2) }}", "{{ 'Ab'.upper() }} {{ 'Ab'.lower() }} {{ 'hello wORLD it\\'s'.title() }} {{ 'hELLO'.capitalize() }} {{ u.lower() }} {{ 'ǆ'.title() }}",
    "{{ '{} {}'.format(1, 'a') }} {{ '{0} {1} {0}'.format('a', 'b') }} {{ '{a}-{b}'.format(a=1, b=2) }} {{ '{{}} {{ '{:{}} {{ '{}'.format(none) }} {{ '{:s}'.format('x') }} {{ '{}'.format(1.0) }} {{ '{:06.2f}'.format(-1.5) }}", "{{ '{}'.format() }}", "{{ '{a}'.format() }}", "{{ '{'.format() }}", "{{ '}'.format() }}", "{{ '{:d}'.format('a') }}", "{{ '{} {0}'.format(1) }}", "{{ '{:x}'.format(1.5) }}", "{{ '{!z}'.format(1) }}", "{{ '{:5}'.format([]) }}",
    "{{ 'a'.ljust(3, 'xx') }}", "{{ ','.join(['a', 'b']) }} {{ ''.join([]) }}| {{ '-'.join('abc') }} {{ ','.join(d) }} {{ ','.join(l | map('string')) }}", "{{ ','.join([1]) }}", "{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x'.removeprefix('y') }} {{ 'x.py'.removesuffix('.py') }} {{ 'x'.removesuffix('') }}",     "{{ d.get('a') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.keys() | list }} {{ d.values() | list }} {{ {'a': 1}.items() | list }} {{ d.get('none', 3) }}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "{{ d.get() }}", "{{ d.get([]) }}", "{{ l.index(9) }}", "{{ s.nosuch() }}", "{{ s.nosuch }}|", "{{ l.nosuch() }}", "{{ s.upper(1) }}", "{{ s.upper.x }}|", "{% set f = s.upper %}{{ f() }}", "{% set g = d.get %}{{ g('a') }}",
    "{{ 'éé'.title() }}",
]

# With methods that change lists and dicts, which transformers' sandbox refuses.
MUTATING = [
    "{% set x = [1, 2] %}{% set y = x %}{% set _ = y.append(3) %}{{ x }}{% set _ = x.extend([5, 6]) %}{{ x }}{{ y }}", "{% set x = [1] %}{% set _ = x.extend(x) %}{{ x }}",
    "{{ [{}, {}] | sort(attribute='x') | length }}",
    "{% set x = [] %}{{ x.append(1) }}{% set _ = x.append(2) %}{{ x }}", "{% set x = [1,2,3] %}{{ x.pop() }} {{ x.pop(0) }} {{ x }}", "{% set x = {'a': 1} %}{% set _ = x.update({'b': 2}) %}{% set _ = x.update(c=3) %}{{ x }} {{ x.pop('a') }} {{ x }} {{ x.pop('q', 9) }} {{ x.setdefault('n', 5) }} {{ x.setdefault('n', 6) }} {{ x }}", "{% set x = {} %}{{ x.pop('a') }}", "{% set x = [] %}{{ x.pop() }}", "{% set x = [1] %}{{ x.remove(2) }}", "{% set ns = namespace(l=[]) %}{% for i in range(3) %}{% set _ = ns.l.append(i * 2) %}{% endfor %}{{ ns.l }}", "{% set x = {'a': 1, 'b': 2, 'c': 3} %}{% set _ = x.pop('b') %}{% for k in x %}{{ k }}{% endfor %}{{ x | length }}{{ 'b' in x }}{% set _ = x.update({'b': 9}) %}{{ x }}{{ x | tojson }}", "{% set d2 = {} %}{% for i in range(40) %}{% set _ = d2.update({i: i * i}) %}{% endfor %}{{ d2[39] }} {{ d2 | length }} {% for i in range(30) %}{% set _ = d2.pop(i) %}{% endfor %}{{ d2 }}", "{% do x %}",
]

STATEMENTS = [
    "{% if n > 5 %}big{% elif n > 3 %}mid{% else %}small{% endif %}", "{% if n > 9 %}big{% elif n > 3 %}mid{% else %}small{% endif %}", "{% if missing %}x{% endif %}|", "{% if not l %}a{% elif l[0] == 3 and t %}b{% endif %}", "{% if 1, %}tuple{% endif %}", "{% if (1 if false) %}a{% else %}b{% endif %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}", "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in [] %}x{% else %}none{% endfor %}", "{% for x in l %}{{ x }}{% else %}none{% endfor %}", "{% for x in missing %}x{% else %}none{% endfor %}", "{% for x in 5 %}x{% endfor %}", "{% for x in none %}x{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}-{{ b }} {% endfor %}", "{% for k, v in d.items() %}{{ k }}:{{ v }};{% endfor %}", "{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}x{% endfor %}", "{% for a, b in [(1,)] %}x{% endfor %}", "{% for a, b in ['xy'] %}{{ a }}{{ b }}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for k in d %}{{ k }} {% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% endfor %}", "{% for x in l if x > 9 %}x{% else %}none{% endfor %}", "{% for x in l if x is odd %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}", "{% for x in range(6) if x % 2 %}{{ loop.previtem }}{{ x }}{{ loop.nextitem }};{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for x in [1,2] %}{% continue %}{% else %}else{% endfor %}", "{% for x in [1,2] %}{% break %}{% else %}else{% endfor %}", "{% for x in [1,2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}else{% endfor %}", "{% for x in [1,2] %}{% for y in [1,2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}", "{% for x in [1] %}{% for y in [] %}{% else %}{% break %}{% endfor %}never{% endfor %}ok", "{% for x in [1,2,3] %}{% set z %}{% if x == 2 %}{% continue %}{% endif %}v{{ x }}{% endset %}{{ z }}{% endfor %}", "{% for x in [1,2,3] %}{% filter upper %}a{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfilter %}{% endfor %}",
    "{% for x in [1] %}{{ loop([1]) }}{% endfor %}", "{% for x in [1,2] %}{% for y in [1,2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for x in [1,2] %}{% set outer = loop %}{% for y in [1,2] %}{{ outer.index }}.{{ loop.index }} {% endfor %}{% endfor %}", "{{ loop }}|", "{% for loop in [1] %}{% endfor %}", "{% for x in [1] %}{% set loop = 1 %}{% endfor %}", "{% for x in l %}{{ loop.nosuch }}|{% endfor %}",
    "{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% for i in [1,2] %}{% if i == 2 %}{% set x = 5 %}{% endif %}{{ x }}|{% endfor %}", "{% for i in [1] %}{{ s }}{% set s = 'new' %}{{ s }}{% endfor %}{{ s }}", "{% for i in [1,2] %}{% set s = 'new' ~ i %}{{ s }}{% endfor %}{{ s }}", "{% for i in [1] %}{{ x }}|{% endfor %}{% set x = 1 %}{{ x }}", "{{ s }}{% set s = 1 %}{{ s }}", "{% if false %}{% set s = 1 %}{% endif %}{{ s }}", "{% for i in [1] %}{% if false %}{% set s = 1 %}{% endif %}{{ s }}{% endfor %}", "{% for i in [1] %}{{ s }}{% endfor %}{% set s = 'later' %}{{ s }}", "{% set ns = namespace(x=1, y='a') %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns['x'] }}", "{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }} {{ ns }}", "{% set d.x = 1 %}", "{% set missing.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = [1, 2] %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a, b = 1 %}", "{% set x %}a{{ n }}b{% endset %}[{{ x }}]", "{% set x | upper %}abc{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aXa{% endset %}{{ x }}", "{% set ns = namespace(t='') %}{% set ns.t %}block{% endset %}{{ ns.t }}", "{% set s %}{{ s }}!{% endset %}{{ s }}", "{% set q = 'a' %}{% set q %}{{ q }}!{% endset %}{{ q }}", "{% set x %}  \n a \n{% endset %}[{{ x }}]", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}|",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='y') }} {{ m(b=5, a=6) }} {{ m() }}|", "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}{{ a is defined }}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}", "{% macro m() %}{{ s }}{% set s = 'in' %}{{ s }}{% endmacro %}{{ m() }}{{ s }}", "{% macro m() %}{{ i }}{% endmacro %}{% for i in [1,2] %}{{ m() }}|{% endfor %}", "{% for i in [1,2] %}{% macro m() %}<{{ i }}>{% endmacro %}{{ m() }}{% endfor %}", "{% if true %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% macro m() %}a{% endmacro %}{% set k = m %}{{ k() }}{{ m.name }}{{ m }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m('x') | upper }}{{ m('y') ~ m('z') }}", "{% macro m() -%}\n  x\n{%- endmacro %}[{{ m() }}]", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'b': 4}) }}{{ m(*[5], **{'b': 6}) }}{{ m(7, *[8]) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(l=[]) %}{{ l }}{% endmacro %}{{ m() }}{{ m([1]) }}", "{% macro m(n=n) %}{{ n }}{% endmacro %}{{ m() }}|{{ m(1) }}",
    "{% macro w(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call w('b') %}x{{ n }}{% endcall %}", "{% macro w() %}{% for i in [1,2] %}{{ caller(i, k='v') }}{% endfor %}{% endmacro %}{% call(x, k='d') w() %}{{ x }}{{ k }};{% endcall %}", "{% macro w() %}{{ caller() }}{% endmacro %}{{ w() }}", "{% macro w() %}{{ caller is defined }}{% endmacro %}{{ w() }}{% call w() %}x{% endcall %}", "{% macro w() %}x{% endmacro %}{% call w() %}y{% endcall %}", "{% macro a() %}a{{ caller() }}{% endmacro %}{% macro b() %}b{% call a() %}[{{ caller() }}]{% endcall %}{% endmacro %}{% call b() %}in{% endcall %}", "{% macro w(caller=none) %}{{ caller() if caller else 'no' }}{% endmacro %}{{ w() }}{% call w() %}yes{% endcall %}", "{% call (a, b=2) dummy() %}{% endcall %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}", "{% filter trim %}  \n x {% set q = 1 %}{{ q }} {% endfilter %}|{{ q }}|", "{% filter nosuch %}x{% endfilter %}", "{% with a=1, b=n %}{{ a }}{{ b }}{% endwith %}{{ a }}|", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}|", "{% with a=1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}", "{% with s='inner' %}{{ s }}{% endwith %}{{ s }}", "{% set x = 1 %}{% with %}{% set x = 2 %}{{ x }}{% endwith %}{{ x }}", "{% generation %}a{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}|", "{% for i in [1] %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}", "  {% generation %}\n x\n  {% endgeneration %}\ny", "{% print 1, s, n + 1 %}",
    "{{ cycler() }}", "{{ raise_exception('boom <|x|> é') }}", "{% if true %}a{{ raise_exception('Only ' ~ n ~ ' ok') }}{% endif %}", "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %A %a %j %y %p %I %%') }}", "{{ strftime_now('') }}|", "{{ range(1, 2, 0) }}", "{{ range('a') }}", "{{ range() }}", "{% set range = 5 %}{{ range }}", "{{ dict(1) }}", "{{ namespace(5) }}",
    "{% set ns = namespace(found=false) %}{% for u in users %}{% if not ns.found and u.age == 25 %}{% set ns.found = true %}{% set ns.who = u %}{% endif %}{% endfor %}{{ ns.who.name }}", "{% set gen = l | map('string') %}{{ gen | list }}{{ gen | list }}", "{% set gen = l | select('odd') %}{{ gen | first }}{{ gen | list }}", "{% for x in l | map('string') %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for x in l | reverse %}{{ x }}{{ loop.index }}/{{ loop.length }} {% endfor %}", "{% for x in d.items() | list | reverse %}{{ x[0] }}{% endfor %}", "{% set ns = namespace(seen=[]) %}{% for x in [1,2,1,3,2] if x not in ns.seen %}{{ x }}{% set ns.seen = ns.seen + [x] %}{% endfor %}", "{% for x in [1,2,3] %}{% if loop.last %}{{ x }}{% endif %}{% endfor %}{% for x in [] %}{{ loop.last }}{% endfor %}", "{% set x = none %}{% if x is none %}N{% endif %}{% if x %}{% else %}F{% endif %}", "{%- for m in users -%}\n  {%- if loop.first -%} first {%- endif -%}\n  {{- m.name -}}\n{%- endfor -%}", "{% set a = 'x' %}{% set b = a %}{% set a = 'y' %}{{ a }}{{ b }}", "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }} {% else %}- {% endfor %}{% endfor %}", "{% set x = {'a': [1, 2]} %}{% for k, v in x.items() %}{% for y in v %}{{ k }}{{ y }}{% endfor %}{% endfor %}", "{% if l and l[0] is defined and l[0] == 3 %}ok{% endif %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}",
]

# Tags of Jinja that no chat template can use; refused here at once.
DROPPED = ("{% include", "{% extends", "{% import", "{% do ")

SECTIONS = {"lexer": LEXER, "expressions": EXPRESSIONS, "tests": TESTS, "filters": FILTERS,
            "json": JSON, "methods": METHODS, "mutating": MUTATING, "statements": STATEMENTS}


def make_case(env, template, context):
    kind, text = render(env, template, context)
    if template.startswith(DROPPED):
        kind = "compile"
    case = {"template": template}
    if context is not CONTEXT:
        case["context"] = context
    if kind == "ok":
        case["output"] = text
    else:
        case["error"] = kind
        if "raise_exception" in template:
            case["message"] = text
    return case


def write(name, data):
    path = os.path.join(HERE, "jinja", name + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False, indent=1)
        f.write("\n")


def main():
    total = 0
    for name, templates in SECTIONS.items():
        env = make_env(mutable=name == "mutating")
        cases = [make_case(env, t, CONTEXT) for t in templates if t]
        total += len(cases)
        write(name, {"context": CONTEXT, "cases": cases})
    total += jinja_chats.write_all(write, make_env())
    print(total, "cases", file=sys.stderr)


if __name__ == "__main__":
    main()
