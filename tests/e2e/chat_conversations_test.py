"""Tests the chat page: which conversation gets an answer, what the browser stores, edited messages, attached files and saved conversations,
and how the page scrolls and fits a phone."""
import glob
import json
import os
import tempfile
import unittest

import verdict
from browser import ELEMENT, Browser, need_browser

need_browser()
import accessibility  # noqa: E402  needs a package of the browser tests' environment
from chat_page import ScriptedCase  # noqa: E402


class AnswerBelongsTest(ScriptedCase):
    def half_answered(self):
        self.begin("First?")
        self.say("half of it")
        self.browser.sees(".assistant .text", "half of it")

    def test_new_chat_during_an_answer_begins_an_empty_conversation(self):
        self.half_answered()
        self.browser.click("#new-chat")
        self.browser.see("#greeting")
        self.browser.until("the answer stops", lambda: self.browser.hidden("#stop"))
        self.answer("Second?", "Yes.")
        self.assertEqual(self.asked()[-1], [["user", "Second?"]])
        self.assertEqual(self.shown(), [["user", "Second?"], ["assistant", "Yes."]])
        self.assertEqual([(t["role"], t["content"]) for t in self.kept()["First?"]], [("user", "First?"), ("assistant", "half of it")])

    def test_a_new_question_right_after_new_chat_is_answered_in_the_new_chat(self):
        self.half_answered()
        self.browser.run("""document.getElementById("new-chat").click(); document.getElementById("message").value = "Second?"; document.getElementById("composer").requestSubmit()""")
        self.browser.until("all that ran has ended, or the second is asked", lambda: self.browser.hidden("#stop") or len(self.asked()) == 2)
        if len(self.asked()) == 1:  # the page was still waiting for the end of the first answer
            self.browser.press("Enter")
        self.browser.until("the second is asked", lambda: len(self.asked()) == 2)
        self.say("Yes.")
        self.finish()
        self.assertEqual(self.asked()[-1], [["user", "Second?"]])
        self.assertEqual(self.shown(), [["user", "Second?"], ["assistant", "Yes."]])

    def test_answer_stays_in_its_conversation_when_the_user_opens_another_one(self):
        self.answer("Old?", "Old words.")
        self.browser.click("#new-chat")
        self.half_answered()
        self.browser.click("#kept-button")
        self.browser.run("[...document.querySelectorAll('#kept-list .title')].find((b) => b.textContent === 'Old?').click()")
        self.browser.until("the answer stops", lambda: self.browser.hidden("#stop"))
        self.assertEqual(self.shown(), [["user", "Old?"], ["assistant", "Old words."]])
        self.answer("And now?", "More.")
        self.assertEqual(self.asked()[-1], [["user", "Old?"], ["assistant", "Old words."], ["user", "And now?"]])
        self.assertEqual([t["content"] for t in self.kept()["First?"]], ["First?", "half of it"])
        self.assertEqual([t["content"] for t in self.kept()["Old?"]], ["Old?", "Old words.", "And now?", "More."])

    def test_a_conversation_deleted_during_its_answer_remains_deleted(self):
        self.half_answered()
        self.browser.click("#kept-button")
        self.browser.click('[aria-label="Delete First?"]')
        self.browser.click("#confirm-yes")
        self.browser.see("#greeting")
        self.browser.until("the answer stops", lambda: self.browser.hidden("#stop"))
        self.assertEqual(self.kept(), {})
        self.load()
        self.assertEqual(self.shown(), [])

    def test_page_reload_during_an_answer_shows_the_text_received_so_far(self):
        self.half_answered()
        self.load()
        self.assertEqual(self.shown(), [["user", "First?"], ["assistant", "half of it"]])
        self.answer("Go on.", "and the rest")
        self.assertEqual(self.asked()[-1], [["user", "First?"], ["assistant", "half of it"], ["user", "Go on."]])

    def test_a_question_left_before_its_answer_began_stays_in_its_conversation(self):
        self.begin("First?")
        self.browser.click("#new-chat")
        self.browser.until("the answer stops", lambda: self.browser.hidden("#stop"))
        self.assertEqual([self.browser.run("return document.getElementById('message').value"), self.shown()], ["", []])
        self.assertEqual([t["content"] for t in self.kept()["First?"]], ["First?"])
        self.browser.click("#kept-button")
        self.browser.click("#kept-list .title")
        self.browser.click(".again")
        self.browser.until("it is asked again", lambda: len(self.asked()) == 2)
        self.say("At last.")
        self.finish()
        self.assertEqual(self.shown(), [["user", "First?"], ["assistant", "At last."]])


