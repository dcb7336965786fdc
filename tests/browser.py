"""A headless Chromium, driven by the W3C's WebDriver requests; no network is used."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

START_SECONDS = 60  # for chromedriver to listen, on a crowded machine
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND",  # a page that asks for anything elsewhere does not get it
]


def obstacle() -> str | None:
    """Why no browser can be started here; None if one can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)} (Debian's chromium and chromium-driver)" if missing else None


class Browser:
    """One window. `folder` gets its profile and the driver's log; use it as a context."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> "Browser":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = (self.folder / "chromedriver.log").open("w")
        command = [shutil.which("chromedriver"), f"--port={port}"]
        home = os.environ | {"HOME": str(self.folder)}
        self.driver = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, env=home)
        self.address = f"http://127.0.0.1:{port}"
        self.session = ""
        try:
            self._wait()
            options = {
                "browserName": "chrome",
                "goog:chromeOptions": {
                    "binary": shutil.which("chromium"),
                    "args": [*FLAGS, f"--user-data-dir={self.folder / 'profile'}"],
                },
                "goog:loggingPrefs": {"browser": "ALL"},
            }
            made = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        except BaseException:
            self.__exit__()
            raise
        self.session = f"/session/{made['sessionId']}"
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self.session:
                self._ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            try:
                self.driver.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.driver.kill()
                self.driver.wait()
            self.log.close()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._ask("GET", "/status")
            except urllib.error.URLError:
                if self.driver.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def _ask(self, method: str, path: str, body: dict | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is here, behind no proxy
        try:
            with opener.open(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {json.load(error)['value']['message']}") from error

    def resize(self, width: int, height: int) -> None:
        """Give the window a size in pixels."""
        self._ask("POST", f"{self.session}/window/rect", {"width": width, "height": height})

    def open(self, path: Path) -> None:
        """Show a file and wait until it is loaded."""
        self._ask("POST", f"{self.session}/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *arguments: object) -> Any:
        """What the body of a JavaScript function returns."""
        return self._ask("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str, *arguments: object) -> Any:
        """Run a script until it returns something true; errors: nothing within START_SECONDS."""
        end = time.monotonic() + START_SECONDS
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < end, f"still false: {script}"
            time.sleep(0.05)
        return found

    def enter_frame(self, index: int | None) -> None:
        """Let scripts run in a frame of the page; None: in the page itself again."""
        self._ask("POST", f"{self.session}/frame", {"id": index})

    def errors(self) -> list[str]:
        """The errors that the console has told of since the last call."""
        entries = self._ask("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]
