#include "worker/bench/bench_allreduce.h"

namespace quire {

std::vector<SumMethod> DeviceSumMethods(MpiBootstrap&, int64_t) { return {}; }

}  // namespace quire
