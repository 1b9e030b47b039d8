# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium for tests, driven by its DevTools protocol through two pipes.

    b = Browser()
    b.open("http://127.0.0.1:8080/")
    b.wait("document.querySelector('#prompt')")
    b.click("#prompt"); b.type("Hello"); b.press("Enter")
    b.close()

Standard library only. Input comes as real key and mouse events. One at a time: the shell
that starts it takes descriptors below ten.

A slow machine makes no fact false: open() and reload() end when the page's buttons work,
click() when its element was hit, and wait() takes an element that is not there yet for false. A
state that passes is watched before what brings it: is_copied = b.watch(…); b.click(…);
b.wait(is_copied).
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from halod import PATIENCE

# Name: key code and what it types, as a keyboard would.
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), "Escape": (27, ""), "Backspace": (8, ""),
        "ArrowUp": (38, ""), "ArrowLeft": (37, ""), "Home": (36, ""), "k": (75, "")}


# Of the page at /: no answer is on its way, and the last message.
IDLE = "document.querySelector('#send').textContent === 'Send'"
LAST = "[...document.querySelectorAll('article.message')].at(-1)"


def find():
    """The program, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((p for p in map(shutil.which, names) if p), None)


def fresh(b, origin, **kept):
    """The page as who sees it first, but for what this tab has kept. What earlier tests left is
    cleared while no script of the page runs, which could write it again."""
    if b.eval("location.href") != "about:blank":
        b.open("about:blank")
    b.call("Storage.clearDataForOrigin", origin=origin, storageTypes="indexeddb")
    first = b.call("Page.addScriptToEvaluateOnNewDocument", source="""
        sessionStorage.clear(); localStorage.clear();
        for (const [k, v] of Object.entries(%s)) sessionStorage.setItem("halod." + k, JSON.stringify(v));
        """ % json.dumps(kept))
    b.open(origin + "/")
    b.call("Page.removeScriptToEvaluateOnNewDocument", **first)


def say(b, text, wait=True):
    """Sends a message, and waits for the whole answer."""
    b.click("#prompt")
    b.type(text)
    b.press("Enter")
    if wait:
        b.wait(IDLE)


def last(b, selector, what="innerText"):
    """Of the first such element in the last message."""
    return b.eval("%s?.querySelector(%s)?.%s" % (LAST, json.dumps(selector), what))


class ScriptError(AssertionError):
    """What a script of a test has thrown; kind: its class in JavaScript."""

    def __init__(self, script, details):
        self.kind = details.get("exception", {}).get("className")
        super().__init__("%s: %s" % (script, details))


# A click is one of this element: input that comes before the first picture is lost, and what
# comes into the page meanwhile moves the rest. Where it is; null: not there, or behind another.
AIM = """((selector) => {
    const e = document.querySelector(selector);
    if (!window.aimed) addEventListener("click", (event) => {
        aimed.isHit ||= aimed.at?.contains(event.target);
    }, true);
    window.aimed = { at: e, isHit: false };
    if (!e || e.disabled) return null;
    e.scrollIntoView({ block: "nearest" });
    const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
    return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null;
})(%s)"""

# Each change of the document is a moment to look at.
WATCH = """((is) => {
    const seen = window.watched ??= [], n = seen.push(false) - 1;
    const look = () => { try { seen[n] ||= Boolean(is()); } catch { /* not there yet */ } };
    new MutationObserver(look).observe(document, { subtree: true, childList: true,
        characterData: true, attributes: true });
    look();
    return "watched[" + n + "]";
})(() => %s)"""


class Browser:
    def __init__(self, width=1280, height=800, more=()):
        self.folder = tempfile.mkdtemp(prefix="halod-browser-")
        to_it, self.to = os.pipe()
        self.fd, from_it = os.pipe()
        # It reads its descriptor 3 and writes 4; a root in a container has no sandbox.
        self.process = subprocess.Popen(
            ["sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_it, from_it), "sh", find(),
             "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--hide-scrollbars", "--lang=en",
             "--user-data-dir=" + self.folder, *more, "about:blank"],
            pass_fds=(to_it, from_it), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)
        self.pending, self.n, self.session = b"", 0, None
        self.problems, self.urls = [], []  # what its console says; what it has asked for
        self.targets, self.shape = {}, (width, height)
        self.tab()

    # --- the protocol ------------------------------------------------------

    def _message(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            left = deadline - time.monotonic()
            if left < 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError("Chromium says nothing")
            piece = os.read(self.fd, 1 << 20)
            if not piece:
                raise AssertionError("Chromium has ended")
            self.pending += piece
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def _note(self, event):
        what, p = event.get("method"), event.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = p["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description",
                                                                  details["text"]))
        elif what == "Log.entryAdded" and p["entry"]["level"] == "error":
            self.problems.append("%s (%s)" % (p["entry"]["text"], p["entry"].get("url")))
        elif what == "Network.requestWillBeSent":
            self.urls.append(p["request"]["url"])

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session and not method.startswith("Target."):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self._message()
            if answer.get("id") != self.n:
                self._note(answer)
            elif "error" in answer:
                raise AssertionError("%s: %s" % (method, answer["error"]))
            else:
                return answer["result"]

    # --- pages ---------------------------------------------------------------

    def tab(self):
        """A new tab; it takes the place of the one before, to which session = leads back."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        self.targets[self.session] = target
        self.size(*self.shape)
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        return self.session

    def close_tab(self, session):
        self.call("Target.closeTarget", targetId=self.targets.pop(session))

    def _arrive(self, method, **params):
        """Leave this document and wait for the next one, whole; halod's page until all of its
        buttons work."""
        self.eval("window.isOld = true")
        self.call(method, **params)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self.eval("!window.isOld && document.readyState === 'complete' && "
                             "(typeof begun === 'undefined' || begun.then(() => true))"):
                    return
                why = "not whole"
            except AssertionError as e:  # between two documents there is none to ask
                why = e
            assert time.monotonic() < deadline, "%s: no document: %s" % (method, why)
            time.sleep(0.01)

    def open(self, url):
        self._arrive("Page.navigate", url=url)

    def reload(self):
        self._arrive("Page.reload")

    def eval(self, script):
        """The value of an expression; a promise is waited for."""
        r = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                      awaitPromise=True)
        if "exceptionDetails" in r:
            raise ScriptError(script, r["exceptionDetails"])
        return r["result"].get("value")

    def wait(self, script):
        """Until the expression is true; its value. An element comes as {} and is true, and what
        reads one that is not there is false."""
        return self._until(lambda: self._value(script), script)

    def _value(self, script):
        try:
            return self.eval(script)
        except ScriptError as e:
            if e.kind == "TypeError":
                return None
            raise

    def _until(self, look, what):
        deadline = time.monotonic() + PATIENCE
        while (value := look()) in (None, False, 0, ""):
            assert time.monotonic() < deadline, "never: %s\n%s" % (
                what, self.eval("document.body.innerText"))
            time.sleep(0.01)
        return value

    def watch(self, script):
        """From here on: an expression for wait(), true once this one was, if only for a moment."""
        return self.eval(WATCH % script)

    def wait_problem(self, text):
        """Until the console has told it: events come behind what caused them."""
        self._until(lambda: self.eval("1") and any(text in p for p in self.problems), text)

    def text(self, selector):
        return self.eval("document.querySelector(%s)?.innerText" % json.dumps(selector))

    def size(self, width, height, is_phone=False, scale=1):
        self.shape = (width, height, is_phone, scale)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=is_phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=is_phone)

    def scheme(self, name):
        """light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    # --- input ---------------------------------------------------------------

    def click(self, selector):
        """Until it is there, can be clicked, and was."""
        self._until(lambda: self._hit(selector), "a click of " + selector)

    def _hit(self, selector):
        at = self.eval(AIM % json.dumps(selector))
        if not at:
            return False
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1],
                      button="left", clickCount=1)
        return self.eval("aimed.isHit")

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def choose_file(self, selector, *paths):
        """As a user does in the dialog of a field for files."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=list(paths))

    def type(self, text):
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, name, shift=False, ctrl=False):
        code, text = KEYS[name]
        key = {"key": name, "code": name, "windowsVirtualKeyCode": code,
               "modifiers": 8 * shift + 2 * ctrl}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown",
                  **key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def fill(self, selector, text):
        """Replace what a field holds."""
        self.eval("document.querySelector(%s).select()" % json.dumps(selector))
        self.eval("document.querySelector(%s).focus()" % json.dumps(selector))
        self.press("Backspace")
        if text:
            self.type(text)

    def close(self):
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            pass
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.to)
        os.close(self.fd)
        shutil.rmtree(self.folder, ignore_errors=True)
