#include "comm/wire/messages.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "comm/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/random.h"

namespace quire {
namespace {

StepPlan FullPlan() {
  StepPlan plan;
  plan.epoch = 3;
  plan.step = 17;
  plan.released = {5};
  AddedSequence added{2, 3, 1, {10, 11, 12, 13}, {4, 5}, {}, 2, {7, 3}, 6};
  added.sampling = {0.5f,
                    40,
                    0.9f,
                    0.05f,
                    1.1f,
                    0.2f,
                    0.3f,
                    12345678901234ull,
                    2,
                    5,
                    3,
                    {{7, -1.5f}},
                    {1, 2},
                    4,
                    {GrammarSource::kRegex, "[ab]+"}};
  added.sampling.allowed_tokens = {3, 9};
  added.sampling.bad_words = {{7}, {1, 2, 3}};
  added.sampling.logprob_tokens = {4, 5};
  added.sampling.pooling = Pooling::kLast;
  added.sampling.second_text = 1;
  added.sampling.thoughts = {7, true, {11, 12}, {13}};
  plan.added = {added};
  plan.branches = {{3, 1, 50}, {1, 1, 51}};
  plan.tables = {{1, 2, 9}, {1, 3, 8}, {1, 0, kNullBlock}};
  plan.states = {{1, {2, 1}}, {9, {8, 9}}};
  plan.swap_outs = {{6, 2}};
  plan.swap_ins = {{1, 6}};
  plan.copies = {{6, 4}};
  plan.decodes = {0, 1, 9};
  plan.drafts = {{5, {20, 21}}};
  plan.chunks = {{2, 1, 3}};
  plan.slices = {{7, 4, 5, 6, 3}};
  plan.guesses = {{1, 4}, {5, 1}};
  plan.position_sum = 99;
  return plan;
}

constexpr PlanLimits kLimits = {.num_blocks = 10,
                                .num_host_blocks = 4,
                                .block_size = 2,
                                .max_running = 10,
                                .max_step_tokens = 16,
                                .max_model_len = 64,
                                .vocab_size = 100,
                                .state_blocks = 2,
                                .num_adapters = 6,
                                .max_guess = 4,
                                .max_draft_rows = 3,
                                .pass_stages = 3};

std::string ErrorOf(const StepPlan& plan, const PlanLimits& limits = kLimits) {
  return ErrorThrownBy([&] { DecodePlan(EncodePlan(plan), limits); });
}

TEST(MessagesTest, StepPlan_SurvivesARoundTrip) { EXPECT_EQ(DecodePlan(EncodePlan(FullPlan()), kLimits), FullPlan()); }

TEST(MessagesTest, BlockMessages_SurviveARoundTrip) {
  const TakeBlocksMessage take{7, "", {46000, 46049}, {"a", "b"}, {1, 2.5}, {3, 1}, {3, 4}, true, true};
  const Message taken = Decode(Encode(take, 1, 0));
  const auto& t = std::get<TakeBlocksMessage>(taken);
  EXPECT_EQ(
      std::tie(t.ticket, t.endpoint, t.ports, t.keys, t.shares, t.stage_layers, t.blocks, t.on_device, t.is_state),
      std::tie(take.ticket, take.endpoint, take.ports, take.keys, take.shares, take.stage_layers, take.blocks,
               take.on_device, take.is_state));
  const GiveBlocksMessage give{7,    3,   {"ipc:///x", "tcp://y:1"}, {"a", "b", "c"}, {1}, {2, 5}, {{5, 6}}, {6},
                               true, true};
  const Message given = Decode(Encode(give, 1, 0));
  const auto& g = std::get<GiveBlocksMessage>(given);
  EXPECT_EQ(std::tie(g.ticket, g.epoch, g.endpoints, g.keys, g.shares, g.stage_layers, g.moves, g.blocks, g.on_device,
                     g.is_state),
            std::tie(give.ticket, give.epoch, give.endpoints, give.keys, give.shares, give.stage_layers, give.moves,
                     give.blocks, give.on_device, give.is_state));
  const Message freed = Decode(Encode(FreeBlocksMessage{{1, 3, 7, 1}, {2, 2}}, 1, 0));
  EXPECT_EQ(std::get<FreeBlocksMessage>(freed).device_runs, (std::vector<BlockId>{1, 3, 7, 1}));
  EXPECT_EQ(std::get<FreeBlocksMessage>(freed).host_runs, (std::vector<BlockId>{2, 2}));
  EXPECT_EQ(std::get<StopBlocksMessage>(Decode(Encode(StopBlocksMessage{9}, 1, 0))).ticket, 9u);
}

TEST(MessagesTest, BlockMessages_AreRefused_WhenValuesAreOutOfBounds) {
  const TakeBlocksMessage take{7, "", {46000, 46049}, {}, {1}, {}, {3}};
  const GiveBlocksMessage give{7, 3, {"ipc:///x"}, {}, {1}, {}, {}, {}};
  const auto refuses = [](auto message, auto change) {
    change(message);
    EXPECT_THROW(Decode(Encode(message, 1, 0)), Error);
  };
  EXPECT_NO_THROW(Decode(Encode(take, 1, 0)));
  EXPECT_NO_THROW(Decode(Encode(give, 1, 0)));
  const std::vector<BlockId> no_runs[] = {{1}, {0, 2}, {3, 0}, {3, -1}, {4, 2, 5, 1}, {9, 1, 2, 1}, {1, INT32_MAX}};
  for (const std::vector<BlockId>& runs : no_runs) {
    refuses(FreeBlocksMessage{}, [&](auto& m) { m.device_runs = runs; });
    refuses(FreeBlocksMessage{}, [&](auto& m) { m.host_runs = runs; });
  }
  refuses(take, [](auto& m) { m.ports = {}; });
  refuses(take, [](auto& m) { m.ports = {46049, 46000}; });
  refuses(take, [](auto& m) { m.ports = {1, 65536}; });
  refuses(take, [](auto& m) { m.ports = {46000}; });
  refuses(take, [](auto& m) { m.shares = {}; });
  refuses(take, [](auto& m) { m.shares = {1, 0}; });
  refuses(take, [](auto& m) { m.shares = {std::numeric_limits<double>::infinity()}; });
  refuses(take, [](auto& m) { m.shares.assign(1025, 1.0); });
  refuses(take, [](auto& m) { m.stage_layers = {2, 0}; });
  refuses(take, [](auto& m) { m.stage_layers.assign(1025, 1); });
  refuses(take, [](auto& m) {
    m.shares.assign(33, 1.0);
    m.stage_layers.assign(33, 1);
  });
  refuses(give, [](auto& m) { m.stage_layers = {1, 1}; });
  refuses(take, [](auto& m) { m.keys.assign(1025, "k"); });
  refuses(give, [](auto& m) { m.endpoints.emplace_back("ipc:///y"); });
  refuses(give, [](auto& m) { m.shares = {1, 1}; });
  refuses(give, [](auto& m) {
    m.endpoints = {"a", "b"};
    m.shares = {1, 1};
    m.keys = {"k"};
  });
}

TEST(MessagesTest, StepResult_SurvivesARoundTrip) {
  const StepResult result{2,   9,
                          1,   111,
                          222, 333,
                          44,  {{4, 50, -0.5f, {{50, -0.5f}, {51, -2.0f}}}, {5, 6, 0, {}, {0.25f, -1.5f}}},
                          {},  {{4, {7, 8}}, {5, {9}}},
                          55};
  const Message decoded = Decode(EncodeResult(result));
  const auto& back = std::get<StepResult>(decoded);
  EXPECT_EQ(back.tokens, result.tokens);
  EXPECT_EQ(back.rank, 1);
  EXPECT_EQ(back.plan_hash, 111u);
  EXPECT_EQ(back.token_hash, 222u);
  EXPECT_EQ(back.epoch, 2u);
  EXPECT_EQ(back.step, 9u);
  EXPECT_EQ(back.swap_micros, 44u);
  EXPECT_EQ(back.guesses, result.guesses);
  EXPECT_EQ(back.guess_micros, 55u);
}

TEST(MessagesTest, PromptScores_SurviveARoundTrip_AndAreRefusedWhenInconsistent) {
  StepResult result{2, 9, 0, 111, 222, 333, 44, {}, {}};
  result.scores = {{4, 7, 2, {-0.5f, -3.0f}, {1, 3}, {{50, -0.5f}, {51, -2.0f}, {52, -0.25f}, {8, -2.5f}}},
                   {6, 0, 0, {-1.0f}, {9}, {}}};
  EXPECT_EQ(std::get<StepResult>(Decode(EncodeResult(result))).scores, result.scores);
  const auto refuses = [&](auto change) {
    StepResult other = result;
    change(other.scores[0]);
    EXPECT_THROW(Decode(EncodeResult(other)), Error);
  };
  refuses([](PromptScores& scores) { scores.ranks.pop_back(); });
  refuses([](PromptScores& scores) { scores.top.pop_back(); });
  refuses([](PromptScores& scores) { scores.num_top = -1; });
  refuses([](PromptScores& scores) { scores.num_top = 1; });
}

TEST(MessagesTest, GrammarMessages_SurviveARoundTrip_AndAreRefusedWhenOutOfBounds) {
  const Vocabulary vocabulary{{"", "a", std::string("\0b", 2), std::string(kMaxTokenBytes, 'x')}, {0, 7}};
  EXPECT_EQ(std::get<Vocabulary>(Decode(Encode(vocabulary, 1, 0))), vocabulary);
  const GrammarMessage order{5, {GrammarSource::kEbnf, std::string("root ::= \0", 10)}};
  const Message decoded = Decode(Encode(order, 1, 0));
  EXPECT_EQ(std::get<GrammarMessage>(decoded).ticket, 5u);
  EXPECT_EQ(std::get<GrammarMessage>(decoded).source, order.source);
  EXPECT_EQ(std::get<GrammarReady>(Decode(Encode(GrammarReady{6, "too large"}, 1, 0))).problem, "too large");
  EXPECT_THROW(Decode(Encode(GrammarMessage{5, {GrammarSource::kRegex, std::string(kMaxGrammarBytes + 1, 'a')}}, 1, 0)),
               Error);
  EXPECT_THROW(Decode(Encode(GrammarMessage{5, {static_cast<GrammarSource::Kind>(9), "a"}}, 1, 0)), Error);
  EXPECT_THROW(Decode(Encode(Vocabulary{{"a"}, {-1}}, 1, 0)), Error);
}

TEST(MessagesTest, AdapterMessages_SurviveARoundTrip_AndAreRefusedWhenTheirNumberBelongsToAListedAdapter) {
  const AdapterMessage order{7, kMostListedAdapters + 1, "/a", "hash", 99};
  const auto adapter = std::get<AdapterMessage>(Decode(Encode(order, 1, 0)));
  EXPECT_EQ(std::tie(adapter.ticket, adapter.number, adapter.path, adapter.fingerprint, adapter.file_bytes),
            std::tie(order.ticket, order.number, order.path, order.fingerprint, order.file_bytes));
  EXPECT_THROW(Decode(Encode(AdapterMessage{7, kMostListedAdapters, "/a", "hash", 99}, 1, 0)), Error);
  EXPECT_EQ(std::get<AdapterMessage>(Decode(Encode(AdapterMessage{7}, 1, 0))).path, "");
  const auto read = std::get<AdapterReady>(Decode(Encode(AdapterReady{8, std::string(5000, 'x'), 30}, 1, 0)));
  EXPECT_EQ(std::tuple(read.ticket, read.problem.size(), read.bytes),
            std::tuple(uint64_t{8}, size_t{4096}, uint64_t{30}));
}

TEST(MessagesTest, HandshakeMessages_SurviveARoundTrip) {
  AssignMessage assign{.model_path = "/m",
                       .fingerprint = "f00",
                       .load_format = LoadFormat::kDummy,
                       .ctrl_port = 5571,
                       .block_size = 32,
                       .max_step_tokens = 512,
                       .max_running = 256,
                       .max_model_len = 8192,
                       .threads = 2,
                       .shares = {1, 2.5},
                       .stage_layers = {4, 3, 5},
                       .compute = {.backend = BackendKind::kCuda,
                                   .dtype = ModelDtype::kBFloat16,
                                   .kv_cache_dtype = KvCacheDtype::kFp8,
                                   .quantization = Quantization::kInt4,
                                   .activations = ActivationType::kInt8,
                                   .attention_backend = AttentionBackend::kV2,
                                   .expert_parallel = true},
                       .devices = {0, 3},
                       .adapters = {"/a", "/b"},
                       .draft = {"/d", "f01", 4, 8, 2048, true},
                       .draft_rows = 72};
  const Message decoded = Decode(Encode(assign, 1, 0));
  const auto& back = std::get<AssignMessage>(decoded);
  EXPECT_EQ(back.model_path, "/m");
  EXPECT_EQ(back.load_format, LoadFormat::kDummy);
  EXPECT_EQ(back.cut(), assign.cut());
  EXPECT_EQ(back.cut().num_ranks(), 6);
  EXPECT_EQ(back.ctrl_port, 5571);
  EXPECT_EQ(back.compute, assign.compute);
  EXPECT_EQ(back.devices, assign.devices);
  EXPECT_EQ(back.adapters, assign.adapters);
  EXPECT_EQ(back.draft, assign.draft);
  EXPECT_EQ(back.draft_rows, 72);
  EXPECT_EQ((std::vector{back.block_size, back.max_step_tokens, back.max_running, back.max_model_len, back.threads}),
            (std::vector{32, 512, 256, 8192, 2}));
  const Message hello = Decode(Encode(HelloMessage{.bytes_per_block = 7, .bytes_per_state = 1ll << 40}, 1, 0));
  EXPECT_EQ(std::get<HelloMessage>(hello).bytes_per_block, 7);
  EXPECT_EQ(std::get<HelloMessage>(hello).bytes_per_state, 1ll << 40);
  const WorkingMemory working =
      std::get<HelloMessage>(Decode(Encode(HelloMessage{.working = {3, 1ll << 40, 5}}, 1, 0))).working;
  EXPECT_EQ((std::vector{working.process_bytes, working.step_bytes, working.file_bytes}),
            (std::vector<int64_t>{3, 1ll << 40, 5}));
  const auto whole = [](std::vector<int64_t> given) {
    const HelloMessage sent{.whole_block = {100, given, {10, 90}}, .whole_state = {200, {0, 200}, given}};
    return std::get<HelloMessage>(Decode(Encode(sent, 1, 0)));
  };
  EXPECT_EQ(whole({0, 40, 60, 40}).whole_block.given, (std::vector<int64_t>{0, 40, 60, 40}));
  EXPECT_EQ(whole({}).whole_block.taken, (std::vector<int64_t>{10, 90}));
  EXPECT_EQ(whole({}).whole_block.bytes, 100);
  EXPECT_EQ(whole({}).whole_state.bytes, 200);
  EXPECT_EQ(whole({}).whole_state.given, (std::vector<int64_t>{0, 200}));
  EXPECT_EQ(whole({5, 7}).whole_state.taken, (std::vector<int64_t>{5, 7}));
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{0}, {0, 101}, {-1, 1}, {5, 0}, {5, -1}, {100, 1}})
    EXPECT_THROW(whole(bad), Error);
  const Message start = Decode(Encode(StartMessage{9, 5, 3, {.compiled = 7, .cached = 8, .answers = 10}}, 1, 0));
  EXPECT_EQ(std::get<StartMessage>(start).state_blocks, 3);
  EXPECT_EQ(std::get<StartMessage>(start).grammars.compiled, 7);
  EXPECT_EQ(std::get<StartMessage>(start).grammars.cached, 8);
  EXPECT_EQ(std::get<StartMessage>(start).grammars.answers, 10);
  EXPECT_EQ(std::get<ReadyMessage>(Decode(Encode(ReadyMessage{9, 5, 77, 3}, 1, 0))).state_blocks, 3);
  const Message failure = Decode(Encode(FailureMessage{"load", std::string(10000, 'x')}, 1, 0));
  EXPECT_EQ(std::get<FailureMessage>(failure).message.size(), 4096u);
  EXPECT_FALSE(std::get<FailureMessage>(failure).by_settings);
  const Message settled = Decode(Encode(FailureMessage{"load", "no such model", true}, 1, 0));
  EXPECT_TRUE(std::get<FailureMessage>(settled).by_settings);
  const Message join = Decode(Encode(
      JoinMessage{.processors = 3, .memory_bytes = 1ll << 40, .memory_limit = "control group /a (memory.max)"}, 1, 0));
  EXPECT_EQ(std::get<JoinMessage>(join).processors, 3);
  EXPECT_EQ(std::get<JoinMessage>(join).memory_bytes, 1ll << 40);
  EXPECT_EQ(std::get<JoinMessage>(join).memory_limit, "control group /a (memory.max)");
}

