// SPDX-License-Identifier: MIT
// As much of an XML 1.0 reader as it takes to say that a text is well-formed: elements, attributes, the five entities,
// UTF-8, and no character that XML does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace draftproof::test {

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  /// Empty when it is well-formed.
  std::string fault() {
    if (!characters()) return "a character that XML does not have";
    constexpr std::string_view declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    if (!text_.starts_with(declaration)) return "no declaration";
    at_ = declaration.size();
    std::vector<std::string> open;
    bool root = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '<') {
        if (open.empty() && root && text_.substr(at_, 2) != "</") return "a second root";
        root = true;
        if (const std::string wrong = tag(open); !wrong.empty()) return wrong;
      } else if (c == '&') {
        if (!entity()) return "an ampersand that is no entity";
      } else if (text_.substr(at_, 3) == "]]>") {
        return "]]> in text";
      } else {
        if (open.empty() && c != '\n' && c != ' ') return "text outside the root";
        ++at_;
      }
    }
    return open.empty() && root ? "" : "an element is not closed";
  }

 private:
  bool characters() const {
    for (std::size_t i = 0; i < text_.size();) {
      const auto byte = static_cast<unsigned char>(text_[i]);
      const int more = byte < 0x80 ? 0 : byte >= 0xf0 && byte < 0xf5 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc2 ? 1 : -1;
      if (byte >= 0xf5 || more < 0 || i + static_cast<std::size_t>(more) >= text_.size()) return false;
      std::uint32_t code = more == 0 ? byte : byte & (0x3fu >> more);
      for (int j = 1; j <= more; ++j) {
        const auto next = static_cast<unsigned char>(text_[i + static_cast<std::size_t>(j)]);
        if ((next & 0xc0) != 0x80) return false;
        code = code << 6 | (next & 0x3f);
      }
      const bool control = code < 0x20 && code != 9 && code != 10 && code != 13;
      const std::uint32_t min[] = {0, 0x80, 0x800, 0x10000};
      if (control || code < min[more] || (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff) {
        return false;
      }
      i += static_cast<std::size_t>(more) + 1;
    }
    return true;
  }

  static bool of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  }
  std::string name() {
    const std::size_t from = at_;
    while (at_ < text_.size() && of_name(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }
  bool take(std::string_view words) {
    if (!text_.substr(at_).starts_with(words)) return false;
    at_ += words.size();
    return true;
  }

  bool entity() {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#39;"}) {
      if (take(known)) return true;
    }
    return false;
  }

  std::string tag(std::vector<std::string>& open) {
    if (take("</")) {
      if (open.empty() || name() != open.back() || !take(">")) return "a closing tag that closes nothing";
      open.pop_back();
      return "";
    }
    ++at_;
    const std::string element = name();
    if (element.empty()) return "a < that begins no element";
    std::set<std::string> seen;
    while (take(" ")) {
      const std::string attribute = name();
      if (attribute.empty() || !take("=\"") || !seen.insert(attribute).second) return "an attribute that is none";
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '<') return "a < in an attribute";
        if (text_[at_] != '&') {
          ++at_;
        } else if (!entity()) {
          return "an ampersand that is no entity";
        }
      }
      if (!take("\"")) return "an attribute that does not end";
    }
    if (take("/>")) return "";
    if (!take(">")) return "a tag that does not end";
    open.push_back(element);
    return "";
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline std::string xml_fault(const std::string& text) { return XmlReader(text).fault(); }

}  // namespace draftproof::test
