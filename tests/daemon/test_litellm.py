#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LiteLLM's proxy with conf/scale-out/litellm.yaml in front of three real daemons. It is
large, so test.sh does not install it. Skipped where build/clients has none:

    build/clients/venv/bin/pip install 'litellm[proxy]'
"""
import os
import secrets
import traceback

from scale_out import Front, drop, end_boxes, fill, start_boxes, stream_to_end
from halod import BUILDDIR, Tap

CLIENTS = os.environ.get("HALOD_CLIENTS", os.path.join(BUILDDIR, "clients"))
PROGRAM = os.path.join(CLIENTS, "venv", "bin", "litellm")


def litellm(t, boxes):
    """No word of ours keeps a conversation on its box here; nothing else may be lost."""
    key = "sk-" + secrets.token_hex(32)
    headers = {"Authorization": "Bearer " + key}
    with Front("litellm.yaml", [PROGRAM, "--config", "CONF", "--host", "127.0.0.1",
                                "--port", "PORT"], boxes, ready="/health/liveliness",
               env={"LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}) as f:
        def chats(n):
            return [f.chat("Hi", headers, model="halo", max_tokens=4).status
                    for _ in range(n)]
        t.equal(chats(4), [200] * 4, "LiteLLM: answers")
        s = f.stream("Hi", headers, model="halo", max_tokens=8)
        t.equal(stream_to_end(s.response), "done", "LiteLLM: a stream")
        sockets = fill(boxes[0], "direct", boxes[0])
        t.equal(chats(6), [200] * 6, "LiteLLM: 429 is tried elsewhere")
        drop(sockets, boxes[:1])
        boxes[0].process.kill()
        boxes[0].wait()
        t.equal(chats(6), [200] * 6, "LiteLLM: a killed box is gone round")


def main():
    if not os.path.exists(PROGRAM):
        print("1..0 # SKIP LiteLLM is not installed in %s: nothing went through it" % CLIENTS)
        return
    t = Tap()
    boxes = start_boxes()
    try:
        litellm(t, boxes)
    except Exception:
        t.ok(False, "LiteLLM", traceback.format_exc())
    end_boxes(t, boxes)
    t.done()


main()
