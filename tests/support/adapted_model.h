#pragma once

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "comm/model/model_files.h"
#include "tests/support/random.h"

namespace quire::test {

struct AdaptedCase {
  int adapter = 0;  // number of the LoRA adapter (AddedSequence::adapter)
  std::vector<TokenId> prompt, tokens;
  std::vector<float> logprobs;
};

/// A base model with all its adapters, and the expected answers with each adapter and with the base alone, in mixed
/// order.
struct AdaptedModel {
  ModelFiles files;
  std::vector<AdaptedCase> cases;
};

inline std::vector<AdaptedCase> CasesOf(const Json& json, int adapter) {
  std::vector<AdaptedCase> cases;
  for (const Json& c : json.at("cases")) {
    cases.push_back({adapter, c.at("prompt").get<std::vector<TokenId>>(), c.at("tokens").get<std::vector<TokenId>>(),
                     c.at("logprobs").get<std::vector<float>>()});
  }
  return cases;
}

inline Json ReadAdaptedGolden(const std::string& name) {
  const std::string path = std::string(QUIRE_TEST_DATA) + "/" + name + ".json";
  return ParseJson(ReadTextFile(path, 64 << 20), path, {.max_depth = 8, .max_nodes = 1'000'000});
}

inline AdaptedModel OpenAdapted(const std::string& base, const std::string& golden_name = "adapters") {
  std::vector<std::string> paths;
  std::vector<AdaptedCase> cases;
  const Json golden = ReadAdaptedGolden(golden_name);
  for (const auto& [name, adapter] : golden.items()) {
    if (adapter.at("base") != base) continue;
    paths.push_back(std::string(QUIRE_TEST_DATA) + "/adapters/" + name);
    for (AdaptedCase& c : CasesOf(adapter, static_cast<int>(paths.size()))) cases.push_back(std::move(c));
  }
  const std::vector<AdaptedCase> plain = CasesOf(ReadAdaptedGolden("tiny_" + base), 0);
  cases.insert(cases.end(), plain.begin(), plain.begin() + std::min<std::ptrdiff_t>(8, std::ssize(plain)));
  // A fixed random order, in which most neighbours have different adapters.
  Random random(5);
  for (size_t i = cases.size(); i > 1; --i) std::swap(cases[i - 1], cases[static_cast<size_t>(random.Below(i))]);
  return {ModelFiles::Open(std::string(QUIRE_TEST_DATA) + "/models/" + base, LoadFormat::kAuto, paths),
          std::move(cases)};
}

}  // namespace quire::test
