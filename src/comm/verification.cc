#include "comm/verification.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/log.h"
#include "base/sha256.h"

namespace tc {
namespace {

constexpr const char* kNames[kPeerChecks] = {"stores", "bulk_stores", "loads", "copies", "flags"};
constexpr const char* kMagic = "TileComm verification 1";

struct Pair {
  PeerCheck check;
  int from;
  int to;
};

std::optional<Pair> FirstWrong(const PeerVerdicts& verdicts, PeerCheck check) {
  for (int to = 0; to < kMaxRanks; ++to) {
    const unsigned wrong = verdicts.wrong[static_cast<int>(check)][to];
    if (wrong != 0) return Pair{check, __builtin_ctz(wrong), to};
  }
  return std::nullopt;
}

// What a plane moves its data by; every plane but host-staged signals by flags in the peer's memory.
PeerCheck DataCheck(tcPlane_t plane) {
  if (plane == tcPlanePull) return PeerCheck::kLoads;
  return plane == tcPlaneCopyEngine ? PeerCheck::kCopies : PeerCheck::kStores;
}

std::string Describe(const Pair& pair) {
  constexpr const char* kCure =
      "turn ACS off on the bridges above the GPUs (tcGetPlatform names them) or boot with iommu=pt";
  switch (pair.check) {
    case PeerCheck::kStores:
    case PeerCheck::kBulkStores:
      return Format("rank %d's stores into rank %d's memory do not arrive as they were sent; %s", pair.from, pair.to,
                    kCure);
    case PeerCheck::kLoads:
      return Format("rank %d's loads from rank %d's memory return other data; %s", pair.to, pair.from, kCure);
    case PeerCheck::kCopies:
      return Format("rank %d's copy engine fetches other data than rank %d's memory holds; %s", pair.to, pair.from,
                    kCure);
    default:
      return Format("rank %d's flags reach rank %d before the data that they announce, or not at all; %s", pair.from,
                    pair.to, kCure);
  }
}

std::string PathFor(const std::string& directory, const std::string& key) {
  std::string name;
  for (const uint8_t byte : Sha256(key)) name += Format("%02x", byte);
  return directory + "/verify-" + name.substr(0, 32);
}

std::string Remembered(const std::string& key) { return Format("%s\n%s\nall right\n", kMagic, key.c_str()); }

}  // namespace

const char* CheckName(PeerCheck check) { return kNames[static_cast<int>(check)]; }

const std::vector<CheckStep>& CheckSteps() {
  static const auto* steps = [] {
    constexpr uint64_t kSizes[] = {48, 4096 + 16, CheckArea::kBytes};
    auto* made = new std::vector<CheckStep>;
    uint64_t seed = 0;
    for (int check = 0; check < kPeerChecks; ++check) {
      for (const uint64_t bytes : kSizes) {
        ++seed;
        for (const bool compares : {false, true}) {
          made->push_back({static_cast<PeerCheck>(check), compares, bytes, seed});
        }
        if (static_cast<PeerCheck>(check) == PeerCheck::kFlags) break;  // many rounds of one size
      }
    }
    return made;
  }();
  return *steps;
}

std::string WhyFailed(const PeerVerdicts& verdicts, tcPlane_t plane) {
  if (plane == tcPlaneHostStaged) return {};
  for (const PeerCheck check : {DataCheck(plane), PeerCheck::kFlags}) {
    if (const auto pair = FirstWrong(verdicts, check)) return Describe(*pair);
  }
  return {};
}

bool ParseCheckFailures(const std::string& text, PeerVerdicts* verdicts) {
  if (text.empty() || text.back() == ',') return false;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    int from = -1;
    int to = -1;
    int end = 0;
    const size_t colon = item.find(':');
    if (colon == std::string::npos) return false;
    const std::string pair = item.substr(colon + 1);
    if (std::sscanf(pair.c_str(), "%2d-%2d%n", &from, &to, &end) != 2 || pair.size() != static_cast<size_t>(end)) {
      return false;
    }
    int check = 0;
    while (check < kPeerChecks && item.substr(0, colon) != kNames[check]) ++check;
    if (check == kPeerChecks || from < 0 || to < 0 || from >= kMaxRanks || to >= kMaxRanks) return false;
    verdicts->Fail(static_cast<PeerCheck>(check), from, to);
  }
  return true;
}

std::string Pack(const PeerVerdicts& verdicts) {
  std::string packed;
  for (int check = 0; check < kPeerChecks; ++check) {
    packed += kNames[check];
    for (const RankSet wrong : verdicts.wrong[check]) packed += Format(" %04x", wrong);
    packed += '\n';
  }
  return packed;
}

bool Unpack(const std::string& packed, PeerVerdicts* verdicts) {
  std::istringstream text(packed);
  PeerVerdicts read;
  for (int check = 0; check < kPeerChecks; ++check) {
    std::string name;
    if (!(text >> name) || name != kNames[check]) return false;
    for (RankSet& wrong : read.wrong[check]) {
      std::string digits;
      if (!(text >> digits) || digits.size() != 4 ||
          digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return false;
      }
      wrong = static_cast<RankSet>(std::strtoul(digits.c_str(), nullptr, 16));
    }
  }
  std::string rest;
  if (text >> rest) return false;
  *verdicts = read;
  return true;
}

std::string CacheDirectory(const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/tilecomm";
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/tilecomm" : std::string();
}

bool IsRemembered(const std::string& directory, const std::string& key) {
  if (directory.empty()) return false;
  const std::string path = PathFor(directory, key);
  struct stat status;
  if (::stat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) return false;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (text.str() == Remembered(key)) return true;
  Log(tcLogWarn, "%s makes no sense; ranks verify each other's memory anew", path.c_str());
  return false;
}

void Remember(const std::string& directory, const std::string& key) {
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path = PathFor(directory, key);
  const std::string temporary = path + Format(".%d", static_cast<int>(::gettid()));
  std::ofstream file(temporary, std::ios::binary);
  file << Remembered(key);
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return;
  ::unlink(temporary.c_str());
  Log(tcLogInfo, "%s cannot be written, so ranks verify each other's memory each time; set TC_CACHE_DIR", path.c_str());
}

}  // namespace tc
