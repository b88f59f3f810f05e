#!/usr/bin/env python3
"""Plants known bugs in a copy of the coordinator's core, to prove that the simulator would find them.

  mutants.py plant SOURCE_DIR OUT_DIR   writes OUT_DIR/<file>.cc for every file that has a mutant; all bugs are in, each
                                        behind `active_mutant == k`, so that one build serves them all
  mutants.py hunt SIM SEEDS [WORDS]     runs the mutated simulator with every bug switched on (or those whose words hold
                                        WORDS): first the seed that found the bug before (found.txt), then, if that seed
                                        finds it no more, seed after seed. Fails when a bug survives, when it is found by
                                        a crash or a hang where the list does not say so, or when a seed that finds a
                                        bug fails without the bug, too
  mutants.py record SIM SEEDS           the same for all bugs, always seed after seed, and writes found.txt

The code of the core itself knows nothing of this. A mutant whose text is no longer there is an error: it moves with the code.
"""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile

HANG_SECONDS = 600
COUNTED_LIVES = 1000  # from so many lives on, main.cc fails when an event is too rare
FOUND = os.path.join(os.path.dirname(os.path.abspath(__file__)), "found.txt")

# (file of coordinator/core, or of the repository for one of worker/, description of the bug, present text, text with the bug). A text that ends in ; or } is a statement, any other
# text an expression. A fifth entry, CRASH, means that the bug may access wrong memory before a check finds it.
CRASH = "crash"
MUTANTS = [
    ("schedule/step_results.cc", "wrong drafts keep their blocks",
     "blocks_.Trim(*m.sequence, m.sequence->num_tokens());", ";"),
    ("schedule/step_results.cc", "all drafts count as computed",
     "blocks_.Computed(*m.sequence, m.num_known() + static_cast<int>(right.size()));",
     "blocks_.Computed(*m.sequence, m.count);"),
    ("schedule/step_results.cc", "a right draft is left out",
     "for (const SampledToken& token : right) m.sequence->tokens.push_back(token.token);",
     "for (const SampledToken& token : right.first(right.size() / 2)) m.sequence->tokens.push_back(token.token);"),
    ("schedule/step_results.cc", "drafts that an answer contradicts fit it",
     "!std::ranges::equal(right, drawn.first(right.size()), {}, {}, &SampledToken::token)", "false"),
    ("schedule/outstanding_steps.cc", "drafts count as tokens in flight",
     "member.sequence->num_in_flight += member.num_known();", "member.sequence->num_in_flight += member.count;"),
    ("engine/engine_store.cc", "blocks are reused while they are copied to a store",
     "blocks_.device_holdings().Share(c.ticket, {c.blocks.begin(), c.blocks.end()});", ";"),
    ("engine/engine_store.cc", "a prefix is given away while the blocks after it come back",
     "blocks_.device_holdings().Share(c.ticket, cached);",
     "blocks_.device_holdings().Share(c.ticket, {});", CRASH),
    ("engine/engine_store.cc", "stored blocks take what the watermark keeps",
     "blocks_.watermark_blocks()", "0"),
    ("engine/engine_store.cc", "a cached prefix costs no free block",
     "std::ranges::count_if(cached, is_free)", "0", CRASH),
    ("engine/engine_store.cc", "stored blocks come back to the base model, whatever their adapter",
     "blocks_.prefixes().Root(c.salt, c.adapter)", "blocks_.prefixes().Root(c.salt)"),
    ("blocks/block_manager.cc", "stored blocks are cached after a prefix that is forgotten",
     "has_prefix && i < count", "i < count", CRASH),
    ("blocks/block_manager.cc", "blocks that were to come and did not are cached",
     "std::min(num_blocks, static_cast<int>(holding->blocks.size()))", "static_cast<int>(holding->blocks.size())", CRASH),
    ("engine/engine_store.cc", "no blocks are reserved for a state that comes back",
     "for_state ? blocks_.states().num_blocks() : count", "count"),
    ("blocks/block_manager.cc", "a prefix is taken for the state after it",
     "std::span(holding->blocks).last(count)", "std::span(holding->blocks).first(count)", CRASH),
    # Copies of cached blocks on the host, and a store that tears and lies.
    ("blocks/block_manager.cc", "a copy is found after its host block has other content",
     "host_cache_.Forget(block);", ";"),
    ("blocks/block_manager.cc", "a host block that a step brings back may be overwritten by the same step",
     "host_cache_.Bring(sources);", ";"),
    ("blocks/block_manager.cc", "workers are not told to bring copies back",
     "plan.swap_ins.push_back({sources.back(), sequence.blocks.back()});", ";"),
    ("blocks/block_manager.cc", "workers are not told to bring states back",
     "plan.swap_ins.push_back({state[i], sequence.state[i]});", ";"),
    ("blocks/sequence_states.cc", "a state that comes from the host overwrites the one of fewer tokens",
     "pool_.ReleaseAll(std::exchange(sequence.state, {}));\n  Allocate(sequence);", "if (sequence.state.empty()) Allocate(sequence);"),
    ("blocks/host_cache.cc", "a part of a state is reused and the state is still found", "states_.ForgetOf(host);", ";"),
    ("blocks/host_cache.cc", "blocks come from the host beyond the states that are there",
     "!has_states_ || !StateAfter(*copy).empty()", "true", CRASH),
    ("blocks/host_cache.cc", "copies outlive the workers that had them",
     "if (!cache_.HashOf(host)) continue;", "continue;"),
    ("blocks/host_cache.cc", "workers are not told to copy", "plan.swap_outs.push_back({blocks[i], hosts[i]});", ";"),
    ("blocks/host_cache.cc", "blocks are copied beside those of requests that are swapped",
     "!plan.swap_outs.empty() || plan.swap_ins.size() != num_brought_", "false"),
    ("blocks/host_cache.cc", "the last known token comes from the host", "std::min(max_tokens, sequence.num_tokens() - 1)", "max_tokens", CRASH),
    ("blocks/host_cache.cc", "copies take host blocks that are in use", "host_.num_free() > 0", "true"),
    ("blocks/host_cache.cc", "copies of blocks that leave take host blocks that are in use", "host_.num_free() == 0", "false"),
    ("blocks/host_cache.cc", "a block that is reused stays counted as copied ahead", "SetAhead(block, false);", ";"),
    ("blocks/host_cache.cc", "copies on the host take room from requests that are swapped",
     "for (const BlockId host : held_) host_.Release(host);", ";"),
    ("schedule/request_work.cc", "rows that are to be scored come from the host",
     "std::min(request.NumCacheable(), max_tokens)", "max_tokens"),
    ("schedule/step_writer.cc", "tokens that come from the host do not count as cached",
     "NoteCached(request, came * blocks_.block_size());", ";"),
    ("schedule/scheduler.cc", "copies that a plan reads are held for ever", "host.EndPlan();", ";"),
    ("coordinator/kv_disk/block_seal.cc", "a file has a block's name and not its bytes",
     "text.insert(text.end(), block.data.begin(), block.data.end());",
     "text.insert(text.end(), block.data.size(), std::byte{0});"),
    ("coordinator/kv_disk/block_seal.cc", "a block and the state after it have one file", "text += WordOf(kind);", ";"),
    ("coordinator/kv_disk/block_seal.cc", "all blocks have one file",
     "text.append(reinterpret_cast<const char*>(&hash), sizeof(hash));", ";"),
    # Turns of decodes in a pipeline.
    ("schedule/stage_turns.cc", "a step of a pipeline takes the decodes of all stages",
     "(ready_.size() + drawing_.size() + stages - 1) / stages", "ready_.size() + drawing_.size()"),
    ("schedule/stage_turns.cc", "decodes that waited longest do not go first",
     "std::ranges::stable_sort(*decodes, {}, &Sequence::last_step);", ";"),
    ("schedule/stage_turns.cc", "the most senior request may sit out a step without another one outstanding",
     "!draft.ahead && !ready_.empty()", "false", CRASH),
    ("schedule/stage_turns.cc", "a sequence runs two draws ahead", "places > 0 && sequence->num_pending <= 1", "places > 0"),
    ("schedule/stage_turns.cc", "a step takes sequences of outstanding steps beside others",
     "if (!decodes->empty()) places = 0;", ";"),
    ("schedule/stage_turns.cc", "a mark from the last step stays", "sequence.sits_out = false;", ";"),
    ("schedule/drafting.cc", "only the oldest outstanding step is asked for drafts", "outstanding.at(i)", "outstanding.at(0)"),
    ("schedule/drafting.cc", "a step is planned before drafts are verified",
     "outstanding.HasDrafts()", "false"),
    ("schedule/drafting.cc", "a step is planned before the draft model's guesses come",
     "outstanding.OrdersGuesses()", "false"),
    ("schedule/drafting.cc", "a guess stays when the sequence has gone on without it",
     "sequence.guess_at == sequence.num_tokens() && longest > 0", "longest > 0"),
    ("schedule/step_results.cc", "a guess goes to whichever sequence ordered one",
     "m.guess > 0 && m.slot == guess.slot", "m.guess > 0"),
    ("schedule/step_results.cc", "a guess may be longer than its order",
     "guess.tokens.size() <= most", "true"),
    ("schedule/drafting.cc", "guesses of a prediction layer count for a draft model",
     "member.source = drafts_.model_source;", "member.source = DraftSource::kModel;"),
    ("schedule/drafting.cc", "drafts take more than the step's budget",
     "std::min({drafts_.num_tokens, TokensLeft(member), draft.budget})", "std::min(drafts_.num_tokens, TokensLeft(member))"),
    ("schedule/drafting.cc", "drafts are not charged to the step's budget",
     "draft.budget -= count;", ";"),
    ("schedule/drafting.cc", "drafts take blocks that are not there",
     "blocks_.BlocksToGrow({&target, 1}) > blocks_.num_free()", "false", CRASH),
    ("schedule/drafting.cc", "beams get drafts",
     "request.beams == nullptr", "true"),
    ("worker/engine/remaining_rows.cc", "a state is one row late",
     "static_cast<int32_t>(drawn - kept)", "std::max(0, static_cast<int32_t>(drawn - kept) - 1)"),
    ("schedule/drafting.cc", "drafts skip a state that is to be kept",
     "blocks_.has_states()", "false"),
    ("blocks/sequence_states.cc", "drafts end a token behind a state that is to be kept",
     "stride - sequence.num_planned() % stride - 1", "stride - sequence.num_planned() % stride"),
    ("blocks/sequence_states.cc", "the state of an answer that ended among its drafts is kept for the answer",
     "computed <= sequence.num_tokens()", "true"),
    ("schedule/drafting.cc", "the blocks of drafts are not asked for",
     "blocks_.Extend(sequence, target.num_tokens, draft.plan);", ";"),
    ("engine/engine_delivery.cc", "tokens after the end of a choice are delivered",
     "token != drawn.tokens.end() && !reason", "token != drawn.tokens.end()"),
    ("engine/engine_delivery.cc", "a choice of several new tokens counts one",
     "sequence.num_generated() - static_cast<int>(drawn.tokens.size())", "sequence.num_generated() - 1"),
    ("engine/engine_delivery.cc", "guessed tokens after the end of an answer count as accepted",
     "std::min(right, num_delivered)", "right"),
    ("engine/engine_delivery.cc", "the token drawn after a guess counts as guessed",
     "stats_.drafts[source].Add(drawn.num_drafts, accepted);", "stats_.drafts[source].Add(drawn.num_drafts, num_delivered);"),
    ("engine/engine_delivery.cc", "tokens after the end of an answer count as generated",
     "CountGenerated(request, num_generated - before);", "CountGenerated(request, static_cast<int>(drawn.tokens.size()));"),
    ("engine/engine_delivery.cc", "a client does not hear of a guess that was all wrong",
     "if (drawn.num_drafts > 0) CountDrafts(drawn, num_generated - before);",
     "if (drawn.num_drafts > 0 && drawn.tokens.size() > 1) CountDrafts(drawn, num_generated - before);"),
    ("schedule/request_work.cc", "rows that are to be scored come from the cache",
     "std::min(max_tokens, request.NumCacheable())", "max_tokens"),
    ("engine/engine.cc", "prompts that are read as a whole come from the cache, where an operator switches caching on",
     "c.prefix_caching && !options_.scheduler.whole_prompts()", "c.prefix_caching"),
    ("schedule/long_passes.cc", "passes leave nothing of the step to clients that wait",
     "clients > 0", "clients < 0"),
    ("schedule/long_passes.cc", "a client's passes run beside each other",
     "if (other->account == request.account) return false;", ";"),
    ("schedule/long_passes.cc", "passes have more rows than workers keep",
     "rows <= limits_.max_kept_rows", "true"),
    ("schedule/long_passes.cc", "a prompt goes before its client's next one, which may begin",
     "if (!MayBegin(request)) return Fit::kWaits;", "if (!MayBegin(request) || draft.admitted) return Fit::kWaits;"),
    ("schedule/step_writer.cc", "a slice begins a unit behind the end of the one before it",
     "sequence.num_passed = static_cast<int>(slice.end());", "sequence.num_passed = static_cast<int>(slice.end()) + 1;"),
    ("blocks/block_manager.cc", "a pass goes on after its request has lost its place",
     "sequence.num_passed = 0;", ";"),
    ("schedule/step_results.cc", "what was scored is scored again after a preemption",
     "if (m.scores.count > 0) m.request->num_scored = m.scores.start + m.scores.count;", ";"),
    ("schedule/step_writer.cc", "a step is not charged for the rows that it scores",
     "draft.budget -= request.StepCost(start, count);", "draft.budget -= count;"),
    ("schedule/step_results.cc", "scores of another chunk are taken",
     "s.start != m.scores.start", "false"),
    ("schedule/preemption.cc", "what is pooled of half a prompt is forgotten where its blocks go to the host",
     "!victim.PoolsAllRows() && !victim.InPass()", "!victim.InPass()"),
    ("schedule/migration.cc", "what is pooled of half a prompt is left behind where its blocks move",
     "!request.PoolsAllRows()", "true"),
    ("blocks/block_manager.cc", "a dropped request keeps its host blocks",
     "host_pool_.ReleaseAll(sequence.host_blocks);", ";"),
    ("blocks/block_manager.cc", "a fork does not count as an owner of the last block",
     "i >= child.first_block", "i >= child.first_block && i + 1 < BlocksFor(parent.num_computed)"),
    ("blocks/block_manager.cc", "two owners are not reason enough to copy before a write",
     "pool.ref_count(sequence.blocks[index]) > 1", "pool.ref_count(sequence.blocks[index]) > 2"),
    ("blocks/block_manager.cc", "one token too many in the last block",
     "static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens)",
     "static_cast<int>(sequence.blocks.size()) < BlocksFor(num_tokens - 1)"),
    ("blocks/block_manager.cc", "an evicted block can still be found",
     "prefixes_.Forget(block);", "(void)block;"),
    ("blocks/block_manager.cc", "the window ends one position early",
     "sequence.num_computed - options_.sliding_window + 1", "sequence.num_computed - options_.sliding_window + 2"),
    ("blocks/block_manager.cc", "the copy is not told to the workers",
     "plan.copies.push_back({entry, copy});", ";"),
    ("blocks/prefix_sharing.cc", "the last token comes from the cache, too",
     "std::min(max_tokens, sequence.num_tokens() - 1)", "max_tokens"),
    ("blocks/prefix_sharing.cc", "what was cached is found again after caching was off",
     "if (!enabled) Flush();", ";"),
    ("engine/engine_background.cc", "a batch's request runs beside those that came before it",
     "added.background && HasOthers()", "false"),
    ("engine/engine_background.cc", "a batch's request stays when another one comes",
     "if (!requests_.at(id)->set_aside) SetAside(*requests_.at(id));", "continue;"),
    ("engine/engine_background.cc", "a request runs although the ranks lack its adapter",
     "HasAdapter(added.adapter)", "true"),
    ("engine/engine_background.cc", "a batch's request is taken up although the ranks lack its adapter",
     "!request.set_aside || !HasAdapter(request.adapter)", "!request.set_aside"),
    ("engine/engine_epochs.cc", "new ranks count as having the adapters of the lost ones",
     "adapters_.clear();", ";"),
    ("engine/engine_epochs.cc", "requests of an adapter that new ranks lack stay in the scheduler",
     "SetAsideWithoutAdapter();", ";"),
    ("engine/engine_adapters.cc", "requests go on with an adapter that is gone",
     "adapters_.erase(c.adapter);", ";"),
    ("engine/engine_adapters.cc", "a request waits for ever for an adapter that has come",
     "request->set_aside = false;\n    scheduler_.TakeUp(*request);", ";"),
    ("engine/engine_adapters.cc", "an adapter that comes takes up the requests of another",
     "request->adapter != c.adapter", "false"),
    ("engine/engine_adapters.cc", "an adapter that comes takes up a batch's request beside others",
     "MakesWay(*request)", "false"),
    ("engine/engine_background.cc", "batches are taken up before the last of the others has gone",
     "if (HasOthers()) return;", "if (requests_.size() > background_.size() + 1) return;"),
    ("engine/engine.cc", "pins outlive the cache that an operator switches off",
     "if (!caches) blocks_.pins().Break();", ";"),
    ("engine/engine.cc", "whoever is here when times change is never looked at again",
     "for (const auto& [id, request] : requests_) RestoreDeadlines(*request);", ";"),
    ("blocks/prefix_sharing.cc", "a hit is not pinned",
     "pool_.AddReference(hits_[i].block);", ";"),
    ("blocks/host_swap.cc", "swap-outs are not told to the workers",
     "plan.swap_outs.insert(plan.swap_outs.end(), moves.begin(), moves.end());", ";"),
    ("blocks/host_swap.cc", "blocks shared on the host come back with one owner",
     "to.AddReference(move->destination);", ";"),
    ("blocks/prefix_pins.cc", "a pin does not hold its blocks",
     "for (const BlockId block : blocks) pool_.AddReference(block);", ";"),
    ("blocks/prefix_pins.cc", "an expired pin keeps its blocks",
     "pool_.ReleaseAll(pin.blocks);\n    return true;", "return true;"),
    ("blocks/prefix_pins.cc", "pins that give way keep their blocks",
     "for (const PrefixPin& pin : pins_) pool_.ReleaseAll(pin.blocks);", ";"),
    ("blocks/host_swap.cc", "a block that comes back from the host counts as empty",
     "fill_.Raise(sequence.blocks.back(), std::clamp(sequence.num_computed - before, 0, block_size_));", ";"),
    ("blocks/block_manager.cc", "a resized host pool keeps its size",
     "host_pool_.Resize(sizes.num_host_blocks + 1);", ";", CRASH),
    ("blocks/block_manager.cc", "a resized pool has blocks that the workers do not",
     "pool_.Resize(sizes.num_blocks);", "pool_.Resize(sizes.num_blocks + 1);", CRASH),
    ("blocks/prefix_cache.cc", "a hit is taken without comparing tokens",
     "!std::ranges::equal(TokensOf(block), tokens)", "false"),
    ("blocks/prefix_cache.cc", "a hit is taken without comparing what comes before",
     "entry.parent != parent", "false"),
    ("blocks/prefix_cache.cc", "erasing leaves a hole in the probe sequence",
     "table_[hole] = table_[at];\n    hole = at;", "break;"),
    ("schedule/scheduler.cc", "salts are ignored",
     "request.cache_salt", "std::string()"),
    ("schedule/scheduler.cc", "adapters share cached blocks",
     "request.adapter", "0"),
    ("schedule/migration.cc", "a moved request's blocks are cached as the base model's, whatever its adapter",
     "request.adapter", "0"),
    ("schedule/step_writer.cc", "the workers are not told a sequence's adapter",
     "added.adapter = request.adapter;", ";"),
    ("schedule/running_set.cc", "the newcomer runs last, whatever its seniority",
     "requests_.insert(std::ranges::upper_bound(requests_, &request, [](auto* a, auto* b) { return Senior(*a, *b); }),\n                   &request);",
     "requests_.push_back(&request);"),
    ("schedule/room_estimate.cc", "admission does not look ahead",
     "blocks_.num_free() - promised - blocks_.watermark_blocks()", "blocks_.num_free()"),
    ("schedule/admission.cc", "admission forgets those it has just admitted",
     "room_.CountIn(request, crowd);", ";"),
    ("schedule/preemption.cc", "recomputed choices believe that they share a prefix",
     "victim.forked = false;", ";"),
    ("schedule/running_set.cc", "workers are not told that a slot is free",
     "released_.push_back(*sequence.slot);", ";"),
    ("schedule/scheduler.cc", "cached blocks survive their workers",
     "blocks_.prefixes().Flush();", ";"),
    ("schedule/scheduler.cc", "swapped-out blocks survive their workers",
     "for (Sequence& sequence : request->sequences) blocks_.Free(sequence);", ";"),
    ("schedule/scheduler.cc", "an ended request still counts for its client",
     "running_.Remove(request);\n  queue_.Left(request);", "running_.Remove(request);"),
    ("schedule/request_work.cc", "beams do not wait for each other",
     "if (drawing == live) return;", "return;", CRASH),
    ("schedule/step_results.cc", "a new beam keeps the tokens of a dead one",
     "child.tokens = parent.tokens;", ";"),
    ("blocks/block_manager.cc", "a block can be shared before it is computed",
     "sequence.num_computed += count;", "sequence.num_computed += count + 1;", CRASH),
    ("beam_search.cc", "any ending continuation becomes a finished beam",
     "i < std::min(width, all.size())", "i < all.size()"),
    ("beam_search.cc", "long beams are not favoured",
     "std::pow(static_cast<float>(beam.tokens.size()), options_.length_penalty)",
     "std::pow(static_cast<float>(beam.tokens.size()), 1.0f)"),
    ("engine/engine_delivery.cc", "a hidden stop token is delivered",
     "!hidden", "true"),
    ("schedule/waiting_queue.cc", "a preempted request waits with the others",
     "!preempted.empty()", "waiting.empty()"),
    # Planning ahead.
    ("schedule/preemption.cc", "somebody is preempted while a step is outstanding",
     "if (draft.ahead) {\n      draft.left_out = true;\n      return false;\n    }", ";"),
    ("schedule/scheduler.cc", "results of a lost group are still awaited",
     "steps_.Lose();", ";"),
    ("schedule/preemption.cc", "a swapped-out request takes along what has left its window",
     "for (Sequence& sequence : victim.sequences) blocks_.LeaveWindow(sequence);", ";"),
    ("schedule/request_work.cc", "beams go on before it is known how",
     "request.beams != nullptr && std::ranges::any_of(request.sequences, draws)", "false"),
    ("schedule/request_work.cc", "a step goes past the length",
     "sequence.length() == sequence.num_prompt_tokens + request.limits.max_tokens", "false"),
    ("schedule/request_work.cc", "tokens in flight are computed again",
     "sequence.length() - start", "sequence.length() - sequence.num_computed"),
    ("schedule/request_work.cc", "choices fork while their prompt is being computed",
     "leader.num_computed < shared", "leader.num_planned() < shared"),
    ("blocks/prefix_sharing.cc", "a block is hashed with a token that is not known",
     "(index + 1) * block_size_ > sequence.num_tokens()", "(index + 1) * block_size_ > sequence.length()", CRASH),
    ("schedule/outstanding_steps.cc", "what an ended sequence draws is taken over",
     "member.sequence = nullptr;\n      member.request = nullptr;", ";", CRASH),
    ("schedule/outstanding_steps.cc", "what was dropped still counts as in flight",
     "sequence.num_in_flight = sequence.num_pending = 0;", ";"),
    ("schedule/outstanding_steps.cc", "the youngest step is taken for the oldest",
     "std::ranges::rotate(steps_, steps_.begin() + 1);", ";"),
    # Between engines.
    ("schedule/migration.cc", "the blocks of a request that leaves are not moved to the host",
     "moves = std::move(out.swap_outs);", ";"),
    ("schedule/migration.cc", "what is not computed comes along",
     "blocks_.Trim(sequence, sequence.num_computed);", ";"),
    ("schedule/migration.cc", "a request that left still counts for its client",
     "queue_.Left(request);", ";"),
    ("blocks/migration_holdings.cc", "blocks that choices share arrive with one owner",
     "if (taken[index]) pool_.AddReference(block);", ";"),
    ("blocks/migration_holdings.cc", "blocks that were set aside and not needed are kept",
     "if (!taken[i]) pool_.Release(holding->blocks[i]);", ";"),
    ("schedule/migration.cc", "choices that arrive without blocks believe that they share a prefix",
     "if (!has_blocks) request.forked = false;", ";"),
    ("schedule/scheduler.cc", "blocks on their way survive the workers",
     "blocks_.host_holdings().ReleaseAll();", ";"),
    # Limits and ends.
    ("engine/engine.cc", "a request of exactly the model's length is refused",
     "int64_t{prompt} + answer > options_.max_model_len", "int64_t{prompt} + max_tokens >= options_.max_model_len"),
    ("engine/engine_delivery.cc", "min_tokens counts the token that says stop",
     "num_generated > request.sampling.min_tokens", "num_generated >= request.sampling.min_tokens"),
    ("engine/engine.cc", "a client may ask for more time than the server gives",
     "std::min(wish, options_.max_request_seconds)", "wish"),
    ("engine/engine.cc", "nobody looks when the longest wait is over",
     "deadlines_.push({request.arrival_seconds + options_.max_wait_seconds, request.id});", ";"),
    ("engine/engine_delivery.cc", "cached tokens are told with every first token of a choice",
     "choice == 0 && num_generated == 1", "num_generated == 1"),
    ("engine/engine.cc", "a token of another vocabulary fits",
     "token >= 0 && token < options_.vocab_size", "token >= 0 && token <= options_.vocab_size"),
    ("engine/engine_errors.cc", "whoever runs ends by the limit of waiting",
     "request.first_scheduled_seconds < 0 && arrival + options_.max_wait_seconds < now",
     "arrival + options_.max_wait_seconds < now"),
    ("engine/engine_errors.cc", "a client's own limit is told as the server's", "own ? RequestError::kDeadline : RequestError::kTimedOut",
     "RequestError::kTimedOut"),
    ("engine/engine_epochs.cc", "a request is given up one lost epoch too late",
     "request.num_lost_alone >= options_.max_lost_epochs", "request.num_lost_alone > options_.max_lost_epochs"),
    ("engine/engine_epochs.cc", "a smaller pool keeps who lacks one token's room",
     "!scheduler_.CanEverRun(request.num_prompt_tokens(), request.limits.max_tokens, n)",
     "!scheduler_.CanEverRun(request.num_prompt_tokens(), request.limits.max_tokens - 1, n)"),
    ("engine/engine_epochs.cc", "the null block is not counted among those that are needed",
     "static_cast<int>(most) + 1", "static_cast<int>(most)"),
    ("blocks/prefix_pins.cc", "a pin is held beyond its last moment",
     "pin.expires_seconds <= now", "pin.expires_seconds < now"),
    ("schedule/block_demand.cc", "the last token, which nobody reads, is given room",
     "int64_t{num_prompt_tokens} + max_tokens - 1", "int64_t{num_prompt_tokens} + max_tokens"),
    ("schedule/block_demand.cc", "a window's second cut block is forgotten",
     "2 * blocks_.block_size()", "blocks_.block_size()"),
    ("schedule/scheduler.cc", "as many choices as may run are refused", "n <= limits_.max_running", "n < limits_.max_running"),
    ("blocks/prefix_pins.cc", "pins take the whole pool",
     "static_cast<size_t>(pool_.num_usable()) / 2", "static_cast<size_t>(pool_.num_usable())"),
    ("blocks/migration_holdings.cc", "host blocks of a transfer that is long under way are set aside for the next one",
     "holdings_.push_back(std::move(holding));\n  return true;",
     "if (holdings_.size() > 1) std::erase_if(holdings_, [&](const MigrationHolding& old) {\n"
     "    if (&old == &holdings_.front()) pool_.ReleaseAll(old.blocks);\n"
     "    return &old == &holdings_.front();\n"
     "  });\n"
     "  holdings_.push_back(std::move(holding));\n  return true;"),
    ("blocks/migration_holdings.cc", "one host block is never set aside",
     "num_blocks > pool_.num_free()", "num_blocks >= pool_.num_free()"),
    # The order of turns.
    ("schedule/waiting_queue.cc", "of equal rank the last to come is first", "a->id < b->id", "a->id > b->id"),
    ("schedule/waiting_queue.cc", "of clients served alike the last by name is first",
     "Senior(a.head(), b.head())", "false"),
    ("schedule/waiting_queue.cc", "a client saves up while it is away",
     "std::max(account.served, others ? least : most)", "account.served"),
    ("schedule/waiting_queue.cc", "who comes back is level with those that are away",
     "if (other.active == 0) continue;", ";"),
    ("engine/engine_delivery.cc", "a generated token is charged twice",
     "WaitingQueue::ChargeGenerated(request, tokens);", "WaitingQueue::ChargeGenerated(request, 2 * tokens);"),
    ("schedule/step_writer.cc", "tokens from the cache are charged",
     "WaitingQueue::ChargePrompt(request, -tokens);", ";"),
    ("schedule/step_writer.cc", "what the cache has after a preemption is counted once more",
     "tokens == 0 || request.num_preemptions > 0", "tokens == 0"),
    ("schedule/scheduler.cc", "who had no room ahead is passed over again",
     "left_out_ || drafting_.WaitsForDrafts(steps_)", "drafting_.WaitsForDrafts(steps_)"),
    ("schedule/room_estimate.cc", "somebody joins a request that may kill workers",
     "crowd.suspect = crowd.suspect || IsSuspect(request);", ";"),
    ("schedule/room_estimate.cc", "a request that may kill workers joins the others",
     "running_.empty() || (!IsSuspect(request) && !crowd.suspect)", "running_.empty() || !crowd.suspect"),
    ("schedule/outstanding_steps.cc", "two requests are convicted for one loss", "computed.size() == 1", "computed.size() <= 2"),
    ("schedule/outstanding_steps.cc", "a loss counts for every sequence of a request",
     "std::ranges::find(computed, member.request) == computed.end()", "true"),
    # Between clients.
    ("schedule/place_sharing.cc", "a client takes more than its share from others",
     "!shares_.IsWithinShare(head, draft)", "false"),
    ("schedule/place_sharing.cc", "whoever has no more than its share gives way",
     "has <= most", "has == 0"),
    ("schedule/place_sharing.cc", "nobody gives way",
     "victim == nullptr || draft.left_out", "true"),
    ("schedule/place_sharing.cc", "somebody gives way while a step is outstanding",
     "draft.left_out = victim != nullptr && draft.ahead;", ";"),
    ("schedule/place_sharing.cc", "the oldest request gives way",
     "most = has;", ";"),
    ("schedule/place_sharing.cc", "who came back gives way again at once",
     "draft.number - request.admitted_step < steps", "false"),
    ("schedule/place_sharing.cc", "what gave way still counts for its client",
     "draft.use_counted = false;", ";"),
    ("schedule/client_shares.cc", "a newcomer waits until a large request fits",
     "others_held && (Has(account, Resource::kSlots, draft) > 0 || !IsWithinShare(account.head(), draft))", "others_held"),
    ("schedule/client_shares.cc", "a share is everything",
     "all / std::max(1, queue_.num_active())", "all"),
    ("schedule/step_shares.cc", "the most senior client takes the whole step",
     "draft.in_company ? request.account->use.chunks_left : draft.work_left", "draft.work_left"),
    ("schedule/client_shares.cc", "blocks are not shared",
     "excess(a) < excess(b)", "excess(a) > excess(b)"),
    ("schedule/client_shares.cc", "a client with a limit runs one sequence too many",
     "account.use.sequences + n > limits.max_running_seqs", "account.use.sequences + n > limits.max_running_seqs + 1"),
    ("schedule/client_shares.cc", "a limit of blocks forgets what comes",
     "account.use.longest_blocks + longest > limits.max_blocks", "account.use.longest_blocks > limits.max_blocks"),
    ("schedule/room_estimate.cc", "whoever runs something takes the room that is kept",
     "shares_.CountReserves(*request.account, draft)", "KeptRoom()"),
    ("schedule/client_shares.cc", "no place is kept for who is away",
     "reserved.sequences += kept(Resource::kSlots, account.reserve.sequences);", ";"),
    ("schedule/client_shares.cc", "no place is kept for a client that still runs something",
     "account.reserve.until_step <= draft.number || account.use.gave_way",
     "account.reserve.until_step <= draft.number || account.use.gave_way || account.active > account.num_waiting()"),
    ("schedule/place_sharing.cc", "what a client runs already is not kept for it",
     "shares_.Has(*head.account, resource, draft) + shares_.Needs(head, resource)", "shares_.Needs(head, resource)"),
    ("schedule/admission.cc", "room is kept no longer for who came again",
     "reserve.until_step = draft.number + kReservedSteps;", ";"),
    ("schedule/admission.cc", "everybody overtakes a request that is held",
     "client->use.passed_over = others_held = true;", "client->use.passed_over = true;"),
    ("schedule/room_estimate.cc", "a client that has its share takes room that another has a right to",
     "client.use.stands_back = true;", "return false;"),
    ("schedule/room_estimate.cc", "a request above a share takes room that another client has a right to",
     "client.use.left_room = exceeds_alone;", "if (exceeds_alone) return false;"),
    ("schedule/room_estimate.cc", "a request above a share stands back again and again",
     "head.num_yields > 0", "false"),
    ("schedule/admission.cc", "a request that stood back did not give way",
     "++head.num_yields;", ";"),
    ("schedule/client_shares.cc", "places that are kept for a client are kept from it, too",
     "&account == &taker", "false"),
    ("schedule/room_estimate.cc", "room that is kept for a client is kept from those that have nothing",
     "shares_.Has(*request.account, Resource::kSlots, draft) == 0", "false"),
    ("schedule/client_shares.cc", "room is kept for a client that has come back",
     "std::min(most, ShareOf(resource)) - Has(account, resource, draft)", "std::min(most, ShareOf(resource))"),
    # Decodes before chunks.
    ("schedule/step_shares.cc", "an older request's chunk takes the tokens of decodes after it",
     "draft.budget - decodes - later_decodes", "draft.budget - decodes"),
    ("schedule/request_work.cc", "a decode gets what the chunks of its request leave",
     "request.TokensToCompute(sequence) == 1 && allowance.decodes > 0", "false"),
    ("schedule/step_shares.cc", "a client's chunks take all of its part of the step", "(part + odd) / 2", "part"),
    # Preemption and swapping.
    ("schedule/preemption.cc", "the last host block is not swapped to",
     "blocks > blocks_.host_pool().num_free()", "blocks >= blocks_.host_pool().num_free()"),
    ("schedule/preemption.cc", "what goes to the host with a plan that is not sent is lost",
     "draft.step->members.empty() && !blocks_.device_holdings().empty()", "false"),
    ("schedule/running_set.cc", "a preempted beam still branches",
     "std::erase_if(branches_, [&](const quire::Branch& branch) { return branch.slot == *sequence.slot; });", ";"),
    ("schedule/scheduler.cc", "swapped-out choices believe after a loss that they share a prefix",
     "request->forked = false;", ";"),
    ("schedule/scheduler.cc", "running choices believe after a loss that they share a prefix",
     "request.forked = false;\n    ++request.num_preemptions;", "++request.num_preemptions;"),
    ("blocks/prefix_sharing.cc", "cached blocks that nobody holds cost nothing", "pool_.ref_count(hit->block) > 0", "true"),
    ("schedule/request_work.cc", "a prefix from the cache is held beyond the window",
     "if (gained > 0) blocks_.LeaveWindow(sequence);", ";"),
    ("blocks/block_manager.cc", "a sequence that gave up its blocks keeps their names",
     "sequence.num_computed = 0;\n  sequence.contents.Restart();", "sequence.num_computed = 0;"),
    ("blocks/block_manager.cc", "a sequence that gave up its blocks is still behind its window",
     "sequence.first_block = 0;", ";"),
    ("blocks/block_manager.cc", "more copies are planned than owners write",
     "std::min(writers, pool_.ref_count(block) - 1)", "writers"),
    ("blocks/block_manager.cc", "a fork takes over hashes of what is not shared",
     "child.contents.hashes.resize(std::min(child.contents.hashes.size(), "
     "static_cast<size_t>(parent.contents.num_named)));", ";"),
    ("blocks/block_manager.cc", "a resized pool keeps its watermark",
     "watermark_blocks_ = static_cast<int>(options_.watermark * pool_.num_usable());", ";"),
    ("blocks/block_manager.cc", "a copied block counts as empty",
     "fill_.Raise(copy, sequence.num_computed % block_size());", ";"),
    ("blocks/prefix_cache.cc", "content that collides takes the name of the other",
     "return next_content_ += 2;",
     "return entries_[static_cast<size_t>(table_[position])].content;"),
    # Beams and choices.
    ("beam_search.cc", "a search that never stops early hopes for no longer beams", "longest ? max_tokens_ : length", "length"),
    ("beam_search.cc", "one finished beam too many is kept",
     "finished_.size() > running_.size()", "finished_.size() > running_.size() + 1"),
    ("beam_search.cc", "a search ends one step early",
     "if (length >= max_tokens_) return true;", "if (length + 1 >= max_tokens_) return true;"),
    ("schedule/step_writer.cc", "blocks behind the window stay in the workers' tables",
     "sequence->slot && sequence->told_first_block < sequence->first_block", "false"),
    ("schedule/request_work.cc", "a choice that has ended leads the others", "while (live->finished) ++live;", ";"),
    ("schedule/request_work.cc", "choices that have ended fork again",
     "if (!live->finished) blocks_.Fork(leader, *live);", "blocks_.Fork(leader, *live);"),
    # Between engines, on the edges.
    ("engine/engine_migration.cc", "a deadline that passes on the way is forgotten", "RestoreDeadlines(added);", ";"),
    ("schedule/migration.cc", "a request as large as the room set aside leaves its blocks",
     "blocks <= how.max_blocks", "blocks < how.max_blocks"),
    ("schedule/migration.cc", "the last host block is not moved to",
     "blocks <= blocks_.host_pool().num_free()", "blocks < blocks_.host_pool().num_free()"),
    ("blocks/migration_holdings.cc", "a request as large as the room set aside arrives without its blocks",
     "holding->blocks.size() < names.size()", "holding->blocks.size() <= names.size()"),
    ("schedule/migration.cc", "a sequence that arrives bare is still behind its window",
     "sequence.first_block = 0;", ";"),
    ("schedule/migration.cc", "a request that was admitted once arrives as new",
     "request.num_preemptions == 0", "request.num_preemptions <= 1"),
    # Bugs in swaps between the device pool and the host pool.
    ("schedule/scheduler.cc", "device blocks on their way survive the workers",
     "blocks_.device_holdings().ReleaseAll();", ";"),
    ("blocks/block_manager.cc", "a block that is not full comes along",
     "std::min(sequence.num_computed / block_size(), static_cast<int>(sequence.blocks.size()))",
     "std::min(BlocksFor(sequence.num_computed), static_cast<int>(sequence.blocks.size()))"),
    ("blocks/block_manager.cc", "more blocks go ahead than there is room for", "std::min(full, max_blocks)", "full"),
    ("engine/engine_migration.cc", "blocks of one choice go ahead for all", "request.sequences.size() > 1", "false"),
    ("blocks/migration_holdings.cc", "blocks that are read are given away meanwhile",
     "for (const BlockId block : blocks) pool_.AddReference(block);", ";"),
    ("blocks/block_manager.cc", "what arrives is looked for in the room behind it",
     "holding->blocks[static_cast<size_t>(i)]",
     "holding->blocks[holding->blocks.size() - static_cast<size_t>(count - i)]"),
    ("blocks/block_manager.cc", "what arrives cannot be found",
     "  prefixes_.NameComputed(sequence);\n  DropNamed(sequence, pool_);", "  DropNamed(sequence, pool_);"),
    ("blocks/block_manager.cc", "the room set aside is kept by what has arrived", "device_holdings_.Release(ticket);", ";"),
    ("blocks/block_manager.cc", "device blocks are set aside below the watermark", "num_free() - watermark_blocks_", "num_free()"),
    ("schedule/preemption.cc", "who runs alone does not wait for blocks that are on their way",
     "QUIRE_CHECK(others_come_or_go, \"request {} does not fit the pool alone\", request.id);",
     "QUIRE_CHECK(false, \"request {} does not fit the pool alone\", request.id);"),
    ("engine/engine.cc", "nobody may wait for blocks that are on their way",
     "ahead || !blocks_.device_holdings().empty()", "ahead"),
    # States.
    ("blocks/sequence_states.cc", "a state that others share is written",
     "pool_.ref_count(sequence.state.front()) > 1", "false"),
    ("blocks/sequence_states.cc", "a state that is kept is written",
     "if (is_kept) prefixes_.checkpoints().ForgetOf(sequence.state.front());", ";"),
    ("blocks/sequence_states.cc", "a state's copy is not made",
     "plan.copies.push_back({before[i], sequence.state[i]});", ";"),
    ("blocks/sequence_states.cc", "only the first block of a state is copied", "i < before.size()", "i < 1"),
    ("blocks/sequence_states.cc", "workers are not told where a state went",
     "if (sequence.slot) plan.states.push_back({*sequence.slot, sequence.state});", ";"),
    ("blocks/sequence_states.cc", "a state is kept before the step that computes it is done",
     "is_checkpoint && sequence.num_in_flight > 0", "false"),
    ("blocks/sequence_states.cc", "a state that steps in flight go on from is kept at the end",
     "!is_whole || sequence.num_in_flight > 0", "!is_whole"),
    ("blocks/sequence_states.cc", "a state that a plan copies from is given away in the same plan",
     "settling_.insert(settling_.end(), before.begin(), before.end());", "pool_.ReleaseAll(before);"),
    ("blocks/sequence_states.cc", "a state that was to be kept is held for ever",
     "pool_.ReleaseAll(coming.front().blocks);", ";"),
    ("blocks/sequence_states.cc", "whoever forks does not hold the state",
     "for (const BlockId block : child.state) pool_.AddReference(block);", ";"),
    ("blocks/sequence_states.cc", "a sequence that gave up its blocks keeps its state", "pool_.ReleaseAll(sequence.state);", ";"),
    ("blocks/sequence_states.cc", "more copies of a state are planned than owners write",
     "std::min(writers, pool_.ref_count(first) - 1)", "writers"),
    ("blocks/sequence_states.cc", "a sequence's first state takes no blocks", "++states;", ";"),
    ("blocks/sequence_states.cc", "a state is kept where others need the blocks",
     "pool_.num_free() - num_blocks_ >= reserved", "pool_.num_free() >= num_blocks_"),
    ("blocks/sequence_states.cc", "a prompt is not cut where its state is to be kept", "std::min(cut, at)", "cut"),
    ("blocks/state_checkpoints.cc", "what is left of a state that is forgotten stays cached", "pool_.DropContent(block);", ";"),
    ("blocks/state_checkpoints.cc", "a second state is kept behind the same block", "if (At(end) != 0) return 0;", ";"),
    ("blocks/prefix_sharing.cc", "a state is still found after a part of it was given away",
     "if (has_states_) checkpoints_.ForgetOf(block);", ";"),
    ("blocks/prefix_sharing.cc", "a prefix is shared beyond the states that are kept", "usable = DeepestState();", ";"),
    ("blocks/prefix_sharing.cc", "whoever begins behind a state does not hold it",
     "for (const BlockId block : state) pool_.AddReference(block);", ";"),
    ("blocks/prefix_sharing.cc", "blocks beyond the states count as shared", "std::min(held, usable)", "held"),
    ("blocks/host_swap.cc", "a state stays behind when its sequence goes to the host",
     "for (const BlockId block : sequence.state) sequence.host_state.push_back(Move(block, device_, host_, moves));", ";"),
    ("blocks/migration_holdings.cc", "a state that arrives is looked for where it was",
     "std::ranges::for_each(sequence.host_state, take);", ";"),
    ("schedule/migration.cc", "a state that is ahead of the tokens comes along",
     "!blocks_.has_states()", "true"),
    ("schedule/scheduler.cc", "what a plan copies from is never given away", "if (blocks_.has_states()) blocks_.states().Settle();", ";"),
    ("schedule/block_demand.cc", "states are not counted for a request's longest",
     "blocks_.BlocksFor(longest) + blocks_.states().num_blocks()", "blocks_.BlocksFor(longest)"),
    ("schedule/block_demand.cc", "admission forgets the newcomers' states",
     "std::max(1, Ahead(sequence, sequence.num_tokens(), shared)) + blocks_.states().num_blocks()",
     "std::max(1, Ahead(sequence, sequence.num_tokens(), shared))"),
]


