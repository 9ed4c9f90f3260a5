#include "src/communicator_meta.hpp"

namespace zero::detail {
namespace {

class MetaCommunicator final : public Communicator {
 public:
  MetaCommunicator(int rank, int world_size, bool stages_slices)
      : rank_(rank), world_size_(world_size), stages_slices_(stages_slices) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  bool stages_slices() const override { return stages_slices_; }
  void reduce_scatter(const void*, DType, void*, DType, std::int64_t, const Reduction&,
                      const OpTag&, Stream&) override {}
  void all_gather(const void*, void*, std::int64_t, DType, const OpTag&, Stream&) override {}
  void all_reduce(void*, DType, std::int64_t, const Reduction&, const OpTag&, Stream&) override {}
  void broadcast(void*, std::int64_t, DType, int, const OpTag&, Stream&) override {}
  void barrier(const OpTag&, Stream&) override {}
  void set_timeout(std::chrono::duration<double>) override {}
  void abort(const std::string&) noexcept override {}

 private:
  int rank_;
  int world_size_;
  bool stages_slices_;
};

}  // namespace

std::unique_ptr<Communicator> make_meta_communicator(int rank, int world_size, bool stages_slices) {
  return std::make_unique<MetaCommunicator>(rank, world_size, stages_slices);
}

}  // namespace zero::detail
