"""JSON over HTTP on loopback, with time limits; no proxy is ever asked."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

from forerun.errors import ForerunError


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_healthy(port: int, path: str = "/health") -> bool:
    """Whether a server answers there with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def get(port: int, path: str, timeout: float = 30) -> Any:
    """Raises ForerunError for whatever isn't JSON with status 200."""
    return _exchange(port, "GET", path, None, timeout)


def post(port: int, path: str, body: dict[str, Any], timeout: float) -> Any:
    """Raises ForerunError for whatever isn't JSON with status 200."""
    return _exchange(port, "POST", path, json.dumps(body), timeout)


def _exchange(port: int, method: str, path: str, body: str | None, timeout: float) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    except OSError as error:
        raise ForerunError(f"an answer from {path}", str(error) or type(error).__name__, "see the log") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise ForerunError(f"status 200 from {path}", f"{answer.status}: {text[:200]}", "see the log")
    return json.loads(text)
