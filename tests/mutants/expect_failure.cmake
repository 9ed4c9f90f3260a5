# cmake -DBINARY=... -DFILTER=... -DPATTERN=... -P: passes if the tests that the filter names fail
# and say so in words that the pattern matches.
execute_process(COMMAND "${BINARY}" "--gtest_filter=${FILTER}"
                RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(result EQUAL 0)
  message(FATAL_ERROR "the planted fault was not found:\n${out}${err}")
endif()
if(NOT "${out}${err}" MATCHES "${PATTERN}")
  message(FATAL_ERROR "it failed (${result}), but not with \"${PATTERN}\":\n${out}${err}")
endif()
message("found: ${CMAKE_MATCH_0}")
