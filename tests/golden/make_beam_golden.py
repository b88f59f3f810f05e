#!/usr/bin/env python3
"""Makes beams_*.json, the expected results of the engine's beam search: hypotheses and scores of HF transformers' `generate`, in float32,
on the tiny models of make_golden.py and on the quickstart model. Needs: pip install torch transformers accelerate gguf safetensors.

  make_beam_golden.py [NAME...]        all tiny models, or the named ones
  make_beam_golden.py real FILE.gguf   beams_smollm2.json for the quickstart model, on the same dequantised weights

A case holds the arguments of `generate` and one hypothesis per beam, best first. A hypothesis has its generated tokens
(with the final eos, without padding) and HF's sequences_scores: sum of log-probabilities / generated tokens **
length_penalty. With eos_token_id null, only max_new_tokens ends a hypothesis. HF searches greedily with one beam and
reports no score for the result; this script then computes the score by the same formula.

beam_search below is HF's algorithm for one prompt, written out, without a cache and, on tiny models, in float64. HF
must return the same result. A case is used only if every choice is decided by at least MARGIN in a sum of log-probabilities
(REAL_MARGIN for the quickstart model: the engine rounds the inputs of quantised weights). Closer choices depend on
rounding."""
import json
import os
import random
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompts import SENTENCES

HERE = os.path.dirname(os.path.abspath(__file__))
MARGIN, REAL_MARGIN = 5e-4, 1e-2
NUM_CASES = 42
LENGTHS = [1, 2, 3, 5, 8, 13, 15, 16, 17, 24, 31, 32, 33, 47, 60]
BEAMS = [1, 2, 3, 4, 8]
PENALTIES = [0.0, 0.0, 1.0, 2.0, -1.0, -1.0]
STOPPING = [False, True, "never"]
NEW_TOKENS = [1, 5, 20, 20, 40, 40]
# The pairs of early_stopping settings that the cases must tell apart: entry i is for case i modulo the length. Few random cases do so by
# chance.
TELLING = [None, (False, "never"), None, (False, True), None, None, (False, True)]


class Margin:
    """Records the smallest difference that decided a choice, as a difference of sums of log-probabilities."""

    def __init__(self, length_penalty):
        self.penalty, self.least = length_penalty, float("inf")

    def greater(self, a, b, length_a=1, length_b=1):
        """Returns a > b, and records the difference. Both scores are already divided by length ** penalty."""
        unit = max(length_a**-self.penalty, length_b**-self.penalty)
        self.least = min(self.least, abs(a - b) / unit)
        return a > b

    def pairs(self, finished, others):
        for f in finished:
            for o in others:
                if f is not o:
                    self.greater(f[0], o[0], len(f[1]), len(o[1]))


def log_probs(model, sequences):
    return torch.log_softmax(model(input_ids=torch.tensor(sequences), use_cache=False, logits_to_keep=1).logits[:, -1].double(), -1)


def beam_search(model, prompt, num_beams, length_penalty, early_stopping, max_new_tokens, eos):
    """Returns ([(score, generated tokens)], best first, and the margin)."""
    margin = Margin(length_penalty)
    running = [(0.0, [])]  # (sum of log-probabilities, generated tokens)
    finished = []          # (normalised score, generated tokens), best first, at most num_beams
    for length in range(1, max_new_tokens + 1):
        rows = log_probs(model, [prompt + tokens for _, tokens in running])
        candidates = []
        for (total, tokens), row in zip(running, rows):
            best = torch.topk(row, min(2 * num_beams + 1, len(row)))  # at most one candidate of each beam is the eos
            candidates += [(total + p, tokens + [t]) for p, t in zip(best.values.tolist(), best.indices.tolist())]
        candidates.sort(key=lambda c: -c[0])
        last = length == max_new_tokens
        ends = [last or tokens[-1] == eos for _, tokens in candidates]
        # A hypothesis that ends among the best num_beams candidates is finished. A hypothesis that ends further down is dropped.
        for rank, ((total, _), end) in enumerate(zip(candidates, ends)):
            if end:
                margin.greater(total, candidates[num_beams if rank < num_beams else num_beams - 1][0])
        arrived = [(total / length**length_penalty, tokens)
                   for (total, tokens), end in zip(candidates[:num_beams], ends) if end]
        finished = sorted(finished + arrived, key=lambda f: -f[0])
        margin.pairs(finished[:num_beams], finished[num_beams:])
        finished = finished[:num_beams]
        if last:
            break
        open_ones = [c for c, end in zip(candidates, ends) if not end]
        margin.greater(open_ones[num_beams - 1][0], open_ones[num_beams][0])
        running = open_ones[:num_beams]
        if len(finished) == num_beams:
            to_come = max_new_tokens if early_stopping == "never" and length_penalty > 0 else length
            improvable = margin.greater(running[0][0] / to_come**length_penalty, finished[-1][0], to_come,
                                        len(finished[-1][1]))
            if early_stopping is True or not improvable:
                break
    margin.pairs(finished, finished)
    return finished, margin.least


def greedy_search(model, prompt, length_penalty, max_new_tokens, eos):
    margin, tokens, total = Margin(length_penalty), [], 0.0
    while len(tokens) < max_new_tokens and (not tokens or tokens[-1] != eos):
        best = torch.topk(log_probs(model, [prompt + tokens])[0], 2)
        margin.greater(*best.values.tolist())
        tokens.append(best.indices[0].item())
        total += best.values[0].item()
    return [(total / len(tokens)**length_penalty, tokens)], margin.least


