#include "coordinator/metrics/call_metrics.h"

#include <array>

#include "comm/base/error.h"
#include "coordinator/metrics/series.h"

namespace quire {

namespace {

constexpr double kFirstToken[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kInterToken[] = {.001, .002, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                  .4,   .5,   .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
constexpr double kLong[] = {.01, .05, .1, .2, .3, .5, .8,  1,   1.5, 2,   2.5,  5,   10,
                            15,  20,  30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kTokens[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
constexpr double kChoices[] = {1, 2, 5, 10, 20};

std::vector<CountedBucket> BucketsOf(const prometheus::Histogram& histogram) {
  std::vector<CountedBucket> buckets;
  for (const auto& bucket : histogram.Collect().histogram.bucket)
    buckets.push_back({bucket.upper_bound, bucket.cumulative_count});
  return buckets;
}

constexpr const char* kReasons[] = {"stop", "length", "abort", "error"};
constexpr const char* kRejections[] = {"max_num_queued_reqs", "memory_bytes", "key_limits"};

}  // namespace

struct CallMetrics::All {
  explicit All(const Series& s)
      : first_token(
            s.Histogram("vllm:time_to_first_token_seconds", "From the request to its first token", kFirstToken)),
        inter_token(s.Histogram("vllm:inter_token_latency_seconds", "Between two tokens of a choice", kInterToken)),
        per_token(s.Histogram("vllm:request_time_per_output_token_seconds",
                              "Mean time between a request's tokens, from its first to its last", kInterToken)),
        end_to_end(s.Histogram("vllm:e2e_request_latency_seconds", "From the request to its end", kLong)),
        queue(s.Histogram("vllm:request_queue_time_seconds", "Until something of the request was computed", kLong)),
        prefill(s.Histogram("vllm:request_prefill_time_seconds", "From then to the first token", kLong)),
        decode(s.Histogram("vllm:request_decode_time_seconds", "From the first token to the last", kLong)),
        inference(s.Histogram("vllm:request_inference_time_seconds", "Prefill and decode", kLong)),
        prompt_tokens(s.Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request", kTokens)),
        generation_tokens(s.Histogram("vllm:request_generation_tokens", "Tokens generated for a request", kTokens)),
        longest_choice(
            s.Histogram("vllm:request_max_num_generation_tokens", "Tokens of a request's longest choice", kTokens)),
        max_tokens(s.Histogram("vllm:request_params_max_tokens", "Most tokens that a choice might have", kTokens)),
        choices(s.Histogram("vllm:request_params_n", "Choices of a prompt", kChoices)) {
    for (const char* reason : kReasons)
      success[reason] = &s.With("finished_reason", reason).Counter("vllm:request_success_total", "Finished requests");
  }

  prometheus::Histogram &first_token, &inter_token, &per_token, &end_to_end, &queue, &prefill, &decode, &inference,
      &prompt_tokens, &generation_tokens, &longest_choice, &max_tokens, &choices;
  std::map<std::string, prometheus::Counter*> success, rejections;
};

CallMetrics::CallMetrics(prometheus::Registry& registry, const std::string& model_name) {
  const Series model(registry, {{"model_name", model_name}});
  // Dashboards group by this label, but any replica may have computed a call, so all calls have the label of replica 0.
  all_ = std::make_unique<All>(model.With("engine", "0"));
  for (const char* reason : kRejections) {
    all_->rejections[reason] =
        &model.With("reason", reason).Counter("vllm:admission_rejections_total", "Requests refused for overload");
  }
}

CallMetrics::~CallMetrics() = default;

void CallMetrics::ObserveFirstToken(double seconds) { all_->first_token.Observe(seconds); }

void CallMetrics::ObserveInterTokenLatency(double seconds) { all_->inter_token.Observe(seconds); }

void CallMetrics::Observe(const FinishedCall& call) {
  All& all = *all_;
  const auto success = all.success.find(call.reason);
  QUIRE_CHECK(success != all.success.end(), "a call ended by \"{}\"", call.reason);
  success->second->Increment();
  all.end_to_end.Observe(call.end_to_end);
  all.prompt_tokens.Observe(call.prompt_tokens);
  all.generation_tokens.Observe(call.generated_tokens);
  all.longest_choice.Observe(call.longest_choice);
  all.max_tokens.Observe(call.max_tokens);
  all.choices.Observe(call.choices);
  if (call.begun) all.queue.Observe(*call.begun);
  if (!call.begun || !call.first_token) return;
  const double decode = *call.last_token - *call.first_token;
  all.prefill.Observe(*call.first_token - *call.begun);
  all.decode.Observe(decode);
  all.inference.Observe(*call.last_token - *call.begun);
  if (call.longest_choice > 1) all.per_token.Observe(decode / (call.longest_choice - 1));
}

std::vector<CountedBucket> CallMetrics::FirstTokenBuckets() const { return BucketsOf(all_->first_token); }

std::vector<CountedBucket> CallMetrics::InterTokenBuckets() const { return BucketsOf(all_->inter_token); }

void CallMetrics::CountRejection(const std::string& reason) {
  const auto rejection = all_->rejections.find(reason);
  QUIRE_CHECK(rejection != all_->rejections.end(), "a call was refused for \"{}\"", reason);
  rejection->second->Increment();
}

}  // namespace quire
