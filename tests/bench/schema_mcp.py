#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schemas of the tools of MCP servers, as zod and pydantic make them, one a line, for
schema_suite.py.

usage: schema_mcp.py 'COMMAND' ['COMMAND'...] > FILE.jsonl

A command starts a server that speaks by standard input and output. Which packages have some:

    npm install @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem \\
        @modelcontextprotocol/server-memory @modelcontextprotocol/server-sequential-thinking \\
        @modelcontextprotocol/server-github @playwright/mcp @upstash/context7-mcp \\
        @notionhq/notion-mcp-server
    pip install mcp-server-fetch mcp-server-time
"""
import json
import os
import select
import shlex
import subprocess
import sys
import time

PATIENCE = 30  # seconds for a server to tell its tools
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {},
         "clientInfo": {"name": "schema_mcp", "version": "1"}}
ASKED = ({"id": 1, "method": "initialize", "params": HELLO},
         {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"})


def lines_of(p):
    """What it prints until PATIENCE is over or it ends."""
    end, rest = time.monotonic() + PATIENCE, b""
    while (left := end - time.monotonic()) > 0 and select.select([p.stdout], [], [], left)[0]:
        piece = os.read(p.stdout.fileno(), 1 << 16)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def tools_of(command):
    p = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL)
    try:
        for message in ASKED:
            p.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        p.stdin.flush()
        for line in lines_of(p):
            if line.startswith(b"{") and (answer := json.loads(line)).get("id") == 2:
                return answer["result"]["tools"]
    except BrokenPipeError:
        pass
    finally:
        p.kill()
        p.wait()
    sys.exit("%s: told no tools" % command)


for command in sys.argv[1:]:
    tools = tools_of(command)
    print("%s: %d tools" % (command, len(tools)), file=sys.stderr)
    for tool in tools:
        for name in ("inputSchema", "outputSchema"):
            if tool.get(name):
                print(json.dumps(tool[name]))
