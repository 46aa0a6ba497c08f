// cuBLASLt as a peer of gemm_perf, found at run time.
#ifndef TC_PERF_CUBLASLT_H_
#define TC_PERF_CUBLASLT_H_

#include <cuda_runtime_api.h>

#include <memory>

#include "cuda/gemm.h"

namespace tc::perf {

class CublasLt {
 public:
  // Throws Failure when there is no libcublasLt.so.13 or .12, or this was built without its header.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // The algorithms that its heuristics put first, at most 8, for a product without epilogue. Throws Failure.
  int Prepare(const cuda::GemmProblem& problem);
  // Enqueues the product of the prepared shape with algorithm `index`. Throws Failure.
  void Launch(const cuda::GemmProblem& problem, int index, cudaStream_t stream);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace tc::perf

#endif  // TC_PERF_CUBLASLT_H_
