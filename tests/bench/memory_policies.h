#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tests/bench/memory_trace.h"

namespace quire {

/// A policy by which requests get KV memory. All policies except kPaged give one contiguous region at admission, for
/// the whole request. These three are the variants of Orca in the PagedAttention paper (arXiv 2309.06180).
enum class KvPolicy {
  kPaged,       // the coordinator's own Engine: blocks as they are needed
  kOracle,      // exactly the slots that the request will use
  kPowerOfTwo,  // the prompt, and the true output length rounded up to a power of two
  kReserveMax,  // max_model_len slots
};

/// Returns "paged", "oracle", "power of two" or "reserve max".
std::string_view NameOf(KvPolicy policy);

/// The cost of a step on the simulated accelerator: the sum of three parts that do not overlap. The defaults are a 13B
/// model in 16 bits on one A100-40GB. A step reads the weights once, so a larger batch costs less per token.
struct StepCost {
  double fixed_seconds = 17e-3;                // 26 GB of weights at 1555 GB/s
  double seconds_per_token = 0.14e-3;          // computed token: 2 x 13e9 flop at 60 % of 312 Tflop/s
  double seconds_per_context_token = 0.53e-6;  // attention reads 2 x 40 layers x 5120 x 2 bytes at 1555 GB/s
};

/// The simulated server.
struct MemorySetup {
  int64_t capacity_tokens = 15872;  // KV slots: 15.7K, as published for 13B on 40 GB, as a multiple of 256
  int max_model_len = 2048;
  int block_size = 16;        // kPaged only
  int max_step_tokens = 512;  // most tokens of a step, under every policy
  int max_running = 256;      // most running sequences
  StepCost cost;
};

/// Numbers of token slots by kind. The numbers add up to the capacity.
struct MemoryUsage {
  double live = 0;      // slots that hold a computed token
  double reserved = 0;  // allocated slots that the request will fill
  double internal = 0;  // allocated, never filled. kPaged: all unfilled slots of held blocks, so reserved is 0
  double external = 0;  // free slots that suffice for the first waiting request, but only in several pieces
  double free = 0;      // slots that are free

  double allocated() const { return live + reserved + internal; }
  /// Returns the share of the allocated slots that hold no token.
  double waste() const { return allocated() > 0 ? 1 - live / allocated() : 0; }
};

struct MemoryResult {
  MemoryUsage shares;     // shares of the capacity, mean over the steps; tokens of the step count as live
  double kv_waste = 0;    // shares.waste(): slots without a token over allocated slots, both summed over the steps
  double mean_batch = 0;  // mean number of sequences that hold memory, over the steps
  int peak_batch = 0;
  int64_t steps = 0;
  int64_t computed_tokens = 0;  // recomputation after preemptions counts again
  int64_t preemptions = 0;
  double makespan_seconds = 0;  // seconds from time 0 to the last token
  double busy_seconds = 0;      // the part of the makespan that steps take
  double output_tokens_per_second = 0;
  double requests_per_second = 0;
  double normalised_latency = 0;  // seconds from arrival to last token per output token, mean over requests
};

/// Simulates one server with continuous batching until the trace has ended: first come, first served, prompts in
/// chunks, running requests before new requests. The result is deterministic. Throws Error when a request can never
/// fit.
MemoryResult SimulateMemory(KvPolicy policy, const MemorySetup& setup, std::span<const TraceRequest> trace);

}  // namespace quire
