#include "src/runtime.hpp"

#include "zero/error.hpp"

namespace zero {

Runtime::Runtime(Config configuration, Device& the_device, Communicator& communicator,
                 Ledger& the_ledger, detail::CommStream& shared_stream)
    : config(std::move(configuration)),
      device(the_device),
      ledger(the_ledger),
      comm(communicator),
      compute(device.caller_stream()),
      beside_it(shared_stream) {
  const OptimizerSettings& o = config.optimizer;
  groups.push_back({o.lr, o.beta1, o.beta2, o.eps, o.weight_decay});
  if (config.runtime.timeout_s) {
    comm.set_timeout(std::chrono::duration<double>(*config.runtime.timeout_s));
  }
}

}  // namespace zero
