/*
 * TileComm: operators that fuse communication with computation across the GPUs of one node.
 *
 * The whole public interface. C99, no other header than <stddef.h> and <stdint.h>.
 *
 * Conventions
 *  - Every function returns a tcResult_t unless it cannot fail. tcGetLastError() gives the sentence that belongs to it.
 *  - Every structure starts with its own size. Fill it with its ...Init function (or the macro of the same name, which
 *    passes sizeof); fields may be appended in later versions and are then 0 = default. A structure larger than the
 *    library knows is accepted when its unknown tail is zero.
 *  - Operators are asynchronous: they are enqueued on `stream` and return. Operators of one communicator must be issued
 *    in the same order on every rank; a rejected call counts as the call, and makes the same operator of the other
 *    ranks fail with its sentence.
 *  - tcInvalidArgument, tcInvalidUsage and tcUnsupported have no effect and leave the communicator usable. Every other
 *    error but tcInProgress ends it: only the error getters, tcCommAbort and tcCommDestroy are then of use. So does
 *    tcInvalidUsage where it is found while operators run: two of one communicator at the same time in graphs, or a
 *    registration that one rank made before an operator and another behind it.
 *  - An operator that fails after its call, because a peer refused it or called another, fails on every rank and has no
 *    effect; tcStreamSynchronize of its stream, or tcCommGetAsyncError, reports it once.
 *  - A communicator is driven by one thread at a time; tcCommAbort and the error getters may run beside other calls.
 *  - A child made by fork cannot use its parent's communicators, and must not use the library at all when another
 * thread of the parent was inside it at the fork.
 *  - Registrations and operators of one communicator have one common order on all ranks.
 *  - Sizes are 64-bit and counted in elements unless the name says bytes.
 *  - Every function exists a second time with the prefix ptc: tc* is a weak alias that a profiler may interpose.
 */
#ifndef TC_H_
#define TC_H_

#include <stddef.h>
#include <stdint.h>

#define TC_MAJOR 0
#define TC_MINOR 1
#define TC_PATCH 0
#define TC_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define TC_VERSION_CODE TC_VERSION(TC_MAJOR, TC_MINOR, TC_PATCH)

/* Ranks of one communicator at most. */
#define TC_MAX_RANKS 16

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tcComm* tcComm_t;        /* a communicator; NULL is never valid */
typedef struct tcMoe* tcMoe_t;          /* a mixture-of-experts exchange with its buffers */
typedef struct tcWindow* tcWindow_t;    /* memory registered with a communicator */
typedef struct CUstream_st* tcStream_t; /* the same type as cudaStream_t; NULL is the default stream */

typedef struct {
  char internal[128];
} tcUniqueId;

/* ---- Codes ------------------------------------------------------------------------------------------------------- */

/* Results. 0..7 have ncclResult_t's values. */
typedef int32_t tcResult_t;
enum {
  tcSuccess = 0,
  tcUnhandledCudaError = 1,
  tcSystemError = 2,
  tcInternalError = 3,
  tcInvalidArgument = 4,
  tcInvalidUsage = 5,
  tcRemoteError = 6,
  tcInProgress = 7,
  tcTimeout = 8,      /* a wait ran into timeoutMs or entryTimeoutMs */
  tcAborted = 9,      /* tcCommAbort was called on this rank or on a peer */
  tcUnsupported = 10, /* the same on every rank */
};

/* Element types. 0..11 have ncclDataType_t's values. */
typedef int32_t tcDataType_t;
enum {
  tcInt8 = 0,
  tcUint8 = 1,
  tcInt32 = 2,
  tcUint32 = 3,
  tcInt64 = 4,
  tcUint64 = 5,
  tcFloat16 = 6,
  tcFloat32 = 7,
  tcFloat64 = 8,
  tcBfloat16 = 9,
  tcFloat8e4m3 = 10,
  tcFloat8e5m2 = 11,
};

