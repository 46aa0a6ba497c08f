// What a tcUniqueId holds: a public name under which rank 0 listens, and the secrets by which both ends know each
// other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tc.h"

namespace tc {

struct UniqueId {
  std::array<uint8_t, 16> name;           // part of the socket's address: no secret
  std::array<uint8_t, 32> joiner_secret;  // a joining rank shows it to rank 0
  std::array<uint8_t, 32> root_secret;    // rank 0 shows it to a joining rank
};

Status MakeUniqueId(UniqueId* id);                   // from the system's random source
UniqueId UniqueIdFromString(std::string_view text);  // the same for the same text, everywhere

tcUniqueId Encode(const UniqueId& id);
Status Decode(const tcUniqueId& encoded, UniqueId* id);  // tcInvalidArgument when it is no id of this library

std::string NameInHex(const UniqueId& id);

}  // namespace tc
