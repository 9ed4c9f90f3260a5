// The meta device: addresses without memory, streams without work.
#include "zero/device.hpp"
#include "zero/error.hpp"

namespace zero {
namespace {

class MetaStream final : public Stream {
 public:
  MetaStream() : Stream(DeviceKind::kMeta) {}
  void enqueue(Task) override {}
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
};

class MetaDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::kMeta; }
  Stream& caller_stream() override { return stream_; }
  std::unique_ptr<Stream> create_stream(const std::string&) override {
    return std::make_unique<MetaStream>();
  }

  void* allocate(std::size_t bytes) override {
    // Never re-used, so a stale address can be told from a live one. The range lies above what user
    // space can map on the machines we know, so a use of it faults.
    const std::uint64_t address = next_;
    const std::uint64_t end = (address + bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
    if (end < address || bytes > kLast - kFirst) {
      throw OutOfMemory(detail::concat(bytes, " bytes are more than any address space has"));
    }
    next_ = end;
    if (next_ > kLast) next_ = kFirst;  // a long dry run may go round
    reserved_ += bytes;
    return reinterpret_cast<void*>(address);  // NOLINT: an address is all there is
  }
  void deallocate(void*, std::size_t bytes) noexcept override { reserved_ -= bytes; }
  std::size_t reserved_bytes() const override { return reserved_; }

 private:
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 60;
  static constexpr std::uint64_t kLast = std::uint64_t{1} << 62;
  std::uint64_t next_ = kFirst;
  std::size_t reserved_ = 0;
  MetaStream stream_;
};

}  // namespace

std::unique_ptr<Device> make_meta_device() { return std::make_unique<MetaDevice>(); }

}  // namespace zero
