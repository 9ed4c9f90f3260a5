# ZERO_MPI: whether ranks can be processes that communicate by MPI (Debian: libopenmpi-dev).
#   OFF    no: asking for a world of MPI is an error at run time
#   ON     yes; an error where CMake finds no MPI
#   AUTO   ON where it does, else OFF
# zero_add_mpi(TARGET) gives a target the sources of that choice. zero_mpi is TRUE or FALSE.
set(ZERO_MPI AUTO CACHE STRING "MPI: AUTO, ON or OFF")
set_property(CACHE ZERO_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT ZERO_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ZERO_MPI is ${ZERO_MPI}; valid: AUTO, ON, OFF")
endif()

set(zero_mpi FALSE)
if(NOT ZERO_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX TRUE)  # the C interface is used, from C++
  if(ZERO_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS CXX)
  else()
    find_package(MPI QUIET COMPONENTS CXX)
  endif()
  if(MPI_CXX_FOUND)
    set(zero_mpi TRUE)
    get_target_property(mpi_libraries MPI::MPI_CXX INTERFACE_LINK_LIBRARIES)
    if(mpi_libraries)  # none where the compiler is MPI's own
      list(FILTER mpi_libraries EXCLUDE REGEX "/libmpi_cxx\\.")  # C++ bindings that no one uses
      set_target_properties(MPI::MPI_CXX PROPERTIES INTERFACE_LINK_LIBRARIES "${mpi_libraries}")
    endif()
  endif()
endif()
message(STATUS "MPI: ${zero_mpi}")

function(zero_add_mpi target)
  if(NOT zero_mpi)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/communicator_mpi_none.cpp")
    return()
  endif()
  add_library(zero_mpi OBJECT)  # no one else sees mpi.h
  foreach(part IN ITEMS "" _board _link _process _watch)
    target_sources(zero_mpi PRIVATE "${PROJECT_SOURCE_DIR}/src/communicator_mpi${part}.cpp")
  endforeach()
  target_include_directories(zero_mpi PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                              "${PROJECT_SOURCE_DIR}")
  set_target_properties(zero_mpi PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(zero_mpi PRIVATE MPI::MPI_CXX)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:zero_mpi>)
  target_link_libraries(${target} PRIVATE $<LINK_ONLY:MPI::MPI_CXX>)
endfunction()
