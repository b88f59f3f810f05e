#include "comm/model/product_scales.h"

#include <cmath>

#include "comm/base/error.h"

namespace quire {

bool ProductScales::scale_states() const {
  return state_query != 1 || state_key != 1 || state_value != 1 || state_gate != 1 || state_decay != 1;
}

void CheckProductScales(const ProductScales& s, const std::string& path) {
  for (const double factor : {s.attention_out, s.state_out, s.mlp_out, s.mlp_gate, s.state_query, s.state_key,
                              s.state_value, s.state_gate, s.state_decay}) {
    if (!(std::abs(factor) >= 1e-6 && std::abs(factor) <= 1e6))
      Fail("{}: the factor of a product, {}, is out of range", path, factor);
  }
}

// The structured binding names every member, so a new member does not compile until it is added here.
std::string TextOf(const ProductScales& scales) {
  const auto& [attention_out, state_out, mlp_out, mlp_gate, query, key, value, gate, decay] = scales;
  return fmt::format("{} {} {} {} {} {} {} {} {}", attention_out, state_out, mlp_out, mlp_gate, query, key, value, gate,
                     decay);
}

}  // namespace quire
