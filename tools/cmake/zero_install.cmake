# `cmake --install`: library, headers, and the package files that find_package(zero) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(zero_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/zero")
install(TARGETS zero EXPORT zeroTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT zeroTargets NAMESPACE zero:: DESTINATION "${zero_package_dir}")

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/zeroConfig.cmake.in" "${PROJECT_BINARY_DIR}/zeroConfig.cmake"
  INSTALL_DESTINATION "${zero_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/zeroConfig.cmake"
              "${PROJECT_BINARY_DIR}/zeroConfigVersion.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindNCCL.cmake"
        DESTINATION "${zero_package_dir}")
