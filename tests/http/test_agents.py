#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Codex CLI, Claude Code, Continue and llm, headless, as README says to start them: with their own
prompts and all of their tools. A turn, one that goes on with it, a call of a tool and its
result, a fault, and a client that is stopped in the middle.

halo-tiny has no room for the prompts of agents. So a chat template shows it little of them
(agents.jinja). What the client sends is read in full all the same.

test.sh installs the clients below build/clients; without them this is skipped."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from halod import BUILDDIR, MODEL, PATIENCE, SRCDIR, Halod, run

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
BIN = os.path.abspath(os.path.join(CLIENTS, "agents", "node_modules", ".bin"))
VENV = os.path.abspath(os.path.join(CLIENTS, "venv", "bin"))
CODEX, CLAUDE, CONTINUE = (os.path.join(BIN, name) for name in ("codex", "claude", "cn"))
LLM = os.path.join(VENV, "llm")
WEATHER = "What is the weather in Tunis?"

TEMPLATE_FILE = os.path.join(SRCDIR, "tests/http/agents.jinja")


def starts(program):
    """Their packages bring a program for some kinds of machines only."""
    try:
        return subprocess.run([program, "--version"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE).returncode == 0
    except OSError:
        return False


if not all(starts(program) for program in (CODEX, CLAUDE, CONTINUE, LLM)):
    print("1..0 # SKIP Codex CLI, Claude Code, Continue or llm is not there; test.sh installs them")
    sys.exit(0)


def start(home, line, **env):
    """A line of a shell, in an empty folder, with nothing in the environment."""
    work = os.path.join(home, "work")
    os.makedirs(work, exist_ok=True)
    keep = {k: os.environ[k] for k in ("LANG", "SSL_CERT_FILE") if k in os.environ}
    path = os.pathsep.join((BIN, VENV, os.environ["PATH"]))
    return subprocess.Popen(
        ["sh", "-c", line], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**keep, "PATH": path, "HOME": home, **env})


def execute(home, line, **env):
    p = start(home, line, **env)
    out, err = p.communicate(timeout=5 * PATIENCE)
    return p.returncode, out, err


def requests(d, path):
    """The access log's lines about a path."""
    with d.news:
        lines = [json.loads(l) for l in d.lines if l and l.startswith("{")]
    return [l for l in lines if l.get("path", "").startswith(path)]


def table(client):
    """How README says to use a client: the code in its row."""
    with open(os.path.join(SRCDIR, "README.md"), encoding="utf-8") as f:
        row = re.search(r"^\| %s \| (.*) \|$" % re.escape(client), f.read(), re.M)
    return re.findall(r"`([^`]+)`", row[1])


def ported(d, text):
    return text.replace("127.0.0.1:8080", "127.0.0.1:%d" % d.port)


# --- Claude Code -----------------------------------------------------------------


def claude(d, *words, model="halo-tiny"):
    line = ported(d, table("Claude Code")[0]).replace("NAME", model)
    return line.replace("claude ", "claude -p ") + " " + " ".join(words)


def objects(out):
    return [json.loads(l) for l in out.splitlines() if l.startswith("{")]


def test_claude(t, d, home):
    code, out, err = execute(home, claude(d, "Hello"))
    t.ok(code == 0 and out.strip(), "Claude Code: a turn", out + err)
    n = len(requests(d, "/v1/messages?beta=true"))
    t.ok(n > 0 and all(r["status"] == 200 for r in requests(d, "/v1/messages")),
         "by /v1/messages?beta=true, and nothing else is refused", requests(d, "/"))
    code, out, err = execute(home, claude(d, "--continue", "Thank you"))
    t.ok(code == 0 and out.strip(), "the conversation goes on", out + err)
    code, out, err = execute(home, claude(d, "--output-format stream-json --verbose",
                                          "'%s'" % WEATHER))
    said = [(e["type"], b["type"]) for e in objects(out)
            if e["type"] in ("assistant", "user") for b in e["message"]["content"]]
    calls = [b for b in said if b == ("assistant", "tool_use")]
    t.ok(code == 0 and calls and said.count(("user", "tool_result")) == len(calls) and
         said[-1] == ("assistant", "text"), "a call, its result, and an answer", out + err)
    code, out, err = execute(home, claude(d, "Hello", model="claude-x"))
    t.ok(code != 0 and "claude-x" in out + err, "another model: it says so", out + err)


