#include "gemm_case.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "reference.h"
#include "shards.h"

namespace tc::perf {
namespace {

// Bytes that are made on the host and copied at a time.
constexpr size_t kPieceBytes = size_t{1} << 20;

using Buffers = std::vector<std::unique_ptr<Buffer>>;

// Uploads a matrix of `rows` x `cols` elements, some rows at a time; fill(first, count, values) makes rows [first,
// first + count) of it.
template <typename Fill>
void Upload(Communicator& communicator, const ElementType& type, size_t rows, size_t cols, Buffer& target,
            const Fill& fill) {
  const size_t row_bytes = cols * type.bytes;
  if (rows == 0 || row_bytes == 0) return;
  const size_t piece_rows = std::clamp<size_t>(kPieceBytes / row_bytes, 1, rows);
  std::vector<float> values(piece_rows * cols);
  std::vector<std::byte> piece(piece_rows * row_bytes);
  for (size_t first = 0; first < rows; first += piece_rows) {
    const size_t count = std::min(piece_rows, rows - first);
    const std::span<float> made(values.data(), count * cols);
    fill(first, count, made);
    Encode(type, made, piece.data());
    communicator.Copy(target.Data() + first * row_bytes, piece.data(), count * row_bytes);
  }
}

class AllGatherGemmCase {
 public:
  AllGatherGemmCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                    Communicator& communicator)
      : options_(options),
        shape_(shape),
        inputs_(inputs),
        type_(inputs.Type()),
        communicator_(communicator),
        rank_(communicator.Owner()),
        shard_(ShardOf(shape.m, rank_.Count(), rank_.Index())),
        reference_(inputs, shape.m, shape.n, shape.k, rank_.Index(), rank_.Count(), options.common.seed),
        c_(communicator, shape.m * shape.n * type_.bytes) {
    for (size_t set = 0; set < inputs_.Sets(); ++set) {
      a_.push_back(MakeA(set));
      b_.push_back(MakeB(set));
    }
    Require(rank_, TC_GEMM_CONFIG_INIT(&config_), "tcGemmConfigInit");
    config_.bLayout = options_.b_layout;
    if (options_.gathered) {
      gathered_ = std::make_unique<Buffer>(communicator_, shape.m * shape.k * type_.bytes, options_.registered);
      config_.gatheredA = gathered_->Data();
    }
  }

  RankResult Run(SharedResult* kept) {
    RankResult result;
    const int warmup = options_.common.warmup_iters;
    const int all = warmup + options_.common.iters;
    for (int iteration = 0; iteration < all; ++iteration) {
      const size_t set = static_cast<size_t>(iteration) % inputs_.Sets();
      const double time_us = Time(set);
      if (iteration < warmup) continue;
      result.times_us.push_back(time_us);
      if (options_.common.check) Check(set, static_cast<uint64_t>(iteration), &result);
    }
    if (kept != nullptr) Keep(kept, &result);
    return result;
  }

 private:
  std::unique_ptr<Buffer> MakeA(size_t set) const {
    auto a = std::make_unique<Buffer>(communicator_, shard_.rows * shape_.k * type_.bytes);
    const auto fill = [&](size_t first, size_t count, std::span<float> values) {
      for (size_t i = 0; i < count; ++i) {
        inputs_.ReadA(set, shard_.first + first + i, 0, values.subspan(i * shape_.k, shape_.k));
      }
    };
    Upload(communicator_, type_, shard_.rows, shape_.k, *a, fill);
    return a;
  }

