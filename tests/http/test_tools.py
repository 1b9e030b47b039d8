#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""halo-tiny calls tools and thinks: whole and streamed, as the OpenAI API has it."""
import json
import os
import tempfile

from halod import Halod, run


def tool(name, about, key):
    return {"type": "function", "function": {
        "name": name, "description": about, "parameters": {
            "type": "object", "properties": {key: {"type": "string"}},
            "required": [key]}}}


WEATHER = tool("get_current_weather", "Look up the weather", "city")
MATH = tool("calculate", "Evaluate an arithmetic expression", "expr")
ASK = {"tools": [WEATHER, MATH], "temperature": 0, "max_tokens": 120}
QUESTION = {"role": "user", "content": "weather in Tunis?"}


def post(d, messages, **more):
    return d.request("POST", "/v1/chat/completions", {"messages": messages, **more},
                     {"Content-Type": "application/json"})


def check_call(t, call, what):
    t.ok(call["type"] == "function" and call["id"].startswith("call_") and
         len(call["id"]) == 29 and
         call["function"]["name"] == "get_current_weather" and
         json.loads(call["function"]["arguments"]) == {"city": "Tunis"}, what, call)


def gather(t, events):
    """A stream's message, put together as clients do, and its finish reason."""
    message = {"content": "", "reasoning": "", "tool_calls": []}
    finish = None
    for e in events:
        if e == "[DONE]":
            break
        for choice in e["choices"]:
            delta, finish = choice["delta"], choice["finish_reason"]
            message["content"] += delta.get("content") or ""
            message["reasoning"] += delta.get("reasoning_content") or ""
            for piece in delta.get("tool_calls", []):
                calls = message["tool_calls"]
                if piece["index"] == len(calls):
                    calls.append(piece)
                    continue
                t.ok(set(piece) == {"index", "function"} and
                     set(piece["function"]) == {"arguments"},
                     "a later piece has only arguments", piece)
                calls[piece["index"]]["function"]["arguments"] += \
                    piece["function"]["arguments"]
    return message, finish


def test_whole(t, d):
    for thinks in (False, True):
        c = post(d, [QUESTION], enable_thinking=thinks, **ASK).json["choices"][0]
        t.equal(c["finish_reason"], "tool_calls", "the model calls a tool")
        t.equal(c["message"]["content"], None, "and says nothing else")
        t.equal(len(c["message"]["tool_calls"]), 1, "one")
        check_call(t, c["message"]["tool_calls"][0], "the right one")
        t.equal(bool(c["message"].get("reasoning_content")), thinks,
                "thinking before it, if it may")


def test_stream(t, d):
    s = d.stream("weather in Tunis?", **ASK)
    message, finish = gather(t, s.events())
    t.equal(finish, "tool_calls", "streamed: the finish reason")
    check_call(t, message["tool_calls"][0], "streamed: the call in pieces")
    t.ok(message["reasoning"] and message["content"] == "",
         "streamed: reasoning and no content", message)


def test_choice(t, d):
    m = post(d, [QUESTION], tool_choice="required", **ASK).json["choices"][0]["message"]
    check_call(t, m["tool_calls"][0], "required")
    m = post(d, [QUESTION], **ASK, tool_choice={
        "type": "function", "function": {"name": "calculate"}}).json["choices"][0]
    t.equal([c["function"]["name"] for c in m["message"]["tool_calls"]], ["calculate"],
            "a named tool, and only that")
    m = post(d, [{"role": "user", "content": "Hello"}], tool_choice="required",
             **ASK).json["choices"][0]["message"]
    t.ok(m.get("tool_calls"), "required where the model would rather not", m)
    m = post(d, [QUESTION], tool_choice="none", **ASK).json["choices"][0]
    t.ok("tool_calls" not in m["message"] and m["finish_reason"] == "stop",
         "none: an answer without calls", m)


def test_turns(t, d):
    """The agent's loop: the call's result goes back, spelled anew by the client."""
    asked = post(d, [QUESTION], **ASK).json
    message = asked["choices"][0]["message"]
    call = message["tool_calls"][0]
    call["function"]["arguments"] = json.dumps(
        json.loads(call["function"]["arguments"]), separators=(",", ":"))
    history = [QUESTION, message,
               {"role": "tool", "tool_call_id": call["id"], "content": "sunny, 25 C"}]
    a = post(d, history, **ASK)
    t.equal(a.status, 200, "the result is taken")
    c = a.json["choices"][0]
    t.ok(c["finish_reason"] in ("stop", "tool_calls"), "and answered", c)
    # Pages are of 16 tokens; the end of the call's turn is new.
    before = asked["usage"]["total_tokens"] // 16 * 16
    cached = a.json["usage"]["prompt_tokens_details"]["cached_tokens"]
    t.ok(cached >= before - 16, "the call is found in the prefix cache",
         "%d cached of %d" % (cached, asked["usage"]["total_tokens"]))
    for name in ("reasoning", "reasoning_content"):
        own = {"role": "assistant", "content": None, name: message["reasoning"],
               "tool_calls": message["tool_calls"]}
        again = post(d, [QUESTION, own, history[2]], **ASK).json
        t.equal(again["usage"]["prompt_tokens"], a.json["usage"]["prompt_tokens"],
                "the history's %s is the same prompt" % name)


def test_cut(t, d):
    c = post(d, [QUESTION], **{**ASK, "max_tokens": 12},
             enable_thinking=False).json["choices"][0]
    calls = c["message"].get("tool_calls", [])
    t.ok(c["finish_reason"] == "length" and not c["message"]["content"] and
         [x["function"]["name"] for x in calls] == ["get_current_weather"],
         "a call that was cut has what came of it", c)
    s = d.stream(QUESTION["content"], **{**ASK, "max_tokens": 12}, enable_thinking=False)
    message, finish = gather(t, s.events())
    t.ok(finish == "length" and not message["content"] and
         [x["function"] for x in message["tool_calls"]] == [x["function"] for x in calls],
         "in a stream, too", message)


