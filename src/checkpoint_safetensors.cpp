#include "src/checkpoint_safetensors.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "zero/error.hpp"

namespace zero::checkpoint {

namespace {

constexpr std::size_t kAlignment = 64;  // of the first tensor in the file

const char* format_name(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return "F16";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat32:
      break;
  }
  return "F32";
}

std::string dump(const nlohmann::ordered_json& json, const std::string& name) {
  try {
    return json.dump();
  } catch (const nlohmann::json::type_error&) {
    throw CheckpointError("a checkpoint cannot name the tensor \"" + name + "\": not UTF-8");
  }
}

}  // namespace

std::string safetensors_header(const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = "{\"__metadata__\":" + nlohmann::json(metadata).dump();
  std::set<std::string_view> names;
  std::int64_t offset = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.name == "__metadata__") {
      throw CheckpointError("a file cannot hold a tensor \"" + tensor.name +
                            "\": the format safetensors keeps that name for itself");
    }
    if (!names.insert(tensor.name).second) {
      throw CheckpointError("a file of a checkpoint cannot hold two tensors \"" + tensor.name +
                            "\"");
    }
    std::int64_t bytes = static_cast<std::int64_t>(dtype_bytes(tensor.dtype));
    for (const std::int64_t dimension : tensor.shape) bytes *= dimension;
    const nlohmann::ordered_json row = {{"dtype", format_name(tensor.dtype)},
                                        {"shape", tensor.shape},
                                        {"data_offsets", {offset, offset + bytes}}};
    json += ",\n" + dump(tensor.name, tensor.name) + ":" + row.dump();
    offset += bytes;
  }
  json += "}";
  json.append((kAlignment - (sizeof(std::uint64_t) + json.size()) % kAlignment) % kAlignment, ' ');

  std::string header;
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i) {  // little-endian
    header += static_cast<char>((std::uint64_t{json.size()} >> (8 * i)) & 0xffu);
  }
  return header + json;
}

}  // namespace zero::checkpoint
