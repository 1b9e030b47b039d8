#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The official Anthropic client for Python. test.sh installs it below build/clients;
without it this test is skipped."""
from halod import need, run

anthropic = need("anthropic")

ASK = {"model": "halo-tiny", "max_tokens": 16,
       "messages": [{"role": "user", "content": "What is 2+2?"}]}

# Newer versions of the client have no argument for it.
GREEDY = {"temperature": 0}


def client(d, **more):
    return anthropic.Anthropic(base_url="http://127.0.0.1:%d" % d.port, api_key="any",
                               timeout=60, max_retries=0, **more)


def text_of(m):
    return "".join(b.thinking if b.type == "thinking" else b.text for b in m.content)


def test_messages(t, d):
    c = client(d)
    m = c.messages.create(**ASK, extra_body=GREEDY, system=[
        {"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}}])
    t.ok(m.type == "message" and text_of(m) and
         m.stop_reason in ("end_turn", "max_tokens") and m._request_id, "create", m)
    n = c.messages.count_tokens(model="halo-tiny", messages=ASK["messages"],
                                system="You help.")
    t.equal(n.input_tokens, m.usage.input_tokens + m.usage.cache_read_input_tokens,
            "count_tokens")
    m = c.beta.messages.create(**ASK, extra_body=GREEDY, betas=["some-beta-2025-01-01"])
    t.ok(text_of(m), "beta.messages (?beta=true)", m)
    m = c.messages.create(**{**ASK, "max_tokens": 200}, extra_body=GREEDY,
                          stop_sequences=["e", "a", "o"])
    t.ok(m.stop_reason == "stop_sequence" and m.stop_sequence in "eao", "a stop sequence",
         m)


def test_stream(t, d):
    whole = client(d).messages.create(**ASK, extra_body=GREEDY)
    with client(d).messages.stream(**ASK, extra_body=GREEDY) as s:
        kinds = [e.type for e in s]
        m = s.get_final_message()
    t.equal(text_of(m), text_of(whole), "the stream helper: the same text")
    t.equal((m.stop_reason, m.usage.output_tokens),
            (whole.stop_reason, whole.usage.output_tokens), "the same end and usage")
    t.ok(kinds[0] == "message_start" and kinds[-1] == "message_stop", "events", kinds)
    events = list(client(d).messages.create(**ASK, extra_body=GREEDY, stream=True))
    t.ok(events[-1].type == "message_stop", "stream=True")
    turn = client(d).messages.create(
        model="halo-tiny", max_tokens=8, messages=ASK["messages"] + [
            {"role": "assistant", "content": whole.content},
            {"role": "user", "content": "And 3+3?"}])
    t.ok(turn.usage.output_tokens > 0, "an answer's blocks are taken back", turn)


def test_tools(t, d):
    ask = {"model": "halo-tiny", "max_tokens": 120, "extra_body": GREEDY,
           "thinking": {"type": "disabled"},
           "messages": [{"role": "user", "content": "weather in Tunis?"}],
           "tools": [{"name": "get_current_weather",
                      "description": "Look up the weather", "input_schema": {
                          "type": "object", "properties": {"city": {"type": "string"}},
                          "required": ["city"]}}]}
    whole = client(d).messages.create(**ask)
    use = whole.content[-1]
    t.ok(whole.stop_reason == "tool_use" and use.type == "tool_use" and
         list(use.input) == ["city"], "a tool is called", whole)
    with client(d).messages.stream(**ask) as s:
        m = s.get_final_message()
    t.equal((m.stop_reason, m.content[-1].name, m.content[-1].input),
            (whole.stop_reason, use.name, use.input), "streamed: the same call")
    ask["messages"] += [{"role": "assistant", "content": m.content}, {
        "role": "user", "content": [{"type": "tool_result", "content": "sunny",
                                     "tool_use_id": m.content[-1].id}]}]
    t.ok(client(d).messages.create(**ask).usage.output_tokens > 0,
         "the result goes back")


def test_errors(t, d):
    c = client(d)
    for what, more, kind in (
            ("unknown model", {"model": "claude-x"}, anthropic.NotFoundError),
            ("wrong type", {"extra_body": {"temperature": "hot"}},
             anthropic.BadRequestError),
            ("too long", {"messages": [{"role": "user", "content": "word " * 9000}]},
             anthropic.BadRequestError)):
        try:
            c.messages.create(**{**ASK, **more})
            t.ok(False, "%s: an error" % what)
        except anthropic.APIStatusError as e:
            t.ok(isinstance(e, kind) and e.request_id and
                 e.body["error"]["message"] in str(e),
                 "%s: %s" % (what, kind.__name__), repr(e))


run([test_messages, test_stream, test_tools, test_errors])
