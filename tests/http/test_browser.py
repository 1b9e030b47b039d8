#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page at "/" in a real browser: a headless Chromium with real keys and clicks."""
import json
import os
import socket
import sys
import tempfile
import traceback

import browser
from browser import IDLE, LAST, last, say
from halod import MODEL, Halod, Tap, wait_for

LONG = {"ignore_eos": True}  # an answer as long as the context
TOOLS = [{"type": "function", "function": {
    "name": "get_current_weather", "description": "Look up the weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}},
        "required": ["city"]}}}]
EVIL = "<img src=x onerror=document.title='evil'><script>document.title='evil'</script>"
CODE = "Try **this** with `x`:\n\n```js\nif (1 < 2 && `x`) **no**\n```\nThat is all."
BUSY = "document.querySelector('#send').textContent === 'Stop'"


def start(b, d, **settings):
    """A fresh page with these settings, set as its user does; ready."""
    browser.fresh(b, "http://127.0.0.1:%d" % d.port)
    b.wait("document.querySelector('#state').textContent === 'ready'")
    if settings:
        set_settings(b, **settings)


def set_settings(b, fields=None, tools=None, thinking=None, system=None):
    b.click("#open-settings")
    b.wait("document.querySelector('#settings-dialog').open")
    b.fill("#fields", json.dumps(fields) if fields else "")
    b.fill("#tools", json.dumps(tools) if tools else "")
    b.fill("#system", system or "")
    b.eval("document.querySelector('#thinking').value = %s" % json.dumps(thinking or ""))
    b.click("#settings-dialog .solid")
    b.wait("!document.querySelector('#settings-dialog').open")


def test_chat(t, b, d):
    start(b, d, fields={"temperature": 0})
    t.equal(b.text("#model"), "halo-tiny on cpu", "the page says what runs")
    t.ok(b.eval("document.activeElement.id === 'prompt' || document.body.contains("
                "document.activeElement)"), "the focus is on the message")
    say(b, "What is 2+2?")
    t.ok("4" in last(b, ".text"), "an answer", last(b, ".text"))
    t.equal(b.text(".said"), "What is 2+2?", "below what was asked")
    t.ok("TTFT" in last(b, ".meta") and "tokens/s" in last(b, ".meta"), "and its times",
         last(b, ".meta"))
    say(b, "Name the capital of France.")
    sent = d.get("/stats").json["requests"]
    t.ok("Paris" in last(b, ".text") and sent[0]["prompt_tokens"] > sent[1]["prompt_tokens"],
         "a second turn carries the first", (last(b, ".text"), sent[:2]))
    b.reload()
    b.wait("document.querySelectorAll('article.message').length === 2 && " + IDLE)
    t.ok("Paris" in last(b, ".text"), "a reload keeps the conversation")
    b.click("#new")
    t.equal(b.eval("document.querySelectorAll('.message').length"), 0, "New begins another")


def test_stream(t, b, d):
    start(b, d, fields=LONG)
    say(b, "Tell me a story.", wait=False)
    b.wait(BUSY)
    n = b.wait("%s.querySelector('.text').textContent.length" % LAST)
    more = b.wait("(n => n > %d && n)(%s.querySelector('.text').textContent.length)"
                  % (n, LAST))
    t.ok(more > n and b.eval(BUSY), "text comes while it is written", (n, more))
    b.wait("document.querySelector('#running').textContent === '1' && "
           "document.querySelector('#active').textContent.includes('Writing')")
    t.ok(True, "the status says that it runs")
    d.wait_metrics(num_requests_running=1)
    b.press("Escape")
    b.wait(IDLE)
    d.wait_metrics(num_requests_running=0)
    t.ok("stopped" in last(b, ".meta") and len(last(b, ".text")) >= more,
         "Esc stops it; what was said stays", last(b, ".meta"))
    b.wait("document.querySelector('#requests summary')")
    wait_for("an abort", lambda: d.get("/stats").json["requests"][0]["finish"] == "abort")
    t.ok(True, "for the server, too")
    say(b, "Another one.", wait=False)
    b.wait("%s.querySelector('.text').textContent" % LAST)
    b.click("#send")
    b.wait(IDLE)
    d.wait_metrics(num_requests_running=0)
    t.ok("stopped" in last(b, ".meta"), "the button stops, too", last(b, ".meta"))