  std::unique_ptr<Buffer> MakeB(size_t set) const {
    auto b = std::make_unique<Buffer>(communicator_, shape_.n * shape_.k * type_.bytes);
    const auto fill_nk = [&](size_t first, size_t count, std::span<float> values) {
      for (size_t i = 0; i < count; ++i) {
        inputs_.ReadB(set, rank_.Index(), first + i, 0, values.subspan(i * shape_.k, shape_.k));
      }
    };
    const auto fill_kn = [&](size_t first, size_t count, std::span<float> values) {
      std::vector<float> column(count);
      for (size_t j = 0; j < shape_.n; ++j) {
        inputs_.ReadB(set, rank_.Index(), j, first, column);
        for (size_t i = 0; i < count; ++i) values[i * shape_.n + j] = column[i];
      }
    };
    if (options_.b_layout == tcBLayoutNK) {
      Upload(communicator_, type_, shape_.n, shape_.k, *b, fill_nk);
    } else {
      Upload(communicator_, type_, shape_.k, shape_.n, *b, fill_kn);
    }
    return b;
  }

  // One iteration, from a common start to its end on this rank.
  double Time(size_t set) {
    using Clock = std::chrono::steady_clock;
    c_.Poison();
    if (gathered_ != nullptr) gathered_->Poison();
    const void* a = shard_.rows > 0 ? a_[set]->Data() : nullptr;
    const void* b = b_[set]->Data();
    const tcComm_t comm = communicator_.Comm();
    communicator_.Barrier();
    const Clock::time_point start = Clock::now();
    const tcResult_t issued = tcFusedAllGatherGemm(a, b, c_.Data(), shape_.m, shape_.n, shape_.k, type_.code, &config_,
                                                   comm, communicator_.Stream());
    const tcResult_t done = issued == tcSuccess ? tcStreamSynchronize(comm, communicator_.Stream()) : issued;
    const Clock::time_point end = Clock::now();
    Require(rank_, done, "tcFusedAllGatherGemm", comm);
    return std::chrono::duration<double, std::micro>(end - start).count();
  }

  size_t Elements(size_t bytes) const { return (bytes + type_.bytes - 1) / type_.bytes; }

  void Check(size_t set, uint64_t iteration, RankResult* result) {
    size_t spoiled = 0;
    const std::byte* c = c_.CopyOut(&spoiled);
    result->wrong += reference_.CountWrong(c, set, iteration);
    result->spoiled += Elements(spoiled);
    if (gathered_ == nullptr) return;
    result->wrong += reference_.CountWrongGathered(gathered_->CopyOut(&spoiled), set);
    result->spoiled += Elements(spoiled);
  }

  void Keep(SharedResult* kept, RankResult* result) {
    size_t spoiled = 0;  // counted by Check
    const std::byte* c = c_.CopyOut(&spoiled);
    if (rank_.Index() == 0) {
      kept->Publish(c);
    } else {
      result->differing = kept->CountDifferences(c, type_.bytes);
    }
  }

  const GemmOptions& options_;
  const GemmShape shape_;
  const Inputs& inputs_;
  const ElementType& type_;
  Communicator& communicator_;
  Rank& rank_;
  const Shard shard_;
  GemmReference reference_;
  Buffers a_;
  Buffers b_;
  Buffer c_;
  std::unique_ptr<Buffer> gathered_;
  tcGemmConfig_t config_;
};

}  // namespace

void to_json(nlohmann::json& json, const RankResult& result) {
  json = {{"times_us", result.times_us},
          {"wrong", result.wrong},
          {"spoiled", result.spoiled},
          {"differing", result.differing}};
}

void from_json(const nlohmann::json& json, RankResult& result) {
  json.at("times_us").get_to(result.times_us);
  json.at("wrong").get_to(result.wrong);
  json.at("spoiled").get_to(result.spoiled);
  json.at("differing").get_to(result.differing);
}

double GemmCaseBytes(const GemmOptions& options, const GemmShape& shape, size_t sets, size_t element_bytes,
                     int n_ranks) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double inputs =
      static_cast<double>(sets) * (static_cast<double>(ShardOf(shape.m, n_ranks, 0).rows) * k + n * k);
  const double outputs = m * n + (options.gathered ? m * k : 0);
  return (inputs + 2 * outputs) * static_cast<double>(element_bytes);
}

RankResult RunAllGatherGemm(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                            Communicator& communicator, SharedResult* kept) {
  return AllGatherGemmCase(options, shape, inputs, communicator).Run(kept);
}

}  // namespace tc::perf
