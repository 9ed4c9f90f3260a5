// The functions behind the table of cuda_kernels(), one file each.
#pragma once

#include "kernels/cuda_kernels.hpp"

namespace zero::kernels {

void cuda_update_shard(const UpdateRange& owned, PieceTable pieces,
                       const UpdateConstants* constants, UpdateConstants::Rule rule, void* stream);
void cuda_sum(std::span<const void* const> sources, DType source_dtype,
              std::span<void* const> destinations, DType destination_dtype, std::int64_t elems,
              float divisor, bool accumulate, SumOrder order, void* stream);
void cuda_copy(void* dst, const void* src, std::int64_t bytes, void* stream);
void cuda_fill_bytes(void* dst, unsigned char value, std::int64_t bytes, void* stream);
void cuda_grad_stats(ConstView grad, PieceTable pieces, std::int64_t first_elem,
                     std::int32_t fallback_param, GradStats* stats, std::uint64_t* bad_param,
                     void* stream);
void cuda_begin_vote(const StepRules& rules, const StepMemory& memory, void* stream);
void cuda_decide(const StepRules& rules, const StepMemory& memory, void* stream);

}  // namespace zero::kernels
