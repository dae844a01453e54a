// SPDX-License-Identifier: MIT
#include "ref/answers/part_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ref/answers/blanks.h"

namespace draftproof {
namespace {

/// The first place of a part of a mark in a text, or of what the text ends with and may become one, or the end.
std::size_t find_begun(std::string_view text, std::string_view part) {
  for (std::size_t at = text.find(part.front()); at < text.size(); at = text.find(part.front(), at + 1)) {
    if (match_part(text.substr(at), part).match != Match::no) return at;
  }
  return text.size();
}

class MarkedReader final : public PartReader {
 public:
  MarkedReader(const AnswerFormat& format, AnswerTerms terms)
      : calls_(terms.calls ? format.calls : nullptr),
        thoughts_(terms.thoughts ? format.thoughts : nullptr),
        texts_(std::move(terms.texts)),
        place_(thoughts_ == nullptr                   ? Place::content
               : terms.thinking == Thinking::begun    ? Place::thought
               : terms.thinking == Thinking::possible ? Place::start
                                                      : Place::content) {
    if (format.calls != nullptr) marks_ = format.calls->frame;
    if (calls_ != nullptr && !bare()) {
      marks_.push_back(parts_of_mark(calls_->section.empty() ? calls_->begin : calls_->section).front());
    }
    if (format.calls == nullptr || !format.calls->opened) return;
    place_ = Place::opened;
    content_begin_ = format.calls->frame.front().substr(format.calls->begin.size());
  }

  bool cut_off() const override { return told_name_; }

 private:
  enum class Place { opened, start, thought, content, section, call, behind_call };

  void read(bool last) override {
    last_ = last;
    while (read_on()) {
    }
    if (last) take(place_ == Place::thought ? Kind::thought : Kind::content, told_name_ ? 0 : text_.size());
  }

  /// Reads on at one place. Returns whether there may be more to read; else more text is needed.
  bool read_on() {
    switch (place_) {
      case Place::opened: return read_opened();
      case Place::start: return read_start();
      case Place::thought: return read_thought();
      case Place::content: return read_content();
      case Place::section: return read_section();
      case Place::call: return read_one();
      case Place::behind_call: return read_behind();
    }
    return false;
  }

  /// At the end of a text what may become a mark is none.
  MarkMatch match(std::string_view mark) const {
    MarkMatch matched = match_mark(text_, mark);
    if (matched.match == Match::maybe && last_) matched.match = Match::no;
    return matched;
  }
  void go(Place place, bool drop_blanks) {
    place_ = place;
    drop_blanks_ = drop_blanks;
  }
  /// Drops blanks that are part of nothing. Returns whether there is something else.
  bool begun() {
    if (drop_blanks_) text_.erase(0, behind_blanks(text_));
    if (!text_.empty()) drop_blanks_ = false;
    return !text_.empty();
  }

  bool read_opened() {
    const MarkMatch content = match_part(text_, content_begin_);
    if (content.match == Match::maybe && !last_) return false;
    if (content.match == Match::yes) text_.erase(0, content.end);
    opened_ = content.match != Match::yes && calls_ != nullptr;
    go(opened_ ? Place::call : Place::content, true);
    return true;
  }

  bool read_start() {
    if (behind_blanks(text_) == text_.size()) return false;
    const MarkMatch begin = match(thoughts_->begin);
    if (begin.match == Match::maybe) return false;
    if (begin.match == Match::yes) text_.erase(0, begin.end);
    if (begin.match == Match::yes) go(Place::thought, true);
    else go(Place::content, false);
    return true;
  }

  bool read_thought() {
    if (!begun()) return false;
    const std::string_view end = parts_of_mark(thoughts_->end).front();
    const std::size_t at = find_begun(text_, end);
    const bool ended = text_.substr(at).starts_with(end);
    if (!ended && last_) return false;
    take(Kind::thought, without_blanks_behind(std::string_view(text_).substr(0, at)));
    if (!ended) return false;
    text_.erase(0, text_.find(end) + end.size());
    go(Place::content, true);
    return true;
  }

