"""Serves small random encoders on one and two workers. Compares embeddings, scores, rankings, classes and numbers of single tokens with HF
and torch (tests/golden/encoders.json). Also tests the openai client."""
import json
import math
import os
import select
import shutil
import socket
import tempfile
import time
import unittest

import openai

from server import MODELS, ROOT, Server

with open(os.path.join(ROOT, "tests", "golden", "encoders.json"), encoding="utf-8") as f:
    GOLDEN = json.load(f)
LONGEST = 200  # tokens of the models' positions


def normalized(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def sentence_transformer(directory, name, mode="mean_tokens", prompts=None, default=None):
    """Copies the model, adds the files that sentence-transformers puts beside a model, and returns the path."""
    path = os.path.join(directory, name)
    shutil.copytree(os.path.join(MODELS, name), path)
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    os.mkdir(os.path.join(path, "1_Pooling"))
    for file, content in (("modules.json", modules), ("1_Pooling/config.json", {f"pooling_mode_{mode}": True, "include_prompt": True}),
                          ("config_sentence_transformers.json", {"prompts": prompts or {}, "default_prompt_name": default})):
        with open(os.path.join(path, file), "w", encoding="utf-8") as f:
            json.dump(content, f)
    return path


class EncoderCase(unittest.TestCase):
    def serve(self, model, *flags):
        server = Server("--threads-per-worker", "1", "--served-model-name", "tiny", *flags, model=model)
        self.addCleanup(server.__exit__)
        return server

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def post(self, server, path, want=200, **body):
        status, answer = server.post(path, body)
        self.assertEqual(status, want, answer)
        return answer

    def embed(self, server, given, **fields):
        return [entry["embedding"] for entry in self.post(server, "/v1/embeddings", input=given, **fields)["data"]]

    def expect_near(self, got, want, delta=2e-5):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertAlmostEqual(a, b, delta=delta)


class EmbeddingsTest(EncoderCase):
    def check_golden(self, server, name, way):
        singles = [case for case in GOLDEN[name]["cases"] if not case["second"]]
        for got, case in zip(self.embed(server, [case["prompt"] for case in singles]), singles):
            self.expect_near(got, normalized(case[way]))

    def test_embeddings_equal_transformers_on_two_workers(self):
        for name, mode, way in (("bert", "mean_tokens", "mean"), ("xlmr", "cls_token", "cls"), ("modernbert", "mean_tokens", "mean"),
                                ("mpnet", "mean_tokens", "mean"), ("nomicbert", "mean_tokens", "mean"), ("gte", "cls_token", "cls"),
                                ("jinabert", "mean_tokens", "mean"), ("jinav3", "mean_tokens", "mean"), ("distilbert", "cls_token", "cls")):
            with self.subTest(name):
                self.check_golden(self.serve(sentence_transformer(self.folder(), name, mode), "-tp", "2"), name, way)

    def test_encoders_answer_the_openai_client_truncate_texts_and_refuse_long_inputs(self):
        server = self.serve(sentence_transformer(self.folder(), "bert"))
        texts = {entry["text"]: entry["ids"] for entry in GOLDEN["bert"]["texts"] if "second" not in entry}
        with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
            answer = client.embeddings.create(model="tiny", input=list(texts))
        self.assertEqual(answer.usage.prompt_tokens, sum(map(len, texts.values())))
        for entry, ids in zip(answer.data, texts.values()):
            self.expect_near(entry.embedding, self.embed(server, [ids])[0])

        ids = texts["The quick brown fox jumps over the lazy dog."]
        cut, = self.embed(server, "The quick brown fox jumps over the lazy dog.", truncate_prompt_tokens=9)
        self.assertEqual(cut, self.embed(server, [ids[:8] + ids[-1:]])[0], "the end of the text is cut, and special tokens stay")
        longest = "the " * (LONGEST - 2)
        whole, = self.embed(server, longest)
        self.assertEqual(whole, self.embed(server, longest + "dog dog", truncate_prompt_tokens=-1)[0])
        for too_long in (longest + "the", [[7] * (LONGEST + 1)]):
            self.post(server, "/v1/embeddings", 400, input=too_long)
        self.post(server, "/v1/embeddings", 400, input="a", truncate_prompt_tokens=2)
        self.expect_near(self.embed(server, "a", dimensions=7)[0], normalized(self.embed(server, "a", normalize=False)[0][:7]))

        for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
            self.assertIn("embeddings only", self.post(server, path, 400, **body)["error"]["message"])
        ranked = self.post(server, "/v1/rerank", query="a", documents=["Hello, world!", "a"])["results"]
        self.assertEqual(ranked[0]["index"], 1)
        self.assertAlmostEqual(ranked[0]["relevance_score"], 1, places=5)

    def test_vectors_have_the_same_bits_when_texts_are_cut_into_slices(self):
        path = sentence_transformer(self.folder(), "modernbert")
        texts = [[2 + i % 90 for i in range(length)] for length in (LONGEST, 3, 120, 17, 64)]
        for workers in (("-tp", "2"), ("-pp", "2")):
            whole = self.embed(self.serve(path, *workers), texts)
            cut = self.serve(path, *workers, "--max-num-batched-tokens", "16", "--max-num-seqs", "16")
            self.assertEqual(self.embed(cut, texts), whole, workers)

    def test_short_texts_are_answered_beside_a_long_text_whose_work_ends_when_its_client_leaves(self):
        path = sentence_transformer(self.folder(), "bert")
        with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config.update({"num_hidden_layers": 60, "max_position_embeddings": 6000})
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        server = self.serve(path, "--load-format", "dummy")
        body = json.dumps({"model": "tiny", "input": [[7] * 6000]}).encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=120) as long:
            long.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_until_running()
            for _ in range(3):
                self.embed(server, [[8] * 30])
            self.assertEqual(select.select([long], [], [], 0)[0], [], "the long text is still under way")
            self.assertEqual(server.get("/admin/status", admin=True)["running"], 1)
        self.embed(server, [[8] * 30])
        while server.get("/admin/status", admin=True)["running"] > 0:
            time.sleep(0.02)
        steps = server.get("/admin/status", admin=True)["steps"]
        time.sleep(0.5)
        self.assertEqual(server.get("/admin/status", admin=True)["steps"], steps, "no further step is computed")
        self.embed(server, [[7] * 6000])

    def test_prompts_of_model_files_are_put_before_the_inputs(self):
        prompts = {"query": "the quick ", "passage": "dog: "}
        server = self.serve(sentence_transformer(self.folder(), "bert", prompts=prompts))
        for fields, before in (({}, ""), ({"prompt_name": "query"}, "the quick "), ({"prompt_name": "passage"}, "dog: "),
                               ({"input_type": "query"}, "the quick "), ({"input_type": "search_document"}, "dog: "), ({"input_type": "passage"}, "dog: ")):
            self.assertEqual(self.embed(server, "fox", **fields), self.embed(server, before + "fox"), fields)
        for fields in ({"prompt_name": "other"}, {"input_type": "clustering"}, {"prompt_name": "query", "input_type": "query"}):
            self.post(server, "/v1/embeddings", 400, input="fox", **fields)
        self.post(server, "/v1/embeddings", 400, input=[5, 6], prompt_name="query")
        usual = self.serve(sentence_transformer(self.folder(), "bert", prompts=prompts, default="query"))
        self.assertEqual(self.embed(usual, "fox"), self.embed(server, "the quick fox"))


