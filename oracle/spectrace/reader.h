// SPDX-License-Identifier: MIT
// Reads a trace line by line, and the rows beside it, with memory that does not grow with the files. Whatever is not
// spectrace/2 is an InvalidTrace that names file, line and field. What the reader returns is well-formed: token ids lie
// in the vocabulary, numbers in their ranges, lists have matching lengths, rounds of a sequence follow one another,
// positions grow. replay.h checks whether it is true.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "oracle/spectrace/events.h"
#include "oracle/spectrace/rows_file.h"
#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/base/sha256.h"
#include "ref/formats/json.h"

namespace draftproof::spectrace {

class RoundReader;

/// "FILE:LINE: field NAME: what is wrong".
class InvalidTrace final : public Error {
 public:
  using Error::Error;
};

class Reader {
 public:
  static constexpr std::size_t line_bytes_max = std::size_t{1} << 24;
  /// Limits on sequences that are open at once, so that a caller may keep the text of each.
  static constexpr std::size_t open_sequences_max = std::size_t{1} << 14;
  static constexpr std::size_t open_tokens_max = std::size_t{1} << 25;  // prompts, stop tokens and emitted tokens

  /// Reads the header, which must be the first line.
  explicit Reader(const std::string& file);

  const Header& header() const noexcept { return header_; }

  /// Returns the next line after the header; nothing at the end of the file. A header with a prompt also opens the
  /// sequence, which is then the first event.
  std::optional<Event> next();

  /// Text and number of the line read last.
  const std::string& text() const noexcept { return text_; }
  long line() const noexcept { return line_; }

  [[noreturn]] void fail(const std::string& field, const std::string& what) const;

 private:
  struct Progress {  // of an open sequence
    std::int64_t rounds = 0;
    std::int64_t position = 0;
    std::size_t tokens = 0;
    std::int64_t text = 0;     // tokens of prompt and emitted
    std::int64_t dropped = 0;  // positions, by context shifts
    std::int64_t shifted = 0;  // tokens read at the last shift
    AcceptanceRule rule = AcceptanceRule::rejection;
    bool hides_stop_tokens = false;
    bool masked = false;
  };
  bool read_line();
  RoundReader round_reader(const Json& line);
  void open_rows();
  void follow(const SequenceEvent& declared);
  void follow(const RoundEvent& round);
  void follow(const ShiftEvent& shift);
  void follow(const EndEvent& end);
  Progress& progress_of(std::int64_t sequence);
  void keep(Progress& progress, std::size_t tokens, const char* field);

  std::string file_;
  std::optional<Incoming> bytes_;
  std::string text_;
  long line_ = 0;
  Sha256 before_;  // of all lines before the one read last
  Header header_;
  std::optional<RowsReader> rows_;  // where the header names a file of them
  std::optional<SequenceEvent> opened_by_header_;
  std::map<std::int64_t, Progress> open_;
  std::size_t open_tokens_ = 0;
  std::int64_t last_opened_ = -1;
};

}  // namespace draftproof::spectrace
