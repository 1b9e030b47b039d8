#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Responses API on the wire."""
import json

from halod import CHECK, Stream, run

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


NAMED = {"tools": [
    {"type": "namespace", "name": "mcp__demo__", "description": "demo",
     "tools": [tool("get_current_weather", "Look up the weather", "city"),
               {"type": "custom", "name": "free", "description": "text"}]},
    {"type": "namespace", "name": "agents", "description": "others",
     "tools": [tool("spawn", "Start an agent", "task")]},
    {"type": "web_search"}],
    "input": "weather in Tunis?", "max_output_tokens": 120, "reasoning": {"effort": "none"}}


def test_namespaces(t, d):
    """Functions of a namespace are offered, and called by both names."""
    for choice in ("required", {"type": "function", "name": "get_current_weather",
                                "namespace": "mcp__demo__"}):
        a = post(d, tool_choice=choice, **NAMED)
        call = a.json["output"][-1]
        t.ok(call["type"] == "function_call" and call["name"] in (
            "get_current_weather", "spawn") and call["namespace"] == {
            "get_current_weather": "mcp__demo__", "spawn": "agents"}[call["name"]],
            "a call: %r" % choice, a.body)
    t.equal(a.headers["X-Halod-Ignored"], "tools[0].tools[1]=custom, tools[2]=web_search",
            "a header names the tools that are not served")
    data = list(stream(d, tool_choice=choice, **NAMED).events())
    done = [x["item"] for x in data if x["type"] == "response.output_item.done"][-1]
    t.equal([done[k] for k in ("name", "namespace", "arguments")],
            [call[k] for k in ("name", "namespace", "arguments")], "streamed")
    t.equal([x["name"] for x in data
             if x["type"] == "response.function_call_arguments.done"], [call["name"]],
            "by its own name")
    answer = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    by_id = post(d, **{**NAMED, "input": [answer]}, previous_response_id=a.json["id"]).json
    sent = post(d, **{**NAMED, "input": [{"role": "user", "content": NAMED["input"]}] +
                      a.json["output"] + [answer]}).json
    t.equal(by_id["usage"]["input_tokens"], sent["usage"]["input_tokens"],
            "its result goes back, by id as with the whole history")
    a = post(d, **{**NAMED, "tool_choice": {"type": "web_search"}})
    t.equal((a.status, a.error["param"]), (400, "tool_choice.type"),
            "a tool that is not served cannot be demanded")


def test_references(t, d):
    """The AI SDK names the items of stored responses instead of sending them."""
    first = post(d, input="Hello").json
    ask = [{"role": "user", "content": "Hello"}]
    more = [{"role": "user", "content": "And?"}]
    named = post(d, input=ask + [{"type": "item_reference", "id": i["id"]}
                                 for i in first["output"]] + more).json
    sent = post(d, input=ask + first["output"] + more).json
    t.equal(named["usage"]["input_tokens"], sent["usage"]["input_tokens"],
            "an item by its id is as the item itself")
    items = d.get("/v1/responses/%s/input_items?order=asc" % named["id"]).json["data"]
    t.equal([i["id"] for i in items[1:-1]], [i["id"] for i in first["output"]],
            "and is kept as itself")
    again = post(d, input=[{"id": items[0]["id"]}] + first["output"] + more)
    t.equal((again.status, again.json["usage"]["input_tokens"]),
            (200, sent["usage"]["input_tokens"]), "an input item, without a type")
    gone = post(d, input="Hello", store=False).json
    for what, it in (("not kept", gone["output"][0]["id"]), ("not known", "msg_x_0"),
                     ("no id", "x")):
        a = post(d, input=ask + [{"type": "item_reference", "id": it}])
        t.equal((a.status, a.error["param"]), (400, "input[1].id"), what)


