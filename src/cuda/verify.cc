#include "cuda/verify.h"

#include "cuda/driver.h"

namespace tc::cuda {
namespace {

constexpr int kBlocks = 16;
constexpr int kCheckThreads = 256;
// A flag takes microseconds; what else runs on the GPU may hold it up.
constexpr uint64_t kFlagLimitNs = 1'000'000'000;
// Bytes of a round of flags.
constexpr uint64_t kFlagBytes = 2048;

}  // namespace

Status EnqueueCheck(const CheckStep& step, const CheckArea& area, bool bulk, cudaStream_t stream) {
  CheckParams params{.area = area,
                     .bytes = step.bytes,
                     .seed = step.seed,
                     .limit_ns = kFlagLimitNs,
                     .fetched = step.check == PeerCheck::kCopies};
  const auto launch = [&](const void* kernel, int blocks) {
    void* arguments[] = {&params};
    return CheckRuntime(cudaLaunchKernel(kernel, dim3(blocks), dim3(kCheckThreads), arguments, 0, stream),
                        "cudaLaunchKernel");
  };
  const CheckKernels kernels = TheCheckKernels();
  switch (step.check) {
    case PeerCheck::kBulkStores:
      if (!bulk) return {};
      return launch(step.compares ? kernels.compare : kernels.bulk_store, kBlocks);
    case PeerCheck::kLoads:
      return launch(step.compares ? kernels.load : kernels.offer, kBlocks);
    case PeerCheck::kCopies:
      if (!step.compares) return launch(kernels.offer, kBlocks);
      for (int peer = 0; peer < area.n_ranks; ++peer) {
        TC_RETURN_IF_CUDA_ERROR(
            cudaMemcpyAsync(area.Fetched(peer), area.Offered(peer), step.bytes, cudaMemcpyDefault, stream));
      }
      return launch(kernels.compare, kBlocks);
    case PeerCheck::kFlags:
      params.bytes = kFlagBytes;
      return step.compares ? launch(kernels.flags, 2 * area.n_ranks) : Status();
    default:
      return launch(step.compares ? kernels.compare : kernels.store, kBlocks);
  }
}

}  // namespace tc::cuda
