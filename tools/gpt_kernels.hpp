// The arithmetic of the byte-level GPT: dense kernels on fp32 matrices.
//
// The kernels are compiled once per instruction set from the same source (gpt_kernels.cpp) and
// reached through a table of functions. Everything here is plain old data without inline functions,
// because an inline function compiled for AVX-512 could be merged by the linker with that of
// another file and then run on a machine without it. Results depend on the instruction set (fused
// multiply-adds), never on alignment or on the thread. Thread-safety: pure functions of their
// arguments.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt {

// How weights and gradients are stored. All arithmetic is in fp32.
enum class Storage : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

// Row-major [rows, cols]; row r starts at data + r * stride.
struct Matrix {
  float* data;
  std::ptrdiff_t rows;
  std::ptrdiff_t cols;
  std::ptrdiff_t stride;
};

// out (+)= scale * op(a) * op(b), op being the transpose where asked.
struct Gemm {
  Matrix out;
  Matrix a;
  bool transpose_a;
  Matrix b;
  bool transpose_b;
  bool accumulate;
  float scale;
};

// One value per row, kept from the forward pass of a layer norm.
struct RowStats {
  float* mean;
  float* rstd;
};

struct Kernels {
  const char* name;  // "baseline", "avx2", "avx512"

  void (*gemm)(const Gemm& product);
  // out[r, c] = bias[c], plus base[r, c] if base.data is given.
  void (*fill_rows)(const Matrix& out, const Matrix& base, const float* bias);
  // out[c] = sum over rows, in row order.
  void (*sum_rows)(float* out, const Matrix& in);

  // y = (x - mean) / sqrt(var + 1e-5) * gain + bias over each row.
  void (*layer_norm)(const Matrix& y, const RowStats& stats, const Matrix& x, const float* gain,
                     const float* bias);
  // dx += gradient through x; dgain and dbias are overwritten.
  void (*layer_norm_backward)(const Matrix& dx, float* dgain, float* dbias, const Matrix& dy,
                              const Matrix& x, const RowStats& stats, const float* gain);

  // tanh form of GELU: Hendrycks & Gimpel 2016, section 2.
  void (*gelu)(const Matrix& y, const Matrix& x);
  // dy becomes dx.
  void (*gelu_backward)(const Matrix& dy, const Matrix& x);

  // Row r over columns 0..r, zero to the right of the diagonal; in place.
  void (*causal_softmax)(const Matrix& scores);
  // dp (gradient of the probabilities p) becomes the gradient of the scores.
  void (*causal_softmax_backward)(const Matrix& dp, const Matrix& p);

  // Logits become probabilities. Returns the sum over rows of -log p[target], in nats.
  double (*cross_entropy)(const Matrix& logits, const std::uint8_t* targets);
  // Probabilities become the gradient of factor * (sum of losses).
  void (*cross_entropy_backward)(const Matrix& p, const std::uint8_t* targets, float factor);

  // Storage to fp32.
  void (*widen)(float* out, const void* in, Storage storage, std::ptrdiff_t elems);
  // inout = round(inout + in), to nearest even.
  void (*add_into)(void* inout, Storage storage, const float* in, std::ptrdiff_t elems);
};

// The table for the best instruction set of this machine.
const Kernels& best_kernels();
// All tables that this machine can run, slowest first; ends with a null pointer.
const Kernels* const* available_kernels();

}  // namespace gpt
