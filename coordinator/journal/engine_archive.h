#pragma once

#include <memory>
#include <vector>

#include "coordinator/core/engine.h"
#include "coordinator/journal/archive.h"

namespace quire {

/// A request as it was submitted: enough to submit it again. Written by SaveSubmitted, read by LoadSubmitted.
void SaveSubmitted(ArchiveWriter& out, const Request& request);
std::unique_ptr<Request> LoadSubmitted(ArchiveReader& in);

/// A request as it stands between two engines.
void SaveMoving(ArchiveWriter& out, const Request& request);
std::unique_ptr<Request> LoadMoving(ArchiveReader& in);

void SaveTokens(ArchiveWriter& out, const std::vector<SampledToken>& tokens);
std::vector<SampledToken> LoadTokens(ArchiveReader& in);

/// The whole state of an engine between two calls, and back, outstanding steps included. A loaded engine makes the same
/// plans from then on; its requests have no sinks until they are given some.
class EngineArchive {
 public:
  static void Save(ArchiveWriter& out, const Engine& engine);
  static std::unique_ptr<Engine> Load(ArchiveReader& in, const std::shared_ptr<RequestSink>& sink);

 private:
  template <class Archive>
  static void TransferScalars(Archive& archive, Engine& engine);
  static Request* Find(const Engine& engine, RequestId id);
  static void SaveQueue(ArchiveWriter& out, const Scheduler& scheduler);
  static void LoadQueue(ArchiveReader& in, Engine& engine);
  static void SaveSteps(ArchiveWriter& out, const OutstandingSteps& steps);
  static void LoadSteps(ArchiveReader& in, Engine& engine);
};

}  // namespace quire
