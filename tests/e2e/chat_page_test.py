"""Tests the chat page in a browser, with a real model."""
import os
import subprocess
import tempfile
import unittest

import verdict
from browser import Browser, need_browser
from server import QUIRE, REAL, Server

need_browser()
import accessibility  # noqa: E402  needs a package of the browser tests' environment
from chat_page import ChatCase  # noqa: E402

if not REAL:
    verdict.skip_all("QUIRE_TEST_MODEL names no model")


class ChatTest(ChatCase):
    MODEL = REAL

    def answered(self, turns=1):
        """Returns the last answer as the model wrote it, once the answer is complete."""
        self.browser.until("the answer is whole", lambda: self.browser.run(
            "return [...document.querySelectorAll('.assistant .facts')].filter((f) => f.textContent).length") == turns and self.browser.hidden("#stop"))
        return self.browser.run("return JSON.parse(localStorage.getItem('quire.conversation.' + sessionStorage.getItem('quire.open-conversation'))).turns.at(-1).content")

    def reference(self, messages, **fields):
        body = {"messages": messages, "temperature": 0, "top_p": 0.95, "max_tokens": 24, **fields}
        status, answer = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["message"]["content"]

    def test_chat_page_shows_the_answers_of_the_api(self):
        self.assertEqual(self.browser.run("return document.getElementById('model').value"), self.server.get("/v1/models")["data"][0]["id"])
        for field, value in (("temperature", 0), ("max-tokens", 24), ("system", "You answer in French.")):
            self.set(field, value)
        messages = [{"role": "system", "content": "You answer in French."}]
        for turn, question in enumerate(["What is the capital of France?", "And of Italy?"], 1):
            self.ask(question)
            messages.append({"role": "user", "content": question})
            text = self.answered(turn)
            self.assertEqual(text, self.reference(messages))
            messages.append({"role": "assistant", "content": text})
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.user .text')].map((t) => t.textContent)"), ["What is the capital of France?", "And of Italy?"])
        self.assertIn("from the cache", self.browser.run("return [...document.querySelectorAll('.facts')].at(-1).textContent"))
        self.browser.click("#new-chat")
        self.browser.see("#greeting")
        self.set("system", "")
        self.ask("What is the capital of France?")
        self.assertEqual(self.answered(), self.reference([messages[1]]))

    def test_chat_page_streams_an_answer_and_stops_it(self):
        self.set("max-tokens", 2000)
        self.ask("Write a very long story about a ship.")
        lengths = [self.browser.until("it grows", lambda n=n: (m := len(self.browser.text(".assistant .text"))) > n and m) for n in (0, 20, 60)]
        self.assertEqual(lengths, sorted(lengths))
        self.assertLess(lengths[0], lengths[-1])
        self.browser.click("#stop")
        self.browser.sees("#status", "Stopped.")
        self.browser.until("the server noticed", lambda: self.server.get("/admin/requests", admin=True)["requests"] == [])
        text = self.browser.text(".assistant .text")
        self.browser.sees(".facts", "stopped")
        self.set("max-tokens", 4)
        self.ask("Go on.")
        self.answered(2)
        self.assertEqual(self.browser.text(".assistant .text"), text)

    def test_chat_page_shows_token_probabilities_by_pointer_and_keyboard(self):
        self.set("temperature", 0)
        self.set("max-tokens", 12)
        self.browser.click("#logprobs")
        self.ask("Name a colour.")
        text = self.answered()
        tokens = self.browser.run("return [...document.querySelectorAll('.token')].map((t) => t.textContent)")
        self.assertEqual("".join(tokens), text)
        self.assertGreater(len(tokens), 3)
        choice = self.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Name a colour."}], "temperature": 0, "max_tokens": 12,
                                                           "logprobs": True, "top_logprobs": 5})[1]["choices"][0]
        top = [entry["token"].strip() for entry in choice["logprobs"]["content"][1]["top_logprobs"]]
        self.browser.hover(".token:nth-child(2)")
        self.browser.sees("#tip .taken", tokens[1].strip())
        for token in top:
            self.browser.sees("#tip", token or "")
        self.assertEqual(self.browser.run("return document.querySelectorAll('#tip tr').length"), 5)
        self.browser.hover("#composer")
        self.browser.until("it goes", lambda: self.browser.hidden("#tip"))
        self.browser.run("document.querySelector('.assistant .text').focus()")
        self.browser.press("Right", "Right")
        self.browser.sees("#said", "%")
        self.assertEqual(self.browser.text(".token.chosen"), tokens[1])
        self.browser.press("Escape")
        self.browser.until("it goes", lambda: self.browser.hidden("#tip"))
        self.browser.click("#logprobs")
        self.ask("Another one.")
        self.answered(2)
        self.assertEqual(self.browser.run("return document.querySelectorAll('.turn:last-child .token').length"), 0)

    def test_chat_page_shows_errors_of_settings(self):
        self.set("temperature", 9)
        self.ask("Hello")
        # The page marks the invalid field and sends no request.
        self.assertEqual(self.browser.run("return document.querySelectorAll('.turn').length"), 0)
        self.set("temperature", 1)
        self.set("max-tokens", 100000)
        self.browser.press("Escape")
        self.browser.click("#send")
        self.browser.sees("#complaint", "100000")
        self.assertEqual(self.browser.run("return document.getElementById('message').value"), "Hello")
        self.assertIn("400", self.browser.console()[0])

    def test_chat_page_passes_axe_and_reaches_all_controls_by_keyboard(self):
        self.set("max-tokens", 8)
        self.browser.click("#logprobs")
        self.ask("Name a colour.")
        self.answered()
        self.browser.click("#kept-button")
        self.addCleanup(self.browser.theme, False)
        for dark in (False, True):
            self.browser.theme(dark)
            self.assertEqual(accessibility.violations(self.browser), [])
        stops = accessibility.tab_stops(self.browser)
        for wanted in ("Model", "New chat", "Conversations", "Settings", "Delete Name a colour.", "Save as Markdown", "Edit the message", "Answer", "Copy the answer", "Regenerate", "Attach text files",
                       "Message", "Send", "System message", "Temperature", "Top p", "Show how likely"):
            self.assertTrue(any(wanted in stop for stop in stops), (wanted, stops))

    def test_chat_page_fits_a_phones_screen(self):
        with Browser(width=390, height=844) as phone:
            phone.open(self.server.url + "/")
            phone.type("#message", "Hi")
            phone.click("#send")
            phone.until("an answer", lambda: phone.text(".facts"))
            phone.click("#settings-button")
            self.assertEqual(accessibility.sticking_out(phone), [])
            phone.click("#new-chat")
            self.assertEqual(accessibility.violations(phone), [])