def test_reasoning(t, b, d):
    start(b, d, fields={"temperature": 0, "max_tokens": 120}, tools=TOOLS, thinking="on")
    say(b, "weather in Tunis?")
    t.ok(last(b, ".thought summary").startswith("Thought"), "reasoning has a line",
         last(b, ".thought summary"))
    t.equal((last(b, ".thought", "open"), last(b, ".thought > div", "checkVisibility()")),
            (False, False), "and is folded")
    thought = last(b, ".thought > div", "textContent")
    t.ok(thought and thought not in last(b, ".text"), "it is no part of the answer", thought)
    b.eval("%s.querySelector('.thought summary').focus()" % LAST)
    b.press("Enter")
    t.ok(last(b, ".thought > div", "checkVisibility()"), "a key opens it")


def test_tools(t, b, d):
    start(b, d, fields={"temperature": 0, "max_tokens": 120}, tools=TOOLS)
    say(b, "weather in Tunis?")
    t.equal(last(b, ".call b"), "get_current_weather", "a call has its name")
    t.equal(json.loads(last(b, ".call pre")), {"city": "Tunis"}, "and its arguments")
    b.fill("article:last-of-type .call textarea", "sunny, 25 C")
    b.click("article:last-of-type .call + .solid")
    b.wait("document.querySelectorAll('article.message').length === 2 && " + IDLE)
    kept = b.eval("pathTo(talk.tip)")
    t.equal([m["role"] for m in kept], ["user", "assistant", "tool", "assistant"],
            "the result goes back")
    t.equal((kept[2]["content"], kept[2]["tool_call_id"]),
            ("sunny, 25 C", kept[1]["tool_calls"][0]["id"]), "to its call")
    start(b, d, fields={"temperature": 0, "max_tokens": 120}, tools=TOOLS)
    say(b, "weather in Tunis?")
    say(b, "Never mind. Hello!")
    t.ok(not last(b, ".fault"), "a call without a result holds nobody up",
         last(b, ".fault"))


def write(b, d, text):
    """The model must write just this."""
    start(b, d, fields={"guided_choice": [text], "enable_thinking": False})
    say(b, "Write.")
    return last(b, ".text")


def test_safe(t, b, d):
    said = write(b, d, EVIL)
    t.equal(said, EVIL, "markup of a model is shown as text")
    t.ok(b.eval("!document.querySelector('main img, main script')"), "and is none")
    t.ok("evil" not in b.eval("document.title"), "nothing of it ran")
    b.eval("(() => { const s = document.createElement('script'); "
           "try { s.textContent = \"document.title = 'evil'\" } catch { return }"
           "document.body.append(s) })()")
    t.ok("evil" not in b.eval("document.title"), "nor does a script that was not in the file")
    t.ok(b.eval("(() => { try { document.body.innerHTML = '<b>' } catch { return true } })()"),
         "a text cannot become markup")
    b.eval("fetch('http://127.0.0.2:%d/health').catch(() => 0)" % d.port)
    b.eval("fetch('http://127.0.0.1:%d/health').catch(() => 0)" % 9)
    b.wait_problem("Content Security Policy")
    t.ok(True, "other hosts are barred")
    b.problems.clear()
    write(b, d, CODE)
    t.equal(last(b, "figure pre"), "if (1 < 2 && `x`) **no**", "a block of code as it is")
    t.equal((last(b, "figure span"), last(b, ".text strong"), last(b, ".text p code")),
            ("js", "this", "x"), "its language; strong; code in a line")
    t.ok("```" not in last(b, ".text") and last(b, ".text").rstrip().endswith("That is all."),
         "prose around it", last(b, ".text"))


