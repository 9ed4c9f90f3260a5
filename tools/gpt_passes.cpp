// Forward and backward of the model, one unit at a time.
#include <algorithm>
#include <cmath>

#include "tools/gpt.hpp"

namespace gpt {

namespace {

Matrix with_cols(const Matrix& m, std::ptrdiff_t cols) { return {m.data, m.rows, cols, cols}; }

constexpr Matrix kNone = {nullptr, 0, 0, 0};

}  // namespace

const float* Model::weights(const Parameter& parameter) {
  if (storage_ == Storage::kFloat32) return static_cast<const float*>(parameter.w);
  float* wide = widened_next_;
  widened_next_ += (parameter.numel() + 15) / 16 * 16;
  kernels_.widen(wide, parameter.w, storage_, parameter.numel());
  return wide;
}

Matrix Model::weight_matrix(const Parameter& parameter) {
  // Kernels only read what is not their output.
  return {const_cast<float*>(weights(parameter)), parameter.shape[0], parameter.shape[1],
          parameter.shape[1]};
}

void Model::add_gradient(const Parameter& parameter, const float* gradient) {
  kernels_.add_into(parameter.w_grad, storage_, gradient, parameter.numel());
}

// out = base + b + in * w^T.
void Model::linear(const Matrix& out, const Matrix& base, const Matrix& in, const Parameter& w,
                   const Parameter& b) {
  kernels_.fill_rows(out, base, weights(b));
  kernels_.gemm({out, in, false, weight_matrix(w), true, true, 1.0f});
}

void Model::linear_backward(const Matrix& d_in, const Matrix& d_out, const Matrix& in,
                            const Parameter& w, const Parameter& b) {
  const Matrix dw = {gradient_, w.shape[0], w.shape[1], w.shape[1]};
  kernels_.gemm({dw, d_out, true, in, false, false, 1.0f});
  add_gradient(w, gradient_);
  kernels_.sum_rows(gradient_, d_out);
  add_gradient(b, gradient_);
  kernels_.gemm({d_in, d_out, false, weight_matrix(w), false, false, 1.0f});
}

// Adds the gradient through the norm to the residual stream's.
void Model::norm_backward(const Matrix& d_out, const Matrix& in, const RowStats& stats,
                          const Parameter& gain, const Parameter& bias) {
  float* d_gain = gradient_;
  float* d_bias = gradient_ + shape_.width;
  kernels_.layer_norm_backward(d_stream_, d_gain, d_bias, d_out, in, stats, weights(gain));
  add_gradient(gain, d_gain);
  add_gradient(bias, d_bias);
}

void Model::forward_embedding(std::span<const std::uint8_t> tokens) {
  if (arena_.empty()) lay_out_activations();
  tokens_ = tokens;
  widened_next_ = widened_;
  const std::ptrdiff_t c = shape_.width;
  const float* wte = weights(embedding_.wte);
  const float* wpe = weights(embedding_.wpe);
  const Matrix& stream = activations_.front().in;
  for (std::ptrdiff_t r = 0; r < stream.rows; ++r) {
    const float* token = wte + tokens[static_cast<std::size_t>(r)] * c;
    const float* position = wpe + r % shape_.context * c;
    float* out = stream.data + r * c;
    for (std::ptrdiff_t i = 0; i < c; ++i) out[i] = token[i] + position[i];
  }
}

void Model::backward_embedding() {
  const std::ptrdiff_t c = shape_.width;
  std::fill_n(gradient_, embedding_.wte.numel(), 0.0f);
  for (std::ptrdiff_t r = 0; r < d_stream_.rows; ++r) {
    float* out = gradient_ + tokens_[static_cast<std::size_t>(r)] * c;
    for (std::ptrdiff_t i = 0; i < c; ++i) out[i] += d_stream_.data[r * c + i];
  }
  add_gradient(embedding_.wte, gradient_);
  std::fill_n(gradient_, embedding_.wpe.numel(), 0.0f);
  for (std::ptrdiff_t r = 0; r < d_stream_.rows; ++r) {
    float* out = gradient_ + r % shape_.context * c;
    for (std::ptrdiff_t i = 0; i < c; ++i) out[i] += d_stream_.data[r * c + i];
  }
  add_gradient(embedding_.wpe, gradient_);
}

// Queries (part 0), keys (1) or values (2) of one row and head: [context, width / heads].
Matrix Model::head_of(const Matrix& qkv, int row, int part, int head) const {
  const std::ptrdiff_t size = shape_.width / shape_.heads;
  return {qkv.data + row * shape_.context * qkv.stride + part * shape_.width + head * size,
          shape_.context, size, qkv.stride};
}

void Model::attention(const Activations& a) {
  const std::ptrdiff_t t = shape_.context;
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.width / shape_.heads));
  Matrix p = {a.probabilities, t, t, t};
  for (int b = 0; b < shape_.micro_batch; ++b) {
    for (int h = 0; h < shape_.heads; ++h, p.data += t * t) {
      kernels_.gemm(
          {p, head_of(a.qkv, b, 0, h), false, head_of(a.qkv, b, 1, h), true, false, scale});
      kernels_.causal_softmax(p);
      kernels_.gemm(
          {head_of(a.attention, b, 0, h), p, false, head_of(a.qkv, b, 2, h), false, false, 1.0f});
    }
  }
}

