// Input: operations on an engine. Requests are submitted and cancelled, steps are planned and executed, worker groups
// are lost. The engine's invariants are checked after every operation, and a simulated worker reads every block that a
// plan names. At the end all blocks must be free.
#include <deque>

#include "comm/base/error.h"
#include "coordinator/core/engine/engine.h"
#include "tests/fuzz/byte_source.h"
#include "tests/sim/sim_worker.h"
#include "tests/support/collecting_sink.h"

namespace quire {
namespace {

constexpr int kMaxRequests = 6, kMaxOperations = 40;

EngineOptions Options(fuzz::ByteSource& bytes) {
  EngineOptions o;
  o.blocks.block_size = bytes.Flag() ? 4 : 1;
  o.blocks.num_blocks = 3 + static_cast<int>(bytes.Below(14));
  o.blocks.num_host_blocks = static_cast<int>(bytes.Below(8));
  o.blocks.prefix_caching = bytes.Below(4) != 3;
  o.blocks.sliding_window = bytes.Below(4) == 3 ? 3 + static_cast<int>(bytes.Below(6)) : 0;
  o.blocks.watermark = bytes.Flag() ? 0.1 : 0;
  o.blocks.hash_bits = bytes.Below(4) == 3 ? 2 : 128;
  o.scheduler.max_running = 1 + static_cast<int>(bytes.Below(6));
  o.scheduler.max_step_tokens = o.scheduler.max_running + static_cast<int>(bytes.Below(24));
  o.scheduler.preemption = static_cast<PreemptionMode>(bytes.Below(3));
  o.scheduler.lookahead_tokens = static_cast<int>(bytes.Below(9));
  o.max_model_len = 40;
  o.vocab_size = sim::kVocab;
  o.plan_ahead = bytes.Below(4) != 3;
  o.blocks.state_blocks = static_cast<int>(bytes.Below(3));
  o.blocks.state_spacing = 1;
  return o;
}

class Life {
 public:
  explicit Life(fuzz::ByteSource& bytes) : bytes_(bytes), options_(Options(bytes)), engine_(options_) { StartEpoch(); }

  void Run() {
    for (int i = 0; i < kMaxOperations && !bytes_.empty(); ++i) {
      Operate();
      engine_.scheduler().CheckIntegrity();
    }
    for (int i = 0; !engine_.idle() || !sent_.empty(); ++i) {
      QUIRE_CHECK(i < 5000, "no end in sight");
      if (!Plan()) TakeResult();
      engine_.scheduler().CheckIntegrity();
    }
    engine_.FlushCache();
    QUIRE_CHECK(engine_.blocks().num_free() == engine_.blocks().num_usable(), "blocks are held by nobody");
    QUIRE_CHECK(engine_.blocks().host_pool().num_held() == 0, "host blocks are held by nobody");
  }

 private:
  void Operate() {
    switch (bytes_.Below(16)) {
      case 0:
      case 1:
      case 2:
        return Submit();
      case 3:
        return engine_.Cancel(1 + bytes_.Below(kMaxRequests));
      case 4:
        return engine_.FlushCache();
      case 5:
        engine_.PinPrefix(Salt(0), std::vector<TokenId>(1 + bytes_.Below(12), 1), now_ + 5);
        return;
      case 6:
        engine_.Unpin(bytes_.Below(4));
        return;
      case 7:
        now_ += bytes_.Below(256) * 4;
        return engine_.ExpireOverdue(now_);
      case 8:
        return bytes_.Below(4) == 3 ? StartEpoch() : TakeResult();
      case 9:
      case 10:
      case 11:
        return TakeResult();
      default:
        Plan();
    }
  }

  static std::string Salt(uint64_t which) { return which == 0 ? "" : "other"; }

  void Submit() {
    if (next_id_ > kMaxRequests) return;
    test::CollectingSink& sink = sinks_[next_id_];
    sink.stop_after = bytes_.Below(8);
    const int prompt = 1 + static_cast<int>(bytes_.Below(16)), n = 1 + static_cast<int>(bytes_.Below(3));
    const int max_tokens = 1 + static_cast<int>(bytes_.Below(8));
    const uint64_t salt = bytes_.Below(4) == 3;
    std::vector<TokenId> tokens(static_cast<size_t>(prompt), 1);
    tokens[bytes_.Below(static_cast<uint32_t>(prompt))] = static_cast<TokenId>(bytes_.Below(2));
    auto request = test::MakeRequest(next_id_++, tokens, max_tokens, sink, n, {.seed = salt << 32 | bytes_.Byte()});
    request->arrival_seconds = now_;
    request->cache_salt = Salt(salt);
    request->client = std::string(bytes_.Flag() ? 1 : 0, 'a');
    request->limits.stop_token_ids = {static_cast<TokenId>(bytes_.Below(48))};
    if (bytes_.Below(4) == 3) {
      const BeamOptions beams{n, n, 1, static_cast<EarlyStopping>(bytes_.Below(3))};
      request->beams = std::make_unique<BeamSearch>(beams, request->limits.stop_token_ids, max_tokens);
      request->sampling.num_logprobs = request->beams->num_candidates();
    }
    engine_.Submit(std::move(request));
  }

  bool Plan() {
    const StepPlan* plan = engine_.NextPlan(now_);
    if (plan != nullptr) sent_.push_back(EncodePlan(*plan));
    return plan != nullptr;
  }

  void TakeResult() {
    if (sent_.empty()) return;
    const Frame frame = std::move(sent_.front());
    sent_.pop_front();
    try {
      const StepResult result = worker_->Execute(frame);
      QUIRE_CHECK(engine_.Fits(result.tokens), "the answer does not fit the plan");
      now_ += 0.01;
      engine_.CommitStep(result.tokens, {10'000, 10});
    } catch (const Error& error) {
      QUIRE_CHECK(false, "the worker refuses the plan: {}", error.what());
    } catch (const sim::SimWorker::Violation& violation) {
      QUIRE_CHECK(false, "{}", violation.what);
    }
  }

  void StartEpoch() {
    engine_.StartEpoch(++epoch_);
    sent_.clear();
    worker_.emplace(
        PlanLimits{options_.blocks.num_blocks, options_.blocks.num_host_blocks + 1, options_.blocks.block_size,
                   options_.scheduler.max_running, options_.scheduler.max_step_tokens, options_.max_model_len,
                   options_.vocab_size, options_.blocks.state_blocks},
        options_.blocks.sliding_window);
  }

  fuzz::ByteSource& bytes_;
  EngineOptions options_;
  std::map<RequestId, test::CollectingSink> sinks_;
  Engine engine_;
  std::optional<sim::SimWorker> worker_;
  std::deque<Frame> sent_;
  double now_ = 1;
  EpochId epoch_ = 0;
  RequestId next_id_ = 1;
};

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::fuzz::ByteSource bytes(data, size);
  quire::Life(bytes).Run();
  return 0;
}
