#include "coordinator/api/models/served_model.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "coordinator/grammars/compile_service.h"
#include "coordinator/text/tokenizer/same_tokens.h"

namespace quire {

namespace {

/// The most seconds that workers wait for blocks that are being written to the disk: before a model is unloaded or put
/// to sleep, and before the server ends.
constexpr double kMostSaving = 10, kMostSavingAtEnd = 2;
/// The seconds within which each engine of a model that falls asleep must have freed its memory.
constexpr double kMostFreeing = 5;

/// Checks that the draft model, if there is one, has the tokens of the served model.
void CheckDraftTokens(const Topology& topology, const ModelFiles& served) {
  const Topology::Speculation& speculation = topology.speculation;
  if (speculation.method != SpeculationMethod::kDraftModel) return;
  CheckSameTokens(ReadAsSettings([&] { return ModelFiles::Open(speculation.draft_model, served.load_format()); }),
                  served);
}

}  // namespace

ServedModel::ServedModel(const Topology& topology, size_t index, std::string log_name)
    : topology_(topology),
      index_(index),
      log_name_(std::move(log_name)),
      files_(ReadAsSettings([&] { return OpenModel(topology.model); })),
      text_(ReadAsSettings([&] { return TextTools(files_, topology); })),
      adapters_(ReadAsSettings([&] { return AdapterShelf(topology, files_); })),
      grammars_(text_.vocabulary, {"/proc/self/exe", kCompileGrammars, std::to_string(files_.spec().vocab_size)}, {}) {
  CheckDraftTokens(topology, files_);
  text_.NoteChoices(topology_.model);
  files_.CloseFiles();  // changes of the files no longer affect this process
}

std::vector<std::string> ServedModel::Names() const {
  std::vector<std::string> names = {name()};
  std::ranges::copy(topology_.model.aliases, std::back_inserter(names));
  std::ranges::move(adapters_.Names(), std::back_inserter(names));
  return names;
}

void ServedModel::SetMemory(const ModelNeed& need, int64_t kv, const PlannedLimits& limits) {
  SetKvShare(kv, need, topology_.cache);
  need_ = need;
  kv_bytes_ = kv;
  limits_ = limits;
}

void ServedModel::Start(std::function<void(const std::string&)> on_lost) {
  const auto ready = std::make_shared<std::promise<void>>();
  BeginStart([ready](const std::exception_ptr& failure) {
    if (failure == nullptr) return ready->set_value();
    ready->set_exception(failure);
  });
  ready->get_future().get();
  FinishStart(std::move(on_lost));
}

void ServedModel::BeginStart(std::function<void(std::exception_ptr)> started) {
  phase_ = LifePhase::kLoading;
  workers_ = std::make_shared<ModelWorkers>(topology_, files_, cancel_, text_.vocabulary, events_, log_name_,
                                            std::move(started));
}

void ServedModel::FinishStart(std::function<void(const std::string&)> on_lost) {
  phase_ = LifePhase::kLoaded;
  replicas().Begin(std::move(on_lost));
  adapters_.Begin(replicas());
  if (limits_.model_len > 0) return;
  limits_ = {INT32_MAX, INT32_MAX};
  for (int r = 0; r < replicas().size(); ++r) {
    limits_.model_len = std::min(limits_.model_len, replicas().at(r).deployment().max_model_len());
    limits_.usable_blocks = std::min(limits_.usable_blocks, replicas().at(r).view().usable_blocks);
  }
}

void ServedModel::DropStart() {
  workers_.reset();
  phase_ = LifePhase::kUnloaded;
}

void ServedModel::Retire() {
  phase_ = LifePhase::kUnloading;
  adapters_.End();
  // Later starts must have as many blocks as the first start, because the limits of calls depend on the number of
  // blocks.
  if (kv_bytes_ == 0) topology_.cache.num_blocks = limits_.usable_blocks;
}

bool ServedModel::EndWhenFree(std::function<void()> ended) {
  // From now on the use count cannot grow: new holders come only from Hold(), which is called on this thread and
  // returns null by now.
  if (workers_.use_count() > 1) return false;
  if (ender_.joinable()) ender_.join();
  ender_ = std::thread([this, workers = std::move(workers_), ended = std::move(ended)]() mutable {
    grammars_.EndIfIdle();
    workers->replicas().FinishSaving(kMostSaving);
    workers->replicas().StopLoops();
    workers->replicas().StopWorkers("the model is unloaded");
    workers.reset();
    ended();
  });
  return true;
}

void ServedModel::BeginSleep(std::function<void(int64_t)> asleep) {
  phase_ = LifePhase::kFallingAsleep;
  if (ender_.joinable()) ender_.join();
  ender_ = std::thread([this, workers = workers_, need = need_, most = bytes(), asleep = std::move(asleep)]() mutable {
    grammars_.EndIfIdle();
    workers->replicas().FinishSaving(kMostSaving);
    const std::optional<int64_t> kept = workers->replicas().FreeMemory(kMostFreeing);
    workers.reset();  // before the call, after which the workers may be ended
    asleep(kept ? need.weights + need.working + *kept : most);
  });
}

void ServedModel::StopLoops() {
  if (ender_.joinable()) ender_.join();
  if (phase_ == LifePhase::kLoading) {
    cancel_ = true;
    return DropStart();
  }
  if (workers_ == nullptr) return;
  replicas().FinishSaving(kMostSavingAtEnd);
  replicas().StopLoops();
}

void ServedModel::StopWorkers(const std::string& reason) {
  if (workers_ != nullptr) replicas().StopWorkers(reason);
}

void ServedModel::End() {
  if (ender_.joinable()) ender_.join();
  adapters_.End();
  workers_.reset();
}

const char* NameOf(ModelState state) {
  constexpr const char* kNames[] = {"ready",     "restarting", "lost",           "loading",
                                    "unloading", "unloaded",   "falling_asleep", "asleep"};
  return kNames[static_cast<size_t>(state)];
}

ModelState ServedModel::state() const {
  switch (phase_) {
    case LifePhase::kUnloaded:
      return ModelState::kUnloaded;
    case LifePhase::kLoading:
      return ModelState::kLoading;
    case LifePhase::kUnloading:
      return ModelState::kUnloading;
    case LifePhase::kLoaded:
    case LifePhase::kFallingAsleep:
    case LifePhase::kAsleep:
      break;
  }
  if (!replicas().serving()) return ModelState::kLost;
  if (phase_ == LifePhase::kFallingAsleep) return ModelState::kFallingAsleep;
  if (phase_ == LifePhase::kAsleep) return ModelState::kAsleep;
  return replicas().ready() ? ModelState::kReady : ModelState::kRestarting;
}

CallLimits ServedModel::LimitsOfCalls() {
  const int running = topology_.scheduler.max_running;
  return {text_.LimitsWith(limits_.model_len, std::min(128, running)),
          int64_t{limits_.usable_blocks} * topology_.cache.block_size};
}

}  // namespace quire
