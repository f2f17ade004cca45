# What `cmake --install` makes: the program, its plugins, and all that a plugin author elsewhere needs.
#   bin/privgrad   lib/libprivgrad_sdk.so   lib/privgrad/plugins/<room>/   include/privgrad/
#   lib/cmake/privgrad/   share/privgrad/plugin_template/   share/doc/privgrad/
set_target_properties(privgrad PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS privgrad EXPORT privgradTargets RUNTIME DESTINATION bin)

set(package_dir lib/cmake/privgrad)
install(EXPORT privgradTargets NAMESPACE privgrad:: DESTINATION ${package_dir})
set(PRIVGRAD_CXX_COMPILER "${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}")
cmake_path(GET CMAKE_CXX_COMPILER FILENAME PRIVGRAD_CXX_COMPILER_NAME)
configure_package_config_file(cmake/privgradConfig.cmake.in privgradConfig.cmake INSTALL_DESTINATION ${package_dir}
                              NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may break the ABI, so 0.1 does not answer for 0.2.
write_basic_package_version_file(privgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/privgradConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/privgradConfigVersion.cmake
              cmake/PrivGradPlugin.cmake cmake/privgrad_plugin.lds
        DESTINATION ${package_dir})

install(DIRECTORY examples/plugin_template DESTINATION share/privgrad)
install(FILES LICENSE NOTICE README.md SECURITY.md CHANGELOG.md DESTINATION share/doc/privgrad)

# The build tree has it too, at the same place relative to the program.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/privgrad)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/examples/plugin_template
     ${PROJECT_BINARY_DIR}/share/privgrad/plugin_template SYMBOLIC)