/* Reductions. ncclRedOp_t's values. */
typedef int32_t tcRedOp_t;
enum {
  tcSum = 0,
  tcProd = 1,
  tcMax = 2,
  tcMin = 3,
  tcAvg = 4,
};

typedef int32_t tcBackend_t;
enum {
  tcBackendAuto = 0, /* CUDA when a GPU is found, else host */
  tcBackendHost = 1, /* ranks on CPU threads over shared memory */
  tcBackendCuda = 2,
};

/* Who moves the data. */
typedef int32_t tcPlane_t;
enum {
  tcPlaneAuto = 0,
  tcPlanePush = 1,       /* the producer stores into the consumer's memory */
  tcPlanePull = 2,       /* the consumer loads from the producer's memory */
  tcPlaneCopyEngine = 3, /* DMA engines */
  tcPlaneHostStaged = 4, /* through pinned host memory */
};

typedef int32_t tcBLayout_t;
enum {
  tcBLayoutNK = 0, /* b is [n,k], as nn.Linear stores its weight */
  tcBLayoutKN = 1, /* b is [k,n] */
};

typedef int32_t tcActivation_t;
enum {
  tcActivationNone = 0,
  tcActivationRelu = 1,
  tcActivationGelu = 2,
  tcActivationSilu = 3,
};

typedef int32_t tcScaleMode_t;
enum {
  tcScaleNone = 0,
  tcScaleTensor = 1, /* one float per tensor */
  tcScaleRow = 2,    /* one float per row of a and per row (column of c) of b */
};

typedef int32_t tcMoeLayout_t;
enum {
  tcMoeLayoutToken = 0,
  tcMoeLayoutExpert = 1,
  tcMoeLayoutMasked = 2,
};

typedef int32_t tcMoeOverflow_t;
enum {
  tcMoeOverflowError = 0,
  tcMoeOverflowDrop = 1,
};

typedef int32_t tcIndexType_t;
enum {
  tcIndexInt32 = 0,
  tcIndexInt64 = 1,
};

typedef int32_t tcOp_t;
enum {
  tcOpBarrier = 1,
  tcOpAllGather = 2,
  tcOpReduceScatter = 3,
  tcOpAllReduce = 4,
  tcOpBroadcast = 5,
  tcOpAllToAll = 6,
  tcOpAllGatherV = 7,
  tcOpReduceScatterV = 8,
  tcOpAllToAllV = 9,
  tcOpAllGatherGemm = 16,
  tcOpGemmReduceScatter = 17,
  tcOpGemmAllReduce = 18,
  tcOpMoeDispatch = 32,
  tcOpMoeCombine = 33,
};

/* Levels of the log callback and of TC_DEBUG. */
enum {
  tcLogError = 1,
  tcLogWarn = 2,
  tcLogInfo = 3,
  tcLogTrace = 4,
};

/* A rank that passes this colour to tcCommSplit joins no new communicator. */
#define TC_SPLIT_NOCOLOR (-1)

/* ---- Structures -------------------------------------------------------------------------------------------------- */

typedef struct {
  size_t size;
  int32_t device;         /* -1: the current CUDA device. Host ranks have none: the number is only reported back */
  tcBackend_t backend;    /* the same on every rank */
  size_t workspaceBytes;  /* staging memory for data that is not registered; 0: 256 MiB; the same on every rank */
  int32_t maxSMs;         /* SMs an operator may take; 0: as many as it wants */
  int32_t timeoutMs;      /* longest wait once all ranks have entered an operator; 0: 60 s */
  int32_t entryTimeoutMs; /* longest wait for a rank to enter an operator; 0: 30 min */
  int32_t deterministic;  /* 1: never a kernel whose result depends on timing; today every result is bit-reproducible */
  const char* name;       /* shown in messages; copied; NULL: none */
} tcConfig_t;

