#include "src/runtime.hpp"

#include "zero/error.hpp"

namespace zero {

Runtime::Runtime(Config configuration, Device& the_device, Communicator& communicator,
                 Ledger& the_ledger)
    : config(std::move(configuration)),
      device(the_device),
      ledger(the_ledger),
      comm(communicator),
      compute(device.caller_stream()),
      worker(config.zero.overlap_comm
                 ? device.create_stream(detail::concat("zero-comm-", communicator.rank()))
                 : nullptr),
      comm_stream(worker != nullptr ? *worker : compute) {
  const OptimizerSettings& o = config.optimizer;
  groups.push_back({o.lr, o.beta1, o.beta2, o.eps, o.weight_decay});
  if (config.runtime.timeout_s) {
    comm.set_timeout(std::chrono::duration<double>(*config.runtime.timeout_s));
  }
}

}  // namespace zero
