#include "comm/unique_id.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sha256.h"

namespace tc {
namespace {

// magic and version, name, joiner's secret, root's secret, zeros, checksum over all before it
constexpr std::array<uint8_t, 8> kMagic = {'T', 'i', 'l', 'e', 'I', 'd', 0xc3, 1};
constexpr size_t kNameAt = 8;
constexpr size_t kJoinerSecretAt = 24;
constexpr size_t kRootSecretAt = 56;
constexpr size_t kChecksumAt = 120;
constexpr size_t kChecksumBytes = 8;
static_assert(kChecksumAt + kChecksumBytes == sizeof(tcUniqueId::internal));

std::array<uint8_t, 32> Checksum(const tcUniqueId& encoded) {
  return Sha256(std::string_view(encoded.internal, kChecksumAt));
}

// A field of its own for each label: who knows the name has learnt nothing about a secret but by guessing the text.
std::array<uint8_t, 32> Derive(std::string_view label, std::string_view text) {
  std::string input = "TileComm id from string 1: ";
  input.append(label).push_back('\0');
  return Sha256(input.append(text));
}

}  // namespace

Status MakeUniqueId(UniqueId* id) {
  std::array<uint8_t, sizeof(UniqueId)> random;
  for (size_t have = 0; have < random.size();) {
    const ssize_t got = ::getrandom(random.data() + have, random.size() - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError(errno, "the system gave no random bytes for an id");
    have += static_cast<size_t>(got);
  }
  std::memcpy(id, random.data(), sizeof(UniqueId));
  return Status();
}

UniqueId UniqueIdFromString(std::string_view text) {
  UniqueId id;
  const std::array<uint8_t, 32> name = Derive("name", text);
  std::copy_n(name.begin(), id.name.size(), id.name.begin());
  id.joiner_secret = Derive("joiner's secret", text);
  id.root_secret = Derive("root's secret", text);
  return id;
}

tcUniqueId Encode(const UniqueId& id) {
  tcUniqueId encoded{};
  std::memcpy(encoded.internal, kMagic.data(), kMagic.size());
  std::memcpy(encoded.internal + kNameAt, id.name.data(), id.name.size());
  std::memcpy(encoded.internal + kJoinerSecretAt, id.joiner_secret.data(), id.joiner_secret.size());
  std::memcpy(encoded.internal + kRootSecretAt, id.root_secret.data(), id.root_secret.size());
  std::memcpy(encoded.internal + kChecksumAt, Checksum(encoded).data(), kChecksumBytes);
  return encoded;
}

Status Decode(const tcUniqueId& encoded, UniqueId* id) {
  if (std::memcmp(encoded.internal, kMagic.data(), kMagic.size()) != 0 ||
      std::memcmp(encoded.internal + kChecksumAt, Checksum(encoded).data(), kChecksumBytes) != 0) {
    return Error(tcInvalidArgument,
                 "the unique id is not an id made by tcGetUniqueId or tcUniqueIdFromString; pass all of its %zu bytes "
                 "unchanged from the rank that made it to every other",
                 sizeof(encoded.internal));
  }
  std::memcpy(id->name.data(), encoded.internal + kNameAt, id->name.size());
  std::memcpy(id->joiner_secret.data(), encoded.internal + kJoinerSecretAt, id->joiner_secret.size());
  std::memcpy(id->root_secret.data(), encoded.internal + kRootSecretAt, id->root_secret.size());
  return Status();
}

std::string NameInHex(const UniqueId& id) {
  std::string hex;
  for (const uint8_t byte : id.name) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace tc