typedef struct {
  size_t size;
  size_t lda; /* elements from one row to the next; 0: packed */
  size_t ldb; /* likewise */
  size_t ldc; /* likewise */
  tcBLayout_t bLayout;
  tcDataType_t outType; /* of c; -1: the operator's type */
  tcDataType_t bType;   /* of b; -1: the operator's type */
  float alpha;          /* factor on a·b */
  const float* scaleA;
  const float* scaleB;
  const float* scaleC;
  tcScaleMode_t scaleMode;
  const void* bias;          /* [n], of the output type; NULL: none */
  const void* residual;      /* shaped and laid out as c; NULL: none */
  tcActivation_t activation; /* after bias and residual */
  void* gatheredA;           /* all-gather + GEMM: [m,k] packed, receives the gathered a; NULL: not wanted */
  const size_t* rowsPerRank; /* [nRanks], host memory, sums to m; the same on every rank; NULL: ceil(m / nRanks) each */
  tcPlane_t plane;
  int32_t commSMs; /* SMs that move data; 0: the planner's choice */
} tcGemmConfig_t;

typedef struct {
  size_t size;
  size_t hidden;    /* elements of a token; hidden · sizeof(type) is a multiple of 16 */
  int32_t topK;     /* 1..32 */
  int32_t nExperts; /* of all ranks together */
  size_t maxTokensPerRank;
  tcDataType_t type;
  tcMoeLayout_t layout;
  int32_t rowAlignment; /* rows of an expert are padded to a multiple of this; 0: 128 */
  tcMoeOverflow_t overflow;
  size_t capacityRows; /* rows that can be received at most; 0: enough for any routing */
  int32_t slots;       /* dispatches in flight; 0: 1 */
  int32_t reserved;
  size_t sideBytes[4]; /* bytes per token of each side payload; 0: none */
} tcMoeConfig_t;

typedef struct {
  const void* ptr; /* device memory, [nTokens, bytesPerToken] */
  size_t bytesPerToken;
  tcMoeLayout_t layout;
  int32_t reserved;
} tcMoeSide_t;

typedef struct {
  size_t size;
  int32_t slot; /* 0..slots-1 */
  tcIndexType_t idxType;
  const void* x;            /* [nTokens, hidden] */
  const void* topkIdx;      /* [nTokens, topK]; -1: dropped */
  const float* topkWeights; /* [nTokens, topK]; NULL: 1 */
  size_t nTokens;
  tcMoeSide_t side[4];
  tcWindow_t recvRows;  /* the caller's own memory for the received rows; NULL: the library's */
  int32_t reuseRouting; /* 1: the routing of the slot's previous dispatch */
  int32_t reserved;
} tcMoeDispatchArgs_t;

typedef struct {
  size_t size; /* what follows is device memory owned by the library until the slot's next dispatch */
  void* rows;  /* [capacity, hidden] */
  void* side[4];
  int32_t* expertCounts;  /* [L], L = experts of this rank */
  int32_t* expertOffsets; /* [L+1] */
  int32_t* rowExpert;     /* [capacity] */
  int32_t* rowSource;     /* [capacity] */
  int32_t* total;         /* [1] rows in use, padding included */
  int32_t* dropped;       /* [1] rows that found no room */
  size_t capacity;
} tcMoeRecv_t;

typedef struct {
  size_t size;
  int32_t slot;
  tcDataType_t type;     /* of y */
  const void* expertOut; /* [capacity, hidden], rows as dispatched */
  void* y;               /* [nTokens, hidden] */
  const void* residual;  /* [nTokens, hidden]; NULL: none */
  int32_t gradient;      /* 1: the backward pass of dispatch: weights are not applied */
  int32_t reserved;
} tcMoeCombineArgs_t;

/* What tcOpSupported, tcTune and tcExplain are asked about. Fields an operator does not have stay 0. */
typedef struct {
  size_t size;
  tcOp_t op;
  tcDataType_t type;
  tcRedOp_t redOp;
  int32_t root;
  size_t count;               /* collectives: elements, as the operator takes them */
  size_t m, n, k;             /* fused GEMMs */
  const tcGemmConfig_t* gemm; /* NULL: defaults */
  const tcMoeConfig_t* moe;
} tcOpDesc_t;

