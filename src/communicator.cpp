#include "zero/communicator.hpp"

#include <array>

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

std::string to_string(const OpFingerprint& op) {
  std::string text = detail::concat("#", op.sequence, " ", verb_name(op.verb));
  if (!op.tag.name.empty()) text += " of " + op.tag.name;
  if (op.verb != Verb::kBarrier) {
    text += detail::concat(", ", op.elems, " x ", dtype_name(op.dtype));
  }
  if (op.verb == Verb::kBroadcast) text += detail::concat(", from rank ", op.root);
  if (!op.tag.note.empty()) text += " [" + op.tag.note + "]";
  return text;
}

}  // namespace zero
