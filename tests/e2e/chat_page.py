"""The chat page in a browser, with a user's actions; and a chat page whose model gives the answers that the test
sets."""
import json
import unittest

from browser import Browser
from server import TINY, Server

# This script replaces the page's fetch function: a request to the model gets a stream that the test fills, or a refusal with a status and a message.
SCRIPTED = """
    const real = window.fetch;
    window.asked = [];
    window.refuse = null;
    window.fetch = (path, options) => {
      if (path !== "/v1/chat/completions") return real(path, options);
      window.asked.push(JSON.parse(options.body));
      if (window.refuse === "gone") return Promise.reject(new TypeError("Failed to fetch"));
      if (window.refuse) return Promise.resolve(new Response(JSON.stringify({error: {message: window.refuse}}), {status: 400}));
      return Promise.resolve(new Response(new ReadableStream({start(controller) {
        window.answering = controller;
        options.signal.addEventListener("abort", () => controller.error(new DOMException("", "AbortError")));
      }})));
    };
    window.event = (data) => window.answering.enqueue(new TextEncoder().encode(`data: ${data}\\n\\n`));
    """


class ChatCase(unittest.TestCase):
    """A server of a small model, a browser, and an empty page for each test."""
    MODEL, FLAGS, SIZE = TINY, ("-tp", "1"), (1100, 800)

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS, model=cls.MODEL)
        cls.addClassCleanup(cls.server.__exit__)
        cls.browser = Browser(*cls.SIZE)
        cls.addClassCleanup(cls.browser.__exit__)

    def setUp(self):
        self.browser.open(self.server.url + "/chat")
        self.browser.run("localStorage.clear(); sessionStorage.clear()")
        self.load()

    def load(self):
        self.browser.open(self.server.url + "/chat")
        self.browser.until("a model is there", lambda: self.browser.run("return document.getElementById('model').value"))

    def tearDown(self):
        self.assertEqual(self.browser.console(), [])

    def set(self, field, value):
        if self.browser.hidden("#settings"):
            self.browser.click("#settings-button")
        self.browser.run("document.getElementById(arguments[0]).value = arguments[1]", field, str(value))

    def ask(self, text):
        self.browser.type("#message", text)
        self.browser.press("Enter")

    def kept(self):
        """Returns the conversations that the browser stores, by their titles."""
        entries = self.browser.run("return Object.keys(localStorage).filter((k) => k.startsWith('quire.conversation.')).map((k) => localStorage.getItem(k))")
        return {entry["title"]: entry["turns"] for entry in map(json.loads, entries)}

    def shown(self):
        """Returns the role and the text of every turn on the page."""
        return self.browser.run("return [...document.querySelectorAll('.turn')].map((t) => [t.classList[1], t.querySelector('.text').innerText.trim()])")


class ScriptedCase(ChatCase):
    """Base of tests in which the test gives the model's answers."""

    def load(self):
        super().load()
        self.browser.run(SCRIPTED)

    def drawn(self):
        """Waits until the page has drawn all text that has arrived."""
        self.browser.until("all is drawn", lambda: self.browser.run("return document.querySelector('[aria-busy=true]') === null"))

    def refuse(self, what):
        self.browser.run("window.refuse = arguments[0]", what)

    def asked(self):
        """Returns the messages of each request since the page was opened, as [role, content]."""
        return self.browser.run("return window.asked.map((b) => b.messages.map((m) => [m.role, m.content]))")

    def begin(self, question):
        """Sends a question, and waits until the page has sent the request to the model."""
        before = len(self.asked())
        self.ask(question)
        self.browser.until("the model is asked", lambda: len(self.asked()) == before + 1)

    def say(self, text):
        self.browser.run("window.event(arguments[0])", json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}))

    def finish(self):
        self.browser.run("window.event(arguments[0])", json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                                                                  "usage": {"prompt_tokens": 3, "completion_tokens": 5}}))
        self.browser.run("window.event('[DONE]')")
        self.browser.until("the answer is whole", lambda: self.browser.hidden("#stop"))
        self.drawn()

    def answer(self, question, *parts):
        """Sends a question and waits until the page shows the whole answer."""
        self.begin(question)
        for part in parts:
            self.say(part)
        self.finish()