typedef struct {
  size_t size;
  uint64_t ops;                  /* operators completed */
  uint64_t bytesSent;            /* payload stored into peers */
  uint64_t bytesReceived;        /* payload that peers stored here */
  uint64_t memoryBytes;          /* reserved on this rank, host memory and rounding included: slots, control, workspace,
                                    and what the host backend keeps from one operator to the next */
  uint64_t windowBytes;          /* registered by this rank */
  uint64_t waitUs[TC_MAX_RANKS]; /* time operators spent waiting for each peer */
} tcCommStats_t;

/* Fill a structure with its defaults. `size` is the caller's sizeof; nothing is written past it.
   tcInvalidArgument: NULL, or a size smaller than version 0.1's. */
tcResult_t tcConfigInit(tcConfig_t* config, size_t size);
tcResult_t tcGemmConfigInit(tcGemmConfig_t* config, size_t size);
tcResult_t tcMoeConfigInit(tcMoeConfig_t* config, size_t size);
tcResult_t tcMoeDispatchArgsInit(tcMoeDispatchArgs_t* args, size_t size);
tcResult_t tcMoeRecvInit(tcMoeRecv_t* recv, size_t size);
tcResult_t tcMoeCombineArgsInit(tcMoeCombineArgs_t* args, size_t size);
tcResult_t tcOpDescInit(tcOpDesc_t* desc, size_t size);
tcResult_t tcCommStatsInit(tcCommStats_t* stats, size_t size);

#define TC_CONFIG_INIT(p) tcConfigInit((p), sizeof(*(p)))
#define TC_GEMM_CONFIG_INIT(p) tcGemmConfigInit((p), sizeof(*(p)))
#define TC_MOE_CONFIG_INIT(p) tcMoeConfigInit((p), sizeof(*(p)))
#define TC_MOE_DISPATCH_ARGS_INIT(p) tcMoeDispatchArgsInit((p), sizeof(*(p)))
#define TC_MOE_RECV_INIT(p) tcMoeRecvInit((p), sizeof(*(p)))
#define TC_MOE_COMBINE_ARGS_INIT(p) tcMoeCombineArgsInit((p), sizeof(*(p)))
#define TC_OP_DESC_INIT(p) tcOpDescInit((p), sizeof(*(p)))
#define TC_COMM_STATS_INIT(p) tcCommStatsInit((p), sizeof(*(p)))

/* ---- Start and end ----------------------------------------------------------------------------------------------- */

/* TC_VERSION_CODE of the library that is loaded. */
tcResult_t tcGetVersion(int* version);

/* A fresh id from the system's random source. Makes no CUDA call and opens nothing; any process may make it, and hands
   it to all ranks by whatever means it has. Rank 0 will listen. */
tcResult_t tcGetUniqueId(tcUniqueId* id);

/* The id that belongs to a string all ranks know (a job name, host:port of a launcher). As secret as the string is.
   A string must not be used by two communicators that are being initialised at the same time. */
tcResult_t tcUniqueIdFromString(const char* text, tcUniqueId* id);

/* Joins `nRanks` (1..TC_MAX_RANKS) ranks of this node into a communicator. Collective: returns when all have called, or
   with an error that names the rank that did not (TC_INIT_TIMEOUT_MS). Ranks may be threads or processes. On error
   *comm is NULL. Inside a group the call takes effect at tcGroupEnd. config: NULL = defaults. */
tcResult_t tcInitComm(tcComm_t* comm, int nRanks, const tcUniqueId* id, int rank, const tcConfig_t* config);

/* All ranks in this process: comms[nRanks] is filled. devices: [nRanks]; NULL: 0, 1, ... and from 0 again when there
   are fewer. Ranks that share a device must each use a stream of its own, not the default one. */
tcResult_t tcInitCommAll(tcComm_t* comms, int nRanks, const int* devices, const tcConfig_t* config);

