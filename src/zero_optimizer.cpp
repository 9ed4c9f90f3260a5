// The public face: checks the order of calls and hands on.
#include "zero/zero_optimizer.hpp"

#include <algorithm>

#include "src/zero_optimizer_impl.hpp"

namespace zero {

using detail::concat;

ZeroOptimizer::ZeroOptimizer(Config config, World& world)
    : impl_(std::make_unique<Impl>(std::move(config), world)) {}
ZeroOptimizer::~ZeroOptimizer() = default;

int ZeroOptimizer::add_group(const ParamGroup& group) {
  impl_->require(false, "add_group()");
  Registration::check_group(static_cast<int>(impl_->rt.groups.size()), group);
  impl_->rt.groups.push_back(group);
  return static_cast<int>(impl_->rt.groups.size()) - 1;
}

void ZeroOptimizer::set_lr_schedule(std::unique_ptr<LrSchedule> schedule) {
  impl_->require(false, "set_lr_schedule()");
  if (impl_->rt.config.scheduler) {
    throw UsageError(concat("set_lr_schedule(): the configuration has a scheduler, ",
                            impl_->rt.config.scheduler->type, "; only one can set the rates"));
  }
  impl_->rates.set_schedule(std::move(schedule));
}

Unit ZeroOptimizer::add_unit(std::string name, std::vector<ParamSpec> params,
                             std::vector<std::string> shared) {
  impl_->require(false, "add_unit()");
  return {impl_->registry.add_unit(std::move(name), std::move(params), shared)};
}

ModelShape ZeroOptimizer::shape() const { return impl_->registry.shape(); }

Plan ZeroOptimizer::plan(const PlanOptions& asked) const {
  PlanOptions options = asked;
  options.stages_slices = impl_->rt.comm.stages_slices();
  const Config& config = impl_->rt.config;
  const ModelShape model = shape();
  const bool chosen = impl_->stage != nullptr || !config.runtime.choose_stage;
  const Fit fit = chosen ? Fit()
                         : PartitionManager::fit(model, config, world_size(),
                                                 config.runtime.memory_budget.value_or(0),
                                                 config.runtime.reserved, options);
  return PartitionManager::plan(model, chosen ? config : fit.config, world_size(), options, rank());
}

void ZeroOptimizer::prepare() { impl_->prepare(); }

void ZeroOptimizer::begin_forward(Unit unit) { impl_->begin(unit, Pass::kForward); }
void ZeroOptimizer::end_forward(Unit unit) { impl_->end(unit, Pass::kForward); }
void ZeroOptimizer::begin_backward(Unit unit) { impl_->begin(unit, Pass::kBackward); }
void ZeroOptimizer::end_backward(Unit unit) { impl_->end(unit, Pass::kBackward); }

Use ZeroOptimizer::forward(Unit unit) {
  begin_forward(unit);
  return {this, unit, false};
}

Use ZeroOptimizer::backward(Unit unit) {
  begin_backward(unit);
  return {this, unit, true};
}

void ZeroOptimizer::unused(Unit unit, std::string_view param) {
  impl_->require(true, "unused()");
  const int index = impl_->registry.find(param);
  const UnitState& state = impl_->checked(unit);
  if (state.open_backward == 0 ||
      std::find(state.params.begin(), state.params.end(), index) == state.params.end()) {
    throw UsageError(concat("unused(\"", param, "\"): it is no parameter of unit ", state.name,
                            ", or the unit is not in backward"));
  }
  impl_->unused.push_back(index);
}

Use::Use(ZeroOptimizer* optimizer, Unit unit, bool backward)
    : optimizer_(optimizer),
      unit_(unit),
      backward_(backward),
      uncaught_(std::uncaught_exceptions()) {}

Use::Use(Use&& other) noexcept
    : optimizer_(std::exchange(other.optimizer_, nullptr)),
      unit_(other.unit_),
      backward_(other.backward_),
      uncaught_(other.uncaught_) {}

Use::~Use() {
  if (optimizer_ == nullptr) return;
  ZeroOptimizer::Impl& impl = *optimizer_->impl_;
  if (backward_ && std::uncaught_exceptions() > uncaught_) {
    impl.failed_backward = impl.checked(unit_).name;
    return;
  }
  try {
    close();
  } catch (...) {
    if (impl.deferred == nullptr) impl.deferred = std::current_exception();
  }
}

void Use::unused(std::string_view param) { optimizer_->unused(unit_, param); }

void Use::close() {
  if (optimizer_ == nullptr) return;
  ZeroOptimizer::Impl& impl = *std::exchange(optimizer_, nullptr)->impl_;
  impl.end(unit_, backward_ ? Pass::kBackward : Pass::kForward);
}

double ZeroOptimizer::loss_scale() const {
  if (impl_->steps != nullptr && impl_->scaler.dynamic()) impl_->steps->settle();
  return impl_->scaler.scale();
}
const float* ZeroOptimizer::loss_scale_on_device() const {
  impl_->require(true, "loss_scale_on_device()");
  return &impl_->vote->state()->loss_scale;
}
StepHandle ZeroOptimizer::step() { return impl_->step(); }
StepResult ZeroOptimizer::synchronize() {
  impl_->require(true, "synchronize()");
  return impl_->steps->synchronize();
}
void ZeroOptimizer::end_micro_step() { impl_->end_micro_step(); }

void ZeroOptimizer::set_log(std::function<void(std::string_view)> log) {
  impl_->log = std::move(log);
}

const std::vector<ParamGroup>& ZeroOptimizer::groups() const {
  impl_->settle_groups();
  return impl_->rt.groups;
}

void ZeroOptimizer::set_group(int index, const ParamGroup& group) {
  if (index < 0 || index >= static_cast<int>(impl_->rt.groups.size())) {
    throw UsageError(
        concat("group ", index, " does not exist; groups are 0 to ", impl_->rt.groups.size() - 1));
  }
  Registration::check_group(index, group);
  impl_->settle_groups();
  impl_->rt.groups[static_cast<std::size_t>(index)] = group;
  impl_->rates.changed();
}

void ZeroOptimizer::set_requires_grad(std::string_view name, bool requires_grad) {
  ParamState& param = impl_->rt.params[static_cast<std::size_t>(impl_->registry.find(name))];
  if (impl_->rt.micro_step != 0 || impl_->backward_begun) {
    throw UsageError(concat("parameter ", name,
                            ": freezing is between steps, not between the passes or the "
                            "micro-steps of one"));
  }
  if (!param.has_state && requires_grad) {
    throw ConfigError(concat("parameter ", name,
                             " was registered frozen and has no optimizer state; register it with "
                             "requires_grad = true and freeze it after prepare()"));
  }
  param.requires_grad = requires_grad;
}

void ZeroOptimizer::read(std::string_view param, Tensor what, std::span<float> out) {
  impl_->require(true, "read()");
  impl_->steps->settle();
  impl_->tensors->read(impl_->registry.find(param), what, out, impl_->steps->last_loss_scale());
}

void ZeroOptimizer::write(std::string_view param, Tensor what, std::span<const float> values) {
  impl_->require(true, "write()");
  impl_->require_no_use("write()");
  impl_->tensors->write(impl_->registry.find(param), what, values);
}

std::vector<ZeroOptimizer::ParamInfo> ZeroOptimizer::params() const {
  std::vector<std::int64_t> counts(impl_->rt.params.size());
  if (impl_->steps != nullptr) {
    impl_->steps->settle();
    counts = impl_->vote->step_counts();
  }
  std::vector<ParamInfo> infos;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const ParamState& param = impl_->rt.params[i];
    infos.push_back({param.spec.name, param.spec.shape, param.numel, param.dtype, param.spec.group,
                     param.has_state, counts[i]});
  }
  return infos;
}

