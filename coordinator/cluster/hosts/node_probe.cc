#include "coordinator/cluster/hosts/node_probe.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "comm/base/error.h"
#include "comm/base/plain_word.h"
#include "comm/wire/messages.h"
#include "coordinator/cluster/hosts/listening.h"

namespace quire {

namespace {

using Status = CheckLine::Status;

/// mpirun's daemons and the ranks need at least this many free ports in the range transport.mpi_ports.
constexpr size_t kFewestFreePorts = 16;
// Bytes of each rank's buffers for collectives (comm/collective/), and of MPI's own shared memory.
constexpr int64_t kSharedBytesPerRank = 2 << 20, kSharedBytes = 16 << 20;

/// True when every shell reads the word as one word and changes nothing in it.
bool IsPlain(const std::string& word) { return !word.empty() && word[0] != '-' && IsMadeOf(word, "._/:,=@%+-"); }

std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal(); }

bool IsRemote(const std::string& host) { return !host.empty() && !IsThisHost(host); }

int64_t Number(const std::string& text) { return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10); }

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Turns the answer of one node into the lines of a check.
class Judge {
 public:
  Judge(const NodeNeeds& needs, std::map<std::string, std::string> answer)
      : needs_(needs), answer_(std::move(answer)) {}

  std::vector<CheckLine> Lines() {
    Say(kHostNameCheck, true, answer_["host"], "");
    Interface();
    Ports();
    SharedMemory();
    Memory();
    Keys();
    Model();
    return std::move(lines_);
  }

 private:
  void Say(const char* check, bool ok, const std::string& found, const std::string& remedy) {
    lines_.push_back({check, needs_.node.host, ok ? Status::kOk : Status::kFailed, found, ok ? "" : remedy});
  }

  void Interface() {
    if (needs_.node.interface.empty()) return;
    const std::string& found = answer_["interface"];
    Say("interface", found.starts_with("up "), needs_.node.interface + ": " + found,
        "set the node's interface to the one that the other nodes reach, and bring it up");
  }

  void Ports() {
    if (!answer_.contains("busy_ports")) return;
    const auto& ports = needs_.topology.transport.mpi_ports;
    std::istringstream words(answer_["busy_ports"]);
    const std::vector<std::string> busy{std::istream_iterator<std::string>(words), {}};
    const auto range = static_cast<size_t>(ports[1] - ports[0] + 1);
    const size_t free = range - std::min(busy.size(), range);
    std::string found = fmt::format("{} of {}-{} are free", free, ports[0], ports[1]);
    if (!busy.empty())
      found += fmt::format("; in use: {}", fmt::join(busy.begin(), std::min(busy.end(), busy.begin() + 8), " "));
    // mpirun's daemons use the first ports of the range.
    const bool ok = free >= kFewestFreePorts && std::ranges::find(busy, std::to_string(ports[0])) == busy.end();
    Say("ports", ok, found, "set transport.mpi_ports to a range that nothing else uses");
  }

  void SharedMemory() {
    const int64_t free = Number(answer_["shm"]),
                  needed = kSharedBytes + kSharedBytesPerRank * needs_.topology.parallel.num_ranks();
    Say("/dev/shm", free >= needed, fmt::format("{:.0f} MiB free", MiB(free)),
        fmt::format("{:.0f} MiB are needed; in a container, raise its shm size", MiB(needed)));
  }

  void Memory() {
    const int64_t free = Number(answer_["memory"]);
    Say("memory", free > needs_.weight_bytes,
        fmt::format("{:.0f} MiB available, {:.0f} MiB of weights; {} allows {:.0f} MiB in all", MiB(free),
                    MiB(needs_.weight_bytes), answer_["memory_limit"], MiB(Number(answer_["memory_total"]))),
        "give the node fewer ranks, or more memory");
  }

  void Keys() {
    if (!answer_.contains("keys")) return;
    Say("keys", answer_["keys"] == "private", answer_["keys"],
        "make the directory with quire keygen --transport and copy it there: same path, mode 0700, owned by the user "
        "who runs the workers");
  }