def expected(model, case):
    prompt, beams, penalty = case["prompt"], case["num_beams"], case["length_penalty"]
    if beams == 1:
        return greedy_search(model, prompt, penalty, case["max_new_tokens"], case["eos_token_id"])
    return beam_search(model, prompt, beams, penalty, case["early_stopping"], case["max_new_tokens"],
                       case["eos_token_id"])


def generated(model, case):
    """Returns the result of HF's `generate` in the form of expected()."""
    prompt, beams, eos = case["prompt"], case["num_beams"], case["eos_token_id"]
    model.generation_config.eos_token_id = eos  # as an argument, None would mean the model's own eos
    model.generation_config.pad_token_id = eos
    only_beams = dict(length_penalty=case["length_penalty"], early_stopping=case["early_stopping"]) if beams > 1 else {}
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=beams,
                         num_return_sequences=beams, max_new_tokens=case["max_new_tokens"],
                         return_dict_in_generate=True, output_scores=True, **only_beams)
    hypotheses = [row[len(prompt):] for row in out.sequences.tolist()]
    hypotheses = [h[:h.index(eos) + 1] if eos in h else h for h in hypotheses]
    if beams > 1:
        return list(zip(out.sequences_scores.tolist(), hypotheses))
    each = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)[0]
    return [(each.sum().item() / len(hypotheses[0])**case["length_penalty"], hypotheses[0])]


def draw_case(rng, model, length, settings):
    """Returns a random case, or None if the case does not tell the two `settings` of early_stopping apart. `settings` may be None."""
    case = dict(prompt=[rng.randrange(2, model.config.vocab_size) for _ in range(length)],
                num_beams=rng.choice(BEAMS), length_penalty=rng.choice(PENALTIES), early_stopping=rng.choice(STOPPING),
                max_new_tokens=rng.choice(NEW_TOKENS), eos_token_id=None)
    if settings:
        case.update(num_beams=rng.choice([2, 2, 3, 4]), length_penalty=rng.choice([1.0, 2.0]),
                    early_stopping=rng.choice(settings), max_new_tokens=rng.choice([20, 40]))
    if settings or rng.random() >= 0.15:
        # The eos is a random token of the hypotheses, weighted by frequency, so that some hypotheses end.
        case["eos_token_id"] = rng.choice([t for _, tokens in expected(model, case)[0] for t in tokens])
    answers = [expected(model, dict(case, early_stopping=setting))[0] for setting in settings or ()]
    return None if answers and answers[0] == answers[1] else case


@torch.no_grad()
def make_cases(name):
    directory = f"{HERE}/models/{name}"
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    exact = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval().double()
    rng, cases, drawn, dropped = random.Random(f"beams {name}"), [], 0, 0
    while len(cases) < NUM_CASES:
        length = LENGTHS[drawn % len(LENGTHS)]
        drawn += 1
        case = draw_case(rng, exact, length, TELLING[len(cases) % len(TELLING)])
        if case is None:
            continue
        wanted, margin = expected(exact, case)
        if margin < MARGIN:
            dropped += 1
            continue
        cases.append(answered(model, case, wanted))
    print(f"{name}: kept {len(cases)}, dropped {dropped} for near-ties", file=sys.stderr, flush=True)
    return cases


def answered(model, case, wanted):
    """Returns the case with HF's result, which must equal the result of beam_search."""
    answer = generated(model, case)
    assert [t for _, t in answer] == [t for _, t in wanted], (case, answer, wanted)
    assert all(abs(a - w) < 1e-3 * max(1, abs(w)) for (a, _), (w, _) in zip(answer, wanted)), (case, answer, wanted)
    return dict(case, hypotheses=[dict(tokens=t, score=float(f"{s:.7g}")) for s, t in answer])


@torch.no_grad()
def make_real_cases(path):
    load = dict(gguf_file=os.path.basename(path))
    tokenizer = AutoTokenizer.from_pretrained(os.path.dirname(path), **load)
    model = AutoModelForCausalLM.from_pretrained(os.path.dirname(path), dtype=torch.float32, **load).eval()
    cases, dropped = [], 0
    for i, text in enumerate(SENTENCES * 2):
        eos = tokenizer.encode("." if i % 2 else "\n", add_special_tokens=False)[-1]  # hypotheses end at different lengths
        case = dict(prompt=tokenizer(text, add_special_tokens=False).input_ids[:[16, 9, 24, 3][i % 4]], num_beams=[2, 3, 4][i % 3],
                    length_penalty=[1.0, 0.0, 2.0, -1.0][i // 3 % 4], early_stopping=STOPPING[i // 2 % 3],
                    max_new_tokens=[12, 8, 16][i % 5 % 3], eos_token_id=None if i % 5 == 4 else eos)
        wanted, margin = expected(model, case)
        print(f"{len(case['prompt'])} tokens, {case['num_beams']} beams: margin {margin:.4f}", file=sys.stderr, flush=True)
        if margin < REAL_MARGIN:
            dropped += 1
            continue
        cases.append(answered(model, case, wanted))
    print(f"kept {len(cases)}, dropped {dropped} for near-ties", file=sys.stderr)
    return cases


def write(name, cases):
    with open(f"{HERE}/beams_{name}.json", "w") as out:
        json.dump({"cases": cases}, out, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["real"]:
        write("smollm2", make_real_cases(os.path.abspath(sys.argv[2])))
    else:
        for model_name in sys.argv[1:] or ["mha", "gqa", "mqa"]:
            write(model_name, make_cases(model_name))
