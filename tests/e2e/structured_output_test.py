"""Tests answers with a grammar. The tiny model has random weights and one token per byte, so without a grammar it writes noise. With a
grammar its answers must parse and validate, on any number of workers, also when workers are killed. Also tests refused grammars, and the
process that compiles grammars."""
import itertools
import json
import os
import re
import signal
import tempfile
import threading
import time
import unittest

import jsonschema

import verdict
from server import Server, altered_tiny, grammar_compilers
from stream_client import stream_in_background, text_of

END = 256  # "<|end|>"; the end token of the model's configuration is a quotation mark, which JSON needs
TEXT = {"type": "string", "maxLength": 6}
SCHEMAS = [
    {"type": "object", "properties": {"name": TEXT, "age": {"type": "integer", "minimum": 0, "maximum": 130}}, "required": ["name", "age"],
     "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", 3, None, {"a": [1, 2]}]}, "minItems": 1, "maxItems": 3},
    {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": -1.5, "maximum": 2}, {"type": "string", "pattern": "^[a-f]{2,4}$"}]},
    {"$defs": {"leaf": {"type": "object", "properties": {"kind": {"const": "leaf"}, "value": {"type": "integer"}}, "required": ["kind", "value"],
                        "additionalProperties": False}},
     "type": "object", "properties": {"left": {"$ref": "#/$defs/leaf"}, "right": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"type": "null"}]}},
     "required": ["left"], "additionalProperties": False},
    {"type": "array", "prefixItems": [{"type": "string", "format": "date"}, {"type": ["null", "boolean"]}], "items": False, "minItems": 2},
    {"type": "object", "properties": {"a\"b": {"type": "string", "minLength": 2, "maxLength": 3}, "é": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
     "required": ["a\"b", "é"], "additionalProperties": False},
]


def endless(config):
    config["eos_token_id"] = END


class TinyCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = altered_tiny(cls.folder.name, config=endless, generation_config=endless)
        cls.addClassCleanup(cls.folder.cleanup)

    def post(self, server, want=200, path="/v1/completions", **fields):
        start = {"messages": [{"role": "user", "content": "hi"}]} if "chat" in path else {"prompt": [5, 6, 7]}
        # a temperature that makes all tokens nearly equally likely
        status, answer = server.post(path, {**start, "max_tokens": 300, "temperature": 8, "seed": 1, **fields})
        self.assertEqual(status, want, answer)
        return answer

    def texts(self, server, **fields):
        """Returns the texts of an answer's choices whose finish_reason is "stop"."""
        answer = self.post(server, **fields)
        return [choice["text"] for choice in answer["choices"] if choice["finish_reason"] == "stop"]


class ValidityTest(TinyCase):
    def test_guided_json_answers_validate_on_one_to_three_workers(self):
        for workers in (1, 2, 3):
            with Server("-tp", str(workers), "--threads-per-worker", "1", model=self.model) as server:
                for schema in SCHEMAS:
                    texts = []
                    for temperature in (0, 1, 8):
                        texts += self.texts(server, n=12, temperature=temperature, guided_json=schema)
                    for text in texts:
                        jsonschema.validate(json.loads(text), schema)
                    self.assertGreater(len(texts), 6, schema)
                    self.assertGreater(len(set(texts)), 3, schema)


