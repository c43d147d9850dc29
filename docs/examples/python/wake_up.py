"""Receives webhooks, behind a proxy that has the certificate. A wake-up says only that it is worth polling now."""

import hashlib
import hmac
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_MAX = 65_536


def is_signed(raw, header, secret):
    expected = "sha256=" + hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), header.encode())


def listen_for_wake_ups(port, secret, wake):
    """Calls wake() for each wake-up that is signed with the secret, in a thread of its own."""

    class Receiver(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a client that says nothing

        def do_POST(self):
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > BODY_MAX:
                self.answer(413)
                return
            raw = self.rfile.read(int(length))
            if not is_signed(raw, self.headers.get("X-Service-Signature", ""), secret):
                self.answer(401)
                return
            self.answer(204)
            wake()

        def answer(self, status):
            self.close_connection = True
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
