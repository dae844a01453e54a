// SPDX-License-Identifier: MIT
#include "ref/formats/json.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>
#include <variant>

#include "ref/base/error.h"
#include "ref/base/presence.h"
#include "ref/formats/printable.h"

namespace draftproof {

namespace {

constexpr std::size_t depth_max = 256;
constexpr double exact_max = 9007199254740992.0;  // 2^53: below it every integral double is exactly one integer

std::string line_and_column(std::string_view text, std::size_t bytes_read) {
  const std::string_view before = text.substr(0, std::min(bytes_read, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// Returns nlohmann's message without its own tag and position.
std::string reason_of(std::string message) {
  if (const std::size_t tag = message.find("] "); message.starts_with('[') && tag != std::string::npos) {
    message.erase(0, tag + 2);
  }
  const std::size_t colon = message.find(": ");
  if (message.starts_with("parse error") && colon != std::string::npos) message.erase(0, colon + 2);
  return printable(message, 200);
}

}  // namespace

// Our own tree instead of nlohmann::ordered_json: that one searches an object linearly on every insertion, which is
// quadratic in a vocabulary of 250 000 names.
struct Json::Node {
  struct Object {
    std::vector<std::pair<std::string, Node>> fields;  // in file order
    std::vector<std::uint32_t> by_name;                // indices into `fields`, sorted by name
  };
  using Elements = std::vector<Node>;
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Elements, Object> value;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  std::string kind() const {
    constexpr const char* kinds[] = {"null",     "a boolean", "an integer", "an integer",
                                     "a number", "a string",  "an array",   "an object"};
    return kinds[value.index()];
  }
  /// Returns the value in the form in which messages quote it.
  std::string shown() const {
    if (const auto* v = as<bool>()) return *v ? "true" : "false";
    if (const auto* v = as<std::int64_t>()) return std::to_string(*v);
    if (const auto* v = as<std::uint64_t>()) return std::to_string(*v);
    if (const auto* v = as<double>()) return std::to_string(*v);
    if (const auto* v = as<std::string>()) return in_quotes(*v);
    return kind();
  }
  std::optional<std::int64_t> integer() const {
    if (const auto* v = as<std::int64_t>()) return *v;
    if (const auto* v = as<std::uint64_t>(); v && std::in_range<std::int64_t>(*v)) return static_cast<std::int64_t>(*v);
    if (const auto* v = as<double>(); v && std::trunc(*v) == *v && std::fabs(*v) < exact_max) {
      return static_cast<std::int64_t>(*v);
    }
    return std::nullopt;
  }
};

struct Json::Document {
  std::string origin;
  std::map<std::string, std::string> names;  // of fields, in errors
  Node root;
};

// Receives nlohmann's events. Its parser keeps no call stack of its own, so depth is limited here.
struct Json::Builder : nlohmann::json_sax<nlohmann::json> {
  Builder(std::string_view text, Node& root) : text_(text), root_(root) {}

  bool null() override { return place({}); }
  bool boolean(bool value) override { return place({value}); }
  bool number_integer(std::int64_t value) override { return place({value}); }
  bool number_unsigned(std::uint64_t value) override { return place({value}); }
  bool number_float(double value, const std::string&) override { return place({value}); }
  bool string(std::string& value) override { return place({std::move(value)}); }
  bool binary(binary_t&) override { return false; }
  bool key(std::string& name) override {
    std::get<Node::Object>(open_.back()->value).fields.emplace_back(std::move(name), Node{});
    return true;
  }
  bool start_object(std::size_t) override { return enter({Node::Object{}}); }
  bool start_array(std::size_t) override { return enter({Node::Elements{}}); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    auto& object = std::get<Node::Object>(open_.back()->value);
    const auto name = [&](std::uint32_t i) -> const std::string& { return object.fields[i].first; };
    object.by_name.resize(object.fields.size());
    std::iota(object.by_name.begin(), object.by_name.end(), 0U);
    std::ranges::sort(object.by_name, {}, name);
    if (const auto twice = std::ranges::adjacent_find(object.by_name, {}, name); twice != object.by_name.end()) {
      failure_ = "the name " + in_quotes(name(*twice)) + " occurs twice in one object; remove one of the two";
      return false;
    }
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t bytes_read, const std::string&, const nlohmann::detail::exception& error) override {
    failure_ = line_and_column(text_, bytes_read) + ": " + reason_of(error.what());
    return false;
  }

  std::string failure_ = "not JSON";

 private:
  // Pointers to open containers stay valid, because only the innermost one receives elements.
  Node* put(Node&& node) {
    if (open_.empty()) return &(root_ = std::move(node));
    if (auto* elements = std::get_if<Node::Elements>(&open_.back()->value)) {
      return &elements->emplace_back(std::move(node));
    }
    return &(std::get<Node::Object>(open_.back()->value).fields.back().second = std::move(node));
  }
  bool place(Node&& node) {
    put(std::move(node));
    return true;
  }
  bool enter(Node&& node) {
    if (open_.size() == depth_max) {
      failure_ = "nests deeper than " + std::to_string(depth_max) + " levels";
      return false;
    }
    open_.push_back(put(std::move(node)));
    return true;
  }

  std::string_view text_;
  Node& root_;
  std::vector<Node*> open_;
};

Json::Json(std::shared_ptr<const Document> document, const Node& node, std::string path)
    : document_(std::move(document)), node_(&node), path_(std::move(path)) {}

namespace {

/// Python writes an infinite number as Infinity, which is not JSON, transformers 5 as an object. Returns the text as
/// the latter would write it.
std::string with_spelled_infinity(std::string_view text) {
  constexpr std::string_view bare = "Infinity";
  std::string spelled;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!in_string && text.substr(at, bare.size()) == bare) {
      spelled += R"({"__float__": "Infinity"})";
      at += bare.size() - 1;
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    spelled += text[at];
    if (in_string && text[at] == '\\' && at + 1 < text.size()) spelled += text[++at];
  }
  return spelled;
}

}  // namespace

Json Json::read(const std::filesystem::path& file, std::size_t bytes_max) {
  if (!is_present(file)) throw Error(file.string() + ": no such file");
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) throw Error(file.string() + ": not a file");
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  if (!error && bytes > bytes_max) {
    throw Error(file.string() + ": " + std::to_string(bytes) + " bytes, but at most " + std::to_string(bytes_max) +
                " are read as JSON");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string text(error ? 0 : bytes, '\0');
  if (error || !stream.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    throw Error(file.string() + ": cannot be read; check its permissions");
  }
  if (text.find("Infinity") != std::string::npos) text = with_spelled_infinity(text);
  return parse(text, file.string());
}

Json Json::parse(std::string_view text, const std::string& origin, std::map<std::string, std::string> names) {
  auto document = std::make_shared<Document>();
  document->origin = origin;
  document->names = std::move(names);
  // The parser treats a NUL as the end of the text and would ignore everything after it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw Error(origin + ": " + line_and_column(text, nul + 1) + ": a NUL byte, which JSON does not allow");
  }
  Builder builder(text, document->root);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) throw Error(origin + ": " + builder.failure_);
  const Node& root = document->root;
  return Json(std::move(document), root, {});
}

std::string Json::where() const {
  return path_.empty() ? document_->origin : document_->origin + ": field " + named(path_);
}

void Json::fail(const std::string& what) const { throw Error(where() + ": " + what); }

bool Json::is_object() const { return node_->as<Node::Object>() != nullptr; }
bool Json::is_array() const { return node_->as<Node::Elements>() != nullptr; }
bool Json::is_string() const { return node_->as<std::string>() != nullptr; }
bool Json::is_boolean() const { return node_->as<bool>() != nullptr; }
bool Json::is_null() const { return node_->as<std::monostate>() != nullptr; }
bool Json::is_float() const { return node_->as<double>() != nullptr; }
bool Json::is_integer() const { return node_->integer().has_value(); }
bool Json::is_number() const { return node_->as<double>() || node_->as<std::int64_t>() || node_->as<std::uint64_t>(); }

std::string Json::field_path(std::string_view field) const {
  const bool plain = !field.empty() && field.size() <= 120 && std::ranges::all_of(field, [](unsigned char c) {
    return c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (!plain) return path_ + "[" + in_quotes(field) + "]";
  return path_.empty() ? std::string(field) : path_ + "." + std::string(field);
}

/// Returns the path for errors: the longest prefix of it that has another name there has that name.
std::string Json::named(const std::string& path) const {
  for (auto one = document_->names.rbegin(); one != document_->names.rend(); ++one) {
    const auto& [field, name] = *one;
    if (!path.starts_with(field)) continue;
    const std::string rest = path.substr(field.size());
    if (rest.empty() || rest[0] == '.' || rest[0] == '[') return name + rest;
  }
  return path;
}

const Json::Node* Json::node_of(std::string_view field) const {
  const auto* object = node_->as<Node::Object>();
  if (!object) fail("must be an object, but is " + node_->shown());
  const auto name = [&](std::uint32_t i) -> std::string_view { return object->fields[i].first; };
  const auto found = std::ranges::lower_bound(object->by_name, field, {}, name);
  if (found == object->by_name.end() || name(*found) != field) return nullptr;
  return &object->fields[*found].second;
}

bool Json::has(std::string_view field) const { return node_of(field) != nullptr; }

std::optional<Json> Json::member(std::string_view field) const {
  const Node* const node = node_of(field);
  if (node == nullptr) return std::nullopt;
  return Json(document_, *node, field_path(field));
}

std::optional<Json> Json::find(std::string_view field) const {
  auto found = member(field);
  return found && !found->is_null() ? found : std::nullopt;
}

Json Json::at(std::string_view field) const {
  auto found = find(field);
  if (!found) throw Error(document_->origin + ": field " + named(field_path(field)) + " is missing or null");
  return *std::move(found);
}

std::vector<std::string> Json::fields() const {
  const auto* object = node_->as<Node::Object>();
  if (!object) fail("must be an object, but is " + node_->shown());
  std::vector<std::string> names;
  names.reserve(object->fields.size());
  for (const auto& [name, node] : object->fields) names.push_back(name);
  return names;
}

std::size_t Json::size() const {
  const auto* elements = node_->as<Node::Elements>();
  if (!elements) fail("must be an array, but is " + node_->shown());
  return elements->size();
}

Json Json::operator[](std::size_t index) const {
  if (index >= size()) {
    fail("has " + std::to_string(size()) + " elements, but element " + std::to_string(index) + " is needed");
  }
  return Json(document_, (*node_->as<Node::Elements>())[index], path_ + "[" + std::to_string(index) + "]");
}

const std::string& Json::string() const {
  const auto* value = node_->as<std::string>();
  if (!value) fail("must be a string, but is " + node_->shown());
  return *value;
}

bool Json::boolean() const {
  const auto* value = node_->as<bool>();
  if (!value) fail("must be true or false, but is " + node_->shown());
  return *value;
}

double Json::number() const {
  if (const auto* value = node_->as<double>()) return *value;
  if (const auto* value = node_->as<std::int64_t>()) return static_cast<double>(*value);
  if (const auto* value = node_->as<std::uint64_t>()) return static_cast<double>(*value);
  fail("must be a number, but is " + node_->shown());
}

std::int64_t Json::integer(std::int64_t min, std::int64_t max) const {
  const auto value = node_->integer();
  if (!value || *value < min || *value > max) {
    fail("must be an integer from " + std::to_string(min) + " to " + std::to_string(max) + ", but is " +
         node_->shown());
  }
  return *value;
}

std::vector<std::int64_t> Json::integers(std::int64_t min, std::int64_t max) const {
  std::vector<std::int64_t> values;
  const std::size_t count = size();
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i) values.push_back((*this)[i].integer(min, max));
  return values;
}

std::string Json::text() const {
  if (is_null()) return "null";
  if (const auto* value = node_->as<std::string>()) return nlohmann::json(*value).dump();
  if (const auto* value = node_->as<double>()) return nlohmann::json(*value).dump();
  std::string result;
  if (const auto* elements = node_->as<Node::Elements>()) {
    for (std::size_t i = 0; i < elements->size(); ++i) result += (i == 0 ? "" : ", ") + (*this)[i].text();
    return "[" + result + "]";
  }
  const auto* object = node_->as<Node::Object>();
  if (object == nullptr) return node_->shown();
  for (const auto& [name, node] : object->fields) {
    result += (result.empty() ? "" : ", ") + nlohmann::json(name).dump() + ": ";
    result += Json(document_, node, path_).text();
  }
  return "{" + result + "}";
}

}  // namespace draftproof