  /// Whether calls have no mark: then an answer that is one has nothing else.
  bool bare() const { return calls_->begin.empty() && (calls_->section.empty() || calls_->section == "["); }

  bool read_content() {
    if (!begun()) return false;
    if (calls_ != nullptr && bare()) {
      const std::size_t begin = behind_blanks(text_);
      if (!content_ && begin == text_.size()) return false;
      if (!content_ && text_[begin] == (calls_->section.empty() ? '{' : '[')) {
        go(Place::section, true);
        return true;
      }
      content_ = true;
    }
    if (marks_.empty()) {
      take(Kind::content, text_.size());
      return false;
    }
    std::size_t at = text_.size();
    for (const std::string_view mark : marks_) at = std::min(at, find_begun(text_, mark));
    const std::string rest = text_.substr(at);
    std::optional<std::size_t> found;  // which mark
    bool open = rest.empty();          // it may become one
    for (std::size_t i = 0; i < marks_.size() && !open; ++i) {
      const Match match = match_part(rest, marks_[i]).match;
      open = match == Match::maybe && !last_;
      if (match == Match::yes && !found) found = i;
    }
    if (!open && !found) return false;  // what the text ends with is none
    take(Kind::content, without_blanks_behind(std::string_view(text_).substr(0, at)));
    if (open) return false;
    if (calls_ != nullptr && !bare() && *found + 1 == marks_.size()) {
      go(Place::section, false);
      return true;
    }
    text_.erase(0, text_.size() - rest.size() + match_part(rest, marks_[*found]).end);
    go(Place::content, true);
    return true;
  }

  bool read_section() {
    const MarkMatch section = match(calls_->section);
    if (section.match == Match::maybe) return false;
    if (section.match == Match::no) return give_back();
    before_ = text_.substr(0, section.end);
    text_.erase(0, section.end);
    go(Place::call, false);
    return true;
  }

  bool read_one() {
    if (!last_ && text_.size() < look_again_at_) return false;
    look_again_at_ = text_.size() + text_.size() / 64;
    const std::string_view begin = opened_ ? calls_->begin : "";
    const WrittenCall call = read_call(*calls_, std::string(begin) + text_, texts_);
    if (!call.name.empty()) {
      if (!told_name_) add(Kind::call, call.name);
      told_name_ = true;
      before_.clear();
      add(Kind::arguments, std::string_view(call.arguments).substr(told_));
      told_ = call.arguments.size();
    }
    if (call.match == Match::maybe && last_ && told_name_) return false;  // it was cut off
    if (call.match == Match::maybe && !last_) return false;
    if (call.match != Match::yes) return give_back();
    text_.erase(0, call.end - begin.size());
    opened_ = false;
    told_name_ = false;
    told_ = 0;
    look_again_at_ = 0;
    if (calls_->section_end.empty()) go(Place::content, true);
    else go(Place::behind_call, true);
    content_ = true;
    return true;
  }

  bool read_behind() {
    if (!begun()) return false;
    const MarkMatch end = match(calls_->section_end);
    if (end.match == Match::maybe) return false;
    text_.erase(0, end.match == Match::yes ? end.end : 0);
    if (end.match == Match::yes) {
      go(Place::content, true);
      return true;
    }
    if (text_.starts_with(',')) text_.erase(0, 1);  // of a list
    go(Place::call, false);
    return true;
  }

  /// What was taken for a call is content, or what follows one that is broken.
  bool give_back() {
    add(Kind::content, before_);
    take(Kind::content, before_.empty() ? std::min<std::size_t>(1, text_.size()) : 0);  // not tried again
    before_.clear();
    opened_ = false;
    told_name_ = false;
    told_ = 0;
    look_again_at_ = 0;
    content_ = true;
    go(Place::content, false);
    return !text_.empty();
  }

