#include "kernels/cpu/isa/table.h"

#include "kernels/cpu/isa/functions.h"

namespace quire::kernels::QUIRE_ISA {

const IsaTable& Table() {
  static const IsaTable table = {
      MatmulPlain,        MatmulInt16,  MatmulInt8,    TakesInt8,    QuantizeInt16, QuantizeInt8,     AttentionTile,
      AttentionScratch,   KvWriteRows,  RmsNormRows,   HeadNormRows, RopeRows,      GateMulRows,      CapNumbers,
      SumSquaresRows,     WideNormRows, LayerNormRows, ActivateRows, AddRowsRows,   ScaleColumnsRows, ScaleRowsRows,
      CombineExpertsRows, RowMax,       Weigh,         RunPeak,      DecodeNumbers};
  return table;
}

}  // namespace quire::kernels::QUIRE_ISA
