# SPDX-License-Identifier: Apache-2.0
"""A server that speaks as much of OpenAI's API as a bench needs."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../http"))
from quiet import Quiet


class StandIn(Quiet):
    protocol_version = "HTTP/1.1"

    def send(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200, b'{"object":"list","data":[{"id":"stand-in"}]}')
