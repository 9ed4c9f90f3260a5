#include "tools/case_value.hpp"

#include <algorithm>
#include <charconv>

namespace zero::cases {
namespace {

std::int64_t read_index(const std::string& key, const std::string& path, std::int64_t numel) {
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index < 0 || index >= numel) {
    throw CaseError(path + ": \"" + key + "\" is no index into " + std::to_string(numel) +
                    " elements");
  }
  return index;
}

}  // namespace

Value Value::read_one(const Json& json, const std::string& path, std::int64_t numel) {
  Value value;
  value.numel_ = numel;
  if (json.kind == Json::Kind::kNull) return value;
  value.kind_ = Kind::kFill;
  if (json.kind == Json::Kind::kArray) {
    value.kind_ = Kind::kList;
    for (std::size_t i = 0; i < json.items.size(); ++i) {
      value.list_.push_back(as_any_number(json.items[i], child(path, i)));
    }
    if (static_cast<std::int64_t>(value.list_.size()) != numel) {
      throw CaseError(path + ": " + std::to_string(value.list_.size()) + " values for " +
                      std::to_string(numel) + " elements");
    }
  } else if (json.kind == Json::Kind::kObject) {
    Fields fields(json, path);
    value.fill_ = as_any_number(fields.need("fill"), fields.at("fill"));
    const Json& at = fields.need("at");
    const Fields indices(at, fields.at("at"));  // an object without duplicates
    for (std::size_t i = 0; i < at.items.size(); ++i) {
      value.at_.emplace_back(read_index(at.keys[i], fields.at("at"), numel),
                             as_any_number(at.items[i], indices.at(at.keys[i])));
    }
    fields.refuse_others();
  } else {
    value.fill_ = as_any_number(json, path);
  }
  return value;
}

Value Value::read(const Json& json, const std::string& path, std::int64_t numel, int world_size) {
  const bool per_rank = json.kind == Json::Kind::kObject &&
                        std::find(json.keys.begin(), json.keys.end(), "ranks") != json.keys.end();
  if (!per_rank) return read_one(json, path, numel);

  Fields fields(json, path);
  const std::string list_path = fields.at("ranks");
  const std::vector<Json>& list = as_array(fields.need("ranks"), list_path);
  fields.refuse_others();
  if (list.size() != static_cast<std::size_t>(world_size)) {
    throw CaseError(list_path + ": " + std::to_string(list.size()) + " values for " +
                    std::to_string(world_size) + " ranks");
  }
  Value value;
  value.kind_ = Kind::kRanks;
  value.numel_ = numel;
  for (std::size_t i = 0; i < list.size(); ++i) {
    value.ranks_.push_back(read_one(list[i], child(list_path, i), numel));
  }
  return value;
}

std::optional<std::vector<double>> Value::elements(int rank) const {
  switch (kind_) {
    case Kind::kNull:
      return std::nullopt;
    case Kind::kList:
      return list_;
    case Kind::kRanks:
      return ranks_.at(static_cast<std::size_t>(rank)).elements(rank);
    case Kind::kFill:
      break;
  }
  std::vector<double> values(static_cast<std::size_t>(numel_), fill_);
  for (const auto& [index, number] : at_) values[static_cast<std::size_t>(index)] = number;
  return values;
}

bool Value::given(int rank) const {
  if (kind_ == Kind::kRanks) return ranks_.at(static_cast<std::size_t>(rank)).given(rank);
  return kind_ != Kind::kNull;
}

bool Value::given_anywhere() const {
  if (kind_ != Kind::kRanks) return kind_ != Kind::kNull;
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Value& value) { return value.given_anywhere(); });
}

}  // namespace zero::cases
