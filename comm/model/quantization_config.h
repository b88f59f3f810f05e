#pragma once

#include "comm/model/config_reader.h"
#include "comm/model/formats/stored_quants.h"

namespace quire {

/// Reads the quantization_config, or compression_config, of a config.json. What activations are quantised to is not
/// read: they keep what the engine computes in, which is finer. Throws Error beginning with the config's path, naming
/// the method or the key that is not supported.
StoredQuants StoredQuantsFromHf(const HfConfig& config);

}  // namespace quire
