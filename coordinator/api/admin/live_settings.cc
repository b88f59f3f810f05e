#include "coordinator/api/admin/live_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "comm/base/error.h"
#include "comm/base/yaml_tree.h"
#include "comm/topology/with_settings.h"
#include "coordinator/http/api_error.h"
#include "coordinator/http/process_limits.h"

namespace quire {

namespace {

constexpr const char* kKeyLimits = "server.key_limits";

/// A setting that can change at run time, and functions that copy its value. `copy` copies the value between
/// topologies. If each model has its own value of the setting, `copy_model` copies the value from one model to another;
/// otherwise `copy_model` is null.
struct LiveKey {
  const char* name;
  void (*copy)(const Topology& from, Topology& to);
  void (*copy_model)(const ModelSettings& from, ModelSettings& to) = nullptr;
};

void CopyPrefixCaching(const ModelSettings& from, ModelSettings& to) {
  to.cache.prefix_caching = from.cache.prefix_caching;
}
void CopyTarget(const ModelSettings& from, ModelSettings& to) {
  to.scheduler.target_inter_token_ms = from.scheduler.target_inter_token_ms;
}

/// Copies a setting that each model has: the value for all models, and the value of each model in the list.
template <auto copy_model>
void CopyModels(const Topology& from, Topology& to) {
  copy_model(from, to);
  for (size_t i = 0; i < std::min(from.models.size(), to.models.size()); ++i) copy_model(from.models[i], to.models[i]);
}

template <auto limit>
void CopyLimit(const Topology& from, Topology& to) {
  to.limits.*limit = from.limits.*limit;
}

// Changes of these settings reach the running server through LiveSettings::Apply or Engine::ChangeOptions. All other
// settings are read only at the start, when workers, pools, listeners and files are made.
constexpr LiveKey kLive[] = {
    {"cache.prefix_caching", CopyModels<CopyPrefixCaching>, CopyPrefixCaching},
    {"logs.level", [](const Topology& from, Topology& to) { to.logs.level = from.logs.level; }},
    {kKeyLimits, [](const Topology& from, Topology& to) { to.key_limits = from.key_limits; }},
    {"scheduler.target_inter_token_ms", CopyModels<CopyTarget>, CopyTarget},
    {"server.limits.body_bytes_per_second", CopyLimit<&Topology::Limits::body_bytes_per_second>},
    {"server.limits.body_seconds", CopyLimit<&Topology::Limits::body_seconds>},
    {"server.limits.drain_seconds", CopyLimit<&Topology::Limits::drain_seconds>},
    {"server.limits.head_seconds", CopyLimit<&Topology::Limits::head_seconds>},
    {"server.limits.idle_seconds", CopyLimit<&Topology::Limits::idle_seconds>},
    {"server.limits.memory_bytes", CopyLimit<&Topology::Limits::memory_bytes>},
    {"server.limits.memory_bytes_per_client", CopyLimit<&Topology::Limits::memory_bytes_per_client>},
    {"server.limits.queue_seconds", CopyLimit<&Topology::Limits::queue_seconds>},
    {"server.limits.request_seconds", CopyLimit<&Topology::Limits::request_seconds>},
    {"server.limits.write_bytes_per_second", CopyLimit<&Topology::Limits::write_bytes_per_second>},
    {"server.limits.write_seconds", CopyLimit<&Topology::Limits::write_seconds>}};

const LiveKey* Find(const std::string& key) {
  const auto it = std::ranges::find(kLive, key, [](const LiveKey& live) { return std::string(live.name); });
  return it == std::end(kLive) ? nullptr : it;
}

void RefuseUnlessLive(const std::string& key) {
  if (Find(key) != nullptr) return;
  throw ApiError(400,
                 fmt::format("{} cannot change while the server runs; put it into the topology file, or give its flag, "
                             "and restart. What can: {}",
                             key, fmt::join(LiveSettings::Keys(), ", ")),
                 key);
}

Topology WithLimitsOfThisProcess(Topology topology) {
  topology.limits = LimitsOfThisProcess(topology.limits);
  return topology;
}

}  // namespace

std::vector<std::string> LiveSettings::Keys() {
  std::vector<std::string> keys;
  for (const LiveKey& live : kLive) keys.emplace_back(live.name);
  return keys;
}

LiveSettings::LiveSettings(Topology started, Apply apply)
    : started_(std::move(started)),
      apply_(std::move(apply)),
      given_(started_),
      in_force_(WithLimitsOfThisProcess(started_)) {}

Json LiveSettings::LayKeyLimits(const Json& limits, Topology& next) const {
  if (!limits.is_object()) return limits;  // the reader of settings refuses it
  Json entries = Json::object();
  for (const auto& [name, entry] : limits.items()) {
    next.key_limits.erase(name);
    if (!entry.is_null()) entries[name] = entry;
  }
  return entries;
}

std::vector<std::string> LiveSettings::Change(const Json& changes) {
  if (!changes.is_object()) throw ApiError(400, "the body must be an object of keys and values");
  Topology next = given_;
  std::vector<std::string> keys;
  std::vector<SettingOverride> given;
  for (const auto& [key, value] : changes.items()) {
    keys.push_back(key);
    if (value.is_null()) {
      RefuseUnlessLive(key);
      Find(key)->copy(started_, next);
      continue;
    }
    const Json read = key == kKeyLimits ? LayKeyLimits(value, next) : value;
    given.push_back({.key = key, .value = ParseYaml(DumpJson(read), key), .given_as = key});
  }
  next = WithSettings(std::move(next), given);  // throws for unknown keys and bad values
  for (const std::string& key : keys) RefuseUnlessLive(key);
  for (const SettingOverride& setting : given) {
    const LiveKey& live = *Find(setting.key);
    for (ModelSettings& model : next.models)
      if (live.copy_model != nullptr) live.copy_model(next, model);
  }
  ValidateTopology(next, "these changes");
  TakeEffect(std::move(next));
  return keys;
}

void LiveSettings::TakeEffect(Topology next) {
  given_ = std::move(next);
  in_force_ = WithLimitsOfThisProcess(given_);
  apply_(in_force_);
}

std::vector<std::string> LiveSettings::Follow(const Topology& before, const Topology& now) {
  Topology started = started_, next = given_;
  std::vector<std::string> keys;
  for (const LiveKey& live : kLive) {
    Topology same = before;
    live.copy(now, same);
    if (same == before) continue;
    keys.emplace_back(live.name);
    live.copy(now, started);
    live.copy(now, next);
  }
  if (keys.empty()) return keys;
  ValidateTopology(next, "these settings, with what was changed while the server runs");
  started_ = std::move(started);
  TakeEffect(std::move(next));
  return keys;
}

bool LiveSettings::AreEqualButForLiveKeys(const Topology& one, const Topology& other) {
  Topology same = one;
  for (const LiveKey& live : kLive) live.copy(other, same);
  return same == other;
}

}  // namespace quire