def test_status(t, b, d):
    start(b, d, fields=LONG)
    before = b.eval("document.querySelectorAll('#requests summary').length")
    say(b, "Tell me a story.", wait=False)
    b.wait("document.querySelector('#running').textContent === '1' && "
           "!['–', '0 %'].includes(document.querySelector('#kv').textContent)")
    t.ok(True, "KV in use moves")
    b.press("Escape")
    b.wait("document.querySelectorAll('#requests summary').length > %d" % min(before, 19))
    for name in ("ttft", "tpot"):
        t.ok(b.eval("document.querySelectorAll('#%s .p95, #%s .median').length" % (name, name)) >= 2 and
             "median" in b.text("#%s-text" % name) and
             "p95" in b.eval("document.querySelector('#%s').getAttribute('aria-label')"
                             % name), "a plot of " + name, b.text("#%s-text" % name))
    t.ok(b.eval("document.querySelectorAll('#load rect.running').length") >= 1 and
         b.eval("document.querySelectorAll('#kv-plot rect').length") >= 1 and
         b.eval("document.querySelectorAll('#speed rect').length") >= 1 and
         b.eval("document.querySelectorAll('#memory rect').length") >= 1,
         "plots of requests, KV, speed and memory")
    t.ok("GiB" in b.text("#memory-text") and "tokens/s" in b.text("#speed-text"),
         "with their values", (b.text("#memory-text"), b.text("#speed-text")))
    b.click("#requests summary")
    row = b.text("#requests details")
    t.ok(all(w in row for w in ("Queue", "Prefill", "Cached", "Decode", "Speculation",
                                "TTFT", "abort", "/v1/chat/completions")),
         "a request says why it was slow", row)
    d.chat("Hi", max_tokens=1)
    n = b.eval("document.querySelectorAll('#requests summary').length")
    b.wait("document.querySelectorAll('#requests summary').length > %d || "
           "document.querySelector('#requests li:nth-child(2) details[open]')" % n)
    t.ok(b.eval("document.querySelector('#requests li:nth-child(2) details').open"),
         "and stays open when another one comes")


def test_faults(t, b, d):
    start(b, d, fields={"temperature": -1})
    say(b, "Hi")
    t.ok("temperature" in last(b, ".fault"), "a refusal in the server's words",
         last(b, ".fault"))
    b.problems.clear()  # Chromium notes each status 400
    set_settings(b)
    b.eval("[...%s.querySelectorAll('.actions button')].find((e) => "
           "e.textContent === 'Try again').click()" % LAST)
    b.wait(IDLE + " && %s.querySelector('.meta').textContent.includes('TTFT')" % LAST)
    t.ok(b.eval("!document.querySelector('.fault:not([hidden])')"), "Try again asks once more")
    b.click("#open-settings")
    b.fill("#tools", '{"a": 1}')
    b.click("#settings-dialog .solid")
    t.ok("Tools must be a JSON list" in b.text("#settings-wrong"),
         "settings that cannot be are told", b.text("#settings-wrong"))
    b.fill("#tools", "[")
    b.click("#settings-dialog .solid")
    t.ok(b.text("#settings-wrong").startswith("Tools: "), "and what is no JSON",
         b.text("#settings-wrong"))
    b.press("Escape")
    b.wait("!document.querySelector('#settings-dialog').open")


def test_keyboard(t, b, d):
    """Everything can be reached by Tab, and the focus can be seen."""
    start(b, d)
    say(b, "Hi")
    b.wait("document.querySelector('#requests summary')")
    b.eval("document.activeElement.blur()")
    wanted, reached = {"new", "open-settings", "open-key", "log", "prompt", "send", "SUMMARY"}, []
    # New requests may come into the list meanwhile: at most so many steps. The focus and how
    # it looks are asked for at once, since an old request may leave the list.
    while not wanted <= set(reached) and len(reached) < 100:
        b.press("Tab")
        name, outline = b.eval("""(e => [e.id || e.tagName, getComputedStyle(e).outlineStyle +
            (e.parentElement ? getComputedStyle(e.parentElement).borderColor : "")])(
            document.activeElement)""")
        reached.append(name)
        if name in wanted - {"log", "prompt"}:
            t.ok("solid" in outline, "%s shows its focus" % name, outline)
    t.ok(wanted <= set(reached), "Tab reaches everything", reached)
    b.eval("document.querySelector('#open-settings').focus()")
    b.press("Enter")
    t.ok(b.eval("document.querySelector('#settings-dialog').contains("
                "document.activeElement)"), "Enter opens a dialog, which takes the focus")
    b.press("Escape")
    t.equal(b.eval("document.activeElement.id"), "open-settings", "Esc gives it back")
    b.eval("document.querySelector('#prompt').focus()")
    b.type("one")
    b.press("Enter", shift=True)
    b.type("two")
    t.equal(b.eval("document.querySelector('#prompt').value"), "one\ntwo",
            "Shift and Enter begin a line")
    b.press("Enter")
    b.wait(IDLE)
    t.equal(b.eval("[...document.querySelectorAll('.said')].at(-1).textContent"),
            "one\ntwo", "Enter sends")


