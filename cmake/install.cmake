# What `cmake --install` makes: the program, its plugins, and all that a plugin author elsewhere needs.
#   bin/privgrad   lib/libprivgrad_sdk.so   lib/libprivgrad_inference.so   lib/privgrad/plugins/<room>/   include/privgrad/
#   lib/privgrad/privgrad-fetch   lib/privgrad/privgrad-conformance   lib/privgrad/privgrad-export   lib/cmake/privgrad/
#   share/privgrad/plugin_template/   share/doc/privgrad/ (pages and examples, beside each other as in the sources)
#   share/man/man1/privgrad*.1
#   share/bash-completion/completions/privgrad   share/zsh/site-functions/_privgrad
set_target_properties(privgrad PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS privgrad EXPORT privgradTargets RUNTIME DESTINATION bin COMPONENT program)
set_target_properties(privgrad-fetch privgrad-conformance PROPERTIES INSTALL_RPATH "$ORIGIN/..")
install(TARGETS privgrad-fetch privgrad-conformance RUNTIME DESTINATION lib/privgrad COMPONENT program)
if(TARGET privgrad-export) # libonnx and protobuf may be missing
  set_target_properties(privgrad-export PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS privgrad-export RUNTIME DESTINATION lib/privgrad COMPONENT program)
endif()

set(package_dir lib/cmake/privgrad)
install(EXPORT privgradTargets NAMESPACE privgrad:: DESTINATION ${package_dir} COMPONENT dev)
set(PRIVGRAD_CXX_COMPILER "${CMAKE_CXX_COMPILER_ID}-${CMAKE_CXX_COMPILER_VERSION}")
cmake_path(GET CMAKE_CXX_COMPILER FILENAME PRIVGRAD_CXX_COMPILER_NAME)
configure_package_config_file(cmake/privgradConfig.cmake.in privgradConfig.cmake INSTALL_DESTINATION ${package_dir}
                              NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may break the ABI, so 0.1 does not answer for 0.2.
write_basic_package_version_file(privgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/privgradConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/privgradConfigVersion.cmake
              cmake/PrivGradPlugin.cmake cmake/privgrad_plugin.lds
        DESTINATION ${package_dir} COMPONENT dev)

install(DIRECTORY examples/plugin_template DESTINATION share/privgrad COMPONENT dev)
install(FILES LICENSE NOTICE README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md DESTINATION share/doc/privgrad
        COMPONENT program)
install(DIRECTORY docs DESTINATION share/doc/privgrad COMPONENT program)
install(DIRECTORY examples DESTINATION share/doc/privgrad COMPONENT program PATTERN plugin_template EXCLUDE)

# The manual pages say what --help says.
set(man_pages ${PROJECT_BINARY_DIR}/share/man/man1)
add_custom_command(OUTPUT ${man_pages}/privgrad.1
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${man_pages}
  COMMAND privgrad man ${man_pages}
  DEPENDS privgrad VERBATIM)
add_custom_target(privgrad_man_pages ALL DEPENDS ${man_pages}/privgrad.1)
install(DIRECTORY ${man_pages} DESTINATION share/man COMPONENT program)

# The shells look for completions in these folders below /usr and /usr/local; under another prefix the user
# points them there.
foreach(shell bash zsh)
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/completion.${shell}
    COMMAND privgrad completion ${shell} > ${PROJECT_BINARY_DIR}/completion.${shell}
    DEPENDS privgrad VERBATIM)
endforeach()
add_custom_target(privgrad_completions ALL
  DEPENDS ${PROJECT_BINARY_DIR}/completion.bash ${PROJECT_BINARY_DIR}/completion.zsh)
install(FILES ${PROJECT_BINARY_DIR}/completion.bash DESTINATION share/bash-completion/completions RENAME privgrad COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/completion.zsh DESTINATION share/zsh/site-functions RENAME _privgrad COMPONENT program)

# The build tree has the plugin template too, at the same place relative to the program.
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/privgrad)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/examples/plugin_template
     ${PROJECT_BINARY_DIR}/share/privgrad/plugin_template SYMBOLIC)