class FailuresTest(ScriptedCase):
    def fails(self, what, words):
        self.refuse(what)
        self.ask("A long and careful question")
        self.browser.sees("#complaint", words)
        self.browser.see("#complaint")
        self.assertEqual(self.browser.run("return document.getElementById('message').value"), "A long and careful question")
        self.assertEqual(self.shown(), [])
        self.refuse(None)
        self.browser.click("#send")
        self.browser.until("it is asked again", lambda: not self.browser.hidden("#stop"))
        self.say("Here.")
        self.finish()
        self.assertTrue(self.browser.hidden("#complaint"))
        self.assertEqual(self.shown(), [["user", "A long and careful question"], ["assistant", "Here."]])

    def test_typed_text_is_kept_when_the_server_refuses(self):
        self.fails("the prompt has 99 tokens, 10 fit", "the prompt has 99 tokens, 10 fit")

    def test_typed_text_is_kept_when_the_server_is_gone(self):
        self.fails("gone", "The server does not answer.")

    def test_typed_text_is_kept_when_stopped_before_the_first_word(self):
        self.begin("Too early?")
        self.browser.click("#stop")
        self.browser.sees("#complaint", "Stopped before the answer began.")
        self.assertEqual(self.browser.run("return document.getElementById('message').value"), "Too early?")

    def test_a_broken_off_answer_is_kept_with_the_reason(self):
        for turn, end in enumerate(("window.answering.error(new TypeError('network error'))", "window.answering.close()")):
            self.begin(f"Question {turn}?")
            self.say(f"half {turn}")
            self.browser.run(end)
            self.browser.until("the reason is shown", lambda t=turn: self.browser.run("return [...document.querySelectorAll('.turn .notice')].filter((n) => !n.hidden).length") == t + 1)
            self.browser.sees(".turn .notice:not([hidden])", "went away before the answer ended")
        self.assertEqual([words for _, words in self.shown()], ["Question 0?", "half 0", "Question 1?", "half 1"])

    def test_an_old_answer_is_kept_when_a_new_answer_fails(self):
        self.answer("Question?", "The old answer.")
        self.refuse("gone")
        self.browser.click(".again")
        self.browser.sees("#complaint", "The server does not answer.")
        self.assertEqual(self.shown(), [["user", "Question?"], ["assistant", "The old answer."]])
        self.browser.click('[aria-label="Edit the message"]')
        self.browser.type(".editor textarea", " Changed")
        self.browser.click(".editor .primary")
        self.browser.until("it fails again", lambda: len(self.asked()) == 3 and not self.browser.hidden("#complaint"))
        self.assertEqual(self.browser.run("return document.querySelector('.editor textarea').value"), "Question? Changed")
        self.assertEqual([turn["content"] for turn in self.kept()["Question?"]], ["Question?", "The old answer."])


class AnewTest(ScriptedCase):
    def test_regenerate_answers_the_last_question_again(self):
        self.answer("One?", "1")
        self.answer("Two?", "wrong")
        self.assertEqual(self.browser.run("return [...document.querySelectorAll('.again')].filter((b) => !b.hidden).length"), 1)
        self.browser.run("[...document.querySelectorAll('.again')].find((b) => !b.hidden).click()")
        self.browser.until("it is asked again", lambda: len(self.asked()) == 3)
        self.assertEqual(self.asked()[2], self.asked()[1])
        self.say("2")
        self.finish()
        self.assertEqual(self.shown(), [["user", "One?"], ["assistant", "1"], ["user", "Two?"], ["assistant", "2"]])

    def test_edited_message_takes_the_place_of_all_that_followed(self):
        for question in ("One?", "Two?"):
            self.answer(question, "yes")
        self.browser.click('[aria-label="Edit the message"]')
        self.browser.type(".editor textarea", " Or three?")
        self.browser.click(".editor .primary")
        self.browser.until("it is asked", lambda: len(self.asked()) == 3)
        self.assertEqual(self.asked()[2], [["user", "One? Or three?"]])
        self.say("three")
        self.finish()
        self.assertEqual(self.shown(), [["user", "One? Or three?"], ["assistant", "three"]])
        self.browser.click('[aria-label="Edit the message"]')
        self.browser.press("Escape")
        self.browser.until("the editor closes", lambda: self.browser.hidden(".editor"))
        self.assertEqual(self.browser.focused(), "Edit the message")


