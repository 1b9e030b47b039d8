# SPDX-License-Identifier: Apache-2.0
"""Jinja as Hugging Face sets it up for chat templates: the independent
implementation that src/text/jinja_*.c is compared with. Needs jinja2 3.1."""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW_S = 1700000000  # what the C test gives as jinja_env.now_s, in UTC


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks the assistant's words for training; prints them."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_generation")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _generation(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def strftime_now(fmt):
    return datetime.datetime.fromtimestamp(NOW_S, datetime.timezone.utc).strftime(fmt)


def make_env(mutable=False):
    """mutable: without the refusal of list.append and its kind, which halod
    allows."""
    base = (jinja2.sandbox.SandboxedEnvironment if mutable
            else jinja2.sandbox.ImmutableSandboxedEnvironment)
    env = base(trim_blocks=True, lstrip_blocks=True,
               extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(env, template, context):
    """-> ("ok", text) | ("compile", message) | ("render", message)"""
    try:
        compiled = env.from_string(template)
    except (jinja2.TemplateSyntaxError, SyntaxError) as e:
        return "compile", str(e)
    try:
        return "ok", compiled.render(**context)
    except Exception as e:  # noqa: BLE001 - whatever Python raises, it refused
        return "render", str(e)
