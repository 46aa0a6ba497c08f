#include "platform/xml.h"

#include <algorithm>
#include <cctype>

namespace tc::platform {
namespace {

constexpr int kDeepest = 64;

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' || c == ':';
}

class XmlParser {
 public:
  explicit XmlParser(std::string_view text) : text_(text) {}

  Status Parse(XmlElement* root) {
    Take("\xef\xbb\xbf");  // a byte order mark
    if (Take("<?xml")) TC_RETURN_IF_ERROR(SkipPast("?>", "the XML declaration"));
    TC_RETURN_IF_ERROR(SkipComments());
    TC_RETURN_IF_ERROR(ParseElement(1, root));
    TC_RETURN_IF_ERROR(SkipComments());
    return text_.empty() ? Status() : Wrong("more after the end of <%s>", root->name);
  }

 private:
  Status Wrong(const char* format, const std::string& what = "") const {
    const std::string sentence =
        what.empty() ? std::string(format) : std::string(format).replace(std::string(format).find("%s"), 2, what);
    return Error(tcInvalidArgument, "line %d: %s", line_, sentence.c_str());
  }

  void Advance(size_t count) {
    line_ += static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    text_.remove_prefix(count);
  }

  bool Take(std::string_view token) {
    if (text_.substr(0, token.size()) != token) return false;
    Advance(token.size());
    return true;
  }

  Status SkipPast(std::string_view end, const char* what) {
    const size_t at = text_.find(end);
    if (at == std::string_view::npos) return Wrong("%s has no end", what);
    Advance(at + end.size());
    return {};
  }

  void SkipSpace() {
    size_t count = 0;
    while (count < text_.size() && std::isspace(static_cast<unsigned char>(text_[count]))) ++count;
    Advance(count);
  }

  Status SkipComments() {
    for (SkipSpace(); Take("<!--"); SkipSpace()) TC_RETURN_IF_ERROR(SkipPast("-->", "a comment"));
    return {};
  }

  Status ParseName(const char* of, std::string* name) {
    size_t count = 0;
    while (count < text_.size() && IsNameCharacter(text_[count])) ++count;
    if (count == 0) return Wrong("%s is missing", of);
    *name = text_.substr(0, count);
    Advance(count);
    return {};
  }

  Status ParseValue(const std::string& key, std::string* value) {
    const char quote = text_.empty() ? '\0' : text_.front();
    if (quote != '"' && quote != '\'') return Wrong("the value of %s is not in quotes", key);
    Advance(1);
    for (; !text_.empty() && text_.front() != quote; Advance(1)) {
      if (text_.front() == '<') break;
      if (text_.front() != '&') {
        value->push_back(text_.front());
        continue;
      }
      constexpr std::pair<std::string_view, char> kEntities[] = {
          {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
      const auto* entity = std::find_if(std::begin(kEntities), std::end(kEntities), [this](const auto& candidate) {
        return text_.substr(0, candidate.first.size()) == candidate.first;
      });
      if (entity == std::end(kEntities)) return Wrong("the value of %s has an & that begins no known entity", key);
      value->push_back(entity->second);
      Advance(entity->first.size() - 1);
    }
    return Take(std::string_view(&quote, 1)) ? Status() : Wrong("the value of %s has no closing quote", key);
  }

  Status ParseElement(int depth, XmlElement* element) {
    element->line = line_;
    if (!Take("<"))
      return Wrong(text_.empty() ? "the file ends where an element was to begin" : "an element was to begin");
    if (depth > kDeepest) return Wrong("elements are nested too deep");
    TC_RETURN_IF_ERROR(ParseName("an element's name", &element->name));
    for (SkipSpace(); !Take("/>"); SkipSpace()) {
      if (Take(">")) return ParseChildren(depth, element);
      if (text_.empty()) return Wrong("the file ends inside <%s>", element->name);
      std::string key, value;
      TC_RETURN_IF_ERROR(ParseName("an attribute's name", &key));
      if (!Take("=")) return Wrong("the attribute %s has no value", key);
      if (element->Attribute(key) != nullptr) return Wrong("the attribute %s is there twice", key);
      TC_RETURN_IF_ERROR(ParseValue(key, &value));
      element->attributes.emplace_back(std::move(key), std::move(value));
    }
    return {};
  }

  Status ParseChildren(int depth, XmlElement* element) {
    for (;;) {
      TC_RETURN_IF_ERROR(SkipComments());
      if (Take("</")) {
        std::string name;
        TC_RETURN_IF_ERROR(ParseName("an element's name", &name));
        SkipSpace();
        if (name != element->name) return Wrong("</%s> ends another element than the one begun last", name);
        return Take(">") ? Status() : Wrong("</%s is not closed", name);
      }
      if (text_.empty()) return Wrong("the file ends inside <%s>", element->name);
      element->children.emplace_back();
      TC_RETURN_IF_ERROR(ParseElement(depth + 1, &element->children.back()));
    }
  }

  std::string_view text_;
  int line_ = 1;
};

}  // namespace

const std::string* XmlElement::Attribute(std::string_view key) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [key](const auto& attribute) { return attribute.first == key; });
  return found != attributes.end() ? &found->second : nullptr;
}

Status ParseXml(std::string_view text, XmlElement* root) { return XmlParser(text).Parse(root); }

}  // namespace tc::platform
