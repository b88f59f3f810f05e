#include "coordinator/cli/options.h"

#include <algorithm>
#include <filesystem>

#include "comm/base/error.h"
#include "comm/base/yaml_tree.h"
#include "comm/model/formats/gguf_parts.h"
#include "comm/model/formats/mapped_file.h"
#include "coordinator/cli/model_fetch.h"
#include "coordinator/cluster/launch/backend_settings.h"
#include "coordinator/server/exposure.h"
#include "coordinator/text/answers/answer_format.h"

namespace quire {

namespace {

/// Checks the names of the parsers for tool calls and reasoning. Only the coordinator knows these names.
void CheckParsers(const Topology::Model& model, const std::string& where) {
  if (model.tool_call_parser != "auto" && !ToolFormatNamed(model.tool_call_parser))
    Fail("{}: --tool-call-parser {} is not known; auto, {} are", where, model.tool_call_parser, ToolFormatNames());
  if (model.reasoning_parser != "auto" && !ReasoningFormatNamed(model.reasoning_parser))
    Fail("{}: --reasoning-parser {} is not known; auto, {} are", where, model.reasoning_parser, ReasoningFormatNames());
}

void CheckSwap(const Topology& t, const std::string& where) {
  if (t.scheduler.preemption == PreemptionMode::kSwap && t.cache.host_swap_bytes == 0) {
    Fail("{}: preemption by swap needs host memory; give --swap-space GiB (cache.host_swap)", where);
  }
}

std::string WithHostOrPort(const std::string& listen, const std::string& host, const std::optional<int>& port) {
  if (host.empty() && !port) return listen;  // ValidateTopology checks the listen address
  const auto parsed = ParseHostPort(listen);
  const std::string h = !host.empty() ? host : parsed ? parsed->host : "127.0.0.1";
  const int p = port ? *port : parsed ? parsed->port : 0;
  return h.find(':') != std::string::npos ? fmt::format("[{}]:{}", h, p) : fmt::format("{}:{}", h, p);
}

/// Returns the name for clients if the user gives none: ORG/NAME as typed, otherwise the name of the file or folder.
std::string DefaultModelName(const std::string& given, const std::string& found) {
  if (given != found) return given;
  std::filesystem::path path = std::filesystem::path(found).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (const auto part = GgufPartNamed(path)) return std::filesystem::path(part->prefix).filename();
  return path.extension() == ".gguf" ? path.stem() : path.filename();
}

/// Checks those settings of one model that only the coordinator can check.
void CheckModel(const Topology& t, const std::string& where) {
  if (const BackendKind backend = t.compute.backend; backend != BackendKind::kAuto)
    CheckBackendSettings(t, backend, fmt::format("{}: --backend {}", where, NameOf(backend)));
  CheckSwap(t, where);
  CheckParsers(t.model, where);
}

/// Finds the files of the model and of its draft model; with `fetch`, fetches models that the Hugging Face cache lacks.
/// Names the model after its files unless it has a name.
void FindModelOf(ModelSettings& settings, bool fetch) {
  std::string& draft = settings.speculation.draft_model;
  if (!draft.empty()) draft = FindOrFetchModel(draft, fetch);
  Topology::Model& model = settings.model;
  const std::string given = model.path;
  model.path = FindOrFetchModel(given, fetch);
  if (model.name.empty()) model.name = DefaultModelName(given, model.path);
}

std::string PlaceOf(const ServeFlags& flags) {
  return flags.topology_file.empty() ? "command line" : flags.topology_file;
}

}  // namespace

Topology SettingsFromFlags(const ServeFlags& flags) {
  const bool file = !flags.topology_file.empty();
  const std::string text = file ? ReadTextFile(flags.topology_file, kMaxYamlBytes) : "{}";
  Topology t = TopologyFromYaml(text, file ? flags.topology_file : "command line", OverridesOf(flags));
  t.server.listen = WithHostOrPort(t.server.listen, flags.host, flags.port);
  t.admin.listen = WithHostOrPort(t.admin.listen, "", flags.admin_port);
  return t;
}

Topology ValidSettingsFromFlags(const ServeFlags& flags) {
  Topology t = SettingsFromFlags(flags);
  ValidateTopology(t, PlaceOf(flags));
  return t;
}

Topology TopologyFromFlags(const ServeFlags& flags) {
  Topology t = ValidSettingsFromFlags(flags);
  const std::string where = PlaceOf(flags);
  for (size_t i = 0; i < NumModels(t); ++i) CheckModel(ModelTopology(t, i), where);
  CheckExposure(t, where);
  if (t.models.empty()) {
    FindModelOf(t, flags.fetch);
    return t;
  }
  for (ModelSettings& one : t.models) FindModelOf(one, flags.fetch);
  static_cast<ModelSettings&>(t) = t.models.front();
  ValidateTopology(t, where);  // a second time, because every model now has its name
  return t;
}

}  // namespace quire
