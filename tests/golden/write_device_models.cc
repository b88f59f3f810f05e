// Writes each model of tests/worker/cuda/device_models.h into a new folder below the given one.
#include <cstdio>
#include <filesystem>

#include "tests/worker/cuda/device_models.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_device_models FOLDER\n");
    return 2;
  }
  for (const auto& model : quire::test::DeviceModels()) {
    const quire::test::RandomModel written(model.shape, quire::test::kDeviceModelSeed);
    std::filesystem::copy(written.path(), std::filesystem::path(argv[1]) / model.name);
  }
}
