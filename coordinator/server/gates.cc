#include "coordinator/server/gates.h"

#include <fmt/ranges.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "comm/base/error.h"
#include "comm/wire/curve/curve_keys.h"
#include "coordinator/api/admin/adapter_pages.h"
#include "coordinator/api/admin/sleep_pages.h"
#include "coordinator/server/exposure.h"
#include "coordinator/web/web_pages.h"

namespace quire {

namespace {

/// Returns the paths that need no key: `others`, and the files of a web page, which contain no data of this server. The
/// page's later requests need a key, which the user types in.
std::set<std::string> PublicPaths(WebPage page, std::set<std::string> others) {
  for (std::string& path : WebPaths(page)) others.insert(std::move(path));
  return others;
}

Gate::Options DataOptions(const Topology& topology) {
  const Topology::Listener& server = topology.server;
  std::set<std::string> probes = {"/health", "/ready", "/ping"};
  if (topology.metrics.on_data_port) probes.insert("/metrics");
  return {.key_file = server.key_file,
          .public_paths = server.chat_page ? PublicPaths(WebPage::kChat, probes) : probes,
          .any_host = server.allow_unauthenticated,
          .origins = server.allowed_origins,
          .hosts = server.allowed_hosts,
          .encrypted = !server.certificate.empty()};
}

Gate::Options AdminOptions(const Topology::Listener& admin) {
  return {.key_file = admin.key_file,
          .public_paths = PublicPaths(WebPage::kDashboard, {}),
          .kind = KeyKind::kAdmin,
          .encrypted = !admin.certificate.empty()};
}

/// Returns the options of the metrics port's gate. On loopback the gate accepts only local host names; on other
/// addresses collectors may use any name.
Gate::Options MetricsOptions(const Topology::Metrics& metrics) {
  return {.any_host = !metrics.listen.empty() && ReachOf(ParseHostPort(metrics.listen)->host) != Reach::kLoopback};
}

std::unique_ptr<TlsCertificate> CertificateOf(const Topology::Listener& listener) {
  return listener.certificate.empty() ? nullptr : std::make_unique<TlsCertificate>(listener.certificate, listener.key);
}

void ReloadOne(TlsCertificate* certificate, const char* what) {
  if (certificate == nullptr) return;
  try {
    certificate->Reload();
    spdlog::info("read the {} again", what);
  } catch (const Error& error) {
    spdlog::error("kept the {} as it was: {}", what, error.what());
  }
}

void ReloadOne(Gate& gate, const Gate& other, const char* what) {
  if (!gate.has_keys()) return;
  try {
    gate.Reload(other);
    spdlog::info("read {} {} again", gate.keys().keys().size(), what);
  } catch (const Error& error) {
    spdlog::error("kept the {} as they were: {}", what, error.what());
  }
}

}  // namespace

Gates::Gates(const Topology& topology)
    : data(DataOptions(topology)),
      admin(AdminOptions(topology.admin)),
      metrics(MetricsOptions(topology.metrics)),
      data_certificate(CertificateOf(topology.server)),
      admin_certificate(CertificateOf(topology.admin)) {
  CheckKeysDiffer(data.keys(), admin.keys());
  KeepLimitedKeys(topology.key_limits);
  std::set<std::string> paths = AdapterPages::Paths();
  paths.merge(SleepPages::Paths());
  data.LeaveToOperators(std::move(paths), admin);
}

void Gates::KeepLimitedKeys(const std::map<std::string, Topology::KeyLimits>& all) {
  limited_keys_.clear();
  for (const auto& [name, limits] : all) {
    if (name != "default") limited_keys_.push_back(name);
  }
}

void Gates::NoteKeyLimits(const std::map<std::string, Topology::KeyLimits>& limits) {
  KeepLimitedKeys(limits);
  WarnOfLimitsWithoutKey();
}

void CheckKeyFiles(const Topology& topology) {
  const Gates gates(topology);
  const std::string& transport = topology.transport.keys;
  for (size_t i = 0; i < NumModels(topology) && !transport.empty(); ++i)
    (void)LoadCoordinatorKeys(transport, ModelTopology(topology, i).parallel.num_ranks());
}

void Gates::ReloadOnSignal(boost::asio::io_context& io, std::function<void()> also) {
  also_ = std::move(also);
  signal_.emplace(io, SIGHUP);  // even without keys, because an unhandled SIGHUP would end the process
  WarnOfLimitsWithoutKey();
  AwaitSignal();
}

/// Warns of limits for names that are in no key file: such a name may be misspelt, and the limit applies to no client.
void Gates::WarnOfLimitsWithoutKey() const {
  const std::vector<ApiKey>& keys = data.keys().keys();
  std::vector<std::string> unknown;
  std::ranges::copy_if(limited_keys_, std::back_inserter(unknown), [&](const std::string& name) {
    return std::ranges::none_of(keys, [&](const ApiKey& key) { return key.name == name; });
  });
  if (unknown.empty()) return;
  spdlog::warn("server.key_limits limits nobody under {}: no API key has such a name", fmt::join(unknown, ", "));
}

void Gates::AwaitSignal() {
  signal_->async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    ReloadOne(data, admin, "API keys");
    ReloadOne(admin, data, "admin tokens");
    WarnOfLimitsWithoutKey();
    ReloadOne(data_certificate.get(), "certificate");
    ReloadOne(admin_certificate.get(), "admin port's certificate");
    also_();
    AwaitSignal();
  });
}

}  // namespace quire