def planted(number, old, new):
    switch = f"quire::sim::active_mutant == {number}"
    if old.endswith((";", "}")):
        return f"if ({switch}) {{ {new} }} else {{ {old} }}"
    return f"({switch} ? ({new}) : ({old}))"


def plant(source_dir, out_dir):
    for name in sorted({m[0] for m in MUTANTS}):
        folder = os.path.join(source_dir, "..", "..") if name.startswith(("worker/", "coordinator/")) else source_dir
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            text = f.read()
        places = []
        for number, (file, what, old, new, *_) in enumerate(MUTANTS, 1):
            if file != name:
                continue
            if text.count(old) != 1:
                sys.exit(f"mutant {number} ({what}): its text occurs {text.count(old)} times in {name}; move it with the code")
            places.append((text.index(old), number, old, new))
        end = len(text)
        for position, number, old, new in sorted(places, reverse=True):
            if position + len(old) > end:
                sys.exit(f"mutant {number}: its text overlaps that of another one in {name}")
            end = position
            text = text[:position] + planted(number, old, new) + text[position + len(old):]
        os.makedirs(os.path.dirname(os.path.join(out_dir, name)), exist_ok=True)
        with open(os.path.join(out_dir, name), "w", encoding="utf-8") as f:
            f.write('#include "tests/sim/active_mutant.h"\n' + text)