/* New communicators out of an old one: ranks of one colour (>= 0) form one, ordered by key, then by old rank.
   Collective over the parent, which stays usable. TC_SPLIT_NOCOLOR gives *newComm = NULL. config: NULL = the parent's.
 */
tcResult_t tcCommSplit(tcComm_t comm, int color, int key, tcComm_t* newComm, const tcConfig_t* config);

/* Waits until every operator has completed on every rank. Collective. Afterwards only tcCommDestroy is of use. */
tcResult_t tcCommFinalize(tcComm_t comm);

/* Completes or abandons what is enqueued and frees everything. Local; never waits longer than the time limits. */
tcResult_t tcCommDestroy(tcComm_t comm);

/* Makes every operator, running or enqueued, here and on the peers, return tcAborted. Local, from any thread, at any
   time, any number of times. The handle stays valid until tcCommDestroy. Until a peer has stopped, too, it
   may still store to memory registered here, or read it: it stays mapped, but do not reuse it before the peers are
   known to have returned from their own tcCommDestroy. */
tcResult_t tcCommAbort(tcComm_t comm);

/* Between Start and End one thread may make collective host calls (init, split, finalize, register, deregister) for
   several communicators: they take effect together at the outermost tcGroupEnd, which returns the first error.
   Operators inside a group are enqueued at once. */
tcResult_t tcGroupStart(void);
tcResult_t tcGroupEnd(void);

/* The communicator's state: tcSuccess; an error that ended it; or the failure of one operator (a call rejected on some
   rank, ranks that passed different shapes), which is reported once and leaves the communicator usable. */
tcResult_t tcCommGetAsyncError(tcComm_t comm, tcResult_t* result);

/* A word that holds the tcResult_t that ended the communicator (0: none). It is set before the failing operator
   completes in stream order. Valid until tcCommDestroy. device is NULL on the host backend. Either may be NULL. */
tcResult_t tcCommGetErrorWord(tcComm_t comm, const volatile int32_t** host, const int32_t** device);

/* The code's meaning; a static string. */
const char* tcGetErrorString(tcResult_t result);

/* The last error of a communicator, asynchronous ones included, or (NULL) of this thread: a sentence that names rank,
   operator and peer and says what to do. Empty when there was none. Valid until this thread's next call. */
const char* tcGetLastError(tcComm_t comm);

tcResult_t tcCommCount(tcComm_t comm, int* count);
tcResult_t tcCommRank(tcComm_t comm, int* rank);
tcResult_t tcCommDevice(tcComm_t comm, int* device);
tcResult_t tcCommGetStats(tcComm_t comm, tcCommStats_t* stats);

/* Sends log lines to a callback instead of stderr; NULL: back to stderr. The callback may be called from any thread,
   and must not call the library. */
tcResult_t tcSetLogCallback(void (*callback)(int level, const char* message, void* user), void* user);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Memory that peers can map: of the current device, and reachable from this process's other devices where they can
   reach it; or shared memory on the host backend. Local. 0 bytes gives NULL. */
tcResult_t tcMemAlloc(void** ptr, size_t bytes);
tcResult_t tcMemFree(void* ptr);

/* Makes [ptr, ptr + bytes), inside one tcMemAlloc allocation, reachable by the peers: operators then use it without
   staging, also at an offset; where data goes through host memory (TC_P2P_DISABLE) it succeeds and changes nothing.
   Collective; sizes may differ. Free the memory only after tcCommDeregister. */
tcResult_t tcCommRegister(tcComm_t comm, void* ptr, size_t bytes, tcWindow_t* window);
tcResult_t tcCommDeregister(tcComm_t comm, tcWindow_t window);

/* Streams and copies for callers without the CUDA runtime. With CUDA they are CUDA streams. A stream may be used with
   every communicator of its device; destroy waits for it. */
