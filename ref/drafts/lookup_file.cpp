// SPDX-License-Identifier: MIT
#include "ref/drafts/lookup_file.h"

#include <limits>
#include <string>

#include "ref/base/error.h"
#include "ref/base/incoming.h"
#include "ref/drafts/token_file.h"

namespace draftproof {
namespace {

constexpr std::uint64_t number_bytes = sizeof(std::int32_t);

/// The numbers of a file, with its name and their places for messages.
class FileNumbers {
 public:
  FileNumbers(const std::filesystem::path& file, std::uint64_t bytes)
      : name_(file.string()), bytes_(bytes), in_(name_) {}

  std::uint64_t left() const noexcept { return (bytes_ - offset_) / number_bytes; }

  std::int32_t next() {
    std::int32_t number = 0;
    if (left() == 0) fail("ends within an n-gram", offset_);
    if (in_.sgetn(reinterpret_cast<char*>(&number), number_bytes) != number_bytes) {
      throw Error(name_ + ": became shorter while it was read; try again");
    }
    offset_ += number_bytes;
    return number;
  }

  /// About the number that was read last.
  [[noreturn]] void refuse(const std::string& what) const { fail(what, offset_ - number_bytes); }

 private:
  [[noreturn]] void fail(const std::string& what, std::uint64_t offset) const {
    throw Error(name_ + ": " + what + ", at offset " + std::to_string(offset) +
                "; give a lookup file that was made with the target's tokenizer");
  }

  std::string name_;
  std::uint64_t bytes_;
  std::uint64_t offset_ = 0;
  Incoming in_;
};

Ngram next_ngram(FileNumbers& numbers, int vocabulary) {
  std::array<Token, Ngram::n_max> tokens;
  std::size_t n = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = numbers.next();
    if (i > 0 && tokens[i] == Ngram::none) continue;
    if (tokens[i] < 0 || tokens[i] >= vocabulary || n < i) {
      numbers.refuse(std::to_string(tokens[i]) + " in an n-gram is not one of the target's " +
                     std::to_string(vocabulary) + " tokens, before any -1");
    }
    n = i + 1;
  }
  return Ngram(std::span(tokens).first(n));
}

}  // namespace

std::uint64_t memory_of_lookup_file(const std::filesystem::path& file) {
  const std::uint64_t bytes = bytes_in_token_file(
      file, "a lookup file holds int32 in little-endian order, as llama-lookup-create and draftproof corpus write it");
  if (bytes > lookup_file_max) {
    throw Error(file.string() + ": has " + std::to_string(bytes) + " bytes, and a lookup file at most " +
                std::to_string(lookup_file_max) + "; make one of less text");
  }
  // An n-gram has 5 numbers, and 2 for each token that followed it.
  static_assert(NgramCounts::bytes_per_ngram <= 5 * 5 * number_bytes);
  static_assert(NgramCounts::bytes_per_count <= 5 * 2 * number_bytes);
  return 5 * bytes;
}

NgramCounts read_lookup_file(const std::filesystem::path& file, int vocabulary) {
  NgramCounts counts;
  FileNumbers numbers(file, memory_of_lookup_file(file) / 5);
  while (numbers.left() > 0) {
    const Ngram ngram = next_ngram(numbers, vocabulary);
    if (counts.find(ngram) != nullptr) numbers.refuse("the n-gram that ends here is given twice");
    const std::int32_t continuations = numbers.next();
    if (continuations < 1) numbers.refuse(std::to_string(continuations) + " tokens follow an n-gram");
    if (2 * static_cast<std::uint64_t>(continuations) > numbers.left()) {
      numbers.refuse("the file ends before the " + std::to_string(continuations) + " tokens that follow an n-gram");
    }
    for (std::int32_t i = 0; i < continuations; ++i) {
      const Token token = numbers.next();
      if (token < 0 || token >= vocabulary) {
        numbers.refuse(std::to_string(token) + " is not one of the target's " + std::to_string(vocabulary) + " tokens");
      }
      if (counts.count(ngram, token) > 0) numbers.refuse(std::to_string(token) + " follows an n-gram twice");
      const std::int32_t count = numbers.next();
      if (count < 1) numbers.refuse("a token followed an n-gram " + std::to_string(count) + " times");
      counts.make_room(1);
      counts.add(ngram, token, count, [](Token) { return 1; });
    }
  }
  return counts;
}

void count_pairs(std::span<const Token> text, NgramCounts& counts) {
  for (std::size_t i = 2; i < text.size(); ++i) {
    const Ngram ngram(text, i, 2);
    if (counts.count(ngram, text[i]) == std::numeric_limits<int>::max()) continue;  // of a file
    counts.make_room(1);
    counts.add(ngram, text[i], 1, [](Token) { return 1; });
  }
}

void write_lookup_file(const NgramCounts& counts, const std::function<void(std::string_view)>& append) {
  std::uint64_t bytes = 0;
  const std::vector<NgramCounts::Row> rows = counts.sorted();
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i;
    while (end < rows.size() && rows[end].ngram == rows[i].ngram) ++end;
    numbers.assign(rows[i].ngram.places().begin(), rows[i].ngram.places().end());
    numbers.push_back(static_cast<std::int32_t>(end - i));
    for (; i < end; ++i) numbers.insert(numbers.end(), {rows[i].token, rows[i].count});
    bytes += numbers.size() * number_bytes;
    if (bytes > lookup_file_max) {
      throw Error("the n-grams of the texts take more than " + std::to_string(lookup_file_max) +
                  " bytes, the most that a lookup file may have; leave some texts out, or begin a new file");
    }
    append({reinterpret_cast<const char*>(numbers.data()), numbers.size() * number_bytes});
  }
}

}  // namespace draftproof