// d_out: gradient of a.attention. Leaves the gradient of a.qkv in d_wide_.
void Model::attention_backward(const Activations& a, const Matrix& d_out) {
  const std::ptrdiff_t t = shape_.context;
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape_.width / shape_.heads));
  const Matrix d_qkv = with_cols(d_wide_, 3 * shape_.width);
  const Matrix ds = {d_scores_, t, t, t};
  Matrix p = {a.probabilities, t, t, t};
  for (int b = 0; b < shape_.micro_batch; ++b) {
    for (int h = 0; h < shape_.heads; ++h, p.data += t * t) {
      const Matrix d_o = head_of(d_out, b, 0, h);
      kernels_.gemm({head_of(d_qkv, b, 2, h), p, true, d_o, false, false, 1.0f});
      kernels_.gemm({ds, d_o, false, head_of(a.qkv, b, 2, h), true, false, 1.0f});
      kernels_.causal_softmax_backward(ds, p);
      kernels_.gemm(
          {head_of(d_qkv, b, 0, h), ds, false, head_of(a.qkv, b, 1, h), false, false, scale});
      kernels_.gemm(
          {head_of(d_qkv, b, 1, h), ds, true, head_of(a.qkv, b, 0, h), false, false, scale});
    }
  }
}

void Model::forward_block(int layer) {
  const auto l = static_cast<std::size_t>(layer);
  const Block& b = blocks_[l];
  const Activations& a = activations_[l];
  const Matrix& out = l + 1 < activations_.size() ? activations_[l + 1].in : out_;
  widened_next_ = widened_;
  kernels_.layer_norm(a.ln1, a.ln1_stats, a.in, weights(b.ln1_gain), weights(b.ln1_bias));
  linear(a.qkv, kNone, a.ln1, b.qkv_w, b.qkv_b);
  attention(a);
  linear(a.mid, a.in, a.attention, b.proj_w, b.proj_b);
  kernels_.layer_norm(a.ln2, a.ln2_stats, a.mid, weights(b.ln2_gain), weights(b.ln2_bias));
  linear(a.fc, kNone, a.ln2, b.fc_w, b.fc_b);
  kernels_.gelu(a.gelu, a.fc);
  linear(out, a.mid, a.gelu, b.fc_proj_w, b.fc_proj_b);
}

void Model::backward_block(int layer) {
  const auto l = static_cast<std::size_t>(layer);
  const Block& b = blocks_[l];
  const Activations& a = activations_[l];
  const Matrix d_qkv = with_cols(d_wide_, 3 * shape_.width);
  widened_next_ = widened_;
  linear_backward(d_wide_, d_stream_, a.gelu, b.fc_proj_w, b.fc_proj_b);
  kernels_.gelu_backward(d_wide_, a.fc);
  linear_backward(d_norm_, d_wide_, a.ln2, b.fc_w, b.fc_b);
  norm_backward(d_norm_, a.mid, a.ln2_stats, b.ln2_gain, b.ln2_bias);
  linear_backward(d_norm_, d_stream_, a.attention, b.proj_w, b.proj_b);
  attention_backward(a, d_norm_);
  linear_backward(d_norm_, d_qkv, a.ln1, b.qkv_w, b.qkv_b);
  norm_backward(d_norm_, a.in, a.ln1_stats, b.ln1_gain, b.ln1_bias);
}

double Model::forward_head(std::span<const std::uint8_t> targets) {
  targets_ = targets;
  widened_next_ = widened_;
  kernels_.layer_norm(final_norm_, final_stats_, out_, weights(head_.ln_gain),
                      weights(head_.ln_bias));
  kernels_.gemm({logits_, final_norm_, false, weight_matrix(embedding_.wte), true, false, 1.0f});
  return kernels_.cross_entropy(logits_, targets.data()) / static_cast<double>(logits_.rows);
}

void Model::backward_head(float scale) {
  widened_next_ = widened_;
  kernels_.cross_entropy_backward(logits_, targets_.data(),
                                  scale / static_cast<float>(logits_.rows));
  const std::ptrdiff_t c = shape_.width;
  kernels_.gemm({{gradient_, kVocabulary, c, c}, logits_, true, final_norm_, false, false, 1.0f});
  add_gradient(embedding_.wte, gradient_);
  kernels_.gemm({d_norm_, logits_, false, weight_matrix(embedding_.wte), false, false, 1.0f});
  std::fill_n(d_stream_.data, d_stream_.rows * c, 0.0f);
  norm_backward(d_norm_, out_, final_stats_, head_.ln_gain, head_.ln_bias);
}

}  // namespace gpt
