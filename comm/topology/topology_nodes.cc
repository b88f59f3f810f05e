#include <set>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"
#include "comm/topology/topology.h"

namespace quire {

namespace {

void ValidateNode(const Topology::Node& node, const std::string& where) {
  if (!IsMadeOf(node.interface, "._:/-") || node.interface.starts_with('-') || node.interface.size() > 64) {
    Fail("{}: nodes: interface \"{}\" of {} must be a name such as eth0 or a network such as 10.0.0.0/24", where,
         node.interface, node.host);
  }
  if (node.slots > 0 && !node.devices.empty() && node.slots > static_cast<int>(node.devices.size())) {
    Fail("{}: nodes: {} has {} slots for {} devices; list a device for each rank", where, node.host, node.slots,
         node.devices.size());
  }
}

/// Some settings become words of commands on other nodes. Throws Error when such a setting has characters that a node's
/// shell would interpret.
void ValidateLaunch(const Topology::Launch& launch, const std::string& where) {
  if (launch.agent.empty() || !IsMadeOf(launch.agent, "._/+-") || launch.agent.starts_with('-')) {
    Fail("{}: launch.agent \"{}\" must be a program name or a path, without options (ssh has ~/.ssh/config for them)",
         where, launch.agent);
  }
  for (const std::string& argument : launch.args) {
    if (!IsMadeOf(argument, "._/:,=@%+^-")) {
      Fail("{}: launch.args: \"{}\" has characters that a shell on another node would read", where, argument);
    }
  }
}

void ValidateTransport(const Topology::Transport& transport, int replicas, const std::string& where) {
  if (transport.bind.empty() || transport.ports.size() != 2 || StaysOnHost(transport.bind)) {
    Fail(
        "{}: several nodes need transport.bind, an address of this host that they reach, and transport.ports: [data, "
        "control]",
        where);
  }
  const auto& ports = transport.mpi_ports;
  if (ports.size() != 2 || ports[1] - ports[0] < replicas * kFewestMpiPorts - 1) {
    Fail("{}: transport.mpi_ports must be [first, last] with at least {} ports for each replica", where,
         kFewestMpiPorts);
  }
  for (const int port : transport.ports) {
    if (port >= ports[0] && port <= ports[1]) Fail("{}: port {} is among transport.mpi_ports, too", where, port);
  }
}

}  // namespace

bool StaysOnHost(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

bool OnThisHost(const Topology& topology) {
  return topology.nodes.empty() || (topology.nodes.size() == 1 && StaysOnHost(topology.nodes[0].host));
}

void ValidateNodes(const Topology& t, const std::string& where) {
  const std::string& worker = t.launch.worker;
  if (!worker.empty() && (!IsMadeOf(worker, "._/+-") || !worker.starts_with('/'))) {
    Fail("{}: launch.worker \"{}\" must be an absolute path of letters, digits and ._/+-", where, worker);
  }
  std::set<std::string> hosts;
  size_t with_interface = 0;
  for (const Topology::Node& node : t.nodes) {
    ValidateNode(node, where);
    with_interface += node.interface.empty() ? 0 : 1;
    if (!hosts.insert(node.host).second) Fail("{}: nodes: {} is listed twice; give it slots instead", where, node.host);
    if (t.nodes.size() > 1 && StaysOnHost(node.host)) {
      Fail("{}: nodes: {} is another machine on every node; give an address that all nodes reach", where, node.host);
    }
  }
  if (with_interface != 0 && with_interface != t.nodes.size())
    Fail("{}: nodes: give every node an interface, or none", where);
  if (OnThisHost(t) || t.launch.method == LaunchMethod::kExternal) return;
  ValidateLaunch(t.launch, where);
  ValidateTransport(t.transport, t.parallel.replicas, where);
}

}  // namespace quire
