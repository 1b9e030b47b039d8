#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official Ollama client for Python. test.sh installs it below build/clients; without it this
is skipped. test_openai_node.py runs Node's."""
import os
import re

from halod import SRCDIR, need, run

ollama = need("ollama")

ASK = {"model": "halo-tiny", "messages": [{"role": "user", "content": "What is 2+2?"}]}
GREEDY = {"temperature": 0, "num_predict": 60}


def client(d):
    return ollama.Client(host="http://127.0.0.1:%d" % d.port, timeout=60)


def get_current_weather(city: str) -> str:
    """Look up the weather

    Args:
      city: its name
    """
    return "sunny in " + city


def test_chat(t, d):
    c = client(d)
    whole = c.chat(**ASK, options=GREEDY)
    t.ok(whole.done and whole.message.content and whole.message.thinking, "chat", whole)
    parts = list(c.chat(**ASK, options=GREEDY, stream=True))
    t.equal("".join(p.message.content for p in parts), whole.message.content, "streamed")
    t.equal(parts[-1].eval_count, whole.eval_count, "with the same end")
    t.ok(not c.chat(**ASK, options=GREEDY, think=False).message.thinking, "think=False")


def test_tools(t, d):
    """A round of a tool, as the client's own examples do it."""
    c = client(d)
    messages = [{"role": "user", "content": "weather in Tunis?"}]
    a = c.chat(model="halo-tiny", messages=messages, tools=[get_current_weather], think=False,
               options=GREEDY)
    if not t.ok(a.message.tool_calls, "a Python function is a tool", a):
        return
    call = a.message.tool_calls[0]
    result = get_current_weather(**call.function.arguments)
    b = c.chat(model="halo-tiny", think=False, options=GREEDY, tools=[get_current_weather],
               messages=messages + [a.message, {"role": "tool", "content": result,
                                                "tool_name": call.function.name}])
    t.ok(b.done and b.prompt_eval_count > a.prompt_eval_count, "and its result is read", b)


def test_rest(t, d):
    c = client(d)
    g = c.generate("halo-tiny", "What is 2+2?", options=GREEDY)
    t.ok(g.response and g.done_reason == "stop", "generate", g)
    t.equal("".join(p.response for p in c.generate("halo-tiny", "What is 2+2?", options=GREEDY,
                                                   stream=True)), g.response, "streamed")
    t.equal(c.generate("halo-tiny").done_reason, "load", "a model is loaded")
    t.equal([m.model for m in c.list().models], ["halo-tiny:latest"], "list")
    t.equal([m.model for m in c.ps().models], ["halo-tiny:latest"], "ps")
    t.ok("tools" in c.show("halo-tiny").capabilities, "show")
    t.equal(c.pull("halo-tiny").status, "success", "pull")
    t.equal([p.status for p in c.pull("halo-tiny", stream=True)], ["success"], "with progress")
    for ask in (lambda: c.chat("other", ASK["messages"]), lambda: c.show("other"),
                lambda: c.pull("other"), lambda: c.embed("halo-tiny", "x")):
        try:
            ask()
            t.ok(False, "is refused")
        except ollama.ResponseError as e:
            t.ok(e.status_code in (404, 501) and "{" not in e.error, "refused in words: %s" % e)


def test_fields(t, d):
    """Each field of the client's requests has a row, so that none is dropped in silence."""
    with open(os.path.join(SRCDIR, "src/api/ollama_read.c"), encoding="utf-8") as f:
        source = f.read()
    rows = {table: set(re.findall(r'\{"(\w+)", ', text)) for table, text in re.findall(
        r"(body_fields|option_fields)\[\] = \{(.*?)\n\};", source, re.S)}
    types = ollama._types
    # What is not served here, and would change answers: the header X-Halod-Ignored names it.
    t.equal(set(types.ChatRequest.model_fields) - rows["body_fields"], set(), "ChatRequest")
    t.equal(set(types.GenerateRequest.model_fields) - rows["body_fields"],
            {"steps", "width", "height"}, "GenerateRequest, but for making pictures")
    told = {"tfs_z", "typical_p", "repeat_last_n", "mirostat", "mirostat_tau", "mirostat_eta",
            "penalize_newline"}
    t.equal(set(types.Options.model_fields) - rows["option_fields"], told, "Options")


run([test_chat, test_tools, test_rest, test_fields])
