#include "tools/case_model.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "tools/host_view.hpp"

namespace zero::cases {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Rounds numbers of a file into memory of a dtype. Never empty, so that it has an address.
std::vector<std::byte> to_bytes(const std::vector<double>& values, DType dtype) {
  std::vector<std::byte> bytes(std::max<std::size_t>(values.size(), 1) * dtype_bytes(dtype));
  with_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    T* out = reinterpret_cast<T*>(bytes.data());
    for (const double value : values) *out++ = from_float<T>(static_cast<float>(value));
  });
  return bytes;
}

std::vector<std::byte> initial_bytes(const CaseParameter& parameter, const Value& init, int rank) {
  const auto no_memory = [&] {
    return std::runtime_error(parameter.name + ": no memory for " +
                              std::to_string(parameter.numel) + " elements on rank " +
                              std::to_string(rank));
  };
  try {
    // A rank without start values of its own begins with zeros: it takes those of rank 0.
    if (!init.given(rank)) {
      return to_bytes(std::vector<double>(static_cast<std::size_t>(parameter.numel)),
                      parameter.dtype);
    }
    return to_bytes(*init.elements(rank), parameter.dtype);
  } catch (const std::bad_alloc&) {
    throw no_memory();
  } catch (const std::length_error&) {  // beyond what a vector may hold at all
    throw no_memory();
  }
}

// What a backward pass does: the scaled gradient comes out in the parameter's dtype and is added.
void add_gradient(Device& device, void* grad, const std::vector<double>& values, double scale,
                  DType dtype) {
  with_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    const HostView<T> view(device, static_cast<T*>(grad), static_cast<std::int64_t>(values.size()));
    T* out = view.data();
    for (const double value : values) {
      const T contribution = from_float<T>(static_cast<float>(value * scale));
      *out = from_float<T>(to_float(*out) + to_float(contribution));
      ++out;
    }
  });
}

}  // namespace

CaseModel::CaseModel(const CaseFile& file, const CasePhase& phase, World& world)
    : file_(file),
      world_(world),
      storages_(file.parameters.size()),
      unit_of_name_(file.parameters.size()) {
  for (std::size_t i = 0; i < file.parameters.size(); ++i) {
    const CaseParameter& parameter = file.parameters[i];
    // Units in order of first appearance; parameters without one share one of their own.
    const auto unit = std::find_if(units_.begin(), units_.end(),
                                   [&](const auto& u) { return u.name == parameter.unit; });
    unit_of_name_[i] = static_cast<std::size_t>(unit - units_.begin());
    if (unit == units_.end()) units_.push_back({{}, parameter.unit, {}});
    std::vector<int>& list = units_[unit_of_name_[i]].storages;
    if (std::find(list.begin(), list.end(), parameter.storage) == list.end()) {
      list.push_back(parameter.storage);
    }
    if (parameter.storage != static_cast<int>(i)) continue;
    storages_[i].initial = initial_bytes(parameter, phase.init[i], world.rank());
    storages_[i].data = storages_[i].initial.data();
    storages_[i].trainable = parameter.requires_grad;
  }
}

void CaseModel::register_with(ZeroOptimizer& optimizer) {
  optimizer_ = &optimizer;
  const ParamGroup base = optimizer.groups().front();
  for (std::size_t i = 1; i < file_.groups.size(); ++i) optimizer.add_group(base);
  for (std::size_t i = 0; i < file_.groups.size(); ++i) {
    override_group(static_cast<int>(i), file_.groups[i]);
  }
  add_units();
}

void CaseModel::override_group(int index, const GroupOverride& change) {
  const ParamGroup before = optimizer_->groups().at(at(index));
  ParamGroup group = before;
  if (change.lr) group.lr = *change.lr;
  if (change.weight_decay) group.weight_decay = *change.weight_decay;
  if (change.eps) group.eps = *change.eps;
  if (change.betas) {
    group.beta1 = (*change.betas)[0];
    group.beta2 = (*change.betas)[1];
  }
  if (group != before) optimizer_->set_group(index, group);
}