class FormTest(TinyCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server("-tp", "2", "--threads-per-worker", "1", model=cls.model)
        cls.addClassCleanup(cls.server.__exit__)

    def test_ambiguous_grammar_fails_only_its_own_request(self):
        """The steps of these grammars would take longer with every token and would slow all requests down."""
        ambiguous = 'root ::= x{900,1900}\nx ::= "a" | "aa" | x x | x x x'
        self.end_beside_a_stream({"guided_grammar": ambiguous, "max_tokens": 1900}, "takes too much work")
        self.end_beside_a_stream({"guided_grammar": "root ::= s\ns ::= [a-z] | s s | s s s | s s s s", "n": 32}, "takes too much work")

    def test_grammar_with_a_dead_end_fails_only_its_own_request(self):
        for rules in ('root ::= "a" x\nx ::= x "b"', 'root ::= "a" [^\\u0000-\\U0010ffff]', 'root ::= "a" "\\ud800"'):
            self.end_beside_a_stream({"guided_grammar": rules}, "allows nothing after what was generated")
            self.end_beside_a_stream({"guided_grammar": rules, "n": 4}, "allows nothing after what was generated")

    def end_beside_a_stream(self, fields, why):
        thread, lines = stream_in_background(self.server, 300)
        refused = self.post(self.server, want=400, **fields)
        self.assertIn(why, refused["error"]["message"])
        thread.join(timeout=120)
        self.assertEqual(lines[-1], b"[DONE]")
        self.assertEqual(self.server.get("/admin/status", admin=True)["losses"], [])

    def all_match(self, pattern, least=8, **fields):
        texts = self.texts(self.server, n=12, **fields)
        for text in texts:
            self.assertRegex(text, re.compile(rf"\A(?:{pattern})\Z", re.S))
        self.assertGreaterEqual(len(texts), least)
        return texts

    def test_guided_choice_gives_every_choice_and_nothing_else(self):
        choices = ["yes", "no", "it \"depends\"\n", "ü"]
        for fields in ({"guided_choice": choices}, {"structured_outputs": {"choice": choices}}):
            texts = self.texts(self.server, n=40, **fields)
            self.assertEqual(len(texts), 40)
            self.assertEqual(set(texts), set(choices))

    def test_guided_regex_answers_match_the_pattern(self):
        for fields in ({"guided_regex": "[a-c]{2,5}-\\d"}, {"structured_outputs": {"regex": "[a-c]{2,5}-\\d"}}):
            self.assertGreater(len(set(self.all_match("[a-c]{2,5}-[0-9]", least=12, **fields))), 6)

    def test_guided_grammar_answers_match_the_rules(self):
        rules = "root ::= item (\", \" item){1,2}\nitem ::= \"a\" | \"b\" [0-9]"
        for fields in ({"guided_grammar": rules}, {"structured_outputs": {"grammar": rules}}):
            self.all_match("(a|b[0-9])(, (a|b[0-9])){1,2}", least=12, **fields)

    def test_structural_tag_answers_match_the_tag_and_its_schema(self):
        inner = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"], "additionalProperties": False}
        tag = {"type": "structural_tag", "format": {"type": "tag", "begin": "<f>", "content": {"type": "json_schema", "json_schema": inner}, "end": "</f>"}}
        for fields in ({"structured_outputs": {"structural_tag": tag}}, {"response_format": tag}):
            for text in self.all_match("<f>.*</f>", least=4, **fields):
                jsonschema.validate(json.loads(text[3:-4]), inner)

    def test_json_object_answers_are_valid_json(self):
        bias = {str(ord(letter) - 33): 4 for letter in "]}\""}  # makes random answers end
        for fields in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
            texts = self.texts(self.server, n=30, logit_bias=bias, **fields)
            values = [json.loads(text) for text in texts]
            self.assertGreater(len(values), 3)
            if "response_format" in fields:
                self.assertTrue(all(isinstance(value, dict) for value in values))

    def test_whole_and_streamed_chat_answers_match_the_response_format(self):
        shape = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": SCHEMAS[0]}}
        answer = self.post(self.server, path="/v1/chat/completions", n=6, response_format=shape)
        whole = [choice["message"]["content"] for choice in answer["choices"]]
        for choice in answer["choices"]:
            if choice["finish_reason"] == "stop":
                jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMAS[0])
        events = self.server.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 300, "seed": 1, "n": 6,
                                                             "temperature": 8, "response_format": shape})
        streamed = [""] * 6
        for event in events:
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["delta"].get("content", "")
        self.assertEqual(streamed, whole)

    def test_json_properties_have_the_order_of_the_schema(self):
        schema = {"type": "object", "properties": {name: {"type": "null"} for name in "zay"}, "required": ["z", "a", "y"], "additionalProperties": False}
        for text in self.texts(self.server, n=4, guided_json=schema):
            self.assertEqual(list(json.loads(text)), ["z", "a", "y"])

    def test_bias_max_tokens_stop_and_logprobs_apply_beside_a_grammar(self):
        self.assertEqual(set(self.texts(self.server, n=8, guided_choice=["a", "b"], logit_bias={str(ord("b") - 33): 50})), {"b"})
        self.assertEqual({choice["text"] for choice in self.post(self.server, n=4, guided_regex="[a-z]{9}", max_tokens=4)["choices"] if len(choice["text"]) != 4}, set())
        self.assertEqual(self.texts(self.server, guided_choice=["abcd"], stop="c"), ["ab"])
        answer = self.post(self.server, guided_choice=["ab"], logprobs=2)
        logprobs = answer["choices"][0]["logprobs"]
        self.assertEqual(logprobs["tokens"], ["a", "b"])
        # These are the model's own log-probabilities: without the grammar it would write another text.
        self.assertLess(max(logprobs["token_logprobs"]), -0.1)

    def test_unsupported_schemas_and_grammars_are_refused_by_name(self):
        cases = [
            ("guided_json", {"type": "array", "items": {}, "uniqueItems": True}, "uniqueItems"),
            ("guided_json", {"type": "object", "properties": {"a": {"type": "array", "contains": {}}}}, "properties.a.contains"),
            ("guided_json", {"type": "string", "pattern": "(?=a)b"}, "pattern looks ahead"),
            ("guided_json", {"type": "object", "properties": {f"k{i}": {} for i in range(900)}, "additionalProperties": False, "minProperties": 60,
                             "maxProperties": 128}, "more than 20000 rules"),
            ("guided_regex", "a(?=b)", "ookahead"),
            ("guided_regex", "(", ""),
            ("guided_grammar", "root ::= nothing", "nothing"),
            ("guided_grammar", "root ::= \"" + "a" * 70000 + "\"", "65536"),
            ("structured_outputs", {"structural_tag": {"type": "strange"}}, "structural_tag"),
            ("structured_outputs", {"structural_tag": {"format": {"type": "repeat", "min": 5, "max": -1, "content": {
                "type": "token_dispatch", "rules": [["<a>", {"type": "any_text"}]]}}}}, "format.content.type"),
            ("structured_outputs", {"structural_tag": "{\"format\":" + "{\"content\":" * 25 + "{}" + "}" * 26}, "format.type is missing"),
        ]
        for field, value, named in cases:
            error = self.post(self.server, want=400, **{field: value})["error"]
            self.assertIn(error["param"], (field, f"{field}.structural_tag"), error)
            self.assertIn(named, error["message"])
        for other in ({"use_beam_search": True, "n": 2}, {"ignore_eos": True}, {"min_tokens": 3}, {"guided_choice": ["a"]}):
            error = self.post(self.server, want=400, guided_regex="a", **other)["error"]
            self.assertIn("cannot be combined", error["message"])


