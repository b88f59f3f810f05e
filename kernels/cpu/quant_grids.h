#pragma once

#include <cstdint>

namespace quire::kernels {

// The numbers that a code of these formats encodes: 8 numbers of 2 bits for iq1 and iq2, 4 numbers of 3 bits for iq3,
// the first in the lowest bits. In iq2 and iq3 the bits are an index into the values of the format; in iq1 they are the
// number plus 1 (grid_quants.cc).
extern const uint16_t kGridOfIQ1[2048], kGridOfIQ2XXS[256], kGridOfIQ2XS[512], kGridOfIQ2S[1024], kGridOfIQ3XXS[256],
    kGridOfIQ3S[512];

}  // namespace quire::kernels