// All ranks must use the same number type, so a worker never chooses it by itself.
TEST(MessagesTest, Assignment_IsRefused_WhenANumberTypeIsStillAuto) {
  const ComputeSettings cpu{.backend = BackendKind::kCpu,
                            .dtype = ModelDtype::kFloat32,
                            .kv_cache_dtype = KvCacheDtype::kFloat16,
                            .activations = ActivationType::kInt8};
  EXPECT_NO_THROW(Decode(Encode(AssignMessage{.compute = cpu}, 1, 0)));
  const auto is_refused_with = [&](auto open) {
    ComputeSettings compute = cpu;
    open(compute);
    EXPECT_THROW(Decode(Encode(AssignMessage{.compute = compute}, 1, 0)), Error);
  };
  is_refused_with([](ComputeSettings& c) { c.backend = BackendKind::kAuto; });
  is_refused_with([](ComputeSettings& c) { c.dtype = ModelDtype::kAuto; });
  is_refused_with([](ComputeSettings& c) { c.activations = ActivationType::kAuto; });
  is_refused_with([](ComputeSettings& c) { c.kv_cache_dtype = KvCacheDtype::kAuto; });
  const ComputeSettings gpu{.backend = BackendKind::kCuda, .dtype = ModelDtype::kBFloat16};
  EXPECT_NO_THROW(Decode(Encode(AssignMessage{.compute = gpu}, 1, 0))) << "a GPU's cache has the dtype";
}

