// Training text: bytes of files, split into a part to train on and a held-out end.
//
// Micro-batches are drawn by slot index with a counter-based hash, so the order of the data depends
// neither on how many ranks there are nor on what was drawn before. Thread-safety: const access
// from many threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace train {

// tokens[i] is followed by targets[i]; both [rows, context].
struct Batch {
  std::vector<std::uint8_t> tokens, targets;
};

class Corpus {
 public:
  // Files one after the other. Throws std::runtime_error naming the file that cannot be read.
  static Corpus load(const std::vector<std::string>& paths);
  // The last tenth is held out.
  explicit Corpus(std::string bytes);

  // Throws std::runtime_error if either part is shorter than one row and its last target.
  void check_context(int context) const;

  // Rows of a training slot: windows at pseudo-random places.
  void draw(std::uint64_t seed, std::uint64_t slot, int rows, int context, Batch& batch) const;
  // Row `first` and the following of `count` windows spread evenly over the held-out part.
  void held_out(std::int64_t first, std::int64_t count, int rows, int context, Batch& batch) const;

  std::size_t bytes() const { return bytes_.size(); }
  std::uint64_t hash() const;  // XXH3 of all bytes
  std::size_t train_bytes() const { return train_bytes_; }
  std::size_t held_out_bytes() const { return bytes_.size() - train_bytes_; }

 private:
  void window(std::size_t at, int row, int context, Batch& batch) const;

  std::string bytes_;
  std::size_t train_bytes_;
};

// Sum by a pairwise tree over the index: the same bits however the values were gathered.
double tree_sum(std::span<const double> values);

}  // namespace train
