// Which rank this process is.
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "src/communicator_deadline.hpp"
#include "src/communicator_mpi.hpp"
#include "src/local_group.hpp"
#include "zero/error.hpp"
#include "zero/nccl.hpp"
#include "zero/world.hpp"

namespace zero {

using detail::concat;

std::string_view launcher_name(Launcher launcher) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "explicit", "threads", "single process", "MPI", "SLURM", "torchrun"};
  return kNames[static_cast<std::size_t>(launcher)];
}

namespace {

constexpr const char* kHowToStart =
    "start the processes with mpirun -n N, or with srun --mpi=pmix; ranks as threads of one "
    "process "
    "need no launcher (zero::run_ranks, zero-train --ranks N)";

// What one launcher says, and by which variables.
struct Found {
  const char* rank_variable;
  const char* size_variable;
  int rank = 0;
  int world_size = 1;
};

std::optional<int> number(const Environment& environment, const char* name) {
  const char* const text = environment(name);
  if (text == nullptr) return std::nullopt;
  int value = -1;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw ConfigError(
        concat(name, " is \"", text, "\" in the environment; valid: a number from 0"));
  }
  return value;
}

// Both or none.
std::optional<Found> pair(const Environment& environment, const char* rank_variable,
                          const char* size_variable) {
  const std::optional<int> rank = number(environment, rank_variable);
  const std::optional<int> size = number(environment, size_variable);
  if (!rank && !size) return std::nullopt;
  if (!rank || !size) {
    throw ConfigError(concat(rank ? rank_variable : size_variable, " is ", rank ? *rank : *size,
                             " in the environment, and ", rank ? size_variable : rank_variable,
                             " is not set: a launcher sets both"));
  }
  if (*rank >= *size) {
    throw ConfigError(concat(rank_variable, " is ", *rank, " and ", size_variable, " is ", *size,
                             " in the environment; ranks are 0 to ", size_variable, " - 1"));
  }
  return Found{rank_variable, size_variable, *rank, *size};
}

void check_agreement(const Found& a, const Found& b) {
  const auto refuse = [](const char* x, int x_is, const char* y, int y_is) {
    throw ConfigError(concat("the environment contradicts itself: ", x, " is ", x_is, ", and ", y,
                             " is ", y_is, "; take away what no longer holds"));
  };
  if (a.world_size != b.world_size) {
    refuse(a.size_variable, a.world_size, b.size_variable, b.world_size);
  }
  if (a.rank != b.rank) refuse(a.rank_variable, a.rank, b.rank_variable, b.rank);
}

std::optional<Found> find_slurm(const Environment& environment) {
  // In an allocation without a step there are sizes, and no process has a number.
  if (environment("SLURM_PROCID") == nullptr) return std::nullopt;
  return pair(
      environment, "SLURM_PROCID",
      environment("SLURM_STEP_NUM_TASKS") != nullptr ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS");
}

std::optional<Found> find_mpi(const Environment& environment, const std::optional<Found>& slurm) {
  // The first decides: a launcher may have been started by another. What MPI says is compared
  // later.
  constexpr std::array<std::array<const char*, 2>, 3> kPairs = {
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
       {"PMI_RANK", "PMI_SIZE"}}};
  for (const auto& [rank, size] : kPairs) {
    if (const auto found = pair(environment, rank, size)) return found;
  }
  // srun --mpi=pmix gives a rank and leaves the size to SLURM's own variables.
  if (environment("PMIX_RANK") == nullptr) return std::nullopt;
  if (!slurm) {
    throw ConfigError(
        "PMIX_RANK is set, and no variable that says how many processes there are: started by "
        "a launcher that this library does not know. mpirun of Open MPI and srun --mpi=pmix are "
        "known; take PMIX_RANK away to train alone");
  }
  return slurm;
}

}  // namespace

