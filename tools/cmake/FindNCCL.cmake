# NCCL, which has no CMake package: NCCL_FOUND and the target NCCL::nccl. Looks in NCCL_ROOT, the
# CUDA toolkit and the usual places.
include(FindPackageHandleStandardArgs)
find_path(NCCL_INCLUDE_DIR nccl.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS /usr/local/cuda/include /usr/local/include)
find_library(NCCL_LIBRARY nccl
             HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib
             PATHS /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES
    IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