// Messages contain some settings as words. An unknown word is refused and does not become a default.
TEST(MessagesTest, Assignment_IsRefused_WithAnUnknownSetting) {
  Frame frame = Encode(AssignMessage{.compute = {.backend = BackendKind::kCpu,
                                                 .dtype = ModelDtype::kFloat32,
                                                 .kv_cache_dtype = KvCacheDtype::kFp8}},
                       1, 0);
  const std::string_view word = "fp8";
  const auto at = std::ranges::search(frame.body, std::as_bytes(std::span(word)));
  ASSERT_FALSE(at.empty());
  at[2] = std::byte{'9'};
  frame.header.body_hash = HashBytes(frame.body);
  try {
    Decode(frame);
    FAIL() << "kv_cache_dtype fp9 was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("kv_cache_dtype \"fp9\" is none of auto, fp8"), std::string::npos);
  }
}

TEST(MessagesTest, PlanOf256Decodes_TakesLessThanOneKilobyte) {
  StepPlan plan;
  for (SlotId slot = 0; slot < 256; ++slot) {
    plan.decodes.push_back(slot);
    if (slot % 16 == 0)
      // Each sequence begins a new block every 16 tokens.
      plan.tables.push_back({slot, 100, static_cast<BlockId>(slot + 1)});
  }
  EXPECT_LT(EncodePlan(plan).body.size() + sizeof(FrameHeader), 1024u);
}

