"""Drives a headless Chromium through WebDriver (W3C) over plain HTTP, for tests of the pages.

with Browser() as b: b.open(url); b.click("#pause"); b.text("#state"). Selectors are CSS. Every method waits: it looks for a
missing element again and again until a deadline."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import verdict
from server import free_port

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015",
        "End": "\ue010", "Home": "\ue011", "Shift": "\ue008", "Space": " ",
        "Control": "\ue009", "Backspace": "\ue003"}


def need_browser():
    """Ends the script if this machine has no browser (tests/skips.py)."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            verdict.skip_all(f"{program} is not installed")


class WebDriverError(Exception):
    pass


class Browser:
    PATIENCE = 20

    def __init__(self, width=1440, height=900, dark=False):
        self.directory = tempfile.TemporaryDirectory(prefix="quire-browser-")
        self.port = free_port()
        self.log = open(os.path.join(self.directory.name, "driver.log"), "wb")
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.session = None
        arguments = ["--headless=new", f"--window-size={width},{height}", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-background-networking", "--force-device-scale-factor=1", "--hide-scrollbars",
                     f"--user-data-dir={self.directory.name}/profile"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # Chromium's sandbox refuses root, and containers run tests as root
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self._await_driver()
            self.session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
            self.theme(dark)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self._ask("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(timeout=20)
            self.log.close()
            self.directory.cleanup()

    def _ask(self, method, path, body=None):
        data = None if method in ("GET", "DELETE") else json.dumps(body or {}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise WebDriverError(f"{value['error']}: {value['message']}") from None

    def _await_driver(self):
        deadline = time.monotonic() + 30
        while True:
            try:
                if self._ask("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > deadline:
                raise WebDriverError("chromedriver does not answer")
            time.sleep(0.05)

    def do(self, method, path, **body):
        return self._ask(method, f"/session/{self.session}{path}", body)

    def cdp(self, command, **params):
        """Sends a command of Chromium's own protocol, for functions that WebDriver lacks."""
        return self.do("POST", "/goog/cdp/execute", cmd=command, params=params)

    def theme(self, dark):
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.do("POST", "/url", url=url)

    def run(self, script, *arguments):
        """Runs a function body in the page and returns its value; a promise is awaited."""
        return self.do("POST", "/execute/sync", script=script, args=list(arguments))

    def until(self, what, condition):
        """Returns the first true value of condition(). Raises an error with the text `what` if no value is true in
        time."""
        deadline = time.monotonic() + self.PATIENCE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {self.PATIENCE} s: {what}\n{self.run('return document.body.innerText')[:3000]}\n{self.console()}")
            time.sleep(0.05)

    def see(self, selector):
        """Waits until an element that matches the selector is shown, and returns it."""
        script = "const e = [...document.querySelectorAll(arguments[0])].find((e) => e.getClientRects().length > 0); return e ?? null"
        return self.until(f"{selector} is shown", lambda: self.run(script, selector))

    def hidden(self, selector):
        return self.run("return ![...document.querySelectorAll(arguments[0])].some((e) => e.getClientRects().length > 0)", selector)

    def text(self, selector):
        """Returns the text of the first element that matches, shown or not; empty if there is none."""
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def sees(self, selector, text):
        return self.until(f"{selector} says {text!r}, not {self.text(selector)!r}", lambda: text in self.text(selector))

    def click(self, selector):
        element = self.see(selector)
        self.do("POST", f"/element/{element[ELEMENT]}/click")

    def type(self, selector, text):
        element = self.see(selector)
        self.do("POST", f"/element/{element[ELEMENT]}/value", text=text)

    def hover(self, selector, x=0, y=0):
        """Moves the pointer over the element, to a point x and y pixels from its middle."""
        self.pointer({ELEMENT: self.see(selector)[ELEMENT]}, x, y)

    def pointer(self, origin, x, y):
        move = {"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y}
        self.do("POST", "/actions", actions=[{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}])

    def press(self, *names):
        """Presses keys one after another: names of KEYS, or characters. "Shift+Tab" presses Tab while Shift is held."""
        actions = []
        for name in names:
            keys = [KEYS.get(part, part) for part in name.split("+")] if len(name) > 1 else [name]
            actions += [{"type": "keyDown", "value": key} for key in keys] + [{"type": "keyUp", "value": key} for key in reversed(keys)]
        self.do("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def focused(self):
        """Describes the focused element: by its aria-label, or otherwise the text of its label, or otherwise its own text."""
        return self.run("const e = document.activeElement; return e.getAttribute('aria-label') ?? (e.labels?.[0]?.textContent ?? e.textContent).trim() ?? e.id")

    def console(self):
        """Returns the errors on the pages' console since the last call."""
        return [entry["message"] for entry in self.do("POST", "/se/log", type="browser") if entry["level"] == "SEVERE"]

    def picture(self, path=None, whole=False):
        """Takes a screenshot (PNG) of the visible part, or of the whole page."""
        if whole:
            data = self.cdp("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        else:
            data = self.do("GET", "/screenshot")
        content = base64.b64decode(data)
        if path:
            with open(path, "wb") as f:
                f.write(content)
        return content
