#include "tests/sim/scenario.h"

#include <algorithm>
#include <map>

#include "tests/sim/judge.h"
#include "tests/sim/virtual_model.h"

namespace quire::sim {

namespace {

using test::Random;

template <class T>
T OneOf(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(static_cast<int64_t>(values.size()))];
}

bool Chance(Random& random, int percent) { return random.Below(100) < percent; }

EngineOptions MakeEngine(Random& random) {
  EngineOptions options;
  options.max_lost_epochs = 0;  // the oracle needs every request to be answered
  BlockManagerOptions& blocks = options.blocks;
  blocks.block_size = OneOf(random, {1, 2, 3, 4, 8, 16});
  const auto usable = Chance(random, 35) ? random.Between(1, 8) : random.Between(9, 80);
  blocks.num_blocks = static_cast<int>(usable) + 1;
  blocks.num_host_blocks = Chance(random, 50) ? static_cast<int>(random.Between(1, 60)) : 0;
  blocks.watermark = OneOf(random, {0.0, 0.01, 0.1});
  blocks.prefix_caching = Chance(random, 75);
  blocks.sliding_window = Chance(random, 15) ? static_cast<int>(random.Between(1, 60)) : 0;
  blocks.hash_bits = OneOf(random, {2, 6, 128, 128});
  SchedulerLimits& limits = options.scheduler;
  limits.max_running = OneOf(random, {1, 2, 4, 8, 8, 20, 20});
  limits.max_step_tokens = limits.max_running + static_cast<int>(OneOf<int64_t>(random, {0, random.Below(16), 64}));
  limits.preemption = OneOf(random, {PreemptionMode::kAuto, PreemptionMode::kRecompute, PreemptionMode::kSwap});
  limits.lookahead_tokens = OneOf(random, {0, 0, 0, 4, 16});
  options.max_model_len = 160;
  options.vocab_size = kVocab;
  options.max_wait_seconds = OneOf(random, {1e9, 1e9, 3.0});
  options.max_request_seconds = OneOf(random, {1e9, 1e9, 30.0});
  return options;
}

/// Returns a number of tokens: near the ends of blocks, or any number up to 70. The number is at most half of the pool,
/// so that several requests fit.
int Length(Random& random, const BlockManagerOptions& blocks) {
  const int size = blocks.block_size, half_pool = (blocks.num_blocks - 1) * size / 2;
  const int around[] = {1, size - 1, size, size + 1, 2 * size};
  const int length = Chance(random, 40) ? around[random.Below(5)] : static_cast<int>(random.Between(1, 70));
  return std::clamp(length, 1, std::max(1, half_pool));
}

BeamOptions MakeBeams(Random& random, int width) {
  BeamOptions beams;
  beams.width = width;
  beams.num_returned = static_cast<int>(random.Between(1, width));
  beams.length_penalty = OneOf(random, {0.0f, 0.5f, 1.0f, 2.0f, -1.0f});
  beams.early_stopping = OneOf(random, {EarlyStopping::kNo, EarlyStopping::kYes, EarlyStopping::kNever});
  return beams;
}

Ask MakeAsk(Random& random, const std::vector<std::vector<TokenId>>& stems, const BlockManagerOptions& blocks,
            uint64_t salt) {
  Ask ask;
  if (Chance(random, 70)) ask.prompt = stems[static_cast<size_t>(random.Below(static_cast<int64_t>(stems.size())))];
  if (ask.prompt.empty() || Chance(random, 60)) {
    const int more = Length(random, blocks);
    for (int i = 0; i < more && ask.prompt.size() < 100; ++i) {
      ask.prompt.push_back(static_cast<TokenId>(random.Below(Chance(random, 50) ? 2 : kVocab)));
    }
  }
  const int half_pool = (blocks.num_blocks - 1) * blocks.block_size / 2;
  ask.limits.max_tokens = Chance(random, 15) ? 1 : static_cast<int>(random.Between(1, std::clamp(half_pool, 1, 60)));
  while (Chance(random, 25)) ask.limits.stop_token_ids.push_back(static_cast<TokenId>(random.Below(kVocab)));
  ask.n = Chance(random, 70) ? 1 : static_cast<int>(random.Between(2, 2 + random.Below(Chance(random, 20) ? 18 : 7)));
  ask.sink_stops_after = Chance(random, 10) ? static_cast<int>(random.Between(1, 10)) : 0;
  ask.sampling.temperature = 0;
  // There are few seeds, so requests with equal prompts often get equal answers and find each other's cached blocks.
  ask.sampling.seed = salt << 32 | static_cast<uint64_t>(random.Below(3));
  if (Chance(random, 15)) ask.beams = MakeBeams(random, ask.n);
  return ask;
}

Faults MakeFaults(Random& random) {
  Faults faults;
  if (Chance(random, 50)) return faults;
  for (double* p : {&faults.worker_dies, &faults.frame_is_damaged, &faults.frame_is_repeated, &faults.answer_is_lost,
                    &faults.answer_is_wrong, &faults.clock_jumps}) {
    if (Chance(random, 40)) *p = OneOf(random, {0.003, 0.01, 0.03});
  }
  return faults;
}

/// Shortens a request until the engine can just serve it, so that the limits are tested exactly.
void CutToFit(Ask& ask, const EngineOptions& options) {
  const int usable = options.blocks.num_blocks - 1;
  const auto model_len = static_cast<size_t>(options.max_model_len);
  ask.prompt.resize(std::min(ask.prompt.size(), model_len - 1));
  ask.limits.max_tokens = std::min(ask.limits.max_tokens, static_cast<int>(model_len - ask.prompt.size()));
  ask.n = std::min(ask.n, options.scheduler.max_running);
  while (ask.n > 1 && !RightRefusal(ask, options, usable).empty()) --ask.n;
  while (ask.limits.max_tokens > 1 && !RightRefusal(ask, options, usable).empty()) --ask.limits.max_tokens;
  while (ask.prompt.size() > 1 && !RightRefusal(ask, options, usable).empty()) ask.prompt.pop_back();
  if (!ask.beams) return;
  ask.beams->width = ask.n;
  ask.beams->num_returned = std::min(ask.beams->num_returned, ask.n);
}

/// Sets the engine's limits. Shortens 90 or 100 % of the requests that exceed these limits until they just fit.
void MeetLimits(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kLimits);
  EngineOptions& options = scenario.engine;
  options.max_model_len = OneOf(random, {160, 160, 160, 40, 90});
  if (options.max_wait_seconds < 1e9) options.max_wait_seconds = OneOf(random, {3.0, 3.0, 6.0, 12.0});
  const int served = OneOf(random, {90, 100, 100});  // percentage of requests made to fit; some of the others fit, too
  for (Arrival& arrival : scenario.arrivals) {
    Ask& ask = arrival.ask;
    if (Chance(random, served)) CutToFit(ask, options);
    for (int i = 0; ask.beams && i < 8 && Chance(random, 70); ++i)  // makes searches end before their full length
      ask.limits.stop_token_ids.push_back(static_cast<TokenId>(random.Below(kVocab)));
    if (!ask.beams && Chance(random, 20)) ask.sampling.min_tokens = static_cast<int>(random.Between(1, 6));
    if (ask.limits.max_seconds > 0 || Chance(random, 2))
      ask.limits.max_seconds = OneOf(random, {0.1, 0.5, 2.0, 5.0, 60.0});
  }
}

