#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/model/model_files.h"
#include "coordinator/cluster/hosts/memory_plan.h"

namespace quire {

/// Peak rates per second, of all ranks of a replica together or of a part of them (RatesOfPart).
struct PeakRates {
  double read_bytes = 0;    // bytes read from memory, steadily
  double products = 0;      // operations of products with weights per second, in their computing type
  double attention = 0;     // operations of attention per second, in its computing type
  double multiply_add = 0;  // operations in fp32
  bool products_in_bytes = false, attention_in_bytes = false;
};

/// The predicted time of one kind of step: a decode step, or a prompt.
struct SpeedRow {
  int64_t sequences = 1;
  int64_t tokens = 0;   // tokens of a prompt, or of each sequence's context
  double roofline = 0;  // seconds at the peak rates
  double expected = 0;  // seconds at the rates that the engine reaches
  std::string bound;    // slowest part: "reading weights", "reading the KV cache", "products", "attention"
};

/// The tokens [first, first + count) of a sequence that a step computes, and whether a token is sampled after them.
struct StepPart {
  int64_t first = 0, count = 1;
  bool draws = true;
};

/// Predicts the time of a replica's steps.
class StepCosts {
 public:
  StepCosts(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks);

  /// Predicts one step. The caller sets `sequences` and `tokens` of the result.
  SpeedRow Of(std::span<const StepPart> members);

 private:
  const ModelSpec& spec_;
  const PeakRates peaks_;
  const double weight_bytes_, kv_bytes_, layer_operations_, head_operations_;
  std::map<int64_t, double> read_parts_;  // part of the weights that a step reads, by the step's tokens
};

/// Predicts a decode step: each of `sequences` sequences has a context of `tokens` tokens and gets one token.
SpeedRow StepSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t sequences,
                   int64_t tokens);

/// Predicts the time from the start of a lone prompt of `tokens` tokens to its first token.
SpeedRow PromptSpeed(const ModelSpec& spec, const MemoryPlan& plan, const PeakRates& peaks, int64_t tokens);

/// Returns the rates of the fraction `part` of all ranks. In a pipeline only the ranks of one stage compute a step at a
/// time, so a step has only their rates.
PeakRates RatesOfPart(const PeakRates& all, double part);

/// True when the weights are quantized, in the model's files or by `quantization`. Products with such weights use the
/// type assignment.compute.activations, other products fp32.
bool HasQuantizedWeights(const ModelFiles& model, Quantization quantization);

}  // namespace quire
