// The kernels of gpt_kernels.hpp. gpt.cmake compiles this file once per instruction set, with
// GPT_FLAVOUR naming it and Eigen's namespace renamed, so that no inline function of one flavour
// can stand in for that of another. For the same reason nothing of the standard library is called
// here that could leave a weak symbol behind; tests/cli/train_flavours.sh looks for such symbols.
//
// Loops are written so that the compiler vectorises them without changing any order of additions:
// reductions keep 16 partial sums by hand. So results do not depend on where a row starts in
// memory.

// Always blocked products: the coefficient-wise path for tiny sizes peels by alignment.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 1
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
// Packing buffers on the stack: no allocation inside a step. Blocks are at most an L2 cache.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 20)
#include "tools/gpt_kernels.hpp"

#include <math.h>
#include <string.h>

#include <Eigen/Core>

namespace gpt {
namespace {

using Index = std::ptrdiff_t;
constexpr Index kLanes = 16;

// e^x for x <= 0 (also fine up to 88), relative error below 2e-7. Cody-Waite reduction and a
// polynomial of degree 6; plain operations only, so a scalar tail gives the bits of the vector
// body.
inline float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;  // integer part in the low mantissa bits
  const float k = shifted - 12582912.0f;
  const float r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  std::uint32_t bits;  // unsigned: NaN comes this way as well, and may wrap
  memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4b400000u + 127u) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

inline float tanh_of(float x) {
  const float e = exp_of(-2.0f * (x < 0 ? -x : x));
  const float t = (1.0f - e) / (1.0f + e);
  return x < 0 ? -t : t;
}

// Sum of f(0) .. f(n - 1): lane l takes the indices congruent to l, lanes are added pairwise.
template <class F>
inline float lane_sum(Index n, F f) {
  float lanes[kLanes] = {};
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (Index l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
  }
  for (Index l = 0; i < n; ++i, ++l) lanes[l] += f(i);
  for (Index half = kLanes / 2; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

inline float row_max(const float* row, Index n) {
  float lanes[kLanes];
  for (Index l = 0; l < kLanes; ++l) lanes[l] = row[0];
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (Index l = 0; l < kLanes; ++l) lanes[l] = row[i + l] > lanes[l] ? row[i + l] : lanes[l];
  }
  for (; i < n; ++i) lanes[0] = row[i] > lanes[0] ? row[i] : lanes[0];
  float best = lanes[0];
  for (Index l = 1; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best;
  return best;
}

// row = softmax(row); returns the log of the sum of exponentials.
inline float softmax_row(float* row, Index n) {
  const float top = row_max(row, n);
  for (Index i = 0; i < n; ++i) row[i] = exp_of(row[i] - top);
  const float sum = lane_sum(n, [row](Index i) { return row[i]; });
  const float inverse = 1.0f / sum;
  for (Index i = 0; i < n; ++i) row[i] *= inverse;
  return top + logf(sum);
}

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<RowMajor, 0, Eigen::OuterStride<>>;

inline Map map(const Matrix& m) {
  return Map(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride));
}

template <class Out, class A, class B>
inline void multiply(Out& out, const A& a, const B& b, const Gemm& g) {
  if (!g.accumulate) out.setZero();
  out.noalias() += g.scale * (a * b);
}

void gemm(const Gemm& g) {
  Map out = map(g.out);
  const Map a = map(g.a);
  const Map b = map(g.b);
  if (g.transpose_a) {
    multiply(out, a.transpose(), b, g);
  } else if (g.transpose_b) {
    multiply(out, a, b.transpose(), g);
  } else {
    multiply(out, a, b, g);
  }
}

void fill_rows(const Matrix& out, const Matrix& base, const float* bias) {
  for (Index r = 0; r < out.rows; ++r) {
    float* o = out.data + r * out.stride;
    if (base.data == nullptr) {
      for (Index c = 0; c < out.cols; ++c) o[c] = bias[c];
    } else {
      const float* x = base.data + r * base.stride;
      for (Index c = 0; c < out.cols; ++c) o[c] = x[c] + bias[c];
    }
  }
}

void sum_rows(float* out, const Matrix& in) {
  for (Index c = 0; c < in.cols; ++c) out[c] = 0;
  for (Index r = 0; r < in.rows; ++r) {
    const float* x = in.data + r * in.stride;
    for (Index c = 0; c < in.cols; ++c) out[c] += x[c];
  }
}

void layer_norm(const Matrix& y, const RowStats& stats, const Matrix& x, const float* gain,
                const float* bias) {
  const Index n = x.cols;
  for (Index r = 0; r < x.rows; ++r) {
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    const float mean = lane_sum(n, [in](Index i) { return in[i]; }) / static_cast<float>(n);
    const float variance = lane_sum(n,
                                    [in, mean](Index i) {
                                      const float d = in[i] - mean;
                                      return d * d;
                                    }) /
                           static_cast<float>(n);
    const float rstd = 1.0f / sqrtf(variance + 1e-5f);
    for (Index i = 0; i < n; ++i) out[i] = (in[i] - mean) * rstd * gain[i] + bias[i];
    stats.mean[r] = mean;
    stats.rstd[r] = rstd;
  }
}

void layer_norm_backward(const Matrix& dx, float* dgain, float* dbias, const Matrix& dy,
                         const Matrix& x, const RowStats& stats, const float* gain) {
  const Index n = x.cols;
  for (Index i = 0; i < n; ++i) dgain[i] = dbias[i] = 0;
  for (Index r = 0; r < x.rows; ++r) {
    const float* in = x.data + r * x.stride;
    const float* d = dy.data + r * dy.stride;
    float* out = dx.data + r * dx.stride;
    const float mean = stats.mean[r];
    const float rstd = stats.rstd[r];
    const float mean_d =
        lane_sum(n, [d, gain](Index i) { return d[i] * gain[i]; }) / static_cast<float>(n);
    const float mean_dx =
        lane_sum(n, [=](Index i) { return d[i] * gain[i] * ((in[i] - mean) * rstd); }) /
        static_cast<float>(n);
    for (Index i = 0; i < n; ++i) {
      const float normal = (in[i] - mean) * rstd;
      out[i] += rstd * (d[i] * gain[i] - mean_d - normal * mean_dx);
      dgain[i] += d[i] * normal;
      dbias[i] += d[i];
    }
  }
}

constexpr float kGeluA = 0.7978845608f;  // sqrt(2 / pi)
constexpr float kGeluB = 0.044715f;

void gelu(const Matrix& y, const Matrix& x) {
  for (Index r = 0; r < x.rows; ++r) {
    const float* in = x.data + r * x.stride;
    float* out = y.data + r * y.stride;
    for (Index i = 0; i < x.cols; ++i) {
      const float v = in[i];
      out[i] = 0.5f * v * (1.0f + tanh_of(kGeluA * (v + kGeluB * v * v * v)));
    }
  }
}

void gelu_backward(const Matrix& dy, const Matrix& x) {
  for (Index r = 0; r < x.rows; ++r) {
    const float* in = x.data + r * x.stride;
    float* d = dy.data + r * dy.stride;
    for (Index i = 0; i < x.cols; ++i) {
      const float v = in[i];
      const float t = tanh_of(kGeluA * (v + kGeluB * v * v * v));
      const float inner = kGeluA * (1.0f + 3.0f * kGeluB * v * v);
      d[i] *= 0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * inner;
    }
  }
}

void causal_softmax(const Matrix& scores) {
  for (Index r = 0; r < scores.rows; ++r) {
    float* row = scores.data + r * scores.stride;
    softmax_row(row, r + 1);
    for (Index c = r + 1; c < scores.cols; ++c) row[c] = 0;
  }
}

void causal_softmax_backward(const Matrix& dp, const Matrix& p) {
  for (Index r = 0; r < p.rows; ++r) {
    const float* prob = p.data + r * p.stride;
    float* d = dp.data + r * dp.stride;
    const float dot = lane_sum(r + 1, [=](Index i) { return d[i] * prob[i]; });
    for (Index c = 0; c <= r; ++c) d[c] = prob[c] * (d[c] - dot);
    for (Index c = r + 1; c < p.cols; ++c) d[c] = 0;
  }
}

double cross_entropy(const Matrix& logits, const std::uint8_t* targets) {
  double sum = 0;
  for (Index r = 0; r < logits.rows; ++r) {
    float* row = logits.data + r * logits.stride;
    const float at_target = row[targets[r]];
    sum += static_cast<double>(softmax_row(row, logits.cols) - at_target);
  }
  return sum;
}

void cross_entropy_backward(const Matrix& p, const std::uint8_t* targets, float factor) {
  for (Index r = 0; r < p.rows; ++r) {
    float* row = p.data + r * p.stride;
    row[targets[r]] -= 1.0f;
    for (Index c = 0; c < p.cols; ++c) row[c] *= factor;
  }
}

template <class T>
using Vector = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using ConstVector = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

template <class T>
void add_rounded(void* inout, const float* in, Index elems) {
  Vector<T> sum(static_cast<T*>(inout), elems);
  sum = (sum.template cast<float>() + ConstVector<float>(in, elems)).template cast<T>();
}

void widen(float* out, const void* in, Storage storage, Index elems) {
  Vector<float> wide(out, elems);
  if (storage == Storage::kFloat32) {
    memcpy(out, in, static_cast<size_t>(elems) * sizeof(float));
  } else if (storage == Storage::kFloat16) {
    wide = ConstVector<Eigen::half>(static_cast<const Eigen::half*>(in), elems).cast<float>();
  } else {
    wide =
        ConstVector<Eigen::bfloat16>(static_cast<const Eigen::bfloat16*>(in), elems).cast<float>();
  }
}

void add_into(void* inout, Storage storage, const float* in, Index elems) {
  if (storage == Storage::kFloat32) {
    add_rounded<float>(inout, in, elems);
  } else if (storage == Storage::kFloat16) {
    add_rounded<Eigen::half>(inout, in, elems);
  } else {
    add_rounded<Eigen::bfloat16>(inout, in, elems);
  }
}

}  // namespace

#define GPT_STRING_OF(x) #x
#define GPT_STRING(x) GPT_STRING_OF(x)
#define GPT_JOIN_OF(a, b) a##b
#define GPT_JOIN(a, b) GPT_JOIN_OF(a, b)

// kernels_baseline, kernels_avx2, kernels_avx512: constant data, set up by the compiler, so that no
// code of this file runs before the dispatcher has chosen it.
extern const Kernels GPT_JOIN(kernels_, GPT_FLAVOUR);
constexpr Kernels kTable = {GPT_STRING(GPT_FLAVOUR),
                            gemm,
                            fill_rows,
                            sum_rows,
                            layer_norm,
                            layer_norm_backward,
                            gelu,
                            gelu_backward,
                            causal_softmax,
                            causal_softmax_backward,
                            cross_entropy,
                            cross_entropy_backward,
                            widen,
                            add_into};
const Kernels GPT_JOIN(kernels_, GPT_FLAVOUR) = kTable;

}  // namespace gpt
