#include "tools/case_reader.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "tools/case_steps.hpp"

namespace zero::cases {
namespace {

constexpr std::int64_t kMaxElems = std::int64_t{1} << 40;  // keeps products of dimensions in range
constexpr std::int64_t kMaxBytes = (std::int64_t{1} << 53) - 1;  // exact as a double
constexpr std::int64_t kMaxRanks = 4096;                         // they are threads

void read_shape(const Json& json, const std::string& path, CaseParameter& parameter) {
  parameter.numel = 1;
  for (const Json& dimension : as_array(json, path)) {
    const std::int64_t size =
        as_whole(dimension, child(path, parameter.shape.size()), 0, kMaxElems);
    parameter.shape.push_back(size);
    if (size > 0 && parameter.numel > kMaxElems / size) {
      throw CaseError(path + ": more than " + std::to_string(kMaxElems) + " elements");
    }
    parameter.numel *= size;
  }
}

int find_target(const std::vector<CaseParameter>& earlier, const std::string& name,
                const std::string& path) {
  for (std::size_t i = 0; i < earlier.size(); ++i) {
    if (earlier[i].name == name && earlier[i].storage == static_cast<int>(i)) {
      return static_cast<int>(i);
    }
  }
  throw CaseError(path + ": \"" + name + "\" is no parameter with memory of its own listed above");
}

CaseParameter read_parameter(const Json& json, const std::string& path, const CaseFile& file) {
  Fields fields(json, path);
  CaseParameter parameter;
  parameter.name = as_text(fields.need("name"), fields.at("name"));
  const bool taken = std::any_of(file.parameters.begin(), file.parameters.end(),
                                 [&](const auto& other) { return other.name == parameter.name; });
  if (taken) {
    throw CaseError(fields.at("name") + ": \"" + parameter.name + "\" is there twice");
  }
  const Json* alias = fields.find("alias_of");
  if (alias != nullptr) {
    const int target =
        find_target(file.parameters, as_text(*alias, fields.at("alias_of")), fields.at("alias_of"));
    const std::string name = parameter.name;
    parameter = file.parameters[static_cast<std::size_t>(target)];
    parameter.name = name;
    parameter.storage = target;
    parameter.unit.reset();
  }
  if (const Json* unit = fields.find("unit")) parameter.unit = as_text(*unit, fields.at("unit"));
  if (alias == nullptr) {
    parameter.storage = static_cast<int>(file.parameters.size());
    read_shape(fields.need("shape"), fields.at("shape"), parameter);
    if (const Json* dtype = fields.find("dtype")) {
      const std::string& name = as_text(*dtype, fields.at("dtype"));
      const std::optional<DType> found = dtype_from_name(name);
      if (!found) {
        throw CaseError(fields.at("dtype") + ": \"" + name + "\" is not fp32, fp16 or bf16");
      }
      parameter.dtype = *found;
    }
    if (const Json* group = fields.find("group")) {
      parameter.group = static_cast<int>(
          as_whole(*group, fields.at("group"), 0, std::numeric_limits<int>::max()));
      if (parameter.group >= static_cast<int>(file.groups.size())) {
        throw CaseError(fields.at("group") + ": group " + std::to_string(parameter.group) + " of " +
                        std::to_string(file.groups.size()));
      }
    }
    if (const Json* flag = fields.find("requires_grad")) {
      parameter.requires_grad = as_bool(*flag, fields.at("requires_grad"));
    }
    fields.find("init");  // read per phase, where the world size is known
  }
  fields.refuse_others();
  return parameter;
}

// Initial values of all parameters on `world_size` ranks. Aliases have none of their own.
std::vector<Value> read_init(const Json& parameters, int world_size, const CaseFile& file) {
  std::vector<Value> init;
  for (std::size_t i = 0; i < parameters.items.size(); ++i) {
    Fields fields(parameters.items[i], child("parameters", i));
    static const Json kZero = parse_json("0");
    const Json* given = fields.find("init");
    init.push_back(Value::read(given == nullptr ? kZero : *given, fields.at("init"),
                               file.parameters[i].numel, world_size));
    if (!init.back().given(0)) throw CaseError(fields.at("init") + ": cannot be null on rank 0");
  }
  return init;
}

// A phase, or the top level of a file without phases, which has the same keys.
CasePhase read_phase_body(Fields& fields, const Json& parameters, int world_size,
                          const CaseFile& file) {
  CasePhase phase;
  phase.world_size = world_size;
  phase.init = read_init(parameters, world_size, file);
  StepReader reader(file, world_size);
  const std::string where = fields.at("steps");
  for (const Json& step : as_array(fields.need("steps"), where)) {
    phase.steps.push_back(reader.step(step, child(where, phase.steps.size())));
  }
  if (const Json* expect = fields.find("expect")) {
    phase.expect = reader.expectation(*expect, fields.at("expect"), !phase.steps.empty());
  }
  return phase;
}

CasePhase read_phase(const Json& json, const std::string& path, const Json& parameters,
                     int world_size, const CaseFile& file) {
  Fields fields(json, path);
  if (const Json* ranks = fields.find("world_size")) {
    world_size = static_cast<int>(as_whole(*ranks, fields.at("world_size"), 1, kMaxRanks));
  }
  CasePhase phase = read_phase_body(fields, parameters, world_size, file);
  if (const Json* patch = fields.find("config")) {
    if (patch->kind != Json::Kind::kObject) {
      throw CaseError(fields.at("config") + ": must be an object");
    }
    phase.config_patch = to_text(*patch);
  }
  if (const Json* load = fields.find("load")) phase.load = as_bool(*load, fields.at("load"));
  if (const Json* save = fields.find("save")) phase.save = as_bool(*save, fields.at("save"));
  fields.refuse_others();
  return phase;
}

std::vector<ByteBound> read_bounds(const Json& json, const std::string& path) {
  Fields fields(json, path);
  std::vector<ByteBound> bounds;
  for (int i = 0; i < kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    const std::string key(category_name(category));
    const Json* value = fields.find(key);
    if (value == nullptr) continue;
    ByteBound bound{category, 0, value->kind == Json::Kind::kObject};
    if (bound.upper) {
      Fields range(*value, fields.at(key));
      bound.bytes = as_whole(range.need("max"), range.at("max"), 0, kMaxBytes);
      range.refuse_others();
    } else {
      bound.bytes = as_whole(*value, fields.at(key), 0, kMaxBytes);
    }
    bounds.push_back(bound);
  }
  fields.refuse_others();
  return bounds;
}

void read_expect_bytes(const Json& json, const std::string& path, CaseFile& file) {
  Fields fields(json, path);
  for (int stage = 0; stage <= 3; ++stage) {
    const std::string key = std::to_string(stage);
    if (const Json* bounds = fields.find(key)) {
      file.expect_bytes[stage] = read_bounds(*bounds, fields.at(key));
    }
  }
  fields.refuse_others();
}

void read_stages(const Json& json, const std::string& path, CaseFile& file) {
  file.stages.clear();
  for (const Json& stage : as_array(json, path)) {
    const std::string where = child(path, file.stages.size());
    file.stages.push_back(static_cast<int>(as_whole(stage, where, 0, 3)));
  }
}

}  // namespace

CaseFile read_case(std::string_view text) {
  const Json root = parse_json(text);
  Fields fields(root, "");
  CaseFile file;
  if (const Json* about = fields.find("about")) file.about = as_text(*about, "about");
  if (const Json* tolerance = fields.find("tolerance")) {
    file.tolerance = as_number(*tolerance, "tolerance");
    if (file.tolerance < 0) throw CaseError("tolerance: must be at least 0");
  }
  const int world_size =
      static_cast<int>(as_whole(fields.need("world_size"), "world_size", 1, kMaxRanks));
  const Json& config = fields.need("config");
  if (config.kind != Json::Kind::kObject) throw CaseError("config: must be an object");
  file.config = to_text(config);
  if (const Json* stages = fields.find("stages")) read_stages(*stages, "stages", file);
  if (const Json* groups = fields.find("groups")) {
    file.groups.clear();
    for (const Json& group : as_array(*groups, "groups")) {
      file.groups.push_back(read_override(group, child("groups", file.groups.size())));
    }
    if (file.groups.empty()) throw CaseError("groups: needs at least one group");
  }
  const Json& parameters = fields.need("parameters");
  for (const Json& parameter : as_array(parameters, "parameters")) {
    const std::string path = child("parameters", file.parameters.size());
    file.parameters.push_back(read_parameter(parameter, path, file));
  }
  if (const Json* phases = fields.find("phases")) {
    for (const Json& phase : as_array(*phases, "phases")) {
      file.phases.push_back(
          read_phase(phase, child("phases", file.phases.size()), parameters, world_size, file));
    }
    if (file.phases.empty()) throw CaseError("phases: needs at least one phase");
  } else {
    file.phases.push_back(read_phase_body(fields, parameters, world_size, file));
  }
  if (const Json* error = fields.find("expect_error")) {
    file.expect_error = as_text(*error, "expect_error");
  }
  if (const Json* warning = fields.find("expect_warning")) {
    file.expect_warning = as_text(*warning, "expect_warning");
  }
  if (const Json* bytes = fields.find("expect_bytes")) {
    read_expect_bytes(*bytes, "expect_bytes", file);
  }
  fields.refuse_others();
  return file;
}

CaseFile load_case(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) throw CaseError("cannot be read");
  return read_case(text.str());
}

}  // namespace zero::cases
