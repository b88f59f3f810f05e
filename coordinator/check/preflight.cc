#include "coordinator/check/preflight.h"

#include <algorithm>
#include <map>

#include "comm/base/error.h"
#include "comm/base/host_name.h"
#include "comm/model/checksums.h"
#include "comm/model/model_files.h"
#include "coordinator/cluster/hosts/listening.h"
#include "coordinator/cluster/hosts/memory_plan.h"
#include "coordinator/cluster/hosts/node_probe.h"
#include "coordinator/cluster/hosts/program.h"
#include "coordinator/cluster/launch/draft_model.h"
#include "coordinator/cluster/launch/launcher.h"
#include "coordinator/cluster/launch/private_network.h"
#include "coordinator/cluster/launch/runtime_dir.h"
#include "coordinator/http/process_limits.h"
#include "coordinator/text/templates/chat_template.h"
#include "coordinator/text/tokenizer/same_tokens.h"

namespace quire {

namespace {

using Status = CheckLine::Status;

bool IsAboutAnswering(const CheckLine& line) { return line.check == "reachable" || line.check == "worker"; }

/// Runs the checks in such an order that an earlier failure explains later failures.
class Preflight {
 public:
  Preflight(const Topology& topology, const PreflightOptions& options,
            const std::function<void(const CheckLine&)>& report)
      : topology_(topology), options_(options), report_(report) {}

  void Run() {
    CheckMpirun();
    CheckNetwork();
    CheckAddresses();
    CheckModel();
    CheckChecksums();
    CheckTemplate();
    CheckPlacement();
    if (std::ranges::none_of(topology_.nodes, [](const auto& node) { return IsThisHost(node.host); }))
      node_of_name_[OwnHostName()] = "the coordinator's host";
    for (const NodeRanks& ranks : placement_.nodes) CheckNode(topology_.nodes[ranks.node], ranks.count);
    for (const Topology::Node& node : topology_.nodes) {
      if (node.spare) CheckNode(node, 0);
    }
    if (OnThisHost(topology_)) CheckNode({}, topology_.parallel.num_ranks());
    CheckSizes();
    CheckFiles();
    CheckSums();
  }

 private:
  void Ok(const std::string& check, const std::string& host, const std::string& found) {
    report_({check, host, Status::kOk, found, ""});
  }
  void Fails(const std::string& check, const std::string& host, const std::string& found, const std::string& remedy) {
    failed_ = true;
    report_({check, host, Status::kFailed, found, remedy});
  }
  void Warn(const std::string& check, const std::string& found) { report_({check, "", Status::kWarned, found, ""}); }
  void Skip(const std::string& check, const std::string& why) { report_({check, "", Status::kSkipped, why, ""}); }

  void CheckMpirun() {
    if (topology_.launch.method == LaunchMethod::kExternal) return Skip("mpirun", "launch.method is external");
    const auto path = FindProgram("mpirun");
    if (!path) return Fails("mpirun", "", "not in PATH", "apt-get install openmpi-bin");
    try {
      CheckMpirunAllowed();
    } catch (const Error& error) {
      return Fails("mpirun", "", "refuses to run as root", error.what());
    }
    const ProgramResult version = RunProgram({*path, "--version"}, options_.host_limit);
    Ok("mpirun", "", fmt::format("{}: {}", *path, version.output.substr(0, version.output.find('\n'))));
  }

  /// Reports which machines can reach mpirun's ports.
  void CheckNetwork() {
    if (topology_.launch.method == LaunchMethod::kExternal) return;
    try {
      network_ = ChoosePrivateNetwork(topology_);
      Ok("network", "", "mpirun " + network_.InWords());
    } catch (const Error& error) {
      Fails("network", "", error.what(), "set transport.private_network to auto, or allow user namespaces");
    }
  }

  void CheckAddress(const char* setting, const std::string& address, int port) {
    const std::string where = fmt::format("{} {}:{}", setting, address, port);
    const std::string problem = ListeningProblem(address, port);
    if (problem.empty()) return Ok("listen", "", where);
    Fails("listen", "", fmt::format("{}: {}", where, problem),
          fmt::format("give {} an address of this host and a port that nobody listens on", setting));
  }

  void CheckAddresses() {
    const auto server = ParseHostPort(topology_.server.listen), admin = ParseHostPort(topology_.admin.listen);
    CheckAddress("server.listen", server->host, server->port);
    CheckAddress("admin.listen", admin->host, admin->port);
    for (const int port : topology_.transport.ports)
      if (!topology_.transport.bind.empty()) CheckAddress("transport.bind", topology_.transport.bind, port);
  }

