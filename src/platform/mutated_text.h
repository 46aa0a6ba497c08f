// For tests: texts with a few random mistakes in them, as a torn write, a bad disk or a careless editor makes them.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace tc::platform {

inline std::string Mutated(std::string text, std::mt19937_64& random) {
  const std::vector<std::string> words = {
      "-1",   "0",  "1e308",   "1e999", "null", "true", "[]", "{}", "[[[[", "\"\"",
      "NODE", "NV", "\\u0000", "\xff",  "-0.0", "1e-9", "\"", ",,", "}",    "99999999999999999999"};
  const auto below = [&](size_t end) { return static_cast<size_t>(random() % std::max<size_t>(end, 1)); };
  for (size_t mistakes = 1 + below(4); mistakes > 0; --mistakes) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(below(40), text.size() - at);
    switch (below(7)) {
      case 0:  // truncated
        text.resize(at);
        break;
      case 1:  // a bit flips
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 2:  // a piece is missing
        text.erase(at, length);
        break;
      case 3:  // a piece stands twice, or elsewhere
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 4:
        text.insert(at, words[below(words.size())]);
        break;
      case 5: {  // a number becomes another word
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        text.replace(digit, text.find_first_not_of("0123456789.", digit) - digit, words[below(words.size())]);
        break;
      }
      case 6: {  // a number grows or shrinks
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos)
          text.insert(digit, std::string(1 + below(3), static_cast<char>('0' + below(10))));
        break;
      }
    }
  }
  return text;
}

}  // namespace tc::platform
