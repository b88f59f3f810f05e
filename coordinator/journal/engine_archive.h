#pragma once

#include <memory>
#include <vector>

#include "coordinator/core/engine/engine.h"
#include "coordinator/journal/archive.h"

namespace quire {

/// Save and load a request as it was submitted, so that it can be submitted again.
void SaveSubmitted(ArchiveWriter& out, const Request& request);
std::unique_ptr<Request> LoadSubmitted(ArchiveReader& in);

/// Save and load a request as it is on its way from one engine to another.
void SaveMoving(ArchiveWriter& out, const Request& request);
std::unique_ptr<Request> LoadMoving(ArchiveReader& in);

void SaveTokens(ArchiveWriter& out, const std::vector<SampledToken>& tokens);
std::vector<SampledToken> LoadTokens(ArchiveReader& in);

/// Saves and loads the whole state of an engine between two calls, including outstanding steps. Given the same
/// commands, a loaded engine makes the same plans as the saved engine.
class EngineArchive {
 public:
  /// Save and load an engine. All requests of a loaded engine report to `sink`, which may be null.
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
