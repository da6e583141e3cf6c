# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window, for tests of pages: Chromium, driven by its debugging pipe.

The pipe is two descriptors of the browser, 3 and 4, with JSON messages that end with a zero byte.
"""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
DEADLINE_S = 120


def program():
    """The path of the browser; None if no browser is installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One page in a browser. Errors of the console, and requests beside the page's own file, are
    collected in `errors` and `requests`."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="browser-")
        to_read, self.to = os.pipe()
        self.answers, from_write = os.pipe()
        # Moves the ends to larger numbers, because an end may have the number 3 or 4.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (to_read, from_write)]
        command = [program(), "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--hide-scrollbars",
                   "--force-color-profile=srgb", f"--user-data-dir={self.folder}",
                   "--remote-debugging-pipe", "about:blank"]
        self.log = open(pathlib.Path(self.folder) / "log", "wb")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True,
            preexec_fn=lambda: [os.dup2(fd, n) for n, fd in enumerate(ends, 3)])
        for fd in (to_read, from_write, *ends):
            os.close(fd)
        self.buffer = b""
        self.n = 0
        self.errors, self.requests = [], []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.to)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.answers)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise EOFError("the browser ended: "
                               + pathlib.Path(self.log.name).read_text(errors="replace")[-2000:])
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        params = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in (
                "error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in (
                "error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def call(self, method, **params):
        self.n += 1
        order = {"id": self.n, "method": method, "params": params}
        if self.session:
            order["sessionId"] = self.session
        text = json.dumps(order).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.message(deadline)
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            if "method" in answer:
                self.note(answer)

    def run(self, script):
        """The value of a JavaScript expression, or of the promise that the expression returns."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, condition):
        deadline = time.monotonic() + DEADLINE_S
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not true in time: {condition}; errors: {self.errors}")
            time.sleep(0.02)

    def settle(self):
        """Waits until the page has drawn everything."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def look(self, width=1280, height=800, dark=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=width < 600)
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 600, maxTouchPoints=5)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Opens a file, and waits until the page is ready."""
        self.errors, self.requests = [], []
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")
        self.settle()

    def worked_s(self):
        """The processor time of the page's main thread since the page was opened. On an idle
        machine, the page is ready after this time."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def mouse(self, kind, x, y, buttons=0, clicks=0):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, buttons=buttons,
                  button="left" if clicks or buttons else "none", clickCount=clicks)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, buttons=1, clicks=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + (to_x - x) * step / 5, y + (to_y - y) * step / 5,
                       buttons=1)
        self.mouse("mouseReleased", to_x, to_y, clicks=1)
        self.settle()

    def fingers(self, begin, end=None):
        """Puts fingers on the places `begin`, moves them to the places `end`, and lifts them."""
        def touch(kind, places):
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[
                {"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)])
        for n in range(len(begin)):
            touch("touchStart", begin[:n + 1])
        for step in range(1, 6 if end else 0):
            touch("touchMove", [(x + (to_x - x) * step / 5, y + (to_y - y) * step / 5)
                                for (x, y), (to_x, to_y) in zip(begin, end)])
        touch("touchEnd", [])
        self.settle()

    def tap(self, x, y):
        self.fingers([(x, y)])

    def picture(self, path, whole=False):
        options = {"captureBeyondViewport": True} if whole else {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"],
                               "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", **options)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def paper(self, path):
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
