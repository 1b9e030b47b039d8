#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Responses API on the wire."""
import json
import os

from halod import Stream, run

PATH = "/v1/responses"
BODY = {"model": "halo-tiny", "input": "What is 2+2?", "temperature": 0,
        "max_output_tokens": 12}


def post(d, **more):
    return d.request("POST", PATH, {**BODY, **more})


def stream(d, **more):
    conn = d.connect()
    conn.request("POST", PATH, json.dumps({**BODY, "stream": True, **more}))
    return Stream(conn)


def text_of(r):
    return "".join(c["text"] for item in r["output"] for c in item["content"])


def test_whole(t, d):
    a = post(d)
    r = a.json
    t.equal((a.status, r["object"], r["id"][:5]), (200, "response", "resp_"),
            "a response")
    t.ok((r["status"] == "completed" and r["incomplete_details"] is None) or
         (r["status"] == "incomplete" and
          r["incomplete_details"] == {"reason": "max_output_tokens"}), "its end", r)
    chat = d.chat(BODY["input"], max_tokens=12, temperature=0).json
    m, u = chat["choices"][0]["message"], chat["usage"]
    t.equal(text_of(r), (m.get("reasoning_content") or "") + m["content"],
            "says what a chat says")
    t.equal([r["usage"][k] for k in ("input_tokens", "output_tokens", "total_tokens")],
            [u[k] for k in ("prompt_tokens", "completion_tokens", "total_tokens")],
            "its usage")


def test_stream(t, d):
    s = stream(d)
    lines = [l for l in s.lines() if l and not l.startswith(":")]
    names = [l[7:] for l in lines[::2]]
    data = [json.loads(l[6:]) for l in lines[1::2]]
    t.ok(s.status == 200 and names == [x["type"] for x in data],
         "each event has its name", lines[:4])
    t.equal([x["sequence_number"] for x in data], list(range(len(data))),
            "and its number")
    t.equal(names[:2], ["response.created", "response.in_progress"], "the beginning")
    whole = post(d).json
    last = data[-1]["response"]
    t.equal((names[-1], last["status"]),
            ("response." + whole["status"], whole["status"]), "the end")
    t.equal("".join(x["delta"] for x in data if x["type"].endswith("_text.delta")),
            text_of(whole), "the pieces make the whole")
    t.equal((text_of(last), last["usage"]["output_tokens"]),
            (text_of(whole), whole["usage"]["output_tokens"]), "which comes last")
    t.ok(names.count("response.output_item.added") ==
         names.count("response.output_item.done") == len(last["output"]),
         "every item begins and ends", names)


def test_previous(t, d):
    ask = BODY["input"] + " Think well." * 10  # more than a page of the cache
    first = post(d, input=ask).json
    by_id = post(d, input="And 3+3?", previous_response_id=first["id"]).json
    sent = post(d, input=[{"role": "user", "content": ask}] +
                first["output"] + [{"role": "user", "content": "And 3+3?"}]).json
    t.equal((text_of(by_id), by_id["usage"]["input_tokens"]),
            (text_of(sent), sent["usage"]["input_tokens"]),
            "by id as with the whole history")
    t.equal(by_id["previous_response_id"], first["id"], "the id is repeated")
    t.ok(by_id["usage"]["input_tokens_details"]["cached_tokens"] > 0,
         "the history is cached", by_id["usage"])
    a = post(d, previous_response_id="resp_none")
    t.equal((a.status, a.error["param"]), (400, "previous_response_id"),
            "an unknown id")


def tool(name, about, key):
    return {"type": "function", "name": name, "description": about, "parameters": {
        "type": "object", "properties": {key: {"type": "string"}}, "required": [key]}}


TOOLS = {"tools": [tool("get_current_weather", "Look up the weather", "city"),
                   tool("calculate", "Evaluate an arithmetic expression", "expr"),
                   {"type": "web_search"}],
         "input": "weather in Tunis?", "max_output_tokens": 120,
         "reasoning": {"effort": "none"}}


