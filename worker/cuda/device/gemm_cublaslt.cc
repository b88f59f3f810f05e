#include <cublasLt.h>

#include <map>
#include <tuple>
#include <vector>

#include "comm/base/error.h"
#include "worker/cuda/device/gemm.h"
#include "worker/cuda/device/timing.h"

namespace quire {

namespace {

constexpr int kCandidates = 8;
constexpr uint32_t kAlignment = 16;  // bytes; holds for all matrices (GemmParams)

void Check(cublasStatus_t status, const char* doing) {
  if (status != CUBLAS_STATUS_SUCCESS) Fail("cuBLASLt: {}: {}", doing, cublasLtGetStatusString(status));
}

cudaDataType_t TypeOf(NumberType dtype) {
  switch (dtype) {
    case NumberType::kF32:
      return CUDA_R_32F;
    case NumberType::kF16:
      return CUDA_R_16F;
    case NumberType::kBF16:
      return CUDA_R_16BF;
    default:
      QUIRE_CHECK(false, "a product of {} numbers", LayoutOf(dtype).name);
  }
}

/// Describes a product to cuBLASLt, in its column-major terms: y^T [n, m] = weight [n, k] * x^T [k, m].
class Problem {
 public:
  explicit Problem(const GemmParams& p) {
    const cudaDataType_t type = TypeOf(p.dtype), result = p.float_result ? CUDA_R_32F : type;
    Check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    Check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
          "describing a product");
    const auto layout = [](cublasLtMatrixLayout_t& out, cudaDataType_t t, int64_t rows, int64_t cols, int64_t stride) {
      Check(cublasLtMatrixLayoutCreate(&out, t, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), stride),
            "describing a matrix");
    };
    const cudaDataType_t factor = p.x_scales != nullptr ? CUDA_R_8F_E4M3 : type;
    layout(weight, factor, p.k, p.n, p.k);
    layout(x, factor, p.k, p.m, p.x_stride);
    layout(y, result, p.n, p.m, p.y_stride);
    if (p.x_scales != nullptr) SetScales(p);
    if (p.batch > 1) SetBatch(p);
  }
  ~Problem() {
    cublasLtMatrixLayoutDestroy(y);
    cublasLtMatrixLayoutDestroy(x);
    cublasLtMatrixLayoutDestroy(weight);
    cublasLtMatmulDescDestroy(operation);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  /// Sets the number of products, and how far apart their matrices are.
  void SetBatch(const GemmParams& p) const {
    const auto batch = static_cast<int32_t>(p.batch);
    for (const auto& [matrix, apart] : {std::pair{weight, p.weight_apart}, {x, p.x_apart}, {y, p.y_apart}}) {
      Check(cublasLtMatrixLayoutSetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
            "describing a batch");
      Check(
          cublasLtMatrixLayoutSetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof(apart)),
          "describing a batch");
    }
  }

  /// Sets the FP8 scales: one for each row of both factors.
  void SetScales(const GemmParams& p) const {
    const cublasLtMatmulMatrixScale_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
      Check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)), "describing FP8's scales");
    };
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.weight_scales);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.x_scales);
  }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, y = nullptr;
};

using Shape = std::tuple<int, bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
Shape ShapeOf(const GemmParams& p) {
  return {static_cast<int>(p.dtype),
          p.float_result,
          p.x_scales != nullptr,
          p.m,
          p.n,
          p.k,
          p.x_stride,
          p.y_stride,
          p.batch,
          p.x_apart,
          p.y_apart};
}

/// Returns the number of rows for which the library is asked for an algorithm when a product has m rows. Prompt chunks
/// have any number of rows, and a request to the library for each new number would delay their steps. Decodes (few
/// rows) have an algorithm for each number.
constexpr int64_t RowsToAskFor(int64_t m) { return m <= 64 ? m : (m + 63) / 64 * 64; }

}  // namespace

