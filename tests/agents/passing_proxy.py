"""A proxy between a client and a server. Subclasses may change the requests and the answers. Uses only Python's own library, because
it also runs in clients' environments."""
import http.client
import http.server
import threading

NOT_PASSED_ON = ("host", "content-length", "connection", "accept-encoding", "transfer-encoding")


class PassingProxy(http.server.ThreadingHTTPServer):
    """Passes requests to the server at `server_at` (HOST:PORT), and its answers back as they come."""

    daemon_threads = True

    def __init__(self, server_at):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_at, self.lock = server_at, threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def begin_serving(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def request(self, method, path, raw):
        """Returns the body to send in place of `raw`, and a note, which is passed to answer(). path: without the query."""
        return raw, None

    def answer(self, method, path, note, response):
        """Yields the pieces of the answer's body. response: an http.client.HTTPResponse."""
        while piece := response.read1(65536):
            yield piece


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        proxy, path = self.server, self.path.split("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        raw, note = proxy.request(self.command, path, raw)
        upstream = http.client.HTTPConnection(proxy.server_at, timeout=600)
        upstream.request(self.command, self.path, raw or None, {name: value for name, value in self.headers.items() if name.lower() not in NOT_PASSED_ON})
        response = upstream.getresponse()
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        for piece in proxy.answer(self.command, path, note, response):
            self.wfile.write(piece)
            self.wfile.flush()
        upstream.close()

    do_HEAD = do_DELETE = do_POST = do_GET
