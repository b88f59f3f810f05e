#!/usr/bin/env python3
"""Plants known bugs in a copy of the coordinator's core, to prove that the simulator would find them.

  mutants.py plant SOURCE_DIR OUT_DIR   writes OUT_DIR/<file>.cc for every file that has a mutant; all bugs are in, each
                                        behind `active_mutant == k`, so that one build serves them all
  mutants.py hunt SIM SEEDS             runs the mutated simulator with every bug switched on, seed after seed; fails
                                        when one survives

The code of the core itself knows nothing of this. A mutant whose text is no longer there is an error: it moves with the code.
"""
import concurrent.futures
import os
import subprocess
import sys

# (file, what the bug is, text as it stands, text with the bug). A text that ends in ; or } is a statement, else an
# expression.
MUTANTS = [
    ("block_manager.cc", "a dropped request keeps its host blocks",
     "if (*it != kNullBlock) host_pool_.Release(*it);", ";"),
    ("block_manager.cc", "a fork does not count as an owner of the last block",
     "i >= child.first_block", "i >= child.first_block && i + 1 < BlocksFor(parent.num_computed)"),
    ("block_manager.cc", "two owners are not reason enough to copy before a write",
     "pool_.ref_count(sequence.blocks[index]) > 1", "pool_.ref_count(sequence.blocks[index]) > 2"),
    ("block_manager.cc", "one token too many in the last block",
     "static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens)",
     "static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens - 1)"),
    ("block_manager.cc", "an evicted block can still be found",
     "cache_.Erase(block);", "(void)block;"),
    ("block_manager.cc", "the window ends one position early",
     "sequence.num_computed - options_.sliding_window + 1", "sequence.num_computed - options_.sliding_window + 2"),
    ("block_manager.cc", "the copy is not told to the workers",
     "plan.copies.push_back({entry, copy});", ";"),
    ("block_sharing.cc", "the last token comes from the cache, too",
     "std::min(max_tokens, sequence.num_tokens() - 1)", "max_tokens"),
    ("block_sharing.cc", "a hit is not pinned",
     "pool_.AddReference(hit->block);", ";"),
    ("block_sharing.cc", "swap-outs are not told to the workers",
     "plan.swap_outs.insert(plan.swap_outs.end(), moved_.begin(), moved_.end());", ";"),
    ("block_sharing.cc", "blocks shared on the host come back with one owner",
     "        pool_.AddReference(moved->destination);", ";"),
    ("block_sharing.cc", "a pin does not hold its blocks",
     "for (const BlockId block : blocks) pool_.AddReference(block);", ";"),
    ("block_sharing.cc", "an expired pin keeps its blocks",
     "Release(pin);\n    return true;", "return true;"),
    ("block_manager.cc", "a resized host pool keeps its size",
     "host_pool_ = BlockPool(sizes.num_host_blocks + 1);", ";"),
    ("block_manager.cc", "a resized pool has blocks that the workers do not",
     "pool_ = BlockPool(sizes.num_blocks);", "pool_ = BlockPool(sizes.num_blocks + 1);"),
    ("prefix_cache.cc", "a hit is taken without comparing tokens",
     "!std::ranges::equal(TokensOf(block), tokens)", "false"),
    ("prefix_cache.cc", "a hit is taken without comparing what comes before",
     "entry.parent != parent", "false"),
    ("prefix_cache.cc", "erasing leaves a hole in the probe sequence",
     "table_[hole] = table_[at];\n    hole = at;", "break;"),
    ("scheduler.cc", "salts are ignored",
     "blocks_.SaltRoot(request.cache_salt)", "blocks_.SaltRoot(\"\")"),
    ("scheduler.cc", "the newcomer runs last, whatever its seniority",
     "running_.insert(std::ranges::upper_bound(running_, &request, [](auto* a, auto* b) { return Senior(*a, *b); }),\n"
     "                    &request);",
     "running_.push_back(&request);"),
    ("scheduler.cc", "admission does not look ahead",
     "blocks_.num_free() - crowd_.blocks - blocks_.watermark_blocks()", "blocks_.num_free()"),
    ("scheduler.cc", "admission forgets those it has just admitted",
     "CountIn(request);", ";"),
    ("scheduler.cc", "recomputed choices believe that they share a prefix",
     "victim.forked = false;", ";"),
    ("scheduler.cc", "workers are not told that a slot is free",
     "released_.push_back(*sequence.slot);", ";"),
    ("scheduler.cc", "cached blocks survive their workers",
     "blocks_.FlushCache();", ";"),
    ("scheduler.cc", "swapped-out blocks survive their workers",
     "for (Sequence& sequence : request->sequences) blocks_.Free(sequence);", ";"),
    ("scheduler.cc", "an ended request still counts for its client",
     "std::erase(running_, &request);\n  queue_.Left(request);", "std::erase(running_, &request);"),
    ("step_building.cc", "beams do not wait for each other",
     "if (drawing == live) return;", "return;"),
    ("step_building.cc", "a new beam keeps the tokens of a dead one",
     "child.tokens = parent.tokens;", ";"),
    ("step_building.cc", "a block can be shared before it is computed",
     "blocks_.Computed(*m.sequence, m.count);", "blocks_.Computed(*m.sequence, m.count + 1);"),
    ("beam_search.cc", "any ending continuation becomes a finished beam",
     "i < std::min(width, all.size())", "i < all.size()"),
    ("beam_search.cc", "long beams are not favoured",
     "std::pow(static_cast<float>(beam.tokens.size()), options_.length_penalty)",
     "std::pow(static_cast<float>(beam.tokens.size()), 1.0f)"),
    ("engine.cc", "a hidden stop token is delivered",
     "!hidden", "true"),
    ("waiting_queue.cc", "a preempted request waits with the others",
     "if (!preempted_.empty()) return *preempted_.front();", ";"),
    # Planning ahead.
    ("scheduler.cc", "somebody is preempted while a step is outstanding",
     "if (ahead()) {\n      left_out_ = true;\n      return false;\n    }", ";"),
    ("scheduler.cc", "results of a lost group are still awaited",
     "steps_.Lose();", ";"),
    ("scheduler.cc", "a swapped-out request takes along what has left its window",
     "for (Sequence& sequence : victim.sequences) blocks_.LeaveWindow(sequence);", ";"),
    ("step_building.cc", "beams go on before it is known how",
     "request.beams != nullptr && std::ranges::any_of(request.sequences, draws)", "false"),
    ("step_building.cc", "a step goes past the length",
     "sequence.length() == sequence.num_prompt_tokens + request.limits.max_tokens", "false"),
    ("step_building.cc", "tokens in flight are computed again",
     "sequence.length() - sequence.num_planned()", "sequence.length() - sequence.num_computed"),
    ("step_building.cc", "choices fork while their prompt is being computed",
     "leader.num_computed < shared", "leader.num_planned() < shared"),
    ("block_sharing.cc", "a block is hashed with a token that is not known",
     "(index + 1) * block_size() > sequence.num_tokens()", "(index + 1) * block_size() > sequence.length()"),
    ("outstanding_steps.cc", "what an ended sequence draws is taken over",
     "member.sequence = nullptr;\n      member.request = nullptr;", ";"),
    ("outstanding_steps.cc", "what was dropped still counts as in flight",
     "sequence.num_in_flight = sequence.num_pending = 0;", ";"),
    ("outstanding_steps.cc", "the youngest step is taken for the oldest",
     "std::ranges::rotate(steps_, steps_.begin() + 1);", ";"),
    # Between engines.
    ("migration.cc", "the blocks of a request that leaves are not moved to the host",
     "moves = std::move(out.swap_outs);", ";"),
    ("migration.cc", "what is not computed comes along",
     "blocks_.Trim(sequence);", ";"),
    ("migration.cc", "a request that left still counts for its client",
     "queue_.Left(request);", ";"),
    ("migration.cc", "blocks that choices share arrive with one owner",
     "if (taken[index]) host_pool_.AddReference(block);", ";"),
    ("migration.cc", "blocks that were set aside and not needed are kept",
     "if (!taken[i]) host_pool_.Release(holding->blocks[i]);", ";"),
    ("migration.cc", "choices that arrive without blocks believe that they share a prefix",
     "if (!has_blocks) request.forked = false;", ";"),
    ("scheduler.cc", "blocks on their way survive the workers",
     "blocks_.ReleaseHoldings();", ";"),
]


