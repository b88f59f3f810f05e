#include "kernels/cpu/isa/table.h"

#include "kernels/cpu/isa/functions.h"
#include "kernels/cpu/isa/vec.h"

namespace quire::kernels::QUIRE_ISA {

const IsaTable& Table() {
  static const IsaTable table = [] {
    IsaTable all = WithoutByteProducts();
    all.matmul_int16 = MatmulInt16;
    all.matmul_int8 = MatmulInt8;
    all.takes_int8 = TakesInt8;
    all.attention = AttentionTile;
    all.attention_scratch = AttentionScratch;
    all.run_peak = RunPeak;
    return all;
  }();
  return table;
}

}  // namespace quire::kernels::QUIRE_ISA