class ClassifierTest(EncoderCase):
    def test_classes_equal_transformers_by_the_kind_of_problem(self):
        def softmax(numbers):
            total = sum(math.exp(x) for x in numbers)
            return [math.exp(x) / total for x in numbers]

        def sigmoids(numbers):
            return [1 / (1 + math.exp(-x)) for x in numbers]

        labels = ["sad", "glad", "mad", "so so"]
        for name, names, scale in (("modernbert_classes", [f"LABEL_{i}" for i in range(3)], softmax), ("distilbert_classes", labels, sigmoids)):
            with self.subTest(name):
                server = self.serve(os.path.join(MODELS, name), "-tp", "2")
                singles = [case for case in GOLDEN[name]["cases"] if not case["second"]]
                prompts = [case["prompt"] for case in singles]
                plain = self.post(server, "/v1/classify", input=prompts, use_activation=False)["data"]
                for index, (entry, raw, case) in enumerate(zip(self.post(server, "/classify", input=prompts)["data"], plain, singles)):
                    right = scale(case["answer"])
                    self.assertEqual((entry["index"], entry["num_classes"]), (index, len(names)))
                    self.assertEqual(entry["label"], names[max(range(len(names)), key=lambda i: case["answer"][i])])
                    self.expect_near(entry["probs"], right)
                    self.expect_near(raw["probs"], case["answer"], 1e-4)
                pooled = self.post(server, "/pooling", input=prompts)["data"]
                self.expect_near(pooled[0]["data"], scale(singles[0]["answer"]))
                for path, body in (("/v1/embeddings", {"input": "a"}), ("/v1/score", {"text_1": "a", "text_2": "b"}), ("/v1/completions", {"prompt": "a"})):
                    self.assertIn("/classify", self.post(server, path, 400, **body)["error"]["message"])

    def test_cross_encoders_classify_single_texts_and_embedders_do_not(self):
        server = self.serve(os.path.join(MODELS, "bert_pairs"))
        case = GOLDEN["bert_pairs"]["cases"][4]
        entry, = self.post(server, "/classify", input=[case["prompt"]])["data"]
        self.assertEqual((entry["label"], entry["num_classes"]), ("LABEL_0", 1))
        self.expect_near(entry["probs"], [1 / (1 + math.exp(-case["answer"][0]))])
        embedder = self.serve(sentence_transformer(self.folder(), "bert"))
        self.post(embedder, "/classify", 400, input="a")
        self.post(embedder, "/pooling", 400, input="a", task="classify")


