// The part of XML that NCCL's topology files are made of: elements, attributes and comments; no text, no DTD.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tc::platform {

struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;

  // NULL when it has none of that name.
  const std::string* Attribute(std::string_view key) const;
};

// One element and everything in it. tcInvalidArgument says the line and what is wrong there.
Status ParseXml(std::string_view text, XmlElement* root);

}  // namespace tc::platform