class SamplingTest(ScriptedCase):
    FIELDS = {"temperature": "temperature", "top-p": "top_p", "top-k": "top_k"}

    def test_page_sends_only_typed_settings_and_shows_the_defaults_of_the_server(self):
        """The page leaves out fields that the user left empty, so the server's defaults apply."""
        defaults = self.server.get("/v1/models")["data"][0]["default_sampling"]
        shown = self.browser.run("return arguments[0].map((id) => [document.getElementById(id).value, document.getElementById(id).placeholder])", list(self.FIELDS))
        self.assertEqual(shown, [["", f"{defaults[name]:g}"] for name in self.FIELDS.values()])
        sent = "return arguments[0].map((name) => window.asked.at(-1)[name] ?? null)"
        self.answer("One?", "1")
        self.assertEqual(self.browser.run(sent, list(self.FIELDS.values())), [None, None, None])
        for field, value in (("temperature", 0), ("top-k", 0)):
            self.set(field, value)
        self.answer("Two?", "2")
        self.assertEqual(self.browser.run(sent, list(self.FIELDS.values())), [0, None, 0])


class KeptTest(ScriptedCase):
    def test_conversations_and_settings_are_restored_after_a_reload(self):
        self.answer("One?", "**1**")
        self.set("temperature", 0.3)
        self.browser.run("document.getElementById('temperature').dispatchEvent(new Event('change', {bubbles: true}))")
        self.load()
        self.assertEqual(self.shown(), [["user", "One?"], ["assistant", "1"]])
        self.assertEqual(self.browser.run("return [document.getElementById('temperature').value, document.querySelectorAll('.text strong').length]"), ["0.3", 1])
        self.browser.run("sessionStorage.clear()")  # simulates another tab
        self.load()
        self.assertEqual(self.shown(), [])
        self.browser.click("#kept-button")
        self.browser.click("#kept-list .title")
        self.assertEqual(self.shown(), [["user", "One?"], ["assistant", "1"]])

    def test_two_tabs_do_not_write_over_each_others_conversations(self):
        self.answer("One?", "1")
        other = self.browser.run("""
            const {Conversations, newConversation} = await import("/web/chat/conversations.js");
            const store = new Conversations(), made = newConversation();
            made.turns.push({role: "user", content: "From the other tab"});
            store.keep(made);
            return made.id""")
        self.answer("Two?", "2")
        self.assertEqual(sorted(self.kept()), ["From the other tab", "One?"])
        self.assertTrue(other)

    def test_number_and_size_of_stored_conversations_are_bounded(self):
        left = self.browser.run("""
            const {Conversations, newConversation, MOST_CONVERSATIONS, MOST_CHARACTERS} = await import("/web/chat/conversations.js");
            const store = new Conversations(), results = [];
            const keep = (title, size) => { const made = newConversation(); made.turns.push({role: "user", content: title + "x".repeat(size)}); return store.keep(made); };
            const words = () => store.list().map((c) => c.turns[0].content.slice(0, 4));
            for (let i = 0; i < MOST_CONVERSATIONS + 5; ++i) { keep(String(i).padStart(4, "0"), 0); await new Promise((r) => setTimeout(r, 2)); }
            results.push(words().length, words().at(-1), words()[0]);
            results.push(keep("huge", MOST_CHARACTERS), words().length);
            keep("big1", MOST_CHARACTERS * 0.6); await new Promise((r) => setTimeout(r, 2)); keep("big2", MOST_CHARACTERS * 0.6);
            results.push(words().slice(0, 2).join());
            localStorage.setItem("other", "y".repeat(4800000 - JSON.stringify(localStorage).length));  // the browser's own bound comes first
            results.push(keep("full", 600000), words()[0], localStorage.length);
            localStorage.removeItem("other");
            localStorage.setItem("quire.conversation.zz", "{no JSON");
            localStorage.setItem("quire.conversation.yy", JSON.stringify({id: "yy", changed: 1, turns: [{role: "system", content: 3}]}));
            results.push(words()[0]);
            return results""")
        self.assertEqual(left, [100, "0005", "0104", False, 100, left[5], True, "full", left[8], "full"])
        self.assertTrue(left[5].startswith("big2"), left)
        self.assertNotIn("big1", left[5])

    def test_a_conversation_is_saved_as_markdown_and_as_json(self):
        with tempfile.TemporaryDirectory() as folder:
            self.browser.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
            self.answer("What's <that>?", "It is **bold**.")
            self.browser.click("#kept-button")
            for button, name in (("#save-markdown", "what-s-that.md"), ("#save-json", "what-s-that.json")):
                self.browser.click(button)
                self.browser.until("the file is there", lambda n=name: glob.glob(os.path.join(folder, n)))
            with open(os.path.join(folder, "what-s-that.md"), encoding="utf-8") as f:
                self.assertEqual(f.read(), "# What's <that>?\n\n## You\n\nWhat's <that>?\n\n## Assistant\n\nIt is **bold**.\n")
            with open(os.path.join(folder, "what-s-that.json"), encoding="utf-8") as f:
                self.assertEqual(json.load(f)["messages"], [{"role": "user", "content": "What's <that>?"}, {"role": "assistant", "content": "It is **bold**."}])


