#include "tools/case_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace zero::cases {
namespace {

using Library = nlohmann::json;

// Builds our tree from parser events: only they carry the spelling of a number.
class Builder : public nlohmann::json_sax<Library> {
 public:
  bool null() override { return add({}); }
  bool boolean(bool value) override {
    Json json;
    json.kind = Json::Kind::kBool;
    json.boolean = value;
    return add(std::move(json));
  }
  bool number_integer(std::int64_t value) override {
    return add_number(static_cast<double>(value), std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    return add_number(static_cast<double>(value), std::to_string(value));
  }
  bool number_float(double value, const std::string& spelling) override {
    return add_number(value, spelling);
  }
  bool string(std::string& value) override {
    Json json;
    json.kind = Json::Kind::kString;
    json.text = std::move(value);
    return add(std::move(json));
  }
  bool binary(Library::binary_t&) override { return false; }  // not in JSON text
  bool start_object(std::size_t) override { return open(Json::Kind::kObject); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::Kind::kArray); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    open_.back().keys.push_back(std::move(value));
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw CaseError(error.what());
  }

  Json take() { return std::move(root_); }

 private:
  bool add_number(double value, std::string spelling) {
    Json json;
    json.kind = Json::Kind::kNumber;
    json.number = value;
    json.text = std::move(spelling);
    return add(std::move(json));
  }
  bool add(Json json) {
    (open_.empty() ? root_ : open_.back().items.emplace_back()) = std::move(json);
    return true;
  }
  bool open(Json::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      const Json& outermost = open_.front();
      throw CaseError((outermost.keys.empty() ? std::string("the file") : outermost.keys.back()) +
                      ": nested more than " + std::to_string(kMaxDepth) + " deep");
    }
    open_.emplace_back().kind = kind;
    return true;
  }
  bool close() {
    Json done = std::move(open_.back());
    open_.pop_back();
    return add(std::move(done));
  }

  Json root_;
  std::vector<Json> open_;
};

[[noreturn]] void refuse(std::string_view path, const Json& json, std::string_view valid) {
  std::string value = to_text(json);
  if (value.size() > 60) value = value.substr(0, 57) + "...";
  throw CaseError(std::string(path.empty() ? "the file" : path) + ": " + value + " is not " +
                  std::string(valid));
}

}  // namespace

Json parse_json(std::string_view text) {
  // The library takes a NUL byte as the end of the text.
  if (const std::size_t nul = text.find('\0'); nul != text.npos) {
    const std::string_view before = text.substr(0, nul);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n') + 1;  // 0 where there is none
    throw CaseError("not JSON at line " + std::to_string(line) + ", column " +
                    std::to_string(nul - start + 1) + ": a NUL byte");
  }
  Builder builder;
  Library::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string quote(std::string_view text) {
  return Library(text).dump(-1, ' ', false, Library::error_handler_t::replace);
}

std::string to_text(const Json& json) {
  switch (json.kind) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return json.boolean ? "true" : "false";
    case Json::Kind::kNumber:
      return json.text;
    case Json::Kind::kString:
      return quote(json.text);
    case Json::Kind::kArray:
    case Json::Kind::kObject:
      break;
  }
  const bool object = json.kind == Json::Kind::kObject;
  std::string text = object ? "{" : "[";
  for (std::size_t i = 0; i < json.items.size(); ++i) {
    if (i > 0) text += ", ";
    if (object) text += quote(json.keys[i]) + ": ";
    text += to_text(json.items[i]);
  }
  return text + (object ? "}" : "]");
}

std::string child(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : std::string(path) + "." + std::string(key);
}

std::string child(std::string_view path, std::size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

bool as_bool(const Json& json, std::string_view path) {
  if (json.kind != Json::Kind::kBool) refuse(path, json, "true or false");
  return json.boolean;
}

const std::string& as_text(const Json& json, std::string_view path) {
  if (json.kind != Json::Kind::kString) refuse(path, json, "a string");
  return json.text;
}

double as_number(const Json& json, std::string_view path) {
  if (json.kind != Json::Kind::kNumber) refuse(path, json, "a number");
  return json.number;
}

double as_any_number(const Json& json, std::string_view path) {
  if (json.kind == Json::Kind::kString) {
    if (json.text == "inf") return std::numeric_limits<double>::infinity();
    if (json.text == "-inf") return -std::numeric_limits<double>::infinity();
    if (json.text == "nan") return std::numeric_limits<double>::quiet_NaN();
  } else if (json.kind == Json::Kind::kNumber) {
    return json.number;
  }
  refuse(path, json, R"(a number, "inf", "-inf" or "nan")");
}

std::int64_t as_whole(const Json& json, std::string_view path, std::int64_t least,
                      std::int64_t most) {
  const bool whole = json.kind == Json::Kind::kNumber && json.number == std::floor(json.number);
  if (!whole || json.number < static_cast<double>(least) ||
      json.number > static_cast<double>(most)) {
    refuse(path, json,
           "a whole number of at least " + std::to_string(least) + " and at most " +
               std::to_string(most));
  }
  return static_cast<std::int64_t>(json.number);
}

const std::vector<Json>& as_array(const Json& json, std::string_view path) {
  if (json.kind != Json::Kind::kArray) refuse(path, json, "a list");
  return json.items;
}

Fields::Fields(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (json.kind != Json::Kind::kObject) refuse(path_, json, "an object");
  for (auto key = json.keys.begin(); key != json.keys.end(); ++key) {
    if (std::find(json.keys.begin(), key, *key) != key) {
      throw CaseError(at(*key) + ": the key is there twice");
    }
  }
}

const Json* Fields::find(std::string_view key) {
  known_.emplace_back(key);
  const auto found = std::find(json_.keys.begin(), json_.keys.end(), key);
  if (found == json_.keys.end()) return nullptr;
  return &json_.items[static_cast<std::size_t>(found - json_.keys.begin())];
}

const Json& Fields::need(std::string_view key) {
  const Json* found = find(key);
  if (found == nullptr) throw CaseError(at(key) + ": missing");
  return *found;
}

void Fields::refuse_others() const {
  for (const std::string& key : json_.keys) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string valid;
    for (const std::string& name : known_) valid += (valid.empty() ? "" : ", ") + name;
    throw CaseError(at(key) + ": unknown key; valid here: " + valid);
  }
}

}  // namespace zero::cases
