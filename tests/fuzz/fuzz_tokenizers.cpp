// SPDX-License-Identifier: MIT
// Damages tokenizer files of every format in an endless loop, reads them, and encodes and decodes with those that are
// still tokenizers: every outcome must be a value or an Error, never a crash, a hang or another exception. The damage
// is deterministic: a seed reproduces a run.
//
//     fuzz_tokenizers [--seconds N] [--seed N] FILE-OR-FOLDER...
//
// On a failure the last line of the output names the file that caused it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "ref/base/error.h"
#include "ref/text/tokenizer.h"
#include "tests/fuzz/damage.h"
#include "tests/fuzz/options.h"

namespace draftproof {
namespace {

const std::string texts[] = {
    "",
    " Hello, world!  It's 12345 \u00E9e\u0301 \uFF21\uFB01\n\n\tx",
    "<s>[INST] a <mask> b </s> <|im_end|> <unk> <0x41> \u2581\u2581",
    "\u4E16\u754C \U0001F600\U0001F469\u200D\U0001F4BB \u0915\u094D\u0937 \u1100\u1161",
    std::string(300, 'a') + std::string(300, ' '),
};

struct Sample {
  std::string extension;
  std::string bytes;
};

bool is_tokenizer(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return name == "tokenizer.json" || name == "tokenizer.model" || name == "vocabulary.gguf";
}

std::vector<Sample> samples_of(const std::vector<std::filesystem::path>& paths) {
  std::set<std::filesystem::path> found;  // in order
  for (const auto& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      found.insert(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file() && is_tokenizer(entry.path())) found.insert(entry.path());
    }
  }
  std::vector<Sample> samples;
  for (const auto& path : found) {
    std::ifstream stream(path, std::ios::binary);
    samples.push_back({path.extension().string(), {std::istreambuf_iterator<char>(stream), {}}});
  }
  return samples;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
  const StopStrings none;
  TextStream stream(tokenizer, none);
  std::string text;
  for (const Token token : tokens) text += stream.push(token);
  return text + stream.finish();
}

void use(const Tokenizer& tokenizer, Numbers& numbers) {
  std::vector<Token> any;
  for (int i = 0; i < 40; ++i) any.push_back(static_cast<Token>(numbers.below(tokenizer.vocabulary() + 3)));
  if (streamed(tokenizer, any) != tokenizer.decode(any)) throw std::runtime_error("a stream decodes another text");
  for (const std::string& text : texts) {
    accepted([&] {
      const auto tokens = tokenizer.encode(text, numbers.below(2) == 0, numbers.below(2) == 0);
      if (streamed(tokenizer, tokens) != tokenizer.decode(tokens)) {
        throw std::runtime_error("a stream decodes another text");
      }
    });
  }
}

int fuzz(double seconds, std::uint64_t seed, const std::vector<std::filesystem::path>& paths) {
  const std::vector<Sample> samples = samples_of(paths);
  if (samples.empty()) throw Error("no tokenizer.json, tokenizer.model or vocabulary.gguf there");
  const std::string stem = (std::filesystem::temp_directory_path() /
                            ("draftproof-fuzz-tokenizers-" + std::to_string(getpid()) + "-" + std::to_string(seed)))
                               .string();
  const auto start = std::chrono::steady_clock::now();
  Numbers numbers(seed);
  std::uint64_t rounds = 0;
  std::uint64_t tokenizers = 0;
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
    const Sample& sample = samples[numbers.below(samples.size())];
    std::string bytes = sample.bytes;
    for (std::size_t times = numbers.below(4); times-- > 0;) {
      damage(bytes, samples[numbers.below(samples.size())].bytes, numbers);
    }
    const std::string file = stem + sample.extension;
    std::filesystem::remove(file);
    std::ofstream(file, std::ios::binary) << bytes;
    try {
      tokenizers += accepted([&] { use(Tokenizer::load(file), numbers); }) ? 1 : 0;
    } catch (const std::exception& error) {
      std::printf("round %llu: %s\n%s\n", static_cast<unsigned long long>(rounds), error.what(), file.c_str());
      return 1;
    }
    std::filesystem::remove(file);
    ++rounds;
  }
  std::printf("%llu damaged files of %zu samples, of which %llu were tokenizers\n",
              static_cast<unsigned long long>(rounds), samples.size(), static_cast<unsigned long long>(tokenizers));
  return rounds > 0 && tokenizers > 0 ? 0 : 1;
}

}  // namespace
}  // namespace draftproof

int main(int count, char** arguments) {
  const draftproof::FuzzOptions options = draftproof::read_fuzz_options(count, arguments);
  try {
    return draftproof::fuzz(options.seconds, options.seed, options.paths);
  } catch (const draftproof::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
