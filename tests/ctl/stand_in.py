# SPDX-License-Identifier: Apache-2.0
"""A server that speaks as much of OpenAI's API as a bench needs."""
import http.server


class Quiet(http.server.BaseHTTPRequestHandler):
    """Says nothing, also where a client goes: what threads say would be amid a test's lines."""

    def log_message(self, *args):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True


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
