// A byte-level GPT in plain C++: the reference model that the tools wrap. It knows nothing of zero.
//
// Pre-norm blocks, causal attention, GELU, learned positions, head tied to the token embedding
// (Radford et al. 2019, section 2.3). The model owns its activations; weights and gradients are raw
// pointers that somebody else sets. It is driven unit by unit, so that a caller can put its own
// hooks around each:
//
//   unit 0            token and position embedding        forward_embedding, backward_embedding
//   unit 1 .. layers  transformer blocks                  forward_block,     backward_block
//   unit layers + 1   final norm and head (uses "wte")    forward_head,      backward_head
//
// Weights of a unit are read, and its gradients written, only inside its own calls. Gradients are
// ADDED into *grad, rounded once per contribution to the storage type. Arithmetic is in fp32 and
// deterministic: the same inputs give the same bits on one instruction set, wherever the weights
// lie. Thread-safety: one thread per model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/gpt_kernels.hpp"

namespace gpt {

inline constexpr int kVocabulary = 256;

struct Shape {
  int layers = 4;
  int width = 64;  // a multiple of heads
  int heads = 4;
  int context = 64;      // bytes per row
  int micro_batch = 16;  // rows
};

// Throws std::invalid_argument naming the dimension that does not fit.
void check_shape(const Shape& shape);

enum class InitKind : std::uint8_t { kNormal, kZero, kOne };

// A weight tensor of the model and its gradient. Matrices are [out, in], row-major.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  InitKind init = InitKind::kZero;
  float stddev = 0;  // of kNormal
  int index = 0;     // in order of registration; picks the random sequence
  void* w = nullptr;
  void* w_grad = nullptr;

  std::int64_t numel() const;
  bool is_matrix() const { return shape.size() > 1; }
};

struct Embedding {
  Parameter wte, wpe;  // [vocabulary, width], [context, width]
};

struct Block {
  Parameter ln1_gain, ln1_bias;    // [width]
  Parameter qkv_w, qkv_b;          // [3 width, width]
  Parameter proj_w, proj_b;        // [width, width]
  Parameter ln2_gain, ln2_bias;    // [width]
  Parameter fc_w, fc_b;            // [4 width, width]
  Parameter fc_proj_w, fc_proj_b;  // [width, 4 width]
};

struct Head {
  Parameter ln_gain, ln_bias;  // [width]
};

// The first elements of a parameter are independent of how it is stored: drawn in fp32, then
// rounded. `out` has numel() elements of `storage`.
void fill_initial(const Parameter& parameter, std::uint64_t seed, Storage storage,
                  std::span<std::byte> out);

class Model {
 public:
  // Throws as check_shape. Activations are allocated by the first forward_embedding, so a model
  // that is only described costs next to nothing.
  Model(const Shape& shape, Storage storage, const Kernels& kernels = best_kernels());
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const Shape& shape() const { return shape_; }
  Storage storage() const { return storage_; }
  const Kernels& kernels() const { return kernels_; }
  int units() const { return shape_.layers + 2; }
  // The parameters of a unit, in order of use; those of the head are its own, without "wte".
  std::vector<Parameter*> unit(int index);
  static std::string unit_name(const Shape& shape, int index);

  // The first call of a step. tokens: [micro_batch, context]; read again in backward_embedding.
  // Throws std::bad_alloc or std::length_error if there is no room for the activations.
  void forward_embedding(std::span<const std::uint8_t> tokens);
  void forward_block(int layer);
  // targets: [micro_batch, context], the byte after each token. Returns the mean cross-entropy in
  // nats. Must stay valid until backward_head.
  double forward_head(std::span<const std::uint8_t> targets);

  // Gradient of scale * loss.
  void backward_head(float scale);
  void backward_block(int layer);
  void backward_embedding();

 private:
  struct Activations {  // of one block
    Matrix in, ln1, qkv, attention, mid, ln2, fc, gelu;
    float* probabilities;  // [micro_batch, heads, context, context]
    RowStats ln1_stats, ln2_stats;
  };

  void lay_out_activations();
  const float* weights(const Parameter& parameter);
  Matrix weight_matrix(const Parameter& parameter);
  void add_gradient(const Parameter& parameter, const float* gradient);
  void linear(const Matrix& out, const Matrix& base, const Matrix& in, const Parameter& w,
              const Parameter& b);
  void linear_backward(const Matrix& d_in, const Matrix& d_out, const Matrix& in,
                       const Parameter& w, const Parameter& b);
  void norm_backward(const Matrix& d_out, const Matrix& in, const RowStats& stats,
                     const Parameter& gain, const Parameter& bias);
  void attention(const Activations& a);
  void attention_backward(const Activations& a, const Matrix& d_out);
  Matrix head_of(const Matrix& qkv, int row, int part, int head) const;

  Shape shape_;
  Storage storage_;
  const Kernels& kernels_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  Head head_;

  std::vector<Activations> activations_;
  Matrix out_, final_norm_, logits_;  // [rows, width], [rows, width], [rows, vocabulary]
  RowStats final_stats_;
  Matrix d_stream_, d_norm_, d_wide_;  // gradients of residual stream, norm output, fc / qkv
  float* d_scores_;                    // [context, context]
  float* widened_ = nullptr;           // fp32 weights of a unit, when stored in 16 bits
  float* widened_next_ = nullptr;
  float* gradient_;  // fp32 gradient of a parameter before it is added
  std::span<const std::uint8_t> tokens_, targets_;
  std::vector<float> arena_;
};

}  // namespace gpt
