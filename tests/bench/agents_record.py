#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what a coding agent sends: traces for haloctl bench agents.

    agents_record.py --clients DIR [--turns N] CLIENT > TRACE

CLIENT is claude, codex, opencode or cline; its program lies in DIR/node_modules/.bin (npm:
@anthropic-ai/claude-code, @openai/codex, opencode-ai, cline). It runs headless against a server
of this program, whose model is a script: it says a sentence and calls a tool in each turn. For
claude and opencode it thinks before. After a third of its turns it starts three subagents at
once, where the client has such a tool. After two thirds it says that the context is nearly full,
so the client compacts. Then the user asks a second time.

Of the requests only the shape is written. A text is its length, or the length that it has in
common with an earlier text, and the length behind. Equal texts are one text. So the trace holds
no words of anybody."""
import argparse
import http.server
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading

LIMIT = 200000     # tokens of the context, as the client is told
SUBAGENTS = 3
WORDS = "look read count then next file line test part list check value result again".split()


def words(seed, n):
    rnd = random.Random(seed)
    out = ""
    while len(out) < n:
        out += rnd.choice(WORDS) + " "
    return out[:n].strip()


# --- requests as messages -----------------------------------------------------------

def dump(x):
    return x if isinstance(x, str) else json.dumps(x, sort_keys=True)


def texts_of(content):
    if isinstance(content, str):
        return [content]
    return [b.get("text") or "" for b in content or [] if isinstance(b, dict)]


class Messages:
    """Messages as chat completions have them; the parts of an answer are one."""

    def __init__(self):
        self.list = []

    def add(self, role, text=(), thinking=(), calls=()):
        if role in ("system", "developer"):
            role = "user" if any(m["role"] != "system" for m in self.list) else "system"
        last = self.list[-1] if self.list else None
        if not last or last["role"] != role or role in ("user", "tool"):
            last = {"role": role, "text": [], "thinking": [], "calls": []}
            self.list.append(last)
        last["text"] += [t for t in text if t]
        last["thinking"] += [t for t in thinking if t]
        last["calls"] += calls


def from_anthropic(body):
    m = Messages()
    for t in texts_of(body.get("system")):
        # What halod, too, takes out: it differs in each request.
        if not t.startswith("x-anthropic-billing-header"):
            m.add("system", [t])
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for b in blocks:
            if b["type"] == "tool_result":
                m.add("tool", texts_of(b.get("content")))
        said = [b["text"] for b in blocks if b["type"] == "text"]
        if said:
            m.add(message["role"], said)
        for b in blocks:
            if b["type"] == "thinking":
                m.add("assistant", thinking=[b["thinking"]])
            elif b["type"] == "tool_use":
                m.add("assistant", calls=[dump(b["input"])])
    return body.get("tools") or [], m.list


def from_responses(body):
    m = Messages()
    m.add("system", [body.get("instructions") or ""])
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            m.add(item["role"], texts_of(item["content"]))
        elif kind == "reasoning":
            m.add("assistant", thinking=texts_of(item.get("content") or item.get("summary")))
        elif kind.endswith("_call"):
            m.add("assistant", calls=[dump(item.get("arguments") or item.get("input"))])
        elif kind.endswith("_output"):
            output = item["output"]
            m.add("tool", texts_of(output) if isinstance(output, (str, list)) else [dump(output)])
    return body.get("tools") or [], m.list


def from_chat(body):
    m = Messages()
    for x in body["messages"]:
        m.add(x["role"], texts_of(x.get("content")),
              [x.get("reasoning_content") or x.get("reasoning") or ""],
              [c["function"]["arguments"] for c in x.get("tool_calls") or []])
    return body.get("tools") or [], m.list


# --- the model ---------------------------------------------------------------------

def shell_call(names, n):
    """A harmless call of a tool that the client offers: (name, arguments)."""
    command = "seq %d %d" % (n, n + (7, 60, 250, 15, 700)[n % 5])
    for name, arguments in (("Bash", {"command": command, "description": "count"}),
                            ("bash", {"command": command, "description": "count"}),
                            ("run_commands", {"commands": [command]}),
                            ("execute_command", {"command": command, "requires_approval": False}),
                            ("exec_command", {"cmd": command}),
                            ("shell_command", {"command": command})):
        if name in names:
            return [(name, arguments)]
    return []


def agent_calls(names, n):
    out = []
    for i in range(1, SUBAGENTS + 1):
        prompt = "SUBTASK-%d. %s" % (n + i, words(n + i, 400))
        for name, arguments in (
                ("Agent", {"description": "count", "prompt": prompt,
                           "subagent_type": "general-purpose"}),
                ("Task", {"description": "count", "prompt": prompt,
                          "subagent_type": "general-purpose"}),
                ("task", {"description": "count", "prompt": prompt,
                          "subagent_type": "general"}),
                ("spawn_agent", {"message": prompt, "task_name": "count_%d" % i})):
            if name in names:
                out.append((name, arguments))
                break
    return out


class Talk:
    """A conversation: the main one, or a subagent's."""

    def __init__(self, parent, after, turns):
        self.parent, self.after, self.turns = parent, after, turns
        self.requests = []
        self.n_done = 0 # turns since the user's last words


