// The optimizer update on host memory.
#include <cmath>

#include "kernels/host_kernels.hpp"
#include "kernels/on_stream.hpp"

namespace zero::kernels {
namespace {

// 16-bit output at or above which it is written past the caches: it will not be read before it
// would have been evicted, and its lines need not be fetched first.
constexpr std::int64_t kStreamedBytes = std::int64_t{8} << 20;

bool writes_streamed(const UpdateRange& range) {
  return range.params != nullptr && range.params_dtype != DType::kFloat32 &&
         range.grad.elems * 2 >= kStreamedBytes &&
         reinterpret_cast<std::uintptr_t>(range.params) % 2 == 0;
}

}  // namespace

UpdateConstants make_update_constants(const UpdateSettings& s) {
  UpdateConstants c;
  c.rule = s.rule;
  c.grad_factor = static_cast<float>(s.grad_factor);
  if (s.rule == UpdateConstants::Rule::kSgd) {
    c.step_size = static_cast<float>(s.lr);
    c.decay = static_cast<float>(s.weight_decay);
    return c;
  }
  const double t = static_cast<double>(s.step_count);
  const double correction1 = s.bias_correction ? 1.0 - std::pow(s.beta1, t) : 1.0;
  const double correction2 = s.bias_correction ? 1.0 - std::pow(s.beta2, t) : 1.0;
  const bool decoupled = s.rule == UpdateConstants::Rule::kAdamDecoupled;
  c.beta1 = static_cast<float>(s.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - s.beta1);
  c.beta2 = static_cast<float>(s.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - s.beta2);
  c.rsqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  c.eps = static_cast<float>(s.eps);
  c.step_size = static_cast<float>(s.lr / correction1);
  c.decay = static_cast<float>(decoupled ? s.lr * s.weight_decay : s.weight_decay);
  return c;
}

void update(const UpdateRange& range, const UpdateConstants& constants, Stream& stream) {
  if (range.grad.elems == 0) return;
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("update").update(range, constants, stream.native());
  }
  on_stream("update", stream, [range, constants] {
    host_kernels().update(range, constants, writes_streamed(range));
  });
}

}  // namespace zero::kernels
