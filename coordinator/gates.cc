#include "coordinator/gates.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include "comm/curve_keys.h"
#include "comm/error.h"

namespace quire {

namespace {

Gate::Options DataOptions(const Topology::Listener& server) {
  return {server.key_file, {"/health", "/ready", "/ping"}, server.allow_unauthenticated};
}

Gate::Options AdminOptions(const Topology::Listener& admin) { return {admin.key_file, {"/"}, false}; }

void ReloadOne(Gate& gate, const char* what) {
  if (!gate.has_keys()) return;
  try {
    gate.Reload();
    spdlog::info("read {} {} again", gate.keys().keys().size(), what);
  } catch (const Error& error) {
    spdlog::error("kept the {} as they were: {}", what, error.what());
  }
}

}  // namespace

Gates::Gates(const Topology& topology) : data(DataOptions(topology.server)), admin(AdminOptions(topology.admin)) {
  CheckKeysDiffer(data, admin);
}

void CheckKeyFiles(const Topology& topology) {
  const Gates gates(topology);
  const std::string& transport = topology.transport.keys;
  if (!transport.empty()) (void)LoadCoordinatorKeys(transport, topology.parallel.tensor);
}

void Gates::ReloadOnSignal(boost::asio::io_context& io) {
  signal_.emplace(io, SIGHUP);  // also without keys: whoever reloads all services must not end this one
  AwaitSignal();
}

void Gates::AwaitSignal() {
  signal_->async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    ReloadOne(data, "API keys");
    ReloadOne(admin, "admin tokens");
    AwaitSignal();
  });
}

}  // namespace quire
