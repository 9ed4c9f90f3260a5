// The id of NCCL by file: who takes which, and what is said where there is none.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "zero/error.hpp"
#include "zero/nccl_id.hpp"

namespace zero {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class NcclIdFile : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  void write(const std::string& text) const { std::ofstream(path) << text; }
  static std::string file_of(const std::string& job, int world_size, char digit) {
    return "zero nccl id 1\njob " + job + "\nworld_size " + std::to_string(world_size) + "\nid " +
           std::string(256, digit) + "\nend\n";
  }
  NcclId wait(const std::string& job, int world_size, milliseconds timeout = seconds(60)) const {
    return exchange_nccl_id(path, job, 1, world_size, timeout);
  }
  // Of the last wait.
  std::string refusal(const std::string& job, int world_size) const {
    try {
      wait(job, world_size, milliseconds(30));
    } catch (const CommError& error) {
      return error.what();
    }
    return "taken";
  }

  const std::string folder = testing::TempDir() + "zero_nccl_id_" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path = folder + "/id";
};

NcclId filled(unsigned char byte) {
  NcclId id;
  id.bytes.fill(std::byte{byte});
  return id;
}

TEST_F(NcclIdFile, IsTaken) {
  write(file_of("a job", 4, '7'));
  EXPECT_EQ(wait("a job", 4), filled(0x77));
}

TEST_F(NcclIdFile, IsTakenWhenItComes) {
  NcclId found;
  std::thread rank([&] { found = wait("a job", 4); });
  write(file_of("the last job", 4, '1'));
  std::this_thread::sleep_for(milliseconds(20));
  const std::string draft = path + ".draft";
  std::ofstream(draft) << file_of("a job", 4, 'a');
  std::filesystem::rename(draft, path);
  rank.join();
  EXPECT_EQ(found, filled(0xaa));
}

TEST_F(NcclIdFile, OfAnotherJobIsNeverTaken) {
  for (const char* other : {"the last job", "a jo", "a job ", "A job"}) {
    write(file_of(other, 4, '7'));
    EXPECT_THAT(refusal("a job", 4),
                AllOf(HasSubstr(path), HasSubstr("rank 1"), HasSubstr("0.03 s"),
                      HasSubstr("the file of job '" + std::string(other) + "'"),
                      HasSubstr("that of job 'a job'")));
  }
}

TEST_F(NcclIdFile, OfAnotherWorldSizeIsRefusedAtOnce) {
  write(file_of("a job", 4, '7'));
  try {
    wait("a job", 5);
    FAIL() << "taken";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(path), HasSubstr("for 4"), HasSubstr("one of 5")));
  }
}

TEST_F(NcclIdFile, NothingThatIsNotWholeIsTaken) {
  EXPECT_THAT(refusal("a job", 4), AllOf(HasSubstr("no file"), HasSubstr("a job")));
  const std::string whole = file_of("a job", 4, '7');
  for (std::size_t length = 0; length < whole.size(); length += 11) {
    write(whole.substr(0, length));
    EXPECT_THAT(refusal("a job", 4), HasSubstr("a file that is no id of NCCL")) << length;
  }
  for (const std::string& text : {file_of("a job", 4, 'g'), file_of("a job", 4, 'A'), whole + "x",
                                  "\n" + whole, std::string(5000, 'z')}) {
    write(text);
    EXPECT_THAT(refusal("a job", 4), HasSubstr("a file that is no id of NCCL")) << text;
  }
}

TEST_F(NcclIdFile, RefusesWhatCannotBeMeant) {
  for (const std::string token : {"", "two\nlines", "cr\r"}) {
    EXPECT_THROW(exchange_nccl_id(path, token, 1, 2, seconds(1)), UsageError) << token;
  }
  for (const int rank : {-1, 2}) {
    EXPECT_THROW(exchange_nccl_id(path, "a job", rank, 2, seconds(1)), UsageError) << rank;
  }
  for (const double timeout : {0.0, -1.0}) {
    EXPECT_THROW(exchange_nccl_id(path, "a job", 1, 2, std::chrono::duration<double>(timeout)),
                 UsageError);
  }
}

// What rank 0 does, where there is an NCCL to make an id.
class NcclIdOfRankZero : public NcclIdFile {
 protected:
  void SetUp() override {
    NcclIdFile::SetUp();
    try {
      make_nccl_id();
    } catch (const CommError& error) {
      const std::string text = error.what();
      EXPECT_THAT(text, AllOf(HasSubstr("without NCCL"), HasSubstr("-DZERO_CUDA=ON"),
                              HasSubstr("zero::run_ranks")));
      GTEST_SKIP() << text;
    }
  }
};

TEST_F(NcclIdOfRankZero, ReachesAll) {
  write(file_of("the last job", 3, '1'));  // left over
  std::vector<NcclId> found(3);
  std::vector<std::thread> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    ranks.emplace_back([&, rank] {
      found[static_cast<std::size_t>(rank)] = exchange_nccl_id(path, "a job", rank, 3, seconds(60));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_NE(found[0], NcclId{});
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
  const std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "a draft was left";
}

TEST_F(NcclIdOfRankZero, IsAnotherEachTime) { EXPECT_NE(make_nccl_id(), make_nccl_id()); }

TEST_F(NcclIdOfRankZero, ThatCannotBeWrittenIsAnError) {
  const std::string lost = folder + "/not there/id";
  try {
    exchange_nccl_id(lost, "a job", 0, 2, seconds(60));
    FAIL() << "written";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(lost), HasSubstr("No such file")));
  }
}

}  // namespace
}  // namespace zero
