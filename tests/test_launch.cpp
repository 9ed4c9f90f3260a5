// Which launcher an environment speaks of, and what contradicts itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "src/communicator_mpi.hpp"
#include "zero/error.hpp"
#include "zero/world.hpp"

namespace zero {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Launch find(const Variables& variables) {
  return find_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Variables& variables) {
  try {
    find(variables);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

void expect(const Variables& variables, Launcher launcher, int rank, int world_size) {
  const Launch launch = find(variables);
  EXPECT_EQ(launcher_name(launch.launcher), launcher_name(launcher));
  EXPECT_EQ(launch.rank, rank);
  EXPECT_EQ(launch.world_size, world_size);
}

TEST(Launch, SingleProcesses) {
  expect({}, Launcher::kSingle, 0, 1);
  expect({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}}, Launcher::kTorchrun, 0,
         1);
  expect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, Launcher::kSlurm, 0, 1);
  expect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, Launcher::kMpi, 0, 1);
  // An allocation in which no step was started.
  expect({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}}, Launcher::kSingle, 0, 1);
  // One process of its own in a job of several.
  expect({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "4"}},
         Launcher::kSlurm, 0, 1);
}

TEST(Launch, ProcessesOfMpi) {
  if (!detail::mpi_is_built()) GTEST_SKIP() << "built without MPI";
  const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  expect(open_mpi, Launcher::kMpi, 2, 4);
  expect({{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}, Launcher::kMpi, 1, 3);
  expect({{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "3"}}, Launcher::kMpi, 1, 3);
  // srun --mpi=pmix
  EXPECT_THAT(refusal({{"PMIX_RANK", "1"}}), HasSubstr("PMIX_RANK"));  // of how many?
  expect({{"PMIX_RANK", "1"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}}, Launcher::kMpi, 1, 2);
  // mpirun in an allocation, whose daemons SLURM started
  Variables both = open_mpi;
  both.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  expect(both, Launcher::kMpi, 2, 4);
  // Scripts that say the same for other programs.
  both.insert({{"RANK", "2"}, {"WORLD_SIZE", "4"}});
  expect(both, Launcher::kMpi, 2, 4);
  both["WORLD_SIZE"] = "8";
  EXPECT_THAT(refusal(both),
              AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE is 4"), HasSubstr("WORLD_SIZE is 8")));
  both["WORLD_SIZE"] = "4";
  both["RANK"] = "3";
  EXPECT_THAT(refusal(both), AllOf(HasSubstr("OMPI_COMM_WORLD_RANK is 2"), HasSubstr("RANK is 3")));
}

TEST(Launch, ProcessesThatNothingConnects) {
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "4"}}),
              AllOf(HasSubstr("WORLD_SIZE is 4"), HasSubstr("torchrun"), HasSubstr("mpirun")));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}),
              AllOf(HasSubstr("SLURM_NTASKS is 4"), HasSubstr("--mpi=pmix")));
  if (detail::mpi_is_built()) return;
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
              AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE is 2"), HasSubstr("ZERO_MPI")));
}

TEST(Launch, HalfOfAPair) {
  EXPECT_THAT(refusal({{"RANK", "0"}}), AllOf(HasSubstr("RANK is 0"), HasSubstr("WORLD_SIZE")));
  EXPECT_THAT(refusal({{"WORLD_SIZE", "1"}}),
              AllOf(HasSubstr("WORLD_SIZE is 1"), HasSubstr("RANK")));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal({{"SLURM_PROCID", "0"}}), HasSubstr("SLURM_NTASKS"));
}

TEST(Launch, ValuesThatAreNone) {
  for (const char* text : {"", "-1", "two", "1x", " 1", "1.0", "99999999999"}) {
    EXPECT_THAT(refusal({{"RANK", text}, {"WORLD_SIZE", "2"}}),
                AllOf(HasSubstr("RANK"), HasSubstr(std::string("\"") + text + "\"")));
  }
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
              AllOf(HasSubstr("RANK is 2"), HasSubstr("WORLD_SIZE is 2")));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE is 0"));
}

TEST(Launch, WorldsSayIt) {
  EXPECT_EQ(World::from_environment().launcher(), find_launch().launcher);
  EXPECT_EQ(World::meta(0, 2).launcher(), Launcher::kExplicit);
  run_ranks(2, [](World& world) { EXPECT_EQ(world.launcher(), Launcher::kThreads); });
  EXPECT_THROW(World::from_environment({.device = DeviceKind::kMeta}), UsageError);
  EXPECT_THROW(World::from_environment({.timeout = std::chrono::seconds(0)}), UsageError);
}

}  // namespace
}  // namespace zero
