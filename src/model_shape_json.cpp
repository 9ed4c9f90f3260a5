// Model descriptions as JSON: read with the places of mistakes, and written.
#include <algorithm>

#include "src/config_json.hpp"
#include "src/config_number.hpp"
#include "zero/error.hpp"
#include "zero/model_shape.hpp"

namespace zero {

using detail::concat;
using detail::JsonNode;

namespace {

class Reader {
 public:
  [[noreturn]] void refuse(const JsonNode& node, const std::string& path,
                           const std::string& what) const {
    throw ConfigError(concat(to_string(node.place), ": ", path, ": ", what));
  }

  const JsonNode* member(const JsonNode& object, const std::string& key) const {
    for (const detail::JsonMember& m : object.members) {
      if (m.key == key) return &m.value;
    }
    return nullptr;
  }
  const JsonNode& required(const JsonNode& object, const std::string& path,
                           const std::string& key) const {
    const JsonNode* node = member(object, key);
    if (node == nullptr) refuse(object, path, "the key \"" + key + "\" is missing");
    return *node;
  }
  void only(const JsonNode& object, const std::string& path,
            const std::vector<std::string>& keys) const {
    if (object.kind != JsonNode::Kind::kObject) refuse(object, path, "must be an object");
    for (const detail::JsonMember& m : object.members) {
      if (std::find(keys.begin(), keys.end(), m.key) != keys.end()) continue;
      std::string known;
      for (const std::string& key : keys) known += (known.empty() ? "" : ", ") + key;
      refuse(m.value, path + "." + m.key, "unknown key; known are " + known);
    }
  }
  std::string text(const JsonNode& node, const std::string& path) const {
    if (node.kind != JsonNode::Kind::kString) refuse(node, path, "must be a string");
    return node.text;
  }
  const std::vector<JsonNode>& list(const JsonNode& node, const std::string& path) const {
    if (node.kind != JsonNode::Kind::kArray) refuse(node, path, "must be a list");
    return node.items;
  }
  std::int64_t whole(const JsonNode& node, const std::string& path) const {
    if (node.kind == JsonNode::Kind::kNumber) {
      const detail::WholeNumber number = detail::parse_whole(node.text);
      if (number.verdict == detail::Whole::kYes && number.value >= 0) return number.value;
    }
    refuse(node, path, "must be a whole number, 0 or more, below 2^63");
  }
  int small(const JsonNode& node, const std::string& path) const {
    constexpr std::int64_t kMost = 1 << 20;
    const std::int64_t value = whole(node, path);
    if (value > kMost) refuse(node, path, concat(value, " is too large; at most ", kMost));
    return static_cast<int>(value);
  }
  bool boolean(const JsonNode& node, const std::string& path) const {
    if (node.kind != JsonNode::Kind::kBoolean) refuse(node, path, "must be true or false");
    return node.boolean;
  }

  ParamShape param(const JsonNode& node, const std::string& path) const {
    only(node, path, {"name", "shape", "dtype", "group", "requires_grad", "fixed"});
    ParamShape param;
    param.name = text(required(node, path, "name"), path + ".name");
    for (const JsonNode& dimension : list(required(node, path, "shape"), path + ".shape")) {
      param.shape.push_back(whole(dimension, path + ".shape"));
    }
    const JsonNode& dtype = required(node, path, "dtype");
    const std::optional<DType> known = dtype_from_name(text(dtype, path + ".dtype"));
    if (!known)
      refuse(dtype, path + ".dtype", "\"" + dtype.text + "\"; fp32, fp16, bf16 are valid");
    param.dtype = *known;
    if (const JsonNode* group = member(node, "group")) {
      param.group = small(*group, path + ".group");
    }
    if (const JsonNode* grad = member(node, "requires_grad")) {
      param.requires_grad = boolean(*grad, path + ".requires_grad");
    }
    if (const JsonNode* fixed = member(node, "fixed")) {
      param.fixed = boolean(*fixed, path + ".fixed");
    }
    return param;
  }