class KeyTest(unittest.TestCase):
    def test_chat_page_asks_for_the_key_and_keeps_it_in_the_tab(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "api.keys")
            made = subprocess.run([QUIRE, "keygen", "--api", "ann", "--file", file], capture_output=True, text=True, check=True).stdout
            key = next(word for word in made.split() if len(word) > 40)
            with Server("-tp", "1", "--api-key-file", file, model=REAL) as server, Browser() as browser:
                browser.open(server.url + "/")
                browser.see("#sign-in")
                self.assertTrue(browser.hidden("#app"))
                self.assertEqual(accessibility.violations(browser), [])
                browser.type("#key", "wrong")
                browser.press("Enter")
                browser.sees("#sign-in-error", "The key is not known here.")
                browser.type("#key", key)
                browser.press("Enter")
                browser.type("#message", "Hello")
                browser.click("#send")
                browser.sees(".facts", "tokens")
                self.assertEqual(browser.run("return [location.pathname, location.search, location.hash, document.cookie]"), ["/", "", "", ""])
                self.assertNotIn(key, browser.run("return JSON.stringify(localStorage)"))
                browser.click("#sign-out")  # deletes the conversations, which the next user must not read
                browser.click('#confirm button[value="no"]')
                self.assertEqual(browser.run("return document.querySelectorAll('.turn').length"), 2)
                browser.click("#sign-out")
                browser.click("#confirm-yes")
                browser.see("#sign-in")
                self.assertEqual(browser.run("return [sessionStorage.length, localStorage.length, document.querySelectorAll('.turn').length]"), [0, 0, 0])

    def test_typed_text_is_kept_when_the_key_becomes_invalid(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "api.keys")
            keys = [self.make(file, name) for name in ("ann", "bob")]
            with Server("-tp", "1", "--api-key-file", file, model=REAL) as server, Browser() as browser:
                browser.open(server.url + "/")
                browser.type("#key", keys[0])
                browser.press("Enter")
                browser.type("#message", "A careful question")
                with open(file, encoding="utf-8") as f:
                    rest = [line for line in f if not line.startswith("ann")]
                with open(file, "w", encoding="utf-8") as f:
                    f.writelines(rest)
                server.reload("API keys again")
                browser.click("#send")
                browser.see("#sign-in")
                browser.type("#key", keys[1])
                browser.press("Enter")
                browser.see("#message")
                self.assertEqual(browser.run("return document.getElementById('message').value"), "A careful question")

    @staticmethod
    def make(file, name):
        made = subprocess.run([QUIRE, "keygen", "--api", name, "--file", file], capture_output=True, text=True, check=True).stdout
        return next(word for word in made.split() if len(word) > 40)


if __name__ == "__main__":
    verdict.run_tests()
