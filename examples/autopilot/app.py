"""A small web application: it responds with the name of its container, and finishes its requests at SIGTERM."""

import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("PORT", "8000"))


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"hello from {socket.gethostname()}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass  # health checks would fill the log


class Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close waits for open requests
    request_queue_size = 128


server = Server(("", PORT), Handler)
# In a thread, because shutdown waits for serve_forever, which this handler interrupts.
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
print(f"listening on port {PORT}")
server.serve_forever(poll_interval=0.01)
server.server_close()
print("all requests answered")