class Script:
    def __init__(self, turns, thinks):
        self.turns, self.thinks = turns, thinks
        self.talks, self.lock = {}, threading.Lock()
        self.n_said, self.was_full = 0, False

    def talk_of(self, messages):
        """By the task's name in what the user said; the subagent's own comes first."""
        marks = [mark for roles in (("user",), ("user", "assistant")) for m in messages
                 if m["role"] in roles for t in m["text"]
                 for mark in re.findall(r"SUBTASK-\d+|TASK-MAIN", t)]
        name = marks[0] if marks else None
        if name and name not in self.talks:
            main = self.talks.get("TASK-MAIN")
            is_sub = name.startswith("SUB")
            self.talks[name] = Talk("TASK-MAIN" if is_sub else None,
                                    len(main.requests) - 1 if is_sub and main else 0,
                                    self.turns // 3 if is_sub else self.turns)
        return name, self.talks.get(name)

    def answer(self, tools, messages):
        """(thinking, text, calls, tokens that the prompt is said to have)"""
        names = {t.get("name") or t.get("function", {}).get("name") for t in tools}
        with self.lock:
            name, talk = self.talk_of(messages)
            last = " ".join(messages[-1]["text"][-1:]).lower()
            if talk and messages[-1]["role"] == "user" and (
                    last.count("summar") > 3 or not names and "summary" in last):
                return self.summary(name, talk, tools, messages)
            if not talk or not names:
                return "", "Counting", [], 1000 # beside the conversation: its title
            k, self.n_said = len(talk.requests), self.n_said + 1
            thinking = words(k, 120 + 97 * k % 700) if self.thinks else ""
            text = words(-k, 40 + 53 * k % 200)
            calls, used = shell_call(names, k + 1), 20000
            talk.n_done += 1
            if name == "TASK-MAIN" and k == self.turns // 3:
                calls = agent_calls(names, 10) or calls
            if name == "TASK-MAIN" and k >= self.turns * 2 // 3 and not self.was_full:
                used = LIMIT - 2000
            if talk.n_done >= talk.turns:
                calls, talk.n_done = [], 0
                talk.turns = self.turns // 4 # when the user asks again
            n_answer = len(thinking + text + "".join(dump(c[1]) for c in calls))
            talk.requests.append((tools, messages, n_answer))
            return thinking, text, calls, used

    def summary(self, name, talk, tools, messages):
        text, self.was_full = "<summary>%s. %s</summary>" % (name, words(99, 1500)), True
        talk.requests.append((tools, messages, len(text)))
        return "", text, [], 20000


# --- answers on the wire --------------------------------------------------------------

def anthropic_events(thinking, text, calls, used, n):
    usage = {"input_tokens": used, "output_tokens": 100}
    yield {"type": "message_start", "message": {
        "id": "m%d" % n, "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}}
    blocks = []
    if thinking:
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""},
                       [{"type": "thinking_delta", "thinking": thinking},
                        {"type": "signature_delta", "signature": "c2lnbmVk"}]))
    blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]))
    for i, (name, arguments) in enumerate(calls):
        blocks.append(({"type": "tool_use", "id": "toolu_%d_%d" % (n, i), "name": name,
                        "input": {}},
                       [{"type": "input_json_delta", "partial_json": json.dumps(arguments)}]))
    for i, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": i, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    yield {"type": "message_delta", "usage": usage, "delta": {
        "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}}
    yield {"type": "message_stop"}


