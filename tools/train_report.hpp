// What a run tells at its end, for people (standard output) and for programs (JSON lines).
#pragma once

#include <array>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "tools/train_progress.hpp"
#include "zero/ledger.hpp"
#include "zero/partition_manager.hpp"
#include "zero/traffic.hpp"

namespace train {

// Memory and traffic of one rank.
struct RankAccount {
  std::array<zero::Ledger::Account, zero::kCategoryCount> memory{};
  zero::Ledger::Account total;
  zero::Traffic traffic;

  // As plain numbers, so that a rank can send them to another: bytes and calls, exact up to 2^53.
  std::vector<double> pack() const;
  static RankAccount unpack(std::span<const double> values);
  static constexpr std::size_t kPacked =
      2 * (zero::kCategoryCount + 1) + 2 * zero::kPurposeCount * zero::kVerbCount;
};

// What was planned for every rank, in the form of what one measured. Traffic: of one step.
RankAccount planned_account(const zero::Plan& plan);
// Names the first rank and category that holds other bytes than planned, now or at peak, with both
// figures; "" if none does.
std::string difference(const RankAccount& planned, std::span<const RankAccount> measured);

struct FinalLine {
  double val_loss = 0;
  std::uint64_t weights_hash = 0;
  std::int64_t steps = 0;    // done
  bool interrupted = false;  // by a signal
};

// One object per line; what is not finite is written as "nan", "inf" or "-inf".
class JsonLines {
 public:
  // `path`: empty: nothing is written; "-": standard output.
  // Throws std::runtime_error naming a file that cannot be written.
  explicit JsonLines(const std::string& path);

  void step(const StepLine& line);
  void resumed(const std::string& folder, std::int64_t steps);  // done before this run
  void saved(std::int64_t step, double ms);                     // that training stood still
  void plan(int ranks, const RankAccount& planned);
  void memory(int rank, const RankAccount& account);
  void traffic(int rank, std::int64_t steps, const RankAccount& account);
  // Throws std::runtime_error if not everything could be written.
  void final(const FinalLine& line);

 private:
  void write(const std::string& line);

  std::string path_;
  std::ofstream file_;
  std::ostream* out_ = nullptr;
};

// The shortest decimal that reads back as the same double; "\"nan\"" and so on.
std::string json_number(double value);

// Loss against steps as text, at most `width` columns of averages.
std::string loss_curve(std::span<const double> losses, int width, int height);
// Category x current and peak bytes: planned, and measured with ranks side by side.
std::string memory_table(const RankAccount& planned, std::span<const RankAccount> ranks);
// Bytes and calls per purpose and verb; those that never happened are left out.
std::string traffic_table(std::span<const RankAccount> ranks, std::int64_t steps);

}  // namespace train