Launch find_launch(const Environment& environment) {
  const auto slurm = find_slurm(environment);
  const auto mpi = find_mpi(environment, slurm);
  const auto torchrun = pair(environment, "RANK", "WORLD_SIZE");
  if (mpi) {
    if (torchrun) check_agreement(*mpi, *torchrun);
    if (mpi->world_size > 1 && !detail::mpi_is_built()) {
      throw ConfigError(concat(mpi->size_variable, " is ", mpi->world_size,
                               " in the environment, and this library is built without MPI, so its "
                               "processes cannot connect: configure it with -DZERO_MPI=ON"));
    }
    return {Launcher::kMpi, mpi->rank, mpi->world_size};
  }
  if (torchrun) {
    if (torchrun->world_size > 1) {
      throw ConfigError(concat("WORLD_SIZE is ", torchrun->world_size,
                               " in the environment, as torchrun sets it, which cannot connect the "
                               "processes of this library: ",
                               kHowToStart));
    }
    if (!slurm) return {Launcher::kTorchrun, 0, 1};
  }
  if (!slurm) return {};
  if (slurm->world_size > 1) {
    throw ConfigError(concat(slurm->size_variable, " is ", slurm->world_size,
                             " in the environment, without PMI to connect the processes: ",
                             kHowToStart, "; one process in a job of several: srun --ntasks=1"));
  }
  return {Launcher::kSlurm, 0, 1};
}

Launch find_launch() {
  return find_launch([](const char* name) { return std::getenv(name); });
}

namespace {

std::unique_ptr<Communicator> alone(std::chrono::duration<double> timeout) {
  return detail::make_local_communicator(std::make_shared<detail::LocalGroup>(1, timeout), 0);
}

void check_place(const Launch& launch, const Communicator& mpi) {
  if (mpi.rank() == launch.rank && mpi.world_size() == launch.world_size) return;
  throw ConfigError(concat("the environment says rank ", launch.rank, " of ", launch.world_size,
                           ", and MPI says rank ", mpi.rank(), " of ", mpi.world_size(),
                           ": is mpirun of another MPI than the one this library is built with?"));
}

// Through MPI the ranks only find each other.
World make_cuda_world(Communicator& mpi, const EnvironmentOptions& options) {
  NcclId id;
  if (mpi.rank() == 0) id = make_nccl_id();
  const auto host = make_host_device();
  mpi.broadcast(id.bytes.data(), static_cast<std::int64_t>(id.bytes.size() / sizeof(float)),
                DType::kFloat32, 0, {Purpose::kControl, "the id of NCCL"}, host->caller_stream());
  const int devices = std::max(1, cuda_device_count());  // without any, the next call says so
  return make_nccl_world(id, mpi.rank(), mpi.world_size(), detail::mpi_local_rank() % devices,
                         {options.timeout, options.nccl_reduction});
}

}  // namespace

World World::from_environment(const EnvironmentOptions& options) {
  if (options.device == DeviceKind::kMeta) {
    throw UsageError(
        "World::from_environment: the meta device has no ranks that meet; see "
        "World::meta");
  }
  const double timeout_s = detail::checked_seconds(options.timeout);
  const double start_timeout_s = detail::checked_seconds(options.start_timeout);
  const Launch launch = find_launch();
  if (launch.world_size == 1) {
    return {options.device == DeviceKind::kCuda ? make_cuda_device() : make_host_device(),
            alone(options.timeout), launch.launcher};
  }
  auto communicator = detail::make_mpi_communicator(
      {.timeout_s = timeout_s,
       .start_timeout_s = start_timeout_s,
       .who = concat("rank ", launch.rank, " of ", launch.world_size)});
  check_place(launch, *communicator);
  if (options.device == DeviceKind::kHost) {
    return {make_host_device(), std::move(communicator), launch.launcher};
  }
  World world = make_cuda_world(*communicator, options);
  world.launcher_ = launch.launcher;
  return world;
}

}  // namespace zero
