#include "src/rank_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace zero {
namespace {

// Of a text at a time.
constexpr std::uint64_t kTextBytes = 512;

}  // namespace

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
  const std::uint64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::string> texts(sizes.size());
  for (std::uint64_t begin = 0; begin < longest; begin += kTextBytes) {
    std::array<std::uint64_t, kTextBytes / sizeof(std::uint64_t)> part{};
    if (begin < size) {
      std::memcpy(part.data(), mine.data() + begin, std::min(kTextBytes, size - begin));
    }
    const std::vector<std::uint64_t> all = all_gather_words(rt, part, tag);
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      if (begin >= sizes[rank]) continue;
      texts[rank].append(reinterpret_cast<const char*>(all.data() + rank * part.size()),
                         std::min(kTextBytes, sizes[rank] - begin));
    }
  }
  return texts;
}

}  // namespace zero