class CompilationTest(TinyCase):
    """Tests that grammars are compiled in a separate process that can be killed, and that no request waits for another request's
    grammar."""
    # The compiler needs minutes and hundreds of MiB for this grammar.
    ENDLESS = {"structural_tag": {"format": {"type": "json_schema", "style": "minimax_xml", "json_schema": {
        "type": "object", "properties": {f"k{i}": {"type": "string"} for i in range(900)}, "additionalProperties": False, "minProperties": 60,
        "maxProperties": 128}}}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server("-tp", "2", "--threads-per-worker", "1", model=cls.model)
        cls.addClassCleanup(cls.server.__exit__)

    def test_grammar_that_compiles_too_long_is_refused_without_delaying_others(self):
        refused = []
        asked = [threading.Thread(target=lambda path=path: refused.append(self.post(self.server, want=400, path=path, structured_outputs=self.ENDLESS)))
                 for path in ("/v1/completions", "/v1/chat/completions", "/v1/chat/completions")]
        for thread in asked:
            thread.start()
        answered = 0
        while any(thread.is_alive() for thread in asked):
            self.post(self.server, path="/v1/chat/completions", max_tokens=2)
            self.assertEqual(self.server.get("/health"), {})
            answered += 1
        self.assertEqual(len(refused), 3)
        for answer in refused:
            self.assertRegex(answer["error"]["message"], "structured_outputs takes more than .* to compile; make it smaller")
        self.assertGreater(answered, 3)  # during three compilations of 2 s each
        self.assertEqual(self.texts(self.server, guided_choice=["a"]), ["a"])
        self.assertEqual(self.server.get("/admin/status", admin=True)["losses"], [])

    def test_grammar_compiler_is_restarted_when_killed(self):
        self.assertEqual(self.texts(self.server, guided_choice=["b"]), ["b"])
        before = grammar_compilers(self.server)
        self.assertEqual(len(before), 1)
        with open(f"/proc/{before[0]}/oom_score_adj", encoding="utf-8") as f:
            self.assertEqual(f.read(), "1000\n")  # the kernel kills it before workers
        refused = []
        asked = threading.Thread(target=lambda: refused.append(self.post(self.server, want=400, structured_outputs=self.ENDLESS)))
        asked.start()
        time.sleep(0.3)
        os.kill(before[0], signal.SIGKILL)
        asked.join()
        # the restarted process compiles the grammar again
        self.assertIn("takes more than", refused[0]["error"]["message"])
        self.assertEqual(self.texts(self.server, guided_choice=["c"]), ["c"])
        os.kill(grammar_compilers(self.server)[0], signal.SIGKILL)  # kills the compiler while it is idle
        self.assertEqual(self.texts(self.server, guided_choice=["d"]), ["d"])
        self.assertEqual(len(grammar_compilers(self.server)), 1)
        self.assertNotIn(before[0], grammar_compilers(self.server))
        self.assertEqual(self.server.text().count("the process that compiles grammars ended (signal 9)"), 1)


class SurvivalTest(TinyCase):
    # The answers of this schema are long enough for an interruption.
    SHAPE = {"type": "array", "items": SCHEMAS[0], "minItems": 8, "maxItems": 8}

    def ask(self, server, seed, into, n=1):
        answer = self.post(server, guided_json=self.SHAPE, seed=seed, n=n, max_tokens=900)
        into[seed] = [(choice["text"], choice["finish_reason"]) for choice in answer["choices"]]

    def together(self, server, seeds, meanwhile=lambda: None, n=1):
        answers = {}
        threads = [threading.Thread(target=self.ask, args=(server, seed, answers, n)) for seed in seeds]
        for thread in threads:
            thread.start()
        meanwhile()
        for thread in threads:
            thread.join(timeout=120)
        self.assertEqual(sorted(answers), sorted(seeds))
        return answers

    def check(self, answers):
        finished = [text for text, reason in itertools.chain(*answers.values()) if reason == "stop"]
        for text in finished:
            jsonschema.validate(json.loads(text), self.SHAPE)
        self.assertGreater(len(finished), 1)

    def test_guided_answers_are_unchanged_when_a_worker_is_killed(self):
        with Server("-tp", "2", "--threads-per-worker", "1", model=self.model) as server:
            undisturbed = {}
            for seed in range(4):
                self.ask(server, seed, undisturbed, n=2)
            self.check(undisturbed)

            def kill():
                server.wait_until_running(4)
                os.kill(server.worker_pids()[1], signal.SIGKILL)

            self.assertEqual(self.together(server, range(4), kill, n=2), undisturbed)
            self.assertEqual(server.get("/admin/status", admin=True)["recoveries"], 1)

    def test_guided_answers_are_unchanged_when_requests_are_preempted(self):
        def preemptions(server):
            return float(re.search(r"^vllm:num_preemptions_total\{.*\} (\S+)$", server.get("/metrics", admin=True), re.M)[1])

        with Server("-tp", "2", "--threads-per-worker", "1", model=self.model) as server:
            alone = {}
            for seed in range(6):
                self.ask(server, seed, alone)
        for swap in ("0", "1"):
            with Server("-tp", "2", "--threads-per-worker", "1", "--num-kv-blocks", "100", "--max-model-len", "1200", "--swap-space", swap,
                        model=self.model) as server:
                self.assertEqual(self.together(server, range(6)), alone)
                self.assertGreater(preemptions(server), 0)

    def test_guided_answers_are_unchanged_when_requests_move_between_replicas(self):
        with Server("-tp", "1", "--threads-per-worker", "1", "--data-parallel-size", "2", model=self.model) as server:
            alone = {}
            for seed in range(4):
                self.ask(server, seed, alone)

            streams = [stream_in_background(server, 900, body={"guided_json": self.SHAPE, "seed": seed, "temperature": 8, "ignore_eos": False}) for seed in alone]
            moved = 0
            for replica in itertools.cycle((0, 1)):
                for thread, lines in streams:
                    _, answer = server.post("/admin/migrate", {"request": json.loads(lines[0])["id"], "replica": replica}, admin=True)
                    moved += answer["moving"]
                if not any(thread.is_alive() for thread, _ in streams):
                    break
            self.assertGreater(moved, 3)
            self.assertEqual([text_of(lines) for _, lines in streams], [answers[0][0] for answers in alone.values()])

    def test_guided_answers_are_unchanged_when_workers_are_restarted(self):
        with Server("-tp", "2", "--threads-per-worker", "1", model=self.model) as server:
            alone = {}
            for seed in range(3):
                self.ask(server, seed, alone)

            def restart():
                server.wait_until_running(3)
                status, answer = server.post("/admin/restart_workers", {}, admin=True)
                self.assertEqual(status, 200, answer)

            self.assertEqual(self.together(server, range(3), restart), alone)


if __name__ == "__main__":
    verdict.run_tests()