# Of every text that is shown: WCAG's contrast with what is behind it. Text that stands for
# nothing (a disabled button) is left out.
CONTRAST = """(() => {
	const rgb = (s) => s.match(/[\\d.]+/g).map(Number);
	const lum = (c) => c.slice(0, 3).map((v) => v / 255).map((v) =>
		v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const ground = (e) => { for (; e; e = e.parentElement) {
		const c = rgb(getComputedStyle(e).backgroundColor);
		if (c.length < 4 || c[3] > 0) return c; } };
	const out = [];
	for (const e of document.querySelectorAll('body *')) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
		if (!own || !e.checkVisibility() || e.disabled) continue;
		const a = lum(rgb(getComputedStyle(e).color)), b = lum(ground(e));
		out.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), e.className + ' ' + e.textContent]);
	}
	return out.sort((x, y) => x[0] - y[0]);
})()"""


def test_schemes(t, b, d):
    start(b, d, fields={"temperature": 0, "max_tokens": 120}, tools=TOOLS)
    say(b, "weather in Tunis?")
    b.wait("document.querySelector('#requests summary')")
    b.click("#requests summary")
    grounds = []
    for name in ("light", "dark"):
        b.scheme(name)
        grounds.append(b.eval("getComputedStyle(document.body).backgroundColor"))
        worst = b.eval(CONTRAST)
        t.ok(len(worst) > 20 and worst[0][0] >= 4.5, "%s: every text can be read" % name,
             worst[:5])
    t.ok(grounds[0] != grounds[1], "light and dark differ", grounds)
    b.scheme("light")


def fingers(t, b, view):
    small = b.eval("[...document.querySelectorAll('button, summary, .switch')].filter((e) => "
                   "e.checkVisibility() && e.getBoundingClientRect().height < 36)"
                   ".map((e) => e.textContent)")
    t.equal(small, [], "%s: fingers find the buttons" % view)


def test_phone(t, b, d):
    b.size(360, 740, is_phone=True)
    try:
        start(b, d, fields={"guided_choice": ["A" * 120 + "\n```\n" + "x = 1; " * 40 + "\n```"],
                            "enable_thinking": False})
        say(b, "http://" + "long" * 30)
        for view in ("talks", "chat", "status"):
            b.click("#see-" + view)
            t.ok(b.eval("document.documentElement.scrollWidth <= innerWidth && "
                        "document.body.scrollHeight <= innerHeight"),
                 "%s: nothing to scroll sideways" % view,
                 b.eval("[document.documentElement.scrollWidth, innerWidth,"
                        " document.body.scrollHeight, innerHeight]"))
            wide = b.eval("[...document.querySelectorAll('body *')].filter((e) => "
                          "e.checkVisibility() && !e.closest('pre') && "
                          "e.getBoundingClientRect().right > innerWidth + 1)"
                          ".map((e) => e.tagName + e.id)")
            t.equal(wide, [], "%s: nothing stands out" % view)
            t.equal([b.eval("document.querySelector('%s').checkVisibility()" % s)
                     for s in ("#side", "#chat", "aside")],
                    [view == v for v in ("talks", "chat", "status")],
                    "%s alone is there" % view)
            fingers(t, b, view)
        b.click("#see-chat")
        t.ok(b.eval("(r => r.bottom <= innerHeight && r.top > innerHeight / 2)"
                    "(document.querySelector('#box').getBoundingClientRect())"),
             "the message is at the bottom")
    finally:
        b.size(1280, 800)


def test_keys(t, b):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys")
        with open(path, "w") as f:
            f.write("sk-one\nsk-two\n")
        os.chmod(path, 0o640)
        d = Halod(api_key_file=path)
        try:
            asks_for_key(t, b, d)
        finally:
            code = d.stop()
        t.equal(code, 0, "halod ends well")
        b.wait("document.querySelector('#state').textContent === 'no answer'")
        t.ok(True, "the page says when there is no server")


