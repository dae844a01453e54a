// SPDX-License-Identifier: MIT
#include "ref/text/stop_strings.h"

#include <utility>

#include "ref/base/error.h"
#include "ref/base/utf8.h"

namespace draftproof {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)), states_(1) {
  std::size_t bytes = 0;
  for (const std::string& string : strings_) {
    if (string.empty()) throw Error("a stop string is empty; every text would end before its first token");
    bytes += string.size();
  }
  if (bytes > bytes_max) {
    throw Error("the stop strings have " + std::to_string(bytes) + " bytes together; there may be " +
                std::to_string(bytes_max));
  }

  // The tree of all beginnings; 0 stands for a child that is missing, as no child is the start.
  for (std::size_t index = 0; index < strings_.size(); ++index) {
    int state = start;
    for (const char byte : strings_[index]) {
      int child = next(state, byte);
      if (child == 0) {
        child = static_cast<int>(states_.size());
        states_[static_cast<std::size_t>(state)].next[static_cast<unsigned char>(byte)] = child;
        states_.push_back({.begun = begun(state) + 1});
      }
      state = child;
    }
    int& complete = states_[static_cast<std::size_t>(state)].complete;
    if (complete < 0) complete = static_cast<int>(index);
  }

  // In order of length, every state takes what it lacks from its fallback, the longest end of it that is a state too.
  std::vector<int> fallbacks(states_.size(), start);
  std::vector<int> queue = {start};
  for (std::size_t done = 0; done < queue.size(); ++done) {
    const int state = queue[done];
    const int fallback = fallbacks[static_cast<std::size_t>(state)];
    State& here = states_[static_cast<std::size_t>(state)];
    if (here.complete < 0) here.complete = states_[static_cast<std::size_t>(fallback)].complete;
    for (std::size_t byte = 0; byte < here.next.size(); ++byte) {
      const int beside = state == start ? start : states_[static_cast<std::size_t>(fallback)].next[byte];
      if (here.next[byte] == 0) {
        here.next[byte] = beside;
      } else {
        fallbacks[static_cast<std::size_t>(here.next[byte])] = beside;
        queue.push_back(here.next[byte]);
      }
    }
  }
}

std::optional<std::size_t> StopStrings::complete(int state) const noexcept {
  const int index = states_[static_cast<std::size_t>(state)].complete;
  if (index < 0) return std::nullopt;
  return static_cast<std::size_t>(index);
}

std::size_t StopSearch::read(std::string_view bytes) noexcept {
  if (match_) return 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ++bytes_;
    state_ = strings_->next(state_, bytes[i]);
    if (const auto string = strings_->complete(state_)) {
      match_ = {*string, bytes_ - strings_->strings()[*string].size(), bytes_};
      return i + 1;
    }
  }
  return bytes.size();
}

std::string StoppedText::push(std::string_view bytes) {
  if (match()) return "";
  held_ += bytes.substr(0, search_.read(bytes));
  if (const auto found = match()) {
    held_.resize(held_.size() - (found->end - found->begin));
    return finish();
  }
  // Bytes that could become a stop string stay, and an unfinished character before them that they could finish.
  return utf8::take_finished(held_, held_.size() - search_.begun());
}

std::string StoppedText::finish() {
  const std::string text = utf8::replace_broken(held_);
  held_.clear();
  return text;
}

}  // namespace draftproof