  void Model() {
    const std::string path = Absolute(needs_.topology.model.path);
    if (!answer_.contains("model")) {
      const bool from_files = needs_.topology.model.load_format == LoadFormat::kAuto;
      lines_.push_back({"model", needs_.node.host, Status::kSkipped,
                        path + (from_files ? " has characters that a shell would interpret: not asked for"
                                           : " is made up (load_format dummy): not asked for"),
                        ""});
      return;
    }
    const std::string& found = answer_["model"];
    const std::string prefix = "fingerprint ";
    if (!found.starts_with(prefix))
      return Say("model", false, found, fmt::format("copy the model to {} on that node", path));
    const std::string fingerprint = found.substr(prefix.size());
    const bool same = needs_.fingerprint.empty() || fingerprint == needs_.fingerprint;
    Say("model", same,
        fmt::format("{}: fingerprint {}{}", path, fingerprint.substr(0, 8),
                    same ? "" : ", not that of the coordinator's"),
        "copy the coordinator's model there");
  }

  const NodeNeeds& needs_;
  std::map<std::string, std::string> answer_;
  std::vector<CheckLine> lines_;
};

}  // namespace

std::map<std::string, std::string> ParseProbe(const std::string& output) {
  std::map<std::string, std::string> values;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = std::min(line.find(' '), line.size());
    values.emplace(line.substr(0, space), space < line.size() ? line.substr(space + 1) : "");
  }
  return values;
}

std::string FirstLine(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of("- \t") != std::string::npos) return line.substr(0, 200);
  }
  return "no output";
}

std::vector<std::string> HostProbeCommand(const Topology& topology, const std::string& host,
                                          const std::string& worker) {
  std::vector<std::string> command;
  if (IsRemote(host)) command = {topology.launch.agent, host};
  command.insert(command.end(), {worker, "--probe"});
  return command;
}

std::vector<std::string> ProbeCommand(const NodeNeeds& needs, const std::string& worker) {
  std::vector<std::string> command = HostProbeCommand(needs.topology, needs.node.host, worker);
  const bool remote = IsRemote(needs.node.host), network = !OnThisHost(needs.topology);
  const auto add = [&](const std::vector<std::string>& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  if (!needs.node.interface.empty()) add({"--probe-interface", needs.node.interface});
  const auto& ports = needs.topology.transport.mpi_ports;
  if (network) add({"--probe-ports", std::to_string(ports[0]), std::to_string(ports[1])});
  const std::string model = Absolute(needs.topology.model.path), keys = needs.topology.transport.keys;
  const bool from_files = needs.topology.model.load_format == LoadFormat::kAuto;
  if (from_files && (!remote || IsPlain(model))) add({"--probe-model", model});
  if (!keys.empty() && (!remote || IsPlain(Absolute(keys)))) add({"--probe-keys", Absolute(keys)});
  return command;
}

std::vector<CheckLine> JudgeProbe(const NodeNeeds& needs, const std::string& worker, const ProgramResult& result,
                                  std::chrono::seconds limit) {
  const std::string &host = needs.node.host, &agent = needs.topology.launch.agent;
  const auto failure = [&](const char* check, const std::string& found, const std::string& remedy) {
    return std::vector<CheckLine>{{check, host, Status::kFailed, found, remedy}};
  };
  const std::string try_it = fmt::format("try: {} {} true", agent, host);
  if (result.timed_out) return failure("reachable", fmt::format("no answer within {} s", limit.count()), try_it);
  const auto answer = ParseProbe(result.output);
  if (const auto version = answer.find("version"); result.status != 0 || version == answer.end()) {
    const bool no_agent = result.status == 127 && result.output.empty() && IsRemote(needs.node.host);
    if (no_agent) return failure("reachable", agent + " cannot be run", "install it, or set launch.agent to a program");
    if (result.status == 255) return failure("reachable", FirstLine(result.output), try_it);
    return failure("worker", fmt::format("{}: {}", worker, FirstLine(result.output)),
                   "install the same version there at that path, or set launch.worker to where it is");
  } else if (const auto ours = fmt::format("{} protocol {}", kBuildVersion, kProtocolVersion);
             version->second != ours) {
    return failure("worker", fmt::format("version {}, here {}", version->second, ours),
                   "install the same version there");
  }
  std::vector<CheckLine> lines = {
      {"worker", host, Status::kOk, fmt::format("{}: version {}", worker, answer.at("version")), ""}};
  std::ranges::move(Judge(needs, answer).Lines(), std::back_inserter(lines));
  return lines;
}

}  // namespace quire