/// In some runs, the requests arrive four times as fast and grow beyond the blocks that admission planned for, so that
/// many are preempted.
void Crowd(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kCrowd);
  if (!Chance(random, 20)) return;
  EngineOptions& options = scenario.engine;
  options.scheduler.lookahead_tokens = 0;
  options.blocks.watermark = OneOf(random, {0.0, 0.0, 0.2});
  if (Chance(random, 25)) options.blocks.sliding_window = static_cast<int>(random.Between(1, 40));
  if (Chance(random, 60)) options.blocks.num_host_blocks += options.blocks.num_blocks;
  for (Arrival& arrival : scenario.arrivals) {
    arrival.seconds /= 4;
    arrival.ask.limits.max_tokens += static_cast<int>(random.Between(0, 40));
  }
}

/// In some runs, the model has recurrent states.
void GiveStates(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kStates);
  BlockManagerOptions& blocks = scenario.engine.blocks;
  blocks.state_blocks = OneOf(random, {0, 0, 1, 3});
  blocks.state_spacing = scenario.own_salts ? 64 : OneOf(random, {1, 1, 8, 64});  // extra steps would break a promise
  blocks.num_blocks += blocks.state_blocks * static_cast<int>(random.Between(1, 12));
  if (blocks.num_host_blocks > 0)
    blocks.num_host_blocks += blocks.state_blocks * static_cast<int>(random.Between(1, 12));
}