def planted(number, old, new):
    switch = f"quire::sim::active_mutant == {number}"
    if old.endswith((";", "}")):
        return f"if ({switch}) {{ {new} }} else {{ {old} }}"
    return f"({switch} ? ({new}) : ({old}))"


def plant(source_dir, out_dir):
    os.makedirs(out_dir, exist_ok=True)
    for name in sorted({m[0] for m in MUTANTS}):
        with open(os.path.join(source_dir, name), encoding="utf-8") as f:
            text = f.read()
        places = []
        for number, (file, what, old, new) in enumerate(MUTANTS, 1):
            if file != name:
                continue
            if text.count(old) != 1:
                sys.exit(f"mutant {number} ({what}): its text occurs {text.count(old)} times in {name}; move it with the code")
            places.append((text.index(old), number, old, new))
        for position, number, old, new in sorted(places, reverse=True):
            text = text[:position] + planted(number, old, new) + text[position + len(old):]
        with open(os.path.join(out_dir, name), "w", encoding="utf-8") as f:
            f.write('#include "tests/sim/active_mutant.h"\n' + text)


def caught(sim, number, seeds):
    """The simulator's last words when it finds the bug, or None."""
    try:
        run = subprocess.run([sim, "0", seeds, str(number)], capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "no end"
    if run.returncode == 0:
        return None
    return " ".join(run.stderr.split()[-24:]) or f"died with status {run.returncode}"


def hunt(sim, seeds):
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda number: caught(sim, number, seeds), range(1, len(MUTANTS) + 1))
        for number, words in enumerate(found, 1):
            print(f"{number:2} {MUTANTS[number - 1][1]}: {words or 'SURVIVES'}", flush=True)
            survivors += words is None
    print(f"{len(MUTANTS) - survivors} of {len(MUTANTS)} planted bugs caught within {seeds} seeds each")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    plant(*sys.argv[2:]) if sys.argv[1] == "plant" else hunt(*sys.argv[2:])