void CaseModel::add_units() {
  // Tied weights are registered by the first unit that uses them under any name.
  std::vector<bool> registered(file_.parameters.size());
  for (CaseUnit& unit : units_) {
    std::vector<ParamSpec> own;
    std::vector<std::string> shared;
    for (const int storage : unit.storages) {
      if (registered[at(storage)]) {
        shared.push_back(file_.parameters[at(storage)].name);
      } else {
        own.push_back(spec(storage));
        registered[at(storage)] = true;
      }
    }
    const auto taken = [&](const std::string& name) {
      return std::any_of(units_.begin(), units_.end(),
                         [&](const auto& other) { return other.name == name; });
    };
    std::string name = unit.name.value_or("unit");
    while (!unit.name && taken(name)) name += '_';
    unit.handle = optimizer_->add_unit(std::move(name), std::move(own), std::move(shared));
  }
}

ParamSpec CaseModel::spec(int storage) {
  const CaseParameter& parameter = file_.parameters[at(storage)];
  ParamSpec spec;
  spec.name = parameter.name;
  spec.shape = parameter.shape;
  spec.data = &storages_[at(storage)].data;
  if (parameter.requires_grad) spec.grad = &storages_[at(storage)].grad;
  spec.dtype = parameter.dtype;
  spec.group = parameter.group;
  spec.requires_grad = parameter.requires_grad;
  return spec;
}

void CaseModel::apply_settings(const CaseStep& step) {
  for (std::size_t i = 0; i < step.set_groups.size(); ++i) {
    override_group(static_cast<int>(i), step.set_groups[i]);
  }
  for (const auto& [storage, requires_grad] : step.set_requires_grad) {
    if (storages_[at(storage)].trainable == requires_grad) continue;  // with `repeat`: once
    optimizer_->set_requires_grad(file_.parameters[at(storage)].name, requires_grad);
    storages_[at(storage)].trainable = requires_grad;
  }
}

void CaseModel::forward() {
  for (const CaseUnit& unit : units_) {
    Use use = optimizer_->forward(unit.handle);
    use.close();
  }
}

void CaseModel::backward(const MicroStep& micro) {
  if (!micro.one_after_the_other) {
    backward_units(micro.calls.front(), std::vector<bool>(units_.size(), true));
    return;
  }
  // Whether a call concerns a unit is asked of all ranks, so that they open the same units.
  std::vector<bool> rest(units_.size(), true);
  for (const Contributions& call : micro.calls) {
    std::vector<bool> concerned(units_.size());
    for (const NamedValue& named : call) {
      if (!named.value.given_anywhere()) continue;
      concerned[unit_of_name_[at(named.parameter)]] = true;
      rest[unit_of_name_[at(named.parameter)]] = false;
    }
    backward_units(call, concerned);
  }
  backward_units({}, rest);
}

void CaseModel::backward_units(const Contributions& contributions,
                               const std::vector<bool>& concerned) {
  for (std::size_t u = units_.size(); u-- > 0;) {
    if (concerned[u] && is_trainable(units_[u])) backward_unit(u, contributions);
  }
}

void CaseModel::backward_unit(std::size_t unit, const Contributions& contributions) {
  const double scale = optimizer_->loss_scale();
  Use use = optimizer_->backward(units_[unit].handle);
  std::vector<bool> used(storages_.size());
  for (const NamedValue& named : contributions) {
    if (unit_of_name_[at(named.parameter)] != unit) continue;
    const auto values = named.value.elements(world_.rank());
    if (!values) continue;
    const CaseParameter& parameter = file_.parameters[at(named.parameter)];
    void* grad = storages_[at(parameter.storage)].grad;
    if (grad == nullptr) {
      throw std::runtime_error(parameter.name + ": no gradient memory inside its backward pass");
    }
    add_gradient(world_.device(), grad, *values, scale, parameter.dtype);
    used[at(parameter.storage)] = true;
  }
  for (const int storage : units_[unit].storages) {
    if (!used[at(storage)] && storages_[at(storage)].trainable) {
      use.unused(file_.parameters[at(storage)].name);
    }
  }
  use.close();
}

bool CaseModel::is_trainable(const CaseUnit& unit) const {
  return std::any_of(unit.storages.begin(), unit.storages.end(),
                     [&](int storage) { return storages_[at(storage)].trainable; });
}

}  // namespace zero::cases