tcResult_t tcStreamCreate(tcComm_t comm, tcStream_t* stream);
tcResult_t tcStreamDestroy(tcComm_t comm, tcStream_t stream);
/* Waits, then returns what tcCommGetAsyncError would report. */
tcResult_t tcStreamSynchronize(tcComm_t comm, tcStream_t stream);
/* Any direction between host and device memory. */
tcResult_t tcMemcpyAsync(tcComm_t comm, void* dst, const void* src, size_t bytes, tcStream_t stream);

/* ---- Collectives: NCCL's argument order and in-place rules --------------------------------------------------------
 */

/* Reductions take the ranks' elements in the order of the ranks, 16-bit floats and fp32 in fp32, fp64 in fp64, and
   round once at the end; integers wrap around. So every rank, run and algorithm gives the same bits. tcAvg divides the
   sum by nRanks, integers truncating towards zero. tcMin and tcMax pass over NaNs and take -0 for less than +0; a
   result that is NaN has all bits set but the sign. fp8 is moved, not reduced. Counts of 0 succeed and need no buffers.
 */

/* recvbuff: [nRanks, sendcount]. In place when sendbuff == recvbuff + rank * sendcount. */
tcResult_t tcAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, tcComm_t comm,
                       tcStream_t stream);
/* sendbuff: [nRanks, recvcount]. In place when recvbuff == sendbuff + rank * recvcount. */
tcResult_t tcReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tcDataType_t type, tcRedOp_t op,
                           tcComm_t comm, tcStream_t stream);
/* In place when sendbuff == recvbuff. */
tcResult_t tcAllReduce(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcRedOp_t op,
                       tcComm_t comm, tcStream_t stream);
/* sendbuff is read on `root` only. In place when sendbuff == recvbuff. */
tcResult_t tcBroadcast(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, int root, tcComm_t comm,
                       tcStream_t stream);
/* Both [nRanks, count]; block p of sendbuff becomes block `rank` of p's recvbuff. Not in place. */
tcResult_t tcAllToAll(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcComm_t comm,
                      tcStream_t stream);
/* Completes in stream order once every rank's stream has reached it. */
tcResult_t tcBarrier(tcComm_t comm, tcStream_t stream);
/* recvcounts: [nRanks], host memory, the same on every rank; displs: where each block starts, NULL: packed. */
tcResult_t tcAllGatherV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, const size_t* displs,
                        tcDataType_t type, tcComm_t comm, tcStream_t stream);
tcResult_t tcReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, tcDataType_t type,
                            tcRedOp_t op, tcComm_t comm, tcStream_t stream);
tcResult_t tcAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                       const size_t* recvcounts, const size_t* rdispls, tcDataType_t type, tcComm_t comm,
                       tcStream_t stream);

/* ---- Fused GEMMs: row-major, c = a · bᵀ with b [n,k] as nn.Linear stores it, fp32 accumulation --------------------
 */

/* Gathers a over the ranks and multiplies: c [m,n] on every rank from its own b [n,k].
   a: [mRank,k], this rank's rows of the whole a [m,k]: rank r owns rows [r·ceil(m/R), min(m, (r+1)·ceil(m/R))), or
   config->rowsPerRank[r] rows. A rank without rows may pass a = NULL. m, n and k are the whole operator's, the same on
   every rank; so is type: tcFloat32, tcFloat16 or tcBfloat16. m = 0 or n = 0 succeeds and writes nothing but gatheredA;
   k = 0 is tcInvalidArgument. c must not overlap a, b or gatheredA. */
tcResult_t tcFusedAllGatherGemm(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                                const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);
/* Each rank multiplies its slice of k: a [m,k], b [n,k]; the sum over ranks is scattered by rows: c [mRank,n]. */
tcResult_t tcFusedGemmReduceScatter(const void* a, const void* b, void* c, size_t m, size_t n, size_t k,
                                    tcDataType_t type, const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);
/* The same with the whole sum on every rank: c [m,n]. */
tcResult_t tcFusedGemmAllReduce(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                                const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);

