#pragma once

#include <cstdint>

namespace quire::kernels {

// The numbers that a code of these formats stands for: 8 of iq1 and iq2 in 2 bits each, 4 of iq3 in 3 bits each, the
// first in the lowest bits. In iq2 and iq3 the bits are an index into the values of the format; in iq1 they are the
// number plus 1 (grid_quants.cc).
extern const uint16_t kGridOfIQ1[2048], kGridOfIQ2XXS[256], kGridOfIQ2XS[512], kGridOfIQ2S[1024], kGridOfIQ3XXS[256],
    kGridOfIQ3S[512];

}  // namespace quire::kernels
