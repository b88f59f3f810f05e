#pragma once

#include "comm/model/config_reader.h"
#include "comm/model/formats/stored_quants.h"

namespace quire {

/// Reads the quantization_config or compression_config of a config.json. Ignores settings for activations, because the
/// engine holds activations in a finer type. Throws Error, which begins with the config's path, for an unsupported
/// method or key.
StoredQuants StoredQuantsFromHf(const HfConfig& config);

}  // namespace quire