/* ---- Mixture of experts -------------------------------------------------------------------------------------------
 */

tcResult_t tcMoeCreate(tcMoe_t* moe, const tcMoeConfig_t* config, tcComm_t comm); /* collective */
tcResult_t tcMoeDestroy(tcMoe_t moe);                                             /* collective */
tcResult_t tcMoeMemorySize(const tcMoeConfig_t* config, tcComm_t comm, size_t* bytes);
/* Sends each token to the ranks of its experts; recv receives pointers at once, their contents in stream order. */
tcResult_t tcMoeDispatch(tcMoe_t moe, const tcMoeDispatchArgs_t* args, tcMoeRecv_t* recv, tcStream_t stream);
/* Returns each token's expert outputs to its owner and sums them, weighted. */
tcResult_t tcMoeCombine(tcMoe_t moe, const tcMoeCombineArgs_t* args, tcStream_t stream);

/* ---- Planner ------------------------------------------------------------------------------------------------------
 */

/* tcSuccess, or tcUnsupported with the reason. */
tcResult_t tcOpSupported(tcComm_t comm, const tcOpDesc_t* desc);
/* Measures candidates for `count` operators and keeps the winners. Collective; the only call that tunes. */
tcResult_t tcTune(tcComm_t comm, const tcOpDesc_t* descs, size_t count, tcStream_t stream);
/* What would run, what it is predicted to take, and why; a JSON text, the same on every rank. Predictions are made by
   the fact table that TC_FACTS names on rank 0, else by a built-in model. json NULL: *bytes receives the size needed,
   terminator included. */
tcResult_t tcExplain(tcComm_t comm, const tcOpDesc_t* desc, char* json, size_t* bytes);
/* The machine's topology as a JSON text: GPUs, the bridges above them, NUMA nodes, the path between every two GPUs as
   `nvidia-smi topo -m` names it, pairs that share an uplink, best groups of each size, and findings with their cures.
   json NULL: *bytes receives the size needed, terminator included. Else *bytes is json's size, and receives the size
   needed; when that is more, tcInvalidArgument, and json is as before. A machine without GPUs has an empty list. */
tcResult_t tcGetPlatform(tcComm_t comm, char* json, size_t* bytes);

/* ---- The same functions under their profiling names ----------------------------------------------------------------
 */

tcResult_t ptcConfigInit(tcConfig_t* config, size_t size);
tcResult_t ptcGemmConfigInit(tcGemmConfig_t* config, size_t size);
tcResult_t ptcMoeConfigInit(tcMoeConfig_t* config, size_t size);
tcResult_t ptcMoeDispatchArgsInit(tcMoeDispatchArgs_t* args, size_t size);
tcResult_t ptcMoeRecvInit(tcMoeRecv_t* recv, size_t size);
tcResult_t ptcMoeCombineArgsInit(tcMoeCombineArgs_t* args, size_t size);
tcResult_t ptcOpDescInit(tcOpDesc_t* desc, size_t size);
tcResult_t ptcCommStatsInit(tcCommStats_t* stats, size_t size);
tcResult_t ptcGetVersion(int* version);
tcResult_t ptcGetUniqueId(tcUniqueId* id);
tcResult_t ptcUniqueIdFromString(const char* text, tcUniqueId* id);
tcResult_t ptcInitComm(tcComm_t* comm, int nRanks, const tcUniqueId* id, int rank, const tcConfig_t* config);
tcResult_t ptcInitCommAll(tcComm_t* comms, int nRanks, const int* devices, const tcConfig_t* config);
tcResult_t ptcCommSplit(tcComm_t comm, int color, int key, tcComm_t* newComm, const tcConfig_t* config);
tcResult_t ptcCommFinalize(tcComm_t comm);
tcResult_t ptcCommDestroy(tcComm_t comm);
tcResult_t ptcCommAbort(tcComm_t comm);
tcResult_t ptcGroupStart(void);
tcResult_t ptcGroupEnd(void);
tcResult_t ptcCommGetAsyncError(tcComm_t comm, tcResult_t* result);
tcResult_t ptcCommGetErrorWord(tcComm_t comm, const volatile int32_t** host, const int32_t** device);
const char* ptcGetErrorString(tcResult_t result);
const char* ptcGetLastError(tcComm_t comm);
tcResult_t ptcCommCount(tcComm_t comm, int* count);
tcResult_t ptcCommRank(tcComm_t comm, int* rank);
tcResult_t ptcCommDevice(tcComm_t comm, int* device);
tcResult_t ptcCommGetStats(tcComm_t comm, tcCommStats_t* stats);
tcResult_t ptcSetLogCallback(void (*callback)(int level, const char* message, void* user), void* user);
tcResult_t ptcMemAlloc(void** ptr, size_t bytes);
tcResult_t ptcMemFree(void* ptr);
tcResult_t ptcCommRegister(tcComm_t comm, void* ptr, size_t bytes, tcWindow_t* window);
tcResult_t ptcCommDeregister(tcComm_t comm, tcWindow_t window);
tcResult_t ptcStreamCreate(tcComm_t comm, tcStream_t* stream);
tcResult_t ptcStreamDestroy(tcComm_t comm, tcStream_t stream);
tcResult_t ptcStreamSynchronize(tcComm_t comm, tcStream_t stream);
tcResult_t ptcMemcpyAsync(tcComm_t comm, void* dst, const void* src, size_t bytes, tcStream_t stream);
tcResult_t ptcAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, tcComm_t comm,
                        tcStream_t stream);