def responses_events(thinking, text, calls, used, n):
    output = []
    if thinking:
        output.append({"type": "reasoning", "id": "rs_%d" % n, "summary": [],
                       "content": [{"type": "reasoning_text", "text": thinking}],
                       "encrypted_content": "c2VhbGVk"})
    output.append({"type": "message", "id": "msg_%d" % n, "role": "assistant",
                   "status": "completed",
                   "content": [{"type": "output_text", "text": text, "annotations": []}]})
    for i, (name, arguments) in enumerate(calls):
        output.append({"type": "function_call", "id": "fc_%d_%d" % (n, i),
                       "call_id": "call_%d_%d" % (n, i), "name": name,
                       "arguments": json.dumps(arguments), "status": "completed"})
    usage = {"input_tokens": used, "output_tokens": 100, "total_tokens": used + 100,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_%d" % n, "object": "response", "status": "in_progress",
                "output": []}
    yield {"type": "response.created", "response": response}
    for i, item in enumerate(output):
        yield {"type": "response.output_item.added", "output_index": i, "item": item}
        yield {"type": "response.output_item.done", "output_index": i, "item": item}
    yield {"type": "response.completed", "response": {
        **response, "status": "completed", "output": output, "usage": usage}}


def chat_events(thinking, text, calls, used, n):
    def chunk(delta, finish=None, **more):
        return {"id": "c%d" % n, "object": "chat.completion.chunk", "created": 1,
                "model": "scripted",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    yield chunk({"role": "assistant", "content": ""})
    if thinking:
        yield chunk({"reasoning_content": thinking})
    yield chunk({"content": text})
    for i, (name, arguments) in enumerate(calls):
        yield chunk({"tool_calls": [{"index": i, "id": "call_%d_%d" % (n, i), "type": "function",
                                     "function": {"name": name,
                                                  "arguments": json.dumps(arguments)}}]})
    usage = {"prompt_tokens": used, "completion_tokens": 100, "total_tokens": used + 100}
    yield chunk({}, "tool_calls" if calls else "stop", usage=usage)


SHAPES = (("/messages", from_anthropic, anthropic_events),
          ("/responses", from_responses, responses_events),
          ("/chat/completions", from_chat, chat_events))


def whole_chat(events):
    """A chat completion that is not streamed."""
    out = {"role": "assistant", "content": ""}
    for e in events:
        out["content"] += e["choices"][0]["delta"].get("content") or ""
    return {**e, "object": "chat.completion",
            "choices": [{"index": 0, "message": out, "finish_reason": "stop"}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, text, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.send(b'{"object": "list", "data": []}', "application/json")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if path.endswith("count_tokens"):
            self.send(b'{"input_tokens": 1000}', "application/json")
            return
        for end, read, make in SHAPES:
            if path.endswith(end):
                break
        else:
            self.send(b"{}", "application/json")
            return
        answer = self.server.script.answer(*read(body))
        events = make(*answer, self.server.script.n_said)
        if make is chat_events and not body.get("stream"):
            self.send(json.dumps(whole_chat(events)).encode(), "application/json")
            return
        name = "" if make is chat_events else "event: %s\n"
        text = "".join((name % e["type"] if name else "") + "data: %s\n\n" % json.dumps(e)
                       for e in events)
        if make is chat_events:
            text += "data: [DONE]\n\n"
        self.send(text.encode(), "text/event-stream")


# --- clients ----------------------------------------------------------------------

CODEX_CONFIG = '''model = "scripted"
model_provider = "here"
web_search = "disabled"
model_context_window = %d
model_auto_compact_token_limit = %d
[model_providers.here]
name = "here"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
env_key = "ANY_KEY"
[analytics]
enabled = false
'''


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def claude(bin_dir, port, home, ask):
    first = [bin_dir + "/claude", "-p", "--model", "scripted", "--allowedTools", "Bash(seq:*)",
             "Agent", "Task", "--max-turns", "1000"]
    return ([*first, ask[0]], [*first, "--continue", "/compact"],
            [*first, "--continue", ask[1]])


def codex(bin_dir, port, home, ask):
    write(home + "/.codex/config.toml", CODEX_CONFIG % (LIMIT, LIMIT - 20000, port))
    run = [bin_dir + "/codex", "exec", "--skip-git-repo-check",
           "--dangerously-bypass-approvals-and-sandbox"]
    return [*run, ask[0]], [*run, "resume", "--last", ask[1]]


def opencode(bin_dir, port, home, ask):
    write(home + "/.config/opencode/opencode.json", json.dumps({
        "provider": {"here": {
            "npm": "@ai-sdk/openai-compatible", "name": "here",
            "options": {"baseURL": "http://127.0.0.1:%d/v1" % port, "apiKey": "any"},
            "models": {"scripted": {"name": "scripted", "reasoning": True, "tool_call": True,
                                    "interleaved": {"field": "reasoning_content"},
                                    "limit": {"context": LIMIT, "output": 8000}}}}},
        "permission": {"*": "allow"}, "autoupdate": False, "share": "disabled"}))
    run = [bin_dir + "/opencode", "run", "-m", "here/scripted", "--auto"]
    return [*run, ask[0]], [*run, "-c", ask[1]]


def cline(bin_dir, port, home, ask):
    write(home + "/.cline/data/settings/providers.json", json.dumps({
        "version": 1, "lastUsedProvider": "openai-compatible",
        "providers": {"openai-compatible": {
            "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual",
            "settings": {"provider": "openai-compatible", "apiKey": "any", "model": "scripted",
                         "baseUrl": "http://127.0.0.1:%d/v1" % port,
                         "contextWindow": 24000}}}}))
    return ([bin_dir + "/cline", "-P", "openai-compatible", "-m", "scripted", "--json",
             "--compaction", "basic", ask[0]],)


CLIENTS = {"claude": claude, "codex": codex, "opencode": opencode, "cline": cline}


def drive(o, port, home):
    ask = ("TASK-MAIN: count in the files of this folder. %s" % words(5, 300),
           "Thank you. Now once more. %s" % words(6, 200))
    work = home + "/work"
    os.makedirs(work)
    env = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
    env.update(HOME=home, ANY_KEY="any", ANTHROPIC_API_KEY="any",
               ANTHROPIC_BASE_URL="http://127.0.0.1:%d" % port, DISABLE_TELEMETRY="1",
               CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1",
               OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_AUTOUPDATE="1")
    bin_dir = os.path.join(os.path.abspath(o.clients), "node_modules", ".bin")
    version = subprocess.run([bin_dir + "/" + o.client, "--version"], env=env, check=True,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True)
    for argv in CLIENTS[o.client](bin_dir, port, home, ask):
        p = subprocess.run(argv, cwd=work, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=900, check=False)
        print("# %s\n%s" % (argv[:3], p.stdout[-1500:]), file=sys.stderr)
    return re.search(r"\d+\.\d+\.\d+", version.stdout)[0]


# --- the trace --------------------------------------------------------------------

class Texts:
    """Each text is a length, or [an earlier text, the length in common, the length behind]."""

    def __init__(self):
        self.ids, self.shapes, self.all = {}, [], []

    def id_of(self, text):
        if text not in self.ids:
            best, most = None, 63
            for i, other in enumerate(self.all):
                n = len(os.path.commonprefix((text, other)))
                if n > most:
                    best, most = i, n
            n = len(text.encode())
            if best is not None:
                most = len(text[:most].encode())
            self.ids[text] = len(self.all)
            self.all.append(text)
            self.shapes.append(n if best is None else [best, most, n - most])
        return self.ids[text]


def shape_of(talk, texts):
    """Each request as what it keeps of the one before, and what it adds."""
    out, before, tools_before = [], [], None
    for tools, messages, n_answer in talk.requests:
        now = []
        for m in messages:
            short = {"role": m["role"], "text": [texts.id_of(t) for t in m["text"]]}
            for key in ("thinking", "calls"):
                if m[key]:
                    short[key] = [texts.id_of(t) for t in m[key]]
            now.append(short)
        keep = 0
        while keep < min(len(now), len(before)) and now[keep] == before[keep]:
            keep += 1
        request = {"keep": keep, "add": now[keep:], "answer": n_answer}
        ids = [texts.id_of(dump(t)) for t in tools]
        if ids != tools_before:
            request["tools"] = ids
        out.append(request)
        before, tools_before = now, ids
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clients", required=True)
    p.add_argument("--turns", type=int, default=30)
    p.add_argument("client", choices=CLIENTS)
    o = p.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.script = script = Script(o.turns, o.client in ("claude", "opencode"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as home:
        version = drive(o, server.server_address[1], home)
    server.shutdown()
    texts, names, talks = Texts(), list(script.talks), []
    for name, talk in script.talks.items():
        shape = {"requests": shape_of(talk, texts)}
        if talk.parent:
            shape.update(parent=names.index(talk.parent), after=talk.after)
        talks.append(shape)
        print("# %s: %d requests" % (name, len(talk.requests)), file=sys.stderr)
    if "TASK-MAIN" not in script.talks or len(talks[0]["requests"]) < o.turns:
        sys.exit("the client ended early")
    print('{"client": "%s %s",\n"texts": %s,\n"talks": [\n%s\n]}' % (
        o.client, version, json.dumps(texts.shapes, separators=(",", ":")),
        ",\n".join(json.dumps(t, separators=(",", ":")) for t in talks)))


if __name__ == "__main__":
    main()
