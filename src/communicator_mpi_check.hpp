// Results of MPI as exceptions.
#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "zero/error.hpp"

namespace zero::detail {

inline std::string mpi_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return concat("error ", code, " of MPI");
  }
  return {text.data(), static_cast<std::size_t>(length)};
}

inline void check_mpi(int code, const std::string& what) {
  if (code != MPI_SUCCESS) throw CommError(concat(what, ": ", mpi_text(code)));
}

}  // namespace zero::detail
