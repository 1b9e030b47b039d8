#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four coding agents of 40 turns each: how much of their prompts is not computed.

    agents_trace.py record --clients DIR [--turns N] > TRACE
    agents_trace.py replay [--build DIR] [--model DIR] [--kv-cache SIZE] [--restart N]
                          [--scale X] [--llama-server PROGRAM] TRACE

record runs Claude Code and Codex CLI (DIR/node_modules/.bin), two of each, against a server
of its own whose model is a script: it calls a tool in each turn. Of the requests only the
shape is written: which parts they have, how long these are, and which parts are the same. So
the trace holds no text of anybody.

replay makes texts of these lengths from seeds and sends them to halod, the agents in turns,
with kv_dir in a new folder. It restarts halod in the middle. What the model answers is not
what the recorded client then sends, so each answer counts as computed anew. It prints CSV:
the share of prompt tokens that were not computed, what came from the disk, why the rest was
computed, and the bytes written for bytes of KV made. With --llama-server the same requests
go to llama.cpp's server instead, with its own defaults for the cache in host memory. The
model is a GGUF file then."""
import argparse
import hashlib
import http.client
import http.server
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CODEX_CONFIG = '''model = "scripted"
model_provider = "here"
web_search = "disabled"
[model_providers.here]
name = "here"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
env_key = "ANY_KEY"
[analytics]
enabled = false
'''


# --- record ------------------------------------------------------------------

def parts_of(path, body):
    """[(role, text)] of a request, in the order in which a template renders it."""
    def dump(x):
        return x if isinstance(x, str) else json.dumps(x, sort_keys=True)
    out = [("system", dump(t)) for t in body.get("tools") or []]
    if path.startswith("/v1/messages"):
        system = body.get("system") or []
        out += [("system", dump(s)) for s in ([system] if isinstance(system, str) else system)]
        for m in body["messages"]:
            blocks = m["content"] if isinstance(m["content"], list) else [m["content"]]
            for b in blocks:
                if isinstance(b, dict):
                    b.pop("cache_control", None)
                out.append((m["role"], dump(b)))
    else:
        out.append(("system", body.get("instructions") or ""))
        for item in body["input"]:
            role = item.get("role") or ("assistant" if item.get("type") == "function_call"
                                        else "user")
            out.append((role if role in ("user", "assistant") else "system", dump(item)))
    return out


def tool_call(body, n):
    """A harmless call of a tool that the client offers: (name, arguments)."""
    names = [t.get("name") for t in body.get("tools") or []]
    command = "seq %d %d" % (n, n + 60 * (n % 4))
    for name, arguments in (("Bash", {"command": command, "description": "count"}),
                            ("exec_command", {"cmd": command}),
                            ("shell_command", {"command": command}),
                            ("shell", {"command": ["bash", "-lc", command]})):
        if name in names:
            return name, arguments
    return None, None


def anthropic_events(name, arguments, n):
    usage = {"input_tokens": 1, "output_tokens": 1}
    yield {"type": "message_start", "message": {
        "id": "m%d" % n, "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}}
    if name:
        block = {"type": "tool_use", "id": "toolu_%d" % n, "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "usage": usage, "delta": {
        "stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None}}
    yield {"type": "message_stop"}


def responses_events(name, arguments, n):
    if name:
        item = {"type": "function_call", "id": "fc_%d" % n, "call_id": "call_%d" % n,
                "name": name, "arguments": json.dumps(arguments), "status": "completed"}
    else:
        item = {"type": "message", "id": "msg_%d" % n, "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
             "input_tokens_details": {"cached_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    response = {"id": "resp_%d" % n, "object": "response", "status": "in_progress",
                "output": []}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {"type": "response.completed", "response": {
        **response, "status": "completed", "output": [item], "usage": usage}}


class Scripted(http.server.BaseHTTPRequestHandler):
    """A model that calls a tool in each of server.turns turns."""

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
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "count_tokens" in self.path:
            self.send(b'{"input_tokens": 1000}', "application/json")
            return
        name, arguments = tool_call(body, len(server.requests) + 1)
        if name: # else it is beside the conversation, such as for its title
            server.requests.append(parts_of(self.path, body))
        if len(server.requests) >= server.turns:
            name = None
        make = anthropic_events if "/messages" in self.path else responses_events
        text = "".join("event: %s\ndata: %s\n\n" % (e["type"], json.dumps(e))
                       for e in make(name, arguments, len(server.requests)))
        self.send(text.encode(), "text/event-stream")


def run_client(kind, bin_dir, port, home, task):
    work = os.path.join(home, "work")
    os.makedirs(work)
    env = {k: os.environ[k] for k in ("PATH", "LANG") if k in os.environ}
    env.update(HOME=home, ANY_KEY="any", ANTHROPIC_API_KEY="any",
               ANTHROPIC_BASE_URL="http://127.0.0.1:%d" % port, DISABLE_TELEMETRY="1",
               CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
    if kind == "codex":
        os.makedirs(os.path.join(home, ".codex"))
        with open(os.path.join(home, ".codex", "config.toml"), "w", encoding="utf-8") as f:
            f.write(CODEX_CONFIG % port)
        argv = [os.path.join(bin_dir, "codex"), "exec", "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox", task]
    else:
        argv = [os.path.join(bin_dir, "claude"), "-p", "--model", "scripted",
                "--allowedTools", "Bash(seq:*)", "--max-turns", "1000", task]
    return subprocess.run(argv, cwd=work, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False)


def shape(requests, ids, chars):
    """Each request as what it keeps of the one before and the parts it adds."""
    out, before = [], []
    for parts in requests:
        now = []
        for role, text in parts:
            key = hashlib.sha256(text.encode()).hexdigest()
            if key not in ids:
                ids[key] = len(ids)
                chars.append(len(text))
            now.append([role, ids[key]])
        keep = 0
        while keep < min(len(now), len(before)) and now[keep] == before[keep]:
            keep += 1
        out.append([keep, now[keep:]])
        before = now
    return out


def record(o):
    ids, chars, agents = {}, [], []
    for i, kind in enumerate(("claude", "codex", "claude", "codex")):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        server.requests, server.turns = [], o.turns
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with tempfile.TemporaryDirectory() as home:
            p = run_client(kind, os.path.join(o.clients, "node_modules", ".bin"),
                           server.server_address[1], home, "Count in task %d." % i)
        server.shutdown()
        print("# %s: %d requests" % (kind, len(server.requests)), file=sys.stderr)
        if len(server.requests) < o.turns:
            sys.exit("%s ended early:\n%s" % (kind, p.stdout[-2000:]))
        agents.append({"client": kind, "requests": shape(server.requests, ids, chars)})
    json.dump({"chars": chars, "agents": agents}, sys.stdout, separators=(",", ":"))
    print()


# --- replay -------------------------------------------------------------------

def text_of(i, n):
    """n characters that are the same for the same part."""
    rnd = random.Random(i)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    out, length = [], 0
    while length < n:
        word = "".join(rnd.choices(syllables, k=rnd.randrange(1, 4)))
        out.append(word)
        length += len(word) + 1
    return " ".join(out)[:n]


def bodies(trace, scale):
    """(agent, body) in the order of their turns, round by round."""
    now = [[] for _ in trace["agents"]]
    for turn in range(max(len(a["requests"]) for a in trace["agents"])):
        for i, a in enumerate(trace["agents"]):
            if turn >= len(a["requests"]):
                continue
            keep, add = a["requests"][turn]
            now[i] = now[i][:keep] + add
            messages = []
            for role, part in now[i]:
                text = text_of(part, int(trace["chars"][part] * scale))
                if messages and messages[-1]["role"] == role:
                    messages[-1]["content"] += "\n" + text
                else:
                    messages.append({"role": role, "content": text})
            yield turn, i, {"messages": messages, "max_tokens": 16, "temperature": 0,
                            "ignore_eos": True}


class Llama:
    """llama.cpp's server, as far as replay wants it."""

    def __init__(self, o):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [o.llama_server, "-m", o.model, "--port", str(self.port), "--jinja",
             *o.llama_args.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not self.is_ready():
            if self.process.poll() is not None:
                sys.exit("%s has ended" % o.llama_server)
            time.sleep(0.1)

    def is_ready(self):
        try:
            return self.request("GET", "/health", None).status == 200
        except OSError:
            return False

    def request(self, method, path, body):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        conn.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        r = conn.getresponse()
        text = r.read()
        conn.close()
        return types.SimpleNamespace(status=r.status, body=text, json=json.loads(text))

    def metrics(self):
        return {"kv_disk_written_bytes_total": 0, "kv_disk_made_bytes_total": 0}

    def stop(self):
        self.process.terminate()
        self.process.wait()


def start(o, folder):
    if o.llama_server:
        return Llama(o)
    return Halod(model=o.model, kv_dir=folder, kv_cache=o.kv_cache, max_body="64M")


def replay(o):
    with open(o.trace, encoding="utf-8") as f:
        trace = json.load(f)
    n_prompt = n_cached = n_disk = n_calls = n_longest = 0
    reasons, written, made = {}, 0, 0
    turns = max(len(a["requests"]) for a in trace["agents"])
    restarts = [turns * (k + 1) // (o.restart + 1) for k in range(o.restart)]
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, "kv")
        d = start(o, folder)
        for turn, _, body in bodies(trace, o.scale):
            if restarts and turn >= restarts[0]:
                restarts.pop(0)
                m = d.metrics()
                d.stop()
                written += m["kv_disk_written_bytes_total"]
                made += m["kv_disk_made_bytes_total"]
                d = start(o, folder)
            answer = d.request("POST", "/v1/chat/completions", body)
            if answer.status != 200:
                sys.exit("halod: %s" % answer.body.decode()[:500])
            t = answer.json["timings"]
            n = t["cache_n"] + t["prompt_n"]
            n_calls, n_longest = n_calls + 1, max(n_longest, n)
            n_prompt, n_cached, n_disk = (n_prompt + n, n_cached + t["cache_n"],
                                          n_disk + t.get("disk_n", 0))
            was = reasons.setdefault(t.get("cache_miss", "untold"), [0, 0])
            was[0], was[1] = was[0] + 1, was[1] + t["prompt_n"]
        m = d.metrics()
        written += m["kv_disk_written_bytes_total"]
        made += m["kv_disk_made_bytes_total"]
        d.stop()
    rows = [("requests", n_calls, "requests"), ("longest-prompt", n_longest, "tokens"),
            ("prompt-tokens", n_prompt, "tokens"),
            ("not-computed", "%.4f" % (n_cached / n_prompt), "share"),
            ("from-disk", "%.4f" % (n_disk / n_prompt), "share"),
            ("write-amplification", "%.3f" % (written / made if made else 0), "ratio")]
    rows += [("miss-%s" % k, v[1], "tokens in %d prompts" % v[0])
             for k, v in sorted(reasons.items())]
    for case, value, unit in rows:
        print("%s,%s,%s,%s,%s" % (stamp(), case, o.name, value, unit))


def stamp():
    return subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%h,%cs"], check=True,
                          capture_output=True, text=True).stdout.strip()


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="verb", required=True)
    r = sub.add_parser("record")
    r.add_argument("--clients", required=True)
    r.add_argument("--turns", type=int, default=40)
    r = sub.add_parser("replay")
    r.add_argument("--build", default=os.path.join(TOP, "build"))
    r.add_argument("--model", required=True)
    r.add_argument("--name", default="agents")
    r.add_argument("--kv-cache", default="0")
    r.add_argument("--restart", type=int, default=1)
    r.add_argument("--scale", type=float, default=1, help="of all lengths")
    r.add_argument("--llama-server")
    r.add_argument("--llama-args", default="", help="more arguments for it")
    r.add_argument("trace")
    o = p.parse_args()
    if o.verb == "record":
        record(o)
        return
    os.environ["HALOD_BUILDDIR"], os.environ["HALOD_SRCDIR"] = o.build, TOP
    sys.path.insert(0, os.path.join(TOP, "tests", "http"))
    global Halod
    import halod
    halod.PATIENCE = 1800 # a prompt may be long and the machine slow
    halod.QUICK = halod.USUAL
    Halod = halod.Halod
    replay(o)


if __name__ == "__main__":
    main()
