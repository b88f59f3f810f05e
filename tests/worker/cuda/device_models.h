#pragma once

#include <string>
#include <vector>

#include "tests/support/random_model.h"

namespace quire::test {

/// A random fp32 model of one family, with sizes that the CUDA engine serves. tests/golden/make_device_golden.py
/// computes each model's answers with HF transformers.
struct DeviceModel {
  std::string name;
  ModelShape shape;
  int ranks = 1;
  bool expert_parallel = false;
};

std::vector<DeviceModel> DeviceModels();

/// Seed of the models' weights.
constexpr uint64_t kDeviceModelSeed = 1;

}  // namespace quire::test
