#!/usr/bin/env python3
"""Runs EleutherAI's lm-eval from PyPI against Quire. Its local-completions model asks for log-likelihoods of continuations and of whole texts,
and for generated text; its local-chat-completions model asks for generated text as chats. The tasks are in this file; nothing is fetched.

  lm_eval_run.py expect MODEL OUT.json
      writes HF transformers' results for the same texts in float32; MODEL is a directory or a GGUF file; needs torch and transformers
  lm_eval_run.py run [--expect FILE.json] MODEL [FLAG...]
      starts `quire serve MODEL FLAG...` and runs the tasks; needs lm-eval[api]. With --expect, ends with status 1 if a log-likelihood
      differs by more than TOLERANCE per token

QUIRE_TEST_BUILD names the build directory."""
import json
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOLERANCE = 5e-3  # mean per token: activations are rounded in products with quantised weights
FACTS = [
    ("The capital of France is", ["Paris", "Rome", "Berlin", "Madrid"]),
    ("The capital of Italy is", ["Rome", "Vienna", "Paris", "Lisbon"]),
    ("Water freezes at zero degrees", ["Celsius", "Fahrenheit", "Kelvin", "Richter"]),
    ("The opposite of hot is", ["cold", "tall", "green", "seven"]),
    ("A week has seven", ["days", "hours", "months", "years"]),
    ("The sun rises in the", ["east", "west", "north", "cellar"]),
    ("Bees make", ["honey", "steel", "bread", "music"]),
    ("Two plus two is", ["four", "nine", "zero", "twenty"]),
    ("Shakespeare wrote Romeo and", ["Juliet", "Ophelia", "Brutus", "Oliver"]),
    ("The first month of the year is", ["January", "March", "July", "December"]),
    ("Cows give", ["milk", "wool", "eggs", "silk"]),
    ("The largest ocean is the", ["Pacific", "Baltic", "Arctic", "Caspian"]),
    ("An apple is a", ["fruit", "metal", "planet", "verb"]),
    ("A triangle has three", ["sides", "wheels", "colours", "legs"]),
    ("The earth goes around the", ["sun", "moon", "corner", "clock"]),
    ("Fish live in", ["water", "fire", "sand", "books"]),
]
TEXTS = [
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.",
    "Call me Ishmael. Some years ago, never mind how long precisely, I thought I would sail about a little.",
    "Żółw i zając biegli przez pole; 海は広いな大きいな, said nobody in particular. 🙂",
    "def add(a, b):\n    \"\"\"Returns the sum.\"\"\"\n    return a + b\n",
]


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def make_tasks(folder):
    def task(name, kind, rows, **more):
        path = os.path.join(folder, name + ".jsonl")
        write_lines(path, rows)
        return {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": path}}, "test_split": "test",
                "output_type": kind, **more}

    accuracy = [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]
    facts = [{"question": question, "choices": choices} for question, choices in FACTS]
    return [
        task("facts", "multiple_choice", facts, doc_to_text="{{question}}", doc_to_choice="{{choices}}", doc_to_target=0, metric_list=accuracy),
        task("texts", "loglikelihood_rolling", [{"text": text} for text in TEXTS], doc_to_text="", doc_to_target="{{text}}",
             metric_list=[{"metric": "word_perplexity"}, {"metric": "byte_perplexity"}]),
        task("first_words", "generate_until", facts[:4], doc_to_text="{{question}}", doc_to_target="{{choices[0]}}",
             generation_kwargs={"until": ["."], "max_gen_toks": 8},
             metric_list=[{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]),
    ]


def expect(model_path, out):
    """Writes HF's results to the file `out`, by context and continuation: the log-likelihood, the number of tokens, and whether greedy
    decoding gives the same continuation."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": os.path.basename(model_path)} if model_path.endswith(".gguf") else {}
    directory = os.path.dirname(os.path.abspath(model_path)) if source else model_path
    tokenizer = AutoTokenizer.from_pretrained(directory, **source)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, **source).eval()

    @torch.no_grad()
    def score(ids, begin):
        rows = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
        return {"logprob": sum(rows[i - 1][ids[i]].item() for i in range(begin, len(ids))), "tokens": len(ids) - begin,
                "greedy": all(rows[i - 1].argmax().item() == ids[i] for i in range(begin, len(ids)))}

    expected = {}
    for question, choices in FACTS:
        context = tokenizer(question, add_special_tokens=False).input_ids
        for choice in choices:
            ids = tokenizer(f"{question} {choice}", add_special_tokens=False).input_ids
            expected[f"{question}| {choice}"] = score(ids, len(context))
    first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    for text in TEXTS:  # lm-eval puts a token before whole texts
        expected["|" + text] = score([first, *tokenizer(text, add_special_tokens=False).input_ids], 1)
    with open(out, "w", encoding="utf-8") as f:
        json.dump(expected, f, indent=1)


def compare(samples, expected):
    """Prints the differences of log-likelihoods. Returns True if none is too large."""
    worst, counted, greedy = 0.0, 0, 0
    for name in ("facts", "texts"):
        for sample in samples[name]:
            for arguments, response in zip(sample["arguments"], sample["filtered_resps"]):
                rolling = name == "texts"
                wanted = expected[f"|{arguments[0]}" if rolling else "|".join(arguments)]
                own = float(response if rolling else response[0])
                off = abs(own - wanted["logprob"]) / wanted["tokens"]
                if off > TOLERANCE:
                    print(f"{arguments}: {own:.5f}, HF says {wanted}")
                worst = max(worst, off)
                counted += 1
                greedy += not rolling and bool(response[1]) != wanted["greedy"]
    print(f"{counted} log-likelihoods: off by {worst:.2g} a token at the most; {greedy} continuations that one side calls greedy and the other not")
    return worst <= TOLERANCE


def run(model_path, flags, expected):
    sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import lm_eval
    from server import Server

    with tempfile.TemporaryDirectory() as folder, Server(*flags, model=model_path) as server:
        served = server.get("/v1/models")["data"][0]
        arguments = {"model": served["id"], "base_url": server.url + "/v1/completions", "tokenizer_backend": "remote", "batch_size": 8,
                     "max_length": served["max_model_len"]}
        tasks = make_tasks(folder)
        results = lm_eval.simple_evaluate(model="local-completions", model_args=arguments, tasks=tasks, log_samples=True)
        chat = {**arguments, "base_url": server.url + "/v1/chat/completions", "tokenizer_backend": None, "batch_size": 1}
        generating = [{**task, "task": task["task"] + "_of_chats"} for task in tasks if task["output_type"] == "generate_until"]
        chats = lm_eval.simple_evaluate(model="local-chat-completions", model_args=chat, tasks=generating, apply_chat_template=True)
    for name, numbers in {**results["results"], **chats["results"]}.items():
        shown = ", ".join(f"{key.split(',')[0]} {value:.4g}" for key, value in sorted(numbers.items())
                          if isinstance(value, float) and "stderr" not in key)
        print(f"{name}: {shown}")
    return expected is None or compare(results["samples"], expected)


def main():
    mode, *rest = sys.argv[1:]
    if mode == "expect":
        return expect(*rest)
    expected = None
    if rest[0] == "--expect":
        with open(rest[1], encoding="utf-8") as f:
            expected = json.load(f)
        rest = rest[2:]
    if not run(rest[0], rest[1:], expected):
        sys.exit(1)


if __name__ == "__main__":
    main()