# --- Codex CLI -------------------------------------------------------------------


def codex(d, home, words, model="halo-tiny"):
    base = os.path.join(home, ".codex")
    os.makedirs(base, exist_ok=True)
    with open(os.path.join(base, "config.toml"), "w") as f:
        f.write('model = "%s"\nmodel_provider = "halod"\n' % model)
        f.write('[model_providers.halod]\nname = "halod"\n%s\n' %
                "\n".join(ported(d, x) for x in table("Codex CLI")))
    code, out, err = execute(home, "codex exec --skip-git-repo-check --json " + words)
    return code, objects(out), out + err


def test_codex(t, d, home):
    def check(words, what):
        code, events, text = codex(d, home, words)
        done = [e for e in events if e["type"] == "turn.completed"]
        said = [e["item"]["text"] for e in events if e["type"] == "item.completed" and
                e["item"]["type"] == "agent_message"]
        t.ok(code == 0 and len(done) == 1 and said and said[-1], what, text[-3000:])
    check("Hello", "Codex: a turn")
    made = requests(d, "/v1/responses")
    t.ok([(r["status"], r["stream"]) for r in made] == [(200, True)],
         "by one request to /v1/responses, streamed", made)
    check("resume --last 'Thank you'", "the conversation goes on")
    before = len(requests(d, "/v1/responses"))
    check("'%s'" % WEATHER, "a call, its result, and an answer")
    made = requests(d, "/v1/responses")[before:]
    t.equal([r["status"] for r in made], [200, 200], "in two requests")
    code, _, text = codex(d, home, "Hello", model="gpt-x")
    t.ok(code != 0 and "gpt-x" in text and "not served here" in text,
         "another model: it says so", text[-2000:])


# --- Continue --------------------------------------------------------------------


def continue_(d, home, words, model="halo-tiny"):
    config = os.path.join(home, "config.yaml")
    with open(config, "w") as f:
        f.write("name: local\nversion: 1.0.0\nschema: v1\nmodels:\n- {name: NAME, model: NAME, "
                "apiKey: none, defaultCompletionOptions: {temperature: 0}, %s}\n".replace("NAME", model)
                % ported(d, ", ".join(table("Continue"))))
    return execute(home, "cn -p --config %s %s" % (config, words), CONTINUE_TELEMETRY_ENABLED="0")


def test_continue(t, _, home):
    """Its first tool wants a path, of which halo-tiny knows none: here it writes what it knows,
    and Continue tells it that this is no path."""
    d = Halod(chat_template=TEMPLATE_FILE, max_output_tokens=200)
    try:
        continue_turns(t, d, home)
    finally:
        t.equal(d.stop(), 0, "halod ends well")


def continue_turns(t, d, home):
    for words, what in (("Hello", "Continue: a turn"),
                        ("--resume 'Thank you'", "the conversation goes on")):
        code, out, err = continue_(d, home, words)
        t.ok(code == 0 and out.strip(), what, out + err)
    code, out, err = continue_(d, home, "--auto '%s'" % WEATHER)
    made = requests(d, "/v1/chat")
    ends = [r["finish"] for r in made]
    t.ok(code == 0 and out.strip() and ends[:3] == ["stop", "stop", "tool_calls"] and
         ends[-1] == "stop", "a call, its result, and an answer", (ends, out, err))
    t.ok(all(r["status"] == 200 and r["stream"] for r in made), "each streamed, none refused", made)
    code, out, err = continue_(d, home, "Hello", model="gpt-x")
    t.ok(code != 0 and "gpt-x" in out + err, "another model: it says so", out + err)


# --- llm -------------------------------------------------------------------------