class TokenNumbersTest(EncoderCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server("--threads-per-worker", "1", "--served-model-name", "tiny", "-tp", "2",
                            model=sentence_transformer(folder.name, "m3", "cls_token"))
        cls.addClassCleanup(cls.server.__exit__)
        cls.text = next(entry for entry in GOLDEN["m3"]["texts"] if len(entry["ids"]) in range(8, 16) and "second" not in entry)

    def pool(self, given, **fields):
        return self.post(self.server, "/pooling", input=given, **fields)["data"]

    def test_vectors_and_weights_of_tokens_equal_torch(self):
        for case in GOLDEN["m3"]["cases"]:
            if "colbert" not in case or case["second"]:
                continue
            tokens, columns = len(case["prompt"]), len(case["colbert"]) // len(case["prompt"])
            entry, = self.pool([case["prompt"]], task="token_embed", normalize=False)
            self.assertEqual(len(entry["data"]), tokens)
            self.expect_near(sum(entry["data"], []), case["colbert"], 1e-4)
            normed, = self.pool([case["prompt"]], task="token_embed")
            self.expect_near(normed["data"][-1], normalized(case["colbert"][-columns:]))
            weights, = self.pool([case["prompt"]], task="token_classify")
            self.expect_near(weights["data"], case["sparse"], 1e-4)
            self.assertEqual(weights["token_ids"], case["prompt"])

    def test_special_tokens_around_a_text_get_no_weight_and_the_first_of_them_gets_no_vector(self):
        ids = self.text["ids"]
        weights, = self.pool(self.text["text"], task="token_classify")
        self.assertEqual(weights["token_ids"], ids[1:-1])
        whole, = self.pool([ids[1:]], task="token_embed")
        self.assertEqual(len(whole["data"]), len(ids) - 1, "these tokens begin without the special one")
        rows, = self.pool(self.text["text"], task="token_embed", dimensions=5)
        self.assertEqual([len(row) for row in rows["data"]], [5] * (len(ids) - 1))

    def test_pooling_endpoint_returns_the_vectors_of_embeddings_and_refuses_wrong_tasks(self):
        one, = self.pool(self.text["text"])
        self.assertEqual(one["data"], self.embed(self.server, self.text["text"])[0])
        many = self.pool([self.text["text"], "a"], task="embed", dimensions=7)
        self.assertEqual([entry["data"] for entry in many], self.embed(self.server, [self.text["text"], "a"], dimensions=7))
        for fields in ({"task": "plugin"}, {"task": "classify"}, {"task": "token_embed", "encoding_format": "base64"}, {"task": "token_classify", "dimensions": 1},
                       {"use_activation": True}, {"dimensions": 0}):
            self.post(self.server, "/pooling", 400, input="a", **fields)
        without = self.serve(sentence_transformer(self.folder(), "bert"))
        self.post(without, "/pooling", 400, input="a", task="token_classify")
        case = next(case for case in GOLDEN["m3"]["cases"] if len(case["prompt"]) == 7)
        path = os.path.join(self.folder(), "plain")
        shutil.copytree(os.path.join(MODELS, "m3"), path)
        for name in ("sparse_linear", "colbert_linear"):
            os.rename(os.path.join(path, f"{name}.safetensors"), os.path.join(path, f"{name}.pt"))
        plain = self.serve(path)
        entry, = self.post(plain, "/pooling", input=[case["prompt"]], normalize=False)["data"]
        self.expect_near(sum(entry["data"], []), case["all"], 1e-4)
        self.assertIn("pickle", plain.text())


class CrossEncoderTest(EncoderCase):
    def check_ranking(self, server, golden, score):
        right = [score(logit) for logit in golden["logits"]]
        documents = golden["documents"]
        results = self.post(server, "/v1/rerank", query=golden["query"], documents=documents)["results"]
        self.assertEqual([result["index"] for result in results], sorted(range(len(right)), key=lambda i: -right[i]))
        for result in results:
            self.assertAlmostEqual(result["relevance_score"], right[result["index"]], delta=2e-5)
            self.assertEqual(result["document"]["text"], documents[result["index"]])
        scores = [entry["score"] for entry in self.post(server, "/score", text_1=golden["query"], text_2=documents)["data"]]
        self.expect_near(scores, right)
        pairs = self.post(server, "/v1/score", text_1=[golden["query"]] * 2, text_2=documents[:2])["data"]
        self.expect_near([pair["score"] for pair in pairs], right[:2])

    def test_rankings_equal_transformers(self):
        for name in ("bert_pairs", "xlmr_pairs", "electra_pairs"):
            with self.subTest(name):
                server = self.serve(os.path.join(MODELS, name), "-tp", "2")
                self.check_ranking(server, GOLDEN[name]["ranking"], lambda x: 1 / (1 + math.exp(-x)))
                settings = server.get("/admin/status", admin=True)["settings"]
                self.assertEqual((settings["pooling"], settings["scoring"]), ("cls", "cross-encoder"))
                self.post(server, "/v1/embeddings", 400, input="a")
                self.post(server, "/v1/completions", 400, prompt="a")

    def test_pairs_with_different_queries_are_scored_as_single_pairs(self):
        server = self.serve(os.path.join(MODELS, "bert_pairs"))
        queries, documents = ["the dog", "the dog", "quick fox"], ["a fox", "lazy", "the dog"]
        pairs = self.post(server, "/v1/score", text_1=queries, text_2=documents)["data"]
        singles = [self.post(server, "/v1/score", text_1=query, text_2=document)["data"][0] for query, document in zip(queries, documents)]
        self.assertEqual([pair["score"] for pair in pairs], [single["score"] for single in singles])

    def test_scores_are_logits_when_the_files_name_the_identity_as_activation(self):
        path = os.path.join(self.folder(), "model")
        shutil.copytree(os.path.join(MODELS, "bert_pairs"), path)
        with open(os.path.join(path, "config.json"), "r+", encoding="utf-8") as f:
            config = json.load(f)
            config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
            f.seek(0)
            json.dump(config, f)
        server = self.serve(path)
        self.check_ranking(server, GOLDEN["bert_pairs"]["ranking"], lambda x: x)
        long = "the " * 300
        self.post(server, "/v1/score", 400, text_1="fox", text_2=long)
        cut = self.post(server, "/v1/score", text_1="fox", text_2=long, truncate_prompt_tokens=-1)
        fitting = self.post(server, "/v1/score", text_1="fox", text_2="the " * (200 - 3 - len("fox")))
        self.assertEqual(cut["usage"]["prompt_tokens"], 200)
        self.assertEqual(len(fitting["data"]), 1)


if __name__ == "__main__":
    unittest.main()
