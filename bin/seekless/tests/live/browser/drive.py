"""Opens pages in headless Chromium, one after the other, and says what it saw of each, as JSON.

usage: drive.py CHROMIUM '[{"url": ..., "width": 900, "dark": false, "ready": JS, "run": {NAME: JS, ...},
                            "axe": FILE or null, "shot": FILE or null, "token": TOKEN or null, "print": false}, ...]'

Speaks the DevTools protocol over the pipe of --remote-debugging-pipe: messages of JSON, each ended by a zero
byte. Needs nothing but Python and Chromium. It judges nothing: the test does.
"""
import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 240


class Browser:
    def __init__(self, program, profile):
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()

        def ends():
            os.dup2(to_read, 103)
            os.dup2(to_write, 104)
            os.dup2(103, 3)
            os.dup2(104, 4)

        self.log = open(os.path.join(profile, "log"), "wb")
        self.child = subprocess.Popen(
            [program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--hide-scrollbars", "--user-data-dir=" + profile],
            preexec_fn=ends, close_fds=False, start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        os.close(to_read)
        os.close(to_write)
        self.until = time.monotonic() + LIMIT
        self.buffer, self.number, self.events, self.session = b"", 0, [], None

    def message(self):
        while b"\0" not in self.buffer:
            left = self.until - time.monotonic()
            if left <= 0 or not select.select([self.read], [], [], left)[0]:
                raise TimeoutError("the browser did not answer in time")
            more = os.read(self.read, 1 << 16)
            if not more:
                raise EOFError("the browser ended")
            self.buffer += more
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **params):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.write, json.dumps(asked).encode() + b"\0")
        while True:
            got = self.message()
            if got.get("id") == self.number:
                if "error" in got:
                    raise RuntimeError(f"{method}: {got['error']['message']}")
                return got["result"]
            self.events.append(got)

    def evaluate(self, text):
        got = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            details = got["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return got["result"].get("value")

    def end(self):
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()


def visit(browser, job):
    browser.session, browser.events = None, []
    # Each page has a profile of its own.
    context = browser.call("Target.createBrowserContext")["browserContextId"]
    target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Network", "Log"):
        browser.call(domain + ".enable")
    width = job.get("width", 900)
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if job.get("dark") else "light"}
    browser.call("Emulation.setEmulatedMedia", features=[scheme])
    if job.get("token"):
        pair = base64.b64encode(("any:" + job["token"]).encode()).decode()
        browser.call("Network.setExtraHTTPHeaders", headers={"Authorization": "Basic " + pair})
    browser.call("Page.navigate", url=job["url"])
    browser.evaluate(
        "new Promise((good, bad) => { const late = setTimeout(() => bad(new Error('never ready')), 30000);"
        " const look = () => { if (document.readyState === 'complete' && (%s)) { clearTimeout(late); good(1); }"
        " else setTimeout(look, 50); }; look(); })" % (job.get("ready") or "true"))
    seen = {"values": {name: browser.evaluate(text) for name, text in (job.get("run") or {}).items()}}
    if job.get("axe"):
        with open(job["axe"], encoding="utf-8") as file:
            browser.evaluate(file.read() + ";1")
        found = browser.evaluate("axe.run(document, {resultTypes: ['violations']})")
        seen["axe"] = [
            {"rule": v["id"], "impact": v["impact"], "help": v["help"],
             "nodes": [n["html"][:200] for n in v["nodes"][:3]]} for v in found["violations"]]
    if job.get("shot"):
        height = min(8000, browser.evaluate("document.documentElement.scrollHeight"))
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        data = browser.call("Page.captureScreenshot", format="png")["data"]
        with open(job["shot"], "wb") as file:
            file.write(base64.b64decode(data))
    if job.get("print"):
        seen["pdf"] = len(base64.b64decode(browser.call("Page.printToPDF")["data"]))
    browser.call("Runtime.evaluate", expression="1")
    said, asked = [], []
    for event in browser.events:
        if event.get("sessionId") != browser.session:
            continue
        name, of = event.get("method"), event.get("params", {})
        if name == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning", "assert"):
            said.append(of["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in of["args"]))
        elif name == "Runtime.exceptionThrown":
            details = of["exceptionDetails"]
            said.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif name == "Log.entryAdded" and of["entry"]["level"] in ("error", "warning"):
            said.append("log: " + of["entry"]["text"] + " " + of["entry"].get("url", ""))
        elif name == "Network.requestWillBeSent":
            asked.append(of["request"]["url"])
    seen["console"], seen["requests"] = said, asked
    browser.session = None
    browser.call("Target.disposeBrowserContext", browserContextId=context)
    return seen


def main():
    program, jobs = sys.argv[1], json.loads(sys.argv[2])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            print(json.dumps([visit(browser, job) for job in jobs]))
        except Exception as error:  # said with the browser's own words, which say why it did not start
            browser.end()
            with open(os.path.join(profile, "log"), errors="replace") as log:
                sys.exit(f"{error!r}\n{log.read()[-2000:]}")
        finally:
            browser.end()


main()