class FilesTest(ScriptedCase):
    def attach(self, *files):
        """Attaches files of (name, bytes) as if the user had chosen them."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, content in files:
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "wb") as f:
                    f.write(content)
            before = self.browser.text("#files")
            element = self.browser.run("const e = document.getElementById('file'); e.hidden = false; return e")
            self.browser.do("POST", f"/element/{element[ELEMENT]}/value", text="\n".join(paths))
            self.browser.until("the files are read", lambda: self.browser.text("#files") != before or not self.browser.hidden("#complaint"))
            self.browser.run("document.getElementById('file').hidden = true")

    def test_attached_text_files_reach_the_model_in_front_of_the_message(self):
        self.attach(("notes.md", b"# A\n```\ncode\n```\n"), ("b.txt", "é".encode()))
        self.assertIn("notes.md · 17 B", self.browser.text("#files"))
        self.answer("What is in them?", "Words.")
        self.assertEqual(self.asked()[0], [["user", "File notes.md:\n````\n# A\n```\ncode\n```\n````\n\nFile b.txt:\n```\né\n```\n\nWhat is in them?"]])
        self.assertTrue(self.browser.hidden("#files"))
        self.assertIn("b.txt", self.browser.text(".turn.user .text"))
        self.load()
        self.answer("And again?", "The same.")
        self.assertIn("# A", self.asked()[0][0][1])

    def test_attached_files_are_kept_when_a_send_fails_and_can_be_removed(self):
        self.attach(("a.txt", b"a"))
        self.refuse("gone")
        self.ask("Read it")
        self.browser.sees("#complaint", "does not answer")
        self.assertIn("a.txt", self.browser.text("#files"))
        self.browser.click('[aria-label="Remove a.txt"]')
        self.assertTrue(self.browser.hidden("#files"))

    def test_attached_files_that_are_no_text_or_too_long_are_refused_by_name(self):
        for name, content, words in (("a.png", b"\x89PNG\r\n\xff\xfe", "a.png is no text"), ("b.bin", b"a\0b", "b.bin is no text"), ("c.txt", b"x" * ((1 << 20) + 1), "c.txt has 1.0 MiB")):
            self.browser.run("document.getElementById('complaint').hidden = true")
            self.attach((name, content))
            self.browser.sees("#complaint", words)
            self.assertTrue(self.browser.hidden("#files"))


class WindowTest(ScriptedCase):
    LONG = "\n\n".join(f"Paragraph {i}." for i in range(60)) + "\n\n```\n" + "x" * 500 + "\n```\n"

    def scrolling(self, browser):
        """Returns the tags of the elements that scroll upwards and downwards."""
        return browser.run("""return [...document.querySelectorAll("*")].filter((e) => e.getClientRects().length > 0 && e.scrollHeight > e.clientHeight + 1 && e.clientHeight > 0
            && (e === document.documentElement || /auto|scroll/.test(getComputedStyle(e).overflowY))).map((e) => e.tagName)""")

    def test_chat_page_has_one_scrollbar_at_every_width(self):
        for size in ((1100, 800), (642, 900), (360, 740)):
            with Browser(*size) as browser:
                self.browser, kept = browser, self.browser
                try:
                    self.setUp()
                    self.answer("Long?", self.LONG)
                    self.browser.type("#message", "short")
                    self.assertEqual(self.scrolling(browser), ["HTML"], size)
                    self.assertEqual(accessibility.sticking_out(browser), [], size)
                    for button in ("#kept-button", "#settings-button"):
                        self.browser.click(button)
                        self.assertEqual(accessibility.sticking_out(browser), [], size)
                    self.assertEqual(browser.run("return document.documentElement.scrollWidth <= innerWidth"), True, size)
                finally:
                    self.browser = kept

    def test_panels_open_in_view_when_a_phone_is_scrolled_far_down(self):
        with Browser(400, 860) as phone:
            self.browser, kept = phone, self.browser
            try:
                self.setUp()
                self.answer("Long?", self.LONG)
                self.browser.until("the page is at its end", lambda: phone.run("return scrollY > 500"))
                place = phone.run("return scrollY")
                for panel, other in (("settings", "kept"), ("kept", "settings")):
                    phone.click(f"#{panel}-button")
                    self.assertTrue(phone.hidden(f"#{other}"), "one lies over the conversation at a time")
                    top, bottom, head = phone.run("""const box = document.getElementById(arguments[0]).getBoundingClientRect();
                        return [box.top, box.bottom, document.querySelector("header").getBoundingClientRect().bottom]""", panel)
                    self.assertGreaterEqual(top, head)
                    self.assertLessEqual(bottom, phone.run("return document.getElementById('composer').getBoundingClientRect().top"))
                    self.assertEqual(phone.run("return scrollY"), place)
                    self.assertEqual(phone.run("return document.getElementById(arguments[0]).getAttribute('aria-expanded')", f"{panel}-button"), "true")
                phone.click("#kept-list .title")
                self.assertTrue(phone.hidden("#kept"), "a chosen conversation is seen")
            finally:
                self.browser = kept

    def test_words_in_tables_stay_whole_on_a_phone(self):
        with Browser(400, 860) as phone:
            self.browser, kept = phone, self.browser
            try:
                self.setUp()
                self.answer("Table?", "| name | value | what it means in a long sentence |\n| --- | --- | --- |\n| alpha | 1000000000000000000 | the first of the letters, with more words than fit |\n")
                lines = phone.run("""return [...document.querySelectorAll(".block td, .block th")].slice(0, 5).map((cell) => {
                    const range = document.createRange();
                    range.selectNodeContents(cell);
                    return new Set([...range.getClientRects()].map((r) => r.top)).size})""")
                self.assertEqual([lines[0], lines[1], lines[3], lines[4]], [1, 1, 1, 1])
                self.assertEqual(accessibility.sticking_out(phone), [])
            finally:
                self.browser = kept

    def test_chat_page_follows_an_answer_unless_the_reader_went_up(self):
        self.begin("Long?")
        self.say(self.LONG)
        at_end = "return innerHeight + scrollY > document.documentElement.scrollHeight - 60"
        self.browser.until("the page follows", lambda: self.browser.run(at_end) and self.browser.run("return scrollY > 200"))
        self.browser.run("scrollTo(0, 0)")
        self.browser.until("the page is at its beginning", lambda: self.browser.run("return scrollY === 0"))
        self.say("\n\nThe very end.")
        self.browser.sees(".assistant .text", "The very end.")
        self.finish()
        self.assertEqual(self.browser.run("return scrollY"), 0)

    def test_token_underlines_are_off_until_the_user_turns_the_option_on(self):
        self.begin("One?")
        self.assertFalse(self.browser.run("return 'logprobs' in window.asked[0]"))
        self.finish()


if __name__ == "__main__":
    verdict.run_tests()
