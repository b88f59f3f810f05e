#include "worker/cuda/bench/step_answers.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "comm/base/error.h"
#include "worker/cuda/bench/made_up_model.h"

namespace quire::bench {

namespace {

constexpr int kSteps = 12;

}  // namespace

Json StepAnswers(const ModelFiles& files, StepRun run, int steps) {
  run.logprobs = true;
  run.most_steps = steps;
  StepRunner runner(files, run);
  Json tokens = Json::array(), logprobs = Json::array();
  for (int step = 0; step < steps; ++step) {
    Json drawn = Json::array(), likely = Json::array();
    for (const SampledToken& token : runner.Run()) {
      if (token.broken()) Fail("step {}, sequence {}: no token can be drawn from the logits", step, token.slot);
      drawn.push_back(token.token);
      likely.push_back(token.logprob);
    }
    tokens.push_back(std::move(drawn));
    logprobs.push_back(std::move(likely));
  }
  return {{"tokens", std::move(tokens)}, {"logprobs", std::move(logprobs)}};
}

std::string FirstDifference(const Json& got, const Json& expected) {
  for (const char* what : {"tokens", "logprobs"}) {
    const Json &mine = got.at(what), &others = expected.at(what);
    if (mine.size() != others.size()) return fmt::format("{} steps instead of {}", mine.size(), others.size());
  }
  for (size_t step = 0; step < got.at("tokens").size(); ++step) {
    for (const char* what : {"tokens", "logprobs"}) {
      const Json &mine = got.at(what)[step], &others = expected.at(what)[step];
      if (mine != others) return fmt::format("step {}: {} {} instead of {}", step, what, mine.dump(), others.dump());
    }
  }
  return "";
}

int BenchStepAnswers(const AnswersBench& options) {
  const MadeUpModel model(MadeUpShape{}, options.models);
  const ModelFiles files = ModelFiles::Open(model.path());
  Json answers = Json::object();
  for (const int batch : {1, 16}) {
    StepRun run{.batch = batch, .context = 1024};
    run.engine.graphs = !options.eager;
    run.engine.tune = false;  // measured choices differ between processes
    answers[fmt::format("{} sequences", batch)] = StepAnswers(files, run, kSteps);
  }
  if (!options.write_to.empty()) {
    std::ofstream file(options.write_to);
    file << DumpJson(answers) << "\n";
    if (!file.flush()) Fail("{}: cannot be written", options.write_to);
  }
  fmt::print("{} decode steps of 1 and 16 sequences answered by {}\n", kSteps,
             options.eager ? "single kernels" : "graphs");
  if (options.compare.empty()) return 0;
  std::ifstream file(options.compare);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Fail("{}: cannot be read", options.compare);
  const Json expected = Json::parse(text.str());
  for (const auto& [name, answer] : answers.items()) {
    if (const std::string difference = FirstDifference(answer, expected.at(name)); !difference.empty()) {
      fmt::print("WRONG: {} differ from {}: {}\n", name, options.compare, difference);
      return 1;
    }
  }
  fmt::print("the same answers as in {}, to the last bit\n", options.compare);
  return 0;
}

}  // namespace quire::bench
