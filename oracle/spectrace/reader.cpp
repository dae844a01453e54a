// SPDX-License-Identifier: MIT
#include "oracle/spectrace/reader.h"

#include <filesystem>
#include <utility>

#include "oracle/spectrace/header_reader.h"
#include "oracle/spectrace/round_reader.h"
#include "ref/base/presence.h"
#include "ref/formats/printable.h"

namespace draftproof::spectrace {

Reader::Reader(const std::string& file) : file_(file) {
  try {
    if (!is_present(file_)) throw InvalidTrace(file_ + ": no such file");
    if (std::filesystem::is_directory(file_)) throw InvalidTrace(file_ + ": a folder, not a file");
    bytes_.emplace(file_);
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (!read_line()) throw InvalidTrace(file_ + ": empty; a trace begins with a header line");
  try {
    const Json line = Json::parse(text_, file_ + ":" + std::to_string(line_));
    header_ = read_header(line);
    if (line.find("prompt")) opened_by_header_ = read_sequence(header_, line);
  } catch (const InvalidTrace&) {
    throw;
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (opened_by_header_) follow(*opened_by_header_);
  if (!header_.rows_file.empty()) open_rows();
}

void Reader::open_rows() {
  std::error_code failure;
  const std::filesystem::path file = rows_beside(file_, header_.rows_file);
  try {
    const auto status = std::filesystem::symlink_status(file, failure);
    if (std::filesystem::is_symlink(status)) {
      throw Error(file.string() + ": a link; the file of rows must lie beside the trace itself");
    }
    rows_.emplace(file, header_);
  } catch (const Error& wrong) {
    fail("rows_file", wrong.what());
  }
}

void Reader::fail(const std::string& field, const std::string& what) const {
  throw InvalidTrace(file_ + ":" + std::to_string(line_) + ": field " + field + ": " + what);
}

bool Reader::read_line() {
  if (line_ > 0) {
    before_.add(text_);
    before_.add("\n");
  }
  text_.clear();
  ++line_;
  while (true) {
    const int byte = bytes_->sbumpc();
    if (byte == std::char_traits<char>::eof()) break;
    if (byte == '\n') return true;
    if (text_.size() == line_bytes_max) {
      throw InvalidTrace(file_ + ":" + std::to_string(line_) + ": longer than " + std::to_string(line_bytes_max) +
                         " bytes, so it is no line of a trace");
    }
    text_ += static_cast<char>(byte);
  }
  if (text_.empty()) return false;
  throw InvalidTrace(file_ + ":" + std::to_string(line_) +
                     ": the file ends within a line; it was cut short, or its writer did not end");
}

std::optional<Event> Reader::next() {
  if (opened_by_header_) return Event{line_, *std::exchange(opened_by_header_, std::nullopt)};
  if (!read_line()) return std::nullopt;
  Event event{line_, EndEvent{}};
  try {
    const Json line = Json::parse(text_, file_ + ":" + std::to_string(line_));
    const Json type = line.at("type");
    if (type.string() == "round") {
      event.what = round_reader(line).read(line);
    } else if (type.string() == "sequence") {
      event.what = read_sequence(header_, line);
    } else if (type.string() == "context_shift") {
      event.what = read_shift(line);
    } else if (type.string() == "end") {
      event.what = read_end(header_, line);
    } else if (type.string() == "header") {
      type.fail("a second header; a file holds one trace, so give each trace its own file");
    } else {
      type.fail("must be sequence, round, context_shift or end, but is " + in_quotes(type.string()));
    }
  } catch (const InvalidTrace&) {
    throw;
  } catch (const Error& wrong) {
    throw InvalidTrace(wrong.what());
  }
  if (const auto* declared = std::get_if<SequenceEvent>(&event.what)) follow(*declared);
  if (const auto* round = std::get_if<RoundEvent>(&event.what)) follow(*round);
  if (const auto* shift = std::get_if<ShiftEvent>(&event.what)) follow(*shift);
  if (const auto* end = std::get_if<EndEvent>(&event.what)) follow(*end);
  return event;
}

/// Returns a reader of this round, by what its sequence declares; any reader when that is not open, which follow()
/// refuses.
RoundReader Reader::round_reader(const Json& line) {
  const auto id = line.find("sequence");
  const auto found = open_.find(id ? id->integer(0, exact_max) : 0);
  const Progress declared = found == open_.end() ? Progress() : found->second;
  return {header_, rows_ ? &*rows_ : nullptr, declared.rule, declared.hides_stop_tokens, declared.masked};
}

void Reader::follow(const SequenceEvent& declared) {
  if (declared.sequence <= last_opened_) {
    fail("sequence", "sequence " + std::to_string(declared.sequence) + " is opened after " +
                         std::to_string(last_opened_) + "; sequences need ascending numbers, each its own");
  }
  if (open_.size() == open_sequences_max) {
    fail("sequence",
         "more than " + std::to_string(open_sequences_max) + " sequences are open at once; each needs its end line");
  }
  last_opened_ = declared.sequence;
  Progress& progress = open_[declared.sequence];
  progress.rule = declared.rule.kind;
  progress.hides_stop_tokens = declared.hides_stop_tokens();
  progress.masked = declared.masked;
  progress.position = static_cast<std::int64_t>(declared.prompt.size()) - 1;
  progress.text = static_cast<std::int64_t>(declared.prompt.size());
  keep(progress, declared.prompt.size() + (declared.stop_tokens ? declared.stop_tokens->size() : 0), "prompt");
}

void Reader::keep(Progress& progress, std::size_t tokens, const char* field) {
  progress.tokens += tokens;
  open_tokens_ += tokens;
  if (open_tokens_ <= open_tokens_max) return;
  fail(field,
       "the open sequences have more than " + std::to_string(open_tokens_max) + " tokens; each needs its end line");
}

Reader::Progress& Reader::progress_of(std::int64_t sequence) {
  const auto found = open_.find(sequence);
  if (found == open_.end()) fail("sequence", "sequence " + std::to_string(sequence) + " is not open here");
  return found->second;
}

void Reader::follow(const RoundEvent& round) {
  Progress& progress = progress_of(round.sequence);
  if (round.round != progress.rounds) {
    fail("round", "round " + std::to_string(progress.rounds) + " of sequence " + std::to_string(round.sequence) +
                      " comes next, but this is " + std::to_string(round.round) +
                      "; a line is missing, doubled or in another place");
  }
  if (round.position <= progress.position) {
    fail("position", "must grow from round to round, but " + std::to_string(round.position) + " comes after " +
                         std::to_string(progress.position));
  }
  ++progress.rounds;
  progress.position = round.position;
  progress.text += static_cast<std::int64_t>(round.emitted.size());
  keep(progress, round.emitted.size(), "emitted");
}

void Reader::follow(const ShiftEvent& shift) {
  Progress& progress = progress_of(shift.sequence);
  // A round reads all of the text but its last token; before the first round any part of the prompt may be read.
  const std::int64_t max = progress.text - 1;
  const std::int64_t min = progress.rounds > 0 ? max : progress.shifted;
  if (shift.tokens_read < min || shift.tokens_read > max) {
    fail("tokens_read", "after " + std::to_string(progress.rounds) + " rounds " +
                            (min < max ? std::to_string(min) + " to " : "") + std::to_string(max) +
                            " tokens of the text can have been read, but this is " + std::to_string(shift.tokens_read));
  }
  const std::int64_t positions = shift.tokens_read - progress.dropped;
  if (shift.keep + shift.discard > positions) {
    fail("discard", "keeps " + std::to_string(shift.keep) + " and drops " + std::to_string(shift.discard) +
                        " of the cache's " + std::to_string(positions) + " positions");
  }
  progress.shifted = shift.tokens_read;
  progress.dropped += shift.discard;
}

void Reader::follow(const EndEvent& end) {
  open_tokens_ -= progress_of(end.sequence).tokens;
  open_.erase(end.sequence);
  if (!end.digest.empty() && end.digest != before_.hex()) {
    fail("sha256", "the lines before this one have the digest " + before_.hex() +
                       "; one of them was changed after it was written");
  }
}

}  // namespace draftproof::spectrace
