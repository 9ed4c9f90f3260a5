# Flags of everything built here, in directory scope: nothing of it reaches a consumer.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# Contraction off: a fused multiply-add is written where it is meant, so that the SIMD loop, its
# tail and every compiler give the same bits.
# For the host compiler alone; nvcc has its flags in zero_cuda.cmake.
set(zero_warnings -Wall -Wextra -Wpedantic -Wshadow)
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off;${zero_warnings}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False in g++ 12 for "text" + std::string (GCC bug 105329).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(ZERO_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

if(ZERO_SANITIZE)
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ZERO_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${ZERO_SANITIZE})
endif()

# Whether threads are watched: what runs on one alone is not built for it and not run.
set(zero_tsan FALSE)
if(ZERO_SANITIZE MATCHES "thread")
  set(zero_tsan TRUE)
endif()

# For tests and command lines: what they run is in the library, and gtest, gmock, nlohmann/json and
# CLI11 are slow to optimise (under the sanitizers -O1 takes twice as long). zero_cheap_code(TARGET)
# adds it after the flags of the build type.
set(ZERO_CHEAP_CODE $<$<CONFIG:Release,RelWithDebInfo>:-Og>)
function(zero_cheap_code target)
  target_compile_options(${target} PRIVATE ${ZERO_CHEAP_CODE})
endfunction()

# Seconds a test may take; sanitizers slow everything down.
if(ZERO_SANITIZE)
  set(ZERO_TIMEOUT_FACTOR 4)
else()
  set(ZERO_TIMEOUT_FACTOR 1)
endif()
