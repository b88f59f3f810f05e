"""The loads that peers.py puts on every server, and their measurements. Decoding is greedy, and the end of a sequence is ignored.
Prompts are token ids that all servers accept, different for every seed."""
import random
import statistics

START, MEMORY = "start, s", "resident memory after the loads, MB"

# Tokens that the KV pool of every server holds, so that memory can be compared.
POOL_TOKENS = 65536


def prompts_of(rng, count, prompt_tokens, prefix_tokens=0):
    prefix = [rng.randrange(1000, 20000) for _ in range(prefix_tokens)]
    return [prefix + [rng.randrange(1000, 20000) for _ in range(prompt_tokens)] for _ in range(count)]


def resident(pid):
    """Returns the MB of a process and its descendants; pages that several of them share count once (PSS)."""
    total, pids = 0, [pid]
    while pids:
        pid = pids.pop()
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
                total += int(next(line for line in f if line.startswith("Pss:")).split()[1])
            with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as f:
                pids += map(int, f.read().split())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total / 1000


def alone(at_once, rng):
    """Sends a 512-token prompt and reads 128 tokens. Text may come in fewer pieces than tokens, so the time of a token is the
    time from the first piece to the last, divided by the number of tokens after the first."""
    (times,), _ = at_once(prompts_of(rng, 1, 512), 128)
    return {"512-token prompt, first token after, s": times[0], "one stream, ms a token": 1000 * (times[-1] - times[0]) / 127}


def long_prompt(tokens):
    def load(at_once, rng):
        (times,), _ = at_once(prompts_of(rng, 1, tokens), 2)
        return {f"{tokens}-token prompt, first token after, s": times[0]}

    return load


def eight(at_once, rng):
    """Sends 8 concurrent requests, with 128-token prompts and 64 tokens each."""
    _, seconds = at_once(prompts_of(rng, 8, 128), 64)
    return {"8 at once, output tokens a second": 8 * 64 / seconds}


def many(at_once, rng):
    """Sends 32 concurrent requests, with 128-token prompts and 64 tokens each."""
    times, seconds = at_once(prompts_of(rng, 32, 128), 64)
    first = [mine[0] for mine in times]
    return {"32 at once, output tokens a second": 32 * 64 / seconds,
            "32 at once, first token after (median), s": statistics.median(first),
            "32 at once, first token after (the last), s": max(first)}


def prefix(at_once, rng):
    """Sends 16 concurrent requests. They begin with the same 512 tokens, which are new to the server, followed by 16 different tokens;
    each answer has 32 tokens."""
    _, seconds = at_once(prompts_of(rng, 16, 16, prefix_tokens=512), 32)
    return {"16 with one 512-token prefix, all done after, s": seconds}


LOADS = {"alone": alone, "2048": long_prompt(2048), "4096": long_prompt(4096), "8": eight, "32": many, "prefix": prefix}


def measure(at_once, loads, seed):
    """Measures the chosen LOADS, and returns numbers by title. at_once(prompts, tokens) returns when each piece of each answer came, in
    seconds after the request, and the time of all requests together."""
    at_once(prompts_of(random.Random(seed), 1, 16), 8)  # covers costs that occur only once
    found = {}
    for load in loads:
        found.update(LOADS[load](at_once, random.Random(f"{seed} {load}")))
    return found
