#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Open WebUI asks of a server that it knows as an OpenAI one, in its own shapes: the
list of models, a chat as a stream with its many extra fields, and the small tasks beside
it (title, tags, follow-ups), which must be JSON in the text."""
import json

from halod import run

HEADERS = {"Authorization": "Bearer any", "Content-Type": "application/json",
           "HTTP-Referer": "https://openwebui.com/", "X-Title": "Open WebUI"}

CHAT = {
    "stream": True, "model": "halo-tiny",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": [{"type": "text", "text": "What is 2+2?"}]}],
    "stream_options": {"include_usage": True},
    "metadata": {"chat_id": "c1", "message_id": "m1", "files": None},
    "temperature": 0, "max_completion_tokens": 60, "logit_bias": None, "seed": None,
    "stop": None, "top_p": None, "frequency_penalty": None, "user": "someone",
}

TITLE = {
    "model": "halo-tiny", "stream": False, "max_completion_tokens": 40,
    "messages": [{"role": "user", "content": "### Task:\nGenerate a title as JSON: "
                  "{ \"title\": \"...\" }\n### Chat History:\n<chat_history>\nUSER: Hi\n"
                  "ASSISTANT: Hello\n</chat_history>"}],
    "metadata": {"task": "title_generation", "task_body": {}, "chat_id": "c1"},
}

TOOL = {"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather",
    "parameters": {"type": "object", "properties": {"city": {
        "type": "string", "description": ""}}, "required": ["city"]}}}


def ask(d, method, path, body=None):
    return d.request(method, "/v1" + path, body, HEADERS)


def events(a):
    return [json.loads(l[6:]) for l in a.body.decode().split("\n")
            if l.startswith("data: {")]


def test_models(t, d):
    a = ask(d, "GET", "/models")
    t.ok(a.status == 200 and all(isinstance(m["id"], str) for m in a.json["data"]),
         "the list of models", a.body)


def test_chat(t, d):
    a = ask(d, "POST", "/chat/completions", CHAT)
    all_of = events(a)
    deltas = [c["delta"] for e in all_of for c in e["choices"]]
    t.ok(a.status == 200 and a.headers["Content-Type"].startswith("text/event-stream")
         and a.body.rstrip().endswith(b"data: [DONE]"), "a stream", a.body[-300:])
    t.ok("".join(x.get("reasoning_content") or "" for x in deltas) and
         "".join(x.get("content") or "" for x in deltas),
         "of thoughts, by the name it folds them away under, and text", deltas)
    last = all_of[-1]
    t.ok(last["choices"] == [] and last["usage"]["total_tokens"] > 0 and
         last["timings"]["predicted_per_second"] > 0,
         "usage and speed come last, as it shows them", last)


def test_task(t, d):
    a = ask(d, "POST", "/chat/completions", TITLE)
    t.ok(a.status == 200 and isinstance(
        a.json["choices"][0]["message"]["content"], str), "a title", a.body)


def test_tool(t, d):
    """Native function calling: it puts the pieces together and sends the result back."""
    body = {**CHAT, "tools": [TOOL], "max_completion_tokens": 200}
    body["messages"] = [{"role": "user", "content": "weather in Tunis?"}]
    calls = {}
    for e in events(ask(d, "POST", "/chat/completions", body)):
        for piece in (p for c in e["choices"] for p in c["delta"].get("tool_calls", [])):
            call = calls.setdefault(piece["index"], {"arguments": ""})
            call.update({k: piece[k] for k in ("id", "type") if piece.get(k)})
            call["name"] = piece["function"].get("name") or call["name"]
            call["arguments"] += piece["function"].get("arguments", "")
    t.ok(len(calls) == 1 and calls[0]["name"] == "get_current_weather" and
         json.loads(calls[0]["arguments"]) == {"city": "Tunis"}, "a call", calls)
    back = [{"role": "assistant", "content": "", "tool_calls": [{
        "id": calls[0]["id"], "index": 0, "type": "function", "function": {
            "name": calls[0]["name"], "arguments": calls[0]["arguments"]}}]},
        {"role": "tool", "tool_call_id": calls[0]["id"], "content": "sunny"}]
    a = ask(d, "POST", "/chat/completions",
            {**body, "messages": body["messages"] + back, "stream": False,
             "stream_options": None})
    t.ok(a.status == 200 and a.json["usage"]["prompt_tokens_details"]["cached_tokens"] > 0,
         "its result", a.body)


run([test_models, test_chat, test_task, test_tool])