/// Makes a request of a flooding client: many choices, many requests, long prompts, beams, or a mix.
Ask MakeFloodAsk(Random& random, const EngineOptions& options, int kind) {
  Ask ask;
  const int pool = (options.blocks.num_blocks - 1) * options.blocks.block_size;
  const bool is_long = kind == 2 || (kind == 4 && Chance(random, 30));
  const int prompt = is_long ? static_cast<int>(random.Between(20, 100)) : static_cast<int>(random.Between(1, 12));
  for (int i = 0; i < prompt; ++i) ask.prompt.push_back(static_cast<TokenId>(random.Below(kVocab)));
  ask.limits.max_tokens = static_cast<int>(random.Between(1, std::clamp(pool, 1, 60)));
  const bool is_wide = kind == 0 || kind == 3 || (kind == 4 && Chance(random, 30));
  if (is_wide) ask.n = static_cast<int>(random.Between(1, options.scheduler.max_running));
  ask.sampling.temperature = 0;
  ask.sampling.seed = static_cast<uint64_t>(random.Below(3));
  if (kind == 3 || (kind == 4 && Chance(random, 10))) {
    ask.n = std::min(ask.n, 6);
    ask.beams = MakeBeams(random, ask.n);
  }
  return ask;
}

/// In some runs, one client floods the engine with requests, and other clients (newcomers) sometimes send a short
/// request.
void Flood(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kFlood);
  if (!Chance(random, 25)) return;
  scenario.own_salts = true;
  EngineOptions& options = scenario.engine;
  options.scheduler.max_running = OneOf(random, {4, 8, 20, 20});
  options.scheduler.max_step_tokens = options.scheduler.max_running + OneOf(random, {4, 16, 64, 100});
  if (options.blocks.num_blocks < 40) options.blocks.num_blocks += 40;
  options.blocks.hash_bits = 128;  // no request waits because of another block with the same hash
  const int kind = static_cast<int>(random.Below(5));
  const auto count = random.Between(8, 40);
  scenario.arrivals.clear();
  for (int i = 0; i < count; ++i)
    scenario.arrivals.push_back({Chance(random, 80) ? 0 : static_cast<double>(random.Below(1000)) / 1000,
                                 MakeFloodAsk(random, options, kind), "a", "a", 0});
  const auto newcomers = random.Between(2, 10);
  for (int i = 0; i < newcomers; ++i) {
    const std::string client = OneOf<std::string>(random, {"b", "b", "c", "d"});
    Arrival arrival{static_cast<double>(random.Below(3000)) / 1000, MakeFloodAsk(random, options, 1), client, client,
                    0};
    arrival.ask.limits.max_tokens = static_cast<int>(random.Between(1, 8));
    scenario.arrivals.push_back(std::move(arrival));
  }
  std::ranges::stable_sort(scenario.arrivals, {}, &Arrival::seconds);
}

/// In some runs, some clients have their own limits.
void LimitClients(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kClientLimits);
  if (!Chance(random, 15)) return;
  std::map<std::string, ClientLimits> limits;
  for (const char* client : {"", "a", "b"}) {
    if (Chance(random, 50)) limits[client].max_running_seqs = static_cast<int>(random.Between(1, 6));
    if (Chance(random, 30)) limits[client].max_blocks = static_cast<int>(random.Between(1, 40));
  }
  for (Arrival& arrival : scenario.arrivals) arrival.ask.client_limits = limits[arrival.client];
}

/// In some runs, some requests ask for prompt scores. Requests of newcomers, which must get their first token by the
/// second plan, stay unchanged.
void ScorePrompts(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kScores);
  if (!Chance(random, 40)) return;
  const int percent = OneOf(random, {20, 60, 100});
  for (Arrival& arrival : scenario.arrivals) {
    const bool may = !scenario.own_salts || arrival.client == "a";
    if (may && Chance(random, percent)) arrival.ask.sampling.num_prompt_logprobs = static_cast<int>(random.Below(4));
  }
}

/// In some runs, some requests ask for a pooled prompt. Requests of newcomers stay unchanged.
void PoolPrompts(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kPooling);
  if (!Chance(random, 20)) return;
  const int percent = OneOf(random, {20, 60, 100});
  for (Arrival& arrival : scenario.arrivals) {
    Ask& ask = arrival.ask;
    const bool may = (!scenario.own_salts || arrival.client == "a") && !ask.beams;
    if (!may || !Chance(random, percent)) continue;
    ask.sampling.pooling = OneOf(random, {Pooling::kLast, Pooling::kMean, Pooling::kCls});
    if (ask.n > 1) ask.sampling.pooling = Pooling::kLast;
  }
}

