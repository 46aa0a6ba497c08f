// For tests: operators that go wrong as the environment's PERF_FAULT says, in front of the real ones. A binary that
// this is linked into shows whether the perf binary notices. tcFusedAllGatherGemm goes wrong on rank 1, and copies
// results through the host, so that it works on GPUs as well; not while a graph is captured. tcBarrier goes wrong on
// every rank.
#include <signal.h>
#include <tc.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

size_t ElementBytes(tcDataType_t type) { return type == tcFloat32 ? 4 : 2; }

std::string Fault() {
  const char* value = std::getenv("PERF_FAULT");
  return value == nullptr ? "" : value;
}

// The third operator that this rank issues fails, and every later one.
bool IsDue() {
  static thread_local int calls = 0;
  return ++calls >= 3;
}

// Copies to and from an operator's memory.
struct Access {
  tcComm_t comm;
  tcStream_t stream;

  std::vector<char> Read(const void* memory, size_t bytes) const {
    std::vector<char> copy(bytes);
    Copy(copy.data(), memory, bytes);
    return copy;
  }
  void Write(void* memory, const std::vector<char>& bytes) const { Copy(memory, bytes.data(), bytes.size()); }
  void Flip(void* byte, char bits) const { Write(byte, {static_cast<char>(Read(byte, 1)[0] ^ bits)}); }

 private:
  void Copy(void* target, const void* source, size_t bytes) const {
    if (ptcMemcpyAsync(comm, target, source, bytes, stream) != tcSuccess) std::abort();
    if (ptcStreamSynchronize(comm, stream) != tcSuccess) std::abort();
  }
};

void Spoil(const std::string& fault, const Access& access, char* c, size_t c_bytes, size_t row_bytes, void* gathered) {
  static thread_local std::vector<char> previous;
  const std::vector<char> result = access.Read(c, c_bytes);
  if (fault == "element") access.Flip(c + c_bytes - 1, 0x40);
  if (fault == "unwritten") access.Write(c + c_bytes - row_bytes, std::vector<char>(row_bytes, '\xff'));
  if (fault == "beside") access.Write(c + c_bytes, {0});
  if (fault == "gathered") access.Flip(gathered, 1);
  if (fault == "stale" && !previous.empty()) access.Write(c, previous);
  previous = result;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) tcResult_t tcFusedAllGatherGemm(const void* a, const void* b, void* c,
                                                                                  size_t m, size_t n, size_t k,
                                                                                  tcDataType_t type,
                                                                                  const tcGemmConfig_t* config,
                                                                                  tcComm_t comm, tcStream_t stream) {
  const std::string fault = Fault();
  int rank = -1;
  tcCommRank(comm, &rank);
  const bool due = IsDue() && rank == 1;
  if (due && fault == "die") raise(SIGKILL);
  if (due && fault == "refused") k = 0;
  const tcResult_t result = ptcFusedAllGatherGemm(a, b, c, m, n, k, type, config, comm, stream);
  if (result != tcSuccess || rank != 1) return result;
  const tcResult_t done = ptcStreamSynchronize(comm, stream);
  if (done == tcSuccess) {
    const size_t row_bytes = n * ElementBytes(type);
    Spoil(fault, {comm, stream}, static_cast<char*>(c), m * row_bytes, row_bytes, config->gatheredA);
  }
  return done;
}

extern "C" __attribute__((visibility("default"))) tcResult_t tcBarrier(tcComm_t comm, tcStream_t stream) {
  const std::string fault = Fault();
  if (fault == "open barrier") return tcSuccess;
  const tcResult_t result = ptcBarrier(comm, stream);
  return result == tcSuccess && fault == "two barriers" ? ptcBarrier(comm, stream) : result;
}