  void CheckModel() {
    try {
      const ModelFiles model = ModelFiles::Open(topology_.model.path, topology_.model.load_format);
      CheckDraftModel(model);
      fingerprint_ = model.Fingerprint();
      model_bytes_ = model.TotalBytes();
      Ok("model", "",
         fmt::format("{}: {:.1f} MiB, fingerprint {}", topology_.model.path,
                     static_cast<double>(model_bytes_) / (1 << 20), fingerprint_.substr(0, 8)));
    } catch (const std::exception& error) {
      Fails("model", "", error.what(), "set model.path to an HF directory or a GGUF file that this version reads");
    }
  }

  void CheckDraftModel(const ModelFiles& model) {
    const Topology::Speculation& speculation = topology_.speculation;
    const bool by_layer = speculation.method == SpeculationMethod::kMtp;
    if (!by_layer && speculation.method != SpeculationMethod::kDraftModel) return;
    try {
      DraftModelOf(topology_, model);
      if (by_layer) return Ok("draft", "", "a layer of the model's own files guesses for it");
      CheckSameTokens(ModelFiles::Open(speculation.draft_model, topology_.model.load_format), model);
      Ok("draft", "", fmt::format("{} guesses for it", speculation.draft_model));
    } catch (const std::exception& error) {
      Fails("draft", "", error.what(),
            by_layer ? "take another speculation.method, such as ngram"
                     : "set speculation.model to a smaller model with the same tokenizer");
    }
  }

  void CheckChecksums() {
    const Topology::Model& model = topology_.model;
    if (model.checksums.empty()) return;
    try {
      const int64_t bytes = VerifyChecksums(model.path, model.checksums);
      Ok("checksums", "",
         fmt::format("{}: {:.1f} MiB as listed", model.checksums, static_cast<double>(bytes) / (1 << 20)));
    } catch (const std::exception& error) {
      Fails("checksums", "", error.what(), "fetch the model again, or correct model.checksums (--verify-checksum)");
    }
  }

  void CheckTemplate() {
    const std::string& file = topology_.model.chat_template;
    if (file.empty()) return;
    try {
      const std::string source = ReadChatTemplate(file);
      Ok("template", "", fmt::format("{}: {} bytes", file, source.size()));
    } catch (const std::exception& error) {
      Fails("template", "", error.what(), "correct the file, or leave out model.chat_template (--chat-template)");
    }
  }

  void CheckPlacement() {
    if (OnThisHost(topology_) || topology_.launch.method == LaunchMethod::kExternal) return;
    placement_ = PlaceRanks(topology_, topology_.parallel.num_ranks(), {});
    if (!placement_.problem.empty())
      return Fails("placement", "", placement_.problem, "change nodes, parallel.tensor or parallel.pipeline");
    std::vector<std::string> places;
    for (const NodeRanks& ranks : placement_.nodes)
      places.push_back(fmt::format("{} on {}", ranks.count, topology_.nodes[ranks.node].host));
    Ok("placement", "", fmt::format("{} ranks: {}", topology_.parallel.num_ranks(), fmt::join(places, ", ")));
  }

  /// Checks one node, on which num_ranks ranks would run. An empty node.host means this host, where ranks need no
  /// network.
  void CheckNode(const Topology::Node& node, int num_ranks) {
    if (topology_.launch.method == LaunchMethod::kExternal) return;
    const int all = topology_.parallel.num_ranks();
    const NodeNeeds needs{topology_, node, num_ranks, fingerprint_, num_ranks * (model_bytes_ / all)};
    std::string worker;
    try {
      worker = WorkerBinary(topology_);
    } catch (const Error& error) {
      nodes_answer_ = false;
      return Fails("worker", node.host, "not found", error.what());
    }
    const ProgramResult result = RunProgram(ProbeCommand(needs, worker), options_.host_limit);
    for (CheckLine line : JudgeProbe(needs, worker, result, options_.host_limit)) {
      if (line.check == kHostNameCheck && !node.host.empty()) CheckHostName(line);
      failed_ = failed_ || line.status == Status::kFailed;
      nodes_answer_ = nodes_answer_ && (line.status != Status::kFailed || !IsAboutAnswering(line));
      report_(line);
    }
  }