struct Gemm::Plans {
  ~Plans() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  /// Returns up to `count` algorithms that the library suggests; none if it does not support the product.
  std::vector<cublasLtMatmulAlgo_t> Guess(const Problem& problem, int count) const {
    cublasLtMatmulPreference_t preference = nullptr;
    Check(cublasLtMatmulPreferenceCreate(&preference), "asking for algorithms");
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      Check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
            "asking for algorithms");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
    // By default the library assumes an alignment of 256 bytes. Parts of a result's rows (Products) are less aligned.
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      set(attribute, kAlignment);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(count));
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, problem.operation, problem.weight, problem.x, problem.y, problem.y,
                                       preference, count, results.data(), &found);
    cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) Check(status, "asking for algorithms");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < found; ++i) {
      if (results[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        algorithms.push_back(results[static_cast<size_t>(i)].algo);
    }
    return algorithms;
  }

  /// Returns the measured algorithm, or else the library's first suggestion; null if the library does not support the
  /// product.
  const cublasLtMatmulAlgo_t* Best(const GemmParams& p, const Problem& problem) {
    const auto known = chosen.find(ShapeOf(p));
    if (known != chosen.end()) return &known->second;
    const std::vector<cublasLtMatmulAlgo_t> best = Guess(problem, 1);
    return best.empty() ? nullptr : &chosen.emplace(ShapeOf(p), best.front()).first->second;
  }

  cublasStatus_t Queue(const Problem& problem, const GemmParams& p, const cublasLtMatmulAlgo_t& algorithm,
                       const DeviceMemory& workspace, kernels::CudaStream stream) const {
    const float zero = 0;
    return cublasLtMatmul(handle, problem.operation, &p.scale, p.weight, problem.weight, p.x, problem.x, &zero, p.y,
                          problem.y, p.y, problem.y, &algorithm, workspace.as<void>(),
                          static_cast<size_t>(workspace.bytes()), static_cast<cudaStream_t>(stream.handle));
  }

  cublasLtHandle_t handle = nullptr;
  std::map<Shape, cublasLtMatmulAlgo_t> chosen;
};

Gemm::Gemm(Device& device)
    : device_(device),
      workspace_(device.Allocate(kWorkspaceBytes, "the workspace of matrix products")),
      plans_(std::make_unique<Plans>()) {
  Check(cublasLtCreate(&plans_->handle), "starting");
}
Gemm::~Gemm() = default;

void Gemm::Run(const GemmParams& p) {
  if (p.m == 0 || p.n == 0) return;
  const Problem problem(p);
  const auto queue = [&](const cublasLtMatmulAlgo_t* algorithm) {
    return algorithm == nullptr ? CUBLAS_STATUS_NOT_SUPPORTED
                                : plans_->Queue(problem, p, *algorithm, workspace_, device_.stream());
  };
  GemmParams rounded = p;
  rounded.m = RowsToAskFor(p.m);
  if (rounded.m != p.m && plans_->chosen.count(ShapeOf(p)) == 0) {
    if (queue(plans_->Best(rounded, Problem(rounded))) == CUBLAS_STATUS_SUCCESS) return;
    // The library has checked the sizes and queued nothing: the algorithm does not support this number of rows.
  }
  Check(queue(plans_->Best(p, problem)), "a product");
}

bool Gemm::Has(const GemmParams& p) const { return !plans_->Guess(Problem(p), 1).empty(); }

double Gemm::Tune(const GemmParams& p, std::span<const void* const> weights) {
  if (p.m == 0 || p.n == 0) return 0;
  const Problem problem(p);
  double best = 0;
  size_t turn = 0;
  for (const cublasLtMatmulAlgo_t& algorithm : plans_->Guess(problem, kCandidates)) {
    const auto seconds = MedianSeconds(device_, [&] {
      GemmParams run = p;
      run.weight = weights[turn++ % weights.size()];
      return plans_->Queue(problem, run, algorithm, workspace_, device_.stream()) == CUBLAS_STATUS_SUCCESS;
    });
    if (!seconds || (best != 0 && *seconds >= best)) continue;
    best = *seconds;
    plans_->chosen.insert_or_assign(ShapeOf(p), algorithm);
  }
  return best;
}

}  // namespace quire
