// SPDX-License-Identifier: MIT
// Files of tokens that text drafts look things up in, made of text files.
#include <fmt/format.h>

#include <functional>

#include "ref/base/error.h"
#include "ref/drafts/lookup_file.h"
#include "ref/drafts/suffix.h"
#include "ref/text/tokenizer.h"
#include "tools/commands.h"

namespace draftproof {
namespace {

struct CorpusOptions {
  std::string target;
  std::vector<std::string> files;
  std::string draft;
  std::string out;
  bool index = false;
  bool parse_special = false;
  bool quiet = false;
};

using CorpusTexts = std::vector<std::vector<Token>>;

CorpusTexts read_texts(const CorpusOptions& options) {
  const Checkpoint target(options.target);
  if (!Tokenizer::is_in(target)) {
    throw Error(options.target + " has no tokenizer (tokenizer.json or tokenizer.model); name a target that has one");
  }
  const Tokenizer tokenizer = Tokenizer::load(target);
  CorpusTexts texts;
  for (const std::string& file : options.files) {
    try {
      texts.push_back(tokenizer.encode(read_text_file(file), true, options.parse_special));
    } catch (const Error& wrong) {
      const std::string what = wrong.what();
      throw Error(what.starts_with(file) ? what : file + ": " + what);
    }
  }
  return texts;
}

/// For the draft `suffix`: the tokens of all texts, with a separator between two of them.
void make_suffix_corpus(const CorpusTexts& texts, bool index, OutputFile& file) {
  std::vector<Token> tokens;
  for (const std::vector<Token>& text : texts) {
    if (&text != &texts.front()) tokens.push_back(SuffixTree::separator);
    tokens.insert(tokens.end(), text.begin(), text.end());
  }
  if (tokens.size() > SuffixCorpus::max_tokens) {
    throw Error(fmt::format("the texts have {} tokens, and a corpus at most {}; leave some of them out", tokens.size(),
                            SuffixCorpus::max_tokens));
  }
  if (tokens.empty()) throw Error("the texts have no tokens; give longer texts");
  if (index) SuffixIndex::write(tokens, [&](std::string_view piece) { file.append(piece); });
  else file.append({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token)});
}

/// For the draft `ngram-cache`: what followed every two tokens of a text.
void make_lookup_file(const CorpusTexts& texts, OutputFile& file) {
  NgramCounts counts;
  for (const std::vector<Token>& text : texts) count_pairs(text, counts);
  std::uint64_t bytes = 0;
  write_lookup_file(counts, [&](std::string_view piece) {
    bytes += piece.size();
    file.append(piece);
  });
  if (bytes == 0) throw Error("no text has three tokens, so nothing followed two of them; give longer texts");
}

Exit corpus(const CorpusOptions& options) {
  if (options.index && options.draft != "suffix") {
    throw Error("--index is for the draft suffix; leave it out for " + options.draft);
  }
  std::vector<std::string> sources = options.files;
  sources.push_back(options.target);
  OutputFile file(options.out, sources);
  const CorpusTexts texts = read_texts(options);
  if (options.draft == "suffix") make_suffix_corpus(texts, options.index, file);
  else make_lookup_file(texts, file);
  file.finish();
  if (!options.quiet && !is_standard_output(options.out)) {
    std::size_t tokens = 0;
    for (const auto& text : texts) tokens += text.size();
    fmt::print("{}: for {}, {} tokens of {} texts\n", options.out, options.draft, tokens, texts.size());
  }
  return Exit::pass;
}

}  // namespace

void add_corpus(Command& app) {
  auto options = std::make_shared<CorpusOptions>();
  Command& command =
      app.subcommand("corpus", "write texts as a file that the draft suffix or ngram-cache looks things up in");
  add_target_option(command, options->target);
  command.option("FILE", options->files, "text files, each one text; - is standard input").required().count(1, 1 << 16);
  command.option("--for DRAFT", options->draft, "the draft that reads it")
      .choices({"suffix", "ngram-cache"})
      .required();
  command.flag("--index", options->index,
               "of suffix: with an index, so that the file is mapped into memory and takes none of its own");
  command.option("--out FILE", options->out, "the file to write; - is standard output").required();
  command.flag("--parse-special", options->parse_special,
               "the text of a special token becomes that token instead of staying text");
  command.group("Output");
  command.flag("--quiet", options->quiet, "print nothing but errors");
  command.action([options] { return corpus(*options); });
}

}  // namespace draftproof
