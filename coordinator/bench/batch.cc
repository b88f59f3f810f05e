#include "coordinator/bench/batch.h"

#include <chrono>

#include "comm/base/error.h"
#include "coordinator/bench/random_prompt.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Records the arrival times of tokens.
class TimingSink : public RequestSink {
 public:
  explicit TimingSink(Clock::time_point begin) : begin_(begin) {}
  bool OnToken(const TokenEvent&) override {
    times.push_back(SecondsSince(begin_));
    return false;
  }
  void OnFinish(int, FinishReason) override {}
  void OnError(RequestError, const std::string& message) override { throw Error(message); }

  std::vector<double> times;

 private:
  Clock::time_point begin_;
};

}  // namespace

BatchTimes RunBatch(Deployment& deployment, RequestId first_id, int count, int input_len, int output_len,
                    int64_t vocab_size) {
  Engine& engine = deployment.engine();
  BatchTimes times;
  const auto begin = Clock::now();
  std::vector<std::shared_ptr<TimingSink>> sinks;
  for (int i = 0; i < count; ++i) {
    sinks.push_back(std::make_shared<TimingSink>(begin));
    auto request = std::make_unique<Request>();
    request->id = first_id + static_cast<RequestId>(i);
    request->limits.max_tokens = output_len;
    request->sampling.temperature = 0;
    request->sequences = NewSequences(RandomPrompt(request->id, input_len, vocab_size), 1);
    request->sink = sinks.back();
    if (const auto refusal = engine.Submit(std::move(request))) Fail("{}", *refusal);
  }
  const auto plan_next = [&] {
    const auto start = Clock::now();
    const StepPlan* next = engine.NextPlan(0);
    times.planning += SecondsSince(start);
    return next;
  };
  for (;;) {  // steps in the same order as in EngineLoop
    while (const StepPlan* plan = plan_next()) deployment.group().SendStep(*plan);
    if (engine.num_outstanding() == 0) break;
    const auto [tokens, scores, guesses, step_times] = deployment.group().AwaitStep();
    engine.CommitStep(tokens, step_times, scores, guesses);
  }
  times.seconds = SecondsSince(begin);
  for (const auto& sink : sinks) times.tokens.push_back(std::move(sink->times));
  return times;
}

}  // namespace quire
