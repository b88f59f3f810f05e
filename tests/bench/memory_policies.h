#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tests/bench/memory_trace.h"

namespace quire {

/// How KV memory is given to requests. All but kPaged take one contiguous region at admission and keep it to the end,
/// as Orca does in the paged-attention literature's three readings of it.
enum class KvPolicy {
  kPaged,       // the coordinator's own Engine: blocks as tokens come
  kOracle,      // exactly the slots that the request will use in the end
  kPowerOfTwo,  // the prompt, and the next power of two that is not less than the true output length
  kReserveMax,  // max_model_len slots
};

/// "paged", "oracle", "power of two" or "reserve max".
std::string_view NameOf(KvPolicy policy);

/// What a step costs on the simulated accelerator: the sum of the three, no overlap. The defaults are a 13B model in 16
/// bits on one A100-40GB: what the batch shares is read once per step, so seconds per token fall as the batch grows.
struct StepCost {
  double fixed_seconds = 17e-3;                // 26 GB of weights at 1555 GB/s
  double seconds_per_token = 0.14e-3;          // computed: 2 x 13e9 flop at 60 % of 312 Tflop/s
  double seconds_per_context_token = 0.53e-6;  // read by attention: 2 x 40 layers x 5120 x 2 bytes at 1555 GB/s
};

/// The simulated server.
struct MemorySetup {
  int64_t capacity_tokens = 15872;  // KV slots; what the literature gives for 13B on 40 GB (15.7K), a multiple of 256
  int max_model_len = 2048;
  int block_size = 16;        // kPaged only
  int max_step_tokens = 512;  // computed by one step, under every policy
  int max_running = 256;      // sequences
  StepCost cost;
};

/// Token slots of one kind each. They add up to the capacity.
struct MemoryUsage {
  double live = 0;      // hold a computed token
  double reserved = 0;  // allocated; the request that holds them will fill them
  double internal = 0;  // allocated and never filled. kPaged: every unfilled slot of a held block, so reserved is 0
  double external = 0;  // free, enough in sum for the head of the queue, yet in no piece that is large enough
  double free = 0;      // the other free ones

  double allocated() const { return live + reserved + internal; }
  /// The share of the allocated slots that hold nothing.
  double waste() const { return allocated() > 0 ? 1 - live / allocated() : 0; }
};

struct MemoryResult {
  MemoryUsage shares;     // of the capacity, the mean over the steps; in a step its own tokens count as live
  double kv_waste = 0;    // shares.waste(): slots without a token over slots allocated, both summed over the steps
  double mean_batch = 0;  // sequences that hold memory, over the steps
  int peak_batch = 0;
  int64_t steps = 0;
  int64_t computed_tokens = 0;  // recomputation after a preemption counted in
  int64_t preemptions = 0;
  double makespan_seconds = 0;  // from time 0 to the last token
  double busy_seconds = 0;      // of the makespan, in steps
  double output_tokens_per_second = 0;
  double requests_per_second = 0;
  double normalised_latency = 0;  // seconds from arrival to last token per output token, the mean over requests
};

/// Serves the trace to its end on one server with continuous batching: first come first served, prompts in chunks,
/// running requests before new ones. Nothing is random and no clock is read. Throws Error when a request can never fit.
MemoryResult SimulateMemory(KvPolicy policy, const MemorySetup& setup, std::span<const TraceRequest> trace);

}  // namespace quire
