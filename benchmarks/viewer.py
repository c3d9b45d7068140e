"""Viewers without a browser: sessions that speak the browser's own WebSocket protocol to a real server."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

ROOT = Path(__file__).parents[1]
LIMIT = 120.0
"""Seconds after which a run that has not ended counts as failed."""


@contextmanager
def server(script: str = "app.py") -> Iterator[tuple[str, int]]:
    """A fresh server on a free port: its address and process id."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.port", str(port)]
    command += ["--server.headless", "true", "--server.fileWatcherType", "none"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=1)
                break
            except OSError:
                time.sleep(0.25)
        else:
            raise RuntimeError("the server did not become healthy within 60 seconds")
        yield f"localhost:{port}", process.pid
    finally:
        process.terminate()
        process.wait(20)


@dataclass
class Viewer:
    """One session. `seen` is the text of all elements of the last run, `errors` the exceptions it showed."""

    address: str
    seen: str = ""
    errors: list[str] = field(default_factory=list)
    _socket: websockets.ClientConnection | None = None

    async def open(self) -> Viewer:
        """Connect; the session ends with `close`."""
        self._socket = await websockets.connect(
            f"ws://{self.address}/_stcore/stream",
            subprotocols=["streamlit"],
            max_size=None,  # type: ignore[list-item]
        )
        return self

    async def close(self) -> None:
        """End the session as a closed tab does."""
        if self._socket is not None:
            await self._socket.close()

    async def visit(self, page: str = "", query: str = "") -> float:
        """Run a page as a navigation to it does; returns the seconds until its script has ended."""
        message = BackMsg()
        message.rerun_script.query_string = query
        message.rerun_script.page_name = page
        message.rerun_script.context_info.url = f"http://{self.address}/{page}"
        return await self._run(message)

    async def _run(self, message: BackMsg) -> float:
        assert self._socket is not None
        start = time.perf_counter()
        await self._socket.send(message.SerializeToString())
        self.seen, self.errors = "", []
        async with asyncio.timeout(LIMIT):
            while True:
                forward = ForwardMsg.FromString(await self._socket.recv())  # type: ignore[arg-type]
                kind = forward.WhichOneof("type")
                if kind == "delta":
                    self._take(forward)
                elif kind == "script_finished" and forward.script_finished in (
                    ForwardMsg.FINISHED_SUCCESSFULLY,
                    ForwardMsg.FINISHED_WITH_COMPILE_ERROR,
                ):
                    return time.perf_counter() - start

    def _take(self, forward: ForwardMsg) -> None:
        element = forward.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(element.exception.message)
        if kind in ("markdown", "heading", "alert", "code", "html"):
            part = getattr(element, kind)
            self.seen += " " + (getattr(part, "body", "") or getattr(part, "code_text", ""))
