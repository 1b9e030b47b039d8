#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Codex CLI and Claude Code, headless, against a running halod: one turn, and a second one
that goes on with it. test.sh installs them below build/clients; without them this is
skipped, and with HALOD_AGENTS=no: their prompts are long for a slow build."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

from halod import BUILDDIR, PATIENCE, run

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
BIN = os.path.abspath(os.path.join(CLIENTS, "agents", "node_modules", ".bin"))
CODEX, CLAUDE = (os.path.join(BIN, name) for name in ("codex", "claude"))


def starts(program):
    """Their packages bring a program for some kinds of machines only."""
    try:
        return subprocess.run([program, "--version"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=PATIENCE).returncode == 0
    except OSError:
        return False


if os.environ.get("HALOD_AGENTS") == "no":
    print("1..0 # SKIP HALOD_AGENTS is no")
    sys.exit(0)
if not (starts(CODEX) and starts(CLAUDE)):
    print("1..0 # SKIP Codex CLI or Claude Code is not there; test.sh installs them")
    sys.exit(0)


def execute(home, argv, **env):
    work = os.path.join(home, "work")
    os.makedirs(work, exist_ok=True)
    keep = {k: os.environ[k] for k in ("PATH", "LANG", "SSL_CERT_FILE") if k in os.environ}
    p = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, timeout=5 * PATIENCE, env={**keep, "HOME": home, **env})
    return p.returncode, p.stdout, p.stderr


def last_access(d, path):
    """The newest line of the access log about a path."""
    with d.news:
        lines = [json.loads(l) for l in d.lines if l and l.startswith("{")]
    return [l for l in lines if l.get("path", "").startswith(path)][-1]


def codex(d, home, *words):
    with open(os.path.join(home, "instructions.md"), "w") as f:
        f.write("You help.")
    base = os.path.join(home, ".codex")
    os.makedirs(base, exist_ok=True)
    with open(os.path.join(base, "config.toml"), "w") as f:
        f.write('''model = "halo-tiny"
model_provider = "halod"
model_instructions_file = "%s/instructions.md"
web_search = "disabled"
[model_providers.halod]
name = "halod"
base_url = "http://127.0.0.1:%d/v1"
wire_api = "responses"
env_key = "HALOD_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
''' % (home, d.port))
    code, out, err = execute(
        home, [CODEX, "exec", "--skip-git-repo-check", "--json", "--disable",
               "multi_agent", "--disable", "goals", *words],
        HALOD_KEY="any", CODEX_HOME=base)
    return code, [json.loads(l) for l in out.splitlines() if l.startswith("{")], out + err


def check_codex(t, d, home, words, what):
    """A turn ends well; what the model says in it is its own affair."""
    code, events, text = codex(d, home, *words)
    usage = [e["usage"] for e in events if e["type"] == "turn.completed"]
    t.ok(code == 0 and len(usage) == 1 and
         usage[0]["input_tokens"] > 100 and usage[0]["output_tokens"] > 0, what,
         text[-2000:])
    return usage[0] if usage else {}


def test_codex(t, d):
    home = tempfile.mkdtemp(prefix="halod-codex-", dir=os.environ.get("TMPDIR"))
    try:
        check_codex(t, d, home, ["Hello"], "Codex: a turn")
        line = last_access(d, "/v1/responses")
        t.ok(line["status"] == 200 and line["stream"], "by /v1/responses, streamed", line)
        usage = check_codex(t, d, home, ["resume", "--last", "Thank you"],
                            "Codex: the session goes on")
        t.ok(usage.get("cached_input_tokens", 0) > 1000,
             "its beginning is found in the cache", usage)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def claude(d, home, *words):
    code, out, err = execute(
        home, [CLAUDE, "-p", "--model", "halo-tiny", "--system-prompt", "You help.",
               "--tools", "Bash", "--output-format", "json", *words],
        ANTHROPIC_BASE_URL="http://127.0.0.1:%d" % d.port, ANTHROPIC_API_KEY="any",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_TELEMETRY="1",
        DISABLE_AUTOUPDATER="1", CLAUDE_CODE_MAX_OUTPUT_TOKENS="256")
    try:
        return code, json.loads(out), out + err
    except ValueError:
        return code, {}, out + err


def test_claude(t, d):
    home = tempfile.mkdtemp(prefix="halod-claude-", dir=os.environ.get("TMPDIR"))
    try:
        code, a, text = claude(d, home, "Hello")
        t.ok(code == 0 and a.get("subtype") == "success" and not a["is_error"] and
             a["result"] and a["usage"]["output_tokens"] > 0, "Claude Code: a turn",
             text[-2000:])
        line = last_access(d, "/v1/messages")
        t.ok(line["status"] == 200 and line["path"].endswith("?beta=true"),
             "by /v1/messages?beta=true", line)
        code, b, text = claude(d, home, "--resume", a.get("session_id", ""), "Thank you")
        t.ok(code == 0 and b.get("subtype") == "success" and b["result"],
             "Claude Code: the session goes on", text[-2000:])
        line = last_access(d, "/v1/messages")
        t.ok(line["cached_tokens"] >= (line["prompt_tokens"] // 2),
             "its beginning is found in the cache", line)
    finally:
        shutil.rmtree(home, ignore_errors=True)


run([test_codex, test_claude])
