#include "src/registration.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "src/config_schema.hpp"
#include "src/config_wire.hpp"
#include "zero/error.hpp"
#include "zero/version.hpp"

namespace zero {

using detail::concat;

namespace {

constexpr double kFloatMax = std::numeric_limits<float>::max();

// The dtype as registered: said outright, or told by the type of the pointers.
DType settle_dtype(const ParamSpec& spec) {
  std::optional<DType> dtype = spec.dtype;
  const auto agree = [&](const PointerSlot& slot, const char* what) {
    if (!slot.given()) return;
    if (!dtype) dtype = slot.dtype();
    const bool differs =
        (slot.dtype() && dtype && *slot.dtype() != *dtype) ||
        (dtype && slot.element_bytes() != 0 && slot.element_bytes() != dtype_bytes(*dtype));
    if (differs) {
      throw ConfigError(concat("parameter ", spec.name, ": dtype is ", dtype_name(*dtype), ", but ",
                               what, " points to elements of ", slot.element_bytes(), " bytes",
                               slot.dtype() ? concat(" (", dtype_name(*slot.dtype()), ")") : ""));
    }
  };
  agree(spec.data, ".data");
  agree(spec.grad, ".grad");
  if (!dtype) {
    throw ConfigError(
        concat("parameter ", spec.name, ": the type of .data does not tell the dtype; set .dtype"));
  }
  return *dtype;
}

}  // namespace

ParamState Registration::make_param(const std::string& unit, ParamSpec spec) const {
  if (spec.name.empty()) throw ConfigError(concat("unit ", unit, ": a parameter has no name"));
  if (by_name_.contains(spec.name)) {
    throw ConfigError(concat("parameter ", spec.name, " is registered twice (again in unit ", unit,
                             "); to use it in another unit, name it in that unit's `shared`"));
  }
  if (!spec.data.given()) throw ConfigError(concat("parameter ", spec.name, ": .data is missing"));
  if (spec.requires_grad && !spec.grad.given()) {
    throw ConfigError(
        concat("parameter ", spec.name, ": .grad is missing; set it, or requires_grad = false"));
  }
  ParamState param;
  param.dtype = settle_dtype(spec);
  param.numel = count_elems(spec.name, spec.shape);
  param.has_state = param.requires_grad = spec.requires_grad;
  param.spec = std::move(spec);
  return param;
}

int Registration::add_unit(std::string name, std::vector<ParamSpec> params,
                           const std::vector<std::string>& shared) {
  const int unit_index = static_cast<int>(rt_.units.size());
  UnitState unit;
  std::vector<ParamState> added;
  for (ParamSpec& spec : params) {
    added.push_back(make_param(name, std::move(spec)));
    by_name_.emplace(added.back().spec.name,
                     static_cast<int>(rt_.params.size() + added.size()) - 1);
    unit.params.push_back(static_cast<int>(rt_.params.size() + added.size()) - 1);
    added.back().units = {unit_index};
  }
  for (const std::string& other : shared) {
    const auto found = by_name_.find(other);
    if (found == by_name_.end() || found->second >= static_cast<int>(rt_.params.size())) {
      throw ConfigError(concat("unit ", name, ": `shared` names ", other,
                               ", which is no parameter of an earlier unit"));
    }
    rt_.params[static_cast<std::size_t>(found->second)].units.push_back(unit_index);
    unit.params.push_back(found->second);
  }
  for (ParamState& param : added) rt_.params.push_back(std::move(param));
  unit.name = std::move(name);
  rt_.units.push_back(std::move(unit));
  return unit_index;
}

void Registration::check_precision(const ParamState& param) const {
  const auto contradiction = [&](const char* key, DType wanted) {
    throw ConfigError(concat(key, ".enabled is true, but parameter ", param.spec.name, " is ",
                             dtype_name(param.dtype), "; register it as ", dtype_name(wanted),
                             " or turn ", key, " off"));
  };
  if (rt_.config.fp16_enabled.value_or(false) && param.dtype != DType::kFloat16) {
    contradiction("fp16", DType::kFloat16);
  }
  if (rt_.config.bf16_enabled.value_or(false) && param.dtype != DType::kBFloat16) {
    contradiction("bf16", DType::kBFloat16);
  }
  if (rt_.config.grad_accum_dtype && param.has_state &&
      dtype_bytes(*rt_.config.grad_accum_dtype) == 2 &&
      *rt_.config.grad_accum_dtype != param.dtype) {
    throw ConfigError(concat("data_types.grad_accum_dtype is ",
                             dtype_name(*rt_.config.grad_accum_dtype), ", but parameter ",
                             param.spec.name, " is ", dtype_name(param.dtype),
                             "; fp32 or the parameter's own dtype are valid"));
  }
  if (!param.has_state) return;
  const std::string wire = detail::wire_refusal(rt_.config, param.dtype);
  if (!wire.empty()) {
    throw ConfigError(concat("communication_data_type: parameter ", param.spec.name, ": ", wire));
  }
}

void Registration::settle_precision() {
  const auto settle = [&](std::optional<bool>& enabled, DType dtype) {
    if (enabled) return;
    const std::size_t count = static_cast<std::size_t>(
        std::count_if(rt_.params.begin(), rt_.params.end(),
                      [&](const ParamState& param) { return param.dtype == dtype; }));
    // Of mixed types true would be wrong, and so would false.
    if (count == 0 || count == rt_.params.size()) enabled = count > 0;
  };
  settle(rt_.config.fp16_enabled, DType::kFloat16);
  settle(rt_.config.bf16_enabled, DType::kBFloat16);
}

bool Registration::scales_loss() const {
  return rt_.config.fp16_enabled.value_or(
      std::any_of(rt_.params.begin(), rt_.params.end(),
                  [](const ParamState& param) { return param.dtype == DType::kFloat16; }));
}

void Registration::check_group(int index, const ParamGroup& group) {
  const auto check = [&](const char* name, double value, const char* path) {
    const detail::SchemaRow& row = detail::config_schema()[detail::row_index(path)];
    if (row.range.contains(value)) return;
    throw ConfigError(concat("param group ", index, ": ", name, " is ", value,
                             "; valid: ", detail::valid_values(row)));
  };
  check("lr", group.lr, "optimizer.params.lr");
  check("beta1", group.beta1, "optimizer.params.betas");
  check("beta2", group.beta2, "optimizer.params.betas");
  check("eps", group.eps, "optimizer.params.eps");
  check("weight_decay", group.weight_decay, "optimizer.params.weight_decay");
  // What the update multiplies with, at its largest: in the first step.
  const double step = group.lr / (1.0 - group.beta1);
  if (step > kFloatMax || group.lr * group.weight_decay > kFloatMax) {
    throw ConfigError(concat("param group ", index, ": lr ", group.lr, " with beta1 ", group.beta1,
                             " and weight_decay ", group.weight_decay,
                             ": lr / (1 - beta1) and lr x weight_decay are to be at most ",
                             kFloatMax, ", the largest fp32"));
  }
}

void Registration::check_all() const {
  const int groups = static_cast<int>(rt_.groups.size());
  for (int group = 0; group < groups; ++group) {
    check_group(group, rt_.groups[static_cast<std::size_t>(group)]);
  }
  constexpr int kMostReproducible = 1024;  // depth of the tree in which sums are kept
  if (rt_.reproducible() && rt_.world_size() > kMostReproducible) {
    throw ConfigError(concat("runtime.reproducible takes up to ", kMostReproducible,
                             " ranks; there are ", rt_.world_size()));
  }
  shape().elems();  // throws for more than can be counted
  for (const ParamState& param : rt_.params) {
    const ParamSpec& spec = param.spec;
    check_precision(param);
    if (spec.group < 0 || spec.group >= groups) {
      throw ConfigError(concat("parameter ", spec.name, ": group ", spec.group,
                               " does not exist; groups are 0 to ", groups - 1));
    }
    if (rt_.config.zero.stage == 3 && (spec.data.is_fixed() || spec.grad.is_fixed())) {
      throw ConfigError(concat("parameter ", spec.name,
                               " has a fixed address, but at stage 3 its memory "
                               "comes and goes; register the address of the model's pointer "
                               "(.data = &model.w), or use stage 0, 1 or 2"));
    }
    for (const PointerSlot* slot : {&spec.data, &spec.grad}) {
      if (!slot->is_fixed() || param.numel == 0 || rt_.device.reaches(slot->get())) continue;
      throw ConfigError(concat("parameter ", spec.name, ": the fixed address of its ",
                               slot == &spec.data ? "data" : "gradient",
                               " is host memory that the CUDA device cannot reach; valid: memory "
                               "of the device, or pinned"));
    }
    if (rt_.device.has_memory() && rt_.rank() == 0 && param.numel > 0 && !spec.init &&
        spec.data.get() == nullptr) {
      throw ConfigError(concat("parameter ", spec.name,
                               " has no start values: *data is null and there is no init"));
    }
  }
}

void Registration::make_layout() {
  std::vector<LayoutParam> params;
  for (const ParamState& param : rt_.params) {
    params.push_back({param.spec.name, param.numel, param.dtype, param.has_state, param.units});
  }
  const ZeroSettings& zero = rt_.config.zero;
  LayoutOptions options;
  options.world_size = rt_.world_size();
  // One bucket is one message of either kind, so both limits hold for it.
  options.bucket_elems = std::min(zero.reduce_bucket_size, zero.allgather_bucket_size);
  options.by_unit = zero.stage == 3;
  options.persistence_threshold_elems = zero.param_persistence_threshold;
  options.model_persistence_threshold_elems = zero.model_persistence_threshold;
  rt_.layout = Layout(params, options);
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    rt_.params[i].place = rt_.layout.place(static_cast<int>(i));
  }
  rt_.memory.resize(rt_.layout.buckets().size());
}

