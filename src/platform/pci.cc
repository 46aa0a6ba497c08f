#include "platform/pci.h"

#include <charconv>
#include <cmath>

#include "base/status.h"

namespace tc::platform {
namespace {

template <class Number, class... Base>
bool Parse(std::string_view text, Number* value, Base... base) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value, base...);
  return error == std::errc() && stop == end;
}

}  // namespace

std::optional<std::string> ParsePciAddress(std::string_view text) {
  uint32_t domain = 0, bus = 0, device = 0, function = 0;
  const auto take = [&text](char separator, size_t digits, uint32_t* value) {
    const size_t length = text.find(separator);
    if (length == std::string_view::npos || length == 0 || length > digits) return false;
    if (!Parse(text.substr(0, length), value, 16)) return false;
    text.remove_prefix(length + 1);
    return true;
  };
  if (text.find(':') != text.rfind(':') && !take(':', 8, &domain)) return std::nullopt;
  if (!take(':', 2, &bus) || !take('.', 2, &device) || text.size() != 1 || !Parse(text, &function, 16)) {
    return std::nullopt;
  }
  return Format("%04x:%02x:%02x.%x", domain, bus, device, function);
}

std::optional<uint32_t> ParseHex(std::string_view text) {
  if (text.substr(0, 2) == "0x") text.remove_prefix(2);
  uint32_t value = 0;
  return Parse(text, &value, 16) ? std::optional(value) : std::nullopt;
}

std::optional<int> ParseInt(std::string_view text) {
  int value = 0;
  return Parse(text, &value) ? std::optional(value) : std::nullopt;
}

std::optional<double> ParseGtS(std::string_view text) {
  if (text.empty() || text.substr(0, 7) == "Unknown") return 0;
  const size_t unit = text.find(" GT/s");
  double value = 0;
  if (unit == std::string_view::npos || !Parse(text.substr(0, unit), &value) || !(value > 0 && value < 1024)) {
    return std::nullopt;
  }
  return value;
}

int PciGeneration(double gt_s) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64, 128};
  int generation = 0;
  for (const double speed : kSpeeds) {
    ++generation;
    if (std::abs(gt_s - speed) < 0.1) return generation;
  }
  return 0;
}

}  // namespace tc::platform
