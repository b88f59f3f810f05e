#pragma once

#include "kernels/cpu/isa/table.h"

namespace quire::kernels::QUIRE_ISA {

void MatmulPlain(const PanelProduct& p, const float* x, int64_t x_stride);
void MatmulInt16(const PanelProduct& p, const IntegerRows<int16_t>& x);
void MatmulInt8(const PanelProduct& p, const IntegerRows<int8_t>& x);
bool TakesInt8(NumberType type);
void QuantizeInt16(const float* x, const IntegerRows<int16_t>& to);
void QuantizeInt8(const float* x, const IntegerRows<int8_t>& to);
void AttentionTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch);
int64_t AttentionScratch(const PagedAttentionParams& p);
/// True if an item has enough rows for PrefillTile; otherwise AttentionTile computes the item. The two functions need
/// different amounts of scratch memory.
bool IsPrefill(const PagedAttentionParams& p, const AttentionItem& item);
void PrefillTile(const PagedAttentionParams& p, const AttentionItem& item, float* scratch);
int64_t PrefillScratch(const PagedAttentionParams& p);
void KvWriteRows(const KvWriteParams& p, int64_t row_begin, int64_t row_end);
void RmsNormRows(const RmsNormParams& p, int64_t row_begin, int64_t row_end);
void HeadNormRows(const HeadNormParams& p, int64_t row_begin, int64_t row_end);
void RopeRows(const RopeParams& p, int64_t row_begin, int64_t row_end);
void GateMulRows(const GateMulParams& p, int64_t row_begin, int64_t row_end);
void CapNumbers(const CapLogitsParams& p, int64_t begin, int64_t end);
void SumSquaresRows(const SumSquaresParams& p, int64_t row_begin, int64_t row_end);
void WideNormRows(const WideNormParams& p, int64_t row_begin, int64_t row_end);
void LayerNormRows(const LayerNormParams& p, int64_t row_begin, int64_t row_end);
void ActivateRows(const ActivateParams& p, int64_t row_begin, int64_t row_end);
void CombineExpertsRows(const CombineExpertsParams& p, int64_t row_begin, int64_t row_end);
void AddRowsRows(const AddRowsParams& p, int64_t row_begin, int64_t row_end);
void ScaleColumnsRows(const ScaleColumnsParams& p, int64_t row_begin, int64_t row_end);
void ScaleRowsRows(const ScaleRowsParams& p, int64_t row_begin, int64_t row_end);
float RowMax(const float* x, int64_t count);
void Weigh(const WeighParams& p);

double RunPeak(Arithmetic arithmetic, int64_t rounds);

/// Decodes columns [col, col + count) of a row to float (see DecodeRow).
void DecodeNumbers(const Weight& weight, int64_t row, int64_t col, int64_t count, float* out);

}  // namespace quire::kernels::QUIRE_ISA
