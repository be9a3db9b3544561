"""Who may use the studio: only a browser that knows the token, from no other origin, with requests of limited size."""

import socket
import threading
import time

import pytest
from client import serve

from envgen.studio.server import HOST, MAX_BODY_BYTES, MAX_STREAMS, POLL_SECONDS, Stream, StudioServer


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("runs")) as client:
        yield client


def test_the_address_that_is_printed_opens_the_page(client):
    answer = client.get("")
    assert answer.status == 200
    assert answer.text.startswith("<!doctype html>")
    assert client.server.url == f"http://127.0.0.1:{client.server.server_port}/{client.server.token}/"
    assert len(client.server.token) >= 32


def test_tokens_are_random(client, tmp_path):
    with serve(tmp_path) as other:
        assert other.server.token != client.server.token
        assert other.raw("GET", f"/{client.server.token}/").status == 403


@pytest.mark.parametrize("path", ["/", "/levels", "//", "/x/", "/x/levels", "/{token}", "/{upper}/", "/x/../{token}/"])
def test_an_address_without_the_token_is_refused(client, path):
    token = client.server.token
    answer = client.raw("GET", path.format(token=token, upper=token.swapcase()))
    assert answer.status == 403
    assert "envgen studio" in answer.text
    assert token not in answer.text


def test_a_query_of_too_many_fields_is_a_bad_request(client):
    assert client.get("levels?" + "&".join(f"a={k}" for k in range(2001))).status == 400


def test_every_route_needs_the_token(client):
    for method, name in client.server.routes:
        headers = {"Content-Type": "application/json", "Content-Length": "2"} if method == "POST" else {}
        body = b"{}" if method == "POST" else None
        assert client.raw(method, f"/wrong/{name}", body, headers).status == 403, name


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "", "127.0.0.1:x", "[::1]:{port}"]
)
def test_a_name_that_is_bound_to_this_machine_is_refused(client, host):
    """DNS rebinding: a page of evil.example reaches 127.0.0.1 under its own name."""
    answer = client.get("", Host=host.format(port=client.server.server_port))
    assert answer.status == 403
    assert client.post("level", {"world": "toy", "level": {}}, Host=host).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "localhost:9000"])
def test_this_machine_may_be_named(client, host):
    """A forwarded port has another number on the machine of the browser."""
    assert client.get("", Host=host.format(port=client.server.server_port)).status == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "http://localhost:{port}"],
)
def test_other_origins_are_refused(client, origin):
    origin = origin.format(port=client.server.server_port)
    assert client.get("", Origin=origin).status == 403
    assert client.post("level", {"world": "toy", "level": {}}, Origin=origin).status == 403


def test_the_own_origin_is_accepted(client):
    origin = f"http://127.0.0.1:{client.server.server_port}"
    answer = client.post("level", {"world": "toy", "level": {}}, Origin=origin, Sec_Fetch_Site="same-origin")
    assert answer.json["error"] == ""


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_requests_of_other_pages_are_refused_but_links_work(client, site):
    assert client.get("", Sec_Fetch_Site=site, Sec_Fetch_Mode="cors", Sec_Fetch_Dest="empty").status == 403
    assert client.get("", Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image").status == 403
    assert client.get("", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="iframe").status == 403
    assert client.get("", Sec_Fetch_Site=site, Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document").status == 200
    link = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert client.post("level", {"world": "toy", "level": {}}, **link).status == 403


def test_bodies_over_a_megabyte_are_refused(client):
    answer = client.post("level", {"world": "toy", "level": "x" * MAX_BODY_BYTES})
    assert answer.status == 413
    assert "1,000,000" in answer.text
    assert client.post("level", {"world": "toy", "level": "x" * (MAX_BODY_BYTES - 100)}).status == 200
    headers = {"Content-Type": "application/json", "Content-Length": str(10**9)}
    with socket.create_connection((HOST, client.server.server_port), timeout=5) as sock:  # announced, never sent
        lines = [f"POST /{client.server.token}/level HTTP/1.1", f"Host: 127.0.0.1:{client.server.server_port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/json", "Transfer-Encoding": "chunked"}, 411),
        ({"Content-Type": "application/json"}, 411),
        ({"Content-Type": "application/json", "Content-Length": "-1"}, 411),
        ({"Content-Type": "text/plain", "Content-Length": "2"}, 415),
        ({"Content-Length": "2"}, 415),
    ],
)
def test_bodies_need_a_length_and_are_json(client, headers, status):
    """A page of another origin cannot send the type application/json without asking first, which is refused."""
    assert client.raw("POST", f"/{client.server.token}/level", b"{}", headers).status == status
    assert client.raw("OPTIONS", f"/{client.server.token}/level").status == 501