# A call, its output, and what of both the model is shown.
OTHERS = [
    ([{"type": "custom_tool_call", "call_id": "c", "name": "free", "input": "patch me"},
      {"type": "custom_tool_call_output", "call_id": "c", "output": "patched"}],
     ("free", "patch me", "patched")),
    ([{"type": "local_shell_call", "id": "l", "call_id": "c", "status": "completed",
       "action": {"type": "exec", "command": ["ls", "-l"], "env": {}}},
      {"type": "local_shell_call_output", "id": "c", "output": "a.txt"}],
     ("local_shell", "ls", "a.txt")),
    ([{"type": "shell_call", "call_id": "c", "action": {"commands": ["pwd"]}},
      {"type": "shell_call_output", "call_id": "c", "output": [
          {"stdout": "/home", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}],
     ("shell", "pwd", "/home")),
    ([{"type": "apply_patch_call", "call_id": "c", "status": "completed",
       "operation": {"type": "delete_file", "path": "x.c"}},
      {"type": "apply_patch_call_output", "call_id": "c", "status": "completed",
       "output": "gone"}], ("apply_patch", "x.c", "gone")),
    ([{"type": "web_search_call", "id": "w", "status": "completed",
       "action": {"type": "search", "query": "rain"}}], ("web_search", "rain", "completed")),
    ([{"type": "file_search_call", "id": "w", "status": "completed", "queries": ["rain"],
       "results": [{"text": "wet"}]}], ("file_search", "rain", "wet")),
    ([{"type": "code_interpreter_call", "id": "w", "status": "completed", "code": "1+1",
       "container_id": "c", "outputs": [{"type": "logs", "logs": "two"}]}],
     ("code_interpreter", "1+1", "two")),
    ([{"type": "mcp_call", "id": "m", "server_label": "s", "name": "look",
       "arguments": "{\"q\":\"sky\"}", "output": "blue"}], ("look", "sky", "blue")),
    ([{"type": "tool_search_call", "call_id": "c", "arguments": {"q": "hammer"}},
      {"type": "tool_search_output", "call_id": "c", "tools": [{"name": "nail"}]}],
     ("tool_search", "hammer", "nail")),
]


def test_history(t, d):
    """What tools of other servers did stays in the history."""
    def tokens(items):
        a = d.request("POST", PATH + "/input_tokens", {
            "input": [{"role": "user", "content": "Hi"}, *items,
                      {"role": "user", "content": "And?"}]})
        return a.json.get("input_tokens", a.body)
    for items, words in OTHERS:
        chat = [{"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function",
             "function": {"name": words[0], "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": words[2]}]
        least = d.request("POST", "/tokenize", {"messages": [
            {"role": "user", "content": "Hi"}, *chat,
            {"role": "user", "content": "And?"}]}).json["count"]
        got = tokens(items)
        t.ok(isinstance(got, int) and got > least, "%s is shown" % items[0]["type"],
             (got, least))
        for item in items:
            bare = {k: v for k, v in item.items() if k in ("type", "call_id", "id", "name")}
            more = tokens([bare if i is item else i for i in items])
            t.ok(not isinstance(more, int) or more < got, "what %s says, too"
                 % item["type"], (more, got))
    for kind in ("compaction", "compaction_trigger", "additional_tools", "x"):
        a = post(d, input=[{"role": "user", "content": "Hi"},
                           {"type": kind, "id": "x", "encrypted_content": "zz"}])
        t.ok(a.status == 400 and a.error["param"] == "input[1].type" and
             kind in a.error["message"], "%s is refused by name" % kind, a.body)


def test_counts(t, d):
    r = post(d).json
    n = d.request("POST", PATH + "/input_tokens", {"input": BODY["input"]}).json
    t.equal(n, {"object": "response.input_tokens",
                "input_tokens": r["usage"]["input_tokens"]}, "input_tokens")
    body = {"input": "And?", "previous_response_id": r["id"]}
    n = d.request("POST", PATH + "/input_tokens", body).json
    t.equal(n["input_tokens"], post(d, **body).json["usage"]["input_tokens"],
            "of a conversation that goes on")
    t.equal(r["usage"]["input_tokens_details"].get("cache_write_tokens"), 0,
            "cache_write_tokens")
    for what, status in ((r["id"], 400), ("resp_x", 404)):
        a = d.request("POST", PATH + "/%s/cancel" % what)
        t.equal(a.status, status, "cancel of %s: %d" % (what[:6], status))
    a = d.request("POST", PATH + "/compact", {"model": "halo-tiny", "input": "x" * 100000})
    t.ok(a.status == 501 and "summary" in a.json["error"]["message"], "compact is refused", a.body)


def test_sealed(t, d):
    """Thoughts come back to a server that keeps nothing."""
    ask = {"store": False, "include": ["reasoning.encrypted_content"],
           "input": "What is water made of?", "reasoning": {"effort": "high"},
           "max_output_tokens": 60}
    r = post(d, **ask).json
    thought = [i for i in r["output"] if i["type"] == "reasoning"]
    if not t.ok(thought and thought[0]["encrypted_content"], "thoughts are sealed", r):
        return
    sealed = {k: v for k, v in thought[0].items() if k != "content"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    out = {"type": "function_call_output", "call_id": "c", "output": "x"}
    counts = [post(d, **{**ask, "input": [{"role": "user", "content": "Hi"}, *first, call,
                                          out]}).json["usage"]["input_tokens"]
              for first in ([sealed], [thought[0]], [],
                            [{**sealed, "encrypted_content": "of another"}])]
    t.ok(counts[0] == counts[1] > counts[2] == counts[3], "and read", counts)


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
run([test_kept, test_stream] if "races" in CHECK else
    [test_kept, test_whole, test_stream, test_previous, test_tools, test_namespaces,
     test_references, test_history, test_counts, test_sealed, test_format, test_errors])