def test_budget(t, d):
    free = post(d, [QUESTION], **ASK).json
    for name in ("thinking_budget", "max_reasoning_tokens"):
        a = post(d, [QUESTION], **ASK, **{name: 5}).json
        m, u = a["choices"][0]["message"], a["usage"]
        t.ok(0 < len(m["reasoning"]) < len(free["choices"][0]["message"]["reasoning"])
             and "think" not in (m["content"] or ""), "%s cuts the thinking" % name, m)
        t.ok(5 <= u["completion_tokens_details"]["reasoning_tokens"] <= 8,
             "its tokens are counted", u)
        check_call(t, m["tool_calls"][0], "and the answer still comes")
    m = post(d, [QUESTION], **ASK, thinking_budget=0).json["choices"][0]["message"]
    t.ok("reasoning" not in m and m.get("tool_calls"), "no budget, no thinking", m)
    for name in ("thinking_token_budget", "thinking_budget_tokens"):
        m = post(d, [QUESTION], **ASK, **{name: 5},
                 reasoning_budget_message=" I answer now.").json["choices"][0]["message"]
        t.ok(m["reasoning"].endswith(" I answer now.") and len(m["reasoning"]) < 80
             and "answer now" not in (m["content"] or ""),
             "%s: the model's last thought is the client's" % name, m)
    turn = [QUESTION, {**m, "reasoning": "word " * 20},
            {"role": "tool", "tool_call_id": m["tool_calls"][0]["id"], "content": "sunny"}]
    spent, anew = (post(d, turn + more, **ASK, thinking_budget=10).json["choices"][0]["message"]
                   for more in ([], [QUESTION]))
    t.ok("reasoning" not in spent and (spent["content"] or spent.get("tool_calls")),
         "a turn that has spent its budget thinks no more", spent)
    t.ok(anew.get("reasoning"), "the user's next message has a new one", anew)


def test_prefill(t, d):
    said = post(d, [{"role": "user", "content": "Hello"}], temperature=0,
                max_tokens=40, enable_thinking=False).json["choices"][0]["message"]
    text = said["content"]
    t.ok(len(text) > 8, "something to go on from", text)
    begun = text[:len(text) // 2].rsplit(" ", 1)[0]
    more = post(d, [{"role": "user", "content": "Hello"},
                    {"role": "assistant", "content": begun}], temperature=0,
                max_tokens=40, continue_final_message=True)
    t.equal(begun + more.json["choices"][0]["message"]["content"], text,
            "a prefilled answer goes on as it would have")


# Templates that know no tools: SmolLM2's form, which shows each role as it is, and Gemma's, which
# wants turns and has no role for results. The second takes no system message, as Gemma 2.
PLAIN = """{%- for m in messages -%}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}
{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""
TURNS = """{%- for m in messages -%}
{%- if m.role == 'system' or (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{- raise_exception('user and assistant take turns') -}}{%- endif -%}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' -}}
{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""


def call_of(key, args):
    return {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": key, "type": "function", "function": {"name": "calculate", "arguments": args}}]}


HISTORY = [QUESTION, call_of("a", '{"expr": "1+1"}'),
           {"role": "tool", "tool_call_id": "a", "content": "two"},
           {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "three"}]},
           {"role": "user", "content": "And then?"}]


def check_plain(t, d, name):
    def prompt(messages, **more):
        a = d.request("POST", "/apply-template", {"messages": messages, **more})
        return a.json.get("prompt", a.body)
    bare, shown = prompt([QUESTION]), prompt([QUESTION], **ASK)
    t.ok(all(x in shown for x in ("get_current_weather", '"city"', "<tool_call>")) and
         QUESTION["content"] in shown, name + ": the tools are shown", shown)
    t.equal(prompt([QUESTION], tool_choice="none", **ASK), bare, name + ": not if none may be")
    text = prompt(HISTORY, **ASK)
    order = [text.find(x) for x in ("I look.", '<tool_call>\n{"name": "calculate", "arguments": '
                                    '{"expr": "1+1"}}\n</tool_call>', "two", "three",
                                    "And then?")]
    t.ok(-1 not in order and order == sorted(order) and
         text.count("<|im_start|>user") == 2, name + ": a history with calls", text)
    t.ok("calculate" in prompt(HISTORY), name + ": also without tools")
    a = post(d, [QUESTION], **{**ASK, "tool_choice": "required"}).json["choices"][0]
    t.ok(a["finish_reason"] == "tool_calls" and
         json.loads(a["message"]["tool_calls"][0]["function"]["arguments"]),
         name + ": a call can be demanded", a)
    a = post(d, [*HISTORY[:2], {"role": "cat", "content": ""}], **ASK)
    t.equal((a.status, a.error["param"]), (400, "messages[2].role"),
            name + ": faults keep their places")


def test_plain(t, d):
    for name, text in (("as SmolLM2", PLAIN), ("as Gemma", TURNS)):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "template.jinja")
            with open(path, "w") as f:
                f.write(text)
            other = Halod(chat_template=path)
            try:
                check_plain(t, other, name)
            finally:
                t.equal(other.stop(), 0, "halod ends well")
            other = Halod(chat_template=path, tool_format="none")
            try:
                a = post(other, [QUESTION], **ASK)
                t.equal((a.status, a.error["param"]), (400, "tools"),
                        name + ": with tool_format = none they are refused")
            finally:
                other.stop()


run([test_whole, test_stream, test_choice, test_turns, test_cut, test_budget,
     test_prefill, test_plain])
