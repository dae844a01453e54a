// SPDX-License-Identifier: MIT
#include "ref/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "ref/formats/printable.h"
#include "ref/grammar/grammar.h"
#include "ref/grammar/language_rules.h"
#include "ref/grammar/number_texts.h"
#include "ref/grammar/regular_language.h"
#include "ref/grammar/schema_reader.h"

namespace draftproof {

std::string gbnf_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') result += "\\n";
    else if (c == '\r') result += "\\r";
    else result += c;
  }
  return result + '"';
}

std::string json_string(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  constexpr std::string_view escaped = "\"\\\b\f\n\r\t";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t place = escaped.find(c); place != std::string_view::npos) {
      result += '\\';
      result += "\"\\bfnrt"[place];
    } else if (byte < 0x20) {
      result += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

namespace {

/// The rules of JSON, for any value.
constexpr const char* rules_of_json = R"gbnf(
value   ::= object | array | string | number | "true" | "false" | "null"
object  ::= "{" ( pair ( comma pair )* )? "}"
pair    ::= string colon value
array   ::= "[" ( value ( comma value )* )? "]"
colon   ::= ":" " "?
comma   ::= "," " "?
string  ::= "\"" char* "\""
char    ::= [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" unit )
unit    ::= [0-9a-cefA-CEF] hex{3} | [dD] [0-7] hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}
hex     ::= [0-9a-fA-F]
integer ::= "-"? ( "0" | [1-9] [0-9]{0,17} )
number  ::= integer ( "." [0-9]{1,16} )? ( [eE] [-+]? [0-9]{1,2} )?
rest    ::= char* "\""
nothing ::= "x" nothing
control ::= "\\" ( [bfnrt] | "u00" [01] hex )
)gbnf";

/// A body that no text has: a rule that names itself never ends.
constexpr const char* nothing = "nothing";

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, std::string_view prefix) : root_(root), prefix_(prefix), reader_(root) {}

  SchemaRules compiled(const Json& schema) && {
    const std::string body = body_of(Schemas{schema});
    if (body == nothing) schema.fail("allows nothing" + (why_.empty() ? "" : ": " + why_));
    SchemaRules result = {body, ""};
    for (const auto& [name, rule] : rules_) result.rules += name + " ::= " + rule + "\n";
    return result;
  }

 private:
  static constexpr std::size_t patterns_max = 6;  // of names, of one object
  static constexpr std::size_t values_max = 8;    // of items that are all different

  /// Adds a rule, or finds the one with this body, and returns its name.
  std::string rule(const std::string& body) {
    const auto [known, fresh] = names_.try_emplace(body, prefix_ + "r" + std::to_string(names_.size()));
    if (fresh) add_rule(known->second, body);
    return known->second;
  }
  void add_rule(const std::string& name, const std::string& body) {
    size_ += name.size() + body.size();
    if (size_ > Grammar::text_max) root_.fail("is too large for a grammar; simplify it");
    rules_.emplace_back(name, body);
  }

  std::string no(const Json& schema, const std::string& why) {
    if (why_.empty()) why_ = schema.where() + ": " + why;
    return nothing;
  }

  /// What satisfies all schemas, as elements of GBNF.
  std::string body_of(const Schemas& schemas) {
    std::vector<const void*> key;
    for (const Json& schema : schemas) key.push_back(schema.place());
    const auto known = places_.find(key);
    if (known != places_.end()) {
      Place& place = known->second;
      if (place.body.empty() && place.name.empty()) place.name = prefix_ + "ref" + std::to_string(references_++);
      return place.body.empty() ? place.name : place.body;
    }
    places_[key];  // without a body: a schema that comes back to itself names it
    std::string body = body_of(reader_.conjunction_of(schemas));
    Place& place = places_[key];
    if (!place.name.empty()) {
      add_rule(place.name, body);
      body = place.name;
    }
    return place.body = body;
  }

  std::string body_of(const Conjunction& conjunction) {
    if (++depth_ > SchemaReader::depth_max) root_.fail("nests too deep, references included");
    std::string body = body_at_depth(conjunction);
    --depth_;
    return body;
  }

  std::string body_at_depth(const Conjunction& conjunction) {
    if (conjunction.nothing) return nothing;
    if (const auto values = reader_.values_of(conjunction)) {
      std::vector<std::string> texts;
      for (const Json& value : *values) texts.push_back(gbnf_string(value.text()));
      if (texts.empty()) return no(conjunction.schemas.front(), "no value satisfies what else is said there");
      return one_of(texts);
    }
    if (conjunction.choices.empty()) return of_kinds(conjunction.schemas);
    const bool alone =
        conjunction.choices.size() == 1 && std::ranges::all_of(conjunction.schemas, SchemaReader::leaves_only_choices);
    std::vector<std::string> bodies;
    for (const Schemas& alternative : conjunction.choices.back()) {
      bodies.push_back(alone ? body_of(alternative) : body_of(reader_.with_alternative(conjunction, alternative)));
    }
    return one_of(bodies);
  }

  /// One of these, without those that are nothing.
  std::string one_of(const std::vector<std::string>& bodies) {
    std::vector<std::string> different;
    std::set<std::string_view> seen;
    for (const std::string& body : bodies) {
      if (body != nothing && seen.insert(body).second) different.push_back(body);
    }
    if (different.empty()) return nothing;
    if (different.size() == 1) return different.front();
    std::string text;
    for (const std::string& body : different) text += (text.empty() ? "" : " | ") + body;
    return rule(text);
  }

  std::string of_kinds(const Schemas& schemas) {
    unsigned kinds = SchemaReader::kinds_of(schemas);
    if (kinds == ValueKinds::all) {
      if (const unsigned meant = kinds_meant(schemas)) kinds = meant;
      else if (SchemaReader::excluded_values(schemas).empty()) return "value";
    }
    if (kinds == 0) return no(schemas.front(), "no type is left");
    std::vector<std::string> bodies;
    const auto has = [&](unsigned kind) { return (kinds & kind) != 0; };
    const std::vector<Json> excluded = SchemaReader::excluded_values(schemas);
    const auto excludes = [&](const auto& is) { return std::ranges::any_of(excluded, is); };
    if (has(ValueKinds::null) && !excludes([](const Json& value) { return value.is_null(); })) {
      bodies.emplace_back(R"("null")");
    }
    for (const bool truth : {true, false}) {
      const auto same = [&](const Json& value) { return value.is_boolean() && value.boolean() == truth; };
      if (has(ValueKinds::boolean) && !excludes(same)) bodies.emplace_back(truth ? R"("true")" : R"("false")");
    }
    if (has(ValueKinds::integer | ValueKinds::fraction)) bodies.push_back(number(schemas, kinds));
    if (has(ValueKinds::string)) bodies.push_back(string(schemas));
    if (has(ValueKinds::array)) bodies.push_back(array(schemas));
    if (has(ValueKinds::object)) bodies.push_back(object(schemas));
    for (const Json& value : excluded) {
      if ((value.is_array() && has(ValueKinds::array)) || (value.is_object() && has(ValueKinds::object))) {
        value.fail("is excluded by not, which is supported for values of one text only");
      }
    }
    return one_of(bodies);
  }

  /// The kinds that keywords are about, where nothing says the type.
  static unsigned kinds_meant(const Schemas& schemas) {
    unsigned kinds = 0;
    const auto means = [&](unsigned kind, std::initializer_list<const char*> fields) {
      const bool has_one = std::ranges::any_of(schemas, [&](const Json& schema) {
        return std::ranges::any_of(fields, [&](const char* field) { return schema.has(field); });
      });
      if (has_one) kinds |= kind;
    };
    means(ValueKinds::object, {"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                               "minProperties", "maxProperties"});
    means(ValueKinds::array, {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"});
    means(ValueKinds::string, {"minLength", "maxLength", "format", "pattern"});
    means(ValueKinds::integer | ValueKinds::fraction,
          {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"});
    return kinds;
  }

  /// The texts of a language, as they are or as strings of JSON. Equal languages have their rules once.
  std::string texts(const RegularLanguage& language, Writing writing) {
    if (language.empty()) return nothing;
    std::string key = writing == Writing::json ? "q" : "";
    for (const RegularLanguage::State& state : language.states()) {
      key += state.accepts ? '+' : '-';
      for (const auto& [first, last, to] : state.edges) {
        key += std::to_string(first) + "-" + std::to_string(last) + ">" + std::to_string(to) + ",";
      }
    }
    const auto [known, fresh] = languages_.try_emplace(key, prefix_ + "t" + std::to_string(languages_.size()));
    if (fresh) {
      for (const auto& [name, body] : language_rules(language, known->second, writing)) add_rule(name, body);
    }
    const std::string begin = known->second + "-0";
    return writing == Writing::json ? "( \"\\\"\" " + begin + " )" : begin;
  }

  std::string number(const Schemas& schemas, unsigned kinds) {
    const bool integers = (kinds & ValueKinds::fraction) == 0;
    const bool restricted = SchemaReader::restrict_numbers(schemas) || (kinds & ValueKinds::integer) == 0;
    if (!restricted) return integers ? "integer" : "number";
    const RegularLanguage all = SchemaReader::numbers_of(schemas, kinds);
    if (all.empty())
      return no(schemas.front(), std::string("its bounds allow no ") + (integers ? "integer" : "number"));
    const RegularLanguage written = all.both(number_texts(integers, false));
    if (written.empty()) schemas.front().fail("has bounds between which every number is too long");
    return texts(written, Writing::plain);
  }

  std::string string(const Schemas& schemas) {
    const auto [min, max] = SchemaReader::range_of(schemas, "minLength", "maxLength");
    if (max >= 0 && max < min) return no(schemas.front(), "maxLength is less than minLength");
    if (const auto strings = reader_.strings_of(schemas, false)) {
      if (strings->empty()) return no(schemas.front(), "no string has what its keywords ask for");
      return texts(*strings, Writing::json);
    }
    if (min == 0 && max < 0) return "string";
    return rule(R"("\"" char{)" + std::to_string(min) + "," + (max >= 0 ? std::to_string(max) : "") + R"(} "\"")");
  }

  struct Member {
    std::string pair;
    bool is_required;
  };

  std::string object(const Schemas& schemas) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    const auto add = [&](const std::string& name) {
      if (seen.insert(name).second) names.push_back(name);
    };
    bool names_others = false;  // the schema says more than which names may not be there
    for (const Json& schema : schemas) {
      const auto properties = schema.find("properties");
      if (!properties) continue;
      const std::vector<std::string> fields = properties->fields();
      std::ranges::for_each(fields, add);
      names_others = names_others || fields.empty() || std::ranges::any_of(fields, [&](const std::string& field) {
                       const Json property = *properties->member(field);
                       return !property.is_boolean() || property.boolean();
                     });
    }
    const std::vector<std::string> required = SchemaReader::required_of(schemas);
    std::ranges::for_each(required, add);
    std::vector<Member> members;
    for (const std::string& name : names) {
      const bool is_required = std::ranges::find(required, name) != required.end();
      const auto property = reader_.property_of(schemas, name);
      const std::string value = property ? body_of(*property) : nothing;
      if (value != nothing) {
        members.push_back({gbnf_string(json_string(name)) + " colon " + value, is_required});
      } else if (is_required) {
        return no(schemas.front(), "the required property " + in_quotes(name) + " has no value");
      }
    }
    const auto [min, max] = SchemaReader::range_of(schemas, "minProperties", "maxProperties");
    const bool is_open = !names_others || static_cast<std::size_t>(min) > members.size() || opens(schemas);
    const std::string others = one_of(other_pairs(schemas, names, is_open));
    const std::string inside = members_from(schemas, members, others, min, max);
    if (inside == nothing) return no(schemas.front(), "there can be fewer properties than it asks for");
    return rule("\"{\" " + inside);
  }

  /// Whether a schema asks for properties beside those that it names.
  static bool opens(const Schemas& schemas) {
    return std::ranges::any_of(schemas, [](const Json& schema) {
      const auto others = schema.find("additionalProperties");
      return others && (!others->is_boolean() || others->boolean());
    });
  }

  /// Pairs whose names are not among these, for each set of patterns that a name may match at once.
  std::vector<std::string> other_pairs(const Schemas& schemas, const std::vector<std::string>& names, bool is_open) {
    std::vector<std::pair<std::string, Json>> patterns;
    std::optional<RegularLanguage> allowed;
    for (const Json& schema : schemas) {
      if (const auto list = schema.find("patternProperties")) {
        for (const std::string& expression : list->fields()) {
          const bool known = std::ranges::any_of(patterns, [&](const auto& one) { return one.first == expression; });
          if (!known) patterns.emplace_back(expression, *list);
        }
      }
      if (const auto of_names = schema.find("propertyNames")) {
        const RegularLanguage these = reader_.names_of(reader_.conjunction_of({*of_names}));
        allowed = allowed ? allowed->both(these) : these;
      }
    }
    if (patterns.size() > patterns_max) {
      patterns.back().second.fail("has more than " + std::to_string(patterns_max) + " patterns; join some");
    }
    std::vector<std::string> pairs;
    for (std::size_t set = 0; set < std::size_t{1} << patterns.size(); ++set) {
      if (set == 0 && (patterns.empty() ? !is_open : !opens(schemas))) continue;
      const auto matches = [&](const std::string& expression) {
        const auto place = std::ranges::find(patterns, expression, &std::pair<std::string, Json>::first);
        return (set >> (place - patterns.begin()) & 1) != 0;
      };
      std::optional<RegularLanguage> own = allowed;
      const auto whole = [&] { return own ? *own : RegularLanguage::of_everything(); };
      for (const auto& [expression, place] : patterns) {
        const RegularLanguage& these = reader_.pattern(expression, place);
        own = matches(expression) ? whole().both(these) : whole().without(these);
      }
      if (!names.empty()) {
        own = whole().without(RegularLanguage::of_words(std::vector<std::string_view>(names.begin(), names.end())));
      }
      if (own && own->empty()) continue;
      const std::string value = value_of_others(schemas, matches);
      if (value != nothing) pairs.push_back(rule((own ? texts(*own, Writing::json) : "string") + " colon " + value));
    }
    return pairs;
  }

  template <class Matches>
  std::string value_of_others(const Schemas& schemas, const Matches& matches) {
    Schemas all;
    for (const Json& schema : schemas) {
      bool is_named = false;
      if (const auto list = schema.find("patternProperties")) {
        for (const std::string& expression : list->fields()) {
          if (!matches(expression)) continue;
          all.push_back(*list->member(expression));
          is_named = true;
        }
      }
      if (const auto others = schema.find("additionalProperties"); others && !is_named) all.push_back(*others);
    }
    return body_of(all);
  }

  /// What comes behind the brace: these members in order, then others.
  std::string members_from(const Schemas& schemas, const std::vector<Member>& members, const std::string& others,
                           int min, int max) {
    // Members are counted as far as it matters; a comma comes before all but the first.
    const int counted = max >= 0 ? max : std::max(1, min);
    const auto count_after = [&](int count) { return std::min(count + 1, counted); };
    std::vector<std::string> behind;  // [how many came before]
    for (int count = 0; count <= counted; ++count) behind.push_back(others_behind(schemas, others, count, min, max));
    for (auto member = members.rbegin(); member != members.rend(); ++member) {
      std::vector<std::string> here;
      for (int count = 0; count <= counted; ++count) {
        std::vector<std::string> ways;
        const std::string& then = behind[static_cast<std::size_t>(count_after(count))];
        const bool fits = max < 0 || count < max;
        if (fits && then != nothing) ways.push_back((count == 0 ? "" : "comma ") + member->pair + " " + then);
        if (!member->is_required) ways.push_back(behind[static_cast<std::size_t>(count)]);
        const std::string body = one_of(ways);
        here.push_back(ways.size() == 1 && body != nothing ? rule(body) : body);
      }
      behind = std::move(here);
    }
    return behind.front();
  }

  /// The members that are not named, and the end of the object.
  std::string others_behind(const Schemas& schemas, const std::string& others, int count, int min, int max) {
    const int more_min = std::max(0, min - count);
    if (others == nothing || (max >= 0 && count >= max)) return more_min > 0 ? nothing : R"("}")";
    if (more_min > 1) {
      schemas.front().fail("minProperties asks for several properties without a name, which may be the same");
    }
    const std::string end = R"( "}")";
    const std::string further = max >= 0 ? "{0," + std::to_string(max - count - 1) + "}" : "*";
    const std::string list = others + " ( comma " + others + " )" + further;
    const std::string all = (count == 0 ? "" : "comma ") + list;
    return rule(more_min > 0 ? all + end : "( " + all + " )?" + end);
  }

  std::string array(const Schemas& schemas) {
    auto [min, max] = SchemaReader::range_of(schemas, "minItems", "maxItems");
    if (max >= 0 && max < min) return no(schemas.front(), "maxItems is less than minItems");
    auto places = static_cast<int>(SchemaReader::places_of(schemas));
    const auto item_at = [&](int place) {
      const auto item = SchemaReader::item_of(schemas, static_cast<std::size_t>(place));
      return item ? body_of(*item) : nothing;
    };
    const auto cut = [&](int count) { max = max < 0 ? count : std::min(max, count); };
    std::vector<std::string> items;
    for (int place = 0; place < places && (max < 0 || place < max); ++place) {
      items.push_back(item_at(place));
      if (items.back() == nothing) cut(place);
    }
    places = static_cast<int>(items.size());
    const std::string rest = max >= 0 && max <= places ? nothing : item_at(places);
    if (rest == nothing) cut(places);
    if (max >= 0 && max < min) return no(schemas.front(), "minItems asks for more items than there can be");
    for (const Json& schema : schemas) {
      if (schema.has("contains")) return containing(schemas, schema, places, min, max, rest);
    }
    if (is_unique(schemas) && (max < 0 || max > 1)) return different_items(schemas, places, min, max);
    // From the last place on.
    std::string behind = places == 0 ? list_of(rest, min, max) : further(rest, places, min, max);
    for (int place = std::min(places, max < 0 ? places : max) - 1; place >= 0; --place) {
      const std::string item = (place == 0 ? "" : "comma ") + items[static_cast<std::size_t>(place)] + " " + behind;
      behind = rule(place >= min ? item + R"( | "]")" : item);
    }
    return rule("\"[\" " + behind);
  }

  static bool is_unique(const Schemas& schemas) {
    return std::ranges::any_of(schemas, [](const Json& schema) {
      const auto unique = schema.find("uniqueItems");
      return unique && unique->boolean();
    });
  }

  /// All items of an array, and its end.
  static std::string list_of(const std::string& item, int min, int max) {
    if (max == 0) return R"("]")";
    const std::string more = std::to_string(std::max(0, min - 1)) + "," + (max >= 0 ? std::to_string(max - 1) : "");
    const std::string list = item + " ( comma " + item + " ){" + more + "}";
    return (min > 0 ? list : "( " + list + " )?") + R"( "]")";
  }
  /// The items behind those that have places of their own.
  static std::string further(const std::string& item, int places, int min, int max) {
    if (max >= 0 && max <= places) return R"("]")";
    const std::string more =
        std::to_string(std::max(0, min - places)) + "," + (max >= 0 ? std::to_string(max - places) : "");
    return "( comma " + item + " ){" + more + R"(} "]")";
  }

  std::string containing(const Schemas& schemas, const Json& schema, int places, int min, int max,
                         const std::string& rest) {
    const Json contained = schema.at("contains");
    const int contained_min = SchemaReader::contained_min(schema);
    const bool is_other = std::ranges::any_of(
        schemas, [&](const Json& one) { return one.has("contains") && one.place() != schema.place(); });
    if (places > 0 || min > contained_min || max >= 0 || is_unique(schemas) || is_other) {
      contained.fail("beside prefixItems, minItems, maxItems, uniqueItems or another contains is not supported");
    }
    if (contained_min == 0) return rule("\"[\" " + list_of(rest, min, max));
    auto both = SchemaReader::item_of(schemas, 0);
    both->push_back(contained);
    const std::string one = body_of(*both);
    if (one == nothing) return no(contained, "no item can be contained");
    std::string body = "\"[\" ( " + rest + " comma )* " + one;
    for (int i = 1; i < contained_min; ++i) body += " ( comma " + rest + " )* comma " + one;
    return rule(body + " ( comma " + rest + R"( )* "]")");
  }

  /// Items of which no two are equal: each set of those that came before is a rule.
  std::string different_items(const Schemas& schemas, int places, int min, int max) {
    const auto item = SchemaReader::item_of(schemas, 0);
    std::vector<std::string> texts;
    std::optional<std::vector<Json>> values;
    if (places == 0 && item) values = reader_.values_of(reader_.conjunction_of(*item));
    for (std::size_t i = 0; values && i < values->size(); ++i) {
      const auto is_same = [&](const Json& other) { return same_value(other, (*values)[i]); };
      if (std::none_of(values->begin(), values->begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
        texts.push_back(gbnf_string((*values)[i].text()));
      }
    }
    if (!values || texts.size() > values_max) {
      const auto unique = std::ranges::find_if(schemas, [](const Json& one) { return one.has("uniqueItems"); });
      unique->fail("the keyword 'uniqueItems' is supported for at most one item, or where an enum has at most " +
                   std::to_string(values_max) + " values for them; leave it out");
    }
    const std::size_t sets = std::size_t{1} << texts.size();
    std::vector<std::string> behind(sets);
    for (std::size_t set = sets; set-- > 0;) {
      const int count = std::popcount(set);
      std::vector<std::string> ways;
      for (std::size_t i = 0; i < texts.size() && (max < 0 || count < max); ++i) {
        const std::size_t with = set | std::size_t{1} << i;
        if (with != set && behind[with] != nothing)
          ways.push_back((set == 0 ? "" : "comma ") + texts[i] + " " + behind[with]);
      }
      if (count >= min) ways.emplace_back(R"("]")");
      const std::string body = one_of(ways);
      behind[set] = body == nothing ? nothing : rule(body);
    }
    return behind[0] == nothing ? no(schemas.front(), "minItems asks for more different items than there are")
                                : rule("\"[\" " + behind[0]);
  }

  struct Place {
    std::string name = {};  // of the rule, where the schema comes back to itself
    std::string body = {};  // once it is known
  };

  const Json& root_;
  std::string prefix_;
  SchemaReader reader_;
  std::string why_;  // the first thing that was found to be nothing
  int depth_ = 0;
  int references_ = 0;
  std::size_t size_ = 0;  // bytes of the rules
  std::vector<std::pair<std::string, std::string>> rules_;
  std::map<std::string, std::string> names_;      // of rules, by body
  std::map<std::string, std::string> languages_;  // the names of their rules
  std::map<std::vector<const void*>, Place> places_;
};

}  // namespace

std::string json_object_gbnf() { return std::string("root ::= object\n") + rules_of_json; }

std::string schema_to_gbnf(const Json& schema) {
  const auto [body, rules] = schema_rules(schema, "");
  return "root ::= " + body + "\n" + rules + rules_of_json;
}

SchemaRules schema_rules(const Json& schema, std::string_view prefix, const Json* root) {
  return SchemaCompiler(root != nullptr ? *root : schema, prefix).compiled(schema);
}

std::string_view json_rules() { return rules_of_json; }

}  // namespace draftproof