  UnitShape unit(const JsonNode& node, const std::string& path) const {
    only(node, path, {"name", "params", "shared"});
    UnitShape unit;
    unit.name = text(required(node, path, "name"), path + ".name");
    const std::vector<JsonNode>& params = list(required(node, path, "params"), path + ".params");
    for (std::size_t i = 0; i < params.size(); ++i) {
      unit.params.push_back(param(params[i], concat(path, ".params[", i, "]")));
    }
    if (const JsonNode* shared = member(node, "shared")) {
      for (const JsonNode& name : list(*shared, path + ".shared")) {
        unit.shared.push_back(text(name, path + ".shared"));
      }
    }
    return unit;
  }
};

JsonNode leaf(JsonNode::Kind kind, std::string text) {
  JsonNode node;
  node.kind = kind;
  node.text = std::move(text);
  return node;
}
JsonNode number(std::int64_t value) { return leaf(JsonNode::Kind::kNumber, std::to_string(value)); }
JsonNode string(std::string value) { return leaf(JsonNode::Kind::kString, std::move(value)); }
JsonNode boolean(bool value) {
  JsonNode node = leaf(JsonNode::Kind::kBoolean, "");
  node.boolean = value;
  return node;
}
JsonNode list() { return leaf(JsonNode::Kind::kArray, ""); }
JsonNode object() { return leaf(JsonNode::Kind::kObject, ""); }
void put(JsonNode& object, std::string key, JsonNode value) {
  object.members.push_back({std::move(key), {}, std::move(value)});
}

}  // namespace

ModelShape ModelShape::from_json(const std::string& text, const std::string& origin) {
  detail::Problems problems;
  const JsonNode root = detail::parse_json(text, origin, problems);
  problems.throw_if_any();
  const Reader reader;
  reader.only(root, "model", {"groups", "units"});
  ModelShape model;
  const std::vector<JsonNode>& units =
      reader.list(reader.required(root, "model", "units"), "units");
  for (std::size_t i = 0; i < units.size(); ++i) {
    model.units.push_back(reader.unit(units[i], concat("units[", i, "]")));
  }
  if (const JsonNode* groups = reader.member(root, "groups")) {
    model.groups = reader.small(*groups, "groups");
    if (model.groups < 1) reader.refuse(*groups, "groups", "must be 1 or more");
  } else {  // as many as are named
    for (const UnitShape& unit : model.units) {
      for (const ParamShape& param : unit.params) {
        model.groups = std::max(model.groups, param.group + 1);
      }
    }
  }
  return model;
}

std::string ModelShape::to_json() const {
  JsonNode root = object();
  put(root, "groups", number(groups));
  JsonNode unit_list = list();
  for (const UnitShape& unit : units) {
    JsonNode u = object();
    put(u, "name", string(unit.name));
    JsonNode params = list();
    for (const ParamShape& param : unit.params) {
      JsonNode p = object();
      put(p, "name", string(param.name));
      JsonNode shape = list();
      for (const std::int64_t dimension : param.shape) shape.items.push_back(number(dimension));
      put(p, "shape", std::move(shape));
      put(p, "dtype", string(std::string(dtype_name(param.dtype))));
      if (param.group != 0) put(p, "group", number(param.group));
      if (!param.requires_grad) put(p, "requires_grad", boolean(false));
      if (param.fixed) put(p, "fixed", boolean(true));
      params.items.push_back(std::move(p));
    }
    put(u, "params", std::move(params));
    if (!unit.shared.empty()) {
      JsonNode shared = list();
      for (const std::string& name : unit.shared) shared.items.push_back(string(name));
      put(u, "shared", std::move(shared));
    }
    unit_list.items.push_back(std::move(u));
  }
  put(root, "units", std::move(unit_list));
  return detail::write_json(root);
}

}  // namespace zero