TEST(MessagesTest, StepPlan_IsRefused_WhenAValueIsOutOfBounds) {
  const auto broken = [](auto change) {
    StepPlan plan = FullPlan();
    change(plan);
    return ErrorOf(plan);
  };
  EXPECT_EQ(ErrorOf(FullPlan()), "");
  EXPECT_NE(broken([](StepPlan& p) { p.decodes = {10}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].blocks[0] = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].blocks[1] = kNullBlock; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].blocks[0] = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].tokens[0] = 100; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].tokens[0] = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].tokens.clear(); }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].num_computed = 4; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].num_computed = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].num_scored = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].adapter = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].adapter = 7; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].num_scored = 3; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.allowed_tokens = {100}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.logprob_tokens = {100}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.pooling = static_cast<Pooling>(4); }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.pooling = Pooling::kMean; }), "") << "some of it is computed";
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.second_text = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.second_text = 1000; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.thoughts = {3, false, {100}, {1}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.thoughts = {3, false, {1}, {-1}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.thoughts = {3, false, {1}, {}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.bad_words = {{}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.bad_words = {{1}, {2, -1}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].num_prompt_tokens = 5; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].blocks = {1, 2, 3, 4}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].sampling.logit_bias = {{100, 1.0f}}; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.copies[0].source = 11; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.branches[0].parent = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.branches[0].token = 100; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.tables[0].block = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.tables[0].index = 32; }), "") << "beyond the longest sequence";
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].state = {}; }), "") << "no state";
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].state = {7, 7}; }), "") << "one block twice";
  EXPECT_NE(broken([](StepPlan& p) { p.added[0].state[1] = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.states[0].slot = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.states[1].blocks = {8}; }), "") << "half a state";
  EXPECT_NE(broken([](StepPlan& p) { p.states[1].blocks[0] = kNullBlock; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.swap_outs[0].destination = 4; }), "") << "no such host block";
  EXPECT_NE(broken([](StepPlan& p) { p.swap_ins[0].source = 2; }), "") << "overwritten before it comes back";
  EXPECT_NE(broken([](StepPlan& p) { p.swap_ins.push_back({3, 6}); }), "") << "two into one block";
  EXPECT_NE(broken([](StepPlan& p) { p.copies.push_back({3, 4}); }), "") << "two into one block";
  EXPECT_NE(broken([](StepPlan& p) { p.copies.push_back({4, 5}); }), "") << "overwritten before it is copied";
  EXPECT_EQ(broken([](StepPlan& p) { p.added[0].blocks[0] = kNullBlock; }), "") << "left the window";
  EXPECT_NE(broken([](StepPlan& p) { p.chunks[0].count = 17; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.chunks[0].count = 0; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.chunks[0].start = -1; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.chunks[0].slot = 9; }), "");  // slot 9 is among the decodes
  EXPECT_NE(broken([](StepPlan& p) { p.decodes.clear(), p.drafts.clear(), p.chunks.clear(), p.slices.clear(); }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].slot = 10; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].slot = 1; }), "") << "slot 1 is among the decodes";
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].tokens.clear(); }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].tokens[1] = 100; }), "");
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].tokens.assign(12, 1); }), "") << "more tokens than a step may have";
  EXPECT_NE(broken([](StepPlan& p) { p.drafts[0].tokens.push_back(1); }), "") << "more rows than the states have";
}

