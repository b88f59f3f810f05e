#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "coordinator/check/memory_plan.h"

namespace quire {

/// What all ranks of a replica together do in a second, at the most.
struct PeakRates {
  double read_bytes = 0;    // of memory, steadily
  double products = 0;      // operations of products with weights, in the type that they are computed in
  double attention = 0;     // operations of attention, likewise
  double multiply_add = 0;  // operations in fp32
  bool products_in_bytes = false, attention_in_bytes = false;
};

/// One load and how long it will take.
struct SpeedRow {
  int64_t sequences = 1;
  int64_t tokens = 0;   // of a prompt, or of each sequence's context
  double roofline = 0;  // seconds at the peak rates
  double expected = 0;  // seconds with what the engine reaches of them
  std::string bound;    // what takes the longest: "reading weights", "reading the KV cache", "computing"
};

/// Tokens [first, first + count) of a sequence that a step computes, and whether it draws one after them.
struct StepPart {
  int64_t first = 0, count = 1;
  bool draws = true;
};

/// How long the steps of a replica will take.
class StepCosts {
 public:
  StepCosts(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks);

  /// `sequences` and `tokens` are left to the caller.
  SpeedRow Of(std::span<const StepPart> members);

 private:
  const ModelSpec& spec_;
  const PeakRates peaks_;
  const double weight_bytes_, kv_bytes_, layer_operations_, head_operations_;
  std::map<int64_t, double> read_parts_;  // of the weights, by tokens of a step
};

/// A step in which `sequences` sequences with a context of `tokens` tokens get a token each.
SpeedRow StepSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t sequences,
                   int64_t tokens);

/// A prompt of so many tokens, alone, until its first token.
SpeedRow PromptSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t tokens);

/// True where weights meet integers: products are then computed in assignment.compute.activations, else in fp32.
bool HasQuantizedWeights(const ModelFiles& model, Quantization quantization);

}  // namespace quire