ModelShape Registration::shape() const {
  ModelShape model;
  model.groups = static_cast<int>(rt_.groups.size());
  for (std::size_t u = 0; u < rt_.units.size(); ++u) {
    UnitShape unit{rt_.units[u].name, {}, {}};
    for (const int index : rt_.units[u].params) {
      const ParamState& param = rt_.params[static_cast<std::size_t>(index)];
      if (param.units.front() != static_cast<int>(u)) {
        unit.shared.push_back(param.spec.name);
        continue;
      }
      unit.params.push_back({param.spec.name, param.spec.shape, param.dtype, param.spec.group,
                             param.has_state,
                             param.spec.data.is_fixed() || param.spec.grad.is_fixed()});
    }
    model.units.push_back(std::move(unit));
  }
  return model;
}

std::vector<std::string> Registration::set_up() const {
  std::vector<std::string> lines = {concat("version of zero: ", kVersion)};
  // What a rank may have for itself: how long it waits, and the memory that is there for it.
  constexpr std::array<std::string_view, 3> kOwn = {"runtime.timeout_s", "runtime.memory_budget",
                                                    "runtime.reserved"};
  for (const EffectiveValue& value : rt_.config.effective()) {
    if (std::find(kOwn.begin(), kOwn.end(), value.path) != kOwn.end()) continue;
    lines.push_back(concat(value.path, ": ", value.value));
  }
  for (std::size_t i = 0; i < rt_.params.size(); ++i) {
    const ParamState& param = rt_.params[i];
    std::string shape;
    for (const std::int64_t size : param.spec.shape) {
      shape += concat(shape.empty() ? "" : ", ", size);
    }
    lines.push_back(concat("parameter ", i, ": ", param.spec.name, " [", shape, "], ",
                           dtype_name(param.dtype), ", group ", param.spec.group,
                           param.has_state ? "" : ", frozen", ", of unit"));
    for (const int unit : param.units) {
      lines.back() += concat(' ', rt_.units[static_cast<std::size_t>(unit)].name);
    }
  }
  return lines;
}

int Registration::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) {
    throw UsageError(concat("no parameter is named \"", name, "\""));
  }
  return found->second;
}

}  // namespace zero
