// The decision on the host: everything by one thread.
#include "kernels/decision_math.hpp"
#include "kernels/on_stream.hpp"

namespace zero::kernels {
namespace {

struct HostMemory {
  template <class T>
  static T load(const T* from) {
    return *from;
  }
  template <class T>
  static void store(T* to, const T& value) {
    *to = value;
  }
};

}  // namespace

void begin_vote(const StepRules& rules, const StepMemory& memory, Stream& stream) {
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("begin_vote").begin_vote(rules, memory, stream.native());
  }
  on_stream("begin_vote", stream, [rules, memory] {
    for (int word = 0; word < rules.layout.touched(); ++word) {
      clear_message_word<HostMemory>(rules, memory, word);
    }
  });
}

void decide(const StepRules& rules, const StepMemory& memory, Stream& stream) {
  if (stream.kind() == DeviceKind::kCuda) {
    return on_cuda("decide").decide(rules, memory, stream.native());
  }
  on_stream("decide", stream, [rules, memory] {
    Gathered gathered{};
    for (int part = 0; part < kGatherParts; ++part) {
      gather_part<HostMemory>(rules, memory, part, gathered);
    }
    conclude<HostMemory>(rules, memory, gathered,
                         first_difference<HostMemory>(rules, memory, 0, 1));
    for (int param = 0; param < rules.layout.params; ++param) {
      form_constants<HostMemory>(rules, memory, param);
    }
  });
}

}  // namespace zero::kernels