def test_tools(t, d):
    r = post(d, **TOOLS).json
    call = r["output"][-1]
    t.ok(r["status"] == "completed" and call["type"] == "function_call" and
         call["name"] == "get_current_weather" and
         list(json.loads(call["arguments"])) == ["city"], "a call", r)
    for choice in ("required", {"type": "function", "name": "get_current_weather"}):
        forced = post(d, tool_choice=choice, **TOOLS).json
        t.equal(forced["output"][-1]["name"], call["name"], "forced: %r" % choice)
    data = list(stream(d, **TOOLS).events())
    last = data[-1]["response"]["output"][-1]
    t.equal(("".join(x["delta"] for x in data
                     if x["type"] == "response.function_call_arguments.delta"),
             [x["item"] for x in data if x["type"] == "response.output_item.done"][-1]),
            (last["arguments"], last), "streamed in pieces")
    t.equal((last["name"], last["arguments"]), (call["name"], call["arguments"]),
            "the same call")
    answer = {"type": "function_call_output", "call_id": call["call_id"],
              "output": "sunny"}
    by_id = post(d, **{**TOOLS, "input": [answer]}, previous_response_id=r["id"]).json
    sent = post(d, **{**TOOLS, "input": [{"role": "user", "content": TOOLS["input"]}] +
                      r["output"] + [answer]}).json
    t.equal(by_id["usage"]["input_tokens"], sent["usage"]["input_tokens"],
            "the result goes back, by id as with the whole history")


def test_format(t, d):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}},
              "required": ["n"], "additionalProperties": False}
    r = post(d, reasoning={"effort": "none"}, max_output_tokens=60, text={"format": {
        "type": "json_schema", "name": "x", "schema": schema, "strict": True}}).json
    t.ok(isinstance(json.loads(text_of(r))["n"], int), "text.format", r)


def test_errors(t, d):
    for what, more, status, param in (
            ("no input", {"input": None}, 400, "input"),
            ("another model", {"model": "gpt-5"}, 404, "model"),
            ("too long", {"input": "word " * 9000, "stream": True}, 400, "input"),
            ("an image", {"input": [{"role": "user", "content": [
                {"type": "input_image"}]}]}, 400, "input[0].content[0].type")):
        a = post(d, **more)
        t.equal((a.status, a.error["param"]), (status, param), "%s: %d" % (what, status))
    s = stream(d, max_output_tokens=3500)
    next(s.events())
    s.close()
    d.wait_metrics(num_requests_running=0)
    t.ok(True, "a client that leaves ends its request")


def test_kept(t, d):
    """What is kept of a response can be asked for, and deleted."""
    asked = {"input": [{"role": "user", "content": "Hello"},
                       {"type": "message", "role": "assistant", "content": "Hi"},
                       {"role": "user", "content": [{"type": "input_text",
                                                     "text": "2+2? \u0000"}]}],
             "max_output_tokens": 8, "temperature": 0, "metadata": {"a": "b"}}
    a = d.request("POST", "/v1/responses", asked).json
    path = "/v1/responses/" + a["id"]
    t.equal(d.get(path).json, a, "the response itself")
    items = d.get(path + "/input_items?order=asc").json
    t.ok([i["role"] for i in items["data"]] == ["user", "assistant", "user"] and
         all(i["id"] and i["type"] == "message" for i in items["data"]) and
         items["data"][2]["content"] == asked["input"][2]["content"] and
         items["first_id"] == items["data"][0]["id"] and not items["has_more"],
         "its input items", items)
    t.equal(d.get(path + "/input_items").json["data"], items["data"][::-1],
            "newest first by default")
    more = d.request("POST", "/v1/responses", {
        "previous_response_id": a["id"], "input": "More", "max_output_tokens": 2}).json
    t.equal([i["content"] for i in d.get("/v1/responses/%s/input_items" % more["id"]).json[
        "data"]], [[{"type": "input_text", "text": "More"}]], "of that request only")
    gone = d.request("DELETE", path)
    t.equal((gone.status, gone.json), (200, {"id": a["id"], "object": "response",
                                             "deleted": True}), "deleted")
    for method, where in (("GET", path), ("DELETE", path), ("GET", path + "/input_items"),
                          ("GET", "/v1/responses/x/y")):
        r = d.request(method, where)
        t.equal((r.status, r.error["code"] is not None or r.error["type"] is not None),
                (404, True), "then %s %s is a 404" % (method, where))
    r = d.request("PUT", path)
    t.equal((r.status, r.headers["Allow"]), (405, "GET, HEAD, DELETE, OPTIONS"),
            "another method")
    a = d.request("POST", "/v1/responses", {**asked, "store": False}).json
    t.equal(d.get("/v1/responses/" + a["id"]).status, 404, "store: false keeps nothing")
    s = d.request("POST", "/v1/responses", {**asked, "stream": True}).body.decode()
    last = [json.loads(l[6:]) for l in s.split("\n") if l.startswith("data: {")][-1]
    t.equal(d.get("/v1/responses/" + last["response"]["id"]).json, last["response"],
            "a streamed one is kept, too")


# What is kept is what threads share: the rest is nothing for ThreadSanitizer.
run([test_kept, test_stream] if "HALOD_RACES_ONLY" in os.environ else
    [test_kept, test_whole, test_stream, test_previous, test_tools, test_format, test_errors])
