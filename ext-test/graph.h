// A CUDA graph of what a stream is given.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "tc.h"

namespace tc::test {

#define CUDA_EXPECT_OK(call) EXPECT_EQ((call), cudaSuccess) << #call

class Graph {
 public:
  template <class Record>
  Graph(tcStream_t stream, const Record& record) {
    cudaGraph_t graph = nullptr;
    CUDA_EXPECT_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    record();
    CUDA_EXPECT_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_EXPECT_OK(cudaGraphInstantiate(&graph_, graph, 0));
    CUDA_EXPECT_OK(cudaGraphUpload(graph_, stream));
    CUDA_EXPECT_OK(cudaGraphDestroy(graph));
  }
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  void Launch(tcStream_t stream) { CUDA_EXPECT_OK(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace tc::test
