// The scheduler must not allocate heap memory during steady decoding, except when a sequence doubles a full list. This
// program replaces operator new in order to count all its allocations.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "coordinator/core/engine/engine.h"
#include "tests/support/silent_sink.h"

namespace {

std::atomic<int64_t> allocations{0};

void* Counted(std::size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t size) { return Counted(size); }
void* operator new[](std::size_t size) { return Counted(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace quire {
namespace {

/// The parameter tells whether each step is planned while the previous one is still outstanding.
class AllocationTest : public testing::TestWithParam<bool> {};

TEST_P(AllocationTest, SteadyDecoding_AllocatesNoMemory_OnceListsAreLargeEnough) {
  constexpr int kSequences = 256, kPrompt = 20;
  EngineOptions options;
  options.scheduler.max_running = kSequences;
  options.scheduler.max_step_tokens = 1024;
  options.blocks.num_blocks = kSequences * 40;
  options.max_model_len = 1000;
  Engine engine(options);
  for (RequestId id = 1; id <= kSequences; ++id) {
    auto request = std::make_unique<Request>();
    request->id = id;
    request->limits.max_tokens = 400;
    std::vector<TokenId> prompt(kPrompt, static_cast<TokenId>(id));
    request->sequences = NewSequences(prompt, 1);
    request->sink = std::make_shared<test::SilentSink>();
    ASSERT_FALSE(engine.Submit(std::move(request)));
  }
  std::vector<SampledToken> tokens;
  const auto step = [&] {
    const auto decodes = engine.NextPlan(0)->decodes.size();
    tokens.clear();
    for (const StepMember& m : engine.scheduler().outstanding().at(0).members) {
      if (m.draws) tokens.push_back({m.slot, static_cast<TokenId>(m.slot % 100), 0, {}});
    }
    engine.CommitStep(tokens, {1'000, 0});
    return decodes;
  };
  if (GetParam()) engine.NextPlan(0);
  const int64_t begin = allocations;
  for (int i = 0; i < 200; ++i) step();
  // The lists of tokens, blocks and hashes start with room for 84 tokens and double twice, the second time before 208
  // tokens. The first admission makes the remaining allocations.
  EXPECT_LE(allocations - begin, (3 * 2 + 3) * kSequences) << "in 200 steps";
  const int64_t before = allocations, cached = engine.blocks().prefixes().cache().size();
  for (int i = 0; i < 110; ++i) ASSERT_EQ(step(), kSequences);
  EXPECT_EQ(allocations - before, 0) << "in 110 steps";
  EXPECT_GT(engine.blocks().prefixes().cache().size(), cached) << "blocks were filled, opened and cached meanwhile";
  EXPECT_EQ(engine.num_outstanding(), GetParam() ? 1 : 0);
}
INSTANTIATE_TEST_SUITE_P(Ahead, AllocationTest, testing::Bool());

}  // namespace
}  // namespace quire