TEST(PlanCheckTest, Slices_AreRefused_WhenValuesAreOutOfBounds) {
  const auto problem_of = [](const Slice& slice, int32_t stages = 3) {
    StepPlan plan = FullPlan();
    plan.slices = {slice};
    PlanLimits limits = kLimits;
    limits.pass_stages = stages;
    return ErrorOf(plan, limits);
  };
  EXPECT_EQ(problem_of({7, 0, 192, 64, 3}), "") << "all of the longest pass";
  EXPECT_EQ(problem_of({7, 191, 1, 64, 3}), "");
  EXPECT_NE(problem_of({7, 191, 2, 64, 3}).find("slot 7: 2 units of a pass of 192 from 191 on"), std::string::npos);
  EXPECT_NE(problem_of({7, 0, 1, 65, 3}), "") << "longer than a sequence";
  EXPECT_NE(problem_of({7, 0, 1, 0, 3}), "");
  EXPECT_NE(problem_of({7, 0, 0, 64, 3}), "");
  EXPECT_NE(problem_of({7, -1, 1, 64, 3}), "");
  EXPECT_NE(problem_of({7, INT32_MAX, INT32_MAX, 64, 3}), "");
  EXPECT_NE(problem_of({7, 0, 1, 64, 4}).find("a pass of 4 stages, not 3"), std::string::npos);
  EXPECT_NE(problem_of({7, 0, 1, 64, 0}, 0), "") << "the model is no encoder";
  EXPECT_NE(problem_of({2, 0, 1, 64, 3}), "") << "slot 2 computes a chunk";
  EXPECT_NE(problem_of({10, 0, 1, 64, 3}), "");
}