def read_found():
    """Returns {words: seed} of the bugs that a seed has found before."""
    with open(FOUND, encoding="utf-8") as f:
        lines = [line.rstrip("\n").split(" ", 1) for line in f if not line.startswith("#")]
    return {words: int(seed) for seed, words in lines}


def write_found(found):
    with open(FOUND, "w", encoding="utf-8") as f:
        f.write("# Written by mutants.py record: the first seed that finds each planted bug, and the bug's words.\n")
        f.writelines(f"{seed} {words}\n" for words, seed in found.items())


def live(sim, number, first, count):
    """Returns how a run ended: None, "promise", "invariant", "crash" or "hang", with the seed and the last lines of its output."""
    try:
        run = subprocess.run([sim, str(first), str(count), str(number)], capture_output=True, text=True, timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        return "hang", None, f"no end within {HANG_SECONDS} s"
    if run.returncode == 0:
        return None, None, ""
    words = run.stderr.split("\n")
    seed = next((int(m.group(1)) for m in map(re.compile(r"seed (\d+)$").match, reversed(words)) if m), None)
    said = " ".join(line for line in words if line and not line.startswith("seed "))[-140:]
    if run.returncode == 1:
        return "promise", seed, said
    if run.returncode == -signal.SIGABRT and "invariant broken" in run.stderr:
        return "invariant", seed, said
    return CRASH, seed, f"status {run.returncode}: {said}"


def is_allowed(how, number):
    return how is not None and (how not in (CRASH, "hang") or how in MUTANTS[number - 1][4:])


def look(sim, number, seeds, found):
    """Returns the end of a bug's run, and whether what found the bug before was enough: its seed in `found`, or without a seed the
    fewest lives whose events the simulator counts."""
    if found:
        seed = found.get(MUTANTS[number - 1][1])
        end = live(sim, number, 0, COUNTED_LIVES) if seed is None else live(sim, number, seed, 1)
        if is_allowed(end[0], number):
            return end, True
    return live(sim, number, 0, seeds), False


def fails_without_bugs(sim, seeds):
    """Returns what the simulator says of these seeds when no bug is switched on; "" if it keeps its promises."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.writelines(f"{seed}\n" for seed in sorted(seeds))
        f.flush()
        run = subprocess.run([sim, "--kept", f.name], capture_output=True, text=True)
    return "" if run.returncode == 0 else f"without a planted bug: status {run.returncode}: {run.stderr[-200:]}"


def hunt(sim, seeds, words="", record=False):
    seeds, found = int(seeds), {} if record else read_found()
    chosen = [number for number, mutant in enumerate(MUTANTS, 1) if words in mutant[1]]
    ends, firsts, wrong, searched = {}, {}, 0, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, ((how, seed, said), known) in zip(chosen, pool.map(lambda n: look(sim, n, seeds, found), chosen)):
            what, allowed = MUTANTS[number - 1][1], is_allowed(how, number)
            print(f"{number:3} {what}: " + (f"{how} at seed {seed}: {said}" if how else "SURVIVES") +
                  (" (NOT IN THIS WAY)" if how and not allowed else ""), flush=True)
            ends[how] = ends.get(how, 0) + 1
            if how and seed is not None:
                firsts[what] = seed
            searched += not known
            wrong += not allowed
    print(f"{len(chosen)} planted bugs within {seeds} seeds each: " +
          ", ".join(f"{ends.get(how, 0)} {text}" for how, text in (
              ("promise", "break a promise"), ("invariant", "break an invariant"), (CRASH, "crash"), ("hang", "hang"),
              (None, "survive"))) + f"; {searched} of them were searched for")
    print("found at seed " + ", ".join(f"{low} to {high}: {sum(low <= seed <= high for seed in firsts.values())}"
                                       for low, high in ((0, 7), (8, 99), (100, 499), (500, seeds - 1))))
    if record:
        write_found(firsts)
    broken = fails_without_bugs(sim, set(firsts.values()))
    sys.exit(broken or (1 if wrong else 0))


if __name__ == "__main__":
    {"plant": plant, "hunt": hunt, "record": lambda sim, seeds: hunt(sim, seeds, record=True)}[sys.argv[1]](*sys.argv[2:])
