#include "coordinator/plan/smaller_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coordinator/plan/size_text.h"

namespace quire {

namespace {

/// A change of settings with which a rank needs less memory.
struct Change {
  std::string flag;
  Topology topology;
};

std::vector<Change> SmallerWays(const Topology& topology, const ModelSpec& spec) {
  std::vector<Change> changes;
  const auto add = [&](const std::string& flag, auto edit) {
    Change change{flag, topology};
    edit(change.topology);
    if (!(change.topology.compute == topology.compute) || !(change.topology.parallel == topology.parallel))
      changes.push_back(std::move(change));
  };
  const bool cuda = topology.compute.backend == BackendKind::kCuda;
  if (cuda) {
    add("--kv-cache-dtype fp8", [](Topology& t) { t.compute.kv_cache_dtype = KvCacheDtype::kFp8; });
    if (topology.compute.dtype != ModelDtype::kFloat32) {
      add("--quantization fp8", [](Topology& t) { t.compute.quantization = Quantization::kFp8; });
      add("--quantization int4", [](Topology& t) { t.compute.quantization = Quantization::kInt4; });
    }
  } else {
    add("--kv-cache-dtype int8", [](Topology& t) { t.compute.kv_cache_dtype = KvCacheDtype::kInt8; });
    add("--quantization int8", [](Topology& t) { t.compute.quantization = Quantization::kInt8; });
    add("--quantization int4", [](Topology& t) { t.compute.quantization = Quantization::kInt4; });
  }
  for (int tensor = 2 * topology.parallel.tensor; OnThisHost(topology) && tensor <= spec.num_heads; tensor *= 2) {
    add(fmt::format("--tensor-parallel-size {}", tensor), [tensor](Topology& t) {
      t.parallel.tensor = tensor;
      t.parallel.shares.clear();
    });
  }
  return changes;
}

}  // namespace

std::vector<std::string> WhatWouldFit(const Topology& topology, const ModelFiles& model, int64_t rank_memory,
                                      NodeAnswers& nodes) {
  std::vector<std::string> lines;
  for (const Change& change : SmallerWays(topology, model.spec())) {
    const MemoryPlan plan = PlanMemory(change.topology, model, rank_memory, nodes);
    if (!plan.problem.empty()) continue;
    lines.push_back(fmt::format("{}: {} of weights a rank at the most, {} blocks, sequences of up to {} tokens",
                                change.flag,
                                Size(std::ranges::max(plan.ranks, {}, &RankInfo::weight_bytes).weight_bytes),
                                plan.usable_blocks(), plan.model_len));
  }
  return lines;
}

}  // namespace quire
