// SPDX-License-Identifier: MIT
// Reads the text of an answer as it comes: what is thought, content, and calls of tools. How the text is divided into
// pieces changes nothing but how the parts are divided.
//
// What is not written as the format says is content. Blanks around thoughts and before and behind calls belong to none
// of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ref/answers/written_call.h"

namespace draftproof {

struct AnswerPart {
  /// call: a new one, of the tool named in `text`; arguments: more of the JSON of the last call.
  enum class Kind { content, thought, call, arguments };
  Kind kind;
  std::string text;

  bool operator==(const AnswerPart&) const = default;
};

/// What a reader has to know of a request.
struct AnswerTerms {
  Thinking thinking = Thinking::none;
  bool calls = false;        // tools may be called
  TextArguments texts = {};  // of these tools
  bool thoughts = true;      // are told apart; false: they are content
};

class PartReader {
 public:
  virtual ~PartReader() = default;
  static std::unique_ptr<PartReader> open(const AnswerFormat& format, AnswerTerms terms);

  /// Return the parts that became certain. Neighbors of one kind are one part.
  std::vector<AnswerPart> push(std::string_view text);
  std::vector<AnswerPart> finish();
  /// Whether the text has ended inside of a call.
  virtual bool cut_off() const { return false; }

 protected:
  using Kind = AnswerPart::Kind;

  /// Reads what is certain of text_. `last`: nothing will follow.
  virtual void read(bool last) = 0;
  void add(Kind kind, std::string_view text);
  void take(Kind kind, std::size_t count);  // the first bytes of text_

  std::string text_;  // that was not read yet

 private:
  std::vector<AnswerPart> parts_;
};

}  // namespace draftproof