  /// Fails when two nodes have the same host name. Open MPI tells nodes apart by their own names. If names are equal, a
  /// start may succeed, but after the loss of a node Open MPI's daemons crash again and again.
  void CheckHostName(CheckLine& line) {
    const auto [other, is_new] = node_of_name_.try_emplace(line.found, line.host);
    if (is_new) return;
    line.status = Status::kFailed;
    line.found = fmt::format("{}, as {} calls itself, too", line.found, other->second);
    line.remedy = "give every node a host name of its own (hostnamectl set-hostname NAME)";
  }

  /// Checks whether the model fits into the memory, by the same computation as `quire plan` and a start of the server.
  void CheckSizes() {
    if (topology_.launch.method == LaunchMethod::kExternal)
      return Skip("sizes", "workers are started by somebody else");
    if (fingerprint_.empty() || !nodes_answer_) return Skip("sizes", "a model or a node above is broken");
    try {
      NodeAnswers nodes;
      const ModelFiles model = ModelFiles::Open(topology_.model.path, topology_.model.load_format);
      const MemoryPlan plan = PlanMemory(topology_, model, 0, nodes);
      for (const std::string& warning : plan.warnings) Warn("sizes", warning);
      if (!plan.problem.empty()) return Fails("sizes", "", plan.problem, "quire plan says what would fit");
      Ok("sizes", "",
         fmt::format("{} KV blocks and {} of swap space for each rank, {}sequences of up to {} tokens{}",
                     plan.usable_blocks(), plan.pools.num_host_blocks, WorkingOf(plan), plan.model_len,
                     StagesOf(plan)));
    } catch (const Error& error) {
      Skip("sizes", error.what());
    }
  }

  /// Returns the largest memory in MiB that a rank takes besides weights and cache blocks, as text; empty where that
  /// memory is not known.
  static std::string WorkingOf(const MemoryPlan& plan) {
    int64_t most = 0;
    for (const RankInfo& rank : plan.ranks) most = std::max(most, rank.working.total());
    return most == 0 ? "" : fmt::format("{} MiB beside weights and blocks, ", most >> 20);
  }

  static std::string StagesOf(const MemoryPlan& plan) {
    const std::vector<int32_t>& layers = plan.assignment.stage_layers;
    return layers.empty() ? "" : fmt::format(", {} stages of {} layers", layers.size(), fmt::join(layers, ", "));
  }

  void CheckFiles() {
    const std::string warning = DescriptorWarning(topology_.limits, LimitsOfThisProcess(topology_.limits));
    if (!warning.empty()) return Warn("files", warning);
    Ok("files", "", fmt::format("descriptors for {} connections", topology_.limits.connections));
  }

  void CheckSums() {
    if (topology_.launch.method == LaunchMethod::kExternal) return Skip("sums", "workers are started by somebody else");
    if (failed_) return Skip("sums", "something above is broken");
    const RuntimeDir directory;
    const std::vector<std::string> worker = {WorkerBinary(topology_),
                                             "--bench-allreduce",
                                             "/dev/null",
                                             "--bench-min-bytes",
                                             "4096",
                                             "--bench-max-bytes",
                                             "4096",
                                             "--bench-rounds",
                                             "20"};
    std::vector<std::string> command = network_.prefix;
    const auto mpirun = MpirunCommand(topology_, worker, directory.path(), placement_.nodes);
    command.insert(command.end(), mpirun.begin(), mpirun.end());
    const ProgramResult result = RunProgram(command, std::chrono::milliseconds(options_.sums_limit));
    if (result.status == 0)
      return Ok("sums", "",
                fmt::format("{} ranks agree on the sums of 4 KiB messages", topology_.parallel.num_ranks()));
    const std::string how = result.timed_out ? fmt::format("no end within {} s", options_.sums_limit.count())
                                             : fmt::format("mpirun exited with status {}", result.status);
    Fails("sums", "", fmt::format("{}: {}", how, FirstLine(result.output)),
          fmt::format("let the nodes reach each other on ports {}", fmt::join(topology_.transport.mpi_ports, "-")));
  }

  const Topology& topology_;
  const PreflightOptions options_;
  const std::function<void(const CheckLine&)>& report_;
  PrivateNetwork network_;
  Placement placement_;
  std::map<std::string, std::string> node_of_name_;
  std::string fingerprint_;  // empty: this host cannot read the model
  int64_t model_bytes_ = 0;
  bool failed_ = false;
  bool nodes_answer_ = true;
};

}  // namespace

void RunPreflight(const Topology& topology, const PreflightOptions& options,
                  const std::function<void(const CheckLine&)>& report) {
  Preflight(topology, options, report).Run();
}

}  // namespace quire
