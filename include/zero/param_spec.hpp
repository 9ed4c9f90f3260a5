// How a parameter is described to the runtime: name, shape, and where the model keeps its pointers.
//
// Two ways to hand over memory:
//
//   .data = &model.w
//       The address of the model's own pointer. The runtime sets the pointer: to its bucket at
//       stages 0 to 2, to gathered memory inside the guards at stage 3.
//   .data = zero::fixed(w)
//       A fixed address that must not move. The runtime copies out of its buckets after each step,
//       and adds gradients from there into its buckets. Not at stage 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "zero/dtype.hpp"

namespace zero {

// A fixed address of model-owned memory; made by fixed(). On a CUDA device it is memory that its
// kernels reach: of the device, or pinned.
template <class T>
struct Fixed {
  T* address;
};
template <class T>
Fixed<T> fixed(T* address) {
  return {address};
}

// Type-erased place of a pointer in the model: either a pointer variable to set, or a fixed
// address.
class PointerSlot {
 public:
  PointerSlot() = default;
  template <class T>
  PointerSlot(T** variable)  // NOLINT: implicit by intent, `.data = &model.w`
      : place_(variable),
        get_([](void* place) -> void* { return *static_cast<T**>(place); }),
        set_([](void* place, void* value) { *static_cast<T**>(place) = static_cast<T*>(value); }) {
    if constexpr (!std::is_void_v<T>) {
      element_bytes_ = sizeof(T);
      dtype_ = kDTypeOf<T>;
    }
  }
  template <class T>
  PointerSlot(Fixed<T> memory)  // NOLINT: implicit by intent, `.data = zero::fixed(w)`
      : place_(memory.address), fixed_(true) {
    if constexpr (!std::is_void_v<T>) {
      element_bytes_ = sizeof(T);
      dtype_ = kDTypeOf<T>;
    }
  }

  bool given() const { return place_ != nullptr; }
  bool is_fixed() const { return fixed_; }
  void* get() const { return fixed_ ? place_ : (place_ == nullptr ? nullptr : get_(place_)); }
  // Points the model at `value`. Does nothing for a fixed or absent slot.
  void set(void* value) const {
    if (!fixed_ && place_ != nullptr) set_(place_, value);
  }
  std::optional<DType> dtype() const { return dtype_; }         // where the pointer's type tells
  std::size_t element_bytes() const { return element_bytes_; }  // 0: void pointer

 private:
  void* place_ = nullptr;
  void* (*get_)(void*) = nullptr;
  void (*set_)(void*, void*) = nullptr;
  bool fixed_ = false;
  std::size_t element_bytes_ = 0;
  std::optional<DType> dtype_;
};

struct ParamSpec {
  std::string name = {};                 // unique in the model
  std::vector<std::int64_t> shape = {};  // {} is a scalar; a dimension may be 0
  PointerSlot data = {};                 // required
  PointerSlot grad = {};                 // required if requires_grad
  std::optional<DType> dtype =
      {};  // needed where the pointer's type does not tell (uint16_t*, void*)
  // Fills the whole parameter, [numel] elements of the parameter's dtype in host memory. Called on
  // rank 0 by prepare(), one bucket at a time. Without it the memory that *data points to is read
  // instead.
  std::function<void(std::span<std::byte> elements)> init = {};
  int group = 0;              // index of a param group
  bool requires_grad = true;  // false: frozen, no gradient, no optimizer state
};

// Hyper-parameters of a group of parameters. Nothing else: a group never costs a buffer.
struct ParamGroup {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  friend bool operator==(const ParamGroup&, const ParamGroup&) = default;
};

}  // namespace zero
