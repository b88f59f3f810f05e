// Steady decoding must not touch the heap in the scheduler: every allocation of this program is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "coordinator/core/engine.h"
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

TEST(AllocationTest, SteadyDecodingAllocatesNothing) {
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
    const StepPlan& plan = *engine.NextPlan(0);
    tokens.clear();
    for (const SlotId slot : plan.decodes) tokens.push_back({slot, static_cast<TokenId>(slot % 100), 0, {}});
    for (const Chunk& chunk : plan.chunks) {
      if (chunk.start + chunk.count == kPrompt) tokens.push_back({chunk.slot, 5, 0, {}});
    }
    engine.CommitStep(tokens);
    return plan.decodes.size();
  };
  for (int i = 0; i < 50; ++i) step();
  const int64_t before = allocations, cached = engine.blocks().cache().size();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(step(), kSequences);
  EXPECT_EQ(allocations - before, 0) << "in 200 steps";
  EXPECT_GT(engine.blocks().cache().size(), cached) << "blocks were filled, opened and cached meanwhile";
}

}  // namespace
}  // namespace quire
