#include "coordinator/check/command.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <vector>

#include "comm/base/error.h"
#include "comm/base/json.h"
#include "comm/base/printable.h"
#include "coordinator/check/preflight.h"
#include "coordinator/cluster/hosts/model_shares.h"

namespace quire {

namespace {

using Status = CheckLine::Status;

const char* Word(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kFailed:
      return "FAILED";
    case Status::kWarned:
      return "warning";
    case Status::kSkipped:
      return "skipped";
  }
  return "";
}

/// Prints a check. Escapes control characters, because parts of the text come from hosts and model files.
void Print(const CheckLine& line) {
  const std::string text =
      fmt::format("{:<8}{:<11}{:<16}{}{}", Word(line.status), line.check, line.host.empty() ? "this host" : line.host,
                  line.found, line.remedy.empty() ? "" : "; remedy: " + line.remedy);
  fmt::print("{}\n", WithoutControls(text));
  std::fflush(stdout);
}

/// Reads the key files in the same way as a start of the server, and reports an error.
void CheckKeys(const Topology& topology, const std::function<void(const Topology&)>& read,
               const std::function<void(const CheckLine&)>& report) {
  try {
    read(topology);
  } catch (const Error& error) {
    report({"keys", "", Status::kFailed, error.what(), "correct the file or its name (SECURITY.md)"});
  }
}

/// Checks every model of a list, with the share of this host's memory that the model would get. Lines about a model
/// begin with the model's name.
void CheckList(const Topology& topology, const std::function<void(const CheckLine&)>& report) {
  std::deque<ModelFiles> files;
  std::vector<const ModelFiles*> pointers;
  for (const ModelSettings& one : topology.models)
    files.push_back(ModelFiles::Open(one.model.path, one.model.load_format, one.model.AdapterPaths()));
  for (const ModelFiles& one : files) pointers.push_back(&one);
  const ListPlan list = PlanModels(topology, pointers);
  constexpr int64_t kMib = 1 << 20;
  if (!list.at_once) {
    report({"models", "", Status::kOk,
            fmt::format("not all fit into {} MiB at once, so idle ones are unloaded for others", list.room / kMib),
            ""});
  }
  for (size_t i = 0; i < files.size(); ++i) {
    report({"models", "", Status::kOk,
            fmt::format("{}: {} MiB of weights and {} MiB of KV cache, of {} MiB for all models", list.needs[i].name,
                        list.needs[i].weights / kMib, list.kv[i] / kMib, list.room / kMib),
            ""});
    RunPreflight(list.models[i], {}, [&](CheckLine line) {
      line.found = list.needs[i].name + ": " + line.found;
      report(line);
    });
  }
}

}  // namespace

int RunCheckCommand(const ServeFlags& flags, bool json, const std::function<void(const Topology&)>& check_keys) {
  std::vector<CheckLine> lines;
  const auto report = [&](const CheckLine& line) {
    lines.push_back(line);
    if (!json) Print(line);
  };
  try {
    const Topology topology = TopologyFromFlags(flags);
    report({"topology", "", Status::kOk, flags.topology_file.empty() ? "from flags" : flags.topology_file, ""});
    CheckKeys(topology, check_keys, report);
    if (NumModels(topology) > 1) {
      CheckList(topology, report);
    } else {
      RunPreflight(ModelTopology(topology, 0), {}, report);
    }
  } catch (const Error& error) {
    report({"topology", "", Status::kFailed, error.what(), "correct it; deploy/topologies/ has examples"});
  }
  const bool ok = std::ranges::none_of(lines, [](const CheckLine& line) { return line.status == Status::kFailed; });
  if (json) {
    Json checks = Json::array();
    for (const CheckLine& line : lines) {
      checks.push_back({{"check", line.check},
                        {"host", line.host},
                        {"status", Word(line.status)},
                        {"found", line.found},
                        {"remedy", line.remedy}});
    }
    fmt::print("{}\n", DumpJson({{"ok", ok}, {"checks", checks}}));
  }
  return ok ? 0 : 1;
}

}  // namespace quire
