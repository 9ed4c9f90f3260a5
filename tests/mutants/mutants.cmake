# Planted faults, each of which a test must find. A mutant is a copy of one source file with one
# text replaced, linked before the library, so that it takes the place of the original.
#
# zero_add_mutant(NAME SOURCE file FROM text TO text TEST source FILTER gtest-filter EXPECT regex
#                 [EXPECT_TSAN regex])
# adds mutant.NAME, which passes if the tests fail with a message that the pattern matches, and
# mutant.NAME.without, which passes if they pass with the original. FROM has to be in the file
# exactly once.
function(zero_add_mutant name)
  cmake_parse_arguments(PARSE_ARGV 1 mutant "" "SOURCE;FROM;TO;TEST;FILTER;EXPECT;EXPECT_TSAN" "")
  set(original "${PROJECT_SOURCE_DIR}/${mutant_SOURCE}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${original}")
  file(READ "${original}" text)
  string(FIND "${text}" "${mutant_FROM}" first)
  string(FIND "${text}" "${mutant_FROM}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "mutant ${name}: this text has to be in ${mutant_SOURCE} exactly once, or "
                        "the fault is not the one that it was:\n${mutant_FROM}")
  endif()
  string(REPLACE "${mutant_FROM}" "${mutant_TO}" text "${text}")
  set(copy "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  set(before "")
  if(EXISTS "${copy}")
    file(READ "${copy}" before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE "${copy}" "${text}")
  endif()

  cmake_path(GET mutant_TEST STEM test)
  if(NOT TARGET ${test})  # compiled once, for all of its mutants
    add_library(${test}_object OBJECT "${PROJECT_SOURCE_DIR}/tests/mutants/${mutant_TEST}")
    target_link_libraries(${test}_object PUBLIC test_support GTest::gtest_main)
    target_precompile_headers(${test}_object REUSE_FROM test_support)
    zero_cheap_code(${test}_object)
    add_executable(${test} $<TARGET_OBJECTS:${test}_object>)
    target_link_libraries(${test} PRIVATE test_support GTest::gtest_main)
  endif()
  add_executable(mutant_${name} "${copy}" $<TARGET_OBJECTS:${test}_object>)
  target_include_directories(mutant_${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/emulation")
  target_link_libraries(mutant_${name} PRIVATE test_support GTest::gtest_main)

  set(pattern "${mutant_EXPECT}")
  if(ZERO_SANITIZE MATCHES "thread" AND mutant_EXPECT_TSAN)
    set(pattern "${mutant_EXPECT_TSAN}")
  endif()
  add_test(NAME mutant.${name}
           COMMAND "${CMAKE_COMMAND}" "-DBINARY=$<TARGET_FILE:mutant_${name}>"
                   "-DFILTER=${mutant_FILTER}" "-DPATTERN=${pattern}"
                   -P "${PROJECT_SOURCE_DIR}/tests/mutants/expect_failure.cmake")
  add_test(NAME mutant.${name}.without COMMAND ${test} "--gtest_filter=${mutant_FILTER}")
  set_tests_properties(mutant.${name} mutant.${name}.without PROPERTIES
                       LABELS unit TIMEOUT ${unit_timeout})
endfunction()

get_target_property(zero_type zero TYPE)
if(NOT zero_cuda_mode STREQUAL "EMULATE" OR NOT zero_type STREQUAL "STATIC_LIBRARY")
  return()  # no place for a mutant
endif()

zero_add_mutant(buffer_used_again_too_early
  SOURCE src/communicator_local.cpp
  FROM "if (peer != rank_) wait_for(peer, group_->done(peer), op, stream);"
  TO "(void)peer;"
  TEST mutant_order.cpp FILTER Order.ABufferIsTheOwnersAgainWhenThePeersAreDone
  EXPECT "wrong bits" EXPECT_TSAN "data race")

zero_add_mutant(gradient_read_before_it_is_there
  SOURCE src/communicator_local.cpp
  FROM "if (peer != rank_) wait_for(peer, group_->post(peer).ready, op, stream);"
  TO "(void)peer;"
  TEST mutant_order.cpp FILTER Order.AGradientIsReadWhenItIsThere
  EXPECT "wrong bits" EXPECT_TSAN "data race")

zero_add_mutant(passing_memory_used_again_too_early
  SOURCE src/grad_reducer.cpp
  FROM "rt_.compute.wait(in_flight_.front().done);"
  TO ""
  TEST mutant_order.cpp FILTER Order.PassingMemoryIsUsedAgainWhenItsReductionIsDone
  EXPECT "wrong bits" EXPECT_TSAN "data race")

zero_add_mutant(parameter_used_before_it_is_gathered
  SOURCE src/param_gatherer.cpp
  FROM "rt_.compute.wait(entry(bucket).ready);\n    set_pointers(bucket, true);"
  TO "set_pointers(bucket, true);"
  TEST mutant_order.cpp FILTER Order.AParameterIsUsedWhenItIsGathered
  EXPECT "wrong bits" EXPECT_TSAN "data race")

zero_add_mutant(barrier_missing_in_statistics
  SOURCE kernels/stats_cuda.cu
  FROM "  __syncthreads();\n\n  if (thread < GradStats::kDigits) {"
  TO "  if (thread < GradStats::kDigits) {"
  TEST mutant_kernels.cpp FILTER Kernels.Statistics
  EXPECT "wrong bits" EXPECT_TSAN "data race")

# A race, which ThreadSanitizer sees. Under AddressSanitizer the threads happen to come in an order
# in which no bit is wrong.
if(NOT ZERO_SANITIZE MATCHES "address")
  zero_add_mutant(barrier_missing_in_decision
    SOURCE kernels/decision_cuda.cu
    FROM "lane, kLanes);\n  __syncthreads();"
    TO "lane, kLanes);"
    TEST mutant_kernels.cpp FILTER Kernels.Decision
    EXPECT "the ranks differ|wrong bits" EXPECT_TSAN "data race")
endif()

zero_add_mutant(sum_beyond_the_end
  SOURCE kernels/sum_cuda.cu
  FROM "for (std::int64_t i = begin; i < task.elems; ++i)"
  TO "for (std::int64_t i = begin; i <= task.elems; ++i)"
  TEST mutant_kernels.cpp FILTER Kernels.Sum
  EXPECT "reach beyond an allocation")

zero_add_mutant(update_beyond_the_end
  SOURCE kernels/update_cuda.cu
  FROM "if (piece.begin <= i && i + kQuad <= piece.end) {"
  TO "if (piece.begin <= i && i + kQuad <= piece.end + 1) {"
  TEST mutant_kernels.cpp FILTER Kernels.Update
  EXPECT "reach beyond an allocation")
