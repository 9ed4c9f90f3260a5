# ZERO_CUDA: which CUDA the library is built with.
#   OFF       none: asking for a CUDA device is an error at run time
#   ON        the toolkit; an error without one
#   AUTO      ON where nvcc is found, else OFF
#   EMULATE   kernels and runtime on the CPU, for tests (tests/emulation)
# NCCL is used where CMake finds it beside the toolkit, and emulated where CUDA is.
# zero_add_cuda(TARGET) gives a target the sources of that choice.
set(ZERO_CUDA AUTO CACHE STRING "CUDA: AUTO, ON, OFF or EMULATE")
set_property(CACHE ZERO_CUDA PROPERTY STRINGS AUTO ON OFF EMULATE)
if(NOT ZERO_CUDA MATCHES "^(AUTO|ON|OFF|EMULATE)$")
  message(FATAL_ERROR "ZERO_CUDA is ${ZERO_CUDA}; valid: AUTO, ON, OFF, EMULATE")
endif()

set(zero_cuda_mode ${ZERO_CUDA})
if(ZERO_CUDA MATCHES "^(AUTO|ON)$")
  find_program(ZERO_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(ZERO_NVCC)
    set(zero_cuda_mode ON)
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER "${ZERO_NVCC}")
    endif()
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80-real;90")
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
  elseif(ZERO_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ZERO_CUDA is ON, and no nvcc is found; set CUDA_PATH, or build with OFF")
  else()
    set(zero_cuda_mode OFF)
  endif()
endif()
if(zero_cuda_mode STREQUAL "ON")
  find_package(NCCL)
  set(zero_nccl ${NCCL_FOUND})
elseif(zero_cuda_mode STREQUAL "EMULATE")
  set(zero_nccl TRUE)
else()
  set(zero_nccl FALSE)
endif()
message(STATUS "CUDA: ${zero_cuda_mode}, NCCL: ${zero_nccl}")

function(zero_add_cuda target)
  set(nccl_none "${PROJECT_SOURCE_DIR}/src/communicator_nccl_none.cpp")
  if(zero_cuda_mode STREQUAL "OFF")
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/kernels/cuda_none.cpp"
                                     "${PROJECT_SOURCE_DIR}/src/device_cuda_none.cpp"
                                     "${PROJECT_SOURCE_DIR}/src/profiler_none.cpp"
                                     "${nccl_none}")
    return()
  endif()
  file(GLOB cu_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/*.cu")
  add_library(zero_cuda OBJECT ${cu_files} "${PROJECT_SOURCE_DIR}/kernels/cuda_kernels.cpp"
                               "${PROJECT_SOURCE_DIR}/src/device_cuda.cpp"
                               "${PROJECT_SOURCE_DIR}/src/profiler_nvtx.cpp")
  target_include_directories(zero_cuda PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                               "${PROJECT_SOURCE_DIR}")
  set_target_properties(zero_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(zero_nccl)
    foreach(part IN ITEMS "" _link _watch)
      target_sources(zero_cuda PRIVATE "${PROJECT_SOURCE_DIR}/src/communicator_nccl${part}.cpp")
    endforeach()
  else()
    target_sources(zero_cuda PRIVATE "${nccl_none}")
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:zero_cuda>)
  if(zero_cuda_mode STREQUAL "EMULATE")
    set_source_files_properties(${cu_files} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
    add_subdirectory("${PROJECT_SOURCE_DIR}/tests/emulation")
    target_include_directories(zero_cuda PRIVATE "${PROJECT_SOURCE_DIR}/tests/emulation")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:cuda_emulation>)
  else()
    # Contraction off, as on the host: a fused multiply-add is written where it is meant.
    target_compile_options(zero_cuda PRIVATE
      $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xptxas=--warn-on-spills>)
    target_link_libraries(zero_cuda PRIVATE CUDA::cudart_static)
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
    if(zero_nccl)
      target_link_libraries(zero_cuda PRIVATE NCCL::nccl)
      target_link_libraries(${target} PRIVATE NCCL::nccl)
    endif()
  endif()
endfunction()