@pytest.mark.parametrize("body", [[], "text", 3, None, {"world": 3}, {"world": "toy"}, {"world": "toy", "seed": True}])
def test_bodies_of_the_wrong_form_are_refused_with_a_message(client, body):
    answer = client.post("level", body)
    assert (answer.status == 200 and answer.json["error"]) or answer.status == 400
    assert "Traceback" not in answer.text


def test_deeply_nested_bodies_are_refused(client):
    data = b'{"level": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    assert client.raw("POST", f"/{client.server.token}/level", data, headers).status == 400


def test_pages_forbid_everything_that_is_not_their_own(client):
    answers = [client.get(name) for name in ("", "levels", "designer", "asset?name=studio.js", "nothing")]
    assert [answer.status for answer in answers] == [200, 200, 200, 200, 404]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not any(name.lower().startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("name", ["../app.py", "/etc/passwd", "studio.js/../../server.py", "server.py", ""])
def test_only_the_assets_are_served(client, name):
    assert client.get(f"asset?name={name}").status == 404


def test_it_listens_on_this_machine_only(client):
    assert client.server.socket.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_an_error(client):
    with pytest.raises(OSError, match="in use"):
        StudioServer({}, client.server.server_port)


def test_streams_send_what_changes_and_end_when_the_server_stops():
    value = {"html": "<p id='a'>1</p>"}
    server = StudioServer({("GET", "events"): lambda request: Stream(lambda: {"a": value["html"]})})
    thread = threading.Thread(target=server.serve)
    thread.start()
    with socket.create_connection((HOST, server.server_port), timeout=5) as sock:
        sock.sendall(f"GET /{server.token}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        stream = sock.makefile("rb")
        assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
        while stream.readline() != b"\r\n":
            pass
        assert b"1</p>" in stream.readline()
        assert stream.readline() == b"\n"
        value["html"] = "<p id='a'>2</p>"
        start = time.monotonic()
        assert b"2</p>" in stream.readline()
        assert time.monotonic() - start < 2
        server.shutdown()
        thread.join(5)
        assert stream.read() == b"\n"  # the end
    assert not thread.is_alive()


def test_the_number_of_streams_is_limited():
    server = StudioServer({("GET", "events"): lambda request: Stream(dict)})
    thread = threading.Thread(target=server.serve)
    thread.start()
    sockets = []
    try:
        request = f"GET /{server.token}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        for _ in range(MAX_STREAMS + 1):
            sockets.append(socket.create_connection((HOST, server.server_port), timeout=5))
            sockets[-1].sendall(request)
            first_line = sockets[-1].recv(1000).split(b"\r\n")[0]
        assert b"503" in first_line
        sockets.pop(0).close()  # a page that is left makes room for another one at once
        time.sleep(2 * POLL_SECONDS)
        sockets.append(socket.create_connection((HOST, server.server_port), timeout=5))
        sockets[-1].sendall(request)
        assert b"200" in sockets[-1].recv(1000).split(b"\r\n")[0]
    finally:
        for sock in sockets:
            sock.close()
        server.shutdown()
        thread.join(5)
