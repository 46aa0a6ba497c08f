/* A C99 program that knows tc.h only: one rank alone, four ranks as threads, and four ranks driven by one thread. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tc.h>

enum { kRanks = 4, kM = 37, kN = 24, kK = 40 };

#define CHECK(call)                                                                            \
  do {                                                                                         \
    tcResult_t result_ = (call);                                                               \
    if (result_ != tcSuccess) {                                                                \
      fprintf(stderr, "%s: %s: %s\n", #call, tcGetErrorString(result_), tcGetLastError(NULL)); \
      exit(1);                                                                                 \
    }                                                                                          \
  } while (0)

typedef struct {
  tcComm_t comm;
  float a[kM * kK]; /* the rows this rank owns */
  float b[kN * kK];
  float c[kM * kN];
} Rank;

static float ValueA(int row, int col) { return (float)((row * 7 + col * 3) % 17 - 8) / 8; }
static float ValueB(int rank, int row, int col) { return (float)((row * 5 + col * 11 + rank) % 13 - 6) / 4; }

static tcConfig_t HostConfig(void) {
  tcConfig_t config;
  CHECK(TC_CONFIG_INIT(&config));
  config.backend = tcBackendHost;
  return config;
}

static void Enqueue(Rank* self, int rank, int n_ranks) {
  const int per_rank = (kM + n_ranks - 1) / n_ranks;
  tcGemmConfig_t config;
  int i, j;
  for (i = rank * per_rank; i < kM && i < (rank + 1) * per_rank; ++i) {
    for (j = 0; j < kK; ++j) self->a[(i - rank * per_rank) * kK + j] = ValueA(i, j);
  }
  for (i = 0; i < kN; ++i) {
    for (j = 0; j < kK; ++j) self->b[i * kK + j] = ValueB(rank, i, j);
  }
  CHECK(TC_GEMM_CONFIG_INIT(&config));
  CHECK(tcFusedAllGatherGemm(self->a, self->b, self->c, kM, kN, kK, tcFloat32, &config, self->comm, NULL));
}

static void Finish(Rank* self, int rank, int n_ranks) {
  int got_rank = -1, got_count = -1, i, j, k;
  CHECK(tcStreamSynchronize(self->comm, NULL));
  for (i = 0; i < kM; ++i) {
    for (j = 0; j < kN; ++j) {
      double want = 0;
      for (k = 0; k < kK; ++k) want += (double)ValueA(i, k) * ValueB(rank, j, k);
      if (!(fabs(self->c[i * kN + j] - want) <= 1e-4)) {
        fprintf(stderr, "rank %d: c[%d][%d] is %g, not %g\n", rank, i, j, self->c[i * kN + j], want);
        exit(1);
      }
    }
  }
  CHECK(tcCommRank(self->comm, &got_rank));
  CHECK(tcCommCount(self->comm, &got_count));
  if (got_rank != rank || got_count != n_ranks) exit(1);
  CHECK(tcCommDestroy(self->comm));
}

static void OneRank(void) {
  Rank* self = calloc(1, sizeof(*self));
  tcConfig_t config = HostConfig();
  tcUniqueId id;
  CHECK(tcGetUniqueId(&id));
  CHECK(tcInitComm(&self->comm, 1, &id, 0, &config));
  Enqueue(self, 0, 1);
  Finish(self, 0, 1);
  free(self);
}

typedef struct {
  int rank;
  tcUniqueId id;
} Thread;

static void* RunThread(void* argument) {
  const Thread* thread = argument;
  Rank* self = calloc(1, sizeof(*self));
  tcConfig_t config = HostConfig();
  CHECK(tcInitComm(&self->comm, kRanks, &thread->id, thread->rank, &config));
  Enqueue(self, thread->rank, kRanks);
  Finish(self, thread->rank, kRanks);
  free(self);
  return NULL;
}

static void RanksAsThreads(void) {
  pthread_t handles[kRanks];
  Thread threads[kRanks];
  int i;
  CHECK(tcGetUniqueId(&threads[0].id));
  for (i = 0; i < kRanks; ++i) {
    threads[i].rank = i;
    threads[i].id = threads[0].id;
    if (pthread_create(&handles[i], NULL, RunThread, &threads[i]) != 0) exit(1);
  }
  for (i = 0; i < kRanks; ++i) pthread_join(handles[i], NULL);
}

static void AllRanksOfOneThread(void) {
  Rank* ranks = calloc(kRanks, sizeof(*ranks));
  tcComm_t comms[kRanks];
  tcConfig_t config = HostConfig();
  int i;
  CHECK(tcInitCommAll(comms, kRanks, NULL, &config));
  for (i = 0; i < kRanks; ++i) ranks[i].comm = comms[i];
  for (i = 0; i < kRanks; ++i) Enqueue(&ranks[i], i, kRanks);
  for (i = 0; i < kRanks; ++i) Finish(&ranks[i], i, kRanks);
  free(ranks);
}

int main(void) {
  int version = 0;
  CHECK(tcGetVersion(&version));
  if (version != TC_VERSION_CODE) {
    fprintf(stderr, "built with tc.h %d, runs with the library %d\n", TC_VERSION_CODE, version);
    return 1;
  }
  OneRank();
  RanksAsThreads();
  AllRanksOfOneThread();
  puts("consumer: ok");
  return 0;
}