  const CallFormat* calls_;  // nullptr: there are none
  const ThoughtMarks* thoughts_;
  TextArguments texts_;
  std::vector<std::string_view> marks_ = {};  // that end content: of its frame, then the one of calls
  std::string_view content_begin_ = {};       // where the text before the answer ends with what calls begin with
  Place place_;
  bool last_ = false;
  bool drop_blanks_ = place_ == Place::thought;
  bool opened_ = false;     // the call that is read begins in the text before the answer
  bool content_ = false;    // there was something
  std::string before_;      // of the section, while its first call is not certain
  bool told_name_ = false;  // of the call that is read
  std::size_t told_ = 0;    // bytes of its arguments
  /// A call is read from its beginning each time. So that this costs little, its text has to grow by a part of itself.
  std::size_t look_again_at_ = 0;
};

/// Messages: <|channel|>CHANNEL<|message|>TEXT<|end|>, the first behind the role of the answer.
class HarmonyReader final : public PartReader {
 public:
  explicit HarmonyReader(AnswerTerms terms) : terms_(std::move(terms)) {}

 private:
  static constexpr std::string_view message = "<|message|>";
  static constexpr std::array<std::string_view, 5> ends = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                           "<|channel|>"};

  void read(bool last) override {
    while (in_text_ ? read_text() : read_header(last)) {
    }
    if (last) take(kind_, text_.size());
  }

  bool read_header(bool last) {
    const std::size_t begin = behind_blanks(text_);
    if (begin == text_.size()) return false;
    const std::string_view text = std::string_view(text_).substr(begin);
    const auto begins_header = [&](std::string_view sign) { return sign.starts_with(text) || text.starts_with(sign); };
    if (!begins_header("<|channel|>") && !begins_header("<|start|>") && !begins_header("to=")) {
      kind_ = Kind::content;
      in_text_ = true;
      return true;
    }
    const std::size_t end = text_.find(message);
    if (end == std::string::npos) {
      if (last) text_.clear();
      return false;
    }
    const std::string header = text_.substr(0, end);
    text_.erase(0, end + message.size());
    const auto word_after = [&](std::string_view sign) {
      const std::size_t at = header.find(sign);
      if (at == std::string::npos) return std::string();
      const std::size_t first = at + sign.size();
      return header.substr(first, header.find_first_of(" \n\t<", first) - first);
    };
    const std::string recipient = word_after("to=");
    constexpr std::string_view functions = "functions.";
    kind_ = word_after("<|channel|>") == "analysis" && terms_.thoughts ? Kind::thought : Kind::content;
    if (terms_.calls && recipient.starts_with(functions) && recipient.size() > functions.size()) {
      add(Kind::call, recipient.substr(functions.size()));
      kind_ = Kind::arguments;
    }
    in_text_ = true;
    return true;
  }

  bool read_text() {
    std::size_t at = text_.size();
    for (const std::string_view end : ends) at = std::min(at, find_begun(text_, end));
    take(kind_, at);
    const auto end = std::ranges::find_if(ends, [&](std::string_view one) { return text_.starts_with(one); });
    if (end == ends.end()) return false;
    if (*end != "<|start|>" && *end != "<|channel|>") text_.erase(0, end->size());
    in_text_ = false;
    return true;
  }

  AnswerTerms terms_;
  Kind kind_ = Kind::content;
  bool in_text_ = false;
};

}  // namespace

std::unique_ptr<PartReader> PartReader::open(const AnswerFormat& format, AnswerTerms terms) {
  if (format.calls != nullptr && format.calls->body == CallFormat::Body::harmony) {
    return std::make_unique<HarmonyReader>(std::move(terms));
  }
  return std::make_unique<MarkedReader>(format, std::move(terms));
}

std::vector<AnswerPart> PartReader::push(std::string_view text) {
  text_ += text;
  read(false);
  return std::exchange(parts_, {});
}

std::vector<AnswerPart> PartReader::finish() {
  read(true);
  return std::exchange(parts_, {});
}

void PartReader::add(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (!parts_.empty() && parts_.back().kind == kind && kind != Kind::call) parts_.back().text += text;
  else parts_.push_back({kind, std::string(text)});
}

void PartReader::take(Kind kind, std::size_t count) {
  add(kind, std::string_view(text_).substr(0, count));
  text_.erase(0, count);
}

}  // namespace draftproof