def asks_for_key(t, b, d):
    b.open("http://127.0.0.1:%d/" % d.port)
    b.wait("document.querySelector('#key-dialog').open")
    t.equal((b.text("#state"), b.eval("document.activeElement.id")), ("needs a key", "key"),
            "a page without a key asks for one")
    b.type("sk-wrong")
    b.press("Enter")
    b.wait("document.querySelector('#key-dialog').open && "
           "document.querySelector('#key-why').textContent.includes('not known')")
    t.ok(True, "a wrong one is told")
    b.fill("#key", "sk-one")
    b.press("Enter")
    b.wait("document.querySelector('#state').textContent === 'ready'")
    say(b, "What is 2+2?")
    t.ok("TTFT" in last(b, ".meta"), "with the right one it answers", last(b, ".meta"))
    b.wait("document.querySelector('#requests summary')")
    t.ok(b.eval("!document.cookie && !localStorage.length && "
                "JSON.parse(sessionStorage.getItem('halod.key')) === 'sk-one'"),
         "the key is in this tab only")
    b.reload()
    b.wait("document.querySelector('#state').textContent === 'ready'")
    t.ok(b.eval("!document.querySelector('#key-dialog').open"), "which keeps it")
    b.click("#open-key")
    b.fill("#key", "sk-two")
    b.press("Enter")
    b.wait("document.querySelector('#requests').textContent === 'None yet.'")
    t.equal(b.text("#ttft-text").split(" ")[0], "median",
            "another key sees totals, and no request")
    b.tab()
    b.open("http://127.0.0.1:%d/" % d.port)
    b.wait("document.querySelector('#key-dialog').open")
    t.ok(True, "another tab asks anew")
    b.press("Escape")
    b.wait("!document.querySelector('#key-dialog').open")
    b.eval("look()")
    t.ok(b.eval("!document.querySelector('#key-dialog').open"), "Cancel is taken for an answer")


def test_loading(t, b):
    """config.json is a pipe, so loading takes until we have written it."""
    with tempfile.TemporaryDirectory() as model:
        for name in os.listdir(MODEL):
            os.symlink(os.path.abspath(os.path.join(MODEL, name)), os.path.join(model, name))
        config = os.path.join(model, "config.json")
        os.unlink(config)
        os.mkfifo(config)
        d = Halod(wait=False, model=model)
        try:
            b.open("http://127.0.0.1:%d/" % d.port)
            b.wait("document.querySelector('#state').textContent === 'loading 0 %'")
            t.ok(True, "the page is there while the model is loaded, and says so")
            with open(config, "w") as to, open(os.path.join(MODEL, "config.json")) as f:
                to.write(f.read())
            b.wait("document.querySelector('#state').textContent === 'ready'")
            t.ok(True, "then it is ready")
        finally:
            t.equal(d.stop(), 0, "halod ends well")


def attempt(t, name, test, *args):
    print("# ---", name)
    try:
        test(t, *args)
    except Exception:
        t.ok(False, name, traceback.format_exc())


def test_rebinding(t):
    """A page of elsewhere whose name points to this machine once the page is loaded."""
    d = Halod()
    names = ("evil.example", socket.gethostname() + ".evil.example")
    b = browser.Browser(more=("--no-proxy-server", "--host-resolver-rules=" + ",".join(
        "MAP %s 127.0.0.1" % name for name in names)))
    ask = """fetch(%r, {method: %r, body: %s}).then(r => r.status)"""
    try:
        for name in names:
            b.open("http://%s:%d/health" % (name, d.port))
            got = [b.eval(ask % (path, method, body)) for path, method, body in (
                ("/stats", "GET", "undefined"), ("/", "GET", "undefined"),
                ("/v1/responses/x", "DELETE", "undefined"), ("/tokenize", "POST", "'{}'"))]
            t.equal(got, [403] * 4, "its script reads and does nothing as " + name)
        b.open("http://127.0.0.1:%d/health" % d.port)
        t.equal(b.eval(ask % ("/stats", "GET", "undefined")), 200, "a page of halod's may")
    finally:
        b.close()
    t.equal(d.stop(), 0, "halod ends well")


if not browser.find():
    print("1..0 # SKIP there is no chromium; test.sh installs it")
    sys.exit(0)
t = Tap()
# Slow, so that an answer lasts as long as it takes to look at it.
d = Halod(max_seqs=2, threads=1, exact="yes", speculative="off")
b = browser.Browser()
try:
    b.scheme("light")
    for test in (test_chat, test_stream, test_reasoning, test_tools, test_status,
                 test_keyboard, test_schemes, test_phone):
        attempt(t, test.__name__, test, b, d)
    t.equal(b.problems, [], "the console has no error")
    t.equal({u.split("/")[2] for u in b.urls if not u.startswith("data:")},
            {"127.0.0.1:%d" % d.port}, "no other host was asked")
    for test in (test_safe, test_faults):
        attempt(t, test.__name__, test, b, d)
    t.equal(d.stop(), 0, "halod ends well")
    attempt(t, "test_keys", test_keys, b)
    attempt(t, "test_loading", test_loading, b)
finally:
    b.close()
    d.stop()
attempt(t, "test_rebinding", test_rebinding)
t.done()