def test_llm(t, d, home):
    base = os.path.join(home, "llm")
    os.makedirs(base, exist_ok=True)
    with open(os.path.join(base, "extra-openai-models.yaml"), "w") as f:
        for name in ("halo-tiny", "gpt-x"):
            f.write(ported(d, "- {model_id: %s, model_name: %s, supports_tools: true, "
                              "api_base: 'http://127.0.0.1:8080/v1'}\n" % (name, name)))
    env = {"LLM_USER_PATH": base, "OPENAI_API_KEY": "-"}
    for words, what in (("-m halo-tiny Hello", "llm: a turn"),
                        ("-c 'Thank you'", "the conversation goes on"),
                        ("-m halo-tiny --no-stream Hello", "not streamed"),
                        ("-m halo-tiny -T llm_time --td '%s'" % WEATHER,
                         "a call, its result, and an answer")):
        code, out, err = execute(home, "llm " + words, **env)
        t.ok(code == 0 and out.strip(), what, out + err)
    t.ok("llm_time" in err, "the call was made", err)
    code, out, err = execute(home, "llm -m gpt-x Hello", **env)
    t.ok(code != 0 and "not served here" in err, "another model: it says so", out + err)


# --- all ---------------------------------------------------------------------------


def at_home(test):
    """The test with a home of its own for the client."""
    def in_home(t, d):
        home = tempfile.mkdtemp(prefix="halod-agent-", dir=os.environ.get("TMPDIR"))
        try:
            test(t, d, home)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    in_home.__name__ = test.__name__
    return in_home


def first_layer(source, target):
    """A copy of a file of safetensors without the layers behind the first."""
    with open(source, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    out, kept = {}, b""
    for name, t in head.items():
        if name == "__metadata__" or re.search(r"\.layers\.[1-9]", name):
            continue
        begin, end = t["data_offsets"]
        out[name] = {**t, "data_offsets": [len(kept), len(kept) + end - begin]}
        kept += data[begin:end]
    text = json.dumps(out).encode()
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + kept)


def endless(home, **settings):
    """A halod that does not end an answer: of halo-tiny's layers it has the first."""
    model = os.path.join(home, "halo-tiny")
    os.makedirs(model)
    for name in os.listdir(MODEL):
        os.symlink(os.path.abspath(os.path.join(MODEL, name)), os.path.join(model, name))
    with open(os.path.join(MODEL, "config.json")) as f:
        config = {**json.load(f), "num_hidden_layers": 1, "max_position_embeddings": 1 << 17}
    weights = os.path.join(model, "model.safetensors")
    os.remove(weights)
    first_layer(os.path.join(MODEL, "model.safetensors"), weights)
    os.remove(os.path.join(model, "config.json"))
    with open(os.path.join(model, "config.json"), "w") as f:
        json.dump(config, f)
    return Halod(model=model, max_seqs=1, **settings)


def test_left(t, d, home):
    """Clients that are stopped in the middle end what they asked for."""
    other = endless(home, chat_template=TEMPLATE_FILE)
    try:
        codex(d, home, "--version")  # writes the configuration
        config = os.path.join(home, ".codex", "config.toml")
        with open(config) as f:
            text = f.read().replace(":%d" % d.port, ":%d" % other.port)
        with open(config, "w") as f:
            f.write(text)
        for line in (claude(other, "Hello"), "codex exec --skip-git-repo-check Hello"):
            p = start(home, line)
            other.wait_metrics(num_requests_running=1)
            os.killpg(p.pid, signal.SIGKILL)
            p.communicate(timeout=PATIENCE)
            other.wait_metrics(num_requests_running=0)
            t.ok(True, "%s is stopped: its request ends" % re.search("claude|codex", line)[0])
    finally:
        t.equal(other.stop(), 0, "halod ends well")


run([at_home(test) for test in (test_claude, test_codex, test_continue, test_llm, test_left)],
    chat_template=TEMPLATE_FILE, strict_tools="yes", max_output_tokens=200)
