#include "cublaslt.h"

#include "failure.h"

#if __has_include(<cublasLt.h>)

#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

namespace tc::perf {
namespace {

constexpr int kAlgorithms = 8;
constexpr size_t kWorkspaceBytes = size_t{64} << 20;

void Require(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Failure(std::string(call) + " failed: status " + std::to_string(static_cast<int>(status)));
}

}  // namespace

struct CublasLt::Library {
  Library() {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) throw Failure("there is no libcublasLt.so.13 or .12 here; see LD_LIBRARY_PATH");
    Find("cublasLtCreate", &Create);
    Find("cublasLtDestroy", &Destroy);
    Find("cublasLtMatmul", &Matmul);
    Find("cublasLtMatmulDescCreate", &DescCreate);
    Find("cublasLtMatmulDescDestroy", &DescDestroy);
    Find("cublasLtMatmulDescSetAttribute", &DescSetAttribute);
    Find("cublasLtMatrixLayoutCreate", &LayoutCreate);
    Find("cublasLtMatrixLayoutDestroy", &LayoutDestroy);
    Find("cublasLtMatmulPreferenceCreate", &PreferenceCreate);
    Find("cublasLtMatmulPreferenceDestroy", &PreferenceDestroy);
    Find("cublasLtMatmulPreferenceSetAttribute", &PreferenceSetAttribute);
    Find("cublasLtMatmulAlgoGetHeuristic", &GetHeuristic);
    Require(Create(&handle), "cublasLtCreate");
    if (cudaMalloc(&workspace, kWorkspaceBytes) != cudaSuccess) throw Failure("no memory for cuBLASLt's workspace");
  }
  ~Library() {
    Forget();
    (void)cudaFree(workspace);
    (void)Destroy(handle);
  }

  template <class Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(::dlsym(library, name));
    if (*function == nullptr) throw Failure(std::string("libcublasLt lacks ") + name);
  }
  void Forget() {
    for (cublasLtMatrixLayout_t* layout : {&first, &second, &result}) {
      if (*layout != nullptr) (void)LayoutDestroy(*layout);
      *layout = nullptr;
    }
    if (operation != nullptr) (void)DescDestroy(operation);
    operation = nullptr;
  }

  void* library = nullptr;
  decltype(&::cublasLtCreate) Create;
  decltype(&::cublasLtDestroy) Destroy;
  decltype(&::cublasLtMatmul) Matmul;
  decltype(&::cublasLtMatmulDescCreate) DescCreate;
  decltype(&::cublasLtMatmulDescDestroy) DescDestroy;
  decltype(&::cublasLtMatmulDescSetAttribute) DescSetAttribute;
  decltype(&::cublasLtMatrixLayoutCreate) LayoutCreate;
  decltype(&::cublasLtMatrixLayoutDestroy) LayoutDestroy;
  decltype(&::cublasLtMatmulPreferenceCreate) PreferenceCreate;
  decltype(&::cublasLtMatmulPreferenceDestroy) PreferenceDestroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) PreferenceSetAttribute;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) GetHeuristic;
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  // In its column-major terms c^T [n, m] = b^T a^T: b comes first.
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulHeuristicResult_t algorithms[kAlgorithms];
};

CublasLt::CublasLt() : library_(std::make_unique<Library>()) {}
CublasLt::~CublasLt() = default;

int CublasLt::Prepare(const cuda::GemmProblem& problem) {
  Library& lt = *library_;
  lt.Forget();
  const cudaDataType_t type = problem.type == tcFloat16 ? CUDA_R_16F : CUDA_R_16BF;
  const bool kn = problem.layout == tcBLayoutKN;
  const auto ld = [](uint64_t elements) { return static_cast<int64_t>(elements); };
  Require(lt.DescCreate(&lt.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasOperation_t transposed = kn ? CUBLAS_OP_N : CUBLAS_OP_T;
  Require(lt.DescSetAttribute(lt.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
          "cublasLtMatmulDescSetAttribute");
  Require(lt.LayoutCreate(&lt.first, type, kn ? problem.n : problem.k, kn ? problem.k : problem.n, ld(problem.ldb)),
          "cublasLtMatrixLayoutCreate");
  Require(lt.LayoutCreate(&lt.second, type, problem.k, problem.m, ld(problem.lda)), "cublasLtMatrixLayoutCreate");
  Require(lt.LayoutCreate(&lt.result, type, problem.n, problem.m, ld(problem.ldc)), "cublasLtMatrixLayoutCreate");
  cublasLtMatmulPreference_t preference = nullptr;
  Require(lt.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const size_t bytes = kWorkspaceBytes;
  Require(lt.PreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
  int found = 0;
  const cublasStatus_t status = lt.GetHeuristic(lt.handle, lt.operation, lt.first, lt.second, lt.result, lt.result,
                                                preference, kAlgorithms, lt.algorithms, &found);
  (void)lt.PreferenceDestroy(preference);
  Require(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw Failure("cuBLASLt knows no algorithm for this product");
  return found;
}

void CublasLt::Launch(const cuda::GemmProblem& problem, int index, cudaStream_t stream) {
  Library& lt = *library_;
  const float zero = 0;
  Require(
      lt.Matmul(lt.handle, lt.operation, &problem.alpha, problem.b, lt.first, problem.a, lt.second, &zero, problem.c,
                lt.result, problem.c, lt.result, &lt.algorithms[index].algo, lt.workspace, kWorkspaceBytes, stream),
      "cublasLtMatmul");
}

}  // namespace tc::perf

#else

namespace tc::perf {

struct CublasLt::Library {};

CublasLt::CublasLt() { throw Failure("this was built without cublasLt.h: there is no peer to measure"); }
CublasLt::~CublasLt() = default;
int CublasLt::Prepare(const cuda::GemmProblem&) { return 0; }
void CublasLt::Launch(const cuda::GemmProblem&, int, cudaStream_t) {}

}  // namespace tc::perf

#endif
