#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "comm/base/error.h"
#include "worker/cuda/bench/bench.h"
#include "worker/cuda/bench/step_answers.h"
#include "worker/cuda/bench/steps.h"

namespace quire::bench {

namespace {

struct Options {
  std::vector<std::string> only;
  std::string json_file;
  int device = 0, rounds = 5;
  StepBench steps;
  AnswersBench answers;
  std::vector<int64_t> layers = {2, 6};
};

int Run(Options options) {
  options.answers.models = options.steps.models;
  if (options.answers.eager) ::setenv("CUDA_LAUNCH_BLOCKING", "1", 1);  // must be set before the CUDA runtime reads it
  const DeviceCount devices = CountDevices();
  if (devices.count == 0) {
    fmt::print("no GPU: {}; nothing was measured\n", devices.problem);
    return 3;
  }
  if (!options.answers.write_to.empty() || !options.answers.compare.empty()) return BenchStepAnswers(options.answers);
  Device device(options.device);
  Bench bench(device, options.rounds);
  fmt::print("{}, sm_{}, {} multiprocessors\n", device.name(), device.compute_capability(), device.num_sms());
  std::ranges::copy(options.layers, options.steps.layers);
  if (options.steps.profile) {
    BenchSteps(bench, options.steps);
    return 0;
  }
  const std::pair<const char*, std::function<void()>> sections[] = {
      {"ceilings", [&] { BenchCeilings(bench); }},
      {"decode", [&] { BenchDecodeAttention(bench); }},
      {"prefill", [&] { BenchPrefillAttention(bench); }},
      {"products", [&] { BenchProducts(bench); }},
      {"small", [&] { BenchSmallOps(bench); }},
      {"sampling", [&] { BenchSampling(bench); }},
      {"steps", [&] { BenchSteps(bench, options.steps); }}};
  for (const auto& [name, run] : sections) {
    const bool wanted = options.only.empty() || std::ranges::find(options.only, name) != options.only.end();
    if (!wanted && name != std::string("ceilings")) continue;  // always run: the other sections are measured against it
    run();
    if (options.json_file.empty()) continue;
    std::ofstream file(options.json_file);  // written after each section: a crash loses no earlier section
    file << DumpJson(bench.Report()) << "\n";
    if (!file.flush()) Fail("{}: cannot be written", options.json_file);
  }
  fmt::print("{} results checked, {} of them wrong\n", bench.num_checks(), bench.num_wrong());
  return bench.num_wrong() == 0 ? 0 : 1;
}

}  // namespace

}  // namespace quire::bench

int main(int argc, char** argv) {
  quire::bench::Options options;
  CLI::App app("Times Quire's CUDA kernels against ceilings measured in the same run.", "quire-bench-kernels");
  app.add_option("--only", options.only, "Sections: ceilings, decode, prefill, products, small, sampling, steps")
      ->delimiter(',')
      ->check(CLI::IsMember({"ceilings", "decode", "prefill", "products", "small", "sampling", "steps"}));
  app.add_option("--json", options.json_file, "File to write the results to");
  app.add_option("--device", options.device, "Ordinal of the GPU")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds in which the ways of a case take turns")
      ->check(CLI::Range(3, 1000))
      ->capture_default_str();
  app.add_option("--layers", options.layers,
                 "Two numbers of layers for the decode steps; 32 are extrapolated from them")
      ->expected(2)
      ->delimiter(',')
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  app.add_option("--batches", options.steps.batches, "Sequences of the decode steps")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--context", options.steps.context, "Tokens that each of them has")
      ->check(CLI::Range(1, 1 << 17))
      ->capture_default_str();
  app.add_flag("--profile-step", options.steps.profile,
               "Time nothing: run one decode step between cudaProfilerStart and cudaProfilerStop");
  app.add_option("--models", options.steps.models, "Folder that keeps made-up models for the next call");
  app.add_option("--answers", options.answers.write_to, "Time nothing: write what decode steps answer to a file");
  app.add_option("--expect", options.answers.compare,
                 "Time nothing: compare what decode steps answer with such a file");
  app.add_flag("--eager", options.answers.eager, "Answer by single kernels, each awaited, instead of graphs");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return quire::bench::Run(std::move(options));
  } catch (const std::exception& error) {
    fmt::print(stderr, "quire-bench-kernels: {}\n", error.what());
    return 1;
  }
}
