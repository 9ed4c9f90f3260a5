#include "zero/communicator.hpp"

#include <array>
#include <charconv>

#include "zero/error.hpp"

namespace zero {

std::string_view verb_name(Verb verb) {
  static constexpr std::array<std::string_view, kVerbCount> kNames = {
      "reduce_scatter", "all_gather", "all_reduce", "broadcast", "barrier"};
  return kNames[static_cast<std::size_t>(verb)];
}

std::string_view purpose_name(Purpose purpose) {
  static constexpr std::array<std::string_view, kPurposeCount> kNames = {"gradients", "params",
                                                                         "control"};
  return kNames[static_cast<std::size_t>(purpose)];
}

namespace {
// With all the digits it takes to tell it from its neighbours.
std::string exact(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
}  // namespace

std::string to_string(const OpFingerprint& op) {
  std::string text = detail::concat("#", op.sequence, " ", verb_name(op.verb));
  if (!op.tag.name.empty()) text += " of " + op.tag.name;
  if (op.verb != Verb::kBarrier) {
    text += detail::concat(", ", op.elems, " x ", dtype_name(op.dtype));
  }
  if (op.recv_dtype && op.recv_dtype != op.dtype) {
    text += detail::concat(" to ", dtype_name(*op.recv_dtype));
  }
  if (op.reduction.divisor != 1.0f) text += ", divided by " + exact(op.reduction.divisor);
  if (op.reduction.accumulate) text += ", accumulated";
  if (op.reduction.tree) text += ", in tree order";
  if (op.verb == Verb::kBroadcast) text += detail::concat(", from rank ", op.root);
  if (!op.tag.note.empty()) text += " [" + op.tag.note + "]";
  return text;
}

}  // namespace zero
