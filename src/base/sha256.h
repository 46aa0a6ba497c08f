// SHA-256 (FIPS 180-4) of a short text: ids derived from a string, and the checksum of an id.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tc {

std::array<uint8_t, 32> Sha256(std::string_view bytes);

}  // namespace tc
