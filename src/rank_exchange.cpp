#include "src/rank_exchange.hpp"

#include <algorithm>
#include <cstring>

namespace zero {

std::vector<std::uint64_t> all_gather_words(Runtime& rt, std::span<const std::uint64_t> mine,
                                            const OpTag& tag) {
  const std::size_t ranks = static_cast<std::size_t>(rt.world_size());
  std::vector<std::uint64_t> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) all.insert(all.end(), mine.begin(), mine.end());
  // No verb takes words; gathering only copies, so two fp32 elements carry one.
  const std::int64_t elems = 2 * static_cast<std::int64_t>(mine.size());
  const Buffer memory =
      rt.allocate(Category::kWorkspace, elems * rt.world_size(), DType::kFloat32, tag.name);
  std::byte* const own = memory.at(elems * rt.rank());
  const DrainAtEnd drain(rt);
  kernels::copy(own, mine.data(), static_cast<std::int64_t>(mine.size_bytes()), rt.compute);
  rt.comm_after_compute();
  rt.comm.all_gather(own, memory.data(), elems, DType::kFloat32, tag, rt.comm_stream());
  rt.compute_after_comm();
  kernels::copy(all.data(), memory.data(), memory.bytes(), rt.compute);
  rt.compute.synchronize();
  rt.comm.check();
  return all;
}

std::vector<std::string> all_gather_text(Runtime& rt, std::string_view mine, const OpTag& tag) {
  const std::uint64_t size = mine.size();
  const std::vector<std::uint64_t> sizes = all_gather_words(rt, {&size, 1}, tag);
  const std::size_t words = (*std::max_element(sizes.begin(), sizes.end()) + 7) / 8;
  std::vector<std::string> texts(sizes.size());
  if (words == 0) return texts;
  std::vector<std::uint64_t> padded(words);
  if (!mine.empty()) std::memcpy(padded.data(), mine.data(), mine.size());
  const std::vector<std::uint64_t> all = all_gather_words(rt, padded, tag);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    texts[rank].resize(sizes[rank]);
    std::memcpy(texts[rank].data(), all.data() + rank * words, sizes[rank]);
  }
  return texts;
}

}  // namespace zero
