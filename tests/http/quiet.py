# SPDX-License-Identifier: Apache-2.0
"""A handler of requests that leaves a test's lines alone."""
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