TEST(PlanCheckTest, GuessOrders_AreRefused_WhenValuesAreOutOfBounds) {
  const auto problem_of = [](const std::vector<GuessOrder>& orders, int32_t max_guess = 4) {
    StepPlan plan = FullPlan();
    plan.guesses = orders;
    PlanLimits limits = kLimits;
    limits.max_guess = max_guess;
    return ErrorOf(plan, limits);
  };
  EXPECT_EQ(problem_of({{0, 1}, {1, 4}, {9, 2}, {5, 4}}), "");
  EXPECT_NE(problem_of({{1, 5}}).find("slot 1: a guess of 5 tokens, at most 4"), std::string::npos);
  EXPECT_NE(problem_of({{1, 1}}, 0), "") << "no draft model";
  EXPECT_NE(problem_of({{1, 0}}), "");
  EXPECT_NE(problem_of({{1, -1}}), "");
  EXPECT_NE(problem_of({{1, 1}, {1, 1}}), "") << "twice";
  EXPECT_NE(problem_of({{9, 1}, {0, 1}}), "") << "not in the order of the batch";
  EXPECT_NE(problem_of({{2, 1}}), "") << "slot 2 computes a chunk";
  EXPECT_NE(problem_of({{7, 1}}), "") << "slot 7 computes nothing";
}