void ZeroOptimizer::save(const std::string& directory, std::int64_t step,
                         const SaveOptions& options) {
  impl_->require_quiet("save()");
  impl_->checkpoints->save(directory, step, options);
}
void ZeroOptimizer::wait_for_save() {
  impl_->require(true, "wait_for_save()");
  impl_->checkpoints->wait();
}
LoadReport ZeroOptimizer::load(const std::string& path, const LoadOptions& options) {
  impl_->require_quiet("load()");
  return impl_->checkpoints->load(path, options);
}

const Config& ZeroOptimizer::config() const { return impl_->rt.config; }
int ZeroOptimizer::rank() const { return impl_->rt.rank(); }
int ZeroOptimizer::world_size() const { return impl_->rt.world_size(); }
int ZeroOptimizer::stage() const { return impl_->rt.config.zero.stage; }
int ZeroOptimizer::accumulation_steps() const { return impl_->rt.accumulation_steps(); }
std::int64_t ZeroOptimizer::applied_steps() const {
  if (impl_->steps == nullptr) return 0;
  impl_->steps->settle();
  return impl_->steps->applied_steps();
}
const Ledger& ZeroOptimizer::ledger() const { return impl_->rt.ledger; }
const Traffic& ZeroOptimizer::traffic() const { return impl_->rt.comm.traffic(); }
void ZeroOptimizer::reset_traffic() { impl_->rt.comm.reset(); }
const Layout& ZeroOptimizer::layout() const { return impl_->rt.layout; }
std::int64_t ZeroOptimizer::model_elems() const { return impl_->rt.layout.model_elems(); }
std::int64_t ZeroOptimizer::padded_elems() const { return impl_->rt.layout.padded_elems(); }

}  // namespace zero
