#include "tools/case_steps.hpp"

#include <limits>
#include <utility>

namespace zero::cases {
namespace {

constexpr std::pair<const char*, Tensor> kTensors[] = {{"gradients", Tensor::kGrads},
                                                       {"parameters", Tensor::kParams},
                                                       {"master_weights", Tensor::kMasterWeights},
                                                       {"exp_avg", Tensor::kExpAvg},
                                                       {"exp_avg_sq", Tensor::kExpAvgSq}};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int read_repeat(Fields& fields) {
  const Json* repeat = fields.find("repeat");
  if (repeat == nullptr) return 1;
  return static_cast<int>(
      as_whole(*repeat, fields.at("repeat"), 1, std::numeric_limits<int>::max()));
}

std::optional<bool> read_flag(Fields& fields, const char* key) {
  const Json* json = fields.find(key);
  if (json == nullptr) return std::nullopt;
  return as_bool(*json, fields.at(key));
}

std::optional<double> read_scalar(Fields& fields, const char* key) {
  const Json* json = fields.find(key);
  if (json == nullptr) return std::nullopt;
  return as_any_number(*json, fields.at(key));
}

void read_lr(Fields& fields, std::size_t groups, Expectation& expect) {
  const Json* json = fields.find("lr");
  if (json == nullptr) return;
  const std::string path = fields.at("lr");
  expect.lr_of_all = json->kind != Json::Kind::kArray;
  if (expect.lr_of_all) {
    expect.lr.push_back(as_number(*json, path));
    return;
  }
  for (std::size_t i = 0; i < json->items.size(); ++i) {
    expect.lr.push_back(as_number(json->items[i], child(path, i)));
  }
  if (expect.lr.size() != groups) {
    throw CaseError(path + ": " + std::to_string(expect.lr.size()) + " values for " +
                    std::to_string(groups) + " groups");
  }
}

}  // namespace

GroupOverride read_override(const Json& json, const std::string& path) {
  Fields fields(json, path);
  GroupOverride group;
  const auto number = [&](const char* key, std::optional<double>& target) {
    if (const Json* value = fields.find(key)) target = as_number(*value, fields.at(key));
  };
  number("lr", group.lr);
  number("weight_decay", group.weight_decay);
  number("eps", group.eps);
  if (const Json* betas = fields.find("betas")) {
    const std::string where = fields.at("betas");
    const std::vector<Json>& pair = as_array(*betas, where);
    if (pair.size() != 2) throw CaseError(where + ": must be two numbers");
    group.betas = {as_number(pair[0], child(where, 0u)), as_number(pair[1], child(where, 1u))};
  }
  fields.refuse_others();
  return group;
}

StepReader::StepReader(const CaseFile& file, int world_size)
    : file_(file), world_size_(world_size) {
  for (const CaseParameter& parameter : file.parameters) {
    frozen_.push_back(!parameter.requires_grad);
  }
}

int StepReader::parameter(const std::string& name, const std::string& path) const {
  for (std::size_t i = 0; i < file_.parameters.size(); ++i) {
    if (file_.parameters[i].name == name) return static_cast<int>(i);
  }
  throw CaseError(path + ": no parameter of that name");
}

CaseStep StepReader::step(const Json& json, const std::string& path) {
  Fields fields(json, path);
  CaseStep step;
  step.repeat = read_repeat(fields);
  if (const Json* groups = fields.find("set_groups")) {
    const std::string where = fields.at("set_groups");
    for (const Json& group : as_array(*groups, where)) {
      step.set_groups.push_back(read_override(group, child(where, step.set_groups.size())));
    }
    if (step.set_groups.size() != file_.groups.size()) {
      throw CaseError(where + ": " + std::to_string(step.set_groups.size()) + " overrides for " +
                      std::to_string(file_.groups.size()) + " groups");
    }
  }
  if (const Json* flags = fields.find("set_requires_grad")) {
    const Fields named(*flags, fields.at("set_requires_grad"));
    for (std::size_t i = 0; i < flags->items.size(); ++i) {
      const std::string where = named.at(flags->keys[i]);
      const int index = file_.parameters[at(parameter(flags->keys[i], where))].storage;
      const bool requires_grad = as_bool(flags->items[i], where);
      step.set_requires_grad.emplace_back(index, requires_grad);
      frozen_[at(index)] = !requires_grad;
    }
  }
  const std::string where = fields.at("micro_steps");
  for (const Json& micro : as_array(fields.need("micro_steps"), where)) {
    step.micro_steps.push_back(micro_step(micro, child(where, step.micro_steps.size())));
  }
  if (step.micro_steps.empty()) throw CaseError(where + ": a step needs at least one micro-step");
  if (const Json* expect = fields.find("expect")) {
    step.expect = expectation(*expect, fields.at("expect"), true);
  }
  fields.refuse_others();
  return step;
}

MicroStep StepReader::micro_step(const Json& json, const std::string& path) const {
  Fields fields(json, path);
  MicroStep micro;
  micro.repeat = read_repeat(fields);
  const Json* gradients = fields.find("gradients");
  const Json* calls = fields.find("calls");
  fields.refuse_others();
  if ((gradients == nullptr) == (calls == nullptr)) {
    throw CaseError(path + ": needs either \"gradients\" or \"calls\"");
  }
  if (gradients != nullptr) {
    micro.calls.push_back(contributions(*gradients, fields.at("gradients")));
    return micro;
  }
  micro.one_after_the_other = true;
  const std::string where = fields.at("calls");
  for (const Json& call : as_array(*calls, where)) {
    Fields one(call, child(where, micro.calls.size()));
    micro.calls.push_back(contributions(one.need("gradients"), one.at("gradients")));
    one.refuse_others();
  }
  return micro;
}

Contributions StepReader::contributions(const Json& json, const std::string& path) const {
  const Fields named(json, path);
  Contributions all;
  for (std::size_t i = 0; i < json.items.size(); ++i) {
    const std::string where = named.at(json.keys[i]);
    const int index = parameter(json.keys[i], where);
    const CaseParameter& found = file_.parameters[at(index)];
    Value value = Value::read(json.items[i], where, found.numel, world_size_);
    if (value.given_anywhere() && frozen_[at(found.storage)]) {
      throw CaseError(where + ": the parameter is frozen here and can have no gradient");
    }
    all.push_back({index, std::move(value)});
  }
  return all;
}

Expectation StepReader::expectation(const Json& json, const std::string& path,
                                    bool after_steps) const {
  Fields fields(json, path);
  Expectation expect;
  if (after_steps) {
    expect.applied = read_flag(fields, "applied");
    expect.skipped = read_flag(fields, "skipped");
    expect.loss_scale = read_scalar(fields, "loss_scale");
    expect.next_loss_scale = read_scalar(fields, "next_loss_scale");
    expect.grad_norm = read_scalar(fields, "grad_norm");
    read_lr(fields, file_.groups.size(), expect);
  }
  for (const auto& [key, what] : kTensors) {
    if (what == Tensor::kGrads && !after_steps) continue;
    if (const Json* list = fields.find(key)) tensors(*list, fields.at(key), key, what, expect);
  }
  fields.refuse_others();
  return expect;
}

void StepReader::tensors(const Json& json, const std::string& path, const std::string& key,
                         Tensor what, Expectation& expect) const {
  const Fields named(json, path);
  for (std::size_t i = 0; i < json.items.size(); ++i) {
    const std::string where = named.at(json.keys[i]);
    const int index = parameter(json.keys[i], where);
    Value value = Value::read(json.items[i], where, file_.parameters[at(index)].numel, world_size_);
    for (int rank = 0; rank < world_size_; ++rank) {
      if (!value.given(rank)) throw CaseError(where + ": an expectation cannot be null");
    }
    expect.tensors.push_back({what, key, {index, std::move(value)}});
  }
}

}  // namespace zero::cases
