"""A balancer of TCP connections, like those in front of servers that are updated one after another. It routes a new connection to a server
whose /ready answered 200 a moment ago, and copies bytes."""
import itertools
import selectors
import socket
import threading
import urllib.request


class Balancer:
    """with Balancer(servers) as b: clients connect to b.port. `servers` may change while connections come."""

    PROBE_SECONDS = 0.02

    def __init__(self, servers):
        self.servers = list(servers)
        self.ready = []
        self.unreachable = []  # servers that were routed to and did not accept the connection
        self.routed = []  # the server of each connection
        self._over = threading.Event()
        self._turns = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]

    def __enter__(self):
        self._probe_all()
        for work in (self._probe, self._accept):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @staticmethod
    def _is_ready(server):
        try:
            urllib.request.urlopen(server.url + "/ready", timeout=5).close()
            return True
        except OSError:  # an HTTP status other than 200, or no connection
            return False

    def _probe_all(self):
        self.ready = [server for server in list(self.servers) if self._is_ready(server)]

    def _probe(self):
        while not self._over.wait(self.PROBE_SECONDS):
            self._probe_all()

    def _accept(self):
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:  # the listener was closed
                return
            threading.Thread(target=self._route, args=(client,), daemon=True).start()

    def _route(self, client):
        ready = self.ready
        with client:
            if not ready:
                return self.unreachable.append(None)
            server = ready[next(self._turns) % len(ready)]
            try:
                upstream = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            except OSError:
                return self.unreachable.append(server)
            self.routed.append(server)
            with upstream:
                self._copy(client, upstream)

    @staticmethod
    def _copy(client, upstream):
        """Copies bytes both ways until either side ends its direction or breaks off."""
        with selectors.DefaultSelector() as ends:
            ends.register(client, selectors.EVENT_READ, upstream)
            ends.register(upstream, selectors.EVENT_READ, client)
            while True:
                for end, _ in ends.select():
                    try:
                        data = end.fileobj.recv(1 << 16)
                        if not data:
                            return
                        end.data.sendall(data)
                    except OSError:
                        return