TEST(MessagesTest, Decode_Throws_WhenAFrameIsForeignOrDamaged) {
  Frame frame = EncodePlan(FullPlan());
  frame.header.version = kProtocolVersion + 1;
  EXPECT_THROW(Decode(frame), Error);
  frame = EncodePlan(FullPlan());
  frame.header.magic = 0;
  EXPECT_THROW(Decode(frame), Error);
  frame = EncodePlan(FullPlan());
  frame.header.kind = static_cast<FrameKind>(77);
  EXPECT_THROW(Decode(frame), Error);
  frame = EncodePlan(FullPlan());
  frame.body[frame.body.size() / 2] ^= std::byte{1};
  EXPECT_THROW(Decode(frame), Error);  // the hash does not match
}

// Random bytes yield an error or a message, but never a crash. The hash is corrected, so that the verifier and the
// later checks see the damage.
TEST(MessagesTest, MutatedFrames_NeverCrashTheDecoder) {
  test::Random random(1);
  const Frame original = EncodePlan(FullPlan());
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    Frame frame = original;
    for (int64_t m = random.Between(1, 6); m > 0; --m) {
      frame.body[static_cast<size_t>(random.Below(static_cast<int64_t>(frame.body.size())))] =
          static_cast<std::byte>(random.Bits());
    }
    if (random.Below(8) == 0)
      frame.body.resize(static_cast<size_t>(random.Below(static_cast<int64_t>(frame.body.size()) + 1)));
    frame.header.kind = static_cast<FrameKind>(random.Between(1, 10));
    frame.header.body_hash = HashBytes(frame.body);
    try {
      if (frame.header.kind == FrameKind::kPlan)
        DecodePlan(frame, kLimits);
      else
        Decode(frame);
      ++accepted;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace quire
