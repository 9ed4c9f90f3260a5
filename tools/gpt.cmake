# The reference model: a static library `gpt` that knows nothing of zero.
#
# The hot file is compiled once per instruction set. Each flavour has Eigen under a namespace of its
# own and is optimised in every build type, so that no inline function compiled for AVX-512 can be
# merged into code that must run everywhere.
find_package(Eigen3 3.3 REQUIRED NO_MODULE)

add_library(gpt STATIC ${CMAKE_CURRENT_LIST_DIR}/gpt.cpp ${CMAKE_CURRENT_LIST_DIR}/gpt_init.cpp
            ${CMAKE_CURRENT_LIST_DIR}/gpt_passes.cpp)
target_include_directories(gpt PUBLIC ${PROJECT_SOURCE_DIR})

function(gpt_add_flavour name)
  add_library(gpt_${name} OBJECT ${CMAKE_CURRENT_LIST_DIR}/gpt_kernels.cpp)
  target_link_libraries(gpt_${name} PRIVATE Eigen3::Eigen)
  target_include_directories(gpt_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(gpt_${name} PRIVATE GPT_FLAVOUR=${name} Eigen=Eigen_${name})
  target_compile_options(gpt_${name} PRIVATE -O3 ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ 12 sees uninitialised values inside its own AVX-512 headers.
    target_compile_options(gpt_${name} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
  target_sources(gpt PRIVATE $<TARGET_OBJECTS:gpt_${name}>)
endfunction()

gpt_add_flavour(baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  gpt_add_flavour(avx2 -mavx2 -mfma -mf16c)
  gpt_add_flavour(avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl)
  target_sources(gpt PRIVATE ${CMAKE_CURRENT_LIST_DIR}/gpt_dispatch_x86.cpp)
else()
  target_sources(gpt PRIVATE ${CMAKE_CURRENT_LIST_DIR}/gpt_dispatch_generic.cpp)
endif()
