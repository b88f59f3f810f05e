#include "coordinator/api/models/served_model.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/grammars/compile_service.h"

namespace quire {

ServedModel::ServedModel(const Topology& topology, size_t index, std::string log_name)
    : topology_(topology),
      index_(index),
      log_name_(std::move(log_name)),
      files_(ReadAsSettings([&] { return OpenModel(topology.model); })),
      text_(ReadAsSettings([&] { return TextTools(files_, topology); })),
      adapters_(ReadAsSettings([&] { return AdapterShelf(topology, files_); })),
      grammars_(text_.vocabulary, {"/proc/self/exe", kCompileGrammars, std::to_string(files_.spec().vocab_size)}, {}) {
  text_.NoteChoices(topology_.model);
  files_.CloseFiles();  // changes of the files no longer affect this process
}

std::vector<std::string> ServedModel::Names() const {
  std::vector<std::string> names = {name()};
  std::ranges::copy(topology_.model.aliases, std::back_inserter(names));
  std::ranges::move(adapters_.Names(), std::back_inserter(names));
  return names;
}

void ServedModel::SetMemory(const ModelNeed& need, int64_t kv) {
  SetKvShare(kv, need, topology_.cache);
  weight_bytes_ = need.weights;
  kv_bytes_ = kv;
}

void ServedModel::Start(const std::atomic<bool>& cancel, std::function<void(const std::string&)> on_lost) {
  const auto ready = std::make_shared<std::promise<void>>();
  workers_ = std::make_unique<ModelWorkers>(topology_, files_, cancel, text_.vocabulary, events_, log_name_,
                                            [ready](const std::exception_ptr& failure) {
                                              if (failure == nullptr) return ready->set_value();
                                              ready->set_exception(failure);
                                            });
  ready->get_future().get();
  replicas().Begin(std::move(on_lost));
  adapters_.Begin(replicas());
}

void ServedModel::StopLoops() {
  if (workers_ != nullptr) replicas().StopLoops();
}

void ServedModel::StopWorkers(const std::string& reason) {
  if (workers_ != nullptr) replicas().StopWorkers(reason);
}

const char* NameOf(ModelState state) {
  constexpr const char* kNames[] = {"ready", "restarting", "lost"};
  return kNames[static_cast<size_t>(state)];
}

ModelState ServedModel::state() const {
  if (!replicas().serving()) return ModelState::kLost;
  return replicas().ready() ? ModelState::kReady : ModelState::kRestarting;
}

CallLimits ServedModel::LimitsOfCalls() {
  int longest = INT32_MAX, blocks = INT32_MAX;
  for (int r = 0; r < replicas().size(); ++r) {
    longest = std::min(longest, replicas().at(r).deployment().max_model_len());
    blocks = std::min(blocks, replicas().at(r).view().usable_blocks);
  }
  const int running = topology_.scheduler.max_running;
  return {text_.LimitsWith(longest, std::min(128, running)), int64_t{blocks} * topology_.cache.block_size};
}

}  // namespace quire