/// In some runs, some requests name adapters. Requests of newcomers stay unchanged.
void GiveAdapters(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kAdapters);
  if (!Chance(random, 30)) return;
  for (Arrival& arrival : scenario.arrivals) {
    const bool may = !scenario.own_salts || arrival.client == "a";
    if (may) arrival.ask.adapter = static_cast<int>(random.Below(kMostAdapters + 1));
  }
  Random later = RandomOf(seed, Draws::kLaterAdapters);
  scenario.later_adapters = Chance(later, 50);
  for (Arrival& arrival : scenario.arrivals) {
    if (scenario.later_adapters && arrival.ask.adapter > 0) arrival.ask.adapter += kMostListedAdapters;
  }
}

/// Adds faults that end requests without an answer.
void MakeTroubles(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kTroubles);
  scenario.engine.max_lost_epochs = OneOf(random, {0, 0, 0, 1, 2, 3});
  if (Chance(random, 10)) {
    scenario.faults.poison = static_cast<RequestId>(random.Between(1, static_cast<int64_t>(scenario.arrivals.size())));
  }
  if (Chance(random, 4)) scenario.faults.no_new_group = 0.2;
  if (Chance(random, 10)) scenario.faults.no_numbers = 0.003;
  if (Chance(random, 10)) scenario.interference.abort = 0.01;
  if (Chance(random, 10)) scenario.shrink = 0.3;
}

/// In some runs, the operator changes options while requests run.
void ChangeOptions(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kChanges);
  if (Chance(random, 20)) scenario.interference.change = OneOf(random, {0.01, 0.05, 0.2});
}

/// In some runs, sequences get drafts. The seed chooses the share of draft tokens that are right, from none to all.
void GuessDrafts(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kDrafts);
  if (!Chance(random, 50)) return;
  DraftOptions& drafts = scenario.engine.drafts;
  drafts.num_tokens = OneOf(random, {1, 2, 4, 16});
  drafts.max_batch = OneOf(random, {1, 4, 20});
  scenario.drafts_right = OneOf(random, {0, 50, 90, 100});
  Random of_pay = RandomOf(seed, Draws::kMustPay);
  drafts.must_pay = Chance(of_pay, 30);
  Random of_model = RandomOf(seed, Draws::kDraftModel);
  if (!Chance(of_model, 50)) return;
  drafts.from_model = true;
  if (seed % 2 == 0) drafts.model_source = DraftSource::kLayer;
  drafts.model_max_len = OneOf(of_model, {scenario.engine.max_model_len, scenario.engine.max_model_len / 2});
  scenario.guesses_late = OneOf(of_model, {0, 0, 30});
}

/// In some runs, some requests belong to batches. Requests of newcomers do not, because they must get their first token
/// by the second plan.
void MakeBackground(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kBackground);
  if (!Chance(random, 15)) return;
  const int percent = OneOf(random, {10, 40, 80});
  for (Arrival& arrival : scenario.arrivals) {
    const bool may = !scenario.own_salts || arrival.client == "a";
    arrival.background = may && Chance(random, percent);
  }
}

/// In some runs, the model is an encoder: it only pools prompts, and reads each prompt as a whole.
void ReadWholePrompts(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kWholePrompts);
  if (!Chance(random, 10)) return;
  EngineOptions& options = scenario.engine;
  options.blocks.prefix_caching = false;
  options.blocks.sliding_window = options.blocks.state_blocks = 0;
  options.drafts = {};
  for (Arrival& arrival : scenario.arrivals) {
    Ask& ask = arrival.ask;
    ask.n = ask.limits.max_tokens = 1;
    ask.beams.reset();
    ask.limits.stop_token_ids.clear();
    ask.sampling.min_tokens = 0;
    ask.sampling.num_prompt_logprobs = -1;
    ask.sampling.pooling = OneOf(random, {Pooling::kLast, Pooling::kMean, Pooling::kCls, Pooling::kAll});
  }
  options.scheduler.pass_stages = OneOf(random, {2, 3, 7});
  options.scheduler.max_kept_rows = options.max_model_len * OneOf(random, {1, 2, 4});
}

/// In three of eight runs the workers form a pipeline, and in one of four runs its length changes.
void CutIntoStages(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kStages);
  scenario.engine.scheduler.num_stages = OneOf(random, {1, 1, 1, 1, 1, 2, 2, 3});
  scenario.restage = OneOf(random, {0.0, 0.0, 0.0, 0.5});
}