tcResult_t ptcReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tcDataType_t type, tcRedOp_t op,
                            tcComm_t comm, tcStream_t stream);
tcResult_t ptcAllReduce(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcRedOp_t op,
                        tcComm_t comm, tcStream_t stream);
tcResult_t ptcBroadcast(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, int root, tcComm_t comm,
                        tcStream_t stream);
tcResult_t ptcAllToAll(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcComm_t comm,
                       tcStream_t stream);
tcResult_t ptcBarrier(tcComm_t comm, tcStream_t stream);
tcResult_t ptcAllGatherV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, const size_t* displs,
                         tcDataType_t type, tcComm_t comm, tcStream_t stream);
tcResult_t ptcReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, tcDataType_t type,
                             tcRedOp_t op, tcComm_t comm, tcStream_t stream);
tcResult_t ptcAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                        const size_t* recvcounts, const size_t* rdispls, tcDataType_t type, tcComm_t comm,
                        tcStream_t stream);
tcResult_t ptcFusedAllGatherGemm(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                                 const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);
tcResult_t ptcFusedGemmReduceScatter(const void* a, const void* b, void* c, size_t m, size_t n, size_t k,
                                     tcDataType_t type, const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);
tcResult_t ptcFusedGemmAllReduce(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                                 const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream);
tcResult_t ptcMoeCreate(tcMoe_t* moe, const tcMoeConfig_t* config, tcComm_t comm);
tcResult_t ptcMoeDestroy(tcMoe_t moe);
tcResult_t ptcMoeMemorySize(const tcMoeConfig_t* config, tcComm_t comm, size_t* bytes);
tcResult_t ptcMoeDispatch(tcMoe_t moe, const tcMoeDispatchArgs_t* args, tcMoeRecv_t* recv, tcStream_t stream);
tcResult_t ptcMoeCombine(tcMoe_t moe, const tcMoeCombineArgs_t* args, tcStream_t stream);
tcResult_t ptcOpSupported(tcComm_t comm, const tcOpDesc_t* desc);
tcResult_t ptcTune(tcComm_t comm, const tcOpDesc_t* descs, size_t count, tcStream_t stream);
tcResult_t ptcExplain(tcComm_t comm, const tcOpDesc_t* desc, char* json, size_t* bytes);
tcResult_t ptcGetPlatform(tcComm_t comm, char* json, size_t* bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TC_H_ */
