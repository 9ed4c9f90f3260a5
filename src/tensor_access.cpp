#include "src/tensor_access.hpp"

#include <algorithm>

#include "zero/error.hpp"

namespace zero {
namespace {

kernels::View part(const kernels::View& view, std::int64_t offset, std::int64_t elems) {
  return {static_cast<std::byte*>(view.data) +
              offset * static_cast<std::int64_t>(dtype_bytes(view.dtype)),
          view.dtype, elems};
}

const char* tensor_name(Tensor what) {
  switch (what) {
    case Tensor::kParams:
      return "params";
    case Tensor::kMasterWeights:
      return "master_weights";
    case Tensor::kExpAvg:
      return "exp_avg";
    case Tensor::kExpAvgSq:
      return "exp_avg_sq";
    case Tensor::kGrads:
      return "grads";
  }
  return "?";
}

// The elements of a parameter inside a range of its bucket: offset in the parameter, and how many.
struct Overlap {
  std::int64_t bucket_begin, param_begin, elems;
};
Overlap overlap(const ParamState& param, const Range& range) {
  const std::int64_t begin = std::max(range.begin, param.place.offset);
  const std::int64_t end = std::min(range.end, param.place.offset + param.numel);
  return {begin, begin - param.place.offset, std::max<std::int64_t>(0, end - begin)};
}

}  // namespace

void TensorAccess::check(const ParamState& param, Tensor what, std::size_t size) const {
  if (static_cast<std::int64_t>(size) != param.numel) {
    throw UsageError(detail::concat("parameter ", param.spec.name, " has ", param.numel,
                                    " elements, the span has ", size));
  }
  const bool is_moment = what == Tensor::kExpAvg || what == Tensor::kExpAvgSq;
  if (what == Tensor::kParams || what == Tensor::kMasterWeights) return;
  if (!param.has_state) {
    throw UsageError(
        detail::concat("parameter ", param.spec.name, " is frozen and has no ", tensor_name(what)));
  }
  if (is_moment && rt_.config.optimizer.kind != OptimizerKind::kAdam) {
    throw UsageError(
        detail::concat("SGD keeps no ", tensor_name(what), " (parameter ", param.spec.name, ")"));
  }
}

TensorAccess::Source TensorAccess::source(const ParamState& param, Tensor what) const {
  const Bucket& bucket = rt_.layout.bucket(param.place.bucket);
  const BucketMemory& m = rt_.memory[static_cast<std::size_t>(bucket.index)];
  const Range owned = stage_.owned(bucket);
  const auto whole = [](const Buffer& b) { return kernels::View{b.data(), b.dtype(), b.elems()}; };
  switch (what) {
    case Tensor::kExpAvg:
      return {whole(m.exp_avg), owned};
    case Tensor::kExpAvgSq:
      return {whole(m.exp_avg_sq), owned};
    case Tensor::kGrads:
      return {stage_.reduced(bucket), owned};
    case Tensor::kMasterWeights:
      if (m.master_weights) return {whole(m.master_weights), owned};
      [[fallthrough]];  // fp32 parameters, and frozen ones, are their own masters
    case Tensor::kParams:
      break;
  }
  return {stage_.owned_params(bucket), owned};
}

void TensorAccess::read(int index, Tensor what, std::span<float> out, double loss_scale) {
  const ParamState& param = rt_.params[static_cast<std::size_t>(index)];
  check(param, what, out.size());
  const Bucket& bucket = rt_.layout.bucket(param.place.bucket);
  const Source from = source(param, what);
  const Overlap mine = overlap(param, from.range);
  // Where ranks cannot put it into the caller's memory themselves.
  const bool on_host = rt_.device.kind() == DeviceKind::kHost;
  const Buffer staged =
      on_host ? Buffer()
              : rt_.allocate(Category::kWorkspace, param.numel, DType::kFloat32, param.spec.name);
  float* const whole = on_host ? out.data() : staged.floats();
  const DrainAtEnd drain(rt_);
  if (mine.elems > 0) {
    const float divisor = what == Tensor::kGrads ? static_cast<float>(loss_scale) : 1.0f;
    kernels::cast({whole + mine.param_begin, DType::kFloat32, mine.elems},
                  part(from.view, mine.bucket_begin - from.range.begin, mine.elems), divisor,
                  rt_.compute);
  }
  rt_.comm_after_compute();
  if (from.range.elems() < bucket.padded_elems) {  // else every rank holds it all
    for (int rank = 0; rank < rt_.world_size(); ++rank) {
      const Overlap theirs =
          overlap(param, {rank * bucket.shard_elems, (rank + 1) * bucket.shard_elems});
      if (theirs.elems == 0) continue;
      rt_.comm.broadcast(whole + theirs.param_begin, theirs.elems, DType::kFloat32, rank,
                         {Purpose::kControl,
                          detail::concat("reading ", tensor_name(what), " of ", param.spec.name)},
                         rt_.comm_stream());
    }
  }
  rt_.compute_after_comm();  // also what was gathered ahead: the communicator is idle afterwards
  if (!on_host) {
    kernels::copy(out.data(), whole, param.numel * static_cast<std::int64_t>(sizeof(float)),
                  rt_.compute);
  }
  rt_.compute.synchronize();
  rt_.comm.check();
}

void TensorAccess::write(int index, Tensor what, std::span<const float> values) {
  const ParamState& param = rt_.params[static_cast<std::size_t>(index)];
  check(param, what, values.size());
  if (what == Tensor::kGrads) {
    throw UsageError(detail::concat("grads of ", param.spec.name, " can be read, not written"));
  }
  stage_.drop_ahead();
  const Buffer taken =
      rt_.allocate(Category::kWorkspace, param.numel, DType::kFloat32, param.spec.name);
  const DrainAtEnd drain(rt_);
  if (rt_.rank() == 0) {
    kernels::copy(taken.data(), values.data(), taken.bytes(), rt_.compute);
  }
  rt_.comm_after_compute();
  rt_.comm.broadcast(
      taken.data(), param.numel, DType::kFloat32, 0,
      {Purpose::kControl, detail::concat("writing ", tensor_name(what), " of ", param.spec.name)},
      rt_.comm_stream());
  rt_.compute_after_comm();
  if (what == Tensor::kParams || what == Tensor::kMasterWeights) {
    write_params(param, taken.floats(), what == Tensor::kMasterWeights);
  } else {
    const Source to = source(param, what);
    const Overlap mine = overlap(param, to.range);
    if (mine.elems > 0) {
      kernels::cast(part(to.view, mine.bucket_begin - to.range.begin, mine.elems),
                    {taken.floats() + mine.param_begin, DType::kFloat32, mine.elems}, 1.0f,
                    rt_.compute);
    }
  }
  rt_.compute.synchronize();
  rt_.comm.check();
}

// Sets every copy of a parameter's values that this rank holds.
void TensorAccess::write_params(const ParamState& param, const float* values, bool exact_master) {
  const BucketMemory& m = rt_.memory[static_cast<std::size_t>(param.place.bucket)];
  const auto set = [&](const kernels::View& to, const Overlap& range, std::int64_t begin) {
    if (range.elems == 0) return;
    kernels::cast(part(to, range.bucket_begin - begin, range.elems),
                  {const_cast<float*>(values) + range.param_begin, DType::kFloat32, range.elems},
                  1.0f, rt_.compute);
  };
  const Bucket& bucket = rt_.layout.bucket(param.place.bucket);
  const Range owned = stage_.owned(bucket);
  const Overlap mine = overlap(param, owned);
  if (m.params_full) {
    const Overlap all = overlap(param, {0, bucket.padded_elems});
    set({m.params_full.data(), m.params_full.dtype(), m.params_full.elems()}, all, 0);
    if (param.spec.data.is_fixed()) {
      kernels::copy(param.spec.data.get(), m.params_full.at(param.place.offset),
                    param.numel * static_cast<std::int64_t>(dtype_bytes(param.dtype)), rt_.compute);
    }
  } else {
    set(stage_.owned_params(bucket), mine, owned.begin);
  }
  if (!m.master_weights || mine.elems == 0) return;
  const kernels::View masters =
      part({m.master_weights.data(), DType::kFloat32, m.master_weights.elems()},
           mine.bucket_begin - owned.begin, mine.elems);
  if (exact_master) {
    kernels::copy(masters.data, values + mine.param_begin,
                  mine.elems * static_cast<std::int64_t>(sizeof(float)), rt_.compute);
  } else {  // what the model sees is what the master holds
    kernels::cast(masters,
                  part(stage_.owned_params(bucket), mine.bucket_begin - owned.begin, mine.elems),
                  1.0f, rt_.compute);
  }
}

}  // namespace zero