/// In three quarters of the runs, free host blocks have copies of cached blocks. Runs with shortened hashes have no
/// copies, because such a hash does not identify the tokens before a block. In a part of the runs with copies the
/// device pool is small and the host pool large, so that copies come back often.
void CopyToHost(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kHostCache);
  BlockManagerOptions& blocks = scenario.engine.blocks;
  blocks.host_cache = Chance(random, 75) && blocks.hash_bits == 128;
  if (!blocks.host_cache || scenario.own_salts || !Chance(random, 40)) return;
  blocks.block_size = OneOf(random, {2, 4, 8});
  blocks.num_blocks = static_cast<int>(random.Between(10, 30)) + 4 * blocks.state_blocks;
  blocks.num_host_blocks = static_cast<int>(random.Between(1, 4)) * blocks.num_blocks;
  blocks.prefix_caching = true;
  blocks.sliding_window = 0;
  scenario.engine.scheduler.max_step_tokens = std::max(scenario.engine.scheduler.max_step_tokens, 64);
}

/// In one life of four, contexts of a few tokens make a token's work larger. So short sequences take turns as those
/// with long contexts do on a real server.
void WeighContexts(uint64_t seed, Scenario& scenario) {
  Random random = RandomOf(seed, Draws::kContexts);
  if (Chance(random, 25)) scenario.engine.scheduler.short_context = OneOf(random, {2, 6, 20});
}

}  // namespace

test::Random RandomOf(uint64_t seed, Draws draws) { return Random(Mix(seed, static_cast<uint64_t>(draws))); }

Scenario MakeScenario(uint64_t seed) {
  Random random = RandomOf(seed, Draws::kWorld);
  Scenario scenario;
  scenario.engine = MakeEngine(random);
  scenario.num_workers = static_cast<int>(random.Between(1, 2));
  scenario.faults = MakeFaults(random);
  for (double* p : {&scenario.interference.cancel, &scenario.interference.flush, &scenario.interference.pin,
                    &scenario.interference.unpin}) {
    if (Chance(random, 40)) *p = OneOf(random, {0.01, 0.05});
  }
  const BlockManagerOptions& blocks = scenario.engine.blocks;
  std::vector<std::vector<TokenId>> stems;  // a small tree of prefixes
  for (int i = 0; i < 4; ++i) {
    std::vector<TokenId> stem;
    if (i > 0 && Chance(random, 60)) stem = stems[static_cast<size_t>(random.Below(i))];
    const int length = Length(random, blocks);
    for (int t = 0; t < length; ++t) stem.push_back(static_cast<TokenId>(random.Below(kVocab)));
    stem.resize(std::min<size_t>(stem.size(), 80));
    stems.push_back(stem);
  }
  const int salts = Chance(random, 70) ? 1 : 2;
  const int count = static_cast<int>(random.Between(2, 30));
  const bool together = Chance(random, 40);
  double now = 0;
  for (int i = 0; i < count; ++i) {
    if (!together) now += static_cast<double>(random.Below(1000)) / 1000 * 0.3;
    const uint64_t salt = static_cast<uint64_t>(random.Below(salts));
    Arrival arrival{now, MakeAsk(random, stems, blocks, salt), {}, salt == 0 ? "" : "s", 0};
    arrival.client = OneOf<std::string>(random, {"", "", "a", "b"});
    if (Chance(random, 20)) arrival.priority = static_cast<int>(random.Between(-2, 2));
    if (Chance(random, 5)) arrival.ask.limits.max_seconds = 0.5;
    scenario.arrivals.push_back(std::move(arrival));
  }
  Random ahead = RandomOf(seed, Draws::kPlanAhead);
  scenario.plan_ahead = OneOf(ahead, {0.0, 0.5, 0.9, 1.0});
  scenario.engine.plan_ahead = scenario.plan_ahead > 0;
  Random moves = RandomOf(seed, Draws::kMigrations);
  scenario.interference.migrate = OneOf(moves, {0.0, 0.0, 0.05, 0.3});
  Random sizes = RandomOf(seed, Draws::kResizes);
  scenario.resize = OneOf(sizes, {0.0, 0.0, 0.3, 1.0});
  Flood(seed, scenario);
  LimitClients(seed, scenario);
  Crowd(seed, scenario);
  GiveStates(seed, scenario);
  CopyToHost(seed, scenario);
  MeetLimits(seed, scenario);
  MakeTroubles(seed, scenario);
  ChangeOptions(seed, scenario);
  WeighContexts(seed, scenario);
  ScorePrompts(seed, scenario);
  PoolPrompts(seed, scenario);
  GuessDrafts(seed, scenario);
  GiveAdapters(seed, scenario);
  MakeBackground(seed, scenario);
  ReadWholePrompts(seed, scenario);
  CutIntoStages(seed, scenario);
  return scenario;
}

}  // namespace quire::sim
