// SPDX-License-Identifier: MIT
// A reader of our own pages that forgives nothing: every element closed in its turn, every attribute quoted, nothing
// but the elements, attributes and entities that a report has any use for.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ref/base/utf8.h"

namespace draftproof::test {

struct Element {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string attribute(std::string_view name) const {
    for (const auto& [key, value] : attributes) {
      if (key == name) return value;
    }
    return "";
  }
};

struct Page {
  std::vector<Element> elements;  // in order of their beginning
  std::string text;               // outside tags, entities undone; without the style sheet
  std::string style;
  std::string fault;  // the first; empty when there is none

  explicit Page(const std::string& page) : page_(page) { read(); }

 private:
  static constexpr std::string_view void_element = "meta";

  void read() {
    const std::set<std::string> elements_known = {
        "html",       "head",    "meta",    "title", "style",  "body",  "main",  "header", "section", "article",
        "footer",     "h1",      "h2",      "h3",    "h4",     "p",     "div",   "span",   "strong",  "em",
        "b",          "i",       "pre",     "dl",    "dt",     "dd",    "ol",    "ul",     "li",      "figure",
        "figcaption", "details", "summary", "table", "thead",  "tbody", "tfoot", "tr",     "th",      "td",
        "svg",        "desc",    "g",       "path",  "circle", "rect",  "text"};
    if (!utf8::is_valid(page_)) return fail("not UTF-8");
    const auto shapeless = [](char c) { return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 127; };
    if (std::any_of(page_.begin(), page_.end(), shapeless)) return fail("a control character");
    if (!take("<!DOCTYPE html>\n")) return fail("no document type");
    std::vector<std::string> open;
    while (at_ < page_.size() && fault.empty()) {
      if (take("</")) {
        const std::string name = word();
        if (!take(">") || open.empty() || open.back() != name) return fail("</" + name + "> closes nothing");
        open.pop_back();
      } else if (take("<")) {
        Element element{word(), {}};
        if (!elements_known.contains(element.name)) return fail("an unknown element " + element.name);
        attributes_of(element);
        if (!take(">")) return fail("a tag that does not end: " + element.name);
        const std::string name = element.name;
        elements.push_back(std::move(element));
        if (name == "style") {
          const std::size_t end = std::min(page_.find("</", at_), page_.size());
          style += page_.substr(at_, end - at_);
          at_ = end;
        }
        if (name != void_element) open.push_back(name);
      } else {
        text += character();
      }
    }
    if (!open.empty()) fail(open.back() + " is not closed");
  }

  void attributes_of(Element& element) {
    const std::set<std::string> known = {"class",      "title",   "scope",      "tabindex",   "lang", "charset",
                                         "name",       "content", "http-equiv", "viewBox",    "role", "aria-hidden",
                                         "aria-label", "d",       "x",          "y",          "cx",   "cy",
                                         "r",          "width",   "height",     "text-anchor"};
    while (fault.empty() && take(" ")) {
      const std::string name = word();
      if (!known.contains(name)) return fail("an unknown attribute " + name);
      if (!take("=\"")) return fail("an attribute without quotes: " + name);
      std::string value;
      while (at_ < page_.size() && page_[at_] != '"' && fault.empty()) value += character();
      if (!take("\"")) return fail("an attribute that does not end: " + name);
      if (element.attribute(name) != "") return fail("an attribute twice: " + name);
      element.attributes.emplace_back(name, value);
    }
  }

  std::string word() {
    const auto in_word = [](char c) {
      return (c >= 'a' && c <= 'z') || c == 'B' || c == '-' || (c >= '1' && c <= '4');
    };
    const std::size_t from = at_;
    while (at_ < page_.size() && in_word(page_[at_])) ++at_;
    return page_.substr(from, at_ - from);
  }

  std::string character() {
    const std::vector<std::pair<std::string_view, char>> entities = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
    for (const auto& [entity, meant] : entities) {
      if (take(entity)) return {meant};
    }
    if (std::string_view("&<>").find(page_[at_]) != std::string_view::npos) fail("a bare " + page_.substr(at_, 20));
    return {page_[at_++]};
  }

  bool take(std::string_view what) {
    if (std::string_view(page_).substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }

  void fail(const std::string& what) {
    if (fault.empty()) fault = what + ", at byte " + std::to_string(at_);
  }

  std::string page_;
  std::size_t at_ = 0;
};

}  // namespace draftproof::test
