// Input: config.json, a zero byte, and generation_config.json. The heads, end tokens and frequencies of an accepted
// model must be usable, and an error must begin with the name of the files.
#include <cmath>

#include "comm/base/error.h"
#include "comm/model/architecture.h"
#include "tests/fuzz/byte_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const std::string config(bytes.Until('\0')), generation(bytes.Rest());
  try {
    const ModelSpec c = SpecFromHf(config, generation, "f");
    for (const LayerSpec& layer : c.layers)
      QUIRE_CHECK(c.num_heads % layer.num_kv_heads == 0 && c.rotated_dims(layer) % 2 == 0, "heads");
    for (const TokenId id : c.eos_token_ids) QUIRE_CHECK(id >= 0 && id < c.vocab_size, "eos {}", id);
    if (RotatedDims(c, 0) > 256) return 0;
    for (const float f : RopeFrequencies(c.ropes[0], RotatedDims(c, 0), c.max_position))
      QUIRE_CHECK(std::isfinite(f), "frequency {}", f);
  } catch (const Error& error) {
    QUIRE_CHECK(std::string_view(error.what()).starts_with("f"), "no place: {}", error.what());
  }
  return 0;
}
